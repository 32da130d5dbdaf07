"""One row of numbers per metric: spread over the folds, value over the tested cases, and an interval of one of both."""

import contextlib
import itertools
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, MissingKeyError
from delira.metrics.metric_set import evaluator
from delira.metrics.of_cases import CaseValues, case_values, is_mean_of_cases, statistic_of
from delira.metrics.per_class import OfClass, may_lack_values, mean_of_values
from delira.report import bootstrap
from delira.report.predictions import KFoldResult, Part, arrays_of, folds_of, rounds_of, target_of
from delira.report.stored_numbers import Keys, Stored, is_of_ones_own, read_rows, write_rows
from delira.runs.results import describe_guards
from delira.utils.arrays import iterate_leaves

_CLOSE = 1e-6


PATIENCE = 3.0
"""Nothing is said before."""


class Progress:
    """Says on standard error what is computed, if it takes longer than three seconds; on a terminal in one line.

    Examples
    --------
    >>> progress = Progress()
    >>> progress.tell("f1", 10, 2000)
    >>> progress.close()
    """

    def __init__(self) -> None:
        self._since = self._told = time.monotonic()
        self._is_open = False

    def tell(self, name: str, done: int, total: int) -> None:
        """So many of all evaluations of a metric are done."""
        now = time.monotonic()
        if now - self._told < PATIENCE:
            return
        self._told = now
        is_terminal = sys.stderr.isatty()
        text = f"interval of {name}: {done:,} of {total:,} evaluations, {now - self._since:.0f} s so far"
        sys.stderr.write(f"\r\x1b[K{text}" if is_terminal else f"{text}\n")
        sys.stderr.flush()
        self._is_open = is_terminal

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._is_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_open = False


class _Value(NamedTuple):
    """A metric over the cases of a round."""

    value: float
    cases: CaseValues | None
    """What it is the mean of, if that is known."""


def check_result(owner: str, result: object, *names: str) -> None:
    """Refuse what is no result of a cross-validation, and offers nothing of one.

    Parameters
    ----------
    owner
        Whose argument it is.
    result
        What was given.
    *names
        What it must offer.
    """
    if isinstance(result, type) or any(not hasattr(result, name) for name in ("folds", *names)):
        raise ConfigError(f"{owner}: result must be a KFoldResult, got {result!r:.200}")


def fold_values(result: KFoldResult) -> dict[str, np.ndarray]:
    """Metric name to its value in each fold, float64 of shape ``(n_folds,)``; of many values the mean."""
    names = list(result.folds[0].metrics) if result.folds else []
    partial = {name: is_partial(result, name) for name in names}
    return {
        name: np.array([mean_of_values(fold.metrics[name], partial[name]) for fold in result.folds], float)
        for name in names
    }


def is_partial(result: Any, name: str) -> bool:
    """Return True if a case may have no value of a metric: then it does not count in means."""
    return any(name in fold.partial for fold in result.folds) or may_lack_values((result.metrics or {}).get(name))


def is_of_class(result: Any, name: str) -> bool:
    """Return True for one class of a metric per class that is there, too."""
    metric = (result.metrics or {}).get(name)
    return isinstance(metric, OfClass) and metric.reads_as in result.folds[0].metrics


