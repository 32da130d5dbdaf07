"""Every public callable of delira, computed from what packages list and backends show."""

import importlib
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import delira
from delira.frameworks import FRAMEWORKS, NAMES

SOURCE = Path(delira.__file__).parent
#: packages whose listed names are no names for users: their backends show them elsewhere, or they are for a shell
NOT_PUBLIC = ("delira.backends", "delira.cli")

#: callable -> why there is nothing to call it with
NOT_CALLED = {
    "delira.state.StateFunction": "a type for annotations",
    "delira.Comparison": "a record that compare returns",
    "delira.DatasetsComparison": "a record that compare_datasets returns",
    "delira.comparison.Difference": "a record that compare returns",
    "delira.comparison.Outcome": "a record that compare returns",
    "delira.contract.Defaults": "a record that backends state",
    "delira.contract.Devices": "a record that backends return",
    "delira.contract.default_closure": "takes a backend, which the specification tests",
    "delira.contract.Role": "a part of a backend, which makes it",
    "delira.contract.ArraysRole": "a part of a backend, which makes it",
    "delira.contract.CallsRole": "a part of a backend, which makes it",
    "delira.contract.CheckpointsRole": "a part of a backend, which makes it",
    "delira.contract.DevicesRole": "a part of a backend, which makes it",
    "delira.contract.ExportRole": "a part of a backend, which makes it",
    "delira.contract.NativesRole": "a part of a backend, which makes it",
    "delira.contract.GeneratorsRole": "a part of a backend, which makes it",
    "delira.contract.OptimizersRole": "a part of a backend, which makes it",
    "delira.contract.StepRole": "a part of a backend, which makes it",
    "delira.contract.WeightsRole": "a part of a backend, which makes it",
    "delira.contract.WrappedOptimizers": "a part of a backend, which makes it",
    "delira.callbacks.schedules.OptimizerSchedule": "a base class of schedules",
    "delira.callbacks.schedules.RateSchedule": "a base class of schedules",
    "delira.execution.Executor": "a base class of executors",
    "delira.execution.Handle": "a base class of handles",
    "delira.execution.Shared": "holds anything",
    "delira.execution.fetch": "needs a run in a store: tests/experiments/test_mirroring.py",
    "delira.inference.Inference": "a base class of ways",
    "delira.inference.joined": "a part of predict, which checks both ways",
    "delira.prediction.Prediction": "a record that predict returns",
    "delira.prediction.EnsembleScore": "a record that Ensemble.score returns",
    "delira.report.Calibration": "a record that a result returns",
    "delira.report.Conformal": "a record that a result returns",
    "delira.report.CaseTable": "a record that a result returns",
    "delira.report.Example": "a record that a result returns",
    "delira.report.Examples": "a record that a result returns",
    "delira.report.Gap": "a record that subgroups hold",
    "delira.report.Interval": "a record that mean_interval returns",
    "delira.report.Subgroups": "a record that a result returns",
    "delira.report.Section": "a record that pages are made of",
    "delira.testing.SpecReport": "a record that check_backend returns",
    "delira.testing.spec_checks": "takes nothing",
    "delira.testing.spec.Outcome": "a record that check_backend returns",
    "delira.utils.now": "takes nothing",
    "delira.get_backends": "takes nothing",
    "delira.get_current_debug_mode": "takes nothing",
    "delira.metrics.known_keys": "takes nothing",
    "delira.training.settings_help": "takes nothing",
}


def public_packages() -> list[str]:
    """Return the names of all packages that list public names."""
    found = []
    for path in sorted(SOURCE.rglob("__init__.py")):
        name = ".".join(["delira", *path.parent.relative_to(SOURCE).parts])
        if not name.startswith(NOT_PUBLIC):
            found.append(name)
    return found


def shown_names(package: str) -> Iterator[tuple[str, str | None]]:
    """Yield the names that a package shows, each with the framework it needs."""
    module = importlib.import_module(package)
    yield from ((name, None) for name in getattr(module, "__all__", ()))
    for backend, packages in NAMES.items():
        yield from ((name, FRAMEWORKS[backend]) for name in packages.get(package.removeprefix("delira."), ()))


def public_callables() -> dict[str, str | None]:
    """Return the shortest public name of each callable, with the framework it needs.

    Callables of frameworks that are not installed are left out; so are errors, which are raised and not called.
    """
    found: dict[int, str] = {id(resolve(name)): name for name in NOT_CALLED}
    keep: list[object] = []
    needs: dict[str, str | None] = {}
    for package in sorted(public_packages(), key=lambda name: (name.count("."), name)):
        for name, framework in shown_names(package):
            if framework is not None and importlib.util.find_spec(framework) is None:
                continue
            value = getattr(importlib.import_module(package), name)
            full = f"{package}.{name}"
            if is_called(value) and id(value) not in found:
                keep.append(value)
                found[id(value)] = full
                needs[full] = framework
    return needs


def is_called(value: object) -> bool:
    """Say whether users call it: no module, no constant, no error, no alias of a type."""
    if isinstance(value, ModuleType) or not callable(value) or typing.get_origin(value) is not None:
        return False
    if value is typing.Any:  # an alias of it; a class to Python
        return False
    if isinstance(value, type):
        return not issubclass(value, BaseException)
    return inspect.isroutine(value)


def resolve(name: str) -> typing.Any:
    """Return the object of a public name."""
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last)
