"""Splits of a cross-validation: which samples train, validate and test in each fold."""

import copy
import dataclasses
import hashlib
import numbers
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading._exact import check_range
from delira.data_loading.abstract_dataset import AbstractDataset, name_sample
from delira.data_loading.dataset import read_labels
from delira.errors import ConfigError, DataError, did_you_mean, expect, flag
from delira.experiments.given_splits import read_splits
from delira.experiments.leakage import refuse_shared
from delira.runs.stored_run import BOOTSTRAP
from delira.utils.seeding import check_seed, derive, derive_int, seeded_globals

SPLIT_TYPES = ("random", "stratified", BOOTSTRAP)
_KEEPS_GROUPS = (
    "use split_type='random' or 'stratified', or a splitter of scikit-learn with Group in its name: these keep groups "
    "together"
)


@dataclasses.dataclass(frozen=True)
class Split:
    """Indices of one fold, int64."""

    train: np.ndarray
    val: np.ndarray | None
    test: np.ndarray

    @property
    def is_apparent(self) -> bool:
        """Return True if it tests what it learns from, all of it."""
        learned = self.train if self.val is None else np.concatenate([self.train, self.val])
        return np.array_equal(np.unique(learned), np.unique(self.test))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """How the samples are divided."""

    num_splits: int | None = None
    """Number of folds; 10 if not given, of a bootstrap 50."""

    split_type: Any = "random"
    """``"random"``, ``"stratified"`` or any scikit-learn splitter (an object with ``split``). Without ``shuffle``
    the parts are taken in the order of the dataset: consecutive blocks, if random. ``"bootstrap632+"``: each fold
    trains on as many cases as there are, drawn with replacement (whole groups, if there are groups), and tests those
    that were not drawn; one more trains and tests on all, for :meth:`KFoldResult.bootstrap632`."""

    shuffle: bool = False
    """Shuffle the samples before they are divided."""

    random_seed: int | None = None
    """Seed of the splits and, unless ``seed`` is set, of the training; the run's ``seed`` if not given."""

    val_split: float | None = 0.2
    """Part of each fold's training samples that is held out for validation; ``None``: no validation."""

    label_key: str = "label"
    """Entry of a sample that is stratified by; in any case it is what is learned: kept with the predictions, and no
    identity that could leak."""

    groups_key: str | None = None
    """Entry of a sample that says what belongs together, e.g. the patient; a group is never on two sides.
    ``""``: the samples are independent, whatever their entries are called, and no warning says otherwise."""

    splits: Any = None
    """Splits that were decided before, instead of all of the above but ``val_split``, which divides training parts that
    have no validation part: a file that ``result.save_splits`` wrote, a result, or a list of ``(train, test)`` or
    ``(train, val, test)``, indices of the dataset."""

    check_duplicates: bool = False
    """Read all samples once before the first fold, and warn of identical ones on two sides of a fold."""

    def __post_init__(self) -> None:
        kind, number, part = self.split_type, self.num_splits, self.val_split
        if isinstance(kind, str) and kind not in SPLIT_TYPES:
            raise ConfigError(
                f"split_type must be one of {', '.join(map(repr, SPLIT_TYPES))} or a scikit-learn splitter, got "
                f"{kind!r}{did_you_mean(kind, SPLIT_TYPES)}"
            )
        if not isinstance(kind, str) and (not hasattr(kind, "split") or isinstance(kind, type)):
            raise ConfigError(f"split_type={kind!r} has no split method; pass a splitter object")
        is_number = number is None or (isinstance(number, numbers.Integral) and number >= 2)
        is_part = part is None or (isinstance(part, numbers.Real) and 0 < part < 1)
        expect(
            ("num_splits", number, is_number, "an integer of at least 2"),
            ("val_split", part, is_part, "between 0 and 1 (or None for no validation)"),
        )
        if not isinstance(self.label_key, str) or not self.label_key:
            raise ConfigError(f"label_key must name an entry of the samples, got {self.label_key!r}")
        if self.groups_key is not None and not isinstance(self.groups_key, str):
            raise ConfigError(f"groups_key must name an entry, or be '' for no groups, got {self.groups_key!r}")
        if self.splits is not None and (kind != "random" or self.shuffle):
            raise ConfigError("splits= says how the data are divided; leave split_type and shuffle out")
        if self.is_bootstrap and self.shuffle:
            raise ConfigError(f"shuffle says nothing to split_type={BOOTSTRAP!r}, which draws cases; leave it out")
        expect(flag("shuffle", self.shuffle), flag("check_duplicates", self.check_duplicates))
        if self.random_seed is not None:
            check_seed(self.random_seed, "random_seed")

    @property
    def is_stratified(self) -> bool:
        """Return True if every part gets its share of each class."""
        if isinstance(self.split_type, str):
            return self.split_type == "stratified"
        return any("Stratified" in base.__name__ for base in type(self.split_type).__mro__)

    @property
    def is_bootstrap(self) -> bool:
        """Return True if cases are drawn with replacement."""
        return isinstance(self.split_type, str) and self.split_type == BOOTSTRAP

    def describe(self) -> str:
        """Return a few words for the report, e.g. ``"stratified, grouped by 'patient'"``."""
        kind = self.split_type if isinstance(self.split_type, str) else type(self.split_type).__name__
        kind = kind if self.splits is None else "given"
        return f"{kind}, grouped by {self.groups_key!r}" if self.groups_key else kind


