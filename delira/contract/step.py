"""One step: what its hooks see, and how networks, losses and metrics find what they read."""

import contextvars
import dataclasses
import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from delira.contract.kinds import ByName, Closure, CompileConfig, Devices, Network, Optimizer, Role, Tree
from delira.errors import ConfigError, MissingKeyError, NetworkError, check_choice, check_functions, check_texts
from delira.utils.binding import TARGET_FIRST as TARGET_FIRST
from delira.utils.binding import ordered

_log = logging.getLogger("delira")

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: prediction and target that a loss reads if ``loss_keys`` does not say otherwise, in the order that its names tell
DEFAULT_LOSS_KEYS = ("pred", "label")
#: target and prediction that a metric reads if ``metric_keys`` does not say otherwise, in the order that its names tell
DEFAULT_METRIC_KEYS = ("label", "pred")
#: what :func:`mark` tells apart
_PARTS = ("forward", "backward", "update")


@dataclasses.dataclass
class Step:
    """One step as the hooks inside it see it; a hook changes it by assignment."""

    network: Any
    batch: dict[str, Any]
    """The prepared batch."""
    predictions: Any = None
    losses: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Loss values by name; their sum is differentiated."""
    backward_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Further keywords of the backward pass, where the framework has any."""
    gradients: Any = None
    """Where hooks.backward run: gradients of the learned weights by name; entries that are set are applied."""
    call: Callable[[Any, dict[str, Any]], Any] | None = None
    """Calls the network with the batch, in place of a ``key_mapping``: for a trial, whose loss may be none."""


#: a function that sees a step, and may change it; those of one event
Hook: TypeAlias = Callable[[Step], None]
Hooks: TypeAlias = Sequence[Hook]
#: what fills predictions and losses of a step, and returns it
Compute: TypeAlias = Callable[[Step], Step]
#: what makes arrays of a batch; a batch, and what was made of it ahead
Prepare: TypeAlias = Callable[[ByName], dict[str, Any]]
Fed: TypeAlias = tuple[ByName, dict[str, Any] | None]


@dataclasses.dataclass(frozen=True)
class StepHooks:
    """Functions of a :class:`Step` that run inside a backend's default closure.

    ``sample`` runs on the prepared batch, ``forward`` on the predictions, ``criterion`` on the losses
    before they are differentiated, ``backward`` when the gradients are there. A compiled step freezes
    Python: it is used only if every hook has a true attribute ``traceable``.
    """

    sample: tuple[Hook, ...] = ()
    forward: tuple[Hook, ...] = ()
    criterion: tuple[Hook, ...] = ()
    backward: tuple[Hook, ...] = ()

    def __post_init__(self) -> None:
        for event, hooks in vars(self).items():
            if not isinstance(hooks, (tuple, list)) or not all(map(callable, hooks)):
                raise ConfigError(f"StepHooks: {event} is a tuple of functions, got {hooks!r}")

    @property
    def traceable(self) -> bool:
        """Return True if a compiled step may contain all of the hooks."""
        return not self.untraceable

    @property
    def untraceable(self) -> list[str]:
        """What the hooks that a compiled step may not contain say they are."""
        every = (*self.sample, *self.forward, *self.criterion, *self.backward)
        hooks = [hook for hook in every if not getattr(hook, "traceable", False)]
        return [str(getattr(hook, "who", None) or getattr(hook, "__name__", hook)) for hook in hooks]


#: a step without hooks
NO_HOOKS = StepHooks()


_listener: contextvars.ContextVar[Callable[[str], None] | None] = contextvars.ContextVar("marks", default=None)


def mark(part: str) -> None:
    """Say inside a closure that a part of the step ends here, so that the times of a fold tell it from others.

    Does nothing but in the few steps that are measured. A compiled closure marks nothing: it runs once.

    Parameters
    ----------
    part
        ``"forward"`` (losses included), ``"backward"`` or ``"update"``.

    Raises
    ------
    ConfigError
        If it is none of these, in the steps that are measured.
    """
    if (listener := _listener.get()) is not None:
        check_choice("mark", _PARTS, part=part)
        listener(part)


def tell_marks(listener: Callable[[str], None] | None) -> None:
    """Call ``listener`` with the part at each :func:`mark` from now on, in this thread or task.

    Parameters
    ----------
    listener
        Who is told; None: nobody any more.
    """
    if listener is not None:
        check_functions("tell_marks", listener=listener)
    _listener.set(listener)


