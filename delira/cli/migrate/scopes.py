"""Where the names of a script get their values, by its functions, classes and comprehensions."""

import ast
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: what has names of its own, and is computed where it stands
_WITHIN = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Binding(NamedTuple):
    """One place where a name gets a value."""

    end: tuple[int, int]
    """Line and column from which on it has it."""

    statement: ast.AST | None
    """The statement; none for an argument of a function, which has its value from the beginning."""

    value: ast.expr | None = None
    """The value, if it stands there."""

    imported: tuple[ast.Import | ast.ImportFrom, ast.alias] | None = None


class Scopes:
    """The names of a script: to which function or class each belongs, and what it stands for where it stands."""

    def __init__(self, tree: ast.Module, nodes: Sequence[ast.AST]):
        self.tree, self.nodes = tree, nodes
        self._above = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
        self._of = dict(_scopes(tree))
        self._bound = self._bindings()

    def __contains__(self, node: ast.AST) -> bool:
        """Whether a node is one of the script's, and no other one."""
        return id(node) in self._of

    def above(self, node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """The nodes of some kinds around one, from the inside out."""
        while (found := self._above.get(id(node))) is not None:
            if isinstance(found, kinds):
                yield found
            node = found

    def bindings(self, node: ast.Name) -> tuple[ast.AST, list[Binding]]:
        """The scope to which a name belongs where it stands, and where it gets values there."""
        scope = self._of.get(id(node), self.tree)
        is_own = True
        while True:
            bindings = self._bound.get((id(scope), node.id), [])
            if scope is self.tree or (bindings and (is_own or not isinstance(scope, ast.ClassDef))):
                return scope, bindings
            is_own, scope = is_own and isinstance(scope, _WITHIN), self._of[id(scope)]

    def assigned(self, node: ast.Name) -> ast.expr | None:
        """The value that a name got last before it stands somewhere; none if that is not clear."""
        scope, bindings = self.bindings(node)
        if id(node) not in self._of or not bindings[1:]:
            return bindings[-1].value if bindings else None
        own = self._of[id(node)]
        while isinstance(own, _WITHIN) and own is not scope:
            own = self._of[id(own)]
        place = node.lineno, node.col_offset
        before = [one for one in bindings if one.end <= place]
        if own is not scope or not before or not self._is_decided(node, scope, before[-1]):
            return None
        for loop in self.above(node, ast.For, ast.AsyncFor, ast.While):  # the round before may have changed it
            if loop is scope or before[-1].statement in self._blocks(loop):
                break
            if any(one.end > place and one.statement in self._blocks(loop) for one in bindings):
                return None
        return before[-1].value

    def _blocks(self, node: ast.AST) -> set[ast.AST]:
        return {one for one in ast.walk(node) if isinstance(one, ast.stmt) and one is not node}

    def _is_decided(self, node: ast.AST, scope: ast.AST, binding: Binding) -> bool:
        """Whether a name has the value of a binding before it on every way that leads to where it stands."""
        statement = binding.statement
        if statement is None or (above := self._above.get(id(statement))) is None:
            return True
        while isinstance(above, (ast.With, ast.AsyncWith)) and above is not scope:
            statement, above = above, self._above[id(above)]
        if above is scope:
            return True
        below = next(
            (one for one in itertools.chain([node], self.above(node, ast.AST)) if self._above.get(id(one)) is above),
            None,
        )
        return any(isinstance(part, list) and statement in part and below in part for part in vars(above).values())

    def _bindings(self) -> dict[tuple[int, str], list[Binding]]:
        """Scope and name -> where it gets a value, in the order of the text."""
        found: dict[tuple[int, str], list[Binding]] = {}
        elsewhere = {
            (id(self._of[id(one)]), name): self._of[id(self._of[id(one)])]
            if isinstance(one, ast.Nonlocal)
            else self.tree
            for one in self.nodes
            if isinstance(one, (ast.Global, ast.Nonlocal))
            for name in one.names
        }
        for node in self.nodes:
            for name, binding in self._bound_by(node):
                scope = self._of[id(node)]
                while isinstance(self._above[id(node)], ast.NamedExpr) and isinstance(scope, _WITHIN):
                    scope = self._of[id(scope)]
                scope = elsewhere.get((id(scope), name), scope)
                found.setdefault((id(scope), name), []).append(binding)
        for bindings in found.values():
            bindings.sort(key=lambda binding: binding.end)
        return found

    def _bound_by(self, node: ast.AST) -> Iterator[tuple[str, Binding]]:
        """The names that a node gives a value."""
        if isinstance(node, ast.arg):
            yield node.arg, Binding((node.lineno, node.col_offset), None)
            return
        if not isinstance(node, (ast.Name, ast.stmt, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            return
        end = node.end_lineno or 0, node.end_col_offset or 0
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], Binding(end, node, None, (node, alias))
        elif isinstance(node, ast.Name):
            above = self._above[id(node)]
            is_value = isinstance(above, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
            if isinstance(node.ctx, ast.Load) or (isinstance(above, ast.AnnAssign) and above.value is None):
                return
            if is_value:
                end = above.end_lineno or 0, above.end_col_offset or 0  # type: ignore[attr-defined]
            statement = next(self.above(node, ast.stmt), None)
            yield node.id, Binding(end, statement, above.value if is_value else None)  # type: ignore[attr-defined]
        elif isinstance(name := getattr(node, "name", None), str):
            is_block = isinstance(node, ast.stmt)
            yield name, Binding((node.lineno, node.col_offset), node if is_block else next(self.above(node, ast.stmt)))


def _scopes(tree: ast.Module) -> Iterator[tuple[int, ast.AST]]:
    """Each node, by its id, with the module, class, function or comprehension whose names it reads and sets."""
    left: list[tuple[ast.AST, ast.AST]] = [(one, tree) for one in tree.body]
    while left:
        node, scope = left.pop()
        yield id(node), scope
        outside: list[ast.AST] = []  # what is computed before there is the scope
        if isinstance(node, _FUNCTIONS):
            outside = [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
        elif isinstance(node, ast.ClassDef):
            outside = [*node.bases, *node.keywords]
        elif isinstance(node, _WITHIN):
            outside = [node.generators[0].iter]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            outside += node.decorator_list
        is_scope = isinstance(node, (*_FUNCTIONS, ast.ClassDef, *_WITHIN))
        for child in ast.iter_child_nodes(node):
            below = [child]
            if isinstance(child, (ast.arguments, ast.comprehension)):
                yield id(child), node if is_scope else scope
                below = [*ast.iter_child_nodes(child)]
            left += [(one, node if is_scope and one not in outside else scope) for one in below]
