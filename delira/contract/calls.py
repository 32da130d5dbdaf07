"""How networks and criteria are called: the role of a backend that does it, and what signatures decide, once."""

import abc
import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from delira import state as keys
from delira.contract.kinds import Array, ByName, Criterion, Network, Role, Scope, Tree
from delira.errors import ConfigError, DataError
from delira.frameworks import NETWORKS, WRITTEN_IN
from delira.state import State, StateKey, StateView
from delira.utils.arrays import iterate_leaves, spread
from delira.utils.binding import (
    TARGET_FIRST,
    has_more,
    needed,
    order_of,
    parameters_of_method,
    positional,
    role_of,
    target_position,
    tell_criterion_order,
)

#: what frameworks raise of values that are no arrays
_OF_WRONG_TYPES = (TypeError, AttributeError, ValueError, RuntimeError)


class CallsRole(Role):
    """Modes, arguments and calls of networks. In the plain case a network is a function of named inputs."""

    role = "calls"

    method: ClassVar[str] = "forward"
    """What users write to say what a network computes."""

    @abc.abstractmethod
    def training(self, network: Network) -> Scope:
        """Scope in which the network learns."""

    @abc.abstractmethod
    def evaluating(self, network: Network) -> Scope:
        """Scope in which the network only predicts: evaluation mode, no gradients; both restored after."""

    def set_evaluating(self, network: Network) -> None:
        """Put the network into evaluation mode for good: called at the end of a training. Nothing to do where a network
        predicts unless it is told to learn.
        """

    def parameters(self, network: Network) -> Mapping[str, inspect.Parameter]:
        """Arguments of the network that a batch can fill."""
        return parameters_of_method(getattr(network, self.method))

    def key_mapping(self, network: Network) -> dict[str, str]:
        """Argument of the network -> batch entry, if the user did not say: the only one that is needed, or ``x``."""
        parameters = self.parameters(network)
        required = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        if len(required) == 1:
            return {required[0]: "data"}
        if "x" in parameters and not required:
            return {"x": "data"}
        raise ConfigError(
            f"{type(network).__name__}.{self.method} takes {list(parameters)}, so it is not clear which of them gets "
            f"the batch entry 'data'; {self.cure(required)}"
        )

    def cure(self, required: Sequence[str]) -> str:
        """What a user whose network needs these arguments can do."""
        return "pass key_mapping={argument: batch entry}"

    def arguments_of(self, network: Network) -> frozenset[str] | None:
        """Names of the arguments a network takes; ``None`` if it takes any."""
        parameters = self.parameters(network)
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if is_open else frozenset(parameters)

    def is_ready(self, network: Network) -> bool:
        """Return True if the network can predict; an estimator that was never fitted cannot."""
        return True

    def forward(self, network: Network, inputs: ByName) -> Any:
        """Call the network."""
        return self.call_apart(network, inputs, lambda own: network(**own))

    def call_apart(self, network: Network, inputs: Any, call: Callable[[Any], Any]) -> Any:
        """Call with inputs that stay what they are, also if the network works in place: they are read afterwards.

        ``call`` gets the tree of inputs, or a copy of it. Where arrays cannot be changed, there is nothing to do.
        """
        return call(inputs)

    def calling(self, network: Network) -> Scope:
        """Scope in which a network may be called by others than the backend: as it predicts, or learns, at the time."""
        return contextlib.nullcontext()

    def added_losses(self, network: Network) -> ByName:
        """What the network itself adds to the loss in the call before, e.g. regularisation, as one-number losses."""
        return {}

    def constants_of(self, value: Tree) -> Sequence[Any]:
        """Arrays within an object of the framework that a compiled step takes as they were when it was traced."""
        return ()

    def no_network(self) -> Any:
        """A network without weights that returns None."""
        raise self.lacking("cannot train without a network")


def refuse_no_arrays(called: Any, given: Mapping[str, Sequence[Any]], error: Exception) -> None:
    """Refuse a batch whose parts a framework's own layer or loss failed on, since they are no arrays.

    A user's own may take anything: its error stays as it is.

    Parameters
    ----------
    called
        The layer, or the loss.
    given
        What it was called with, by what that is.
    error
        What it raised.

    Raises
    ------
    DataError
        Naming the first part that is none.
    """
    owner = called if inspect.isroutine(called) else type(called)
    if str(getattr(owner, "__module__", "")).partition(".")[0] not in WRITTEN_IN:
        return
    for (what, *_), leaf in iterate_leaves(given):
        if not _is_array(leaf):
            raise DataError(
                f"{owner.__name__} takes arrays, and the {what} of the batch is {leaf!r:.80}; a batch of a trial "
                "is (input, target)"
            ) from error


def _is_array(leaf: Array) -> bool:
    kind = getattr(getattr(leaf, "dtype", None), "kind", "")  # of numpy: texts and objects stay as they are
    return hasattr(leaf, "shape") and kind not in ("O", "S", "U")


