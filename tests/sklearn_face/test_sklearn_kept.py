"""Fitted estimators in pickles, in joblib's files and in copies; they predict the same, and learn on."""

import copy
import pickle

import cloudpickle
import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn_problems import QUICK, classes, needs, values

from delira.sklearn import Classifier, Regressor

WAYS = {
    "pickle": lambda one, folder: pickle.loads(pickle.dumps(one)),
    "cloudpickle": lambda one, folder: pickle.loads(cloudpickle.dumps(one)),
    "copy": lambda one, folder: copy.deepcopy(one),
    "joblib": lambda one, folder: joblib.load(joblib.dump(one, folder / "one.joblib")[0]),
}
#: backend -> package and ending of its ready networks
BACKENDS = {
    "torch": ("torch", "PyTorch"),
    "torchscript": ("torch", "TorchScript"),
    "tensorflow": ("tensorflow", "Tf"),
    "jax": ("flax", "Jax"),
}
ALL = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow), pytest.param("jax", marks=pytest.mark.slow)]


def small(backend="torch", face=Classifier, **params):
    package, ending = BACKENDS[backend]
    needs(package, backend)
    from delira import models

    network = getattr(models, f"MultilayerPerceptron{ending}")
    return face(network, {"hidden": 16}, **{**QUICK, "num_epochs": 3, **params})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", [*ALL, "torchscript"])
def test_a_fitted_estimator_that_was_kept_predicts_the_same_bits_and_goes_on_alike(backend, way, tmp_path):
    x, y = classes()
    classifier = small(backend).fit(x, y)
    kept = WAYS[way](classifier, tmp_path)
    np.testing.assert_array_equal(kept.predict_proba(x), classifier.predict_proba(x))
    assert kept.history_ == classifier.history_
    np.testing.assert_array_equal(
        kept.partial_fit(x, y).predict_proba(x), classifier.partial_fit(x, y).predict_proba(x)
    )
    assert len(kept.history_) == 4


def network_of_a_function(backend):
    """A class that can only be pickled by value, with dropout and, in Keras, weights that wait for the first batch."""
    from delira import models

    if backend == "torch":
        import torch

        class Net(models.AbstractPyTorchNetwork):
            def __init__(self, n_features, n_classes):
                super().__init__(n_features=n_features, n_classes=n_classes)
                self.layers = torch.nn.Sequential(
                    torch.nn.LazyLinear(8),
                    torch.nn.BatchNorm1d(8),
                    torch.nn.Dropout(0.2),
                    torch.nn.Linear(8, n_classes),
                )

            def forward(self, x):
                return {"pred": self.layers(x)}

    elif backend == "tensorflow":
        import keras

        class Net(models.AbstractTfNetwork):
            def __init__(self, n_classes):
                super().__init__(n_classes=n_classes)
                layers = keras.layers
                self.parts = [
                    layers.Dense(8),
                    layers.BatchNormalization(),
                    layers.Dropout(0.2),
                    layers.Dense(n_classes),
                ]

            def call(self, x):
                for part in self.parts:
                    x = part(x)
                return {"pred": x}

    else:
        from flax import nnx

        class Net(models.AbstractJaxNetwork):
            def __init__(self, n_features, n_classes):
                super().__init__(n_features=n_features, n_classes=n_classes)
                self.first = nnx.Linear(n_features, 8, rngs=self.rngs)
                self.norm = nnx.BatchNorm(8, rngs=self.rngs)
                self.dropout = nnx.Dropout(0.2, rngs=self.rngs)
                self.last = nnx.Linear(8, n_classes, rngs=self.rngs)

            def __call__(self, x):
                return {"pred": self.last(self.dropout(self.norm(self.first(x))))}

    return Net


@pytest.mark.parametrize("backend", ALL)
def test_a_network_with_a_state_of_its_own_is_kept_by_value(backend):
    needs(*BACKENDS[backend][:1], backend)
    x, y = classes()
    classifier = Classifier(network_of_a_function(backend), **{**QUICK, "num_epochs": 3}).fit(x, y)
    kept = pickle.loads(cloudpickle.dumps(classifier))
    np.testing.assert_array_equal(kept.predict_proba(x), classifier.predict_proba(x))
    kept, classifier = kept.partial_fit(x, y), classifier.partial_fit(x, y)
    np.testing.assert_array_equal(kept.predict_proba(x), classifier.predict_proba(x))


@pytest.mark.parametrize("backend", ALL)
def test_the_same_random_state_gives_the_same_bits_in_every_backend(backend):
    x, y = classes()
    first, again = (small(backend).fit(x, y).predict_proba(x) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("way", WAYS)
def test_the_best_epoch_is_kept_with_what_is_needed_to_go_on(way, tmp_path):
    x, y = values()
    regressor = small(face=Regressor, val_split=0.2).fit(x, y)
    kept = WAYS[way](WAYS[way](regressor, tmp_path), tmp_path)
    np.testing.assert_array_equal(kept.predict(x), regressor.predict(x))
    np.testing.assert_array_equal(kept.partial_fit(x, y).predict(x), regressor.partial_fit(x, y).predict(x))


def test_a_pickle_holds_bytes_of_a_checkpoint_and_no_object_of_a_framework():
    x, y = classes()
    classifier = small().fit(x, y)
    state = classifier._fit.__getstate__()
    assert state["network"] is state["_trainer"] is None
    (content,) = state["_files"].values()
    assert content.startswith(b"PK")  # a zip, every record of which has its checksum
    parts = pickle.dumps({name: value for name, value in state.items() if name != "plan"})
    assert b"torch" not in parts.replace(content, b"")


def test_an_estimator_that_is_not_fitted_is_kept_with_its_parameters(tmp_path):
    for way in WAYS.values():
        assert way(small(), tmp_path).get_params() == small().get_params()


@pytest.mark.parametrize("way", WAYS)
def test_an_estimator_of_scikit_learn_is_kept(way, tmp_path):
    needs("skops", "sklearn")
    x, y = classes()
    for classifier in (
        Classifier(LogisticRegression).fit(x, y),
        Classifier(SGDClassifier, {"loss": "log_loss"}, random_state=0).fit(x, y),
    ):
        kept = WAYS[way](classifier, tmp_path)
        np.testing.assert_array_equal(kept.predict_proba(x), classifier.predict_proba(x))
    np.testing.assert_array_equal(
        kept.partial_fit(x, y).predict_proba(x), classifier.partial_fit(x, y).predict_proba(x)
    )
