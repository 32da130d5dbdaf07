"""Whether results are over the same folds and cases, and if not, what differs; what they have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from delira.comparison.tests_of_folds import share_tested
from delira.errors import ConfigError, DataError, listed
from delira.experiments.result import KFoldResult
from delira.report import run_names
from delira.report.predictions import learned_from
from delira.report.summary import fingerprints
from delira.runs.results import FoldResult
from delira.utils.arrays import iterate_leaves

LISTED = 5
"""Cases, or folds, that a message names."""
Given = KFoldResult | str | Path
"""A result, or the folder of its run."""


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """Results over the same folds of the same cases."""

    results: tuple[KFoldResult, ...]
    names: tuple[str, ...]
    folds: tuple[tuple[FoldResult, ...], ...]
    """Of each result, ordered by their numbers."""
    cases: tuple[np.ndarray, ...]
    """Of each fold the cases that it tested, in ascending order, int64 of shape ``(n_test,)``."""
    orders: tuple[tuple[np.ndarray, ...], ...]
    """Of each result and fold: what puts its rows into that order."""
    groups: np.ndarray | None
    """Group of every sample, shape ``(n_samples,)``."""
    caveats: tuple[str, ...]
    """Sentences about what differs and does not forbid the comparison."""

    @property
    def numbers(self) -> list[int]:
        """Of the folds."""
        return [fold.fold for fold in self.folds[0]]

    @property
    def is_once(self) -> bool:
        """Return True if no case is tested twice."""
        return len(np.unique(np.concatenate(self.cases))) == sum(map(len, self.cases))

    @property
    def n_cases(self) -> int:
        """Different cases that were tested."""
        return len(np.unique(np.concatenate(self.cases)))

    def share(self, position: int) -> float:
        """Return cases tested over cases learned from in one result, validation counted as learned from.

        Parameters
        ----------
        position
            Of the result.
        """
        folds = self.folds[position]
        return share_tested([len(fold.test_indices) for fold in folds], [len(learned_from(fold)) for fold in folds])


def read_results(owner: str, given: object) -> tuple[list[KFoldResult], list[str]]:
    """Return results and names that tell them apart.

    Parameters
    ----------
    owner
        Whose argument it is.
    given
        A list of results, or of folders of runs; or names to these.

    Raises
    ------
    ConfigError
        If they are none, or fewer than two.
    """
    is_list = isinstance(given, Sequence) and not isinstance(given, (str, bytes, KFoldResult))
    if not is_list and not isinstance(given, Mapping):
        raise ConfigError(f"{owner}: results must be a list of KFoldResult or folders of runs, got {given!r:.200}")
    each = list(given.values() if isinstance(given, Mapping) else given)  # type: ignore[call-overload]
    if len(each) < 2:
        raise ConfigError(f"{owner}: at least two results can be compared, got {len(each)}")
    if wrong := [one for one in each if not isinstance(one, (KFoldResult, str, Path))]:
        raise ConfigError(f"{owner}: results must be KFoldResult or folders of runs, got {wrong[0]!r:.200}")
    results = [one if isinstance(one, KFoldResult) else KFoldResult.load(one) for one in each]
    names = list(map(str, given)) if isinstance(given, Mapping) else run_names(results)
    for name, result in zip(names, results, strict=True):
        if result.is_training:
            raise ConfigError(f"{owner}: {name} is a single training, which has no folds; compare cross-validations")
        if len(result.folds) < 2:
            raise ConfigError(f"{owner}: {name} has {len(result.folds)} finished fold(s); at least two are needed")
    return results, names


def align(results: Sequence[KFoldResult], names: Sequence[str]) -> Aligned:
    """Return results with their folds and cases in one order.

    Parameters
    ----------
    results
        At least two.
    names
        One for each.

    Raises
    ------
    DataError
        If folds, cases, their targets, names or groups differ; the message says where.
    """
    folds = tuple(tuple(sorted(result.folds, key=lambda fold: fold.fold)) for result in results)
    for name, result, own in zip(names[1:], results[1:], folds[1:], strict=True):
        pair = (names[0], name)
        found = [*_of_samples(results[0], result, pair), *_of_folds(folds[0], own, pair, result)]
        if not found:
            found = _of_targets(folds[0], own, pair)
        if found:
            raise DataError(f"{names[0]} and {name} are not over the same folds and cases: " + "; ".join(found))
    orders = tuple(tuple(np.argsort(fold.test_indices) for fold in own) for own in folds)
    cases = tuple(fold.test_indices[order] for fold, order in zip(folds[0], orders[0], strict=True))
    return Aligned(
        results=tuple(results), names=tuple(names), folds=folds, cases=cases, orders=orders,
        groups=next((np.asarray(result.groups) for result in results if result.groups is not None), None),
        caveats=tuple(_caveats(results, names, folds)),
    )  # fmt: skip


def _of_samples(first: KFoldResult, other: KFoldResult, pair: tuple[str, str]) -> list[str]:
    """Differences of the data sets."""
    found = []
    if first.n_samples != other.n_samples:
        return [f"{pair[0]} is over a data set of {first.n_samples:,} samples, {pair[1]} of {other.n_samples:,}"]
    if first.case_names is not None and other.case_names is not None:
        names = list(zip(first.case_names, other.case_names, strict=True))
        if different := [number for number, (one, two) in enumerate(names) if one != two]:
            one, two = names[different[0]]
            found.append(
                f"{len(different):,} cases have other names, the first of them is case {different[0]}, {one!r} in "
                f"{pair[0]} and {two!r} in {pair[1]}"
            )
    if first.groups is not None and other.groups is not None and not _same_groups(first, other):
        found.append("cases are in other groups")
    return found


def _same_groups(first: KFoldResult, other: KFoldResult) -> bool:
    """Return True if the tested cases are grouped alike, whatever the groups are called."""
    tested = first.oof.mask & other.oof.mask
    codes = [np.unique(np.asarray(one.groups)[tested], return_inverse=True)[1] for one in (first, other)]
    pairs = np.unique(np.stack(codes, axis=1), axis=0)
    return all(len(np.unique(pairs[:, place])) == len(pairs) for place in (0, 1))


def _of_folds(
    first: Sequence[FoldResult], other: Sequence[FoldResult], pair: tuple[str, str], result: KFoldResult
) -> list[str]:
    """Differences of the numbers of the folds, and of what they tested."""
    numbers = [{fold.fold for fold in folds} for folds in (first, other)]
    found = []
    for name, lacking in ((pair[1], numbers[0] - numbers[1]), (pair[0], numbers[1] - numbers[0])):
        if lacking:
            begun = lacking & {fold.fold for fold in result.unfinished} if name == pair[1] else set()
            more = ", which began and has not ended" if begun else ""
            found.append(f"{name} lacks fold {listed(sorted(lacking), LISTED)}{more}")
    of_other = {fold.fold: fold for fold in other}
    for fold in first:
        if fold.fold not in of_other:
            continue
        ours, theirs = (set(one.test_indices.tolist()) for one in (fold, of_other[fold.fold]))
        if ours != theirs:
            only = [
                f"{listed(sorted(cases), LISTED)} only by {name}"
                for cases, name in ((ours - theirs, pair[0]), (theirs - ours, pair[1]))
                if cases
            ]
            found.append(f"fold {fold.fold} tested cases {', '.join(only)}")
    n_more = len(found) - LISTED
    return found[:LISTED] + ([f"and {n_more} more differences"] if n_more > 0 else [])


def _of_targets(first: Sequence[FoldResult], other: Sequence[FoldResult], pair: tuple[str, str]) -> list[str]:
    """Differences of what was true."""
    for one, two in zip(first, other, strict=True):
        orders = [np.argsort(fold.test_indices) for fold in (one, two)]
        ours, theirs = (
            {".".join(map(str, key)): leaf for key, leaf in iterate_leaves(dict(fold.targets)) if _is_table(leaf, fold)}
            for fold in (one, two)
        )
        keys = [(key, key) for key in ours if key in theirs]
        if not keys and len(ours) == len(theirs) == 1:  # of backends that call it otherwise
            keys = list(zip(ours, theirs, strict=True))
        for mine, its in keys:
            values = [np.asarray(ours[mine])[orders[0]], np.asarray(theirs[its])[orders[1]]]
            if len({value.size for value in values}) > 1:  # one-hot in one of them
                continue
            rows = [value.reshape(len(value), -1) for value in values]
            different = np.flatnonzero(~_equal_rows(*rows))
            if len(different):
                case = int(one.test_indices[orders[0]][different[0]])
                return [
                    f"{mine!r} is another one for {len(different):,} cases of fold {one.fold}, the first of them is "
                    f"case {case}: {rows[0][different[0]].tolist()!s:.60} in {pair[0]}, "
                    f"{rows[1][different[0]].tolist()!s:.60} in {pair[1]}"
                ]
    return []


def _equal_rows(first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return which rows are equal, but for the precision of a float32."""
    if first.dtype.kind in "biuf" and other.dtype.kind in "biuf":
        return np.isclose(first.astype(float), other.astype(float), rtol=1e-5, atol=1e-6, equal_nan=True).all(axis=1)
    return np.asarray((first == other).all(axis=1))


