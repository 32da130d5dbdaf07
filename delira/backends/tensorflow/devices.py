"""Devices of TensorFlow, their memory, threads and algorithms.

Of several, each computes with its share of the samples, and tf.distribute keeps their weights equal.
"""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.losses import loss as keras_losses
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from tensorflow.python.framework import config as settings

from delira.backends.tensorflow.arrays import TfArrays
from delira.backends.tensorflow.runtime import (
    generators_of,
    in_share,
    layers_of,
    refuse_foreign,
    runtime_of,
    variables_of,
)
from delira.contract import TARGET_FIRST, Array, ByName, Devices, DevicesRole, Tree
from delira.contract.devices import asked_for
from delira.contract.process_settings import Setting
from delira.errors import ConfigError

_NAME = re.compile(r"/?(?:device:)?(cpu|gpu|cuda)(?::(\d+(?:,\d+)*))?", re.IGNORECASE)


def _write_determinism(is_on: bool) -> None:
    tf.config.experimental.enable_op_determinism() if is_on else settings.disable_op_determinism()


def _visible_gpus() -> list[str] | None:
    """Names of the GPUs that a program has left visible; ``None``: all, or there are none."""
    visible = [gpu.name for gpu in tf.config.get_visible_devices("GPU")]
    return None if len(visible) == len(tf.config.list_physical_devices("GPU")) else visible


def _show_gpus(names: list[str] | None) -> None:
    there = tf.config.list_physical_devices("GPU")
    shown = there if names is None else [gpu for gpu in there if gpu.name in names]
    if shown or not names:  # else the process was dealt others, and sees them alone
        tf.config.set_visible_devices(shown, "GPU")


_SETTINGS = {
    # before anything is computed: it cannot be changed then
    "visible_gpus": Setting(_visible_gpus, _show_gpus, None, is_told=False),
    "floatx": Setting(keras.config.floatx, keras.config.set_floatx, "float32"),
    "dtype_policy": Setting(lambda: keras.config.dtype_policy().name, keras.config.set_dtype_policy, "float32"),
    "image_data_format": Setting(keras.config.image_data_format, keras.config.set_image_data_format, "channels_last"),
    "epsilon": Setting(keras.config.epsilon, keras.config.set_epsilon, 1e-7),
    "tensor_float_32": Setting(
        tf.config.experimental.tensor_float_32_execution_enabled,
        tf.config.experimental.enable_tensor_float_32_execution,
        True,
    ),
    "op_determinism": Setting(settings.is_op_determinism_enabled, _write_determinism, False),
    "run_functions_eagerly": Setting(tf.config.functions_run_eagerly, tf.config.run_functions_eagerly, False),
    "jit": Setting(tf.config.optimizer.get_jit, lambda value: tf.config.optimizer.set_jit(value or False), ""),
}


class TfDevices(DevicesRole):
    """Devices of TensorFlow."""

    process_settings = _SETTINGS

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
        if (cls := loss_class(function)) is not None:
            raise ConfigError(
                f"losses[{name!r}] is the function keras.losses.{function.__name__}, which takes the target first and "
                f"gives a value for each sample; pass an object: keras.losses.{cls.__name__}(…)"
            )


def loss_class(function: Any) -> Any:
    """The class of ``keras.losses`` whose objects are the mean of a function there; None of any other function."""
    name = getattr(function, "__name__", "")
    if not inspect.isfunction(function) or getattr(keras.losses, name, None) is not function:
        return None
    found = (cls for cls in dir(keras.losses) if cls != name and cls.lower() == name.replace("_", ""))
    return getattr(keras.losses, next(found, "Loss"))


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


# ------------------------------------------------------------------ several devices

_HOST = "/CPU:0"


class Several(str):
    """Where a batch goes that several devices share out; as a text, where it waits for that.

    Parameters
    ----------
    devices
        Names of the devices, e.g. ``("/GPU:0", "/GPU:1")``.
    """

    devices: tuple[str, ...]

    def __new__(cls, devices: Sequence[str]) -> "Several":
        self = super().__new__(cls, _HOST)
        self.devices = tuple(devices)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Several) and self.devices == other.devices

    def __hash__(self) -> int:
        return hash(self.devices)


@functools.cache
def strategy_for(devices: tuple[str, ...]) -> Any:
    """The strategy of devices; one for all networks, since weights know theirs."""
    # gradients are added by this backend; this is for what a layer assigns, e.g. statistics of batches
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


def mirrored(value: Tree, strategy: Any, name: str) -> Any:
    """A variable on every device, with the value of one that there is."""
    # what a layer assigns is computed from its share of the batch
    kinds = tf.VariableAggregation
    how = kinds.MEAN if value.dtype.is_floating else kinds.ONLY_FIRST_REPLICA
    with strategy.scope():
        return tf.Variable(value.read_value(), trainable=value.trainable, dtype=value.dtype, name=name, aggregation=how)


def share_number() -> int:
    """Which share of a batch is computed here."""
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))


