"""Attributes of an object that are those of one of its parts."""

import operator
from typing import Any


def part_of(path: str) -> Any:
    """Make an attribute that is one of a part; to set it sets that of the part.

    Parameters
    ----------
    path
        Path of the attribute from the object, e.g. ``"run.config"``.
    """
    part, _, name = path.rpartition(".")
    find = operator.attrgetter(part)
    return property(operator.attrgetter(path), lambda whole, value: setattr(find(whole), name, value))
