"""A step: the batch on its way to the device, the network compiled for it, from losses to gradients and the update."""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from delira.contract import (
    ByName,
    Closure,
    CompileConfig,
    Devices,
    Network,
    Optimizer,
    Step,
    StepRole,
    UpdateConfig,
    mark,
    run_hooks,
)
from delira.contract.step import Compute, Fed, Hooks, Prepare
from delira.errors import ConfigError, NetworkError, did_you_mean
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.optimizing import added
from delira.utils.seeding import CUBLAS_SETTING

_NOTHING = contextlib.nullcontext()

_LOSS = "computed with PyTorch on predictions that were not detached"

_NO_IMPLEMENTATION = re.compile(r"(?P<name>.+?) does not have a deterministic implementation")


class TorchStep(StepRole):
    """Steps are Python; gradients are on the weights."""

    def feed(self, batches: Iterable[ByName], prepare: Prepare) -> Iterator[Fed]:
        """Prepare each batch during the step before it, where it goes to a GPU by the backend's ``prepare_batch``.

        A network's own ``prepare_batch`` may draw random numbers, so it is left to be called at its time.
        """
        settings = getattr(prepare, "keywords", {})
        devices = [settings.get(name) for name in ("input_device", "output_device")]
        is_default = getattr(getattr(prepare, "func", None), "is_backend_default", False)
        gpu = next((device for device in devices if getattr(device, "type", None) == "cuda"), None)
        if gpu is None or not is_default:
            return ((batch, None) for batch in batches)
        return _one_ahead(batches, _copying(prepare, gpu))

    def bind(self, closure: Closure, network: torch.nn.Module, arguments: ByName, compiling: CompileConfig) -> Closure:
        """The closure bound to its arguments, with the network's forward compiled while it runs.

        What the closure calls is compiled, the network as a whole or its direct parts (a GAN's generator); losses,
        gradients, updates and hooks run as they are, so any closure and any hook will do. Outside of the step the
        network is what it was: predictions, files and other trainers know nothing of it.

        ``compiling.compiled`` is True, or a dict of options of ``torch.compile``. Unless its ``mode`` is chosen,
        inductor is told to draw random numbers as PyTorch does (``fallback_random``), so that dropout drops the same.

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

    def learn(self, optimizer: Optimizer, step: Step, compute: Compute, backward: Hooks) -> None:
        with _grad_mode(True):
            compute(step)
        mark("forward")
        if not hasattr(optimizer, "scale_loss"):  # of a closure that is called by hand
            optimizer = self.backend.optimizers.build(
                step.network, lambda *args, **params: {"": optimizer}, None, {}, UpdateConfig()
            )[""]
        if getattr(optimizer, "evaluates", False):
            known = [step]  # the first evaluation

            def evaluate() -> torch.Tensor:
                if known:
                    return _differentiate(optimizer, known.pop(), backward)
                again = compute(Step(step.network, step.batch, call=step.call))
                mark("forward")
                return _differentiate(optimizer, again, backward)

            optimizer.step(evaluate)
        else:
            _differentiate(optimizer, step, backward)
            optimizer.step()
        mark("update")

    def predict(self, step: Step, compute: Compute) -> None:
        with _grad_mode(False):
            compute(step)

    def values(self, step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
        return (
            {name: _detached(one) for name, one in step.predictions.items()},
            {name: _detached(one) for name, one in step.losses.items()},
        )

    def measure(self, metrics: ByName, metric_keys: ByName, predictions: ByName, batch: ByName) -> dict[str, Any]:
        with _grad_mode(False):
            return super().measure(metrics, metric_keys, predictions, batch)

    def explain(self, error: BaseException) -> str | None:
        text = str(error)
        if (found := _NO_IMPLEMENTATION.search(text)) is not None:
            return (
                f"PyTorch has no deterministic {found['name']} on this device: replace it in the network, the losses "
                "or the closure, or train with deterministic=False"
            )
        if CUBLAS_SETTING in text:
            return (
                f"set {CUBLAS_SETTING}=:4096:8 in the environment before Python starts, or call delira.seed_all(seed, "
                "deterministic=True) before anything is computed on the GPU, or train with deterministic=False"
            )
        if "Expected more than 1 value per channel" in text:
            return (
                "a batch normalisation got a batch of one sample, or a share of one that is the rest of the data: use "
                "drop_last=True or another batch_size"
            )
        if any(kind.__name__ == "TorchDynamoException" for kind in type(error).__mro__):
            return (
                "this happened while torch.compile compiled the network: train with compile=False to see whether the "
                "network itself is wrong, or with compile={'backend': 'aot_eager'} to see whether it is the code that "
                "is generated"
            )
        return None

    def is_mistake(self, warning: str) -> bool:
        # MSELoss and its like broadcast (n, 1) against (n,) to (n, n) and learn nonsense
        return "different to the input size" in warning

    def zero_loss(self, devices: Devices) -> torch.Tensor:
        return torch.zeros((), device=devices.output, requires_grad=True)

    def differentiate(self, network: Network, optimizer: Optimizer, compute: Any) -> tuple[Any, Any, dict[str, Any]]:
        loss, more = compute(network)
        weights = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
        with optimizer.scale_loss(loss) as scaled:
            found = torch.autograd.grad(scaled, list(weights.values()), allow_unused=True)
        gradients = {name: one for name, one in zip(weights, found, strict=True) if one is not None}
        return loss.detach(), more, gradients

    def leave_gradients(self, network: torch.nn.Module, optimizer: object, gradients: ByName) -> None:
        for name, weight in network.named_parameters():
            weight.grad = gradients.get(name)

    def update_after(self, optimizers: ByName) -> None:
        for optimizer in optimizers.values():
            optimizer.step()


def _differentiate(optimizer: Optimizer, step: Step, backward: Hooks) -> torch.Tensor:
    """Leave the gradients on the weights; returns the loss."""
    group = getattr(optimizer, "group", None)
    losses = step.losses if group is None else group.weighed(step.losses, step.predictions)
    total = added(losses, (torch.Tensor,), _LOSS)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        what = "depends on no parameter" if isinstance(total, torch.Tensor) else f"is a {type(total).__name__}"
        raise NetworkError(f"the loss ({', '.join(step.losses)}) {what}, so there is no gradient; a loss is {_LOSS}")
    if total.is_complex() and not step.backward_arguments:
        raise NetworkError(f"the loss ({', '.join(step.losses)}) is complex; a loss is a single real number")
    if total.numel() != 1 and not step.backward_arguments:
        raise NetworkError(
            f"the loss ({', '.join(step.losses)}) has the shape {tuple(total.shape)}; a loss is a single number (e.g. "
            "use reduction='mean')"
        )
    optimizer.zero_grad()
    with optimizer.scale_loss(total) as scaled:
        scaled.backward(**step.backward_arguments)
    if backward:
        optimizer.add_gradients()
        weights = dict(step.network.named_parameters())
        step.gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
        run_hooks(backward, step)
        for name, gradient in step.gradients.items():
            weights[name].grad = gradient
    elif group is not None and not step.backward_arguments:  # a hook may change losses
        group.send(step.losses)
    mark("backward")
    return total.detach()


def _grad_mode(is_enabled: bool) -> contextlib.AbstractContextManager[Any]:
    """``torch.set_grad_enabled``, where it changes anything: it is entered at every step."""
    return _NOTHING if torch.is_grad_enabled() is is_enabled else torch.set_grad_enabled(is_enabled)


def _detached(tree: object) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.detach()
    return map_leaves(_detached, tree) if isinstance(tree, (Mapping, list, tuple)) else tree


# ------------------------------------------------------------------ batches on their way to a GPU


def _one_ahead(batches: Iterable[ByName], start: Callable[[ByName], Callable[[], dict[str, Any]]]) -> Iterator[Fed]:
    """Start what is done with a batch before the one ahead of it is handed out.

    An error in making a batch is kept until the batches ahead of it are used.
    """
    started = ((batch, start(batch)) for batch in batches)
    waiting = next(started, None)
    while waiting is not None:
        following, error = None, None
        try:
            following = next(started, None)
        except Exception as caught:
            error = caught
        yield waiting[0], waiting[1]()
        if error is not None:
            raise error
        waiting = following


def _copying(prepare: Prepare, device: torch.device) -> Callable[[ByName], Callable[[], dict[str, Any]]]:
    """Return what starts copies on a stream of their own; what that returns makes the current stream wait for them."""
    stream = torch.cuda.Stream(device)

    def start(batch: ByName) -> Callable[[], dict[str, Any]]:
        with torch.cuda.stream(stream):
            prepared = prepare({key: map_leaves(_pinned, value) for key, value in batch.items()})
            done = stream.record_event()

        def arrive() -> dict[str, Any]:
            current = torch.cuda.current_stream(device)
            current.wait_event(done)
            for _, value in iterate_leaves(prepared):
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    value.record_stream(current)  # its memory is not given away while the step uses it
            return prepared

        return arrive

    return start


def _pinned(value: object) -> Any:
    """An array as a tensor in pinned memory; what torch does not take stays as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufc":
        return value
    try:
        return torch.as_tensor(np.ascontiguousarray(value)).pin_memory()
    except (TypeError, ValueError):  # e.g. foreign byte order: prepare_batch sees to it
        return value


# ------------------------------------------------------------------ compiled networks


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
