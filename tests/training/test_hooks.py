"""Hooks in an experiment's trainer: the same callbacks as a trial's, in every backend."""

import copy

import numpy as np
import pytest

from delira import state as keys
from delira.callbacks.abstract_callback import HOOKS, Callback
from delira.callbacks.decorators import (
    add_to_loss,
    bind_to,
    on_backward,
    on_criterion,
    on_end,
    on_end_epoch,
    on_sample,
    on_start,
    on_start_epoch,
    on_step_training,
    once,
    once_per_epoch,
    only_if,
    traceable,
)
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.state import LOSS, State, state_key
from delira.training.callbacks import AbstractCallback, CallbackList


class Journal(Callback):
    """Writes down which hooks ran."""

    def __init__(self):
        self.seen = []


for _hook in HOOKS:
    setattr(Journal, _hook, lambda self, state, name=_hook: self.seen.append(name))


TRAINING = ["on_sample", "on_forward", "on_criterion", "on_backward", "on_step_training"]
VALIDATION = ["on_sample_validation", "on_forward_validation", "on_criterion_validation", "on_step_validation"]


def test_the_hooks_run_in_the_order_of_the_contract(kit, tmp_path, manager):
    journal = Journal()
    trainer = kit.trainer(tmp_path, callbacks=[journal], save_freq=None)
    trainer.train(2, manager(), manager())
    epoch = [
        "on_start_epoch", "on_start_training", *3 * TRAINING, "on_end_training", "on_start_validation", *3 * VALIDATION,
        "on_end_validation", "on_end_epoch", "on_checkpoint",
    ]  # fmt: skip
    assert journal.seen == ["on_init", "on_start", *2 * epoch, "on_end"]


def test_the_state_is_filled_when_the_hooks_run(kit, tmp_path, manager):
    missing = []

    class Reader(Callback):
        pass

    def reader(hook):
        since = list(HOOKS).index(hook)

        def read(self, state):
            wanted = [key for key, first in keys.SINCE.items() if first in HOOKS and list(HOOKS).index(first) <= since]
            skipped = (keys.ITERATOR, keys.SAMPLER, keys.TIMINGS, keys.GRADIENTS)
            missing.extend((hook, key) for key in wanted if key not in state and key not in skipped)

        return read

    for hook in HOOKS:
        setattr(Reader, hook, reader(hook))
    kit.trainer(tmp_path, callbacks=[Reader()]).train(1, manager(), manager())
    assert not missing


def test_a_changed_loss_is_what_is_learned(kit, tmp_path, manager):
    if kit.name == "toy":
        pytest.skip("the toy backend's gradient is that of the mean squared error, whatever hooks make of it")

    @on_criterion
    def threefold(state):
        state[LOSS] = 3 * state[LOSS]

    hooked = kit.trainer(tmp_path / "hooked", callbacks=[threefold], compiled=False)
    hooked.train(1, manager())
    record = hooked.state.history[0]
    assert record["added"] == pytest.approx(2 * record["mse"], rel=1e-5)


def test_a_loss_that_is_only_looked_at_stays_as_it_is(tmp_path, manager):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    from small_backends import build_kit

    @on_criterion
    def look(state):
        seen.append(state[LOSS].item())

    seen = []
    losses = {"mse": torch.nn.MSELoss(), "mae": torch.nn.L1Loss()}
    trainer = build_kit("torch").trainer(tmp_path, callbacks=[look], losses=losses)
    trainer.train(1, manager())
    assert len(seen) == 3
    assert "added" not in trainer.state.history[0]


@pytest.mark.parametrize("n_losses", [1, 2])
def test_what_is_added_in_place_is_learned_and_no_loss_is_changed_by_it(tmp_path, manager, n_losses):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    from small_backends import build_kit

    def size_of(network):
        return sum((weight**2).sum() for weight in network.parameters())

    @on_criterion
    def add(state):
        state[LOSS] += 100 * size_of(state[keys.MODEL])

    losses = dict([("mse", torch.nn.MSELoss()), ("mae", torch.nn.L1Loss())][:n_losses])
    trainers = {}
    for name, callbacks in (("added", [add]), ("alone", [])):
        torch.manual_seed(0)
        trainers[name] = build_kit("torch").trainer(
            tmp_path / name, callbacks=callbacks, losses=losses, optimizer_params={"lr": 1e-4}
        )
    size = size_of(trainers["added"].module).item()
    for trainer in trainers.values():
        trainer.train(1, BaseDataManager(next(iter(manager().epoch(0, 0, 1))), 99))
    added, alone = (trainer.state.history[0] for trainer in trainers.values())
    assert added["added"] == pytest.approx(100 * size, rel=1e-5)
    assert {name: added[name] for name in losses} == pytest.approx({name: alone[name] for name in losses})
    assert size_of(trainers["added"].module).item() < size


