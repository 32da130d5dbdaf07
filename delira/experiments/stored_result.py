"""The result of a run, read back from its folder."""

import contextlib
import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.contract.kinds import Tree
from delira.errors import CheckpointError, ConfigError, UnreadableError, check_known
from delira.experiments.parameters import Parameters
from delira.experiments.splits import tell_missing
from delira.metrics.metric_set import in_form
from delira.metrics.tree.criteria import Criterion
from delira.runs import results
from delira.runs.inner_searches import facts_of_searches
from delira.runs.stored_run import FINISHED, UNKNOWN, StoredRun, read_history, read_run
from delira.training.outputs import read_outputs
from delira.utils import references, yaml_codec
from delira.utils.files import harmless, mapping, read_patiently, refuse_link
from delira.utils.yaml_codec import write_yaml

#: entries of the manifest that a report says in other words
_NOT_SHOWN = (
    "format", "number", "states", "settings", "model_params", "fingerprint", "splits", "num_splits", "n_samples",
    "kind", "batches", "options", "checksums", "checksum", "search", "directions", "seen_cases",
)  # fmt: skip
_LONGEST_PARAMETERS = 1 << 20  # bytes: reading YAML takes seconds for each million
_SECRET = re.compile(r"(?:^|_)(?:password|passwd|secret|api_?key|(?:auth|access)_token)$", re.IGNORECASE)
#: what is said of a file whose checksum is another one
CHANGED = "is not the file that was written when the run began: its checksum is not the one in manifest.json"


#: who reads runs of other kinds than folds
_READERS = {
    "learning_curve": "a learning curve, which LearningCurve.load reads",
    "tune": "a search, which SearchResult.load reads",
}


def read_result(
    path: str | Path, metrics: Mapping[str, Any] | None = None, *, is_curve: bool = False
) -> dict[str, Any]:
    """Read the fields of a run's ``KFoldResult``; see :meth:`KFoldResult.load`.

    Parameters
    ----------
    path, metrics
        As there.
    is_curve
        Whether it is to be a learning curve, whose folds of all sizes are read together.

    Raises
    ------
    ConfigError
        If there is no run, it is of another kind, or ``metrics`` names one that it does not have.
    """
    run = read_run(path)
    if is_curve != (run.kind == "learning_curve") or run.kind == "tune":
        kind = _READERS.get(run.kind, "no learning curve; KFoldResult.load reads cross-validations and trainings")
        raise ConfigError(f"{run.path} is {kind}")
    problems = [*run.problems]
    facts = harmless(_facts(run))
    folds, unfinished = _read_folds(run, _read_parameters(run, problems), problems)
    _make_alike(folds, problems)
    problems = [*_progress(run, len(folds)), *run.caveats, *problems]
    known = {name: function for name, entry in facts["metrics"].items() if (function := _as_metric(name, entry))}
    if metrics:
        names = {*known, *facts["metrics"], *(folds[0].metrics if folds else ())}
        check_known(metrics, names or metrics.keys(), "the run has no metric")
        known |= metrics
    keys = {name: keys for name, keys in (facts["metric_keys"] or {}).items() if name in known}
    tested = [int(fold.test_indices.max()) + 1 for fold in folds if len(fold.test_indices)]
    n_samples = max([facts["n_samples"] or 0, *tested])
    groups, without_intervals = _find_groups(run, folds, n_samples, problems)
    return {
        "folds": folds,
        "n_samples": n_samples,
        "metrics": known,
        "metric_keys": keys,
        "groups": groups,
        "case_names": _names_of(facts["case_names"], n_samples),
        "seed": facts["seed"],
        "name": harmless(run.name),
        "path": run.path,
        "info": facts["info"] | ({"num_splits": run.n_folds} if run.n_folds and run.kind != "run" else {}),
        "unfinished": unfinished,
        "problems": harmless(problems),
        "kind": "kfold" if is_curve else run.kind,
        "without_intervals": without_intervals,
        "outputs": read_outputs(facts["outputs"]),
        "stated_metrics": facts["metrics"],
    }