class ModelCall:
    """Calls a network on an input; it gets the state if it has a parameter for it.

    That is a parameter ``state`` that the inputs do not fill, and that is required, only goes by keyword, or is
    annotated as :class:`delira.state.State`: an optional ``state`` of the network's own is left alone.
    """

    def __init__(self) -> None:
        self._known: tuple[Any, int] = (None, -1)
        self._plan = (False, False, False, False)

    def __call__(self, model: Network, x: Array, state: State, **keywords: Any) -> Any:
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
        takes, needs_one, needs_list, names_outputs = self._plan
        inputs = (None,) if needs_one else (list(inputs),) if needs_list else inputs
        if takes:  # those that share out a batch give each device a copy of every dictionary
            keywords["state"] = StateView(state) if getattr(model, "device_ids", None) else state
        try:
            output = model(*inputs, **keywords)
        except _OF_WRONG_TYPES as error:
            refuse_no_arrays(model, {"input": inputs}, error)
            raise
        return single_output(output) if names_outputs else output


def is_ours(model: Network) -> bool:
    """Return True if a network, or the one that it wraps, is one of ours, which name their outputs."""
    while not hasattr(type(model), "__delira_backend__"):
        model = wrapped(model, _own_parameters(model))
        if model is None:
            return False
    return True


def single_output(output: Any) -> Any:
    """What a network of ours returned; the only output without its name."""
    return next(iter(output.values())) if type(output) is dict and len(output) == 1 else output


def _plan(model: Network, n_inputs: int) -> tuple[bool, bool, bool, bool]:
    """Tell whether a network takes the state, needs an argument though there is no input, needs a list, and is ours."""
    parameters = parameters_of(model)
    names = [parameter.name for parameter in positional(parameters)]
    takes = "state" in parameters and "state" not in names[:n_inputs] and _is_for_state(parameters["state"])
    # the one argument of a network that does without data
    first = parameters[names[0]] if names and names[0] != "state" else None
    needs_list = n_inputs > 1 and _listed_inputs(model, names) == n_inputs
    needs_one = not n_inputs and first is not None and first.default is first.empty
    return takes, needs_one, needs_list, is_ours(model)


def _listed_inputs(model: Network, names: list[str]) -> int:
    """Inputs of a functional model of Keras, which takes them as one argument."""
    return len(getattr(model, "inputs", None) or ()) if names[:1] == ["inputs"] else 0


def needed_inputs(model: Network) -> int:
    """Number of inputs without which a network cannot be called."""
    names = [parameter.name for parameter in needed(parameters_of(model)) if parameter.name != "state"]
    return max(len(names), _listed_inputs(model, names))


def _is_for_state(parameter: inspect.Parameter) -> bool:
    is_needed = parameter.default is parameter.empty or parameter.kind is parameter.KEYWORD_ONLY
    return is_needed or _is_state(parameter)


def _is_state(parameter: inspect.Parameter) -> bool:
    return getattr(parameter.annotation, "__name__", parameter.annotation) == "State"


def parameters_of(model: Network) -> Mapping[str, inspect.Parameter]:
    """Parameters of what a network computes; of one that passes what it gets on, those of the network within."""
    own = _own_parameters(model)
    within = wrapped(model, own)
    if within is None:
        return own
    inner = parameters_of(within)
    if has_more(own):
        return inner
    return {**own, "state": inner["state"]} if "state" in inner else own


def _own_parameters(model: Network) -> Mapping[str, inspect.Parameter]:
    for name in ("forward", "call"):
        if (method := getattr(model, name, None)) is not None:
            return parameters_of_method(method)
    return parameters_of_method(model)


#: where those that wrap a network have it: DataParallel and its like, torch.compile, and what people write
_WITHIN = ("_orig_mod", "module", "model", "net", "network")


def wrapped(model: Network, own: Mapping[str, inspect.Parameter]) -> Any:
    """The network within one that takes any keywords, and passes them on; None if there is none, or nobody knows which.

    Parameters
    ----------
    model
        The outer network.
    own
        The parameters of what it computes.
    """
    is_open = any(one.kind is one.VAR_KEYWORD for one in own.values())
    if not is_open or "state" in own or inspect.isroutine(model):
        return None
    held = {**getattr(model, "__dict__", {}), **(getattr(model, "_modules", None) or {})}
    parts = {name: value for name, value in held.items() if callable(value) and _is_network(value)}
    named = [parts[name] for name in _WITHIN if name in parts]
    found = named[:1] or list(parts.values())
    return found[0] if len(found) == 1 else None


def _is_network(value: Tree) -> bool:
    return any((base.__module__.partition(".")[0], base.__name__) in NETWORKS for base in type(value).__mro__)


