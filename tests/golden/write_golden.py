"""Writes the golden checkpoints: small ones that every later version must load and continue from.

    python tests/golden/write_golden.py

Files that are there stay as they are: a version that writes checkpoints differently adds new ones, under another
VERSION, and must still pass with the old ones. Networks and settings in this file belong to the files; change neither.
"""

import contextlib
import functools
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager
from delira.models import named_weights
from delira.training.callbacks import EarlyStopping, ExponentialMovingAverage
from delira.utils.arrays import iterate_leaves

HERE = Path(__file__).parent
VERSION = "1"
EPOCHS = 3
#: name -> (epochs, steps of the next) at which it is written
PLACES = {"epoch": (2, 0), "inside": (1, 2)}
#: name -> backends and what is used in them
CASES = {
    "toy": {"EMA"},
    "torch": {"EMA", "accumulation"},
    "torch_two_optimizers": {"two optimizers", "schedule"},
    "torch_fp16": {"fp16"},
    "torchscript": {"EMA", "accumulation"},
    "torchscript_two_optimizers": {"two optimizers", "schedule"},
    "tensorflow": {"EMA", "accumulation"},
    "tensorflow_two_optimizers": {"two optimizers", "schedule"},
    "jax": {"EMA", "accumulation"},
    "jax_two_optimizers": {"two optimizers", "schedule"},
    "sklearn": set(),
}
#: packages without which a backend is not there
NEEDS = {"toy": (), "torchscript": ("torch",), "jax": ("jax", "flax", "optax"), "sklearn": ("sklearn", "skops")}


class Stop(Exception):
    """The place is reached."""


class StopAt:
    """Ends the training when the checkpoint of a place has been written."""

    def __init__(self, epoch: int, step: int):
        self.epoch, self.step = epoch, step

    def at_iter_end(self, trainer: Any, *, curr_epoch: int, iter_num: int, **facts: Any) -> None:
        # a step is written after its callbacks
        if (curr_epoch - 1, iter_num) == (self.epoch, self.step):
            raise Stop


def kit_of(case: str) -> str:
    """The backend of a case."""
    return case.split("_")[0]


def missing(case: str) -> list[str]:
    """Packages that a case needs and that are not installed."""
    kit = kit_of(case)
    return [name for name in NEEDS.get(kit, (kit,)) if importlib.util.find_spec(name) is None]


def part(name: str) -> Any:
    """A module of this folder."""
    folder = str(Path(__file__).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"golden_{name}")


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def noise(**batch: Any) -> dict[str, Any]:
    return {**batch, "data": batch["data"] + np.random.normal(scale=0.1, size=batch["data"].shape)}


def data(n: int = 14, **kw: Any) -> BaseDataManager:
    """Four batches, of 4, 4, 4 and 2."""
    x = np.sin(np.arange(3.0 * n)).reshape(n, 3)
    return BaseDataManager({"data": x, "label": x @ np.array([[1.0], [2.0], [3.0]])}, 4, **kw)


@functools.cache
def torch_network() -> type:
    import torch

    from delira.models import AbstractPyTorchNetwork

    class Golden(AbstractPyTorchNetwork):
        def __init__(self) -> None:
            super().__init__()
            # no bias before the normalisation: its gradient is rounding error alone, and Adam makes steps of that
            linear = torch.nn.Linear(3, 4, bias=False)
            self.body = torch.nn.Sequential(linear, torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.3))
            self.head = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"pred": self.head(self.body(x))}

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

    return Golden


def two_optimizers(network: Any, cls: Any, **params: Any) -> dict[str, Any]:
    import torch

    return {
        "body": cls(network.body.parameters(), **params),
        "head": torch.optim.SGD(network.head.parameters(), lr=0.05, momentum=0.9),
    }


def toy_trainer(path: Path, settings: dict[str, Any]) -> Any:
    from delira.testing import ToyNetwork, ToySGD, ToyTrainer, mean_squared_error

    network = ToyNetwork(n_features=3, dropout=0.3)
    network.weight[...] = [[0.5], [-0.5], [0.25]]
    settings |= {"losses": {"mse": mean_squared_error}, "optimizer_cls": ToySGD}
    return ToyTrainer(network, path, optimizer_params={"lr": 0.05, "momentum": 0.5}, **settings)


