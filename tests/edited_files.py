"""Files of a run that a test edits by hand: without their checksums, as an older version wrote them."""

import json
from pathlib import Path
from typing import Any

from delira.utils.files import CHECKSUM


def plain(text: str) -> dict[str, Any]:
    """The entries of a text of JSON, but for its checksum."""
    content = json.loads(text)
    content.pop(CHECKSUM, None)
    return content


def read_plain(path: Path) -> dict[str, Any]:
    """The entries of a file of JSON, but for its checksum."""
    return plain(path.read_text("utf-8"))


def write_lines(path: Path, change: Any) -> None:
    """Write each line of a file of JSON lines as ``change`` returns its entries."""
    lines = [change(plain(line)) for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
