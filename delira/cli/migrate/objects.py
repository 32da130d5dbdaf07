"""What a script makes of the library's classes, and what it tells them: calls, settings, and functions."""

import ast
from collections.abc import Iterator

from delira.cli.migrate.source import Edit, Script

_OF = ("Base", "Abstract", "PyTorch", "TorchScript", "Tf", "TfEager", "TfGraph", "Sklearn")
EXPERIMENTS = frozenset(f"{name}Experiment" for name in _OF)
TRAINERS = frozenset(f"{name}NetworkTrainer" for name in _OF)
#: by one of them a dictionary is told to hold settings
_OF_SETTINGS = {"optimizer_cls", "losses", "criterions", "val_metrics"}

Holder = ast.Call | ast.Dict
Function = ast.FunctionDef | ast.Lambda


def text_of(node: ast.AST | None) -> str:
    """A text that is written down; empty if it is none."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def items(node: ast.AST | None) -> dict[str, ast.expr]:
    """What a dictionary that is written down holds; nothing if it is none."""
    pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    return {text_of(key): value for key, value in pairs if text_of(key)}


def entry(holder: Holder, name: str, position: int = 99) -> ast.expr | None:
    """What a dictionary or a call has under a name, or a call at a place."""
    if isinstance(holder, ast.Dict):
        return items(holder).get(name)
    named = next((keyword.value for keyword in holder.keywords if keyword.arg == name), None)
    return holder.args[position] if named is None and position < len(holder.args) else named


def with_entry(script: Script, holder: Holder, name: str, value: str) -> Edit:
    """The change that gives a dictionary or a call one more entry."""
    return script.with_part(holder, f"{name}={value}" if isinstance(holder, ast.Call) else f'"{name}": {value}')


def last_name(script: Script, node: ast.AST) -> str:
    """What stands behind the last dot of an expression."""
    return script.of(node).rpartition(".")[2]


def has_method(cls: ast.ClassDef, name: str) -> bool:
    """Whether a class of the script defines a method itself."""
    return any(isinstance(one, ast.FunctionDef) and one.name == name for one in cls.body)


# ------------------------------------------------------------------ settings


def settings(script: Script, *names: str) -> Iterator[tuple[Holder, ast.expr]]:
    """Values of settings, with the dictionaries and calls that hold them."""
    found: list[Holder] = [
        one for one in script.nodes if isinstance(one, ast.Dict) and _OF_SETTINGS & items(one).keys()
    ]
    for holder in [*found, *made(script, EXPERIMENTS | TRAINERS)]:
        for name in names:
            if (value := entry(holder, name)) is not None:
                yield holder, value


def entries(script: Script, *names: str) -> dict[str, ast.expr]:
    """What settings that are dictionaries hold, all together."""
    return {key: one for _, given in settings(script, *names) for key, one in items(script.value(given)).items()}


def says(script: Script, name: str, *calls: ast.Call) -> bool:
    """Whether one of the calls has an argument, or anything in the script has an entry, of that name."""
    keywords = [keyword.arg for call in calls for keyword in call.keywords]
    return name in keywords or None in keywords or any(text_of(one) == name for one in script.nodes)


# ------------------------------------------------------------------ objects and functions


def made(script: Script, kinds: frozenset[str]) -> list[ast.Call]:
    """Calls that make objects of some classes, or of classes of the script that derive from them."""
    own = {one.name for one in script.nodes if isinstance(one, ast.ClassDef) and script.bases(one) & kinds}
    calls = [one for one in script.nodes if isinstance(one, ast.Call)]
    return [one for one in calls if script.old_name(one.func) in kinds or script.of(one.func) in own]


def called(script: Script, kinds: frozenset[str], *methods: str) -> list[tuple[ast.Call, ast.Call]]:
    """Calls of methods, with the call that made the object: the last before it that the name was given."""
    makers, found = made(script, kinds), []
    assigned = [one for one in script.nodes if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
    for call in script.nodes:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in methods:
            owner = script.of(call.func.value)
            before = [one for one in assigned if script.of(one.targets[0]) == owner and one.lineno < call.lineno]
            value = max(before, key=lambda one: one.lineno).value if before else call.func.value
            found += [(call, one) for one in makers if one is value]
    return sorted(found, key=lambda pair: pair[0].lineno)


def with_runs(script: Script) -> Iterator[tuple[ast.Call, list[ast.Call]]]:
    """Experiments, and the calls that train."""
    calls = called(script, EXPERIMENTS, "run", "resume", "kfold")
    for maker in made(script, EXPERIMENTS):
        yield maker, [call for call, owner in calls if owner is maker]


def tested_metrics(script: Script) -> list[tuple[Holder, dict[str, ast.expr]]]:
    """Metrics by name that are computed of arrays, and what has them."""
    pairs = list(settings(script, "val_metrics"))
    for call, _ in called(script, EXPERIMENTS, "kfold", "test"):
        metrics = entry(call, "metrics", 1 if last_name(script, call.func) == "kfold" else 2)
        pairs += [] if metrics is None else [(call, metrics)]
    return [(holder, items(script.value(value))) for holder, value in pairs]


def function_of(script: Script, node: ast.AST) -> Function | None:
    """A function that the script writes down, also one within ``per_sample``."""
    if isinstance(node, ast.Call) and script.old_name(node.func) == "per_sample" and node.args:
        node = node.args[0]
    own = {one.name: one for one in script.nodes if isinstance(one, ast.FunctionDef)}
    value = own.get(node.id) if isinstance(node, ast.Name) and node.id in own else script.value(node)
    return value if isinstance(value, Function) else None


def is_of_05(script: Script) -> bool:
    """Whether a script has names that came with 0.5."""
    return any(script.old_name(ast.Name(name)) in ("DataManager", "DeliraConfig") for name in script.imported)


def import_of(script: Script, module: str, name: str) -> tuple[str, list[str]]:
    """What the script calls something, and the import that it lacks for that."""
    own = next((one for one in script.imported if script.old_name(ast.Name(one)) == name), None)
    return (own, []) if own else (name, [f"from {module} import {name}"])


# ------------------------------------------------------------------ trials


def reads_of_records(script: Script) -> Iterator[ast.Subscript]:
    """What is read of the records of histories."""
    lists = histories(script).keys()
    loops = [one for one in script.nodes if isinstance(one, (ast.For, ast.comprehension))]
    records = {script.of(one.target) for one in loops if script.of(one.iter) in lists}
    for node in script.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            is_record = isinstance(node.value, ast.Subscript) and base(node.value) in lists
            if is_record or script.of(node.value) in records:
                yield node


def histories(script: Script) -> dict[str, list[ast.Call]]:
    """Names of what trials returned, and the runs."""
    found: dict[str, list[ast.Call]] = {}
    for run in script.methods(("Trial",), "run"):
        for one in script.nodes:
            if isinstance(one, ast.Assign) and one.value is run:
                found.setdefault(script.of(one.targets[0]), []).append(run)
    return found


# ------------------------------------------------------------------ where it is


def base(node: ast.AST) -> str:
    """The name of what is indexed."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def scope_of(script: Script, node: ast.AST) -> ast.AST | None:
    """The innermost function around a node."""
    functions = [one for one in script.nodes if isinstance(one, (ast.FunctionDef, ast.Lambda))]
    return max((one for one in functions if is_within(script, node, one)), key=script.start, default=None)


def is_within(script: Script, node: ast.AST, other: ast.AST) -> bool:
    """Whether a node is a part of another one."""
    return script.start(other) <= script.start(node) < script.end(other)
