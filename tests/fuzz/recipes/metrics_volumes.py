"""Metrics of masks per class: by sets of pixels, and distances of all pairs of edge pixels."""

import numpy as np
from fuzz_cases import Entry
from fuzz_metrics import GUESSED_MASKS, MASKS, N_CLASSES
from fuzz_values import INFINITE, NAN, NOT_A_BOOL, NOT_A_CHOICE, NOT_A_NUMBER, STRANGE
from scipy.spatial.distance import cdist

from delira.metrics import score

SCORES = np.eye(N_CLASSES)[GUESSED_MASKS].transpose(0, 3, 1, 2)
NAMES = ["nothing", "nodule", "vessel"]
NO_CLASSES = [1, 0, -3, 2.0, True, "x", "", [], ["a"], ["a", "a"], [1, 2], {"a": 1}, NAN, None, STRANGE, np.zeros(2)]
NO_SPACING = ["", NAN, INFINITE, 0, -1.0, (1.0, -1.0), (1.0, NAN), [], {}, {1}, STRANGE, True, 1j, int, ["x"]]
NO_TOLERANCE = [value for value in NOT_A_NUMBER if not isinstance(value, np.ndarray)]
NO_DISTANCE = [*NOT_A_NUMBER, -1, -INFINITE, True]
LONGEST = 9.0


def edge(mask, spacing):
    """Places of the pixels of a mask that have a neighbour outside, mm."""
    padded = np.pad(mask, 1)
    near = [np.roll(padded, step, axis)[1:-1, 1:-1] for axis in (0, 1) for step in (-1, 1)]
    return np.argwhere(mask & ~np.all(near, axis=0)) * np.broadcast_to(spacing, 2)


def ways(first, second, arguments):
    spacing = arguments.get("spacing") or 1.0
    apart = cdist(edge(first, spacing), edge(second, spacing))
    return apart.min(axis=1), apart.min(axis=0)


def dice(first, second, arguments):
    return 2 * (first & second).sum() / (first.sum() + second.sum()) if first.any() else empty(second, arguments)


def iou(first, second, arguments):
    return (first & second).sum() / (first | second).sum() if first.any() else empty(second, arguments)


def empty(second, arguments):
    return NAN if arguments.get("ignore_empty", True) else float(not second.any())


def hausdorff(first, second, arguments):
    if not first.any() or not second.any():
        return arguments["missing"] if first.any() or second.any() else NAN
    return max(np.percentile(way, arguments.get("percentile", 95)) for way in ways(first, second, arguments))


def surface(first, second, arguments):
    if not first.any() or not second.any():
        return 0.0 if first.any() or second.any() else NAN
    return np.mean(np.concatenate(ways(first, second, arguments)) <= arguments["tolerance"])


def volume(first, second, arguments):
    error = int(second.sum()) - int(first.sum())
    error = error if arguments.get("signed") else abs(error)
    return error / first.sum() if first.any() else NAN


def over_cases(of_class):
    def expected(arguments):
        first_label = 1 - bool(arguments.get("include_background"))
        rows = [
            [of_class(true == label, pred == label, arguments) for label in range(first_label, N_CLASSES)]
            for true, pred in zip(MASKS, GUESSED_MASKS, strict=True)
        ]
        means = [np.nanmean(row) for row in rows if not np.isnan(row).all()]
        return np.mean(means)

    return expected


def entry(name, of_class, *, given=None, wrong=None, right=None):
    return Entry(
        name=f"delira.metrics.{name}",
        good=lambda folder: {"classes": N_CLASSES, **(given or {})},
        use=lambda made, folder: score(made, [MASKS, SCORES]),
        expected=over_cases(of_class),
        right={
            "classes": [NAMES, tuple(NAMES), np.int64(3)],
            "include_background": [True],
            "class_axis": [1, None],
            **(right or {}),
        },
        wrong={
            "classes": NO_CLASSES,
            "include_background": NOT_A_BOOL,
            "class_axis": [0, 2, 1.0, True, "x", [], NAN, STRANGE],
            "threshold": [*NOT_A_NUMBER, NAN, 0.5],
            **(wrong or {}),
        },
    )


SPACED = {"spacing": [2.0, (0.5, 3.0)]}
EMPTY = {"wrong": {"ignore_empty": NOT_A_BOOL, "spacing": [1.0]}, "right": {"ignore_empty": [False]}}
ENTRIES = [
    entry("DicePerClass", dice, **EMPTY),
    entry("IoUPerClass", iou, **EMPTY),
    entry(
        "HausdorffPerClass",
        hausdorff,
        given={"missing": LONGEST},
        wrong={"percentile": [*NOT_A_NUMBER, NAN, INFINITE, 0, -5, 101], "missing": NO_DISTANCE, "spacing": NO_SPACING},
        right={"percentile": [50, 100], "missing": [0, 3.5], **SPACED},
    ),
    entry(
        "SurfaceDice",
        surface,
        given={"tolerance": 1.0},
        wrong={"tolerance": [*NO_TOLERANCE, NAN, INFINITE, -1, (1, 2, 3), [[1], [1, 2]]], "spacing": NO_SPACING},
        right={"tolerance": [0, 2.5], **SPACED},
    ),
    entry(
        "VolumeError",
        volume,
        wrong={"unit": [*NOT_A_CHOICE, "ml", None], "signed": NOT_A_BOOL, "spacing": NO_SPACING},
        right={"signed": [True], **SPACED},
    ),
]
