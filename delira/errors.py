"""Every error delira raises on purpose, each also a builtin kind, and the checks that raise them.

A check says what was wrong, where, and what to type: wrong values, unknown names, missing packages.

* DeliraError
  - ConfigError (ValueError)            a setting is unknown, missing or contradictory
  - DataError (ValueError)              a sample, batch or dataset is not usable
  - SampleIndexError (IndexError)      an index names no sample of a dataset
  - MissingKeyError (KeyError)          a batch, prediction or metric lacks a needed entry
  - NetworkError (TypeError)            a network does not keep its side of the contract
  - WorkerError (RuntimeError)          a worker process of a data manager was lost
  - WorkerLostError (WorkerError)       who ran a task of an executor was lost
  - FoldFailedError (WorkerError)       a fold failed in a process of another session
  - TrialPruned (RuntimeError)          a trial of a search was given up
  - NonFiniteLossError (ArithmeticError)  a loss became infinite or not a number
  - CheckpointError (RuntimeError)      a checkpoint cannot be read or does not fit
  - UnreadableError (OSError)           the system cannot read a file now, which may be whole
  - FolderInUseError (RuntimeError)     another process uses the folder
  - LeaseLostError (FolderInUseError)   another process has taken over
  - MissingBackendError (ImportError)   the package behind a public name is not installed

``TrainingInterrupted`` (SystemExit) is no error: a signal ended the training.
"""

import difflib
import importlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from types import TracebackType
from typing import Any

import numpy as np


class DeliraError(Exception):
    """Base of all errors raised by delira."""


class ConfigError(DeliraError, ValueError):
    """A setting is unknown, missing or contradictory."""


class DataError(DeliraError, ValueError):
    """A sample, batch or dataset is not usable."""


class SampleIndexError(DeliraError, IndexError):
    """An index names no sample of a dataset."""


class MissingKeyError(DeliraError, KeyError):
    """A batch, prediction or metric lacks a needed entry."""

    __str__ = Exception.__str__  # KeyError shows the repr of its message


class NetworkError(DeliraError, TypeError):
    """A network does not keep its side of the contract."""


class WorkerError(DeliraError, RuntimeError):
    """A worker process of a data manager was lost, or could not be started."""


class WorkerLostError(WorkerError):
    """The process or machine that ran a task of an executor was lost; the task may be submitted again."""


class ExecutorError(ConfigError):
    """An executor cannot take a task: it was shut down, has not what the task needs, or cannot send it."""


class FoldFailedError(WorkerError):
    """A fold failed in a process of another session that works at the same run; a note has its traceback."""


class TrialPruned(DeliraError, RuntimeError):
    """A trial of a search was given up, as it was worse than others by then; nothing went wrong."""


class NonFiniteLossError(DeliraError, ArithmeticError):
    """A loss, or the weights, became infinite or not a number."""

    #: step of the epoch, from 1, if it is known
    step: int | None = None
    #: whether the batch of the step holds values that are not finite
    is_in_data = False


class CheckpointError(DeliraError, RuntimeError):
    """A checkpoint cannot be read or does not fit the network."""


class UnreadableError(DeliraError, OSError):
    """The system cannot read a file now, which may well be whole; ``errno`` and ``filename`` say why and which."""


class FolderInUseError(DeliraError, RuntimeError):
    """Another process uses the folder."""


class LeaseLostError(FolderInUseError):
    """Another process has taken over what this one was at work on, which writes nothing more."""


class MirrorError(DeliraError, RuntimeError):
    """Files of a run could not be copied to its mirror, or not be fetched from it; what is on this disk is whole."""


class TrainingInterrupted(SystemExit):
    """A signal ended the training after a checkpoint was written; not caught, it ends the program with 128 + signal.

    Like ``KeyboardInterrupt``, which Ctrl-C raises, it is no ``Exception``: nothing went wrong.

    Parameters
    ----------
    number
        The signal, e.g. ``signal.SIGTERM``.
    message
        Where the training stopped and how it can be continued.
    """

    def __init__(self, number: int, message: str):
        super().__init__(128 + number)
        self.number, self.message = int(number), message

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        return type(self), (self.number, self.message)

    def __str__(self) -> str:
        return self.message


class MissingBackendError(DeliraError, ImportError):
    """The package behind a public name is not installed."""


class noting:
    """Scope whose errors are told where they happened; their type and their traceback stay.

    Parameters
    ----------
    text
        Where, e.g. ``"in the validation of epoch 3"``; or a function that says it, called only if there is an error.
    kind
        Errors of other classes get no note.
    """

    def __init__(self, text: str | Callable[[], str], kind: type[Exception] = Exception) -> None:
        self._text, self._kind = text, kind

    def __enter__(self) -> None:
        """Begin the scope."""

    def __exit__(self, cls: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, self._kind):
            error.add_note(self._text if isinstance(self._text, str) else self._text())


#: name of a setting, its value, whether that is right, and what it must be
Expected = tuple[str, object, bool, str]


def expect(*settings: Expected) -> None:
    """Refuse the first setting that is not what it must be.

    Parameters
    ----------
    *settings
        See :data:`Expected`.

    Raises
    ------
    ConfigError
        ``name must be what, got value``.
    """
    for name, value, is_right, what in settings:
        if not is_right:
            raise ConfigError(f"{name} must be {what}, got {value!r}")


