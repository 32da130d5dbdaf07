"""Backends with networks small enough to be checked by hand."""

import contextlib
import dataclasses
import functools
import importlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from delira.utils.arrays import iterate_leaves

#: backend -> its framework's package, and the module and function that make it
KITS = {
    "toy": ("numpy", "small_backends:toy_kit"),
    "torch": ("torch", "small_backends:torch_kit"),
    "torchscript": ("torch", "small_backends_torchscript:torchscript_kit"),
    "tensorflow": ("tensorflow", "small_backends_tensorflow:tensorflow_kit"),
    "jax": ("jax", "small_backends_jax:jax_kit"),
}
#: backends of the tests of every backend, unless asked for others: the rest has the specification, and "make full"
NORMAL_KITS = ("toy", "torch")


def build_kit(name: str) -> "Kit":
    """The kit of a backend, or a skipped test where its framework is not installed."""
    package, place = KITS[name]
    pytest.importorskip(package, reason=f"the {name} backend needs the package {package!r}, which is not installed")
    module, function = place.split(":")
    return getattr(importlib.import_module(module), function)()


def __getattr__(name: str) -> Any:
    """The network of PyTorch, for a process that is sent one before it has built its kit."""
    if name != "TorchLinear":
        raise AttributeError(name)
    build_kit("torch")
    return globals()[name]


