"""Walks from ``PyTorchExperiment.run`` to the first update, and prints how far it is; see ``structure.py``."""

import inspect
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import delira
from delira.data_loading import BaseDataManager
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment

FOLDER = str(Path(delira.__file__).parent)


class Network(AbstractPyTorchNetwork):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"pred": self.linear(x)}


class Walk:
    """Counts calls of delira's functions until the first update, and the frames that stand above it then."""

    calls, frames, is_counting = 0, 0, True

    def __call__(self, frame: object, event: str, argument: object) -> None:
        if event == "call" and self.is_counting and _is_own(frame) and _is_call(frame):
            self.calls += 1


def _is_own(frame: object) -> bool:
    return frame.f_code.co_filename.startswith(FOLDER)  # type: ignore[attr-defined]


def _is_call(frame: object) -> bool:
    """Return True if a function starts in this frame."""
    # What is written in the body of a function is a part of it: a comprehension is a frame in Python 3.11 and none in
    # 3.12. A generator that goes on was counted when it started: what it goes on with is a RESUME after a yield (its
    # argument is not 0 then).
    code = frame.f_code  # type: ignore[attr-defined]
    goes_on = code.co_code[frame.f_lasti + 1] & 3  # type: ignore[attr-defined]
    return not code.co_name.startswith("<") and not goes_on


def main() -> None:
    walk = Walk()

    class Optimizer(torch.optim.SGD):
        def step(self, closure: object = None) -> None:  # type: ignore[override]
            if walk.is_counting:
                walk.is_counting = False
                walk.frames = sum(_is_own(info.frame) for info in inspect.stack())
            super().step()

    data = BaseDataManager({"data": np.ones((8, 3), "f4"), "label": np.ones((8, 1), "f4")}, 4)
    with tempfile.TemporaryDirectory() as folder:
        experiment = PyTorchExperiment(
            {"model": {}}, Network, n_epochs=1, name="walk", save_path=folder, verbose=False,
            losses={"mse": torch.nn.MSELoss()}, optimizer_cls=Optimizer, optimizer_params={"lr": 0.1},
        )  # fmt: skip
        experiment.run(data)  # whatever is imported or remembered at the first run is there in the second
        walk.calls, walk.is_counting = 0, True
        sys.setprofile(walk)
        experiment.run(data)
        sys.setprofile(None)
    print(json.dumps({"frames": walk.frames, "calls": walk.calls}))


if __name__ == "__main__":
    main()
