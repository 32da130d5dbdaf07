"""What users hand over becomes counts, indices, arrays and batches: nothing is rounded or lost without a word."""

import inspect
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError, SampleIndexError

NEVER_MASKED = frozenset({np.ndarray, int, float, complex, bool, str, bytes, *np.sctypeDict.values()})
"""Types whose values need not be asked: to ask each costs half a microsecond."""
_TEXT = "UST"
_CURE = "give all samples one type, e.g. str(value) for names and ids"

_PLAIN = (str, bytes, bool, int, float, complex, np.ndarray, np.generic)


def refuse_masked(value: object, what: str) -> None:
    """Refuse a masked array that masks something: an array would hold what lies under the mask.

    Raises
    ------
    DataError
        If there is such a value; ``what`` names it.
    """
    for inner in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(inner, np.ndarray) and type(inner) is not np.ndarray and np.ma.is_masked(inner):
            raise DataError(
                f"{what} is a masked array of which {np.ma.count_masked(inner)} values are masked, and a batch has no "
                "masks: what lies under them would count; fill them, array.filled(value), and pass the mask as an "
                "entry of its own"
            )


def exact_array(values: object, what: str) -> np.ndarray:
    """Make an array of a list of values, one for each sample; arrays stay as they are.

    Parameters
    ----------
    values
        An array, or a list.
    what
        Names them in messages, e.g. ``"the values of 'patient'"``.

    Raises
    ------
    DataError
        If they are masked, of several shapes or types, or integers that no one type can hold.
    """
    refuse_masked(values, what)
    if hasattr(values, "toarray"):
        raise DataError(f"{what} are a sparse matrix ({type(values).__name__}), and batches are dense: pass .toarray()")
    try:
        array = as_array(values)
    except (TypeError, ValueError) as error:
        cure = "; give all of them one shape" if "inhomogeneous" in str(error) else ""
        raise DataError(f"{what} make no array: {error}{cure}") from error
    if array.dtype.kind == "f" and str(getattr(values, "dtype", "")).lower().startswith(("int", "uint")):
        return np.asarray(values, dtype=object)  # of pandas, with missing ones: numpy would round all the others
    if not isinstance(values, (list, tuple)) or array.dtype.kind not in f"{_TEXT}f":
        return array
    elements = [np.asarray(element) for element in values]
    if len({element.dtype for element in elements}) > 1:
        return np.asarray(values, common_dtype(elements, lambda place: f"{what}, number {place},"))
    if elements and elements[0].ndim and isinstance(values[0], (list, tuple)):  # rows of a nested list
        for place, row in enumerate(values):
            exact_array(row, f"{what}, row {place}")
    return array


def refuse_mixed(labels: np.ndarray, key: str) -> None:
    """Refuse labels of which some are text and others are not; None and NaN stand for missing ones.

    Raises
    ------
    DataError
        If there are both.
    """
    if labels.dtype.kind != "O" or labels.size != len(labels):
        return
    values = labels.reshape(-1).tolist()
    texts = [value for value in values if isinstance(value, str)]
    others = [value for value in values if isinstance(value, (bool, int, float, np.generic)) and value == value]
    if texts and others:
        raise DataError(
            f"the entry {key!r} is text in some samples ({texts[0]!r}) and a number in others ({others[0]!r}), so it "
            f"cannot be told which of them are equal; {_CURE}"
        )


def common_dtype(arrays: Sequence[np.ndarray], name: Callable[[int], str]) -> np.dtype | None:
    """Find the type that holds the values of all arrays as they are; None to leave it to numpy.

    Parameters
    ----------
    arrays
        Those that become one.
    name
        Names an array by its place in messages.

    Raises
    ------
    DataError
        If one is text and another is not, or integers would be rounded.
    """
    dtypes = {array.dtype for array in arrays}
    kinds = {dtype.kind for dtype in dtypes}
    if kinds & set(_TEXT) and (len(kinds) > 1 and not kinds <= {"U", "T"}) and "O" not in kinds:
        first = arrays[0].dtype.kind
        other = next(place for place, array in enumerate(arrays) if array.dtype.kind != first)
        raise DataError(
            f"{name(other)} is {_named(arrays[other])}, but {name(0)} is {_named(arrays[0])}: in one array both "
            f"would become text, and what differs could become the same; {_CURE}"
        )
    if len(dtypes) < 2 or not kinds <= set("biuf") or np.result_type(*dtypes).kind != "f":
        return None
    if "f" not in kinds:
        return _of_integers(arrays, name)
    for place, array in enumerate(arrays):
        is_long = array.dtype.kind in "iu" and array.dtype.itemsize > 4 and array.size > 0
        if is_long and max(-int(array.min()), int(array.max())) > 2**53:
            raise DataError(
                f"{name(place)} holds integers that the floating-point numbers of the others would round, e.g. "
                f"{array.max()}; {_CURE}"
            )
    return None


