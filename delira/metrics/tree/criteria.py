"""What a criterion says about predictions: what kind they are, and where their threshold lies."""

import functools
from typing import Any, NamedTuple

_ROOMS = ("PyTorch", "Tf", "Jax")
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
        "binary_focal_crossentropy", *(f"BCEFocalLoss{room}" for room in _ROOMS),
    },
    "logits": {
        "BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "sigmoid_binary_cross_entropy",
        "sigmoid_cross_entropy_with_logits", "sigmoid_focal_loss", *(f"BCEFocalLossLogit{room}" for room in _ROOMS),
    },
    "mse": {"MSELoss", "mse_loss", "MeanSquaredError", "mean_squared_error", "squared_error", "l2_loss"},
    "mae": {"L1Loss", "l1_loss", "MeanAbsoluteError", "mean_absolute_error"},
    "mixup": {"mixup_loss"},
}  # fmt: skip


class Criterion(NamedTuple):
    """What is known of a criterion."""

    name: str
    """Of its class, or of the function."""

    kind: str | None
    """A key of ``KINDS``."""
    ignore_index: int | None = None
    """The target that does not count."""


def describe_criterion(criterion: Any) -> Criterion:
    """What is known of a criterion: by its class and the classes it is derived from, or by the name of a function.

    ``functools.partial`` is looked through. What is known already is returned as it is.
    """
    if isinstance(criterion, Criterion):
        return criterion
    settings: dict[str, Any] = {}
    while isinstance(criterion, functools.partial):
        settings = {**criterion.keywords, **settings}
        criterion = criterion.func
    names = [getattr(criterion, "__name__", "")]
    if not names[0]:
        names = [parent.__name__ for parent in type(criterion).__mro__]
    kind = next((kind for name in names for kind, known in KINDS.items() if name in known), None)
    if kind == "binary" and settings.get("from_logits", getattr(criterion, "from_logits", False)):
        kind = "logits"
    for name in ("ignore_index", "ignore_class"):
        ignored = settings.get(name, getattr(criterion, name, None))
        if ignored is not None:
            return Criterion(names[0], kind, int(ignored))
    return Criterion(names[0], kind)


def threshold_of(criterion: Any) -> float:
    """Above it a prediction means yes: 0 for a criterion of logits, 0.5 for any other."""
    return 0.0 if describe_criterion(criterion).kind == "logits" else 0.5
