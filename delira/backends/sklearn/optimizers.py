"""What stands where other backends have an optimizer: the one fit of an estimator that does not learn in batches."""

from collections.abc import Callable
from typing import Any

import numpy as np

from delira.contract import Builder, ByName, Network, OptimizersRole, UpdateConfig
from delira.errors import ConfigError, DataError


class SklearnOptimizers(OptimizersRole):
    """Estimators bring their own."""

    def build(
        self, network: Network, builder: Builder, optimizer_cls: Any, optimizer_params: ByName, update: UpdateConfig
    ) -> dict[str, Any]:
        """None; where the estimator is fitted once, what fits it."""
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
