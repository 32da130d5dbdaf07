"""``delira.compare``: what is computed of which metric, and what is refused with a reason."""

import json
import warnings

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score
from small_results import METRICS as PER_SAMPLE
from small_results import cross_validate

import delira
from delira.comparison.many import holm
from delira.comparison.tests_of_cases import mcnemar_test
from delira.comparison.tests_of_folds import corrected_t_test, posterior_of_difference
from delira.errors import ConfigError, DataError
from delira.metrics import AurocMetric, accuracy
from delira.metrics.of_cases import call_of, statistic_of
from delira.report.summary import fold_values


def test_differences_of_folds_are_tested_with_their_share(pair):
    found = delira.compare(pair, metric="accuracy").of("accuracy")[0]
    first, second = (fold_values(result)["accuracy"] for result in pair)
    assert found.folds == pytest.approx(second - first)
    assert found.mean == pytest.approx((second - first).mean())
    assert found.tests["corrected t"].p_value == corrected_t_test(second - first, 24 / 96).p_value
    assert found.posterior == posterior_of_difference(second - first, 24 / 96, 0.01)
    assert (found.label, found.is_better) == ("wide − plain", True)


def test_differences_of_cases_are_those_of_an_accuracy(pair, labels):
    comparison = delira.compare(pair, metric="accuracy")
    found = comparison.of("accuracy")[0]
    right = [result.oof.predictions["pred"].argmax(axis=1) == labels for result in pair]
    assert found.cases == pytest.approx(right[1].astype(float) - right[0])
    assert found.tests["McNemar"].p_value == mcnemar_test(*right).p_value
    assert found.interval.low < found.mean < found.interval.high
    assert found.interval.n == 120
    cases = comparison.cases("accuracy")
    assert list(cases) == ["index", "fold", "plain", "wide", "wide − plain"]
    order = np.argsort(cases["index"])
    assert cases["wide − plain"][order] == pytest.approx(found.cases)


def test_a_metric_over_samples_has_differences_of_cases_and_no_mcnemar(data):
    other = data.scores[:, ::-1].copy()
    results = [cross_validate(data.labels, each, name=name) for each, name in ((data.scores, "a"), (other, "b"))]
    found = delira.compare(results, metric="certainty", direction="highest").of("certainty")[0]
    expected = other[np.arange(90), data.labels] - data.scores[np.arange(90), data.labels]
    assert found.cases == pytest.approx(expected)
    assert "McNemar" not in found.tests
    assert set(PER_SAMPLE) == {"accuracy", "certainty"}


def test_an_auroc_is_compared_within_folds(pair, labels):
    comparison = delira.compare(pair, metric="auroc")
    found = comparison.of("auroc")[0]
    by_fold = [
        [roc_auc_score(labels[fold.test_indices], fold.predictions["pred"][:, 1]) for fold in result.folds]
        for result in pair
    ]
    assert found.folds == pytest.approx(np.diff(by_fold, axis=0)[0])
    assert found.cases is None
    assert {"corrected t", "Wilcoxon", "DeLong"} == set(found.tests)
    assert found.tests["DeLong"].p_value < 0.05
    assert found.interval.low < found.mean < found.interval.high
    with pytest.raises(ConfigError, match="auroc is no mean over cases"):
        comparison.cases("auroc")


def test_scores_on_scales_of_their_own_change_no_auroc(pair, method):
    expected = delira.compare(pair, metric="auroc").of("auroc")[0]
    for fold in pair[1].folds:
        fold.predictions = {"pred": fold.predictions["pred"] * (1 + fold.fold)}
    found = delira.compare(pair, metric="auroc").of("auroc")[0]
    assert found.tests == expected.tests
    assert found.interval == expected.interval


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_scores_of_an_auroc_are_those_that_it_ranks(n_classes):
    generator = np.random.default_rng(0)
    labels, logits = np.arange(60) % n_classes, generator.normal(size=(60, n_classes))
    metric = AurocMetric(classes=range(n_classes))
    metric.output = "logits"  # as a loss says it
    statistic = statistic_of(metric, [labels, logits], metric)
    call = call_of(metric, [labels, logits])
    assert roc_auc_score(call.true, call.pred) == pytest.approx(metric(labels, logits))
    assert statistic(np.ones((1, 60), int))[0] == pytest.approx(metric(labels, logits))


NESTED = np.arange(120) // 10 * 5 + np.arange(120) % 5  # a case of each class, in one fold


