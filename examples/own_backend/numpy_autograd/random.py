"""The one generator of the framework: initial weights and dropout draw from it."""

import numpy as np

GENERATOR = np.random.default_rng(0)


def seed(number: int) -> None:
    """Begin the sequence of a seed."""
    GENERATOR.bit_generator.state = np.random.default_rng(number).bit_generator.state
