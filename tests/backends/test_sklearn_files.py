"""Which estimators a checkpoint goes into: those it was made of, and none that only look alike."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, VotingClassifier
from sklearn.neighbors import KNeighborsClassifier

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError

pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn backend need skops")
from small_estimators import build, data

from delira.io import load_checkpoint_sklearn
from delira.models import SklearnEstimator


def test_a_checkpoint_goes_into_the_estimator_it_was_made_of(tmp_path):
    arrays = data()
    network = build(tmp_path, RandomForestClassifier(5)).train(1, BaseDataManager(arrays, 40))
    fresh = SklearnEstimator(RandomForestClassifier(5))
    load_checkpoint_sklearn(tmp_path / "checkpoints" / "checkpoint_last.zip", fresh)
    assert np.array_equal(fresh(arrays["data"])["pred"], network(arrays["data"])["pred"])
    other = SklearnEstimator(RandomForestClassifier(5, random_state=3))
    with pytest.raises(CheckpointError, match="random_state="):
        load_checkpoint_sklearn(tmp_path / "checkpoints" / "checkpoint_last.zip", other)


def test_estimators_inside_are_compared_by_their_class(tmp_path):
    inside = {"n_estimators": 3, "bootstrap": True, "random_state": 0}
    trainer = build(tmp_path, VotingClassifier([("a", RandomForestClassifier(**inside))]))
    trainer.train(1, BaseDataManager(data(), 40))
    with pytest.raises(CheckpointError, match=r"a=RandomForestClassifier \(now ExtraTreesClassifier\)"):
        build(tmp_path, VotingClassifier([("a", ExtraTreesClassifier(**inside))]))


def test_a_run_does_not_go_on_with_another_target(tmp_path):
    build(tmp_path, KNeighborsClassifier()).train(1, BaseDataManager(data(), 40))
    with pytest.raises(CheckpointError, match="learned 'label', the network learns 'parity'"):
        build(tmp_path, SklearnEstimator(KNeighborsClassifier(), target="parity"))