@pytest.mark.parametrize(
    "groups", [NESTED, np.arange(120) % 60, np.arange(120) // 2], ids=["within folds", "of one class", "across folds"]
)
def test_with_groups_tests_over_cases_are_refused_and_the_bootstrap_is_named(method, groups):
    results = [method(strength, name, seed, groups=groups) for strength, name, seed in ((0.5, "a", 1), (1.2, "b", 2))]
    comparison = delira.compare(results)
    for metric, test in (("accuracy", "McNemar"), ("auroc", "DeLong")):
        found = comparison.of(metric)[0]
        assert np.isnan(found.tests[test].p_value)
        assert "of one group are not; the paired bootstrap, which draws whole groups" in found.tests[test].note
        assert found.interval.n_groups == 60
        assert not found.interval.note
        assert found.interval.low < found.mean < found.interval.high
    assert "group" in list(comparison.cases("accuracy"))


def test_repeats_have_the_corrected_t_test_and_the_bootstrap_alone(method):
    results = []
    for strength, name, seed in ((0.5, "a", 1), (1.2, "b", 2)):
        result, again = method(strength, name, seed), method(strength, name, seed + 10)
        for fold in again.folds:
            fold.fold += 5
            order = (fold.test_indices + 1) % 120
            fold.test_indices = order
        results.append(result)
        result.folds = [*result.folds, *again.folds]
        for fold in again.folds:
            fold.targets = {"label": result.oof.targets["label"][fold.test_indices]}
    found = delira.compare(results)
    one = found.of("accuracy")[0]
    assert np.isfinite(one.tests["corrected t"].p_value)
    assert len(one.folds) == 10
    for difference in found.differences:
        for name in ("Wilcoxon", "McNemar", "DeLong"):
            if name in difference.tests:
                assert np.isnan(difference.tests[name].p_value)
                assert "test instead" in difference.tests[name].note
    assert one.interval.n == 120
    assert not one.interval.note
    assert "cases tested several times" in found.title


def test_several_results_are_corrected_over_all_pairs_or_those_with_a_baseline(pair, method):
    results = [*pair, method(0.9, "deep", 3)]
    found = delira.compare(results, metric="accuracy")
    assert [one.label for one in found.differences] == ["wide − plain", "deep − plain", "deep − wide"]
    for name in ("corrected t", "Wilcoxon", "McNemar"):
        tests = [one.tests[name] for one in found.differences]
        assert [test.adjusted for test in tests] == pytest.approx(holm([test.p_value for test in tests]).tolist())
        assert all(test.final == test.adjusted for test in tests)
    found = delira.compare(results, metric="accuracy", baseline="wide")
    assert [one.label for one in found.differences] == ["plain − wide", "deep − wide"]
    assert np.isnan(delira.compare(pair, metric="accuracy").differences[0].tests["McNemar"].adjusted)


def test_lower_may_be_better(pair, labels):
    metrics = {"log_loss": log_loss}
    results = [
        cross_validate(labels, result.oof.predictions["pred"][:, 1], n_folds=5, metrics=metrics, name=result.name)
        for result in pair
    ]
    found = delira.compare(results).differences[0]
    assert found.mean < 0
    assert found.is_better
    assert not found.higher_is_better
    assert found.p_better > found.p_worse
    assert found.cases is not None
    turned = delira.compare(results, direction="highest").differences[0]
    assert turned.p_worse == found.p_better


def test_a_direction_that_nobody_knows_must_be_said(method):
    pair = [method(0.5, "plain", 1, n_folds=3), method(1.2, "wide", 2, n_folds=3)]

    def quality(y_true, y_pred):
        return float(np.mean(y_pred[:, 1][y_true == 1]))

    for result in pair:
        result.metrics = {"quality": quality}
        for fold in result.folds:
            fold.metrics = {"quality": np.array([quality(fold.targets["label"], fold.predictions["pred"])])}
    with pytest.raises(ConfigError, match="nobody knows whether a high 'quality' is good; say direction='highest'"):
        delira.compare(pair)
    for direction in ("highest", {"quality": "max"}):
        found = delira.compare(pair, direction=direction).differences[0]
        assert not found.interval.note  # drawn again and again
    with pytest.raises(ConfigError, match="direction must be"):
        delira.compare(pair, direction="up")


def test_a_metric_whose_function_is_lost_has_no_interval_and_says_why(pair):
    for result in pair:
        result.metrics = None
    found = delira.compare(pair)
    assert {one.interval.note for one in found.differences} == {"the function that computed it is not known here"}
    assert "(no bootstrap interval: the function that computed it is not known here)" in found.words[0]
    assert all(np.isfinite(one.tests["corrected t"].p_value) for one in found.differences)


def test_an_auroc_of_three_classes_has_no_delong_test(data):
    metrics = {"auroc": AurocMetric(classes=(0, 1, 2))}
    other = np.roll(data.scores, 1, axis=0)
    results = [
        cross_validate(data.labels, each, n_folds=2, metrics=metrics, name=name)
        for each, name in ((data.scores, "a"), (other, "b"))
    ]
    found = delira.compare(results).differences[0]
    assert found.tests["DeLong"].note == "it is for two classes; the paired bootstrap is the test instead"
    assert not found.interval.note


def test_a_fold_in_which_the_metric_is_not_defined_counts_in_no_number(pair):
    for result in pair:
        result.folds[1].metrics = {**result.folds[1].metrics, "auroc": np.array([np.nan])}
    found = delira.compare(pair, metric="auroc").differences[0]
    assert len(found.folds) == 4
    assert found.notes == ("not defined in fold 1, which count in no number here",)
    assert np.isfinite(found.tests["DeLong"].p_value)


def test_differences_without_a_spread_are_not_called_sure(method):
    first, other = method(9.0, "a", 1), method(9.5, "b", 2)
    found = delira.compare([first, other], metric="auroc").differences[0]
    assert found.folds.tolist() == [0, 0, 0, 0, 0]
    assert not found.is_identical  # the scores differ
    assert found.posterior is None
    assert np.isnan(found.t_interval).all()
    assert found.tests["DeLong"].note == "both order the cases of each fold in the same way"
    text = " ".join(delira.compare([first, other], metric="auroc").words)
    assert "It may not be said that they are equal." in text


def test_cases_without_a_value_in_one_of_the_two_are_counted(data):
    results = [
        cross_validate(data.labels, data.scores, name="a"),
        cross_validate(data.labels, data.scores + 0.1, name="b"),
    ]
    for result in results:
        for fold in result.folds:
            fold.partial = ("certainty",)
    results[1].folds[0].metrics["certainty"][:3] = np.nan
    found = delira.compare(results, metric="certainty", direction="highest").differences[0]
    assert np.isnan(found.cases).sum() == 3
    assert found.notes == ("defined for 3 cases in one of the two alone, which count in its mean all the same",)
    assert found.interval.low < found.mean < found.interval.high


def test_delongs_test_is_of_the_metric_or_is_not_made(pair):
    for fold in pair[0].folds:
        fold.metrics["auroc"] = fold.metrics["auroc"] + 0.01
    found = delira.compare(pair, metric="auroc").differences[0]
    assert found.tests["DeLong"].note == "the metric is another one than the area under the curve of the scores"


def test_predictions_that_were_not_kept_leave_the_tests_over_folds(pair):
    for result in pair:
        for fold in result.folds:
            fold.predictions, fold.kept_as = {}, "keep_predictions=False"
    found = delira.compare(pair)
    for one in found.differences:
        assert np.isfinite(one.tests["corrected t"].p_value)
        assert one.interval.note
        assert one.cases is None


def test_a_fold_that_lacks_a_class_is_left_out_and_other_metrics_keep_it(method):
    labels = np.where(np.arange(120) % 5 == 1, 0, np.arange(120) // 5 % 2)
    with warnings.catch_warnings(action="ignore"):  # scikit-learn's, of one class
        results = [
            method(strength, name, seed, labels=labels) for strength, name, seed in ((0.5, "a", 1), (1.2, "b", 2))
        ]
    found = delira.compare(results)
    accuracy_of, auroc = (found.of(name)[0] for name in ("accuracy", "auroc"))
    assert (len(accuracy_of.folds), len(auroc.folds)) == (5, 4)
    assert (accuracy_of.interval.n, auroc.interval.n) == (120, 96)
    assert auroc.notes == ("not defined in fold 1, which count in no number here",)
    assert np.isfinite([auroc.interval.low, auroc.tests["DeLong"].p_value]).all()


def test_leave_one_out_has_no_test_over_folds(labels):
    generator = np.random.default_rng(0)
    scores = [generator.random((20, 2)).astype(np.float32) for _ in range(2)]
    results = [
        cross_validate(labels[:20], each, n_folds=20, metrics={"accuracy": accuracy}, name=name)
        for each, name in zip(scores, "ab", strict=True)
    ]
    found = delira.compare(results).differences[0]
    assert "leave-one-out" in found.tests["corrected t"].note
    assert found.posterior is None
    assert np.isfinite(found.tests["McNemar"].p_value)
    assert np.isfinite(found.interval.low)


def test_identical_results_are_refused(pair, method):
    with pytest.raises(DataError, match=r"plain \(1\) and plain \(2\) are identical: .* Is it the same run twice"):
        delira.compare([pair[0], pair[0]])
    found = delira.compare([*pair, method(0.5, "copy", 1)], metric=["accuracy", "auroc"])
    same = [one for one in found.differences if {one.first, one.second} == {"plain", "copy"}]
    assert all(one.is_identical and not one.tests for one in same)
    told = "copy and plain have the same accuracy in every fold and for every case: there is nothing to test."
    assert told in found.words
    assert "nan" not in str(found).lower()


def test_a_metric_that_nobody_computed_is_refused_with_a_guess(pair):
    with pytest.raises(ConfigError, match="no result has the metric 'acuracy'; did you mean 'accuracy'"):
        delira.compare(pair, metric="acuracy")
    for fold in pair[1].folds:
        fold.metrics = {"accuracy": fold.metrics["accuracy"]}
    with pytest.raises(ConfigError, match="wide did not compute the metric 'auroc'"):
        delira.compare(pair, metric="auroc")
    assert delira.compare(pair).metrics == ["accuracy"]
    for fold in pair[1].folds:
        fold.metrics = {"other": fold.metrics["accuracy"]}
    with pytest.raises(ConfigError, match="no metric in common: plain: accuracy, auroc; wide: other"):
        delira.compare(pair)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"baseline": "wid"}, "there is no result 'wid'; did you mean 'wide'"),
        ({"rope": -1}, "rope is a number of at least 0"),
        ({"rope": {"acc": 0.1}}, "rope: no compared metric is called 'acc'"),
        ({"alpha": 1.5}, "alpha is a level between 0 and 1"),
        ({"seed": -1}, "seed must be a non-negative integer"),
        ({"n_resamples": 10}, "n_resamples is a whole number of at least 100"),
        ({"direction": {"acc": "highest"}}, "direction: no compared metric is called 'acc'"),
        ({"metric": []}, "metric is the name of a metric"),
        ({"metric": 3}, "metric is the name of a metric"),
    ],
)
def test_impossible_arguments_are_refused(pair, settings, message):
    with pytest.raises(ConfigError, match=message):
        delira.compare(pair, **settings)


