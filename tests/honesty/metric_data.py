"""Random targets and predictions of every kind that metrics compare, with what they mean."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import metric_values as by_hand
import numpy as np


@dataclass
class Data:
    """Targets and predictions as an evaluation sees them, and what they mean."""

    true: np.ndarray
    pred: np.ndarray
    #: true and predicted labels, one for each thing that is compared
    label: Any = None
    said: Any = None
    #: probabilities of the classes, shape ``(n, C)``, or of yes
    chance: Any = None
    n_classes: int = 0
    #: which samples count
    counts: Any = None

    def __post_init__(self):
        self.wide = self.pred.astype(np.float64)
        self.counts = slice(None) if self.counts is None else self.counts


#: kind of data -> (function of a generator and the number of samples, the loss that such predictions have)
KINDS: dict[str, tuple[Callable[..., Data], str | None]] = {}


def kind(loss=None):
    """Add a kind of data, which is called as its function is."""

    def add(function):
        KINDS[function.__name__] = function, loss
        return function

    return add


def numbers(random, *shape):
    """Normal numbers in single or double precision."""
    return random.normal(size=shape).astype(random.choice(["f4", "f8"]))


def some_labels(random, n, n_classes):
    """Labels of which each occurs, most of them in few batches."""
    return random.permutation(np.concatenate([np.arange(n_classes), random.integers(n_classes, size=n - n_classes)]))


def written(random, numbers, *more):
    """The same whole numbers in one of the types that data sets have."""
    return numbers.astype(random.choice(["i8", "i4", "u1", *more]))


def with_ties(random, scores):
    """The same where in some rows two classes have the highest score."""
    for row in random.permutation(len(scores))[:3]:
        scores[row, random.integers(scores.shape[1])] = scores[row].max()
    return scores


@kind("classes")
def classes(random, n):
    true = some_labels(random, n, 4)
    pred = with_ties(random, numbers(random, n, 4) + np.eye(4, dtype="f4")[true])
    return Data(true, pred, true, pred.argmax(1), by_hand.softmax(pred), 4)


@kind("classes")
def two_columns(random, n):
    true = some_labels(random, n, 2)
    pred = numbers(random, n, 2) + np.eye(2, dtype="f4")[true]
    return Data(true, pred, true, pred.argmax(1), by_hand.softmax(pred), 2)


@kind("classes")
def many_classes(random, n):
    true, pred = random.integers(12, size=n), with_ties(random, numbers(random, n, 12))
    return Data(true, pred, true, pred.argmax(1), by_hand.softmax(pred), 12)


@kind("classes")
def rare_classes(random, n):
    """One class occurs once, another never; both may be predicted."""
    true = random.permutation(np.concatenate([np.arange(4), random.integers(3, size=n - 4)]))
    pred = numbers(random, n, 5) + np.eye(5, dtype="f4")[true]
    return Data(true, pred, true, pred.argmax(1), by_hand.softmax(pred), 5)


@kind("classes")
def ignored(random, n):
    """Some targets are those that the loss does not count."""
    data = classes(random, n)
    counts = random.random(n) < 0.7
    counts[[np.flatnonzero(data.true == label)[0] for label in range(4)]] = True
    return Data(
        np.where(counts, data.true, -100),
        data.pred,
        data.true[counts],
        data.said[counts],
        data.chance[counts],
        4,
        counts,
    )


@kind("one-hot classes")
def one_hot(random, n):
    true = some_labels(random, n, 3)
    pred = numbers(random, n, 3)
    return Data(np.eye(3, dtype=pred.dtype)[true], pred, true, pred.argmax(1), by_hand.softmax(pred), 3)


@kind()
def probabilities(random, n):
    """Of which nobody says that they are that."""
    data = classes(random, n)
    pred = data.chance.astype(random.choice(["f4", "f8"]))
    chance = pred / pred.sum(1, dtype="f8", keepdims=True)
    return Data(written(random, data.true), pred, data.true, pred.argmax(1), chance, 4)


@kind("yes or no")
def logits(random, n):
    shape = [(n,), (n, 1)][random.integers(2)]
    true = some_labels(random, n, 2)
    pred = np.round(numbers(random, n) + true, 1)  # some are equal, few are 0
    pred = np.where(pred == 0, 0.1, pred).astype(pred.dtype)
    return Data(
        true.reshape(shape).astype(pred.dtype), pred.reshape(shape), true, (pred > 0) * 1, by_hand.expit(pred), 2
    )


@kind()
def chances(random, n):
    """Of which nobody says that they are that."""
    data = logits(random, n)
    pred = data.chance.astype(random.choice(["f4", "f8"]))
    return Data(written(random, data.label, "?"), pred, data.label, (pred > 0.5) * 1, pred.astype("f8"), 2)


@kind()
def labels(random, n):
    true = some_labels(random, n, 3)
    said = np.where(random.random(n) < 0.6, true, random.integers(3, size=n))
    return Data(written(random, true), written(random, said), true, said, None, 3)


@kind("several labels")
def tables(random, n):
    true = random.integers(2, size=(n, 3))
    true[:4] = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0]]  # every column has both, no row is one-hot for all
    true, pred = random.permutation(true), numbers(random, n, 3)
    return Data(true.astype(pred.dtype), pred, true, (pred > 0) * 1, by_hand.expit(pred), 2)


@kind("numbers")
def positive_numbers(random, n):
    shape = [(n,), (n, 1)][random.integers(2)]
    true = random.gamma(2.0, size=shape) + 0.1
    type_ = random.choice(["f4", "f8"])
    return Data(true.astype(type_), (true * random.uniform(0.6, 1.4, size=shape)).astype(type_))


@kind("numbers")
def several_numbers(random, n):
    true = random.gamma(2.0, size=(n, 3)) + 0.1
    return Data(true, true * random.uniform(0.6, 1.4, size=(n, 3)))


@kind("classes")
def pixels(random, n):
    true = masks_of(random, n)
    pred = numbers(random, n, 3, 5, 4) + 2 * np.moveaxis(np.eye(3, dtype="f4")[true], -1, 1)
    return Data(true, pred, true, pred.argmax(1), None, 3)


@kind("classes")
def steps(random, n):
    """Sequences with as many steps as classes, whose scores tell nothing by their shape."""
    true = random.integers(3, size=(n, 3))
    pred = numbers(random, n, 3, 3) + np.moveaxis(np.eye(3, dtype="f4")[true], -1, 1)
    return Data(true, pred, true, pred.argmax(1), None, 3)


@kind("yes or no")
def yes_masks(random, n):
    true = masks_of(random, n) > 0
    pred = (numbers(random, n, 5, 4) + 2 * true - 1).astype("f4")
    return Data(true.astype("f4"), pred, true * 1, (pred > 0) * 1, by_hand.expit(pred), 2)


@kind()
def label_masks(random, n):
    true = masks_of(random, n)
    said = np.where(random.random(true.shape) < 0.8, true, masks_of(random, n))
    return Data(written(random, true), written(random, said), true, said, None, 3)


def masks_of(random, n):
    """Masks of three labels; two samples have no foreground, one has the last label alone."""
    masks = random.integers(3, size=(n, 5, 4))
    masks[:3] = 0
    masks[0, :2] = 2
    return random.permutation(masks)
