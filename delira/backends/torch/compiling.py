"""Steps whose forward pass ``torch.compile`` has compiled."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from delira.contract import CompileConfig
from delira.errors import ConfigError
from delira.utils.suggest import did_you_mean

Step = Callable[[dict[str, Any], Mapping[str, int]], Any]


def bind_step(
    closure: Callable[..., Any], network: torch.nn.Module, arguments: Mapping[str, Any], compiling: CompileConfig
) -> Step:
    """The closure bound to its arguments, with the network's forward compiled while it runs.

    What the closure calls is compiled, the network as a whole or its direct parts (a GAN's generator); losses,
    gradients, updates and hooks run as they are, so any closure and any hook will do. Outside of the step the
    network is what it was: predictions, files and other trainers know nothing of it.

    Parameters
    ----------
    closure
        The network's closure.
    network
        The network.
    arguments
        What the closure is given at every step.
    compiling
        ``compiled`` is True, or a dict of options of ``torch.compile``. Unless its ``mode`` is chosen, inductor is
        told to draw random numbers as PyTorch does (``fallback_random``), so that dropout drops the same.

    Raises
    ------
    ConfigError
        If ``torch.compile`` does not know the options, or ``jit_compile`` is set.
    """
    if compiling.jit:
        raise ConfigError("jit_compile is a setting of TensorFlow; in PyTorch set compile=True")

    def step(batch: dict[str, Any], counters: Mapping[str, int]) -> Any:
        return closure(network, batch, **arguments, **counters)

    if compiling.compiled is None or compiling.compiled is False:
        return step
    options = _options({} if compiling.compiled is True else compiling.compiled)
    parts = [module for module in (network, *network.children()) if _has_forward(module)]
    forwards = [(vars(module), _compiled(module.forward, options)) for module in parts]

    def compiled_step(batch: dict[str, Any], counters: Mapping[str, int]) -> Any:
        before = [(attributes, attributes.get("forward")) for attributes, _ in forwards]
        for attributes, forward in forwards:
            attributes["forward"] = forward
        try:
            return step(batch, counters)
        finally:
            for attributes, own in before:
                if own is None:
                    del attributes["forward"]
                else:
                    attributes["forward"] = own

    return compiled_step


def _has_forward(module: torch.nn.Module) -> bool:
    return type(module).forward is not torch.nn.Module.forward


def _compiled(forward: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    try:
        return torch.compile(forward, **options)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(f"torch.compile does not take compile={dict(options)}: {error}") from error


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    known = [name for name in inspect.signature(torch.compile).parameters if name != "model"]
    if unknown := [name for name in given if name not in known]:
        lines = [f"compile has the unknown option {name!r}{did_you_mean(str(name), known)}" for name in unknown]
        raise ConfigError("\n".join(lines) + f"\n(torch.compile takes {', '.join(known)})")
    options = dict(given)
    if options.get("backend", "inductor") == "inductor" and options.get("mode") is None:
        options["options"] = {"fallback_random": True, **(options.get("options") or {})}
    return options


def explain(error: BaseException) -> str | None:
    """The note for an error of the compiler; ``None`` for any other error."""
    if not any(kind.__name__ == "TorchDynamoException" for kind in type(error).__mro__):
        return None
    return (
        "this happened while torch.compile compiled the network: train with compile=False to see whether the network "
        "itself is wrong, or with compile={'backend': 'aot_eager'} to see whether it is the code that is generated"
    )
