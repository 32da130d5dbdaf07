"""The verbs of the contract in PyTorch."""

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from delira.backends.torch import (
    averages,
    building,
    compiling,
    copies,
    determinism,
    inputs,
    io,
    schedules,
    step,
    tools,
    values,
)
from delira.backends.torch import export as exports
from delira.backends.torch import optimizers as optims
from delira.backends.torch import snapshot as memory
from delira.backends.torch import statistics as running
from delira.backends.torch.device import device_memory, resolve_devices, synchronize
from delira.backends.torch.feed import feed
from delira.backends.torch.layers import layer_settings
from delira.contract import Backend, Devices
from delira.errors import CheckpointError, ConfigError
from delira.utils.parameters import parameters_of_method


class NoNetwork(torch.nn.Module):
    """What a trial fits that was given no network."""

    def forward(self, *inputs: Any) -> None:
        """Nothing comes of anything."""
        return


class TorchBackend(Backend):
    """PyTorch."""

    name = "torch"
    checkpoint_suffix = ".pt"
    network_class = "delira.models.AbstractPyTorchNetwork"
    packages = ("torch",)

    devices = staticmethod(resolve_devices)
    synchronize = staticmethod(synchronize)
    device_memory = staticmethod(device_memory)
    feed = staticmethod(feed)
    call_apart = staticmethod(inputs.call_apart)
    to_numpy = staticmethod(values.to_numpy)
    read_scalars = staticmethod(values.read_scalars)
    learn = staticmethod(step.learn)
    predict = staticmethod(step.predict)
    measure = staticmethod(step.measure)
    bind_step = staticmethod(compiling.bind_step)
    build_optimizers = staticmethod(building.build_optimizers)
    check_optimizers = staticmethod(building.check_optimizers)
    no_optimizer = staticmethod(building.no_optimizer)
    build_schedules = staticmethod(schedules.build_schedules)
    schedules = schedules.SCHEDULES
    trace = staticmethod(tools.trace)
    write_graph = staticmethod(tools.write_graph)
    free_image = tools.FreeImage
    concatenate = staticmethod(values.concatenate)
    nonfinite = staticmethod(values.nonfinite)
    snapshot = staticmethod(memory.snapshot)
    is_out_of_memory = staticmethod(memory.is_out_of_memory)
    free_memory = staticmethod(memory.free_memory)
    average = staticmethod(averages.average)
    statistics_names = staticmethod(running.statistics_names)
    renew_statistics = staticmethod(running.renew_statistics)
    scale_rates = staticmethod(optims.scale_rates)
    deterministic = staticmethod(determinism.deterministic)
    prepare_deterministic = staticmethod(determinism.prepare)
    write_checkpoint = staticmethod(io.write_checkpoint)
    read_checkpoint = staticmethod(io.read_checkpoint)
    export = staticmethod(exports.export)
    named_weights = staticmethod(exports.named_weights)
    load_named_weights = staticmethod(exports.load_named_weights)
    portable_weights = staticmethod(exports.portable_weights)
    load_portable_weights = staticmethod(exports.load_portable_weights)
    layers = staticmethod(exports.layers)
    layer_settings = staticmethod(layer_settings)
    values = staticmethod(step.values)  # after what is taken from the module of the name

    def explain(self, error: BaseException) -> str | None:
        return determinism.explain(error) or compiling.explain(error)

    def devices_of(self, network: torch.nn.Module) -> Devices:
        first = next(network.parameters(), None)
        device = torch.device("cpu") if first is None else first.device
        return Devices(device, device)

    def place(self, network: torch.nn.Module, losses: Mapping[str, Any], devices: Devices) -> torch.nn.Module:
        for loss in map(inspect.unwrap, losses.values()):  # one may be inside of another
            if isinstance(loss, torch.nn.Module):
                loss.to(devices.output)
        return network.to(devices.input)

    @contextlib.contextmanager
    def training(self, network: torch.nn.Module) -> Iterator[None]:
        with _modes_restored(network), torch.enable_grad():
            network.train()
            yield

    @contextlib.contextmanager
    def evaluating(self, network: torch.nn.Module) -> Iterator[None]:
        with _modes_restored(network), torch.no_grad():
            network.eval()
            yield

    def set_evaluating(self, network: torch.nn.Module) -> None:
        network.eval()

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        if number is None:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def thread_count(self) -> int:
        return torch.get_num_threads()

    def key_mapping(self, network: torch.nn.Module) -> dict[str, str]:
        parameters = parameters_of_method(network.forward)
        required = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        if len(required) == 1:
            return {required[0]: "data"}
        if "x" in parameters and not required:
            return {"x": "data"}
        raise ConfigError(
            f"{type(network).__name__}.forward takes {list(parameters)}, so it is not clear which of them gets the "
            "batch entry 'data'; pass key_mapping={argument: batch entry}"
        )

    def arguments_of(self, network: torch.nn.Module) -> frozenset[str] | None:
        parameters = parameters_of_method(network.forward)
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if is_open else frozenset(parameters)

    def is_mistake(self, warning: str) -> bool:
        # MSELoss and its like broadcast (n, 1) against (n,) to (n, n) and learn nonsense
        return "different to the input size" in warning

    def step_scope(
        self, optimizers: Mapping[str, Any], n_samples: int, is_last: bool, part: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        # most runs need nothing here, and this is called at every step
        if all(optimizer.is_plain for optimizer in optimizers.values()):
            return _NOTHING
        return optims.step_scope(optimizers, n_samples, is_last, part)

    @contextlib.contextmanager
    def leaving_out(self, network: torch.nn.Module, optimizers: Mapping[str, Any]) -> Iterator[None]:
        buffers = [(buffer, buffer.clone()) for buffer in network.buffers()]
        before = self.count_left_out(optimizers)
        yield
        if self.count_left_out(optimizers) != before:
            for buffer, value in buffers:
                buffer.copy_(value)

    def count_left_out(self, optimizers: Mapping[str, Any]) -> int:
        return sum(optimizer.num_skipped for optimizer in optimizers.values())

    def discard_parts(self, optimizers: Mapping[str, Any]) -> bool:
        answers = [optimizer.discard_parts() for optimizer in optimizers.values()]  # asks every one of them
        return all(answers)

    def finish_epoch(self, optimizers: Mapping[str, Any]) -> None:
        for optimizer in optimizers.values():
            optimizer.flush()

    def learning_rates(self, optimizers: Mapping[str, Any]) -> dict[str, float]:
        rates = {name: float(o.param_groups[0]["lr"]) for name, o in optimizers.items() if o.param_groups}
        return {"lr" if len(rates) == 1 else f"lr_{name}": rate for name, rate in rates.items()}

    copy_optimizer = staticmethod(copies.copy_optimizer)

    def move(self, network: Any, optimizers: Mapping[str, Any], devices: Devices, dtype: Any) -> None:
        if dtype is not None and not getattr(dtype, "is_floating_point", False):
            raise ConfigError(f"a network computes in a floating-point dtype of PyTorch, got {dtype!r}")
        network.to(devices.input, dtype)
        for optimizer in optimizers.values():  # loading brings its state to the weights
            optimizer.optimizer.load_state_dict(optimizer.optimizer.state_dict())

    def differentiate(self, network: Any, optimizer: Any, compute: Any) -> tuple[Any, Any, dict[str, Any]]:
        loss, more = compute(network)
        weights = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
        with optimizer.scale_loss(loss) as scaled:
            found = torch.autograd.grad(scaled, list(weights.values()), allow_unused=True)
        gradients = {name: one for name, one in zip(weights, found, strict=True) if one is not None}
        return loss.detach(), more, gradients

    def leave_gradients(self, network: Any, optimizer: Any, gradients: Mapping[str, Any]) -> None:
        for name, weight in network.named_parameters():
            weight.grad = gradients.get(name)

    def update_after(self, optimizers: Mapping[str, Any]) -> None:
        for optimizer in optimizers.values():
            optimizer.step()

    def no_network(self) -> torch.nn.Module:
        return NoNetwork()

    def zero_loss(self, devices: Any) -> torch.Tensor:
        return torch.zeros((), device=devices.output, requires_grad=True)

    def seed(self, seed: int) -> None:
        # torch.manual_seed also keeps a traceback for every kind of device that is not there: 0.4 ms an epoch
        accelerator = getattr(torch, "accelerator", None)  # PyTorch 2.6 and later
        if accelerator is None or accelerator.is_available():
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)

    def draw_seed(self) -> int:
        return int(torch.randint(2**31, ()))

    def generator_state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
        return state

    def set_generator_state(self, state: Mapping[str, Any]) -> None:
        torch.set_rng_state(state["cpu"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])

    def learned_names(self, network: torch.nn.Module) -> frozenset[str]:
        named = network.named_parameters(remove_duplicate=False)  # tied weights have several names in a state
        return frozenset(name for name, weight in named if weight.requires_grad)

    def learned_weights(self, network: torch.nn.Module) -> dict[str, torch.Tensor]:
        # a state of the network is cut off from the gradients
        return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}

    def set_learned_names(self, network: torch.nn.Module, names: frozenset[str]) -> None:
        for name, weight in network.named_parameters(remove_duplicate=False):
            weight.requires_grad_(name in names)

    def state_tree(self, network: torch.nn.Module, optimizers: Mapping[str, Any]) -> dict[str, Any]:
        weights = network.state_dict()
        if lazy := [name for name, weight in weights.items() if is_lazy(weight)]:
            raise CheckpointError(
                f"the weights {', '.join(lazy)} of {type(network).__name__} have no shape yet, so there is no state of "
                "them; call the network once with a batch first"
            )
        return {"model": weights, **_optimizer_tree(optimizers)}

    def load_state_tree(self, tree: Mapping[str, Any], network: torch.nn.Module, optimizers: Mapping[str, Any]) -> None:
        _check_weights(tree.get("model", {}), network)
        states = tree.get("optimizer", {})
        if missing := sorted(optimizers.keys() - states.keys()):
            raise CheckpointError(f"the checkpoint has no optimizer {missing}; it has {sorted(states)}")
        before = memory.snapshot(_optimizer_tree(optimizers))
        try:
            for name, optimizer in optimizers.items():
                _load_optimizer(name, optimizer, tree)
        except Exception:
            for name, optimizer in optimizers.items():
                _load_optimizer(name, optimizer, before)
            raise
        network.load_state_dict(tree["model"])


