"""The base of schedules: when they step, and at which value they look."""

from types import SimpleNamespace

import pytest

from delira.callbacks.schedules.rates import OptimizerSchedule, build_schedules, by_name
from delira.errors import ConfigError


class Counting(OptimizerSchedule):
    """Notes what happens."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.steps, self.seen = 0, []

    def begin(self, optimizer, trainer):
        self.optimizer = optimizer

    def advance(self):
        self.steps += 1

    def look_at(self, value):
        self.seen.append(value)


class CountingEnding(Counting):
    """Found by its name."""


class Plateau(Counting):
    is_plateau = True


def trainer_of(**more):
    optimizer = SimpleNamespace(num_updates=0)
    return SimpleNamespace(optimizers={"default": optimizer}, score_key=None, skips_validation=False, **more)


def attached(schedule, **more):
    trainer = trainer_of(**more)
    schedule.attach(trainer)
    return schedule, trainer


def test_a_schedule_of_epochs_steps_after_each():
    schedule, trainer = attached(Counting())
    for _ in range(3):
        trainer.optimizers["default"].num_updates += 5
        schedule.at_iter_end(trainer)
        schedule.at_epoch_end(trainer)
    assert schedule.steps == 3


def test_a_schedule_of_steps_follows_the_updates_and_no_step_without_one():
    schedule, trainer = attached(Counting(step_on="iter"))
    for n_updates in (1, 1, 2):
        trainer.optimizers["default"].num_updates = n_updates
        schedule.at_iter_end(trainer)
    assert schedule.steps == 2
    trainer.optimizers["default"].num_updates = 3  # the end of an epoch brings one more
    schedule.at_epoch_end(trainer)
    assert schedule.steps == 3


def test_a_plateau_looks_at_the_score_or_at_what_it_watches():
    schedule, trainer = attached(Plateau())
    schedule.at_epoch_end(trainer, metrics={"val_mae": 2.0, "mse": 1.0}, val_score_key="mae")
    watching, _ = attached(Plateau(monitor="mse"))
    watching.at_epoch_end(trainer, metrics={"val_mae": 2.0, "mse": 1.0}, val_score_key="mae")
    assert (schedule.seen, watching.seen, schedule.steps) == ([2.0], [1.0], 0)
    with pytest.raises(ConfigError, match=r"looks at 'mae', but the epoch has only \['mse'\]"):
        schedule.at_epoch_end(trainer, metrics={"mse": 1.0}, val_score_key="mae")


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="Plateau looks at values of epochs; leave step_on out"):
        Plateau(step_on="iter")
    with pytest.raises(ConfigError, match="step_on"):
        Counting(step_on="step")
    with pytest.raises(ConfigError, match=r"there is no optimizer 'gen'; there are \['default'\]"):
        attached(Counting("gen"))
    with pytest.raises(ConfigError, match="ReduceLROnPlateau needs a value to look at"):
        Plateau().at_training_begin(trainer_of())


def test_schedules_are_found_by_their_names_without_the_ending():
    assert by_name(Counting, "Ending") == {"Counting": CountingEnding}


def test_each_optimizer_has_a_schedule_of_its_own():
    made = build_schedules(None, {"a": 1, "b": 2}, Counting, {"step_on": "iter"})
    assert [(schedule.optimizer, schedule.step_on) for schedule in made] == [(1, "iter"), (2, "iter")]
    wrap = lambda cls, params: lambda optimizer: (cls, optimizer, params)  # noqa: E731
    assert build_schedules(wrap, {"a": 1}, "native", {"gamma": 2}) == [("native", 1, {"gamma": 2})]
