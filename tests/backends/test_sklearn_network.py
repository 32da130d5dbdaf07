"""What can be wrapped as a network."""

import copy

import pytest
from sklearn.decomposition import PCA

from delira.errors import NetworkError

pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn backend need skops")
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
