"""What metrics mean, written anew in plain numpy and with pairs and loops: nothing of delira computes here."""

import numpy as np
from scipy.spatial.distance import cdist


def softmax(logits):
    """Probabilities of the classes on the last axis, in float64."""
    powers = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def expit(logits):
    """The probability of yes, in float64."""
    return 1 / (1 + np.exp(-logits.astype(np.float64)))


# ------------------------------------------------------------------ labels


def matrix(true, said, n_classes):
    """How often which label was taken for which."""
    return [[int(np.sum((true == a) & (said == b))) for b in range(n_classes)] for a in range(n_classes)]


def accuracy(true, said):
    return np.mean(true == said)


def precision_and_recall(true, said, label):
    """Both of one label, 0 where there is none of it."""
    both = np.sum((true == label) & (said == label))
    return [both / np.sum(labels == label) if np.any(labels == label) else 0.0 for labels in (said, true)]


def f_score(precision, recall, beta):
    """Their weighted harmonic mean."""
    both = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / both if both else 0.0


def averaged(of_label):
    """Of two classes the value of the label 1; of more the mean over the labels that occur in either."""

    def value(true, said, n_classes):
        labels = [1] if n_classes == 2 else np.union1d(true, said)
        return np.mean([of_label(*precision_and_recall(true, said, label)) for label in labels])

    return value


precision = averaged(lambda precision, recall: precision)
recall = averaged(lambda precision, recall: recall)
f1 = averaged(lambda precision, recall: f_score(precision, recall, 1))
f2 = averaged(lambda precision, recall: f_score(precision, recall, 2))


def balanced_accuracy(true, said):
    return np.mean([precision_and_recall(true, said, label)[1] for label in np.unique(true)])


def cohen_kappa(true, said):
    """The agreement beyond that of chance."""
    labels = np.union1d(true, said)
    by_chance = sum(np.mean(true == label) * np.mean(said == label) for label in labels)
    return (np.mean(true == said) - by_chance) / (1 - by_chance) if len(labels) > 1 else np.nan


def matthews(true, said):
    """The correlation of both tables of yes and no; 0 if there is none."""
    labels = np.union1d(true, said)
    tables = [(array[:, None] == labels) - np.mean(array[:, None] == labels, axis=0) for array in (true, said)]
    spread = np.sqrt(np.prod([np.sum(table**2) for table in tables]))
    return np.sum(tables[0] * tables[1]) / spread if spread else 0.0


# ------------------------------------------------------------------ scores


def top_k(true, scores, k):
    """The share of labels among the ``k`` highest scores; of equal scores the first is the highest."""
    return np.mean([label in np.argsort(-row, kind="stable")[:k] for label, row in zip(true, scores, strict=True)])


def area_under_roc(is_yes, score):
    """How many of all pairs of a yes and a no are in the right order."""
    difference = score[is_yes][:, None] - score[~is_yes]
    return np.mean((difference > 0) + 0.5 * (difference == 0))


def average_precision(is_yes, score):
    """The precision at each threshold, by what it adds to the recall."""
    reached, total = 0.0, 0.0
    for threshold in np.unique(score)[::-1]:
        share = np.mean(is_yes[score >= threshold])
        now = np.sum(is_yes & (score >= threshold)) / np.sum(is_yes)
        total, reached = total + (now - reached) * share, now
    return total


def over_classes(of_class):
    """The mean over classes, each against all others: of scores ``(n,)`` for yes, ``(n, C)``, or of yes or no each."""

    def value(true, scores):
        if scores.ndim == 1:
            return of_class(true == 1, scores)
        table = true == 1 if true.ndim == 2 else true[:, None] == np.arange(scores.shape[1])
        return np.mean([of_class(*pair) for pair in zip(table.T, scores.T, strict=True) if 0 < pair[0].mean() < 1])

    return value


roc_auc = over_classes(area_under_roc)
pr_auc = over_classes(average_precision)


