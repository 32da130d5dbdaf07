"""What the page says about a classification equals scikit-learn's numbers, and comes from scores only."""

import numpy as np
import pytest

from delira.metrics import CalibrationError, accuracy
from delira.report.predictions import (
    GRID,
    classify,
    classify_folds,
    precision_recall_bands,
    reliability,
    roc_bands,
    softmax,
)
from delira.report.sections import classification_section, confusion

sklearn_metrics = pytest.importorskip("sklearn.metrics")


def logits(n, n_classes, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(n_classes, size=n)
    scores = generator.normal(size=(n, n_classes))
    scores[np.arange(n), labels] += 1.5
    return labels, scores.astype(np.float32)


def binary(n=200, seed=1):
    generator = np.random.default_rng(seed)
    labels = generator.integers(2, size=n)
    return labels, (generator.normal(size=n) + labels).astype(np.float32)


# ------------------------------------------------------------------ what counts as probabilities


def test_scores_that_sum_to_one_are_probabilities_as_they_are(result, data):
    cases = classify(result)
    assert cases.made_by == ""
    np.testing.assert_allclose(cases.probabilities, data.scores)


def test_logits_become_probabilities_by_softmax_and_the_page_says_so(validate):
    labels, scores = logits(120, 3)
    result = validate(labels, scores, metrics={"accuracy": accuracy})
    cases = classify(result)
    assert cases.made_by == "softmax"
    np.testing.assert_allclose(cases.probabilities, softmax(scores.astype(float)))
    assert "are no probabilities" in result.to_html()


def test_one_logit_for_each_case_becomes_a_probability_by_a_sigmoid(validate):
    labels, scores = binary()
    cases = classify(validate(labels[:, None].astype(np.float32), scores[:, None], metrics={}))
    assert (cases.n_classes, cases.made_by) == (2, "sigmoid")
    np.testing.assert_allclose(cases.probabilities[:, 1], 1 / (1 + np.exp(-scores.astype(float))))
    np.testing.assert_array_equal(cases.predicted, scores > 0)


def test_one_probability_for_each_case_stays_as_it_is(validate):
    labels, scores = binary()
    share = 1 / (1 + np.exp(-scores))
    cases = classify(validate(labels, share, metrics={}))
    assert cases.made_by == ""
    np.testing.assert_allclose(cases.probabilities[:, 1], share)


def test_folds_are_read_as_the_whole_is_though_their_scores_happen_to_look_like_probabilities(validate):
    labels, scores = binary(40)
    scores[::4] = 0.5  # fold 0 alone would pass as probabilities
    result = validate(labels, scores, metrics={})
    folds = classify_folds(result, classify(result))
    assert {fold.made_by for fold in folds.values()} == {"sigmoid"}


@pytest.mark.parametrize("predicted", [np.eye(3, dtype=np.float32)[[0, 1, 1, 2]], np.array([0, 1, 1, 2])])
def test_labels_are_no_scores_so_they_have_no_curves(predicted, validate):
    result = validate(np.array([0, 1, 2, 2]), predicted, n_folds=2, metrics={})
    section = classification_section(result)
    assert section.panels == {}
    assert section.tables[0].header == ["Class", "Precision", "Recall", "F1", "n"]


def test_cases_whose_scores_are_not_finite_are_left_out_and_counted(validate):
    labels, scores = logits(60, 3)
    scores[[3, 7]] = np.nan
    result = validate(labels, scores, metrics={})
    assert len(classify(result).true) == 58
    assert any("2 cases whose scores are not finite" in note for note in classification_section(result).notes)


# ------------------------------------------------------------------ curves


def test_areas_are_those_of_scikit_learn_in_each_fold(validate):
    labels, scores = logits(200, 3)
    result = validate(labels, scores, metrics={})
    folds = classify_folds(result, classify(result))
    (roc, classes), (pr, _) = roc_bands(folds), precision_recall_bands(folds)
    for fold in result.folds:
        share = softmax(fold.predictions["pred"].astype(float))
        true = fold.targets["label"]
        expected = sklearn_metrics.roc_auc_score(true, share, multi_class="ovr")
        assert roc.areas[fold.fold] == pytest.approx(expected)
        expected = [sklearn_metrics.average_precision_score(true == k, share[:, k]) for k in range(3)]
        assert pr.areas[fold.fold] == pytest.approx(np.mean(expected))
    assert list(classes) == [0, 1, 2]


def test_large_scores_stay_in_order(validate):
    labels, scores = binary()
    result = validate(labels, 60 + 20 * scores, metrics={})
    folds = classify_folds(result, classify(result))
    (roc, _), (curve, _) = roc_bands(folds), precision_recall_bands(folds)
    for fold in result.folds:
        pair = fold.targets["label"], fold.predictions["pred"]
        assert roc.areas[fold.fold] == pytest.approx(sklearn_metrics.roc_auc_score(*pair))
        assert curve.areas[fold.fold] == pytest.approx(sklearn_metrics.average_precision_score(*pair))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_whose_softmax_is_one_stay_in_order(validate, n_classes, dtype):
    """All margins are beyond 37, and those of class 1 are larger."""
    labels = np.array([1, 1, 0, 0] * 4)
    margins = np.array([60.0, 50.0, 40.0, 45.0] * 4) + np.arange(16) / 100
    logits = np.zeros((16, n_classes), dtype)
    logits[:, 1] = margins
    logits[::4, 0] = -5
    result = validate(labels, logits, n_folds=1, metrics={})
    whole = classify(result)
    assert np.all(whole.probabilities[:, 1] == 1)
    folds = classify_folds(result, whole)
    _, by_class = roc_bands(folds)
    _, by_recall = precision_recall_bands(folds)
    assert by_class[1].areas == by_recall[1].areas == {0: 1.0}


def test_curves_are_averaged_over_folds_at_the_same_place(validate):
    labels, scores = binary()
    result = validate(labels, scores, metrics={})
    roc, _ = roc_bands(classify_folds(result, classify(result)))
    curves = []
    for fold in result.folds:
        false_rate, true_rate, _ = sklearn_metrics.roc_curve(fold.targets["label"], fold.predictions["pred"])
        curves.append(np.interp(GRID[1:], false_rate, true_rate))
    np.testing.assert_allclose(roc.mean[1:], np.mean(curves, axis=0), atol=1e-12)
    np.testing.assert_allclose(roc.std[1:], np.std(curves, axis=0, ddof=1), atol=1e-12)


def test_the_precision_at_a_recall_is_that_of_the_threshold_that_reaches_it(validate):
    labels, scores = np.array([1, 0, 1, 0] * 2), np.array([4.0, 3.0, 2.0, 1.0] * 2)
    result = validate(labels, scores, n_folds=1, metrics={})
    band, _ = precision_recall_bands(classify_folds(result, classify(result)))
    np.testing.assert_allclose(band.mean[GRID <= 0.5], 1)
    np.testing.assert_allclose(band.mean[GRID > 0.5], 2 / 3)


def test_a_recall_that_is_reached_exactly_is_not_missed_by_rounding(validate):
    # 35 of 100 are ranked above all others
    labels = np.array([1] * 35 + [0] * 50 + [1] * 65)
    result = validate(labels, np.linspace(0.9, 0.1, len(labels)), n_folds=1, metrics={})
    band, _ = precision_recall_bands(classify_folds(result, classify(result)))
    assert band.mean[35] == 1
    assert band.mean[36] < 0.5


def test_a_fold_of_one_class_has_no_curve_and_is_named(validate):
    labels, scores = binary(80)
    labels[::4] = 0
    section = classification_section(validate(labels, scores, metrics={}))
    assert any("No curves of fold 0" in note for note in section.notes)
    assert "roc" in section.panels


# ------------------------------------------------------------------ calibration and classes


@pytest.mark.parametrize("make", [lambda: logits(300, 4), binary])
def test_the_calibration_error_is_that_of_the_metric(make, validate):
    labels, scores = make()
    cases = classify(validate(labels, scores, metrics={}))
    metric = CalibrationError()
    shares = cases.probabilities[:, 1] if cases.is_one_score else cases.probabilities
    metric.is_logit = False
    assert reliability(cases).error == pytest.approx(metric.compute(cases.true, shares))


def test_the_table_of_classes_is_that_of_scikit_learn(validate):
    labels, scores = logits(150, 3)
    result = validate(labels, scores, metrics={}, info={"class_names": ["cat", "dog", "emu"]})
    table, _ = classification_section(result).tables
    expected = sklearn_metrics.precision_recall_fscore_support(labels, scores.argmax(1))
    assert [row[0] for row in table.rows] == ["cat", "dog", "emu", "mean of classes", "weighted by n"]
    for column in range(3):
        np.testing.assert_allclose([row[1 + column] for row in table.rows[:3]], expected[column])
    assert [row[-1] for row in table.rows[:3]] == expected[3].tolist()


def test_a_class_that_is_never_predicted_is_told_since_precision_leaves_it_out(validate):
    labels, scores = logits(150, 3)
    scores[:, 2] = -50
    section = classification_section(validate(labels, scores, metrics={}))
    told = " ".join(section.notes)
    (precision, recall, f1), mean = section.tables[0].rows[2][1:4], section.tables[0].rows[3]
    assert np.isnan(precision)
    assert (recall, f1) == (0, 0)
    assert mean[1] == pytest.approx(np.mean([row[1] for row in section.tables[0].rows[:2]]))
    assert "1 class is never predicted, so means of the precision are over the others" in told


def test_of_a_hundred_classes_the_most_frequent_confusions_are_listed(validate):
    labels, scores = logits(1000, 100)
    scores[labels == 7, 9] += 50
    result = validate(labels, scores, metrics={})
    confusions = classification_section(result).tables[1]
    assert confusions.rows[0][:3] == ["7", "9", int((labels == 7).sum())]
    assert confusion(result) is None


@pytest.mark.slow
def test_the_page_of_a_hundred_classes_is_smaller_than_two_megabytes(validate):
    labels, scores = logits(2000, 100)
    html = validate(labels, scores, metrics={}).to_html()
    assert "Confusion matrix" not in html
    assert len(html) < 2 << 20


@pytest.mark.slow
def test_twenty_folds_of_many_cases_make_a_page_of_less_than_two_megabytes(validate):
    labels, scores = logits(5000, 10)
    html = validate(labels, scores, n_folds=20, metrics={}).to_html()
    assert len(html) < 2 << 20


def test_of_many_classes_the_hardest_are_named_and_thirty_others_drawn(validate):
    labels, scores = logits(2000, 80)
    section = classification_section(validate(labels, scores, metrics={}))
    (axes,) = section.panels["roc_classes"].axes
    named = [line for line in axes.lines if line.get_label() != "class"]
    areas = [row[4] for row in section.tables[0].rows[:80]]
    assert [line.get_label().split()[0] for line in named] == [str(k) for k in np.argsort(areas)[:3]]
    assert 20 < len(axes.lines) - 3 <= 30


def test_a_bin_of_confidence_has_its_upper_edge(validate):
    labels = np.array([0, 1, 0, 1, 1, 1])
    share = np.array([0.15, 0.2, 0.2, 0.25, 0.4, 0.45])
    cases = classify(validate(labels, share, n_folds=1, metrics={}))
    np.testing.assert_allclose(reliability(cases).share[[2, 3, 5, 6]], [3 / 6, 1 / 6, 1 / 6, 1 / 6])
