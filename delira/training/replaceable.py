"""What a trainer works with, and callbacks may replace in its state: the network, the optimizers, the criterion."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from delira import state as keys
from delira.errors import ConfigError
from delira.state import State
from delira.training.callbacks.schedules.for_all import RoomSchedule
from delira.training.checkpointed import CheckpointedRun


class ReplaceableRun(CheckpointedRun):
    """The part of a trainer that goes on with another network, optimizer or criterion."""

    facts: State
    devices: Any
    #: network, optimizer and criterion of the state that were taken over last
    in_use: tuple[Any, Any, Any] = (None, None, None)
    #: modes of networks that callbacks have set in the midst of a training pass
    _modes: contextlib.ExitStack | None = None
    _functions: Callable[[], dict[str, Any]]
    _phase: str

    @contextlib.contextmanager
    def _learning(self) -> Iterator[None]:
        """Scope in which the network learns, and any that comes in its place."""
        with contextlib.ExitStack() as self._modes:
            self._modes.enter_context(self.backend.training(self.module))
            try:
                yield
            finally:
                self._modes = None

    def _follow_replaced(self, facts: State) -> None:
        """Go on with what a callback, or the user between two calls, has put into the state."""
        network, optimizer, criterion = self.in_use
        model, given, losses = facts[keys.MODEL], facts[keys.OPTIMIZER], facts[keys.CRITERION]
        if model is network and given is optimizer and losses is criterion:
            return
        if losses is not criterion:
            self._set_criterion(losses)
        if model is not network or losses is not criterion:
            self.module = self.backend.place(model, self._functions(), self.devices)
            if self._modes is not None:
                self._modes.enter_context(self.backend.training(self.module))
        if given is not optimizer:
            self._set_optimizers()
        elif model is not network and self._phase == "fit":
            self.backend.check_optimizers(self.module, self.optimizers)
        self.in_use, self._bound = (model, given, losses), None

    def _set_criterion(self, criterion: Any) -> None:
        """Compute other losses from now on."""
        names = list(self.config.losses)
        if not isinstance(criterion, Mapping):
            if len(names) != 1:
                raise ConfigError(
                    f"a callback has set CRITERION to {criterion!r}, but the trainer has the losses "
                    f"{', '.join(names)}; set it to a dict of them"
                )
            criterion = {names[0]: criterion}
        self.config = dataclasses.replace(self.config, losses=dict(criterion))

    def _set_optimizers(self) -> None:
        """Update with other optimizers from now on; schedules begin anew with them."""
        update = self.config.update
        self.optimizers = self.backend.build_optimizers(self.module, self._given_optimizers, None, {}, update)
        for schedule in [one for one in self.callbacks if isinstance(one, RoomSchedule)]:
            schedule.begin_anew(self)

    def _given_optimizers(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The optimizers of the state by name, for a room that builds its own out of them."""
        given = self.facts[keys.OPTIMIZER]
        return dict(given) if isinstance(given, Mapping) else {next(iter(self.optimizers), "default"): given}
