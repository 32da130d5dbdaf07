"""ReduceLROnPlateau lowers the same rates in every backend, whatever the sign of what it looks at."""

import math

import numpy as np
import pytest

from delira.callbacks.schedules.rates import PlateauRate


class Optimizer:
    """What a schedule needs of an optimizer, without a framework."""

    def __init__(self):
        self.rate, self.num_updates = 0.1, 0


class Trainer:
    score_key, score_mode, skips_validation = "val_score", "lowest", False

    def __init__(self, optimizer):
        self.optimizers = {"default": optimizer}


def by_hand(values, mode, patience, threshold, threshold_mode):
    """The rates after each epoch, by the words of the documentation."""
    sign = 1 if mode == "max" else -1
    rate, best, waited, rates = 0.1, -sign * math.inf, 0, []
    for value in values:
        size = 0.0 if math.isinf(best) else threshold if threshold_mode == "abs" else threshold * abs(best)
        if sign * value > sign * best + size:
            best, waited = value, 0
        else:
            waited += 1
        if waited > patience:
            rate, waited = rate * 0.5, 0
        rates.append(rate)
    return rates


def follow(schedule, trainer, values, read):
    schedule.attach(trainer)
    schedule.at_training_begin(trainer)
    rates = []
    for value in values:
        schedule.at_epoch_end(trainer, metrics={"val_score": float(value)}, val_score_key="val_score")
        rates.append(read())
    return rates


def everywhere(values, **settings):
    """Rates of the schedule of JAX and TensorFlow, and of that of PyTorch."""
    torch = pytest.importorskip("torch")
    from delira.backends.torch.schedules import TorchSchedulerCallback

    own = Optimizer()
    found = [follow(PlateauRate(factor=0.5, **settings), Trainer(own), values, lambda: own.rate)]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    optimizer.step()
    schedule = TorchSchedulerCallback(
        optimizer, torch.optim.lr_scheduler.ReduceLROnPlateau, monitor="val_score", factor=0.5, **settings
    )
    found.append(follow(schedule, Trainer(optimizer), values, lambda: optimizer.param_groups[0]["lr"]))
    schedule.load_state_dict(schedule.state_dict())  # what is compared by is no state
    return found


@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("kind", ["negative", "both signs", "positive", "first infinite"])
def test_a_plateau_is_the_same_everywhere(kind, mode, threshold_mode):
    rng = np.random.default_rng(4)
    values = rng.normal(size=40).cumsum() * 0.1 + {"negative": -9, "positive": 9}.get(kind, 0)
    if kind == "first infinite":
        values[0] = np.inf if mode == "min" else -np.inf
    settings = {"mode": mode, "patience": 1, "threshold": 0.02, "threshold_mode": threshold_mode}
    expected = by_hand(values.tolist(), **settings)
    for found in everywhere(values, **settings):
        assert found == pytest.approx(expected)


def test_a_negative_value_that_became_worse_is_no_improvement():
    values = [-1.0, -0.95, -0.93, -0.92, -0.9]
    for found in everywhere(values, mode="min", patience=1, threshold=0.1):
        assert found[-1] < 0.1
