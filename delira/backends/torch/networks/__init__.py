"""Ready networks of the PyTorch backend: each is a plain module behind the interface of the backend."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
