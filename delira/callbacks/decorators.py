"""Functions of the state as callbacks: ``@on_step_training``, ``@once``, ``@only_if(...)``, ``@add_to_loss``."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from delira.callbacks.abstract_callback import HOOKS, MEMORY, AbstractCallback, Callback
from delira.errors import ConfigError, check_functions, check_known
from delira.state import EPOCH, LOSS, PHASE, State

P = ParamSpec("P")
R = TypeVar("R")
# an overload for FunctionCallback is before that of any function, which it is as well: hence the ignored overlaps
Marked = TypeVar("Marked")
#: a function of the state; in a class of callbacks a method of it
Function = Callable[[State], Any] | Callable[[Any, State], Any]
#: of what it remembers, the object of a method, and the state
Condition = Callable[[dict[str, Any], Any, State], bool]


class FunctionCallback(Callback):
    """A function of the state at its hooks; made by the decorators of this module.

    In the body of a class that derives from :class:`Callback` it is a method, and runs at its hooks for each object.

    Parameters
    ----------
    function
        The function; a call of the callback calls it.
    hooks
        When it runs.
    """

    def __init__(self, function: Callable[..., Any], hooks: tuple[str, ...]):
        self.function, self.hooks = function, hooks
        self.traceable = bool(getattr(function, "traceable", False))
        self.__doc__ = function.__doc__
        for name in hooks:
            setattr(self, name, self.__call__)

    def __get__(self, instance: object, owner: object = None) -> Any:
        return types.MethodType(self.function, instance) if isinstance(instance, AbstractCallback) else self

    def __call__(self, state: State) -> Any:
        """Call the function, whatever the event."""
        if hasattr(self.function, _CONDITIONS):
            return self.function(state, memory=vars(self).setdefault(MEMORY, {}))
        return self.function(state)

    def __repr__(self) -> str:
        return f"<callback {getattr(self.function, '__qualname__', self.function)}: {', '.join(self.hooks)}>"


def bind_to(hook: str | Callable[..., Any]) -> Callable[[Function], FunctionCallback]:
    """Decorator that makes a callback of a function of the state; callbacks made so may be decorated again.

    Parameters
    ----------
    hook
        When it runs: the name of a hook, or the method of :class:`Callback`.

    Raises
    ------
    ConfigError
        If there is no such hook.
    """
    name = hook if isinstance(hook, str) else getattr(hook, "__name__", str(hook))
    check_known([name], HOOKS, "there is no hook")

    def decorate(function: Function) -> FunctionCallback:
        if isinstance(function, FunctionCallback):
            return FunctionCallback(function.function, (*function.hooks, name))
        if not callable(function):
            raise ConfigError(f"{name} decorates a function of the state, got {function!r}")
        return FunctionCallback(function, (name,))

    decorate.__name__ = decorate.__qualname__ = name
    decorate.__doc__ = f"Make a callback of a function of the state. The event: {HOOKS[name]}."
    return decorate


# one for each hook, in the order of HOOKS
(
    on_init, on_start, on_start_epoch, on_start_training, on_sample, on_forward, on_criterion, on_backward,
    on_step_training, on_end_training, on_start_validation, on_sample_validation, on_forward_validation,
    on_criterion_validation, on_step_validation, on_end_validation, on_end_epoch, on_checkpoint, on_end,
) = map(bind_to, HOOKS)  # fmt: skip


def add_to_loss(function: Function) -> FunctionCallback:
    """Make a callback that adds what a function of the state returns to the loss, in training and validation.

    Parameters
    ----------
    function
        Returns one number, as the framework has it: it is differentiated.

    Raises
    ------
    ConfigError
        At the first step, if it returns None.

    Examples
    --------
    >>> from delira.state import Y_PRED
    >>> @add_to_loss
    ... def small_outputs(state):
    ...     return 1e-3 * (state[Y_PRED] ** 2).sum()
    """
    if isinstance(function, FunctionCallback):
        raise ConfigError(f"add_to_loss decorates a function of the state, got {function!r}; leave its hooks out")
    check_functions("add_to_loss", function=function)
    base, conditions = getattr(function, _CONDITIONS, (function, {}))

    @functools.wraps(base)
    def add(*args: Any) -> None:
        state, more = args[-1], base(*args)
        if more is None:
            name = getattr(base, "__name__", repr(base))
            raise ConfigError(f"add_to_loss adds what a function returns, and {name} returned None")
        state[LOSS] = state[LOSS] + more  # a new value: the old one may be a leaf, or shared

    return FunctionCallback(_under(conditions, add) if conditions else add, ("on_criterion", "on_criterion_validation"))


# ------------------------------------------------------------------ conditions


class Conditional(Protocol):
    """What makes a function run under a condition only."""

    @overload
    def __call__(self, function: FunctionCallback, /) -> FunctionCallback: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | None]: ...


#: attribute of a function with conditions: the function without them, and the conditions by name
_CONDITIONS = "delira_conditions"


def _conditional(is_due: Condition, kind: str = "") -> Conditional:
    """Make a decorator of a condition, with its name and docstring; such decorators may be stacked."""
    kind = kind or is_due.__name__

    def decorate(function: Any) -> Any:
        if isinstance(function, FunctionCallback):
            return FunctionCallback(decorate(function.function), function.hooks)
        check_functions(kind, function=function)
        base, before = getattr(function, _CONDITIONS, (function, {}))
        name = f"{kind} {getattr(base, '__name__', '')} {len(before)}"  # the same in every process
        # what counts how often it was asked is asked last: only where the function would run
        conditions = sorted({**before, name: is_due}.items(), key=lambda item: not item[0].startswith("only_if"))
        return _under(dict(conditions), base)

    decorate.__name__, decorate.__qualname__, decorate.__doc__ = kind, kind, is_due.__doc__
    return decorate


def _under(conditions: Mapping[str, Condition], base: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function where all conditions hold."""

    @functools.wraps(base)
    def conditional(*args: Any, memory: dict[str, Any] | None = None) -> Any:
        *owner, state = args
        if memory is None:
            memory = vars(owner[0] if owner else conditional).setdefault(MEMORY, {})
        for key, holds in conditions.items():
            if not holds(memory.setdefault(key, {}), owner[0] if owner else None, state):
                return None
        return base(*args)

    setattr(conditional, _CONDITIONS, (base, conditions))
    return conditional


