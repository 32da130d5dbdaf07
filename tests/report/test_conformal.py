"""Sets and intervals hold what is true as often as they promise, and what is measured of them is out-of-fold."""

import numpy as np
import pytest
from test_temperature import drawn

from delira.errors import ConfigError, DataError
from delira.report.conformal import conformal_quantile
from delira.report.predictions import softmax


def numbers(n=200, seed=0):
    generator = np.random.default_rng(seed)
    true = generator.normal(size=n)
    return true, true + 0.5 * generator.normal(size=n)


@pytest.fixture
def classes(validate):
    return validate(*drawn(400), metrics={})


@pytest.fixture
def regression(validate):
    return validate(*numbers(), metrics={})


# ------------------------------------------------------------------ the promise


@pytest.mark.parametrize(("n", "alpha"), [(19, 0.1), (50, 0.1), (99, 0.05), (200, 0.2)])
def test_new_cases_are_covered_as_often_as_promised(n, alpha):
    """Over draws of calibration and new cases: at least 1 - alpha, and at most 1 / (n + 1) more (Lei et al. 2018)."""
    generator, n_draws, n_new = np.random.default_rng(n), 4000, 50
    covered = np.empty(n_draws)
    for draw in range(n_draws):
        reach = conformal_quantile(np.abs(generator.standard_t(3, size=n)), alpha)
        covered[draw] = np.mean(np.abs(generator.standard_t(3, size=n_new)) <= reach)
    error = covered.std() / np.sqrt(n_draws)
    assert 1 - alpha - 3 * error <= covered.mean() <= 1 - alpha + 1 / (n + 1) + 3 * error


def test_of_a_result_it_is_covered_as_often_as_promised(validate):
    """A fold's own threshold, and what is measured by the other folds, over 300 results."""
    covered, measured, of_all = [], [], []
    for seed in range(300):
        result = validate(*drawn(80, seed=seed), metrics={})
        found = result.conformal(0.2)
        labels, logits = drawn(100, seed=10_000 + seed)
        for shares, fold in ((covered, 1), (of_all, None)):
            shares.append(found.sets(softmax(logits), fold)[np.arange(100), labels].mean())
        measured.append(found.coverage)
    for shares, most in ((covered, 1 / 21), (measured, 1 / 61), (of_all, 1 / 81)):
        error = np.std(shares) / np.sqrt(len(shares))
        assert 0.8 - 3 * error <= np.mean(shares) <= 0.8 + most + 3 * error


@pytest.mark.parametrize(("n", "alpha", "place"), [(9, 0.1, 9), (19, 0.05, 19), (19, 0.1, 18), (49, 0.42, 29)])
def test_it_is_the_score_at_the_place_that_counts_the_new_one(n, alpha, place):
    scores = np.random.default_rng(0).permutation(n) + 1.0
    assert conformal_quantile(scores, alpha) == place


def test_too_few_cases_cover_everything():
    assert conformal_quantile(np.arange(8.0), 0.1) == np.inf
    assert conformal_quantile(np.arange(9.0), 0.1) == 8


# ------------------------------------------------------------------ of a result


def test_what_is_measured_of_a_fold_is_by_the_others(validate):
    labels, logits = drawn(400)
    found = validate(labels, logits, metrics={}).conformal()
    own, others = np.arange(400) % 4 == 0, np.arange(400) % 4 != 0
    scores = 1 - softmax(logits)[np.arange(400), labels]
    np.testing.assert_allclose(found.scores, scores)
    reach = conformal_quantile(scores[others], 0.1)
    np.testing.assert_array_equal(found.is_covered[own], scores[own] <= reach)
    np.testing.assert_array_equal(found.sizes[own], (1 - softmax(logits)[own] <= reach).sum(axis=1))
    assert found.of_folds[0] == pytest.approx(conformal_quantile(scores[own], 0.1))
    assert found.threshold == pytest.approx(conformal_quantile(scores, 0.1))
    assert found.interval.low <= found.coverage <= found.interval.high


