"""The moments a callback can act on, and the list that calls callbacks."""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from delira.errors import ConfigError

EVENTS = (
    "at_training_begin",
    "at_training_end",
    "at_epoch_begin",
    "at_epoch_end",
    "at_iter_begin",
    "at_iter_end",
)


class AbstractCallback:
    """Override any moment; none must be. Each gets the trainer and, by keyword, the facts of the moment.

    A callback acts on ``trainer.state`` (e.g. ``trainer.state.stop_training = True``) and returns
    nothing. Any object with one of these methods is a callback; subclassing is not needed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def attach(self, trainer: Any) -> None:
        """Called once with the complete trainer, before a checkpoint is read."""

    def at_training_begin(self, trainer: Any, **facts: Any) -> Any:
        """Called before the first epoch. Facts: ``num_epochs``, ``num_batches`` (``None`` if not known)."""

    def at_training_end(self, trainer: Any, **facts: Any) -> Any:
        """Called after the last epoch, also if the training failed. Facts: ``error`` (``None`` if it did not)."""

    def at_epoch_begin(self, trainer: Any, **facts: Any) -> Any:
        """Called before each epoch. Facts: ``curr_epoch``, ``num_epochs``, ``val_metrics``, ``val_score_key``.

        Not again where a run continues inside an epoch: what it set then belongs into ``state_dict``.
        """

    def at_epoch_end(self, trainer: Any, **facts: Any) -> Any:
        """Called after each epoch.

        Facts: ``curr_epoch``, ``num_epochs``, ``metrics`` (every value of the epoch; also under the
        historic name ``val_metrics``), ``val_score_key`` and ``is_best``.
        """

    def at_iter_begin(self, trainer: Any, **facts: Any) -> Any:
        """Called before each step. Facts: ``iter_num`` (in the epoch, from 0), ``global_iter_num``,
        ``curr_epoch``, ``data_dict`` (the batch), ``train``.
        """

    def at_iter_end(self, trainer: Any, **facts: Any) -> Any:
        """Called after each step. Facts: those of its begin, ``losses``, ``metrics`` and ``predictions``
        (device values: reading them waits for the device).
        """

    def state_dict(self) -> dict[str, Any]:
        """What must survive a restart: plain numbers, strings, lists, dicts and arrays."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take a state back."""


#: what a dictionary returned by an old callback may set
_RETURNABLE = ("stop_training",)


class CallbackList:
    """Calls callbacks in the order they were given, and only those that listen."""

    def __init__(self, callbacks: Iterable[Any] = ()):
        self._callbacks: list[Any] = []
        self._listeners: dict[str, list[tuple[Any, Any]]] = {event: [] for event in EVENTS}
        for callback in callbacks:
            self.append(callback)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._callbacks)

    def __len__(self) -> int:
        return len(self._callbacks)

    def append(self, callback: Any) -> None:
        """Add a callback.

        Raises
        ------
        ConfigError
            If the object has none of the methods of a callback.
        """
        heard = [event for event in EVENTS if _listens(callback, event)]
        if not heard and not isinstance(callback, AbstractCallback):
            raise ConfigError(
                f"{callback!r} is no callback: it has none of the methods {', '.join(EVENTS)}"
                + ("; it is a class, pass an instance" if isinstance(callback, type) else _own_of_the_name(callback))
            )
        self._callbacks.append(callback)
        for event in heard:
            self._listeners[event].append((callback, getattr(callback, event)))

    def hears(self, event: str) -> bool:
        """Whether any callback listens to ``event``."""
        return bool(self._listeners[event])

    def notify(self, event: str, trainer: Any, **facts: Any) -> None:
        """Call ``event`` of every callback that listens to it."""
        for callback, method in self._listeners[event]:
            returned = method(trainer, **facts)
            if returned:
                _apply(trainer, callback, event, returned)

    def conclude(self, trainer: Any, error: BaseException | None) -> None:
        """Call ``at_training_end`` of every callback, whatever fails; the first error is the one that is raised."""
        first = error
        for callback, method in self._listeners["at_training_end"]:
            try:
                if returned := method(trainer, error=error):
                    _apply(trainer, callback, "at_training_end", returned)
            except Exception as failure:
                if first is None:
                    first = failure
                else:
                    first.add_note(f"then {type(callback).__name__}.at_training_end failed as well: {failure!r}")
        if first is not None and first is not error:
            raise first

    def attach(self, trainer: Any) -> None:
        """Show every callback the complete trainer."""
        for callback in self._callbacks:
            if isinstance(callback, AbstractCallback):
                callback.attach(trainer)

    def state_dict(self) -> dict[str, Any]:
        """States by name; a second callback of a class is called ``<Class>_1``."""
        named = ((name, callback.state_dict()) for name, callback in self._named())
        return {name: dict(state) for name, state in named}

    def state_of(self, callback: Any, states: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The state of one callback among states by name, if there is one."""
        return next((states.get(name) for name, one in self._named() if one is callback), None)

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Give states back by name; callbacks without one stay as they are."""
        for name, callback in self._named():
            if name in states:
                callback.load_state_dict(states[name])

    def _named(self) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for callback in self._callbacks:
            if not hasattr(callback, "state_dict") or not hasattr(callback, "load_state_dict"):
                continue
            has_none = getattr(callback.state_dict, "__func__", None) is AbstractCallback.state_dict
            name = type(callback).__name__
            number = seen[name] = seen.get(name, -1) + 1
            if not has_none:
                yield (f"{name}_{number}" if number else name), callback


def _listens(callback: Any, event: str) -> bool:
    method = getattr(callback, event, None)
    if not callable(method) or isinstance(callback, type):
        return False
    return getattr(method, "__func__", method) is not getattr(AbstractCallback, event)


def _own_of_the_name(callback: Any) -> str:
    """Advice for callbacks of other libraries, many of which delira has, too."""
    name = type(callback).__name__
    own = importlib.import_module("delira.training.callbacks")
    return f"; use delira.training.callbacks.{name}" if name in own.__all__ else ""


def _apply(trainer: Any, callback: Any, event: str, returned: Any) -> None:
    """Set what an old callback returned, if it is one of a few known names."""
    if not isinstance(returned, Mapping) or (unknown := [name for name in returned if name not in _RETURNABLE]):
        what = f"the unknown entries {unknown}" if isinstance(returned, Mapping) else f"a {type(returned).__name__}"
        raise ConfigError(
            f"{type(callback).__name__}.{event} returned {what}; a callback returns nothing and acts on "
            f"trainer.state (only {', '.join(_RETURNABLE)} may still be returned)"
        )
    for name, value in returned.items():
        setattr(trainer.state, name, value)
