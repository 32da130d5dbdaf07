"""The events of a training: told to callbacks, and what these change taken over."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import IN_STEP, CallbackList
from delira.contract.kinds import Data
from delira.state import State, misspelt
from delira.training.objective import Objective
from delira.training.run import Run


class Events:
    """Tells callbacks the events of a run, and goes on with the network, optimizers and losses that they have set.

    Parameters
    ----------
    run
        The run.
    objective
        What the run computes.
    shown
        The trainer, which callbacks of the events ``at_*`` get.
    """

    def __init__(self, run: Run, objective: Objective, shown: Any):
        self._run, self._objective, self._shown = run, objective, shown
        self._n_keys = 0
        #: network, optimizer and criterion of the state that were taken over last
        self._in_use: tuple[Any, Any, Any] = (None, None, None)
        #: modes of networks that callbacks have set in the midst of a training pass
        self._modes: contextlib.ExitStack | None = None

    def begin(self) -> None:
        """Take note of what the state has, and that everything is there."""
        facts = self._run.facts
        self._in_use = (facts[keys.MODEL], facts[keys.OPTIMIZER], facts[keys.CRITERION])

    # ------------------------------------------------------------------ telling

    def notify(self, event: str, **facts: Any) -> None:
        """Tell an event ``at_*``."""
        self._run.callbacks.notify(event, self._shown, **facts)

    def fire(self, event: str) -> None:
        """Tell an event ``on_*``, and take over what was changed; after a step also what was changed inside of it."""
        run = self._run
        if run.state.has_all_steps and event in ("on_start_training", "on_end_training"):
            return  # of an epoch that is continued in its validation: they were called before
        if not run.callbacks.hears(event):
            if event == "on_step_training":
                self.follow()
            return
        run.facts[keys.PHASE] = run.phase
        run.callbacks.fire(event, run.facts, run.phase)
        if event not in IN_STEP:
            self.follow()

    def begin_pass(self, data_key: str, data: Data, event: str) -> None:
        """Tell that a pass over data begins."""
        self._objective.begin_pass(data_key, data)
        self.fire(event)

    def end_pass(self, values: Mapping[str, Any], event: str) -> dict[str, Any]:
        """Tell the values of a pass; returns what callbacks left of them, with what they added."""
        self._objective.end_pass(values, event)
        self.fire(event)
        return self._objective.recorded()

    # ------------------------------------------------------------------ taking over

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        """Scope in which the network learns, and any that comes in its place."""
        with contextlib.ExitStack() as self._modes:
            self._modes.enter_context(self._run.backend.calls.training(self._run.network))
            try:
                yield
            finally:
                self._modes = None

    def follow(self) -> None:
        """Go on with what a callback, or the user between two calls, has put into the state."""
        run, facts = self._run, self._run.facts
        if len(facts) != self._n_keys:
            self._n_keys = len(facts)
            for advice in misspelt(facts):
                run.warn_once(advice)
        if facts.get(keys.STOP_TRAINING) and not run.state.stop_training and run.phase == "fit":
            run.state.stop_training = True
        model, given, losses = now = (facts[keys.MODEL], facts[keys.OPTIMIZER], facts[keys.CRITERION])
        network, optimizer, criterion = self._in_use
        if model is network and given is optimizer and losses is criterion:
            return
        if not self._objective.takes_network(model):
            self._replace(now)
        self._in_use, run.n_replaced = now, run.n_replaced + 1

    def _replace(self, now: tuple[Any, Any, Any]) -> None:
        """Go on with another network, optimizer or criterion."""
        run, objective, backend = self._run, self._objective, self._run.backend
        (model, given, losses), (network, optimizer, criterion) = now, self._in_use
        if losses is not criterion:
            objective.set_criterion(losses)
        if model is not network or losses is not criterion:
            run.network = backend.devices.place(model, objective.functions(), run.devices)
            if self._modes is not None:
                self._modes.enter_context(backend.calls.training(run.network))
        if given is not optimizer:
            run.optimizers = backend.optimizers.build(
                run.network, objective.given_optimizers, None, {}, run.config.update
            )
            for schedule in [one for one in run.callbacks if hasattr(one, "begin_anew")]:
                schedule.begin_anew(self._shown)
        elif model is not network and run.phase == "fit":
            backend.optimizers.check(run.network, run.optimizers)


@contextlib.contextmanager
def telling_the_end(callbacks: CallbackList, state: State, phase: str) -> Iterator[None]:
    """Scope after which ``on_end`` is called, whatever ends it; the first error is raised."""
    try:
        yield
    except BaseException as error:
        callbacks.end(state, phase, error)
        raise
    if (first := callbacks.end(state, phase, None)) is not None:
        raise first
