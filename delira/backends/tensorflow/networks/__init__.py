"""Ready networks of the TensorFlow backend: each is a plain layer behind the interface of the backend."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
