"""Generators of PyTorch."""

from typing import Any

import torch

from delira.contract import ByName, GeneratorsRole


class TorchGenerators(GeneratorsRole):
    """The generators of the CPU and of the GPUs."""

    def seed(self, seed: int) -> None:
        # torch.manual_seed also keeps a traceback for every kind of device that is not there: 0.4 ms an epoch
        accelerator = getattr(torch, "accelerator", None)  # PyTorch 2.6 and later
        if accelerator is None or accelerator.is_available():
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)

    def draw_seed(self) -> int:
        return int(torch.randint(2**31, ()))

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
        return state

    def set_state(self, state: ByName) -> None:
        torch.set_rng_state(state["cpu"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
