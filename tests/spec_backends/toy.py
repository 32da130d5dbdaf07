"""The toy backend for the specification: it has no framework, one weight, one loss, and refuses the rest."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from delira.testing import ToyExperiment, ToyNetwork, ToySGD, ToyTrainer, mean_squared_error
from delira.testing.spec import BackendUnderTest


class Linear(ToyNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, dropout=dropout)


class ByHand(Linear):
    @staticmethod
    def closure(model, data_dict, optimizers, losses, metrics=None, fold=0, factor=1.0, iter_num=0, global_iter_num=0):
        inputs, label = data_dict["data"], data_dict["label"]
        pred = model(inputs)["pred"]
        loss = losses["mse"](pred, label)
        optimizers["default"].apply(2 * inputs.T @ (pred - label) / pred.size)
        counted = {"iter_num": iter_num, "global_iter_num": global_iter_num, "fold": fold}
        return counted, {"mse": loss, "scaled": factor * loss}, {"pred": pred}


class HalveTheRate:
    """The toy backend has no schedules; a callback does it."""

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        trainer.optimizers["default"].lr *= 0.5


class ToyUnderTest(BackendUnderTest):
    name = "toy"
    trainer_cls, experiment_cls = ToyTrainer, ToyExperiment
    rtol = 1e-12
    lacks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("bias", "several_outputs", "mlp", "two", "nested", "gan", "freezing"), "one weight only"),
        **dict.fromkeys(("absolute", "cross_entropy"), "one loss only: it is differentiated by hand"),
        "adam": "one optimizer only",
        "loss_hooks": "the gradient is that of the mean squared error, whatever hooks make of it",
        "schedules": "a callback does it",
        **dict.fromkeys(("accumulation", "clipping", "skip_nonfinite", "micro_batches"), "every batch is one update"),
        "mixed_precision": "numpy computes in float64",
        "compiled": "numpy has nothing to compile",
        "export": "there is no format for it",
    }
    Linear, ByHand = Linear, ByHand

    mse = staticmethod(mean_squared_error)

    def sgd(self, lr: float, momentum: float = 0.0) -> dict[str, Any]:
        return {"optimizer_cls": ToySGD, "optimizer_params": {"lr": lr, "momentum": momentum}}

    def halving(self) -> dict[str, Any]:
        return {"callbacks": [HalveTheRate()]}

    def read(self, network: Any, layer: str = "") -> tuple[np.ndarray, np.ndarray]:
        return network.weight.copy(), np.zeros(1)

    def write(self, network: Any, weight: np.ndarray, bias: np.ndarray, layer: str = "") -> None:
        network.weight[...] = weight

    def is_learning(self, network: Any) -> bool:
        return network.is_training

    def draw(self) -> float:
        return float(ToyTrainer.backend.generator.random())


BACKEND = ToyUnderTest()
