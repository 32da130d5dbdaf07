"""Which parameters a function has, and which of two arguments of a metric or loss is the prediction, by their names."""

import inspect
import logging
import re
import weakref
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Literal

Order = Literal["prediction first", "target first"]

#: words in the name of a parameter, from those that tell most to those that tell least: of predictions, and of targets
_WORDS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (
        frozenset({
            "pred", "preds", "prediction", "predictions", "predicted", "predict", "hat", "yhat", "output", "outputs",
            "out", "logit", "logits", "score", "scores", "prob", "probs", "proba", "probas", "probability",
            "probabilities", "estimate", "estimated", "estimates", "estimation", "forecast", "forecasts", "fitted",
            "recon", "reconstruction", "reconstructed",
        }),
        frozenset({
            "true", "truth", "target", "targets", "tgt", "gt", "groundtruth", "actual", "actuals", "expected",
            "observed", "reference",
        }),
    ),
    (frozenset({"input", "inputs"}), frozenset({"label", "labels", "lbl", "y", "t", "annotation", "annotations"})),
)  # fmt: skip

#: attribute by which an object says it, e.g. losses that a framework calls as ``loss(target, prediction)``
TARGET_FIRST = "takes_target_first"
_log = logging.getLogger("delira")
_known: weakref.WeakKeyDictionary[Any, Order | None] = weakref.WeakKeyDictionary()


def order_of(function: object) -> Order | None:
    """Which argument goes first, as far as the names of the parameters tell.

    Of two arguments one known name is enough: ``metric(a, y_pred)`` gets the target first. The signature of one object
    is read once.

    Parameters
    ----------
    function
        A function, a ``functools.partial`` or bound method, a module whose ``forward`` or ``call`` computes, an object
        with ``update``, or any other that can be called.

    Returns
    -------
    str or None
        ``None`` if names tell nothing, or there is no signature.
    """
    try:
        return _known[function]
    except (KeyError, TypeError):  # TypeError: it has no hash, or no weak references
        pass
    order = _order(function)
    try:
        _known[function] = order
    except TypeError:
        return order
    return order


def target_position(function: object) -> int | None:
    """Which of its arguments is the target, counted from 0, of a function of any number of predictions.

    Parameters
    ----------
    function
        As for :func:`order_of`.

    Returns
    -------
    int or None
        ``None`` unless the name of exactly one parameter says that it is the target.
    """
    found = [number for number, name in enumerate(_names(function) or ()) if role_of(name) == "target"]
    return found[0] if len(found) == 1 else None


def _order(function: object) -> Order | None:
    if (said := getattr(function, TARGET_FIRST, None)) is not None:
        return "target first" if said else "prediction first"
    names = _names(function)
    if names is None or len(names) < 2:
        return None
    first, last = role_of(names[0]), role_of(names[-1])
    if first == last:
        return None
    return "target first" if first == "target" or last == "prediction" else "prediction first"


def _names(function: object) -> list[str] | None:
    """Return names of the arguments that a call fills; ``None`` if they cannot be known."""
    for computes in _computing(getattr(function, "_orig_mod", function)):  # torch.compile of a module
        if (schema := getattr(computes, "schema", None)) is not None and hasattr(schema, "arguments"):
            return [one.name for one in schema.arguments if one.name != "self"]  # compiled by TorchScript
        try:
            parameters = inspect.signature(computes).parameters
        except (TypeError, ValueError):  # of C, without a signature
            continue
        required = [one.name for one in needed(parameters)]
        names = required if len(required) >= 2 else [one.name for one in positional(parameters)][:2]
        if names:
            return names
    return None


def _computing(function: Any) -> Iterable[Callable[..., Any]]:
    """Return what may tell the names: the method that computes, before the object, which often takes anything."""
    if not inspect.isroutine(function) and not isinstance(function, type):
        if all(callable(getattr(function, name, None)) for name in ("update", "compute", "reset")):
            return [function.update]
        # update_state: metrics of Keras
        methods = [getattr(function, name, None) for name in ("update_state", "forward", "call")]
        return [*filter(callable, methods), function]
    return [function]


def role_of(name: str) -> Literal["prediction", "target"] | None:
    """Return what a parameter is by its name, e.g. ``y_hat``, ``trueLabels``, ``logits``."""
    words = set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    for predictions, targets in _WORDS:
        if words & predictions:
            return None if words & targets else "prediction"
        if words & targets:
            return "target"
    return None


