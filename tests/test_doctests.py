"""The examples in the docstrings run, and print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import delira
from delira.frameworks import FRAMEWORKS
from delira.metrics.tree import hanging

SOURCE = Path(delira.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if "\n" in (text := path.read_text("utf-8")) and " >>> " in text]
#: part of a path -> packages that its examples need besides a framework
NEEDED = {"live_view": ["matplotlib", "torch"], "tensorboard": ["tensorboardX"], "confusion": ["pycm"],
          "logging/writers": ["tensorboardX"], "logging/trackers": ["tensorboardX"], "image_files": ["PIL"],
          "experiments/preprocessing": ["skops"]}  # fmt: skip
#: folders whose examples use PyTorch
USE_TORCH = ("callbacks", "training/finders", "trial", "metrics/tree", "sklearn")


def needs(path: Path) -> list[str]:
    name = path.relative_to(SOURCE).as_posix()
    kit = name.split("/")[1] if name.startswith("backends/") else None
    packages = [FRAMEWORKS[kit]] if kit else []
    packages += ["torch"] if name.startswith(USE_TORCH) else []
    return packages + [package for part, others in NEEDED.items() if part in name for package in others]


def is_heavy(path: Path) -> bool:
    return path.is_relative_to(SOURCE / "backends")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.relative_to(SOURCE).as_posix(), marks=[pytest.mark.slow] * is_heavy(path))
        for path in FILES
    ],
)
def test_the_examples_of_a_module_run(path, tmp_path, monkeypatch):
    for package in needs(path):
        pytest.importorskip(package, reason=f"the examples need the package {package!r}, which is not installed")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(".".join(("delira", *path.relative_to(SOURCE).with_suffix("").parts)))
    monkeypatch.setattr(hanging, "_DEFAULTS", dict(hanging._DEFAULTS))  # an example adds to it
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert done.failed == 0


def test_only_what_has_no_data_is_left_out():
    skipped = {path.relative_to(SOURCE).as_posix() for path in FILES if "+SKIP" in path.read_text("utf-8")}
    assert skipped == {
        "backends/sklearn/training.py",
        "comparison/comparison.py",
        "data_loading/shards.py",
        "experiments/learning_curve.py",
        "experiments/search_result.py",
        "testing/spec/check.py",
        "experiments/preprocessing.py",
        "experiments/result.py",
        "prediction/ensemble.py",
    }
