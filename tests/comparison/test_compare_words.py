"""The sentences: what may be said, and that nothing is called equal because a p-value is large."""

import dataclasses

import numpy as np
import pytest

import delira
from delira.comparison.outcomes import Outcome
from delira.comparison.tests_of_folds import Posterior
from delira.comparison.words import Setting, p_text, sentences_of, share_text, signed
from delira.report.bootstrap import Interval

SETTING = Setting(n_folds=5, n_pairs=1, alpha=0.05)


@pytest.fixture
def difference(pair):
    return delira.compare(pair, metric="accuracy").differences[0]


def said(difference, p_value=0.08, adjusted=np.nan, setting=SETTING, **fields):
    tests = {"corrected t": Outcome("corrected t", 2.0, p_value, "", adjusted)}
    interval = Interval(0.002, 0.022, 1797)
    fields = {"values": (0.9, 0.912), "interval": interval, "posterior": Posterior(0.01, 0.41, 0.58, 0.01), **fields}
    return " ".join(sentences_of(dataclasses.replace(difference, tests=tests, **fields), setting))


def test_a_difference_that_is_not_shown(difference):
    assert said(difference) == (
        "On these 5 folds wide is 0.01200 higher in accuracy than plain, which is better (95 % interval +0.00200 to "
        "+0.02200, paired bootstrap over 1,797 cases). The corrected t-test gives p = 0.0800: with 5 folds that share "
        "training data, a difference is not shown. The interval leaves 0 out, and is of these trained models alone: on "
        "such cases they differ; that models which are trained anew would differ in the same way is not shown. It may "
        "not be said that they are equal: P(practically equal, within ±0.01) = 0.410, P(wide better) = 0.580, "
        "P(plain better) = 0.010."
    )


def test_a_difference_that_is_shown(difference):
    text = said(difference, 0.00001)
    assert "gives p < 0.0001: at the level of 0.05 a difference of the methods is shown" in text
    assert "Whether it matters is another question: P(practically equal" in text
    assert "holds 0: that these trained models differ" in said(difference, 0.01, interval=Interval(-0.1, 0.1, 90))


def test_what_holms_correction_says_counts(difference):
    text = said(difference, 0.03, 0.09, Setting(5, 3, 0.05))
    assert "p = 0.0300, 0.0900 after Holm's correction over 3 comparisons: with 5 folds" in text
    assert "a difference is not shown" in text


@pytest.mark.parametrize("p_value", [0.06, 0.5, 0.999])
def test_a_large_p_value_is_never_called_equality(difference, p_value):
    text = said(difference, p_value, posterior=Posterior(0.02, 0.949, 0.031, 0.01))
    assert "It may not be said that they are equal" in text
    assert "they are practically equal" not in text
    assert "It may not be said that they are equal." in said(difference, p_value, posterior=None)


def test_practical_equality_needs_a_probability_of_095(difference):
    text = said(difference, 0.4, posterior=Posterior(0.02, 0.96, 0.02, 0.01))
    assert (
        "By the Bayesian correlated t-test they are practically equal: P(practically equal, within ±0.01) = 0.960"
        in text
    )
    assert "may not be said" not in text


def test_worse_lower_and_no_interval(difference):
    text = said(difference, values=(0.9, 0.8), interval=Interval(np.nan, np.nan, 9, None, "there is only 1 group"))
    assert (
        "wide is 0.10000 lower in accuracy than plain, which is worse (no bootstrap interval: there is only 1" in text
    )
    assert "have the same mean accuracy" in said(difference, values=(0.9, 0.9))
    grouped = said(difference, interval=Interval(0.002, 0.022, 90, 30))
    assert "paired bootstrap over 30 groups with 90 cases" in grouped


def test_a_test_that_could_not_be_made_says_why(difference):
    tests = {
        "corrected t": Outcome("corrected t", np.nan, np.nan, "no spread"),
        "DeLong": Outcome("DeLong", np.nan, np.nan, "groups"),
    }
    text = " ".join(sentences_of(dataclasses.replace(difference, tests=tests), SETTING))
    assert "No corrected t-test: no spread; that methods differ which are trained anew cannot be shown by it." in text
    assert "No DeLong test: groups." in text
    nothing = dataclasses.replace(difference, values=(np.nan, np.nan))
    assert "is defined in no fold of both" in sentences_of(nothing, SETTING)[0]


def test_what_holds_for_all_is_said_once(pair, method):
    words = delira.compare([*pair, method(0.9, "deep", 3)]).words
    assert sum("corrected over the 3 comparisons of a metric (Holm)" in one for one in words) == 1
    assert sum("not corrected over the 2 metrics" in one for one in words) == 1
    assert words[-1] == "All of this is of one data set. That a method is better on others is not shown by it."
    assert any("Wilcoxon: with 5 differences that are not 0 its p cannot be below 0.0625" in one for one in words)


def test_folds_of_very_different_sizes_are_a_caveat(pair):
    for result in pair:
        fold = result.folds[0]
        fold.test_indices, fold.predictions = fold.test_indices[:9], {"pred": fold.predictions["pred"][:9]}
        fold.targets = {"label": fold.targets["label"][:9]}
    assert "The folds test 9 to 24 cases: tests over folds take them for equally large." in delira.compare(pair).words


def test_numbers_are_written_honestly():
    assert [p_text(p) for p in (0.00001, 0.04996, np.nan)] == ["< 0.0001", "0.0500", "–"]
    assert [share_text(p) for p in (0.0, 1.0, 0.5, np.nan)] == ["< 0.001", "> 0.999", "0.500", "–"]
    assert [signed([0.5, -0.25])(x) for x in (0.5, -0.25, np.nan)] == ["+0.5000", "−0.2500", "–"]
