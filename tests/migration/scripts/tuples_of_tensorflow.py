"""A tf.data.Dataset of tuples in an experiment: named by data_keys."""

import keras
import numpy as np
import tensorflow as tf

from delira.models import AbstractTfNetwork
from delira.training import TfExperiment

rng = np.random.default_rng(0)
x = rng.normal(size=(24, 3)).astype(np.float32)
y = (x @ np.array([[1.0], [-2.0], [0.5]])).astype(np.float32)


class Net(AbstractTfNetwork):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

    def call(self, x):
        return {"pred": self.dense(x)}


w = np.zeros((3, 1))
for _ in range(2):
    for start in (0, 8, 16):
        part, target = x[start : start + 8].astype(float), y[start : start + 8].astype(float)
        w -= 0.1 * 2 * part.T @ (part @ w - target) / 8

data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
settings = {"losses": {"l2": keras.losses.MeanSquaredError()}, "optimizer_cls": keras.optimizers.SGD,
            "optimizer_params": {"learning_rate": 0.1}, "num_epochs": 2,
            "val_metrics": {"mae": lambda y_true, y_pred: np.abs(y_true - y_pred).mean()},
            "val_score_key": "mae", "val_score_mode": "min"}  # fmt: skip
experiment = TfExperiment({"training": settings}, Net, name="tuples", save_path="runs")
network = experiment.run(data, data, data_keys=("data", "label"))
np.testing.assert_allclose(network.dense.get_weights()[0], w, rtol=1e-4)
_, metrics = experiment.test(network, data, data_keys=("data", "label"))
np.testing.assert_allclose(metrics["mae"], np.abs(x @ w - y).mean(), rtol=1e-4)
