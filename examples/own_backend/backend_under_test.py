"""The backend as delira's specification sees it: a few small networks, losses, and settings.

``python backend_under_test.py`` runs the whole specification and prints the table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy_autograd as na
from numpy_autograd import random as framework_random
from numpy_backend import AbstractNumpyNetwork, NumpyExperiment, NumpyTrainer

from delira.testing.spec import BackendUnderTest


class Linear(AbstractNumpyNetwork):
    """``dropped(x) @ weight + bias``."""

    def __init__(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_outputs=n_outputs, dropout=dropout)
        self.drop, self.linear = na.Dropout(dropout), na.Linear(n_features, n_outputs)

    def forward(self, x: na.Tensor) -> dict[str, na.Tensor]:
        return {"pred": self.linear(self.drop(x))}


class Mlp(AbstractNumpyNetwork):
    """One hidden layer, normalised over the batch."""

    def __init__(self, n_features: int = 3, n_hidden: int = 5, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_hidden=n_hidden, n_outputs=n_outputs, dropout=dropout)
        self.body, self.norm = na.Linear(n_features, n_hidden), na.BatchNorm(n_hidden)
        self.drop, self.head = na.Dropout(dropout), na.Linear(n_hidden, n_outputs)

    def forward(self, x: na.Tensor) -> dict[str, na.Tensor]:
        return {"pred": self.head(self.drop(self.norm(self.body(x)).tanh()))}


class Two(AbstractNumpyNetwork):
    """Two inputs, two outputs."""

    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left, self.right = na.Linear(n_features, 1), na.Linear(n_features, 1)

    def forward(self, left: na.Tensor, right: na.Tensor) -> dict[str, na.Tensor]:
        one = self.left(left)
        return {"pred": one + self.right(right), "other": one}


class Nested(Two):
    """One nested input, nested outputs."""

    def forward(self, pair: Mapping[str, na.Tensor]) -> dict[str, Any]:
        left, right = self.left(pair["left"]), self.right(pair["right"])
        return {"pred": left + right, "parts": {"left": left, "right": right}}


class ByHand(AbstractNumpyNetwork):
    """Learns by a closure of its own."""

    def __init__(self, n_features: int = 3, n_outputs: int = 1):
        super().__init__(n_features=n_features, n_outputs=n_outputs)
        self.linear = na.Linear(n_features, n_outputs)

    def forward(self, x: na.Tensor) -> dict[str, na.Tensor]:
        return {"pred": self.linear(x)}

    @staticmethod
    def closure(  # noqa: PLR0913 - it names the counters that it wants
        model, data_dict, optimizers, losses, metrics=None, fold=0, factor=1.0, iter_num=0, global_iter_num=0
    ):
        pred = model(data_dict["data"])["pred"]
        loss = losses["mse"](pred, data_dict["label"])
        optimizers["default"].differentiate(loss)
        optimizers["default"].step()
        loss = loss.detach()
        values = {"iter_num": iter_num, "global_iter_num": global_iter_num, "fold": fold}
        return values, {"mse": loss, "scaled": factor * loss}, {"pred": pred.detach()}


class Gan(AbstractNumpyNetwork):
    """A generator and a discriminator, each with an optimizer."""

    def __init__(self, n_features: int = 2):
        super().__init__(n_features=n_features)
        self.gen, self.discr = na.Linear(n_features, n_features), na.Linear(n_features, 1)

    def forward(self, x: na.Tensor) -> dict[str, na.Tensor]:
        fake = self.gen(x)
        return {"pred": self.discr(fake), "fake": fake}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0):
        fake, real = model.gen(data_dict["data"]).detach(), data_dict["real"]
        of_discr = ((model.discr(real) - 1) ** 2).mean() + (model.discr(fake) ** 2).mean()
        optimizers["discr"].differentiate(of_discr)
        optimizers["discr"].step()
        made = model(data_dict["data"])
        of_gen = ((made["pred"] - 1) ** 2).mean()
        optimizers["gen"].differentiate(of_gen)
        optimizers["gen"].step()
        values = {"discr": of_discr.detach(), "gen": of_gen.detach()}
        return {}, values, {name: tensor.detach() for name, tensor in made.items()}


def two_optimizers(network: Gan, optimizer_cls: Any, **params: Any) -> dict[str, Any]:
    """One optimizer for each part of the GAN."""
    return {
        "gen": optimizer_cls(network.gen.parameters(), **params),
        "discr": optimizer_cls(network.discr.parameters(), **params),
    }


class NumpyAutograd(BackendUnderTest):
    """What the specification needs to know of this backend."""

    name = "numpy_autograd"
    trainer_cls = NumpyTrainer
    experiment_cls = NumpyExperiment
    rtol = 1e-9
    lacks: ClassVar[Mapping[str, str]] = {
        "compiled": "numpy_autograd has no compiler",
        "mixed_precision": "numpy_autograd computes in float64",
    }
    exports = (".npz",)

    Linear, Mlp, Two, Nested, ByHand, Gan = Linear, Mlp, Two, Nested, ByHand, Gan

    mse = staticmethod(na.mean_squared_error)
    absolute = staticmethod(na.mean_absolute_error)
    cross_entropy = staticmethod(na.cross_entropy)

    def sgd(self, lr: float, momentum: float = 0.0) -> dict[str, Any]:
        return {"optimizer_cls": na.SGD, "optimizer_params": {"lr": lr, "momentum": momentum}}

    def adam(self, lr: float) -> dict[str, Any]:
        return {"optimizer_cls": na.Adam, "optimizer_params": {"lr": lr, "eps": 1e-12}}

    def halving(self) -> dict[str, Any]:
        return {"lr_scheduler_cls": na.StepDecay, "lr_scheduler_params": {"every": 1, "factor": 0.5}}

    def gan_optimizers(self) -> dict[str, Any]:
        return {"optim_fn": two_optimizers}

    def is_learning(self, network: Any) -> bool:
        return network.is_training or (network.parameters()[0] * 1.0).requires_grad

    def draw(self) -> float:
        return float(framework_random.GENERATOR.random())

    def run_exported(self, path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return na.run_program(path, **inputs)


if __name__ == "__main__":
    from delira.testing import check_backend

    print(check_backend(NumpyAutograd()))
