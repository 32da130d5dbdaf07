"""Tests over folds say what R, scipy and baycomp say of the same differences."""

import numpy as np
import pytest
from reference_numbers import INPUTS, OF_PYTHON, OF_R, asked_again
from scipy import stats

from delira.comparison.tests_of_folds import (
    corrected_interval,
    corrected_t_test,
    naive_t_test,
    posterior_of_difference,
    rank_biserial,
    share_tested,
    standardised,
    wilcoxon_test,
)
from delira.errors import ConfigError, DataError

#: differences -> test over train of the folds that they are of
SHARES = {"ten_folds": 1 / 9, "five_folds": 1 / 4, "many_folds": 1 / 9}


def test_the_corrected_t_test_is_the_formula_of_nadeau_and_bengio_as_r_computes_it():
    found = corrected_t_test(INPUTS["ten_folds"], SHARES["ten_folds"])
    assert found.statistic == pytest.approx(OF_R["corrected ten_folds statistic"])
    assert found.p_value == pytest.approx(OF_R["corrected ten_folds p"])


@pytest.mark.parametrize("name", SHARES)
def test_the_corrected_t_test_has_the_tails_of_baycomps_posterior_without_a_region(name):
    tails = OF_PYTHON["baycomp"][f"{name} 0"]
    assert corrected_t_test(INPUTS[name], SHARES[name]).p_value == pytest.approx(2 * min(tails))


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("rope", [0.0, 0.01])
def test_the_bayesian_correlated_t_test_says_what_baycomp_says(name, rope):
    found = posterior_of_difference(INPUTS[name], SHARES[name], rope)
    expected = OF_PYTHON["baycomp"][f"{name} {rope:g}"]
    shares = [found.above, found.inside, found.below] if rope else [found.above, found.below]
    assert shares == pytest.approx(expected)
    assert sum(found[:3]) == pytest.approx(1)


def test_baycomp_says_what_is_written_down():
    again = asked_again("baycomp")
    for name, shares in OF_PYTHON["baycomp"].items():
        assert again[name] == pytest.approx(shares), name


@pytest.mark.parametrize("name", SHARES)
def test_the_naive_t_test_is_that_of_r_and_scipy(name):
    found = naive_t_test(INPUTS[name])
    assert found.p_value == pytest.approx(OF_R[f"naive {name} p"])
    assert found[1:3] == pytest.approx(stats.ttest_rel(INPUTS[name], np.zeros(len(INPUTS[name])))[:2])


@pytest.mark.parametrize("name", SHARES)
def test_wilcoxons_test_is_the_exact_one_of_r(name):
    assert wilcoxon_test(INPUTS[name]).p_value == pytest.approx(OF_R[f"wilcoxon {name} p"])


def test_wilcoxons_test_counts_all_signs_where_there_are_ties():
    counted = INPUTS["tied_folds"][INPUTS["tied_folds"] != 0]
    expected = stats.wilcoxon(counted, method=stats.PermutationMethod(n_resamples=np.inf))
    assert wilcoxon_test(INPUTS["tied_folds"])[1:3] == pytest.approx((expected.statistic, expected.pvalue))


def test_wilcoxons_test_of_many_ties_is_scipys_approximation():
    many = np.tile(INPUTS["tied_folds"], 3)
    expected = stats.wilcoxon(many[many != 0])
    assert wilcoxon_test(many).p_value == pytest.approx(expected.pvalue)


def test_wilcoxons_test_says_what_few_folds_cannot_show():
    assert "cannot be below 0.0625" in wilcoxon_test([1, 2, 3, 4, 5]).note
    assert wilcoxon_test(np.arange(1, 11)).note == ""


def test_the_interval_belongs_to_the_corrected_t_test():
    low, high = corrected_interval(INPUTS["ten_folds"], 1 / 9, level=0.9)
    middle = INPUTS["ten_folds"].mean()
    assert (low + high) / 2 == pytest.approx(middle)
    p_value = corrected_t_test(INPUTS["ten_folds"], 1 / 9).p_value
    low, _ = corrected_interval(INPUTS["ten_folds"], 1 / 9, level=1 - p_value)
    assert low == pytest.approx(0, abs=1e-9)


def test_effect_sizes_are_what_their_names_say():
    differences = INPUTS["ten_folds"]
    assert standardised(differences) == pytest.approx(stats.ttest_1samp(differences, 0).statistic / np.sqrt(10))
    above = stats.wilcoxon(differences, alternative="greater").statistic
    assert rank_biserial(differences) == pytest.approx((2 * above - 55) / 55)
    assert rank_biserial([1, 2, 3]) == 1
    assert rank_biserial([0, 0]) == 0


def test_the_share_is_the_mean_over_folds_of_cases_tested_over_cases_learned_from():
    assert share_tested([20, 20, 10], [80, 80, 90]) == pytest.approx((0.25 + 0.25 + 1 / 9) / 3)
    with pytest.raises(DataError, match="each fold needs cases to train and to test"):
        share_tested([20], [0])


def test_equal_differences_are_not_tested():
    assert np.isnan(corrected_t_test([0.1, 0.1, 0.1], 0.25).p_value)
    assert "the same in all folds" in corrected_t_test([0.1, 0.1, 0.1], 0.25).note
    assert wilcoxon_test([0.0, 0.0]).note == "all differences are 0"
    assert posterior_of_difference([0.1, 0.1], 0.25, 0.01)[:3] == (0, 0, 1)
    assert posterior_of_difference([0.0, 0.0], 0.25, 0.01)[:3] == (0, 1, 0)
    assert np.isnan(standardised([0.1, 0.1]))


@pytest.mark.parametrize("differences", [[0.1], [0.1, np.nan], [[0.1, 0.2]], [[1], [2, 3]], ["a", "b"]])
def test_what_are_no_differences_is_refused(differences):
    with pytest.raises(DataError, match="differences must be"):
        corrected_t_test(differences, 0.25)


def test_impossible_shares_and_regions_are_refused():
    with pytest.raises(ConfigError, match="share is n_test / n_train"):
        corrected_t_test([0.1, 0.2], -1)
    with pytest.raises(ConfigError, match="rope is half the width"):
        posterior_of_difference([0.1, 0.2], 0.25, -1)
