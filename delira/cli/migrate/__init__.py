"""``delira migrate``: the lines of an older script that need a change, with the change."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from delira.cli.migrate.meaning import MEANINGS
from delira.cli.migrate.refused import REFUSED
from delira.cli.migrate.source import Finding, Script
from delira.cli.output import Answer
from delira.errors import ConfigError
from delira.utils.files import publish_text

#: what looks for lines, in the order in which changes are made
RULES: tuple[Callable[[Script], Iterable[Finding]], ...] = (*REFUSED, *MEANINGS)
#: a change may show the next one, e.g. of a call within another
_ROUNDS = 20


def run(options: argparse.Namespace) -> Answer:
    """Say what old scripts need; broken is the answer while a line needs a change.

    Parameters
    ----------
    options
        ``scripts``: files; ``write``: whether to make the changes.

    Raises
    ------
    ConfigError
        If a file is missing, or is no Python.
    """
    paths = [Path(path) for path in options.scripts]
    scripts = [read(path) for path in paths]  # all of them, before any is changed
    rows: list[dict[str, Any]] = []
    for path, script in zip(paths, scripts, strict=True):
        rows += [
            {"file": str(path), **finding._asdict(), "change": script.shown(finding)} for finding in findings(script)
        ]
        if options.write and (text := migrated(script)) != script.text:
            target, mode = path.resolve(), path.stat().st_mode  # a link stays one, and a program can still be run
            publish_text(target, text)
            target.chmod(mode)
    left = [row for row in rows if not (options.write and row["change"])]
    lines = ["\n".join([_told(row), *(f"    {line}" for line in row["change"]), ""]) for row in rows]
    lines.append(_summary(len(rows), len(left), options.write))
    told = [{key: row[key] for key in ("file", "line", "kind", "why", "change")} for row in rows]
    return Answer({"findings": told, "written": options.write}, "\n".join(lines), is_broken=bool(left))


def read(path: Path) -> Script:
    """Read a script, which is not run."""
    try:
        return Script(path.read_bytes().decode(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {str(path)!r} cannot be read: {error}") from error


def findings(script: Script) -> list[Finding]:
    """What a script needs, by lines."""
    return sorted((finding for rule in RULES for finding in rule(script)), key=lambda finding: finding.line)


def migrated(script: Script) -> str:
    """The text of a script with every change made that can be."""
    for _ in range(_ROUNDS):
        text = script.changed(findings(script))
        if text == script.text:
            break
        script = Script(text, script.name)
    return script.text


def _told(row: Mapping[str, Any]) -> str:
    return f"{row['file']}:{row['line']}: {row['kind']}: {row['why']}"


def _summary(number: int, left: int, is_written: bool) -> str:
    if not number:
        return "nothing to change"
    if not is_written:
        return f"{number} lines; --write makes the changes"
    return f"{number - left} changes made" + (f", {left} left for you" if left else "")
