"""Runs in which everything that can be lost on the way is used, and what is left of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from problems import linear_problem

from delira.data_loading import BaseDataManager
from delira.io import verify_zip
from delira.training import Parameters

EPOCHS = 3


def data(n: int = 10, batch_size: int = 4) -> BaseDataManager:
    return BaseDataManager(linear_problem(n), batch_size)


def build(kit: Any, path: Path, **settings: Any) -> Any:
    """A trainer with dropout, momentum, a schedule and a watched score."""
    return kit.trainer(path, kit.build(dropout=0.4), **{"val_score_key": "mse", **kit.halving(), **settings})


def train(kit: Any, path: Path, epochs: int = EPOCHS, **settings: Any) -> np.ndarray:
    """Begin the training in ``path``, or go on with it; the weight at its end."""
    return kit.read(build(kit, path, **settings).train(epochs, data(), data(7)))


def kfold(kit: Any, path: Path, resume: str | None = None) -> Any:
    """Cross-validate in two folds."""
    experiment = kit.experiment(
        path, {"dropout": 0.4}, name="chaos", training={"val_score_key": "mse", "save_freq": 1, **kit.halving()}
    )
    # a lease that nobody can read any more is waited for
    patience = {"takeover_after": 0.05} if resume else {}
    return experiment.kfold(
        data(12, 3), num_splits=2, shuffle=True, random_seed=0, val_split=0.34, resume=resume, **patience
    )


def tune(kit: Any, path: Path, resume: str | None = None) -> Any:
    """Search the learning rate by three trials of two folds."""
    from delira.search import Float

    training = {**kit.settings, "num_epochs": 2, "save_freq": 1, "val_metrics": {"squares": mean_squared}}
    variable = {"training": {"optimizer_params": {"lr": Float(1e-3, 0.1, log=True)}}}
    params = Parameters({"model": {"n_features": 3}, "training": training}, variable)
    experiment = kit.experiment_cls(params, kit.network, name="search", save_path=path, verbose=0)
    patience = {"takeover_after": 0.05} if resume else {}
    return experiment.tune(
        data(12, 3),
        3,
        "squares",
        direction="min",
        num_splits=2,
        random_seed=0,
        val_split=0.34,
        resume=resume,
        **patience,
    )


def mean_squared(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.mean((y_true - y_pred) ** 2))


def files(path: Path) -> list[str]:
    return sorted(str(found.relative_to(path)) for found in path.rglob("*") if found.is_file())


def check_checkpoints(folder: Path, suffix: str) -> None:
    """Everything that is called a checkpoint is a complete one."""
    for path in folder.glob(f"checkpoint_*{suffix}"):
        verify_zip(path)


def check_equal(kit: Any, found: Path, expected: Path) -> None:
    """The same files, and the same content in every checkpoint and history.

    The lock of who died stays in a fold that it had finished: nobody comes there again, and it locks nobody out.
    """
    names, there = files(expected), [name for name in files(found) if not name.startswith(".lock")]
    assert there == names, f"missing: {set(names) - set(there)}; too many: {set(there) - set(names)}"
    for name in names:
        if "checkpoint_previous" in name:  # whichever state was on disk before the last: one that went on has another
            verify_zip(found / name, compressed=name.endswith(tuple(kit.backend.checkpoints.further_files(None))))
        elif name.startswith("checkpoints/"):
            if name.endswith(
                tuple(kit.backend.checkpoints.further_files(None))
            ):  # a program has names of its process in it
                verify_zip(found / name, compressed=True)
                continue
            contents = [kit.backend.checkpoints.read(folder / name) for folder in (found, expected)]
            for content in contents:
                content.pop("beside", None)
            assert kit.same(*contents), f"{name} differs"
        elif name.startswith("history"):
            assert (found / name).read_bytes() == (expected / name).read_bytes(), f"{name} differs"


def ledger(folder: Path) -> list[dict[str, Any]]:
    """The lines that can be read."""
    lines = []
    for line in (folder / "ledger.jsonl").read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines
