"""Which framework a module belongs to, and the trainer of it."""

import importlib
from typing import Any

from delira.contract import Backend
from delira.contract.kinds import Network
from delira.errors import NetworkError
from delira.frameworks import NAMES, PACKAGES


def shown(model: Network, ending: str) -> Any:
    """Return the trainer, or another public class, of the framework that a module or a network of ours belongs to.

    Parameters
    ----------
    model
        The module; None stands for a network that returns None.
    ending
        Of the name of the class: ``"NetworkTrainer"`` or ``"Experiment"``.

    Raises
    ------
    NetworkError
        If it belongs to none.
    """
    own = getattr(type(model), "__delira_backend__", None)
    name = _framework_of(model) if own is None else own.name
    if name not in NAMES:
        raise NetworkError(
            f"a trial takes a torch.nn.Module, a keras.Model, a flax nnx.Module or a scikit-learn estimator, got "
            f"{model!r}"
        )
    found = next(one for one in NAMES[name]["training"] if one.endswith(ending))
    return getattr(importlib.import_module("delira.training"), found)


def _framework_of(model: Network) -> str | None:
    if model is None:
        return next(iter(PACKAGES))
    packages = [parent.__module__.partition(".")[0] for parent in type(model).__mro__]
    found = (name for package in packages for name, needed in PACKAGES.items() if package in needed)
    return next(found, None)


def backend_of(model: Network) -> Backend:
    """Return the verbs of the framework that a module belongs to; errors as of :func:`shown`."""
    return shown(model, "NetworkTrainer").backend
