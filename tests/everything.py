"""Trainings with everything that has a state, each part to be switched on alone."""

import functools
import importlib.util
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from small_rooms import Room

from delira.data_loading import BaseDataManager, PrevalenceRandomSampler, WeightedRandomSampler
from delira.training.callbacks import EarlyStopping, ExponentialMovingAverage

#: what can be switched on, by room
FEATURES = {
    "toy": ("augmentation", "dropout", "schedule", "EMA", "early stopping"),
    "torch": (
        "augmentation", "dropout", "accumulation", "schedule", "EMA", "early stopping", "two optimizers",
    ),
}  # fmt: skip
SAMPLERS: dict[str, dict[str, Any]] = {
    "shuffle": {},
    "weighted": {
        "sampler_cls": WeightedRandomSampler,
        "sampler_kwargs": {"weights": {0: 1.0, 1: 3.0}, "key": "kind"},
    },
    "balanced": {"sampler_cls": PrevalenceRandomSampler, "sampler_kwargs": {"key": "kind"}},
}
N_SAMPLES, BATCH_SIZE = 14, 4
STEPS = 4  # of an epoch
EPOCHS = 4
STOPPED_AFTER = 3  # epochs, by early stopping


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def noise(**batch: Any) -> dict[str, Any]:
    """Draws from numpy's global generator, as batchgenerators does."""
    return {**batch, "data": batch["data"] + np.random.normal(scale=0.1, size=batch["data"].shape)}


@functools.cache
def augmentation() -> Callable[..., Any]:
    """Noise by batchgenerators, or the like where it is not installed."""
    if importlib.util.find_spec("batchgenerators") is None:
        return noise
    from batchgenerators.transforms.noise_transforms import GaussianNoiseTransform

    return GaussianNoiseTransform(noise_variance=(0, 0.1), p_per_sample=0.8)


def data(n: int = N_SAMPLES, sampler: str = "shuffle", **kw: Any) -> BaseDataManager:
    """A linear problem with noise, and a class for each sample, two thirds of them 0."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, 3))
    label = x @ np.arange(1.0, 4.0).reshape(-1, 1) + 0.1 * rng.normal(size=(n, 1))
    arrays = {"data": x, "label": label, "kind": (np.arange(n) % 3 == 0).astype(int)}
    return BaseDataManager(arrays, BATCH_SIZE, **SAMPLERS[sampler], **kw)


@functools.cache
def torch_networks() -> tuple[type, type]:
    """A network with dropout and normalisation, and the same one with an optimizer for each of its halves."""
    import torch

    from delira.models import AbstractPyTorchNetwork

    class Halves(AbstractPyTorchNetwork):
        def __init__(self, dropout: float = 0.0):
            super().__init__(dropout=dropout)
            layers = torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Dropout(dropout)
            self.body, self.head = torch.nn.Sequential(*layers), torch.nn.Linear(5, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"pred": self.head(self.body(x))}

    class TwoOptimizers(Halves):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore
            values = {}
            for name, optimizer in optimizers.items():
                pred = model(data_dict["data"])["pred"]
                loss = losses["mse"](pred, data_dict["label"])
                optimizer.zero_grad()
                with optimizer.scale_loss(loss) as scaled:
                    scaled.backward()
                optimizer.step()
                values[f"mse {name}"] = loss.detach()
            return {}, values, {"pred": pred.detach()}

    for cls in (Halves, TwoOptimizers):  # found again by its name in files
        cls.__qualname__ = cls.__name__
        globals()[cls.__name__] = cls
    return Halves, TwoOptimizers


def two_optimizers(network: Any, cls: Any, **params: Any) -> dict[str, Any]:
    import torch

    return {
        "body": cls(network.body.parameters(), **params),
        "head": torch.optim.SGD(network.head.parameters(), lr=0.05, momentum=0.9),
    }


def network_cls(room: Room, features: Collection[str]) -> type:
    return room.network if room.name == "toy" else torch_networks()["two optimizers" in features]


def settings(room: Room, features: Collection[str]) -> dict[str, Any]:
    """Settings of a trainer; fresh callbacks."""
    chosen = {**room.settings, "metrics": {"rmse": rmse}, "val_score_key": "rmse", "callbacks": []}
    if room.name == "torch":
        import torch

        chosen |= {"optimizer_cls": torch.optim.Adam, "optimizer_params": {"lr": 0.01}}
    if "accumulation" in features:
        chosen["gradient_accumulation_steps"] = 3
    if "two optimizers" in features:
        chosen["optim_fn"] = two_optimizers
    if "schedule" in features:
        more = room.halving()
        chosen["callbacks"] += more.pop("callbacks", ())
        chosen |= more
    if "EMA" in features:
        chosen["callbacks"].append(ExponentialMovingAverage(0.9))
    if "early stopping" in features:  # nothing is an improvement after the first epoch
        chosen["callbacks"].append(EarlyStopping("rmse", min_delta=1e9, patience=STOPPED_AFTER - 1))
    return chosen


def model(features: Collection[str]) -> dict[str, Any]:
    """Arguments of the network."""
    return {"dropout": 0.4 if "dropout" in features else 0.0}


def build(room: Room, path: Path, features: Collection[str], *callbacks: Any, **more: Any) -> Any:
    """A trainer of a network that always begins with the same weights."""
    chosen = settings(room, features)
    room.backend.seed(3)
    network = network_cls(room, features)(**model(features))
    chosen["callbacks"] += callbacks
    return room.trainer_cls(network, path, **{"save_freq": None, **chosen, **more})


def train(trainer: Any, features: Collection[str], sampler: str = "shuffle", workers: int = 0, **kw: Any) -> Any:
    """Train, with validation."""
    transforms = augmentation() if "augmentation" in features else None
    manager = data(sampler=sampler, transforms=transforms, n_process_augmentation=workers, **kw)
    return trainer.train(EPOCHS, manager, data(7))


def outcome(trainer: Any) -> dict[str, Any]:
    """Everything a run ends with: weights, optimizers, counters, history, states of the callbacks; the best weights."""
    tree = trainer._checkpoint_tree()
    return {"tree": tree, "returned": trainer.backend.state_tree(trainer.module, {})}
