"""The schedules of backends without their own follow PyTorch's, also across a resume."""

import math

import pytest

from delira.callbacks.schedules import rates
from delira.errors import ConfigError


class Optimizer:
    def __init__(self, rate=0.1):
        self.rate, self.num_updates = rate, 0


class Trainer:
    score_key, score_mode, skips_validation = "val_rmse", "lowest", False

    def __init__(self, rate=0.1):
        self.optimizers = {"default": Optimizer(rate)}


CASES = {
    "StepLR": (rates.StepRate, {"step_size": 3, "gamma": 0.5}),
    "MultiStepLR": (rates.MultiStepRate, {"milestones": [2, 5, 5], "gamma": 0.5}),
    "ExponentialLR": (rates.ExponentialRate, {"gamma": 0.9}),
    "LambdaLR": (rates.LambdaRate, {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    "CosineAnnealingLR": (rates.CosineAnnealingRate, {"T_max": 7, "eta_min": 0.01}),
    "OneCycleLR": (rates.OneCycleRate, {"max_lr": 1.0, "total_steps": 10, "pct_start": 0.4}),
}
SCORES = [1.0, 0.9, 0.91, 0.92, 0.93, 0.5, 0.6, 0.7, 0.8, 0.4999999, 0.6, 0.6, 0.6, 0.6]
PLATEAUS = [
    {"patience": 1, "factor": 0.5},
    {"patience": 0, "factor": 0.1, "cooldown": 2},
    {"patience": 1, "factor": 0.5, "threshold": 0.15, "threshold_mode": "abs"},
    {"patience": 0, "factor": 0.1, "min_lr": 0.005},
    {"patience": 0, "factor": 0.5, "mode": "max"},
]


def advance(schedule, trainer, score=None):
    trainer.optimizers["default"].num_updates += 1
    schedule.at_iter_end(trainer)
    if schedule.step_on == "epoch":
        schedule.at_epoch_end(trainer, metrics={"val_rmse": score}, val_score_key="val_rmse")
    return trainer.optimizers["default"].rate


def torch_rates(name, params, scores):
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **params)
    found = [optimizer.param_groups[0]["lr"]]
    for score in scores:
        optimizer.step()
        schedule.step(*([score] if name == "ReduceLROnPlateau" else []))
        found.append(optimizer.param_groups[0]["lr"])
    return found


def own_rates(cls, params, scores, broken_off=None):
    trainer, schedule = Trainer(), cls(**params)
    schedule.attach(trainer)
    schedule.at_training_begin(trainer)
    found = [trainer.optimizers["default"].rate]
    for number, score in enumerate(scores):
        if number == broken_off:  # another process, which loads the optimizer too
            state, rate, updates = schedule.state_dict(), found[-1], trainer.optimizers["default"].num_updates
            trainer, schedule = Trainer(), cls(**params)
            schedule.attach(trainer)
            trainer.optimizers["default"].rate, trainer.optimizers["default"].num_updates = rate, updates
            schedule.load_state_dict(state)
            schedule.at_training_begin(trainer)
        found.append(advance(schedule, trainer, score))
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_is_pytorchs(name):
    cls, params = CASES[name]
    assert own_rates(cls, params, [None] * 9) == pytest.approx(torch_rates(name, params, [None] * 9), rel=1e-12)


@pytest.mark.parametrize("params", PLATEAUS, ids=str)
def test_the_plateau_is_pytorchs(params):
    assert own_rates(rates.PlateauRate, params, SCORES) == pytest.approx(
        torch_rates("ReduceLROnPlateau", params, SCORES), rel=1e-12
    )


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_continues(name):
    cls, params = CASES[name]
    assert own_rates(cls, params, [None] * 9, broken_off=4) == own_rates(cls, params, [None] * 9)


@pytest.mark.parametrize("params", PLATEAUS, ids=str)
@pytest.mark.parametrize("broken_off", range(1, len(SCORES)))
def test_the_plateau_continues(params, broken_off):
    assert own_rates(rates.PlateauRate, params, SCORES, broken_off) == own_rates(rates.PlateauRate, params, SCORES)


def test_rates_to_come_are_scaled_too():
    cls, params = CASES["CosineAnnealingLR"]
    trainer, schedule = Trainer(), cls(**params)
    schedule.attach(trainer)
    advance(schedule, trainer)
    schedule.scale_rates(0.5)
    trainer.optimizers["default"].rate *= 0.5
    found = [advance(schedule, trainer) for _ in range(5)]
    assert found == pytest.approx([rate / 2 for rate in own_rates(cls, params, [None] * 6)[2:]])


def test_the_plateau_takes_the_mode_of_the_run():
    trainer = Trainer()
    trainer.score_mode = "highest"
    schedule = rates.PlateauRate(patience=0, factor=0.5)
    schedule.attach(trainer)
    schedule.at_training_begin(trainer)
    assert [advance(schedule, trainer, score) for score in (0.1, 0.2, 0.2)] == [0.1, 0.1, 0.05]


def test_a_first_score_that_is_no_number_is_not_the_best():
    trainer, schedule = Trainer(), rates.PlateauRate(patience=5)
    schedule.attach(trainer)
    schedule.at_training_begin(trainer)
    advance(schedule, trainer, math.nan)
    advance(schedule, trainer, 0.5)
    assert schedule.best == 0.5


def test_one_cycle_takes_epochs_and_steps():
    whole = rates.OneCycleRate(max_lr=1.0, epochs=2, steps_per_epoch=5)
    assert whole.params["total_steps"] == 10


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: rates.StepRate(), "StepRate needs 'step_size'"),
        (lambda: rates.StepRate("default", 1, 2, 3), "at most 2 positional"),
        (lambda: rates.StepRate(stepsize=2), "takes step_size, gamma, not 'stepsize'; did you mean 'step_size'"),
        (lambda: rates.StepRate(step_size=2, step_on="batch"), "step_on must be 'epoch' or 'iter'"),
        (lambda: rates.PlateauRate(mode="up"), "mode must be one of"),
        (lambda: rates.PlateauRate(factor=2), "factor must be above 0 and below 1"),
        (lambda: rates.PlateauRate(threshold_mode="both"), "threshold_mode must be"),
        (lambda: rates.PlateauRate(step_on="iter"), "leave step_on out"),
        (lambda: rates.OneCycleRate(max_lr=1.0), "needs total_steps"),
        (lambda: rates.StepRate("other", 2).attach(Trainer()), "no optimizer 'other'"),
        (lambda: rates.StepRate(object(), 2).attach(Trainer()), "takes the name of an optimizer"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()
