"""The results of a run: what a fold gives back, the files in which runs keep them, and what else a fold records."""

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import delira
from delira.errors import CheckpointError, ConfigError, UnreadableError, check_whole, expect, flag, listed
from delira.io.container import read_tree, write_tree
from delira.metrics.per_class import means_of
from delira.runs import kept
from delira.runs.code_of import describe_metrics
from delira.utils.files import (
    MOST_OF_MANY,
    mapping,
    publish,
    publish_text,
    read_bytes,
    read_json,
    refuse_link,
    sealed,
    unsealed,
)

_log = logging.getLogger("delira")

#: file of the transformers that were fitted on the training part of a fold
PREPROCESSING = "preprocessing.zip"


def check_dictionaries(owner: object, **given: object) -> None:
    """Refuse arguments that are no dictionaries.

    Parameters
    ----------
    owner
        The object that they are for: how the message begins.
    **given
        The arguments by name.
    """
    for name, value in given.items():
        if not isinstance(value, Mapping):
            raise ConfigError(f"{type(owner).__name__}: {name} is a dictionary, got {value!r:.80}")


def _indices(name: str, given: object) -> np.ndarray:
    """Indices of samples as int64; fractions, negative ones and texts are none."""
    found = np.asarray(given)
    is_right = found.ndim == 1 and (found.dtype.kind in "iu" or not found.size)
    if not is_right or isinstance(given, (str, Mapping)) or (found.size and found.min() < 0):
        raise ConfigError(f"FoldResult: {name} are indices of the data set, whole numbers from 0, got {given!r:.80}")
    return found.astype(np.int64)


def _values(name: object, given: object) -> np.ndarray:
    found = np.atleast_1d(np.asarray(given))
    if not isinstance(name, str) or found.dtype.kind not in "biufc":
        raise ConfigError(
            f"FoldResult: metrics are numbers, or arrays of them, by name, got {given!r:.80} for {name!r}"
        )
    return found


def _check_readings(given: object) -> None:
    facts = [*map(mapping, given.values())] if isinstance(given, Mapping) else [{}]
    are_right = all(isinstance(each.get("output"), str) and isinstance(each.get("since"), int) for each in facts)
    if not are_right or not all(isinstance(name, str) for name in mapping(given)):
        raise ConfigError(
            "FoldResult: output_readings say of each output by name how it was read, as "
            f'{{"pred": {{"output": "logits", "since": 1}}}}, got {given!r:.80}'
        )


