"""Which backend a network belongs to."""

from typing import Any

from delira.errors import NetworkError


def find_backend(network: object) -> Any:
    """Return the verbs of the backend that the network's class belongs to, a ``delira.contract.Backend``.

    Parameters
    ----------
    network
        An instance of a backend's network class.

    Raises
    ------
    NetworkError
        If it belongs to none.
    """
    backend = getattr(type(network), "__delira_backend__", None)
    if backend is None:
        raise NetworkError(
            f"{type(network).__name__} belongs to no backend; subclass the network class of one "
            "(e.g. delira.models.AbstractPyTorchNetwork)"
        )
    return backend