def backend_default(function: _Function) -> _Function:
    """Mark the closure or the ``prepare_batch`` of a backend, as opposed to one that a user wrote.

    Put it below ``@staticmethod``. A closure that is marked only computes the losses by name, besides the update, so
    the trainer may validate them, and try them on one batch. A ``prepare_batch`` that is marked draws no random
    numbers and changes nothing, so batches may be prepared ahead.

    Parameters
    ----------
    function
        The function.
    """
    return _marked(function, "backend_default", "is_backend_default", True)


def needs_losses(example: str) -> Callable[[_Function], _Function]:
    """Mark a closure that learns nothing of use without losses, so that the trainer refuses to begin without any.

    Put it below ``@staticmethod``.

    Parameters
    ----------
    example
        Losses as an example of Python, ``{'name': function}``.
    """
    check_texts("needs_losses", example=example)

    return lambda function: _marked(function, "needs_losses", "needs_losses", example)


def _marked(function: _Function, decorator: str, name: str, value: object) -> _Function:
    """Write on a function; what is written on a ``staticmethod`` is not on the function that a class shows."""
    if isinstance(function, (staticmethod, classmethod)) or not hasattr(function, "__dict__"):
        raise ConfigError(f"{decorator}: put it below @staticmethod, on a function; got {function!r}")
    check_functions(decorator, function=function)
    setattr(function, name, value)
    return function


def _refuse_others_than_dicts(caller: str, **given: Any) -> None:
    """Say which argument is no dictionary: after an error, so that right ones cost nothing at every step."""
    for name, value in given.items():
        if not (hasattr(value, "items") and hasattr(value, "__getitem__")) or isinstance(value, type):
            raise ConfigError(f"{caller}: {name} is a dictionary by name, got {value!r:.200}")


def run_hooks(hooks: Hooks, step: Step) -> None:
    """Call the hooks of one event.

    Parameters
    ----------
    hooks
        A field of :class:`StepHooks`.
    step
        The step that they see and change.
    """
    for hook in hooks:
        hook(step)


def default_optimizer(optimizers: ByName) -> Any:
    """The optimizer that a backend's default closure updates with.

    Parameters
    ----------
    optimizers
        The trainer's optimizers by name.

    Raises
    ------
    ConfigError
        If none is called ``"default"``.
    """
    try:
        return optimizers["default"]
    except (KeyError, TypeError, IndexError) as error:
        _refuse_others_than_dicts("default_optimizer", optimizers=optimizers)
        raise ConfigError(
            f"the default closure updates with the optimizer 'default', but there are only {sorted(optimizers)}; "
            "give the network a closure of its own, or let optim_fn return {'default': optimizer}"
        ) from error


def validation_names(values: ByName) -> dict[str, Any]:
    """Values of a closure that was called without optimizers, under the names that they have then.

    Parameters
    ----------
    values
        Losses or metrics by name.

    Raises
    ------
    ConfigError
        If they are none by name.
    """
    try:
        return {f"val_{name}": value for name, value in values.items()}
    except (AttributeError, TypeError):
        _refuse_others_than_dicts("validation_names", values=values)
        raise


def look_up(kind: str, name: str, keys: Iterable[str], *sources: ByName) -> list[Any]:
    """Find each key that a loss or metric reads in the first of ``sources`` that has it.

    Parameters
    ----------
    kind, name
        ``"loss"`` or ``"metric"``, and which.
    keys
        The entries it reads.
    *sources
        Batch and predictions, in the order in which they are searched.

    Raises
    ------
    MissingKeyError
        Naming who reads the key and what there is.
    """
    found = []
    for key in keys:
        for source in sources:
            try:
                if key in source:
                    found.append(source[key])
                    break
            except TypeError:
                _refuse_others_than_dicts(f"{kind} {name!r}", source=source)
                raise
        else:
            there = sorted({str(entry) for source in sources for entry in source})
            order = "(prediction, target)" if kind == "loss" else "(target, prediction)"
            raise MissingKeyError(
                f"{kind} {name!r} reads {key!r}, but there are only {there}; set {kind}_keys={{{name!r}: {order}}}"
            )
    return found


def select_inputs(key_mapping: Mapping[str, str], batch: ByName) -> dict[str, Any]:
    """The arguments of a network, taken out of a prepared batch.

    Raises
    ------
    MissingKeyError
        If the batch lacks an entry of ``key_mapping``.
    ConfigError
        If one of both is no dictionary.
    """
    try:
        return {argument: batch[key] for argument, key in key_mapping.items()}
    except (AttributeError, IndexError, TypeError):
        _refuse_others_than_dicts("select_inputs", key_mapping=key_mapping, batch=batch)
        raise
    except KeyError as error:
        raise MissingKeyError(
            f"key_mapping={dict(key_mapping)} reads {error.args[0]!r}, but the batch has only {sorted(batch)}; "
            "set key_mapping={argument of the network: entry of the batch}"
        ) from error