@dataclass(eq=False, repr=False)
class FoldResult:
    """One fold: what was trained on, what came out, and how it got there."""

    fold: int
    train_indices: np.ndarray
    """Of the data set; int64 of shape ``(n_train,)``, like the two that follow."""
    val_indices: np.ndarray | None
    test_indices: np.ndarray
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    """On the test part: float64 of shape ``(1,)``, or ``(n_test,)`` for a metric over samples."""
    predictions: dict[str, Any] = field(default_factory=dict)
    """Tree of arrays of shape ``(n_test, ...)``, in the order of ``test_indices``."""
    targets: dict[str, Any] = field(default_factory=dict)
    """Entries of the batch that the metrics read, in the same order."""
    history: list[dict[str, float]] = field(default_factory=list)
    """One entry per epoch: ``{"epoch": 1, "ce": 0.7, "val_accuracy": 0.8, ...}``."""
    best_epoch: int | None = None
    best_score: float | None = None
    score_key: str | None = None
    """Key of the history that chose the best epoch; None: nothing did, or it is not known."""
    weights_epoch: int | None = None
    """Epoch whose weights were tested: the best one, the last without a score, or where the checkpoint of the best was
    gone; None: not known."""
    raw_statistics: Sequence[str] = ()
    """Names of the running statistics of normalisation layers that are of the trained weights, while what was tested
    are their averages (``update_statistics`` of the callback that averages); empty: none."""
    output_readings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How the training read outputs of which nobody says what they are: name of the output -> ``{"output": "logits" or
    "probabilities", "since": epoch}``, with ``"is_changed": True`` where it read them otherwise before."""
    path: Path | None = None
    """Folder of the fold."""
    parameters: Any = None
    callbacks: Sequence[Any] = ()
    seconds: float = float("nan")
    """Duration of training and testing, over all sessions."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Samples that could not be loaded and took no part: index in the data set -> reason."""
    timings: Mapping[str, Any] | None = None
    """Where the time went, as ``timings.json`` in the fold's folder has it: ``{"version": 1, "steps": int, "seconds":
    {phase: s}, "note": str}``, over all sessions."""
    partial: Sequence[str] = ()
    """Names of metrics over samples of which a sample may have no value, NaN: such samples do not count in means."""
    guards: Mapping[str, Any] | None = None
    """What was done about numbers that were not finite, as ``guards.json`` in the fold's folder has it: ``{"version":
    1, "left_out": [{"epoch": int, "updates": int, "steps": int}], "rollbacks": [epoch or None]}``; None: nothing."""
    kept_as: str = ""
    """How predictions were kept, e.g. ``"keep_predictions='labels'"``; empty: as the network said them."""
    is_apparent: bool = False
    """Whether it tested what it learned from, as one fold of a bootstrap does: it counts in no mean over folds."""

    def __post_init__(self) -> None:
        check_whole(self, at_least=0, fold=self.fold)
        self.train_indices = _indices("train_indices", self.train_indices)
        self.test_indices = _indices("test_indices", self.test_indices)
        if self.val_indices is not None:
            self.val_indices = _indices("val_indices", self.val_indices)
        check_dictionaries(self, metrics=self.metrics, predictions=self.predictions, targets=self.targets)
        _check_readings(self.output_readings)
        expect(flag("is_apparent", self.is_apparent))
        if not isinstance(self.history, list):
            raise ConfigError(f"FoldResult: history is a list of one record for each epoch, got {self.history!r}")
        self.metrics = {name: _values(name, value) for name, value in self.metrics.items()}
        if not self.predictions and self.kept_as:
            self.predictions, self.targets = kept.NotKept(), kept.NotKept(self.targets)

    @property
    def preprocessing(self) -> Path | None:
        """File of the transformers that were fitted on the training part, for ``delira.training.load_preprocessing``;
        None if there were none.
        """
        file = None if self.path is None else Path(self.path) / PREPROCESSING
        return file if file is not None and file.is_file() else None

    def load_network(self, objects: Mapping[str, Any] | None = None, **how: Any) -> Any:
        """Return the network of the fold, with the weights that were tested; see :func:`delira.load_network`."""
        if self.path is None:
            raise ConfigError(f"fold {self.fold} has no folder, so its network is not kept")
        return delira.load_network(self.path, objects, **how)

    def means(self) -> dict[str, float]:
        """Each metric as one number: its value, or the mean over the samples that have one."""
        return means_of({"metrics": self.metrics, "partial": self.partial})

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4g}" for name, value in self.means().items())
        n_val = 0 if self.val_indices is None else len(self.val_indices)
        sizes = f"{len(self.train_indices)}/{n_val}/{len(self.test_indices)}"
        return f"FoldResult({self.fold}, train/val/test={sizes}{', ' if values else ''}{values})"


