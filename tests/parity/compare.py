"""The same training in every backend: losses of each step beside those of float64 arithmetic by hand.

Run it with ``make parity``; it writes docs/parity.md.
"""

import argparse
import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from parity import reference
from sklearn.datasets import load_digits

import delira
import delira.training
from delira.data_loading import BaseDataManager
from delira.models import transfer_weights

BACKENDS = {"torch": "torch", "torchscript": "torch", "tensorflow": "tensorflow", "jax": "jax"}
OPTIMIZERS = ("SGD", "Adam")
RATES = {("mlp", "SGD"): 0.05, ("mlp", "Adam"): 5e-3, ("convnet", "SGD"): 0.2, ("convnet", "Adam"): 5e-3}
STEPS = 100
BATCH_SIZE, SEED = 32, 0
RTOL = 1e-4


def data(network: str) -> BaseDataManager:
    """Fifty batches an epoch; two epochs are a hundred steps."""
    pixels, label = load_digits(return_X_y=True)
    images = (pixels[: STEPS // 2 * BATCH_SIZE] / 16).astype(np.float32)
    if network == "convnet":
        images = images.reshape(-1, 1, 8, 8)
    return BaseDataManager({"data": images, "label": label[: len(images)].astype(np.int64)}, BATCH_SIZE)


class Losses:
    """Keeps the loss of every step."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def at_iter_end(self, trainer: Any, **facts: Any) -> None:
        self.values.append(facts["losses"]["ce"])


def by_hand(network: str, optimizer: str) -> np.ndarray:
    """Losses of the steps in float64, with the batches in the order of a training."""
    manager = data(network)
    batches = [batch for epoch in (1, 2) for batch in manager.epoch(SEED, 0, epoch, shuffle=True)]
    return reference.train(network, optimizer, RATES[network, optimizer], batches)


def train(backend: str, network: str, optimizer: str) -> np.ndarray:
    """Losses of the steps in a backend, from the same weights."""
    module = importlib.import_module(f"parity.{backend}_networks")
    model, losses = module.NETWORKS[network](), Losses()
    transfer_weights(
        _Portable(reference.initial_weights(network)),
        model,
        flattened=getattr(module, "FLATTENED", {}).get(network),
        check_settings=False,  # arrays have no layers
    )
    settings = module.SETTINGS[optimizer]
    with tempfile.TemporaryDirectory() as folder:
        trainer = getattr(delira.training, module.TRAINER)(
            model, folder, losses={"ce": module.LOSS}, callbacks=[losses], optimizer_cls=settings["optimizer_cls"],
            optimizer_params={module.RATE: RATES[network, optimizer], **settings["optimizer_params"]}, save_freq=None,
            logging_type=None, verbose=False, seed=SEED,
        )  # fmt: skip
        trainer.train(2, data(network))
        return trainer.backend.arrays.read_scalars(losses.values)


class _PortableBackend:
    channels_last = False

    class weights:
        @staticmethod
        def portable(network: "_Portable") -> dict[str, np.ndarray]:
            return network.weights


class _Portable:
    """Arrays that can be transferred like a network."""

    __delira_backend__ = _PortableBackend

    def __init__(self, weights: dict[str, np.ndarray]):
        self.weights = weights


def difference(values: np.ndarray, expected: np.ndarray) -> float:
    """Largest relative difference of a step."""
    return float(np.max(np.abs(values - expected) / np.abs(expected)))


def table() -> list[str]:
    """Rows of markdown: losses of the last step and the largest difference to float64, and between backends."""
    rows = ["| network | optimizer | backend | loss of step 1 | loss of step 100 | largest relative difference |"]
    rows.append("|---|---|---|---|---|---|")
    for network in reference.SHAPES:
        for optimizer in OPTIMIZERS:
            expected = by_hand(network, optimizer)
            rows.append(f"| {network} | {optimizer} | numpy, float64 | {expected[0]:.7f} | {expected[-1]:.7f} | |")
            for backend in BACKENDS:
                losses = train(backend, network, optimizer)
                rows.append(
                    f"| {network} | {optimizer} | {backend} | {losses[0]:.7f} | {losses[-1]:.7f} | "
                    f"{difference(losses, expected):.1e} |"
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="write the page there")
    arguments = parser.parse_args()
    rows = table()
    print("\n".join(rows))
    if arguments.write:
        arguments.write.write_text(PAGE.format(table="\n".join(rows), steps=STEPS, rtol=RTOL), encoding="utf-8")


PAGE = """# One arithmetic in every backend

The same network on the digits of scikit-learn, from the same weights (`delira.models.transfer_weights`), in the same
order of batches, {steps} steps of 32 samples: the loss of every step, beside the same training in numpy with float64
and gradients by hand. The tests demand that no step differs by more than {rtol:g}, relatively. `make parity` computes
this table anew.

{table}

SGD has momentum 0.9; Adam has epsilon 1e-12 everywhere, since its formulas differ in where epsilon enters. Keras and
optax compute Adam's bias corrections in float32, PyTorch in Python's float64: the first steps are a few 1e-5 longer or
shorter there, and a learning rate so high that the training is chaotic makes more of it (0.01 for this
convnet: 3e-4 after 100 steps).
"""


if __name__ == "__main__":
    main()
