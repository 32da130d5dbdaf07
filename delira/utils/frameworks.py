"""Whether something comes from a framework, by the package in which it is defined; no framework is imported."""

from delira.frameworks import ENDINGS as ENDINGS
from delira.frameworks import LIBRARIES as LIBRARIES


def package_of(value: object) -> str:
    """Return the package in which a class or a function is defined, or the class of another object."""
    owner = value if hasattr(value, "__name__") else type(value)
    return str(getattr(owner, "__module__", "")).partition(".")[0]


def is_of_framework(value: object) -> bool:
    """Return True if a framework's own package defines a class, a function, or the class of another object."""
    return package_of(value) in LIBRARIES