RESULT_FILE = "result.zip"
#: of the file; a later one may mean something else by the same names
RESULT_FORMAT = 1
_FIELDS = (
    "fold", "train_indices", "val_indices", "test_indices", "metrics", "history", "best_epoch", "best_score",
    "score_key", "weights_epoch", "raw_statistics", "output_readings", "seconds", "kept_as",
)  # fmt: skip
#: of some fields, where another kind would be read as something else
_KINDS: dict[str, tuple[type, ...]] = {
    "fold": (int,), "train_indices": (np.ndarray,), "val_indices": (np.ndarray, type(None)),
    "test_indices": (np.ndarray,), "history": (list,), "best_epoch": (int, type(None)),
    "best_score": (int, float, np.number, type(None)), "score_key": (str, type(None)),
    "weights_epoch": (int, type(None)), "seconds": (int, float),
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredFold:
    """What was read of a fold."""

    fields: Mapping[str, Any]
    """Of a :class:`FoldResult`, but its predictions and targets."""
    outputs: Mapping[str, Any] | None
    """``predictions`` and ``targets``; ``None`` if they could not be stored: the fold is to be tested again."""
    callbacks: Mapping[str, Any]
    """States of the callbacks by name."""
    asked: Mapping[str, Any]
    """What the fold was asked for besides the fingerprint of the run, as plain JSON values."""


def write_fold(fold: FoldResult, asked: Mapping[str, Any], states: Mapping[str, Any]) -> Path:
    """Write ``result.zip`` into the folder of a fold, completely or not at all.

    Predictions are in ``predictions.npz`` beside it, each once. They and the targets are left out where they are no
    arrays of numbers, texts and arrays.

    Parameters
    ----------
    fold
        The finished fold.
    asked
        What it was asked for, as plain JSON values.
    states
        States of its callbacks by name.
    """
    if fold.path is None:
        raise CheckpointError(f"fold {fold.fold} has no folder to be stored in")
    fields = {name: getattr(fold, name) for name in _FIELDS} | {"left_out": dict(fold.left_out)}
    fields |= {"partial": list(fold.partial)} if fold.partial else {}
    fields |= {"is_apparent": True} if fold.is_apparent else {}
    outputs = {"predictions": dict(fold.predictions), "targets": dict(fold.targets)}
    known = {name: state for name, state in states.items() if state is None or kept.packed_or_none(state) is not None}
    tree = {
        "format": RESULT_FORMAT,
        "asked": kept.pack(dict(asked)),
        "fields": kept.pack(fields),
        "outputs": kept.packed_or_none(outputs),
        "callbacks": kept.pack(known),
    }
    return publish(fold.path / RESULT_FILE, lambda file: write_tree(file, tree))


def read_fold(folder: Path) -> StoredFold:
    """Read what :func:`write_fold` wrote.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged or of a later version.
    OSError
        If it is a link to somewhere else, or cannot be read now.
    """
    with opened_fold(folder, "fields", "outputs", "callbacks", "asked") as parts:
        if parts["outputs"] is not None:
            parts["outputs"] = _with_predictions(folder / kept.PREDICTIONS, parts["outputs"])
        stored = StoredFold(**parts)
        _check_parts(stored)
        FoldResult(**stored.fields)  # everything is there
    return stored


def _with_predictions(path: Path, outputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return predictions and targets with what is in the file of predictions; None if that is lost."""
    try:
        return {**outputs, "predictions": kept.read_predictions(path, outputs["predictions"])}
    except UnreadableError:
        raise
    except (CheckpointError, OSError) as error:
        _log.warning("the predictions of a fold are lost: %s", error)
        return None


@contextlib.contextmanager
def opened_fold(folder: Path, *parts: str) -> Iterator[dict[str, Any]]:
    """Scope in which parts of the file are used; whatever goes wrong with them there means that it holds no fold."""
    path = folder / RESULT_FILE
    refuse_link(path)
    tree = read_tree(path, only=("format", *parts), is_mapped=True)
    if (found := tree.get("format")) != RESULT_FORMAT:
        raise CheckpointError(f"{path} has the format {found!r}; this version of delira reads {RESULT_FORMAT}")
    try:
        yield {name: kept.unpack(tree[name]) for name in parts}
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold a fold: {error!r}") from error


def _check_parts(stored: StoredFold) -> None:
    """Refuse what has a place in a fold and is something else.

    Raises
    ------
    LookupError, TypeError
        If something is missing, or of another kind.
    """
    fields, outputs = stored.fields, stored.outputs
    named = {"callbacks": stored.callbacks, "asked": stored.asked, "metrics": fields["metrics"]}
    named |= {} if outputs is None else {name: outputs[name] for name in ("predictions", "targets")}
    for name, value in {**named, "left_out": fields.get("left_out", {})}.items():
        if not isinstance(value, Mapping):
            raise TypeError(f"its {name} are a {type(value).__name__}")
        if name != "left_out" and (unnamed := [key for key in value if not isinstance(key, str)]):
            raise TypeError(f"its {name} have the name {unnamed[0]!r}")
    for name, value in fields["metrics"].items():
        if np.asarray(value).dtype.kind not in "biuf":
            raise TypeError(f"its metric {name!r} is no number")
    for name, kinds in _KINDS.items():
        if not isinstance(fields.get(name), kinds):
            raise TypeError(f"its {name} is a {type(fields.get(name)).__name__}")
    _check_history(fields["history"])
    # files of before have neither of the first two
    read = [("raw_statistics", fields), ("partial", fields), ("targets", {"targets": (), **stored.asked})]
    for name, place in read:
        names = place.get(name, ())
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise TypeError(f"its {name} are no names but {names!r:.40}")
    _ = stored.asked["num_epochs"], stored.asked["metrics"], stored.asked["targets"]


def _check_history(history: list[Any]) -> None:
    """Refuse epochs that are none, names that are no texts, and values that are no numbers."""
    for values in history:
        if not isinstance(values, Mapping) or not isinstance(values.get("epoch"), int):
            raise TypeError("its history has an entry that is no epoch")
        for name, value in values.items():
            if not isinstance(name, str):
                raise TypeError(f"its history has the name {name!r}")
            if value is not None and np.asarray(value).dtype.kind not in "biuf":
                raise TypeError(f"its history has the {name!r} {value!r:.40}, which is no number")


def read_means(folder: Path) -> dict[str, float]:
    """Return the metrics of a stored fold, each as one number; its predictions, which may be large, are not read.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged or of a later version.
    OSError
        If it is a link to somewhere else, or cannot be read now.
    """
    with opened_fold(folder, "fields") as parts:
        return means_of(parts["fields"])


SUMMARY = "result.json"
SUMMARY_FORMAT = 1


def write_summary(folder: Path, facts: Mapping[str, Any], metrics: Mapping[str, Any], bound: Mapping[str, Any]) -> Path:
    """Write what the files of the folds and the manifest do not say, before the first fold, unless it is there.

    Parameters
    ----------
    folder
        The run folder.
    facts
        ``name``, ``seed``, ``n_samples``, ``metric_keys``, ``groups``, ``case_names`` and ``info`` of the result.
    metrics
        The test metrics as they were given.
    bound
        The same with what the losses say of the predictions that they read.
    """
    named = {
        name: {**stated, "criterion": getattr(bound[name], "criterion", None)}
        for name, stated in describe_metrics(metrics).items()
    }
    groups = None if facts["groups"] is None else np.asarray(facts["groups"]).tolist()
    content = sealed({"format": SUMMARY_FORMAT, **facts, "groups": groups, "metrics": named}, _as_json)
    text = json.dumps(content, indent=1) + "\n"
    with contextlib.suppress(OSError):
        if read_bytes(folder / SUMMARY, MOST_OF_MANY) == text.encode():
            return folder / SUMMARY
    return publish_text(folder / SUMMARY, text)


def _as_json(value: object) -> Any:
    """Return what JSON has no form for: numbers of numpy as numbers, all else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def read_summary(folder: Path) -> tuple[dict[str, Any], str]:
    """What :func:`write_summary` wrote, empty if that cannot be read; and why it cannot, empty if there is no file.

    Parameters
    ----------
    folder
        The run folder.
    """
    path = folder / SUMMARY
    try:
        written = read_json(path, MOST_OF_MANY)
        if written["format"] != SUMMARY_FORMAT:
            raise ValueError(f"it has the format {written['format']!r}; this version of delira reads {SUMMARY_FORMAT}")
        written = unsealed(written)
        kinds = {"n_samples": int, "seed": int, "metrics": dict, "info": dict}
        if wrong := [name for name, kind in kinds.items() if not isinstance(written[name], kind)]:
            raise TypeError(f"its {wrong[0]!r} is a {type(written[wrong[0]]).__name__}")
        if written["groups"] is not None and len(written["groups"]) != written["n_samples"]:
            raise ValueError("it does not have one group for each sample")
    except FileNotFoundError:
        return {}, ""
    except (OSError, LookupError, TypeError, ValueError) as error:
        return {}, f"{path} cannot be read ({error})"
    return written, ""


GUARDS_FILE = "guards.json"
#: of both files; a later one may mean something else by the same names
VERSION = 1


class GuardLog:
    """Keeps what the guards did, over all sessions of a fold, as far as it is part of the training that is there.

    Parameters
    ----------
    folder
        Folder of the fold, whose ``guards.json`` is continued; None: nothing is written.
    """

    def __init__(self, folder: Path | None):
        self._path = None if folder is None else folder / GUARDS_FILE
        before = (None if folder is None else read_guards(folder)) or {"left_out": [], "rollbacks": []}
        self._left_out: list[dict[str, int]] = before["left_out"]
        self._rollbacks: list[int | None] = before["rollbacks"]

    def go_on(self, epoch: int, rollbacks: int) -> None:
        """Forget what came after the checkpoint that the training goes on from.

        Parameters
        ----------
        epoch
            Epochs that are finished there.
        rollbacks
            How often the run had gone back by then; where a version without this file wrote it, no epoch is known.
        """
        self._become([one for one in self._left_out if one["epoch"] <= epoch], self._first_rollbacks(rollbacks))

    def note_left_out(self, epoch: int, updates: int, steps: int) -> None:
        """An epoch has ended in which so many updates of its steps were left out, or none."""
        kept = [one for one in self._left_out if one["epoch"] < epoch]
        found = [{"epoch": epoch, "updates": updates, "steps": steps}] if updates else []
        self._become([*kept, *found], self._rollbacks)

    def note_rollback(self, epoch: int, number: int) -> None:
        """The run went back from an epoch; how often it has done so by now is ``number``."""
        self._become(self._left_out, [*self._first_rollbacks(number - 1), epoch])

    def to_dict(self) -> dict[str, Any] | None:
        """Return what there is, as ``guards.json`` has it; None if the guards did nothing."""
        if not self._left_out and not self._rollbacks:
            return None
        return {"version": VERSION, "left_out": [dict(one) for one in self._left_out], "rollbacks": [*self._rollbacks]}

    def _first_rollbacks(self, number: int) -> list[int | None]:
        return [*self._rollbacks, *[None] * number][:number]

    def _become(self, left_out: list[dict[str, int]], rollbacks: list[int | None]) -> None:
        if (left_out, rollbacks) == (self._left_out, self._rollbacks):
            return
        self._left_out, self._rollbacks = left_out, rollbacks
        if self._path is None:
            return
        try:
            if (content := self.to_dict()) is None:
                self._path.unlink(missing_ok=True)
            else:
                publish_text(self._path, json.dumps(sealed(content), indent=1))
        except OSError as error:
            _log.warning("what the guards did could not be written, so no report of the run will show it: %s", error)


def read_guards(folder: Path) -> dict[str, Any] | None:
    """Return what the guards did, from the folder of a fold; None if that is nothing, or damaged.

    Parameters
    ----------
    folder
        The folder.

    Raises
    ------
    UnreadableError
        If the system cannot read it now: nobody knows then whether it is lost.
    """
    path = folder / GUARDS_FILE
    try:
        found = unsealed(read_json(path))
        left_out = [{name: int(one[name]) for name in ("epoch", "updates", "steps")} for one in found["left_out"]]
        rollbacks = [None if epoch is None else int(epoch) for epoch in found["rollbacks"]]
    except FileNotFoundError:
        return None
    except UnreadableError:
        raise
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        _log.warning("%s cannot be read, so what the guards did is not known: %r", path, error)
        return None
    return {"version": VERSION, "left_out": left_out, "rollbacks": rollbacks}


def count_guards(found: Mapping[str, Any] | None) -> dict[str, dict[str, int]]:
    """For the ledger, which then knows that there is a file: updates left out and returns, by name; empty if none.

    Parameters
    ----------
    found
        As :meth:`GuardLog.to_dict` gives it.
    """
    if found is None:
        return {}
    updates = sum(one["updates"] for one in found["left_out"])
    return {"guards": {"updates": updates, "rollbacks": len(found["rollbacks"])}}


def describe_lost_guards(path: Path, counted: Mapping[str, Any] | None) -> str:
    """Return what is to be said where nobody knows what the guards did; empty if there is nothing.

    Parameters
    ----------
    path
        Folder of the fold, whose ``guards.json`` was not read.
    counted
        What the ledger counts, as :func:`count_guards` gives it.
    """
    file = path / GUARDS_FILE
    if os.path.lexists(file):
        return f"{file} cannot be read: what the guards did is not known"
    if not counted:
        return ""
    return (
        f"{file} is missing, which says what the guards did and when; by the ledger, updates left out: "
        f"{counted.get('updates')}, returns to a checkpoint: {counted.get('rollbacks')}"
    )


def describe_guards(found: Mapping[str, Any]) -> list[str]:
    """Clauses about what the guards did, as ``"3 updates were left out, …"``.

    Parameters
    ----------
    found
        As :func:`read_guards` gives it.
    """
    clauses = []
    left_out, rollbacks = found["left_out"], found["rollbacks"]
    if n_updates := sum(one["updates"] for one in left_out):
        each = listed([f"{one['updates']} of {one['steps']} in epoch {one['epoch']}" for one in left_out], 5)
        were = "update was left out, since its" if n_updates == 1 else "updates were left out, since their"
        clauses.append(f"{n_updates:,} {were} loss or gradients were not finite: {each}")
    if rollbacks:
        known = [f"from epoch {epoch}" for epoch in rollbacks if epoch is not None]
        times = "once" if len(rollbacks) == 1 else f"{len(rollbacks)} times"
        clauses.append(
            f"the training went back to its last checkpoint {times}, with smaller learning rates, since numbers were "
            f"not finite{f': {listed(known, 5)}' if known else ''}"
        )
    return clauses


TIMES_FILE = "timings.json"


def read_timings(folder: Path) -> dict[str, Any] | None:
    """Return the times in the folder of a fold; None if there are none, or they are damaged.

    Parameters
    ----------
    folder
        The folder.

    Raises
    ------
    UnreadableError
        If the system cannot read them now: nobody knows then whether they are lost.
    """
    try:
        found = read_json(folder / TIMES_FILE)
        if found.get("version", VERSION) != VERSION:
            raise ValueError(f"it has the version {found['version']!r}; this version of delira reads {VERSION}")
        found = unsealed(found)
        seconds = {str(name): float(value) for name, value in found["seconds"].items()}
        return {**found, "steps": int(found["steps"]), "seconds": seconds}
    except FileNotFoundError:
        return None
    except UnreadableError:
        raise
    except (OSError, ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
        _log.warning("%s cannot be read, so the times of the phases in it are lost: %s", folder / TIMES_FILE, error)
        return None
