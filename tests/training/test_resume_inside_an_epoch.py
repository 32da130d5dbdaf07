"""Checkpoints after any step: what continues from one ends in the same bits as what was never broken off."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from delira.errors import CheckpointError, ConfigError, TrainingInterrupted
from delira.training.callbacks import AbstractCallback, EarlyStopping, ExponentialMovingAverage

pytestmark = pytest.mark.forks

EPOCHS = 3  # of three steps: batches of 4, 4 and 2


class Interrupted(BaseException):
    """The process ends here."""


class At:
    """Does something after a step, counted over all epochs from 1."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.step:
            self.step = None  # once
            self.action()


class Moments(AbstractCallback):
    """Counts what it hears, and keeps the counts over a restart."""

    def __init__(self):
        self.heard = {}

    def _hear(self, moment):
        self.heard[moment] = self.heard.get(moment, 0) + 1

    def at_epoch_begin(self, trainer, **facts):
        self._hear("epoch begins")

    def at_iter_begin(self, trainer, **facts):
        self._hear("step begins")

    def at_iter_end(self, trainer, **facts):
        self._hear("step ends")

    def at_epoch_end(self, trainer, **facts):
        self._hear("epoch ends")

    def state_dict(self):
        return dict(self.heard)

    def load_state_dict(self, state):
        self.heard = dict(state)


class Mean:
    """A streaming metric."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.n = 0.0, 0

    def update(self, y_true, y_pred):
        self.total, self.n = self.total + float(np.abs(y_true - y_pred).sum()), self.n + len(y_true)

    def compute(self):
        return self.total / self.n


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def noise(**batch):
    """An augmentation that draws from numpy's global generator, as those of batchgenerators do."""
    return {**batch, "data": batch["data"] + np.random.normal(scale=0.1, size=batch["data"].shape)}


def raise_it():
    raise Interrupted


def full(kit, path, *callbacks, **settings):
    """A trainer with everything that has a state."""
    more = kit.halving()
    callbacks = [Moments(), EarlyStopping("val_rmse", patience=50), *more.pop("callbacks", ()), *callbacks]
    settings = {"metrics": {"rmse": rmse, "mean": Mean()}, "save_freq_steps": 1, "val_score_key": "rmse", **settings}
    return kit.trainer(path, kit.build(dropout=0.5), callbacks=callbacks, **more, **settings)


def outcome(trainer):
    trees = trainer.checkpoint_tree()
    trees["state"] = dict(trees["state"].items())
    return {"tree": trees, "weights": trainer.backend.checkpoints.state_tree(trainer.module, {})}


