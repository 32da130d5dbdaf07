"""Signals that end a training: real programs that get real signals, and are continued to the same bits."""

import contextlib
import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import small_backends
from problems import linear_problem

from delira.callbacks.abstract_callback import Callback
from delira.data_loading import BaseDataManager
from delira.errors import TrainingInterrupted
from delira.state import EPOCH
from delira.training.callbacks import SWA

pytestmark = pytest.mark.forks

EPOCHS = 30  # of three steps
HERE = Path(__file__).parent


class Slow:
    """Says when a step is done, so that somebody can send a signal, and goes on slowly then."""

    def __init__(self, step, seconds):
        self.step, self.seconds = step, seconds

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.step:
            print("now", flush=True)
        if global_iter_num + 1 >= self.step:
            time.sleep(self.seconds)

    def __deepcopy__(self, memo):
        return self


class SlowScore:
    """A metric that says when it is called, and takes its time."""

    over = "sample"

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __call__(self, y_true, y_pred):
        if self.seconds:
            print("now", flush=True)
            time.sleep(self.seconds)
        return float(np.abs(y_true - y_pred).sum())

    def __deepcopy__(self, memo):
        return SlowScore()  # a try before the first step


def noise(**batch):
    return {**batch, "data": batch["data"] + np.random.normal(scale=0.1, size=batch["data"].shape)}


def data(workers=0):
    return BaseDataManager(linear_problem(10), 4, n_process_augmentation=workers, transforms=noise)


def train(kit, path, callbacks=(), score=None, workers=0, epochs=EPOCHS, **settings):
    trainer = kit.trainer(
        path, kit.build(dropout=0.5), callbacks=callbacks, save_freq=None, val_score_key="score", val_score_mode="min",
        val_metrics={"score": score or SlowScore()}, **settings,
    )  # fmt: skip
    trainer.train(epochs, data(workers), data())
    return trainer


def cross_validate(kit, path, callbacks=(), resume=None):
    experiment = kit.experiment(path, {"dropout": 0.5}, name="signals", training={"num_epochs": 6, "save_freq": 1})
    arrays = linear_problem(16)
    manager = BaseDataManager(arrays, 4, transforms=noise)
    return experiment.kfold(manager, num_splits=3, shuffle=True, callbacks=list(callbacks), resume=resume)


def main(backend, path, *, kind="train", step=5, seconds=0.3, score=0.0, **settings):
    """What the program does that gets the signals."""
    logging.basicConfig()
    callbacks = [] if score else [Slow(step, seconds)]
    if kind == "kfold":
        cross_validate(small_backends.build_kit(backend), path, callbacks)
    else:
        train(small_backends.build_kit(backend), path, callbacks, SlowScore(score), **settings)
    print("the end", flush=True)


@contextlib.contextmanager
def program(backend, path, **options):
    """A program that trains, at the moment when it has said that it is the time; its process group is its own."""
    given = f"{backend!r}, {str(path)!r}, **json.loads({json.dumps(options)!r})"
    script = f"import test_stop_signals as t, json\nt.main({given})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), str(HERE.parent.parent)])}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "now\n", process.stderr.read()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def end_of(process):
    """Exit code, and what the program wrote to its error stream."""
    output, errors = process.communicate(timeout=60)
    assert "the end" not in output
    return process.returncode, errors


