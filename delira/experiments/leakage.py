"""What is looked for before the first fold: what trainings would tell about test samples, and odd validation parts."""

import contextlib
import re
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.data_loading._describe import identical_samples
from delira.data_loading._exact import exact_array
from delira.data_loading.abstract_dataset import AbstractDataset, reads_cheaply
from delira.data_loading.data_manager import BaseDataManager
from delira.data_loading.dataset import Subset, given_labels, read_labels
from delira.errors import ConfigError, MissingKeyError, WorkerError, did_you_mean, listed
from delira.utils import arrays, seeding

if TYPE_CHECKING:
    from delira.experiments.splits import Split, SplitConfig, Splitter

#: who or what several samples may come from; the first one found is the one to group by
_IDENTITIES = (
    "patient", "subject", "participant", "person", "individual", "volunteer", "donor", "pid", "mrn", "subj", "pat",
    "pt", "sub", "user", "speaker", "animal", "mouse", "rat", "case", "study", "series", "site", "hospital", "clinic",
    "institution", "centre", "center",
)  # fmt: skip
#: those that mean something else unless they are called an id; a series number counts within one study only
_ONLY_AS_ID = ("pat", "pt", "sub", "series")
#: those that, alone and with two values, say that there is one: case or control, person or nobody
_FLAGS = ("case", "person")
_SUFFIXES = ("id", "uid", "instanceuid", "nr", "no", "num", "number", "index", "idx", "name", "key", "code", "hash")
_IDENTITY = re.compile(
    rf"(?:id[\W_]+)?(?P<word>{'|'.join(word for word in _IDENTITIES if word not in _ONLY_AS_ID)})"
    rf"s?[\W_]*(?:{'|'.join(_SUFFIXES)})?s?|(?P<short>{'|'.join(_ONLY_AS_ID)})[\W_]*(?:instance)?u?ids?",
    re.IGNORECASE,
)

# Values that are not at hand are read only of small data, and not for long: a warning is not worth more.
_MAX_SAMPLES = 5_000
_MAX_BYTES = 2**26
_MAX_SECONDS = 1.0
_LISTED = 10

#: how many times larger or smaller than asked for a validation part may be before that is told
_FACTOR = 1.5
_MAX_CLASSES = 100
_LISTED_FOLDS = 5


def codes_of(values: object) -> np.ndarray:
    """Number equal values alike: int64 of shape ``(n,)`` for values of shape ``(n, ...)``."""
    values = np.asarray(values)
    rows = values.reshape(len(values), -1)
    if rows.dtype.hasobject:  # None and names have no order
        rows = np.array([str(row) for row in rows.tolist()])[:, None]
    return np.unique(rows, axis=0 if rows.shape[1] != 1 else None, return_inverse=True)[1].reshape(-1)


def on_two_sides(codes: np.ndarray, split: "Split") -> np.ndarray:
    """Return those of ``codes``, one for each sample, that more than one part of a fold has."""
    sides = [np.unique(codes[part]) for _, part in _parts(split)]
    found, counts = np.unique(np.concatenate(sides), return_counts=True)
    return found[counts > 1]


def refuse_shared(what: str, values: np.ndarray, split: "Split", fold: int, cure: str) -> None:
    """Refuse a fold that has a value on two sides.

    Parameters
    ----------
    what
        What the values are called, e.g. ``"the patient"``.
    values : ndarray of shape (n,)
        That of each sample.
    split, fold
        The parts of the fold, and its number.
    cure
        What to do about it.

    Raises
    ------
    ConfigError
        Naming the first such value and its sides.
    """
    codes = codes_of(values)
    if (shared := on_two_sides(codes, split)).size:
        value = values.tolist()[int(np.argmax(codes == shared[0]))]
        sides = " and ".join(f"the {name}" for name, part in _parts(split) if shared[0] in codes[part])
        raise ConfigError(f"{what} {value!r} is in {sides} part of fold {fold}; {cure}")


