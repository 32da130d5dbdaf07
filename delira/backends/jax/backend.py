"""The backend of JAX."""

from typing import ClassVar

from delira.backends.jax import schedules, tools
from delira.backends.jax.arrays import JaxArrays
from delira.backends.jax.calls import JaxCalls
from delira.backends.jax.checkpoints import JaxCheckpoints
from delira.backends.jax.devices import JaxDevices
from delira.backends.jax.export import JaxExport
from delira.backends.jax.generators import JaxGenerators
from delira.backends.jax.optimizers import JaxOptimizers
from delira.backends.jax.step import JaxStep
from delira.backends.jax.weights import JaxWeights
from delira.contract import Backend, Role


class JaxBackend(Backend):
    """JAX, with networks of flax and optimizers of optax."""

    name = "jax"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractJaxNetwork"
    packages = ("jax", "flax", "optax")
    channels_last = True
    compiles = True
    schedules = schedules.SCHEDULES
    trace = staticmethod(tools.trace)
    free_image = tools.FreeImage
    roles: ClassVar[tuple[type[Role], ...]] = (
        JaxDevices,
        JaxCalls,
        JaxStep,
        JaxOptimizers,
        JaxArrays,
        JaxGenerators,
        JaxWeights,
        JaxCheckpoints,
        JaxExport,
    )


BACKEND = JaxBackend()