def _of_integers(arrays: Sequence[np.ndarray], name: Callable[[int], str]) -> np.dtype:
    extremes = [int(extreme) for array in arrays if array.size for extreme in (array.min(), array.max())]
    low, high = min(extremes, default=0), max(extremes, default=0)
    if low >= 0:
        return np.dtype(np.uint64)
    if high <= np.iinfo(np.int64).max:
        return np.dtype(np.int64)
    raise DataError(
        f"{name(0)} and those after it are integers from {low} to {high}, which fit into no one type; as float64 they "
        f"would be rounded; {_CURE}"
    )


def _named(array: np.ndarray) -> str:
    value = f"{array.item()!r}, " if array.size == 1 else ""
    kind = {"U": "text", "T": "text", "S": "bytes", "b": "a truth value"}.get(array.dtype.kind, "no text")
    return f"{value}{kind} ({array.dtype})"


# ------------------------------------------------------------------ of other libraries


def as_array(value: object) -> np.ndarray:
    """Make an array of a CPU tensor, an image or a list; shares memory where it can.

    Raises
    ------
    DataError
        If it is a masked array.
    """
    if isinstance(value, np.ndarray):
        refuse_masked(value, "a value")
    # a tensor that asks for gradients refuses to be an array
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def convert_entry(value: object, name: str, index: int) -> Any:
    """Turn what libraries put into samples into arrays; numbers, strings and arrays stay as they are.

    Parameters
    ----------
    value
        An entry; of a mapping each value is converted.
    name, index
        Path of the entry and number of the sample, for messages.
    """
    if isinstance(value, Mapping):
        return {key: convert_entry(inner, f"{name}/{key}", index) for key, inner in value.items()}
    convertible = (
        isinstance(value, (list, tuple)) or hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    )
    if isinstance(value, _PLAIN) or not convertible:
        return value
    try:
        return as_array(value)
    except Exception as error:
        error.add_note(f"while entry {name!r} of sample {index} was turned into an array")
        raise


def as_rows(values: object, what: str) -> np.ndarray:
    """Samples of shape (B, ...) as scikit-learn takes them: one row of features each; texts stay a list of texts.

    Raises
    ------
    DataError
        If there is no axis of samples; ``what`` names the entry.
    """
    array = np.asarray(values)
    if array.ndim == 0:
        raise DataError(f"{what} has no axis of samples")
    if array.ndim == 1 and array.dtype.kind in "OSU":
        return array
    return array if array.ndim == 2 else array.reshape(len(array), -1)


# ------------------------------------------------------------------ of one type to another


def cast(array: np.ndarray, dtype: np.dtype, what: str) -> np.ndarray:
    """Convert an array; like ``astype``, which would wrap around, cut off and forget without a word.

    Parameters
    ----------
    array
        Of any shape.
    dtype
        The type wanted. Floating-point numbers become integers if they are integers up to rounding errors, as those
        of scaled masks are; these are rounded.
    what
        Names the values in messages.

    Raises
    ------
    DataError
        If a value does not fit, is no integer, or would lose its imaginary part.
    """
    if array.dtype == dtype:
        return array
    kind = dtype.kind
    if array.dtype.kind == "c" and kind in "biuf":
        raise DataError(f"{what} holds complex numbers, which as {dtype} would lose their imaginary part")
    if kind in "biu" and array.dtype.kind == "f":
        array = _rounded(array, dtype, what)
    if kind in "iu" and array.dtype.kind in "iuf" and array.size:
        limits = np.iinfo(dtype)
        low, high = array.min(), array.max()
        # as Python's integers: numpy would compare int64 and uint64 as float64
        if int(low) < limits.min or int(high) > limits.max:
            wrong = low if int(low) < limits.min else high
            raise DataError(
                f"{what} holds the value {wrong:g}, which {dtype} cannot hold (its values are {limits.min} to "
                f"{limits.max}); choose a larger type"
            )
    if kind != "f" or array.dtype.kind not in "iuf":
        return array.astype(dtype)
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    lost = np.isinf(converted) & np.isfinite(array)
    if lost.any():
        raise DataError(f"{what} holds the value {array[lost][0]:g}, which {dtype} cannot hold; choose a larger type")
    return converted


def _rounded(array: np.ndarray, dtype: np.dtype, what: str) -> np.ndarray:
    rounded = np.rint(array)
    # rounding errors of a scaled value: some of the last digits of float32
    near = np.maximum(1e-4, 4 * np.finfo(np.float32).eps * np.abs(array))
    with np.errstate(invalid="ignore"):  # infinite values
        wrong = ~(np.abs(array - rounded) <= near)
    if wrong.any():
        raise DataError(
            f"{what} holds {array[wrong][0]:g}, which is no integer, and it should become {dtype}; round it in a "
            "function of your own, or leave the type out"
        )
    return rounded


