"""What a fit knows at any time: a dictionary under keys that do not collide, and the keys it begins with.

Callbacks and metrics read the state, and change it by assignment. Its own keys are constants of this module
(``from delira.state import LOSS, Y_PRED``); :func:`state_key` makes further ones.
"""

import builtins
import difflib
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Self

from delira.errors import ConfigError, MissingKeyError

_KEYS: dict[str, "StateKey"] = {}


class StateKey(str):
    """Key of a state: the text itself, which nobody else was given.

    It equals its text, so that it is found in dictionaries that were stored and read again. Called with a state it
    gives the value, so that it serves as a criterion or a metric, too. Made by :func:`state_key`.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Make a key of a text that is not empty."""
        if not isinstance(text, str) or not text:
            raise ConfigError(f"the text of a state key is a string that is not empty, got {text!r}")
        return super().__new__(cls, text)

    def __call__(self, state: Mapping[Any, Any], *args: Any) -> Any:
        """The value in a state."""
        return state[self]

    def __repr__(self) -> str:
        return f"<state key {str(self)!r}>"


def state_key(text: str) -> StateKey:
    """Make a key that nobody else has.

    Parameters
    ----------
    text
        What it is called; if that is taken, ``text_1``, ``text_2``, ...

    Returns
    -------
    StateKey
        In a cell of a notebook, or at the prompt of Python, a text that was asked for there before gives the same
        key again, so that a cell may be run twice.

    Examples
    --------
    >>> KL = state_key("kl_divergence")
    >>> state = State({KL: 0.5})
    >>> state["kl_divergence"]
    0.5
    """
    caller = sys._getframe(1)
    is_top = caller.f_code.co_name == "<module>" and caller.f_globals.get("__name__") == "__main__"
    return _new_key(text, is_prompt=is_top and (hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")))


_OF_PROMPT: dict[str, StateKey] = {}


def _new_key(text: str, *, is_prompt: bool = False) -> StateKey:
    name, number = str(StateKey(text)), 0
    if is_prompt and text in _OF_PROMPT:
        return _OF_PROMPT[text]
    while name in _KEYS:
        number += 1
        name = f"{text}_{number}"
    key = _KEYS[name] = StateKey(name)
    if is_prompt:
        _OF_PROMPT[text] = key
    return key


class State(dict[Any, Any]):
    """A dictionary under state keys.

    Raises
    ------
    MissingKeyError
        On reading what is not there (a ``KeyError``), with a suggestion, and with the event that sets it, if it is
        one of the keys of this module.
    """

    #: evaluations and predictions so far
    n_asides = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"a State is made as a dictionary is, got {args!r}") from error

    def __missing__(self, key: Any) -> Any:
        since = f"; it is there from {SINCE[key]} on" if key in SINCE else ""
        close = difflib.get_close_matches(str(key), map(str, self), n=1)
        hint = f"; did you mean {close[0]!r}?" if close and not since else ""
        raise MissingKeyError(f"the state has no {str(key)!r}{since}{hint}")

    def copy(self) -> "State":
        """A state with the same values."""
        return State(self)


def misspelt(state: State) -> list[str]:
    """What to say of keys that are none of this module's, but look like one: nobody reads them."""
    own = [key for key in state if type(key) is str and key not in MEANING]
    found = {key: difflib.get_close_matches(key, map(str, MEANING), n=1, cutoff=0.85) for key in own}
    return [
        f"the state has an entry {key!r}, which nobody reads; did you mean {close[0]!r}? A key of your own is made by "
        f"delira.state.state_key({key!r})"
        for key, close in found.items()
        if close
    ]


class StateView(MutableMapping[Any, Any]):
    """A state that is no dictionary, for networks on several devices: dictionaries are copied to each of them.

    Parameters
    ----------
    state
        What is read, and written into.
    """

    def __init__(self, state: State):
        self._state = state

    def __getitem__(self, key: Any) -> Any:
        return self._state[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._state[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._state[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


#: key -> first event at which it is there; ``""``: from the construction of a trial on
SINCE: dict[StateKey, str] = {}
#: key -> what it holds
MEANING: dict[StateKey, str] = {}


def _key(text: str, meaning: str, since: str = "") -> StateKey:
    key = _new_key(text)
    MEANING[key] = meaning
    if since:
        SINCE[key] = since
    return key


# ------------------------------------------------------------------ what is fitted, and how

VERSION = _key("version", "version of delira")
MODEL = _key("model", "the network; another one set by a callback is trained from then on")
CRITERION = _key("criterion", "the criterion, or None; another one set by a callback is used from then on")
OUTPUT = _key("output", "what predictions are: 'logits', 'probabilities' or 'labels'; None: criterion or values tell")
OPTIMIZER = _key("optimizer", "the optimizer as it was given; another one set by a callback updates from then on")
DEVICE = _key("device", "where batches go")
DATA_TYPE = _key("dtype", "what floating-point numbers of batches become, or None")
METRIC_LIST = _key("metric_list", "the metrics")
CALLBACK_LIST = _key("callback_list", "the callbacks")
SELF = _key("self", "the trial, or the trainer of an experiment")
HISTORY = _key("history", "one record of metrics for each finished epoch")
BACKWARD_ARGS = _key("backward_args", "further keywords of the backward pass (PyTorch)")

# ------------------------------------------------------------------ the data

TRAIN_GENERATOR = _key("train_generator", "batches to train on, or None")
VALIDATION_GENERATOR = _key("validation_generator", "batches to validate on, or None")
TEST_GENERATOR = _key("test_generator", "batches to predict, or None")
TRAIN_STEPS = _key("train_steps", "steps of a training epoch, None if the data says; -1: until it is stopped")
VALIDATION_STEPS = _key("validation_steps", "steps of a validation")
TEST_STEPS = _key("test_steps", "steps of a prediction")
TRAIN_DATA = _key("train_data", "(generator, steps) to train on")
VALIDATION_DATA = _key("validation_data", "(generator, steps) to validate on")
TEST_DATA = _key("test_data", "(generator, steps) to predict")
INF_TRAIN_LOADING = _key("inf_train_loading", "whether an epoch goes on in the data where the one before it ended")
LOADER = _key("loader", "function of the state that sets X and Y_TRUE, or None")

# ------------------------------------------------------------------ the run

EPOCH = _key("epoch", "number of the running epoch, from 0", "on_start")
MAX_EPOCHS = _key("max_epochs", "epochs that were asked for, in all", "on_start")
STOP_TRAINING = _key("stop_training", "set it to True to end the training", "on_start")
PHASE = _key("phase", "'fit', 'evaluate', 'predict' or 'replay'", "on_start")

# ------------------------------------------------------------------ the pass over the data

DATA = _key("data", "key of the data at hand: TRAIN_DATA, VALIDATION_DATA or TEST_DATA", "on_start_training")
GENERATOR = _key("generator", "the data at hand", "on_start_training")
ITERATOR = _key("iterator", "the batches that are left of it", "on_sample")
STEPS = _key("steps", "steps of the pass, None if nobody knows", "on_start_training")
SAMPLER = _key("sampler", "function of the state that sets the next X and Y_TRUE", "on_start_training")
METRICS = _key("metrics", "values of the metrics by name: of the batch, at the end of the pass", "on_start_training")
TIMINGS = _key("timings", "seconds that parts of the fit took, by name", "on_start_training, with a Profiler")

# ------------------------------------------------------------------ the step

BATCH = _key("t", "number of the batch in the pass, from 0", "on_sample")
X = INPUT = _key("x", "what the network is given", "on_sample")
Y_TRUE = TARGET = _key("y_true", "the target", "on_sample")
SAMPLE_WEIGHT = _key("sample_weight", "weights of the samples in the loss", "on_sample, with batches that have them")
Y_PRED = PREDICTION = _key("y_pred", "what the network returned", "on_forward")
LOSS = _key("loss", "the loss; what it is at the end of on_criterion is differentiated", "on_criterion")
GRADIENTS = _key("gradients", "gradients of the weights by name; changed ones are applied", "on_backward")
CLOSURE = _key("closure", "name of the optimizer of the closure at hand", "on_forward, with base_closure")
FINAL_PREDICTIONS = _key("final_predictions", "all predictions, joined", "on_end_validation of a prediction")
MIXUP_LAMBDA = _key("mixup_lambda", "weight of the first of two mixed samples", "on_sample, with a mixing callback")
MIXUP_PERMUTATION = _key(
    "mixup_permutation", "which sample was mixed in, for each", "on_sample, with a mixing callback"
)

#: what a criterion, a metric or a callback may be: a function of the state
StateFunction = Callable[[State], Any]
