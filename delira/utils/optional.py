"""Packages that are imported where they are used, and what to install if one is missing."""

import importlib
from typing import Any

from delira.errors import MissingBackendError


def import_optional(module: str, user: str, install: str) -> Any:
    """Import a module of a package that delira does not require.

    Parameters
    ----------
    module
        Its full name.
    user
        Who needs it, for the message.
    install
        What ``pip install`` has to be called with.

    Raises
    ------
    MissingBackendError
        If the package, or one that it needs itself, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingBackendError(
            f"{user} needs the package {error.name!r}, which is not installed. Install it with: pip install {install!r}"
        ) from error
