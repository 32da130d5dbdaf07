"""Tables of a comparison: differences, tests, effect sizes, values of folds and of cases."""

import textwrap
from collections.abc import Sequence

import numpy as np

from delira.comparison.pairs import Difference
from delira.comparison.tests_of_folds import CORRECTED
from delira.comparison.words import p_text, share_text, signed
from delira.report.table import (
    DASH,
    WIDTH,
    Right,
    Table,
    number_format,
)


def row_name(found: Difference) -> str:
    """Return what the row of a difference is called: metric, second result, first result."""
    return f"{found.metric}: {found.label}"


def differences_table(differences: Sequence[Difference], is_short: bool = False) -> Table:
    """Return one row for each difference, with its interval and what the corrected t-test and the posterior say.

    Parameters
    ----------
    differences
        At least one.
    is_short
        Whether to leave the probabilities of the posterior out.
    """
    header = ["difference", "mean", f"{100 * differences[0].level:g} % interval", "p"]
    header += [] if is_short else ["P(worse)", "P(equal)", "P(better)"]
    rows = []
    for one in differences:
        write = signed([one.mean, one.interval.low, one.interval.high])
        has_interval = np.isfinite(one.interval.low)
        interval = f"{write(one.interval.low)} to {write(one.interval.high)}" if has_interval else DASH
        test = one.tests.get(CORRECTED)
        p_value = "identical" if one.is_identical else DASH if test is None else p_text(test.final)
        shares = (one.p_worse, np.nan if one.posterior is None else one.posterior.inside, one.p_better)
        cells = [write(one.mean), interval, p_value, *([] if is_short else map(share_text, shares))]
        rows.append([row_name(one), *map(Right, cells)])
    return Table("differences", header, rows)


def tests_table(differences: Sequence[Difference]) -> Table:
    """Return one row for each test of each difference.

    Parameters
    ----------
    differences
        At least one.
    """
    is_adjusted = any(not np.isnan(test.adjusted) for one in differences for test in one.tests.values())
    header = ["difference", "test", "statistic", "p", *(["p (Holm)"] if is_adjusted else [])]
    rows = []
    for one in differences:
        for test in one.tests.values():
            statistic = DASH if np.isnan(test.statistic) else f"{test.statistic:.4g}"
            cells = [statistic, p_text(test.p_value), *([p_text(test.adjusted)] if is_adjusted else [])]
            rows.append([row_name(one), test.name, *map(Right, cells)])
    return Table("tests", header, rows)


def effects_table(differences: Sequence[Difference]) -> Table:
    """Return one row for each effect size of each difference.

    Parameters
    ----------
    differences
        At least one.
    """
    rows = [
        [row_name(one), name, Right(DASH if np.isnan(value) else f"{value:.3f}")]
        for one in differences
        for name, value in one.effects.items()
    ]
    return Table("effect_sizes", ["difference", "effect size", "value"], rows)


def folds_table(
    metric: str, names: Sequence[str], numbers: Sequence[int], values: np.ndarray, pairs: Sequence[tuple[int, int]]
) -> Table:
    """Return one row for each fold: the values of all results, and the differences of pairs; then the means.

    Parameters
    ----------
    metric
        Its name.
    names
        Of the results.
    numbers
        Of the folds.
    values
        Shape ``(n_results, n_folds)``.
    pairs
        Numbers of the results of each difference, the second minus the first.
    """
    differences = [values[second] - values[first] for first, second in pairs]
    write = number_format([value for value in values.ravel().tolist() if np.isfinite(value)])
    write_signed = signed([*np.ravel(differences).tolist()] if differences else [0.0])
    header = [metric, *names, *(f"{names[second]} − {names[first]}" for first, second in pairs)]

    def row(name: str, plain: Sequence[float], of_pairs: Sequence[float]) -> list[str]:
        cells = [DASH if np.isnan(value) else write(value) for value in plain]
        return [name, *map(Right, [*cells, *map(write_signed, of_pairs)])]

    rows = [
        row(f"fold {number}", values[:, place].tolist(), [each[place] for each in differences])
        for place, number in enumerate(numbers)
    ]
    defined = np.isfinite(values).all(axis=0)
    if defined.any():
        means = [float(each[defined].mean()) for each in differences]
        rows.append(row("mean", values[:, defined].mean(axis=1).tolist(), means))
    return Table(f"{metric} of each fold", header, rows, n_last=int(defined.any()))


def filled(text: str) -> str:
    """Return a text in lines of the width of a terminal."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
