"""The backend of ``numpy_autograd``: what makes a framework one of delira's backends.

The framework keeps gradients at the parameters and computes step by step, so the default closure is plain Python.
What must happen between the gradients and the update sits in a wrapper around each optimizer.
"""

from numpy_backend.backend import BACKEND, NumpyBackend
from numpy_backend.network import AbstractNumpyNetwork
from numpy_backend.training import NumpyExperiment, NumpyTrainer

__all__ = ["BACKEND", "AbstractNumpyNetwork", "NumpyBackend", "NumpyExperiment", "NumpyTrainer"]