def test_gradients_that_are_not_set_are_applied_as_they_are(kit, tmp_path, manager):
    if kit.name in ("toy", "sklearn"):
        pytest.skip("it has one weight")

    @on_backward
    def only_one(state):
        name = sorted(state[keys.GRADIENTS])[0]
        state[keys.GRADIENTS] = {name: state[keys.GRADIENTS][name]}

    ends = []
    for callbacks in ([only_one], []):
        trainer = kit.trainer(tmp_path / str(len(ends)), callbacks=callbacks, compiled=False)
        trainer.train(1, manager())
        ends.append(trainer.load_state(trainer.checkpoints.path("last"))["model"])
    assert kit.same(*ends)


def test_what_a_hook_does_to_the_input_is_computed(kit, tmp_path, manager):
    @on_sample
    def nothing(state):
        state[keys.X] = state[keys.X] * 0

    trainer = kit.trainer(tmp_path, callbacks=[nothing], compiled=False)
    trainer.train(1, manager())
    predictions = trainer.to_numpy({"pred": trainer.hook_state[keys.Y_PRED]})["pred"]
    assert np.ptp(predictions, axis=0).max() == 0


def test_metrics_that_a_hook_adds_are_recorded(kit, tmp_path, manager):
    @on_end_epoch
    def twice(state):
        state[keys.METRICS]["twice"] = 2 * state[keys.METRICS]["mse"]

    trainer = kit.trainer(tmp_path, callbacks=[twice])
    trainer.train(2, manager())
    assert [record["twice"] for record in trainer.state.history] == [2 * r["mse"] for r in trainer.state.history]


def test_a_hook_may_end_the_training(kit, tmp_path, manager):
    @on_start_epoch
    @only_if(lambda state: state[keys.EPOCH] == 1)
    def stop(state):
        state[keys.STOP_TRAINING] = True

    trainer = kit.trainer(tmp_path, callbacks=[stop])
    trainer.train(5, manager())
    assert trainer.state.epoch == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_end_is_told_whatever_ended_it(kit, tmp_path, manager, error):
    ended = []

    @on_step_training
    def fail(state):
        raise error("mine")

    @on_end
    def end(state):
        ended.append(state[keys.EPOCH])

    with pytest.raises(error, match="mine"):
        kit.trainer(tmp_path, callbacks=[fail, end]).train(1, manager())
    assert ended == [0]


# ------------------------------------------------------------------ decorators


def fire(callback, hook="on_start", epoch=0, times=1):
    listeners = CallbackList([callback])
    for _ in range(times):
        listeners.fire(hook, State({keys.EPOCH: epoch}), "fit")


@pytest.mark.parametrize("order", [lambda f: once(on_start(on_end(f))), lambda f: on_start(on_end(once(f)))])
def test_once_is_once_in_all_hooks(order):
    seen = []
    callback = order(lambda state: seen.append(1))
    for hook in ("on_start", "on_end", "on_start"):
        fire(callback, hook, times=2)
    assert len(seen) == 1


def test_once_per_epoch_counts_epochs():
    seen = []

    @once_per_epoch
    @on_step_training
    def note(state):
        seen.append(state[keys.EPOCH])

    for epoch in (0, 0, 1, 1, 2):
        fire(note, "on_step_training", epoch, times=3)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    "stacked",
    [
        lambda f: once(only_if(lambda state: state[keys.EPOCH] == 1)(on_start(f))),
        lambda f: on_start(only_if(lambda state: state[keys.EPOCH] == 1)(once(f))),
    ],
)
def test_once_is_not_used_up_where_another_condition_fails(stacked):
    seen = []
    callback = stacked(lambda state: seen.append(state[keys.EPOCH]))
    for epoch in (0, 1, 1, 2):
        fire(callback, epoch=epoch)
    assert seen == [1]


