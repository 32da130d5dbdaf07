"""Metrics of masks: overlap and distance of edges, of labels, scores and yes or no; and the function of one sample."""

import numpy as np
from fuzz_metrics import GUESSED_MASKS, MASKS, N_CLASSES, N_SAMPLES, NO_THRESHOLD, RANDOM, metric_entry, with_value
from fuzz_values import INFINITE, NAN, NOT_A_BOOL, NOT_A_NUMBER, NOT_POSITIVE_INT, STRANGE
from scipy.spatial.distance import cdist

#: scores whose highest is the guessed label
MASK_SCORES = (
    np.eye(N_CLASSES)[GUESSED_MASKS].transpose(0, 3, 1, 2) + RANDOM.random((N_SAMPLES, 3, 4, 5)) * 0.9
).astype(np.float32)
YES_MASKS = (MASKS > 0).astype(np.uint8)
MASK_CHANCES = np.where(GUESSED_MASKS > 0, 0.8, 0.3).astype(np.float32)
PIXEL = (4, 2, 2)
NO_MASKS = [
    with_value(MASKS, 7, PIXEL),
    with_value(MASKS, -5, PIXEL),
    with_value(MASKS, 255, PIXEL, np.uint8),
    with_value(MASKS, 0.9, PIXEL, np.float32),
    with_value(MASKS, NAN, PIXEL, np.float64),
    MASKS.astype(str),
    MASKS.astype(complex),
    MASKS.astype(object),
    MASKS[:, :3],
    MASKS[:6],
    None,
]
NO_MASK_SCORES = [
    MASK_SCORES[:, :, :3],
    MASK_SCORES.transpose(0, 2, 1, 3),
    MASK_SCORES[:6],
    MASK_SCORES.astype(str),
    MASK_SCORES.astype(complex),
]
NO_YES_MASKS = [
    with_value(YES_MASKS, 2, PIXEL),
    with_value(YES_MASKS, -1, PIXEL, np.int64),
    with_value(YES_MASKS, 1.5, PIXEL, np.float32),
    with_value(YES_MASKS, NAN, PIXEL, np.float32),
]
NO_LABEL_MASKS = [with_value(GUESSED_MASKS, 3, PIXEL), with_value(GUESSED_MASKS, -1, PIXEL), GUESSED_MASKS[:, 1:]]
FLAGS = {"ignore_empty": NOT_A_BOOL, "include_background": NOT_A_BOOL}
COUNT = [value for value in NOT_POSITIVE_INT if value is not None]
SAID = {"true": ["sample 4"], "pred": ["sample 4", "prediction"], "num_classes": ["none of the 2 classes"]}


def labels_of(arguments):
    """Predicted labels of every sample; None for one without."""
    pred, limit = arguments["pred"], arguments.get("threshold")
    if pred.ndim == 4:
        axis = 1 if pred.shape[1] == N_CLASSES else 3
        return [None if not np.isfinite(one.max(axis - 1)).all() else one.argmax(axis - 1) for one in pred]
    if pred.dtype.kind != "f":
        return list(pred)
    return [
        None if not np.isfinite(one).all() else (one > (0.5 if limit is None else limit)).astype(int) for one in pred
    ]


def over_samples(of_class, *, of_both):
    """The mean over samples of the mean over classes; ``of_both``: whether classes of the prediction count, too."""

    def expected(arguments):
        true = arguments["true"].reshape(N_SAMPLES, 4, 5).astype(int)
        two = arguments["pred"].ndim == 3 and arguments["pred"].dtype.kind == "f"
        values = []
        for meant, said in zip(true, labels_of(arguments), strict=True):
            if said is None:
                return np.nan
            own = []
            for label in range(0 if arguments.get("include_background") else 1, 2 if two else N_CLASSES):
                first, second = meant == label, said == label
                if of_both and not first.any() and not second.any():
                    continue
                if first.any() or of_both or not arguments.get("ignore_empty", True):
                    own.append(of_class(first, second, arguments))
            values += [np.mean(own)] if own else []
        return np.mean(values) if values else np.nan

    return expected


