"""Seeds, states, debug mode, and what backends are written with."""

import random

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_PATH,
    NOT_A_TEXT,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
)

import delira

SEEDS = [value for value in NOT_A_COUNT if not isinstance(value, bool)]


def draws(given, folder):
    """What the global generators give next."""
    return np.array([random.random(), np.random.rand()])


def seeded(arguments):
    """The same by Python and numpy themselves."""
    generator = np.random.RandomState(arguments["seed"])
    return np.array([random.Random(arguments["seed"]).random(), generator.rand()])


def mode(given, folder):
    """The debug mode, which is off again afterwards."""
    found = delira.get_current_debug_mode()
    delira.set_debug_mode(False)
    return found


def filled(state, folder):
    """A state is a dictionary."""
    state["a"] = 5
    return dict(state)


ENTRIES = [
    Entry(
        name="delira.seed_all",
        good=lambda folder: {"seed": 3},
        use=draws,
        expected=seeded,
        right={"seed": [0, 1, 2**31 - 1]},
        wrong={"seed": SEEDS, "deterministic": NOT_A_BOOL},
    ),
    Entry(
        name="delira.set_debug_mode",
        good=lambda folder: {"mode": True},
        use=mode,
        expected=lambda arguments: arguments["mode"],
        right={"mode": [True, False]},
        wrong={"mode": NOT_A_BOOL},
    ),
    *(
        Entry(
            name="delira.switch_debug_mode#" + str(number),
            good=lambda folder: {},
            use=mode,
            expected=lambda arguments: True,
        )
        for number in range(5)
    ),
    Entry(
        name="delira.State",
        good=lambda folder: {},
        use=filled,
        expected=lambda arguments: {"a": 5},
        wrong={"*0": [5, NAN, STRANGE, "x", [1]]},
        says={"*0": ["dictionary", "State"]},
    ),
    *(
        Entry(
            name=name,
            good=lambda folder: {"*": ["fuzz_key"]},
            use=lambda key, folder: str(key),
            expected=lambda arguments: "fuzz_key",
            wrong={"*0": [5, NAN, [], STRANGE, True, None]},
            says={"*0": ["text"]},
        )
        for name in ("delira.StateKey", "delira.state_key")
    ),
    Entry(
        name="delira.utils.subdirs",
        good=lambda folder: {"folder": folder},
        use=lambda found, folder: list(found),
        expected=lambda arguments: [],
        wrong={"folder": [*NOT_A_PATH, "/nonsense/nowhere", __file__]},
    ),
    Entry(
        name="delira.utils.LookupConfig",
        good=lambda folder: {"a": 1},
        use=lambda config, folder: config["a"],
        expected=lambda arguments: 1,
        wrong={"*0": ["x", 5, NAN, STRANGE, [5]]},
        says={"*0": ["dictionary", "mapping"]},
    ),
    Entry(
        name="delira.contract.UpdateConfig",
        good=lambda folder: {},
        use=lambda made, folder: made.accumulation_steps,
        expected=lambda arguments: arguments.get("accumulation_steps", 1),
        right={"accumulation_steps": [1, 2]},
        wrong={
            "precision": [*NOT_A_TEXT, "nonsense"],
            "accumulation_steps": NOT_POSITIVE_INT,
            "clip_norm": NOT_POSITIVE,
            "clip_value": NOT_POSITIVE,
            "skip_nonfinite": NOT_A_BOOL,
            "in_parts": NOT_A_BOOL,
        },
    ),
    Entry(
        name="delira.contract.CompileConfig",
        good=lambda folder: {},
        wrong={"compiled": ["x", 5, NAN, [1], STRANGE], "jit": NOT_A_BOOL},
    ),
    Entry(
        name="delira.trial.deep_to",
        good=lambda folder: {"batch": {"a": np.ones(2), "b": [np.zeros(1)]}},
        use=lambda found, folder: sorted(found),
        expected=lambda arguments: ["a", "b"],
        right={"batch": [{"a": 1, "b": "x"}]},
        free={"device": "the framework's", "dtype": "the framework's", "batch": "anything"},
    ),
]
