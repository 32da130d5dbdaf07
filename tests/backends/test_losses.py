"""Losses of the backends: the same numbers in each, of logits as of probabilities."""

import importlib

import numpy as np
import pytest

PREDICTION = np.array([[0.9, 0.2], [0.4, 0.7]], "f4")
TARGET = np.array([[1.0, 0.0], [0.0, 1.0]], "f4")
ENDINGS = {"torch": "PyTorch", "tensorflow": "Tf", "jax": "Jax"}


@pytest.fixture(params=ENDINGS)
def losses(request):
    """Gives a loss of a framework by its name, as a function of arrays of numpy."""
    package = pytest.importorskip(request.param, reason=f"the backend needs the package {request.param!r}")
    module = importlib.import_module(f"delira.backends.{request.param}.losses")
    convert = {"torch": "tensor", "tensorflow": "constant"}.get(request.param)

    def make(name, **settings):
        loss = getattr(module, f"{name}{ENDINGS[request.param]}")(**settings)
        arrays = package.numpy.asarray if convert is None else getattr(package, convert)
        return lambda prediction, target: float(loss(arrays(prediction), arrays(target)))

    return make


@pytest.mark.slow_cases("tensorflow|jax")
def test_the_focal_loss_is_its_formula(losses):
    right = np.where(TARGET == 1, PREDICTION, 1 - PREDICTION).astype("f8")
    weights = np.where(TARGET == 1, 0.25, 0.75)
    expected = (-weights * (1 - right) ** 2 * np.log(right)).mean()
    assert losses("BCEFocalLoss", alpha=0.25, gamma=2)(PREDICTION, TARGET) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow_cases("tensorflow|jax")
def test_logits_give_the_loss_of_their_probabilities(losses):
    logits = np.log(PREDICTION / (1 - PREDICTION))
    found = losses("BCEFocalLossLogit")(logits, TARGET)
    assert found == pytest.approx(losses("BCEFocalLoss")(PREDICTION, TARGET), rel=1e-4)
