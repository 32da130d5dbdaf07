"""What may be said of a comparison, and what may not, in sentences."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from delira.comparison.outcomes import Outcome
from delira.comparison.pairs import Difference
from delira.comparison.tests_of_folds import CORRECTED, Posterior
from delira.errors import listed
from delira.report.table import number_format

SURE = 0.95
"""Probability from which on two results are called practically equal."""


class Setting(NamedTuple):
    """What the sentences about one difference rest on."""

    n_folds: int
    n_pairs: int
    """Comparisons that p-values of one metric are corrected over."""
    alpha: float


def p_text(p_value: float) -> str:
    """Write a p-value: ``"0.0123"``, ``"< 0.0001"``."""
    return "–" if np.isnan(p_value) else "< 0.0001" if p_value < 1e-4 else f"{p_value:.4f}"


def share_text(share: float) -> str:
    """Write a probability, never as 0 or 1."""
    if np.isnan(share):
        return "–"
    return "< 0.001" if share < 5e-4 else "> 0.999" if share >= 0.9995 else f"{share:.3f}"


def signed(values: Sequence[float]) -> Callable[[float], str]:
    """One way of writing all of these differences, with their signs."""
    write = number_format(values)
    return lambda value: "–" if np.isnan(value) else f"{'−' if value < 0 else '+'}{write(abs(value))}"


def sentences_of(found: Difference, setting: Setting) -> list[str]:
    """Return what may be said of one difference, and what may not.

    Parameters
    ----------
    found
        The difference.
    setting
        Folds, comparisons and level.
    """
    if found.is_identical:
        return [
            f"{found.second} and {found.first} have the same {found.metric} in every fold"
            f"{' and for every case' if found.cases is not None else ''}: there is nothing to test."
        ]
    if np.isnan(found.mean):
        return [f"{found.metric} is defined in no fold of both {found.second} and {found.first}: nothing to compare."]
    told = [_difference(found, setting), _t_test(found, setting)]
    told += _disagreement(found, setting)
    told += _equality(found, setting)
    told += [f"No {test.name} test: {test.note}." for test in _others(found) if np.isnan(test.p_value)]
    return [sentence for sentence in [*told, *(f"{found.metric} is {note}." for note in found.notes)] if sentence]


def _difference(found: Difference, setting: Setting) -> str:
    interval = found.interval
    write = signed([found.mean, interval.low, interval.high])
    size, units = write(found.mean)[1:], interval.n_groups
    over = f"{interval.n:,} cases" if units is None else f"{units:,} groups with {interval.n:,} cases"
    if interval.note:
        how = f"no bootstrap interval: {interval.note}"
    else:
        how = (
            f"{100 * found.level:g} % interval {write(interval.low)} to {write(interval.high)}, paired bootstrap over "
            f"{over}"
        )
    folds = f"On these {setting.n_folds} folds"
    if not found.mean:
        return f"{folds} {found.second} and {found.first} have the same mean {found.metric} ({how})."
    way, worth = "higher" if found.mean > 0 else "lower", "better" if found.is_better else "worse"
    return f"{folds} {found.second} is {size} {way} in {found.metric} than {found.first}, which is {worth} ({how})."


def _is_shown(test: Outcome, alpha: float) -> bool:
    return test.final < alpha


def _t_test(found: Difference, setting: Setting) -> str:
    test = found.tests[CORRECTED]
    if np.isnan(test.p_value):
        return f"No corrected t-test: {test.note}; that methods differ which are trained anew cannot be shown by it."
    p_value = p_text(test.p_value)
    told = f"The corrected t-test gives p {p_value if p_value[0] == '<' else f'= {p_value}'}"
    if not np.isnan(test.adjusted):
        told += f", {p_text(test.adjusted)} after Holm's correction over {setting.n_pairs} comparisons"
    if _is_shown(test, setting.alpha):
        return f"{told}: at the level of {setting.alpha:g} a difference of the methods is shown, on data like these."
    return f"{told}: with {len(found.folds)} folds that share training data, a difference is not shown."


def _disagreement(found: Difference, setting: Setting) -> list[str]:
    """A sentence where the interval over cases says another thing than the test over folds."""
    test, interval = found.tests[CORRECTED], found.interval
    if interval.note or np.isnan(test.p_value):
        return []
    leaves_zero_out = not interval.low <= 0 <= interval.high
    if leaves_zero_out and not _is_shown(test, setting.alpha):
        return [
            "The interval leaves 0 out, and is of these trained models alone: on such cases they differ; that "
            "models which are trained anew would differ in the same way is not shown."
        ]
    if not leaves_zero_out and _is_shown(test, setting.alpha):
        return ["The interval holds 0: that these trained models differ on other cases is not shown."]
    return []


def _equality(found: Difference, setting: Setting) -> list[str]:
    if found.posterior is None:
        return ["It may not be said that they are equal."] if found.tests else []
    told = probabilities(found, found.posterior)
    if found.posterior.inside >= SURE:
        return [f"By the Bayesian correlated t-test they are practically equal: {told}."]
    if _is_shown(found.tests[CORRECTED], setting.alpha):
        return [f"Whether it matters is another question: {told}."]
    return [f"It may not be said that they are equal: {told}."]


def probabilities(found: Difference, posterior: Posterior) -> str:
    """Return the three probabilities of the Bayesian correlated t-test in words.

    Parameters
    ----------
    found
        The difference.
    posterior
        Its posterior.
    """
    rope = posterior.rope

    def told(share: float) -> str:
        text = share_text(share)
        return text if text[0] in "<>" else f"= {text}"

    return (
        f"P(practically equal, within ±{rope:g}) {told(posterior.inside)}, P({found.second} better) "
        f"{told(found.p_better)}, P({found.first} better) {told(found.p_worse)}"
    )


def _others(found: Difference) -> list[Outcome]:
    """The tests beside the corrected t-test."""
    return [test for name, test in found.tests.items() if name != CORRECTED]


def about_all(differences: Sequence[Difference], setting: Setting, caveats: Sequence[str]) -> list[str]:
    """Return what is to be said of a whole comparison.

    Parameters
    ----------
    differences
        Of all pairs and metrics.
    setting
        Folds, comparisons and level.
    caveats
        What differs between the results.
    """
    n_metrics = len({one.metric for one in differences})
    made = [test for one in differences for test in one.tests.values() if not np.isnan(test.p_value) and test.note]
    limits = dict.fromkeys(f"{test.name}: {test.note}." for test in made)
    told = [f"{caveat[0].upper()}{caveat[1:]}." for caveat in caveats]
    if setting.n_pairs > 1:
        told.append(
            f"P-values are corrected over the {setting.n_pairs} comparisons of a metric (Holm); intervals and "
            "probabilities are of one comparison each."
        )
    if n_metrics > 1:
        told.append(
            f"P-values are not corrected over the {n_metrics} metrics: the one that decides is chosen before the "
            "numbers are seen."
        )
    return [*told, *limits, "All of this is of one data set. That a method is better on others is not shown by it."]


# ------------------------------------------------------------------ many data sets


class Ranking(NamedTuple):
    """What the sentences about many data sets rest on."""

    methods: Sequence[str]
    mean_ranks: np.ndarray
    """Shape ``(n_methods,)``."""
    p_values: np.ndarray
    """Of Nemenyi's test, shape ``(n_methods, n_methods)``."""
    tests: Mapping[str, Outcome]
    """Those of all methods at once: the last one counts."""
    n_datasets: int
    alpha: float