def owner_of_memory(array: object) -> Any:
    """Return what owns the memory of an array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


# ------------------------------------------------------------------ many samples become one batch


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
            got, wanted = (sorted(map(str, each)) for each in (sample, samples[0]))
            raise MissingKeyError(
                f"{what} {index} has the keys {got}, but {wanted} were expected "
                f"(those of sample {indices[0]}); all samples of a dataset need the same keys"
            )
    return {
        key: (collate if isinstance(first, Mapping) else stack)(
            [sample[key] for sample in samples], indices, f"{entry}/{key}" if entry else str(key)
        )
        for key, first in samples[0].items()
    }


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


Indices = Sequence[int] | np.ndarray
NO_INDEX = (bool, np.bool_, type(None))
"""Lists take the first for numbers, arrays take all for an axis more."""


def check_count(value: object, name: str, minimum: int) -> int:
    """Refuse anything but an integer of at least ``minimum``; a float is never rounded."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ConfigError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    return int(value)


def to_index_array(indices: Iterable[int], owner: str) -> np.ndarray:
    """Copy ``indices`` to a read-only array of shape (n,) and dtype int64.

    Raises
    ------
    ConfigError
        If they are not one list of integers; ``owner`` says for whom they were meant.
    """
    if isinstance(indices, range):
        array = np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    elif isinstance(indices, Iterable):
        array = np.array(indices if isinstance(indices, (np.ndarray, Sequence)) else list(indices))
    else:
        raise ConfigError(f"indices of {owner} must be one list of integers, got {indices!r}")
    if array.ndim == 1 and array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        cure = "; for a boolean mask pass np.flatnonzero(mask)" if array.dtype.kind == "b" else ""
        raise ConfigError(
            f"indices of {owner} must be one list of integers, "
            f"got an array of shape {array.shape} and dtype {array.dtype}{cure}"
        )
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:  # would become negative
        raise SampleIndexError(f"indices of {owner} must be indices of samples, got {array.max()}")
    array = array.astype(np.int64, copy=False)
    array.flags.writeable = False
    return array


def check_range(indices: np.ndarray, length: int, owner: str) -> np.ndarray:
    """Refuse indices that do not name one of ``length`` samples.

    Raises
    ------
    SampleIndexError
        If an index is negative or ``length`` and more; names the first ten.
    """
    outside = indices[(indices < 0) | (indices >= length)]
    if outside.size:
        listed = ", ".join(map(str, outside[:10].tolist())) + (", ..." if outside.size > 10 else "")
        allowed = f"allowed are 0 to {length - 1}" if length else "it is empty"
        raise SampleIndexError(f"indices {listed} are not in {owner} of {length} samples; {allowed}")
    return indices


def to_index(index: Any, length: int, owner: Any) -> int:
    """Turn an index, which may count from the end, into the number of a sample.

    Raises
    ------
    SampleIndexError
        If there is no such sample in ``owner``, the dataset that is asked.
    """
    try:
        if isinstance(index, NO_INDEX):
            raise TypeError
        number = operator.index(index)
    except TypeError as error:
        raise SampleIndexError(
            f"index {index!r} is no number of a sample of this {type(owner).__name__}; pass a whole number, "
            "and to get_subset a list of them"
        ) from error
    if not -length <= number < length:
        raise SampleIndexError(f"index {number} is not in this {type(owner).__name__} of {length} samples")
    return number + length if number < 0 else number


def common_length(lengths: Mapping[str, int], owner: str) -> int:
    """Refuse arrays of which one has more samples than another; ``owner`` is the dataset that they are meant for."""
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{key!r}: {length}" for key, length in lengths.items())
        raise DataError(f"the arrays of a {owner} must have equal lengths (first axes), got {listed}")
    return next(iter(lengths.values()))


def check_flag(value: object, name: str) -> bool:
    """Refuse anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function by name; of a builtin that has no signature, none."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def at(kept: Any, index: Any, owner: Any) -> Any:
    """Return ``kept[index]``; a wrong index is named, at no cost for right ones.

    Raises
    ------
    SampleIndexError
        If there is no such sample in ``owner``, the dataset that is asked.
    """
    if isinstance(index, NO_INDEX):
        to_index(index, len(owner), owner)  # raises
    try:
        return kept[index]
    except (IndexError, TypeError):
        to_index(index, len(owner), owner)  # raises, unless what is kept fails by itself
        raise


def from_the_front(indices: np.ndarray, length: int, owner: object) -> np.ndarray:
    """Return indices, which may count from the end, as numbers of samples; refuse one that names none as `to_index`."""
    indices = np.asarray(indices)
    for index in indices[(indices < -length) | (indices >= length)][:1].tolist():
        to_index(index, length, owner)  # raises
    return np.where(indices < 0, indices + length, indices)