def test_methods_remember_for_each_object():
    class Counter(Callback):
        def __init__(self, limit):
            self.seen, self.limit = [], limit

        @once
        def on_start(self, state):
            self.seen.append("start")

        @only_if(lambda self, state: state[keys.EPOCH] < self.limit)
        def on_end(self, state):
            self.seen.append("end")

    first, second = Counter(1), Counter(0)
    for counter in (first, second, first):
        fire(counter, "on_start", times=2)
        fire(counter, "on_end")
    assert first.seen == ["start", "end", "end"]
    assert second.seen == ["start"]


def test_a_copy_has_a_memory_of_its_own():
    seen = []
    callback = once(on_start(lambda state: seen.append(1)))
    for one in (callback, copy.deepcopy(callback)):
        fire(one, times=2)
    assert len(seen) == 2


def test_conditions_are_remembered_in_a_checkpoint(kit, tmp_path, manager):
    seen = []

    def make():
        return [once(on_start_epoch(lambda state: seen.append(state[keys.EPOCH])))]

    kit.trainer(tmp_path, callbacks=make()).train(1, manager())
    kit.trainer(tmp_path, callbacks=make()).train(2, manager())
    assert seen == [0]


def test_the_loss_is_added_to_out_of_place():
    before = np.array(1.0)
    state = State({LOSS: before})
    CallbackList([add_to_loss(lambda state: 2.0)]).fire("on_criterion", state, "fit")
    assert (state[LOSS], before) == (3.0, 1.0)


def test_bind_to_takes_a_name_or_a_method():
    seen = []
    for hook in ("on_start", Callback.on_start):
        fire(bind_to(hook)(lambda state: seen.append(1)))
    assert len(seen) == 2
    with pytest.raises(ConfigError, match="no hook 'on_strat'; did you mean 'on_start'"):
        bind_to("on_strat")


@pytest.mark.parametrize(
    ("method", "meant"), [("on_step_trainnig", "on_step_training"), ("at_epoch_ends", "at_epoch_end")]
)
@pytest.mark.parametrize("base", [object, Callback, AbstractCallback])
def test_a_misspelt_hook_is_refused(base, method, meant):
    callback = type("Mine", (base,), {method: lambda self, *args, **facts: None, "on_end": lambda self, state: None})()
    with pytest.raises(ConfigError, match=f"Mine.{method} would never be called.*did you mean '{meant}'"):
        CallbackList([callback])


def test_a_bare_function_is_told_how_it_becomes_a_callback():
    def mine(state):
        pass

    with pytest.raises(ConfigError, match="decorate the function with its event"):
        CallbackList([mine])


# ------------------------------------------------------------------ keys


def test_keys_do_not_collide():
    first, second = state_key("a text"), state_key("a text")
    assert (first, second) == ("a text", "a text_1")
    assert state_key("loss") not in (keys.LOSS, state_key("loss"))
    assert {"a text": 1}[first] == 1
    assert first({first: 5}) == 5


def test_a_missing_entry_says_since_when_it_is_there():
    with pytest.raises(KeyError, match="no 'y_pred'; it is there from on_forward on"):
        State()[keys.Y_PRED]
    with pytest.raises(KeyError, match="did you mean 'mine'"):
        State({"mine": 1})["mind"]


def test_gradients_that_a_hook_sets_are_applied(tmp_path, manager):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    from small_backends import build_kit

    kit = build_kit("torch")

    @on_backward
    def forget(state):
        gradients = state[keys.GRADIENTS]
        gradients.update({name: torch.zeros_like(gradient) for name, gradient in gradients.items()})

    trainer = kit.trainer(tmp_path, callbacks=[forget])
    before = [weight.detach().clone() for weight in trainer.module.parameters()]
    trainer.train(1, manager())
    assert all(torch.equal(old, new) for old, new in zip(before, trainer.module.parameters(), strict=True))


@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_a_compiled_step_follows_the_values_that_it_reads(name, tmp_path, manager):
    from small_backends import build_kit

    kit = build_kit(name)

    @traceable
    @on_criterion
    def anneal(state):
        state[LOSS] = (1.0 + state[keys.EPOCH]) * state[LOSS]

    trainer = kit.trainer(tmp_path, callbacks=[anneal])
    trainer.train(3, manager())
    for epoch, record in enumerate(trainer.state.history):
        assert record.get("added", 0.0) == pytest.approx(epoch * record["mse"], rel=1e-4)
