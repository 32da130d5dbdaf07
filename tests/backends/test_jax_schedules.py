"""Learning-rate schedules of JAX: each follows its formula, and goes on where it was."""

import math

import pytest

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")
import optax
from flax import nnx

from delira.backends.jax.schedules import build_schedules
from delira.training import create_optims_default_jax
from delira.training.callbacks import (
    CosineAnnealingLRCallbackJax,
    ExponentialLRCallbackJax,
    LambdaLRCallbackJax,
    MultiStepLRCallbackJax,
    OneCycleLRCallbackJax,
    ReduceLROnPlateauCallbackJax,
    StepLRCallbackJax,
)


class Trainer:
    """As much of a trainer as schedules see."""

    score_key, score_mode, skips_validation = "score", "lowest", False

    def __init__(self):
        self.optimizers = create_optims_default_jax(nnx.Linear(1, 1, rngs=nnx.Rngs(0)), optax.sgd, lr=0.8)


def rates_of(callback, n, **facts):
    trainer = Trainer()
    callback.attach(trainer)
    callback.at_training_begin(trainer)
    rates = [trainer.optimizers["default"].rate]
    for _ in range(n):
        if callback.step_on == "iter":
            trainer.optimizers["default"]._num_updates += 1
            callback.at_iter_end(trainer)
        else:
            callback.at_epoch_end(trainer, metrics={"val_score": 1.0}, val_score_key="score", **facts)
        rates.append(trainer.optimizers["default"].rate)
    return rates


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (lambda: StepLRCallbackJax(step_size=2, gamma=0.5), [0.8, 0.8, 0.4, 0.4, 0.2]),
        (lambda: ExponentialLRCallbackJax(gamma=0.5), [0.8, 0.4, 0.2, 0.1, 0.05]),
        (lambda: MultiStepLRCallbackJax(milestones=[1, 3], gamma=0.5), [0.8, 0.4, 0.4, 0.2, 0.2]),
        (lambda: LambdaLRCallbackJax(lr_lambda=lambda n: 1 / (1 + n)), [0.8, 0.4, 0.8 / 3, 0.2, 0.16]),
        (lambda: CosineAnnealingLRCallbackJax(T_max=4, eta_min=0.0),
         [0.4 * (1 + math.cos(math.pi * n / 4)) for n in range(5)]),
        (lambda: ReduceLROnPlateauCallbackJax(patience=1, factor=0.5), [0.8, 0.8, 0.8, 0.4, 0.4]),
        (lambda: OneCycleLRCallbackJax(max_lr=1.0, total_steps=10, div_factor=4.0, final_div_factor=10.0),
         [0.25, 0.625, 1.0]),
    ],
    ids=["step", "exponential", "milestones", "lambda", "cosine", "plateau", "one cycle"],
)  # fmt: skip
def test_a_schedule_follows_its_formula(callback, expected):
    assert rates_of(callback(), len(expected) - 1) == pytest.approx(expected)


def test_schedules_of_optax_count_updates():
    params = {"init_value": 1.0, "end_value": 0.0, "transition_steps": 4}
    (callback,) = build_schedules({"default": "default"}, optax.linear_schedule, params)
    assert rates_of(callback, 2) == pytest.approx([1.0, 0.75, 0.5])


def test_a_schedule_continues_where_it_was_and_its_rates_can_be_scaled():
    first = StepLRCallbackJax(step_size=1, gamma=0.5)
    rates_of(first, 3)
    trainer, second = Trainer(), StepLRCallbackJax(step_size=1, gamma=0.5)
    second.attach(trainer)
    second.load_state_dict(first.state_dict())
    second.scale_rates(0.1)
    second.at_epoch_end(trainer)
    assert trainer.optimizers["default"].rate == pytest.approx(0.8 * 0.1 / 16)
