"""Executors by their names, for tests of what is the same wherever folds run."""

import importlib.util

import pytest

from delira.execution import Executor, ProcessExecutor, RayExecutor, SlurmExecutor

EXECUTORS = ("processes", "ray", "slurm")
_PACKAGES = {"ray": "ray", "slurm": "submitit"}


def executor_called(name, folder, n_jobs=2) -> Executor:
    """Return one that runs so many folds at once; the test is skipped where its package is not."""
    if name in _PACKAGES and importlib.util.find_spec(_PACKAGES[name]) is None:  # Ray is imported as users import it
        pytest.skip(f"needs the package {_PACKAGES[name]!r}, see requirements/{name}.txt")
    if name == "ray":
        return RayExecutor(n_jobs=n_jobs)
    if name == "slurm":
        return SlurmExecutor(folder, n_jobs=n_jobs, cluster="local", timeout_min=5)
    return ProcessExecutor(n_jobs=n_jobs)
