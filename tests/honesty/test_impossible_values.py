"""Predictions that are no finite numbers, and labels that no class is: never a number that looks like any other."""

import functools

import numpy as np
import pytest

from delira.errors import DataError
from delira.metrics import MetricList, MetricSet, accuracy, dice
from delira.metrics.metric_set import in_form
from delira.state import CRITERION, EPOCH, Y_PRED, Y_TRUE, State, X

sk = pytest.importorskip("sklearn.metrics", reason="the numbers are compared with those of scikit-learn")

RANDOM = np.random.default_rng(0)
N = 30
LABELS = RANDOM.integers(3, size=N)
SCORES = (RANDOM.normal(size=(N, 3)) + np.eye(3)[LABELS]).astype(np.float32)
STRINGS = (
    "cat_acc", "top_5_acc", "top_10_acc", "f1", "precision", "recall", "balanced_acc", "cohen_kappa", "mcc", "roc_auc",
    "pr_auc", "ece",
)  # fmt: skip
FUNCTIONS = (
    accuracy, sk.accuracy_score, sk.balanced_accuracy_score, sk.log_loss, sk.roc_auc_score, sk.top_k_accuracy_score,
    functools.partial(sk.f1_score, average="macro"), sk.average_precision_score, sk.cohen_kappa_score, sk.ndcg_score,
)  # fmt: skip
ALL = (*STRINGS, *FUNCTIONS)


def name_of(metric):
    return metric if isinstance(metric, str) else getattr(metric, "func", metric).__name__


def of_set(metric, pred, true, size, criterion=None):
    """What an experiment computes."""
    metrics = MetricSet({"metric": in_form(metric, "metric", criterion)})
    for start in range(0, len(pred), size):
        metrics.update({"pred": pred[start : start + size], "label": true[start : start + size]})
    return metrics.compute()["metric"].item()


def of_trial(metric, pred, true, size, convert=np.asarray):
    """What a trial computes, of arrays of a framework."""
    metrics, state = MetricList([metric]), State({CRITERION: None, EPOCH: 0})
    metrics.eval()
    metrics.reset(state)
    for start in range(0, len(pred), size):
        batch = pred[start : start + size]
        state.update({Y_PRED: convert(batch), Y_TRUE: convert(true[start : start + size]), X: batch})
        metrics.process(state)
    return next(iter(metrics.process_final(state).values())), metrics


@pytest.mark.parametrize("metric", ALL, ids=name_of)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_prediction_that_is_not_finite_makes_the_number_none(metric, value):
    pred = SCORES.copy()
    pred[17, RANDOM.integers(3)] = value
    for size in (1, 7, N):
        assert np.isnan(of_set(metric, pred, LABELS, size)), size
    assert np.isfinite(of_set(metric, SCORES, LABELS, 7))


@pytest.mark.sampled("values")
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
@pytest.mark.parametrize("metric", STRINGS)
def test_a_trial_says_so_of_arrays_of_its_framework_and_names_the_sample(metric, framework):
    place = pytest.importorskip(framework)
    convert = {"torch": "as_tensor", "tensorflow": "constant", "jax": "numpy.asarray"}[framework]
    for part in convert.split("."):
        place = getattr(place, part)
    pred = SCORES.copy()
    pred[17] = np.nan
    value, metrics = of_trial(metric, pred, LABELS, 7, place)
    assert np.isnan(value)
    assert metrics.trees[0].lost == [17]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_score_that_is_not_finite_says_neither_yes_nor_no(value):
    true = LABELS > 0
    pred = SCORES[:, 0].astype(np.float64)
    pred[3] = value
    for metric in ("binary_acc", "f1", "roc_auc", "pr_auc", "ece", "mcc", sk.accuracy_score, sk.f1_score, sk.log_loss):
        assert np.isnan(of_set(metric, pred, true.astype(np.int64), 7)), metric
        assert np.isnan(of_trial(metric, pred, true.astype(np.int64), 7)[0]), metric


def test_labels_that_were_predicted_may_be_none():
    pred = LABELS.astype(np.float64)
    pred[5] = np.nan
    for metric in (accuracy, sk.accuracy_score, functools.partial(sk.f1_score, average="macro")):
        assert np.isnan(of_set(metric, pred, LABELS, N))


def test_a_class_that_is_ruled_out_by_minus_infinity_is_no_fault():
    pred = SCORES.copy()
    pred[np.arange(N), (LABELS + 1) % 3] = -np.inf  # never the true one
    expected = np.mean(pred.argmax(1) == LABELS)
    for metric in ("cat_acc", accuracy, sk.accuracy_score):
        assert of_set(metric, pred, LABELS, 7) == pytest.approx(expected)


