"""Every error delira raises on purpose; each is also a builtin kind.

* DeliraError
  - ConfigError (ValueError)            a setting is unknown, missing or contradictory
  - DataError (ValueError)              a sample, batch or dataset is not usable
  - SampleIndexError (IndexError)      an index names no sample of a dataset
  - MissingKeyError (KeyError)          a batch, prediction or metric lacks a needed entry
  - NetworkError (TypeError)            a network does not keep its side of the contract
  - WorkerError (RuntimeError)          a worker process of a data manager was lost
  - NonFiniteLossError (ArithmeticError)  a loss became infinite or not a number
  - CheckpointError (RuntimeError)      a checkpoint cannot be read or does not fit
  - UnreadableError (OSError)           the system cannot read a file now, which may be whole
  - FolderInUseError (RuntimeError)     another process uses the folder
  - MissingBackendError (ImportError)   the package behind a public name is not installed

``TrainingInterrupted`` (SystemExit) is no error: a signal ended the training.
"""

from collections.abc import Callable
from types import TracebackType


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
