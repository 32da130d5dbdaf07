"""A Keras model in a Trial, with what ``compile`` and ``fit`` take: texts, functions, metrics, callbacks, weights."""

import keras
import numpy as np

from delira import Trial

rng = np.random.default_rng(0)
x = rng.normal(size=(50, 3)).astype(np.float32)
y = (x @ np.array([[1.0], [-2.0], [0.5]])).astype(np.float32)
sample_weight = rng.uniform(0, 2, 50).astype(np.float32)


def model():
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    return keras.Sequential([keras.Input((3,)), dense])


# two epochs of gradient descent on one batch, by hand
w = np.zeros((3, 1))
for _ in range(2):
    w -= 0.1 * 2 * x.T @ (sample_weight[:, None] * (x @ w - y)) / 50
weighted = np.mean(sample_weight[:, None] * (x @ w - y) ** 2)

for loss in ("mse", "mean_squared_error", keras.losses.mean_squared_error, keras.losses.MeanSquaredError()):
    network, record = model(), keras.callbacks.History()
    rates = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.1)
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=5)
    trial = Trial(network, "sgd", loss, ["loss", "mae", keras.metrics.RootMeanSquaredError(name="rmse")],
                  callbacks=[rates, stop, record], verbose=0)  # fmt: skip
    trial.with_train_data(x, y, batch_size=50, sample_weight=sample_weight)
    trial.with_val_generator([(x[:25], y[:25], sample_weight[:25]), (x[25:], y[25:], sample_weight[25:])])
    history = trial.run(2)
    np.testing.assert_allclose(network.get_weights()[0], w, rtol=1e-4)
    np.testing.assert_allclose(history[-1]["val_loss"], weighted, rtol=1e-4)
    np.testing.assert_allclose(history[-1]["val_mae"], np.abs(x @ w - y).mean(), rtol=1e-4)
    np.testing.assert_allclose(history[-1]["val_rmse"], np.sqrt(((x @ w - y) ** 2).mean()), rtol=1e-4)
    assert record.history["val_loss"] == [epoch["val_loss"] for epoch in history]
