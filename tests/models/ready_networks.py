"""The ready networks of every backend, small, with data for three steps."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from delira.data_loading import BaseDataManager

BATCH_SIZE = 4
N = 12


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images of shape (12, 1, 8, 8), mostly in [0, 1], and their classes."""
    images, labels = load_digits(return_X_y=True)
    return (images[:N].reshape(N, 1, 8, 8) / 16).astype(np.float32), labels[:N]


def noisy(images: np.ndarray) -> np.ndarray:
    """No two entries are alike: frameworks disagree about which of the largest entries of a window is the largest."""
    return images + 0.1 * np.random.default_rng(1).normal(size=images.shape).astype(np.float32)


def image_classes() -> dict[str, np.ndarray]:
    images, labels = digits()
    return {"data": noisy(np.kron(images, np.ones((4, 4), np.float32))[..., :27, :]), "label": labels[:, None]}


def row_classes() -> dict[str, np.ndarray]:
    images, labels = digits()
    return {"data": noisy(images.reshape(N, 64)), "label": labels}


def volume_classes() -> dict[str, np.ndarray]:
    images, labels = digits()
    return {"data": noisy(np.repeat(images[:, :, None, :7], 5, 2)), "label": labels}


def brightness() -> dict[str, np.ndarray]:
    images, _ = digits()
    return {"data": noisy(np.kron(images, np.ones((4, 4), np.float32))), "label": images.mean((1, 2, 3)) * 4}


def image_masks() -> dict[str, np.ndarray]:
    """Images with an odd number of rows."""
    images, _ = digits()
    data = noisy(np.concatenate([images, 1 - images], 1)[:, :, :7])
    return {"data": data, "label": (data[:, :1] > 0.5).astype(np.uint8)}


def volume_masks() -> dict[str, np.ndarray]:
    images, _ = digits()
    volumes = noisy(np.repeat(images[:, :, None, :6], 5, 2))
    return {"data": volumes, "label": (volumes > 0.5).astype(np.uint8)}


def large_images() -> dict[str, np.ndarray]:
    """Images of 64 x 64 pixels in [-1, 1], and noise."""
    images, _ = digits()
    noise = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
    return {"data": noisy(np.kron(images, np.ones((8, 8), np.float32)) * 2 - 1), "noise": noise}


def images_only() -> dict[str, np.ndarray]:
    return {"data": digits()[0]}


@dataclasses.dataclass(frozen=True)
class Ready:
    """A network, and what it is trained with."""

    network: str
    """Name without the ending of the backend."""
    arguments: Mapping[str, Any]
    arrays: Callable[[], dict[str, np.ndarray]]
    loss: str
    """``"ce"`` of class numbers, ``"mse"``, or ``"bce"`` of logits."""
    key_mapping: Mapping[str, str] | None = None
    axis: int = -1
    """The axis of the classes."""

    def __str__(self) -> str:
        return self.network + "".join(f"-{value}" for value in self.arguments.values() if isinstance(value, str))

    @property
    def is_gan(self) -> bool:
        return self.network.startswith("Generative")

    def build(self, models: Any, ending: str) -> Any:
        return getattr(models, self.network + ending)(**self.arguments)

    def inputs(self) -> dict[str, np.ndarray]:
        """Arguments of the network."""
        arrays = self.arrays()
        mapping = self.key_mapping or {"": "data"}
        return {argument: arrays[key][:BATCH_SIZE] for argument, key in mapping.items()}

    def train(self, trainer: Any, num_epochs: int = 1, num_steps: int = 3) -> None:
        """Up to three steps in an epoch."""
        arrays = {key: array[: num_steps * BATCH_SIZE] for key, array in self.arrays().items()}
        trainer.train(num_epochs, BaseDataManager(arrays, batch_size=BATCH_SIZE))


SMALL = {"in_channels": 1, "start_filts": 4}
READY = [
    Ready("ClassificationNetworkBase", {**SMALL, "n_outputs": 10}, image_classes, "ce"),
    Ready("RegressionNetworkBase", {**SMALL, "n_outputs": 1}, brightness, "mse"),
    Ready("VGG3DClassificationNetwork", {**SMALL, "n_outputs": 10}, volume_classes, "ce"),
    *(
        Ready(
            "UNet2d",
            {"num_classes": 2, "in_channels": 2, "depth": 3, "start_filts": 4, "up_mode": up, "merge_mode": merge},
            image_masks, "ce", axis=1,
        )
        for up, merge in (("transpose", "concat"), ("transpose", "add"), ("upsample", "concat"))
    ),
    Ready(
        "ResidualUNet2d",
        {"num_classes": 2, "in_channels": 2, "channels": (4, 6, 8), "norm": "batch", "deep_supervision": 1},
        image_masks, "ce", axis=1,
    ),
    Ready(
        "ResidualUNet3d",
        {"num_classes": 2, "channels": (4, 6, 8, 8), "strides": ((1, 2, 2), (2, 2, 2), (2, 1, 1)),
         "kernels": ((1, 3, 3), (3, 3, 3), (3, 3, 3), (3, 1, 1)), "norm": "instance", "activation": "silu",
         "deep_supervision": 2},
        volume_masks, "ce", axis=1,
    ),
    Ready("MultilayerPerceptron", {"n_features": 64, "n_outputs": 10, "hidden": (8, 6)}, row_classes, "ce"),
    Ready("UNet3d", {**SMALL, "num_classes": 2, "depth": 3}, volume_masks, "ce", axis=1),
    Ready(
        "GenerativeAdversarialNetworkBase", {"n_channels": 1, "noise_length": 5, "start_filts": 4}, large_images, "bce",
        {"real_image_batch": "data", "noise": "noise"},
    ),
    Ready("VariationalAutoencoder", {"in_channels": 1, "image_size": 8, "latent_dim": 3, "start_filts": 4},
          images_only, "bce"),
]  # fmt: skip
OF_IMAGES = [ready for ready in READY if ready.network != "MultilayerPerceptron"]
_QUICK = {"UNet2d-transpose-concat", "GenerativeAdversarialNetworkBase"}
#: those whose training draws no random numbers
DRAWS_NOT = [
    pytest.param(ready, id=str(ready), marks=[] if str(ready) in _QUICK else [pytest.mark.slow])
    for ready in READY
    if ready.network != "VariationalAutoencoder"
]


def assert_as_moved(
    found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], start: Mapping[str, Any]
) -> None:
    """Weights are where they should be after a step, measured by how far they should have moved.

    Only one step: normalising batches of four, a network makes ten times as much of a difference at every step.
    """
    distances = {name: np.abs(array - start[name]).max() for name, array in expected.items()}
    assert sum(distance > 1e-5 for distance in distances.values()) > len(distances) / 2, "hardly anything moved"
    for name, distance in distances.items():
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6 + 1e-3 * distance, err_msg=name)