def _is_table(leaf: object, fold: FoldResult) -> bool:
    """Return True for an array with a row of values for each case; of ragged ones nobody looks at the rows."""
    return isinstance(leaf, np.ndarray) and leaf.shape[:1] == fold.test_indices.shape and not leaf.dtype.hasobject


def _caveats(results: Sequence[KFoldResult], names: Sequence[str], folds: Sequence[Sequence[FoldResult]]) -> list[str]:
    """Sentences about what differs and can be lived with."""
    found = []
    for name, own in zip(names[1:], folds[1:], strict=True):
        different = [
            f"fold {one.fold} ({len(ours):,} cases and {len(theirs):,})"
            for one, two in zip(folds[0], own, strict=True)
            if not np.array_equal(ours := learned_from(one), theirs := learned_from(two))
        ]
        if different:
            where = listed(different, LISTED)
            found.append(f"{names[0]} and {name} learned from other cases in {where}: part of a difference may be that")
    marks = {name: dict(fingerprints(one)).get("data fingerprint") for name, one in zip(names, results, strict=True)}
    if len({mark for mark in marks.values() if mark}) > 1:
        told = "; ".join(f"{name}: {mark or 'not known'}" for name, mark in marks.items())
        found.append(f"the data are not the same to the bit (fingerprints: {told}); cases are matched by their numbers")
    without = [name for name, result in zip(names, results, strict=True) if result.groups is None]
    if 0 < len(without) < len(results):
        found.append(f"{listed(without, LISTED)} was not told of groups; those of the others are taken for all")
    for name, result in zip(names, results, strict=True):
        found += [f"{name}: {problem}" for problem in result.problems]
        if result.apparent is not None:
            found.append(
                f"{name} is a bootstrap: compared are the networks of its samples, tested on the cases outside them, "
                "and no .632+ estimates"
            )
        if result.unfinished:
            begun = listed([fold.fold for fold in result.unfinished], LISTED)
            found.append(f"{name} is not finished: fold {begun} began and has not ended, and does not count")
    return found