def sentences_of_ranks(found: Ranking, metric: str) -> list[str]:
    """Return what may be said of ranks over many data sets, and what may not.

    Parameters
    ----------
    found
        Ranks and tests.
    metric
        Its name.
    """
    order = np.argsort(found.mean_ranks, kind="stable")
    ranked = ", ".join(f"{found.methods[place]} {found.mean_ranks[place]:.2f}" for place in order)
    told = [f"Mean ranks in {metric} over {found.n_datasets} data sets, 1 is the best: {ranked}."]
    test = [*found.tests.values()][-1]
    if np.isnan(test.p_value):
        return [*told, f"No {test.name} test: {test.note}."]
    p_value = p_text(test.p_value)
    result = f"The {test.name} test gives p {p_value if p_value[0] == '<' else f'= {p_value}'}"
    if test.p_value >= found.alpha:
        return [*told, f"{result}: that the methods differ is not shown. It may not be said that they are equal."]
    told.append(f"{result}: at the level of {found.alpha:g} the methods are not all alike.")
    if len(found.methods) < 3:
        return told
    shown = [
        f"{found.methods[one]} over {found.methods[two]} (p = {p_text(found.p_values[one, two])})".replace("= <", "<")
        for at, one in enumerate(order)
        for two in order[at + 1 :]
        if found.p_values[one, two] < found.alpha
    ]
    if shown:
        told.append(f"Nemenyi's test shows a better rank of {listed(shown, 10, '; and ')}.")
    else:
        told.append("Nemenyi's test shows no single pair.")
    return [
        *told,
        "Of pairs that it does not show it may not be said that they are equal. Ranks say how often a method is ahead, "
        "not by how much.",
    ]
