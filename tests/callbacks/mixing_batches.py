"""A batch in the state, as the mixing callbacks see it at a step, in any framework."""

from types import SimpleNamespace

import numpy as np
import pytest

from delira.state import BATCH, CALLBACK_LIST, CRITERION, EPOCH, PHASE, SELF, Y_TRUE, State, X

FRAMEWORKS = ("torch", "tensorflow", "jax")
CHANNELS_FIRST = ("torch",)


def converter(framework):
    """Makes arrays of a framework out of those of numpy."""
    kit = pytest.importorskip(framework, reason=f"the {framework} backend needs the package {framework!r}")
    if framework == "jax":
        return kit.numpy.asarray
    return kit.tensor if framework == "torch" else kit.constant


def a_step(callbacks, x, y, seed=3, fold=0, epoch=1, batch=2):
    """The state at a step of a fit."""
    callbacks = callbacks if isinstance(callbacks, list) else [callbacks]
    return State({
        SELF: SimpleNamespace(seed=seed, fold=fold), CALLBACK_LIST: callbacks, CRITERION: None, PHASE: "fit",
        EPOCH: epoch, BATCH: batch, X: x, Y_TRUE: y,
    })  # fmt: skip


def images(framework, n=8, shape=(10, 12), channels=3, seed=0):
    """Images of numpy in the layout of a framework."""
    array = np.random.default_rng(seed).normal(1.0, 2.0, (n, channels, *shape)).astype("f4")
    return array if framework in CHANNELS_FIRST else np.moveaxis(array, 1, -1)


def first(array, framework):
    """Images with the channels along axis 1."""
    array = np.asarray(array)
    return array if framework in CHANNELS_FIRST else np.moveaxis(array, -1, 1)


def sampled(callback, x, y, **place):
    """The state after a callback has changed a batch."""
    state = a_step(callback, x, y, **place)
    callback.on_sample(state)
    return state


def one_hot(labels, n=3):
    return np.eye(n, dtype="f4")[labels]


LABELS = np.array([0, 1, 2, 0, 1, 2, 2, 1])