def test_masks_that_are_not_finite_have_no_overlap():
    pred = RANDOM.random((4, 6, 6))
    true = (RANDOM.random((4, 6, 6)) > 0.5).astype(np.int64)
    pred[2, 1, 1] = np.nan
    assert np.isnan(of_set("dice", pred, true, 2))
    assert np.isnan(of_set("iou", pred, true, 4))
    assert np.isnan(of_set("hausdorff", pred, true, 3))
    scores = np.stack([1 - pred, pred], 1)
    assert np.isnan(dice(true[2], scores[2]))
    assert not np.isnan(dice(true[0], scores[0]))


@pytest.mark.parametrize("metric", ALL, ids=name_of)
@pytest.mark.parametrize("label", [7, -5])
def test_a_label_that_no_class_is_is_refused_by_name_and_sample(metric, label):
    true = LABELS.copy()
    true[13] = label
    for size in (1, 7, N):
        with pytest.raises(DataError, match=rf"metric .* got the target {label} in sample 13, which is none of the 3"):
            of_set(metric, SCORES, true, size)


@pytest.mark.parametrize("metric", [*STRINGS, *(each for each in FUNCTIONS if each is not accuracy)], ids=name_of)
def test_a_label_that_is_no_whole_number_is_refused(metric):
    true = LABELS.astype(np.float32)
    true[13] = 0.9
    for size in (1, 7, N):
        with pytest.raises(DataError, match=r"got the target 0.8999.* in sample 13, which is no"):
            of_set(metric, SCORES, true, size)


@pytest.mark.parametrize("metric", ["binary_acc", "f1", "roc_auc", "pr_auc", "ece", sk.f1_score], ids=name_of)
@pytest.mark.parametrize("label", [7, -5])
def test_a_label_of_yes_and_no_is_one_of_them(metric, label):
    true = (LABELS > 0).astype(np.int64)
    true[13] = label
    with pytest.raises(DataError, match=rf"got the target {label} in sample 13, which is neither yes nor no"):
        of_set(metric, SCORES[:, 0], true, 7)


@pytest.mark.parametrize("metric", ["cat_acc", "top_5_acc", "f1", "mcc", sk.accuracy_score], ids=name_of)
def test_targets_that_do_not_count_are_no_labels(metric):
    class CrossEntropyLoss:
        ignore_index = -100

    true = LABELS.copy()
    true[::4] = -100
    counts = true != -100
    alone = of_set(metric, SCORES[counts], LABELS[counts], 7)
    assert of_set(metric, SCORES, true, 7, CrossEntropyLoss()) == pytest.approx(alone)
    lost = SCORES.copy()
    lost[0] = np.nan  # nor is its prediction
    assert of_set(metric, lost, true, 7, CrossEntropyLoss()) == pytest.approx(alone)


def test_large_batches_are_looked_at_on_their_device():
    true = RANDOM.integers(3, size=(20, 900))
    pred = (RANDOM.normal(size=(20, 3, 900)) + np.moveaxis(np.eye(3)[true], -1, 1)).astype(np.float32)
    for metric in ("cat_acc", "f1"):
        wrong, lost = true.copy(), pred.copy()
        wrong[13, 5], lost[7, 1, 3] = 9, np.nan
        with pytest.raises(DataError, match="none of the 3 classes"):
            of_set(metric, pred, wrong, 10)
        assert np.isnan(of_set(metric, lost, true, 10))
        value, metrics = of_trial(metric, lost, true, 20)
        assert np.isnan(value)
        assert metrics.trees[0].lost in ([7], [0])  # counted on the device, the batch is named


def test_half_precision_is_summed_as_if_it_were_not():
    true = RANDOM.integers(2, size=4000)
    half = (1 / (1 + np.exp(-RANDOM.normal(size=4000)))).astype(np.float16)
    both = np.stack([1 - half, half], 1).astype(np.float16)
    wide = both.astype(np.float64) / both.astype(np.float64).sum(1, keepdims=True)
    for function, expected in (
        (sk.log_loss, sk.log_loss(true, wide)),
        (sk.brier_score_loss, sk.brier_score_loss(true, wide[:, 1])),
        (sk.mean_squared_error, sk.mean_squared_error(true, half.astype(np.float64))),
        (sk.r2_score, sk.r2_score(true, half.astype(np.float64))),
    ):
        pred = both if function in (sk.log_loss, sk.brier_score_loss) else half
        assert of_set(function, pred, true, 4000) == pytest.approx(expected, rel=1e-9), function
