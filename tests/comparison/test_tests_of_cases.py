"""Tests over cases say what R, scipy, mlxtend and statsmodels say of the same cases."""

import numpy as np
import pytest
from reference_numbers import INPUTS, OF_PYTHON, OF_R, asked_again
from scipy import stats

from delira.comparison.tests_of_cases import (
    OfCases,
    mcnemar_test,
    odds_ratio,
    paired_bootstrap,
    scores_bootstrap,
)
from delira.errors import DataError
from delira.report.bootstrap import Resampling, Stratum, strata_of

FIRST, SECOND = INPUTS["right_first"], INPUTS["right_second"]


def of_cases(values, *weights):
    return OfCases(np.asarray(values, float), np.ones(len(values)) if not weights else np.asarray(weights[0], float))


def test_mcnemars_test_is_the_exact_one_of_r_mlxtend_and_statsmodels():
    found = mcnemar_test(FIRST, SECOND).p_value
    for expected in (OF_R["mcnemar p"], OF_PYTHON["mlxtend"]["mcnemar"], OF_PYTHON["statsmodels"]["mcnemar"]):
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("package", ["mlxtend", "statsmodels"])
def test_other_packages_say_what_is_written_down(package):
    for name, value in asked_again(package).items():
        assert value == pytest.approx(OF_PYTHON[package][name])


def test_mcnemars_test_needs_cases_on_which_the_two_differ():
    assert mcnemar_test([0, 1, 1], [0, 1, 1]).note == "both are right in the same cases"
    assert odds_ratio([0, 1, 1], [0, 1, 1]) != odds_ratio([0, 1, 1], [0, 1, 1])
    assert odds_ratio([0, 0, 1], [1, 1, 0]) == 2
    assert odds_ratio([0, 0], [1, 1]) == np.inf


@pytest.mark.parametrize(("first", "second"), [([0, 1], [0]), ([0, 2], [0, 1]), ([[0]], [[1]])])
def test_mcnemars_test_refuses_what_is_not_right_or_wrong(first, second):
    with pytest.raises(DataError, match="needs 0 or 1 for each case of both"):
        mcnemar_test(first, second)


def test_the_paired_bootstrap_is_that_of_scipy_up_to_the_draws():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=150), generator.normal(0.3, size=150)
    cases = np.arange(150)
    found = paired_bootstrap(of_cases(first), of_cases(second), cases, None, Resampling(150, n_draws=20_000))
    expected = stats.bootstrap(
        (first, second), lambda one, two: two.mean() - one.mean(), paired=True, vectorized=False, method="percentile",
        n_resamples=20_000, rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert found.low == pytest.approx(expected.low, abs=0.008)
    assert found.high == pytest.approx(expected.high, abs=0.008)
    assert (found.n, found.n_groups, found.note) == (150, None, "")


def test_whole_groups_are_drawn_for_both_at_once():
    generator = np.random.default_rng(2)
    groups = generator.permutation(np.arange(60) // 4)
    first, second = (generator.normal(size=60) + generator.normal(size=15)[groups] for _ in range(2))
    draws = Resampling(60, groups, seed=3, n_draws=300)
    found = paired_bootstrap(of_cases(first), of_cases(second), np.arange(60), groups, draws)
    by_hand = []
    for units in Resampling(60, groups, seed=3, n_draws=300).units():
        cases = np.concatenate([np.flatnonzero(groups == unit) for unit in units[0]])
        by_hand.append(second[cases].mean() - first[cases].mean())
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(by_hand, [0.025, 0.975])))
    assert found.n_groups == 15
    alone = paired_bootstrap(of_cases(first), of_cases(second), np.arange(60), None, Resampling(60, seed=3))
    assert found.high - found.low > alone.high - alone.low  # cases of one group tell less than as many others


def test_a_case_that_was_tested_twice_is_drawn_with_both_tests():
    generator = np.random.default_rng(4)
    first, second = generator.normal(size=(2, 80))
    cases = np.tile(np.arange(40), 2)
    found = paired_bootstrap(of_cases(first), of_cases(second), cases, None, Resampling(40, seed=1))
    mean = (second - first).reshape(2, 40).mean(axis=0)
    once = paired_bootstrap(of_cases(np.zeros(40)), of_cases(mean), np.arange(40), None, Resampling(40, seed=1))
    assert (found.low, found.high) == pytest.approx((once.low, once.high))


def test_few_cases_and_draws_without_a_value_have_no_interval():
    few = paired_bootstrap(of_cases([1, 2]), of_cases([2, 3]), np.arange(2), None, Resampling(2))
    assert few.note == "there are only 2 cases, fewer than 5"
    weights = [1, 0, 0, 0, 0, 0]
    none = paired_bootstrap(of_cases(range(6), weights), of_cases(range(6), weights), np.arange(6), None, Resampling(6))
    assert "a draw that holds no case with a value" in none.note


def test_scores_of_folds_are_drawn_fold_by_fold_or_all_at_once():
    generator = np.random.default_rng(5)
    values = generator.normal(size=(2, 2, 30))  # of each result and fold
    statistics = [[lambda counts, of=of: counts @ of / counts.sum(axis=1) for of in each] for each in values]
    folds = [np.arange(30), np.arange(30, 60)]
    strata = [Stratum(Resampling(30, fold=number), places) for number, places in enumerate(folds)]
    within = scores_bootstrap(*statistics, folds, strata)
    assert (within.n, within.n_groups, within.note) == (60, None, "")
    drawn = [list(Resampling(30, fold=number).cases()) for number in range(2)]
    by_hand = [
        np.mean([(values[1, fold] - values[0, fold])[drawn[fold][draw]].mean() for fold in range(2)])
        for draw in range(2000)
    ]
    assert (within.low, within.high) == pytest.approx(tuple(np.quantile(by_hand, [0.025, 0.975])))

    twice = [np.arange(30), np.arange(30)]  # the same cases in both
    joint = scores_bootstrap(*statistics, twice, [Stratum(Resampling(30), np.arange(30))])
    same = paired_bootstrap(
        of_cases(values[0].ravel()), of_cases(values[1].ravel()), np.tile(np.arange(30), 2), None, Resampling(30)
    )
    assert (joint.low, joint.high) == pytest.approx((same.low, same.high))
    few = [Stratum(Resampling(2, fold=0), np.arange(2)), Stratum(Resampling(58, fold=1), np.arange(2, 60))]
    assert scores_bootstrap(*statistics, folds, few).note == "in a fold there are only 2 cases, fewer than 5"


def test_classes_are_drawn_among_themselves_where_there_are_enough_of_both():
    cases, labels = np.arange(20, 40), np.arange(20) < 6
    assert [each.tolist() for each in strata_of(cases, labels, None)] == [[*range(20, 26)], [*range(26, 40)]]
    assert [len(each) for each in strata_of(cases, np.arange(20) < 4, None)] == [20]
    assert [len(each) for each in strata_of(cases, None, None)] == [20]
    groups = np.arange(20) // 2 + 7  # three with positive cases, seven without
    assert [len(each) for each in strata_of(cases, labels, groups)] == [20]
    assert [len(each) for each in strata_of(cases, np.arange(20) < 9, groups)] == [10, 10]
    of_three = strata_of(np.arange(18), np.arange(18) // 6, None)
    assert [each.tolist() for each in of_three] == [[*range(12, 18)], [*range(6, 12)], [*range(6)]]