def summarise(result: KFoldResult) -> dict[str, dict[str, Any]]:
    """Summarise a cross-validation.

    Parameters
    ----------
    result
        With ``folds``, ``rounds``, ``metrics``, ``metric_keys``, ``groups``, ``without_intervals`` and ``seed`` of a
        ``KFoldResult``.

    Returns
    -------
    dict
        Metric name to ``mean`` and ``std`` (ddof 1) over folds, ``oof`` (value over the tested cases; of repeats the
        mean of theirs) and ``oof_std`` (over the repeats), ``pooled`` (whether the metric is no mean over cases, and
        ``oof`` is computed of several networks' cases: then the interval is that of ``mean``), ``ci_low`` and
        ``ci_high`` (95 %), ``n`` (cases), ``n_groups`` (or None), ``n_rounds``, ``n_folds`` (in which it is defined),
        ``undefined``: why not in others, ``note``: why a number is missing, or that cases were drawn within
        their classes, and ``has_oof``: whether ``oof`` was
        computed, be it NaN.
    """
    check_result("summarise", result, "rounds", "metrics", "seed")
    values = fold_values(result)
    if not values:
        return {}
    progress, folds = Progress(), folds_of(result)
    keys, stored, rounds = Keys(result, folds), read_rows(result.path), list[Part]()
    rows: dict[str, dict[str, Any]] = {}
    made: dict[str, Stored] = {}
    try:
        for name in values:
            key, metric = keys.of(name), (result.metrics or {}).get(name)
            if name in stored and _is_row_of(stored[name], key, keys, name, metric):
                rows[name] = stored[name].row
                continue
            rounds = rounds or rounds_of(result)
            rows[name] = _Row(result, name, folds, rounds, progress).numbers(values[name])
            if key is not None:
                is_sure = is_of_ones_own(metric) and _gives_again(result, name, folds, values[name])
                made[name] = Stored(key, rows[name], keys.of_unknown(name) if is_sure else None)
    finally:
        progress.close()
    if made:
        write_rows(result.path, {**stored, **made})
    return rows


def _is_row_of(stored: Stored, key: str | None, keys: Keys, name: str, metric: object) -> bool:
    """Return True if a row is that of a metric, by its function, or by its predictions where that is not at hand."""
    if key is not None:
        return stored.key == key
    return metric is None and stored.unknown is not None and stored.unknown == keys.of_unknown(name)


def _gives_again(result: Any, name: str, folds: Sequence[Part], values: np.ndarray) -> bool:
    """Return True if a function gives the values of the folds, so that it is the one that the run had."""
    evaluate = evaluator(result.metrics[name], name)
    try:
        with warnings.catch_warnings(action="ignore"):
            found = [evaluate(*arrays_of(result, name, part)) for part in folds]
    except Exception:  # a metric raises what it likes; its row says so
        return False
    return np.allclose(found, values, rtol=_CLOSE, atol=0, equal_nan=True)


