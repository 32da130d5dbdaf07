"""What was learned of training data and is done to every batch before its transforms: fitted transformers by entry."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.data_loading._content import fingerprint_of
from delira.data_loading._exact import as_rows
from delira.data_loading._threads import single_threaded
from delira.errors import ConfigError, DataError, MissingKeyError
from delira.utils.checks import did_you_mean

_ATTRIBUTE = "_delira_preprocessing"


class FittedPreprocessing:
    """Fitted transformers of scikit-learn by entry of a batch; calling it transforms a batch.

    Samples are flattened to rows. What comes out has the shape of the samples if the number of columns is still the
    same (``StandardScaler``), else it is one vector a sample (``PCA``). ``float32`` stays ``float32``; of other types
    it is what the transformer makes of them.

    Parameters
    ----------
    transformers
        Entry -> fitted transformer.

    Raises
    ------
    ConfigError
        If something else is named.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> fitted = FittedPreprocessing({"data": StandardScaler().fit([[0.0, 1.0], [2.0, 3.0]])})
    >>> fitted({"data": np.array([[1.0, 2.0]]), "label": np.array([0])})["data"].tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, transformers: Mapping[str, Any]) -> None:
        if not isinstance(transformers, Mapping):
            raise ConfigError(f"transformers must be a dict {{entry: fitted transformer}}, got {transformers!r:.100}")
        self.transformers = dict(transformers)
        for entry, each in self.transformers.items():
            if not callable(getattr(each, "transform", None)):
                raise ConfigError(
                    f"transformers[{entry!r}] must be a fitted transformer of scikit-learn, with transform(), got "
                    f"{each!r:.100}"
                )
        #: entries whose transformers were told to work in place
        self._in_place = {entry for entry, each in self.transformers.items() if works_in_place(each)}

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Transform a batch of arrays of shape ``(B, ...)``; its own arrays stay as they are.

        Raises
        ------
        MissingKeyError
            If the batch lacks an entry.
        DataError
            If a transformer does not make one row of each sample, or one of scikit-learn cannot transform the batch.
        """
        if not isinstance(batch, Mapping):
            raise DataError(f"batch must be a dict of arrays, got {batch!r:.100}")
        done = dict(batch)
        with single_threaded():  # the same bits in a worker, which has one thread
            for entry, transformer in self.transformers.items():
                if entry not in done:
                    raise MissingKeyError(missing(entry, done))
                done[entry] = self._transformed(entry, transformer, np.asarray(done[entry]))
        return done

    def _transformed(self, entry: str, transformer: Any, values: np.ndarray) -> np.ndarray:
        what = f"preprocessing[{entry!r}] ({type(transformer).__name__})"
        rows = as_rows(values, f"entry {entry!r}")
        try:
            made = transformer.transform(rows.copy() if entry in self._in_place else rows)
        except Exception as error:
            doing = f"{what} transformed rows of shape {rows.shape}, {rows.dtype}"
            if isinstance(error, ValueError) and type(transformer).__module__.startswith("sklearn."):
                raise DataError(f"while {doing}: {error}") from error
            error.add_note(f"while {doing}")
            raise
        made = np.asarray(made.toarray() if hasattr(made, "toarray") else made)  # sparse matrices have it
        if made.ndim not in (1, 2) or len(made) != len(rows):
            raise DataError(
                f"{what} made shape {made.shape} of rows of shape {rows.shape}; it must make one row of each sample"
            )
        if values.dtype == np.float32 and made.dtype.kind == "f":
            made = made.astype(np.float32, copy=False)
        return made.reshape(values.shape) if made.shape == rows.shape else made

    def describe(self) -> dict[str, Any]:
        """Transformers by entry and a mark of all that they have learned, for fingerprints."""
        learned = {entry: _state(transformer) for entry, transformer in self.transformers.items()}
        return {"transformers": self.transformers, "sha256": fingerprint_of(learned)}

    def __repr__(self) -> str:
        kinds = ", ".join(f"{entry!r}: {type(each).__name__}" for entry, each in self.transformers.items())
        return f"FittedPreprocessing({{{kinds}}})"


def attach(network: object, fitted: FittedPreprocessing) -> None:
    """Let a network know what its inputs have gone through; predictors and experiments ask it."""
    # past what frameworks do with attributes: it is no part of the network's state
    object.__setattr__(network, _ATTRIBUTE, fitted)


def attached(network: object) -> FittedPreprocessing | None:
    """Return what the inputs of a network have gone through; ``None`` if nothing is known."""
    return vars(network).get(_ATTRIBUTE) if hasattr(network, "__dict__") else None


def missing(entry: str, batch: Mapping[str, Any]) -> str:
    """Say that there is nothing for a transformer to work on."""
    return f"preprocessing names {entry!r}, but a batch has only {[*batch]}{did_you_mean(entry, map(str, batch))}"


def works_in_place(transformer: object) -> bool:
    """Return True if a transformer, or one inside of it, was told not to copy what it is given."""
    parameters = transformer.get_params(deep=True) if hasattr(transformer, "get_params") else {}
    return any(name.rpartition("__")[2] == "copy" and value is False for name, value in parameters.items())


def _state(value: object) -> Any:
    """Return what a transformer is and has learned, with those inside of it."""
    if isinstance(value, (list, tuple)):
        return [_state(item) for item in value]
    if not hasattr(value, "get_params") or isinstance(value, type):
        return value
    return (type(value).__qualname__, {name: _state(item) for name, item in vars(value).items()})
