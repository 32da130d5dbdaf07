"""Devices of TensorFlow."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import config as settings

from delira.backends.tensorflow.names import layers_of
from delira.backends.tensorflow.runtime import runtime_of
from delira.contract import TARGET_FIRST, Devices
from delira.errors import ConfigError

_NAME = re.compile(r"/?(?:device:)?(cpu|gpu|cuda)(?::(\d+))?", re.IGNORECASE)


def resolve_devices(gpu_ids: Sequence[int], device: str | None) -> Devices:
    """Devices of inputs and targets; memory of GPUs is taken as it is needed, not all at once.

    Parameters
    ----------
    gpu_ids
        Historic spelling: empty for the CPU, ``[i]`` for one GPU.
    device
        ``"auto"`` (the first GPU if there is one), ``"cpu"``, ``"gpu"``, ``"gpu:1"`` or ``"cuda:1"``.

    Raises
    ------
    ConfigError
        If both are given, if the device is unknown or not there, or if several GPUs are asked for.
    """
    gpu_ids = list(gpu_ids)
    if gpu_ids and device is not None:
        raise ConfigError(f"gpu_ids={gpu_ids} and device={device!r} say the same; give only one of them")
    if len(gpu_ids) > 1:
        raise ConfigError(
            f"gpu_ids={gpu_ids} asks for several GPUs, on which the TensorFlow room does not train yet; "
            f"use gpu_ids=[{gpu_ids[0]}]"
        )
    asked = f"gpu_ids={gpu_ids}" if gpu_ids else f"device={device!r}"
    if gpu_ids:
        device = f"gpu:{gpu_ids[0]}"
    _grow_memory()
    if device == "auto":
        device = "gpu:0" if tf.config.list_physical_devices("GPU") else "cpu"
    found = _NAME.fullmatch(device or "cpu")
    if found is None:
        raise ConfigError(f"{asked} is no device of TensorFlow; use 'cpu', 'gpu', 'gpu:1' or 'auto'")
    kind, number = "CPU" if found[1].lower() == "cpu" else "GPU", int(found[2] or 0)
    there = tf.config.list_logical_devices(kind)
    if not there:
        raise ConfigError(
            f"{asked} was asked for, but TensorFlow sees no GPU; leave gpu_ids empty, or use device='cpu' or 'auto'"
        )
    if number >= len(there):
        raise ConfigError(f"{asked} was asked for, but TensorFlow sees only {len(there)} {kind}(s)")
    return Devices(f"/{kind}:{number}", f"/{kind}:{number}")


def _grow_memory() -> None:
    for gpu in tf.config.list_physical_devices("GPU"):
        with contextlib.suppress(RuntimeError):  # in use already: the user's choice stays
            if tf.config.experimental.get_memory_growth(gpu) is not True:
                tf.config.experimental.set_memory_growth(gpu, True)


def devices_of(network: Any) -> Devices:
    """Where the network is."""
    device = runtime_of(network).device
    if device is None:
        first = next(iter(network.variables), None)
        found = None if first is None else tf.DeviceSpec.from_string(first.value.device)
        device = "/CPU:0" if found is None else f"/{found.device_type}:{found.device_index}"
    return Devices(device, device)


def place(network: Any, losses: Mapping[str, Any], devices: Devices) -> Any:
    """Move the variables of a network, which Keras creates on the first GPU; note which losses are Keras' own."""
    for loss in losses.values():
        if isinstance(loss, keras.losses.Loss):
            setattr(loss, TARGET_FIRST, True)
    wanted = tf.DeviceSpec.from_string(devices.input)
    for variable in _variables(network):
        value = variable.value
        at = tf.DeviceSpec.from_string(value.device)
        if (at.device_type, at.device_index) != (wanted.device_type, wanted.device_index):
            with tf.device(devices.input):
                variable._value = tf.Variable(
                    value.read_value(), trainable=value.trainable, dtype=value.dtype, name=variable.name
                )
    runtime_of(network).device = devices.input
    runtime_of(network).forward = None
    return network


def _variables(network: Any) -> list[Any]:
    layers = layers_of(network)
    own = [v for layer in layers for v in (*layer._trainable_variables, *layer._non_trainable_variables)]
    return [*own, *(generator.state for layer in layers for generator in layer._seed_generators)]


@contextlib.contextmanager
def threads(number: int | None) -> Iterator[None]:
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
                f"changed; call tf.config.threading.set_intra_op_parallelism_threads({number}) when the program begins"
            ) from error
    yield


def thread_count() -> int | None:
    """Number of CPU threads, if it was set."""
    return tf.config.threading.get_intra_op_parallelism_threads() or None


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Scope in which an operation gives the same bits every time, or raises; the setting is restored on exit."""
    was_on = settings.is_op_determinism_enabled()
    tf.config.experimental.enable_op_determinism()
    try:
        yield
    finally:
        if not was_on:
            settings.disable_op_determinism()


def explain(error: BaseException) -> str | None:
    """The note for an error of an operation that is not deterministic; ``None`` for any other error."""
    if isinstance(error, (tf.errors.UnimplementedError, RuntimeError)) and "determinis" in str(error).lower():
        return (
            "TensorFlow has no deterministic form of this operation on this device: replace it in the network, the "
            "losses or the closure, or train with deterministic=False"
        )
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of the device did not suffice."""
    return isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError))
