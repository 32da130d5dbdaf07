"""Values that users type by mistake, by what they are not."""

from typing import Any

import numpy as np


class Fresh:
    """A value that is made anew for each case, since using it changes it."""

    def __init__(self, text: str, make: Any):
        self.text, self.make = text, make

    def __repr__(self) -> str:
        return self.text


class Strange:
    """An object of a user's, of no use to anybody."""

    def __repr__(self) -> str:
        return "Strange()"


class UserError(Exception):
    """Raised by the code of a user."""


def raises_user_error(*args: Any, **kwargs: Any) -> Any:
    """Fail, as code of a user's may."""
    raise UserError("the user's own code failed")


NAN, INFINITE = float("nan"), float("inf")
STRANGE = Strange()

TEXTS = ["x", "", "True", "1"]
CONTAINERS = [[], {}, (), [1], {"a": 1}, {1}]
OBJECTS = [STRANGE, b"x", 1j, int]
FRACTIONS = [1.5, NAN, INFINITE, np.float32(0.5)]

NOT_A_NUMBER = [*TEXTS, *CONTAINERS, *OBJECTS, np.zeros(2)]
NOT_AN_INT = [*NOT_A_NUMBER, *FRACTIONS]
NOT_A_COUNT = [*NOT_AN_INT, -1, -(10**9), True]
NOT_POSITIVE_INT = [*NOT_A_COUNT, 0, False]
NOT_FINITE = [*NOT_A_NUMBER, NAN, INFINITE, -INFINITE]
NOT_POSITIVE = [*NOT_FINITE, -0.5, 0, 0.0]
NOT_NEGATIVE_OR_ZERO = [*NOT_FINITE, -0.5, -1e-9]
NOT_A_SHARE = [*NOT_FINITE, -0.1, 1.1, 100]
NOT_A_BOOL = ["yes", "", 2, -1, 0.5, NAN, [], {}, STRANGE]
NOT_A_TEXT = [5, 1.5, NAN, [], {}, STRANGE, b"x", True, ("a",)]
NOT_CALLABLE = ["x", 5, NAN, [], {}, STRANGE, True]
NOT_A_MAPPING = ["x", 5, NAN, [1], STRANGE, True, ("a", 1)]
NOT_A_PATH = [5, NAN, [], {}, STRANGE, True]
NOT_A_CHOICE = ["nonsense", "", 5, NAN, [], STRANGE]


def or_none(values: list[Any]) -> list[Any]:
    """Return the values and None, where leaving it out is no choice."""
    return [*values, None]
