"""Events come in the order, and with the facts, that callbacks may rely on: ``tests/golden_events`` has them."""

import pytest
from bare_parts import SHOWN, Parts
from small_backends import build_kit
from traced_events import TRACES, golden

from delira import state as keys
from delira.callbacks.abstract_callback import Callback, CallbackList
from delira.errors import ConfigError
from delira.state import State
from delira.training.callbacks import AbstractCallback
from delira.training.objective import telling_the_end


@pytest.mark.slow_cases("torchscript|tensorflow|jax|sklearn")
@pytest.mark.parametrize("what", TRACES)
def test_every_event_comes_where_it_always_came(what, tmp_path):
    assert TRACES[what](tmp_path) == golden(what).read_text(encoding="utf-8").splitlines()


# ---- the events alone, without a trainer


class At(AbstractCallback):
    def __init__(self):
        self.heard = []

    def at_epoch_begin(self, trainer, **facts):
        self.heard.append((trainer, facts))


def test_who_listens_is_told_and_nobody_else_is_asked():
    heard = At()
    parts = Parts(build_kit("toy"), heard)
    assert parts.run.callbacks.hears("at_epoch_begin")
    assert not parts.run.callbacks.hears("at_iter_end")
    parts.events.notify("at_epoch_begin", curr_epoch=3)
    ((shown, facts),) = heard.heard
    assert shown is SHOWN
    assert facts["curr_epoch"] == 3


class Replaces(Callback):
    """Puts something into the state at the end of an epoch."""

    def __init__(self, key, value):
        self.key, self.value = key, value

    def on_end_epoch(self, state):
        state[self.key] = self.value


def test_another_network_and_criterion_are_taken_over():
    kit = build_kit("toy")
    other, loss = kit.build(), lambda prediction, target: 0.0
    parts = Parts(kit, Replaces(keys.MODEL, other), Replaces(keys.CRITERION, loss))
    parts.run.optimizers = {}
    parts.events.fire("on_end_epoch")
    assert parts.run.network is other
    assert parts.run.config.losses == {"mse": loss}
    assert parts.run.n_replaced == 1
    parts.events.fire("on_end_epoch")
    assert parts.run.n_replaced == 1, "they are the same"


def test_another_optimizer_is_built_and_schedules_begin_anew():
    torch = pytest.importorskip("torch")
    begun = []

    class Schedule(AbstractCallback):
        def begin_anew(self, trainer):
            begun.append(trainer)

    parts = Parts(build_kit("torch"), Schedule())
    before = parts.run.optimizers
    given = parts.run.hook_state[keys.OPTIMIZER] = torch.optim.SGD(parts.run.network.parameters(), lr=0.5)
    parts.events.follow()
    assert parts.run.optimizers is not before
    assert getattr(parts.run.optimizers["default"], "optimizer", None) is given
    assert parts.run.learning_rates() == [0.5]
    assert begun == [SHOWN]


def test_several_losses_are_not_replaced_by_one():
    kit = build_kit("toy")
    parts = Parts(kit, Replaces(keys.CRITERION, abs), losses={"mse": kit.loss, "other": kit.loss})
    with pytest.raises(ConfigError, match="the trainer has the losses mse, other; set it to a dict of them"):
        parts.events.fire("on_end_epoch")


def test_a_network_that_is_set_while_the_other_learns_learns_too():
    kit = build_kit("toy")
    parts, other = Parts(kit), kit.build()
    with parts.events.learning():
        assert parts.run.network.is_training
        parts.run.hook_state[keys.MODEL] = other
        parts.events.follow()
        assert other.is_training
    assert not other.is_training


@pytest.mark.parametrize(("phase", "is_stopped"), [("fit", True), ("evaluate", False)])
def test_a_callback_stops_the_training_and_not_by_an_evaluation(phase, is_stopped):
    parts = Parts(build_kit("toy"))
    parts.run.phase, parts.run.hook_state[keys.STOP_TRAINING] = phase, True
    parts.events.follow()
    assert parts.run.state.stop_training is is_stopped


def test_an_epoch_that_is_continued_in_its_validation_does_not_begin_again():
    calls = []

    class Starts(Callback):
        def on_start_training(self, state):
            calls.append("start")

    parts = Parts(build_kit("toy"), Starts())
    parts.run.state.has_all_steps = True
    parts.events.fire("on_start_training")
    assert calls == []


def test_the_end_is_told_whatever_ends_it_and_the_first_error_is_raised():
    errors = []

    class Ends(Callback):
        def on_end(self, state):
            errors.append("told")
            raise KeyError("of the end")

    with pytest.raises(ZeroDivisionError), telling_the_end(CallbackList([Ends()]), State({}), "fit"):
        raise ZeroDivisionError
    assert errors == ["told"]
    with pytest.raises(KeyError, match="of the end"), telling_the_end(CallbackList([Ends()]), State({}), "fit"):
        pass
