"""The JAX backend: networks of ``flax.nnx``, optimizers of optax.

JAX compiles pure functions and keeps no generator. A step takes the network apart into arrays, runs as one
program that reuses their memory, and puts the results back: nobody may keep a weight from one step to the next.
Keys of random numbers are made of the seed of the epoch and the number of the step.
"""

import flax  # whoever asks for a name without the framework hears of it at once

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