def find_leaks(
    data: BaseDataManager,
    config: "SplitConfig",
    splits: Sequence["Split"],
    key_mapping: Mapping[str, str] | None,
    *,
    stacklevel: int = 2,
) -> dict[str, Any]:
    """Warn of identities that were not grouped by and, if that was asked for, of identical samples.

    Parameters
    ----------
    data
        What is divided. If it has workers, samples are read by them, and only one batch: reading some may take
        long, or end a process.
    config, splits
        How, and the parts of all folds.
    key_mapping
        Argument of the network -> entry it reads; ``None`` if the user did not say.
    stacklevel
        Of the warnings: that of who called the experiment.

    Returns
    -------
    dict
        For the report: ``"warnings"`` (list of str) if there are any, ``"duplicates"`` (list of lists of
        indices) if identical samples are on two sides.
    """
    found: dict[str, Any] = {}
    dataset, sample = data.dataset, _first(data)
    texts = [_warning_of_identities(data, sample, config, splits)] if config.groups_key is None else []
    if config.check_duplicates:
        keys = _input_keys(sample, config.label_key, key_mapping)
        if duplicates := _duplicates(dataset, keys, splits):
            found["duplicates"] = duplicates
            texts.append(_warning_of_duplicates(duplicates, keys))
    if told := [text for text in texts if text]:
        found["warnings"] = told
    for text in told:
        warnings.warn(text, UserWarning, stacklevel=stacklevel)
    return found


def check_label_key(data: BaseDataManager, key: str) -> None:
    """Refuse a ``label_key`` that no sample has, before a fold is trained; ``"label"``, the default, may be absent.

    Raises
    ------
    MissingKeyError
        If the first sample has no such entry, and no labels of this name were given.
    """
    if key == "label" or key in _given_names(data.dataset):
        return
    sample = _first(data)
    if sample and key not in sample and key.split(".", 1)[0] not in sample:
        known = [*map(str, (*sample, *_given_names(data.dataset)))]
        raise MissingKeyError(
            f"label_key={key!r} names no entry of the samples, which have {sorted(known)}{did_you_mean(key, known)}"
        )


def identity_keys(keys: Iterable[Any]) -> list[str]:
    """Those that look like the name of an identity (``"patient"``, ``"SubjectID"``); the best to group by first."""
    matches = [(key, _IDENTITY.fullmatch(key)) for key in keys if isinstance(key, str)]
    ranks = {key: _IDENTITIES.index((match["word"] or match["short"]).lower()) for key, match in matches if match}
    return sorted(ranks, key=ranks.__getitem__)


def _parts(split: "Split") -> list[tuple[str, np.ndarray]]:
    validation = [] if split.val is None else [("validation", split.val)]
    return [("training", split.train), *validation, ("test", split.test)]


def _first(data: BaseDataManager) -> Mapping[str, Any]:
    """Return the first sample; empty if it cannot be read: the training will read it too, and say what is wrong."""
    try:
        if not data.n_process_augmentation:
            with seeding.seeded_globals(seeding.derive(0, stream="leakage")):
                sample = data.dataset[0]
            return sample if isinstance(sample, Mapping) else {}
        batch = data.first_batch(seed=0) or {}
        return {key: arrays.map_leaves(lambda values: values[0], value) for key, value in batch.items()}
    except WorkerError:
        raise
    except Exception:
        return {}
    finally:
        data.close()


