"""What a loss says of predictions (a setting, or their values, may say it, too), and what its mean counts."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.errors import DataError
from delira.state import CRITERION, OUTPUT
from delira.utils.arrays import Array
from delira.utils.frameworks import ENDINGS, LIBRARIES, is_of_framework

#: kind -> names of classes and functions of PyTorch, Keras, TensorFlow and optax, and of delira's own losses
KINDS = {
    "categorical": {
        "CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss", "MultiMarginLoss", "multi_margin_loss",
        "CategoricalCrossentropy", "categorical_crossentropy", "SparseCategoricalCrossentropy",
        "sparse_categorical_crossentropy", "CategoricalFocalCrossentropy", "categorical_focal_crossentropy",
        "CategoricalHinge", "categorical_hinge", "softmax_cross_entropy_with_logits",
        "sparse_softmax_cross_entropy_with_logits", "softmax_cross_entropy", "safe_softmax_cross_entropy",
        "softmax_cross_entropy_with_integer_labels", "poly_loss_cross_entropy", "multiclass_hinge_loss", "bc_loss",
    },
    "binary": {
        "BCELoss", "binary_cross_entropy", "BinaryCrossentropy", "binary_crossentropy", "BinaryFocalCrossentropy",
        "binary_focal_crossentropy", *(f"BCEFocalLoss{backend}" for backend in ENDINGS),
    },
    "logits": {
        "BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "sigmoid_binary_cross_entropy",
        "sigmoid_cross_entropy_with_logits", "sigmoid_focal_loss", "MultiLabelSoftMarginLoss",
        "multilabel_soft_margin_loss", *(f"BCEFocalLossLogit{backend}" for backend in ENDINGS),
    },
    "mse": {"MSELoss", "mse_loss", "MeanSquaredError", "mean_squared_error", "squared_error", "l2_loss"},
    "mae": {"L1Loss", "l1_loss", "MeanAbsoluteError", "mean_absolute_error"},
    "mixup": {"mixup_loss"},
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
#: what a user may say of predictions
OUTPUTS = ("logits", "probabilities", "labels")
#: packages whose losses are known: a function of the user's own may be called as one of them and take something else
_PACKAGES = LIBRARIES | {"torchvision", "tf_keras", "delira"}
#: losses of masks: what makes probabilities of their predictions is in their ``activation``
_OF_MASKS = {f"{name}{backend}" for name in ("DiceLoss", "TverskyLoss", "DiceCELoss") for backend in ENDINGS}
#: categorical losses that take probabilities unless ``from_logits`` says otherwise
_FROM_LOGITS = {
    "CategoricalCrossentropy", "categorical_crossentropy", "SparseCategoricalCrossentropy",
    "sparse_categorical_crossentropy", "CategoricalFocalCrossentropy", "categorical_focal_crossentropy",
}  # fmt: skip


class Criterion(NamedTuple):
    """What is known of predictions: by the loss that compares them with their target, or by the user's setting."""

    name: str
    """Of the loss: its class, or the function."""

    kind: str | None
    """A key of ``KINDS``."""
    ignore_index: int | None = None
    """The target that does not count."""
    output: str | None = None
    """``"logits"``, ``"probabilities"``, ``"labels"`` or ``"numbers"``; None: it is read off the values."""
    class_axis: int | None = None
    """Of scores ``(B, C, ...)`` or ``(B, ..., C)``: 1 or -1; None: it is read off the shapes."""
    told_by: str = "values"
    """Who says what the output is: ``"criterion"``, ``"setting"``, or its ``"values"``; ``"backend"``: of scikit-learn
    one score for each target is a number that an estimator predicts, and columns are what their values say."""
    classes: tuple[int, ...] = ()
    """Labels of the whole data set, where predictions are labels: what a fold lacks is a class of it, too."""

    @property
    def is_exclusive(self) -> bool:
        """Return True if a sample has one class of several, so that a softmax makes probabilities of logits."""
        return self.kind in ("categorical", "mixup")

    @property
    def is_of_each(self) -> bool:
        """Return True if each class is yes or no by itself, so that a sigmoid makes probabilities of logits."""
        return self.kind in ("binary", "logits")


