"""Learning-rate schedules of the TensorFlow backend: what the optimizer has in each epoch, also across a resume."""

import math

import numpy as np
import pytest

from delira.errors import ConfigError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from delira.models import AbstractTfNetwork  # noqa: E402
from delira.training import TfNetworkTrainer  # noqa: E402
from delira.training.callbacks import (  # noqa: E402
    CosineAnnealingLRCallbackTf,
    ExponentialLRCallbackTf,
    LambdaLRCallbackTf,
    MultiStepLRCallbackTf,
    ReduceLROnPlateauCallbackTf,
    StepLRCallbackTf,
    TfSchedulerCallback,
)

schedules = keras.optimizers.schedules
N_EPOCHS = 4


class Net(AbstractTfNetwork):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="zeros")
        self.dense.build((None, 1))

    def call(self, x):
        return {"pred": self.dense(x)}


def mse(prediction, target):
    return tf.reduce_mean(tf.square(prediction - target))


def rises(target, prediction):
    """A score that is better in the first epoch than ever after."""
    return float(np.abs(prediction).sum())


def train(path, epochs=N_EPOCHS, **settings):
    data = [{"data": np.ones((2, 1)), "label": np.ones((2, 1))}] * 2
    chosen = {
        "losses": {"mse": mse},
        "val_metrics": {"rises": rises},
        "val_score_key": "rises",
        "val_score_mode": "min",
        "optimizer_cls": keras.optimizers.SGD,
        "optimizer_params": {"lr": 0.1},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
        "compiled": False,
        **settings,
    }
    trainer = TfNetworkTrainer(Net(), path, **chosen)
    trainer.train(epochs, data, data)
    return trainer


def rates(trainer):
    return [record["lr"] for record in trainer.state.history]


#: class, its arguments, the rate after a number of epochs
CASES = [
    (StepLRCallbackTf, {"step_size": 2, "gamma": 0.5}, lambda n: 0.1 * 0.5 ** (n // 2)),
    (MultiStepLRCallbackTf, {"milestones": [1, 3], "gamma": 0.5}, lambda n: 0.1 * 0.5 ** ((n >= 1) + (n >= 3))),
    (ExponentialLRCallbackTf, {"gamma": 0.9}, lambda n: 0.1 * 0.9**n),
    (LambdaLRCallbackTf, {"lr_lambda": lambda n: 1 / (1 + n)}, lambda n: 0.1 / (1 + n)),
    (CosineAnnealingLRCallbackTf, {"T_max": 4}, lambda n: 0.05 * (1 + math.cos(math.pi * n / 4))),
    # the scores of the second and third epoch are too many
    (ReduceLROnPlateauCallbackTf, {"patience": 1, "factor": 0.5, "mode": "min"}, [0.1, 0.1, 0.1, 0.05]),
    (
        schedules.CosineDecay,
        {"decay_steps": 4, "step_on": "epoch"},
        lambda n: 0.05 * (1 + math.cos(math.pi * min(n, 4) / 4)),
    ),
    # two updates an epoch; the rate of the last update but one is the epoch's
    (schedules.ExponentialDecay, {"decay_steps": 2, "decay_rate": 0.25}, lambda n: 0.1 * 0.25**n),
]


@pytest.mark.sampled("half")
@pytest.mark.parametrize(("cls", "params", "expected"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_the_optimizer_follows_its_schedule_and_goes_on_with_it(cls, params, expected, tmp_path):
    settings = {"lr_scheduler_cls": cls, "lr_scheduler_params": params}
    whole = train(tmp_path / "whole", **settings)
    expected = [expected(n) for n in range(N_EPOCHS)] if callable(expected) else expected
    np.testing.assert_allclose(rates(whole), expected, rtol=1e-6, atol=1e-9)
    train(tmp_path / "broken", 2, **settings)
    again = train(tmp_path / "broken", **settings)
    assert rates(again) == rates(whole)
    np.testing.assert_array_equal(again.network.dense.kernel.numpy(), whole.network.dense.kernel.numpy())


def test_a_schedule_without_its_class_or_its_arguments_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="scheduler_cls"):
        TfSchedulerCallback("default")
    with pytest.raises(ConfigError, match="CosineDecay"):
        train(tmp_path, lr_scheduler_cls=schedules.CosineDecay, lr_scheduler_params={"unknown": 1})
    with pytest.raises(ConfigError, match="schedule of Keras"):
        train(
            tmp_path, lr_scheduler_cls=ExponentialLRCallbackTf, lr_scheduler_params={"gamma": 0.5},
            optimizer_params={"learning_rate": schedules.CosineDecay(0.1, 4)},
        )  # fmt: skip
