"""Devices of JAX: one, or several that share the samples of a batch."""

import contextlib
import enum
import functools
import gc
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from delira.backends.jax import graph
from delira.contract import ByName, Devices, DevicesRole, Scope
from delira.contract.devices import asked_for
from delira.contract.process_settings import Setting
from delira.errors import ConfigError

#: what JAX has in a process that nobody has set anything in
_USUAL = {
    "jax_enable_x64": False,
    "jax_explicit_x64_dtypes": "warn",
    "jax_default_matmul_precision": None,
    "jax_numpy_dtype_promotion": "standard",
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_high_dynamic_range_gumbel": False,
    "jax_softmax_custom_jvp": False,
    "jax_allow_f16_reductions": True,
    "jax_disable_jit": False,
}


_PLATFORMS, _DEFAULT_DEVICE = "jax_platforms", "jax_default_device"


def _setting(name: str) -> Setting:
    def read() -> Any:
        found = getattr(jax.config, name)
        return found.name.lower() if isinstance(found, enum.Enum) else found

    return Setting(read, functools.partial(jax.config.update, name), _USUAL[name])


def _platforms() -> str | None:
    """What a program has said; ``None``: what the environment says, which each machine has its own of."""
    said = getattr(jax.config, _PLATFORMS)
    return None if said == (os.environ.get("JAX_PLATFORMS") or None) else said


def _set_platforms(said: str | None) -> None:
    jax.config.update(_PLATFORMS, said or os.environ.get("JAX_PLATFORMS") or None)


def _default_device() -> str | None:
    device = getattr(jax.config, _DEFAULT_DEVICE)
    return f"{device.platform}:{device.id}" if isinstance(device, jax.Device) else device


def _set_default_device(name: str | None) -> None:
    platform, colon, number = (name or "").partition(":")
    device: Any = name
    if colon:
        there = jax.local_devices(backend=platform)
        # where a process was dealt one device of several, that is the first
        device = next((one for one in there if one.id == int(number)), there[0])
    jax.config.update(_DEFAULT_DEVICE, device)


_SETTINGS = {
    _PLATFORMS: Setting(_platforms, _set_platforms, None, is_told=False),  # before anything else looks for devices
    **{name: _setting(name) for name in _USUAL},
    _DEFAULT_DEVICE: Setting(_default_device, _set_default_device, None, is_told=False),
}


