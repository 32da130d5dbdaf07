"""Every block of docs/callbacks.md runs, and its table is true: each callback, in each backend, in both faces."""

import re
from pathlib import Path

import pytest
from callbacks_page_backends import N_CLASSES, kit_of

from delira.errors import DeliraError
from delira.state import INPUT, Y_PRED, X, state_key
from delira.training import callbacks as own
from delira.training.callbacks import AbstractCallback, on_step_training, on_step_validation

PAGE = (Path(__file__).parents[1] / "docs" / "callbacks.md").read_text(encoding="utf-8")
SETUP, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
CODE = {section.split("\n", 1)[0]: re.findall(r"^```python\n(.*?)^```", section, re.M | re.S) for section in SECTIONS}
#: bases of callbacks
BASES = {"AbstractCallback", "AbstractTensorBoard", "Callback", "ImagingCallback"}

# ------------------------------------------------------------------ the blocks


@pytest.mark.parametrize("title", [title for title, blocks in CODE.items() if blocks])
def test_a_section_runs(title, tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the page's examples need the package 'torch', which is not installed")
    for package in {"See": ["tensorboardX", "pycm"], "Make": ["tensorboardX"]}.get(title.split()[0], ()):
        pytest.importorskip(package, reason=f"the section needs the package {package!r}, which is not installed")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "callbacks_page"}
    for block in (*re.findall(r"^```python\n(.*?)^```", SETUP, re.M | re.S), *CODE[title]):
        exec(compile(block, "docs/callbacks.md", "exec"), names)


# ------------------------------------------------------------------ the table


def table():
    """Callback -> the backends that the table names."""
    rows = re.findall(r"^\| (`[A-Z].*?) \| .*? \| (.*?) \|$", CODE_FREE["Which there are"], re.MULTILINE)
    backends = {"PyTorch": "torch", "TensorFlow": "tensorflow", "JAX": "jax"}
    found = {}
    for names, where in rows:
        where = where.split(";")[0]
        for name in re.findall(r"`(\w+)`", names):
            found[name] = (
                {*backends.values(), "sklearn"}
                if where == "all"
                else {backends[backend] for backend in where.split(", ")}
            )
    return found


CODE_FREE = {section.split("\n", 1)[0]: section for section in SECTIONS}
TABLE = table()


def is_callback(name):
    value = getattr(own, name)
    is_one = isinstance(value, type) and issubclass(value, AbstractCallback) and value.__name__ == name  # no other name
    return is_one or name == "ModelCheckpoint"


def test_every_callback_has_a_row():
    assert {name for name in own.__all__ if is_callback(name)} - BASES == TABLE.keys()


def test_everything_that_is_shown_is_named():
    hooks = {name for name in own.__all__ if name.startswith("on_")}
    assert [name for name in own.__all__ if name not in hooks and not re.search(rf"\b{name}\b", PAGE)] == []


# ------------------------------------------------------------------ what it says of backends

PICTURE = state_key("picture_of_the_page")
SCORES = state_key("scores_of_the_page")


@on_step_validation
@on_step_training
def show_pictures(state):
    """Entries that an estimator of scikit-learn does not have: its inputs are rows, and its outputs may be several."""
    state[PICTURE] = state[INPUT].reshape(-1, 1, 4, 4)
    state[SCORES] = state[Y_PRED]["pred"] if isinstance(state[Y_PRED], dict) else state[Y_PRED]


def schedules(cb, watched):
    return {
        "StepLR": cb.StepLR(1), "MultiStepLR": cb.MultiStepLR([1]), "ExponentialLR": cb.ExponentialLR(0.5),
        "LambdaLR": cb.LambdaLR(lambda count: 0.5**count), "CosineAnnealingLR": cb.CosineAnnealingLR(3),
        "CyclicLR": cb.CyclicLR(0.1, 0.2, 2), "OneCycleLR": cb.OneCycleLR(0.1, 20),
        "WarmupCosine": cb.WarmupCosine(1, 10), "ReduceLROnPlateau": cb.ReduceLROnPlateau(watched),
        "TorchScheduler": cb.TorchScheduler(torch_step, step_size=1),
    }  # fmt: skip


def torch_step(optimizer, step_size):
    import torch

    return torch.optim.lr_scheduler.StepLR(optimizer, step_size)