def calibration_error(true, chances, n_bins=15):
    """How far confidence and accuracy are apart, bin by bin; a bin has its upper edge."""
    confidence = chances if chances.ndim == 1 else chances.max(1)
    right = true == 1 if chances.ndim == 1 else chances.argmax(1) == true
    total = 0.0
    for number in range(n_bins):
        inside = (confidence > number / n_bins) & (confidence <= (number + 1) / n_bins)
        if inside.any():
            total += np.mean(inside) * abs(np.mean(right[inside]) - np.mean(confidence[inside]))
    return total


# ------------------------------------------------------------------ numbers


def root_error(true, said):
    """Of several outputs the mean of their roots."""
    rows = (true - said) ** 2 if true.ndim == 2 else ((true - said) ** 2).reshape(-1, 1)
    return np.mean([np.sqrt(np.mean(column)) for column in rows.T])


def explained(true, said):
    """The share of the variance that is explained, the mean over outputs."""
    true, said = true.reshape(len(true), -1), said.reshape(len(true), -1)
    rest = ((true - said) ** 2).sum(0)
    return np.mean(1 - rest / ((true - true.mean(0)) ** 2).sum(0))


# ------------------------------------------------------------------ masks


def dice_of(first, second):
    return 2 * (first & second).sum() / (first.sum() + second.sum()) if first.any() or second.any() else 1.0


def iou_of(first, second):
    return (first & second).sum() / (first | second).sum() if first.any() or second.any() else 1.0


def over_masks(of_class, true, said, labels, *, ignore_empty=True):
    """The mean over samples of the mean over classes that their target has; samples with none are left out."""
    values = []
    for meant, found in zip(true, said, strict=True):
        own = [of_class(meant == a, found == a) for a in labels if not ignore_empty or (meant == a).any()]
        values += [np.mean(own)] if own else []
    return np.mean(values) if values else np.nan


def dice_of_samples(true, said):
    """The mean over samples of the mean over foreground classes of target or prediction; 1 where there is none."""
    values = []
    for meant, found in zip(true, said, strict=True):
        labels = [label for label in np.union1d(meant, found) if label > 0]
        values.append(np.mean([dice_of(meant == a, found == a) for a in labels]) if labels else 1.0)
    return np.mean(values)


def hausdorff(true, said, n_classes, percentile=100, spacing=None, missing=np.inf):
    """The mean over samples of the mean over foreground classes of the distance of edges, all pairs compared."""
    return over_either(
        lambda first, second, size: distance_of(first, second, percentile, size, missing),
        *(true, said, n_classes, spacing),
    )


def surface_dice(true, said, n_classes, tolerance, spacing=None):
    """The same mean, of the share of both edges that lies within a tolerance of the other."""

    def of_class(first, second, size):
        if not first.any() or not second.any():
            return 0.0
        return np.mean(np.concatenate(ways(first, second, size)) <= tolerance)

    return over_either(of_class, true, said, n_classes, spacing)


def over_either(of_class, true, said, n_classes, spacing=None):
    """The mean over samples of the mean over foreground classes that are in one of both masks."""
    values = []
    for number, (meant, found) in enumerate(zip(true, said, strict=True)):
        size = 1.0 if spacing is None else spacing[number]
        own = [
            of_class(meant == a, found == a, size)
            for a in range(1, n_classes)
            if (meant == a).any() or (found == a).any()
        ]
        values += [np.mean(own)] if own else []
    return np.mean(values) if values else np.nan


def volume_error(first, second):
    """Of two masks, by how much of the first one the second is too large."""
    return (second.sum() - first.sum()) / first.sum()


def distance_of(first, second, percentile, size, missing=np.inf):
    """Of the edges of two masks, the larger of both ways."""
    if not first.any() or not second.any():
        return missing
    return max(np.percentile(way, percentile) for way in ways(first, second, size))


def ways(first, second, size):
    """How far each pixel of the edge of a mask is from the edge of the other, all pairs compared."""
    distances = cdist(*(np.argwhere(edge(mask)) * np.broadcast_to(size, 2) for mask in (first, second)))
    return distances.min(1), distances.min(0)


def edge(mask):
    """Pixels of a mask that have a neighbour outside of it, or lie at the border."""
    wide = np.pad(mask, 1)
    return mask & ~(wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:])
