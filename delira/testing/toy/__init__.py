"""The toy backend: linear regression in numpy, with gradients by hand.

It needs no framework and speaks every verb of the contract, so it shows what a backend is and lets the
core be tested alone. Its one loss is the mean squared error; its generator drops inputs.
"""

from delira.testing.toy.backend import ToyBackend, ToyExperiment, ToyNetwork, ToySGD, ToyTrainer, mean_squared_error
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
