"""What a training shows in a terminal, in a pipe and when it is told to be quiet."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from delira.errors import ConfigError
from delira.testing.toy import ToyNetwork, ToyTrainer, mean_squared_error
from delira.training.callbacks import LiveLossPlot
from delira.training.callbacks.fold_table import FoldTable, _Terminal
from delira.training.callbacks.notebook_view import NotebookBar
from delira.training.callbacks.progress import ProgressBar, clock, in_terminal
from delira.training.live_view import live_view

pytest.importorskip("pyte", reason="pyte is not installed")
pytest.importorskip("pty", reason="this system has no pseudo terminals")
from pseudo_terminal import run_in_terminal

PROGRAM = """
import sys, tempfile, time
import numpy as np
from delira.data_loading import BaseDataManager
from delira.testing.toy import ToyExperiment, ToyNetwork, mean_squared_error

class Naps:
    def at_iter_end(self, trainer, **facts):
        time.sleep({nap})

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        {at_epoch_end}

if __name__ == "__main__":
    x = np.random.default_rng(0).normal(size=(24, 3))
    data = BaseDataManager({{"data": x, "label": x @ np.ones((3, 1))}}, batch_size=4)
    training = {{"losses": {{"mse": mean_squared_error}}, "optimizer_params": {{"lr": 0.01}}, "logging_type": None}}
    params = {{"fixed": {{"model": {{"n_features": 3}}, "training": {{**training, "num_epochs": {num_epochs}}}}}}}
    experiment = ToyExperiment(params, ToyNetwork, save_path=tempfile.mkdtemp(), callbacks=[Naps()])
    {call}
