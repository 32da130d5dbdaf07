"""PyTorch's deterministic algorithms: on for a training, and what to say of an operation that has none."""

import contextlib
import os
import re
from collections.abc import Iterator

import torch

from delira.utils.seeding import CUBLAS_SETTING, choose_cublas_workspace, make_torch_deterministic

_NO_IMPLEMENTATION = re.compile(r"(?P<name>.+?) does not have a deterministic implementation")


def prepare() -> None:
    """Choose what has to be chosen before CUDA is used: the workspace of cuBLAS, by an environment variable."""
    choose_cublas_workspace(torch)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Scope in which an operation gives the same bits every time, or raises; all settings are restored on exit.

    Warns in the log if CUDA was initialised without ``CUBLAS_WORKSPACE_CONFIG``: that cannot be made up for.
    """
    cudnn = torch.backends.cudnn
    is_on, only_warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    chosen, searches, workspace = cudnn.deterministic, cudnn.benchmark, os.environ.get(CUBLAS_SETTING)
    try:
        make_torch_deterministic(torch)
        yield
    finally:
        torch.use_deterministic_algorithms(is_on, warn_only=only_warns)
        cudnn.deterministic, cudnn.benchmark = chosen, searches
        if not torch.cuda.is_initialized():  # else cuBLAS has read it, and goes on with it
            os.environ.pop(CUBLAS_SETTING, None)
            if workspace is not None:
                os.environ[CUBLAS_SETTING] = workspace


def explain(error: BaseException) -> str | None:
    """The note for an error of an operation that is not deterministic; ``None`` for any other error."""
    text = str(error)
    if (found := _NO_IMPLEMENTATION.search(text)) is not None:
        return (
            f"PyTorch has no deterministic {found['name']} on this device: replace it in the network, the losses or "
            "the closure, or train with deterministic=False"
        )
    if CUBLAS_SETTING in text:
        return (
            f"set {CUBLAS_SETTING}=:4096:8 in the environment before Python starts, or call delira.seed_all(seed, "
            "deterministic=True) before anything is computed on the GPU, or train with deterministic=False"
        )
    return None
