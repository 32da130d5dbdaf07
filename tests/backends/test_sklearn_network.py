"""What can be wrapped as a network."""

import pytest
from sklearn.decomposition import PCA

from delira.errors import NetworkError

pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn backend need skops")
from delira.models import SklearnEstimator


def test_what_predicts_nothing_is_refused_at_once():
    with pytest.raises(NetworkError, match="PCA has no predict"):
        SklearnEstimator(PCA(2), target=None)
