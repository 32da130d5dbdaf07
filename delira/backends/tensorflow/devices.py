"""Devices of TensorFlow, their memory and threads, and deterministic algorithms on them."""

import contextlib
import functools
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import config as settings

from delira.backends.tensorflow.replicas import Several, mirrored, place_of, strategy_for
from delira.backends.tensorflow.runtime import generators_of, layers_of, refuse_foreign, runtime_of, variables_of
from delira.contract import TARGET_FIRST, ByName, Devices, DevicesRole
from delira.contract.devices import asked_for
from delira.errors import ConfigError

_NAME = re.compile(r"/?(?:device:)?(cpu|gpu|cuda)(?::(\d+(?:,\d+)*))?", re.IGNORECASE)


class TfDevices(DevicesRole):
    """Devices of TensorFlow."""

    def resolve(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        """Devices of inputs and targets; memory of GPUs is taken as it is needed, not all at once.

        Parameters
        ----------
        gpu_ids
            Historic spelling: empty for the CPU, ``[i]`` for one GPU, several for a batch that is shared out.
        device
            ``"auto"`` (the first GPU if there is one), ``"cpu"``, ``"gpu"``, ``"gpu:1"`` or ``"cuda:1"``; with several
            numbers (``"gpu:0,1"``) for a batch that is shared out.

        Raises
        ------
        ConfigError
            If both are given, or if a device is unknown or not there.
        """
        gpu_ids = list(gpu_ids)
        asked = asked_for(gpu_ids, device)
        if gpu_ids:
            device = f"gpu:{','.join(map(str, gpu_ids))}"
        for gpu in tf.config.list_physical_devices("GPU"):
            with contextlib.suppress(RuntimeError):  # in use already: the user's choice stays
                if tf.config.experimental.get_memory_growth(gpu) is not True:
                    tf.config.experimental.set_memory_growth(gpu, True)
        if device == "auto":
            device = "gpu:0" if tf.config.list_physical_devices("GPU") else "cpu"
        found = _NAME.fullmatch(device or "cpu")
        if found is None:
            raise ConfigError(f"{asked} is no device of TensorFlow; use 'cpu', 'gpu', 'gpu:1', 'gpu:0,1' or 'auto'")
        kind = "CPU" if found[1].lower() == "cpu" else "GPU"
        numbers = [int(number) for number in (found[2] or "0").split(",")]
        there = tf.config.list_logical_devices(kind)
        if not there:
            raise ConfigError(
                f"{asked} was asked for, but TensorFlow sees no GPU; leave gpu_ids empty, or use device='cpu' or 'auto'"
            )
        if max(numbers) >= len(there) or len(set(numbers)) != len(numbers):
            raise ConfigError(f"{asked} was asked for, but TensorFlow sees only {len(there)} {kind}(s)")
        names = [f"/{kind}:{number}" for number in numbers]
        where = names[0] if len(names) == 1 else Several(names)
        return Devices(where, where)

    def of(self, network: keras.Model) -> Devices:
        runtime = runtime_of(network)
        device = runtime.several or runtime.device
        if device is None:
            kind, number = next((place_of(one.value.device) for one in network.variables), ("CPU", 0))
            device = f"/{kind}:{number}"
        return Devices(device, device)

    def place(self, network: keras.Model, losses: ByName, devices: Devices) -> Any:
        """Move the weights of a network, which Keras creates on the first GPU; note which losses are Keras' own."""
        refuse_foreign(network)
        for loss in map(inspect.unwrap, losses.values()):  # one may be inside of another
            if isinstance(loss, keras.losses.Loss):
                setattr(loss, TARGET_FIRST, True)
        runtime = runtime_of(network)
        several = devices.input if isinstance(devices.input, Several) else None
        runtime.several, runtime.device = several, several.devices[0] if several else devices.input
        runtime.strategy = None if several is None else strategy_for(several.devices)
        runtime.forward = None
        settle(network)
        return network

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        """Scope in which TensorFlow computes with a number of threads; it is fixed when TensorFlow is first used.

        Raises
        ------
        ConfigError
            If TensorFlow is in use with another number.
        """
        threading = tf.config.threading
        if number is not None and threading.get_intra_op_parallelism_threads() != number:
            try:
                threading.set_intra_op_parallelism_threads(number)
                threading.set_inter_op_parallelism_threads(number)
            except RuntimeError as error:
                have = threading.get_intra_op_parallelism_threads() or "its own choice of"
                raise ConfigError(
                    f"num_threads={number} comes too late: TensorFlow is in use with {have} threads, which cannot be "
                    f"changed; call tf.config.threading.set_intra_op_parallelism_threads({number}) when the program "
                    "begins"
                ) from error
        yield

    def thread_count(self) -> int | None:
        return tf.config.threading.get_intra_op_parallelism_threads() or None

    def synchronize(self, devices: Devices) -> None:
        tf.test.experimental.sync_devices()

    def memory(self, devices: Devices) -> int | None:
        names = devices.input.devices if isinstance(devices.input, Several) else [devices.input]
        gpus = [name.strip("/") for name in names if "GPU" in name.upper()]
        return sum(tf.config.experimental.get_memory_info(gpu)["current"] for gpu in gpus) if gpus else None

    @contextlib.contextmanager
    def deterministic(self) -> Iterator[None]:
        was_on = settings.is_op_determinism_enabled()
        tf.config.experimental.enable_op_determinism()
        try:
            yield
        finally:
            if not was_on:
                settings.disable_op_determinism()

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError))


def refuse_functions(losses: ByName) -> None:
    """Refuse functions of ``keras.losses``: they take the target first, and give a value for each sample.

    Raises
    ------
    ConfigError
        Naming the class to use.
    """
    for name, loss in losses.items():
        function = loss.func if isinstance(loss, functools.partial) else loss
        own = getattr(function, "__name__", "")
        if not inspect.isfunction(function) or getattr(keras.losses, own, None) is not function:
            continue
        classes = [cls for cls in dir(keras.losses) if cls != own and cls.lower() == own.replace("_", "")]
        raise ConfigError(
            f"losses[{name!r}] is the function keras.losses.{own}, which takes the target first and gives a value for "
            f"each sample; pass an object: keras.losses.{''.join(classes[:1]) or 'Loss'}(…)"
        )


def settle(network: keras.Model) -> None:
    """Bring weights to the devices of the network, e.g. when they have got their shapes."""
    runtime = runtime_of(network)
    for layer in layers_of(network):
        for variable in variables_of(layer):
            if runtime.strategy is None:
                _move(variable, runtime.device)
            elif getattr(variable.value, "distribute_strategy", None) is not runtime.strategy:
                variable._value = mirrored(variable.value, runtime.strategy, variable.name)
    # shares draw one after the other from the same generator, so that each draws something else
    for generator in generators_of(network):
        _move(generator.state, runtime.device)


def _move(variable: Any, device: Any) -> None:
    value, name = variable.value, variable.name
    if isinstance(value, tf.distribute.DistributedValues) or place_of(value.device) != place_of(device):
        with tf.device(device):
            variable._value = tf.Variable(value.read_value(), trainable=value.trainable, dtype=value.dtype, name=name)
