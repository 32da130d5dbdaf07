"""Rates as functions of the steps: those of PyTorch's schedules, and when a plateau lowers them."""

import math
from types import SimpleNamespace

import pytest

from delira.callbacks.schedules.rates import (
    CosineAnnealingRate,
    CyclicRate,
    ExponentialRate,
    LambdaRate,
    MultiStepRate,
    OneCycleRate,
    PlateauRate,
    StepRate,
    is_improvement,
)
from delira.errors import ConfigError


def begun(schedule, rate=0.8):
    """The schedule at work on an optimizer, which is returned, too."""
    optimizer = SimpleNamespace(rate=rate, num_updates=0)
    schedule.begin(optimizer, None)
    return schedule, optimizer


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (StepRate(step_size=2, gamma=0.5), [0.8, 0.8, 0.4, 0.4, 0.2]),
        (MultiStepRate(milestones=[3, 1], gamma=0.5), [0.8, 0.4, 0.4, 0.2, 0.2]),
        (ExponentialRate(gamma=0.5), [0.8, 0.4, 0.2, 0.1, 0.05]),
        (LambdaRate(lr_lambda=lambda n: 1 / (1 + n)), [0.8, 0.4, 0.8 / 3, 0.2, 0.16]),
        (CosineAnnealingRate(T_max=4), [0.4 * (1 + math.cos(math.pi * n / 4)) for n in range(5)]),
        (CyclicRate(base_lr=0.1, max_lr=0.5, step_size_up=2), [0.1, 0.3, 0.5, 0.3, 0.1]),
        (CyclicRate(base_lr=0.0, max_lr=1.0, step_size_up=1, mode="triangular2"), [0.0, 1.0, 0.0, 0.5, 0.0]),
        (CyclicRate(base_lr=0.0, max_lr=1.0, step_size_up=1, step_size_down=3), [0.0, 1.0, 2 / 3, 1 / 3, 0.0]),
        (
            OneCycleRate(max_lr=1.0, total_steps=5, pct_start=0.6, anneal_strategy="linear", final_div_factor=10.0),
            [0.04, 0.52, 1.0, 0.502, 0.004],
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_rates_are_those_of_the_formula(schedule, expected):
    schedule, optimizer = begun(schedule)
    found = [optimizer.rate]
    for _ in expected[1:]:
        schedule.advance()
        found.append(optimizer.rate)
    assert found == pytest.approx(expected, abs=1e-12)


def test_a_schedule_goes_on_from_its_state_with_scaled_rates():
    first, _ = begun(StepRate(step_size=1, gamma=0.5))
    first.advance()
    second, optimizer = begun(StepRate(step_size=1, gamma=0.5))
    second.load_state_dict(first.state_dict())
    second.scale_rates(0.1)
    second.advance()
    assert optimizer.rate == pytest.approx(0.8 * 0.25 * 0.1)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: StepRate(), "StepRate needs 'step_size'"),
        (lambda: StepRate("default", 1, 0.5, 3), "StepRate takes at most 2 positional arguments after the optimizer"),
        (lambda: StepRate(step_siz=1), "StepRate takes step_size, gamma, not 'step_siz'; did you mean 'step_size'"),
        (lambda: StepRate(step_size=0), "step_size"),
        (lambda: LambdaRate(lr_lambda=[abs]), "lr_lambda"),
        (lambda: PlateauRate(step_on="iter"), "PlateauRate looks at values of epochs; leave step_on out"),
        (
            lambda: begun(PlateauRate())[0].begin(object(), None),
            "takes the name of an optimizer, or one of the trainer",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make, match):
    with pytest.raises(ConfigError, match=match):
        make()


@pytest.mark.parametrize(
    ("settings", "values", "expected"),
    [
        ({"patience": 1}, [1.0, 1.0, 1.0, 0.5], [0.8, 0.8, 0.4, 0.4]),
        ({"patience": 0, "mode": "max"}, [1.0, 2.0, 1.0, 1.0], [0.8, 0.8, 0.4, 0.2]),
        ({"patience": 0, "cooldown": 1}, [1.0, 1.0, 1.0, 1.0], [0.8, 0.4, 0.4, 0.2]),
        ({"patience": 0, "min_lr": 0.3}, [1.0, 1.0, 1.0], [0.8, 0.4, 0.3]),
        ({"patience": 0, "threshold": 0.5, "threshold_mode": "abs"}, [1.0, 0.6, 0.4], [0.8, 0.4, 0.4]),
    ],
)
def test_a_plateau_lowers_the_rate_after_too_many_epochs(settings, values, expected):
    schedule, optimizer = begun(PlateauRate(**{"mode": "min", "factor": 0.5, **settings}))
    found = []
    for value in values:
        schedule.look_at(value)
        found.append(optimizer.rate)
    assert found == pytest.approx(expected)


def test_an_improvement_is_more_than_the_threshold():
    assert is_improvement(0.89, 1.0, 0.1, is_relative=True, is_highest=False)
    assert not is_improvement(0.9, 1.0, 0.1, is_relative=True, is_highest=False)
    assert is_improvement(-0.89, -1.0, 0.1, is_relative=True, is_highest=True)
    assert is_improvement(1.2, 1.0, 0.1, is_relative=False, is_highest=True)
    assert is_improvement(5.0, math.inf, 0.1, is_relative=True, is_highest=False)
