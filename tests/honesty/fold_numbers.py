"""The numbers of a cross-validation once more: plain numpy, from splits and stored scores, by docs/numbers.md."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from fold_problems import METRICS, Problem, handed

N_DRAWS = 4000
"""Ours; the library draws 2,000 times."""
N_THEIRS = 2000
STANDARD_ERRORS = 4.0
TAIL = 0.025
MIN_UNITS = 5

Table = np.ndarray
"""How often each case was drawn, of shape ``(draws, n)``."""

# ------------------------------------------------------------------ metrics of weighted cases


def _divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """A quotient, not a number where nothing is below the line."""
    return np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0)


def mean(counts: Table, values: np.ndarray) -> np.ndarray:
    """The mean of values of cases."""
    return _divided(counts @ values, counts.sum(1).astype(float))


def rmse(counts: Table, true: np.ndarray, pred: np.ndarray) -> np.ndarray:
    return np.sqrt(mean(counts, (true - pred) ** 2))


def r2(counts: Table, true: np.ndarray, pred: np.ndarray) -> np.ndarray:
    """Not a number where all targets are equal."""
    centre = mean(counts, true)
    spread = (counts * (true - np.nan_to_num(centre)[:, None]) ** 2).sum(1)
    return 1 - _divided(counts @ (true - pred) ** 2, np.where(spread > 1e-9, spread, 0.0))


def auc(counts: Table, true: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The share of pairs of a positive and a negative case that are in the right order, of equal scores half."""
    above, below = counts * (true == 1), counts * (true == 0)
    order = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    return _divided(((above @ order) * below).sum(1), (above.sum(1) * below.sum(1)).astype(float))