def is_alive(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def same_ends(kit, *trainers):
    first, second = (trainer.load_state(trainer.checkpoints.path("last")) for trainer in trainers)
    return kit.same(first, second)


CODES = {"SIGTERM": 143, "SIGUSR1": 138, "SIGINT": -signal.SIGINT}


@pytest.mark.timeout(180)
@pytest.mark.left_to_full("toy-SIGTERM")
@pytest.mark.parametrize(
    ("backend_name", "name", "background"),
    [("toy", "SIGTERM", True), ("toy", "SIGUSR1", False), ("toy", "SIGINT", True), ("torch", "SIGTERM", False)],
)
def test_a_program_ends_with_its_code_and_is_continued_to_the_same_bits(tmp_path, backend_name, name, background):
    if backend_name == "torch":
        pytest.importorskip("torch")
    kit = small_backends.build_kit(backend_name)
    unbroken = train(kit, tmp_path / "unbroken")
    with program(kit.name, tmp_path / "broken", save_in_background=background) as process:
        process.send_signal(getattr(signal, name))
        code, errors = end_of(process)
    assert code == CODES[name]
    assert f"\n{name}: finishing the step, then a checkpoint is written; once more stops at once\n" in errors
    assert f"{name}: the training stopped after step" in errors
    assert f"it continues from {tmp_path / 'broken'}" in errors
    assert ("Traceback" in errors) == (name == "SIGINT")  # as of any program
    assert [path.stem for path in (tmp_path / "broken" / "checkpoints").iterdir()].count("checkpoint_last") == 1
    assert same_ends(kit, unbroken, train(kit, tmp_path / "broken"))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_workers_that_get_the_signal_too_do_not_disturb(tmp_path, name):
    kit = small_backends.toy_kit()
    unbroken = train(kit, tmp_path / "unbroken")
    with program("toy", tmp_path / "broken", workers=2) as process:
        os.killpg(process.pid, getattr(signal, name))
        code, errors = end_of(process)
        assert code == CODES[name]
        assert "WorkerError" not in errors
        assert errors.count("finishing the step") == 1, errors
        deadline = time.monotonic() + 20
        while is_alive(process.pid):
            assert time.monotonic() < deadline, "workers are left"
            time.sleep(0.05)
    assert same_ends(kit, unbroken, train(kit, tmp_path / "broken", workers=1))


@pytest.mark.sampled("half")
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("first", "second", "code"),
    [("SIGTERM", "SIGTERM", 143), ("SIGTERM", "SIGUSR1", 138), ("SIGUSR1", "SIGINT", -signal.SIGINT)],
)
def test_a_second_signal_does_not_wait_for_the_step(tmp_path, first, second, code):
    with program("toy", tmp_path, seconds=100, save_freq_steps=2) as process:
        process.send_signal(getattr(signal, first))
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(getattr(signal, second))
        found, errors = end_of(process)
    assert found == code
    if second == "SIGINT":
        assert "SIGINT came twice; stopped without a further checkpoint" in errors
    kit = small_backends.toy_kit()
    resumed = kit.trainer(tmp_path, kit.build(dropout=0.5))
    assert resumed.state.global_step == 4


@pytest.mark.timeout(180)
def test_a_cross_validation_is_continued_to_the_same_bits(tmp_path):
    kit = small_backends.toy_kit()
    unbroken = cross_validate(kit, tmp_path / "unbroken")
    with program("toy", tmp_path / "broken", kind="kfold", step=8) as process:
        process.send_signal(signal.SIGTERM)
        code, errors = end_of(process)
    assert code == 143
    assert "Traceback" not in errors
    resumed = cross_validate(kit, tmp_path / "broken", resume="auto")
    assert len(list((tmp_path / "broken" / "signals").iterdir())) == 1  # no second run
    for ours, theirs in zip(unbroken, resumed, strict=True):  # outputs, metrics
        assert kit.same(ours, theirs)


@pytest.mark.timeout(180)
def test_a_validation_is_broken_off_and_not_finished_first(tmp_path):
    kit = small_backends.toy_kit()
    unbroken = train(kit, tmp_path / "unbroken", epochs=3)
    with program("toy", tmp_path / "broken", score=0.5) as process:
        process.send_signal(signal.SIGTERM)
        code, errors = end_of(process)
    assert code == 143
    assert "the training stopped after step 3 of epoch 1" in errors
    assert same_ends(kit, unbroken, train(kit, tmp_path / "broken", epochs=3))


@pytest.mark.timeout(180)
def test_a_program_that_does_not_want_it_ends_as_any_other(tmp_path):
    with program("toy", tmp_path, save_on_signal=False) as process:
        process.send_signal(signal.SIGTERM)
        code, errors = end_of(process)
    assert code == -signal.SIGTERM
    assert errors == ""
    kit = small_backends.toy_kit()
    assert kit.trainer(tmp_path, kit.build(dropout=0.5)).state.step_in_epoch == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("delay", np.linspace(0, 0.6, 16).round(3).tolist())
