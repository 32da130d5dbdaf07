"""Every loss of ``optax.losses``, with data and formula; most give a value for each sample, whose mean is taken."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import loss_rows as rows
import numpy as np
import optax
from loss_cases import (
    C,
    Case,
    Drawn,
    classes,
    logits,
    numbers,
    one_hot,
    own_cases,
    own_names,
    shares,
    signs,
    thirds,
    wide,
    with_logs,
)

losses = optax.losses


def _mean(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """What makes the loss that people write: the mean of the values of a function."""

    def make() -> Callable[..., Any]:
        def loss(pred: Any, label: Any, *more: Any) -> Any:
            return function(pred, label, *more, **settings).mean()

        return loss

    return make


def _case(function: Callable[..., Any], draw: Any, formula: Any = None, **what: Any) -> Case:
    settings = what.pop("settings", {})
    return Case(make=_mean(function, **settings), draw=draw, rows=formula, **what)


def _sequences(rng: np.random.Generator, n: int) -> Drawn:
    """Logits of eight steps and three labels, with what is only there to fill up."""
    n_steps, n_labels = rng.integers(6, 9, n), rng.integers(2, 4, n)
    return np.float32(rng.normal(size=(n, 8, C))), {
        "label": rng.integers(1, C, (n, 3)),
        "no_step": np.float32(np.arange(8) >= n_steps[:, None]),
        "no_label": np.float32(np.arange(3) >= n_labels[:, None]),
    }


def _binary(rng: np.random.Generator, n: int) -> Drawn:
    """One logit, and yes or no."""
    x, targets = logits(rng, n)
    return x[:, 0], {"label": targets["label"][:, 0]}


def _volumes(rng: np.random.Generator, n: int) -> Drawn:
    """Logits (n, 3, 2, C) and which class each pixel has."""
    label = rng.integers(0, C, (n, 3, 2))
    return np.float32(rng.normal(size=(n, 3, 2, C))), {"label": np.float32(np.eye(C)[label])}


def _pairs(rng: np.random.Generator, n: int) -> Drawn:
    """Embeddings, every other one of the same kind."""
    return np.float32(rng.normal(size=(n, 3))), {"label": np.arange(n) % 2}


def _divergence(pred: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (target * (np.log(target) - pred)).sum(-1)


def _dice(pred: np.ndarray, target: np.ndarray) -> np.ndarray:
    share = np.exp(rows.log_softmax(pred))
    hits = (share * target).sum((1, 2))
    return 1 - (hits + 1) / (0.5 * share.sum((1, 2)) + 0.5 * target.sum((1, 2)) + 1)


def _two_of(rng: np.random.Generator, n: int) -> Drawn:
    x, targets = with_logs(shares)(rng, n)
    return x, {"label": np.log(targets["label"])}


_SOME = {
    "binary_dice_loss": _case(losses.binary_dice_loss, _binary),
    "cosine_distance": _case(losses.cosine_distance, numbers, lambda pred, target: 1 - rows.cosine(pred, target)),
    "cosine_similarity": _case(losses.cosine_similarity, numbers, rows.cosine),
    "ctc_loss": _case(losses.ctc_loss, _sequences, keys=("pred", "no_step", "label", "no_label")),
    "dice_loss": _case(losses.dice_loss, _volumes, _dice),
    "generalized_kl_divergence": _case(
        losses.generalized_kl_divergence, with_logs(shares),
        lambda pred, target: _divergence(pred, target) + (np.exp(pred) - target).sum(-1),
    ),
    "hinge_loss": _case(losses.hinge_loss, signs, rows.margin_of_signs),
    "huber_loss": _case(losses.huber_loss, numbers, rows.huber(0.7), settings={"delta": 0.7}),
    "kl_divergence": _case(losses.kl_divergence, with_logs(shares), _divergence),
    "kl_divergence_with_log_targets": _case(
        losses.kl_divergence_with_log_targets, _two_of, lambda pred, target: _divergence(pred, np.exp(target))
    ),
    "l2_loss": _case(losses.l2_loss, numbers, lambda pred, target: rows.squared(pred, target) / 2),
    "log_cosh": _case(losses.log_cosh, numbers, rows.log_cosh),
    "make_fenchel_young_loss": _case(
        losses.make_fenchel_young_loss(jax.nn.logsumexp), one_hot, rows.entropy_of_shares
    ),
    "multiclass_generalized_dice_loss": _case(losses.multiclass_generalized_dice_loss, _volumes, is_of_batch=True),
    "multiclass_hinge_loss": _case(losses.multiclass_hinge_loss, classes),
    "multiclass_perceptron_loss": _case(losses.multiclass_perceptron_loss, classes),
    "multiclass_sparsemax_loss": _case(losses.multiclass_sparsemax_loss, classes),
    "ntxent": _case(losses.ntxent, _pairs, settings={"temperature": 0.5}, is_of_batch=True, least=3),
    "perceptron_loss": _case(
        losses.perceptron_loss, signs, lambda pred, sign: np.maximum(0, -pred * sign)
    ),
    "poly_loss_cross_entropy": _case(
        losses.poly_loss_cross_entropy, one_hot,
        lambda pred, target: rows.entropy_of_shares(pred, target)
        + 2 * (target * (1 - np.exp(rows.log_softmax(pred)))).sum(-1),
    ),
    "ranking_softmax_loss": _case(losses.ranking_softmax_loss, one_hot, rows.entropy_of_shares),
    "safe_softmax_cross_entropy": _case(losses.safe_softmax_cross_entropy, one_hot, rows.entropy_of_shares),
    "sigmoid_binary_cross_entropy": _case(losses.sigmoid_binary_cross_entropy, logits, rows.binary_of_logits()),
    "sigmoid_focal_loss": _case(
        losses.sigmoid_focal_loss, logits, rows.focal(0.3, 1.5, True), settings={"alpha": 0.3, "gamma": 1.5}
    ),
    "softmax_cross_entropy": _case(losses.softmax_cross_entropy, one_hot, rows.entropy_of_shares),
    "softmax_cross_entropy_with_integer_labels": _case(
        losses.softmax_cross_entropy_with_integer_labels, classes, rows.cross_entropy
    ),
    "sparsemax_loss": _case(losses.sparsemax_loss, logits),
    "squared_error": _case(losses.squared_error, numbers, rows.squared),
    "triplet_margin_loss": _case(
        losses.triplet_margin_loss, wide, split=thirds, keys=("first", "second", "third")
    ),
}  # fmt: skip
CASES = {**_SOME, **own_cases("Jax")}
#: what no criterion can be: another name that warns, a pair instead of a value, and what makes targets
_NONE = {"convex_kl_divergence", "ctc_loss_with_forward_probs", "smooth_labels"}
#: what a function of optax or a loss of delira is called that ought to be here
NAMES = {
    name for name in dir(losses) if not name.startswith("_") and callable(getattr(losses, name))
} - _NONE | own_names("Jax")  # fmt: skip
#: losses that are names of the package itself, too
ALIASES = {name for name in dir(optax) if "loss" in name or "entropy" in name} - {"losses"}


def call(loss: Any, *read: np.ndarray) -> float:
    """The loss of arrays of numpy."""
    return float(loss(*map(jnp.asarray, read)))
