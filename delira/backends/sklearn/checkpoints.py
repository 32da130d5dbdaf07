"""Checkpoints of scikit-learn: the common container, with the estimator as skops writes it."""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone

from delira.contract import ByName, CheckpointsRole, Network
from delira.errors import CheckpointError
from delira.io import estimators
from delira.utils.references import Unresolved, safe_repr


class SklearnCheckpoints(CheckpointsRole):
    """Estimators as skops writes them."""

    def state_tree(self, network: Network, optimizers: ByName) -> dict[str, Any]:
        content, unknown = estimators.dump(network.estimator)
        # said at the first checkpoint, not when a run is continued: what was learned that nobody else trusts
        if strange := estimators.strange(unknown, {*_trusted(network), *network.written}):
            warnings.warn(
                f"the fitted {type(network.estimator).__name__} holds objects of {', '.join(strange)}; its checkpoints "
                "can be read only where these are trusted. If you trust them: SklearnEstimator(estimator, "
                f"trusted={strange!r})",
                stacklevel=2,
            )
        network.written.update(unknown)
        shape = network.label_shape
        model = {
            "estimator": content,
            "label_shape": None if shape is None else [*shape],
            "target": network.target,
            "columns": network.columns,
        }
        return {"model": model, "optimizer": {}, "sklearn": sklearn.__version__}

    def weights_in(self, tree: ByName) -> Any:
        """What the estimator holds, without which of its objects are one: that depends on how it was made."""
        return {**tree["model"], "estimator": estimators.entries_of(tree["model"]["estimator"])}

    def arguments(self, tree: ByName, given: ByName, trusted: Iterable[Any] = ()) -> dict[str, Any]:
        """The estimator is in the checkpoint itself."""
        named = given.get("trusted")
        trusted = {*trusted, *(named if isinstance(named, (list, tuple)) else ())}
        estimator = estimators.load(_content(tree), {one for one in trusted if not isinstance(one, Unresolved)})
        return {**given, "estimator": clone(estimator), "trusted": tuple(trusted)}

    def load_state_tree(self, tree: ByName, network: Network, optimizers: ByName) -> None:
        model, content = tree.get("model", {}), _content(tree)
        shape = model.get("label_shape")
        try:
            estimator = estimators.load(content, {*_trusted(network), *network.written})
        except CheckpointError as error:
            if (written := tree.get("sklearn")) == sklearn.__version__:
                raise
            raise CheckpointError(
                f"{error}. It was written with scikit-learn {written}, and {sklearn.__version__} is installed"
            ) from error
        _check_estimator(estimator, network.estimator)
        if (target := model.get("target", network.target)) != network.target:
            raise CheckpointError(
                f"the checkpoint's estimator learned {target!r}, the network learns {network.target!r}"
            )
        network.estimator = estimator
        network.label_shape = None if shape is None else tuple(shape)
        network.columns = model.get("columns")
        for fit in optimizers.values():
            fit.restart(is_done=self.backend.calls.is_ready(network))


def _content(tree: ByName) -> np.ndarray:
    """The estimator of a checkpoint, as it was written."""
    content = tree.get("model", {}).get("estimator")
    if not isinstance(content, np.ndarray):
        raise CheckpointError("it holds no estimator, so it is none of this backend")
    return content


def check_writable(network: Network) -> None:
    """Refuse an estimator whose checkpoints nobody could read, before it learns.

    Raises
    ------
    CheckpointError
        Naming what skops cannot write, or cannot read without being told to trust it.
    """
    content, _ = estimators.dump(network.estimator)
    try:
        estimators.load(content, _trusted(network))
    except CheckpointError as error:
        raise CheckpointError(
            f"checkpoints of the {type(network.estimator).__name__} could not be read: {error}"
        ) from error


def _trusted(network: Network) -> set[Any]:
    return {*network.trusted, *estimators.type_names(network.estimator)}


#: parameters that change nothing about what is learned
SILENT = ("n_jobs", "verbose")


def _check_estimator(found: Any, own: Any) -> None:
    """Refuse an estimator of another class or with other parameters; the silent ones become those of ``own``."""
    if type(found) is not type(own):
        raise CheckpointError(f"the checkpoint is of a {type(found).__name__}, the network is a {type(own).__name__}")
    theirs, ours = _parameters(found), _parameters(own)
    for name, value in ours.items():
        if name.rpartition("__")[2] == "random_state" and value == "None" and name in theirs:
            theirs[name] = value  # the training drew a number
    if differing := sorted(name for name in theirs | ours if theirs.get(name) != ours.get(name)):
        listed = ", ".join(f"{name}={theirs.get(name)} (now {ours.get(name)})" for name in differing)
        raise CheckpointError(f"the checkpoint is of a {type(own).__name__} with other parameters: {listed}")
    silent = own.get_params(deep=True)
    found.set_params(**{name: value for name, value in silent.items() if name.rpartition("__")[2] in SILENT})


def _parameters(estimator: Network) -> dict[str, str]:
    """Plain parameters of an estimator and of those inside it, as text."""
    deep = estimator.get_params(deep=True)
    nested = {name.rpartition("__")[0] for name in deep} | {"steps", "transformers", "estimators", "transformer_list"}
    plain = {
        name: safe_repr(value)
        for name, value in deep.items()
        if name not in nested and name.rpartition("__")[2] not in (*SILENT, *nested)
    }
    inside = {name: type(deep[name]).__name__ for name in nested if hasattr(deep.get(name), "get_params")}
    return {**plain, **inside}
