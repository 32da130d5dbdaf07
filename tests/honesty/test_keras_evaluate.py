"""The losses of validations and evaluations are those of ``keras.Model.evaluate``, regularisation included."""

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from delira import Trial  # noqa: E402
from delira.models import AbstractTfNetwork  # noqa: E402
from delira.training import TfNetworkTrainer  # noqa: E402

RNG = np.random.default_rng(11)
X = RNG.normal(size=(23, 4)).astype("float32")
Y = RNG.normal(size=(23, 1)).astype("float32")


def layers():
    return [
        keras.layers.Dense(3, kernel_regularizer=keras.regularizers.L2(0.1), kernel_initializer="ones"),
        keras.layers.Dropout(0.5, seed=1),
        keras.layers.Dense(1, activity_regularizer=keras.regularizers.L1(0.01), bias_initializer="ones"),
    ]


def keras_value(model, batch_size):
    model.compile(optimizer="sgd", loss="mse")
    return float(model.evaluate(X, Y, batch_size=batch_size, verbose=0))


@pytest.mark.parametrize("batch_size", [1, 7, 23])
def test_a_trial_evaluates_as_keras_does(batch_size):
    model = keras.Sequential([keras.Input((4,)), *layers()])
    trial = Trial(model, keras.optimizers.SGD(0.0), keras.losses.MeanSquaredError(), ["loss"], verbose=0)
    trial.with_val_data(X, Y, batch_size=batch_size)
    assert trial.evaluate()["val_loss"] == pytest.approx(keras_value(model, batch_size), rel=1e-5)


def test_the_loss_of_a_trial_and_its_validation_are_of_the_same_kind():
    model = keras.Sequential([keras.Input((4,)), *layers()[::2]])  # no dropout
    trial = Trial(model, keras.optimizers.SGD(0.0), keras.losses.MeanSquaredError(), ["loss"], verbose=0)
    record = trial.with_train_data(X, Y, batch_size=7).with_val_data(X, Y, batch_size=7).run(1)[0]
    expected = keras_value(model, 7)
    assert record["loss"] == pytest.approx(expected, rel=1e-2)  # activity is summed by batches, which differ
    assert record["val_loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("compiled", [None, False])
def test_an_experiment_validates_as_keras_does(compiled):
    class Net(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.body = keras.Sequential(layers())

        def call(self, x):
            return {"pred": self.body(x)}

    network = Net()
    trainer = TfNetworkTrainer(
        network, None, losses={"mse": keras.losses.MeanSquaredError()}, optimizer_cls=keras.optimizers.SGD,
        optimizer_params={"learning_rate": 0.0}, logging_type=None, verbose=False, compiled=compiled,
    )  # fmt: skip
    batches = [{"data": X[start : start + 7], "label": Y[start : start + 7]} for start in range(0, 23, 7)]
    trainer.train(1, batches, batches)
    record = trainer.state.history[0]
    assert record["val_mse"] + record["val_regularisation"] == pytest.approx(keras_value(network.body, 7), rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"compiled": False}, {"mixed_precision": "bf16"}])
def test_an_experiment_leaves_out_what_a_mask_leaves_out_as_keras_does(settings):
    class Net(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.mask = keras.layers.Masking(0.0)
            self.head = keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x):
            return {"pred": self.head(self.mask(x))}

    x, y = RNG.integers(-4, 5, (23, 5, 3)).astype("float32"), RNG.integers(-4, 5, (23, 5, 1)).astype("float32")
    x[RNG.random((23, 5)) < 0.4] = 0
    x[:, 0] = 1
    error = (x.sum(-1) - y[..., 0]) ** 2
    parts = [slice(start, start + 7) for start in range(0, 23, 7)]
    means = [error[part][x[part].any(-1)].mean() for part in parts]
    expected = np.average(means, weights=[7, 7, 7, 2])
    trainer = TfNetworkTrainer(
        Net(), None, losses={"mse": keras.losses.MeanSquaredError()}, optimizer_cls=keras.optimizers.SGD,
        optimizer_params={"learning_rate": 0.0}, logging_type=None, verbose=False, **settings,
    )  # fmt: skip
    data = [{"data": x[part], "label": y[part]} for part in parts]
    trainer.train(1, data, data)
    record = trainer.state.history[0]
    assert [record["mse"], record["val_mse"]] == pytest.approx([expected] * 2, rel=1e-5)
    assert expected != pytest.approx(error.mean(), rel=0.01)
