"""Training parts of several sizes for each fold, of which the smaller ones lie within the larger ones."""

import itertools
import numbers
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from delira.errors import ConfigError
from delira.experiments.splits import Split, Splitter
from delira.utils.seeding import derive_int


def check_sizes(sizes: object) -> tuple[float, ...]:
    """Return sizes of training parts: whole numbers of cases, or shares of them.

    Raises
    ------
    ConfigError
        If there are none, or one is neither a whole number from 1 nor a share up to 1.
    """
    is_list = isinstance(sizes, Iterable) and not isinstance(sizes, (str, bytes, Mapping))
    found = [*sizes] if is_list else []  # type: ignore[misc]
    if not found or not all(_is_size(each) for each in found):
        raise ConfigError(
            "sizes must be a list of numbers of training cases, from 1, or of shares of the training part, above 0.0 "
            f"and up to 1.0, got {sizes!r:.200}"
        )
    numbers_and_shares = {isinstance(each, numbers.Integral) for each in found}
    if 1 in found and len(numbers_and_shares) > 1 and any(isinstance(e, numbers.Integral) and e == 1 for e in found):
        raise ConfigError(f"sizes={found}: 1 is one case, and beside shares 1.0 may be meant, which is all; say which")
    return tuple(int(each) if isinstance(each, numbers.Integral) else float(each) for each in found)


def _is_size(size: object) -> bool:
    if isinstance(size, bool) or not isinstance(size, numbers.Real):
        return False
    return int(size) >= 1 if isinstance(size, numbers.Integral) else 0 < float(size) <= 1


def nested_splits(splitter: Splitter, sizes: Sequence[float]) -> tuple[list[Split], list[int]]:
    """Return the folds of the smallest size, then those of the next one, and the sizes as numbers of cases.

    Each fold tests the same at every size. What it learns from, validation included, are the first cases of an order
    that is drawn for the fold: by classes where folds are stratified, whole groups where there are groups, and of a
    series in time the latest.

    Parameters
    ----------
    splitter
        Of the data.
    sizes
        As of :func:`check_sizes`.

    Raises
    ------
    ConfigError
        If one is larger than a training part, or two are the same.
    """
    if splitter.config.is_bootstrap:
        raise ConfigError("a learning curve trains on parts of the cases, and a bootstrap draws as many as there are")
    outer = [(np.asarray(rest), val, test) for rest, val, test in splitter.outer()]
    # a validation part that was decided before stays whole, and counts
    fixed = [0 if val is None else len(val) for _, val, _ in outer]
    known = [len(rest) + n_val for (rest, _, _), n_val in zip(outer, fixed, strict=True)]
    sizes, cases = _resolved(sizes, min(known), max(fixed))
    ranks = [_ranks(splitter, rest, fold) for fold, (rest, _, _) in enumerate(outer)]
    parts = [
        [_first(rest, ranks[fold], _number(size, known[fold]) - fixed[fold]) for size in sizes]
        for fold, (rest, _, _) in enumerate(outer)
    ]
    _check_growth(parts, cases)
    splits = [
        splitter.divided(fold, parts[fold][place], val, test)
        for place in range(len(cases))
        for fold, (_, val, test) in enumerate(outer)
    ]
    return splits, cases


def _number(size: float, largest: int) -> int:
    return size if isinstance(size, int) else max(1, round(size * largest))


def _resolved(sizes: Sequence[float], largest: int, n_fixed: int) -> tuple[list[float], list[int]]:
    """Return the sizes in their order, and how many cases each is of the smallest training part."""
    ordered = sorted(sizes, key=lambda size: _number(size, largest))
    found = [_number(size, largest) for size in ordered]
    if found[-1] > largest:
        raise ConfigError(f"sizes={[*sizes]}: a training part has {largest} cases, which {found[-1]} is more than")
    if len({*found}) < len(found):
        raise ConfigError(f"sizes={[*sizes]}: of {largest} cases two of them are the same, {found}; leave one out")
    if found[0] <= n_fixed:
        raise ConfigError(
            f"sizes={[*sizes]}: the validation parts of splits= count among the cases that a fold learns from, and "
            f"{n_fixed} of {found[0]} leave none to train on"
        )
    return ordered, found


def _check_growth(parts: Sequence[Sequence[np.ndarray]], cases: Sequence[int]) -> None:
    """Refuse sizes of which two are the same cases in a fold, as groups are not divided."""
    for fold, own in enumerate(parts):
        if any(len(one) == len(other) for one, other in itertools.pairwise(own)):
            raise ConfigError(
                f"sizes: groups are not divided, so that two of them are the same cases in fold {fold}: for {[*cases]} "
                f"it has {[len(part) for part in own]}; take fewer, or sizes that are further apart"
            )


def _ranks(splitter: Splitter, rest: np.ndarray, fold: int) -> np.ndarray:
    """Place of each case, or of its group, in the order in which they are added, from 0; int64 of shape ``(n,)``."""
    from sklearn.model_selection import TimeSeriesSplit

    if isinstance(splitter.config.split_type, TimeSeriesSplit):
        return np.arange(len(rest))[::-1]
    names, unit = np.unique(rest if splitter.groups is None else splitter.groups[rest], return_inverse=True)
    random = np.random.default_rng(derive_int(splitter.seed, fold, stream="learning curve"))
    drawn = random.permutation(len(names))
    if splitter.classes is None or splitter.groups is not None:
        return np.asarray(drawn[unit])
    share = np.empty(len(rest))  # how far each is among its class, so that every class is as far at each size
    for name in np.unique(classes := splitter.classes[rest]):
        own = np.flatnonzero(classes == name)
        share[own[np.argsort(drawn[unit[own]])]] = (np.arange(len(own)) + 0.5) / len(own)
    ranks = np.empty(len(rest), dtype=np.int64)
    ranks[np.lexsort((drawn[unit], share))] = np.arange(len(rest))
    return ranks


def _first(rest: np.ndarray, ranks: np.ndarray, size: int) -> np.ndarray:
    """The first cases, in the order of the training part; of groups as many as come nearest to a size."""
    totals = np.cumsum(np.bincount(ranks))
    n_units = int(np.abs(totals - size).argmin()) + 1
    return rest[ranks < n_units]