def ap(counts: Table, true: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The precision at the threshold of each positive case, averaged over positive cases."""
    is_seen = score >= score[:, None]  # threshold x case
    hits, seen = counts @ (is_seen & (true == 1)).T, counts @ is_seen.T
    precision = np.nan_to_num(_divided(hits.astype(float), seen.astype(float)))
    positive = counts * (true == 1)
    found = _divided((precision * positive).sum(1), positive.sum(1).astype(float))
    has_both = len(np.unique(true)) == 2
    return np.where(has_both & ((counts * (true == 0)).sum(1) == 0), np.nan, found)  # a draw that lacks a class


def bacc(counts: Table, true: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """The mean of the shares of hits in each class that there is."""
    is_hit = logits.argmax(1) == true
    shares = [mean(counts * (true == label), is_hit.astype(float)) for label in np.unique(true)]
    return np.mean(shares, axis=0)


#: metrics that are means over cases: the value of each case
OF_CASES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "accuracy": lambda true, pred: (pred.argmax(1) == true).astype(float),
    "off": lambda true, pred: np.abs(true - pred),
    "mae": lambda true, pred: np.abs(true - pred),
}
OTHERS: dict[str, Callable[[Table, np.ndarray, np.ndarray], np.ndarray]] = {
    "rmse": rmse, "r2": r2, "auc": auc, "ap": ap, "bacc": bacc,
}  # fmt: skip


_EMPTY, _EQUAL, _LACKING = "has no case of one of the folds", "has too few different cases", "lacks a class"
#: what may be wrong with a draw
FAULTS = {
    **{name: {_EMPTY} for name in (*OF_CASES, "rmse")},
    "r2": {_EMPTY, _EQUAL},
    **{name: {_EMPTY, _LACKING} for name in ("auc", "ap", "bacc")},
}


def statistic(name: str, counts: Table, true: np.ndarray, pred: np.ndarray) -> np.ndarray:
    """Any of the metrics on draws of cases, of shape ``(draws,)``."""
    if name in OF_CASES:
        return mean(counts, OF_CASES[name](true, pred))
    return OTHERS[name](counts, true, pred)


def value(name: str, true: np.ndarray, pred: np.ndarray) -> float:
    """A metric of cases that count once each."""
    return float(statistic(name, np.ones((1, len(true)), int), true, pred)[0])


# ------------------------------------------------------------------ rounds


@dataclass(frozen=True)
class Part:
    """Cases that were tested together."""

    folds: tuple[int, ...]
    cases: np.ndarray
    true: np.ndarray
    pred: np.ndarray

    @staticmethod
    def joined(parts: Sequence["Part"]) -> "Part":
        return Part(
            tuple(fold for part in parts for fold in part.folds),
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("cases", "true", "pred")),
        )


def in_rounds(tests: Sequence[np.ndarray]) -> tuple[str, list[list[int]]]:
    """Whether cases are tested once, in repeats of all, or unequally often; and the folds of each round."""
    times = np.bincount(np.concatenate(tests))
    if times.max() == 1:
        return "once", [[*range(len(tests))]]
    tested, rounds, seen = set(np.flatnonzero(times).tolist()), [[]], set()
    for fold, test in enumerate(tests):
        cases = set(test.tolist())
        if seen & cases:
            return "splits", [[fold] for fold in range(len(tests))]
        seen |= cases
        rounds[-1].append(fold)
        if seen == tested:
            rounds.append([])
            seen = set()
    return ("repeats", rounds[:-1]) if not seen else ("splits", [[fold] for fold in range(len(tests))])


# ------------------------------------------------------------------ a row of the summary


@dataclass(frozen=True)
class Row:
    """What docs/numbers.md says of one metric of a cross-validation of which all folds are there."""

    name: str
    problem: Problem
    epochs: Sequence[int] | None = None
    """From 0, with whose weights each fold was tested; None: the first."""
    numbers: Sequence[int] | None = None
    """Folds that were run; None: all."""
    seed: int = field(default=0)

    @cached_property
    def folds(self) -> list[Part]:
        _, target, output = METRICS[self.name]
        arrays, splits = self.problem.arrays, self.problem.splits
        epochs = self.epochs or [0] * len(splits)
        found = []
        for fold in range(len(splits)) if self.numbers is None else self.numbers:
            test = splits[fold][1]
            pred = handed(arrays["data"][test], epochs[fold], fold)[output]
            found.append(Part((fold,), test, arrays[target][test], pred))
        return found

    @cached_property
    def _rounds(self) -> tuple[str, list[list[int]]]:
        return in_rounds([part.cases for part in self.folds])

    @property
    def kind(self) -> str:
        return self._rounds[0]

    @cached_property
    def rounds(self) -> list[Part]:
        return [Part.joined([self.folds[position] for position in positions]) for positions in self._rounds[1]]

    @property
    def is_pooled(self) -> bool:
        return self.name in OTHERS

    @property
    def is_of_several(self) -> bool:
        """Whether its out-of-fold value is computed of cases of several networks; a split has one."""
        return self.is_pooled and self.kind != "splits"

    @cached_property
    def values(self) -> np.ndarray:
        """Of the folds."""
        return np.array([value(self.name, part.true, part.pred) for part in self.folds])

    @property
    def undefined(self) -> list[int]:
        """Numbers of the folds in which the metric is not defined: no prediction here is NaN."""
        return [part.folds[0] for part, found in zip(self.folds, self.values, strict=True) if np.isnan(found)]

    @cached_property
    def of_rounds(self) -> np.ndarray:
        """The value of each round; of unequally tested cases those of the folds in which there is one."""
        if self.kind == "splits":
            return self.values[~np.isnan(self.values)] if self.is_pooled else self.values
        return np.array([value(self.name, part.true, part.pred) for part in self.rounds])

    @cached_property
    def cases(self) -> np.ndarray:
        return np.unique(np.concatenate([part.cases for part in self.folds]))

    def units(self, cases: np.ndarray) -> np.ndarray:
        """Groups of some cases, or the cases themselves."""
        return cases if self.problem.groups is None else self.problem.groups[cases]

    @property
    def exact(self) -> dict[str, Any]:
        """The numbers that nothing random is in."""
        defined = self.values[~np.isnan(self.values)]
        return {
            "mean": np.mean(defined) if len(defined) else np.nan,
            "std": np.std(defined, ddof=1) if len(defined) > 1 else np.nan,
            "oof": np.mean(self.of_rounds) if len(self.of_rounds) else np.nan,
            "oof_std": np.std(self.of_rounds, ddof=1) if len(self.of_rounds) > 1 else np.nan,
            "pooled": self.is_of_several,
            "n": len(self.cases),
            "n_groups": None if self.problem.groups is None else len(np.unique(self.units(self.cases))),
            "n_rounds": len(self.rounds),
            "n_folds": len(defined),
            "has_oof": True,
        }

    # -------------------------------------------------------------- intervals

    @property
    def reason(self) -> str:
        """Why there is no interval before anything is drawn, as a pattern; empty if nothing speaks against one."""
        if self.undefined:
            return rf"^it is not defined in {len(self.undefined)} of {len(self.folds)} folds$"
        n_units, unit = len(np.unique(self.units(self.cases))), "case" if self.problem.groups is None else "group"
        if n_units < MIN_UNITS:
            return rf"^there (is only 1 {unit}|are only {n_units} {unit}s, fewer than 5)$"
        parts = self.folds if self.is_pooled else self.rounds
        counts = [len(np.unique(self.units(part.cases))) for part in parts]
        if len(parts) > 1 and min(counts) < MIN_UNITS:
            few = next(position for position, count in enumerate(counts) if count < MIN_UNITS)
            one = rf"fold {parts[few].folds[0]} holds only {counts[few]} {unit}s?, fewer than 5"
            every = f"every fold holds fewer than 5 {unit}s"
            return f"^{every if max(counts) < MIN_UNITS else one}, too few to draw from$"
        return ""

    @cached_property
    def estimates(self) -> np.ndarray:
        """Of our own draws, which come from a generator and in a way of our own."""
        generator = np.random.default_rng([self.seed, 77])

        def drawn(cases: np.ndarray) -> Table:
            names, members = np.unique(self.units(cases), return_inverse=True)
            return generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=N_DRAWS)[:, members]

        parts = self.folds if self.is_pooled else self.rounds
        if self.kind == "once":
            tables = [drawn(part.cases) for part in parts]
        else:
            whole = np.zeros((N_DRAWS, self.problem.n), int)
            whole[:, self.cases] = drawn(self.cases)
            tables = [whole[:, part.cases] for part in parts]
        found = [statistic(self.name, table, part.true, part.pred) for table, part in zip(tables, parts, strict=True)]
        return np.mean(found, axis=0)

    @property
    def centre(self) -> float:
        """Of what the interval is."""
        return float(self.exact["mean" if self.is_pooled else "oof"])

    def check_interval(self, low: float, high: float, note: str) -> None:
        """An interval, or its absence, is what our draws say, but for the chance in theirs and ours."""
        where = f"{self.name}: [{low}, {high}], {note!r}"
        assert np.isnan(low) == np.isnan(high) == bool(note), where
        if self.reason:
            assert re.search(self.reason, note), f"{where}, not {self.reason}"
            return
        missing = np.isnan(self.estimates)
        share = missing.mean()
        if told := re.fullmatch(r"([\d,]+) of 2,000 draws have no value, as a draw that (.*)", note):
            assert told.group(2) in FAULTS[self.name], where
            n_theirs = int(told.group(1).replace(",", ""))
            of_both = (n_theirs + missing.sum()) / (N_THEIRS + N_DRAWS)
            spread = np.sqrt(of_both * (1 - of_both) * (1 / N_THEIRS + 1 / N_DRAWS))
            assert abs(n_theirs / N_THEIRS - share) <= STANDARD_ERRORS * spread, f"{where}, of ours {share:.2%}"
            return
        assert share < 0.005, f"{where}, though {share:.2%} of our draws have no value"
        found, far = np.sort(self.estimates[~missing]), 1e-6 + 1e-6 * abs(self.centre)
        near = STANDARD_ERRORS * np.sqrt(TAIL * (1 - TAIL) * (1 / N_THEIRS + 1 / N_DRAWS))
        outer, inner = (
            np.quantile(found, [TAIL - near, 1 - TAIL + near]),
            np.quantile(found, [TAIL + near, 1 - TAIL - near]),
        )
        if note:
            assert "draws are biased" in note, where
            assert self.is_pooled, where
            assert not inner[0] + far < self.centre < inner[1] - far, f"{where} contains {self.centre}"
            return
        assert outer[0] - far <= low <= inner[0] + far, f"{where}, of ours between {outer[0]} and {inner[0]}"
        assert inner[1] - far <= high <= outer[1] + far, f"{where}, of ours between {inner[1]} and {outer[1]}"
        assert low - far <= self.centre <= high + far, f"{where} does not contain {self.centre}"


# ------------------------------------------------------------------ what is printed

_CELL = r"-?[\d.]+(?:e[+-]\d+)?|nan"
_NUMBER = re.compile(_CELL)


def is_written(text: str, number: float) -> bool:
    """Whether a text is this number, rounded to its last digit."""
    if np.isnan(number):
        return text in ("–", "nan")
    if not _NUMBER.fullmatch(text) or text == "nan":
        return False
    digits, _, exponent = text.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return bool(abs(float(text) - number) <= 0.5 * unit * (1 + 1e-6))


def blocks(text: str) -> list[list[list[str]]]:
    """The tables of a printed result: rows of cells."""
    found: list[list[list[str]]] = []
    lines = text.splitlines()
    for position, line in enumerate(lines):
        if re.fullmatch(r"-{10,}", line):
            rows = [lines[position - 1]]
            rows += list(
                lines[position + 1 : next(i for i in range(position, len(lines) + 1) if not "".join(lines[i : i + 1]))]
            )
            found.append([re.split(r" {3,}", row.strip()) for row in rows])
    return found