def train(trainer, manager, **kw):
    return trainer.train(EPOCHS, manager(transforms=noise, **kw), manager(7))


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("step", range(1, 3 * EPOCHS + 1))
@pytest.mark.parametrize("background", [False, True])
def test_a_run_that_was_broken_off_after_any_step_ends_in_the_same_bits(kit, tmp_path, manager, step, background):
    unbroken = full(kit, tmp_path / "unbroken", ExponentialMovingAverage(0.9))
    train(unbroken, manager)
    broken = full(
        kit, tmp_path / "broken", ExponentialMovingAverage(0.9), At(step, raise_it), save_in_background=background
    )
    with pytest.raises(Interrupted):
        train(broken, manager)
    resumed = full(kit, tmp_path / "broken", ExponentialMovingAverage(0.9))
    assert resumed.state.global_step == step - 1 or step == 1  # the step that was broken off is not in the checkpoint
    train(resumed, manager)
    assert kit.same(outcome(unbroken), outcome(resumed))
    for name in ("history.csv", "history.jsonl"):
        assert (tmp_path / "unbroken" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()


def test_it_may_be_broken_off_again_and_again(kit, tmp_path, manager):
    unbroken = full(kit, tmp_path / "unbroken")
    train(unbroken, manager)
    for step in (2, 3, 4, 6, 8):
        with pytest.raises(Interrupted):
            train(full(kit, tmp_path / "broken", At(step, raise_it)), manager)
    resumed = full(kit, tmp_path / "broken")
    train(resumed, manager)
    assert kit.same(outcome(unbroken), outcome(resumed))


@pytest.mark.sampled("values")
@pytest.mark.parametrize("workers", [(0, 2), (2, 0), (1, 2)])
def test_the_number_of_workers_may_change(kit, tmp_path, manager, workers):
    unbroken = full(kit, tmp_path / "unbroken")
    train(unbroken, manager)
    with pytest.raises(Interrupted):
        train(full(kit, tmp_path / "broken", At(5, raise_it)), manager, n_process_augmentation=workers[0])
    resumed = full(kit, tmp_path / "broken")
    train(resumed, manager, n_process_augmentation=workers[1])
    assert kit.same(outcome(unbroken), outcome(resumed))


def test_the_trainer_itself_can_go_on_where_it_was_broken_off(kit, tmp_path, manager):
    unbroken = full(kit, tmp_path / "unbroken")
    train(unbroken, manager)
    broken = full(kit, tmp_path / "broken", At(5, raise_it))
    with pytest.raises(Interrupted):
        train(broken, manager)
    train(broken, manager)
    assert kit.same(outcome(unbroken)["weights"], outcome(broken)["weights"])
    assert unbroken.state.history == broken.state.history


def test_numbered_checkpoints_are_named_by_epochs_and_steps(kit, tmp_path, manager):
    trainer = full(kit, tmp_path, save_freq_steps=2, save_freq=2)
    train(trainer, manager)
    assert [place for place, _ in trainer.checkpoints.numbered()] == [(2, 2), (2, 0), (1, 3), (1, 1), (0, 2)]


# ---- data that is no manager


class Loader:
    """A loader of the user's that can tell its position."""

    def __init__(self, batches):
        self.batches, self.position = batches, 0

    def __iter__(self):
        while self.position < len(self.batches):
            self.position += 1
            yield self.batches[self.position - 1]
        self.position = 0

    def __len__(self):
        return len(self.batches)

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kind", [list, tuple, Loader])
def test_lists_of_batches_and_loaders_with_a_state_are_entered_where_they_were_left(kit, tmp_path, regression, kind):
    batches = [regression(4, 3, seed) for seed in range(4)]
    unbroken = full(kit, tmp_path / "unbroken")
    unbroken.train(2, kind(batches), [regression(7)])
    with pytest.raises(Interrupted):
        full(kit, tmp_path / "broken", At(7, raise_it)).train(2, kind(batches), [regression(7)])
    resumed = full(kit, tmp_path / "broken")
    assert (resumed.state.epoch, resumed.state.step_in_epoch) == (1, 2)
    resumed.train(2, kind(batches), [regression(7)])
    assert kit.same(outcome(unbroken), outcome(resumed))


class Stream:
    """Batches without a position."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        yield from self.batches


def test_other_iterables_begin_their_epoch_again_and_say_so(kit, tmp_path, regression, caplog):
    batches = [regression(4, 3, seed) for seed in range(4)]
    unbroken = full(kit, tmp_path / "unbroken")
    unbroken.train(3, Stream(batches), [regression(7)])
    with pytest.raises(Interrupted):
        full(kit, tmp_path / "broken", At(7, raise_it)).train(3, Stream(batches), [regression(7)])
    assert "no checkpoint is written inside an epoch: the training data (a Stream) cannot be continued" in caplog.text
    resumed = full(kit, tmp_path / "broken")
    assert (resumed.state.epoch, resumed.state.step_in_epoch) == (1, 0)
    resumed.train(3, Stream(batches), [regression(7)])
    assert kit.same(outcome(unbroken)["weights"], outcome(resumed)["weights"])


def test_a_metric_that_hides_its_state_makes_the_epoch_begin_again(kit, tmp_path, manager, caplog):
    class Hidden(Mean):
        __slots__ = ("n", "total")

        def __init__(self):
            super().__init__()
            self.helper = lambda: None

    def build(path, *callbacks):
        return full(kit, path, *callbacks, metrics={"rmse": Hidden()})

    unbroken = build(tmp_path / "unbroken")
    train(unbroken, manager)
    with pytest.raises(Interrupted):
        train(build(tmp_path / "broken", At(5, raise_it)), manager)
    assert "no checkpoint is written inside an epoch: a metric cannot be continued there" in caplog.text
    resumed = build(tmp_path / "broken")
    assert (resumed.state.epoch, resumed.state.step_in_epoch) == (1, 0)
    train(resumed, manager)
    assert kit.same(outcome(unbroken)["weights"], outcome(resumed)["weights"])


def test_data_that_cannot_be_entered_at_the_step_of_the_checkpoint_is_refused(kit, tmp_path, manager, regression):
    with pytest.raises(Interrupted):
        train(full(kit, tmp_path, At(5, raise_it)), manager)
    trainer = full(kit, tmp_path)
    with pytest.raises(
        ConfigError, match=r"the checkpoint is inside epoch 2, after batch 1, where .* a Stream, cannot"
    ):
        trainer.train(EPOCHS, Stream([regression(4)] * 3), [regression(7)])


# ---- signals


def send(number):
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("step", [1, 5, 6, 9])
@pytest.mark.parametrize("save_freq_steps", [1, None])
def test_a_signal_ends_the_training_after_the_step_with_a_checkpoint(
    kit, tmp_path, manager, number, step, save_freq_steps
):
    unbroken = full(kit, tmp_path / "unbroken")
    train(unbroken, manager)
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    broken = full(kit, tmp_path / "broken", At(step, send(number)), save_freq_steps=save_freq_steps, save_freq=None)
    with pytest.raises((KeyboardInterrupt, TrainingInterrupted)) as caught:
        train(broken, manager)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == before
    if number == signal.SIGINT:
        assert type(caught.value) is KeyboardInterrupt
    else:
        assert caught.value.code == 128 + number
        assert caught.value.number == number
    assert f"{signal.Signals(number).name}: the training stopped after step" in str(caught.value)
    resumed = full(kit, tmp_path / "broken", save_freq_steps=None, save_freq=None)
    assert resumed.state.global_step == step
    train(resumed, manager)
    assert kit.same(outcome(unbroken), outcome(resumed))


class InValidation:
    """A metric that sends a signal in one of its calls."""

    def __init__(self, call=None):
        self.calls, self.call = 0, call

    over = "sample"

    def __call__(self, y_true, y_pred):
        self.calls += 1
        if self.calls == self.call:
            os.kill(os.getpid(), signal.SIGTERM)
        return float(np.abs(y_true - y_pred).sum())


def test_a_signal_in_the_validation_ends_it_and_it_begins_again(kit, tmp_path, manager):
    def build(path, metric):
        return full(
            kit,
            path,
            val_metrics={"m": metric},
            val_score_key="m",
            val_score_mode="min",
            save_freq=None,
            save_freq_steps=None,
        )

    unbroken = build(tmp_path / "unbroken", InValidation())
    unbroken.train(EPOCHS, manager(), manager(7, 2))
    with pytest.raises(TrainingInterrupted, match="stopped after step 3 of epoch"):
        build(tmp_path / "broken", InValidation(12)).train(EPOCHS, manager(), manager(7, 2))
    resumed = build(tmp_path / "broken", InValidation())
    assert resumed.state.step_in_epoch == 3
    resumed.train(EPOCHS, manager(), manager(7, 2))
    assert kit.same(outcome(unbroken)["weights"], outcome(resumed)["weights"])


def test_a_second_signal_stops_at_once(kit, tmp_path, manager):
    def twice():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.3)  # two within an instant are one
        os.kill(os.getpid(), signal.SIGTERM)

    trainer = full(kit, tmp_path, At(2, twice), save_freq_steps=None)
    with pytest.raises(TrainingInterrupted, match="SIGTERM came twice; stopped without a further checkpoint"):
        train(trainer, manager)
    assert not trainer.checkpoints.path("last").exists()


def test_a_handler_that_was_there_before_is_called_after_the_checkpoint(kit, tmp_path, manager):
    trainer = full(kit, tmp_path, At(2, send(signal.SIGUSR1)), save_freq_steps=None)
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(trainer.checkpoints.path("last").exists()))
    try:
        with pytest.raises(TrainingInterrupted):
            train(trainer, manager)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [True]


def test_an_ignored_signal_stays_ignored(kit, tmp_path, manager):
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        trainer = full(kit, tmp_path, At(2, send(signal.SIGUSR1)))
        train(trainer, manager)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert trainer.state.epoch == EPOCHS


def test_signals_are_left_alone_outside_of_the_training_in_other_threads_and_if_not_wanted(kit, tmp_path, manager):
    def handlers():
        return [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]

    before, seen = handlers(), []

    def look(path, **settings):
        train(full(kit, path, At(2, lambda: seen.append(handlers())), **settings), manager)

    look(tmp_path / "a", save_on_signal=False)
    thread = threading.Thread(target=look, args=(tmp_path / "b",))
    thread.start()
    thread.join()
    assert seen == [before, before]
    look(tmp_path / "c")
    assert seen[2] != before
    assert handlers() == before


# ---- from a given file


def test_a_run_can_be_continued_from_an_older_checkpoint(kit, tmp_path, manager):
    unbroken = full(kit, tmp_path / "unbroken")
    train(unbroken, manager)
    other = full(kit, tmp_path / "other", val_score_mode="lowest")
    train(other, manager)
    older = other.checkpoints.path("epoch_1_step_2")
    resumed = kit.trainer(tmp_path / "other", kit.build(dropout=0.5), **_settings(kit), resume_from=older)
    assert (resumed.state.epoch, resumed.state.step_in_epoch) == (1, 2)
    assert next(place for place, _ in resumed.checkpoints.numbered()) == (1, 2)
    train(resumed, manager)
    assert kit.same(outcome(unbroken), outcome(resumed))


def _settings(kit):
    more = kit.halving()
    callbacks = [Moments(), EarlyStopping("val_rmse", patience=50), *more.pop("callbacks", ())]
    return {
        "metrics": {"rmse": rmse, "mean": Mean()}, "save_freq_steps": 1, "val_score_key": "rmse",
        "callbacks": callbacks, **more,
    }  # fmt: skip


def test_somebody_else_s_checkpoints_are_not_written_over(kit, tmp_path, manager):
    first, second = full(kit, tmp_path), full(kit, tmp_path)
    train(first, manager)
    with pytest.raises(CheckpointError, match="was written by another training since this trainer looked"):
        train(second, manager)
