"""Transforms: how a user's callable is called, and what is asked of its result."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from delira.data_loading._exact import refuse_masked
from delira.errors import ConfigError, DataError

Transform = Callable[..., Mapping[str, Any]]


class TransformCall:
    """Calls a transform the way its signature asks for; which way is decided once.

    A signature with ``**kwargs`` is called as ``transform(**batch)`` (batchgenerators), any other as
    ``transform(batch)``; a parameter ``rng`` gets a ``numpy.random.Generator`` by keyword.

    Raises
    ------
    ConfigError
        If the transform cannot be called.
    """

    def __init__(self, transform: Transform) -> None:
        if not callable(transform):
            raise ConfigError(
                f"transforms must be a callable or None, got a {type(transform).__name__}; "
                "make one of several with delira.data_loading.Compose"
            )
        self.transform = transform
        try:
            # of a torch module the call takes anything, and forward says what it really takes
            parameters = inspect.signature(getattr(transform, "forward", transform)).parameters
        except (TypeError, ValueError):  # some builtins have no signature
            parameters = {}  # type: ignore[assignment]
        self.takes_keywords = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self.takes_rng = "rng" in parameters

    def __call__(self, entries: Mapping[str, Any], rng: np.random.Generator | None, what: str) -> dict[str, Any]:
        """Transform a batch or a sample.

        Parameters
        ----------
        entries
            Arrays by name.
        rng
            Not needed unless ``takes_rng``.
        what
            Names the entries in messages, e.g. ``"batch 3"``.

        Raises
        ------
        DataError
            If the result is no dict, lacks a key that there was, or holds a masked array.
        """
        keys = tuple(entries)  # before the call: it may change them in place
        extra = {"rng": rng} if self.takes_rng else {}
        try:
            result = self.transform(**entries, **extra) if self.takes_keywords else self.transform(entries, **extra)
        except Exception as error:
            error.add_note(f"while transform {self.name} worked on {what} with the keys {list(keys)}")
            raise
        if not isinstance(result, Mapping):
            raise DataError(
                f"transform {self.name} made a {type(result).__name__} of {what}; it must return a dict of arrays"
            )
        if missing := [key for key in keys if key not in result]:
            raise DataError(
                f"transform {self.name} lost the keys {missing} of {what}, it returned {list(result)}; "
                "it must return all that it was given"
            )
        for key, value in result.items():
            if type(value) is not np.ndarray:
                refuse_masked(value, f"the entry {key!r} that transform {self.name} made of {what}")
        return result if type(result) is dict else dict(result)

    @property
    def name(self) -> str:
        """What the transform is called in messages."""
        return getattr(self.transform, "__name__", None) or type(self.transform).__name__
