"""Large samples: patches of them, files that are read in part, other grids."""

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_CHOICE,
    NOT_A_COUNT,
    NOT_A_PATH,
    NOT_A_SHARE,
    NOT_A_TEXT,
    NOT_POSITIVE_INT,
    STRANGE,
)

from delira.data_loading import Patches

PACKAGE = "delira.data_loading"
VOLUME = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
CASES = [{"data": VOLUME[None] + number, "label": (VOLUME > 30).astype(int)} for number in (0, 100)]
NO_SIZE = [5, None, NAN, "x", [], {}, STRANGE, (2, 0, 2), (2, -1, 2), (2, 1.5, 2), (2, True, 2), (2, "a", 2)]
NO_SPACING = [5, None, NAN, "x", [], {}, STRANGE, (1, 0, 1), (1, -1, 1), (1, NAN, 1), (1, INFINITE, 1), (1, True, 1)]


def patches_of(dataset, **arguments):
    """The patches of two cases."""
    return list(Patches(dataset, **arguments))


def saved(folder):
    """A volume in a file."""
    np.save(folder / "a.npy", VOLUME)
    return folder / "a.npy"


ENTRIES = [
    Entry(
        name=f"{PACKAGE}.Patches",
        good=lambda folder: {"dataset": CASES, "size": (3, 4, 5), "per_case": 2},
        make=patches_of,
        use=lambda patches, folder: np.array([patch["data"].sum() for patch in patches]),
        expected=lambda arguments: np.repeat([VOLUME.sum(), VOLUME.sum() + 6000], arguments["per_case"]),
        right={
            "per_case": [1, 5],
            "foreground": [0, 1, 0.5],
            "pad": ["edge", "reflect", None, 7, {"data": 1.5}],
            "size": [[3, 4, 5]],
            "entries": ["data", ["data", "label"], ("data",)],
        },
        wrong={
            "dataset": ["x", 5, None, NAN, STRANGE, [1, 2]],
            "size": NO_SIZE,
            "per_case": NOT_POSITIVE_INT,
            "foreground": NOT_A_SHARE,
            "pad": [*NOT_A_CHOICE[:2], [], STRANGE, True, {"data": "x"}, {1: 1}],
            "entries": [5, NAN, STRANGE, [5], "scan", ["data", "scan"]],
            "label_key": [value for value in NOT_A_TEXT if value != ()],
        },
        says={"dataset": ["dataset"], "entries": ["scan"]},
    ),
    Entry(
        name=f"{PACKAGE}.load_array",
        good=lambda folder: {"path": saved(folder)},
        expected=lambda arguments: VOLUME,
        wrong={"path": [*NOT_A_PATH, None]},
    ),
    Entry(
        name=f"{PACKAGE}.resample",
        good=lambda folder: {"array": VOLUME, "spacing": (2, 1, 3), "new_spacing": (2, 1, 3)},
        expected=lambda arguments: VOLUME,
        right={"kind": ["image", "probability"], "order": [0, 1, 2, 5, None]},
        wrong={
            "array": ["x", None, {}, STRANGE, np.zeros((2, 2)), np.full((2, 2, 2), NAN), np.zeros((0, 2, 2))],
            "spacing": [*NO_SPACING, (1, 1)],
            "new_spacing": [*NO_SPACING, (1, 1)],
            "kind": [*NOT_A_CHOICE, "label"],
            "order": [value for value in [*NOT_A_COUNT, 6] if value is not None],
        },
        says={"array": ["volume", "resamples"], "kind": ["resamples classes"]},
    ),
    Entry(
        name=f"{PACKAGE}.resample_like",
        good=lambda folder: {
            "array": (VOLUME > 30).astype(int),
            "shape": (3, 4, 5),
            "spacing": (2, 1, 3),
            "new_spacing": (2, 1, 3),
        },
        expected=lambda arguments: (VOLUME > 30).astype(int),
        right={"kind": ["image", "probability", "label"], "order": [0, 1, None], "shape": [[3, 4, 5]]},
        wrong={
            "array": ["x", None, {}, STRANGE, np.zeros((2, 2), int), VOLUME, np.zeros((0, 2, 2), int)],
            "shape": [*NO_SIZE, (3, 4)],
            "spacing": [*NO_SPACING, (1, 1)],
            "new_spacing": [*NO_SPACING, (1, 1)],
            "kind": NOT_A_CHOICE,
            "order": [value for value in [*NOT_A_COUNT, 2] if value is not None],
        },
        says={"array": ["volume", "resamples"]},
    ),
]
