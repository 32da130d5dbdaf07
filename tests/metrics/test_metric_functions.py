"""Accuracy and Dice against hand-worked numbers."""

import numpy as np
import pytest

from delira.errors import DataError
from delira.metrics import MetricSet, accuracy, dice
from delira.metrics.of_arrays import MAX_CLASSES

SCORES = np.array([[0.1, 2.0, 0.3], [5.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 2.0, 3.0]])  # 1, 0, 2, 2
LABELS = np.array([1, 0, 2, 0])


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [
        (LABELS, SCORES),
        (LABELS[:, None], SCORES),
        (LABELS.astype(np.float32), SCORES),
        (LABELS, SCORES.argmax(1)),
        (LABELS, SCORES.argmax(1)[:, None]),
        (LABELS[:, None], SCORES.argmax(1)),
        (np.eye(3)[LABELS], SCORES),
        (np.eye(3, dtype=int)[LABELS], np.eye(3, dtype=int)[SCORES.argmax(1)]),
    ],
)
def test_accuracy_takes_labels_scores_and_one_hot(y_true, y_pred):
    assert accuracy(y_true, y_pred) == 0.75


def test_accuracy_counts_pixels():
    scores = np.zeros((2, 3, 4, 5))
    scores[:, 1] = 1
    labels = np.ones((2, 4, 5), dtype=int)
    labels[0, 0, 0] = 2
    assert accuracy(labels, scores) == pytest.approx(39 / 40)
    assert accuracy(labels[:, None], scores) == pytest.approx(39 / 40)


def test_label_maps_with_one_pixel_per_row_are_not_taken_for_one_hot():
    true, pred = np.zeros((2, 1, 4, 4), int)
    true[:, 0, :], pred[:, 1, :] = 1, 1
    assert accuracy(true, pred) == 0.5
    assert accuracy(true, pred.astype(np.float32)) == 0.5


def test_one_hot_pixels_are_compared_with_scores():
    scores = np.random.default_rng(0).random((2, 3, 4, 4))
    one_hot = np.moveaxis(np.eye(3)[scores.argmax(1)], -1, 1)
    assert accuracy(one_hot, scores) == 1.0


def test_probabilities_of_one_class_are_no_labels():
    for scores in (np.array([0.2, 0.7]), np.array([[0.2], [0.7]])):
        with pytest.raises(DataError, match=r"accuracy got y_pred of shape .* with values like 0.2.*threshold first"):
            accuracy(np.array([0, 1]), scores)


def test_nan_is_no_label():
    with pytest.raises(DataError, match="values like nan"):
        accuracy(np.array([np.nan, 1]), np.array([0, 1]))
    assert np.isnan(accuracy(np.array([0, 1]), np.array([np.nan, 1])))


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(DataError, match=r"labels of shape \(3,\) and predictions of shape \(2,\)"):
        accuracy(np.zeros(3), np.zeros(2))


def test_dice_of_a_binary_mask():
    true, pred = np.zeros((2, 4, 4), int)
    true[0, :4], pred[0, 2:4], pred[1, :2] = 1, 1, 1
    assert dice(true, pred) == pytest.approx(2 * 2 / (4 + 4))
    assert dice(true[None], pred[None]) == pytest.approx(0.5)
    assert dice(true.astype(bool), pred.astype(np.float32)) == pytest.approx(0.5)


def test_dice_is_the_mean_over_foreground_classes_that_occur():
    true = np.array([0, 1, 1, 1, 3, 3])
    pred = np.array([0, 1, 1, 4, 3, 0])
    # class 1: 2*2/(3+2), class 3: 2*1/(2+1), class 4 was predicted only: 0; class 2 occurs nowhere
    assert dice(true, pred) == pytest.approx((4 / 5 + 2 / 3 + 0) / 3)


def test_dice_takes_the_argmax_of_scores():
    pred = np.array([[0, 1, 2], [2, 1, 0]])
    scores = np.moveaxis(np.eye(3)[pred], -1, 0) * 4 - 1
    true = np.array([[0, 1, 2], [2, 2, 0]])
    assert dice(true, scores) == dice(true, pred) == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert dice(true[None], scores) == dice(true, pred)


def test_two_empty_masks_agree_fully_and_one_empty_mask_not_at_all():
    empty, full = np.zeros((3, 3), int), np.ones((3, 3), int)
    assert dice(empty, empty) == 1.0
    assert dice(empty, full) == dice(full, empty) == 0.0


def test_dice_equals_the_f1_score_of_the_pixels():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    true, pred = np.random.default_rng(1).integers(4, size=(2, 8, 8))
    expected = sklearn_metrics.f1_score(true.ravel(), pred.ravel(), labels=[1, 2, 3], average="macro")
    assert dice(true, pred) == pytest.approx(expected)


def test_dice_refuses_probabilities_and_strange_labels():
    mask = np.ones((2, 2), int)
    with pytest.raises(DataError, match=r"dice got y_pred.*threshold first"):
        dice(mask, np.full((2, 2), 0.3))
    for label in (-1, MAX_CLASSES):
        with pytest.raises(DataError, match="dice counts labels from 0 to 65535"):
            dice(mask * label, mask)


def test_dice_is_computed_per_sample():
    true, pred = np.random.default_rng(2).integers(2, size=(2, 5, 1, 6, 6))
    metrics = MetricSet({"dice": dice})
    metrics.update({"label": true[:3], "pred": pred[:3]})
    metrics.update({"label": true[3:], "pred": pred[3:]})
    np.testing.assert_array_equal(metrics.compute()["dice"], [dice(t, p) for t, p in zip(true, pred, strict=True)])


def test_texts_are_not_compared_with_numbers_of_classes():
    scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(DataError, match="texts as labels and class scores"):
        accuracy(np.array(["cat", "dog"]), scores)
    assert accuracy(np.array(["cat", "dog"]), np.array(["cat", "cat"])) == 0.5
