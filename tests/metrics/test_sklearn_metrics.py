"""The historic Sklearn* names and AurocMetric against scikit-learn itself."""

import copy
import importlib
import pickle

import numpy as np
import pytest
import sklearn.metrics

import delira.metrics
from delira.errors import ConfigError, DataError
from delira.metrics import AurocMetric, SklearnClassificationMetric, SklearnF1Score, SklearnLogLoss

GENERATOR = np.random.default_rng(5)
N = 60
BINARY, BINARY_SCORES = GENERATOR.integers(2, size=N), GENERATOR.random((N, 2))
LABELS, SCORES = GENERATOR.integers(4, size=N), GENERATOR.normal(size=(N, 4))

FUNCTIONS = {
    "SklearnAccuracyScore": (sklearn.metrics.accuracy_score, {}),
    "SklearnBalancedAccuracyScore": (sklearn.metrics.balanced_accuracy_score, {}),
    "SklearnF1Score": (sklearn.metrics.f1_score, {"average": "macro"}),
    "SklearnFBetaScore": (sklearn.metrics.fbeta_score, {"average": "macro", "beta": 2.0}),
    "SklearnHammingLoss": (sklearn.metrics.hamming_loss, {}),
    "SklearnJaccardSimilarityScore": (sklearn.metrics.jaccard_score, {"average": "weighted"}),
    "SklearnMatthewsCorrCoeff": (sklearn.metrics.matthews_corrcoef, {}),
    "SklearnPrecisionScore": (sklearn.metrics.precision_score, {"average": "macro"}),
    "SklearnRecallScore": (sklearn.metrics.recall_score, {"average": "macro"}),
    "SklearnZeroOneLoss": (sklearn.metrics.zero_one_loss, {}),
}


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("gt_logits", [False, True])
@pytest.mark.parametrize("pred_logits", [False, True])
def test_every_metric_is_that_of_sklearn(name, gt_logits, pred_logits):
    function, kwargs = FUNCTIONS[name]
    metric = getattr(delira.metrics, name)(gt_logits=gt_logits, pred_logits=pred_logits, **kwargs)
    true = np.eye(4)[LABELS] if gt_logits else LABELS
    pred = SCORES if pred_logits else SCORES.argmax(1)
    value = metric(true, pred)
    assert isinstance(value, float)
    assert value == function(LABELS, SCORES.argmax(1), **kwargs)


@pytest.mark.parametrize("name", [*FUNCTIONS, "SklearnLogLoss"])
def test_two_classes_need_no_arguments(name):
    assert np.isfinite(getattr(delira.metrics, name)()(BINARY, BINARY_SCORES))


def test_fbeta_is_f1_unless_beta_is_given():
    assert delira.metrics.SklearnFBetaScore()(BINARY, BINARY_SCORES) == SklearnF1Score()(BINARY, BINARY_SCORES)


def test_arguments_of_a_call_win():
    metric = SklearnF1Score(average="macro")
    expected = sklearn.metrics.f1_score(LABELS, SCORES.argmax(1), average="micro")
    assert metric(LABELS, SCORES, average="micro") == expected


def test_the_jaccard_score_works_although_sklearn_removed_its_old_name():
    # delira 0.4 imported jaccard_similarity_score, gone since scikit-learn 0.23 (defect 50)
    assert not hasattr(sklearn.metrics, "jaccard_similarity_score")
    metric = delira.metrics.SklearnJaccardSimilarityScore(pred_logits=False)
    assert metric(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0])) == pytest.approx(1 / 3)


def test_the_historic_import_path_shows_every_name():
    module = importlib.import_module("delira.training.metrics")
    for name in (*FUNCTIONS, "SklearnLogLoss", "SklearnClassificationMetric", "AurocMetric"):
        assert getattr(module, name) is getattr(delira.metrics, name)
        assert name in module.__all__


def test_any_function_that_compares_labels_can_be_wrapped():
    metric = SklearnClassificationMetric(lambda y_true, y_pred, more: (y_true == y_pred).sum() + more, more=100)
    assert metric(LABELS, SCORES) == 100 + (SCORES.argmax(1) == LABELS).sum()


def test_pixels_become_samples():
    true, scores = GENERATOR.integers(3, size=(2, 4, 4)), GENERATOR.random((2, 4, 4, 3))
    metric = delira.metrics.SklearnAccuracyScore()
    assert metric(true, scores) == (true == scores.argmax(-1)).mean()


def test_a_column_of_labels_is_flattened_and_multi_label_indicators_are_kept():
    metric = SklearnF1Score(pred_logits=False, average="samples")
    indicator = np.array([[1, 0, 1], [0, 1, 1]])
    assert metric(indicator, indicator) == 1.0
    assert delira.metrics.SklearnAccuracyScore()(LABELS[:, None], SCORES) == (SCORES.argmax(1) == LABELS).mean()