def positive(name: str, value: object, unit: str) -> Expected:
    """Return what :func:`expect` needs to refuse anything but a positive integer."""
    is_right = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
    return name, value, is_right, f"an integer of at least 1 ({unit})"


def flag(name: str, value: object) -> Expected:
    """Return what :func:`expect` needs to refuse anything but True and False."""
    return name, value, isinstance(value, bool), "True or False"


def check_that(is_right: bool, owner: object, what: str, value: object) -> None:
    """Refuse a value unless it is right.

    Parameters
    ----------
    is_right
        Whether it is.
    owner
        See :func:`check_numbers`.
    what
        What it must be, with its name.
    value
        For the message.

    Raises
    ------
    ConfigError
        ``owner: what, got value``.
    """
    if not is_right:
        raise ConfigError(f"{_name_of(owner)}: {what}, got {value!r}")


def is_count(value: object) -> bool:
    """Return True if it is a whole number of at least 0."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def check_numbers(
    owner: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    **given: Any,
) -> None:
    """Refuse what is no finite number, or outside of the limits.

    Parameters
    ----------
    owner
        The object the arguments are for, or its name: how the message begins.
    above, at_least, at_most
        Limits, where there are any.
    **given
        Arguments by name.

    Raises
    ------
    ConfigError
        Naming the first argument that is none.
    """
    limits = {"above": above, "of at least": at_least, "of at most": at_most}
    said = " and".join(f" {name} {limit}" for name, limit in limits.items() if limit is not None)
    low = -math.inf if at_least is None else at_least
    high = math.inf if at_most is None else at_most

    def is_right(value: object) -> bool:
        if not isinstance(value, Real) or not math.isfinite(value):
            return False
        number: Any = value
        return low <= number <= high and (above is None or number > above)

    _check(is_right, f"a number{said}", owner, **given)


def check_whole(owner: object, *, at_least: float = -math.inf, **given: Any) -> None:
    """Refuse what is no whole number, or below ``at_least``; see :func:`check_numbers`."""
    limit = f" of at least {at_least}" if math.isfinite(at_least) else ""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < at_least:
            raise ConfigError(f"{_name_of(owner)}: {name} is a whole number{limit}, got {value!r}")


def if_given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None, which the other functions here would refuse."""
    return {name: value for name, value in arguments.items() if value is not None}


def check_flags(owner: object, **given: Any) -> None:
    """Refuse anything but True and False; see :func:`check_numbers`."""
    for name, value in given.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ConfigError(f"{_name_of(owner)}: {name} must be True or False, got {value!r}")


def check_choice(owner: object, choices: Iterable[Any], **given: Any) -> None:
    """Refuse what is none of ``choices``, with a guess; see :func:`check_numbers`."""
    known = list(choices)
    for name, value in given.items():
        if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in known):
            allowed = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}"
            near = difflib.get_close_matches(str(value), [text for text in known if isinstance(text, str)], n=1)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{_name_of(owner)}: {name} must be {allowed}, got {value!r}{guess}")


def _check(is_right: Callable[[Any], bool], what: str, owner: object, /, **given: Any) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not is_right(value):
            raise ConfigError(f"{_name_of(owner)}: {name} is {what}, got {value!r}")


def _are_names(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, Collection) and all(isinstance(name, str) for name in value))


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _name_of(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


def _check_of(refused: str, is_right: Callable[[Any], bool], what: str) -> Callable[..., None]:
    check = partial(_check, is_right, what)
    check.__doc__ = f"Refuse {refused}; see :func:`check_numbers`."
    return check


# each refuses arguments by name: check_paths(self, folder=folder)
check_order = _check_of(
    "what is no order of a norm: below 1, or no number; it may be infinite",
    lambda value: isinstance(value, Real) and float(value) >= 1,
    "a number of at least 1",
)
check_functions = _check_of("what cannot be called", callable, "a function")
check_texts = _check_of(
    "what is no text, and the empty one", lambda value: isinstance(value, str) and value != "", "a text"
)
check_paths = _check_of(
    "what is no path of a file or folder",
    lambda value: isinstance(value, (str, os.PathLike)) and value != "",
    "a path",
)
check_names = _check_of("what is neither a text nor a list of texts", _are_names, "a name or a list of names")
check_mappings = _check_of("what is no dictionary whose keys are names", _is_mapping, "a dictionary by name")


# ---- names in messages, and packages that are missing


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or the list of all known names if none is near."""
    names = sorted(set(known))
    if near := difflib.get_close_matches(str(name), names, n=1, cutoff=0.6):
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(map(repr, names))}" if names else ""


def listed(names: Sequence[object], most: int, separator: str = " and ") -> str:
    """Return the first names with commas between them, and how many more there are.

    Parameters
    ----------
    names
        All of them.
    most
        How many are named.
    separator
        What stands before the number of the others.
    """
    more = f"{separator}{len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def check_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse names that are not known: the message is ``what``, the first of them, and a guess."""
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"{what} {unknown[0]!r}{did_you_mean(unknown[0], known)}")


def import_optional(module: str, user: str, install: str) -> Any:
    """Import a module of a package that delira does not require.

    Parameters
    ----------
    module
        Its full name.
    user
        Who needs it, for the message.
    install
        What ``pip install`` has to be called with.

    Raises
    ------
    MissingBackendError
        If the package, or one that it needs itself, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingBackendError(
            f"{user} needs the package {error.name!r}, which is not installed. Install it with: pip install {install!r}"
        ) from error
