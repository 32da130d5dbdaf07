"""Where the names of a script, and attributes of ``self``, get their values, by its functions and classes."""

import ast
import bisect
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: what has names of its own, and runs when it is called
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: what has names of its own, and is computed where it stands
_WITHIN = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
#: blocks that run whenever what is around them does
_ONCE = (ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)
#: the module, class, function or comprehension in which a name gets its values, by its id, and the name
Place = tuple[int, str]


class Binding(NamedTuple):
    """One place where a name gets a value."""

    end: tuple[int, int]
    """Line and column from which on it has it."""

    statement: ast.AST | None
    """The statement; none for an argument of a function, which has its value from the beginning."""

    value: ast.AST | None = None
    """The value, or the function or class, if it stands there."""

    imported: tuple[ast.Import | ast.ImportFrom, ast.alias] | None = None
    """The import that gives it the value."""

    of: ast.AST | None = None
    """What the value is a part of, or what a loop goes over."""

    part: int | None = None
    """Which part it is; none for a loop."""

    def is_before(self, node: ast.AST) -> bool:
        """Whether a node stands behind it."""
        return self.end <= _start(node)


class Scopes:
    """The names of a script: to which function or class each belongs, and what it stands for where it stands."""

    def __init__(self, tree: ast.Module, nodes: Sequence[ast.AST]):
        self.tree, self.nodes = tree, nodes
        self._above = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
        self._of = dict(_scopes(tree))
        #: where every name gets values, in the order of the text
        self.bound = self._bindings()

    def __contains__(self, node: ast.AST) -> bool:
        """Whether a node is one of the script's, and no other one."""
        return id(node) in self._of

    def above(self, node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """The nodes of some kinds around one, from the inside out."""
        while (found := self._above.get(id(node))) is not None:
            if isinstance(found, kinds):
                yield found
            node = found

    def place(self, node: ast.AST | None) -> Place | None:
        """Where a name gets its values, as Python looks for it; of ``self.x`` the class; none of what is neither."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return id(next(self.above(node, ast.ClassDef), self.tree)), f"self.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        scope, is_own = self._of.get(id(node), self.tree), True
        while scope is not self.tree:
            if (id(scope), node.id) in self.bound and (is_own or not isinstance(scope, ast.ClassDef)):
                break
            is_own, scope = is_own and isinstance(scope, _WITHIN), self._of[id(scope)]
        return id(scope), node.id

    def bindings(self, node: ast.AST | None) -> list[Binding]:
        """Where a name, or an attribute of ``self``, gets values."""
        place = self.place(node)
        return [] if place is None else self.bound.get(place, [])

    def binding(self, node: ast.AST | None) -> Binding | None:
        """What a name was given last before it is read, in the order of the text; none where nobody knows what ran."""
        found, place = self.bindings(node), self.place(node)
        if node is None or place is None or not found[1:] or node not in self:
            return found[-1] if found else None
        own = self._of[id(node)]
        while isinstance(own, (*_WITHIN, ast.ClassDef)) and id(own) != place[0]:  # which runs where it stands
            own = self._of[id(own)]
        if isinstance(node, ast.Attribute):
            found = [one for one in found if one.statement is not None and self._of[id(one.statement)] is own]
        elif id(own) != place[0]:
            return None
        number = bisect.bisect_right(found, _start(node), key=lambda one: one.end)
        return found[number - 1] if number else None

    def is_sure(self, node: ast.AST, binding: Binding) -> bool:
        """Whether a name has the value of a binding on every way that leads to where it stands."""
        found = self.bindings(node)
        if not found[1:] or node not in self:
            return True
        if not self._is_decided(node, binding):
            return False
        for loop in self.above(node, ast.For, ast.AsyncFor, ast.While):  # the round before may have changed it
            if binding.statement in self._blocks(loop):
                break
            if any(not one.is_before(node) and one.statement in self._blocks(loop) for one in found):
                return False
        return True

    @functools.cached_property
    def reads(self) -> dict[int, list[ast.expr]]:
        """Where names are read, by the ids of what they were given."""
        found: dict[int, list[ast.expr]] = {}
        for node in self.nodes:
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                found.setdefault(id(self.binding(node)), []).append(node)
        return found

    def _blocks(self, node: ast.AST) -> set[ast.AST]:
        return {one for one in ast.walk(node) if isinstance(one, ast.stmt) and one is not node}

    def _is_decided(self, node: ast.AST, binding: Binding) -> bool:
        """Whether the statement of a binding is in a block around a node, or runs whenever such a block does."""
        statement = binding.statement
        if statement is None or (above := self._above.get(id(statement))) is None:
            return True
        place = self.place(node)
        # of a loop one round is taken for granted
        while isinstance(above, _ONCE) and statement in above.body:
            statement, above = above, self._above[id(above)]
        if place is not None and id(above) == place[0]:
            return True
        around = itertools.chain([node], self.above(node, ast.AST))
        below = next((one for one in around if self._above.get(id(one)) is above), None)
        return any(isinstance(part, list) and statement in part and below in part for part in vars(above).values())

    def _bindings(self) -> dict[Place, list[Binding]]:
        found: dict[Place, list[Binding]] = {}
        elsewhere = {
            (id(self._of[id(one)]), name): self._of[id(self._of[id(one)])]
            if isinstance(one, ast.Nonlocal)
            else self.tree
            for one in self.nodes
            if isinstance(one, (ast.Global, ast.Nonlocal))
            for name in one.names
        }
        for node in self.nodes:
            for target, binding in self._bound_by(node):
                if isinstance(target, (ast.Subscript, ast.Attribute)):
                    if (place := self.place(target)) is not None:
                        found.setdefault(place, []).append(binding)
                    continue
                name = target.id if isinstance(target, ast.Name) else str(target)
                scope = self._of[id(target if isinstance(target, ast.Name) else node)]
                while isinstance(node, ast.NamedExpr) and isinstance(scope, _WITHIN):
                    scope = self._of[id(scope)]
                scope = elsewhere.get((id(scope), name), scope)
                found.setdefault((id(scope), name), []).append(binding)
        for bindings in found.values():
            bindings.sort(key=lambda binding: binding.end)
        return found

    def _bound_by(self, node: ast.AST) -> Iterator[tuple[ast.AST | str, Binding]]:
        """What a node gives a value: names, and what is no name of the node's own."""
        if isinstance(node, ast.arg):
            yield node.arg, Binding(_start(node), None)
            return
        statement = node if isinstance(node, ast.stmt) else next(self.above(node, ast.stmt), None)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, Binding(_end(node), node, imported=(node, alias))
        elif isinstance(node, (ast.Assign, ast.Delete)):
            for target in node.targets:
                yield from _parts(target, Binding(_end(node), node, getattr(node, "value", None)))
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)) and node.value is not None:
            value = None if isinstance(node, ast.AugAssign) else node.value
            yield node.target, Binding(_end(node), statement, value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            of = node.iter if isinstance(node.target, ast.Name) else None
            yield from _parts(node.target, Binding(_start(node.target), statement, of=of))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from _parts(node.optional_vars, Binding(_start(node.optional_vars), statement))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, Binding(_start(node), node, node)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
            yield node.name, Binding(_start(node), statement)


def _start(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.AST) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _parts(target: ast.AST, binding: Binding) -> Iterator[tuple[ast.AST, Binding]]:
    """The names of a target, ``a, (b, c)``, each with its part of the value."""
    if isinstance(target, ast.Starred):
        target, binding = target.value, Binding(binding.end, binding.statement)
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, binding
        return
    given = binding.value.elts if isinstance(binding.value, (ast.Tuple, ast.List)) else []
    is_beside = len(given) == len(target.elts) and not any(
        isinstance(one, ast.Starred) for one in [*given, *target.elts]
    )
    for number, one in enumerate(target.elts):
        value = given[number] if is_beside else None
        of = None if is_beside else binding.value
        yield from _parts(one, Binding(binding.end, binding.statement, value, None, of, number))


def _scopes(tree: ast.Module) -> Iterator[tuple[int, ast.AST]]:
    """Each node, by its id, with the module, class, function or comprehension whose names it reads and sets."""
    left: list[tuple[ast.AST, ast.AST]] = [(one, tree) for one in tree.body]
    while left:
        node, scope = left.pop()
        yield id(node), scope
        outside: list[ast.AST] = []  # what is computed before there is the scope
        if isinstance(node, FUNCTIONS):
            outside = [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
        elif isinstance(node, ast.ClassDef):
            outside = [*node.bases, *node.keywords]
        elif isinstance(node, _WITHIN):
            outside = [node.generators[0].iter]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            outside += node.decorator_list
        is_scope = isinstance(node, (*FUNCTIONS, ast.ClassDef, *_WITHIN))
        for child in ast.iter_child_nodes(node):
            below = [child]
            if isinstance(child, (ast.arguments, ast.comprehension)):
                yield id(child), node if is_scope else scope
                below = [*ast.iter_child_nodes(child)]
            left += [(one, node if is_scope and one not in outside else scope) for one in below]
