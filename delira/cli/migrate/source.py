"""A script as text and as a tree: what its names mean, and how its text is changed without touching the rest."""

import ast
import bisect
import difflib
import functools
import importlib
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from delira.cli.migrate.scopes import Binding, Scopes
from delira.errors import ConfigError
from delira.frameworks import NAMES
from delira.utils.lazy import for_old_scripts

#: what some editors write before the text
_MARK = "\ufeff"
#: the packages whose names are looked for
OLD = ("delira", "torchbearer")
#: whose names are read of the library, besides those of older versions
_PACKAGES = (
    "delira",
    *(
        f"delira.{name}"
        for name in (
            "callbacks",
            "data_loading",
            "experiments",
            "io",
            "logging",
            "metrics",
            "models",
            "state",
            "training",
            "utils",
        )
    ),
)
#: an import statement that is longer gets a line for each name
_LONG = 88
_Node = TypeVar("_Node", bound=ast.AST)
#: a comma, and what may have commas that are none
_COMMA = re.compile(r"#[^\n]*|,")


class Edit(NamedTuple):
    """A part of the text, from one character to before another, that becomes something else."""

    start: int
    end: int
    text: str

    def meets(self, other: "Edit") -> bool:
        """Whether both cannot be made at once: they are of one place, and not the same."""
        is_beside = self.start == other.start or (self.start < other.end and other.start < self.end)
        return is_beside and self != other

    def moved(self, by: int) -> "Edit":
        """The same change of a text that begins elsewhere."""
        return Edit(self.start + by, self.end + by, self.text)


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
            self.tree = ast.parse(text.removeprefix(_MARK))
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{name} is no script of Python 3: {error}") from error
        # as Python divides them, each with its own end; the mark at the beginning is no part of the first one
        lines = io.StringIO(text.removeprefix(_MARK), newline="").readlines()
        self._starts = [*itertools.accumulate(map(len, lines), initial=len(text) - sum(map(len, lines)))]
        self._lines = [line.encode() for line in lines]
        self.nodes = [*ast.walk(self.tree)]
        self.scopes = Scopes(self.tree, self.nodes)
        #: every import statement, with the name that the script has for what it imports
        self.imports: list[tuple[ast.Import | ast.ImportFrom, ast.alias, str]] = []
        for node in self.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports += [(node, alias, alias.asname or alias.name.partition(".")[0]) for alias in node.names]
        #: import statement and alias by the name that the script has for it
        self.imported = {name: (node, alias) for node, alias, name in self.imports}
        #: modules whose names are all imported
        self._stars = [str(node.module) for node, _, name in self.imports if name == "*" and not node.level]  # type: ignore[union-attr]
        self._of_kinds: dict[tuple[type[ast.AST], ...], list[Any]] = {}
        self._texts: dict[int, str] = {}
        #: what the script defines at its top
        self.defined = {one.name: one for one in self.tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))}

    # ------------------------------------------------------------------ what there is

    def nodes_of(self, *kinds: type[_Node]) -> list[_Node]:
        """All nodes of some kinds, from the outside in."""
        if kinds not in self._of_kinds:
            self._of_kinds[kinds] = [node for node in self.nodes if isinstance(node, kinds)]
        return self._of_kinds[kinds]

    @functools.cached_property
    def _named(self) -> dict[str, list[ast.Name]]:
        found: dict[str, list[ast.Name]] = {}
        for node in self.nodes_of(ast.Name):
            found.setdefault(node.id, []).append(node)
        return found

    # ------------------------------------------------------------------ what names mean

    def origin(self, node: ast.AST) -> str | None:
        """The full name of what an expression names by an import, e.g. ``"delira.training.Parameters"``."""
        if isinstance(node, ast.Attribute):
            home = self.origin(node.value)
            return None if home is None else f"{home}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        if node in self.scopes:
            bindings = self.scopes.bindings(node)
            found = [one for one in bindings if one.imported]
            before = [one for one in found if one.is_before(node)]
            if not found:
                return None if bindings else self._by_star(node.id)
            statement, alias = (before or found)[-1].imported  # type: ignore[misc]
        elif node.id in self.imported:
            statement, alias = self.imported[node.id]
        else:
            return None
        if isinstance(statement, ast.ImportFrom):
            return None if statement.level else f"{statement.module}.{alias.name}"
        return alias.name if alias.asname else node.id

    def _by_star(self, name: str) -> str | None:
        """The full name of what an import of all names of a module gives."""
        for module in reversed(self._stars):
            if name in names_of(module):
                return f"{module}.{name}"
            if module.partition(".")[0] not in OLD:  # which may have it, too
                return None
        return None

    def by_star(self) -> dict[str, list[ast.Name]]:
        """Full names of what imports of all names give, and where they are used."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.nodes_of(ast.Name) if self._stars else ():
            if not self.scopes.bindings(node) and (full := self._by_star(node.id)) is not None:
                found.setdefault(full, []).append(node)
        return found

    def old_name(self, node: ast.AST) -> str | None:
        """The last part of the full name, if it is one of the older libraries: ``"Parameters"``."""
        origin = self.origin(node)
        if origin is None or origin.partition(".")[0] not in OLD:
            return None
        return origin.rpartition(".")[2]

    def value(self, node: ast.AST | None, is_sure: bool = True) -> ast.AST | None:
        """The expression that a name stands for; any other expression is its own.

        Parameters
        ----------
        node
            The name.
        is_sure
            Whether a name that may have got something else on the way to where it stands is its own, too; else it
            is what it got last in the order of the text.
        """
        seen: set[int] = set()
        while True:
            binding = self.binding(node, is_sure)
            is_alone = not is_sure or (isinstance(node, ast.Name) and binding is not None and binding.part is None)
            if isinstance(node, ast.NamedExpr) and not is_sure:
                node = node.value
            elif binding is not None and binding.value is not None and id(binding) not in seen and is_alone:
                seen.add(id(binding))
                node = binding.value
            else:
                return node

    def last_value(self, node: ast.AST | None) -> ast.AST | None:
        """The expression that a name got last in the order of the text, on whatever way that is reached."""
        return self.value(node, is_sure=False)

    def binding(self, node: ast.AST | None, is_sure: bool = False) -> Binding | None:
        """Where a name got what it is, as far as the script tells."""
        found = self.scopes.binding(node)
        is_known = node is None or found is None or not is_sure or self.scopes.is_sure(node, found)
        return found if is_known else None

    def calls(self, *names: str) -> list[ast.Call]:
        """Calls of functions and classes of older libraries, by the last part of their names."""
        return [one for one in self.nodes_of(ast.Call) if self.old_name(one.func) in names]

    def uses(self, name: str) -> list[ast.Name]:
        """Where a name is read."""
        return self._named.get(name, [])

    def is_tried(self, statement: ast.AST) -> bool:
        """Whether an import may fail: within ``try`` with an ``except``."""
        tried = [one for one in self.above(statement, ast.Try) if isinstance(one, ast.Try) and one.handlers]
        return any(statement in ast.walk(part) for one in tried for part in one.body)

    def above(self, node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """The nodes of some kinds around one, from the inside out."""
        return self.scopes.above(node, *kinds)

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
        if node not in self.scopes:
            return self.text[self.start(node) : self.end(node)]
        if id(node) not in self._texts:
            self._texts[id(node)] = self.text[self.start(node) : self.end(node)]
        return self._texts[id(node)]

    def replaced(self, node: ast.AST, text: str) -> Edit:
        """The change of a node into something else."""
        return Edit(self.start(node), self.end(node), text)

    def with_keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """The change that gives a call one more argument by its name, or another value of it."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return self.replaced(keyword.value, value)
        return self.with_part(call, f"{name}={value}")

    def with_part(self, node: ast.Call | ast.Dict, text: str) -> Edit:
        """The change that gives a call one more argument, or a dictionary one more entry, behind all others."""
        parts = node.values if isinstance(node, ast.Dict) else [*node.args, *node.keywords]
        start = self.start(node) if isinstance(node, ast.Dict) else self.text.index("(", self.end(node.func))
        place = max(map(self.end, parts), default=start + 1)
        comma, end = ", " if parts else "", place
        # what a part may stand in, and a comma at the end, are no part of it
        for found in re.finditer(r"#[^\n]*|[,)]", self.text[place : self.end(node) - 1]) if parts else ():
            if not found[0].startswith("#"):
                comma, end = (" " if found[0] == "," else ", "), place + found.end()
        return Edit(end, end, f"{comma}{text}")

    def without_keyword(self, call: ast.Call, name: str) -> Edit:
        """The change that takes an argument away from a call, with the comma beside it."""
        keyword = next(one for one in call.keywords if one.arg == name)
        return self.without_part(call, self.start(keyword), self.end(keyword))

    def without_part(self, node: ast.Call | ast.Dict, start: int, end: int) -> Edit:
        """The change that takes an argument of a call, or an entry of a dictionary, away, and no comment."""
        parts = node.values if isinstance(node, ast.Dict) else [*node.args, *node.keywords]
        before = max((place for place in map(self.end, parts) if place <= start), default=start)
        comma = next((one.start() for one in _COMMA.finditer(self.text, before, start) if one[0] == ","), None)
        if comma is not None and "#" not in self.text[comma:start]:
            return Edit(comma, end, "")
        after = re.compile(r"[\s\\]*,[ \t]*").match(self.text, end)
        end = after.end() if after else end
        line = self._starts[self.line_at(start) - 1]
        rest = re.compile(r"[ \t]*\r?\n").match(self.text, end)
        if rest and not self.text[line:start].strip():
            return Edit(line, rest.end(), "")
        return Edit(start, end, "")

    def without(self, statement: ast.AST) -> Edit:
        """The change that takes a statement away, with its line if it is alone there."""
        start, end = self.start(statement), self.end(statement)
        line, after = self._starts[self.line_at(start) - 1], self._starts[min(self.line_at(end), len(self._starts) - 1)]
        block = next(
            part
            for part in vars(next(self.above(statement, ast.AST))).values()
            if isinstance(part, list) and statement in part
        )
        if len(block) == 1 or self.text[line:start].strip() or re.match(r"[ \t]*[^\s#]", self.text[end:after]):
            return Edit(start, end, "pass")
        return Edit(line, after, "")

    def before(self, statement: ast.AST, *lines: str) -> Edit:
        """The change that puts lines before a statement, as far to the right as it stands."""
        start = self.start(statement)
        indent = self.text[self._starts[self.line_at(start) - 1] : start]
        if indent.strip():  # the line of an if, or of a statement before
            return Edit(start, start, "".join(f"{line}; " for line in lines))
        return Edit(start, start, "\n".join([lines[0], *(f"{indent}{line}".rstrip() for line in lines[1:]), indent]))

    def at_top(self, text: str) -> Edit:
        """The change that puts a definition behind the imports at the beginning."""
        place = self._starts[self._head()[-1].end_lineno or 0] if self._head() else self._place_of_imports()
        place = min(place, len(self.text))
        gap = "" if not self.text[place:].strip("\r\n") or self.text[place] in "\r\n" else "\n\n"
        return Edit(place, place, f"\n\n{text}\n{gap}")

    def changed(self, findings: Iterable[Finding]) -> str:
        """The text after the changes of findings; of two changes of the same place the first is made."""
        made: list[Finding] = []
        edits: list[Edit] = []  # in the order of the text
        for finding in findings:
            if not any(one.meets(other) for one in finding.edits for other in _beside(edits, one)):
                made.append(finding)
                for edit in finding.edits:
                    if edit not in _beside(edits, edit):
                        bisect.insort(edits, edit)
        try:
            after = Script(_applied(self.text, edits), self.name)
        except ConfigError:  # what was meant as a change makes no Python, and is left to the user
            good = [one for one in made if made[1:] and self._is_python(one.edits)]
            return self.changed(good) if len(good) < len(made) else self.text
        lines = dict.fromkeys(line for finding in made for line in finding.imports)
        drops = {name for finding in made for name in finding.drops}
        return _applied(after.text, after._edits_of_imports([*lines], drops - after._names_left()))

    def _names_left(self, edits: Iterable[Edit] = ()) -> set[str]:
        """Names that a script uses, and does not define, once changes are made."""
        spans, texts = [(edit.start, edit.end) for edit in edits], [edit.text for edit in edits]
        words = {word for text in texts for word in re.findall(r"\w+", text)}
        defined = {name for text in texts for name in re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE)}
        stay = {
            name
            for name, nodes in self._named.items()
            if not edits or not all(any(a <= self.start(one) < b for a, b in spans) for one in nodes)
        }
        return (words | stay) - {*self.defined} - defined

    def _edits_of_imports(self, lines: list[str], unused: set[str]) -> list[Edit]:
        """The changes that add import statements, and take away names that nothing uses any more."""
        there = (
            {(ast.unparse(import_of(statement, [alias]))) for statement, alias, _ in self.imports} if lines else set()
        )
        lines = sorted({*lines} - there, key=lambda line: (line.startswith("from"), line.lower()))
        edits = []
        for statement in {id(one): one for one, _, name in self.imports if name in unused}.values():
            gone = [alias for one, alias, name in self.imports if one is statement and name in unused]
            kept = [alias for alias in statement.names if alias not in gone]
            own_lines = [self._own_line(alias) for alias in gone]
            if kept and None not in own_lines and "(" in self.of(statement):
                edits += [edit for edit in own_lines if edit is not None]
                continue
            added, lines = (lines, []) if statement in self._head() else ([], lines)
            of_same = f"from {getattr(statement, 'module', None)} import "
            kept += [ast.alias(line.removeprefix(of_same)) for line in added if line.startswith(of_same)]
            stay = [_unparsed(statement, kept)] if kept else []
            edit = self.replaced(
                statement, "\n".join([*stay, *(line for line in added if not line.startswith(of_same))])
            )
            edits.append(edit if edit.text else self.without(statement))
        if lines:
            place = self._place_of_imports()
            edits.append(Edit(place, place, "".join(f"{line}\n" for line in lines)))
        return edits

    def _own_line(self, alias: ast.alias) -> Edit | None:
        """The change that takes away the line of a name that is imported there alone."""
        start, end = self._starts[alias.lineno - 1], self._starts[alias.lineno]
        is_alone = re.fullmatch(r"[ \t]*,?[ \t]*(#.*)?\r?\n", self.text[self.end(alias) : end])
        return None if self.text[start : self.start(alias)].strip() or not is_alone else Edit(start, end, "")

    def _head(self) -> list[ast.stmt]:
        """The import statements at the beginning, where only text stands before."""
        body = [node for node in self.tree.body if not _is_text(node)]
        return [*itertools.takewhile(lambda node: isinstance(node, (ast.Import, ast.ImportFrom)), body)]

    def _place_of_imports(self) -> int:
        """Where an import may stand: before the first statement that is no text and no import from the future."""
        for node in self.tree.body:
            if not _is_text(node) and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
                return self._starts[first - 1]
        return len(self.text)

    def shown(self, finding: Finding) -> list[str]:
        """The lines that the change of one finding takes away and adds, marked by ``-`` and ``+``."""
        edits = [*dict.fromkeys(finding.edits)]
        if not self._is_python(edits):
            return []
        if finding.drops or finding.imports:
            unused = {*finding.drops} - self._names_left(edits)
            edits += self._edits_of_imports([*dict.fromkeys(finding.imports)], unused)
        if any(one.meets(other) for one, other in itertools.combinations(edits, 2)):
            pairs = [(self.text, self.changed([finding]))]
        else:
            pairs = self._pairs(edits, self._lines_of)
        lines = [(old.splitlines(), new.splitlines()) for old, new in pairs]
        return [line for pair in lines for line in difflib.ndiff(*pair) if line.startswith(("- ", "+ "))]

    def _pairs(self, edits: Iterable[Edit], span: Callable[[Edit], tuple[int, int]]) -> list[tuple[str, str]]:
        """The parts of the text that changes touch, before and after."""
        found: list[tuple[int, int, list[Edit]]] = []
        for edit in sorted(edits):
            start, end = span(edit)
            some = [edit]
            if found and start < found[-1][1]:
                start, before, others = found.pop()
                end, some = max(before, end), [*others, edit]
            found.append((start, end, some))
        return [
            (self.text[start:end], _applied(self.text[start:end], [edit.moved(-start) for edit in some]))
            for start, end, some in found
        ]

    def _lines_of(self, edit: Edit) -> tuple[int, int]:
        """Where the lines of a change begin and end."""
        last = self.line_at(max(edit.start, edit.end - 1))
        return self._starts[self.line_at(edit.start) - 1], self._starts[min(last, len(self._starts) - 1)]

    def _statements_of(self, edit: Edit) -> tuple[int, int]:
        """Where the statements of the module, of which a change is a part, begin and end."""
        start, end = self._lines_of(edit)
        for one in self._tops[bisect.bisect_left(self._tops, (0, edit.start), key=lambda top: (0, top[1])) :]:
            if one[0] > edit.end:
                break
            start, end = min(start, one[0]), max(end, one[1])
        return start, end

    @functools.cached_property
    def _tops(self) -> list[tuple[int, int]]:
        """Where the lines of each statement of the module begin and end."""
        firsts = [
            min([one.lineno, *(each.lineno for each in getattr(one, "decorator_list", ()))]) for one in self.tree.body
        ]
        lasts = [one.end_lineno or one.lineno for one in self.tree.body]
        return [(self._starts[first - 1], self._starts[last]) for first, last in zip(firsts, lasts, strict=True)]

    def _is_python(self, edits: Iterable[Edit]) -> bool:
        """Whether the text is Python after changes."""
        edits = [*edits]
        return all(map(_is_parsed, (new for _, new in self._pairs(edits, self._statements_of)))) or _is_parsed(
            _applied(self.text, edits).removeprefix(_MARK)
        )

    def line_at(self, offset: int) -> int:
        """The number of the line, from 1, in which a character is."""
        return bisect.bisect_right(self._starts, offset)