def _warning_of_identities(
    data: BaseDataManager, sample: Mapping[str, Any], config: "SplitConfig", splits: Sequence["Split"]
) -> str | None:
    keys = [key for key in _identities(sample, _given_names(data.dataset)) if key != config.label_key]
    known = {}
    for key, values in _values(data, keys, sample).items():
        if values is None:
            known[key] = f"{key!r} (its values were not looked at, since that would load every sample)"
            continue
        codes = codes_of(values)
        if key.lower() in _FLAGS and codes.max() <= 1:
            continue
        if shared := _on_two_sides_somewhere(codes, splits):
            known[key] = f"{key!r} ({len(shared)} of its {codes.max() + 1} values are on two sides of a fold)"
    nested = {
        key: f"{key!r} inside of {outer!r} (its values were not looked at)"
        for outer, value in sample.items()
        if isinstance(value, Mapping)
        for key in _identities(value)
        if key not in (*keys, config.label_key)
    }
    if not (known or nested):
        return None
    best = next(iter(known or nested))
    way = "Pass" if known else f"groups_key cannot name a nested entry: put {best!r} at the top level and pass"
    return (
        f"samples carry {' and '.join([*known.values(), *nested.values()])}, but no groups were given: networks are "
        f"selected and tested on what they know from their training, and scores are too good. {way} "
        f"groups_key={best!r} to keep each {best} on one side, or groups_key='' if the samples are independent"
    )


def _identities(sample: Mapping[str, Any], names: Iterable[str] = ()) -> list[str]:
    """Entries of the sample, and further ``names``, that look like an identity and have one value."""
    return [key for key in identity_keys([*sample, *names]) if getattr(sample.get(key), "size", 1) == 1]


def _given_names(dataset: AbstractDataset) -> list[str]:
    """Entries that samples need not have: those of ``set_labels``."""
    names = [*given_labels(dataset)]
    return names + _given_names(dataset.parent) if isinstance(dataset, Subset) else names


