"""The learned numbers of linear models and multilayer perceptrons by name."""

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from delira.errors import ConfigError

_NAMES = ("coef_", "intercept_", "coefs_", "intercepts_")


def own_weights(estimator: Any) -> dict[str, tuple[Any, Any]]:
    """Name -> where the weight is: a mapping or list, and the key in it.

    Raises
    ------
    ConfigError
        If the estimator, or one in its pipeline, has learned none.
    """
    found = dict(_weights(estimator, ""))
    if not found:
        raise ConfigError(
            f"{type(estimator).__name__} has no coef_ or intercept_ that could be read and set, or is not fitted"
        )
    return found


def _weights(estimator: Any, prefix: str) -> list[tuple[str, tuple[Any, Any]]]:
    found: list[tuple[str, tuple[Any, Any]]] = []
    for name, step in getattr(estimator, "steps", ()):
        found += _weights(step, f"{prefix}{name}.")
    attributes: MutableMapping[str, Any] = getattr(estimator, "__dict__", {})
    for name in _NAMES:
        value = attributes.get(name)
        if isinstance(value, list):
            found += [(f"{prefix}{name}.{number}", (value, number)) for number in range(len(value))]
        elif isinstance(value, (np.ndarray, np.floating, float)):
            found.append((f"{prefix}{name}", (attributes, name)))
    return found
