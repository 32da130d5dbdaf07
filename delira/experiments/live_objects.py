"""What every run shares although its callbacks are copies: objects that are something only once."""

import inspect
import logging
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from delira.errors import ConfigError
from delira.frameworks import LIBRARIES
from delira.utils.checks import did_you_mean

_log = logging.getLogger("delira")

#: packages whose objects stand for something outside of the process, or for one search: a copy would talk to nobody
LIVE = frozenset({
    "optuna", "mlflow", "wandb", "ray", "neptune", "comet_ml", "clearml", "aim", "tensorboardX", "visdom", "trixi",
})  # fmt: skip
#: packages whose objects copy themselves well, and are large
_NOT_LOOKED_INTO = LIBRARIES | {"sklearn", "numpy", "pandas", "builtins"}
_PLAIN = (str, bytes, int, float, complex, type(None), type)
_MOST_OBJECTS = 10_000
_told: set[str] = set()


def shared_objects(callbacks: object) -> dict[int, Any]:
    """Return what copies of callbacks share with them, as a memo of :func:`copy.deepcopy`.

    That is what a callback names in its attribute ``shared``, objects of packages that trackers and searches are made
    of, and objects that leave something out when they are copied (their ``__getstate__`` says so), e.g. a connection.
    What was not asked for is said once.

    Parameters
    ----------
    callbacks
        Callbacks, or anything else, which shares nothing.

    Raises
    ------
    ConfigError
        If ``shared`` names no attributes.
    """
    memo: dict[int, Any] = {}
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else ():
        if isinstance(callback, type) or not hasattr(callback, "__dict__"):
            continue
        for name in _named(callback):
            memo[id(getattr(callback, name))] = getattr(callback, name)
        for name, value in vars(callback).items():
            for found, reason in _live_in(value, memo):
                memo[id(found)] = found
                _tell(callback, name, found, reason)
    return memo


def _named(callback: object) -> Iterable[str]:
    """Return the attributes that a callback says are shared."""
    names = getattr(callback, "shared", ())
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        who = type(callback).__name__
        raise ConfigError(f"{who}.shared must be a tuple of names of attributes, e.g. ('trial',), got {names!r}")
    for name in names:
        if not hasattr(callback, name):
            raise ConfigError(
                f"{type(callback).__name__}.shared names {name!r}, which it does not have"
                f"{did_you_mean(name, vars(callback))}"
            )
    return names


def _live_in(value: object, known: Mapping[int, Any]) -> Iterator[tuple[Any, str]]:
    """Objects within a value that are not to be copied, each with the reason."""
    waiting, seen = [value], set(known)
    while waiting and len(seen) < _MOST_OBJECTS:
        one = waiting.pop()
        if isinstance(one, types.MethodType):
            one = one.__self__
        if id(one) in seen or isinstance(one, (*_PLAIN, logging.Logger)) or inspect.isroutine(one):
            continue  # a copy of a logger is the logger
        seen.add(id(one))
        if isinstance(one, Mapping):
            waiting.extend(one.values())
            continue
        if isinstance(one, (list, tuple, set, frozenset)):
            waiting.extend(one)
            continue
        package = type(one).__module__.partition(".")[0]
        if package in LIVE:
            yield one, f"it belongs to {package}"
        elif package not in _NOT_LOOKED_INTO and hasattr(one, "__dict__") and not hasattr(one, "__deepcopy__"):
            if package != "delira" and (gone := _left_out(one)):
                yield one, f"a copy would lack {gone!r}"
            else:
                waiting.extend(vars(one).values())


def _left_out(one: object) -> str | None:
    """Return an attribute that a copy would not have."""
    own = getattr(type(one), "__getstate__", None)
    if own is None or own is getattr(object, "__getstate__", None):
        return None
    try:
        state = one.__getstate__()
    except Exception:  # the copy will fail, and say why
        return None
    return next((name for name in vars(one) if name not in state), None) if isinstance(state, Mapping) else None


def _tell(callback: object, name: str, found: object, reason: str) -> None:
    who = type(callback).__name__
    sentence = (
        f"{who}.{name} holds a {type(found).__name__}, which all runs share, since {reason}; say shared = ({name!r},) "
        f"in {who} if that is meant, or build it in at_training_begin for one of its own"
    )
    if sentence not in _told:
        _told.add(sentence)
        _log.warning(sentence)
