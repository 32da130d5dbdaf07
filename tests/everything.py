"""Trainings with everything that has a state, each part to be switched on alone."""

import functools
import importlib
import importlib.util
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from small_backends import Kit, build_kit

from delira.data_loading import BaseDataManager, PrevalenceRandomSampler, WeightedRandomSampler
from delira.training.callbacks import EarlyStopping, ExponentialMovingAverage
from delira.training.run import seed_generators

#: what can be switched on, by backend
_ALL = ("augmentation", "dropout", "accumulation", "schedule", "EMA", "early stopping", "two optimizers")
FEATURES = {
    "toy": ("augmentation", "dropout", "schedule", "EMA", "early stopping"),
    "torch": _ALL,
    "torchscript": _ALL,
    "tensorflow": _ALL,
    "jax": _ALL,
    "sklearn": ("augmentation", "early stopping"),
}
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


def kit_of(name: str) -> Any:
    """The backend; an estimator has only what a training needs of one."""
    return importlib.import_module("everything_sklearn").KIT if name == "sklearn" else build_kit(name)


def parts(kit: Kit) -> Any:
    """The module that has the networks and optimizers of a backend: ``Halves``, ``TwoOptimizers``, ``two_optimizers``
    and ``ADAM``.
    """
    return importlib.import_module(f"everything_{kit.name}")


def network_cls(kit: Kit, features: Collection[str]) -> type:
    if kit.name == "toy":
        return kit.network
    return parts(kit).TwoOptimizers if "two optimizers" in features else parts(kit).Halves


def settings(kit: Kit, features: Collection[str]) -> dict[str, Any]:
    """Settings of a trainer; fresh callbacks."""
    chosen = {**kit.settings, "metrics": {"rmse": rmse}, "val_score_key": "rmse", "callbacks": []}
    if kit.name != "toy":
        chosen |= parts(kit).ADAM
    if "accumulation" in features:
        chosen["gradient_accumulation_steps"] = 3
    if "two optimizers" in features:
        chosen["optim_fn"] = parts(kit).two_optimizers
    if "schedule" in features:
        more = kit.halving()
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


def build(kit: Kit, path: Path, features: Collection[str], *callbacks: Any, **more: Any) -> Any:
    """A trainer of a network that always begins with the same weights."""
    chosen = settings(kit, features)
    seed_generators(kit.backend, 3, stream="network")  # Keras initialises with Python's generator
    network = network_cls(kit, features)(**model(features))
    chosen["callbacks"] += callbacks
    return kit.trainer_cls(network, path, **{"save_freq": None, **chosen, **more})


def train(trainer: Any, features: Collection[str], sampler: str = "shuffle", workers: int = 0, **kw: Any) -> Any:
    """Train, with validation."""
    transforms = augmentation() if "augmentation" in features else None
    manager = data(sampler=sampler, transforms=transforms, n_process_augmentation=workers, **kw)
    return trainer.train(EPOCHS, manager, data(7))


def outcome(trainer: Any) -> dict[str, Any]:
    """Everything a run ends with: weights, optimizers, counters, history, states of the callbacks; the best weights."""
    tree = trainer.checkpoint_tree()
    return {"tree": tree, "returned": trainer.backend.checkpoints.state_tree(trainer.module, {})}
