"""Networks: the base class of all backends, and what each backend shows."""

from delira.models.abstract_network import AbstractNetwork
from delira.models.weights import load_named_weights, named_weights, transfer_weights
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, lists_backends=True)