def _applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after changes of places that do not overlap, with the ends of lines that it has."""
    end = "\r\n" if "\r\n" in text else "\n"
    parts, place = [], 0
    for edit in sorted(edits):
        parts += [text[place : edit.start], re.sub("\r?\n", end, edit.text)]
        place = edit.end
    return "".join([*parts, text[place:]])


def _beside(edits: Sequence[Edit], edit: Edit) -> Sequence[Edit]:
    """Those of some changes, which are in the order of the text, that may be of the place of another one."""
    number = bisect.bisect_left(edits, edit)
    after = bisect.bisect_left(edits, (edit.end + 1,), number)
    return edits[max(number - 2, 0) : after + 1]


def _is_parsed(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


@functools.cache
def names_of(module: str) -> frozenset[str]:
    """What ``from … import *`` gives of a module of an older library, no framework imported."""
    if module.partition(".")[0] not in OLD:
        return frozenset()
    names, module = for_old_scripts("names"), today(module)
    shown = [homes.get(module, {}) for homes in (names.MODULES, names.FURTHER)]
    found = {one.partition("=")[0] for homes in shown for text in homes.values() for one in text.split()}
    found |= {name for modules, gone in names.GONE.items() if module in modules for name in gone}
    if module in _PACKAGES:
        found |= {*dir(importlib.import_module(module))}
        found |= {name for of in NAMES.values() for name in of.get(module.removeprefix("delira."), ())}
    return frozenset(name for name in found if not name.startswith("_"))


def today(full: str) -> str:
    """A full name as it is in delira: of torchbearer, or by the module that callbacks had."""
    for old, new in (("torchbearer", "delira"), ("delira.training.callbacks", "delira.callbacks")):
        if full == old or full.startswith(f"{old}."):
            full = new + full.removeprefix(old)
    return full


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def import_of(statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    """An import statement of some of its names."""
    made: ast.stmt = type(statement)(**{**vars(statement), "names": names})
    return made


def _unparsed(statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> str:
    """An import of some of the names of a statement, over as many lines as they need."""
    line = ast.unparse(import_of(statement, names))
    if len(line) <= _LONG or isinstance(statement, ast.Import):
        return line
    indent = " " * statement.col_offset
    rows = "".join(f"{indent}    {ast.unparse(name)},\n" for name in names)
    return f"{line.partition(' import ')[0]} import (\n{rows}{indent})"
