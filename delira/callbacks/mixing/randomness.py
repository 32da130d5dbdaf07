"""Random numbers of callbacks: a function of the seed and of the place in the run, the same in all frameworks."""

import numpy as np

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.state import State
from delira.utils.seeding import derive


def seed_and_fold(state: State) -> tuple[int, int]:
    """Return the seed of a run, and its fold; known before the trainer of a trial is made."""
    owner = state[keys.SELF]
    return owner.seed, owner.fold


def step_generator(state: State, callback: object) -> np.random.Generator:
    """Return the generator of a callback at the step at hand.

    Parameters
    ----------
    state
        In ``on_sample``, or later in the step.
    callback
        Of several of one class, each has numbers of its own.

    Returns
    -------
    Generator
        A new one, from seed, fold, epoch, batch, and the callback's class and place among those of its class.
    """
    same = [one for one in state.get(keys.CALLBACK_LIST, ()) if type(one) is type(callback)]
    number = next((at for at, one in enumerate(same) if one is callback), 0)
    counters = (*seed_and_fold(state), state[keys.EPOCH], state[keys.BATCH])
    return np.random.default_rng(derive(*counters, stream=f"callback {type(callback).__name__} {number}"))


class RandomCallback(Callback):
    """A callback that changes the batches of a training at random, before each step."""

    phases: tuple[str, ...] = ("fit",)

    def _draw(self, state: State) -> np.random.Generator:
        """Return the generator of the step at hand."""
        return step_generator(state, self)
