"""What a script makes of the library's classes, and what it tells them: names, calls, settings, and functions."""

import ast
import functools
from collections.abc import Iterator

from delira.cli.migrate.scopes import FUNCTIONS, Binding, Place
from delira.cli.migrate.source import Edit, Script
from delira.cli.migrate.written import Holder, entry, items, text_of, unpacked

_OF = ("Base", "Abstract", "PyTorch", "TorchScript", "Tf", "TfEager", "TfGraph", "Sklearn")
EXPERIMENTS = frozenset(f"{name}Experiment" for name in _OF)
TRAINERS = frozenset(f"{name}NetworkTrainer" for name in _OF)
#: by one of them a dictionary is told to hold settings
_OF_SETTINGS = {"optimizer_cls", "losses", "criterions", "val_metrics"}
_SETTINGS = ("Parameters", "DeliraConfig")
#: parts of parameters in which settings are
_PARTS = {f"{part}{name}" for part in ("fixed", "variable") for name in ("", "_params", "_training")} | {"training"}
#: what changes a dictionary
_CHANGES = ("update", "setdefault", "pop", "popitem", "clear", "nested_set")
#: methods of a trial that return something else
_RESULTS = ("run", "evaluate", "predict", "state_dict")

Function = ast.FunctionDef | ast.Lambda


def all_items(script: Script, node: ast.AST) -> dict[str, ast.expr] | None:
    """What a dictionary holds, with what is put into it by ``**``; None if that is not known."""
    value, found = script.last_value(node), {}
    if not isinstance(value, ast.Dict):
        return None
    for key, one in zip(value.keys, value.values, strict=True):
        more = {text_of(key): one} if key is not None else all_items(script, one)
        if more is None or "" in more:
            return None
        found.update(more)
    return found


def with_entry(script: Script, holder: Holder, name: str, value: str) -> Edit:
    """The change that gives a dictionary or a call one more entry."""
    return script.with_part(holder, f"{name}={value}" if isinstance(holder, ast.Call) else f'"{name}": {value}')


def last_name(script: Script, node: ast.AST) -> str:
    """What stands behind the last dot of an expression."""
    return node.attr if isinstance(node, ast.Attribute) else script.of(node).rpartition(".")[2]


def root_of(script: Script, node: ast.AST) -> ast.AST:
    """The name of what is indexed, or whose attribute it is."""
    while isinstance(node, (ast.Subscript, ast.Attribute)) and script.scopes.place(node) is None:
        node = node.value
    return node


@functools.lru_cache(maxsize=8)
def _changed(script: Script) -> set[Place | None]:
    """Names of what gets other entries or attributes after it was made."""
    found = set()
    for node in script.nodes_of(ast.Subscript, ast.Attribute, ast.Call):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            found.add(None if script.scopes.place(node) else script.scopes.place(root_of(script, node)))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            found.add(script.scopes.place(root_of(script, node.func.value)))
    return found - {None}


def is_changed(script: Script, node: ast.AST) -> bool:
    """Whether what has a name gets other entries or attributes after it was made."""
    return script.scopes.place(node) in _changed(script)


# ------------------------------------------------------------------ settings


def settings_of(script: Script, maker: ast.Call, runs: list[ast.Call]) -> list[Holder] | None:
    """What holds the settings of an experiment or a trainer; None if that is not known."""
    found: list[Holder] = [maker, *runs]
    left = [one for call in (maker, *runs) for one in unpacked(call)]
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
        value = script.last_value(node)
        if is_changed(script, node):
            return None
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ast.Dict):
            left += [*unpacked(value), *(one for key, one in items(value).items() if key in _PARTS)]
        elif isinstance(value, ast.Call) and (
            script.of(value.func) == "dict" or script.old_name(value.func) in _SETTINGS
        ):
            left += [*value.args, *unpacked(value), *(one.value for one in value.keywords if one.arg in _PARTS)]
        elif not (isinstance(value, ast.Constant) and value.value is None):
            return None
        if isinstance(value, Holder):
            found.append(value)
    return found


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
    dicts = [one for one in script.nodes_of(ast.Dict) if _OF_SETTINGS & items(one).keys()]
    return [*dicts, *made(script, EXPERIMENTS | TRAINERS)]


def settings(script: Script, *names: str) -> Iterator[tuple[Holder, ast.expr]]:
    """Values of settings anywhere in a script, with the dictionaries and calls that hold them."""
    for holder in _holders(script):
        for name in names:
            if (value := entry(holder, name)) is not None:
                yield holder, value


# ------------------------------------------------------------------ objects and functions


@functools.lru_cache(maxsize=8)
def _classes(script: Script) -> dict[str, ast.ClassDef]:
    return {one.name: one for one in script.nodes_of(ast.ClassDef)}


def family(script: Script, node: ast.AST) -> list[ast.ClassDef]:
    """A class of the script, or the one that has a name, and those of the script from which it derives."""
    found: list[ast.ClassDef] = []
    left = [node]
    while left:
        one = left.pop(0)
        cls = _classes(script).get(one.id) if isinstance(one, ast.Name) else one
        if isinstance(cls, ast.ClassDef) and cls not in found:
            found.append(cls)
            left += cls.bases
    return found