class JaxDevices(DevicesRole):
    """Devices of JAX."""

    process_settings: ClassVar[Mapping[str, Setting]] = _SETTINGS

    def resolve(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        """Devices of inputs and targets.

        Parameters
        ----------
        gpu_ids
            Historic spelling: empty for the CPU, ``[i]`` for one GPU, several for a batch that is shared out.
        device
            ``"auto"`` (the first accelerator if there is one), ``"cpu"``, ``"gpu"`` or ``"cuda"``, ``"tpu"``; with a
            number (``"gpu:1"``), or several numbers for a batch that is shared out (``"gpu:0,1"``).

        Returns
        -------
        Devices
            A ``jax.Device``, or the sharding of batches over several.

        Raises
        ------
        ConfigError
            If both are given, or if a device is unknown or not there.
        """
        gpu_ids = list(gpu_ids)
        asked = asked_for(gpu_ids, device)
        if device == "auto":
            found = jax.devices()[:1]
        elif gpu_ids:
            found = _numbered("gpu", gpu_ids, asked)
        else:
            platform, _, numbers = (device or "cpu").partition(":")
            try:
                wanted = [int(number) for number in numbers.split(",")] if numbers else [0]
            except ValueError as error:
                raise ConfigError(f"{asked} is no device of JAX; write e.g. 'gpu', 'gpu:1' or 'gpu:0,1'") from error
            found = _numbered("gpu" if platform == "cuda" else platform, wanted, asked)
        place: Any = found[0] if len(found) == 1 else shared_out(found)
        return Devices(place, place)

    def of(self, network: nnx.Module) -> Devices:
        sharding = next((v.get_raw_value().sharding for v in graph.state_variables(network).values()), None)
        place: Any = jax.local_devices(backend="cpu")[0]
        if isinstance(sharding, NamedSharding) and len(sharding.device_set) > 1:
            place = shared_out(list(sharding.mesh.devices.flat))
        elif sharding is not None:
            place = next(iter(sharding.device_set))
        return Devices(place, place)

    def place(self, network: nnx.Module, losses: ByName, devices: Devices) -> Any:
        place = replicated(devices.input)
        for leaf in graph.take_apart(network).leaves:
            if isinstance(leaf, nnx.Variable):
                leaf.set_raw_value(jax.tree.map(lambda array: jax.device_put(array, place), leaf.get_raw_value()))
        return network

    def threads(self, number: int | None) -> Scope:
        if number is not None:
            raise ConfigError(
                f"num_threads={number}: JAX chooses its threads when it starts, and cannot change them; leave "
                f"num_threads out, and start Python on as many CPUs (taskset --cpu-list 0-{number - 1} python …)"
            )
        return contextlib.nullcontext()

    def synchronize(self, devices: Devices) -> None:
        for device in _each(devices.input):
            (jax.device_put(jnp.zeros(()), device) + 0).block_until_ready()

    def memory(self, devices: Devices) -> int | None:
        told = [stats["bytes_in_use"] for device in _each(devices.input) if (stats := device.memory_stats())]
        return sum(told) if told else None

    def deterministic(self) -> Scope:
        if jax.default_backend() == "gpu" and "--xla_gpu_deterministic_ops=true" not in os.environ.get("XLA_FLAGS", ""):
            raise ConfigError(
                "deterministic=True: JAX chooses its algorithms for the GPU when it starts; set "
                "XLA_FLAGS=--xla_gpu_deterministic_ops=true in the environment before Python starts"
            )
        return contextlib.nullcontext()

    def is_out_of_memory(self, error: BaseException) -> bool:
        if isinstance(error, jax.errors.JaxRuntimeError):
            return "RESOURCE_EXHAUSTED" in str(error) or "out of memory" in str(error).lower()
        return isinstance(error, MemoryError)

    def free_memory(self) -> None:
        gc.collect()


def _each(place: object) -> list[jax.Device]:
    return list(place.mesh.devices.flat) if isinstance(place, NamedSharding) else [place]


def _numbered(platform: str, numbers: list[int], asked: str) -> list[jax.Device]:
    try:
        devices = jax.local_devices(backend=platform)
    except RuntimeError as error:
        there = sorted({device.platform for device in jax.devices()} | {"cpu"})
        raise ConfigError(
            f"{asked} was asked for, but JAX sees only {', '.join(there)}; leave gpu_ids empty, or use device='cpu' or "
            "'auto'"
        ) from error
    if len(set(numbers)) != len(numbers) or not all(0 <= number < len(devices) for number in numbers):
        raise ConfigError(f"{asked} was asked for, but JAX sees only {len(devices)} device(s) of that kind")
    return [devices[number] for number in numbers]


def shared_out(devices: Sequence[jax.Device]) -> NamedSharding:
    """The sharding of arrays whose samples are shared out to devices."""
    return NamedSharding(Mesh(np.array(devices), ("batch",)), PartitionSpec("batch"))


def replicated(place: object) -> Any:
    """Where weights are, for batches that are at ``place``: on every device."""
    return NamedSharding(place.mesh, PartitionSpec()) if isinstance(place, NamedSharding) else place


def put(array: jax.Array, place: object) -> jax.Array:
    """An array of a batch on its device; on several, on each of them whole if the samples cannot be shared out."""
    if isinstance(place, NamedSharding) and (not array.ndim or len(array) % place.mesh.size):
        return jax.device_put(array, replicated(place))
    # where arrays go anyway: half the time of device_put
    if isinstance(array, np.ndarray) and place == jax.devices()[0]:
        return jnp.asarray(array)
    return jax.device_put(array, place)
