"""Prediction of new data: networks of runs, several as one model, windows and positions."""

import numpy as np
from fuzz_cases import Entry
from fuzz_toys import WEIGHT, data, of_toy, toy
from fuzz_training import INPUTS
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_BOOL,
    NOT_A_CHOICE,
    NOT_A_PATH,
    NOT_POSITIVE_INT,
    STRANGE,
)

import delira
from delira.testing import ToyTrainer

IMAGE = np.arange(35.0, dtype=np.float32).reshape(1, 1, 5, 7)
NO_SIZE = [0, -1, 1.5, NAN, None, "x", "", [], {}, STRANGE, True, (4, 0), (4, "a"), np.zeros(2)]
NO_PART = [-0.1, 1, 1.0, NAN, INFINITE, "x", "", [], {}, STRANGE, None, True, (0.5, 1.0), (0.5, "a")]
NO_WAY = [5, NAN, "x", "", [], {}, STRANGE, True]
NO_SOURCE = ["nonsense", "", 5, NAN, None, [], {}, STRANGE, True, int]
#: one that is not there; for a pass, so that the data are read
NO_OBJECTS = [5, NAN, "x", [1], STRANGE, True]
#: a list and a number are sought as entries of batches
NO_NUMBERS = [value for value in NOT_POSITIVE_INT if value is not None]


def double(outputs):
    """What is in the batch or the outputs, twice."""
    return {name: 2 * np.asarray(value) for name, value in outputs.items()}


def half(outputs):
    """Undo it."""
    return {name: np.asarray(value) / 2 for name, value in outputs.items()}


def squared(batch):
    """A network that squares each voxel."""
    return {"pred": np.asarray(batch["data"]) ** 2}


def predicted(way, folder):
    """The image as such a network says it in that way."""
    return way(squared, {"data": IMAGE}, ["data"])["pred"]


def by_hand(arguments):
    """The toy's output."""
    return INPUTS @ WEIGHT


def trained(folder):
    """The folder of a checkpoint of a network whose weight is known."""
    trainer = ToyTrainer(
        **{**of_toy(folder), "save_path": folder / "run", "save_freq": 1, "optimizer_params": {"lr": 1e-12}}
    )
    trainer.train(1, data())
    return folder / "run"


def said(outputs, folder):
    """What was predicted, of arrays or of cases one by one."""
    if isinstance(outputs, dict):
        return outputs["pred"]
    if isinstance(outputs, list):
        return np.stack([np.load(path)["pred"] for path in outputs])
    return np.stack([case.outputs["pred"] for case in outputs])


def ensemble_of(folder):
    """Two members that are the same network."""
    path = trained(folder)
    return delira.load_ensemble([path, path / "checkpoints" / "checkpoint_last.zip"])


def of_stored(folder):
    """Arguments that read a network that was trained."""
    return {"path": trained(folder), "objects": {"ToyNetwork": delira.testing.ToyNetwork}}


OF_NETWORKS = {"objects": NO_OBJECTS, "trusted": [5, NAN, STRANGE, True]}
OF_ENSEMBLES = {
    "weights": ["x", 5, [], [NAN], [-1.0], [0.0], [1.0, 1.0], ["a"], STRANGE, {"a": 1}],
    "combine": [value for value in NOT_A_CHOICE if value is not None],
    "spread": NOT_A_BOOL,
    "at_once": NOT_A_BOOL,
}
SAYS = {"path": ["no run", "member", "network"], "weights": ["weights"]}

