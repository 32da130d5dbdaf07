"""A checksum inside of a small file of JSON, or of a line of one: it tells a changed value from what was written."""

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

KEY = "checksum"
CHANGED = "its checksum is another one, so it is not what was written"


def sealed(content: Mapping[str, Any], default: Callable[[Any], Any] = str) -> dict[str, Any]:
    """Return the content as it would be read back, with a checksum.

    Parameters
    ----------
    content
        What JSON can write.
    default
        Writes what it cannot.
    """
    plain = json.loads(json.dumps(content, default=default))
    return {**plain, KEY: _sum_of(plain)}


def is_changed(content: Mapping[str, Any]) -> bool:
    """Return True if it has a checksum, and another one; what an older version wrote has none.

    Parameters
    ----------
    content
        As it was read.
    """
    plain = {name: value for name, value in content.items() if name != KEY}
    return KEY in content and content[KEY] != _sum_of(plain)


def unsealed(content: object) -> Any:
    """Return what was read, without its checksum.

    Parameters
    ----------
    content
        As it was read; what is no dictionary has no checksum.

    Raises
    ------
    ValueError
        If it is not what was written.
    """
    if not isinstance(content, Mapping):
        return content
    if is_changed(content):
        raise ValueError(CHANGED)
    return {name: value for name, value in content.items() if name != KEY}


def _sum_of(plain: Mapping[str, Any]) -> str:
    """Of the values, however they are laid out."""
    return f"{zlib.crc32(json.dumps(plain, sort_keys=True).encode()):08x}"
