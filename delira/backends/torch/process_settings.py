"""Settings of PyTorch for the whole process that change numbers; those for GPUs are read and set without one, too."""

import operator
from typing import Any

import torch
from torch.utils import _device as torch_device

from delira.contract.process_settings import Setting

#: attributes below ``torch`` -> what they are in a process that nobody has set anything in; the older spelling of
#: precisions before those that it changes
_ATTRIBUTES = {
    "backends.cudnn.allow_tf32": True,
    "backends.fp32_precision": "none",
    "backends.cudnn.fp32_precision": "none",
    "backends.cuda.matmul.fp32_precision": "ieee",
    "backends.cudnn.conv.fp32_precision": "tf32",
    "backends.cudnn.rnn.fp32_precision": "tf32",
    "backends.mkldnn.matmul.fp32_precision": "ieee",
    "backends.mkldnn.conv.fp32_precision": "ieee",
    "backends.mkldnn.rnn.fp32_precision": "ieee",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction": True,
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction": True,
    "backends.cuda.matmul.allow_fp16_accumulation": False,
    "backends.cudnn.enabled": True,
    "backends.cudnn.benchmark": False,
    "backends.cudnn.deterministic": False,
    "backends.mkldnn.enabled": True,
    "backends.mkldnn.deterministic": False,
    "backends.opt_einsum.enabled": torch.backends.opt_einsum.is_available(),
    "utils.deterministic.fill_uninitialized_memory": True,
}
#: what ``torch.backends.opt_einsum`` has in a process that nobody has set anything in; where it is off, nothing else
#: can be set, nor matters
_EINSUM_STRATEGY = "auto" if torch.backends.opt_einsum.is_available() else None


def _attribute(path: str, usual: Any) -> Setting:
    place, _, name = path.rpartition(".")

    def read() -> Any:
        value = operator.attrgetter(path)(torch)
        # who has set a precision and put it back has "ieee" where nothing was chosen, which is computed in the same way
        return "ieee" if usual == "ieee" and value == "none" else value

    return Setting(
        read,
        lambda value: setattr(operator.attrgetter(place)(torch), name, value),
        usual,
    )


def _scaled_product(name: str) -> Setting:
    """Whether a way to compute ``scaled_dot_product_attention`` may be chosen; on the CPU, too."""
    cuda = torch.backends.cuda
    return Setting(
        lambda: getattr(cuda, f"{name}_enabled")(), lambda value: getattr(cuda, f"enable_{name}")(value), True
    )


def _determinism() -> str:
    if not torch.are_deterministic_algorithms_enabled():
        return "off"
    return "warns" if torch.is_deterministic_algorithms_warn_only_enabled() else "on"


def _flushes() -> bool:
    """Whether numbers too small for their exponent become 0 in this thread: PyTorch can set it, and does not tell."""
    return torch.full((1,), 1e-320, dtype=torch.float64, device="cpu").mul(1.0).item() == 0


def _default_device() -> str:
    """Where tensors are made, as it was said: ``torch.get_default_device`` would begin to use a GPU to number it."""
    return str(torch_device.CURRENT_DEVICE or "cpu")


def _set_default_device(name: str) -> None:
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= max(1, torch.cuda.device_count()):
        device = torch.device("cuda")  # the one that this process was dealt
    torch.set_default_device(None if name == "cpu" else device)  # type: ignore[arg-type]


def _einsum_strategy() -> str | None:
    einsum = torch.backends.opt_einsum
    return einsum.strategy if einsum.enabled else _EINSUM_STRATEGY


def _preferred(library: str, usual: str) -> Setting:
    """Which of several libraries computes on GPUs."""
    prefer = getattr(torch.backends.cuda, f"preferred_{library}_library", None)

    def read() -> str:
        if prefer is None:
            raise AttributeError(library)
        return str(prefer().name).lower()

    return Setting(read, lambda name: prefer(name), usual)  # type: ignore[misc]


SETTINGS = {
    "default_dtype": Setting(
        lambda: str(torch.get_default_dtype()).removeprefix("torch."),
        lambda name: torch.set_default_dtype(getattr(torch, name)),
        "float32",
    ),
    "float32_matmul_precision": Setting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"
    ),
    **{path: _attribute(path, usual) for path, usual in _ATTRIBUTES.items()},
    "backends.opt_einsum.strategy": Setting(
        _einsum_strategy,
        lambda value: setattr(torch.backends.opt_einsum, "strategy", value),
        _EINSUM_STRATEGY,
    ),
    "preferred_linalg_library": _preferred("linalg", "default"),
    "default_device": Setting(_default_device, _set_default_device, "cpu", is_told=False),
    "deterministic_algorithms": Setting(
        _determinism,
        lambda how: torch.use_deterministic_algorithms(how != "off", warn_only=how == "warns"),
        "off",
    ),
    "mha.fastpath": Setting(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled, True),
    **{name: _scaled_product(name) for name in ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp")},
    "flush_denormal": Setting(_flushes, torch.set_flush_denormal, False),
}
