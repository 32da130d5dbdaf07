"""The curves that a notebook shows."""

import base64
import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from delira import state as keys
from delira.callbacks.decorators import on_step_training
from delira.errors import ConfigError
from delira.training.callbacks import LiveLossPlot


def curves(plot):
    """``{title: {label: (places, values)}}``, and the label of the places."""
    found = {}
    for axes in plot.figure().axes:
        lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}
        found[axes.get_title(), axes.get_xlabel()] = lines
    return found


def test_epochs_are_the_history(fit):
    plot = LiveLossPlot()
    history = fit.trial(plot, metrics=["loss", "mae"]).run(3)
    found = curves(plot)
    for name in ("loss", "mae"):
        assert found[name, "epoch"] == {
            "training": ([1, 2, 3], pytest.approx([record[name] for record in history])),
            "validation": ([1, 2, 3], pytest.approx([record[f"val_{name}"] for record in history])),
        }
    assert found.keys() == {(name, "epoch") for name in ("loss", "mae", "lr")}


def test_fits_that_keep_their_place_are_one_picture_of_the_last(fit, monkeypatch):
    shown = []

    class Handle:
        def update(self, figure):
            shown[-1].append(figure)

    def display(figure, display_id):
        shown.append([figure])
        return Handle()

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    plot = LiveLossPlot(draw_once=True)
    for number in (0, 1):
        fit.trial(plot.keep_place(f"fold {number}"), metrics=["loss"]).run(2 + number)
    (pictures,) = shown
    assert [picture.get_suptitle() for picture in pictures] == ["fold 0", "fold 1"]
    assert curves(plot)["loss", "epoch"]["training"][0] == [1, 2, 3]
    for _ in range(2):  # others have one each
        fit.trial(LiveLossPlot(draw_once=True), metrics=["loss"]).run(2)
    assert [len(pictures) for pictures in shown] == [2, 1, 1]


def test_batches_have_the_number_of_their_update(torch_fit):
    seen = []

    @on_step_training
    def look(state):
        seen.append(float(state[keys.LOSS]))

    plot = LiveLossPlot(on_batch=True, on_epoch=False, batch_step_size=2)
    torch_fit.trial(look, plot).run(2)
    found = curves(plot)
    wanted = [1, 3, 4, 6]
    assert found["loss", "update"] == {"training": (wanted, pytest.approx([seen[at - 1] for at in wanted]))}
    assert {unit for _, unit in found} == {"update"}


def test_a_continued_fit_begins_with_the_epochs_before(torch_fit, tmp_path):
    trial = torch_fit.trial(LiveLossPlot())
    trial.run(2)
    kept = trial.save(tmp_path / "kept")
    plot = LiveLossPlot(on_batch=True, batch_step_size=3)
    history = torch_fit.trial(plot).load(kept).run(3)
    trial.evaluate()
    found = curves(plot)
    assert found["loss", "epoch"]["training"] == ([1, 2, 3], pytest.approx([record["loss"] for record in history]))
    assert found["loss", "update"]["training"][0] == [7]


def test_a_replay_draws_the_same(torch_fit):
    plot, again = LiveLossPlot(), LiveLossPlot()
    trial = torch_fit.trial(plot)
    trial.run(3)
    trial.replay([again], verbose=0)
    assert curves(again) == curves(plot)


@pytest.mark.parametrize("kit", ["torch", "tensorflow", "jax"], indirect=True)
def test_an_experiment_has_it_too(kit, tmp_path, manager):
    plot = LiveLossPlot(on_batch=True, batch_step_size=1)
    trainer = kit.trainer(tmp_path, callbacks=[plot])
    trainer.train(2, manager(), manager())
    found = curves(plot)
    values = [record["mse"] for record in trainer.state.history]
    assert found["mse", "epoch"]["training"] == ([1, 2], pytest.approx(values))
    assert found["loss", "update"]["training"][0] == [1, 2, 3, 4, 5, 6]


def test_outside_of_a_notebook_nothing_is_shown(torch_fit, capfd):
    torch_fit.trial(LiveLossPlot()).run(2)
    shown = capfd.readouterr()
    assert shown.out + shown.err == ""


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="nothing to draw without on_batch and on_epoch"):
        LiveLossPlot(on_batch=False, on_epoch=False)
    with pytest.raises(ConfigError, match="LiveLossPlot: batch_step_size is a whole number of at least 1, got 0"):
        LiveLossPlot(batch_step_size=0)


CELL = """
import numpy, torch, delira, time
from delira.training.callbacks import LiveLossPlot
from delira.callbacks.decorators import on_end_epoch

@on_end_epoch
def speak(state):
    print("epoch", state["epoch"])
    time.sleep(PAUSE)

torch.manual_seed(0)
net, x = torch.nn.Linear(3, 1), numpy.ones((8, 3), "f4")
optimizer = torch.optim.SGD(net.parameters(), 0.01)
trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), ["loss"], [LiveLossPlot(ONCE), speak], seed=0, verbose=0)
trial.with_train_data(x, x[:, :1], 4).with_val_data(x, x[:, :1], 4).run(3);
"""


@pytest.mark.slow  # it starts a kernel
def test_a_notebook_shows_one_picture_that_is_replaced(monkeypatch):
    pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")
    nbformat = pytest.importorskip("nbformat", reason="needs the package 'nbformat'")
    nbclient = pytest.importorskip("nbclient", reason="needs the package 'nbclient'")
    pytest.importorskip("ipykernel", reason="needs the package 'ipykernel'")
    from PIL import Image

    cells = [
        CELL.replace("ONCE", "").replace("PAUSE", "0.0"),
        CELL.replace("ONCE", "draw_once=True").replace("PAUSE", "0.0"),
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    updates = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] in ("display_data", "update_display_data"):
                updates.append((cell_index, msg["msg_type"]))
            return super().process_message(msg, cell, cell_index)

    Client(notebook, kernel_name="python3", timeout=120).execute()
    for number, cell in enumerate(notebook.cells):
        pictures = [output for output in cell.outputs if output.output_type == "display_data"]
        assert len(pictures) == 1, cell.outputs
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures[0].data["image/png"]))).convert("L"))
        assert pixels.shape[0] > 200
        assert pixels.shape[1] > 800  # loss, lr: two axes
        assert 0.005 < (pixels < 128).mean() < 0.3  # drawn upon, on white
        printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        assert printed.split("\n")[:3] == ["epoch 0", "epoch 1", "epoch 2"]  # what else was shown is there
        kinds = [kind for at, kind in updates if at == number]
        assert kinds[0] == "display_data"
        assert len(kinds) == (1 if number else 2)  # the first epoch, and all at the end: epochs that fast are joined