class Splitter:
    """Divides one dataset; labels and groups are read once.

    Parameters
    ----------
    dataset
        Offers ``len`` and ``labels(key)``.
    config
        How to divide.
    seed
        Seed of the splits.

    Raises
    ------
    ConfigError
        If the samples, classes or groups are too few, or a splitter puts a sample or a group on two sides.
    DataError
        If a sample has no group.
    """

    def __init__(self, dataset: AbstractDataset, config: SplitConfig, seed: int):
        self.config, self.seed = config, seed
        self.n_samples = len(dataset)
        self.given = None if config.splits is None else read_splits(config.splits, dataset)
        self.classes = _as_classes(read_labels(dataset, config.label_key), config) if config.is_stratified else None
        self.groups = _as_groups(dataset, config.groups_key) if config.groups_key else None
        self.num_splits = self._count_splits()

    def __iter__(self) -> Iterator[Split]:
        """The folds, one after the other; each call gives the same ones."""
        for fold, (rest, val, test) in enumerate(self.outer()):
            yield self.divided(fold, rest, val, test)

    def outer(self) -> Iterator[tuple[np.ndarray, np.ndarray | None, np.ndarray]]:
        """What each fold may learn from, its validation part if that was decided before, and what it tests."""
        yield from self.given or ((rest, None, test) for rest, test in self._outer())

    def divided(self, fold: int, rest: np.ndarray, val: np.ndarray | None, test: np.ndarray) -> Split:
        """Return a fold with its validation part.

        Parameters
        ----------
        fold
            Its number.
        rest, val, test
            As of :meth:`outer`.

        Raises
        ------
        ConfigError
            If a sample or a group is on two sides.
        """
        train = rest
        if val is None and self.config.val_split is not None:
            train, val = self._inner(np.asarray(rest), fold)
        split = Split(self._indices(train), None if val is None else self._indices(val), self._indices(test))
        if self.config.is_bootstrap and split.is_apparent:
            return split
        refuse_shared("sample", np.arange(self.n_samples), split, fold, "a splitter must put a sample into one part")
        if self.groups is not None:
            refuse_shared(f"the {self.config.groups_key}", self.groups, split, fold, _KEEPS_GROUPS)
        return split

    def held_out(self) -> Split:
        """Return the data as one training part, and one that it is validated and scored on."""
        train, val = self._inner(np.arange(self.n_samples), 0)
        held_out = self._indices(val)
        return Split(self._indices(train), held_out, held_out)

    def _indices(self, part: object) -> np.ndarray:
        return check_range(np.asarray(part, dtype=np.int64), self.n_samples, "the dataset")

    def _count_splits(self) -> int:
        config = self.config
        if self.given is not None:
            if config.num_splits not in (None, len(self.given)):
                raise ConfigError(f"num_splits={config.num_splits}, but splits= has {len(self.given)}")
            return len(self.given)
        if not isinstance(config.split_type, str):
            count = config.split_type.get_n_splits(np.zeros(self.n_samples), self.classes, self.groups)
            if config.num_splits not in (None, count):
                raise ConfigError(f"num_splits={config.num_splits}, but {config.split_type!r} makes {count} splits")
            return int(count)
        number = config.num_splits
        if number is None:
            number = 50 if config.is_bootstrap else 10
            warnings.warn(f"num_splits was not given; {number} is used", UserWarning, stacklevel=6)
        if config.is_bootstrap:
            if len(self._units) < 2:
                raise ConfigError(f"a bootstrap draws samples, or groups, of at least two; there is {len(self._units)}")
            return number + 1
        if number > self.n_samples:
            raise ConfigError(f"num_splits={number}, but the dataset has only {self.n_samples} samples")
        if self.classes is not None:
            names, counts = np.unique(self.classes, return_counts=True)
            if (smallest := counts.min()) < number:
                raise ConfigError(
                    f"num_splits={number}, but class {names[counts.argmin()]} has only {smallest} samples, so not "
                    "every fold can have one; use fewer splits or split_type='random'"
                )
        if self.groups is not None and (found := len(np.unique(self.groups))) < number:
            raise ConfigError(
                f"num_splits={number}, but {config.groups_key!r} has only {found} groups; use fewer splits"
            )
        return number

    def _outer(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        from sklearn import model_selection as sklearn

        config = self.config
        if config.is_bootstrap:
            yield from self._drawn()
            return
        if not isinstance(config.split_type, str):
            splitter = copy.deepcopy(config.split_type)  # may hold a generator of its own, which moves
        else:
            of_samples = sklearn.StratifiedKFold if config.is_stratified else sklearn.KFold
            of_groups = sklearn.StratifiedGroupKFold if config.is_stratified else sklearn.GroupKFold
            random = {"shuffle": True, "random_state": self.seed % 2**32} if config.shuffle else {}
            splitter = (of_samples if self.groups is None else of_groups)(self.num_splits, **random)
        try:
            with seeded_globals(derive(self.seed, stream="splits")):  # of splitters without a seed
                splits = list(splitter.split(np.zeros(self.n_samples), self.classes, self.groups))
        except Exception as error:
            if self.classes is None and not isinstance(config.split_type, str):
                error.add_note(
                    "delira: this splitter was given no labels (y=None). Those whose class, or a base of it, has "
                    f"'Stratified' in its name are given the entry label_key={config.label_key!r}."
                )
            raise
        yield from splits

    @property
    def _units(self) -> np.ndarray:
        """What is drawn as a whole: samples, or groups."""
        return np.arange(self.n_samples) if self.groups is None else np.unique(self.groups)

    def _drawn(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Bootstrap samples and what is not in them, and at last all samples, twice."""
        every, units = np.arange(self.n_samples), self._units
        members = [[index] for index in every] if self.groups is None else [*self._members(units)]
        for fold in range(self.num_splits - 1):
            random = np.random.default_rng(derive_int(self.seed, fold, stream="bootstrap"))
            drawn = random.integers(len(units), size=len(units))
            while len(np.unique(drawn)) == len(units):  # of very few, all may be drawn, and none be left to test
                drawn = random.integers(len(units), size=len(units))
            train = np.sort(np.concatenate([members[unit] for unit in drawn]))
            yield train, np.setdiff1d(every, train)
        yield every, every

    def _members(self, units: np.ndarray) -> Iterator[np.ndarray]:
        """Samples of each group."""
        yield from (np.flatnonzero(self.groups == unit) for unit in units)

    def _inner(self, rest: np.ndarray, fold: int) -> tuple[np.ndarray, np.ndarray]:
        """Divide a fold's training samples into training and validation, as the folds are divided."""
        from sklearn import model_selection as sklearn

        config, part = self.config, float(self.config.val_split or 0)
        if isinstance(config.split_type, sklearn.TimeSeriesSplit):  # validation comes after training in time
            cut = len(rest) - max(1, round(part * len(rest)))
            if (end := cut - config.split_type.gap) < 1:
                raise ConfigError(
                    f"val_split={part} and {config.split_type!r} leave none of the {len(rest)} training samples of "
                    f"fold {fold} to train on: {len(rest) - cut} validate, {config.split_type.gap} are the gap before "
                    "them; use fewer splits, a smaller val_split, or None"
                )
            return rest[:end], rest[cut:]
        state = derive_int(self.seed, fold, stream="validation split") % 2**32
        classes = None if self.classes is None else self.classes[rest]
        groups = None if self.groups is None else self.groups[rest]
        if config.is_bootstrap and groups is None:
            groups = rest  # a sample that was drawn twice is not on both sides
        if classes is not None and groups is not None:
            split = _stratified_groups(rest, classes, groups, part, state)
        else:
            of_classes = sklearn.ShuffleSplit if classes is None else sklearn.StratifiedShuffleSplit
            kind = of_classes if groups is None else sklearn.GroupShuffleSplit
            split = kind(1, test_size=part, random_state=state).split(rest, classes, groups)
        try:
            with warnings.catch_warnings():  # that not every of its folds had each class; only one of them is used
                warnings.filterwarnings("ignore", "The least populated class", UserWarning)
                train, val = next(split)
        except ValueError as error:
            raise ConfigError(
                f"val_split={part} cannot divide the {len(rest)} training samples of fold {fold}: {error}; "
                "use another val_split, or None"
            ) from error
        return rest[train], np.unique(rest[val]) if config.is_bootstrap else rest[val]


def _stratified_groups(
    x: np.ndarray, classes: np.ndarray, groups: np.ndarray, part: float, random_state: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """One split of about a given share, stratified and with whole groups: several of many small folds together."""
    from sklearn.model_selection import StratifiedGroupKFold

    most = min(20, len(np.unique(groups)), np.unique(classes, return_counts=True)[1].max())
    shares = [(taken, number) for number in range(2, most + 1) for taken in range(1, number)]
    if not shares:
        raise ValueError("there are too few groups")
    taken, number = min(shares, key=lambda share: (abs(share[0] / share[1] - part), share[1]))
    folds = StratifiedGroupKFold(number, shuffle=True, random_state=random_state).split(x, classes, groups)
    val = np.sort(np.concatenate([test for _, test in folds][:taken]))
    yield np.setdiff1d(np.arange(len(x)), val), val


def fingerprint(splits: Sequence[Split]) -> str:
    """Hex SHA-256 of all indices of all folds."""
    digest = hashlib.sha256()
    for split in splits:
        for part in (split.train, split.val, split.test):
            digest.update(b"-" if part is None else np.ascontiguousarray(part, dtype="<i8").tobytes() + b"|")
    return digest.hexdigest()


def _as_classes(labels: np.ndarray, config: SplitConfig) -> np.ndarray:
    """One class for each sample, from class numbers of shape (n,) or (n, 1), or one-hot rows (n, C)."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] > 1 and (labels.sum(axis=1) == 1).all() and (labels.max(axis=1) == 1).all():
        return labels.argmax(axis=1)
    if labels.ndim > 1 and labels[0].size != 1:
        raise ConfigError(
            f"split_type='stratified' needs one class for each sample, but {config.label_key!r} has shape "
            f"{labels.shape[1:]}; name a class entry by label_key, or use split_type='random'"
        )
    labels = labels.reshape(len(labels))
    if labels.dtype.kind == "f" and not (labels == np.round(labels)).all():
        raise ConfigError(
            f"split_type='stratified' needs classes, but {config.label_key!r} is continuous; use split_type='random'"
        )
    return labels


def _as_groups(dataset: AbstractDataset, key: str) -> np.ndarray:
    values = np.asarray(read_labels(dataset, key))
    if values.ndim > 1 and values[0].size == 1:
        values = values.reshape(len(values))
    for index, value in enumerate(values.tolist() if values.ndim == 1 else ()):
        try:
            is_missing = value is None or bool(value != value)
        except TypeError:  # pandas.NA is neither equal nor unequal
            is_missing = True
        if is_missing:
            raise DataError(
                f"{name_sample(dataset, index)} has no group: its {key!r} is {value}; give every sample a value (one "
                "of its own if it belongs to no other), or leave it out"
            )
    return values


# ------------------------------------------------------------------ some folds alone


def check_chosen(folds: Any) -> tuple[int, ...] | None:
    """Numbers of folds in their order; ``None`` stands for all.

    Raises
    ------
    ConfigError
        If they are no different integers from 0.
    """
    if folds is None:
        return None
    found = [*folds] if isinstance(folds, Iterable) and not isinstance(folds, (str, bytes, Mapping)) else []
    if not found or any(isinstance(each, bool) or not isinstance(each, numbers.Integral) for each in found):
        raise ConfigError(
            f"folds must be a list of the numbers of those folds that are to be run, from 0, e.g. folds=[1], got "
            f"{folds!r}; num_splits says how many folds there are"
        )
    are_right = len(set(found)) == len(found) and min(found) >= 0
    expect(("folds", folds, are_right, "different numbers from 0"))
    return tuple(sorted(map(int, found)))


def check_in_range(folds: Sequence[int] | None, num_splits: int) -> None:
    """Refuse numbers of folds that there are not."""
    if folds and folds[-1] >= num_splits:
        raise ConfigError(
            f"folds={[*folds]} names fold {folds[-1]}, but there are {num_splits} folds, with the numbers 0 to "
            f"{num_splits - 1}"
        )


def refuse_fold(options: Mapping[str, Any], fold: int) -> None:
    """Refuse ``fold=``, which says which one a single run is: it would change nothing.

    Parameters
    ----------
    options
        Keywords of the call.
    fold
        What settings and parameters say.
    """
    if "fold" in options or fold:
        number = options.get("fold", fold)
        raise ConfigError(
            f"kfold takes no fold={number!r}: it runs every fold, and fold= is the number of a single run; "
            f"folds=[{number!r}] runs that fold alone (numbers from 0), num_splits= says how many there are"
        )


def tell_missing(missing: Sequence[int], num_splits: int, path: Path | None) -> str:
    """One sentence about folds that were not asked for, and how to get them.

    Parameters
    ----------
    missing
        Their numbers.
    num_splits
        How many folds there are in all.
    path
        Folder of the run.
    """
    listed = ", ".join(map(str, missing))
    names = f"fold {listed} is" if len(missing) == 1 else f"folds {listed} are"
    return (
        f"{num_splits - len(missing)} of {num_splits} folds: {names} missing, since the run was asked for others "
        f"(folds=). Go on with resume={str(path)!r}."
    )
