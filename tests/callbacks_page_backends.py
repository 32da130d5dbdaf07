"""One small classification of images in every backend, as a trial and as an experiment; see test_callbacks_page.py."""

import functools
import importlib

import numpy as np
import pytest

import delira
from delira.data_loading import BaseDataManager
from delira.state import Y_PRED, X

RATE = 0.05
N_CLASSES = 3
FRAMEWORKS = {"torch": "torch", "tensorflow": "tensorflow", "jax": "flax", "sklearn": "sklearn"}


class Kit:
    """What differs from backend to backend.

    Attributes: ``net(takes_entries)``, an optimizer of it, the cross entropy of labels or probabilities (``loss``), the
    experiment's class and the class of its network, and the images ``x`` of the backend's layout with labels ``y``.
    """

    def __init__(self, backend):
        package = FRAMEWORKS[backend]
        pytest.importorskip(
            package, reason=f"the {backend} backend needs the package {package!r}, which is not installed"
        )
        self.backend = backend
        rng = np.random.default_rng(0)
        self.y = np.arange(12) % N_CLASSES
        self.x = rng.normal(size=(12, 1, 4, 4)).astype("f4") + self.y[:, None, None, None].astype("f4")
        getattr(self, f"_{backend}")()

    def trial(self, callbacks, wrap_loss=None, takes_entries=False, batch_size=4):
        """A trial that was not fitted yet."""
        net = self.net(takes_entries)
        metrics = ["acc"] if self.backend == "sklearn" else ["loss", "cat_acc" if wrap_loss is None else "mixup_acc"]
        parts = [net] if self.backend == "sklearn" else [net, self.optimizer(net), self._loss(wrap_loss)]
        trial = delira.Trial(*parts, metrics=metrics, callbacks=callbacks, seed=0, verbose=0)
        return trial.with_train_data(self.x, self.y, batch_size).with_val_data(self.x, self.y, batch_size)

    def experiment(self, folder, callbacks, wrap_loss=None, takes_entries=False):
        """Run an experiment of two epochs; returns the trainer."""
        settings = {"verbose": False, "logging_type": None, "num_epochs": 2, "callbacks": callbacks}
        if self.backend == "sklearn":
            experiment = self.experiment_class.of(self.net(), save_path=folder, val_metrics={"ce": _error})
        else:
            settings |= {"losses": {"ce": self._loss(wrap_loss)}, **self.optimizer_settings}
            experiment = self.experiment_class(
                {"model": {"takes_entries": takes_entries}}, self.network, save_path=folder
            )
        data = BaseDataManager({"data": self.x, "label": self.y}, batch_size=4)
        experiment.run(data, data, **settings)
        return experiment.last_trainer

    def _loss(self, wrap):
        return self.loss if wrap is None else wrap(self.loss)

    def _torch(self):
        import torch

        from delira.models import AbstractPyTorchNetwork
        from delira.training import PyTorchExperiment

        class Net(torch.nn.Sequential):
            def forward(self, x):
                return super().forward(x)

        class Entries(Net):
            def forward(self, entries):
                return {Y_PRED: super().forward(entries[X])}

        def layers():
            return torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, N_CLASSES)

        class Network(AbstractPyTorchNetwork):
            def __init__(self, takes_entries=False):
                super().__init__(takes_entries=takes_entries)
                self.layers = torch.nn.Sequential(*layers())

            def forward(self, x):
                return {"pred": self.layers(x[X] if isinstance(x, dict) else x)}

        self.net = lambda takes_entries=False: (Entries if takes_entries else Net)(*layers())
        self.optimizer = lambda net: torch.optim.SGD(net.parameters(), lr=RATE)
        self.optimizer_settings = {"optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": RATE}}
        self.loss = torch.nn.CrossEntropyLoss()
        self.network, self.experiment_class = Network, PyTorchExperiment

    def _tensorflow(self):
        import keras
        import tensorflow as tf

        from delira.models import AbstractTfNetwork
        from delira.training import TfExperiment

        def layers():
            return keras.Sequential([
                keras.layers.Input((4, 4, 1)),
                keras.layers.Flatten(),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.Dense(N_CLASSES),
            ])  # fmt: skip

        class Entries(keras.Model):
            def __init__(self):
                super().__init__()
                self.layers_ = layers()

            def call(self, entries):
                return {Y_PRED: self.layers_(entries[X])}

        class Network(AbstractTfNetwork):
            def __init__(self, takes_entries=False):
                super().__init__(takes_entries=takes_entries)
                self.layers_ = layers()

            def call(self, x):
                return {"pred": self.layers_(x[X] if isinstance(x, dict) else x)}

        def loss(prediction, target):
            if len(target.shape) == 1:
                target = tf.one_hot(tf.cast(target, tf.int32), N_CLASSES)
            return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, prediction))

        self.x = np.moveaxis(self.x, 1, -1)
        self.net = lambda takes_entries=False: Entries() if takes_entries else layers()
        self.optimizer = lambda net: keras.optimizers.SGD(RATE)
        self.optimizer_settings = {"optimizer_cls": keras.optimizers.SGD, "optimizer_params": {"learning_rate": RATE}}
        self.loss, self.network, self.experiment_class = loss, Network, TfExperiment

    def _jax(self):
        import jax
        import optax
        from flax import nnx

        from delira.models import AbstractJaxNetwork
        from delira.training import JaxExperiment

        class Net(nnx.Module):
            def __init__(self, takes_entries=False):
                rngs = nnx.Rngs(0)
                self.first, self.last = nnx.Linear(16, 8, rngs=rngs), nnx.Linear(8, N_CLASSES, rngs=rngs)
                self.takes_entries = takes_entries

            def __call__(self, x):
                if self.takes_entries:
                    return {Y_PRED: self._scores(x[X])}
                return self._scores(x)

            def _scores(self, x):
                return self.last(jax.nn.relu(self.first(x.reshape(len(x), -1))))

        class Network(AbstractJaxNetwork):
            def __init__(self, takes_entries=False):
                super().__init__(takes_entries=takes_entries)
                self.inner = Net()

            def __call__(self, x):
                return {"pred": self.inner(x[X] if isinstance(x, dict) else x)}

        def loss(prediction, target):
            if target.ndim == 1:
                target = jax.nn.one_hot(target, N_CLASSES)
            return optax.softmax_cross_entropy(prediction, target).mean()

        self.x = np.moveaxis(self.x, 1, -1)
        self.net = Net
        self.optimizer = lambda net: optax.inject_hyperparams(optax.sgd)(learning_rate=RATE)
        self.optimizer_settings = {"optimizer_cls": optax.sgd, "optimizer_params": {"learning_rate": RATE}}
        self.loss, self.network, self.experiment_class = loss, Network, JaxExperiment

    def _sklearn(self):
        from sklearn.linear_model import SGDClassifier

        self.x = self.x.reshape(12, 16)
        self.net = lambda takes_entries=False: SGDClassifier(loss="log_loss", random_state=0)
        self.experiment_class = importlib.import_module("delira.training").SklearnExperiment


def _error(target, prediction):
    return float((np.argmax(prediction, axis=-1) != target).mean())


@functools.cache
def kit_of(backend):
    """The kit of a backend."""
    return Kit(backend)
