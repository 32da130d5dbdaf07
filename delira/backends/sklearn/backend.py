"""The verbs of the contract for scikit-learn."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_info, threadpool_limits

from delira.backends.sklearn.fitting import WholeFit
from delira.backends.sklearn.weights import own_weights
from delira.contract import Backend, Devices, UpdateConfig
from delira.errors import CheckpointError, ConfigError, NetworkError
from delira.io import estimators
from delira.models.weights import check_named_weights
from delira.utils.files import as_target, publish
from delira.utils.references import safe_repr
from delira.utils.single_numbers import read_numbers


class SklearnBackend(Backend):
    """Estimators on the CPU. They draw from their own ``random_state``, or from numpy's global generator."""

    name = "sklearn"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.SklearnEstimator"
    packages = ("sklearn",)
    is_differentiable = False

    def devices(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        if gpu_ids or device not in (None, "auto", "cpu"):
            raise ConfigError(f"scikit-learn computes on the CPU only, got gpu_ids={list(gpu_ids)}, device={device!r}")
        return Devices("cpu", "cpu")

    def devices_of(self, network: Any) -> Devices:
        return Devices("cpu", "cpu")

    def place(self, network: Any, losses: Mapping[str, Any], devices: Devices) -> Any:
        return network

    def training(self, network: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def evaluating(self, network: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        with threadpool_limits(number):
            yield

    def thread_count(self) -> int | None:
        return max((pool["num_threads"] for pool in threadpool_info()), default=None)

    # ------------------------------------------------------------------ the step

    def key_mapping(self, network: Any) -> dict[str, str]:
        return {"x": "data"}

    def arguments_of(self, network: Any) -> frozenset[str]:
        return frozenset(["x"])

    def shuffles(self, network: Any) -> bool:
        return bool(network.is_incremental)

    def is_ready(self, network: Any) -> bool:
        try:
            check_is_fitted(network.estimator)
        except NotFittedError:
            return False
        return True

    def build_optimizers(
        self,
        network: Any,
        builder: Callable[..., dict[str, Any]] | None,
        optimizer_cls: Any,
        optimizer_params: Mapping[str, Any],
        update: UpdateConfig,
    ) -> dict[str, Any]:
        """None; where the estimator is fitted once, what fits it."""
        if builder is not None or optimizer_cls is not None or optimizer_params or update != UpdateConfig():
            raise ConfigError("scikit-learn estimators bring their own optimizer; leave optimizers and updates out")
        if network.is_incremental:
            return {}
        network.forget()  # as fit does
        return {"default": WholeFit(network)}

    def finish_epoch(self, optimizers: Mapping[str, Any]) -> None:
        for fit in optimizers.values():
            fit.flush()

    # ------------------------------------------------------------------ values and generators

    def to_numpy(self, tree: Any) -> Any:
        return tree

    def concatenate(self, trees: Sequence[Any]) -> Any:
        if isinstance(trees[0], Mapping):
            return {key: self.concatenate([tree[key] for tree in trees]) for key in trees[0]}
        return np.concatenate(trees)

    def read_scalars(self, values: Sequence[Any]) -> np.ndarray:
        if wrong := [np.shape(value) for value in values if np.size(value) != 1]:
            raise NetworkError(f"a training metric has the shape {wrong[0]}; the closure returns single numbers")
        return read_numbers(values)

    def seed(self, seed: int) -> None:
        np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002

    def generator_state(self) -> dict[str, Any]:
        _, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
        return {"keys": keys, "rest": [int(position), int(has_gauss), float(cached)]}

    def set_generator_state(self, state: Mapping[str, Any]) -> None:
        position, has_gauss, cached = state["rest"]
        np.random.set_state(("MT19937", state["keys"], position, has_gauss, cached))  # noqa: NPY002

    def not_resumable(self, network: Any) -> str | None:
        if network.is_incremental or self.is_ready(network):
            return None
        return f"{type(network.estimator).__name__}, which is fitted at the end of the epoch,"

    # ------------------------------------------------------------------ checkpoints

    def state_tree(self, network: Any, optimizers: Mapping[str, Any]) -> dict[str, Any]:
        content, unknown = estimators.dump(network.estimator)
        _warn_of_strange(network, unknown)
        network.written.update(unknown)
        shape = network.label_shape
        model = {
            "estimator": content,
            "label_shape": None if shape is None else [*shape],
            "target": network.target,
            "columns": network.columns,
        }
        return {"model": model, "optimizer": {}, "sklearn": sklearn.__version__}

    def load_state_tree(self, tree: Mapping[str, Any], network: Any, optimizers: Mapping[str, Any]) -> None:
        model = tree.get("model", {})
        content, shape = model.get("estimator"), model.get("label_shape")
        if not isinstance(content, np.ndarray):
            raise CheckpointError("it holds no estimator, so it is none of this room")
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
            fit.restart(is_done=self.is_ready(network))

    # ------------------------------------------------------------------ for other programs

    def export(self, network: Any, path: Path, example: Mapping[str, Any]) -> None:
        """Write the estimator alone as ``.skops``, for ``skops.io.load``."""
        if path.suffix != ".skops":
            raise ConfigError(f"{path}: estimators are exported as .skops, or their weights as .safetensors")
        if not self.is_ready(network):
            raise NetworkError(f"{type(network.estimator).__name__} is not fitted, so it cannot be exported")
        as_target(path)
        content, _ = estimators.dump(network.estimator)
        publish(path, lambda file: file.write(content.tobytes()))

    def named_weights(self, network: Any) -> dict[str, np.ndarray]:
        return {name: np.array(holder[key]) for name, (holder, key) in own_weights(network.estimator).items()}

    def load_named_weights(self, network: Any, weights: Mapping[str, np.ndarray]) -> None:
        own = own_weights(network.estimator)
        arrays = {name: np.asarray(holder[key]) for name, (holder, key) in own.items()}
        check_named_weights(network, {name: (a.shape, a.dtype.name) for name, a in arrays.items()}, weights)
        for name, (holder, key) in own.items():
            if isinstance(holder[key], np.ndarray):
                holder[key][...] = weights[name]  # in place: an averaging estimator knows the array by two names
            else:
                holder[key] = type(holder[key])(weights[name])


def check_writable(network: Any) -> None:
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


def _warn_of_strange(network: Any, unknown: list[str]) -> None:
    """Say at the first checkpoint, not when a run is continued, what was learned that nobody else trusts."""
    strange = estimators.strange(unknown, {*_trusted(network), *network.written})
    if strange:
        warnings.warn(
            f"the fitted {type(network.estimator).__name__} holds objects of {', '.join(strange)}; its checkpoints can "
            "be read only where these are trusted. If you trust them: SklearnEstimator(estimator, "
            f"trusted={strange!r})",
            stacklevel=3,
        )


def _trusted(network: Any) -> set[Any]:
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


def _parameters(estimator: Any) -> dict[str, str]:
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


BACKEND = SklearnBackend()