def dice(first, second, arguments):
    return 2 * (first & second).sum() / (first.sum() + second.sum()) if first.any() or second.any() else 1.0


def iou(first, second, arguments):
    return (first & second).sum() / (first | second).sum() if first.any() or second.any() else 1.0


def hausdorff(first, second, arguments):
    """The largest or a percentile of the distances of edges, all pairs compared."""
    if not first.any() or not second.any():
        return np.inf
    points = [np.argwhere(edge(mask)) * np.broadcast_to(arguments.get("spacing", 1.0), 2) for mask in (first, second)]
    distances = cdist(*points)
    return max(np.percentile(distances.min(axis), arguments.get("percentile") or 100) for axis in (0, 1))


def edge(mask):
    """Pixels of a mask that have a neighbour outside of it, or lie at the border."""
    wide = np.pad(mask, 1)
    inside = wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
    return mask & ~inside


def entries(name, of_class, *, of_both=False, wrong=None, right=None, free=()):
    expected = over_samples(of_class, of_both=of_both)
    free = dict.fromkeys([*free, *(wrong or {})], "said by the other entry")
    scores = metric_entry(
        name,
        MASKS,
        MASK_SCORES,
        expected,
        right={
            "pred": [
                with_value(MASK_SCORES, NAN, (4, 1, 2, 2)),
                with_value(MASK_SCORES, INFINITE, (4, 1, 2, 2)),
                np.repeat(np.repeat(MASK_SCORES, 1, 2), 1, 3).astype(np.float64),
            ],
            "true": [MASKS.astype(np.uint8), MASKS.astype(np.float32)],
            **(right or {}),
        },
        wrong={
            "true": NO_MASKS,
            "pred": NO_MASK_SCORES,
            "num_classes": COUNT,
            "threshold": NO_THRESHOLD,
            **(wrong or {}),
        },
        says=SAID,
    )
    labels = metric_entry(
        f"{name}#labels",
        MASKS,
        GUESSED_MASKS,
        expected,
        num_classes=N_CLASSES,
        right={"pred": [GUESSED_MASKS.astype(np.uint8)], "true": [MASKS[:, None]], "num_classes": [3, np.int64(3)]},
        wrong={"true": NO_MASKS, "pred": NO_LABEL_MASKS, "num_classes": [*COUNT, 2, None]},
        says=SAID,
        free={**free, "threshold": "said by the other entry"},
    )
    two = metric_entry(
        f"{name}#binary",
        YES_MASKS,
        MASK_CHANCES,
        expected,
        right={
            "pred": [with_value(MASK_CHANCES, NAN, PIXEL)],
            "true": [YES_MASKS.astype(bool), YES_MASKS.astype(np.float32), YES_MASKS[:, None]],
            "threshold": [0.2, 0.9],
        },
        wrong={"true": NO_YES_MASKS, "pred": [MASK_CHANCES[:, 1:], MASK_CHANCES.astype(str)]},
        says=SAID,
        free={**free, "num_classes": "said by the other entry"},
    )
    return [scores, labels, two]


ENTRIES = [
    *entries("Dice", dice, wrong=FLAGS, right={"ignore_empty": [False], "include_background": [True]}),
    *entries("IoU", iou, wrong=FLAGS, right={"ignore_empty": [False], "include_background": [True]}),
    *entries(
        "Hausdorff",
        hausdorff,
        of_both=True,
        wrong={
            "percentile": [value for value in NOT_A_NUMBER if value is not None] + [NAN, INFINITE, 0, -5, 101],
            "spacing": ["x", NAN, INFINITE, 0, -1.0, (1.0, -1.0), (1, 2, 3), [], {}, STRANGE, True, None, (1.0, NAN)],
        },
        right={"percentile": [95, 50.0], "spacing": [2.0, (0.5, 3.0), np.array([1.0, 2.0])]},
    ),
]
