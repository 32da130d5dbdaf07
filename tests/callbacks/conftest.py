"""A linear fit in each backend, whose losses and gradients are computed by hand."""

import numpy as np
import pytest
from mixing_batches import FRAMEWORKS, converter

import delira

REASON = "the {} backend needs the package {!r}, which is not installed"
RATE = 0.1


class Fit:
    """``y = x @ kernel + bias`` on 10 samples, batches of 4, 4 and 2, gradient descent without momentum."""

    def __init__(self, backend, module, optimizer, criterion):
        self.backend, self.module, self.optimizer, self.criterion = backend, module, optimizer, criterion
        rng = np.random.default_rng(3)
        self.x = rng.normal(size=(10, 3)).astype("f4")
        self.y = (self.x @ rng.normal(size=(3, 1)) + 0.5).astype("f4")

    def trial(self, *callbacks, metrics=("loss",), has_criterion=True, y=None, epochs=None, **settings):
        trial = delira.Trial(
            self.module, self.optimizer(self.module), self.criterion if has_criterion else None, metrics, callbacks,
            **{"verbose": 0, "seed": 0, **settings},
        )  # fmt: skip
        y = self.y if y is None else y
        return trial.with_train_data(self.x, y, 4, shuffle=False).with_val_data(self.x, self.y, 4, shuffle=False)

    def batches(self):
        return [(self.x[start : start + 4], self.y[start : start + 4]) for start in (0, 4, 8)]

    def weights(self, trial):
        """Kernel of shape (3, 1), and bias of shape (1,)."""
        weights = trial.trainer.backend.weights.named(trial.trainer.module)
        found = {name.rpartition(".")[2]: value for name, value in weights.items()}
        kernel = found["kernel"] if "kernel" in found else found["weight"].T
        return kernel.astype("f8"), found["bias"].astype("f8")

    def names(self, trial):
        """Names of the kernel and the bias."""
        names = sorted(trial.trainer.backend.weights.named(trial.trainer.module))
        return names[::-1] if names[0].endswith("bias") else names


def mse_by_hand(kernel, bias, x, y):
    """Loss, and its gradients by kernel and bias."""
    error = x @ kernel + bias - y
    return (error**2).mean(), 2 * x.T @ error / error.size, 2 * error.mean(axis=0)


def make_fit(backend):
    if backend == "torch":
        torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))
        torch.manual_seed(0)
        return Fit(
            backend, torch.nn.Linear(3, 1), lambda net: torch.optim.SGD(net.parameters(), RATE), torch.nn.MSELoss()
        )
    if backend == "tensorflow":
        pytest.importorskip("tensorflow", reason=REASON.format("TensorFlow", "tensorflow"))
        import keras

        keras.utils.set_random_seed(0)
        net = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1, bias_initializer="ones")])
        return Fit(backend, net, lambda net: keras.optimizers.SGD(RATE), keras.losses.MeanSquaredError())
    pytest.importorskip("jax", reason=REASON.format("JAX", "jax"))
    optax, nnx = pytest.importorskip("optax"), pytest.importorskip("flax.nnx")
    net = nnx.Linear(3, 1, rngs=nnx.Rngs(0), bias_init=nnx.initializers.ones)
    make = optax.inject_hyperparams(optax.sgd)  # a rate that can be read and changed
    return Fit(backend, net, lambda net: make(learning_rate=RATE), lambda pred, target: ((pred - target) ** 2).mean())


@pytest.fixture(params=["torch", "tensorflow", "jax"])
def fit(request):
    """A small fit in each backend that differentiates."""
    return make_fit(request.param)


@pytest.fixture
def torch_fit():
    """The same in one backend, for what is the same in all of them."""
    return make_fit("torch")


@pytest.fixture
def by_hand():
    return mse_by_hand


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    return request.param


@pytest.fixture
def convert(framework):
    """Makes arrays of the framework."""
    return converter(framework)
