"""Cross-validations of which everything is known beforehand: a network that hands out stored scores, and its splits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn import metrics as sk
from sklearn import model_selection as ms

from delira.contract import backend_default
from delira.data_loading import BaseDataManager
from delira.metrics import accuracy, per_sample
from delira.testing import ToyExperiment, ToyNetwork, mean_squared_error
from delira.training.callbacks import AbstractCallback

N_CLASSES = 3
N_EPOCHS = 4


def handed(data: np.ndarray, epoch: int, fold: int) -> dict[str, np.ndarray]:
    """What the network of a fold says after an epoch, both from 0: each fold has scores on a scale of its own."""
    table = data.reshape(len(data), N_EPOCHS, N_CLASSES + 2)[:, epoch]
    return {
        "logits": table[:, :N_CLASSES] + 0.4 * ((np.arange(N_CLASSES) + fold) % N_CLASSES),
        "score": table[:, N_CLASSES] + 2.0 * fold - 20.0,  # never taken for a probability
        "number": table[:, N_CLASSES + 1] + 0.3 * fold,
    }


class Handing(ToyNetwork):
    """Learns nothing: its weights are the numbers of the epoch and of the fold."""

    def __init__(self) -> None:
        super().__init__(n_features=2)
        self.weight[...] = 0.0

    def __call__(self, x: np.ndarray) -> dict[str, np.ndarray]:
        epoch, fold = self.weight[:, 0].astype(int)
        return handed(x, epoch, fold)

    @staticmethod
    @backend_default
    def closure(model: Any, data_dict: Any, optimizers: Any, losses: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        found = model(data_dict["data"])
        return {}, {"mse": mean_squared_error(found["number"], data_dict["value"])}, found


class Numbering(AbstractCallback):
    """Tells the network in which epoch of which fold it is."""

    def at_epoch_begin(self, trainer: Any, **facts: Any) -> None:
        trainer.module.weight[:, 0] = (trainer.state.epoch, trainer.fold)


@per_sample
def off(y_true: Any, y_pred: Any) -> float:
    """The error of one case."""
    return float(np.abs(y_true - y_pred))


#: test metrics: name -> (function, entry of the batch, output of the network)
METRICS: dict[str, tuple[Any, str, str]] = {
    "accuracy": (accuracy, "label", "logits"),
    "off": (off, "value", "number"),
    "mae": (sk.mean_absolute_error, "value", "number"),
    "rmse": (sk.root_mean_squared_error, "value", "number"),
    "r2": (sk.r2_score, "value", "number"),
    "auc": (sk.roc_auc_score, "is_first", "score"),
    "ap": (sk.average_precision_score, "is_first", "score"),
    "bacc": (sk.balanced_accuracy_score, "label", "logits"),
}


class Repeated:
    """Repeats of a splitter that keeps groups whole; scikit-learn has none."""

    def __init__(self, n_splits: int, n_repeats: int, random_state: int):
        self.n_splits, self.n_repeats, self.random_state = n_splits, n_repeats, random_state

    def get_n_splits(self, x: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.n_splits * self.n_repeats

    def split(self, x: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for repeat in range(self.n_repeats):
            folds = ms.GroupKFold(self.n_splits, shuffle=True, random_state=self.random_state + repeat)
            yield from folds.split(x, y, groups)


class Splitting(NamedTuple):
    """A splitter of scikit-learn, and how ``kfold`` is asked for it."""

    splitter: Any
    options: Mapping[str, Any]
    is_grouped: bool = False


def _own(splitter: Any, *, is_grouped: bool = False) -> Splitting:
    return Splitting(splitter, {"split_type": splitter}, is_grouped)


#: name -> function of (number of folds, seed, number of samples)
SPLITTERS: dict[str, Callable[[int, int, int], Splitting]] = {
    "KFold": lambda k, seed, n: Splitting(
        ms.KFold(k, shuffle=True, random_state=seed), {"num_splits": k, "shuffle": True}
    ),
    "KFold in order": lambda k, seed, n: Splitting(ms.KFold(k), {"num_splits": k}),
    "StratifiedKFold": lambda k, seed, n: Splitting(
        ms.StratifiedKFold(k, shuffle=True, random_state=seed),
        {"num_splits": k, "shuffle": True, "split_type": "stratified"},
    ),
    "GroupKFold": lambda k, seed, n: Splitting(ms.GroupKFold(k), {"num_splits": k}, True),
    "StratifiedGroupKFold": lambda k, seed, n: Splitting(
        ms.StratifiedGroupKFold(k, shuffle=True, random_state=seed),
        {"num_splits": k, "shuffle": True, "split_type": "stratified"},
        True,
    ),
    "RepeatedKFold": lambda k, seed, n: _own(ms.RepeatedKFold(n_splits=k, n_repeats=3, random_state=seed)),
    "RepeatedStratifiedKFold": lambda k, seed, n: _own(
        ms.RepeatedStratifiedKFold(n_splits=k, n_repeats=2, random_state=seed)
    ),
    "repeated GroupKFold": lambda k, seed, n: _own(Repeated(min(k, 3), 3, seed), is_grouped=True),
    "ShuffleSplit": lambda k, seed, n: _own(ms.ShuffleSplit(2 * k, test_size=0.4, random_state=seed)),
    "StratifiedShuffleSplit": lambda k, seed, n: _own(
        ms.StratifiedShuffleSplit(k, test_size=0.4, random_state=seed)
    ),
    "GroupShuffleSplit": lambda k, seed, n: _own(
        ms.GroupShuffleSplit(k + 1, test_size=0.4, random_state=seed), is_grouped=True
    ),
    "LeaveOneGroupOut": lambda k, seed, n: _own(ms.LeaveOneGroupOut(), is_grouped=True),
    "TimeSeriesSplit": lambda k, seed, n: _own(ms.TimeSeriesSplit(k)),
    "PredefinedSplit": lambda k, seed, n: _own(
        ms.PredefinedSplit(np.random.default_rng(seed).integers(-1, k, size=n))
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """Samples with labels and stored scores, and how they are divided."""

    kind: str
    """Of the splitter."""
    k: int
    """Number of folds, for splitters that are told."""
    seed: int
    n: int
    n_groups: int
    """Of uneven sizes."""
    is_sorted: bool
    """Whether samples of one class stand together: then folds may lack a class."""

    @cached_property
    def splitting(self) -> Splitting:
        return SPLITTERS[self.kind](self.k, self.seed, self.n)

    @cached_property
    def groups(self) -> np.ndarray | None:
        if not self.splitting.is_grouped:
            return None
        generator = np.random.default_rng([self.seed, 1])
        shares = generator.dirichlet(np.full(self.n_groups, 1.5))
        found = np.concatenate([np.arange(self.n_groups), generator.choice(self.n_groups, self.n, p=shares)])[: self.n]
        return np.array([f"site {group}" for group in generator.permutation(found)])

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        generator = np.random.default_rng([self.seed, 2])
        label = np.concatenate([np.arange(self.n) % N_CLASSES])  # each class is large enough for strata
        label = np.sort(label) if self.is_sorted else generator.permutation(label)
        value = generator.normal(size=self.n)
        table = generator.normal(size=(self.n, N_EPOCHS, N_CLASSES + 2))
        table[:, :, :N_CLASSES] += 1.2 * np.eye(N_CLASSES)[label][:, None]
        table[:, :, N_CLASSES] += 1.0 * (label == 0)[:, None]
        table[:, :, N_CLASSES + 1] = value[:, None] + 0.6 * table[:, :, N_CLASSES + 1]
        table = np.round(table, 1)  # some scores are equal
        found = {
            "data": table.reshape(self.n, -1), "label": label, "value": value, "is_first": (label == 0).astype(int),
        }  # fmt: skip
        return found if self.groups is None else {**found, "site": self.groups}

    @cached_property
    def splits(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Training and test part of each fold, straight from scikit-learn."""
        return list(self.splitting.splitter.split(np.zeros(self.n), self.arrays["label"], self.groups))

    def kfold(self, path: Any, batch_size: int, *, training: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The cross-validation by delira."""
        manager = options.pop("manager", {})
        settings = {
            "losses": {"mse": mean_squared_error}, "loss_keys": {"mse": ("number", "value")}, "num_epochs": 1,
            "logging_type": None, "verbose": False, "save_freq": None, **(training or {}),
        }  # fmt: skip
        experiment = ToyExperiment({"fixed": {"model": {}, "training": settings}}, Handing, save_path=path)
        asked = {"val_split": None, "random_seed": self.seed, **self.splitting.options, **options}
        if self.groups is not None:
            asked["groups_key"] = "site"
        return experiment.kfold(
            BaseDataManager(self.arrays, batch_size, **manager),
            metrics={name: function for name, (function, *_) in METRICS.items()},
            metric_keys={name: tuple(keys) for name, (_, *keys) in METRICS.items()},
            callbacks=[Numbering()],
            **asked,
        )
