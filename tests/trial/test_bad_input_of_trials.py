"""What a trial refuses, and in which words."""

import logging

import numpy as np
import pytest
from kits import DIFFERENTIABLE, build_kit, quiet

from delira.errors import ConfigError, DataError
from delira.state import OPTIMIZER, Y_PRED, state_key
from delira.training.callbacks.decorators import add_to_loss, on_criterion, on_forward
from delira.trial import base_closure

every_room = pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)


@every_room
def test_classes_are_no_instances(kit, line):
    net = kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match=r"the optimizer Counter is a class, pass an instance: Counter\(\.\.\.\)"):
        quiet(net, type("Counter", (), {}))
    with pytest.raises(ConfigError, match="the criterion Loss is a class"):
        quiet(net, kit.sgd(net, 0.1), type("Loss", (), {}))


def test_an_optimizer_of_other_weights_is_refused(line):
    kit = build_kit("torch")
    net, other = kit.linear(np.zeros((3, 2))), kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="none of them is one of the Linear"):
        quiet(net, kit.sgd(other, 0.1), kit.mse).with_train_data(*line).run(1)
    trial = quiet(None, kit.sgd(other, 0.1), lambda state: (other.weight - 1).square().sum())
    trial.for_train_steps(50).run(1)
    np.testing.assert_allclose(kit.weight(other), 1, atol=1e-3)


@every_room
def test_several_optimizers_need_a_closure(kit, line):
    nets = {"generator": kit.linear(np.zeros((3, 2))), "discriminator": kit.linear(np.zeros((3, 2)))}
    optimizers = {name: kit.sgd_of(net, 0.1) for name, net in nets.items()}
    with pytest.raises(ConfigError, match=r"with several optimizers \(generator, discriminator\).*with_closure"):
        quiet(kit.both(**nets), optimizers, kit.mse).with_train_data(*line).run(1)


@every_room
def test_one_closure_of_several_optimizers_updates(kit, line):
    nets = {"generator": kit.linear(np.zeros((3, 2))), "discriminator": kit.linear(np.zeros((3, 2)))}
    optimizers = {name: kit.sgd_of(net, 0.1) for name, net in nets.items()}
    closure = base_closure(model=nets["generator"], criterion=kit.mse, optimizer="generator")
    quiet(kit.both(**nets), optimizers).with_closure(closure).with_train_data(*line, 6).run(1)
    assert kit.weight(nets["generator"]).any()
    assert not kit.weight(nets["discriminator"]).any()


@every_room
def test_a_network_that_no_checkpoint_would_hold_is_refused(kit, line):
    net, other = kit.linear(np.zeros((3, 2))), kit.linear(np.zeros((3, 2)))
    closure = base_closure(model=other, criterion=kit.mse)
    trial = quiet(net, kit.sgd(net, 0.1)).with_closure(closure).with_train_data(*line)
    with pytest.raises(ConfigError, match="is no part of the trial's model"):
        trial.run(1)


@every_room
def test_a_metric_may_be_one_string_and_the_epoch_counts_from_one(kit, line):
    net = kit.linear(np.zeros((3, 2)))
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse, "epoch").with_train_data(*line, 6)
    assert [record["epoch"] for record in trial.run(3)] == [1, 2, 3]
    assert "loss" in quiet(net, kit.sgd(net, 0.1), kit.mse, "loss").with_train_data(*line, 6).run(1)[0]


@every_room
def test_add_to_loss_of_nothing_is_told_which_function(kit, line):
    @add_to_loss
    def forgetful(state):
        0.1 * kit.sum(state[Y_PRED])

    net = kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="forgetful returned None"):
        quiet(net, kit.sgd(net, 0.1), kit.mse, callbacks=[forgetful]).with_train_data(*line, 6).run(1)


@pytest.mark.parametrize("hook", [on_forward, on_criterion])
@pytest.mark.parametrize("kit", ["tensorflow", "jax"], indirect=True)
def test_who_keeps_a_step_from_being_compiled_is_named(kit, line, caplog, hook):
    @hook
    def look(state):
        pass

    net = kit.linear(np.zeros((3, 2)))
    with caplog.at_level(logging.WARNING, "delira"):
        quiet(net, kit.sgd(net, 0.1), kit.mse, callbacks=[look]).with_train_data(*line, 6).run(1)
    assert f"{hook.__name__} of <callback" in caplog.text
    assert "look" in caplog.text


@every_room
def test_data_without_targets_and_data_that_end(kit, line):
    net, key = kit.linear(np.zeros((3, 2))), state_key("no_target")
    seen = []

    def criterion(state):
        seen.append(state["y_true"])
        return kit.sum(state[Y_PRED] ** 2)

    quiet(net, kit.sgd(net, 0.1), criterion).with_train_data(line[0], batch_size=6).run(1)
    assert set(map(type, seen)) == {type(None)}
    assert key not in quiet(net).state
    batches = iter([line])
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse).with_train_generator(batches, steps=1)
    trial.run(1)
    with pytest.raises(DataError, match="gives its batches once"):
        trial.run(2)
    with pytest.raises(DataError, match="validation data gave no batch"):
        quiet(net, kit.sgd(net, 0.1), kit.mse).with_train_data(*line).with_val_generator([]).run(1)
    assert OPTIMIZER in trial.state
