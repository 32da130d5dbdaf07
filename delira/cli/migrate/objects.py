"""What a script makes of the library's classes, and what it tells them: names, calls, settings, and functions."""

import ast
import bisect
import functools
from collections.abc import Iterator
from typing import NamedTuple

from delira.cli.migrate.source import Edit, Script

_OF = ("Base", "Abstract", "PyTorch", "TorchScript", "Tf", "TfEager", "TfGraph", "Sklearn")
EXPERIMENTS = frozenset(f"{name}Experiment" for name in _OF)
TRAINERS = frozenset(f"{name}NetworkTrainer" for name in _OF)
#: by one of them a dictionary is told to hold settings
_OF_SETTINGS = {"optimizer_cls", "losses", "criterions", "val_metrics"}
#: parts of parameters in which settings are
_PARTS = {f"{part}{name}" for part in ("fixed", "variable") for name in ("", "_params", "_training")} | {"training"}
#: what changes a dictionary
_CHANGES = ("update", "setdefault", "pop", "popitem", "clear", "nested_set")
#: methods of a trial that return something else
_RESULTS = ("run", "evaluate", "predict", "state_dict")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, *_COMPREHENSIONS)

Holder = ast.Call | ast.Dict
Function = ast.FunctionDef | ast.Lambda
#: the function or class in which a name is assigned, by its id, and the name
Place = tuple[int, str]


class Binding(NamedTuple):
    """What a name is from one character of the text on."""

    start: int
    """The character."""

    value: ast.AST | None = None
    """What was assigned, or the function or class; None if nobody knows."""

    of: ast.AST | None = None
    """What it is a part of, or what a loop goes over."""

    part: int | None = None
    """Which part it is; None for a loop."""


def text_of(node: ast.AST | None) -> str:
    """A text that is written down; empty if it is none."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def items(node: ast.AST | None) -> dict[str, ast.expr]:
    """What a dictionary that is written down holds; nothing if it is none."""
    pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    return {text_of(key): value for key, value in pairs if text_of(key)}


def all_items(script: Script, node: ast.AST) -> dict[str, ast.expr] | None:
    """What a dictionary holds, with what is put into it by ``**``; None if that is not known."""
    value, found = value_of(script, node), {}
    if not isinstance(value, ast.Dict):
        return None
    for key, one in zip(value.keys, value.values, strict=True):
        more = {text_of(key): one} if key is not None else all_items(script, one)
        if more is None or "" in more:
            return None
        found.update(more)
    return found


def entry(holder: Holder, name: str, position: int = 99) -> ast.expr | None:
    """What a dictionary or a call has under a name, or a call at a place."""
    if isinstance(holder, ast.Dict):
        return items(holder).get(name)
    named = next((keyword.value for keyword in holder.keywords if keyword.arg == name), None)
    has_place = position < len(holder.args) and not any(isinstance(one, ast.Starred) for one in holder.args)
    return holder.args[position] if named is None and has_place else named


def with_entry(script: Script, holder: Holder, name: str, value: str) -> Edit:
    """The change that gives a dictionary or a call one more entry."""
    return script.with_part(holder, f"{name}={value}" if isinstance(holder, ast.Call) else f'"{name}": {value}')


def last_name(script: Script, node: ast.AST) -> str:
    """What stands behind the last dot of an expression."""
    return node.attr if isinstance(node, ast.Attribute) else script.of(node).rpartition(".")[2]


# ------------------------------------------------------------------ names, and where they are assigned


def place_of(script: Script, node: ast.AST | None) -> Place | None:
    """Where a name is assigned, as Python looks for it; of ``self.x`` the class."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return id(next(script.above(node, ast.ClassDef), None)), f"self.{node.attr}"
    return _place(script, node, node.id) if isinstance(node, ast.Name) else None


def _place(script: Script, node: ast.AST, name: str) -> Place:
    names = _names(script)
    for number, scope in enumerate(script.above(node, *_SCOPES)):
        if name in names.get(id(scope), ()) and not (number and isinstance(scope, ast.ClassDef)):
            return id(scope), name
    return 0, name


