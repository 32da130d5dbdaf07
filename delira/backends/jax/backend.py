"""The backend of JAX."""

from delira.backends.jax import arrays, calls, checkpoints, devices, export, generators, optimizers, step, weights
from delira.backends.jax.schedules import SCHEDULES
from delira.backends.jax.tools import FreeImage, trace
from delira.contract import Backend
from delira.contract.backend import roles_in


class JaxBackend(Backend):
    """JAX, with networks of flax and optimizers of optax."""

    name = "jax"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractJaxNetwork"
    packages = ("jax", "flax", "optax")
    channels_last = True
    compiles = True
    schedules = SCHEDULES
    trace = staticmethod(trace)
    free_image = FreeImage
    roles = roles_in(arrays, calls, checkpoints, devices, export, generators, optimizers, step, weights)


BACKEND = JaxBackend()