"""
KFOLD = 'experiment.kfold(data, {"mse": mean_squared_error}, num_splits=3, val_split=0.25, val_score_key="mse"%s)'
RUN = "experiment.run(data, data%s)"


def program(call, more="", *, nap=0.02, num_epochs=4, at_epoch_end="pass"):
    return PROGRAM.format(call=call % more, nap=nap, num_epochs=num_epochs, at_epoch_end=at_epoch_end)


def piped(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("columns", "variables"),
    [
        (80, {}),
        pytest.param(60, {}, marks=pytest.mark.slow),
        pytest.param(80, {"NO_COLOR": "1"}, marks=pytest.mark.slow),
    ],
)
def test_a_cross_validation_is_a_table_of_its_folds(columns, variables):
    seen = run_in_terminal(program(KFOLD), columns=columns, **variables)
    lines = str(seen).splitlines()
    assert seen.code == 0
    assert all(len(line) <= columns for line in lines)
    assert [line.split() for line in lines if line.strip().startswith("fold")] == [
        ["fold", "epoch", "time", "left", "best", "values"]
    ]
    rows = [line for line in lines if re.match(r"\s+[012]\s", line)]
    assert len(rows) == 3  # no torn lines are left
    assert all(re.search(r"4/4 +\d:\d\d +\d\.\S+ @\d +mse \d", row) for row in rows)
    assert "3 of 3 folds" in lines[-1]
    assert seen.screen.cursor.hidden is False
    wanted = (  # of one picture: the fold before stays, the second runs, and how far all of it is
        r"\n +0 +4/4 .*\n +1 +[1-4]/4 +\d:\d\d +\d:\d\d.* mse \d",
        r"1 of 3 folds · \d:\d\d · about \d:\d\d left · \S+/s, \d+M",
    )
    assert any(all(re.search(pattern, shot) for pattern in wanted) for shot in seen.shots), (
        "no picture of a fold that runs"
    )
    assert (b"\x1b[1m" in seen.raw) or variables == {"NO_COLOR": "1"}
    assert not re.search(rb"\x1b\[[34]\dm", seen.raw) or not variables


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
def test_the_table_follows_a_terminal_that_becomes_narrower():
    seen = run_in_terminal(program(KFOLD, nap=0.03), resize_at=("1 of 3 folds", 60))
    assert seen.code == 0
    assert all(len(line) <= 60 for line in str(seen).splitlines()[-6:])
    assert "3 of 3 folds" in str(seen)


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


def test_only_as_many_folds_are_drawn_as_there_is_place_for_and_in_the_end_all():
    table = FoldTable(40, lambda table, is_last: None)
    table.number = 20
    shown = [number for number, _ in table.lines(10)]
    assert len(shown) == 10
    assert "20" in shown
    assert "19" in shown
    assert len(table.lines(None)) == 40
    assert len(_Terminal.made(table, 10).rows) == 10


def test_the_time_that_is_left_is_that_of_the_steps_that_are_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("delira.training.callbacks.progress.perf_counter", lambda: now[0])
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


# ---- notebooks


def run_cells(*cells, hidden=()):
    """Execute cells in a kernel; returns the notebook, and the number of times that outputs were replaced."""
    nbformat = pytest.importorskip("nbformat", reason="needs the package 'nbformat'")
    nbclient = pytest.importorskip("nbclient", reason="needs the package 'nbclient'")
    pytest.importorskip("ipykernel", reason="needs the package 'ipykernel'")
    start = f"import sys; sys.modules.update(dict.fromkeys({list(hidden)}))"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (start, *cells)])
    counts = dict.fromkeys(range(len(cells)), 0)

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] == "update_display_data":
                counts[cell_index - 1] += 1
            return super().process_message(msg, cell, cell_index)

    Client(notebook, kernel_name="python3", timeout=120).execute()
    return notebook.cells[1:], counts


@pytest.mark.slow  # it starts a kernel
@pytest.mark.parametrize("hidden", [(), ("ipywidgets", "rich", "matplotlib.pyplot")])
def test_a_notebook_shows_a_bar_and_curves_of_a_run_and_a_table_of_folds(hidden):
    cells, counts = run_cells(
        program(RUN, nap=0.1) + "    pass;",
        program(KFOLD, nap=0.05) + "    pass;",
        program(RUN, ", verbose=0", nap=0) + "    pass;",
        program(RUN, nap=0, num_epochs=1) + "    pass;",
        program(RUN, ", verbose=2", nap=0.01, num_epochs=2) + "    pass;",
        hidden=hidden,
    )
    run, kfold, quiet, short, passes = (list(cell.outputs) for cell in cells)
    bar, curves = run
    assert re.fullmatch(
        r'<div><progress value="24" max="24"></progress> fold 0 · epoch 4/4 · 0:\d\d&lt;0:00 · \S+/s, \d+M · '
        r"mse \S+  val_mse \S+</div>",
        bar.data["text/html"],
    ), bar
    assert bar.data["text/plain"].startswith("fold 0 · epoch 4/4 · ")
    assert curves.data.keys() >= {"image/png"}
    assert 3 <= counts[0] <= 24 + 12
    table, curves = kfold
    assert curves.data.keys() >= {"image/png"}
    assert table.data["text/html"].count("<tr>") == 4
    assert "3 of 3 folds" in table.data["text/html"]
    assert len(table.data["text/plain"].splitlines()) == 5
    assert quiet == []
    assert [output.data["text/plain"].split("  ")[:2] for output in passes][::2] == [
        ["fold 0 · 1/2(t)", "6/6"],
        ["fold 0 · 2/2(t)", "6/6"],
    ]
    assert all("<progress" in output.data["text/html"] for output in passes)
    assert [output.data.keys() & {"text/html", "image/png"} for output in short] == [{"text/html"}]


@pytest.mark.parametrize("is_notebook", [True, False])
def test_the_folds_have_their_curves_in_one_place_in_a_notebook(is_notebook, monkeypatch):
    monkeypatch.setattr("delira.training.live_view.in_notebook", lambda: is_notebook)
    table = FoldTable(2, lambda table, is_last: None)
    views = []
    for number in range(2):
        trainer = SimpleNamespace(fold=number, callbacks=[], stop_signals=None, make_bar=None, make_plot=None)
        table.begin(number, trainer)
        views.append(live_view(trainer, 1, 3))
    assert all(isinstance(view[0], ProgressBar) for view in views)
    plots = [plot for view in views for plot in view[1:]]
    assert len(plots) == 2 * is_notebook
    assert all(plot is plots[0] for plot in plots)
    assert len(live_view(trainer, 1, 1)) == 1
    trainer.callbacks.append(LiveLossPlot())
    assert len(live_view(trainer, 1, 3)) == 1


def test_what_a_notebook_shows_is_escaped_and_one_output(monkeypatch):
    shown = []

    class Handle:
        def update(self, content, raw):
            shown.append(content)

    def display(content, raw, display_id):
        shown.append(content)
        return Handle()

    monkeypatch.setitem(sys.modules, "IPython.display", type("Module", (), {"display": staticmethod(display)}))
    bar = ProgressBar("fold 0", NotebookBar())
    bar.begin(2, 0, 10)
    bar.values = {"<b>": 1.0}
    for steps in (1, 10):
        bar.steps = steps
        bar._display.show(bar, at_once=True)
    assert [re.search(r'value="(\d+)"', content["text/html"])[1] for content in shown] == ["1", "10"]
    assert "&lt;b&gt; 1" in shown[0]["text/html"]
    assert "<b>" in shown[0]["text/plain"]
