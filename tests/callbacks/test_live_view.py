"""What a training shows in a terminal, in a pipe and when it is told to be quiet."""

import os
import re
import subprocess
import sys

import pytest

from delira.callbacks.progress import in_terminal
from delira.errors import ConfigError
from delira.testing.toy import ToyNetwork, ToyTrainer, mean_squared_error

pytest.importorskip("pyte", reason="pyte is not installed")
pytest.importorskip("pty", reason="this system has no pseudo terminals")
from live_programs import KFOLD, RUN, program
from pseudo_terminal import run_in_terminal


def piped(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)


@pytest.mark.slow
def test_what_the_users_code_prints_is_whole_and_above_the_table():
    prints = 'print(f"mine {curr_epoch}"); print("aside", file=sys.stderr)'
    seen = run_in_terminal(program(KFOLD, at_epoch_end=prints), lines=50)
    lines = str(seen).splitlines()
    assert [line for line in lines if line.startswith("mine")] == [f"mine {epoch}" for epoch in (1, 2, 3, 4)] * 3
    assert lines.count("aside") == 12
    head = next(number for number, line in enumerate(lines) if line.strip().startswith("fold"))
    assert max(number for number, line in enumerate(lines) if line == "aside") < head
    assert str(seen).count("best") == 1


@pytest.mark.slow
def test_a_traceback_comes_below_the_table():
    seen = run_in_terminal(program(KFOLD, at_epoch_end='if trainer.fold == 1: raise ValueError("mine")'), lines=60)
    text = str(seen)
    assert seen.code == 1
    assert text.rindex("1 of 3 folds") < text.index("Traceback") < text.index("\nValueError: mine")
    assert re.search(r"\n +1 +1/4 +\d:\d\d +stopped", text)
    assert seen.screen.cursor.hidden is False


@pytest.mark.slow
def test_ctrl_c_leaves_the_terminal_as_it_was():
    seen = run_in_terminal(program(KFOLD, nap=0.05, num_epochs=50), interrupt_at="/50", lines=60)
    assert seen.code not in (0, None)
    text = str(seen)
    assert text.index("SIGINT: finishing the step") < text.index("best") < text.index("KeyboardInterrupt")
    assert re.search(r"\n +0 +\d+/50 +0:\d\d +stopped", text)
    assert text.count("best") == 1  # it was drawn in place
    assert seen.screen.cursor.hidden is False
    assert seen.raw.count(b"\x1b[?25l") == seen.raw.count(b"\x1b[?25h") == 1


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 60])
def test_a_run_has_one_bar_with_speed_time_left_memory_and_values(columns):
    seen = run_in_terminal(program(RUN, num_epochs=20), columns=columns)
    bars = [line for shot in seen.shots for line in shot.splitlines() if "epoch" in line]
    assert seen.code == 0
    assert all(len(line) <= columns for line in bars)
    assert any(
        re.match(r"fold 0 · epoch \d+/20 \|.{6}\| 0\d:\d\d<0\d:\d\d, \S+/s, \d+M, mse \S+", line) for line in bars
    ), bars[-3:]
    assert len(str(seen).splitlines()) == 1  # one line, drawn anew
    if columns == 80:
        assert any("val_mse" in line for line in bars)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "is_terminal"),
    [(RUN, False), (KFOLD, True), pytest.param(RUN, True, marks=pytest.mark.slow)],
)
def test_who_stops_to_look_ends_no_training(call, is_terminal):
    mine, its = os.openpty() if is_terminal else os.pipe()
    text = program(call, num_epochs=3) + "    print('trained')"
    with subprocess.Popen([sys.executable, "-c", text], stderr=its, stdout=subprocess.PIPE, text=True) as process:
        os.close(its)
        os.read(mine, 1)
        os.close(mine)
        assert process.communicate(timeout=60)[0].endswith("trained\n")


def test_a_process_without_streams_trains(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert not in_terminal()


@pytest.mark.slow
@pytest.mark.parametrize("call", [KFOLD, RUN])
def test_a_dumb_terminal_gets_lines(call):
    seen = run_in_terminal(program(call, nap=0), TERM="dumb")
    assert b"\x1b" not in seen.raw
    assert b"\r\r" not in seen.raw
    assert len(re.findall(r"fold 0 · epoch \d/4  mse \S+  val_mse \S+$", str(seen), re.MULTILINE)) == 4


@pytest.mark.slow
@pytest.mark.parametrize(("call", "folds"), [(KFOLD, 3), (RUN, 1)])
def test_a_pipe_gets_one_line_for_each_epoch(call, folds):
    done = piped(program(call, nap=0))
    lines = done.stderr.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        f"fold {fold} · epoch {epoch}/4" for fold in range(folds) for epoch in (1, 2, 3, 4)
    ]
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("call", [KFOLD, RUN])
@pytest.mark.parametrize("verbose", [0, False])
def test_quiet_is_quiet_everywhere(call, verbose):
    quiet = program(call, f", verbose={verbose}", nap=0)
    assert piped(quiet).stderr == ""
    assert run_in_terminal(quiet).raw == b""


@pytest.mark.slow
def test_verbose_2_has_a_bar_for_each_pass():
    seen = run_in_terminal(program(RUN, ", verbose=2", num_epochs=2))
    lines = str(seen).splitlines()
    passes = ["1/2(t)", "1/2(v)", "2/2(t)", "2/2(v)"]
    assert [line.split()[:4] for line in lines] == [["fold", "0", "·", each] for each in passes]


@pytest.mark.parametrize("verbose", [3, -1, "loud"])
def test_another_verbosity_is_refused(verbose):
    with pytest.raises(ConfigError, match="verbose must be 0"):
        ToyTrainer(ToyNetwork(3), None, losses={"mse": mean_squared_error}, verbose=verbose)
