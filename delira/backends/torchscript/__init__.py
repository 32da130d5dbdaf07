"""The TorchScript backend: PyTorch networks whose forward pass is a program of its own.

A scripted network trains as in the PyTorch backend, whose verbs it shares. It differs where files are
concerned: beside each checkpoint lies the network as a ``.ptj`` file, which runs without Python. PyTorch has
deprecated TorchScript; for new work use the PyTorch backend with ``compile=True`` and ``delira.io.export``.
"""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
