"""Every loss of ``torch.nn``, with data and formula."""

import copy
import functools
from typing import Any

import loss_rows as rows
import numpy as np
import torch
from loss_cases import (
    WEIGHT,
    C,
    Case,
    Drawn,
    classes,
    classes_and_none,
    counted,
    counts,
    logits,
    numbers,
    own_cases,
    own_names,
    probabilities,
    shares,
    signs,
    thirds,
    wide,
    with_logs,
    without,
)

nn = torch.nn


def _weights() -> torch.Tensor:
    return torch.tensor(WEIGHT, dtype=torch.float32)


def _weighted(make: Any) -> Any:
    return lambda **settings: make(weight=_weights(), **settings)


def _some_of_two(rng: np.random.Generator, n: int) -> Drawn:
    """Scores and classes; not all of any seven samples are of class 2, which does not count."""
    x, targets = classes(rng, n)
    targets["label"][::7] = 0
    return x, targets


def _padded(rng: np.random.Generator, n: int) -> Drawn:
    """Scores, and the numbers of the classes that are true, filled up with -1."""
    label = np.full((n, C), -1)
    for row in label:
        true = rng.permutation(C)[: rng.integers(1, C)]
        row[: len(true)] = true
    return np.float32(rng.normal(size=(n, C))), {"label": label}


def _sequences(rng: np.random.Generator, n: int) -> Drawn:
    """Logarithms of probabilities of eight steps, two or three labels, and the lengths of both."""
    x = np.float32(rows.log_softmax(rng.normal(size=(n, 8, C))))
    n_labels = rng.integers(2, 4, n)
    return x, {"label": rng.integers(1, C, (n, 3)), "n_steps": rng.integers(6, 9, n), "n_labels": n_labels}


def _seeded(make: Any, *arguments: Any, **keywords: Any) -> Any:
    """A loss with weights of its own, always the same."""

    def build(**settings: Any) -> Any:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return make(*arguments, **keywords, **settings)

    return build


def _adaptive() -> Any:
    made = _seeded(nn.AdaptiveLogSoftmaxWithLoss, C, C, [2], div_value=1.0)()
    return lambda pred, target: made(pred.to(made.head.weight.dtype), target).loss


def _linear(**settings: Any) -> Any:
    return _seeded(nn.LinearCrossEntropyLoss, C, C)(**settings)


def _linear_rows(pred: np.ndarray, label: np.ndarray) -> np.ndarray:
    return rows.cross_entropy(pred @ _linear().linear.weight.detach().numpy().astype(float).T, label)


