"""What a cross-validation prints is what it says: repeats, ranking metrics, folds without a class, too few cases."""

import functools
import re
import time
import warnings

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sk
from sklearn.model_selection import (
    LeaveOneGroupOut,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from delira.experiments.result import FoldResult, KFoldResult
from delira.metrics import AurocMetric, MetricSet, SklearnF1Score, accuracy, per_sample
from delira.metrics.metric_set import evaluator, in_form
from delira.metrics.of_cases import case_values, is_mean_of_cases, statistic_of
from delira.report import runs_page
from delira.report.examples import rank
from delira.report.sections import confusion, regression_section

N = 160


def cross_validate(splits, labels, predict, metrics, **settings):
    """Folds whose predictions a function makes: ``predict(fold, test indices)``."""
    folds = []
    for number, (train, test) in enumerate(splits):
        pred, found = predict(number, test), MetricSet(metrics, settings.get("metric_keys"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's own words on folds of one class
            found.update({"label": labels[test], "pred": pred})
            values = found.compute()
        folds.append(FoldResult(number, train, None, test, values, {"pred": pred}, {"label": labels[test]}))
    return KFoldResult(folds, len(labels), found.metrics, seed=0, **settings)


def noisy(labels, *, strength=0.5, scale=0.0):
    """Scores of networks that know little, those of fold k shifted by ``scale * k``."""

    def predict(fold, test):
        generator = np.random.default_rng(fold)
        score = generator.normal(size=len(test)) + strength * (2 * labels[test] - 1) + scale * fold
        return np.stack([-score, score], axis=1)

    return predict


def one_score(labels, **settings):
    two = noisy(labels, **settings)
    return lambda fold, test: two(fold, test)[:, 1]


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(3).integers(2, size=N)


def page_text(result):
    return re.sub(r"<[^>]*>|\s+", " ", result.to_html())


# ------------------------------------------------------------------ 5: repeats


@pytest.fixture(scope="module")
def repeated(labels):
    splits = RepeatedStratifiedKFold(n_splits=4, n_repeats=6, random_state=0).split(labels, labels)
    return cross_validate(splits, labels, noisy(labels, strength=0.2), {"accuracy": accuracy, "auc": sk.roc_auc_score})


def hits_of(result, labels):
    """Whether each case was predicted right in each repeat, by hand."""
    hits = np.full((6, N), np.nan)
    for fold in result.folds:
        hits[fold.fold // 4, fold.test_indices] = fold.predictions["pred"].argmax(1) == labels[fold.test_indices]
    return hits


def test_repeats_have_one_pooled_value_each_and_then_their_mean_and_spread(repeated, labels):
    row, hits = repeated.summary()["accuracy"], hits_of(repeated, labels)
    assert row["oof"] == pytest.approx(hits.mean())
    assert row["oof_std"] == pytest.approx(hits.mean(axis=1).std(ddof=1))
    assert row["n"] == N
    averaged = sum(
        np.bincount(fold.test_indices, weights=np.diff(fold.predictions["pred"])[:, 0], minlength=N)
        for fold in repeated.folds
    )
    of_an_ensemble = np.mean((averaged > 0) == labels)
    assert of_an_ensemble > hits.mean() + 0.05, "the example shall tell the two apart"
    assert f"{row['oof']:.4f} ± {row['oof_std']:.4f}" in repeated.table()
    assert "one value for each repeat, then mean ± std of the 6 repeats" in " ".join(repeated.table().split())


def test_intervals_of_repeats_draw_the_same_cases_in_all_of_them(repeated, labels):
    row = repeated.summary()["accuracy"]
    by_scipy = scipy.stats.bootstrap(
        (hits_of(repeated, labels).mean(axis=0),), np.mean, method="percentile", n_resamples=4000,
        rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    width = by_scipy.high - by_scipy.low
    assert row["ci_low"] == pytest.approx(by_scipy.low, abs=0.08 * width)
    assert row["ci_high"] == pytest.approx(by_scipy.high, abs=0.08 * width)


def auc(true, score):
    """Pairs in the right order: a definition, and quicker than scikit-learn."""
    pairs = score[true == 1][:, None] - score[true == 0]
    return float(np.mean(pairs > 0) + 0.5 * np.mean(pairs == 0))


def average_precision(true, score):
    """The precision at each threshold, weighted by the share of true cases that it adds."""
    _, place = np.unique(-score, return_inverse=True)
    added, seen = np.bincount(place, weights=true), np.bincount(place)
    return float(np.sum(added * np.cumsum(added) / np.cumsum(seen)) / true.sum())


def test_ranking_metrics_of_repeats_draw_the_same_cases_in_all_of_them(labels):
    score = np.random.default_rng(2).normal(size=N) + labels  # all networks find the same cases difficult
    splits = RepeatedStratifiedKFold(n_splits=4, n_repeats=6, random_state=0).split(labels, labels)
    result = cross_validate(splits, labels, lambda fold, test: score[test], {"auc": sk.roc_auc_score})
    row, generator, estimates = result.summary()["auc"], np.random.default_rng(5), []
    for _ in range(400):
        counts = np.bincount(generator.integers(N, size=N), minlength=N)
        drawn = [np.repeat(fold.test_indices, counts[fold.test_indices]) for fold in result.folds]
        estimates.append(np.mean([auc(labels[cases], score[cases]) for cases in drawn]))
    low, high = np.percentile(estimates, [2.5, 97.5])
    assert row["ci_low"] == pytest.approx(low, abs=0.2 * (high - low))
    assert row["ci_high"] == pytest.approx(high, abs=0.2 * (high - low))
    assert row["pooled"]
    assert row["mean"] == pytest.approx(np.mean([fold.metrics["auc"] for fold in result.folds]))


def test_out_of_fold_predictions_are_those_of_single_networks(repeated):
    last = {int(case): fold for fold in repeated.folds for case in fold.test_indices}
    for case in range(0, N, 17):
        fold = last[case]
        own = fold.predictions["pred"][np.flatnonzero(fold.test_indices == case)[0]]
        np.testing.assert_array_equal(repeated.oof.predictions["pred"][case], own)
        assert repeated.oof.fold[case] == fold.fold


def test_splits_that_test_cases_unequally_often_have_a_value_each(labels):
    splits = list(ShuffleSplit(n_splits=7, test_size=0.3, random_state=0).split(labels))
    result = cross_validate(splits, labels, noisy(labels), {"accuracy": accuracy, "auc": sk.roc_auc_score})
    by_hand = [(f.predictions["pred"].argmax(1) == labels[f.test_indices]).mean() for f in result.folds]
    row = result.summary()["accuracy"]
    assert row["oof"] == pytest.approx(np.mean(by_hand))
    assert row["oof_std"] == pytest.approx(np.std(by_hand, ddof=1))
    generator, estimates = np.random.default_rng(2), []
    for _ in range(2000):
        counts = np.bincount(generator.integers(row["n"], size=row["n"]), minlength=row["n"])
        tested = np.unique(np.concatenate([f.test_indices for f in result.folds]))
        of_case = dict(zip(tested.tolist(), counts.tolist(), strict=True))
        shares = []
        for f in result.folds:
            weight = np.array([of_case[case] for case in f.test_indices.tolist()])
            shares.append(np.average(f.predictions["pred"].argmax(1) == labels[f.test_indices], weights=weight))
        estimates.append(np.mean(shares))
    low, high = np.percentile(estimates, [2.5, 97.5])
    assert row["ci_low"] == pytest.approx(low, abs=0.1 * (high - low))
    assert row["ci_high"] == pytest.approx(high, abs=0.1 * (high - low))
    assert "one value for each split" in result.table()


def test_a_repeat_that_was_broken_off_is_told_and_not_mixed_in(repeated, labels):
    part = KFoldResult(repeated.folds[:9], N, repeated.metrics, seed=0)
    hits = hits_of(repeated, labels)[:2]
    assert part.summary()["accuracy"]["oof"] == pytest.approx(hits.mean())
    assert any("Fold 8: of a repeat that has not tested all cases" in text for text in part.warnings)


# ------------------------------------------------------------------ 6: what is drawn


@pytest.fixture(scope="module")
def shifted(labels):
    """Five networks whose scores are on five scales."""
    splits = StratifiedKFold(5).split(labels, labels)
    metrics = {"auc": sk.roc_auc_score, "ap": sk.average_precision_score, "bacc": sk.balanced_accuracy_score}
    return cross_validate(splits, labels, one_score(labels, strength=1.0, scale=1.0), metrics)


def drawn_within(result, labels, function, n_draws=300, groups=None):
    """Percentiles of the mean over folds, each drawn by itself: a loop by hand."""
    generator, estimates = np.random.default_rng(9), []
    for _ in range(n_draws):
        values = []
        for fold in result.folds:
            true, pred = labels[fold.test_indices], fold.predictions["pred"]
            if groups is None:
                cases = generator.integers(len(true), size=len(true))
            else:
                own = groups[fold.test_indices]
                kinds = np.unique(own)
                drawn = kinds[generator.integers(len(kinds), size=len(kinds))]
                cases = np.concatenate([np.flatnonzero(own == kind) for kind in drawn])
            values.append(function(true[cases], pred[cases]))
        estimates.append(np.mean(values))
    return np.percentile(estimates, [2.5, 97.5])


@pytest.mark.parametrize("name", ["auc", "ap"])
def test_the_interval_of_a_ranking_metric_is_that_of_the_mean_and_draws_within_folds(shifted, labels, name):
    row = shifted.summary()[name]
    low, high = drawn_within(shifted, labels, {"auc": auc, "ap": average_precision}[name])
    assert row["ci_low"] == pytest.approx(low, abs=0.2 * (high - low))
    assert row["ci_high"] == pytest.approx(high, abs=0.2 * (high - low))
    assert row["ci_low"] < row["mean"] < row["ci_high"]
    assert row["pooled"]
    assert row["oof"] < row["ci_low"], "the example shall tell the two apart"


def test_a_pooled_value_is_called_so_and_its_gap_is_explained_on_the_page(shifted):
    table = shifted.table()
    assert re.search(r"metric +mean ± std +95 % interval +pooled", table)
    assert f"{shifted.summary()['auc']['oof']:.4f} pooled" in page_text(shifted)
    assert "Pooled values differ from the means of the folds (auc" in page_text(shifted)
    assert "| pooled " in shifted.table("markdown")
    assert "95 \\% CI of the mean" in shifted.table("latex")
    assert " of the mean" in runs_page([shifted, shifted])


def test_means_over_cases_draw_the_cases_of_all_folds(labels):
    result = cross_validate(LeaveOneOut().split(labels[:40]), labels[:40], noisy(labels), {"accuracy": accuracy})
    row = result.summary()["accuracy"]
    hits = np.array([f.metrics["accuracy"][0] for f in result.folds])
    expected = scipy.stats.bootstrap(
        (hits,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert row["ci_low"] == pytest.approx(expected.low, abs=0.026)
    assert row["ci_high"] == pytest.approx(expected.high, abs=0.026)
    assert not row["pooled"]


def test_groups_are_drawn_whole_within_the_folds(labels):
    groups = np.arange(N) // 2
    generator = np.random.default_rng(0)
    of_group = generator.normal(size=N)[groups]  # what the two cases of a group have in common
    splits = StratifiedGroupKFold(4, shuffle=True, random_state=0).split(labels, labels, groups)
    result = cross_validate(
        splits, labels, lambda fold, test: of_group[test] + labels[test], {"auc": sk.roc_auc_score}, groups=groups
    )
    row = result.summary()["auc"]
    low, high = drawn_within(result, labels, auc, groups=groups)
    assert row["ci_low"] == pytest.approx(low, abs=0.2 * (high - low))
    assert row["ci_high"] == pytest.approx(high, abs=0.2 * (high - low))
    assert row["n_groups"] == 80
    assert "draws of groups within each fold" in " ".join(result.table().split())


@pytest.mark.parametrize(
    ("splits", "groups", "reason"),
    [
        (LeaveOneOut().split(np.zeros(24)), None, "every fold holds fewer than 5 cases"),
        (
            LeaveOneGroupOut().split(np.zeros(24), groups=np.arange(24) // 6),
            np.arange(24) // 6,
            "there are only 4 groups, fewer than 5",
        ),
        (
            [(np.arange(4, 24), np.arange(4)), (np.arange(14), np.arange(14, 24)), (np.arange(4), np.arange(4, 14))],
            None,
            "fold 0 holds only 4 cases, fewer than 5",
        ),
    ],
    ids=["leave one out", "leave one group out", "one small fold"],
)
def test_too_few_to_draw_from_means_no_interval_and_the_reason_is_said(splits, groups, reason):
    labels = np.arange(24) % 2
    result = cross_validate(
        splits, labels, one_score(labels), {"f1": functools.partial(sk.f1_score, average="micro")}, groups=groups
    )
    row = result.summary()["f1"]
    assert np.isnan(row["ci_low"])
    assert np.isnan(row["ci_high"])
    assert reason in row["note"]
    assert reason in " ".join(result.table().split())
    assert any(reason in text for text in result.warnings)
    assert reason in page_text(result)


@pytest.mark.parametrize("metric", [sk.roc_auc_score, lambda t, p: np.mean(p[t == 1]), sk.balanced_accuracy_score])
def test_draws_that_lack_a_class_mean_no_interval_and_the_reason_is_said(metric):
    labels = np.tile([1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8)  # two of a class in each fold of twenty
    result = cross_validate(StratifiedKFold(4).split(labels, labels), labels, one_score(labels), {"m": metric})
    row = result.summary()["m"]
    assert np.isfinite(row["mean"])
    assert np.isnan(row["ci_low"])
    assert "of 2,000 draws have no value, as a draw that lacks a class" in row["note"]
    assert any("draw that lacks a class" in text for text in result.warnings)


def test_an_interval_that_does_not_contain_its_value_is_not_printed(labels):
    def n_different(y_true, y_pred):  # a draw has fewer different scores than the data
        return float(len(np.unique(y_pred)))

    result = cross_validate(StratifiedKFold(4).split(labels, labels), labels, one_score(labels), {"m": n_different})
    assert "draws are biased" in result.summary()["m"]["note"]


def test_a_function_of_nobodys_is_no_mean_over_cases_unless_it_is_computed_over_samples(labels):
    def own(y_true, y_pred):
        return float(np.mean(y_pred.argmax(-1) == y_true))

    metrics = {"own": own, "over_samples": per_sample(own)}
    result = cross_validate(StratifiedKFold(4).split(labels, labels), labels, noisy(labels), metrics)
    rows = result.summary()
    assert rows["own"]["pooled"]
    assert not rows["over_samples"]["pooled"]


# ------------------------------------------------------------------ 7: folds in which a metric is not defined


def one_class_in_fold_3():
    labels = np.tile([0, 1], 40)
    labels[60:] = 1
    order = [np.arange(20 * k, 20 * (k + 1)) for k in range(4)]
    return labels, [(np.setdiff1d(np.arange(80), test), test) for test in order]


@pytest.mark.parametrize("metric", [sk.roc_auc_score, "roc_auc", "pr_auc", AurocMetric()])
def test_a_metric_that_is_not_defined_in_a_fold_says_so(metric):
    labels, splits = one_class_in_fold_3()
    result = cross_validate(splits, labels, one_score(labels), {"auc": metric})
    row, table = result.summary()["auc"], " ".join(result.table().split())
    function = sk.average_precision_score if metric == "pr_auc" else sk.roc_auc_score
    by_hand = [function(labels[f.test_indices], f.predictions["pred"]) for f in result.folds[:3]]
    assert row["mean"] == pytest.approx(np.mean(by_hand))
    assert row["std"] == pytest.approx(np.std(by_hand, ddof=1))
    assert row["n_folds"] == 3
    sentence = "not defined in fold 3: only one class; mean and SD are over 3 of 4 folds"
    assert sentence in table
    assert sentence in page_text(result)
    assert any(sentence in text for text in result.warnings)
    assert "nan" not in table
    assert not re.search(r"\bnan\b", page_text(result))


def test_average_precision_without_a_positive_case_is_not_defined():
    labels, splits = one_class_in_fold_3()
    result = cross_validate(splits, 1 - labels, one_score(labels), {"ap": sk.average_precision_score})
    assert np.isnan(result.folds[3].metrics["ap"][0])
    assert "not defined in fold 3: only one class" in result.summary()["ap"]["undefined"]


def test_a_value_that_is_no_number_because_predictions_are_none_is_not_left_out_of_the_mean():
    labels, splits = one_class_in_fold_3()
    result = cross_validate(splits[:3], labels, one_score(labels), {"m": lambda t, p: float(np.mean(p[t == 1]))})
    result.folds[1].predictions["pred"][:] = np.nan
    result.folds[1].metrics["m"][:] = np.nan
    row, table = result.summary()["m"], result.table()
    assert np.isnan(row["mean"])
    assert row["undefined"] == ""
    assert "NaN in fold 1" in table
    assert "nan ±" not in table


# ------------------------------------------------------------------ 11: many draws at once

TRUE = np.random.default_rng(4).integers(2, size=70)
SCORES = np.round(np.random.default_rng(5).normal(size=70) + TRUE, 1)  # some are equal
MANY = np.random.default_rng(6).integers(3, size=70)
TABLE = np.random.default_rng(7).normal(size=(70, 3)) + 2 * np.eye(3)[MANY]
PROBABILITIES = np.exp(TABLE) / np.exp(TABLE).sum(axis=1, keepdims=True)
NUMBERS = np.random.default_rng(8).normal(size=70) * 3 + 1000
NEAR = NUMBERS + np.random.default_rng(9).normal(size=70)


def over_rest(function):
    return lambda true, table: np.mean([function(true == k, table[:, k]) for k in range(3)])


def of_labels(function, **settings):
    return lambda true, table: function(true, table.argmax(1), **settings)


def above_zero(function, **settings):
    return lambda true, score: function(true, score > 0, **settings)


VECTORISED = {
    "roc_auc_score": (sk.roc_auc_score, sk.roc_auc_score, TRUE, SCORES),
    "average_precision_score": (sk.average_precision_score, sk.average_precision_score, TRUE, SCORES),
    "AurocMetric": (AurocMetric(), sk.roc_auc_score, TRUE, SCORES),
    "AurocMetric of three": (AurocMetric((0, 1, 2)), over_rest(sk.roc_auc_score), MANY, TABLE),
    "roc_auc of three": ("roc_auc", over_rest(sk.roc_auc_score), MANY, PROBABILITIES),
    "pr_auc of three": ("pr_auc", over_rest(sk.average_precision_score), MANY, PROBABILITIES),
    "roc_auc_score of three": (sk.roc_auc_score, over_rest(sk.roc_auc_score), MANY, PROBABILITIES),
    "balanced_accuracy_score": (
        sk.balanced_accuracy_score, of_labels(sk.balanced_accuracy_score), MANY, PROBABILITIES,
    ),
    "balanced_acc": ("balanced_acc", of_labels(sk.balanced_accuracy_score), MANY, PROBABILITIES),
    "binary f1": (sk.f1_score, above_zero(sk.f1_score), TRUE, SCORES),
    "macro f1": (
        functools.partial(sk.f1_score, average="macro"), of_labels(sk.f1_score, average="macro"), MANY, PROBABILITIES,
    ),
    "SklearnF1Score": (
        SklearnF1Score(average="weighted"), of_labels(sk.f1_score, average="weighted"), MANY, PROBABILITIES,
    ),
    "f1": ("f1", of_labels(sk.f1_score, average="macro"), MANY, PROBABILITIES),
    "precision": (
        functools.partial(sk.precision_score, average="macro", zero_division=0),
        of_labels(sk.precision_score, average="macro", zero_division=0), MANY, PROBABILITIES,
    ),
    "recall": (sk.recall_score, above_zero(sk.recall_score), TRUE, SCORES),
    "fbeta": (functools.partial(sk.fbeta_score, beta=2), above_zero(sk.fbeta_score, beta=2), TRUE, SCORES),
    "jaccard": (sk.jaccard_score, above_zero(sk.jaccard_score), TRUE, SCORES),
    "kappa": (
        functools.partial(sk.cohen_kappa_score, weights="quadratic"),
        of_labels(sk.cohen_kappa_score, weights="quadratic"), MANY, PROBABILITIES,
    ),
    "cohen_kappa": ("cohen_kappa", of_labels(sk.cohen_kappa_score), MANY, PROBABILITIES),
    "mcc": ("mcc", of_labels(sk.matthews_corrcoef), MANY, PROBABILITIES),
    "matthews_corrcoef": (sk.matthews_corrcoef, above_zero(sk.matthews_corrcoef), TRUE, SCORES),
    "r2_score": (sk.r2_score, sk.r2_score, NUMBERS, NEAR),
    "r2": ("r2", sk.r2_score, NUMBERS, NEAR),
    "rmse": (sk.root_mean_squared_error, sk.root_mean_squared_error, NUMBERS, NEAR),
}  # fmt: skip


@pytest.mark.sampled("half")
@pytest.mark.parametrize("name", VECTORISED)
def test_many_draws_at_once_are_what_scikit_learn_gives_draw_by_draw(name):
    metric, by_sklearn, true, pred = VECTORISED[name]
    generator = np.random.default_rng(0)
    counts = np.stack([np.bincount(generator.integers(70, size=70), minlength=70) for _ in range(60)])
    statistic = statistic_of(in_form(metric), [true, pred], evaluator(metric))
    assert statistic is not None, "it would be evaluated draw by draw"
    expected = [by_sklearn(true[cases], pred[cases]) for cases in (np.repeat(np.arange(70), count) for count in counts)]
    np.testing.assert_allclose(statistic(counts), expected, rtol=1e-9, atol=1e-12)


def test_a_draw_without_one_of_the_classes_has_no_value():
    counts = np.stack([np.where(MANY == 2, 0, 1), np.ones(70, int)])
    for metric in ("roc_auc", "balanced_acc", "f1", sk.cohen_kappa_score, "pr_auc"):
        first, whole = statistic_of(in_form(metric), [MANY, PROBABILITIES], evaluator(metric))(counts)
        assert np.isnan(first)
        assert np.isfinite(whole)


def test_two_thousand_draws_of_three_metrics_take_less_than_a_second(labels):
    labels = np.random.default_rng(1).integers(2, size=417)
    metrics = {"auc": sk.roc_auc_score, "ap": sk.average_precision_score, "bacc": sk.balanced_accuracy_score}
    splits = StratifiedKFold(5).split(labels, labels)
    result = cross_validate(splits, labels, one_score(labels), metrics)
    began = time.process_time()
    rows = result.summary()
    assert time.process_time() - began < 1.0
    assert all(np.isfinite(row["ci_low"]) for row in rows.values())


MEANS = {
    "accuracy": (accuracy, MANY, PROBABILITIES),
    "accuracy_score": (sk.accuracy_score, MANY, PROBABILITIES),
    "zero_one_loss": (sk.zero_one_loss, MANY, PROBABILITIES),
    "log_loss": (sk.log_loss, MANY, PROBABILITIES),
    "binary log_loss": (sk.log_loss, TRUE, 1 / (1 + np.exp(-SCORES))),
    "cat_acc": ("cat_acc", MANY, PROBABILITIES),
    "mae": ("mae", NUMBERS, NEAR),
    "mse": ("mse", NUMBERS, NEAR),
    "mean_absolute_error": (sk.mean_absolute_error, NUMBERS, NEAR),
    "mean_squared_error": (sk.mean_squared_error, NUMBERS, NEAR),
    "dice": (
        "dice", (np.arange(1120).reshape(70, 4, 4) % 3 == 0).astype(int), np.sin(np.arange(1120.0)).reshape(70, 4, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_values_of_cases_average_to_the_metric_of_any_draw(name):
    metric, true, pred = MEANS[name]
    assert is_mean_of_cases(metric)
    found, evaluate = case_values(metric, [true, pred]), evaluator(metric)
    generator = np.random.default_rng(0)
    for cases in (np.arange(70), *generator.integers(70, size=(5, 70))):
        weights = np.ones(70) if found.weights is None else found.weights
        value = np.average(found.values[cases], weights=weights[cases])
        assert value == pytest.approx(evaluate(true[cases], pred[cases]), rel=1e-6)


@pytest.mark.parametrize(
    "metric",
    [
        sk.roc_auc_score, sk.f1_score, sk.balanced_accuracy_score, sk.r2_score, sk.root_mean_squared_error, "rmse",
        sk.median_absolute_error, sk.cohen_kappa_score, "roc_auc", "f1", "ece", lambda t, p: 0.0,
        functools.partial(sk.accuracy_score, normalize=False), AurocMetric(), SklearnF1Score(),
    ],
)  # fmt: skip
def test_metrics_that_are_no_means_over_cases_are_known_as_such(metric):
    assert not is_mean_of_cases(metric)


# ------------------------------------------------------------------ 5: the page of repeats


def test_the_page_of_repeats_counts_single_predictions_and_no_ensemble(repeated, labels):
    true = np.concatenate([labels[f.test_indices] for f in repeated.folds])
    pred = np.concatenate([f.predictions["pred"].argmax(1) for f in repeated.folds])
    matrix = sk.confusion_matrix(true, pred)
    found = confusion(repeated)
    assert [[count for count, _ in cells] for _, cells, _ in found["rows"]] == matrix.tolist()
    assert f"{6 * N} out-of-fold predictions, of 6 repeats" in page_text(repeated)
    ranking = rank(repeated)
    assert len(ranking.cases) == N


def test_the_page_of_a_repeated_regression_counts_single_predictions():
    true = np.random.default_rng(0).normal(size=30)
    folds = [
        FoldResult(k, [], None, np.arange(k % 2, 30, 2), {"mae": [1.0]},
                   {"pred": true[k % 2 :: 2] + k}, {"label": true[k % 2 :: 2]})
        for k in range(4)
    ]  # fmt: skip
    rows = dict(regression_section(KFoldResult(folds, 30, {"mae": sk.mean_absolute_error})).tables[0].texts())
    assert rows["mean absolute error"] == "1.5000"  # errors of 0, 1, 2 and 3
    assert rows["root mean squared error"] == f"{np.sqrt(14 / 4):.4f}"
