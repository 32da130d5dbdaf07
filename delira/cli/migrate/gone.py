"""Names that are gone, and imports of torchbearer: what a script gets instead."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import delira
from delira.cli.migrate.objects import trial_calls
from delira.cli.migrate.source import Edit, Finding, Script, import_of, today
from delira.cli.migrate.written import closed, entry, items
from delira.utils.lazy import for_old_scripts


@functools.cache
def _gone() -> dict[str, str]:
    """Full name -> what to type instead."""
    names = for_old_scripts("names")
    return {
        f"{module}.{name}": told
        for modules, gone in names.GONE.items()
        for module in modules
        for name, told in gone.items()
    }


class _Call(NamedTuple):
    """What a call of something that is gone becomes."""

    arguments: str
    """Names of the arguments of the older library that are read, in their order, separated by blanks."""
    text: str
    """The call of today, with the arguments in braces."""
    imports: tuple[str, ...] = ()
    why: str = ""


_UNWRAPPED = "numba compiled it, which changes no number"
_NOTHING_POSTED = "nothing is posted any more: write a callback that posts at at_training_begin and at_training_end"
_COMPOSE = ("from delira.data_loading import Compose",)
_LOG = ("from delira.logging import MessageLogger",)
_MADE = "backend"
_CALLS = {
    "scale_loss": _Call("loss optimizer", "{optimizer}.scale_loss({loss})"),
    "DataParallelPyTorchNetwork": _Call("module", "{module}"),
    "DataParallelTfEagerNetwork": _Call("module", "{module}"),
    "NumbaTransformWrapper": _Call("transform", "{transform}", why=_UNWRAPPED),
    "NumbaCompose": _Call("transforms", "Compose({transforms})", _COMPOSE, _UNWRAPPED),
    "BaseMessenger": _Call("experiment", "{experiment}", why=_NOTHING_POSTED),
    "SlackMessenger": _Call("experiment", "{experiment}", why=_NOTHING_POSTED),
    "Logger": _Call(_MADE, 'MessageLogger("log", [{backend}])', _LOG),
    "SingleThreadedLogger": _Call(_MADE, 'MessageLogger("log", [{backend}])', _LOG),
    "make_logger": _Call(_MADE, 'MessageLogger("log", [{backend}])', _LOG, "a log is made of a name and of handlers"),
}  # fmt: skip
#: of loggers: argument of the older library -> of today
_OF_LOGS = {"logging_frequencies": "frequencies", "reduce_types": "reductions"}
#: backend of a logger -> handler, the key of its folder or environment, the argument for that, and its default
_HANDLERS = {
    "TensorboardBackend": ("TensorboardXLoggingHandler", "logdir", "log_dir", '"runs"'),
    "VisdomBackend": ("VisdomLoggingHandler", "env", "exp_name", '"main"'),
}
#: name -> where it is now, and its name there
_RENAMED = {
    "AbstractChainerNetwork": ("delira.models", "AbstractNetwork"),
    "apex_closure": ("delira", "standard_closure"),
}
_MESSENGERS = ("BaseMessenger", "SlackMessenger")
#: of transforms that numba compiled
_OF_NUMBA = ("nopython", "target", "parallel")
#: of torchbearer, and nowhere here
_UNKNOWN = {"Model", "cite", "magics", "variational"}


def gone(script: Script) -> Iterator[Finding]:
    """Names that are gone, where they are imported or reached by their module."""
    for statement, alias, name in script.imports:
        if isinstance(statement, ast.ImportFrom) and not statement.level and not script.is_tried(statement):
            full = today(f"{statement.module}.{alias.name}")
            if full in _gone():
                yield _change(script, full, alias.lineno, script.uses(name), name)
    for node in script.nodes_of(ast.Attribute):
        if (full := today(script.origin(node) or "")) in _gone():
            if any(today(script.origin(one) or "") in _gone() for one in script.above(node, ast.Attribute)):
                continue  # a module that has the name of its class
            root = next(one for one in ast.walk(node) if isinstance(one, ast.Name))
            yield _change(script, full, node.lineno, [node], root.id)
    for full, uses in script.by_star().items():
        if (full := today(full)) in _gone():
            yield _change(script, full, min(one.lineno for one in uses), uses, uses[0].id)


def _change(script: Script, full: str, line: int, uses: Sequence[ast.expr], name: str) -> Finding:
    """What is done about one import, or one use, of a name that is gone."""
    old = full.rpartition(".")[2]
    why = f"{full} is gone; use {_gone()[full]}"
    edits: list[Edit] = []
    imports: list[str] = []
    if old in _definitions():
        edits, imports = written_out(script, old)
        why += "; the change writes it out"
        edits += [script.replaced(use, old) for use in uses if script.of(use) != old]
    elif old in _RENAMED:
        module, new = _RENAMED[old]
        edits, imports = [script.replaced(use, new) for use in uses], [f"from {module} import {new}"]
        if old == "apex_closure":
            trials = {id(trial): trial for _, trial in trial_calls(script, "with_closure")}
            edits += [script.with_keyword(trial, "mixed_precision", "True") for trial in trials.values()]
    else:
        why += f": {_CALLS[old].why}" if old in _CALLS and _CALLS[old].why else ""
        for use in uses:
            some, needed = _called(script, old, use)
            edits += some
            imports += needed
    return Finding(line, "refused", why, _outermost(edits), (name,), tuple(dict.fromkeys(imports)))


def _called(script: Script, old: str, use: ast.expr) -> tuple[list[Edit], list[str]]:
    """The change of one use, with the imports that it needs; nothing where it is no call."""
    call = next(script.above(use, ast.Call, ast.ClassDef), None)
    if isinstance(call, ast.ClassDef) and use in call.bases and old in _MESSENGERS:
        own = [one for one in script.nodes_of(ast.Call) if script.of(one.func) == call.name]
        made = [edit for one in own for edit in _filled(script, one, _CALLS[old])]
        return [script.replaced(use, "object"), *made], []
    if not isinstance(call, ast.Call) or call.func is not use:
        return [], []
    if old == "initialize_uninitialized":
        statement = next(script.above(call, ast.stmt))
        is_alone = isinstance(statement, ast.Expr) and statement.value is call
        return [script.without(statement) if is_alone else script.replaced(call, "None")], []
    if old == "NumbaTransform" and (of := entry(call, "transform_cls", 0)) is not None:
        rest = [one for one in call.keywords if one.arg not in ("transform_cls", *_OF_NUMBA)]
        return [script.replaced(call, f"{script.of(of)}({', '.join(map(script.of, rest))})")], []
    if old in _HANDLERS:
        return _handler(script, call, *_HANDLERS[old])
    return (_filled(script, call, _CALLS[old]), [*_CALLS[old].imports]) if old in _CALLS else ([], [])


def _filled(script: Script, call: ast.Call, into: _Call) -> list[Edit]:
    """The change of a call into another one; nothing where an argument is not given."""
    names = into.arguments.split()
    given = {name: one for place, name in enumerate(names) if (one := entry(call, name, place)) is not None}
    if len(given) < len(names):
        return []
    text = into.text.format_map({name: closed(script.of(value)) for name, value in given.items()})
    if into.arguments == _MADE:
        further = [(_OF_LOGS[one.arg], script.of(one.value)) for one in call.keywords if one.arg in _OF_LOGS]
        text = text[:-1] + "".join(f", {name}={value}" for name, value in further) + ")"
    return [script.replaced(call, text)]


def _handler(
    script: Script, call: ast.Call, cls: str, key: str, name: str, default: str
) -> tuple[list[Edit], list[str]]:
    """The handler that stands for a backend of a logger."""
    given = entry(call, "writer_kwargs", 0)
    entries = script.value(given)
    arguments = {name: default}
    if isinstance(entries, ast.Dict) and len(items(entries)) == len(entries.keys):
        for said, value in items(entries).items():
            arguments[name if said in (key, name) else said] = script.of(value)
    elif given is not None:
        arguments = {f"**{script.of(given)}": ""}
    text = ", ".join(f"{one}={value}" if value else one for one, value in arguments.items())
    return [script.replaced(call, f"{cls}({text})")], [f"from delira.logging import {cls}"]


def of_backend(script: Script, call: ast.Call) -> Finding:
    """``make_logger`` of a backend becomes a log with a handler."""
    into = _CALLS["make_logger"]
    return Finding(call.lineno, "refused", into.why, tuple(_filled(script, call, into)), ("make_logger",), into.imports)


def _outermost(edits: list[Edit]) -> tuple[Edit, ...]:
    """The changes that are in no other one; those come when the script is looked at again."""
    kept: list[Edit] = []
    for edit in sorted(dict.fromkeys(edits), key=lambda one: (one.start, -one.end)):
        if not kept or edit.start >= kept[-1].end or edit.end == edit.start == kept[-1].start:
            kept.append(edit)
    return tuple(kept)


@functools.cache
def _definitions() -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """What scripts get in place of names that are gone: name -> source, import statements, others that it needs."""
    text = (Path(__file__).parents[1] / "templates" / "written_out.py.j2").read_text(encoding="utf-8")
    script = Script(text)
    nodes = {**script.defined, **{one.targets[0].id: one for one in script.tree.body if isinstance(one, ast.Assign)}}  # type: ignore[attr-defined]
    found = {}
    for name, node in nodes.items():
        read = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {name}
        lines = [ast.unparse(import_of(one, [alias])) for one, alias, bound in script.imports if bound in read]
        found[name] = script.of(node), tuple(lines), tuple(sorted(read & nodes.keys()))
    return found


def written_out(script: Script, name: str) -> tuple[list[Edit], list[str]]:
    """The definition of a name, and of what it needs, unless the script has it."""
    is_assigned = any(isinstance(one.value, ast.expr) for one in script.scopes.bindings(ast.Name(name)))
    if name in script.defined or is_assigned:
        return [], []
    text, imports, needed = _definitions()[name]
    edits, lines = [script.at_top(text)], [*imports]
    for other in needed:
        more = written_out(script, other)
        edits, lines = [*edits, *more[0]], [*lines, *more[1]]
    return edits, lines


# ------------------------------------------------------------------ torchbearer


def torchbearer(script: Script) -> Iterator[Finding]:
    """Imports of torchbearer, whose names delira has."""
    edits: dict[int, list[Edit]] = {}
    for statement, alias, _ in script.imports:
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else alias.name
        if module.partition(".")[0] != "torchbearer" or script.is_tried(statement):
            continue
        if _UNKNOWN & {*module.split("."), alias.name}:
            yield Finding(alias.lineno, "refused", f"{module} has {alias.name}, which delira has not")
            continue
        some = edits.setdefault(id(statement), [])
        if isinstance(statement, ast.ImportFrom):
            written = re.compile(r"[\s\\]*\.[\s\\]*".join(module.split(".")))
            place = written.search(script.text, script.start(statement) + len("from"))
            some += [] if place is None else [Edit(place.start(), place.end(), _module(module))]
        elif alias.asname or "." not in module:
            as_name = alias.asname or module
            some.append(script.replaced(alias, f"{_module(module)} as {as_name}"))
        else:
            some.append(script.replaced(alias, "delira as torchbearer"))
    for statement in {id(one): one for one, _, _ in script.imports}.values():
        if some := edits.get(id(statement), []):
            why = "delira has what torchbearer has"
            yield Finding(statement.lineno, "refused", why, tuple(dict.fromkeys(some)))


def _module(name: str) -> str:
    """The module of delira that has what one of torchbearer has."""
    names = for_old_scripts("names")
    known, name = {*names.MODULES, *names.FURTHER, *names.SUBMODULES}, today(name)
    while name not in known and not (Path(delira.__path__[0], *name.split(".")[1:]) / "__init__.py").exists():
        name = name.rpartition(".")[0]
    return name