def ordered(function: object, prediction: object, target: object, default: Order) -> tuple[Any, Any]:
    """Prediction and target in the order in which a function takes them; ``default`` where names tell nothing."""
    order = order_of(function) or default
    return (target, prediction) if order == "target first" else (prediction, target)


_told: set[str] = set()


def tell_order(kind: str, name: str, function: object, entries: Sequence[str], shapes: Sequence[Any]) -> None:
    """Say, once, in which order a function is called whose names tell nothing, if a wrong one would go unseen.

    Parameters
    ----------
    kind, name
        ``"metric"`` or ``"loss"``, and which.
    function
        The function.
    entries
        What it reads, in the order of its arguments.
    shapes
        Shapes of both; of others a wrong order is an error.
    """
    if len(entries) == 2 and (untold := _untold(function, shapes)):
        called = f"{kind} {name!r} is called with ({', '.join(entries)})"
        _tell(f"{called}: {untold}, or set {kind}_keys={{{name!r}: {tuple(entries)}}}")


def tell_criterion_order(criterion: object, shapes: Sequence[Any]) -> None:
    """Say, once, in which order the criterion of a trial is called whose names tell nothing.

    Parameters
    ----------
    criterion
        The function.
    shapes
        Shapes of prediction and target; of different ones a wrong order is an error.
    """
    if untold := _untold(criterion, shapes):
        name = getattr(criterion, "__name__", type(criterion).__name__)
        _tell(f"the criterion {name!r} is called with (prediction, target): {untold}")


def _untold(function: object, shapes: Sequence[Any]) -> str:
    """Say what is not known of the order; empty if it is known, or a wrong one would be seen."""
    if None in shapes or len(set(map(tuple, shapes))) != 1 or order_of(function) is not None:
        return ""
    names = _names(function)
    given = f" (its parameters are called {' and '.join(names)})" if names else ""
    return (
        f"nothing tells which of its arguments is the prediction{given}, and both have the shape {tuple(shapes[0])}; "
        "call them y_true and y_pred"
    )


def tell_contradiction(
    kind: str, name: str, function: object, entries: Sequence[str], predicted: Container[str]
) -> None:
    """Say, once, that the entries a user named go to arguments of other names.

    Parameters
    ----------
    kind, name, function, entries
        As for :func:`tell_order`; of a user's ``loss_keys`` or ``metric_keys``.
    predicted
        Names of what the network returned.
    """
    is_predicted = [entry.partition(".")[0] in predicted for entry in entries]
    order = order_of(function)
    if len(entries) != 2 or sum(is_predicted) != 1 or order is None or hasattr(function, TARGET_FIRST):
        return
    if is_predicted[0] != (order == "prediction first"):
        names = _names(function) or []
        _tell(
            f"{kind}_keys={{{name!r}: {tuple(entries)}}} hands {entries[0]!r} to the argument {names[0]!r} and "
            f"{entries[1]!r} to {names[-1]!r}; leave it out, or turn it round, if that is not what you mean"
        )


def _tell(sentence: str) -> None:
    if sentence not in _told:
        _told.add(sentence)
        _log.warning(sentence)


def positional(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    """Return those that can go by position; ``*args`` is none."""
    return [one for one in parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def needed(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    """Return those of them that have no default."""
    return [one for one in positional(parameters) if one.default is one.empty]


def has_more(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Return True if any number of further ones goes by position: ``*args``."""
    return any(one.kind is one.VAR_POSITIONAL for one in parameters.values())


def parameters_of_method(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Parameters by name, also of what TorchScript traced, froze or loaded, which has a schema and no signature.

    Parameters
    ----------
    method
        A function, or a bound method.

    Raises
    ------
    TypeError, ValueError
        If nothing says what it takes.
    """
    try:
        return inspect.signature(method).parameters
    except ValueError:
        arguments = getattr(getattr(method, "schema", None), "arguments", None)
        if arguments is None:
            raise
    return {
        one.name: inspect.Parameter(
            one.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=one.default_value if one.has_default_value() else inspect.Parameter.empty,
        )
        for one in arguments
        if one.name != "self"
    }
