"""TensorFlow's and Keras' generators: those of the process, and those inside a network."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from tensorflow.python.eager import context as eager

from delira.backends.tensorflow.names import generators_of, named_variables
from delira.backends.tensorflow.runtime import runtime_of
from delira.utils.seeding import derive_int


class Generators:
    """The generators of the process, and the seed that networks take over when their training begins.

    ``tf.random.set_seed`` reaches neither the generators in Keras' layers, which are part of the network, nor random
    operations that are compiled already: both follow when ``seeding`` has changed.
    """

    def __init__(self) -> None:
        self.seeding = 0
        self._seed: int | None = None

    def seed(self, seed: int) -> None:
        """Seed the generators of the process."""
        tf.random.set_seed(seed)
        self._set_keras(np.array([seed % 2**31, 0], dtype=np.uint32))
        self.seeding, self._seed = self.seeding + 1, seed

    def state(self) -> dict[str, Any]:
        """State of the generators of the process."""
        context = eager.context()
        own = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
        state: dict[str, Any] = {"seed": eager.global_seed(), "keras": None if own is None else own.state.numpy()}
        if state["seed"] is not None:  # else TensorFlow has not begun to count
            version, words, gauss = context._rng.getstate()
            state["operations"] = {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss}
        return state

    def set_state(self, state: Any) -> None:
        """Continue the generators of the process."""
        self._restore(state)
        self.seeding, self._seed = self.seeding + 1, None

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Scope after which the generators of the process stand where they stood."""
        state = self.state()
        try:
            yield
        finally:
            self._restore(state)

    def _restore(self, state: Any) -> None:
        tf.random.set_seed(state["seed"])
        if state["seed"] is not None:
            kept = state["operations"]
            eager.context()._rng.setstate((kept["version"], tuple(kept["words"].tolist()), kept["gauss"]))
        if state["keras"] is None:
            global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)
        else:
            self._set_keras(state["keras"])

    @staticmethod
    def _set_keras(state: np.ndarray) -> None:
        generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
        if generator is None:
            generator = keras.random.SeedGenerator(0)
            global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, generator)
        generator.state.assign(state)

    def enter(self, network: Any) -> None:
        """Let the network's own generators follow before it learns: the last seed, or the checkpoint it was given.

        A generator that got a seed from the author of the network is left alone.
        """
        runtime = runtime_of(network)
        if runtime.seeding == self.seeding:
            return
        runtime.seeding = self.seeding
        if self._seed is None:
            if runtime.generators is not None:  # predictions may have drawn since
                variables = named_variables(network)
                for name, state in runtime.generators.items():
                    variables[name].assign(state)
        else:
            for number, generator in enumerate(generators_of(network)):
                if generator._initial_seed is None:
                    seed = derive_int(self._seed, number, stream="layer")
                    generator.state.assign(np.array([seed % 2**32, 0], dtype=np.uint32))
        runtime.generators = None


GENERATORS = Generators()
