"""The verbs of the contract in TensorFlow."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from delira.backends.tensorflow import builders, device, learning, portable, schedules, state, steps, tools, values
from delira.backends.tensorflow import export as exports
from delira.backends.tensorflow import gradients as gradients_of
from delira.backends.tensorflow import statistics as running
from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.names import refuse_foreign
from delira.backends.tensorflow.runtime import mode, runtime_of
from delira.contract import Backend, CompileConfig, Devices


class TfBackend(Backend):
    """TensorFlow, with Keras."""

    name = "tensorflow"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractTfNetwork"
    packages = ("keras", "tensorflow")
    channels_last = True
    compiles = True

    devices = staticmethod(device.resolve_devices)
    devices_of = staticmethod(device.devices_of)
    synchronize = staticmethod(device.synchronize)
    device_memory = staticmethod(device.device_memory)
    threads = staticmethod(device.threads)
    thread_count = staticmethod(device.thread_count)
    deterministic = staticmethod(device.deterministic)
    explain = staticmethod(device.explain)
    is_out_of_memory = staticmethod(device.is_out_of_memory)
    key_mapping = staticmethod(steps.key_mapping)
    forward = staticmethod(steps.forward)
    added_losses = staticmethod(steps.added_losses)
    build_optimizers = staticmethod(builders.build_optimizers)
    check_optimizers = staticmethod(builders.check_optimizers)
    no_optimizer = staticmethod(builders.no_optimizer)
    calling = staticmethod(steps.calling)
    outputs = staticmethod(learning.outputs)
    learn = staticmethod(learning.learn)
    measure = staticmethod(learning.measure)
    differentiate = staticmethod(gradients_of.differentiate)
    build_schedules = staticmethod(schedules.build_schedules)
    schedules = schedules.SCHEDULES
    trace = staticmethod(tools.trace)
    write_graph = staticmethod(tools.write_graph)
    free_image = tools.FreeImage
    learning_rates = staticmethod(builders.learning_rates)
    scale_rates = staticmethod(builders.scale_rates)
    to_numpy = staticmethod(values.to_numpy)
    concatenate = staticmethod(values.concatenate)
    read_scalars = staticmethod(values.read_scalars)
    seed = staticmethod(GENERATORS.seed)
    draw_seed = staticmethod(GENERATORS.draw_seed)
    generator_state = staticmethod(GENERATORS.state)
    set_generator_state = staticmethod(GENERATORS.set_state)
    average = staticmethod(state.average)
    statistics_names = staticmethod(running.statistics_names)
    renew_statistics = staticmethod(running.renew_statistics)
    learned_names = staticmethod(state.learned_names)
    set_learned_names = staticmethod(state.set_learned_names)
    snapshot = staticmethod(state.snapshot)
    state_tree = staticmethod(state.state_tree)
    load_state_tree = staticmethod(state.load_state_tree)
    write_checkpoint = staticmethod(state.write_checkpoint)
    named_weights = staticmethod(state.named_weights)
    load_named_weights = staticmethod(state.load_named_weights)
    portable_weights = staticmethod(portable.portable_weights)
    load_portable_weights = staticmethod(portable.load_portable_weights)
    layers = staticmethod(portable.layers)
    layer_settings = staticmethod(portable.layer_settings)
    export = staticmethod(exports.export)

    def place(self, network: Any, losses: Mapping[str, Any], devices: Devices) -> Any:
        refuse_foreign(network)
        return device.place(network, losses, devices)

    @contextlib.contextmanager
    def training(self, network: Any) -> Iterator[None]:
        with GENERATORS.learning(network), mode(network, True):
            yield

    @contextlib.contextmanager
    def evaluating(self, network: Any) -> Iterator[None]:
        with mode(network, False):
            yield

    def bind_step(
        self, closure: Callable[..., Any], network: Any, arguments: Mapping[str, Any], compiling: CompileConfig
    ) -> Callable[[dict[str, Any], Mapping[str, int]], Any]:
        return steps.Step(closure, network, arguments, compiling)

    def arguments_of(self, network: Any) -> frozenset[str] | None:
        parameters = steps.call_parameters(network)
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if is_open else frozenset(parameters)

    def step_scope(
        self, optimizers: Mapping[str, Any], n_samples: int, is_last: bool, part: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        # most runs need nothing here, and this is called at every step
        if all(optimizer.is_plain for optimizer in optimizers.values()):
            return _NOTHING
        return step_scope(optimizers, n_samples, is_last, part)

    @contextlib.contextmanager
    def leaving_out(self, network: Any, optimizers: Mapping[str, Any]) -> Iterator[None]:
        before = self.count_left_out(optimizers)
        kept = [
            (variable, variable.value.read_value())
            for layer in network._flatten_layers()
            for variable in layer._non_trainable_variables
        ]
        yield
        if self.count_left_out(optimizers) != before:
            for variable, value in kept:
                variable.value.assign(value)

    def leave_gradients(self, network: Any, optimizer: Any, gradients: Mapping[str, Any]) -> None:
        optimizer.left = gradients_of.by_variable(network, gradients)

    def update_after(self, optimizers: Mapping[str, Any]) -> None:
        for optimizer in optimizers.values():
            if optimizer.left is not None:
                pairs, optimizer.left = optimizer.left, None
                optimizer.apply(*pairs)

    def zero_loss(self, devices: Devices) -> Any:
        return values.zero()

    def copy_optimizer(self, optimizer: Any, network: Any, twin: Any) -> Any:
        return type(optimizer).from_config(optimizer.get_config())

    def count_left_out(self, optimizers: Mapping[str, Any]) -> int:
        return sum(optimizer.num_skipped for optimizer in optimizers.values())

    def discard_parts(self, optimizers: Mapping[str, Any]) -> bool:
        answers = [optimizer.discard_parts() for optimizer in optimizers.values()]  # asks every one of them
        return all(answers)

    def finish_epoch(self, optimizers: Mapping[str, Any]) -> None:
        for optimizer in optimizers.values():
            optimizer.flush()

    def not_resumable(self, network: Any) -> str | None:
        if runtime_of(network).draws:
            return (
                "the compiled step draws with operations like tf.random.normal or tf.nn.dropout (use "
                "keras.random with a keras.random.SeedGenerator, or keras.layers.Dropout), which"
            )
        return None


_NOTHING = contextlib.nullcontext()
step_scope = builders.step_scope

BACKEND = TfBackend()
