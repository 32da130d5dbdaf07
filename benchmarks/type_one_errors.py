"""How often the tests of ``delira.compare`` find a difference where there is none, at the level of 0.05.

    python benchmarks/type_one_errors.py            # 2,000 comparisons of each kind, about twenty minutes on one core
    python benchmarks/type_one_errors.py -n 200     # fewer

Prints the tables of docs/comparing.md. Every comparison is of fresh data. Two methods are equally good by construction:
each is a linear discriminant on ten features of its own, which tell as much of the label as those of the other. In
"trained" they are cross-validated; in "fixed" they are not trained at all (the best weights are given to both), so that
two networks are equally good, and not only two methods.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import stats

from delira.comparison.auroc import delong_areas, delong_test
from delira.comparison.many import cliques, critical_difference, friedman_test, holm, ranks_of
from delira.comparison.tests_of_cases import OfCases, mcnemar_test, paired_bootstrap, scores_bootstrap
from delira.comparison.tests_of_folds import (
    corrected_t_test,
    naive_t_test,
    posterior_of_difference,
    wilcoxon_test,
)
from delira.metrics import AurocMetric
from delira.metrics.of_cases import statistic_of
from delira.report.bootstrap import Resampling, Stratum, strata_of

N_CASES, N_FEATURES, SHIFT, ROPE, LEVEL = 200, 10, 0.28, 0.01, 0.05
AT_ONCE = 100


class Simulated(NamedTuple):
    """Comparisons under the null: labels, what each method says of each case in each repeat, and the folds."""

    labels: np.ndarray
    """(simulations, cases)"""
    scores: np.ndarray
    """(methods, simulations, repeats, cases): above 0 for class 1"""
    fold: np.ndarray
    """(repeats, cases)"""
    groups: np.ndarray | None


def draw(
    generator: np.random.Generator, n: int, n_cases: int, n_methods: int, group_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n, cases) and features (methods, n, cases, features), which the groups share in part."""
    labels = np.tile((np.arange(n_cases // group_size) % 2).repeat(group_size), (n, 1))
    shape = (n_methods, n, n_cases, N_FEATURES)
    noise = generator.normal(size=shape)
    if group_size > 1:
        of_group = generator.normal(size=(n_methods, n, n_cases // group_size, N_FEATURES))
        noise = np.sqrt(0.5) * (noise + of_group.repeat(group_size, axis=2))
    return labels, noise + SHIFT * (2 * labels - 1)[None, :, :, None]


def discriminant(features: np.ndarray, labels: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Scores (n, cases) of Fisher's linear discriminant, learned from the cases of a part."""
    x, y = features[:, train], labels[:, train].astype(float)
    sizes = np.stack([(1 - y).sum(axis=1), y.sum(axis=1)])[..., None]
    means = np.stack([np.einsum("nc,ncf->nf", 1 - y, x), np.einsum("nc,ncf->nf", y, x)]) / sizes
    centred = x - np.where(y[..., None] > 0, means[1][:, None], means[0][:, None])
    covariance = np.einsum("ncf,ncg->nfg", centred, centred) / (len(train) - 2)
    weights = np.linalg.solve(covariance + 1e-6 * np.eye(N_FEATURES), (means[1] - means[0])[..., None])
    middle = ((means[0] + means[1]) / 2)[:, None]
    return ((features - middle) @ weights)[..., 0]


def simulate(  # noqa: PLR0913 - one line for each kind of comparison
    seed: int,
    n: int,
    n_folds: int,
    *,
    n_cases: int = N_CASES,
    repeats: int = 1,
    trained: bool = True,
    group_size: int = 1,
    n_methods: int = 2,
) -> Iterator[Simulated]:
    """Comparisons of methods that are equally good, some at a time."""
    generator = np.random.default_rng(seed)
    n_groups = n_cases // group_size
    for _ in range(n // AT_ONCE):
        labels, features = draw(generator, AT_ONCE, n_cases, n_methods, group_size)
        # stratified, whole groups in one fold
        of_class = np.arange(n_groups) // 2 % n_folds
        fold = np.empty((repeats, n_groups), int)
        for repeat, label in np.ndindex(repeats, 2):
            fold[repeat, label::2] = generator.permutation(of_class[label::2])
        fold = fold.repeat(group_size, axis=1)
        scores = np.empty((n_methods, AT_ONCE, repeats, n_cases))
        if not trained:
            scores[:] = features.sum(axis=-1)[:, :, None]
        for repeat, number in np.ndindex(repeats, n_folds) if trained else ():
            test = fold[repeat] == number
            for method in range(n_methods):
                found = discriminant(features[method], labels, np.flatnonzero(~test))
                scores[method, :, repeat, test] = found[:, test].T
        groups = np.arange(n_groups).repeat(group_size) if group_size > 1 else None
        yield Simulated(labels, scores, fold, groups)


def fold_means(right: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Means of values (repeats, cases) over each fold of each repeat."""
    means = [np.bincount(of, weights=one) / np.bincount(of) for one, of in zip(right, fold, strict=True)]
    return np.concatenate(means)


def rejections(simulated: Simulated, n_folds: int, seed: int) -> Iterator[dict[str, bool]]:
    """For each comparison whether each test finds a difference."""
    share = 1 / (n_folds - 1)
    right = (simulated.scores > 0) == simulated.labels[None, :, None].astype(bool)
    for number, labels in enumerate(simulated.labels):
        first, second = right[:, number].astype(float)
        differences = fold_means(second - first, simulated.fold)
        posterior = posterior_of_difference(differences, share, ROPE)
        found = {
            "naive paired t-test": naive_t_test(differences).p_value < LEVEL,
            "corrected t-test": corrected_t_test(differences, share).p_value < LEVEL,
            "Wilcoxon over folds": wilcoxon_test(differences).p_value < LEVEL,
            "P(one is better) > 0.95": max(posterior.above, posterior.below) > 1 - LEVEL,
            "paired bootstrap over cases": excludes_zero(first, second, simulated, seed + number, None),
        }
        if simulated.groups is not None:
            found["paired bootstrap over groups"] = excludes_zero(
                first, second, simulated, seed + number, simulated.groups
            )
        if len(simulated.fold) == 1:
            found["McNemar"] = mcnemar_test(first[0], second[0]).p_value < LEVEL
            scores = simulated.scores[:, number, 0]
            folds = [np.flatnonzero(simulated.fold[0] == fold) for fold in range(n_folds)]
            areas = [delong_areas(labels[of], *scores[:, of]) for of in folds]
            found["DeLong within folds"] = delong_test(areas).p_value < LEVEL
            found["corrected t-test of AUROC"] = (
                corrected_t_test([one.difference for one in areas], share).p_value < LEVEL
            )
            if simulated.groups is None:
                found["paired bootstrap of AUROC within folds"] = areas_exclude_zero(
                    labels, scores, folds, seed + number
                )
        yield found


def areas_exclude_zero(labels: np.ndarray, scores: np.ndarray, folds: list[np.ndarray], seed: int) -> bool:
    metric = AurocMetric(classes=(0, 1))
    first, second = ([statistic_of(metric, [labels[of], score[of]], metric) for of in folds] for score in scores)
    strata = [
        Stratum(Resampling(len(part), None, seed, fold=2 * number + place), part)
        for number, of in enumerate(folds)
        for place, part in enumerate(strata_of(of, labels[of], None))
    ]
    interval = scores_bootstrap(first, second, folds, strata, 1 - LEVEL)
    return interval.low > 0 or interval.high < 0


def excludes_zero(
    first: np.ndarray, second: np.ndarray, simulated: Simulated, seed: int, groups: np.ndarray | None
) -> bool:
    weights = np.ones(first.size)
    cases = np.tile(np.arange(first.shape[1]), len(first))
    draws = Resampling(first.shape[1], groups, seed)
    one, other = (OfCases(values.ravel(), weights) for values in (first, second))
    interval = paired_bootstrap(one, other, cases, groups, draws, 1 - LEVEL)
    return interval.low > 0 or interval.high < 0


def of_several(simulated: Simulated, n_folds: int) -> Iterator[dict[str, bool]]:
    """For each comparison of several methods whether any pair is found to differ."""
    share, n = 1 / (n_folds - 1), len(simulated.scores)
    right = (simulated.scores > 0) == simulated.labels[None, :, None].astype(bool)
    pairs = [(one, two) for one in range(n) for two in range(one)]
    for number in range(right.shape[1]):
        means = [fold_means(each[number].astype(float), simulated.fold) for each in right]
        p_values = np.array([corrected_t_test(means[one] - means[two], share).p_value for one, two in pairs])
        naive = np.array([naive_t_test(means[one] - means[two]).p_value for one, two in pairs])
        yield {
            "naive paired t-test, no correction": bool((naive < LEVEL).any()),
            "corrected t-test, no correction": bool((p_values < LEVEL).any()),
            "corrected t-test, Holm": bool((holm(p_values) < LEVEL).any()),
        }


def of_datasets(seed: int, n: int, n_datasets: int, n_methods: int) -> Iterator[dict[str, bool]]:
    """For each comparison over data sets whether the methods are found to differ; data sets differ by far more."""
    generator = np.random.default_rng(seed)
    reach = critical_difference(n_methods, n_datasets, LEVEL)
    for _ in range(n):
        spread = generator.uniform(0.005, 0.03, size=(n_datasets, 1))
        scores = generator.uniform(0.6, 0.95, size=(n_datasets, 1)) + spread * generator.normal(
            size=(n_datasets, n_methods)
        )
        chi_squared, by_f = friedman_test(scores)
        mean_ranks = ranks_of(scores, True).mean(axis=0)
        joined = cliques(mean_ranks, reach)
        yield {
            "Friedman, chi-squared": chi_squared.p_value < LEVEL,
            "Friedman, F (Iman-Davenport)": by_f.p_value < LEVEL,
            "Nemenyi, any pair": not any(len(each) == n_methods for each in joined),
        }


def of_two(seed: int, n: int, n_datasets: int) -> Iterator[dict[str, bool]]:
    """For each comparison of two methods over data sets whether they are found to differ."""
    generator = np.random.default_rng(seed)
    for _ in range(n):
        differences = generator.uniform(0.005, 0.03, size=n_datasets) * generator.normal(size=n_datasets)
        yield {"Wilcoxon over data sets": wilcoxon_test(differences).p_value < LEVEL}


def rates(found: Iterator[dict[str, bool]]) -> dict[str, str]:
    """Test -> its rate with the 95 % interval of Wilson."""
    counts: Counter[str] = Counter()
    n = 0
    for each in found:
        n += 1
        counts.update({name: int(is_found) for name, is_found in each.items()})
    texts = {}
    for name, count in counts.items():
        interval = stats.binomtest(count, n).proportion_ci(method="wilson")
        texts[name] = f"{count / n:.3f} ({interval.low:.3f}–{interval.high:.3f})"
    return texts


def print_table(title: str, columns: dict[str, dict[str, str]]) -> None:
    names = dict.fromkeys(name for column in columns.values() for name in column)
    print(f"\n{title}\n\n| test | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}", flush=True)
    for name in names:
        print(f"| {name} | {' | '.join(column.get(name, '–') for column in columns.values())} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=2000, help="comparisons of each kind, whole hundreds; 2000")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    n, seed = options.n, options.seed

    def run(n_folds: int, number: int, **how: int | bool) -> dict[str, str]:
        parts = simulate(seed + number, n, n_folds, **how)
        return rates(found for part in parts for found in rejections(part, n_folds, seed))

    print(f"{n:,} comparisons of each kind, seed {seed}; level {LEVEL}; {N_CASES} cases.")
    trained = {
        "5 folds": run(5, 1),
        "10 folds": run(10, 2),
        "5 × 5 folds": run(5, 3, repeats=5),
        "5 folds, groups of 5": run(5, 4, group_size=5),
    }
    print_table("Methods that are equally good, trained in each fold:", trained)
    few = {"5 folds": run(5, 11, n_cases=60), "5 × 5 folds": run(5, 12, n_cases=60, repeats=5)}
    print_table("The same with 60 cases, from which a method learns less:", few)
    fixed = {
        "5 folds": run(5, 5, trained=False),
        "10 folds": run(10, 6, trained=False),
        "5 folds, groups of 5": run(5, 7, trained=False, group_size=5),
    }
    print_table("Networks that are equally good, not trained:", fixed)

    def several(n_methods: int) -> dict[str, str]:
        parts = simulate(seed + 7 + n_methods, n, 5, n_methods=n_methods)
        return rates(found for part in parts for found in of_several(part, 5))

    print_table("Any pair of several methods, 5 folds:", {"3 methods": several(3), "5 methods": several(5)})
    shapes: list[tuple[int, int]] = [(6, 3), (10, 4), (20, 4), (30, 6)]
    over: dict[str, dict[str, str]] = {
        f"{methods} methods, {sets} data sets": rates(of_datasets(seed + sets, n, sets, methods))
        for sets, methods in shapes
    }
    print_table("Methods that are equally good over data sets:", over)
    two = {f"{sets} data sets": rates(of_two(seed + sets, n, sets)) for sets in (6, 10, 20)}
    print_table("Two methods that are equally good over data sets:", two)


if __name__ == "__main__":
    main()
