"""What can be wrapped as a network, and the columns of what estimators predict: one for each class."""

import copy

import pytest
from sklearn.decomposition import PCA
from sklearn.svm import SVC

from delira.data_loading import BaseDataManager
from delira.errors import NetworkError
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