def advice_about_state(model: Network) -> str | None:
    """What to say to somebody whose network looks as if it wanted the state, and does not get it; None: nothing."""
    parameter = (_told_parameters(model) or {}).get("state")
    if parameter is None:
        return None
    name = type(model).__name__
    if parameter.kind is parameter.VAR_KEYWORD:
        return (
            f"{name} takes **state, which is a dict of its keywords: the state is its entry 'state', and what is set "
            "in the dict itself is lost; write forward(self, x, state) to get the state"
        )
    if _is_for_state(parameter):
        return None
    return (
        f"the argument 'state' of {name} has a default, so it is taken for the network's own and left at it; to get "
        "the state of the trial, take the default away, or annotate it: state: delira.state.State"
    )


def bind_criterion(criterion: Criterion) -> Callable[[State], Any]:
    """A criterion as a function of the state.

    Parameters
    ----------
    criterion
        A state key, a function of the state (its one argument, unless its name is one of predictions, or the first is
        called ``state``), or a function of predictions (``def loss(y_pred)``), or of predictions and targets (of
        targets and predictions, if its framework calls it so, or the names of its parameters tell), over whose
        arguments tuples of them are spread; a single target goes between them, where the name of one parameter says
        that it is the target. Where there is no target it gets None for one that it needs. Where names
        tell nothing and both have one shape, the order is said at the first call. Where a batch has weights of its
    samples, they are the argument ``sample_weight``.

    Raises
    ------
    ConfigError
        If it cannot be called; at its first call, if it has no such argument and the batch has weights.
    """
    if not callable(criterion):
        raise ConfigError(f"a criterion is a function of predictions and targets, or of the state, got {criterion!r}")
    parameters = _told_parameters(criterion)
    takes_nothing = parameters is not None and not positional(parameters) and not has_more(parameters)
    if takes_nothing and not isinstance(criterion, StateKey):
        raise ConfigError(f"a criterion takes predictions and targets, or the state, and {criterion!r} takes nothing")
    if not getattr(criterion, TARGET_FIRST, False) and takes_state(criterion):
        return criterion
    first, is_alone = _first_parameter(criterion)
    if first is not None and is_alone and role_of(first.name) == "prediction":
        return lambda state: criterion(state[keys.Y_PRED], **_weights_for(criterion, parameters, state))
    order = order_of(criterion)
    is_told, n_needed = order is not None, 2 if parameters is None else len(needed(parameters))
    position = None if hasattr(criterion, TARGET_FIRST) else target_position(criterion)

    def compute(state: State) -> Any:
        nonlocal is_told
        predictions, targets = spread(state[keys.Y_PRED]), spread(state[keys.Y_TRUE])
        if not is_told:
            is_told = True
            if len(predictions) == len(targets) == 1:
                shapes = [getattr(one, "shape", None) for one in (*predictions, *targets)]
                tell_criterion_order(criterion, shapes)
        if not targets and len(predictions) < n_needed:
            targets = (None,)
        n_before = 0 if order == "target first" else len(predictions)
        weights = _weights_for(criterion, parameters, state)
        if position is not None and len(targets) == 1 < len(predictions):  # e.g. (input, target, var)
            n_before = min(position, len(predictions))
        try:
            return criterion(*predictions[:n_before], *targets, *predictions[n_before:], **weights)
        except _OF_WRONG_TYPES as error:
            refuse_no_arrays(criterion, {"prediction": predictions, "target": targets}, error)
            raise

    return compute


def _weights_for(
    criterion: Criterion, parameters: Mapping[str, inspect.Parameter] | None, state: State
) -> dict[str, Any]:
    """The weights of the samples of a batch as the keyword of a criterion; nothing where there are none."""
    weights = state.get(keys.SAMPLE_WEIGHT)
    if weights is None:
        return {}
    # losses of Keras are called with what their method that computes knows nothing of
    if "sample_weight" not in {*(parameters or ()), *(_told_parameters(type(criterion).__call__) or ())}:
        raise ConfigError(
            f"the batch has weights of its samples, and {criterion!r} has no argument sample_weight, so they would "
            "count for nothing; give it one, or leave the weights out"
        )
    return {"sample_weight": weights}


def takes_state_only(criterion: Criterion) -> bool:
    """Return True if a criterion is one of the state, so that no target is read for it; so is none at all."""
    return criterion is None or (takes_state(criterion) and not hasattr(criterion, TARGET_FIRST))


def takes_state(function: Any) -> bool:
    """Return True if a function is one of the state rather than of predictions and targets."""
    if isinstance(function, StateKey):
        return True
    given, is_alone = _first_parameter(function)
    if given is None:
        return False
    is_named = given.name == "state" or _is_state(given)
    return is_named or (is_alone and role_of(given.name) != "prediction")


def _told_parameters(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """What a network or function computes with; None where nothing says it: of C, or never called."""
    try:
        return parameters_of(function)
    except (TypeError, ValueError):
        return None


def _first_parameter(function: Any) -> tuple[inspect.Parameter | None, bool]:
    """The first argument of a function, and whether it is the only one; None if there is none, or no signature."""
    parameters = _told_parameters(function) or {}
    given = positional(parameters)
    return (given[0], len(given) == 1 and not has_more(parameters)) if given else (None, False)
