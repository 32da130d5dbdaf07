"""What a training shows in a notebook."""

import re
import sys
from types import SimpleNamespace

import pytest

from delira.callbacks.live_view import FoldTable, live_view
from delira.callbacks.progress import NotebookBar, ProgressBar
from delira.training.callbacks import LiveLossPlot

pytest.importorskip("pyte", reason="pyte is not installed")
pytest.importorskip("pty", reason="this system has no pseudo terminals")
from live_programs import KFOLD, RUN, program


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
    monkeypatch.setattr("delira.callbacks.live_view.in_notebook", lambda: is_notebook)
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
