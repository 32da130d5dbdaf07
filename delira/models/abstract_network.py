"""The base of every network: its arguments, its batch preparation and its update."""

from collections.abc import Mapping
from typing import Any

from delira.utils.lazy import old_names


class AbstractNetwork:
    """What the trainer needs of a network, whatever the framework.

    Backends combine this class with the module class of their framework and supply a working
    :meth:`closure` and :meth:`prepare_batch`; a network overrides them for anything unusual.

    Parameters
    ----------
    **kwargs
        The arguments the network was built with. They are kept in :attr:`init_kwargs`, so that the
        same network can be built again.

    Attributes
    ----------
    __delira_backend__
        Of the class of a backend: its verbs, a :class:`delira.contract.Backend`.
    """

    # No abc.ABC: its metaclass conflicts with the one of torch.jit.ScriptModule.

    #: a dict of Python objects, of which TorchScript would make an attribute of its own
    __jit_ignored_attributes__ = ("init_kwargs",)

    #: arguments the network was built with
    init_kwargs: Mapping[str, Any]

    def __init__(self, **kwargs: Any) -> None:
        # Keras and TorchScript wrap or refuse dictionaries that are set in the usual way
        object.__setattr__(self, "init_kwargs", kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Predict: a mapping of named outputs, by convention with the entry ``"pred"``."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__; subclass the network of a backend")

    @staticmethod
    def closure(
        model: Any,
        data_dict: dict[str, Any],
        optimizers: Mapping[str, Any],
        losses: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[Mapping[str, Any], ...]:
        """One update of the network.

        Parameters
        ----------
        model
            The network itself.
        data_dict
            What :meth:`prepare_batch` returned.
        optimizers
            Optimizers by name; a single one is called ``"default"``.
        losses, metrics
            Loss functions and training metrics by name.
        fold
            Fold of the cross-validation, 0 outside one.
        **kwargs
            Further facts of the step. Only names that the signature takes are passed.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)`` or ``(losses, predictions)``: mappings of named values,
            which may stay on the device.
        """
        raise NotImplementedError(
            f"{type(model).__name__} has no closure; write one or subclass the network of a backend"
        )

    @staticmethod
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Turn a batch of numpy arrays into what the network takes, without changing ``batch``."""
        raise NotImplementedError("this network has no prepare_batch; write one or subclass the network of a backend")


__getattr__ = old_names(__name__)