def torch_trainer(path: Path, settings: dict[str, Any], features: set[str], scripted: bool) -> Any:
    import torch

    from delira.training import PyTorchNetworkTrainer, TorchScriptNetworkTrainer

    network = part("torchscript").network(features) if scripted else torch_network()()
    with torch.no_grad():
        for number, weight in enumerate(network.parameters()):
            weight.copy_(torch.linspace(-0.5, 0.7, weight.numel()).reshape(weight.shape) + 0.01 * number)
    if "accumulation" in features:
        settings["gradient_accumulation_steps"] = 3
    if "two optimizers" in features:
        settings["optim_fn"] = two_optimizers
    if "schedule" in features:
        settings |= {
            "lr_scheduler_cls": torch.optim.lr_scheduler.StepLR,
            "lr_scheduler_params": {"step_size": 1, "gamma": 0.5},
        }
    if "fp16" in features:
        settings["mixed_precision"] = "fp16"
    settings |= {"losses": {"mse": torch.nn.functional.mse_loss}, "optimizer_cls": torch.optim.Adam}
    trainer_cls = TorchScriptNetworkTrainer if scripted else PyTorchNetworkTrainer
    return trainer_cls(network, path, optimizer_params={"lr": 0.01}, **settings)


def build(case: str, path: Path, *callbacks: Any) -> Any:
    """The trainer of a case; it continues from what is in ``path``."""
    features = CASES[case]
    callbacks = (EarlyStopping("rmse", patience=50), *callbacks)
    if "EMA" in features:
        callbacks = (ExponentialMovingAverage(0.9), *callbacks)
    settings = {
        "metrics": {"rmse": rmse}, "val_score_key": "rmse", "save_freq": 1, "save_freq_steps": 1, "seed": 5,
        "logging_type": None, "verbose": False, "callbacks": callbacks,
    }  # fmt: skip
    kit = kit_of(case)
    if kit == "toy":
        return toy_trainer(path, settings)
    if kit in ("torch", "torchscript"):
        return torch_trainer(path, settings, features, kit == "torchscript")
    if "accumulation" in features:
        settings["gradient_accumulation_steps"] = 3
    return part(kit).trainer(path, settings, features)


def train(trainer: Any) -> Any:
    """Up to the end of the run; the trainer."""
    trainer.train(EPOCHS, data(transforms=noise), data(5))
    return trainer


def exact(tree: Any) -> dict[str, str]:
    """Every leaf of a tree by its place: arrays as type, shape and bytes in hexadecimal, floats as those."""
    found = {}
    for place, leaf in iterate_leaves(tree):
        if isinstance(leaf, float):
            leaf = leaf.hex()
        elif hasattr(leaf, "dtype"):
            leaf = np.asarray(leaf)
            leaf = f"{leaf.dtype.str} {leaf.shape} {np.ascontiguousarray(leaf).tobytes().hex()}"
        found["/".join(map(str, place))] = str(leaf)
    return found


def held(trainer: Any) -> dict[str, Any]:
    """Weights and optimizers; of an estimator, whose file has the versions of its packages in it, what it learned."""
    if trainer.backend.name == "sklearn":
        return {"model": {**named_weights(trainer.module), "t": trainer.module.estimator.t_}, "optimizer": {}}
    return trainer.backend.arrays.to_numpy(trainer.backend.checkpoints.state_tree(trainer.module, trainer.optimizers))


def loaded(trainer: Any) -> dict[str, str]:
    """What a trainer holds that has loaded a checkpoint."""
    to_numpy, state, tree = trainer.backend.arrays.to_numpy, dict(trainer.state.to_tree()), held(trainer)
    average = {} if trainer.weight_average is None else to_numpy(trainer.weight_average.weights())
    return exact({**tree, "average": average, "state": to_numpy(state)})


def write(case: str, place: str) -> None:
    """Train up to a place, and keep its checkpoint and what it must give."""
    epoch, step = PLACES[place]
    with tempfile.TemporaryDirectory() as folder:
        started = build(case, Path(folder), StopAt(epoch, step))
        with contextlib.suppress(Stop):
            train(started)
        trainer = build(case, Path(folder))
        assert (trainer.state.epoch, trainer.state.step_in_epoch) == (epoch, step)
        content = trainer.checkpoints.path("last").read_bytes()
        found = loaded(trainer)
        end = train(trainer)
        weights = held(end)["model"]
        final = {name: np.asarray(array, dtype=np.float64).ravel().tolist() for name, array in weights.items()}
        answer = {"loaded": found, "final": final, "history": end.state.history}
    name = f"{case}_{place}_{VERSION}"
    with open(HERE / f"{name}{trainer.backend.checkpoint_suffix}", "xb") as file:
        file.write(content)
    with open(HERE / f"{name}.json", "x") as file:
        file.write(json.dumps(answer, indent=1) + "\n")
    print(f"{name}: {len(content)} bytes")


def main(cases: Callable[[str], bool] = lambda case: True) -> None:
    for case in filter(cases, CASES):
        if absent := missing(case):
            raise SystemExit(f"the golden checkpoints of {kit_of(case)} need {', '.join(absent)}")
        for place in PLACES:
            if found := sorted(path.name for path in HERE.glob(f"{case}_{place}_{VERSION}.*")):
                print(f"{', '.join(found)}: there already, and kept as they are")
            else:
                write(case, place)


if __name__ == "__main__":
    main()