def named_outputs(network: Network, predictions: Tree) -> ByName:
    """Refuse what a network returned if it is no mapping.

    Parameters
    ----------
    network
        The network.
    predictions
        What it returned.

    Raises
    ------
    NetworkError
        Naming the network.
    """
    if type(predictions) is not dict and not isinstance(predictions, Mapping):
        raise NetworkError(
            f"{type(network).__name__} returned a {type(predictions).__name__}; a network returns a dict of named "
            "outputs, e.g. {'pred': output}"
        )
    return predictions


def call_losses(
    losses: Mapping[str, Callable[..., Any]], loss_keys: Mapping[str, Sequence[str]], predictions: ByName, batch: ByName
) -> dict[str, Any]:
    """Evaluate every loss on the entries it reads; an error of a loss is told its name and what it read.

    Parameters
    ----------
    losses
        Functions by name.
    loss_keys
        The entries each reads, in the order of its arguments (a ``keras.losses.Loss``: prediction and target);
        ``DEFAULT_LOSS_KEYS`` if it is not named here.
    predictions
        Named outputs of the network.
    batch
        The prepared batch.

    Raises
    ------
    ConfigError
        If losses are no functions by name.
    """
    try:
        pairs, keys_of = losses.items(), loss_keys.get
    except AttributeError:
        _refuse_others_than_dicts("call_losses", losses=losses, loss_keys=loss_keys)
        raise
    values = {}
    for name, loss in pairs:
        if (keys := keys_of(name)) is None:
            values[name] = call_loss(name, loss, look_up("loss", name, DEFAULT_LOSS_KEYS, predictions, batch))
            continue
        read = look_up("loss", name, keys, predictions, batch)
        values[name] = _called(name, loss, read[::-1] if getattr(loss, TARGET_FIRST, False) else read)
    return values


def loss_entries(loss: Callable[..., Any], prediction: str, target: str) -> tuple[str, str]:
    """Entries as ``loss_keys`` has them, of a loss that is not named there.

    Parameters
    ----------
    loss
        The function.
    prediction, target
        The entries.
    """
    if hasattr(loss, TARGET_FIRST):  # what it says counts for ``loss_keys``, too
        return prediction, target
    first, second = ordered(loss, prediction, target, "prediction first")
    return first, second


def call_loss(name: str, loss: Callable[..., Any], read: Sequence[Any]) -> Any:
    """Evaluate one loss, in the order that its names tell; an error is told its name and what it read.

    Parameters
    ----------
    name
        What it is called.
    loss
        The function.
    read
        What it reads, as ``(prediction, target)``.
    """
    if len(read) == 2:
        read = ordered(loss, read[0], read[1], "prediction first")
    return _called(name, loss, read)


def _called(name: str, loss: Callable[..., Any], read: Sequence[Any]) -> Any:
    try:
        return loss(*read)
    except Exception as error:
        if not callable(loss):
            raise ConfigError(f"losses: the loss {name!r} is a function, got {loss!r}") from error
        error.add_note(f"while loss {name!r} read {', '.join(map(describe_value, read))}")
        raise


def describe_value(value: Tree) -> str:
    """Type, shape and dtype of an array of any framework."""
    if not hasattr(value, "shape"):
        return type(value).__name__
    return f"{type(value).__name__} of shape {tuple(value.shape)} and dtype {getattr(value, 'dtype', '?')}"


def call_metrics(
    metrics: Mapping[str, Callable[..., Any]],
    metric_keys: Mapping[str, Sequence[str]],
    predictions: ByName,
    batch: ByName,
) -> dict[str, Any]:
    """Evaluate every training metric of a step; batch entries go before predictions of the same name.

    Parameters
    ----------
    metrics
        Functions by name.
    metric_keys
        The entries each reads, in the order of its arguments; ``DEFAULT_METRIC_KEYS`` if it is not named here.
    predictions
        Named outputs of the network.
    batch
        The prepared batch.

    Raises
    ------
    ConfigError
        If metrics are no functions by name.
    """
    try:
        pairs, keys_of = metrics.items(), metric_keys.get
    except AttributeError:
        _refuse_others_than_dicts("call_metrics", metrics=metrics, metric_keys=metric_keys)
        raise
    values = {}
    for name, metric in pairs:
        if not callable(metric):
            raise ConfigError(f"metrics: the metric {name!r} is a function, got {metric!r}")
        if (keys := keys_of(name)) is None:
            target, prediction = DEFAULT_METRIC_KEYS
            keys = ordered(metric, prediction, target, "target first")
        values[name] = metric(*look_up("metric", name, keys, batch, predictions))
    return values


