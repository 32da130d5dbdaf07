"""A network whose input is several entries of the state, and whose outputs are some more."""

from collections.abc import Iterable, Mapping
from typing import Any

from delira.callbacks.abstract_callback import Callback
from delira.errors import ConfigError, check_flags, check_that
from delira.state import Y_PRED, State, X


class UnpackState(Callback):
    """Give the network a dict of entries of the state as its one input, and put the dict that it returns back.

    For networks in wrappers that pass no state on, as those for several devices: everything goes through the input and
    the output.

    Parameters
    ----------
    keys
        Entries of the state, e.g. ``[X, Y_TRUE]``; by default the input alone.
    output_to_state
        Whether the entries of a returned dict go into the state, ``Y_PRED`` among them; else the dict is ``Y_PRED``.

    Raises
    ------
    ConfigError
        If no entry is named.
    MissingKeyError
        At a step, if the state has no such entry.

    Examples
    --------
    >>> from delira.state import X, Y_PRED, Y_TRUE
    >>> def network(entries):
    ...     return {Y_PRED: entries[X] - entries[Y_TRUE]}
    >>> callback = UnpackState([X, Y_TRUE])
    """

    phases = ("fit", "evaluate", "predict")
    traceable = True

    def __init__(self, keys: Iterable[Any] = (X,), output_to_state: bool = True):
        check_that(isinstance(keys, Iterable), "UnpackState", "keys are entries of the state, e.g. keys=[X]", keys)
        check_flags(self, output_to_state=output_to_state)
        self.keys = (keys,) if isinstance(keys, str) else tuple(keys)
        if not self.keys:
            raise ConfigError("UnpackState: name the entries of the state that the network gets, e.g. keys=[X]")
        self.output_to_state = output_to_state

    def on_sample(self, state: State) -> None:
        """Make the input."""
        state[X] = {key: state[key] for key in self.keys}

    def on_forward(self, state: State) -> None:
        """Take the output apart."""
        output = state[Y_PRED]
        if self.output_to_state and isinstance(output, Mapping):
            state.update(output)

    def on_sample_validation(self, state: State) -> None:
        """Make the input."""
        self.on_sample(state)

    def on_forward_validation(self, state: State) -> None:
        """Take the output apart."""
        self.on_forward(state)
