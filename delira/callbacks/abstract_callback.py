"""Callbacks: the events of a fit, the bases of what hears them, and the list that calls them."""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from delira.errors import ConfigError, did_you_mean
from delira.frameworks import framework_of
from delira.state import PHASE, SELF, State
from delira.utils.frameworks import backend_named

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


#: what callbacks are shown
Trainer: TypeAlias = "BaseNetworkTrainer"


class Event(NamedTuple):
    """One event: what has happened by then, and the methods that get the state (a hook) and, before it, the trainer."""

    when: str
    hook: str
    at: str = ""


#: in the order of one epoch
ALL_EVENTS = (
    Event("the trial, or the trainer, is complete", "on_init"),
    Event("a fit, an evaluation or a prediction begins", "on_start", "at_training_begin"),
    Event("an epoch begins", "on_start_epoch", "at_epoch_begin"),
    Event("the training pass of an epoch begins", "on_start_training"),
    Event("a batch is there: change X and Y_TRUE", "on_sample", "at_iter_begin"),
    Event("the network was called: change Y_PRED", "on_forward"),
    Event("the loss is there, and not differentiated yet: change LOSS", "on_criterion"),
    Event("the gradients are there, and no update was made yet", "on_backward"),
    Event("a step is done", "on_step_training", "at_iter_end"),
    Event("the training pass is done", "on_end_training"),
    Event("a pass without learning begins: a validation, an evaluation, a prediction", "on_start_validation"),
    Event("as on_sample, in a pass without learning", "on_sample_validation"),
    Event("as on_forward, in a pass without learning", "on_forward_validation"),
    Event("as on_criterion, in a pass without learning; not without targets", "on_criterion_validation"),
    Event("a batch of a pass without learning is done", "on_step_validation"),
    Event("the pass is done", "on_end_validation"),
    Event("an epoch is done and not recorded yet: changes of METRICS are recorded", "on_end_epoch"),
    Event("an epoch is recorded: the time to store it", "on_checkpoint", "at_epoch_end"),
    Event("the fit, evaluation or prediction ends, whatever ended it", "on_end", "at_training_end"),
)
#: hook -> what has happened by then
HOOKS = {event.hook: event.when for event in ALL_EVENTS}
_BEGINNINGS = [event.at for event in ALL_EVENTS if event.at.endswith("begin")]
#: events that callbacks hear with the trainer: of training, epoch and step the beginning and the end
EVENTS = tuple(name for begin in _BEGINNINGS for name in (begin, f"{begin.removesuffix('begin')}end"))
PHASES = ("fit", "evaluate", "predict", "replay")
#: hooks that run inside the step, where the loss is differentiated
IN_STEP = ("on_sample", "on_forward", "on_criterion", "on_backward")
#: characters of an argument that is left out of the name of a callback
_LONG = 60


