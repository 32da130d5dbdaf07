"""Every loss of ``keras.losses``, with data and formula; classes lie on the last axis."""

import inspect
from typing import Any

import keras
import loss_rows as rows
import numpy as np
from loss_cases import (
    C,
    Case,
    Drawn,
    classes,
    counted,
    logits,
    numbers,
    one_hot,
    own_cases,
    own_names,
    positive,
    probabilities,
    shares,
    signs,
    without,
)

losses = keras.losses


def _some_classes(rng: np.random.Generator, n: int) -> Drawn:
    """Logits and class numbers, of which some are -1, and not all of any seven samples."""
    x, targets = classes(rng, n)
    targets["label"][rng.random(n) < 0.4] = -1
    targets["label"][::7] = 3
    return x, targets


def _sequences(rng: np.random.Generator, n: int) -> Drawn:
    """Logits of eight steps, and three labels."""
    return np.float32(rng.normal(size=(n, 8, C))), {"label": np.int32(rng.integers(1, C, (n, 3)))}


def _images(rng: np.random.Generator, n: int) -> Drawn:
    x, targets = probabilities(rng, n)
    return x[..., None], {"label": targets["label"][..., None]}


def _directions(rng: np.random.Generator, n: int) -> Drawn:
    """Embeddings and classes, each of which is there twice in any seven samples."""
    return np.float32(rng.normal(size=(n, 3))), {"label": np.arange(n) % 3}


def _generalised(pred: np.ndarray, label: np.ndarray) -> np.ndarray:
    return (1 - rows.at_class(pred, label) ** 0.5) / 0.5


def _margin(pred: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.maximum(0, 1 + ((1 - target) * pred).max(-1) - (target * pred).sum(-1))


def _shares_of_one(rng: np.random.Generator, n: int) -> Drawn:
    x, _ = shares(rng, n)
    return x / x.sum(-1, keepdims=True), one_hot(rng, n)[1]


_SOME = {
    "BinaryCrossentropy": Case(make=losses.BinaryCrossentropy, draw=probabilities, rows=rows.binary),
    "BinaryCrossentropy of logits": Case(
        make=losses.BinaryCrossentropy, settings={"from_logits": True}, draw=logits, rows=rows.binary_of_logits()
    ),
    "BinaryFocalCrossentropy": Case(
        make=losses.BinaryFocalCrossentropy, settings={"apply_class_balancing": True, "alpha": 0.3, "gamma": 1.5},
        draw=probabilities, rows=rows.focal(0.3, 1.5, False),
    ),
    "CTC": Case(make=losses.CTC, draw=_sequences),
    "CategoricalCrossentropy": Case(
        make=losses.CategoricalCrossentropy, settings={"from_logits": True}, draw=one_hot, rows=rows.entropy_of_shares
    ),
    "CategoricalFocalCrossentropy": Case(make=losses.CategoricalFocalCrossentropy, draw=_shares_of_one),
    "CategoricalGeneralizedCrossEntropy": Case(
        make=losses.CategoricalGeneralizedCrossEntropy, rows=_generalised,
        draw=lambda rng, n: (_shares_of_one(rng, n)[0], classes(rng, n)[1]),
    ),
    "CategoricalHinge": Case(make=losses.CategoricalHinge, draw=one_hot, rows=_margin),
    "Circle": Case(make=losses.Circle, settings={"gamma": 3.0}, draw=_directions, is_of_batch=True),
    "CosineSimilarity": Case(
        make=losses.CosineSimilarity, draw=numbers, rows=lambda pred, target: -rows.cosine(pred, target)
    ),
    "Dice": Case(make=losses.Dice, draw=_images, is_of_batch=True),
    "Dice of samples": Case(make=losses.Dice, settings={"axis": (1, 2)}, draw=_images),
    "Hinge": Case(make=losses.Hinge, draw=signs, rows=rows.margin_of_signs),
    "Huber": Case(make=losses.Huber, settings={"delta": 0.7}, draw=numbers, rows=rows.huber(0.7)),
    "KLDivergence": Case(
        make=losses.KLDivergence, draw=_shares_of_one,
        rows=lambda pred, target: (target * np.log(np.maximum(target, 1e-7) / pred)).sum(-1),
    ),
    "LogCosh": Case(make=losses.LogCosh, draw=numbers, rows=rows.log_cosh),
    "MeanAbsoluteError": Case(make=losses.MeanAbsoluteError, draw=numbers, rows=rows.absolute),
    "MeanAbsolutePercentageError": Case(
        make=losses.MeanAbsolutePercentageError, draw=positive,
        rows=lambda pred, target: 100 * np.abs((target - pred) / target),
    ),
    "MeanSquaredError": Case(make=losses.MeanSquaredError, draw=numbers, rows=rows.squared),
    "MeanSquaredLogarithmicError": Case(
        make=losses.MeanSquaredLogarithmicError, draw=positive,
        rows=lambda pred, target: (np.log1p(pred) - np.log1p(target)) ** 2,
    ),
    "Poisson": Case(
        make=losses.Poisson, draw=positive, rows=lambda pred, target: pred - target * np.log(pred + 1e-7)
    ),
    "SparseCategoricalCrossentropy": Case(
        make=losses.SparseCategoricalCrossentropy, settings={"from_logits": True}, draw=classes,
        rows=rows.cross_entropy,
    ),
    "SparseCategoricalCrossentropy ignoring": Case(
        make=losses.SparseCategoricalCrossentropy, settings={"from_logits": True, "ignore_class": -1},
        draw=_some_classes, rows=without(rows.cross_entropy, -1), weigh=counted(none=-1),
    ),
    "SquaredHinge": Case(
        make=losses.SquaredHinge, draw=signs, rows=lambda pred, sign: rows.margin_of_signs(pred, sign) ** 2
    ),
    "Tversky": Case(make=losses.Tversky, draw=_images, is_of_batch=True),
    "Tversky of samples": Case(make=losses.Tversky, settings={"axis": (1, 2)}, draw=_images),
}  # fmt: skip
CASES = {**_SOME, **own_cases("Tf")}
#: the base of the others
_ABSTRACT = {"Loss"}
_PUBLIC = {name: getattr(losses, name) for name in dir(losses) if not name.startswith("_")}
#: what a class of Keras or delira is called that ought to be here
NAMES = {name for name, one in _PUBLIC.items() if inspect.isclass(one)} - _ABSTRACT | own_names("Tf")
#: those that are no classes: they take the target first, and most give a value for each sample
FUNCTIONS = sorted(
    name for name, one in _PUBLIC.items() if inspect.isfunction(one) and name not in ("get", "serialize", "deserialize")
)


def call(loss: Any, pred: np.ndarray, target: np.ndarray) -> float:
    """The loss of arrays of numpy; Keras' own take the target first."""
    of_keras = isinstance(loss, losses.Loss)
    pred, target = (one.astype(np.float32) if one.dtype.kind == "f" else one for one in (pred, target))
    return float(loss(target, pred) if of_keras else loss(keras.ops.array(pred), keras.ops.array(target)))


def is_array(loss: Any, x: np.ndarray, target: np.ndarray) -> bool:
    """Whether a loss gives more than one number; Keras' own take the target first."""
    of_keras = not type(loss).__module__.startswith("delira.")
    given = map(keras.ops.array, (target, x) if of_keras else (x, target))
    return len(loss(*given).shape) > 0
