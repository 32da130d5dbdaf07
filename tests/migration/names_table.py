"""The table of all public names of older libraries in docs/migrating.md: ``python tests/migration/names_table.py``."""

import importlib
import re
import warnings
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "migrating.md"
BEGIN, END = "<!-- names: made by tests/migration/names_table.py -->\n", "<!-- end of names -->\n"
HEADER = "| module | works as it is | works, and has another name now | gone: what to type |\n|---|---|---|---|\n"


def old_names():
    """Module and public names of the older libraries, in the order of their list."""
    for line in (HERE / "old_names.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            module, _, names = line.partition(": ")
            yield module, names.split()


def looked_up(place, name):
    """Whether a name is the ``"same"``, ``"renamed"`` or ``"gone"``, and what it is called now, or what to type."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if isinstance(getattr(place, name), ModuleType):
                return "same", "a module"
        except ImportError as error:
            return "gone", re.search(r"is gone; use (.*) \(docs/migrating\.md\)", str(error)).group(1)
    told = [re.search(r"is now (?:called )?(\S+)", str(one.message)) for one in caught]
    renamed = next((found.group(1) for found in told if found), "")
    return ("renamed" if renamed else "same"), renamed


def table():
    """The rows, one for each module."""
    rows = []
    for module, names in old_names():
        place, cells = importlib.import_module(module), {"same": [], "renamed": [], "gone": {}}
        for name in names:
            kind, text = looked_up(place, name)
            if kind == "gone":
                cells["gone"].setdefault(text, []).append(f"`{name}`")
            else:
                cells[kind].append(f"`{name}`" + (f" → `{text}`" if kind == "renamed" else text and f" ({text})"))
        gone = "; ".join(f"{', '.join(named)}: {text}".replace("|", "\\|") for text, named in cells["gone"].items())
        cells = (" ".join(cells["same"]) or "–", ", ".join(cells["renamed"]) or "–", gone or "–")
        rows.append(f"| `{module}` | {' | '.join(cells)} |\n")
    return HEADER + "".join(rows)


def with_table(text):
    """The page with the table as it is now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
