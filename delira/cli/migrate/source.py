"""A script as text and as a tree: what its names mean, and how its text is changed without touching the rest."""

import ast
import bisect
import difflib
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from delira.errors import ConfigError

#: the packages whose names are looked for
OLD = ("delira", "torchbearer")
#: methods of a trial that return it
_FLUENT = ("with_", "for_", "to", "cuda", "cpu", "train", "eval", "load_state_dict", "replay")


class Edit(NamedTuple):
    """A part of the text, from one character to before another, that becomes something else."""

    start: int
    end: int
    text: str


class Finding(NamedTuple):
    """A line that needs a change."""

    line: int
    """Its number, from 1."""

    kind: Literal["refused", "means otherwise"]
    """Whether the library stops there, or goes on and means something else than the older one did."""

    why: str
    """What is wrong, and what the change does."""

    edits: tuple[Edit, ...] = ()
    """The change; empty where only the user can tell what was meant."""

    drops: tuple[str, ...] = ()
    """Names of the script that need no import any more, if nothing else uses them."""

    imports: tuple[str, ...] = ()
    """Import statements that the change needs."""


class Script:
    """A script for an older library, which is read and never run.

    Parameters
    ----------
    text
        Its source.
    name
        What messages call it.

    Raises
    ------
    ConfigError
        If it is no Python.
    """

    def __init__(self, text: str, name: str = "<script>"):
        self.text, self.name = text, name
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{name} is no script of Python 3: {error}") from error
        lines = io.StringIO(text, newline="").readlines()  # as Python divides them, each with its own end
        self._starts = [0, *itertools.accumulate(map(len, lines))]
        self._lines = [line.encode() for line in lines]
        self.nodes = [*ast.walk(self.tree)]
        #: import statement and alias by the name that the script has for it
        self.imported: dict[str, tuple[ast.Import | ast.ImportFrom, ast.alias]] = {}
        self._assigned: dict[str, ast.expr] = {}
        for node in self.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self.imported[alias.asname or alias.name.partition(".")[0]] = node, alias
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._assigned[node.targets[0].id] = node.value

    # ------------------------------------------------------------------ what names mean

    def origin(self, node: ast.AST) -> str | None:
        """The full name of what an expression names by an import, e.g. ``"delira.training.Parameters"``."""
        if isinstance(node, ast.Attribute):
            home = self.origin(node.value)
            return None if home is None else f"{home}.{node.attr}"
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return None
        statement, alias = self.imported[node.id]
        if isinstance(statement, ast.ImportFrom):
            return None if statement.level else f"{statement.module}.{alias.name}"
        return alias.name if alias.asname else node.id

    def old_name(self, node: ast.AST) -> str | None:
        """The last part of the full name, if it is one of the older libraries: ``"Parameters"``."""
        origin = self.origin(node)
        if origin is None or origin.partition(".")[0] not in OLD:
            return None
        return origin.rpartition(".")[2]

    def made_by(self, node: ast.AST) -> str | None:
        """The class of an older library whose object an expression is, as far as the script tells: ``"Trial"``."""
        if isinstance(node, ast.Name) and node.id in self._assigned:
            value = self._assigned[node.id]
            return None if isinstance(value, ast.Name) and value.id == node.id else self.made_by(value)
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Attribute) and self.origin(node.func) is None:
            return self.made_by(node.func.value) if node.func.attr.startswith(_FLUENT) else None
        return self.old_name(node.func)

    def value_of(self, node: ast.AST) -> ast.AST:
        """What a name was given by an assignment; anything else as it is."""
        for _ in self._assigned:
            if not isinstance(node, ast.Name) or node.id not in self._assigned:
                break
            node = self._assigned[node.id]
        return node

    def bases(self, cls: ast.ClassDef) -> set[str]:
        """Names of the classes of older libraries from which a class derives, also by others of the script."""
        own = {one.name: one for one in self.nodes if isinstance(one, ast.ClassDef) and one is not cls}
        found = {name for base in cls.bases if (name := self.old_name(base)) is not None}
        for base in cls.bases:
            if isinstance(base, ast.Name) and base.id in own:
                found |= self.bases(own[base.id])
        return found

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of functions and classes of older libraries, by the last part of their names."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and self.old_name(node.func) in names:
                yield node

    def methods(self, classes: Iterable[str], *names: str) -> Iterator[ast.Call]:
        """Calls of methods of objects of some classes."""
        wanted = frozenset(classes)
        for node in self.nodes:
            is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names
            if is_method and self.made_by(node.func.value) in wanted:
                yield node

    # ------------------------------------------------------------------ where it is, and how it changes

    def _offset(self, line: int, column: int) -> int:
        # the columns of the tree count bytes
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def start(self, node: ast.AST) -> int:
        """Where the text of a node begins."""
        return self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Where the text of a node ends."""
        return self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def of(self, node: ast.AST) -> str:
        """The text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def replaced(self, node: ast.AST, text: str) -> Edit:
        """The change of a node into something else."""
        return Edit(self.start(node), self.end(node), text)

    def with_keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """The change that gives a call one more argument by its name, or another value of it."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return self.replaced(keyword.value, value)
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        end = self.end_of_last(call, given) if given else self.text.index("(", self.end(call.func)) + 1
        return Edit(end, end, f"{', ' if given else ''}{name}={value}")

    def end_of_last(self, node: ast.AST, parts: Iterable[ast.AST]) -> int:
        """Where the last part of a call or a dictionary ends, with the parentheses around it."""
        end = max(map(self.end, parts), default=self.start(node) + 1)
        rest = re.sub(r"#.*", lambda comment: " " * len(comment[0]), self.text[end : self.end(node) - 1])
        return end + rest.rfind(")") + 1

    def without_keyword(self, call: ast.Call, name: str) -> Edit:
        """The change that takes an argument away from a call, with the comma beside it."""
        keyword = next(one for one in call.keywords if one.arg == name)
        given = sorted([*call.args, *call.keywords], key=self.start)
        number = given.index(keyword)
        if number:
            return Edit(self.end(given[number - 1]), self.end(keyword), "")
        return Edit(self.start(keyword), self.start(given[1]) if given[1:] else self.end(keyword), "")

    def argument(self, call: ast.Call, position: int, name: str, default: str | None = None) -> str | None:
        """The text of an argument of a call, by its place or its name; ``default`` if it is not given."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return self.of(keyword.value)
        if position < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args):
            return self.of(call.args[position])
        return default

    def changed(self, findings: Iterable[Finding]) -> str:
        """The text after the changes of findings; of two changes of the same place the first is made."""
        made: list[Finding] = []
        edits: list[Edit] = []
        for finding in findings:
            if not any(one.start < other.end and other.start < one.end for one in finding.edits for other in edits):
                made.append(finding)
                edits += [edit for edit in finding.edits if edit not in edits]
        after = Script(_applied(self.text, edits), self.name)
        lines = dict.fromkeys(line for finding in made for line in finding.imports)
        return after._with_imports([*lines], {name for finding in made for name in finding.drops})

    def _with_imports(self, lines: list[str], unwanted: set[str]) -> str:
        """The text with more import statements, and without those names that nothing uses any more."""
        used = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        gone = {id(alias) for name, (_, alias) in self.imported.items() if name in unwanted - used}
        edits = []
        for statement in {id(one): one for one, _ in self.imported.values()}.values():
            kept = [alias for alias in statement.names if id(alias) not in gone]
            if len(kept) == len(statement.names):
                continue
            stay = [ast.unparse(type(statement)(**{**vars(statement), "names": kept}))] if kept else []
            added, lines = (lines, []) if not statement.col_offset else ([], lines)
            # an import that is gone may be all that its block has
            there = [*stay, *added] or (["pass"] if statement.col_offset else [])
            end = self.end(statement) if there else min(self._starts[statement.end_lineno or 0], len(self.text))
            edits.append(Edit(self.start(statement), end, "\n".join(there)))
        if lines:
            place = self._place_of_imports()
            edits.append(Edit(place, place, "".join(f"{line}\n" for line in lines)))
        return _applied(self.text, edits)

    def _place_of_imports(self) -> int:
        """Where an import may stand: before the first statement that is no text and no import from the future."""
        for node in self.tree.body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
                return self._starts[first - 1]
        return len(self.text)

    def shown(self, finding: Finding) -> list[str]:
        """The lines that the change of one finding takes away and adds, marked by ``-`` and ``+``."""
        pair = self.text.splitlines(), self.changed([finding]).splitlines()
        return [line for line in difflib.ndiff(*pair) if line.startswith(("- ", "+ "))]

    def line_at(self, offset: int) -> int:
        """The number of the line, from 1, in which a character is."""
        return bisect.bisect_right(self._starts, offset)


def _applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after changes of places that do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