def test_a_signal_at_any_time_loses_nothing(kit, tmp_path, delay):
    unbroken = train(kit, tmp_path / "unbroken")
    with program(kit.name, tmp_path / "broken", step=1, seconds=0.003, save_freq_steps=5) as process:
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        # -SIGTERM: it came when the training was over, and the program had not ended yet
        assert process.returncode in (143, 0, -signal.SIGTERM)
    resumed = train(kit, tmp_path / "broken", save_freq_steps=5)
    trees = [trainer.load_state(trainer.checkpoints.path("last")) for trainer in (unbroken, resumed)]
    assert kit.same(*trees)


# ---- in one process, as in a notebook


class Send:
    """Sends signals to the own process after steps, counted over all epochs from 1; each once."""

    def __init__(self, number, *steps, times=1):
        self.number, self.steps, self.times = number, set(steps), times

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 in self.steps:
            self.steps.remove(global_iter_num + 1)
            for nth in range(self.times):
                time.sleep(0.4 if nth else 0)  # what comes at once counts as one signal
                os.kill(os.getpid(), self.number)


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("settings", [{"save_freq": None}, {"save_freq": 1, "save_in_background": True}])
@pytest.mark.parametrize("steps", [(1,), (3,), (4,), (6, 7, 8)])
def test_after_an_interrupt_that_was_caught_the_trainer_goes_on(kit, tmp_path, manager, settings, steps):
    def build(path, *callbacks):
        return kit.trainer(path, kit.build(dropout=0.5), callbacks=callbacks, val_score_key="mse", **settings)

    unbroken = build(tmp_path / "unbroken")
    unbroken.train(4, manager(), manager(7))
    trainer = build(tmp_path / "broken", Send(signal.SIGINT, *steps))
    learned = kit.learns(trainer.module)
    for step in steps:
        with pytest.raises(KeyboardInterrupt, match="SIGINT: the training stopped after"):
            trainer.train(4, manager(), manager(7))
        assert trainer.state.global_step == step
        assert kit.learns(trainer.module) == learned
    trainer.train(4, manager(), manager(7))
    assert kit.same(trainer.checkpoint_tree(), unbroken.checkpoint_tree())


@pytest.mark.sampled("values")
@pytest.mark.parametrize("settings", [{"save_freq_steps": 2}, {"save_freq": 1}])
def test_after_two_interrupts_it_goes_on_from_the_last_checkpoint(kit, tmp_path, manager, settings):
    unbroken = kit.trainer(tmp_path / "unbroken", kit.build(dropout=0.5), **settings)
    unbroken.train(3, manager(), manager(7))
    trainer = kit.trainer(
        tmp_path / "broken", kit.build(dropout=0.5), callbacks=[Send(signal.SIGINT, 5, times=2)], **settings
    )
    with pytest.raises(KeyboardInterrupt, match="came twice"):
        trainer.train(3, manager(), manager(7))
    trainer.train(3, manager(), manager(7))
    assert kit.same(trainer.checkpoint_tree(), unbroken.checkpoint_tree())


def test_the_weights_are_there_to_be_looked_at_after_an_interrupt(kit, tmp_path, manager):
    watched = []

    class Watch:
        def at_iter_end(self, trainer, **facts):
            watched.append(kit.read(trainer.module))

    trainer = kit.trainer(tmp_path, callbacks=[Watch(), Send(signal.SIGINT, 4)])
    with pytest.raises(KeyboardInterrupt):
        trainer.train(3, manager())
    assert np.array_equal(kit.read(trainer.network), watched[-1])
    assert len(watched) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_last_checkpoint_is_written_is_not_lost(kit, tmp_path, manager, number):
    """A job that was told to end must not go on to its next part."""
    trainer = kit.trainer(tmp_path, save_in_background=True)

    def write(file, tree):
        time.sleep(0.1)
        os.kill(os.getpid(), number)
        time.sleep(0.1)
        trainer.checkpoints.write(file, tree)

    trainer.saver.folder = dataclasses.replace(trainer.checkpoints, write=write)
    with pytest.raises((KeyboardInterrupt, TrainingInterrupted), match="the training stopped after epoch 2"):
        trainer.train(2, manager())
    assert trainer.load_state(trainer.checkpoints.path("last"))["epoch"] == 2


