"""Networks that are ``keras.Model``s."""

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.backend import BACKEND
from delira.backends.tensorflow.checkpoints import finish_building
from delira.backends.tensorflow.devices import of_this_share
from delira.backends.tensorflow.runtime import calls, runtime_of
from delira.backends.tensorflow.step import as_float32
from delira.contract import ByName, backend_default, default_closure
from delira.models.abstract_network import AbstractNetwork
from delira.utils.arrays import map_leaves, refuse_complex


class AbstractTfNetwork(AbstractNetwork, keras.Model):
    """A Keras model: write ``__init__`` and ``call``, which returns a dict of named outputs.

    The default :meth:`closure` feeds ``key_mapping`` to ``call``, calls every loss as ``loss(pred, label)``
    (``loss_keys`` says otherwise; a ``keras.losses.Loss`` gets the target first, as Keras has it), adds what layers
    add to the loss (regularisation) and updates with the optimizer ``"default"``. Whether layers learn or predict
    follows the trainer, with or without an argument ``training``.

    A step is compiled: its Python runs once for each kind of batch, with tensors that have no values, and an open
    number of samples (``tf.shape(x)[0]``). ``compiled=False`` runs it as it is, e.g. to debug.

    A network with several optimizers (a GAN) has a closure of its own and says in ``optim_fn`` what each trains::

        def optimizers(network, cls, **params):
            return {"gen": (cls(**params), network.gen), "discr": (cls(**params), network.discr)}

        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            with tf.GradientTape() as tape:
                loss = …
            optimizers["discr"].minimize(loss, tape)
            …

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.

    Examples
    --------
    >>> class Net(AbstractTfNetwork):
    ...     def __init__(self, n_classes: int):
    ...         super().__init__(n_classes=n_classes)
    ...         self.dense = keras.layers.Dense(n_classes)
    ...
    ...     def call(self, x):
    ...         return {"pred": self.dense(x)}
    """

    __delira_backend__ = BACKEND

    def __init__(self, **kwargs: Any) -> None:
        keras.Model.__init__(self)
        AbstractNetwork.__init__(self, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Predict, in the mode of the scope around it."""
        runtime = runtime_of(self)
        if runtime.waiting is not None:  # the first call gives weights their shapes
            self.call_untouched(*args, **kwargs)
            finish_building(self)
        with calls(self, runtime.mode):
            outputs = self.call_untouched(*args, **kwargs)
        return map_leaves(as_float32, outputs) if runtime.is_mixed else outputs

    @property
    def losses(self) -> list[Any]:
        """What the layers add to the loss; of several devices, on the one that computes."""
        return of_this_share(super().losses)

    def call_untouched(self, *args: Any, **kwargs: Any) -> Any:
        """Call as Keras does."""
        return keras.Model.__call__(self, *args, **kwargs)

    @staticmethod
    @backend_default
    def prepare_batch(batch: ByName, input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make tensors of a batch, without changing it.

        Parameters
        ----------
        batch
            Arrays or tensors by name.
        input_device
            Where ``"data"`` goes.
        output_device
            Where every other entry goes.

        Returns
        -------
        dict
            ``"data"`` as float32. Other entries keep integer and boolean types, and floating numbers become
            float32, since TensorFlow does not mix types. What is no array (e.g. a file name) passes as it is.
        """
        prepared = {}
        for key, value in batch.items():
            is_input = key == "data"
            with tf.device(input_device if is_input else output_device):
                prepared[key] = map_leaves(functools.partial(_to_tensor, is_input=is_input), value)
        return prepared

    closure = staticmethod(default_closure(BACKEND))


def _to_tensor(value: object, is_input: bool) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            return value
        refuse_complex(is_input and value.dtype.kind == "c")
        is_float = is_input or value.dtype.kind == "f"
        return tf.convert_to_tensor(value.astype(np.float32 if is_float else value.dtype.newbyteorder("="), copy=False))
    if not isinstance(value, tf.Tensor):
        array = np.asarray(value)
        return _to_tensor(array, is_input) if array.dtype.kind in "biufc" else value
    refuse_complex(is_input and value.dtype.is_complex)
    return tf.cast(value, tf.float32) if is_input or value.dtype.is_floating else value
