"""A backend as parts: each role is an object of its own, made for the backend it belongs to."""

import abc
from typing import TYPE_CHECKING, ClassVar

from delira.errors import ConfigError

if TYPE_CHECKING:
    from delira.contract.backend import Backend


class Role(abc.ABC):
    """One part of a backend. The base class of each role is the plain case; a backend overrides what differs.

    Parameters
    ----------
    backend
        The backend it belongs to, whose other roles it may use.
    """

    role: ClassVar[str]
    """Name under which the backend has it."""

    def __init__(self, backend: "Backend") -> None:
        self.backend = backend

    def lacking(self, what: str) -> ConfigError:
        """What a verb raises that the backend has not: ``what`` it cannot do, and what to write instead."""
        return ConfigError(f"the backend {self.backend.name!r} {what}")
