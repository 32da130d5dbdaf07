"""Schedules of the framework as callbacks."""

from collections.abc import Mapping
from typing import Any

from numpy_autograd import StepDecay

from delira.training.callbacks import AbstractCallback


class ScheduleCallback(AbstractCallback):
    """Steps a schedule after every epoch, and keeps its place in checkpoints."""

    def __init__(self, schedule: StepDecay):
        self.schedule = schedule

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Step."""
        self.schedule.step()

    def state_dict(self) -> dict[str, Any]:
        """The number of epochs; the rate itself is the optimizer's."""
        return {"epochs": self.schedule.epochs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue."""
        self.schedule.epochs = state["epochs"]
