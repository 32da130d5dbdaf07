"""Layers that learn in some epochs only."""

import numpy as np
import pytest
from small_backends import build_kit
from weights_of_epochs import Snapshots

from delira.errors import ConfigError
from delira.training.callbacks import FreezeUnfreeze


def changes(fit, snapshots, first):
    """For each epoch whether (kernel, bias) changed in it."""
    pairs = zip([first, *snapshots.seen], snapshots.seen, strict=False)
    return [tuple(not np.array_equal(old[at], new[at]) for at in (0, 1)) for old, new in pairs]


@pytest.mark.sampled("values")
@pytest.mark.parametrize("is_function", [False, True])
def test_layers_learn_in_their_epochs_only(fit, is_function):
    kernel, bias = fit.names(fit.trial())
    only_bias = (lambda name: name == bias) if is_function else bias
    snapshots = Snapshots(fit)
    trial = fit.trial(snapshots, FreezeUnfreeze({1: only_bias, 2: [kernel], 4: None}))
    first = fit.weights(trial)
    trial.run(5)
    assert changes(fit, snapshots, first) == [(True, True), (False, True), (True, False), (True, False), (True, True)]


def test_a_fit_that_goes_on_has_the_layers_of_its_epoch(fit, tmp_path):
    kernel, bias = fit.names(fit.trial())
    trial = fit.trial(FreezeUnfreeze({0: bias, 3: None}))
    trial.run(2)
    trial.trainer.backend.weights.set_learned_names(
        trial.trainer.module, frozenset({kernel, bias})
    )  # as a new process has it
    snapshots = Snapshots(fit)
    resumed = fit.trial(snapshots, FreezeUnfreeze({0: bias, 3: None})).load(trial.save(tmp_path / "kept"))
    first = fit.weights(resumed)
    resumed.run(4)
    assert changes(fit, snapshots, first) == [(False, True), (True, True)]


def test_a_layer_is_the_beginning_of_its_names(tmp_path, manager):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    import delira

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    trial = delira.Trial(
        net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.MSELoss(), ["loss"], [FreezeUnfreeze({0: "1"})], verbose=0
    )
    trial.with_train_data(np.ones((4, 2), "f4"), np.ones((4, 1), "f4"), 2).run(1)
    changed = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"1.weight", "1.bias"}


def test_an_experiment_has_them_too(tmp_path, manager):
    kit = build_kit("torch")
    trainer = kit.trainer(tmp_path, callbacks=[FreezeUnfreeze({0: kit.weight_name})])
    before = kit.read(trainer.module).copy()
    trainer.train(1, manager())
    assert not np.array_equal(kit.read(trainer.module), before)


def test_what_cannot_be_is_refused(torch_fit):
    with pytest.raises(ConfigError, match="FreezeUnfreeze: epoch is a whole number of at least 0, got -1"):
        FreezeUnfreeze({-1: None})
    with pytest.raises(ConfigError, match="FreezeUnfreeze: there is no layer 'wieght'; did you mean 'weight'"):
        torch_fit.trial(FreezeUnfreeze({0: "wieght"})).run(1)
    with pytest.raises(ConfigError, match="FreezeUnfreeze would freeze all weights; there are bias, weight"):
        torch_fit.trial(FreezeUnfreeze({0: lambda name: False})).run(1)
