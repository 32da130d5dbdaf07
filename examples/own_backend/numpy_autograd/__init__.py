"""A framework for small networks: tensors that know their gradients, layers, losses and optimizers, in numpy alone.

It knows nothing of delira. ``numpy_backend``, beside it, is what makes it one of delira's backends.
"""

from numpy_autograd.layers import BatchNorm, Dropout, Linear, Module, Parameter, ReLU, Sequential, Tanh
from numpy_autograd.losses import cross_entropy, mean_absolute_error, mean_squared_error
from numpy_autograd.optimizers import SGD, Adam, StepDecay
from numpy_autograd.program import run_program, save_program
from numpy_autograd.tensor import Tensor, recording

__all__ = [
    "SGD",
    "Adam",
    "BatchNorm",
    "Dropout",
    "Linear",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "StepDecay",
    "Tanh",
    "Tensor",
    "cross_entropy",
    "mean_absolute_error",
    "mean_squared_error",
    "recording",
    "run_program",
    "save_program",
]
