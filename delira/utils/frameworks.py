"""Which framework something comes from, and which backend a network belongs to; no framework is imported."""

import importlib
from typing import Any

from delira.errors import NetworkError
from delira.frameworks import ENDINGS as ENDINGS
from delira.frameworks import LIBRARIES as LIBRARIES
from delira.utils.lazy import of_old_scripts


def package_of(value: object) -> str:
    """Return the package in which a class or a function is defined, or the class of another object."""
    owner = value if hasattr(value, "__name__") else type(value)
    return str(getattr(owner, "__module__", "")).partition(".")[0]


def is_of_framework(value: object) -> bool:
    """Return True if a framework's own package defines a class, a function, or the class of another object."""
    return package_of(value) in LIBRARIES


def backend_named(name: str) -> Any:
    """Return the verbs of one of delira's own backends, whose framework is imported."""
    return importlib.import_module(f"delira.backends.{name}.backend").BACKEND


def find_backend(network: object) -> Any:
    """Return the verbs of the backend that the network's class belongs to, a ``delira.contract.Backend``.

    Parameters
    ----------
    network
        An instance of a backend's network class, or the class.

    Raises
    ------
    NetworkError
        If it belongs to none.
    """
    cls = network if isinstance(network, type) else type(network)
    backend = getattr(cls, "__delira_backend__", None)
    if backend is None and (old := of_old_scripts("backends")) is not None:
        backend = old.backend_of(cls)
    if backend is None:
        raise NetworkError(
            f"{cls.__name__} belongs to no backend; subclass the network class of one "
            "(e.g. delira.models.AbstractPyTorchNetwork)"
        )
    return backend