@pytest.mark.sampled("values")
@pytest.mark.parametrize("moment", ["at_training_begin", "at_epoch_begin", "at_epoch_end", "at_training_end"])
def test_a_signal_at_any_other_moment_is_heard_too(kit, tmp_path, manager, moment):
    class SendAt:
        sent = False

    def send(self, trainer, **facts):
        if not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGTERM)

    setattr(SendAt, moment, send)
    unbroken = kit.trainer(tmp_path / "unbroken", kit.build(dropout=0.5))
    unbroken.train(2, manager(), manager(7))
    trainer = kit.trainer(tmp_path / "broken", kit.build(dropout=0.5), callbacks=[SendAt()])
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("the program"))
    try:
        if moment == "at_training_end":  # the signals are given back by then
            trainer.train(2, manager(), manager(7))
        else:
            with pytest.raises(TrainingInterrupted):
                trainer.train(2, manager(), manager(7))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["the program"]
    resumed = kit.trainer(tmp_path / "broken", kit.build(dropout=0.5))
    resumed.train(2, manager(), manager(7))
    assert kit.same(resumed.checkpoint_tree(), unbroken.checkpoint_tree())


class Stream:
    """Batches without a position."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        yield from self.batches


@pytest.mark.parametrize("save_freq", [1, None])
def test_the_message_promises_only_what_is_there(kit, tmp_path, regression, save_freq):
    """Data that cannot be entered in the middle of an epoch: of this epoch nothing can be kept."""
    trainer = kit.trainer(tmp_path, callbacks=[Send(signal.SIGTERM, 5)], save_freq=save_freq)
    with pytest.raises(TrainingInterrupted) as caught:
        trainer.train(3, Stream([regression(4)] * 3))
    assert "the training stopped in epoch 2, which has to begin again" in str(caught.value)
    there = trainer.checkpoints.path("last").exists()
    assert (f"it continues from {trainer.save_path}" in str(caught.value)) == there
    assert there == (save_freq == 1)


class Heard(Callback):
    """Which hooks were called in which epoch, and in the middle of a validation one signal."""

    def __init__(self, stop_in=None):
        self.hooks, self.stop_in = [], stop_in

    def on_start_training(self, state):
        self.hooks.append(f"start {state[EPOCH]}")

    def on_end_training(self, state):
        self.hooks.append(f"end {state[EPOCH]}")

    def on_step_validation(self, state):
        if state[EPOCH] == self.stop_in:
            os.kill(os.getpid(), signal.SIGTERM)

    def state_dict(self):
        return {"hooks": self.hooks}

    def load_state_dict(self, state):
        self.hooks = list(state["hooks"])


def test_what_was_called_before_a_stop_in_a_validation_is_not_called_again(kit, tmp_path, manager):
    unbroken = kit.trainer(tmp_path / "unbroken", callbacks=[heard := Heard(), SWA(1)])
    unbroken.train(4, manager(), manager())
    broken = kit.trainer(tmp_path / "broken", callbacks=[Heard(1), SWA(1)])
    with pytest.raises(TrainingInterrupted):
        broken.train(4, manager(), manager())
    resumed = kit.trainer(tmp_path / "broken", callbacks=[again := Heard(), SWA(1)])
    assert resumed.state.has_all_steps
    resumed.train(4, manager(), manager())
    assert again.hooks == heard.hooks == [f"{what} {epoch}" for epoch in range(4) for what in ("start", "end")]
    assert resumed.state.history == unbroken.state.history
    assert same_ends(kit, unbroken, resumed)
