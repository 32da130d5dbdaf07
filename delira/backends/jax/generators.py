"""The random generator of the backend: JAX has none, so every key is a function of a seed and a counter."""

from typing import Any

import jax
import numpy as np

from delira.contract import GeneratorsRole


class Generator:
    """A seed and the number of keys that were taken of it."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, seed: int) -> None:
        """Begin anew with a seed."""
        self.seed, self.count = seed, 0

    def words(self, count: int) -> np.ndarray:
        """What one key is made of by :func:`key_of`, uint32 of shape (3,); nothing is computed on a device."""
        return np.array([self.seed & 0xFFFFFFFF, self.seed >> 32, count], dtype=np.uint32)

    def next_words(self) -> np.ndarray:
        """What the next key is made of."""
        self.count += 1
        return self.words(self.count - 1)

    def next_key(self) -> jax.Array:
        """The next key, for ``jax.random`` and ``nnx.Rngs``."""
        return key_of(self.next_words())

    def state(self) -> dict[str, Any]:
        """Seed and counter."""
        return {"seed": self.seed, "count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`."""
        self.seed, self.count = int(state["seed"]), int(state["count"])


def key_of(words: Any) -> jax.Array:
    """The key of what :meth:`Generator.next_words` gave; may be traced."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(words[0]), words[1]), words[2])


GENERATOR = Generator()


class JaxGenerators(GeneratorsRole):
    """The generator of the backend."""

    seed = staticmethod(GENERATOR.restart)
    state = staticmethod(GENERATOR.state)
    set_state = staticmethod(GENERATOR.set_state)
