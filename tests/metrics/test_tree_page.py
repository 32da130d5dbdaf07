"""docs/metrics.md: its blocks run, and its table says what the strings report."""

import re
from pathlib import Path

import numpy as np
import pytest
from tree_loop import BCEWithLogitsLoss, CrossEntropyLoss, one_pass

from delira.metrics import known_keys
from delira.metrics.tree import hanging
from delira.state import LOSS, OPTIMIZER, Y_PRED, Y_TRUE, X

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)


def code_of(section):
    return re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_a_section_runs(section, monkeypatch):
    pytest.importorskip("torch", reason="the torch backend needs the package torch")
    if "from torchmetrics" in section:
        pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    monkeypatch.setattr(hanging, "_DEFAULTS", dict(hanging._DEFAULTS))
    names = {"__name__": "metrics"}
    blocks = code_of(SECTIONS[0]) + (code_of(section) if section is not SECTIONS[0] else [])
    for block in blocks:
        exec(compile(block, "docs/metrics.md", "exec"), names)


def rows():
    found = re.findall(r"^\| (`.*?) \| (.*?) \| \S.* \|$", PAGE, flags=re.MULTILINE)
    return {key: re.findall(r"`(\w+)`", reports) for keys, reports in found for key in re.findall(r"`(\w+)`", keys)}


def test_the_table_has_every_string():
    own = {key for key, (metric, *_) in hanging._DEFAULTS.items() if metric.__module__.startswith("delira.")}
    assert {*rows()} == own <= {*known_keys()}


class Optimizer:
    param_groups = ({"lr": 0.1},)


NUMBERS = np.array([[0.2], [0.8], [0.6]])
YES = np.array([[0.0], [1.0], [1.0]])
MASKS = np.zeros((3, 4, 4))
MASKS[:, 1:3, 1:3] = 1
BATCHES = {
    **dict.fromkeys(("binary_acc", "binary_accuracy", "mae", "mse", "rmse", "r2"), (NUMBERS, YES)),
    **dict.fromkeys(("dice", "iou", "hausdorff"), (MASKS, MASKS)),
}


@pytest.mark.parametrize(("key", "names"), [row for row in rows().items() if row[1]])
def test_a_string_reports_what_the_table_says(key, names):
    pred, true = BATCHES.get(key, (np.eye(3) / 2, np.arange(3)))
    criterion = BCEWithLogitsLoss() if key.startswith(("binary", "dice", "iou", "haus")) else CrossEntropyLoss()
    batch = {Y_PRED: pred, Y_TRUE: true, X: pred, LOSS: 1.0, OPTIMIZER: Optimizer()}
    (reported,), final = one_pass([key], [batch], criterion=criterion)
    assert list(dict.fromkeys([*reported, *final])) == names
    _, final = one_pass([key], [batch], criterion=criterion, is_training=False)
    assert list(final) == [f"val_{name}" for name in names if not name.startswith("running_") and name != "lr"]
