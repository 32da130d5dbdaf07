"""Many samples become one batch; the sample that does not fit is named."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delira.data_loading._exact import NEVER_MASKED, common_dtype, refuse_masked
from delira.errors import DataError, MissingKeyError


def collate(samples: Sequence[Any], indices: Sequence[int], entry: str = "") -> dict[str, Any]:
    """Stack samples entry by entry.

    Parameters
    ----------
    samples
        Mappings with the same keys; an entry may itself be such a mapping.
    indices
        The samples' numbers in the dataset, for messages.
    entry
        Path of the entry these samples are values of; empty for whole samples.

    Returns
    -------
    dict
        For each key an array of shape (B, ...); scalars become shape (B,).

    Raises
    ------
    DataError
        If a sample is no mapping or an array has another shape than the first one.
    MissingKeyError
        If a sample has other keys than the first one.
    """
    what = f"entry {entry!r} of sample" if entry else "sample"
    for index, sample in zip(indices, samples, strict=True):
        check_mapping(sample, f"{what} {index}")
        if sample.keys() != samples[0].keys():
            raise MissingKeyError(
                f"{what} {index} has the keys {_names(sample)}, but {_names(samples[0])} were expected "
                f"(those of sample {indices[0]}); all samples of a dataset need the same keys"
            )
    batch: dict[str, Any] = {}
    for key, first in samples[0].items():
        values = [sample[key] for sample in samples]
        path = f"{entry}/{key}" if entry else str(key)
        join = collate if isinstance(first, Mapping) else stack
        batch[key] = join(values, indices, path)
    return batch


def check_mapping(sample: object, what: str) -> None:
    """Refuse a sample that is no dict; ``what`` names it."""
    if type(sample) is not dict and not isinstance(sample, Mapping):
        raise DataError(
            f"{what} is a {type(sample).__name__}, not a dict; "
            'a sample is a dict of arrays, e.g. {"data": image, "label": label}'
        )


def stack(values: Sequence[Any], indices: Sequence[int], key: str) -> np.ndarray:
    """Stack array-likes of equal shape to one array of shape (B, ...).

    Raises
    ------
    DataError
        If a shape differs from the first one's; names sample, key and both shapes. If values are masked, some are
        text and others are not, or large integers would be rounded.
    """
    arrays = []
    for index, value in zip(indices, values, strict=True):
        if type(value) not in NEVER_MASKED:
            refuse_masked(value, f"entry {key!r} of sample {index}")
        try:
            arrays.append(np.asarray(value))
        except ValueError as error:
            raise DataError(f"entry {key!r} of sample {index} makes no array: {error}") from error
        except Exception as error:
            error.add_note(f"while entry {key!r} of sample {index} was turned into an array")
            raise
    shape, dtype = arrays[0].shape, arrays[0].dtype
    is_mixed = False
    for index, array in zip(indices, arrays, strict=True):
        is_mixed |= array.dtype is not dtype
        if array.shape != shape:
            raise DataError(
                f"entry {key!r} of sample {index} has shape {array.shape}, but {shape} was expected "
                f"(that of sample {indices[0]}); resize, crop or pad the samples to one shape in load_fn"
            )
    if any(array.dtype.hasobject for array in arrays):
        for index, value in zip(indices, values, strict=True):
            if isinstance(value, Mapping):
                raise DataError(
                    f"entry {key!r} of sample {index} is a {type(value).__name__}, but that of sample {indices[0]} "
                    f"is a {type(values[0]).__name__}; give the entry one kind of value in all samples"
                )
        return np.stack(arrays)
    if is_mixed:
        return np.array(arrays, common_dtype(arrays, lambda place: f"entry {key!r} of sample {indices[place]}"))
    return np.array(arrays)  # the values of np.stack in a third of its time for small samples


def _names(sample: Mapping[str, Any]) -> list[str]:
    return sorted(map(str, sample))
