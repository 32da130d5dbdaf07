"""The step is bound once, and again when what it is bound to changes."""

import numpy as np
import pytest
from bare_parts import SHOWN, Parts

from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.contract import NO_HOOKS
from delira.errors import NetworkError
from delira.training.callbacks import AbstractCallback


def test_another_closure_with_other_arguments_is_called_from_then_on(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    trainer.train(1, manager())

    def closure(model, data_dict, optimizers, losses, iter_num):
        loss, pred = kit.step(model, data_dict, optimizers, losses)
        return {"number": iter_num}, {"mse": loss}, {"pred": pred}

    trainer.closure_fn = closure
    trainer.train(2, manager())
    assert trainer.state.history[-1]["number"] == pytest.approx(0.8)  # the steps 0, 1, 2 of 4, 4 and 2 samples


def test_a_step_is_bound_once_for_all_epochs(kit, tmp_path, manager, monkeypatch):
    bound, bind = [], kit.backend.step.bind
    monkeypatch.setattr(kit.backend.step, "bind", lambda *given: bound.append(given) or bind(*given))
    trainer = kit.trainer(tmp_path)
    trainer.train(3, manager())
    assert len(bound) == 1
    trainer.fold = 1
    assert trainer.step.bound is not None
    assert len(bound) == 2


# ---- the step alone, without a trainer


def test_a_step_learns_counts_and_keeps_its_values(kit, regression):
    parts = Parts(kit)
    before = kit.read(parts.run.network)
    running = parts.train_on(regression(4), regression(2))
    assert not np.array_equal(kit.read(parts.run.network), before)
    assert (parts.run.state.step_in_epoch, parts.run.state.global_step, parts.run.begun_step) == (2, 2, 2)
    assert running.losses["mse"].shape == (2,)
    one, other = running.losses["mse"]
    assert running.losses.reduce()["mse"] == pytest.approx((4 * one + 2 * other) / 6)


class Heard(AbstractCallback):
    def __init__(self):
        self.events = []

    def at_iter_begin(self, trainer, **facts):
        self.events.append(("begin", trainer, facts["iter_num"], facts["global_iter_num"], facts["curr_epoch"]))

    def at_iter_end(self, trainer, **facts):
        self.events.append(("end", trainer, facts["iter_num"], sorted(facts["losses"])))


def test_both_ends_of_a_step_are_told(kit, regression):
    heard = Heard()
    parts = Parts(kit, heard)
    parts.train_on(regression(4), regression(4))
    assert heard.events == [
        ("begin", SHOWN, 0, 0, 1), ("end", SHOWN, 0, ["mse"]), ("begin", SHOWN, 1, 1, 1), ("end", SHOWN, 1, ["mse"]),
    ]  # fmt: skip


def test_what_was_prepared_ahead_is_not_prepared_again(kit, regression):
    parts = Parts(kit)
    ready = parts.feed.prepare(regression(4))
    parts.feed.prepare = None
    with parts.events.learning():
        parts.step.train_on(regression(4), ready, True, parts.running())
    assert parts.run.state.global_step == 1


class Steps(Callback):
    """Looks at the state inside and after a step."""

    def __init__(self):
        self.seen = []

    def on_forward(self, state):
        self.seen.append(("forward", state[keys.X].shape, state[keys.Y_PRED].shape))

    def on_step_training(self, state):
        self.seen.append(("step", sorted(state[keys.METRICS]), keys.LOSS in state))


def test_hooks_are_bound_only_if_somebody_listens(kit, regression):
    plain = Parts(kit)
    assert plain.run.hooks is NO_HOOKS
    assert not plain.step.shows_steps
    steps = Steps()
    parts = Parts(kit, steps)
    assert parts.step.shows_steps
    assert (len(parts.run.hooks.forward), len(parts.run.hooks.backward)) == (1, 0)
    parts.train_on(regression(4))
    assert [event for event, *_ in steps.seen] == ["forward", "step"]
    assert tuple(steps.seen[0][1]) == (4, 3)
    assert steps.seen[1] == ("step", ["mse"], True)


def test_an_error_inside_of_a_step_tells_what_the_batch_was(kit, regression):
    class Breaks(Callback):
        def on_forward(self, state):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        Parts(kit, Breaks()).train_on(regression(4))
    assert any(note.startswith("in a training step on a batch of 'data': ") for note in caught.value.__notes__)


def test_a_closure_that_returns_something_else_is_refused(kit, regression):
    parts = Parts(kit)
    parts.run.closure = lambda model, data_dict: [1]
    with pytest.raises(NetworkError, match="closure returned a list"):
        parts.train_on(regression(4))


def test_the_bound_step_is_kept_until_something_is_replaced(kit):
    parts = Parts(kit)
    bound = parts.step.bound
    assert parts.step.bound is bound
    parts.run.n_replaced += 1
    assert parts.step.bound is not bound