def test_groups_that_a_fold_tests_are_left_out_and_drawn_whole(validate):
    labels, logits = drawn(200)
    groups = np.arange(200) // 2
    found = validate(labels, logits, metrics={}, groups=groups).conformal()
    others = ~np.isin(groups, groups[::4])
    reach = conformal_quantile(found.scores[others], 0.1)
    np.testing.assert_array_equal(found.is_covered[::4], found.scores[::4] <= reach)
    assert found.interval.n_groups == 100
    assert "Cases come in groups" in str(found)


def test_intervals_of_numbers(regression):
    found = regression.conformal(0.1)
    true, predicted = numbers()
    np.testing.assert_allclose(found.scores, np.abs(true - predicted))
    np.testing.assert_allclose(found.intervals([1.0]), [[1 - found.threshold, 1 + found.threshold]])
    np.testing.assert_allclose(found.intervals([1.0], fold=2), [[1 - found.of_folds[2], 1 + found.of_folds[2]]])
    assert f"± {found.threshold:.4g}" in str(found)
    assert "90 %" in str(found)


def test_a_case_that_was_tested_several_times_counts_once(validate):
    labels, logits = drawn(80)
    once, again = validate(labels, logits, metrics={}), validate(labels, logits, metrics={})
    for number, fold in enumerate(again.folds, start=4):
        fold.fold = number
    found = type(once)([*once.folds, *again.folds], 80, {}, seed=7).conformal()
    assert len(found.index) == 80
    assert set(found.fold) == {4, 5, 6, 7}


def test_one_probability_for_each_case(validate):
    labels, logits = drawn(200, 2)
    share = softmax(logits)[:, 1]
    found = validate(labels, share, metrics={}).conformal()
    np.testing.assert_array_equal(found.sets(share), found.sets(np.stack([1 - share, share], axis=1)))
    assert found.sets(share)[np.arange(200), labels].mean() == pytest.approx(0.9, abs=0.01)


def test_cases_whose_scores_are_not_finite_are_left_out(validate):
    labels, logits = drawn(200)
    logits[3] = np.nan
    found = validate(labels, logits, metrics={}).conformal()
    assert 3 not in found.index
    assert len(found.index) == 199
    assert "1 cases whose predictions are not finite are left out" in str(found)
    calibration = validate(labels, logits, metrics={}).calibration()
    assert (len(calibration.index), calibration.n_left_out) == (199, 1)
    assert "1 cases whose scores are not finite are left out" in str(calibration)


# ------------------------------------------------------------------ what cannot be


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 90, True, "0.1", float("nan"), None])
def test_alpha_is_a_share(classes, alpha):
    with pytest.raises(ConfigError, match="alpha"):
        classes.conformal(alpha)


def test_too_few_cases_are_refused(validate):
    with pytest.raises(DataError, match="at least 99 cases in the folds beside each"):
        validate(*drawn(120), metrics={}).conformal(0.01)
    with pytest.raises(DataError, match="in the folds beside each"):
        validate(*drawn(120), n_folds=1, metrics={}).conformal()


def test_what_has_no_probabilities_is_refused(validate):
    labels, logits = drawn(100)
    with pytest.raises(DataError, match="which this result does not have"):
        validate(labels, logits.argmax(axis=1), metrics={}).conformal()


def test_sets_are_of_classes_and_intervals_of_numbers(classes, regression):
    with pytest.raises(DataError, match="take sets"):
        classes.conformal().intervals([1.0])
    with pytest.raises(DataError, match="take intervals"):
        regression.conformal().sets([[0.5, 0.5]])
    with pytest.raises(DataError, match="one number for each case"):
        regression.conformal().intervals([[1.0]])
    with pytest.raises(DataError, match="not logits"):
        classes.conformal().sets([[5.0, -3.0, 0.0]])
    with pytest.raises(ConfigError, match="there is no fold"):
        classes.conformal().sets([[1.0, 0.0, 0.0]], fold=9)


def test_without_groups_that_were_lost_there_is_no_interval(validate):
    found = validate(*drawn(200), metrics={}, without_intervals="groups are lost").conformal()
    assert "no interval: groups are lost" in str(found)
