"""What wrapped, mapped and cached datasets share: any value becomes an array."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.data_loading._exact import refuse_masked
from delira.errors import DataError

_PLAIN = (str, bytes, bool, int, float, complex, np.ndarray, np.generic)


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
