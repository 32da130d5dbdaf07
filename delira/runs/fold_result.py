"""What one fold of a run gives back: its samples, its values, and how it came to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.utils.checks import check_whole

#: file of the transformers that were fitted on the training part of a fold
PREPROCESSING = "preprocessing.zip"


def check_dictionaries(owner: object, **given: object) -> None:
    """Refuse arguments that are no dictionaries.

    Parameters
    ----------
    owner
        The object that they are for: how the message begins.
    **given
        The arguments by name.
    """
    for name, value in given.items():
        if not isinstance(value, Mapping):
            raise ConfigError(f"{type(owner).__name__}: {name} is a dictionary, got {value!r:.80}")


def _indices(name: str, given: object) -> np.ndarray:
    """Indices of samples as int64; fractions, negative ones and texts are none."""
    found = np.asarray(given)
    is_right = found.ndim == 1 and (found.dtype.kind in "iu" or not found.size)
    if not is_right or isinstance(given, (str, Mapping)) or (found.size and found.min() < 0):
        raise ConfigError(f"FoldResult: {name} are indices of the data set, whole numbers from 0, got {given!r:.80}")
    return found.astype(np.int64)


def _values(name: object, given: object) -> np.ndarray:
    found = np.atleast_1d(np.asarray(given))
    if not isinstance(name, str) or found.dtype.kind not in "biufc":
        raise ConfigError(
            f"FoldResult: metrics are numbers, or arrays of them, by name, got {given!r:.80} for {name!r}"
        )
    return found


def _check_readings(given: object) -> None:
    is_right = isinstance(given, Mapping) and all(
        isinstance(name, str)
        and isinstance(facts, Mapping)
        and isinstance(facts.get("output"), str)
        and isinstance(facts.get("since"), int)
        for name, facts in given.items()
    )
    if not is_right:
        raise ConfigError(
            "FoldResult: output_readings say of each output by name how it was read, as "
            f'{{"pred": {{"output": "logits", "since": 1}}}}, got {given!r:.80}'
        )


@dataclass(eq=False, repr=False)
class FoldResult:
    """One fold: what was trained on, what came out, and how it got there."""

    fold: int
    train_indices: np.ndarray
    """Of the data set; int64 of shape ``(n_train,)``, like the two that follow."""
    val_indices: np.ndarray | None
    test_indices: np.ndarray
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    """On the test part: float64 of shape ``(1,)``, or ``(n_test,)`` for a metric over samples."""
    predictions: dict[str, Any] = field(default_factory=dict)
    """Tree of arrays of shape ``(n_test, ...)``, in the order of ``test_indices``."""
    targets: dict[str, Any] = field(default_factory=dict)
    """Entries of the batch that the metrics read, in the same order."""
    history: list[dict[str, float]] = field(default_factory=list)
    """One entry per epoch: ``{"epoch": 1, "ce": 0.7, "val_accuracy": 0.8, ...}``."""
    best_epoch: int | None = None
    best_score: float | None = None
    score_key: str | None = None
    """Key of the history that chose the best epoch; None: nothing did, or it is not known."""
    weights_epoch: int | None = None
    """Epoch whose weights were tested: the best one, the last without a score, or where the checkpoint of the best was
    gone; None: not known."""
    raw_statistics: Sequence[str] = ()
    """Names of the running statistics of normalisation layers that are of the trained weights, while what was tested
    are their averages (``update_statistics`` of the callback that averages); empty: none."""
    output_readings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How the training read outputs of which nobody says what they are: name of the output -> ``{"output": "logits" or
    "probabilities", "since": epoch}``, with ``"is_changed": True`` where it read them otherwise before."""
    path: Path | None = None
    """Folder of the fold."""
    parameters: Any = None
    callbacks: Sequence[Any] = ()
    seconds: float = float("nan")
    """Duration of training and testing, over all sessions."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Samples that could not be loaded and took no part: index in the data set -> reason."""
    timings: Mapping[str, Any] | None = None
    """Where the time went, as ``timings.json`` in the fold's folder has it: ``{"version": 1, "steps": int, "seconds":
    {phase: s}, "note": str}``, over all sessions."""
    guards: Mapping[str, Any] | None = None
    """What was done about numbers that were not finite, as ``guards.json`` in the fold's folder has it: ``{"version":
    1, "left_out": [{"epoch": int, "updates": int, "steps": int}], "rollbacks": [epoch or None]}``; None: nothing."""

    def __post_init__(self) -> None:
        check_whole(self, at_least=0, fold=self.fold)
        self.train_indices = _indices("train_indices", self.train_indices)
        self.test_indices = _indices("test_indices", self.test_indices)
        if self.val_indices is not None:
            self.val_indices = _indices("val_indices", self.val_indices)
        check_dictionaries(self, metrics=self.metrics, predictions=self.predictions, targets=self.targets)
        _check_readings(self.output_readings)
        if not isinstance(self.history, list):
            raise ConfigError(f"FoldResult: history is a list of one record for each epoch, got {self.history!r}")
        self.metrics = {name: _values(name, value) for name, value in self.metrics.items()}

    @property
    def preprocessing(self) -> Path | None:
        """File of the transformers that were fitted on the training part, for ``delira.training.load_preprocessing``;
        None if there were none.
        """
        file = None if self.path is None else Path(self.path) / PREPROCESSING
        return file if file is not None and file.is_file() else None

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={np.mean(value):.4g}" for name, value in self.metrics.items())
        n_val = 0 if self.val_indices is None else len(self.val_indices)
        sizes = f"train/val/test={len(self.train_indices)}/{n_val}/{len(self.test_indices)}"
        return f"FoldResult({self.fold}, {sizes}{', ' if values else ''}{values})"