def test_ropes_may_differ_between_metrics(pair):
    found = delira.compare(pair, rope={"accuracy": 0.5})
    assert found.of("accuracy")[0].posterior.rope == 0.5
    assert found.of("auroc")[0].posterior.rope == 0.01
    assert "±0.5 in accuracy, ±0.01 in auroc" in found.conventions


def test_the_seed_decides_the_draws(pair):
    def interval(**settings):
        return delira.compare(pair, metric="accuracy", **settings).differences[0].interval

    assert interval() == interval(seed=0)
    assert interval() != interval(seed=1)
    wide, narrow = interval(alpha=0.01), interval(alpha=0.2)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_stored_runs_are_read_and_compared(tmp_path, monkeypatch):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    from delira.data_loading import BaseDataManager
    from delira.training import SklearnExperiment

    monkeypatch.chdir(tmp_path)
    features = np.random.default_rng(0).normal(size=(90, 3))
    data = BaseDataManager({"data": features, "label": np.int64(features[:, 0] > 0)}, batch_size=10)
    live = [
        SklearnExperiment.of(estimator, save_path="runs", name=name, verbose=False).kfold(
            data, {"accuracy": accuracy}, num_splits=3, shuffle=True, random_seed=0
        )
        for estimator, name in ((LogisticRegression(), "linear"), (KNeighborsClassifier(3), "near"))
    ]
    stored = delira.compare([tmp_path / "runs" / "linear", "runs/near"])
    assert str(stored) == str(delira.compare(live))


def test_rows_are_numbers_for_other_programs(pair):
    found = delira.compare(pair)
    (row, _) = found.to_rows()
    assert row["difference"] == found.differences[0].mean
    assert row["corrected_t_p"] == found.differences[0].tests["corrected t"].p_value
    assert json.loads(json.dumps(row, allow_nan=True))["metric"] == "accuracy"
    with pytest.raises(ConfigError, match="the metric 'loss' was not compared"):
        found.of("loss")
    pytest.importorskip("pandas", reason="tables are those of the package 'pandas', which is not installed")
    assert list(found.to_dataframe()["metric"]) == ["accuracy", "auroc"]
