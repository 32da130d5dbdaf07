"""Holm, Friedman, Iman and Davenport, Nemenyi: as R, scipy, statsmodels and scikit-posthocs compute them."""

import itertools

import numpy as np
import pytest
from reference_numbers import INPUTS, OF_PYTHON, OF_R, asked_again
from scipy import stats

from delira.comparison.many import (
    cliques,
    critical_difference,
    friedman_test,
    holm,
    kendalls_w,
    nemenyi,
    ranks_of,
)
from delira.errors import ConfigError, DataError

SCORES = INPUTS["scores"]


def test_holms_correction_is_that_of_r_and_statsmodels():
    found = holm(INPUTS["p_values"])
    assert found == pytest.approx([OF_R[f"holm {place}"] for place in range(6)])
    assert found == pytest.approx(OF_PYTHON["statsmodels"]["holm"])


def test_tests_that_were_not_made_do_not_count_in_holms_correction():
    assert holm([0.01, np.nan, 0.03]) == pytest.approx([0.02, np.nan, 0.03], nan_ok=True)
    assert holm([]).shape == (0,)
    with pytest.raises(DataError, match="between 0 and 1"):
        holm([0.5, 1.5])


def test_friedmans_test_is_that_of_r_and_scipy():
    found, _ = friedman_test(SCORES)
    assert found.statistic == pytest.approx(OF_R["friedman statistic"])
    assert found.p_value == pytest.approx(OF_R["friedman p"])
    assert found[1:3] == pytest.approx(tuple(stats.friedmanchisquare(*SCORES.T)))
    assert found.note == "8 data sets are few: chi-squared is an approximation"


def test_iman_and_davenports_test_is_the_analysis_of_variance_of_the_ranks():
    _, found = friedman_test(SCORES)
    assert found.statistic == pytest.approx(OF_R["iman davenport statistic"])
    assert found.p_value == pytest.approx(OF_R["iman davenport p"])


def test_nemenyis_test_is_that_of_r_and_scikit_posthocs():
    found = nemenyi(ranks_of(SCORES, True).mean(axis=0), len(SCORES))
    for one, two in itertools.combinations(range(4), 2):
        assert found[one, two] == found[two, one] == pytest.approx(OF_R[f"nemenyi {one} {two}"], rel=1e-4)
    assert found == pytest.approx(np.array(OF_PYTHON["scikit-posthocs"]["nemenyi"]), rel=1e-4)


def test_scikit_posthocs_says_what_is_written_down():
    again = np.array(asked_again("scikit-posthocs")["nemenyi"])
    assert again == pytest.approx(np.array(OF_PYTHON["scikit-posthocs"]["nemenyi"]))


def test_the_critical_difference_is_that_of_r():
    assert critical_difference(4, 8) == pytest.approx(OF_R["critical difference"])
    reach = critical_difference(4, 8)
    assert nemenyi([1, 1 + reach, 3, 3], 8)[0, 1] == pytest.approx(0.05)


def test_ranks_share_ties_and_know_which_way_is_better():
    assert ranks_of([[0.9, 0.8, 0.8], [0.1, 0.2, 0.3]], True).tolist() == [[1, 2.5, 2.5], [3, 2, 1]]
    assert ranks_of([[0.9, 0.8, 0.8], [0.1, 0.2, 0.3]], False).tolist() == [[3, 1.5, 1.5], [1, 2, 3]]


def test_kendalls_w_is_the_spread_of_the_sums_of_ranks_over_its_largest():
    scores = np.random.default_rng(0).random((7, 5))
    sums = stats.rankdata(scores, axis=1).sum(axis=0)
    assert kendalls_w(scores) == pytest.approx(12 * np.sum((sums - sums.mean()) ** 2) / (7**2 * (5**3 - 5)))
    assert kendalls_w(np.tile([0.1, 0.2, 0.3], (4, 1))) == pytest.approx(1)
    assert kendalls_w(np.ones((4, 3))) == 0


def test_equal_methods_and_equal_orders_are_no_division_by_zero():
    assert all("same score" in test.note for test in friedman_test(np.ones((4, 3))))
    assert friedman_test(np.tile([0.1, 0.2, 0.3], (4, 1)))[1].p_value == 0


def test_cliques_are_the_largest_sets_within_reach():
    assert cliques([1.0, 3.0, 2.0, 5.0], 1.5) == [(0, 2), (2, 1)]
    assert cliques([1.0, 1.2, 1.4], 1.0) == [(0, 1, 2)]
    assert cliques([1.0, 3.0], 1.0) == []


def test_too_few_methods_or_data_sets_are_refused():
    with pytest.raises(DataError, match="at least three methods, got 2"):
        friedman_test([[1, 2], [2, 1]])
    with pytest.raises(DataError, match=r"got the shape \(1, 3\)"):
        ranks_of([[1, 2, 3]], True)
    with pytest.raises(ConfigError, match="needs two methods and data sets"):
        critical_difference(1, 5)
