"""The backend of scikit-learn with its roles; those of checkpoints stand in a file of their own."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_info, threadpool_limits

from delira import contract
from delira.backends.sklearn.checkpoints import SklearnCheckpoints
from delira.contract.kinds import Builder, ByName, Network, Scope, UpdateConfig
from delira.errors import ConfigError, DataError, NetworkError
from delira.io import estimators
from delira.io.program import Program
from delira.models.weights import check_named_weights
from delira.utils.files import as_target, publish


class SklearnArrays(contract.ArraysRole):
    """Numpy's."""

    number = "a training metric"


class SklearnCalls(contract.CallsRole):
    """Estimators take ``x``, and have no modes."""

    def training(self, network: object) -> Scope:
        return contextlib.nullcontext()

    def evaluating(self, network: object) -> Scope:
        return contextlib.nullcontext()

    def key_mapping(self, network: object) -> dict[str, str]:
        return {"x": "data"}

    def arguments_of(self, network: object) -> frozenset[str]:
        return frozenset(["x"])

    def is_ready(self, network: Network) -> bool:
        try:
            check_is_fitted(network.estimator)
        except NotFittedError:
            return False
        return True


class SklearnDevices(contract.DevicesRole):
    """The CPU, and the threads of the libraries that compute on it."""

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        with threadpool_limits(number):
            yield

    def thread_count(self) -> int | None:
        return max((pool["num_threads"] for pool in threadpool_info()), default=None)


class SklearnExport(contract.ExportRole):
    """Files of skops."""

    def write(self, network: Network, path: Path, example: ByName) -> None:
        """Write the estimator alone as ``.skops``, for ``skops.io.load``."""
        self._write(network, network.estimator, path)

    def write_program(self, program: Program, path: Path, example: ByName) -> None:
        """Write a pipeline of what was fitted to the inputs, and the estimator."""
        if len(program.parts) > 1:
            raise ConfigError(
                "estimators of scikit-learn are exported one at a time; write an ensemble of them by "
                "ensemble.save(folder), or each by delira.io.export(fold.load_network(), 'fold.skops')"
            )
        (part,) = program.parts
        self._write(part.network, make_pipeline(*part.transformers.values(), part.network.estimator), path)

    def _write(self, network: Network, estimator: object, path: Path) -> None:
        if path.suffix != ".skops":
            raise ConfigError(f"{path}: estimators are exported as .skops, or their weights as .safetensors")
        if not self.backend.calls.is_ready(network):
            raise NetworkError(f"{type(network.estimator).__name__} is not fitted, so it cannot be exported")
        as_target(path)
        content, _ = estimators.dump(estimator)
        publish(path, lambda file: file.write(content.tobytes()))


class SklearnGenerators(contract.GeneratorsRole):
    """The global generator of numpy, which estimators without a ``random_state`` draw from."""

    def seed(self, seed: int) -> None:
        np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002

    def state(self) -> dict[str, Any]:
        _, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
        return {"keys": keys, "rest": [int(position), int(has_gauss), float(cached)]}

    def set_state(self, state: ByName) -> None:
        position, has_gauss, cached = state["rest"]
        np.random.set_state(("MT19937", state["keys"], position, has_gauss, cached))  # noqa: NPY002

    def not_resumable(self, network: Network) -> str | None:
        if network.is_incremental or self.backend.calls.is_ready(network):
            return None
        return f"{type(network.estimator).__name__}, which is fitted at the end of the epoch,"


class SklearnStep(contract.StepRole):
    """Estimators learn by a closure of their own."""

    def shuffles(self, network: Network) -> bool:
        return bool(network.is_incremental)


class SklearnOptimizers(contract.OptimizersRole):
    """No optimizers: estimators bring their own."""

    def build(
        self, network: Network, builder: Builder, optimizer_cls: Any, optimizer_params: ByName, update: UpdateConfig
    ) -> dict[str, Any]:
        """Return no optimizers; for an estimator that is fitted once, the object that fits it."""
        if builder is not None or optimizer_cls is not None or optimizer_params or update != UpdateConfig():
            raise ConfigError("scikit-learn estimators bring their own optimizer; leave optimizers and updates out")
        if network.is_incremental:
            return {}
        network.forget()  # as fit does
        return {"default": WholeFit(network)}

    def finish_epoch(self, optimizers: ByName) -> None:
        for fit in optimizers.values():
            fit.flush()


class WholeFit:
    """Keeps the samples of an epoch and fits the estimator at its end, once.

    Parameters
    ----------
    network
        The :class:`SklearnEstimator`.
    """

    def __init__(self, network: Network):
        self.network = network
        #: entries of the batches to keep besides what the estimator reads
        self.kept: frozenset[str] = frozenset()
        #: called when the estimator is fitted, with the batches that were kept and the inputs of each
        self.after: Callable[[list[tuple[dict[str, Any], dict[str, Any]]]], None] | None = None
        self.is_done = False
        self._batches: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._targets: list[np.ndarray] = []

    def append(self, batch: ByName, inputs: ByName, target: np.ndarray | None) -> None:
        """Keep a batch; workers may write the next one into its memory, so it is copied."""
        if self.is_done:
            return
        kept = {key: np.array(value) for key, value in batch.items() if key in self.kept}
        self._batches.append((kept, {name: np.array(value) for name, value in inputs.items()}))
        if target is not None:
            self._targets.append(np.array(target))

    def restart(self, *, is_done: bool) -> None:
        """Forget the batches; ``is_done`` says whether the estimator is fitted already."""
        self._batches, self._targets, self.is_done = [], [], is_done

    def flush(self) -> None:
        """Fit the estimator on everything that was kept, if it is not fitted already."""
        batches, targets = self._batches, self._targets
        if not self.is_done:
            x = _joined("inputs", [inputs["x"] for _, inputs in batches])
            self.network.learn(x, _joined("labels", targets) if targets else None, batch=False)
            del x
        self.restart(is_done=True)
        if self.after is not None:
            self.after(batches)


def _joined(what: str, arrays: list[np.ndarray]) -> np.ndarray:
    shapes = sorted({array.shape[1:] for array in arrays})
    if len(shapes) != 1:
        raise DataError(f"an estimator needs {what} of one shape, but the batches have samples of the shapes {shapes}")
    return np.concatenate(arrays)


class SklearnWeights(contract.WeightsRole):
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


class SklearnBackend(contract.Backend):
    """Estimators on the CPU. They draw from their own ``random_state``, or from numpy's global generator."""

    name = "sklearn"
    title = "scikit-learn"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.SklearnEstimator"
    packages = ("sklearn",)
    is_differentiable = False
    roles = (
        SklearnArrays,
        SklearnCalls,
        SklearnCheckpoints,
        SklearnDevices,
        SklearnExport,
        SklearnGenerators,
        SklearnOptimizers,
        SklearnStep,
        SklearnWeights,
    )


BACKEND = SklearnBackend()
