"""The graph of a network for TensorBoard, as a batch goes through it."""

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.callbacks.monitor import trainer_of
from delira.state import State
from delira.utils.trees import iterate_leaves, map_leaves

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


_log = logging.getLogger("delira")


def write_graph(writer: object, state: State, is_asked_for: bool) -> None:
    """Write the graph of the network for the input of the state; where that cannot be, say why in one warning.

    Parameters
    ----------
    writer
        A ``tensorboardX.SummaryWriter``; None where graphs cannot be written.
    state
        Of the end of a training step; it stays as it is, and so do generators of random numbers.
    is_asked_for
        Whether to say so where the framework has no graph.
    """
    trainer = trainer_of(state)
    write = trainer.backend.write_graph
    if writer is None or write is None:
        if is_asked_for:
            why = "visdom shows none" if writer is None else f"the backend {trainer.backend.name!r} has none"
            _log.warning("no graph of the network was written: %s", why)
        return
    leaves = [leaf for _, leaf in iterate_leaves(state[keys.X]) if leaf is not None]
    call = functools.partial(_call, trainer, state)
    try:
        with _untouched(trainer, state):
            write(writer, trainer.module, call, leaves)
    except Exception as error:  # a picture is no reason to end a training
        text = str(error).strip().split("\n", 1)[0]
        _log.warning("no graph of the network was written: %s: %s", type(error).__name__, text)


def _call(trainer: "BaseNetworkTrainer", state: State, leaves: Sequence[Any]) -> list[Any]:
    """Outputs of the network for arrays in the place of those of the input."""
    given = iter(leaves)
    x = map_leaves(lambda leaf: leaf if leaf is None else next(given), state[keys.X])
    outputs = [leaf for _, leaf in iterate_leaves(dict(trainer.forward(trainer.objective.batch_of(x))))]
    return [leaf for leaf in outputs if hasattr(leaf, "shape")]


@contextlib.contextmanager
def _untouched(trainer: "BaseNetworkTrainer", state: State) -> Iterator[None]:
    """Scope in which the network predicts; the state and the generators of random numbers are as before after it."""
    before, generators = dict(state), trainer.backend.generators.state()
    try:
        with trainer.backend.calls.evaluating(trainer.module):
            yield
    finally:
        state.clear()
        state.update(before)
        trainer.backend.generators.set_state(generators)