def describe_criterion(criterion: Any) -> Criterion:
    """What is known of a criterion: by its class and the classes it is derived from, or by the name of a function.

    ``functools.partial``, what ``functools.wraps`` has wrapped, compiled modules and Keras' wrappers of functions are
    looked through. What is known already is returned as it is.
    """
    if isinstance(criterion, Criterion):
        return criterion
    criterion, settings = _innermost(criterion)
    owners = [criterion] if getattr(criterion, "__name__", "") else type(criterion).__mro__
    names = [owner.__name__ for owner in owners]
    owner = next((owner for owner in owners if owner.__name__ in _KIND_OF), None)
    kind = None if owner is None else _KIND_OF[owner.__name__]
    from_logits = bool(settings.get("from_logits", getattr(criterion, "from_logits", False)))
    if kind == "binary" and from_logits:
        kind = "logits"
    given = [settings.get(name, getattr(criterion, name, None)) for name in ("ignore_index", "ignore_class")]
    ignored = next((int(value) for value in given if value is not None), None)
    if owner is not None:
        package = str(getattr(owner, "__module__", "")).partition(".")[0]
        output = _output_of(owner.__name__, kind, from_logits) if package in _PACKAGES or kind == "logits" else None
        return Criterion(names[0], kind, ignored, output, None, "criterion" if output else "values")
    if not _OF_MASKS.isdisjoint(names):
        activation = getattr(criterion, "activation", "auto")
        output = "probabilities" if activation is None else "logits"
        return Criterion(names[0], "logits" if activation == "sigmoid" else None, ignored, output, 1, "criterion")
    return _of_monai(criterion, ignored) or Criterion(names[0], None, ignored)


def _of_monai(loss: Any, ignored: int | None) -> Criterion | None:
    """What is known of a loss of MONAI by what makes probabilities of its predictions; None: it is another one."""
    cls = type(loss)
    if cls.__module__.partition(".")[0] != "monai":
        return None
    parts = (loss, *(getattr(loss, name, None) for name in ("dice", "generalized_dice")))
    of_masks = next((part for part in parts if hasattr(part, "softmax") and hasattr(part, "sigmoid")), None)
    takes_logits = of_masks is None and hasattr(loss, "use_softmax")  # its focal loss
    if loss.use_softmax if takes_logits else of_masks is not None and of_masks.softmax:
        return Criterion(cls.__name__, None, ignored, "logits", 1, "criterion")
    if takes_logits or (of_masks is not None and of_masks.sigmoid):
        return Criterion(cls.__name__, "logits", ignored, "logits", 1, "criterion")
    return Criterion(cls.__name__, None, ignored)


def combined(known: Sequence[Criterion]) -> Criterion:
    """Return what several losses say of one prediction; nothing where they say different things."""
    if len(known) == 1:
        return known[0]
    output = _only({each.output for each in known} - {None, "numbers"})
    return Criterion(
        " + ".join(each.name for each in known),
        _only({each.kind for each in known} - {None, "mse", "mae"}),
        _only({each.ignore_index for each in known} - {None}),
        output,
        _only({each.class_axis for each in known} - {None}),
        "values" if output is None else "criterion",
    )


def _only(values: set[Any]) -> Any:
    return values.pop() if len(values) == 1 else None


def _output_of(name: str, kind: str | None, from_logits: bool) -> str:
    if kind in ("mse", "mae"):
        return "numbers"
    return "probabilities" if kind == "binary" or (name in _FROM_LOGITS and not from_logits) else "logits"


def _innermost(criterion: Any) -> tuple[Any, dict[str, Any]]:
    """Return what partials and wrappers call in the end, and the keywords that they give it."""
    settings: dict[str, Any] = {}
    for _ in range(32):  # a wrapper may name itself
        if getattr(criterion, "__name__", "") in KINDS["mixup"]:  # it does more than what it wraps
            break
        if isinstance(criterion, functools.partial):
            settings = {**criterion.keywords, **settings}
            criterion = criterion.func
            continue
        if isinstance(fixed := getattr(criterion, "_fn_kwargs", None), Mapping):  # of Keras
            settings = {**fixed, **settings}
        held = getattr(criterion, "__dict__", {})
        insides = (held.get(name) for name in ("__wrapped__", "_orig_mod", "_torchdynamo_orig_callable"))
        inner = next((inside for inside in insides if inside is not None), None)
        if inner is None and type(criterion).__name__ == "LossFunctionWrapper":
            inner = getattr(criterion, "fn", None)
        if inner is None and type(criterion).__name__ == "method" and criterion.__name__ in ("forward", "__call__"):
            inner = criterion.__self__
        if inner is None:
            break
        criterion = inner
    return criterion, settings


