"""A small classification with TensorFlow."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delira.data_loading import BaseDataManager

pytest.importorskip("tensorflow")
import keras

from delira.models import AbstractTfNetwork
from delira.training import TfNetworkTrainer

N_SAMPLES, N_FEATURES, N_CLASSES = 22, 5, 3


def make_data() -> BaseDataManager:
    rng = np.random.default_rng(0)
    arrays = {
        "data": rng.normal(size=(N_SAMPLES, N_FEATURES)).astype("float32"),
        "label": rng.integers(0, N_CLASSES, N_SAMPLES),
    }
    return BaseDataManager(arrays, batch_size=8)


def make_trainer(network: Any, folder: Path, **settings: Any) -> TfNetworkTrainer:
    return TfNetworkTrainer(
        network, folder, losses={"ce": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        optimizer_cls=keras.optimizers.Adam, optimizer_params={"learning_rate": 1e-2}, logging_type=None, **settings,
    )  # fmt: skip


class TwoLayers(AbstractTfNetwork):
    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(4, kernel_initializer="ones")
        self.last = keras.layers.Dense(N_CLASSES, kernel_initializer="ones")

    def call(self, x: Any) -> dict[str, Any]:
        return {"pred": self.last(self.first(x))}