def files_and_views(cb, folder, watched, is_rows):
    images, scores = (PICTURE, SCORES) if is_rows else (INPUT, Y_PRED)
    return {
        "MostRecent": cb.MostRecent(folder / "m.{epoch}"),
        "Best": cb.Best(folder / "m.{epoch}", monitor=watched, mode="min"),
        "Interval": cb.Interval(folder / "m.{epoch}"), "ModelCheckpoint": cb.ModelCheckpoint(folder / "m.{epoch}"),
        "Tqdm": cb.Tqdm(), "ConsolePrinter": cb.ConsolePrinter(), "ProgressBar": cb.ProgressBar(),
        "CSVLogger": cb.CSVLogger(folder / "m.csv", batch_granularity=True), "HistoryWriter": cb.HistoryWriter(folder),
        "TensorBoard": cb.TensorBoard(folder, write_graph=False, write_batch_metrics=True),
        "TensorBoardText": cb.TensorBoardText(folder), "TensorBoardWriter": cb.TensorBoardWriter(folder),
        "TensorBoardImages": cb.TensorBoardImages(folder, key=images),
        "TensorBoardProjector": cb.TensorBoardProjector(folder, features_key=scores), "LiveLossPlot": cb.LiveLossPlot(),
        "PyCM": cb.PyCM(pred_key=scores).to_html_file(folder / "matrix"),
        "Profiler": cb.Profiler(), "TimerMetric": cb.TimerMetric(),
        "FromState": cb.FromState(images).to_file(folder / "{index}.png"),
        "CachingImagingCallback": cb.CachingImagingCallback(images, 4).to_file(folder / "{epoch}_{index}.png"),
        "MakeGrid": cb.MakeGrid(images, 4).to_file(folder / "{epoch}.png"),
        "ClassAppearanceModel": cb.ClassAppearanceModel(N_CLASSES, (1, 4, 4), steps=2).to_file(folder / "{index}.png"),
    }  # fmt: skip


def changes(cb, kit, watched):
    return {
        "EarlyStopping": cb.EarlyStopping(watched, mode="min"), "TerminateOnNaN": cb.TerminateOnNaN(),
        "GradientNormClipping": cb.GradientNormClipping(0.1), "GradientClipping": cb.GradientClipping(0.1),
        "WeightDecay": cb.WeightDecay(), "L1WeightDecay": cb.L1WeightDecay(), "L2WeightDecay": cb.L2WeightDecay(),
        "ExponentialMovingAverage": cb.ExponentialMovingAverage(), "SWA": cb.SWA(),
        "FreezeUnfreeze": cb.FreezeUnfreeze({0: lambda name: "bias" not in name, 1: None}),
        "Mixup": cb.Mixup(), "ManifoldMixup": cb.ManifoldMixup().at_depth(None), "CutMix": cb.CutMix(1.0, N_CLASSES),
        "BCPlus": cb.BCPlus(classes=N_CLASSES), "Cutout": cb.Cutout(1, 2), "RandomErase": cb.RandomErase(1, 2),
        "SamplePairing": cb.SamplePairing(lambda state: True), "UnpackState": cb.UnpackState([X]),
        "LabelSmoothingRegularisation": cb.LabelSmoothingRegularisation(0.1, N_CLASSES),
        "KaimingNormal": cb.KaimingNormal(), "KaimingUniform": cb.KaimingUniform(), "XavierNormal": cb.XavierNormal(),
        "XavierUniform": cb.XavierUniform(), "ZeroBias": cb.ZeroBias(), "WeightInit": cb.WeightInit(lambda layer: None),
        "LsuvInit": cb.LsuvInit(kit.x),
    }  # fmt: skip


def run(kit, face, name, folder):
    """A fit of two epochs with one callback."""
    is_rows = kit.backend == "sklearn"
    watched = "ce" if face == "experiment" else "val_acc" if is_rows else "val_loss"
    made = schedules(own, watched) | files_and_views(own, folder, watched, is_rows) | changes(own, kit, watched)
    settings = {"wrap_loss": own.mixup_loss} if name in ("Mixup", "ManifoldMixup") else {}
    settings |= {"takes_entries": True} if name == "UnpackState" else {}
    callbacks = [show_pictures, made[name]] if is_rows else [made[name]]
    if face == "experiment":
        return kit.experiment(folder / "run", callbacks, **settings)
    trial = kit.trial(callbacks, **settings)
    trial.run(2)
    trial.evaluate()
    return trial.trainer


#: backends in which a step is compiled take half a second a fit
CASES = [
    pytest.param(backend, face, id=f"{backend}-{face}", marks=[pytest.mark.slow] * (backend in ("tensorflow", "jax")))
    for backend in ("torch", "tensorflow", "jax", "sklearn")
    for face in ("trial", "experiment")
]
#: what writes checkpoints
CHECKPOINTERS = ("MostRecent", "Best", "Interval", "ModelCheckpoint")


@pytest.mark.sampled("half")
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize(("backend", "face"), CASES)
def test_a_callback_works_where_the_table_says_and_is_refused_elsewhere(backend, face, name, tmp_path):
    for package in ["tensorboardX"] * name.startswith("TensorBoard") + ["pycm"] * (name == "PyCM"):
        pytest.importorskip(package, reason=f"the callback needs the package {package!r}, which is not installed")
    if backend == "sklearn" and (face == "experiment" or name in CHECKPOINTERS):
        pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    kit = kit_of(backend)
    if backend in TABLE[name]:
        trainer = run(kit, face, name, tmp_path)
        assert trainer.state.epoch == 2 or name in ("EarlyStopping",)
        return
    with pytest.raises(DeliraError, match=rf"{name}|{backend}|an estimator"):
        run(kit, face, name, tmp_path)