def checkpoint_names(trainer: Any) -> list[str]:
    """Names of all files in a trainer's folder of checkpoints, but for those that a backend writes beside them.

    And but for the state before the last, which is always there beside the last.
    """
    endings = tuple(trainer.checkpoints.beside)
    files = [path.name for path in trainer.checkpoints.folder.iterdir() if not path.name.endswith(endings)]
    names = {name.removeprefix("checkpoint_").removesuffix(trainer.backend.checkpoint_suffix) for name in files}
    assert ("previous" in names) == ("last" in names)
    return sorted(names - {"previous"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kit:
    """One backend as the specification sees it.

    Its network takes ``n_features`` and ``dropout`` and computes ``pred = dropped(x) @ weight`` without bias; its
    loss is the mean squared error; its optimizer is gradient descent with momentum.
    """

    name: str
    network: type
    trainer_cls: type
    experiment_cls: type
    loss: Callable[..., Any]
    optimizer_cls: type
    rtol: float
    """How far the backend may be from float64 arithmetic by hand."""
    read: Callable[[Any], np.ndarray]
    """The network's weight, shape (n_features, 1)."""
    write: Callable[[Any, np.ndarray], None]
    """Set the network's weight."""
    step: Callable[..., tuple[Any, Any]]
    """``step(model, batch, optimizers, losses) -> (loss, pred)``: one update for closures written by hand."""
    halving: Callable[[], dict[str, Any]]
    """Settings with which the learning rate halves after every epoch."""
    draw: Callable[[], float]
    """One number of the framework's own generator."""
    learns: Callable[[Any], bool]
    """Whether the network is in training mode, or gradients are recorded."""
    weight_name: str
    """What the weight is called in checkpoints."""
    compiles: bool = False
    """Whether the network's Python runs only while it is traced, unless ``compiled=False``."""

    @property
    def backend(self) -> Any:
        return self.trainer_cls.backend

    @property
    def settings(self) -> dict[str, Any]:
        """The least that a training needs, and no noise."""
        return {
            "losses": {"mse": self.loss},
            "optimizer_cls": self.optimizer_cls,
            "optimizer_params": {"lr": 0.1, "momentum": 0.5},
            "logging_type": None,
            "verbose": False,
        }

    def build(self, n_features: int = 3, dropout: float = 0.0, cls: type | None = None) -> Any:
        """A network whose weight is always the same."""
        network = (cls or self.network)(n_features=n_features, dropout=dropout)
        self.write(network, np.linspace(-0.5, 0.5, n_features).reshape(-1, 1))
        return network

    def trainer(self, path: Any, network: Any = None, **settings: Any) -> Any:
        """A trainer in ``path``; without a network, of one whose weight is always the same."""
        return self.trainer_cls(network or self.build(), path, **{**self.settings, "save_freq": None, **settings})

    def experiment(self, path: Any, model: Mapping[str, Any] | None = None, cls: type | None = None, **kw: Any) -> Any:
        """An experiment in ``path``: two epochs unless the training settings say otherwise."""
        training = {**self.settings, "num_epochs": 2, "save_freq": None, **kw.pop("training", {})}
        params = {"fixed": {"model": {"n_features": 3, **(model or {})}, "training": training}}
        return self.experiment_cls(params, cls or self.network, save_path=path, **kw)

    def weight_in(self, model: Mapping[str, Any]) -> np.ndarray:
        """The weight in a checkpoint's entry ``"model"``, shape (n_features, 1)."""
        return self.backend.arrays.to_numpy(model[self.weight_name]).reshape(-1, 1)

    def prepared(self, arrays: Mapping[str, Any]) -> Any:
        """What the backend computes on the input of a batch."""
        return self.build().prepare_batch(arrays, "cpu", "cpu")

    def same(self, left: Any, right: Any) -> bool:
        """Whether two trees are equal bit for bit; NaN equals NaN."""
        ours = dict(iterate_leaves(self.backend.arrays.to_numpy(left)))
        theirs = dict(iterate_leaves(self.backend.arrays.to_numpy(right)))
        return ours.keys() == theirs.keys() and all(_same_leaf(ours[place], theirs[place]) for place in ours)

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Scope that must leave the generators of Python, numpy and the framework as they were."""
        np.random.seed(11)
        random.seed(12)
        self.backend.generators.seed(13)
        before = (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2])
        framework = self.backend.generators.state()
        yield
        after = (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2])
        assert before == after, "the generators of Python or numpy moved"
        assert self.same(framework, self.backend.generators.state()), f"the generator of {self.name} moved"


def _same_leaf(left: Any, right: Any) -> bool:
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype == object or left.dtype != right.dtype or left.shape != right.shape:
        return bool(left.dtype == right.dtype == object and left == right)
    return left.tobytes() == right.tobytes()


@functools.cache
def toy_kit() -> Kit:
    from delira.testing import ToyExperiment, ToyNetwork, ToySGD, ToyTrainer, mean_squared_error

    def write(network: Any, weight: np.ndarray) -> None:
        network.weight[...] = weight

    def step(model: Any, batch: Any, optimizers: Any, losses: Any) -> tuple[Any, Any]:
        pred = model(batch["data"])["pred"]
        loss = sum(loss(pred, batch["label"]) for loss in losses.values())
        optimizers["default"].apply(2 * batch["data"].T @ (pred - batch["label"]) / pred.size)
        return loss, pred

    return Kit(
        name="toy",
        network=ToyNetwork,
        trainer_cls=ToyTrainer,
        experiment_cls=ToyExperiment,
        loss=mean_squared_error,
        optimizer_cls=ToySGD,
        rtol=1e-12,
        read=lambda network: network.weight.copy(),
        write=write,
        step=step,
        halving=lambda: {"callbacks": [HalveTheRate()]},
        draw=lambda: float(ToyTrainer.backend.generator.random()),
        learns=lambda network: network.is_training,
        weight_name="weight",
    )


class HalveTheRate:
    """The toy backend has no schedules; a callback does it."""

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        trainer.optimizers["default"].lr *= 0.5


@functools.cache
def torch_kit() -> Kit:
    import torch

    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchExperiment, PyTorchNetworkTrainer

    class TorchLinear(AbstractPyTorchNetwork):
        """``pred = dropped(x) @ weight``."""

        def __init__(self, n_features: int = 3, dropout: float = 0.0):
            super().__init__(n_features=n_features, dropout=dropout)
            self.drop = torch.nn.Dropout(dropout)
            self.linear = torch.nn.Linear(n_features, 1, bias=False)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"pred": self.linear(self.drop(x))}

    # found again by its name in files, though torch is imported only where it is needed
    TorchLinear.__qualname__ = "TorchLinear"
    globals()["TorchLinear"] = TorchLinear

    def write(network: Any, weight: np.ndarray) -> None:
        with torch.no_grad():
            network.linear.weight.copy_(torch.from_numpy(weight.T))

    def step(model: Any, batch: Any, optimizers: Any, losses: Any) -> tuple[Any, Any]:
        pred = model(batch["data"])["pred"]
        loss = sum(loss(pred, batch["label"]) for loss in losses.values())
        optimizers["default"].zero_grad()
        with optimizers["default"].scale_loss(loss) as scaled:
            scaled.backward()
        optimizers["default"].step()
        return loss.detach(), pred.detach()

    schedule = {
        "lr_scheduler_cls": torch.optim.lr_scheduler.StepLR,
        "lr_scheduler_params": {"step_size": 1, "gamma": 0.5},
    }
    return Kit(
        name="torch",
        network=TorchLinear,
        trainer_cls=PyTorchNetworkTrainer,
        experiment_cls=PyTorchExperiment,
        loss=torch.nn.functional.mse_loss,
        optimizer_cls=torch.optim.SGD,
        rtol=1e-4,
        read=lambda network: network.linear.weight.detach().numpy().T.copy(),
        write=write,
        step=step,
        halving=lambda: dict(schedule),
        draw=lambda: float(torch.rand(())),
        learns=lambda network: network.training or torch.is_grad_enabled(),
        weight_name="linear.weight",
    )


def normed_network(kit: Kit) -> type:
    """The torch backend's network behind batch normalisation."""
    import torch

    class Normed(kit.network):
        def __init__(self, n_features: int = 3, dropout: float = 0.0):
            super().__init__(n_features, dropout)
            self.norm = torch.nn.BatchNorm1d(n_features)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return super().forward(self.norm(x))

    return Normed