def test_labels_where_scores_are_needed_are_refused_with_the_cure():
    with pytest.raises(DataError, match=r"pred_logits=True takes the argmax.*y_pred, which has shape \(60,\).*=False"):
        SklearnF1Score()(LABELS, LABELS)
    with pytest.raises(DataError, match="gt_logits=True takes the argmax over the last axis of y_true"):
        SklearnF1Score(gt_logits=True)(LABELS, SCORES)


def softmax(scores):
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_loss_takes_logits_and_probabilities(dtype):
    expected = sklearn.metrics.log_loss(LABELS, softmax(SCORES))
    assert SklearnLogLoss()(LABELS, SCORES.astype(dtype)) == pytest.approx(expected, rel=1e-6)
    assert SklearnLogLoss()(LABELS, softmax(SCORES).astype(dtype)) == pytest.approx(expected, rel=1e-6)
    assert SklearnLogLoss(gt_logits=True)(np.eye(4)[LABELS], SCORES.astype(dtype)) == pytest.approx(expected, rel=1e-6)


def test_log_loss_of_logits_equals_the_cross_entropy_of_torch():
    torch = pytest.importorskip("torch")
    expected = torch.nn.functional.cross_entropy(torch.from_numpy(SCORES), torch.from_numpy(LABELS)).item()
    assert SklearnLogLoss()(LABELS, SCORES) == pytest.approx(expected)


def test_log_loss_knows_classes_that_do_not_occur():
    true, scores = np.array([0, 1, 1]), SCORES[:3]
    expected = -np.log(softmax(scores)[np.arange(3), true]).mean()
    assert SklearnLogLoss()(true, scores) == pytest.approx(expected)


def test_log_loss_takes_the_probability_of_the_second_class():
    probabilities = BINARY_SCORES[:, 1]
    expected = sklearn.metrics.log_loss(BINARY, probabilities)
    assert SklearnLogLoss(pred_logits=False)(BINARY, probabilities) == pytest.approx(expected)
    assert SklearnLogLoss()(BINARY, probabilities[:, None]) == pytest.approx(expected)


@pytest.mark.parametrize("pick", [lambda s: s, lambda s: s[:, 1], lambda s: s[:, 1:]])
def test_auroc_of_two_classes_takes_one_or_two_columns(pick):
    # delira 0.4 looked at y_pred.shape[2] of a 2-d array: IndexError for two columns (defect 49)
    expected = sklearn.metrics.roc_auc_score(BINARY, BINARY_SCORES[:, 1])
    assert AurocMetric()(BINARY, pick(BINARY_SCORES)) == expected
    assert AurocMetric()(BINARY[:, None], pick(BINARY_SCORES)) == expected


def test_auroc_hands_its_arguments_to_sklearn_also_for_two_classes():
    # delira 0.4 ignored them (defect 49)
    expected = sklearn.metrics.roc_auc_score(BINARY, BINARY_SCORES[:, 1], max_fpr=0.3)
    assert AurocMetric(max_fpr=0.3)(BINARY, BINARY_SCORES) == expected
    assert AurocMetric()(BINARY, BINARY_SCORES, max_fpr=0.3) == expected


def test_auroc_counts_the_second_of_two_named_classes_as_positive():
    names = np.array(["sick", "healthy"])[BINARY]
    expected = sklearn.metrics.roc_auc_score(BINARY == 0, BINARY_SCORES[:, 0])
    assert AurocMetric(classes=("healthy", "sick"))(names, BINARY_SCORES[:, 0]) == pytest.approx(expected)


def test_auroc_of_many_classes_is_each_against_the_rest():
    expected = np.mean([sklearn.metrics.roc_auc_score(c == LABELS, SCORES[:, c]) for c in range(4)])
    assert AurocMetric(classes=range(4))(LABELS, SCORES) == pytest.approx(expected)
    weights = np.bincount(LABELS)
    each = [sklearn.metrics.roc_auc_score(c == LABELS, SCORES[:, c]) for c in range(4)]
    expected = np.average(each, weights=weights)
    assert AurocMetric(range(4), average="weighted")(LABELS, SCORES) == pytest.approx(expected)


def test_one_class_is_no_auroc():
    with pytest.raises(ConfigError, match="at least two different classes"):
        AurocMetric(classes=(1,))
    with pytest.raises(ValueError, match="at least two different classes"):
        AurocMetric(classes=(1,))


def test_auroc_refuses_columns_and_labels_that_are_not_its_classes():
    with pytest.raises(DataError, match=r"needs scores of shape \(N, 2\), got \(60, 4\)"):
        AurocMetric()(BINARY, SCORES)
    with pytest.raises(DataError, match=r"got the labels \[2, 3\]; name all classes"):
        AurocMetric()(LABELS, BINARY_SCORES)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
def test_metrics_can_be_copied_and_sent_to_other_processes(clone):
    metric = SklearnF1Score(average="macro")
    assert clone(metric)(LABELS, SCORES) == metric(LABELS, SCORES)
    assert repr(metric) == "SklearnF1Score(gt_logits=False, pred_logits=True, average='macro')"
    assert repr(AurocMetric()) == "AurocMetric(classes=(0, 1))"