def _facts(run: StoredRun) -> dict[str, Any]:
    """Return what the file of the result says; of an older run, and of a single training, what the manifest says."""
    manifest = run.manifest
    given = mapping(mapping(manifest.get("options")).get("metrics"))
    found: dict[str, Any] = {
        "n_samples": manifest.get("n_samples"),
        "seed": manifest.get("seed"),
        "metrics": {name: {"metric": metric} for name, metric in given.items()},
        "metric_keys": None,
        "groups": None,
        "case_names": None,
        "info": describe(manifest),
        "outputs": None,
    }
    found |= {name: run.summary.get(name) for name in found} if run.summary else {}
    # an older file of the result does not say by what the cases were grouped
    found["info"] = {**mapping(found["info"]), **_grouped_by(manifest), **facts_of_searches(manifest, run.events)}
    return found


def _grouped_by(manifest: Mapping[str, Any]) -> dict[str, str]:
    """``groups_key``: the entry of the samples that groups are named by; empty if there are none."""
    key = mapping(manifest.get("options")).get("groups_key")
    return {"groups_key": str(key)} if key else {}


def _names_of(given: Any, n_samples: int) -> list[str] | None:
    """Names of the cases, unless a file has something else in their place."""
    is_right = isinstance(given, list) and len(given) == n_samples and all(isinstance(name, str) for name in given)
    return given if is_right else None


def _find_groups(
    run: StoredRun, folds: Sequence[results.FoldResult], n_samples: int, problems: list[str]
) -> tuple[Any, str]:
    """The group of each sample; if nobody knows it, why there are no intervals: those of cases would be too narrow."""
    groups, options = run.summary.get("groups"), run.manifest.get("options")
    key = _grouped_by(run.manifest).get("groups_key")
    if groups is None and key:
        groups = _groups_of_targets(folds, n_samples, key)
    is_lost = groups is None and (bool(key) or not (run.summary or isinstance(options, Mapping)))
    if trouble := run.summary_trouble or (f"{run.path / results.SUMMARY} is missing" if run.lacks_summary else ""):
        problems.append(f"{trouble}; {'groups and ' if is_lost else ''}warnings of the run are not known")
    if not is_lost or run.kind == "run":
        return groups, ""
    note = f"the groups {key!r}, by which the cases were split, are lost"
    note = note if key else "it is not known whether the cases were split by groups"
    if folds:
        problems.append(f"there are no intervals: {note}, and intervals over single cases may be far too narrow")
    return None, note


def _groups_of_targets(folds: Sequence[results.FoldResult], n_samples: int, key: str) -> np.ndarray | None:
    """Groups by sample where a metric read them, so that each fold has kept those of its cases."""
    found = [np.asarray(fold.targets.get(key)) for fold in folds]
    shapes = [fold.test_indices.shape for fold in folds]
    if not folds or [each.shape for each in found] != shapes or any(each.dtype.hasobject for each in found):
        return None
    groups = np.full(n_samples, -1)
    tested = np.concatenate([fold.test_indices for fold in folds])
    groups[tested] = np.unique(np.concatenate(found), return_inverse=True)[1]
    return groups