_NOTHING = contextlib.nullcontext()


@contextlib.contextmanager
def _modes_restored(network: torch.nn.Module) -> Iterator[None]:
    # what TorchScript froze has no modes
    modes = [(module, module.training) for module in network.modules() if hasattr(module, "training")]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _optimizer_tree(optimizers: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a tree that the optimizers fill."""
    states = {name: optimizer.state_dict() for name, optimizer in optimizers.items()}
    scalers = {name: o.scaler.state_dict() for name, o in optimizers.items() if o.scaler.is_enabled()}
    pending = {name: state for name, o in optimizers.items() if (state := o.pending_state())}
    more = {"scaler": scalers, "pending": pending}
    return {"optimizer": states, **{name: part for name, part in more.items() if part}}


def _check_weights(weights: Mapping[str, torch.Tensor], network: torch.nn.Module) -> None:
    """Refuse weights of another network, naming the entries."""
    own = network.state_dict()
    complaints = []
    if missing := [key for key in own if key not in weights]:
        complaints.append(f"missing in the checkpoint: {', '.join(missing)}")
    if unexpected := [key for key in weights if key not in own]:
        complaints.append(f"unknown to the network: {', '.join(unexpected)}")
    complaints += [
        f"{key} has shape {tuple(weights[key].shape)} in the checkpoint and {tuple(own[key].shape)} in the network"
        for key in own
        if isinstance(own[key], torch.Tensor)
        and key in weights
        and not is_lazy(own[key])  # loading gives it its shape
        and weights[key].shape != own[key].shape
    ]
    if complaints:
        raise CheckpointError(
            f"the checkpoint does not fit the network {type(network).__name__}: " + "; ".join(complaints)
        )


def _load_optimizer(name: str, optimizer: Any, tree: Mapping[str, Any]) -> None:
    """Refuse the state of another optimizer: torch takes it over and fails at the first step."""
    try:
        optimizer.load_state_dict(tree["optimizer"][name])
        optimizer.load_pending_state(tree.get("pending", {}).get(name, {}))
        if name in tree.get("scaler", {}):
            optimizer.scaler.load_state_dict(tree["scaler"][name])
        missing = {entry for group in optimizer.param_groups for entry in optimizer.entries if entry not in group}
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"the checkpoint does not fit the optimizer {name!r}: {error}") from error
    if missing:
        raise CheckpointError(
            f"the checkpoint does not fit the optimizer {name!r}: it is no state of a "
            f"{type(optimizer.optimizer).__name__}, since {', '.join(sorted(missing))} is missing"
        )


BACKEND = TorchBackend()