def of_this_share(values: list[Any]) -> list[Any]:
    """Those of some tensors that were computed on the device of this share."""
    if not in_share():
        return values
    own = place_of(tf.distribute.get_strategy().extended.worker_devices[share_number()])
    return [value for value in values if place_of(value.device) == own]


def place_of(device: str) -> tuple[str, int]:
    """The kind and the number of a device, however it is written."""
    found = tf.DeviceSpec.from_string(device)
    return found.device_type, found.device_index


class Shares:
    """A batch, cut.

    A batch of fewer samples than devices is computed whole by each of them.

    Parameters
    ----------
    tree
        Tensors; what has as many entries as there are samples is cut, the rest is whole in every share.
    n_samples
        Number of samples; that of the first tensor that is no single number if None.
    strategy
        Of the devices.
    """

    def __init__(self, tree: Tree, n_samples: Any, strategy: Any):
        self._strategy, number = strategy, strategy.num_replicas_in_sync
        with tf.device(_HOST):  # or the whole batch would go to the first device
            if n_samples is None:
                sized = [leaf for leaf in tf.nest.flatten(tree) if leaf.shape.rank]
                n_samples = tf.shape(sized[0])[0] if sized else 0
            self._n_samples = tf.cast(n_samples, tf.int32)
            is_whole = self._n_samples < number
            bounds = [self._n_samples * i // number for i in range(number + 1)]
            starts = [tf.where(is_whole, 0, bound) for bound in bounds[:-1]]
            stops = [tf.where(is_whole, self._n_samples, bound) for bound in bounds[1:]]
            self.trees = [_cut(tree, self._n_samples, *edges) for edges in zip(starts, stops, strict=True)]
        sizes = [tf.cast(stop - start, tf.float32) for start, stop in zip(starts, stops, strict=True)]
        self.weights = [size / tf.maximum(tf.add_n(sizes), 1.0) for size in sizes]
        """Part of each share in a mean over samples; 0-d float32 tensors."""

    def compute(self, function: Callable[[Any], Any]) -> list[Any]:
        """What a function of a tree gives for each share, on its device."""
        results: list[Any] = [None] * len(self.trees)
        generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)  # of the thread

        def replica() -> None:
            global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, generator)
            number = share_number()
            results[number] = function(self.trees[number])

        # Keras divides a loss of its own by the number of devices, for sums over devices; here shares are weighed by
        # their samples, so that it has to be the mean over its share, as every other loss is
        scale = keras_losses.scale_loss_for_distribution
        keras_losses.scale_loss_for_distribution = lambda value: value
        try:
            self._strategy.run(replica)
        finally:
            keras_losses.scale_loss_for_distribution = scale
        return results

    def mean(self, values: Sequence[ByName]) -> dict[str, Any]:
        """Values of the whole batch out of those of the shares."""

        def mean(parts: list[Any]) -> tf.Tensor:
            dtype = parts[0].dtype if parts[0].dtype.is_floating else tf.float32
            return tf.add_n([tf.cast(p, dtype) * tf.cast(w, dtype) for p, w in zip(parts, self.weights, strict=True)])

        return {name: mean([tf.convert_to_tensor(value[name]) for value in values]) for name in values[0]}

    def join(self, outputs: Sequence[Any]) -> Any:
        """Outputs for the whole batch, samples first, out of those of the shares."""
        whole = self._n_samples < len(self.trees)

        def cut(leaf: object) -> Any:
            if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank:
                return leaf
            n_rows = tf.shape(leaf)[0]
            return leaf[: tf.where(whole, n_rows // len(self.trees), n_rows)]

        return tf.nest.map_structure(cut, TfArrays.concatenate(outputs))


def _cut(tree: Tree, n_samples: Any, start: Any, stop: Any) -> Any:
    def cut(leaf: Array) -> Any:
        if not leaf.shape.rank:
            return leaf
        length = tf.shape(leaf)[0]
        has_samples = tf.equal(length, n_samples)
        return leaf[tf.where(has_samples, start, 0) : tf.where(has_samples, stop, length)]

    return tf.nest.map_structure(cut, tree)


def together(function: Callable[[list[Any]], None], values: list[Any]) -> None:
    """Call a function once for all shares, with the sum of each value; every share comes here.

    Parameters
    ----------
    function
        Of the sums; it changes weights on all devices.
    values
        Tensors of this share.
    """

    def merged(strategy: Any, *each: Any) -> None:
        function([tf.add_n(strategy.experimental_local_results(value)) for value in each])

    tf.distribute.get_replica_context().merge_call(merged, args=tuple(values))


@contextlib.contextmanager
def updating(strategy: Any) -> Iterator[None]:
    """Scope in which a Keras optimizer, given whole gradients, updates the weights of all devices."""
    if strategy is None:
        yield
        return
    extended = strategy.extended
    with contextlib.nullcontext() if tf.distribute.get_strategy() is strategy else strategy.scope():
        # Keras would go from each share to all of them with its own sum; here are all of them already
        extended._use_merge_call = lambda: False
        try:
            yield
        finally:
            del extended._use_merge_call