@_conditional
def once(memory: dict[str, Any], owner: object, state: State) -> bool:
    """Let a function, a method of a callback or a decorated callback run at the first of its events only.

    A method remembers for each object, a function for good; a checkpoint keeps it.
    """
    is_first, memory["done"] = not memory.get("done"), True
    return is_first


@_conditional
def once_per_epoch(memory: dict[str, Any], owner: object, state: State) -> bool:
    """Let a function, a method of a callback or a decorated callback run at the first of its events in an epoch."""
    # of an evaluation or a prediction the epoch is always 0: each of them counts as one of its own
    epoch = state[EPOCH] if state.get(PHASE, "fit") in ("fit", "replay") else -state.n_asides
    is_first, memory["epoch"] = memory.get("epoch") != epoch, epoch
    return is_first


def only_if(condition: Function) -> Conditional:
    """Let a function, a method of a callback or a decorated callback run only where a condition holds.

    Parameters
    ----------
    condition
        A function of the state; for methods also one of the object and the state.
    """
    check_functions("only_if", condition=condition)
    takes_owner = len(inspect.signature(condition).parameters) == 2

    def is_due(memory: dict[str, Any], owner: object, state: State) -> bool:
        return bool(condition(*(owner, state) if takes_owner else (state,)))

    return _conditional(is_due, "only_if")


def traceable(function: Marked) -> Marked:
    """Mark a function, or a decorated callback, that only computes with arrays: a compiled step may contain it."""
    if not isinstance(function, FunctionCallback):
        check_functions("traceable", function=function)
    function.traceable = True  # type: ignore[attr-defined]
    return function
