"""The learned numbers of linear models and multilayer perceptrons by name."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from delira.contract import Network, WeightsRole
from delira.errors import ConfigError
from delira.models.weights import check_named_weights


class SklearnWeights(WeightsRole):
    """Attributes of fitted estimators."""

    def named(self, network: Network) -> dict[str, np.ndarray]:
        return {name: np.array(holder[key]) for name, (holder, key) in own_weights(network.estimator).items()}

    def load_named(self, network: Network, weights: Mapping[str, np.ndarray]) -> None:
        own = own_weights(network.estimator)
        arrays = {name: np.asarray(holder[key]) for name, (holder, key) in own.items()}
        check_named_weights(network, {name: (a.shape, a.dtype.name) for name, a in arrays.items()}, weights)
        for name, (holder, key) in own.items():
            if isinstance(holder[key], np.ndarray):
                holder[key][...] = weights[name]  # in place: an averaging estimator knows the array by two names
            else:
                holder[key] = type(holder[key])(weights[name])


_NAMES = ("coef_", "intercept_", "coefs_", "intercepts_")


def own_weights(estimator: object) -> dict[str, tuple[Any, Any]]:
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


def _weights(estimator: object, prefix: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, step in getattr(estimator, "steps", ()):
        yield from _weights(step, f"{prefix}{name}.")
    attributes: dict[str, Any] = getattr(estimator, "__dict__", {})
    for name in _NAMES:
        value = attributes.get(name)
        if isinstance(value, list):
            yield from ((f"{prefix}{name}.{number}", (value, number)) for number in range(len(value)))
        elif isinstance(value, (np.ndarray, np.floating, float)):
            yield f"{prefix}{name}", (attributes, name)
