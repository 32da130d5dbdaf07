"""``delira migrate``: the lines of an older script that need a change, with the change."""

import argparse
import re
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
#: a change may show the next one, e.g. of a call within another; more rounds have no end
_ROUNDS = 100


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
    left: list[dict[str, Any]] = []
    for path, script in zip(paths, scripts, strict=True):
        found = _rows(path, script, findings(script))
        if options.write and (text := migrated(script)) != script.text:
            target, mode = path.resolve(), path.stat().st_mode  # a link stays one, and a program can still be run
            publish_text(target, text)
            target.chmod(mode)
            stay = _rows(path, after := Script(text, script.name), findings(after))
            known = {(row["kind"], row["why"]) for row in found if not row["change"]}
            found += [row for row in stay if (row["kind"], row["why"]) not in known]  # that a change has shown
            left += stay
        else:
            left += found
        rows += found
    lines = ["\n".join([_told(row), *(f"    {line}" for line in row["change"]), ""]) for row in rows]
    lines.append(_summary(len(rows), len(left), options.write))
    told = [{key: row[key] for key in ("file", "line", "kind", "why", "change")} for row in rows]
    return Answer({"findings": told, "written": options.write}, "\n".join(lines), is_broken=bool(left))


def _rows(path: Path, script: Script, found: Iterable[Finding]) -> list[dict[str, Any]]:
    return [{"file": str(path), **finding._asdict(), "change": script.shown(finding)} for finding in found]


def read(path: Path) -> Script:
    """Read a script, which is not run."""
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {str(path)!r} cannot be read: {error}") from error
    if path.suffix == ".ipynb" or (text.lstrip().startswith("{") and re.search(r'"cells"\s*:\s*\[', text)):
        raise ConfigError(f"{path} is a notebook; make a script of it by: jupyter nbconvert --to script {path}")
    try:
        return Script(text, str(path))
    except ConfigError as error:
        if re.search(r"^\s*[%!]", text, re.MULTILINE):
            told = "a line with % or ! is one of a notebook: jupyter nbconvert --to script makes a script of that"
            raise ConfigError(f"{error}; {told}") from error
        raise


def findings(script: Script) -> list[Finding]:
    """What a script needs, by lines."""
    return sorted((finding for rule in RULES for finding in rule(script)), key=lambda finding: finding.line)


def migrated(script: Script) -> str:
    """The text of a script with every change made that can be."""
    seen = {script.text}
    for _ in range(_ROUNDS):
        text = script.changed(findings(script))
        if text in seen:  # nothing is changed, or back
            break
        seen.add(text)
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
