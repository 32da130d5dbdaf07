"""Columns of what estimators predict: one for each class."""

import pytest
from sklearn.svm import SVC

from delira.data_loading import BaseDataManager
from delira.metrics import accuracy

pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn backend need skops")
from small_estimators import build, data


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_scores_of_pairs_are_not_taken_for_scores_of_classes(tmp_path, n_classes):
    arrays = data(n_classes)
    estimator = SVC(decision_function_shape="ovo", gamma="scale")
    network = build(tmp_path, estimator).train(1, BaseDataManager(arrays, 40))
    predicted = network(arrays["data"])
    assert predicted["pred"].shape == (120, n_classes)
    assert accuracy(arrays["label"], predicted["pred"]) == accuracy(arrays["label"], predicted["label_pred"]) > 0.95
