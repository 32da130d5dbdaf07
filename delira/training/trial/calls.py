"""How networks and criteria are called: decided by their signature, once, never by trying."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from delira import state as keys
from delira.errors import ConfigError
from delira.state import State, StateKey
from delira.utils.binding import TARGET_FIRST, order_of
from delira.utils.parameters import has_more, needed, positional
from delira.utils.trees import spread


class ModelCall:
    """Calls a network on an input; it gets the state if it has a parameter for it.

    That is a parameter ``state`` that the inputs do not fill, and that is required, only goes by keyword, or is
    annotated as :class:`delira.state.State`: an optional ``state`` of the network's own is left alone.
    """

    def __init__(self) -> None:
        self._known: tuple[Any, int] = (None, -1)
        self._plan = (False, False, False)

    def __call__(self, model: Any, x: Any, state: State, **keywords: Any) -> Any:
        """Call a network.

        Parameters
        ----------
        model
            The network; None returns None.
        x
            The input: a tuple or list is spread over the arguments, a dict is one argument; None: there is none.
        state
            Of the fit.
        **keywords
            Further arguments of the network.
        """
        if model is None:
            return None
        inputs = spread(x)
        if self._known[0] is not model or self._known[1] != len(inputs):
            self._known, self._plan = (model, len(inputs)), _plan(model, len(inputs))
        takes, needs_one, needs_list = self._plan
        inputs = (None,) if needs_one else (list(inputs),) if needs_list else inputs
        return single_output(model, model(*inputs, state=state, **keywords) if takes else model(*inputs, **keywords))


def single_output(model: Any, output: Any) -> Any:
    """What a network returned; of a network of ours, which names its outputs, the only one without its name."""
    if type(output) is dict and len(output) == 1 and hasattr(type(model), "__delira_backend__"):
        return next(iter(output.values()))
    return output


def _plan(model: Any, n_inputs: int) -> tuple[bool, bool, bool]:
    """Whether a network takes the state, whether it needs an argument though there is no input, or a list of inputs."""
    parameters = parameters_of(model)
    names = [parameter.name for parameter in positional(parameters)]
    takes = "state" in parameters and "state" not in names[:n_inputs] and _is_for_state(parameters["state"])
    # the one argument of a network that does without data
    first = parameters[names[0]] if names and names[0] != "state" else None
    needs_list = n_inputs > 1 and _listed_inputs(model, names) == n_inputs
    return takes, not n_inputs and first is not None and first.default is first.empty, needs_list


def _listed_inputs(model: Any, names: list[str]) -> int:
    """Inputs of a functional model of Keras, which takes them as one argument."""
    return len(getattr(model, "inputs", None) or ()) if names[:1] == ["inputs"] else 0


def needed_inputs(model: Any) -> int:
    """Number of inputs without which a network cannot be called."""
    names = [parameter.name for parameter in needed(parameters_of(model)) if parameter.name != "state"]
    return max(len(names), _listed_inputs(model, names))


def _is_for_state(parameter: inspect.Parameter) -> bool:
    is_needed = parameter.default is parameter.empty or parameter.kind is parameter.KEYWORD_ONLY
    return is_needed or _is_state(parameter)


def _is_state(parameter: inspect.Parameter) -> bool:
    return getattr(parameter.annotation, "__name__", parameter.annotation) == "State"


def parameters_of(model: Any) -> Mapping[str, inspect.Parameter]:
    """Parameters of what a network computes."""
    for name in ("forward", "call"):
        if (method := getattr(model, name, None)) is not None:
            return inspect.signature(method).parameters
    return inspect.signature(model).parameters


def bind_criterion(criterion: Any) -> Callable[[State], Any]:
    """A criterion as a function of the state.

    Parameters
    ----------
    criterion
        A state key, a function of the state (its one argument, or the first is called ``state``), or a function of
        predictions and targets (of targets and predictions, if its framework calls it so, or the names of its
        parameters tell), over whose arguments tuples of them are spread.

    Raises
    ------
    ConfigError
        If it cannot be called.
    """
    if not callable(criterion):
        raise ConfigError(f"a criterion is a function of predictions and targets, or of the state, got {criterion!r}")
    if not getattr(criterion, TARGET_FIRST, False) and takes_state(criterion):
        return criterion
    is_target_first = order_of(criterion) == "target first"
    first, second = (keys.Y_TRUE, keys.Y_PRED) if is_target_first else (keys.Y_PRED, keys.Y_TRUE)

    def compute(state: State) -> Any:
        return criterion(*spread(state[first]), *spread(state[second]))

    return compute


def takes_state_only(criterion: Any) -> bool:
    """Whether a criterion is one of the state, so that no target is read for it; so is none at all."""
    return criterion is None or (takes_state(criterion) and not getattr(criterion, TARGET_FIRST, False))


def takes_state(function: Any) -> bool:
    """Whether a function is one of the state rather than of predictions and targets."""
    if isinstance(function, StateKey):
        return True
    try:
        parameters = parameters_of(function)
    except (TypeError, ValueError):  # of C, without a signature
        return False
    given = positional(parameters)
    if not given:
        return False
    return given[0].name == "state" or _is_state(given[0]) or (len(given) == 1 and not has_more(parameters))
