"""The file of a fold that says where its time went."""

import logging
from pathlib import Path
from typing import Any

from delira.errors import UnreadableError
from delira.utils.files import read_json, unsealed

_log = logging.getLogger("delira")

FILE = "timings.json"
VERSION = 1


def read_timings(folder: Path) -> dict[str, Any] | None:
    """Return the times in the folder of a fold; None if there are none, or they are damaged.

    Parameters
    ----------
    folder
        The folder.

    Raises
    ------
    UnreadableError
        If the system cannot read them now: nobody knows then whether they are lost.
    """
    try:
        found = read_json(folder / FILE)
        if found.get("version", VERSION) != VERSION:
            raise ValueError(f"it has the version {found['version']!r}; this version of delira reads {VERSION}")
        found = unsealed(found)
        seconds = {str(name): float(value) for name, value in found["seconds"].items()}
        return {**found, "steps": int(found["steps"]), "seconds": seconds}
    except FileNotFoundError:
        return None
    except UnreadableError:
        raise
    except (OSError, ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
        _log.warning("%s cannot be read, so the times of the phases in it are lost: %s", folder / FILE, error)
        return None
