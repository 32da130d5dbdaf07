"""Intervals against scipy, against each other, and in the cases that have none."""

import warnings

import numpy as np
import pytest
import scipy.stats

from delira.metrics import AurocMetric, accuracy
from delira.report import Resampling, mean_interval, score_interval

VALUES = np.random.default_rng(0).gamma(2.0, size=80)


def test_the_interval_of_a_mean_is_that_of_scipy():
    scipys = scipy.stats.bootstrap(
        (VALUES,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    mine = mean_interval(VALUES, n_draws=20_000)
    width = scipys.high - scipys.low
    assert mine.low == pytest.approx(scipys.low, abs=0.02 * width)
    assert mine.high == pytest.approx(scipys.high, abs=0.02 * width)
    assert mine.n == 80
    assert mine.n_groups is None


def test_the_interval_covers_the_true_mean_in_about_95_of_100_data_sets():
    generator = np.random.default_rng(2)
    intervals = [mean_interval(generator.normal(size=100), seed=seed, n_draws=400) for seed in range(300)]
    covered = np.mean([interval.low <= 0 <= interval.high for interval in intervals])
    assert 0.91 <= covered <= 0.98


@pytest.mark.parametrize("groups", [None, np.arange(80) // 3, np.arange(80) % 7])
def test_the_mean_and_a_function_that_is_a_mean_have_the_same_interval(groups):
    # the same draws: intervals of different metrics are comparable
    fast, slow = mean_interval(VALUES, groups, seed=4), score_interval(np.mean, [VALUES], groups, seed=4)
    assert fast.low == pytest.approx(slow.low, rel=1e-12)
    assert fast.high == pytest.approx(slow.high, rel=1e-12)
    assert (fast.n, fast.n_groups) == (slow.n, slow.n_groups)


def test_draws_do_not_depend_on_how_many_are_made_at_once():
    draws = Resampling(13, seed=5, n_draws=50)
    one_by_one, at_once = np.concatenate(list(draws.units())), np.concatenate(list(draws.units(chunk=7)))
    np.testing.assert_array_equal(one_by_one, at_once)
    assert at_once.shape == (50, 13)


def test_a_group_is_drawn_whole():
    groups = np.array([5, 5, 9, 9, 9, 2])
    for cases in Resampling(6, groups, n_draws=100).cases():
        counts = np.bincount(cases, minlength=6)
        assert counts[0] == counts[1]
        assert counts[2] == counts[3] == counts[4]
        assert counts[0] + counts[2] + counts[5] == 3


def test_groups_of_equal_cases_count_as_one_case_each():
    groups = np.repeat(np.arange(80), 5)
    clustered = mean_interval(np.repeat(VALUES, 5), groups)
    assert clustered[:2] == pytest.approx(mean_interval(VALUES)[:2])
    assert (clustered.n, clustered.n_groups) == (400, 80)
    alone = mean_interval(np.repeat(VALUES, 5))
    assert alone.high - alone.low < 0.6 * (clustered.high - clustered.low)


def test_groups_may_have_names():
    names = np.array(["site b", "site a"])[np.arange(80) % 2]
    assert mean_interval(VALUES, names) == mean_interval(VALUES, 1 - np.arange(80) % 2)


def test_one_seed_gives_one_interval_and_another_seed_another():
    assert mean_interval(VALUES, seed=3) == mean_interval(VALUES, seed=3)
    assert mean_interval(VALUES, seed=3) != mean_interval(VALUES, seed=4)


def test_the_callers_random_state_is_left_alone():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    mean_interval(VALUES)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_several_arrays_are_drawn_together():
    def difference(a, b, tree):
        return float(np.abs(a - b).max() + np.abs(a - tree["x"]).max())

    interval = score_interval(difference, [VALUES, VALUES, {"x": VALUES}])
    assert interval[:2] == (0.0, 0.0)


def test_an_interval_of_accuracy_is_that_of_the_hits():
    generator = np.random.default_rng(6)
    labels, scores = generator.integers(3, size=50), generator.random((50, 3))
    hits = scores.argmax(1) == labels
    assert score_interval(accuracy, [labels, scores])[:2] == pytest.approx(mean_interval(hits)[:2])


def test_nan_in_a_case_is_not_hidden():
    interval = mean_interval(np.where(np.arange(80) == 3, np.nan, VALUES))
    assert np.isnan(interval.low)
    assert np.isnan(interval.high)
    assert interval.note == "it is NaN in 1 of 80 cases"


@pytest.mark.parametrize(
    ("values", "groups", "note"),
    [([1.0], None, "there is only 1 case"), ([1.0, 2.0], ["a", "a"], "there is only 1 group")],
)
def test_one_case_or_group_has_no_interval(values, groups, note):
    for interval in (mean_interval(values, groups), score_interval(np.mean, [np.array(values)], groups)):
        assert np.isnan(interval.low)
        assert interval.note == note


def test_draws_without_a_value_mean_no_interval():
    # 4 positives of 100 are missing from a draw with probability 0.96 ** 100 = 1.7 %: without these draws the others
    # would be of data that have more positives
    labels = (np.arange(100) < 4).astype(int)
    scores = np.random.default_rng(7).random(100) + labels

    def raises(y_true, y_pred):
        if len(set(y_true)) < 2:
            raise ValueError("only one class")
        return 0.5

    for function in (raises, AurocMetric()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # sklearn warns in every such draw: none may come out
            interval = score_interval(function, [labels, scores], n_draws=400)
        assert np.isnan(interval.low)
        assert interval.note.endswith(" of 400 draws have no value, as a draw that lacks a class")
