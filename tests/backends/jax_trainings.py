"""A small classification with JAX."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delira.data_loading import BaseDataManager

pytest.importorskip("flax")
pytest.importorskip("optax")
import optax

from delira.training import JaxNetworkTrainer

N_SAMPLES, N_FEATURES, N_CLASSES = 22, 5, 3


def make_data() -> BaseDataManager:
    rng = np.random.default_rng(0)
    arrays = {
        "data": rng.normal(size=(N_SAMPLES, N_FEATURES)).astype("float32"),
        "label": rng.integers(0, N_CLASSES, N_SAMPLES),
    }
    return BaseDataManager(arrays, batch_size=8)


def cross_entropy(pred: Any, label: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(pred, label).mean()


def make_trainer(network: Any, folder: Path, **settings: Any) -> JaxNetworkTrainer:
    return JaxNetworkTrainer(
        network, folder, losses={"ce": cross_entropy}, optimizer_cls=optax.adam, optimizer_params={"lr": 1e-2},
        logging_type=None, **settings,
    )  # fmt: skip
