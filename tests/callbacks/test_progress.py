"""The bar of a run: its speed, the time that is left, and how often values are read."""

import re

import pytest

from delira.callbacks.progress import ProgressBar, clock
from delira.testing.toy import ToyNetwork, ToyTrainer, mean_squared_error

pytest.importorskip("pyte", reason="pyte is not installed")
pytest.importorskip("pty", reason="this system has no pseudo terminals")


def test_the_time_that_is_left_is_that_of_the_steps_that_are_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("delira.callbacks.progress.perf_counter", lambda: now[0])
    bar = ProgressBar()
    bar.begin(10, 20, 100)  # 20 steps of an earlier session
    assert bar.seconds_left is None
    bar.steps, now[0] = 40, 110.0
    assert bar.seconds_left == pytest.approx(30)
    bar.begin(10, 0, None)
    bar.steps = 3
    assert bar.seconds_left is None
    assert [clock(seconds) for seconds in (0.4, 61, 3725)] == ["0:00", "1:01", "1:02:05"]


def test_a_line_tells_the_time_that_is_left_when_that_is_long(capsys, monkeypatch):
    bar = ProgressBar("fold 0")
    bar.begin(10, 0, 100)
    bar.steps = 10
    monkeypatch.setattr(bar, "_began_at", bar._began_at - 60)
    bar.at_epoch_end(None, metrics={"ce": 0.5, "lr": 0.1}, curr_epoch=1, num_epochs=10)
    assert re.fullmatch(r"fold 0 · epoch  1/10  ce 0.5  eta 9:0\d\n", capsys.readouterr().err)


def test_values_are_read_a_few_times_a_second_and_not_at_each_step(tmp_path, monkeypatch, manager):
    drawn = []

    class Display:
        def show(self, progress, *, at_once):
            drawn.append((progress.steps, dict(progress.values)))

    trainer = ToyTrainer(ToyNetwork(3), tmp_path, losses={"mse": mean_squared_error}, logging_type=None, verbose=0)
    calls, read = [], trainer.backend.arrays.read_scalars
    monkeypatch.setattr(
        type(trainer.backend.arrays), "read_scalars", lambda self, values: (calls.append(len(values)), read(values))[1]
    )
    trainer.register_callback(ProgressBar("", Display()))
    trainer.train(30, manager())
    own = [n for n in calls if n == 1]
    assert 1 <= len(own) < 30  # of 90 steps
    assert drawn[-1][0] == 90
    assert drawn[-1][1].keys() == {"mse"}