def _values(data: BaseDataManager, keys: Sequence[str], sample: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
    """Entries of all samples, in the order of ``keys``: ``None`` if that costs too much, left out if it fails."""
    values: dict[str, np.ndarray | None] = {}
    dataset, costly = data.dataset, []
    for key in keys:
        with contextlib.suppress(Exception):  # a warning must not end what the training may survive
            if reads_cheaply(dataset, key):
                values[key] = read_labels(dataset, key).reshape(len(dataset))
            else:
                costly.append(key)
    if costly:
        with contextlib.suppress(Exception):
            values |= dict.fromkeys(costly) if data.n_process_augmentation else _read(dataset, costly, sample)
    return {key: values[key] for key in keys if key in values}


def _read(dataset: AbstractDataset, keys: Sequence[str], sample: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
    """Like ``_values``, by going once through the samples, of which the given one is the first."""
    n_bytes = len(dataset) * sum(np.asarray(value).nbytes for value in sample.values())
    if len(dataset) > _MAX_SAMPLES or n_bytes > _MAX_BYTES:
        return dict.fromkeys(keys)
    end, samples = time.monotonic() + _MAX_SECONDS, []
    with seeding.seeded_globals(seeding.derive(0, stream="leakage")):
        for index in range(len(dataset)):
            if time.monotonic() > end:
                return dict.fromkeys(keys)
            read = dataset[index]
            samples.append({key: read[key] for key in keys if key in read})
    values: dict[str, np.ndarray | None] = {}
    for key in keys:
        with contextlib.suppress(Exception):  # not in each sample, or not one value
            values[key] = exact_array([np.asarray(read[key]).item() for read in samples], key)
    return values


def _input_keys(sample: Mapping[str, Any], label_key: str, key_mapping: Mapping[str, str] | None) -> list[str]:
    """Entries that the network reads, as far as that can be told."""
    read = [*key_mapping.values()] if isinstance(key_mapping, Mapping) else ["data"]
    if named := [key for key in sample if key in read]:
        return named
    return [key for key in sample if key != label_key] or [*sample]


def _duplicates(dataset: AbstractDataset, keys: Sequence[str], splits: Sequence["Split"]) -> list[list[int]]:
    """Sets of identical samples of which two are on different sides of at least one fold."""
    sets = identical_samples(dataset, keys)
    codes = np.full(len(dataset), -1)
    for number, indices in enumerate(sets):
        codes[[*indices]] = number
    return [[*sets[number]] for number in sorted(_on_two_sides_somewhere(codes, splits) - {-1})]


def _on_two_sides_somewhere(codes: np.ndarray, splits: Sequence["Split"]) -> set[int]:
    return {code for split in splits for code in on_two_sides(codes, split).tolist()}


def _warning_of_duplicates(duplicates: Sequence[Sequence[int]], keys: Sequence[str]) -> str:
    shown = [" = ".join(map(str, each[:_LISTED])) + " = ..." * (len(each) > _LISTED) for each in duplicates]
    return (
        f"check_duplicates: samples that are identical in {', '.join(map(repr, keys))} are on two sides of a fold, so "
        f"scores are too good: {listed(shown, _LISTED, ', and ')}; remove the copies, or give copies a common group "
        "(groups_key). All of them: result.info['duplicates']"
    )


# ------------------------------------------------------------------ inner validation


def caveats_of_validation(dataset: AbstractDataset, splitter: "Splitter", splits: Sequence["Split"]) -> list[str]:
    """Sentences about validation parts of another size than asked for, and such without a class.

    Parameters
    ----------
    dataset, splitter, splits
        What is divided, by what, and into which parts.
    """
    found, config = [], splitter.config
    inner = {number: (split.train, split.val) for number, split in enumerate(splits) if split.val is not None}
    if splitter.groups is not None and config.val_split is not None:
        uneven = [
            f"{number} ({len(val):,} of {len(val) + len(train):,} samples)"
            for number, (train, val) in inner.items()
            if not 1 / _FACTOR <= len(val) / (config.val_split * (len(val) + len(train))) <= _FACTOR
        ]
        if uneven:
            found.append(
                f"val_split={config.val_split} is a share of the groups {config.groups_key!r}, which are few or of "
                f"uneven size: the validation part is another share of the samples in {_folds(uneven)}"
            )
    if lacking := _lacking(_classes_of(dataset, splitter), {number: val for number, (_, val) in inner.items()}):
        found.append(
            f"the validation part lacks a class in {_folds(lacking)}: a score that needs all classes is no number "
            "there, so that no epoch may be the best; use split_type='stratified', or a larger val_split"
        )
    return found


def caveats_of_training(dataset: AbstractDataset, splitter: "Splitter", splits: Sequence["Split"]) -> list[str]:
    """Sentences about training parts without a class, as small ones may be.

    Parameters
    ----------
    dataset, splitter, splits
        As of :func:`caveats_of_validation`.
    """
    lacking = _lacking(_classes_of(dataset, splitter), {number: split.train for number, split in enumerate(splits)})
    if not lacking:
        return []
    return [
        f"the training part lacks a class in {_folds(lacking)}, which no network can learn there; use "
        "split_type='stratified', or more cases"
    ]


def _lacking(classes: np.ndarray | None, parts: Mapping[int, np.ndarray]) -> list[str]:
    """Folds whose part lacks classes, with these."""
    if classes is None:
        return []
    names = np.unique(classes)
    missing = {number: np.setdiff1d(names, classes[part]).tolist() for number, part in parts.items()}
    return [
        f"{number} ({'class' if len(lost) == 1 else 'classes'} {listed(lost, _LISTED_FOLDS)})"
        for number, lost in missing.items()
        if lost
    ]


def _folds(texts: Sequence[str]) -> str:
    return f"{'fold' if len(texts) == 1 else 'folds'} {listed(texts, _LISTED_FOLDS)}"


def _classes_of(dataset: AbstractDataset, splitter: "Splitter") -> np.ndarray | None:
    """One class for each sample, if that is known without loading them; ``None`` of a regression."""
    if splitter.classes is not None:
        return splitter.classes
    key, labels = splitter.config.label_key, None
    with contextlib.suppress(Exception):  # a caveat must not end what the training may survive
        if reads_cheaply(dataset, key):
            labels = np.asarray(read_labels(dataset, key))
    if labels is None or labels.dtype.kind not in "biuUS" or labels.size != len(dataset):
        return None
    labels = labels.reshape(-1)
    return labels if 1 < len(np.unique(labels)) <= min(_MAX_CLASSES, len(labels) // 2) else None
