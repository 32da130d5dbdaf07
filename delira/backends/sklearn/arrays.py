"""Single numbers that are no losses."""

from delira.contract import ArraysRole


class SklearnArrays(ArraysRole):
    """Numpy's."""

    number = "a training metric"
