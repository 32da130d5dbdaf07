"""TensorFlow's and Keras' generators: those of the process, and those inside a network."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from tensorflow.python.eager import context as eager

from delira.backends.tensorflow.runtime import generators_of, named_variables, runtime_of
from delira.contract import GeneratorsRole
from delira.utils.seeding import derive_int


class Generators:
    """The generators of the process, and the seed that networks take over when their training begins.

    ``tf.random.set_seed`` reaches neither the generators in Keras' layers, which are part of the network, nor random
    operations that are compiled already: both follow when ``seeding`` has changed.
    """

    def __init__(self) -> None:
        self.seeding = 0
        self._seed: int | None = None
        self._used: set[int] = set()  # seeds that operations may have been called with
        #: whether operations may have drawn with a seed of their own, of which nobody is told
        self.may_draw = False
        self._fresh: tuple[int, Any] | None = None  # the last seed, and what it made of the generator of operations
        self._keras: Any = None  # Keras' own, even while there is none
        self._learning: list[Any] = []  # networks, the innermost scope last

    def seed(self, seed: int) -> None:
        """Seed the generators of the process."""
        context = eager.context()
        self._note_unused()
        if seed in self._used:
            tf.random.set_seed(seed)
        else:  # the same, but it would forget all compiled kernels, which costs seconds for a large network
            context._seed, context._rng = seed, random.Random(seed)
            self._used.add(seed)
        self._fresh = (seed, context._rng.getstate())
        self._set_keras(np.array([seed % 2**31, 0], dtype=np.uint32))
        self.seeding, self._seed = self.seeding + 1, seed

    def draw_seed(self) -> int:
        """One number of the generator that ``keras.utils.set_random_seed`` and ``tf.random.set_seed`` seed.

        By chance, as its other numbers are then, if nobody has seeded it.
        """
        if eager.global_seed() is None:
            return int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        return int(eager.context()._internal_operation_seed())

    def _note_unused(self) -> None:
        """Allow the last seed to be set again if no operation has drawn since: then no kernel has a state from it."""
        context = eager.context()
        if self._fresh is not None and not self.may_draw:
            seed, state = self._fresh
            if eager.global_seed() == seed and context._rng.getstate() == state:
                self._used.discard(seed)
        self._fresh, self.may_draw = None, False

    def state(self) -> dict[str, Any]:
        """State of the generators of the process and, while a network learns, of its own ones."""
        own = [generator.state.numpy() for network in self._learning[-1:] for generator in generators_of(network)]
        return {**self._process_state(), **({"network": own} if own else {})}

    def _process_state(self) -> dict[str, Any]:
        """Return the state of the process's generators; one without a seed is seeded at random first."""
        if eager.global_seed() is None:
            tf.random.set_seed(int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1))
        own = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
        version, words, gauss = eager.context()._rng.getstate()
        return {
            "seed": eager.global_seed(),
            "operations": {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss},
            "keras": None if own is None else own.state.numpy(),
        }

    def set_state(self, state: Any) -> None:
        """Continue the generators; a network that is not learning has its own in its weights."""
        self._restore(state)
        own = state.get("network", ())
        for network in self._learning[-1:] if own else ():
            for generator, value in zip(generators_of(network), own, strict=True):
                generator.state.assign(value)
        self.seeding, self._seed = self.seeding + 1, None

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Scope after which the generators of the process stand where they stood."""
        state = self._process_state()
        try:
            yield
        finally:
            self._restore(state)

    def _restore(self, state: Any) -> None:
        self._note_unused()
        tf.random.set_seed(state["seed"])
        kept = state["operations"]
        eager.context()._rng.setstate((kept["version"], tuple(kept["words"].tolist()), kept["gauss"]))
        if state["keras"] is None:
            global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)
        else:
            self._set_keras(state["keras"])

    def _set_keras(self, state: np.ndarray) -> None:
        generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
        if generator is None:  # the same again: compiled steps draw from the one that was there when they were made
            generator = self._keras or keras.random.SeedGenerator(0)
            global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, generator)
        self._keras = generator
        generator.state.assign(state)

    @contextlib.contextmanager
    def learning(self, network: keras.Model) -> Iterator[None]:
        """Scope in which a network learns.

        Its own generators follow first: the last seed, or the checkpoint it was given. One that got a seed from the
        author of the network is left alone.
        """
        self._follow(network)
        self._learning.append(network)
        try:
            yield
        finally:
            self._learning.pop()

    def _follow(self, network: keras.Model) -> None:
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


class TfGenerators(GeneratorsRole):
    """The generators of the process and of networks."""

    seed = staticmethod(GENERATORS.seed)
    draw_seed = staticmethod(GENERATORS.draw_seed)
    state = staticmethod(GENERATORS.state)
    set_state = staticmethod(GENERATORS.set_state)

    def not_resumable(self, network: keras.Model) -> str | None:
        if runtime_of(network).draws:
            return (
                "the compiled step draws with operations like tf.random.normal or tf.nn.dropout (use "
                "keras.random with a keras.random.SeedGenerator, or keras.layers.Dropout), which"
            )
        return None