def known_of(state: Mapping[Any, Any]) -> Criterion:
    """Return what the state of a trial says of its predictions: by its setting, else by its criterion."""
    criterion = state.get(CRITERION)
    # the losses of an experiment, as its callbacks see them, are by name
    losses = criterion.values() if isinstance(criterion, Mapping) else [criterion]
    return with_output(combined([describe_criterion(loss) for loss in losses]), state.get(OUTPUT))


def with_output(known: Criterion, output: str | None, told_by: str = "setting") -> Criterion:
    """Return the same, where somebody says what the output is."""
    return known if output is None else known._replace(output=output, told_by=told_by)


def read_values(
    known: Criterion, pred: np.ndarray, true: np.ndarray | None = None, *, by_targets: bool = True
) -> Criterion:
    """Return what is known of predictions, and where nobody says what they are, what all their values say.

    Scores from 0 to 1, of classes that exclude each other such as sum to 1 within 1e-3, are probabilities, all others
    logits; whole numbers, if they are no floating-point numbers, are labels. What is not finite does not count. One-hot
    targets of several columns are classes that exclude each other.

    Parameters
    ----------
    known
        What is known.
    pred
        Predictions of a whole pass: scores with the classes on the last axis if there are several.
    true
        Targets: of the shape of the predictions they are yes or no for each, else labels.
    by_targets
        Whether one-hot targets say that classes exclude each other.
    """
    is_alike = pred.ndim > 1 and true is not None and true.shape == pred.shape
    if by_targets and is_alike and known.kind is None and true is not None and one_of_each_row(true):
        known = known._replace(kind="categorical")
    if known.output is not None:
        return known
    if pred.dtype.kind != "f":
        return known._replace(output="labels")
    is_each = pred.size == (len(pred) if true is None else true.size) and not (is_alike and known.is_exclusive)
    if is_each and known.told_by == "backend":
        return known._replace(output="numbers")
    if pred.ndim > 2 and known.class_axis == 1 and not is_each:
        pred = np.moveaxis(pred, 1, -1)
    finite = pred[np.isfinite(pred)] if is_each else pred[np.isfinite(pred).all(axis=-1)]
    with np.errstate(over="ignore"):
        are_probabilities = bool(np.all((finite >= 0) & (finite <= 1 + 1e-6))) if is_each else are_distributions(finite)
    return known._replace(output="probabilities" if are_probabilities else "logits")


def are_distributions(scores: np.ndarray) -> bool:
    """Return True if all rows are not negative and sum to 1 within 1e-3."""
    return bool(np.all(scores >= 0) and np.allclose(scores.sum(-1, dtype=np.float64), 1, atol=1e-3))


def says_yes_or_no(table: np.ndarray) -> bool:
    """Return True for numbers that are all 0 or 1."""
    return table.dtype.kind in "biuf" and bool(np.all((table == 0) | (table == 1)))


def one_of_each_row(table: np.ndarray, axis: int = -1) -> bool:
    """Return True if a table has a single yes in each row: one-hot labels of more than one class."""
    is_table = table.ndim > 1 and table.shape[axis] > 1
    return is_table and says_yes_or_no(table) and bool(np.all(table.sum(axis) == 1))


def threshold_of(criterion: object) -> float:
    """Above it a prediction means yes: 0 for logits, 0.5 for probabilities and for anything else."""
    known = describe_criterion(criterion)
    return 0.0 if known.output == "logits" and not known.is_exclusive else 0.5


