"""Networks that are modules of ``flax.nnx``."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax.backend import BACKEND
from delira.backends.jax.devices import put
from delira.backends.jax.generators import GENERATOR
from delira.contract import ByName, backend_default, default_closure
from delira.errors import DataError, NetworkError
from delira.models.abstract_network import AbstractNetwork
from delira.utils.arrays import map_leaves, refuse_complex


class _MadeByInit:
    """Stands where ``__init__`` puts the random streams; a layer that asks before would get a message of no help."""

    def __get__(self, network: nnx.Module, cls: type) -> Any:
        if network is None:
            return self
        raise NetworkError(f"{cls.__name__}.__init__ must call super().__init__() first")


class AbstractJaxNetwork(AbstractNetwork, nnx.Module):
    """A network of flax: write ``__init__`` and ``__call__``, which returns a dict of named outputs.

    After ``super().__init__`` there is ``self.rngs``, seeded by the experiment, for the layers: ``rngs=self.rngs``.
    At every step all random streams of the network (``nnx.Dropout``, ``self.rngs.noise()``) begin anew with a key
    made of the seed and the number of the step, so they are no part of its state.

    The default :meth:`closure` feeds ``key_mapping`` to ``__call__``, calls every loss as
    ``loss(pred, label)`` (``loss_keys`` says otherwise) and updates with the optimizer ``"default"``. Steps are
    compiled: a closure is Python that is traced. It may not keep values for later, or decide by them.

    A weight is frozen by its metadata: ``network.body.kernel.set_metadata(frozen=True)``.

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.

    Examples
    --------
    >>> class Net(AbstractJaxNetwork):
    ...     def __init__(self, n_features: int, n_classes: int):
    ...         super().__init__(n_features=n_features, n_classes=n_classes)
    ...         self.linear = nnx.Linear(n_features, n_classes, rngs=self.rngs)
    ...
    ...     def __call__(self, x):
    ...         return {"pred": self.linear(x)}
    """

    __delira_backend__ = BACKEND

    rngs = _MadeByInit()

    def __init__(self, **kwargs: Any) -> None:
        object.__setattr__(self, "init_kwargs", _Arguments(kwargs))
        self.rngs = nnx.Rngs(GENERATOR.next_key())

    @staticmethod
    @backend_default
    def prepare_batch(batch: ByName, input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make arrays of JAX of a batch, without changing it.

        Parameters
        ----------
        batch
            Arrays by name.
        input_device
            Where ``"data"`` goes: a ``jax.Device``, or the sharding of batches over several.
        output_device
            Where every other entry goes.

        Returns
        -------
        dict
            ``"data"`` as float32. Other entries keep integer and boolean types, of which JAX has those of 32 bit;
            float64 becomes float32. What is no array (e.g. a file name) passes as it is.

        Raises
        ------
        DataError
            If an integer does not fit into 32 bit.
        """
        inputs, others = _place(input_device), _place(output_device)
        return {
            key: map_leaves(functools.partial(_to_array, key=key, place=inputs if key == "data" else others), value)
            for key, value in batch.items()
        }

    closure = staticmethod(default_closure(BACKEND))


class _Arguments(dict[str, Any]):
    """Arguments of a network; flax compares and hashes what a module keeps besides arrays."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self))

    def __eq__(self, other: object) -> bool:
        try:
            return bool(dict.__eq__(self, other))  # type: ignore[arg-type]
        except (TypeError, ValueError):  # arrays among them
            return self is other

    __ne__: Callable[..., bool] = object.__ne__


def _place(device: object) -> Any:
    """The device; by its name too."""
    return BACKEND.devices.resolve((), device).input if isinstance(device, str) else device


def _to_array(value: object, key: str, place: object) -> Any:
    if isinstance(value, jax.Array):
        refuse_complex(key == "data" and value.dtype.kind == "c")
        wanted = jnp.float32 if key == "data" and value.dtype != jnp.float32 else value.dtype
        return put(value.astype(wanted), place)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc" or isinstance(value, (str, bytes)):
        return put(value, place) if array.dtype.name == "bfloat16" else value
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and key != "data":
        limits = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
        if array.size and (array.max() > limits.max or array.min() < limits.min):
            raise DataError(
                f"batch entry {key!r} holds integers that do not fit into 32 bit, and JAX has no others (unless "
                "jax_enable_x64 is set); make them smaller, or floating-point numbers"
            )
    refuse_complex(key == "data" and array.dtype.kind == "c")
    own = np.float32 if key == "data" or array.dtype == np.float64 else array.dtype.newbyteorder("=")
    dtype = jax.dtypes.canonicalize_dtype(own)
    # a copy: the device may read it while the host already fills the memory of the next batch
    return put(np.array(array, dtype=dtype), place)
