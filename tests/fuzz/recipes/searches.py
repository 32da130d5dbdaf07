"""Searches: spaces, what is asked for, and what came of it."""

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_NUMBER,
    NOT_A_PATH,
    NOT_A_TEXT,
    NOT_POSITIVE_INT,
    STRANGE,
)

INFINITE = float("inf")
NOT_WHEN = ["x", 5, NAN, [1], STRANGE, True, {}]


def seen_in(space, folder):
    """Which of some values are in it, and its ends."""
    return [space.has(value) for value in (0.5, 2, 4, 100, "a", None)], [*space.corners()]


def by_hand(arguments):
    low, high = arguments["*"]
    step = arguments.get("step")
    values = [low <= value <= high and (step is None or (value - low) % step == 0) for value in (0.5, 2, 4, 100)]
    return [*values, False, False], [low, high]


def whole_by_hand(arguments):
    found, ends = by_hand(arguments)
    return [False, *found[1:]], ends


def of_trial(folder=None):
    return {"number": 0, "state": "finished", "values": {"training.lr": 0.1}, "scores": (0.5,)}


def trials():
    from delira.search import Trial

    return [Trial(**of_trial()), Trial(**{**of_trial(), "number": 1, "scores": (0.7,)})]


def of_result(folder):
    return {"trials": trials(), "metrics": ["score"], "are_maximised": [True], "path": folder}


ENTRIES = [
    Entry(
        name="delira.search.Float",
        good=lambda folder: {"*": (0.25, 8.0)},
        use=seen_in,
        expected=by_hand,
        right={"log": [True, False], "step": [None, 0.25], "default": [0.5, 8], "when": [None, {"a": 1}]},
        wrong={
            "*0": [*NOT_A_NUMBER, NAN, INFINITE, 9.0],
            "*1": [*NOT_A_NUMBER, NAN, INFINITE, 0.0],
            "log": NOT_A_BOOL,
            "step": [value for value in NOT_A_NUMBER if value is not None] + [0, -1.0, NAN, 3.0],
            "default": [*NOT_A_NUMBER, 9.0],
            "when": NOT_WHEN,
        },
        says={"*0": ["low"], "*1": ["high", "low"], "step": ["step"]},
    ),
    Entry(
        name="delira.search.Int",
        good=lambda folder: {"*": (2, 8)},
        use=seen_in,
        expected=whole_by_hand,
        right={"log": [False, True], "step": [1, 2, np.int64(3)], "default": [4, 8], "when": [None, {"a": [1, 2]}]},
        wrong={
            "*0": [*NOT_A_COUNT, 1.5, 9],
            "*1": [*NOT_A_COUNT, 8.5, 1],
            "log": NOT_A_BOOL,
            "step": [*NOT_POSITIVE_INT, 4],
            "default": [*NOT_A_NUMBER, 9, 2.5],
            "when": NOT_WHEN,
        },
        says={"*0": ["low"], "*1": ["high", "low"], "step": ["step"]},
    ),
    Entry(
        name="delira.search.Choice",
        good=lambda folder: {"*": (["a", 2, None],)},
        use=lambda space, folder: [space.valued(label) for label in space.labels],
        expected=lambda arguments: [*arguments["*"][0]],
        right={"*0": [[1], ("a", "b"), [int, float]], "default": ["a", None], "when": [None, {"a": 1}]},
        wrong={
            "*0": ["ab", 5, NAN, STRANGE, [], [1, 1], {"a": 1}],
            "default": ["b", 3, STRANGE],
            "when": NOT_WHEN,
        },
        says={"*0": ["options", "Choice"]},
    ),
    Entry(
        name="delira.search.Tune",
        good=lambda folder: {"n_trials": 6, "num_splits": 5},
        use=lambda tune, folder: [*tune.metrics],
        expected=lambda arguments: [arguments["metric"]] if isinstance(arguments.get("metric"), str) else [],
        right={
            "n_trials": [1, np.int64(9)],
            "metric": [None, "score"],
            "direction": ["auto", "max", "lowest"],
            "num_splits": [5, None],
            "val_split": [0.5, None],
            "split_type": [None, "stratified"],
            "sampler": ["tpe", "random", "grid"],
            "pruner": [None, "median", "wilcoxon"],
        },
        wrong={
            "n_trials": [*NOT_POSITIVE_INT, None],
            "metric": [5, NAN, [], [1], STRANGE, True],
            "direction": ["up", 5, NAN, None, STRANGE, ["max"]],
            "num_splits": [0, 1, -2, 2.5, "x", True, STRANGE],
            "val_split": [0, 1, -0.5, 2, "x", NAN, STRANGE],
            "sampler": ["tep", 5, NAN, [], STRANGE, None],
            "pruner": ["medain", 5, NAN, [], STRANGE],
            "constraints": ["x", 5, NAN, [], STRANGE],
        },
        says={"direction": ["direction", "metrics"]},
    ),
    Entry(
        name="delira.search.Trial",
        good=of_trial,
        use=lambda trial, folder: trial.is_feasible,
        expected=lambda arguments: (
            arguments["state"] == "finished" and not any(value > 0 for value in arguments.get("constraints", ()))
        ),
        right={
            "number": [3, np.int64(2)],
            "state": ["pruned", "failed"],
            "constraints": [(), (-1.0,), (0.5, -1.0)],
            "fold_scores": [(), ((0.5,), (0.7,))],
            "epochs": [0, 5],
        },
        wrong={
            "number": NOT_A_COUNT,
            "state": ["done", 5, NAN, None, STRANGE],
            "values": NOT_A_MAPPING,
            "scores": ["x", 5, None, STRANGE, ["x"], [None]],
            "fold_scores": ["x", 5, None, STRANGE, [1.0], [["x"]]],
            "constraints": ["x", 5, None, STRANGE, ["x"]],
            "epochs": NOT_A_COUNT,
            "seconds": NOT_A_NUMBER,
            "error": NOT_A_TEXT,
            "path": NOT_A_PATH,
        },
    ),
    Entry(
        name="delira.search.SearchResult",
        good=of_result,
        use=lambda result, folder: [trial.number for trial in result.best_trials],
        expected=lambda arguments: [1 if arguments["are_maximised"][0] else 0],
        right={"are_maximised": [[True], (False,)], "name": ["it", ""], "searched": [None]},
        wrong={
            "trials": ["x", 5, None, STRANGE, [1]],
            "metrics": ["x", 5, None, STRANGE, [], [1], ["a", "b"]],
            "are_maximised": ["x", 5, None, STRANGE, [], [1], [True, False]],
            "path": [*NOT_A_PATH, None],
            "name": NOT_A_TEXT,
            "searched": ["x", 5, NAN, {}, STRANGE],
            "problems": ["x", 5, None, STRANGE, [1]],
        },
        says={"are_maximised": ["are_maximised"]},
    ),
]