_IGNORED = classes_and_none(-100)
_SOME = {
    "BCELoss": Case(make=nn.BCELoss, draw=probabilities, rows=rows.binary),
    "BCEWithLogitsLoss": Case(make=nn.BCEWithLogitsLoss, draw=logits, rows=rows.binary_of_logits()),
    "BCEWithLogitsLoss of positives": Case(
        make=lambda **settings: nn.BCEWithLogitsLoss(pos_weight=_weights()[:3], **settings), draw=logits,
        rows=rows.binary_of_logits(WEIGHT[:3]),
    ),
    "CTCLoss": Case(
        make=nn.CTCLoss, draw=_sequences, split=lambda x: {"pred": x.swapaxes(0, 1)},
        keys=("pred", "label", "n_steps", "n_labels"),
    ),
    "CosineEmbeddingLoss": Case(
        make=nn.CosineEmbeddingLoss, draw=wide, split=lambda x: {"first": x[:, :4], "second": x[:, 4:8]},
        keys=("first", "second", "label"), rows=rows.cosine_embedding,
    ),
    "CrossEntropyLoss": Case(make=nn.CrossEntropyLoss, draw=classes, rows=rows.cross_entropy),
    "CrossEntropyLoss ignoring": Case(
        make=nn.CrossEntropyLoss, draw=_IGNORED, rows=without(rows.cross_entropy, -100), weigh=counted(none=-100)
    ),
    "CrossEntropyLoss weighted, ignoring": Case(
        make=_weighted(nn.CrossEntropyLoss), settings={"ignore_index": 2}, draw=classes_and_none(2),
        rows=rows.cross_entropy, weigh=counted(weight=WEIGHT, none=2),
    ),
    "CrossEntropyLoss in TorchScript": Case(
        make=lambda **settings: torch.jit.script(_weighted(nn.CrossEntropyLoss)(**settings)),
        settings={"ignore_index": 2}, draw=classes_and_none(2), rows=rows.cross_entropy,
        weigh=counted(weight=WEIGHT, none=2), reductions=(),
    ),
    "cross_entropy in TorchScript": Case(
        make=lambda: torch.jit.script(nn.functional.cross_entropy), draw=_IGNORED,
        rows=without(rows.cross_entropy, -100), weigh=counted(none=-100), reductions=(),
    ),
    "GaussianNLLLoss": Case(
        make=nn.GaussianNLLLoss, draw=lambda rng, n: (wide(rng, n)[0], numbers(rng, n)[1]),
        split=lambda x: {"mean": x[:, :3], "var": abs(x[:, 3:6]) + 0.2}, keys=("mean", "label", "var"),
        rows=rows.gaussian,
    ),
    "HingeEmbeddingLoss": Case(make=nn.HingeEmbeddingLoss, draw=signs, rows=rows.hinge_embedding),
    "HuberLoss": Case(make=nn.HuberLoss, settings={"delta": 0.7}, draw=numbers, rows=rows.huber(0.7)),
    "KLDivLoss": Case(
        make=nn.KLDivLoss, draw=with_logs(shares), rows=lambda pred, target: target * (np.log(target) - pred)
    ),
    "KLDivLoss of samples": Case(
        make=nn.KLDivLoss, settings={"reduction": "batchmean"}, draw=with_logs(shares),
        rows=lambda pred, target: (target * (np.log(target) - pred)).sum(1), reductions=(),
    ),
    "L1Loss": Case(make=nn.L1Loss, draw=numbers, rows=rows.absolute),
    "LinearCrossEntropyLoss": Case(make=_linear, draw=classes, rows=_linear_rows),
    "LinearCrossEntropyLoss ignoring": Case(
        make=_linear, settings={"ignore_index": 2}, draw=_some_of_two, rows=_linear_rows, weigh=counted(none=2)
    ),
    "MSELoss": Case(make=nn.MSELoss, draw=numbers, rows=rows.squared),
    "MarginRankingLoss": Case(
        make=nn.MarginRankingLoss, draw=wide, split=lambda x: {"first": x[:, 0], "second": x[:, 1]},
        keys=("first", "second", "label"), rows=rows.ranking,
    ),
    "MultiLabelMarginLoss": Case(make=nn.MultiLabelMarginLoss, draw=_padded),
    "MultiLabelSoftMarginLoss": Case(make=nn.MultiLabelSoftMarginLoss, draw=logits, rows=rows.binary_of_logits()),
    "MultiMarginLoss": Case(make=_weighted(nn.MultiMarginLoss), draw=classes, rows=rows.multi_margin(WEIGHT)),
    "NLLLoss": Case(
        make=_weighted(nn.NLLLoss), settings={"ignore_index": -1}, draw=with_logs(classes_and_none(-1)),
        rows=without(rows.negative_log_likelihood, -1), weigh=counted(weight=WEIGHT, none=-1),
    ),
    "PoissonNLLLoss": Case(
        make=nn.PoissonNLLLoss, draw=counts, rows=lambda pred, target: np.exp(pred) - target * pred
    ),
    "SmoothL1Loss": Case(make=nn.SmoothL1Loss, settings={"beta": 0.6}, draw=numbers, rows=rows.smooth(0.6)),
    "SoftMarginLoss": Case(make=nn.SoftMarginLoss, draw=signs, rows=rows.soft_margin),
    "TripletMarginLoss": Case(
        make=nn.TripletMarginLoss, draw=wide, split=thirds, keys=("first", "second", "third"), rows=rows.triplet
    ),
    "TripletMarginWithDistanceLoss": Case(
        make=functools.partial(nn.TripletMarginWithDistanceLoss, distance_function=nn.PairwiseDistance()), draw=wide,
        split=thirds, keys=("first", "second", "third"), rows=rows.triplet,
    ),
    # it returns a pair, of which a network of a user's own takes the loss
    "AdaptiveLogSoftmaxWithLoss": Case(make=_adaptive, draw=classes, reductions=()),
}  # fmt: skip
CASES = {**_SOME, **own_cases("PyTorch")}
#: what a class of ``torch.nn`` or delira is called that ought to be here
NAMES = {name for name in dir(nn) if name.endswith("Loss")} | own_names("PyTorch")


def call(loss: Any, *read: np.ndarray) -> float:
    """The loss of arrays of numpy."""
    loss = copy.deepcopy(loss).double() if isinstance(loss, nn.Module) else loss
    with torch.no_grad():
        return float(loss(*map(torch.from_numpy, read)))
