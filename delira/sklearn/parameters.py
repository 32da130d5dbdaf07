"""Parameters of estimators that are dicts, set entry by entry: ``model__hidden=32``."""

from collections.abc import Mapping
from typing import Any, Self

from sklearn.base import BaseEstimator, clone

from delira.errors import ConfigError

#: parameters of an estimator that are dicts
GROUPS = ("model", "losses", "optimizer_params", "training")


class NestedParameters(BaseEstimator):
    """An estimator whose parameters that are dicts can be set entry by entry, as a search does it."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep
            Whether the entries of those that are dicts are named, too, as ``model__hidden``.
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for group in GROUPS:
                params.update(_entries(group, params.get(group)))
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; returns the estimator.

        Parameters
        ----------
        **params
            By name. ``model__hidden=32`` sets one entry of ``model``, also one that is not there yet, in a copy of it;
            so do ``losses__…``, ``optimizer_params__…`` and ``training__…``.

        Raises
        ------
        ValueError
            If a name is none, with those that there are.
        """
        plain, nested = {}, []
        for name, value in params.items():
            group, _, entry = name.partition("__")
            if entry and group in GROUPS:
                nested.append((group, entry, value))
            else:
                plain[name] = value
        super().set_params(**plain)
        for group, entry, value in nested:
            setattr(self, group, _with_entry(group, getattr(self, group), entry, value))
        return self


def _entries(prefix: str, given: Any) -> dict[str, Any]:
    """The entries of a dict, of dicts in it, and the parameters of estimators in it, under their long names."""
    found: dict[str, Any] = {}
    if isinstance(given, Mapping):
        for name, value in given.items():
            long = f"{prefix}__{name}"
            found |= {long: value, **_entries(long, value)}
    elif _is_estimator(given):
        found = {f"{prefix}__{name}": value for name, value in given.get_params().items()}
    return found


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params") and hasattr(value, "set_params") and not isinstance(value, type)


def _with_entry(name: str, given: object, entry: str, value: Any) -> dict[str, Any]:
    """A copy of a dict in which one entry, or one of a dict or an estimator in it, is another."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{name} must be a dict for {name}__{entry} to be set, got {given!r}")
    entries = dict(given or {})
    first, _, rest = entry.partition("__")
    within = entries.get(first)
    if rest and (within is None or isinstance(within, Mapping)):
        entries[first] = _with_entry(f"{name}__{first}", within, rest, value)
    elif rest and _is_estimator(within):
        entries[first] = clone(within).set_params(**{rest: value})
    else:
        entries[entry] = value
    return entries