def is_traced(compiling: CompileConfig, hooks: StepHooks | None) -> bool:
    """Return True if a step is compiled; a hook that prevents it is named in the log.

    Parameters
    ----------
    compiling
        What was asked for.
    hooks
        What runs inside the step.
    """
    if compiling.compiled is False:
        return False
    if hooks is None or hooks.traceable:
        return True
    _log.warning(
        "the step is not compiled, since a hook inside it is not marked traceable (%s); compiled=False says the same",
        ", ".join(hooks.untraceable),
    )
    return False


def counters_of(closure: Callable[..., Any]) -> list[str]:
    """Counters of a training that a closure names among its arguments.

    Parameters
    ----------
    closure
        The network's closure.
    """
    names = inspect.signature(closure).parameters
    return [name for name in ("iter_num", "global_iter_num", "batch_nr") if name in names]


class StepRole(Role):
    """Steps: fed, bound, and what the default closure is made of. In the plain case they are Python."""

    role = "step"

    def feed(self, batches: Iterable[ByName], prepare: Prepare) -> Iterator[Fed]:
        """Yield each batch, with what ``prepare`` makes of it where that was done ahead, else with None.

        A backend whose device copies while it computes prepares the next batch during a step, if that draws no
        random numbers and changes nothing.
        """
        return ((batch, None) for batch in batches)

    def shuffles(self, network: Network) -> bool:
        """Return True if a network learns from samples in another order in each epoch."""
        return True

    def outputs(self, network: Network, outputs: Any) -> Any:
        """What the network returned, in the number format in which losses are computed."""
        return outputs

    def learn(self, optimizer: Optimizer, step: Step, compute: Compute, backward: Hooks) -> None:
        """Compute the step, differentiate the sum of its losses, and let the optimizer update, for the default closure.

        Parameters
        ----------
        optimizer
            One of those that the backend has built.
        step
            The step that begins; afterwards it has predictions and losses.
        compute
            Fills predictions and losses of a step; it may be called more than once, with a new step each time.
        backward
            Hooks of the gradients, which see and set ``step.gradients``.
        """
        raise ConfigError(f"networks of the backend {self.backend.name!r} learn by a closure of their own")

    def predict(self, step: Step, compute: Compute) -> None:
        """Compute a step from which nothing is learned, for the default closure."""
        compute(step)

    def values(self, step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
        """Predictions and losses of a step, cut off from the gradients."""
        return dict(step.predictions), dict(step.losses)

    def measure(self, metrics: ByName, metric_keys: ByName, predictions: ByName, batch: ByName) -> dict[str, Any]:
        """The training metrics of a step, without gradients."""
        return call_metrics(metrics, metric_keys, predictions, batch)

    def bind(self, closure: Closure, network: Network, arguments: ByName, compiling: CompileConfig) -> Closure:
        """The closure as it is called at every step, ``step(batch, **counters)``, compiled where the backend does so.

        ``arguments`` (optimizers, losses, hooks, …) stay the same; only those the closure takes are there. A
        compiled step contains Python as it was when it was traced: the backend leaves out what is no array of a
        batch, passes counters, as 0-d arrays, only to closures that name them, and runs the closure as
        it is if ``hooks`` are not traceable, and says so.
        """
        if compiling.compiled or compiling.jit:
            raise self.lacking("does not compile steps; leave compile and jit_compile out")
        return functools.partial(closure, network, **arguments)

    def explain(self, error: BaseException) -> str | None:
        """What a user can do about an error of the framework, if the backend knows."""
        return None

    def is_mistake(self, warning: str) -> bool:
        """Return True if a warning of the framework, given while a loss was tried, says that it is wrong."""
        return False

    def zero_loss(self, devices: Devices) -> Any:
        """A loss of nothing, to which others can be added."""
        return 0.0

    def differentiate(
        self, network: Network, optimizer: Optimizer, compute: Callable[[Any], tuple[Any, dict[Any, Any]]]
    ) -> tuple[Any, dict[Any, Any], dict[str, Any]]:
        """Loss, further values, and the gradients of one network's learned weights by name.

        Parameters
        ----------
        network
            Whose weights are meant; no other network gets gradients.
        optimizer
            That will update them.
        compute
            Called with the network, returns the loss and further values.
        """
        raise self.lacking("differentiates in its own closure only")

    def leave_gradients(self, network: Network, optimizer: Optimizer, gradients: ByName) -> None:
        """Keep gradients by name for :meth:`update_after`."""

    def update_after(self, optimizers: ByName) -> None:
        """Update with gradients that a closure of a trial has left: on the weights, where frameworks do so."""
