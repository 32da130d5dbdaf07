"""Where the scikit-learn room could go wrong in silence: scores of pairs, estimators that only look alike."""

import io
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, NetworkError
from delira.io import estimators
from delira.metrics import accuracy

pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn room need skops")

from delira.io import load_checkpoint_sklearn
from delira.models import SklearnEstimator
from delira.training import SklearnNetworkTrainer


def data(n_classes=3, n=120):
    x, y = load_digits(n_class=n_classes, return_X_y=True)
    return {"data": x[:n], "label": y[:n], "parity": y[:n] % 2}


def build(path, estimator, **settings):
    return SklearnNetworkTrainer(estimator, path, logging_type=None, verbose=False, **settings)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_scores_of_pairs_are_not_taken_for_scores_of_classes(tmp_path, n_classes):
    arrays = data(n_classes)
    estimator = SVC(decision_function_shape="ovo", gamma="scale")
    network = build(tmp_path, estimator).train(1, BaseDataManager(arrays, 40))
    predicted = network(arrays["data"])
    assert predicted["pred"].shape == (120, n_classes)
    assert accuracy(arrays["label"], predicted["pred"]) == accuracy(arrays["label"], predicted["label_pred"]) > 0.95


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


def test_what_predicts_nothing_is_refused_at_once():
    with pytest.raises(NetworkError, match="PCA has no predict"):
        SklearnEstimator(PCA(2), target=None)


def test_sparse_arrays_are_stored_as_they_are_and_compressed_ones_refused():
    skops_io = pytest.importorskip("skops.io")
    texts, labels = np.array(["a cat sat", "a dog ran", "cats sit", "dogs run"] * 3), np.arange(12) % 2
    learned = make_pipeline(TfidfVectorizer(), SVC()).fit(texts, labels)
    content, _ = estimators.dump(learned)
    again = estimators.load(content, ())
    assert (again.predict(texts) == learned.predict(texts)).all()
    with zipfile.ZipFile(io.BytesIO(content.tobytes())) as archive:
        assert any(name.endswith(".npz") for name in archive.namelist())
    bomb = np.frombuffer(skops_io.dumps(sparse.csr_matrix(np.zeros((1, 2)))), np.uint8)  # skops compresses them
    with pytest.raises(CheckpointError, match="nobody knows how large"):
        estimators.load(bomb, ())
