"""Hashes of the contents of cases, by which those that a training has seen are known again."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira.data_loading.data_manager import BaseDataManager
from delira.utils.arrays import iterate_leaves, map_leaves

#: values that are converted at once, so that a memory-mapped array need not fit into memory
_CHUNK = 2**22
#: bytes of the cases that are read at once, where a dataset gives several as fast as one
_AT_ONCE = 2**24
#: cases that are read twice, to see whether their dataset draws
_AGAIN = 3


def hash_case(sample: Mapping[str, Any], entries: Sequence[str]) -> str | None:
    """Return the sha256 (hex) of some entries of a case; None if it lacks one.

    Numbers are compared as float32, so that the same image as uint8, float32 and float64 has one hash.

    Parameters
    ----------
    sample
        Arrays by name, or trees of them.
    entries
        Names of those that count.
    """
    digest = hashlib.sha256()
    for entry in sorted(entries):
        if entry not in sample:
            return None
        _add(digest, entry, sample[entry])
    return digest.hexdigest()


def _add(digest: Any, name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _add(digest, f"{name}.{key}", value[key])
    else:  # of a list a batch has an array, too
        _add_array(digest, name, np.asarray(value))


def _add_array(digest: Any, name: str, array: np.ndarray) -> None:
    digest.update(f"{name} {array.shape};".encode())
    if array.dtype.kind not in "biuf":  # names and the like
        for value in array.reshape(-1).tolist():
            text = repr(value).encode()
            digest.update(b"%d;%s" % (len(text), text))
        return
    rows = array if array.ndim else array.reshape(1)
    step = max(1, _CHUNK * len(rows) // max(1, rows.size))
    for start in range(0, len(rows), step):
        with np.errstate(over="ignore"):
            part = np.ascontiguousarray(rows[start : start + step], dtype="<f4")
        digest.update((part + np.float32(0)).reshape(-1).view(np.uint8).data)  # minus zero is zero


def names_of_cases(data: BaseDataManager) -> list[str]:
    """What the cases of a manager are called, one for each: their numbers where a class of the user's gives others.

    Parameters
    ----------
    data
        As of :func:`hashes_of`.
    """
    dataset = data.whole_cases().dataset
    names = [*map(str, dataset.case_names)]
    return names if len(names) == len(dataset) else [*map(str, range(len(dataset)))]


def hashes_of(data: BaseDataManager, entries: Sequence[str], epoch: int = 0) -> Iterator[tuple[int, str | None]]:
    """Read each case once, as the dataset gives it before transforms, and yield its number with its hash.

    Cases are read as the manager reads them, by its workers if it has some. Those that cannot be read are left out
    where it leaves them out, else their error arrives.

    Parameters
    ----------
    data
        Of the cases; if these are patches, cases are what they are cut from.
    entries
        As of :func:`hash_case`.
    epoch
        Counter of what a dataset draws while it is read.
    """
    given = data.as_given()
    given.batch_size = _number_at_once(given)
    # that of a class of the user's may give other batches than the dataset, in an order that nobody knows
    batches, place = BaseDataManager.epoch(given, 0, 0, epoch), 0
    try:
        for batch in batches:
            # leaves of dicts have the axis of samples, too
            n_samples = next(len(leaf) for _, leaf in iterate_leaves(batch) if np.ndim(leaf))
            order = batches.loaded_order
            for row in range(n_samples):
                yield int(order[place]), hash_case(_row(batch, entries, row), entries)
                place += 1
    finally:
        batches.close()
        given.close()


def too_far_away(data: BaseDataManager) -> str:
    """Say why the cases are not to be read for their hashes alone: they lie at a URL, and the cache cannot keep them.

    Parameters
    ----------
    data
        As of :func:`hashes_of`.

    Returns
    -------
    str
        Empty where they lie here, or what is fetched for the hashes is there for the training.
    """
    size, cache = data.whole_cases().dataset._elsewhere()
    if size <= cache:
        return ""
    return (
        f"its data lie elsewhere, {size / 1e9:.1f} GB, more than the {cache / 1e9:.1f} GB that their cache may take, "
        "and were not fetched for their hashes alone; a larger cache_size keeps them"
    )


def are_alike_again(data: BaseDataManager, entries: Sequence[str], hashes: Sequence[str]) -> bool:
    """Whether cases have the same contents when they are read again; of a dataset that may draw, a few are.

    Parameters
    ----------
    data, entries
        As of :func:`hashes_of`.
    hashes
        Of all cases; empty for those that were left out.
    """
    given = data.as_given()
    if given.dataset.is_deterministic():
        return True
    numbers = [number for number, one in enumerate(hashes) if one][:_AGAIN]
    again = given.get_subset(numbers)
    again.n_process_augmentation = 0  # to start workers would take longer
    return all(one == hashes[numbers[place]] for place, one in hashes_of(again, entries, epoch=1))


def _row(batch: Mapping[str, Any], entries: Sequence[str], row: int) -> dict[str, Any]:
    return {entry: map_leaves(lambda leaf: leaf[row], batch[entry]) for entry in entries if entry in batch}


def _number_at_once(given: BaseDataManager) -> int:
    """How many cases are read at once: more than one only of arrays in memory, which are small and of one shape."""
    batch = given.dataset.get_batch(np.zeros(1, dtype=np.int64))
    if batch is None:
        return 1
    n_bytes = sum(np.asarray(leaf).nbytes for _, leaf in iterate_leaves(batch))
    return max(1, min(256, _AT_ONCE // max(1, n_bytes)))