ENTRIES = [
    Entry(
        name="delira.predict",
        good=lambda folder: {"source": toy(), "data": INPUTS},
        use=said,
        expected=by_hand,
        right={
            "data": [{"data": INPUTS}, {"data": INPUTS, "label": INPUTS}, [{"data": row} for row in INPUTS]],
            "inference": [None, "trained"],
            "batch_size": [1, 3, np.int64(2), 99],
            "stream": [True],
            "out": ["predictions", None],
            "on_error": ["skip"],
            "keep": [None],
            "spread": [None, False],
            "transforms": [None, dict],
            "any_spacing": [True],
        },
        wrong={
            "source": NO_SOURCE,
            "data": ["nonsense", 5, NAN, None, {}, STRANGE, True, {"other": INPUTS}],
            "inference": NO_WAY,
            "tta": [*NO_WAY, "trained"],
            "keep": [*NOT_A_CHOICE, "label"],
            "batch_size": NO_NUMBERS,
            "out": NOT_A_PATH,
            "stream": NOT_A_BOOL,
            "spread": [*(value for value in NOT_A_BOOL if value is not None), True],
            "transforms": [5, NAN, "x", [], {}, STRANGE, True],
            "any_spacing": NOT_A_BOOL,
            "on_error": NOT_A_CHOICE,
            "objects": NO_OBJECTS,
        },
        says={
            "source": ["predict", "no run", "member"],
            "data": ["case", "no file", "predict", "entry", "batch"],
            "out": ["path"],
        },
    ),
    Entry(
        name="delira.load_network",
        good=of_stored,
        use=lambda network, folder: network.weight,
        expected=lambda arguments: WEIGHT,
        right={"objects": [None, {}], "trusted": [[], ()]},
        wrong={"path": [*NOT_A_PATH, "nonsense"], "network": ["x", 5, NAN, [], STRANGE], **OF_NETWORKS},
        says={"path": ["no run"], "network": ["backend", "network"]},
        is_slow=True,
    ),
    Entry(
        name="delira.load_ensemble",
        good=of_stored,
        use=lambda ensemble, folder: ensemble.predict(INPUTS)["pred"],
        expected=by_hand,
        right={"weights": [[2.0], None], "combine": ["mean", "logits", None], "spread": [False], "at_once": [False]},
        wrong={
            "path": ["nonsense", 5, NAN, [], {}, STRANGE, True, None, [5]],
            "folds": [5, NAN, STRANGE, True, "x"],
            **OF_NETWORKS,
            **OF_ENSEMBLES,
        },
        says=SAYS,
        is_slow=True,
    ),
    Entry(
        name="delira.Ensemble",
        good=lambda folder: {"members": ensemble_of(folder).members},
        use=lambda ensemble, folder: ensemble.predict(INPUTS)["pred"],
        expected=by_hand,
        right={"weights": [[1.0, 3.0], (1, 0)], "combine": ["mean"], "spread": [False], "at_once": [False]},
        wrong={"members": ["x", 5, NAN, None, [], {}, STRANGE, True, [5]], **OF_ENSEMBLES, "weights": [[1.0], "x", 5]},
        says={"members": ["member"]},
        is_slow=True,
    ),
    Entry(
        name="delira.SlidingWindow",
        good=lambda folder: {"size": 4},
        use=predicted,
        expected=lambda arguments: IMAGE**2,
        right={
            "size": [(4, 4), (5, 7), 9, np.int64(3)],
            "overlap": [0, 0.25, (0.5, 0.75)],
            "weighting": ["constant"],
            "batch_size": [2, 99],
            "sigma": [0.5, (0.1, 0.2)],
            "padding": ["reflect", "replicate", None],
            "pad_value": [7.0],
            "dtype": ["float32", np.float32],
            "memory_map": [True],
        },
        wrong={
            "size": NO_SIZE,
            "overlap": NO_PART,
            "weighting": NOT_A_CHOICE,
            "batch_size": NO_NUMBERS,
            "sigma": [0, -0.1, NAN, INFINITE, "x", [], {}, STRANGE, None, True],
            "padding": NOT_A_CHOICE,
            "pad_value": ["x", None, [], {}, STRANGE],
            "dtype": ["x", 5, "int8", [], {}, STRANGE, "float3"],
            "memory_map": [5, NAN, [], {}, STRANGE],
        },
    ),
    Entry(
        name="delira.TestTimeAugmentation",
        good=lambda folder: {"flips": (0, 1)},
        use=predicted,
        expected=lambda arguments: IMAGE**2,
        right={
            "flips": [0, 1, [1], range(2)],
            "rotations": [[(0, 1)], (0, 1), [[1, 0]]],
            "functions": [[(dict, dict)], ((dict, dict),)],
        },
        wrong={
            "flips": ["x", None, NAN, -1, 0.5, True, {}, STRANGE, (0, 0), ("a",), (-1,), 7],
            "rotations": ["x", 5, NAN, None, STRANGE, True, [5], [(0, 0)], [(0,)], [(0, 1, 2)], [("a", "b")], [(0, 9)]],
            "functions": ["x", 5, NAN, None, STRANGE, True, [5], [(dict,)], [(dict, 5)], dict, (dict, dict)],
        },
        says={"flips": ["axis 7"], "rotations": ["axis 9"]},
    ),
]
