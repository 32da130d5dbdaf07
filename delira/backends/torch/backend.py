"""The backend of PyTorch, with what it offers beside computing: traces, graphs of networks, a picture that learns."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from delira.backends.torch import arrays, calls, checkpoints, devices, export, generators, optimizers, step, weights
from delira.backends.torch.schedules import SCHEDULES
from delira.contract import Backend, Defaults, roles_in
from delira.errors import import_optional
from delira.state import State

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter


class FreeImage(torch.nn.Module):
    """A picture whose pixels are learned; see :attr:`delira.contract.Backend.free_image`."""

    keywords: ClassVar[dict[str, bool]] = {}

    def __init__(self, pixels: np.ndarray, compute: Callable[[torch.Tensor, State], torch.Tensor]):
        super().__init__()
        self.image, self.compute = torch.nn.Parameter(torch.from_numpy(pixels)), compute

    def forward(self, state: State) -> torch.Tensor:
        return self.compute(self.image, state)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Return Adam with the rate 0.5."""
        return torch.optim.Adam([self.image], lr=0.5)


class TorchBackend(Backend):
    """PyTorch."""

    name = "torch"
    checkpoint_suffix = ".pt"
    network_class = "delira.models.AbstractPyTorchNetwork"
    packages = ("torch",)
    schedules = SCHEDULES
    defaults = Defaults(
        network="delira.models.MultilayerPerceptronPyTorch",
        losses={"classification": torch.nn.CrossEntropyLoss, "regression": torch.nn.MSELoss},
        optimizer_cls=torch.optim.Adam,
        rate="lr",
    )
    free_image = FreeImage
    roles = roles_in(arrays, calls, checkpoints, devices, export, generators, optimizers, step, weights)

    @staticmethod
    @contextlib.contextmanager
    def trace(folder: Path) -> Iterator[None]:
        """Scope that leaves a file for the viewer Perfetto."""
        folder.mkdir(parents=True, exist_ok=True)
        with torch.profiler.profile() as profile:
            yield
        profile.export_chrome_trace(str(folder / "trace.json"))

    @staticmethod
    def write_graph(
        writer: "SummaryWriter",
        network: torch.nn.Module,
        call: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
        leaves: list[torch.Tensor],
    ) -> None:
        """Write the graph of a network for TensorBoard, as it is traced by ``call(leaves)``."""

        class Traced(torch.nn.Module):
            """Takes and returns arrays only; its one part is the network."""

            def forward(self, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
                return tuple(call(leaves))

        import_optional("tensorboard", "the graph of a network", "delira[logging]")
        traced = Traced()
        traced.network = network
        # it prints an error that it raises as well, and warns of a trace that is not used but to be looked at
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            writer.add_graph(traced, tuple(leaves), use_strict_trace=False)


BACKEND = TorchBackend()
