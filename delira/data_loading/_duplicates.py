"""Identical samples, found by a digest of what was decoded."""

from collections.abc import Sequence
from typing import Any

from delira.data_loading._content import fingerprint_of
from delira.data_loading._items import with_progress
from delira.utils.seeding import derive, seed_globals, seeded_globals


def identical_samples(dataset: Any, keys: Sequence[str]) -> list[tuple[int, ...]]:
    """Find samples that are equal to the last bit.

    Every sample is read once; one is in memory at a time.

    Parameters
    ----------
    dataset : AbstractDataset
        What to look through. Global random generators are left as they were.
    keys
        Entries to compare: their dtype, shape and values (sha256).

    Returns
    -------
    list of tuple of int
        Sets of two and more indices in rising order; the sets by their first index. A sample that cannot be
        read or lacks an entry is in none: whoever trains with it is told.
    """
    places: dict[str, list[int]] = {}
    sequence, is_deterministic = derive(0, stream="duplicates"), dataset.is_deterministic()
    with seeded_globals(sequence):
        for index in with_progress(list(range(len(dataset)))):
            if not is_deterministic:  # what is drawn while reading must not make copies differ
                seed_globals(sequence)
            try:
                sample = dataset[index]
                digest = fingerprint_of([sample[key] for key in keys])
            except Exception:
                continue
            places.setdefault(digest, []).append(index)
    return [tuple(indices) for indices in places.values() if len(indices) > 1]
