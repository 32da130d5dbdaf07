"""Scores on the host: what a function of probabilities, or of one score per sample, can be given."""

import numpy as np


def probabilities(scores: np.ndarray, is_logit: bool = False) -> np.ndarray:
    """Probabilities of shape ``(N, C)`` or ``(N,)`` out of scores of that shape, in float64.

    Rows that are not negative and sum to 1 within 1e-3, and single scores from 0 to 1, are taken as they are unless
    they are known to be logits; others go through a softmax, or a sigmoid.
    """
    from scipy.special import expit, softmax

    scores = scores.astype(np.float64)
    if scores.ndim == 1:
        are_probabilities = not is_logit and bool(np.all((scores >= 0) & (scores <= 1)))
        return scores if are_probabilities else expit(scores)
    if not is_logit and _are_distributions(scores):
        return scores / scores.sum(1, keepdims=True)
    return softmax(scores, axis=1)


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


def class_scores(scores: np.ndarray) -> np.ndarray:
    """One score per class that has the order of its probability, shape ``(N, C)``; logits do not become equal at 1."""
    return probabilities(scores) if _are_distributions(scores) else log_odds(scores)


def second_of_two(scores: np.ndarray) -> np.ndarray:
    """Of two columns the second, shape ``(N,)``; any others as they are."""
    return scores[:, 1] if scores.ndim == 2 and scores.shape[1] == 2 else scores


def difference_of_two(scores: np.ndarray) -> np.ndarray:
    """Of two columns what speaks for the second and not the first, shape ``(N,)``; any others as they are."""
    wide = scores.astype(np.float64)
    return wide[:, 1] - wide[:, 0] if scores.ndim == 2 and scores.shape[1] == 2 else scores


def one_score(scores: np.ndarray) -> np.ndarray:
    """One score per sample that has the order of the probabilities of the second of two columns, shape ``(N,)``.

    Any others as they are. Probabilities stay what they are: differences of small ones would be equal.
    """
    return second_of_two(scores) if _are_distributions(scores) else difference_of_two(scores)


def _are_distributions(scores: np.ndarray) -> bool:
    return bool(scores.ndim == 2 and np.all(scores >= 0) and np.allclose(scores.sum(1), 1, atol=1e-3))
