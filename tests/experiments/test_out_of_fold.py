"""Out-of-fold predictions lie where their cases are in the data set."""

import numpy as np
import pytest

from delira.errors import DataError
from delira.experiments.result import FoldResult, KFoldResult
from delira.metrics import per_sample


def fold(number, test, predictions=None, metrics=None, targets=None):
    return FoldResult(number, [], None, test, metrics or {}, predictions or {}, targets or {})


def test_predictions_are_where_their_cases_are_in_the_data_set(result, data):
    oof = result.oof
    np.testing.assert_array_equal(oof.predictions["pred"], data.scores)
    np.testing.assert_array_equal(oof.targets["label"], data.labels)
    np.testing.assert_array_equal(oof.fold, np.arange(90) % 4)
    assert oof.mask.all()
    assert oof.predictions["pred"].dtype == np.float32


def test_cases_never_tested_have_nan_or_zero_and_are_masked():
    folds = [
        fold(0, [3, 1], {"p": np.array([1.0, 2.0]), "id": np.array(["x", "y"])}, targets={"label": np.array([7, 8])})
    ]
    oof = KFoldResult(folds, 5).oof
    np.testing.assert_array_equal(oof.predictions["p"], [np.nan, 2, np.nan, 1, np.nan])
    assert oof.predictions["id"].tolist() == ["", "y", "", "x", ""]
    np.testing.assert_array_equal(oof.targets["label"], [0, 8, 0, 7, 0])
    np.testing.assert_array_equal(oof.mask, [False, True, False, True, False])
    np.testing.assert_array_equal(oof.fold, [-1, 0, -1, 0, -1])


def test_of_cases_that_were_tested_twice_the_last_predictions_are_there():
    folds = [
        fold(0, [0, 1], {"p": np.array([[1.0], [2.0]], np.float32), "c": np.array([1, 1])}, {"m": [0.0, 1.0]}),
        fold(1, [1, 2], {"p": np.array([[4.0], [6.0]], np.float32), "c": np.array([5, 5])}, {"m": [0.5, 1.0]}),
    ]
    result = KFoldResult(folds, 4, {"m": per_sample(lambda t, p: 0)})
    oof = result.oof
    np.testing.assert_array_equal(oof.predictions["p"], [[1], [4], [6], [np.nan]])
    assert oof.predictions["p"].dtype == np.float32
    np.testing.assert_array_equal(oof.predictions["c"], [1, 5, 5, 0])
    np.testing.assert_array_equal(oof.counts, [1, 2, 1, 0])
    np.testing.assert_array_equal(oof.fold, [0, 1, 1, -1])
    np.testing.assert_array_equal(oof.per_case["m"], [0, 0.5, 1, np.nan])
    assert result.summary()["m"]["oof"] == pytest.approx((0.5 + 0.75) / 2)
    assert result.summary()["m"]["n"] == 3


def test_metrics_over_part_of_the_data_set_use_only_what_was_tested(data, validate):
    whole = validate(data.labels, data.scores)
    part = KFoldResult(whole.folds[:2], 90, whole.metrics, seed=7)
    tested = np.concatenate([np.arange(0, 90, 4), np.arange(1, 90, 4)])
    row = part.summary()["accuracy"]
    assert row["oof"] == (data.scores.argmax(1) == data.labels)[tested].mean()
    assert row["n"] == len(tested)


def test_trees_keep_their_shape_and_entries_without_a_row_per_case_are_none():
    def tree(*numbers):
        return {"heads": [np.array(numbers), {"deep": np.array(numbers) * 2.0}], "scale": np.array([0.1])}

    oof = KFoldResult([fold(0, [2, 0], tree(1, 2)), fold(1, [1], tree(3))], 3).oof
    assert oof.predictions["heads"][0].tolist() == [2, 3, 1]
    assert oof.predictions["heads"][1]["deep"].tolist() == [4, 6, 2]
    assert oof.predictions["scale"] is None


def test_predictions_of_different_shapes_become_one_array_per_case():
    folds = [fold(0, [1, 2], {"seg": np.ones((2, 3, 3))}), fold(1, [0], {"seg": np.zeros((1, 5, 4))})]
    segmentations = KFoldResult(folds, 4).oof.predictions["seg"]
    assert segmentations.dtype == object
    assert [None if s is None else s.shape for s in segmentations] == [(5, 4), (3, 3), (3, 3), None]


def test_object_arrays_are_aligned():
    samples = np.array([{"boxes": 1}, None], dtype=object)
    assert KFoldResult([fold(0, [2, 0], {"boxes": samples})], 3).oof.predictions["boxes"].tolist() == [
        None,
        None,
        {"boxes": 1},
    ]


def test_folds_that_predict_different_entries_are_refused():
    with pytest.raises(DataError, match=r"fold 1 and the first fold differ in the predictions \['aux'\]"):
        KFoldResult([fold(0, [0], {}), fold(1, [1], {"aux": np.zeros(1)})], 2).oof  # noqa: B018


def test_leave_one_out_is_understood(data, validate):
    labels, scores = data.labels[:12], data.scores[:12]
    result = validate(labels, scores, n_folds=12)
    assert list(result.oof.per_case) == ["certainty"]
    assert result.summary()["accuracy"]["oof"] == (scores.argmax(1) == labels).mean()