class _Row:
    """The numbers of one metric."""

    def __init__(self, result: Any, name: str, folds: list[Part], rounds: list[Part], progress: Progress):
        self.is_partial = is_partial(result, name)
        # a case without a value is none that could be drawn
        rounds = _with_values(name, rounds) if self.is_partial else rounds
        self.result, self.name, self.folds, self.rounds, self.progress = result, name, folds, rounds, progress
        self.metric = (result.metrics or {}).get(name)
        self.is_mean = result.is_per_case(name) or (self.metric is not None and is_mean_of_cases(self.metric))
        self.is_pooled = self.metric is not None and not self.is_mean
        self.cases = np.unique(np.concatenate([np.empty(0, np.int64), *(part.cases for part in rounds)]))
        self.groups = None if result.groups is None else np.asarray(result.groups)[self.cases]
        self.whole = bootstrap.Resampling(len(self.cases), self.groups)

    def numbers(self, values: np.ndarray) -> dict[str, Any]:
        """Return the row; ``values`` are those of the folds."""
        undefined = undefined_folds(self.result, self.name, self.folds, values)
        defined = np.array(
            [value for part, value in zip(self.folds, values, strict=True) if part.folds[0].fold not in undefined]
        )
        found, trouble = self._rounds(defined)
        numbers = np.array([one.value for one in found])
        interval = self.whole.none(trouble) if trouble else self._interval(found, defined, undefined)
        return {
            "mean": float(np.mean(defined)) if len(defined) else np.nan,
            "std": _spread(defined),
            "oof": np.nan if trouble else _nan(float(np.mean(numbers))) if len(numbers) else np.nan,
            "oof_std": _spread(numbers) if len(self.rounds) > 1 else np.nan,
            "pooled": self.is_pooled and self.result.rounds.kind != "splits",  # each split is of one network
            "ci_low": _nan(interval.low),
            "ci_high": _nan(interval.high),
            "n": interval.n,
            "n_groups": interval.n_groups,
            "n_rounds": len(self.rounds),
            "n_folds": len(defined),
            "undefined": told(undefined, len(self.folds)),
            "note": interval.note,
            "has_oof": not trouble,
        }

    # -------------------------------------------------------------- values

    def _rounds(self, defined: np.ndarray) -> tuple[list[_Value], str]:
        """Return the value of each round, or why there is none."""
        if self.result.is_per_case(self.name):
            found = [CaseValues(part.per_case[self.name], None) for part in self.rounds]
            return [_Value(one.mean, one) for one in found], ""
        if self.metric is None:
            return [], "the function that computed it is not known here"
        if self.is_pooled and self.result.rounds.kind == "splits":
            return [_Value(float(value), None) for value in defined], ""
        try:
            # of classes that a fold lacks, which the row says
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                return [self._value(part) for part in self.rounds], ""
        except Exception as error:  # a metric raises what it likes; the other metrics shall still be shown
            return [], f"it could not be computed over all cases ({type(error).__name__}: {error})"

    def _value(self, part: Part) -> _Value:
        arrays = arrays_of(self.result, self.name, part)
        found = case_values(self.metric, arrays) if self.is_mean else None
        if found is not None and found.is_evaluated:
            return _Value(found.mean, found)
        value = evaluator(self.metric, self.name)(*arrays)
        is_same = found is not None and np.isclose(found.mean, value, rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
        return _Value(value, found if is_same else None)

    # -------------------------------------------------------------- intervals

    def _interval(self, found: Sequence[_Value], defined: np.ndarray, undefined: dict[int, str]) -> bootstrap.Interval:
        if self.result.without_intervals:
            return self.whole.none(self.result.without_intervals)
        if not len(self.cases):
            return self.whole.none("no case has a value")
        if undefined and not self.is_partial:
            return self.whole.none(f"it is not defined in {len(undefined)} of {len(self.folds)} folds")
        numbers = defined if self.is_pooled else np.array([one.value for one in found])
        if not np.isfinite(numbers).all() and all(one.cases is None for one in found):
            return self.whole.none(f"it is {'NaN' if np.isnan(numbers).any() else 'infinite'}")
        parts = self.folds if self.is_pooled else self.rounds
        within = self.is_pooled and self.result.rounds.is_once
        draws = bootstrap.Draws(parts, self.result.groups, self.result.seed or 0, within=within)
        if draws.note:
            return self.whole.none(draws.note)
        cases = [one.cases for one in found if one.cases is not None]
        if cases and len(cases) == len(found):
            return self._of_cases(draws, cases)
        interval = self._of_evaluations(draws)
        if np.isnan(interval.low) or interval.low - _CLOSE <= np.mean(numbers) <= interval.high + _CLOSE:
            return interval
        return self.whole.none(
            "draws are biased, as each holds fewer different cases than the data: their 95 % do not contain the value"
        )

    def _of_cases(self, draws: bootstrap.Draws, found: Sequence[CaseValues]) -> bootstrap.Interval:
        """By the values of the cases."""
        if len(found) == 1:
            return bootstrap.mean_interval(
                found[0].values, self.groups, self.result.seed or 0, weights=found[0].weights
            )
        for one in found:
            counted = one.values if one.weights is None else one.values[one.weights > 0]
            if not np.isfinite(counted).all():
                return self.whole.none(bootstrap.mean_interval(counted).note)
        return draws.interval([bootstrap.of_case_values(one) for one in found])

    def _of_evaluations(self, draws: bootstrap.Draws) -> bootstrap.Interval:
        """By the metric itself."""
        try:
            arrays = [arrays_of(self.result, self.name, part) for part in draws.parts]
        except MissingKeyError as error:
            return self.whole.none(f"it cannot be computed of draws ({error})")
        if (size := sum(map(bootstrap.n_bytes, arrays))) > bootstrap.RESAMPLING_LIMIT:
            return self.whole.none(
                f"its arrays ({size / 2**20:,.0f} MiB) are too large to be drawn 2,000 times; "
                "a metric over samples (delira.metrics.per_sample) has an interval at any size"
            )
        evaluate = evaluator(self.metric, self.name)
        done, total = itertools.count(1), bootstrap.N_DRAWS * len(draws.parts)

        def tell() -> None:
            # draws within classes begin again
            self.progress.tell(self.name, (next(done) - 1) % total + 1, total)

        if self.is_mean:
            return draws.interval([bootstrap.evaluated(tell, evaluate, each, None) for each in arrays])
        targets = [target_of(self.result, self.name, part) for part in draws.parts]
        classes = list(map(bootstrap.classes_of, targets, arrays))
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            statistics = [
                statistic_of(self.metric, each, evaluate) or bootstrap.evaluated(tell, evaluate, each, labels)
                for each, labels in zip(arrays, classes, strict=True)
            ]
        known = [labels for labels in classes if labels is not None]
        is_parted = self.result.draws_within_classes and len(known) == len(classes)
        fault = "lacks a class" if known else "has too few different cases"
        return draws.interval(statistics, fault, known if is_parted else None)


def _with_values(name: str, parts: Sequence[Part]) -> list[Part]:
    """Parts with the cases that have a value of a metric alone; without those that have no such case."""
    found = []
    for part in parts:
        values = part.per_case[name]
        has_value = ~np.isnan(values)
        if has_value.any():
            found.append(part._replace(cases=part.cases[has_value], values={}, per_case={name: values[has_value]}))
    return found


def _spread(values: np.ndarray) -> float:
    """Standard deviation; NaN of one value, or where one is not finite."""
    return float(np.std(values, ddof=1)) if len(values) > 1 and np.isfinite(values).all() else np.nan


def _nan(value: float) -> float:
    """Return the number; every NaN becomes the same object, so that equal rows compare equal."""
    return np.nan if np.isnan(value) else value


def undefined_folds(result: KFoldResult, name: str, parts: list[Part], values: np.ndarray) -> dict[int, str]:
    """Folds in which a metric is not defined, and why; a value that is NaN for another reason is not among them.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    name
        Of the metric.
    parts
        Its folds.
    values
        The value in each of them, shape ``(n_folds,)``.
    """
    if is_partial(result, name):
        without = [part for part, value in zip(parts, values, strict=True) if np.isnan(value)]
        return {part.folds[0].fold: "no case has a value" for part in without}
    if (result.metrics or {}).get(name) is None or result.is_per_case(name):
        return {}
    found = {}
    for part, value in zip(parts, values, strict=True):
        # entries that were not kept: then nobody knows
        with contextlib.suppress(Exception):
            if np.isnan(value) and (reason := _reason(result, name, part, parts)):
                found[part.folds[0].fold] = reason
    return found


def _reason(result: object, name: str, part: Part, parts: list[Part]) -> str:
    arrays = arrays_of(result, name, part)
    leaves = [leaf for array in arrays for _, leaf in iterate_leaves(array)]
    if any(leaf.dtype.kind in "fc" and not np.isfinite(leaf).all() for leaf in leaves):
        return ""  # the predictions are no numbers, and that is what the value says
    target = target_of(result, name, part)
    if not isinstance(target, np.ndarray) or target.dtype.hasobject:
        return ""
    if len(part.cases) < 2:
        return "only one case"
    rows = target.reshape(len(target), -1)
    if (rows == rows[0]).all():
        labels = bootstrap.classes_of(target, arrays)
        return "all targets are equal" if labels is None and rows.shape[1] == 1 else "only one class"
    everywhere = [np.unique(target_of(result, name, other)) for other in parts]
    lacking = sorted(set(np.concatenate(everywhere).tolist()) - set(np.unique(target).tolist()))
    return f"no case of class {lacking[0]}" if lacking and len(lacking) < 20 and rows.shape[1] == 1 else ""


def told(undefined: dict[int, str], n_folds: int) -> str:
    """One sentence about all folds in which a metric is not defined; empty if there is none."""
    if not undefined:
        return ""
    by_reason = {reason: [fold for fold in undefined if undefined[fold] == reason] for reason in undefined.values()}
    where = "; ".join(
        f"fold{'s' if len(folds) > 1 else ''} {', '.join(map(str, folds))}: {reason}"
        for reason, folds in by_reason.items()
    )
    n_left = n_folds - len(undefined)
    rest = f"mean and SD are over {n_left} of {n_folds} folds" if n_left else "so there is no mean"
    return f"not defined in {where}; {rest}"


MAX_LISTED = 10
_LENGTH = 16
"""Characters of a fingerprint that are shown."""


def caveats(result: Any) -> list[str]:
    """Sentences about a result: its own warnings, interruptions, what the guards did, and values that are not finite.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    return [*result.warnings, *_interruptions(_facts(result)[1]), *_guarded(result), *_not_finite(result)]


def of_numbers(result: Any) -> list[str]:
    """Sentences about metrics that are not defined in a fold, and about means of folds without an interval.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    found = []
    for name, row in result.summary().items():
        if row["undefined"]:
            found.append(f"{name} is {row['undefined']}")
        elif row["note"] and np.isnan(row["ci_low"]) and row["has_oof"] and not result.without_intervals:
            found.append(f"{name} has no interval: {row['note']}")
    if left := result.rounds.unfinished:
        numbers = ", ".join(str(fold.fold) for fold in left)
        found.append(
            f"Fold {numbers}: of a repeat that has not tested all cases; such folds count in mean and SD over folds, "
            "and not in out-of-fold values"
        )
    return found


def fingerprints(result: object) -> list[tuple[str, str]]:
    """Return what tells data and splits from others, as rows of (name, text); empty without a folder."""
    found = _facts(result)[0].get("fingerprint")
    if not isinstance(found, Mapping):
        return []
    return [(f"{name} fingerprint", str(found[name])[:_LENGTH]) for name in ("data", "splits") if found.get(name)]


def _facts(result: Any) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """Manifest and ledger of the run, as far as there is one."""
    if result.path is None:
        return {}, ()
    from delira.runs.stored_run import read_facts

    return read_facts(Path(result.path))


def _interruptions(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences about the ledger of the run: it was continued, and with what changes."""
    resumed = [event for event in events if event["event"] == "resumed"]
    if not resumed:
        return []
    endings = (str(event.get("error", "")) for event in events if event["event"] == "broken_off")
    errors = dict.fromkeys(error.removesuffix(": ") for error in endings)  # Ctrl-C may come without words
    why = f" (broken off by {'; '.join(filter(None, [*errors][:3]))})" if any(errors) else ""
    times = "once" if len(resumed) == 1 else f"{len(resumed)} times"
    found = [f"The run was interrupted and continued {times}{why}."]
    for told, entry in (("It was continued with changes", "changes"), ("When it was continued", "remarks")):
        lists = [event[entry] for event in resumed if isinstance(event.get(entry), list)]
        if lines := dict.fromkeys(str(line) for lines in lists for line in lines):
            found.append(f"{told}: {'; '.join(lines)}")
    return found


def _place(result: Any, fold: Any) -> str:
    """Which fold a clause is about; a single training has none."""
    return "" if result.is_training else f"Fold {fold.fold}: "


def _guarded(result: Any) -> list[str]:
    """Sentences about folds in which updates were left out, or that went back to a checkpoint."""
    folds = [fold for fold in (*result.folds, *result.unfinished) if fold.guards]
    return _shortened([_place(result, fold) + clause for fold in folds for clause in describe_guards(fold.guards)])


def _not_finite(result: Any) -> list[str]:
    """Sentences about epochs and folds whose values are not finite."""
    found = []
    for fold in result.folds:
        bad: dict[str, list[Any]] = {}
        for position, entry in enumerate(fold.history):
            for key, value in entry.items():
                if value is not None and not np.all(np.isfinite(np.asarray(value, dtype=float))):
                    bad.setdefault(key, []).append(entry.get("epoch", position + 1))
        for key, epochs in bad.items():
            of = f"{len(epochs)} of {len(fold.history)} epochs, first in epoch {epochs[0]}"
            found.append(f"{_place(result, fold)}{key} is not finite in {of}")
    summary = result.summary()
    for name, values in fold_values(result).items():
        folds = [str(fold.fold) for fold, value in zip(result.folds, values, strict=True) if not np.isfinite(value)]
        if folds and not summary[name]["undefined"]:
            found.append(f"{name} is not finite in fold {', '.join(folds)}, so its mean and spread are no numbers")
    return _shortened(found)


def _shortened(found: list[str]) -> list[str]:
    n_more = len(found) - MAX_LISTED
    return found[:MAX_LISTED] + ([f"and {n_more} more of this kind"] if n_more > 0 else [])