@functools.lru_cache(maxsize=8)
def _names(script: Script) -> dict[int, set[str]]:
    """The names that functions, classes and comprehensions assign, by their ids."""
    found: dict[int, set[str]] = {}
    elsewhere: list[tuple[int, list[str]]] = []
    for node in script.nodes:
        name = getattr(node, "name", None)
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            elsewhere.append((id(next(script.above(node, *_SCOPES), None)), node.names))
        elif isinstance(node, ast.Name):
            name = node.id if isinstance(node.ctx, ast.Store) else None
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.alias):
            name = node.asname or node.name.partition(".")[0]
        if name is not None:
            found.setdefault(id(next(script.above(node, *_SCOPES), None)), set()).add(name)
    for scope, names in elsewhere:
        found.get(scope, set()).difference_update(names)
    return found


@functools.lru_cache(maxsize=8)
def bindings(script: Script) -> dict[Place, list[Binding]]:
    """What every name is, in the order of the text."""
    found: dict[Place, list[Binding]] = {}
    for node in script.nodes:
        for target, binding in _assigned(script, node):
            if (place := place_of(script, target)) is not None:
                found.setdefault(place, []).append(binding)
        if isinstance(node, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            is_argument = isinstance(node, ast.arg)
            place = _place(script, node, node.arg if isinstance(node, ast.arg) else node.name)
            found.setdefault(place, []).append(Binding(script.start(node), None if is_argument else node))
    for each in found.values():
        each.sort(key=lambda one: one.start)
    return found


def _assigned(script: Script, node: ast.AST) -> Iterator[tuple[ast.AST, Binding]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _parts(target, Binding(script.end(node), node.value))
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, Binding(script.end(node), node.value)
    elif isinstance(node, ast.AugAssign):
        yield node.target, Binding(script.end(node))
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        of_loop = Binding(script.start(node.target), None, node.iter)
        yield from _parts(node.target, of_loop if isinstance(node.target, ast.Name) else Binding(of_loop.start))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _parts(node.optional_vars, Binding(script.start(node.optional_vars)))


def _parts(target: ast.AST, binding: Binding) -> Iterator[tuple[ast.AST, Binding]]:
    if isinstance(target, ast.Starred):
        target, binding = target.value, Binding(binding.start)
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, binding
        return
    given = binding.value.elts if isinstance(binding.value, (ast.Tuple, ast.List)) else []
    is_beside = len(given) == len(target.elts) and not any(
        isinstance(one, ast.Starred) for one in [*given, *target.elts]
    )
    for number, one in enumerate(target.elts):
        value = given[number] if is_beside else None
        yield from _parts(one, Binding(binding.start, value, None if is_beside else binding.value, number))


def binding_of(script: Script, node: ast.AST | None) -> Binding | None:
    """What a name was given last before it is read; None where several may have been."""
    place = place_of(script, node)
    found = bindings(script).get(place, []) if place is not None else []
    if node is None or place is None or not found:
        return None
    function = scope_of(script, node)
    if place[0] in ({id(function), id(scope_of(script, node, *_SCOPES))} if function is not None else {0}):
        number = bisect.bisect_right(found, script.start(node), key=lambda one: one.start)
        if number:
            return found[number - 1]
    elif place[1].startswith("self."):
        here = [
            one for one in found if function is not None and script.start(function) <= one.start <= script.start(node)
        ]
        if here:
            return here[-1]
    return found[0] if len(found) == 1 else None


def sure_binding(script: Script, node: ast.AST | None) -> Binding | None:
    """What a name was given last, unless that was in a branch and it was something else before."""
    binding, place = binding_of(script, node), place_of(script, node)
    given = None if binding is None else binding.value or binding.of
    if node is None or given is None or place is None or len(bindings(script)[place]) == 1:
        return binding
    branches = script.above(given, ast.If, ast.IfExp, ast.Try, ast.Match)
    return binding if all(is_within(script, node, one) for one in branches) else None


def value_of(script: Script, node: ast.AST | None) -> ast.AST | None:
    """The expression that a name stands for; any other expression is its own."""
    seen: set[int] = set()
    while True:
        binding = binding_of(script, node)
        if isinstance(node, ast.NamedExpr):
            node = node.value
        elif binding is not None and binding.value is not None and id(binding) not in seen:
            seen.add(id(binding))
            node = binding.value
        else:
            return node


@functools.lru_cache(maxsize=8)
def reads(script: Script) -> dict[int, list[ast.expr]]:
    """Where names are read, by the ids of what they were given."""
    found: dict[int, list[ast.expr]] = {}
    for node in script.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            found.setdefault(id(binding_of(script, node)), []).append(node)
    return found


def root_of(script: Script, node: ast.AST) -> ast.AST:
    """The name of what is indexed, or whose attribute it is."""
    while isinstance(node, (ast.Subscript, ast.Attribute)) and place_of(script, node) is None:
        node = node.value
    return node


@functools.lru_cache(maxsize=8)
def _changed(script: Script) -> set[Place | None]:
    """Names of what gets other entries or attributes after it was made."""
    found = set()
    for node in script.nodes:
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            found.add(None if place_of(script, node) else place_of(script, root_of(script, node)))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            found.add(place_of(script, root_of(script, node.func.value)))
    return found - {None}


# ------------------------------------------------------------------ settings


def settings_of(script: Script, maker: ast.Call, runs: list[ast.Call]) -> list[Holder] | None:
    """What holds the settings of an experiment or a trainer; None if that is not known."""
    found: list[Holder] = [maker, *runs]
    left = [keyword.value for call in (maker, *runs) for keyword in call.keywords if keyword.arg is None]
    if any(isinstance(one, ast.Starred) for call in (maker, *runs) for one in call.args):
        return None
    if kinds_of(script, maker.func) & EXPERIMENTS:
        given = [entry(maker, "params", 0) or entry(maker, "config")]
        given += [entry(run, "params", 2) for run in runs if last_name(script, run.func) == "run"]
        left += [one for one in given if one is not None]
        if given[0] is None:
            return None
    elif len(maker.args) > 6:
        return None
    seen: set[int] = set()
    while left:
        node = left.pop()
        value = value_of(script, node)
        if place_of(script, node) in _changed(script):
            return None
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            left += [one for key, one in pairs if key is None or text_of(key) in _PARTS]
        elif isinstance(value, ast.Call) and _makes_settings(script, value):
            parts = [one.value for one in value.keywords if one.arg is None or one.arg in _PARTS]
            left += [*value.args, *parts]
        elif not (isinstance(value, ast.Constant) and value.value is None):
            return None
        if isinstance(value, Holder):
            found.append(value)
    return found


def _makes_settings(script: Script, call: ast.Call) -> bool:
    is_dict = isinstance(call.func, ast.Name) and call.func.id == "dict"
    return is_dict or script.old_name(call.func) in ("Parameters", "DeliraConfig")


def told(holders: list[Holder], *names: str) -> ast.expr | None:
    """The first of some settings that is given."""
    given = (entry(holder, name) for name in names for holder in holders)
    return next((one for one in given if one is not None), None)


def told_items(script: Script, holders: list[Holder], *names: str) -> dict[str, ast.expr] | None:
    """What settings that are dictionaries hold, all together; None if that is not known."""
    found: dict[str, ast.expr] = {}
    for name in names:
        for holder in holders:
            value = entry(holder, name)
            more = {} if value is None else all_items(script, value)
            if more is None:
                return None
            found.update(more)
    return found


@functools.lru_cache(maxsize=8)
def _holders(script: Script) -> list[Holder]:
    found: list[Holder] = [
        one for one in script.nodes if isinstance(one, ast.Dict) and _OF_SETTINGS & items(one).keys()
    ]
    return [*found, *made(script, EXPERIMENTS | TRAINERS)]


def settings(script: Script, *names: str) -> Iterator[tuple[Holder, ast.expr]]:
    """Values of settings anywhere in a script, with the dictionaries and calls that hold them."""
    for holder in _holders(script):
        for name in names:
            if (value := entry(holder, name)) is not None:
                yield holder, value


# ------------------------------------------------------------------ objects and functions


@functools.lru_cache(maxsize=8)
def calls(script: Script) -> list[ast.Call]:
    """All calls of a script."""
    return [one for one in script.nodes if isinstance(one, ast.Call)]


@functools.lru_cache(maxsize=8)
def _classes(script: Script) -> dict[str, ast.ClassDef]:
    return {one.name: one for one in script.nodes if isinstance(one, ast.ClassDef)}


def family(script: Script, name: ast.AST) -> list[ast.ClassDef]:
    """The class of the script that has a name, and those of the script from which it derives."""
    found: list[ast.ClassDef] = []
    left = [name]
    while left:
        one = left.pop(0)
        cls = _classes(script).get(one.id) if isinstance(one, ast.Name) else None
        if cls is not None and cls not in found:
            found.append(cls)
            left += cls.bases
    return found


def kinds_of(script: Script, name: ast.AST) -> set[str | None]:
    """Names of the classes of older libraries that a class is, or from which it derives."""
    bases = [base for cls in family(script, name) for base in cls.bases]
    return {script.old_name(one) for one in [name, *bases]}


def own_method(script: Script, name: ast.AST, *methods: str) -> ast.FunctionDef | None:
    """The first of some methods that a class of the script, or one from which it derives, defines."""
    parts = [part for cls in family(script, name) for part in cls.body]
    return next((one for one in parts if isinstance(one, ast.FunctionDef) and one.name in methods), None)


@functools.lru_cache(maxsize=8)
def made(script: Script, kinds: frozenset[str]) -> list[ast.Call]:
    """Calls that make objects of some classes, or of classes of the script that derive from them."""
    return [one for one in calls(script) if kinds_of(script, one.func) & kinds]


@functools.lru_cache(maxsize=32)
def called(script: Script, kinds: frozenset[str], *methods: str) -> list[tuple[ast.Call, ast.Call]]:
    """Calls of the library's methods, with the call that made the object, by lines."""
    makers, found = {id(one) for one in made(script, kinds)}, []
    for call in calls(script):
        if isinstance(call.func, ast.Attribute) and call.func.attr in methods:
            maker = value_of(script, call.func.value)
            is_own = isinstance(maker, ast.Call) and own_method(script, maker.func, call.func.attr) is not None
            if isinstance(maker, ast.Call) and id(maker) in makers and not is_own:
                found.append((call, maker))
    return sorted(found, key=lambda pair: script.start(pair[0]))


@functools.lru_cache(maxsize=8)
def with_runs(script: Script) -> list[tuple[ast.Call, list[ast.Call]]]:
    """Experiments, and the calls that train."""
    runs: dict[int, list[ast.Call]] = {}
    for call, maker in called(script, EXPERIMENTS, "run", "resume", "kfold"):
        runs.setdefault(id(maker), []).append(call)
    return [(maker, runs.get(id(maker), [])) for maker in made(script, EXPERIMENTS)]


def takes_settings(script: Script, maker: ast.Call) -> bool:
    """Whether a call that makes an object may get one more setting by its name."""
    begin = own_method(script, maker.func, "__init__")
    return begin is None or begin.args.kwarg is not None


def tested_metrics(script: Script) -> list[tuple[Holder, ast.expr, dict[str, ast.expr]]]:
    """What has metrics that are computed of arrays, how they are given, and the metrics by name."""
    pairs = list(settings(script, "val_metrics"))
    for call, _ in called(script, EXPERIMENTS, "kfold", "test"):
        metrics = entry(call, "metrics", 1 if last_name(script, call.func) == "kfold" else 2)
        pairs += [] if metrics is None else [(call, metrics)]
    return [(holder, value, all_items(script, value) or items(value_of(script, value))) for holder, value in pairs]


def function_of(script: Script, node: ast.AST) -> Function | None:
    """A function that the script writes down, also one within ``per_sample``."""
    if isinstance(node, ast.Call) and script.old_name(node.func) == "per_sample" and node.args:
        node = node.args[0]
    value = value_of(script, node)
    return value if isinstance(value, Function) else None


def tells_apart(node: ast.AST, names: set[str]) -> bool:
    """Whether it matters which of two names is which; it does not in ``abs(a - b)``, ``(a - b) ** 2``, ``a == b``."""
    if isinstance(node, ast.Name):
        return node.id in names
    pair: list[ast.AST] = []
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        pair = [node.left, *node.comparators]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        pair = [node.left, node.right]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        is_even = isinstance(node.right, ast.Constant) and node.right.value in (2, 4)
        pair = _difference(node.left) if is_even else []
    elif isinstance(node, ast.Call) and len(node.args) < 2:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of = node.args[0] if node.args else getattr(node.func, "value", node.func)
        pair = _difference(of) if name in ("abs", "absolute", "fabs", "square") else []
    if len(pair) == 2 and {getattr(one, "id", None) for one in pair} == names:
        return False
    return any(tells_apart(child, names) for child in ast.iter_child_nodes(node))


def _difference(node: ast.AST) -> list[ast.AST]:
    return [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else []


@functools.lru_cache(maxsize=8)
def is_of_05(script: Script) -> bool:
    """Whether a script has names that came with 0.5."""
    names = [ast.Name(name) for name in script.imported]
    told_by = [*names, *(one for one in script.nodes if isinstance(one, ast.Attribute))]
    return any(script.old_name(one) in ("DataManager", "DeliraConfig") for one in told_by)


def import_of(script: Script, module: str, name: str) -> tuple[str, list[str]]:
    """What the script calls something, and the import that it lacks for that."""
    own = next((one for one in script.imported if script.old_name(ast.Name(one)) == name), None)
    return (own, []) if own else (name, [f"from {module} import {name}"])


# ------------------------------------------------------------------ trials


def trial_of(script: Script, node: ast.AST) -> ast.Call | None:
    """The call that made the trial that an expression is."""
    seen: set[int] = set()
    found = value_of(script, node)
    while isinstance(found, ast.Call) and id(found) not in seen:
        seen.add(id(found))
        if script.old_name(found.func) == "Trial":
            return found
        is_same = isinstance(found.func, ast.Attribute) and found.func.attr not in _RESULTS
        found = value_of(script, found.func.value) if isinstance(found.func, ast.Attribute) and is_same else None
    return None


@functools.lru_cache(maxsize=32)
def trial_calls(script: Script, *methods: str) -> list[tuple[ast.Call, ast.Call]]:
    """Calls of methods of trials, with the calls that made the trials, by lines."""
    found = []
    for call in calls(script):
        if isinstance(call.func, ast.Attribute) and call.func.attr in methods:
            trial = trial_of(script, call.func.value)
            found += [] if trial is None else [(call, trial)]
    return sorted(found, key=lambda pair: script.start(pair[0]))


@functools.lru_cache(maxsize=8)
def histories(script: Script) -> dict[int, tuple[str, Binding, ast.Call, ast.Call]]:
    """Names of what trials returned, the runs, and the trials, by the ids of the bindings."""
    runs = {id(run): (run, trial) for run, trial in trial_calls(script, "run")}
    return {
        id(one): (place[1], one, *runs[id(one.value)])
        for place, each in bindings(script).items()
        for one in each
        if id(one.value) in runs
    }


def reads_of_records(script: Script) -> Iterator[tuple[ast.Subscript, ast.Call]]:
    """What is read of the records of histories, and the trials."""
    lists = histories(script)
    for node in script.nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        binding = sure_binding(script, node.value)
        if isinstance(node.value, ast.Subscript):
            known = lists.get(id(sure_binding(script, node.value.value)))
        else:
            is_of_loop = binding is not None and binding.part is None and binding.of is not None
            known = lists.get(id(sure_binding(script, binding.of))) if binding is not None and is_of_loop else None
        if known is not None:
            yield node, known[3]


# ------------------------------------------------------------------ where it is


def scope_of(script: Script, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
    """The innermost function around a node, or what else is asked for."""
    return next(script.above(node, *(kinds or _FUNCTIONS)), None)


def is_within(script: Script, node: ast.AST, other: ast.AST) -> bool:
    """Whether a node is a part of another one."""
    return script.start(other) <= script.start(node) < script.end(other)


def is_apart(script: Script, first: ast.AST, second: ast.AST) -> bool:
    """Whether only one of two nodes is reached, as they are in branches of one ``if``, or the first one returns."""
    for node in script.above(first, ast.If, ast.IfExp, ast.Match):
        if isinstance(node, ast.IfExp):
            branches: list[list[ast.AST]] = [[node.body], [node.orelse]]
        elif isinstance(node, ast.Match):
            branches = [[*case.body] for case in node.cases]
        else:
            branches = [[*node.body], [*node.orelse]] if isinstance(node, ast.If) else []
        mine, other = (
            next((each for each in branches if any(is_within(script, one, part) for part in each)), None)
            for one in (first, second)
        )
        leaves = mine is not None and isinstance(mine[-1], (ast.Return, ast.Raise))
        if mine is not None and mine is not other and (other is not None or leaves):
            return True
    return False