def kinds_of(script: Script, node: ast.AST) -> set[str]:
    """Names of the classes of older libraries that a class is, or from which it derives."""
    bases = [base for cls in family(script, node) for base in cls.bases]
    return {name for one in [node, *bases] if (name := script.old_name(one)) is not None}


def own_method(script: Script, node: ast.AST, *methods: str) -> ast.FunctionDef | None:
    """The first of some methods that a class of the script, or one from which it derives, defines."""
    parts = [part for cls in family(script, node) for part in cls.body]
    return next((one for one in parts if isinstance(one, ast.FunctionDef) and one.name in methods), None)


@functools.lru_cache(maxsize=8)
def made(script: Script, kinds: frozenset[str]) -> list[ast.Call]:
    """Calls that make objects of some classes, or of classes of the script that derive from them."""
    return [one for one in script.nodes_of(ast.Call) if kinds_of(script, one.func) & kinds]


@functools.lru_cache(maxsize=32)
def called(script: Script, kinds: frozenset[str], *methods: str) -> list[tuple[ast.Call, ast.Call]]:
    """Calls of the library's methods, with the call that made the object, by lines."""
    makers, found = {id(one) for one in made(script, kinds)}, []
    for call in script.nodes_of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in methods:
            maker = script.last_value(call.func.value)
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
    return [(holder, value, all_items(script, value) or items(script.last_value(value))) for holder, value in pairs]


def function_of(script: Script, node: ast.AST) -> Function | None:
    """A function that the script writes down, also one within ``per_sample``."""
    if isinstance(node, ast.Call) and script.old_name(node.func) == "per_sample" and node.args:
        node = node.args[0]
    value = script.last_value(node)
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
    told_by = [*names, *script.nodes_of(ast.Attribute)]
    return any(script.old_name(one) in ("DataManager", "DeliraConfig") for one in told_by)


def called_as(script: Script, module: str, name: str) -> tuple[str, list[str]]:
    """What the script calls something, and the import that it lacks for that."""
    own = next((one for one in script.imported if script.old_name(ast.Name(one)) == name), None)
    return (own, []) if own else (name, [f"from {module} import {name}"])


# ------------------------------------------------------------------ trials


def trial_of(script: Script, node: ast.AST) -> ast.Call | None:
    """The call that made the trial that an expression is."""
    seen: set[int] = set()
    found = script.last_value(node)
    while isinstance(found, ast.Call) and id(found) not in seen:
        seen.add(id(found))
        if script.old_name(found.func) == "Trial":
            return found
        is_same = isinstance(found.func, ast.Attribute) and found.func.attr not in _RESULTS
        found = script.last_value(found.func.value) if isinstance(found.func, ast.Attribute) and is_same else None
    return None


@functools.lru_cache(maxsize=32)
def trial_calls(script: Script, *methods: str) -> list[tuple[ast.Call, ast.Call]]:
    """Calls of methods of trials, with the calls that made the trials, by lines."""
    found = []
    for call in script.nodes_of(ast.Call):
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
        for place, each in script.scopes.bound.items()
        for one in each
        if id(one.value) in runs
    }


def reads_of_records(script: Script) -> Iterator[tuple[ast.Subscript, ast.Call]]:
    """What is read of the records of histories, and the trials."""
    lists = histories(script)
    for node in script.nodes_of(ast.Subscript):
        binding = script.binding(node.value, is_sure=True)
        rows: ast.AST | None = node.value.value if isinstance(node.value, ast.Subscript) else None
        if binding is not None and binding.part is None:  # of a loop
            rows = binding.of
        known = lists.get(id(script.binding(rows, is_sure=True))) if rows is not None else None
        if known is not None and isinstance(node.ctx, ast.Load):
            yield node, known[3]


# ------------------------------------------------------------------ where it is


def scope_of(script: Script, node: ast.AST) -> ast.AST | None:
    """The innermost function around a node."""
    return next(script.above(node, *FUNCTIONS), None)


def is_within(script: Script, node: ast.AST, other: ast.AST) -> bool:
    """Whether a node is a part of another one."""
    return script.start(other) <= script.start(node) < script.end(other)


def is_apart(script: Script, first: ast.AST, second: ast.AST) -> bool:
    """Whether only one of two nodes is reached, as they are in branches of one ``if``, or the first one returns."""
    for node in script.above(first, ast.If, ast.IfExp, ast.Match):
        parts = [node.body, node.orelse] if isinstance(node, (ast.If, ast.IfExp)) else []
        ways = [case.body for case in node.cases] if isinstance(node, ast.Match) else parts
        branches = [one if isinstance(one, list) else [one] for one in ways]
        mine, other = (
            next((each for each in branches if any(is_within(script, one, part) for part in each)), None)
            for one in (first, second)
        )
        leaves = mine is not None and isinstance(mine[-1], (ast.Return, ast.Raise))
        if mine is not None and mine is not other and (other is not None or leaves):
            return True
    return False
