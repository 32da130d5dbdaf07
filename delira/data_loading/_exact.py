"""Values become arrays and keep what they are: no mask, no digit and no type is lost on the way."""

from collections.abc import Callable, Sequence

import numpy as np

from delira.errors import DataError

NEVER_MASKED = frozenset({np.ndarray, int, float, complex, bool, str, bytes, *np.sctypeDict.values()})
"""Types whose values need not be asked: to ask each costs half a microsecond."""
_TEXT = "UST"
_CURE = "give all samples one type, e.g. str(value) for names and ids"


def refuse_masked(value: object, what: str) -> None:
    """Refuse a masked array that masks something: an array would hold what lies under the mask.

    Raises
    ------
    DataError
        If there is such a value; ``what`` names it.
    """
    values = value if isinstance(value, (list, tuple)) else (value,)
    for inner in values:
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
    if hasattr(values, "detach"):  # a tensor that asks for gradients refuses to be an array
        values = values.detach()
    try:
        array = np.asarray(values)
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
        if array.dtype.kind in "iu" and array.dtype.itemsize > 4 and not _fit_floats(array):
            raise DataError(
                f"{name(place)} holds integers that the floating-point numbers of the others would round, e.g. "
                f"{array.max()}; {_CURE}"
            )
    return None


def _of_integers(arrays: Sequence[np.ndarray], name: Callable[[int], str]) -> np.dtype:
    filled = [array for array in arrays if array.size]
    low = min((int(array.min()) for array in filled), default=0)
    high = max((int(array.max()) for array in filled), default=0)
    if low >= 0:
        return np.dtype(np.uint64)
    if high <= np.iinfo(np.int64).max:
        return np.dtype(np.int64)
    raise DataError(
        f"{name(0)} and those after it are integers from {low} to {high}, which fit into no one type; as float64 they "
        f"would be rounded; {_CURE}"
    )


def _fit_floats(array: np.ndarray) -> bool:
    limit = 2**53
    return not array.size or (-limit <= int(array.min()) and int(array.max()) <= limit)


def _named(array: np.ndarray) -> str:
    value = f"{array.item()!r}, " if array.size == 1 else ""
    kind = {"U": "text", "T": "text", "S": "bytes", "b": "a truth value"}.get(array.dtype.kind, "no text")
    return f"{value}{kind} ({array.dtype})"
