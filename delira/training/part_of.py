"""Attributes of an object that are those of one of its parts."""

import operator
from typing import Generic, Self, TypeVar, overload

from delira.contract.kinds import Tree

T = TypeVar("T")


class Of(Generic[T]):
    """An attribute that is one of a part; to set it sets that of the part.

    Parameters
    ----------
    part
        Path of the part from the object, e.g. ``"run.config"``.
    name
        Name of the attribute there, if it is another one.
    """

    def __init__(self, part: str, name: str = ""):
        self._part, self._name = operator.attrgetter(part), name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, whole: None, owner: type) -> Self: ...
    @overload
    def __get__(self, whole: object, owner: type) -> T: ...
    def __get__(self, whole: object | None, owner: type) -> "Self | T":
        if whole is None:
            return self
        found: T = getattr(self._part(whole), self._name)
        return found

    def __set__(self, whole: object, value: Tree) -> None:
        setattr(self._part(whole), self._name, value)
