"""Steps whose forward pass ``torch.compile`` has compiled."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from delira.contract import CompileConfig
from delira.contract.kinds import ByName
from delira.errors import ConfigError
from delira.utils.suggest import did_you_mean


def bind_step(
    closure: Callable[..., Any], network: torch.nn.Module, arguments: ByName, compiling: CompileConfig
) -> Callable[..., Any]:
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

    step = functools.partial(closure, network, **arguments)
    if compiling.compiled is None or compiling.compiled is False:
        return step
    options = _options({} if compiling.compiled is True else compiling.compiled)
    parts = [_Part(module, options) for module in (network, *network.children()) if _has_forward(module)]

    # else a hook that a module gets after the first step is silently never called
    watching_hooks = torch._dynamo.config.patch(skip_nnmodule_hook_guards=False)

    def compiled_step(batch: dict[str, Any], **counters: int) -> Any:
        try:
            for part in parts:
                part.switch_on()
            with watching_hooks:
                return step(batch, **counters)
        finally:
            for part in parts:
                part.switch_off()

    return compiled_step


class _Part:
    """A module whose forward is a compiled one during a step."""

    def __init__(self, module: torch.nn.Module, options: ByName):
        self._module, self._options = module, options
        self._compile()

    def _compile(self) -> None:
        self._own = vars(self._module).get("forward")
        try:
            self._forward = torch.compile(self._module.forward, **self._options)
        except (RuntimeError, TypeError, ValueError) as error:
            raise ConfigError(f"torch.compile does not take compile={dict(self._options)}: {error}") from error

    def switch_on(self) -> None:
        if vars(self._module).get("forward") is not self._own:  # somebody gave it another one
            self._compile()
        vars(self._module)["forward"] = self._forward

    def switch_off(self) -> None:
        if self._own is None:
            vars(self._module).pop("forward", None)
        else:
            vars(self._module)["forward"] = self._own


def _has_forward(module: torch.nn.Module) -> bool:
    # what is a script was compiled by TorchScript
    return not isinstance(module, torch.jit.ScriptModule) and type(module).forward is not torch.nn.Module.forward


def _options(given: ByName) -> dict[str, Any]:
    known = [name for name in inspect.signature(torch.compile).parameters if name != "model"]
    unknown = [name for name in given if name not in known]
    if lines := [f"compile has the unknown option {name!r}{did_you_mean(str(name), known)}" for name in unknown]:
        raise ConfigError("\n".join([*lines, f"(torch.compile takes {', '.join(known)})"]))
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