def probabilities(scores: np.ndarray, output: str | None = None) -> np.ndarray:
    """Probabilities of shape ``(N, C)`` or ``(N,)`` out of scores of that shape, in float64.

    Parameters
    ----------
    scores
        Of each class, or of yes.
    output
        ``"logits"``, of which the softmax is taken, or the sigmoid; ``"probabilities"``; ``"numbers"``, which are taken
        for probabilities if they can be some; None: whichever all of them are.

    Raises
    ------
    DataError
        If numbers, or what is said to be probabilities, are none.
    """
    from scipy.special import expit, softmax

    scores = scores.astype(np.float64)
    in_range = bool(np.all((scores >= -1e-6) & (scores <= 1 + 1e-6)))
    are_probabilities = in_range and (scores.ndim == 1 or are_distributions(np.clip(scores, 0, 1)))
    if output in ("probabilities", "numbers") and not are_probabilities:
        rule = "go from 0 to 1" if scores.ndim == 1 else "go from 0 to 1 and sum to 1 for each sample"
        what = (
            "the loss, or output=, says that the predictions are" if output == "probabilities" else "the loss compares"
        )
        raise DataError(
            f"{what} {output}, but they have values from {scores.min():.4g} to {scores.max():.4g}; probabilities {rule}"
            + ("; say output='logits' if they are logits" if output == "probabilities" else "")
        )
    if output == "logits" or not are_probabilities:
        return expit(scores) if scores.ndim == 1 else softmax(scores, axis=1)
    scores = np.clip(scores, 0, 1)
    return scores if scores.ndim == 1 else scores / scores.sum(1, keepdims=True)


def log_odds(logits: np.ndarray) -> np.ndarray:
    """How much speaks for each class and against all others, float64 of shape ``(N, C)`` for two classes and more.

    It has the order of the softmax, which rounds to 1 where a class leads by 37 and more.
    """
    logits = np.clip(logits.astype(np.float64), -1e300, 1e300)
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    top = (np.arange(len(logits)), shifted.argmax(axis=1))
    with np.errstate(divide="ignore"):  # the highest class has next to nothing left against it here, so it is done anew
        odds = shifted - np.log(powers.sum(axis=1, keepdims=True) - powers)
        shifted[top] = -np.inf
        second = np.maximum(shifted.max(axis=1), np.finfo(np.float64).min)
        odds[top] = -second - np.log(np.exp(shifted - second[:, None]).sum(axis=1))
    return np.clip(odds, -1e300, 1e300)  # scikit-learn takes no infinite scores


def class_scores(scores: np.ndarray, output: str | None = None) -> np.ndarray:
    """One score per class that has the order of its probability, shape ``(N, C)``; logits do not become equal at 1."""
    return log_odds(scores) if _are_logits(scores, output) else probabilities(scores, output)


def second_of_two(scores: np.ndarray) -> np.ndarray:
    """Of two columns the second, shape ``(N,)``; any others as they are."""
    return scores[:, 1] if scores.ndim == 2 and scores.shape[1] == 2 else scores


def difference_of_two(scores: np.ndarray) -> np.ndarray:
    """Of two columns what speaks for the second and not the first, shape ``(N,)``; any others as they are."""
    if scores.ndim != 2 or scores.shape[1] != 2:
        return scores
    wide = np.clip(scores.astype(np.float64), -1e300, 1e300)  # scikit-learn takes no infinite scores
    return np.asarray(wide[:, 1] - wide[:, 0])


def one_score(scores: np.ndarray, output: str | None = None) -> np.ndarray:
    """One score per sample that has the order of the probabilities of the second of two columns, shape ``(N,)``.

    Any others as they are. Probabilities stay what they are: differences of small ones would be equal.
    """
    return difference_of_two(scores) if _are_logits(scores, output) else second_of_two(scores)


def _are_logits(scores: np.ndarray, output: str | None) -> bool:
    return output == "logits" if output is not None else not (scores.ndim == 2 and are_distributions(scores))


#: what counts, of a batch, by its targets; None: its samples
Weigh = Callable[[Any], Any]

#: losses of PyTorch whose mean is a sum over the weights of the targets that count, by module and name
_OF_TORCH = {
    "nn.modules.loss": ("CrossEntropyLoss", "NLLLoss", "LinearCrossEntropyLoss"),
    "nn.functional": ("cross_entropy", "nll_loss"),
}
_OF_KERAS = "SparseCategoricalCrossentropy"
#: what TorchScript adds to the names of types that it compiles again
_MANGLED = re.compile(r"\.___torch_mangle_\d+")
#: so many numbers are counted faster by a list than by numpy
_FEW = 128


