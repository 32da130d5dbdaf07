"""What can be wrapped as a network, and the columns of what estimators predict: one for each class."""

import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from delira.data_loading import BaseDataManager
from delira.errors import DataError, NetworkError
from delira.metrics import accuracy

pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn backend need skops")
from small_estimators import build, data

from delira.models import SklearnEstimator


def test_what_predicts_nothing_is_refused_at_once():
    with pytest.raises(NetworkError, match="PCA has no predict"):
        SklearnEstimator(PCA(2), target=None)


def test_predictions_that_nobody_has_read_can_be_copied_and_not_changed():
    from delira.backends.sklearn.network import _Predictions

    predictions = _Predictions(lambda **inputs: {"pred": 1}, {})
    assert dict(copy.copy(predictions)) == {"pred": 1}
    with pytest.raises(TypeError, match="item assignment"):
        predictions["pred"] = 2


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_scores_of_pairs_are_not_taken_for_scores_of_classes(tmp_path, n_classes):
    arrays = data(n_classes)
    estimator = SVC(decision_function_shape="ovo", gamma="scale")
    network = build(tmp_path, estimator).train(1, BaseDataManager(arrays, 40))
    predicted = network(arrays["data"])
    assert predicted["pred"].shape == (120, n_classes)
    assert accuracy(arrays["label"], predicted["pred"]) == accuracy(arrays["label"], predicted["label_pred"]) > 0.95


def test_columns_are_labels_also_where_a_fold_lacks_a_class():
    pixels, digits = load_digits(return_X_y=True)
    part = np.flatnonzero(np.isin(digits, [0, 2, 5]))
    data = {"data": pixels[part], "label": digits[part]}
    for estimator in (GaussianNB(), SVC(), RidgeClassifier()):
        network = SklearnEstimator(estimator, partial_fit=False)
        network.learn(data["data"], data["label"], batch=False)
        found = network(data["data"])
        assert found["pred"].shape == (len(part), 6)
        assert np.array_equal(found["pred"].argmax(1), found["label_pred"])
        named = SklearnEstimator(estimator, classes=[5, 2, 0, 9])
        assert np.array_equal(np.array([5, 2, 0, 9])[named(data["data"])["pred"].argmax(1)], found["label_pred"])
    with pytest.raises(DataError, match=r"has learned the labels \[5\], which are not among classes=\[0, 2\]"):
        SklearnEstimator(estimator, classes=[0, 2])(data["data"])
