"""Scores on the host: what a function of probabilities, or of one score per sample, can be given."""

import numpy as np

from delira.errors import DataError
from delira.metrics.tree.criteria import are_distributions


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