def weigh(loss: Any) -> Weigh | None:
    """Return how to weigh the batch means of a loss, so that their mean is the loss of the whole data set.

    Parameters
    ----------
    loss
        Any loss; those of PyTorch and Keras with class weights, ``ignore_index`` or ``ignore_class`` are known, and
        ``functools.partial`` of functions is looked through, as is what ``torch.compile`` or TorchScript made of them.

    Returns
    -------
    callable or None
        Of the targets of a batch: a number, also one on a device, or ``None`` for its number of samples.
        ``None`` for losses that are means over samples, or not known.
    """
    loss, settings = _opened(loss)
    if _is_of_torch(getattr(loss, "__module__", ""), getattr(loss, "__name__", "")):
        return _weigh(settings)
    if (kept := _of_torchscript(loss)) is not None:
        return _weigh({**kept, **settings})
    cls: Any = type(loss)
    for parent in cls.__mro__:
        if _is_of_torch(parent.__module__, parent.__name__) and cls.forward is parent.forward:
            return _weigh({**vars(loss), **loss._buffers})
        if parent.__name__ == _OF_KERAS and is_of_framework(parent) and cls.call is parent.call:
            is_mean = loss.reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight")
            has_any = is_mean and loss.ignore_class is not None
            return functools.partial(_counted, ignored=loss.ignore_class) if has_any else None
    return None


def adds_up(loss: Any) -> bool:
    """Return True if a loss says that it is a sum over samples; one that says nothing is taken for a mean."""
    loss, settings = _opened(loss)
    is_old = settings.get("size_average") is False and settings.get("reduce") is not False  # as PyTorch spelled it
    return is_old or settings.get("reduction", getattr(loss, "reduction", None)) == "sum"


def _opened(loss: Any) -> tuple[Any, dict[str, Any]]:
    """Return the loss in what partials and compilers have made of it, and the keywords that it is given.

    A partial with arguments by position stays closed.
    """
    settings: dict[str, Any] = {}
    while (inside := _compiled_of(loss)) is not None or (isinstance(loss, functools.partial) and not loss.args):
        if inside is not None:
            loss = inside
        else:
            settings, loss = {**loss.keywords, **settings}, loss.func
    return loss, settings


def _is_of_torch(place: str, name: str) -> bool:
    package, _, module = str(place).partition(".")
    return package in LIBRARIES and name in _OF_TORCH.get(module, ())


def _compiled_of(loss: object) -> Any:
    """Return what ``torch.compile`` made a loss of; ``None`` if it is none of it."""
    held = getattr(loss, "__dict__", {})
    if (module := (held.get("_modules") or {}).get("_orig_mod")) is not None:
        return module
    inside = held.get("_torchdynamo_orig_callable")
    fixed = getattr(inside, "__wrapped__", None)  # a partial is put into a function before it is compiled
    return fixed if isinstance(fixed, functools.partial) else inside


def _of_torchscript(loss: Any) -> dict[str, Any] | None:
    """Return the settings that a loss of PyTorch has kept in TorchScript; ``None`` if it is none."""
    name = getattr(loss, "qualified_name", "")  # of a function
    if not name and hasattr(type(loss), "original_name"):
        name = loss._c._type().qualified_name()
    place, _, own = _MANGLED.sub("", name).removeprefix("__torch__.").rpartition(".")
    if not _is_of_torch(place, own):
        return None
    return {one: getattr(loss, one) for one in ("reduction", "ignore_index", "weight") if hasattr(loss, one)}


def _weigh(settings: Mapping[str, Any]) -> Weigh | None:
    if settings.get("reduction", "mean") != "mean" or {"size_average", "reduce"} & settings.keys():
        return None
    ignored, weights = settings.get("ignore_index", -100), settings.get("weight")
    return functools.partial(_of_tensor, ignored=ignored, weights=weights)


def _of_tensor(target: Any, ignored: int | None, weights: Any) -> Any:
    """Return how many targets of PyTorch count, or the sum of their weights; ``None`` for probabilities: all do."""
    if not hasattr(target, "is_floating_point") or target.is_floating_point():
        return None
    if weights is not None:
        counts = target != ignored
        return (weights.detach()[target.long() * counts] * counts).double().sum()
    if not target.is_cpu:  # not waited for
        return (target != ignored).sum()
    if target.dim() == 1 and target.numel() <= _FEW:
        return target.numel() - target.tolist().count(ignored)
    return int(np.count_nonzero(target.numpy() != ignored))


def _counted(target: Array, ignored: int) -> Any:
    """Return how many targets of Keras count."""
    return np.count_nonzero(np.asarray(target) != ignored)
