"""Executors, and what tasks need of a machine."""

import contextlib

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_NEGATIVE_OR_ZERO, NOT_POSITIVE, NOT_POSITIVE_INT, STRANGE


def at_once(executor, folder):
    """How many tasks run at once; none is begun."""
    with contextlib.ExitStack() as stack:
        stack.callback(executor.shutdown)
        return executor.n_jobs


#: -1 stands for one for each core
NO_JOBS = [value for value in NOT_POSITIVE_INT if value is not None and not (type(value) is int and value == -1)]

#: as they are if nobody says them
MIRROR_TIMES = {"every": 5.0, "patience": 600.0, "grace": 20.0, "takeover_after": 60.0}

ENTRIES = [
    Entry(
        name="delira.execution.Resources",
        good=lambda folder: {},
        use=lambda made, folder: [made.cpus, made.gpus],
        expected=lambda arguments: [arguments.get("cpus", 1), arguments.get("gpus", 0)],
        right={"cpus": [1, 64, np.int64(2)], "gpus": [0, 0.5, 2]},
        wrong={"cpus": [None, *NOT_POSITIVE_INT], "gpus": [None, *NOT_NEGATIVE_OR_ZERO]},
    ),
    Entry(
        name="delira.execution.ProcessExecutor",
        good=lambda folder: {"n_jobs": 2},
        use=at_once,
        expected=lambda arguments: int(arguments["n_jobs"]),
        right={"n_jobs": [1, 7, np.int64(3)], "gpus": [None, [], [0, 1], ("GPU-1", 2)]},
        wrong={
            "n_jobs": NO_JOBS,
            "gpus": ["0,1", 2, NAN, {}, STRANGE, True, [None], [-1], [0.5], [""], [0, 0]],
        },
    ),
    Entry(
        name="delira.execution.Mirror",
        good=lambda folder: {"url": str(folder / "store")},
        use=lambda made, folder: [made.url, made.every, made.patience, made.grace, made.takeover_after],
        expected=lambda arguments: [
            str(arguments["url"]).rstrip("/"),
            *(arguments.get(name, value) for name, value in MIRROR_TIMES.items()),
        ],
        right={
            "url": ["s3://bucket/folder/", "memory://store"],
            "every": [0.1, 5],
            "patience": [1, 3600],
            "grace": [0, 30],
            "takeover_after": [1, 60.0],
        },
        wrong={
            "url": ["", 5, NAN, [], None, True],
            "grace": NOT_NEGATIVE_OR_ZERO,
            **dict.fromkeys(("every", "patience", "takeover_after"), NOT_POSITIVE),
        },
    ),
    # what is right begins a cluster: tests/experiments/test_ray.py, test_slurm.py
    Entry(
        name="delira.execution.RayExecutor",
        good=lambda folder: {},
        wrong={"address": ["", 5, NAN, [], True], "n_jobs": NO_JOBS, "allow_network": [None, 1, "no", NAN]},
    ),
    Entry(
        name="delira.execution.SlurmExecutor",
        good=lambda folder: {"folder": folder},
        wrong={
            "folder": ["", 5, NAN, None, []],
            "n_jobs": NO_JOBS,
            "timeout_min": [0, -1, "1:00", None, True, NAN],
            "signal_delay_s": [0, -1, 0.5, 3600, None, True],
            "options": [5, "gpu", ["gpu"]],
            "cluster": ["lsf", 5, None, ""],
        },
    ),
]
