"""Whether a run can be run again here, bit for bit, as far as its folder and this environment tell."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from delira.cli.experiments import nameless
from delira.errors import ConfigError
from delira.experiments import experiment_file
from delira.experiments.experiment_file import FILE_NAME
from delira.experiments.search_result import FILE_NAME as TRIAL_FILE
from delira.frameworks import PACKAGES, distributions_of
from delira.runs.stored_run import StoredRun
from delira.runs.weight_hashes import read_hashes
from delira.utils.files import mapping

CAN, UNKNOWN, CANNOT = "can be equal", "not known", "cannot"
#: what every backend computes with
_ALWAYS = ("python", "delira", "numpy", "scikit-learn", "batchgenerators")
#: of the environment besides versions: what they may change
_MACHINE = {
    "platform": "libraries of the system may compute otherwise",
    "processor": "another processor may round otherwise",
    "git": "the code may be another one",
}


class Outlook(NamedTuple):
    """What can be said before a rerun."""

    state: str
    """``"can be equal"``, ``"not known"`` or ``"cannot"``."""
    reasons: Sequence[str]
    """Why not, or why nobody knows."""
    needs: Sequence[str] = ()
    """What has to be named on the command line besides modules."""


def outlook(run: StoredRun, different: Mapping[str, str]) -> Outlook:
    """Say whether a rerun can be equal to the run.

    Parameters
    ----------
    run
        What its folder says.
    different
        What differs in the environment, by name, and how.
    """
    why = why_not(run) or next(_impossible(run, different), "")
    if why:
        return Outlook(CANNOT, [why])
    reasons = [*_doubts(run, different)]
    return Outlook(UNKNOWN if reasons else CAN, reasons, [*_needs(run)])


def plan_of(run: StoredRun) -> Path:
    """The file that says what a run is; of a trial that is its search's."""
    return (run.path.absolute().parents[1] if run.manifest.get("is_trial") else run.path) / FILE_NAME


def why_not(run: StoredRun) -> str:
    """Why a run cannot be run again at all; empty if it can."""
    if not run.manifest.get("fingerprint") or not isinstance(run.manifest.get("seed"), int):
        return "it has no manifest.json that can be read, so its seed and settings are not known"
    if run.kind == "tune":
        return (
            "it is a search, whose trials follow from each other; each of them is run again from its own folder, "
            f"{run.path / 'trials' / 'trial_0000'} and so on"
        )
    if run.manifest.get("is_trial") and not (run.path / TRIAL_FILE).exists():
        return "it is a trial of a search, and has not ended"
    if not plan_of(run).exists():
        example = "" if run.kind == "run" else f", {run.kind}={{…}}"
        return (
            f"it has no {FILE_NAME}, which says what it is: it is of an older version; write it, in the script that "
            f"began it, by experiment.save({str(plan_of(run))!r}, data=function{example})"
        )
    if not run.fold_folders:
        return "it was broken off before its first epoch, so there is nothing to compare"
    return ""


def _impossible(run: StoredRun, different: Mapping[str, str]) -> Iterator[str]:
    yield from _unreadable(run)
    changes = [change for event in run.events for change in event.get("changes") or ()]
    if changes:
        yield f"it was continued with changes: {'; '.join(map(str, changes))}"
    backend = str(run.manifest.get("room"))
    for name in distributions_of(backend) if backend in PACKAGES else ():
        if different.get(name, "").endswith("not installed here"):
            yield f"{name} is not installed here"


def _unreadable(run: StoredRun) -> Iterator[str]:
    """What the file of the run says and nobody can find."""
    with contextlib.suppress(ConfigError, OSError, AttributeError, LookupError, TypeError, ValueError):
        arguments, plan = experiment_file.read(plan_of(run), None)
        if told := nameless(arguments, plan):
            yield told
        given = plan.asked.get("splits")
        if isinstance(given, str) and not Path(given).exists():
            yield f"its splits are those of {given}, which is not there"


def _doubts(run: StoredRun, different: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*_ALWAYS, *distributions_of(str(run.manifest.get("room")))]):
        if name in different:
            yield f"{name}: {different[name]}"
    yield from (f"{name}: {different[name]}; {why}" for name, why in _MACHINE.items() if name in different)
    if "git" not in different and mapping(run.manifest.get("git")).get("changed"):
        yield "git: the script had changes that were in no commit"
    settings = mapping(run.manifest.get("settings"))
    device = settings.get("device")
    may_be_gpu = bool(settings.get("gpu_ids")) or device not in (None, "cpu")
    if may_be_gpu and not settings.get("deterministic"):
        told = f"device={device!r}" if device else f"gpu_ids={settings.get('gpu_ids')}"
        yield f"{told} without deterministic=True: kernels of a GPU may add in another order each time"
    if mapping(run.manifest.get("fingerprint")).get("data") is None:
        yield "data: their content was not recorded, so nobody can tell them from others"
    if missing := mapping(run.manifest.get("code")).get("missing"):
        yield f"code: that of {', '.join(map(str, missing))} cannot be had, so it is not compared"
    if any(event["event"] == "other_threads" for event in run.events):
        yield "num_threads: some folds computed with another number than the others"


def _needs(run: StoredRun) -> Iterator[str]:
    """What else is good to know before."""
    try:
        _, plan = experiment_file.read(plan_of(run), None)
    except (ConfigError, OSError, AttributeError, LookupError, TypeError, ValueError) as error:
        yield f"{FILE_NAME} cannot be read: {error}"
        return
    if not plan.data:
        yield "the run does not say where its data come from: name that by --data module:function"
    if not any(read_hashes(folder)[0] for folder in run.fold_folders.values()):
        yield "it recorded no hashes of its weights, so only its numbers are compared"