def describe(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says of a run by its manifest: the settings as they are written in YAML."""
    info = {name: value for name, value in manifest.items() if name not in _NOT_SHOWN}
    if isinstance(command := info.get("command"), list):
        info["command"] = " ".join(map(str, command))
    method = "tune" if mapping(manifest.get("fingerprint")).get("kind") == "tune" else "kfold"
    parts = {"model": "model_params", "training": "settings", "data": "batches", method: "options"}
    settings = {part: stated(manifest[name]) for part, name in parts.items() if isinstance(manifest.get(name), dict)}
    shown = {"settings": write_yaml(without_secrets(settings)).rstrip()} if settings else {}
    return {**info, **_grouped_by(manifest), **shown}


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that say something; 0 does."""
    said = {name: value for name, value in options.items() if value is not None and value is not False}
    return {name: value for name, value in said.items() if value or not isinstance(value, Mapping)}


def without_secrets(settings: object, called: object = "") -> Any:
    """Settings without texts that are called passwords or keys: a report is handed on."""
    if isinstance(settings, Mapping):
        return {name: without_secrets(value, name) for name, value in settings.items()}
    is_secret = isinstance(settings, str) and settings and _SECRET.search(str(called))
    return "(not shown)" if is_secret else settings


def _read_parameters(run: StoredRun, problems: list[str]) -> Parameters | None:
    path = run.path / "parameters.yml"
    if not path.exists():
        return None
    try:
        parameters = load_parameters(path)
        if run.is_changed(path.name):
            problems.append(f"{path} {CHANGED}")
        return parameters
    except (ConfigError, OSError) as error:
        problems.append(f"the parameters cannot be read: {error}")
        return None


def load_parameters(path: Path) -> Parameters:
    """Return the parameters of a stored run.

    Raises
    ------
    ConfigError, OSError
        If they cannot be read, are larger than those of any run, or a link to somewhere else.
    """
    refuse_link(path)
    if path.stat().st_size > _LONGEST_PARAMETERS:
        raise OSError(f"{path} has {path.stat().st_size:,} bytes; {_LONGEST_PARAMETERS:,} are read")

    def load() -> Parameters:
        try:
            return Parameters.load(path)
        except MemoryError:  # a short file may ask for large arrays
            raise ConfigError(f"{path} asks for more memory than there is") from None

    return read_patiently(path, load)


def _read_folds(
    run: StoredRun, parameters: object, problems: list[str]
) -> tuple[list[results.FoldResult], list[results.FoldResult]]:
    """Finished folds, and those that are not or cannot be read, with their histories."""
    folds: list[results.FoldResult] = []
    unfinished: list[results.FoldResult] = []
    is_single = run.kind == "run"
    for number in run.finished_folds:
        if number not in run.fold_folders:
            place = run.path / f"fold_{number:02d}"
            problems.append(f"{place} is missing, though the ledger says that fold {number} has finished")
    for number, folder in run.fold_folders.items():
        history, lost = harmless(read_history(folder))
        stored = None if is_single else _read_stored(run, number, problems)
        was_read = stored is not None
        if stored is None:
            problems += [lost] if lost else []
            stored = {
                "fold": number,
                "train_indices": np.empty(0, dtype=np.int64),
                "val_indices": None,
                "test_indices": np.empty(0, dtype=np.int64),
                "history": history,
                "best_epoch": run.best_epoch(history),
                "score_key": run.score_key or None,
                "weights_epoch": run.weights_epoch(number),
            }
        elif stored["best_epoch"] is not None:
            stored = {"score_key": run.score_key or None, **stored}
        fold = results.FoldResult(**stored, path=folder, parameters=parameters, **_read_notes(folder, problems))
        if was_read and fold.timings is None and "checksums" in run.manifest:  # a run of before had none
            how = "cannot be read" if os.path.lexists(folder / results.TIMES_FILE) else "is missing"
            problems.append(f"{folder / results.TIMES_FILE} {how}: where the time of the fold went is not known")
        if fold.guards is None and (told := results.describe_lost_guards(folder, run.guarded(number))):
            problems.append(told)  # nobody knows what the guards did, though they did something
        is_done = is_single and run.state == FINISHED
        if is_done:
            fold.seconds = run.seconds if run.seconds is not None else float("nan")
        (folds if was_read or is_done else unfinished).append(fold)
    return folds, unfinished


def _read_notes(folder: Path, problems: list[str]) -> dict[str, Any]:
    """Return what files beside that of a fold say, which it can do without."""
    found: dict[str, Any] = {"timings": None, "guards": None}
    for name, read in (("timings", results.read_timings), ("guards", results.read_guards)):
        try:
            found[name] = harmless(read(folder))
        except UnreadableError as error:
            problems.append(f"the {name} of {folder.name} are not shown: {error}")
    return found


def _read_stored(run: StoredRun, number: int, problems: list[str]) -> dict[str, Any] | None:
    """Fields of a finished fold; ``None`` if there is none that can be read."""
    folder = run.fold_folders[number]
    path = folder / results.RESULT_FILE
    if not path.exists():
        if number in run.finished_folds:
            problems.append(f"{path} is missing, though the ledger says that fold {number} has finished")
        return None
    try:
        stored = results.read_fold(folder)
    except (CheckpointError, OSError) as error:
        problems.append(f"fold {number} is left out: {error}")
        return None
    if stored.outputs is None:
        problems.append(f"{path} holds no predictions: they were too large, or no arrays")
    if others := _other_metrics(run, stored):
        problems.append(f"fold {number} was tested by other functions of the names {others} than the run asks for now")
    return harmless({**stored.fields, **(stored.outputs or {})})


def _other_metrics(run: StoredRun, stored: results.StoredFold) -> list[str]:
    """Names of metrics that were other functions when a fold was tested; a run is read while they are computed anew."""
    asked = mapping(mapping(stored.asked["metrics"]).get("metrics"))
    now = {name: mapping(entry).get("metric") for name, entry in mapping(run.summary.get("metrics")).items()}
    return harmless(sorted(name for name in asked if name in now and asked[name] != now[name]))


def _make_alike(folds: Sequence[results.FoldResult], problems: list[str]) -> None:
    """Keep what all folds have: a run that was continued may have been asked for other metrics."""
    for part in ("metrics", "predictions", "targets"):
        trees = [getattr(fold, part) for fold in folds]
        common = [name for name in (trees[0] if trees else ()) if all(name in tree for tree in trees)]
        if lost := {name for tree in trees for name in tree} - {*common}:
            problems.append(f"not every fold has the {part} {sorted(lost)}, which are left out")
        for fold, tree in zip(folds, trees, strict=True):
            setattr(fold, part, type(tree)({name: tree[name] for name in common}))


def _progress(run: StoredRun, n_read: int) -> list[str]:
    """Return how far the run came, unless it is complete."""
    state, n_folds = run.state, run.n_folds
    if state == FINISHED and n_read == n_folds:
        return []
    if state == FINISHED and n_folds and n_read + len(run.missing_folds) == n_folds:
        return [tell_missing(run.missing_folds, n_folds, run.path)]
    known = f"{n_read} of {n_folds} folds can be shown"
    unknown = f"{n_read} {'fold' if n_read == 1 else 'folds'} can be shown; how many there were to be is not known"
    what = "one training" if run.kind == "run" else known if n_folds else unknown
    if state == FINISHED:
        return [f"The run has finished: {what}."]
    cure = f" Go on with resume={str(run.path)!r}." if run.can_go_on and not run.owner else ""
    if state == UNKNOWN:
        why = "its ledger.jsonl cannot be read" if run.has_ledger else "it has no ledger.jsonl"
        return [f"Nothing says whether the run has ended, as {why}: {what}.{cure}"]
    how = f", by {run.owner}" if run.owner else f": {run.error}" if run.error else ""
    return [f"The run is {state.replace('failed', 'broken off by an error')}{how}; {what}.{cure}"]


# ------------------------------------------------------------------ names of metrics


@functools.cache
def _known_metrics() -> dict[str, Any]:
    """``module:name``, as files know it, of all that a file may name: delira's own metrics."""
    import delira.metrics

    public = [getattr(delira.metrics, name) for name in delira.metrics.__all__ if name != "TimerMetric"]
    return {name: value for value in public if (name := references.name_of(value))}


def _as_metric(name: str, entry: Tree) -> Any:
    """Return the metric that was written, in form; ``None`` if it is none of delira's and scikit-learn's own."""
    try:
        metric, criterion = known_metric(entry["metric"]), entry.get("criterion")
        return None if metric is None else in_form(metric, name, Criterion(*criterion) if criterion else None)
    except Exception:  # noqa: S112, RUF100 - what a file says may be anything; the metric is then shown as unknown
        return None


def known_metric(plain: object) -> Any:
    """Return what a name stands for, by a fixed table: nothing else that a file names is found, imported or called."""
    if isinstance(plain, str):
        from delira.metrics import known_keys

        return plain if plain in known_keys() else None
    if not isinstance(plain, Mapping):
        return None
    tag = next((tag for tag in ("$object", "$call", "$partial") if tag in plain), None)
    found = None if tag is None else _find(str(plain[tag]))
    if found is None or tag == "$object":
        return found
    args, arguments = plain.get("args") or [], plain.get("arguments") or {}
    if not _is_plain([args, arguments]):
        return None
    args, arguments = yaml_codec.decode(args), yaml_codec.decode(arguments)
    if tag == "$partial":
        return functools.partial(found, *args, **arguments)
    return found(**arguments) if isinstance(found, type) else None


def _find(name: str) -> Any:
    module, _, function = name.partition(":")
    if not module.startswith("sklearn.metrics"):
        return _known_metrics().get(name)
    from delira.metrics.of_arrays import KNOWN_FUNCTIONS

    if function not in KNOWN_FUNCTIONS:
        return None
    with contextlib.suppress(ModuleNotFoundError):
        import sklearn.metrics

        return getattr(sklearn.metrics, function, None)
    return None


def _is_plain(value: object) -> bool:
    """Return True if arguments are values, and name nothing that would have to be found or made."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        tags = {key for key in value if str(key).startswith("$")}
        return tags <= {"$tuple", "$float"} and all(map(_is_plain, value.values()))
    return True