class AbstractCallback:
    """Override any event; none must be. Each gets the trainer and, by keyword, the facts of the event.

    A callback acts on ``trainer.state`` (e.g. ``trainer.state.stop_training = True``) and returns
    nothing. Any object with one of these methods is a callback; subclassing is not needed.

    Each run of an experiment has a copy of its own. Attributes named in ``shared`` are not copied: live objects, e.g.
    the trial of a search, which a run reports to.

    Attributes
    ----------
    only_watches
        Whether it changes no number of the training: it is not compared when a run is continued then.
    only_first
        Whether it is told events by the first alone of several processes that train one network together, since it
        does nothing but write files or print.
    shared
        Names of attributes that all runs share.
    """

    only_watches = only_first = False
    shared: tuple[str, ...] = ()
    #: attributes that a checkpoint keeps, under their names without an underscore
    _kept: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def attach(self, trainer: Trainer) -> None:
        """Called once with the complete trainer, before a checkpoint is read."""

    def at_training_begin(self, trainer: Trainer, **facts: Any) -> Any:
        """Called before the first epoch. Facts: ``num_epochs``, ``num_batches`` (``None`` if not known)."""

    def at_training_end(self, trainer: Trainer, **facts: Any) -> Any:
        """Called after the last epoch, also if the training failed. Facts: ``error`` (``None`` if it did not)."""

    def at_epoch_begin(self, trainer: Trainer, **facts: Any) -> Any:
        """Called before each epoch. Facts: ``curr_epoch``, ``num_epochs``, ``val_metrics``, ``val_score_key``.

        Not again where a run continues inside an epoch: what it set then belongs into ``state_dict``.
        """

    def at_epoch_end(self, trainer: Trainer, **facts: Any) -> Any:
        """Called after each epoch.

        Facts: ``curr_epoch``, ``num_epochs``, ``metrics`` (every value of the epoch; also under the
        historic name ``val_metrics``), ``val_score_key`` and ``is_best``.
        """

    def at_iter_begin(self, trainer: Trainer, **facts: Any) -> Any:
        """Called before each step. Facts: ``iter_num`` (in the epoch, from 0), ``global_iter_num``,
        ``curr_epoch``, ``data_dict`` (the batch), ``train``.
        """

    def at_iter_end(self, trainer: Trainer, **facts: Any) -> Any:
        """Called after each step. Facts: those of its begin, ``losses``, ``metrics`` and ``predictions``
        (device values: reading them waits for the device).
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive a restart: plain numbers, strings, lists, dicts and arrays."""
        return {name.removeprefix("_"): getattr(self, name) for name in self._kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take a state back."""
        for name in self._kept:
            setattr(self, name, state[name.removeprefix("_")])

    def __repr__(self) -> str:
        # of its arguments those that say in a few characters what they are
        given = {name: vars(self).get(name) for name in inspect.signature(type(self)).parameters}
        simple = [f"{name}={value!r}" for name, value in given.items() if isinstance(value, (str, int, float))]
        return f"{type(self).__name__}({', '.join(each for each in simple if len(each) < _LONG)})"


class Callback(AbstractCallback):
    """Override any hook: each is a function of the :class:`delira.state.State`; none must be.

    The events of :class:`AbstractCallback`, which get the trainer, may be overridden as well. The same callbacks
    serve a :class:`delira.Trial` and an experiment.

    Attributes
    ----------
    phases
        The phases in which it acts, of ``"fit"``, ``"evaluate"``, ``"predict"`` and ``"replay"``. One that only
        concerns learning has ``("fit",)``.
    traceable
        Whether the hooks inside the step (``on_sample`` to ``on_backward``) may become part of a compiled one: they
        only compute with arrays, and Python need not run at every step. An ``on_sample`` that may not runs before the
        step; if another hook may not, the steps of the run are not compiled.
    needs_gradients
        Whether it is refused where nothing is differentiated, as for estimators of scikit-learn.

    Examples
    --------
    >>> from delira.state import LOSS
    >>> class Doubled(Callback):
    ...     traceable = True
    ...
    ...     def on_criterion(self, state):
    ...         state[LOSS] = 2 * state[LOSS]
    """

    phases: tuple[str, ...] = PHASES
    traceable = False
    needs_gradients = False
    #: methods that are called ``on_…`` and no hooks
    not_hooks: tuple[str, ...] = ()

    def on_init(self, state: State) -> None:
        """Called when the trial, or the trainer, is complete: ``MODEL``, ``OPTIMIZER`` and ``CRITERION`` are there."""

    def on_start(self, state: State) -> None:
        """Called when a fit, an evaluation or a prediction begins; ``PHASE`` says which."""

    def on_start_epoch(self, state: State) -> None:
        """Called when an epoch begins, ``EPOCH`` of ``MAX_EPOCHS``."""

    def on_start_training(self, state: State) -> None:
        """Called when the training pass of an epoch begins, over ``GENERATOR`` in ``STEPS`` batches."""

    def on_sample(self, state: State) -> None:
        """Called when the batch number ``BATCH`` is there: change ``X`` and ``Y_TRUE``."""

    def on_forward(self, state: State) -> None:
        """Called when the network was called: change ``Y_PRED``."""

    def on_criterion(self, state: State) -> None:
        """Called when the loss is there, and not differentiated yet: change ``LOSS``."""

    def on_backward(self, state: State) -> None:
        """Called when the gradients are there, and no update was made yet: change ``GRADIENTS``."""

    def on_step_training(self, state: State) -> None:
        """Called when a step is done: ``LOSS``, ``Y_PRED`` and the running ``METRICS`` are its values."""

    def on_end_training(self, state: State) -> None:
        """Called when the training pass is done: ``METRICS`` are those of the pass."""

    def on_start_validation(self, state: State) -> None:
        """Called when a pass without learning begins: a validation, evaluation or prediction, of ``DATA``."""

    def on_sample_validation(self, state: State) -> None:
        """As :meth:`on_sample`, in a pass without learning."""

    def on_forward_validation(self, state: State) -> None:
        """As :meth:`on_forward`, in a pass without learning."""

    def on_criterion_validation(self, state: State) -> None:
        """As :meth:`on_criterion`, in a pass without learning; not without targets."""

    def on_step_validation(self, state: State) -> None:
        """Called when a batch of a pass without learning is done: ``LOSS``, ``Y_PRED``, ``METRICS``."""

    def on_end_validation(self, state: State) -> None:
        """Called when the pass is done: ``METRICS`` are those of the pass."""

    def on_end_epoch(self, state: State) -> None:
        """Called when an epoch is done and not recorded yet: changes of ``METRICS`` are recorded."""

    def on_checkpoint(self, state: State) -> None:
        """Called when an epoch is recorded in ``HISTORY``: the time to store it."""

    def on_end(self, state: State) -> None:
        """Called when the fit, evaluation or prediction ends, whatever ended it."""


for _moment in (*EVENTS, *HOOKS):
    getattr(Callback, _moment).does_nothing = True


class EveryPass(Callback):
    """Do in every pass over data what :meth:`on_step_training` and :meth:`on_end_training` do in that of training."""

    def on_step_validation(self, state: State) -> None:
        """Do what is done after a step of training."""
        self.on_step_training(state)

    def on_end_validation(self, state: State) -> None:
        """Do what is done after the training pass."""
        self.on_end_training(state)


def trainer_of(state: State) -> Any:
    """Return the trainer of a trial, or of an experiment."""
    owner = state[SELF]
    return getattr(owner, "trainer", owner)


def is_first(state: State) -> bool:
    """Return True if this process writes and prints, of those that train one network; for what else is done in all."""
    return bool(trainer_of(state).run.ranks.is_first)


class CallbackList:
    """Calls callbacks in the order they were given, and only those that listen.

    Of the hooks it is a callback itself: ``state[CALLBACK_LIST].on_forward(state)`` calls that of all, from a closure
    that somebody has written by hand.

    Parameters
    ----------
    callbacks
        Callbacks, and lists of them.
    """

    def __init__(self, callbacks: Iterable[Any] = ()):
        self._callbacks: list[Any] = []
        #: hooks that were called, until somebody clears it
        self.called: set[str] = set()
        #: whether this process writes and prints; set by the run
        self.is_first = True
        self._listeners: dict[str, list[tuple[Any, Any]]] = {event: [] for event in (*EVENTS, *HOOKS)}
        if not isinstance(callbacks, Iterable):
            raise ConfigError(f"callbacks are a list of callbacks, got {callbacks!r}")
        for callback in callbacks:
            self.append(callback)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._callbacks)

    def __len__(self) -> int:
        return len(self._callbacks)

    def __getitem__(self, index: int | slice) -> Any:
        return self._callbacks[index]

    def append(self, callback: Any) -> None:
        """Add a callback, or those of a list.

        Raises
        ------
        ConfigError
            If the object has none of the methods of a callback, or one whose name is none of an event.
        """
        if isinstance(callback, (list, tuple, CallbackList)):
            for one in callback:
                self.append(one)
            return
        decorated = _decorated_methods(callback.__class__)
        own = {} if isinstance(callback, type) else {event: getattr(callback, event, None) for event in self._listeners}
        heard = [
            (event, event)
            for event, method in own.items()
            if event not in decorated and callable(method) and not getattr(method, "does_nothing", False)
        ]
        if not heard and not isinstance(callback, AbstractCallback):
            if (native := _of_framework(callback)) is not callback:
                self.append(native)
                return
            raise ConfigError(f"{callback!r} is no callback{_advice(callback)}")
        _check_names(callback, decorated)
        self._callbacks.append(callback)
        heard += [(hook, name) for name, hooks in decorated.items() for hook in hooks]
        for event, name in heard:
            self._listeners[event].append((callback, getattr(callback, name)))

    def __repr__(self) -> str:
        return f"CallbackList({self._callbacks!r})"

    def copy(self) -> "CallbackList":
        """Return a list of its own of the same callbacks."""
        return CallbackList(self._callbacks)

    @property
    def heard(self) -> frozenset[str]:
        """The events and hooks that any callback listens to."""
        return frozenset(event for event, listeners in self._listeners.items() if listeners)

    def hears(self, event: str) -> bool:
        """Return True if any callback listens to an event, or a hook."""
        return bool(self._listeners[event])

    def at_hook(self, hook: str) -> list[Any]:
        """Return the callbacks that listen to a hook."""
        return [callback for callback, _ in self._listeners[hook]]

    def fire(self, hook: str, state: State, phase: str) -> None:
        """Call a hook of every callback that listens to it, and acts in this phase."""
        self.called.add(hook)
        for callback, method in self._told(hook):
            if phase in getattr(callback, "phases", (phase,)):
                method(state)

    def _told(self, event: str) -> list[tuple[Any, Any]]:
        """Return who is told an event; more may listen, so that the steps of all processes have the same hooks."""
        heard = self._listeners[event]
        return heard if self.is_first else [pair for pair in heard if not getattr(pair[0], "only_first", False)]

    def __getattr__(self, hook: str) -> Callable[[Any], None]:
        if hook not in HOOKS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {hook!r}")
        return lambda state: self.fire(hook, state, state.get(PHASE, "fit"))

    def notify(self, event: str, trainer: Trainer, **facts: Any) -> None:
        """Call ``event`` of every callback that listens to it."""
        for callback, method in self._told(event):
            returned = method(trainer, **facts)
            if returned:
                _apply(trainer, callback, event, returned)

    def conclude(self, trainer: Trainer, error: BaseException | None) -> None:
        """Call ``at_training_end`` and ``on_end`` of every callback, whatever fails; the first error is raised."""
        first = error
        for callback, method in self._told("at_training_end"):
            try:
                if returned := method(trainer, error=error):
                    _apply(trainer, callback, "at_training_end", returned)
            except Exception as failure:
                first = _first_of(first, failure, f"{type(callback).__name__}.at_training_end")
        first = self.end(trainer.hook_state, "fit", first)
        if first is not None and first is not error:
            raise first

    def end(self, state: State, phase: str, error: BaseException | None) -> BaseException | None:
        """Call ``on_end`` of every callback, whatever fails; returns the first error."""
        for callback, method in self._told("on_end"):
            if phase in getattr(callback, "phases", (phase,)):
                try:
                    method(state)
                except Exception as failure:
                    error = _first_of(error, failure, f"{type(callback).__name__}.on_end")
        return error

    def attach(self, trainer: Trainer) -> None:
        """Show every callback the complete trainer.

        Raises
        ------
        ConfigError
            If one needs gradients, and nothing is differentiated.
        """
        for callback in self._callbacks:
            if getattr(callback, "needs_gradients", False) and not trainer.backend.is_differentiable:
                raise ConfigError(
                    f"{type(callback).__name__} is for networks that learn by gradients, and in the backend "
                    f"{trainer.backend.name!r} nothing is differentiated; leave the callback out"
                )
            if isinstance(callback, AbstractCallback):
                callback.attach(trainer)

    def state_dict(self) -> dict[str, Any]:
        """States by name; a second callback of a class is called ``<Class>_1``."""
        return {
            name: {**callback.state_dict(), **_memory_of(callback)}
            for name, callback in self._named()
            if _has_state(callback)
        }

    def state_of(self, callback: object, states: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the state of one callback among states by name, if there is one."""
        return next((states.get(name) for name, one in self._named() if one is callback), None)

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Give states back by name; callbacks without one stay as they are."""
        for name, callback in self._named():
            if name in states:
                load_callback(callback, states[name])

    def _named(self) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for callback in self._callbacks:
            if not hasattr(callback, "state_dict") or not hasattr(callback, "load_state_dict"):
                continue
            name = type(callback).__name__
            number = seen[name] = seen.get(name, -1) + 1
            yield (f"{name}_{number}" if number else name), callback


#: attribute of a callback that holds what the conditions of its methods remember (``once``)
MEMORY = "delira_memory"


def _first_of(error: BaseException | None, failure: Exception, where: str) -> BaseException:
    """Return the first of two errors, told of the second."""
    if error is None:
        return failure
    error.add_note(f"then {where} failed as well: {failure!r}")
    return error


def _has_state(callback: Any) -> bool:
    is_default = getattr(callback.state_dict, "__func__", None) is AbstractCallback.state_dict
    return not is_default or bool(callback.state_dict() or _memory_of(callback))


def _memory_of(callback: object) -> dict[str, Any]:
    memory = getattr(callback, "__dict__", {}).get(MEMORY)
    return {MEMORY: memory} if memory else {}


def load_callback(callback: Any, state: Mapping[str, Any]) -> None:
    """Give a callback its state back, and what its conditions remember."""
    own = dict(state)
    if (memory := own.pop(MEMORY, None)) is not None:
        vars(callback)[MEMORY] = {name: dict(part) for name, part in memory.items()}
    if own or not _memory_of(callback):
        callback.load_state_dict(own)


@functools.cache
def _decorated_methods(cls: type) -> dict[str, tuple[str, ...]]:
    """Methods that a class decorated with hooks, as ``@add_to_loss`` does: name -> hooks, those of bases first.

    Raises
    ------
    ConfigError
        If the class does not derive from a callback, so that they would never be called.
    """
    found = {}
    for name in dict.fromkeys([name for base in reversed(cls.__mro__) for name in vars(base)]):
        method = inspect.getattr_static(cls, name)
        if isinstance(method, AbstractCallback) and (hooks := getattr(method, "hooks", ())):
            found[name] = tuple(dict.fromkeys(hooks))
    if found and not issubclass(cls, AbstractCallback):
        raise ConfigError(
            f"{cls.__name__}.{next(iter(found))} would never be called: derive {cls.__name__} from "
            "delira.training.callbacks.Callback"
        )
    return found


def _check_names(callback: object, decorated: Iterable[str]) -> None:
    """Refuse methods that look like events and are none: they would never be called."""
    known = {*EVENTS, *HOOKS, *getattr(callback, "not_hooks", ()), *decorated}
    for name in dir(type(callback)):
        if name.startswith(("on_", "at_")) and name not in known and callable(getattr(type(callback), name)):
            raise ConfigError(
                f"{type(callback).__name__}.{name} would never be called: it is no event of a training"
                f"{did_you_mean(name, known)}"
            )


def _of_framework(callback: object) -> Any:
    """A callback of a framework as one of ours; anything else as it is."""
    if isinstance(callback, type) or (name := framework_of(callback)) is None:
        return callback
    return backend_named(name).natives.callback(callback)


def _advice(callback: object) -> str:
    """Return how something becomes a callback; many callbacks of other libraries are here, too."""
    if isinstance(callback, type):
        return ": it is a class, pass an instance"
    if inspect.isroutine(callback):
        return ": decorate the function with its event, e.g. @delira.training.callbacks.on_step_training"
    name = type(callback).__name__
    here = (
        f"; use delira.training.callbacks.{name}" if name in importlib.import_module("delira.callbacks").__all__ else ""
    )
    return f": it has none of the methods {', '.join((*EVENTS, *HOOKS))}{here}"


def _apply(trainer: Trainer, callback: object, event: str, returned: object) -> None:
    """Stop the training if an old callback returned that."""
    if not isinstance(returned, Mapping) or (unknown := [name for name in returned if name != "stop_training"]):
        what = f"the unknown entries {unknown}" if isinstance(returned, Mapping) else f"a {type(returned).__name__}"
        raise ConfigError(
            f"{type(callback).__name__}.{event} returned {what}; a callback returns nothing and acts on "
            "trainer.state (only stop_training may still be returned)"
        )
    trainer.state.stop_training = returned["stop_training"]
