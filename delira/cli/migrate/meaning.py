"""Lines that run, and mean something else than in the older library."""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from delira.cli.migrate.objects import (
    EXPERIMENTS,
    TRAINERS,
    Function,
    all_items,
    called,
    called_as,
    function_of,
    histories,
    is_apart,
    is_changed,
    is_of_05,
    is_within,
    kinds_of,
    last_name,
    made,
    own_method,
    reads_of_records,
    root_of,
    scope_of,
    settings,
    settings_of,
    takes_settings,
    tells_apart,
    tested_metrics,
    told,
    told_items,
    trial_calls,
    trial_of,
    with_entry,
    with_runs,
)
from delira.cli.migrate.source import Edit, Finding, Script
from delira.cli.migrate.written import Holder, closed, entry, items, text_of, unpacked
from delira.metrics.direction import named_direction
from delira.utils.binding import role_of

#: methods that train -> the place of the training data among their arguments, and its name
_TRAINS = {"run": (0, "train_data"), "kfold": (0, "data"), "resume": (1, "train_data"), "train": (1, "datamgr_train")}
_NETWORKS = {"AbstractPyTorchNetwork", "AbstractTorchScriptNetwork", "AbstractPyTorchJITNetwork"}
#: what is asked of several values, and tells nothing of one
_OF_MANY = (
    "std", "var", "median", "min", "max", "percentile", "quantile", "argmin", "argmax", "sort", "argsort", "hist",
    "boxplot", "len",
)  # fmt: skip
_SEEDS = (
    "torch.manual_seed", "torch.random.manual_seed", "tensorflow.set_random_seed", "tensorflow.random.set_seed",
    "tensorflow.random.set_random_seed", "delira.seed_all", "delira.utils.seed_all",
)  # fmt: skip
#: what shows or stores the history of a trial
_HISTORIES = ("history", "replay", "state_dict")
_MANAGERS = ("BaseDataManager", "DataManager")
_DATASETS = (
    "AbstractDataset", "BaseCacheDataset", "BaseExtendCacheDataset", "BaseLazyDataset", "ConcatDataset", "DictDataset",
    "IterableDataset",
)  # fmt: skip
#: what makes one number of many
_TO_ONE = ("mean", "average", "float", "item", "sum")


def _found(node: ast.AST, why: str, *edits: Edit, imports: Sequence[str] = (), drops: Sequence[str] = ()) -> Finding:
    line = node.lineno  # type: ignore[attr-defined]
    return Finding(line, "means otherwise", why, edits, tuple(drops), tuple(imports))


# ------------------------------------------------------------------ data


def unshuffled(script: Script) -> Iterator[Finding]:
    """Managers without a sampler that are trained on."""
    for call in _trained_managers(script):
        is_ordered = entry(call, "sampler_cls", 4) or entry(call, "sampler")
        if not is_ordered and all(keyword.arg for keyword in call.keywords):
            name, lines = called_as(script, "delira.data_loading", "SequentialSampler")
            why = "without a sampler a training shuffles now; then it kept the order of the data"
            yield _found(call, why, script.with_keyword(call, "sampler_cls", name), imports=lines)


def _trained_managers(script: Script) -> list[ast.Call]:
    """Calls that make managers which are trained on, also in part."""
    left, found = [*_trained(script)], {}
    seen: set[int] = set()
    while left:
        binding, value = script.binding(left[-1]), script.last_value(left.pop())
        if binding is not None and binding.value is None and binding.part is not None:
            value = binding.of
        if not isinstance(value, ast.Call) or id(value) in seen:
            continue
        seen.add(id(value))
        if script.old_name(value.func) in _MANAGERS:
            found[script.start(value)] = value
        elif isinstance(value.func, ast.Attribute) and value.func.attr in ("get_subset", "train_test_split"):
            left.append(value.func.value)  # a part of a manager has its order
    return [found[start] for start in sorted(found)]


def _trained(script: Script) -> Iterator[ast.expr]:
    """What is trained on, as far as the loop is the library's."""
    for call, _ in called(script, EXPERIMENTS | TRAINERS, *_TRAINS):
        position, name = _TRAINS[last_name(script, call.func)]
        is_of_03 = name == "data" and bool(call.args) and isinstance(call.args[0], ast.Constant)  # epochs go first
        data, changes = entry(call, name, position + is_of_03), entry(call, "train_kwargs")
        has_sampler = changes is not None and "sampler" in script.of(script.last_value(changes) or changes)
        if data is not None and not has_sampler:
            yield data


def with_replacement(script: Script) -> Iterator[Finding]:
    """Random samplers of 0.4."""
    if is_of_05(script):
        return
    used: list[ast.AST | None] = []
    for node in script.nodes:
        if isinstance(node, ast.Call):
            used += [entry(node, "sampler_cls", 4), None if entry(node, "replacement", 1) else node.func]
        elif isinstance(node, ast.Attribute) and node.attr == "from_dataset":
            used.append(node.value)
        elif isinstance(node, ast.Dict):
            used.append(items(node).get("sampler"))
    for one in used:
        if isinstance(one, (ast.Name, ast.Attribute)) and script.old_name(one) == "RandomSampler":
            name, lines = called_as(script, "delira.data_loading", "RandomSamplerWithReplacement")
            if isinstance(one, ast.Attribute):
                name, lines = f"{script.of(one.value)}.RandomSamplerWithReplacement", []
            why = "each sample is drawn once an epoch now; then samples were drawn independently, with replacement"
            yield _found(one, why, script.replaced(one, name), imports=lines, drops=["RandomSampler"])


def unsigned_entries(script: Script) -> Iterator[Finding]:
    """Labels of bytes, with which networks compute."""
    networks = [one for one in script.nodes_of(ast.ClassDef) if kinds_of(script, one) & _NETWORKS]
    if not networks or any(own_method(script, one, "prepare_batch") for one in networks):
        return
    for sample, is_alone in _samples(script):
        for name, given in items(sample).items():
            binding, value = script.binding(given), script.last_value(given)
            is_cast = isinstance(value, ast.Call) and last_name(script, value.func) == "astype"
            dtype = entry(value, "dtype", 0 if is_cast else 1) if isinstance(value, ast.Call) else None
            said = (script.origin(dtype) or text_of(dtype)) if dtype is not None else ""
            if name != "data" and dtype is not None and said.rpartition(".")[2].startswith("uint"):
                text = f"{script.of(dtype.value)}.float32" if isinstance(dtype, ast.Attribute) else '"float32"'
                why = f"{name!r} keeps its type in the network, where 0 - 1 is 255; then it became float"
                is_free = is_alone and (binding is None or len(script.scopes.reads[id(binding)]) == 1)
                yield _found(dtype, why, *([script.replaced(dtype, text)] if is_free else []))


def _samples(script: Script) -> Iterator[tuple[ast.Dict, bool]]:
    """Dictionaries that are trained on, and whether nothing else is done with them."""
    left = [(one, True) for call in _trained_managers(script) for one in _given(call)]
    seen: set[int] = set()
    while left:
        node, is_alone = left.pop()
        binding, value = script.binding(node), script.last_value(node)
        is_alone = is_alone and (binding is None or _is_for_managers(script, script.scopes.reads[id(binding)]))
        if id(value) in seen:
            continue
        seen.add(id(value))
        parts: list[ast.AST] = []
        if isinstance(value, ast.Dict) and "data" in items(value):
            yield value, is_alone
        elif isinstance(value, ast.Call) and kinds_of(script, value.func) & {*_DATASETS}:
            own = own_method(script, value.func, "__getitem__", "get_sample_from_index")
            parts = [own] if own is not None else _given(value)
        elif isinstance(value, Function):
            parts = [value.body] if isinstance(value, ast.Lambda) else []
            parts += [one.value for one in ast.walk(value) if isinstance(one, ast.Return) and one.value is not None]
        elif isinstance(value, (ast.List, ast.Tuple)):
            parts = [*value.elts]
        elif isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            parts = [value.elt]
        left += [(part, is_alone or isinstance(value, Function)) for part in parts]


def _is_for_managers(script: Script, names: list[ast.expr]) -> bool:
    above = [next(script.above(one, ast.Call, ast.stmt), None) for one in names]
    kinds = [kinds_of(script, one.func) if isinstance(one, ast.Call) else set() for one in above]
    return all(each & {*_MANAGERS, *_DATASETS} for each in kinds)


def _given(call: ast.Call) -> list[ast.AST]:
    return [*call.args, *(one.value for one in call.keywords)]


# ------------------------------------------------------------------ metrics and scores


def metric_order(script: Script) -> Iterator[Finding]:
    """Metrics of 0.4 whose arguments have names that tell nothing."""
    if is_of_05(script):
        return
    said = {key for _, given in settings(script, "metric_keys") for key in items(script.last_value(given))}
    for holder, _, metrics in tested_metrics(script):
        if entry(holder, "metric_keys") is not None:  # which had to name them all
            continue
        unclear = {name: one for name, one in metrics.items() if name not in said and _is_unclear(script, one)}
        pairs = ", ".join(f'"{name}": ("pred", "label")' for name in unclear)
        for name, value in unclear.items():
            why = f"the metric {name!r} gets (label, pred) now, as no name says otherwise; then it got (pred, label)"
            yield _found(value, why, with_entry(script, holder, "metric_keys", f"{{{pairs}}}"))


def _is_unclear(script: Script, metric: ast.expr) -> bool:
    function = function_of(script, metric)
    names = [one.arg for one in function.args.args] if function else []
    if function is None or len(names) != 2 or role_of(names[0]) != role_of(names[1]):
        return False
    body = function.body if isinstance(function.body, list) else [function.body]
    return any(tells_apart(part, {*names}) for part in body)


def score_of_first_metric(script: Script) -> Iterator[Finding]:
    """Experiments with metrics of a validation, and no score."""
    kinds = ("val_metrics", "metrics") if is_of_05(script) else ("val_metrics",)
    for maker, runs in with_runs(script):
        holders = settings_of(script, maker, runs)
        if holders is None or not any(_validates(script, run) for run in runs) or entry(maker, "val_score_key", 6):
            continue
        folds = [id(run) for run in runs if last_name(script, run.func) == "kfold"]  # whose metrics are those of a test
        of_runs = [one for one in holders if id(one) not in folds]
        metrics = told_items(script, of_runs, *kinds)
        name = min(metrics or (), default=None)
        if name is None or told(holders, "val_score_key") or not takes_settings(script, maker):
            continue
        of_function = _of_function(script, holders, name)
        if not (_is_larger(script, holders, name) if of_function is None else of_function):  # the worst epoch otherwise
            edit = script.with_keyword(maker, "val_score_key", f'"{name}", val_score_mode="lowest"')
            why = f"without a score the last epoch is taken; then that of the lowest {name!r}, the first metric"
            yield _found(maker, why, edit)


def _validates(script: Script, call: ast.Call) -> bool:
    name, split = last_name(script, call.func), entry(call, "val_split")
    if name == "kfold":
        return split is None or script.of(split) != "None"
    return entry(call, "val_data", 1 if name == "run" else 2) is not None


def _is_larger(script: Script, holders: list[Holder], key: str) -> bool | None:
    """Whether large values of a score are good, as the library has it."""
    if key in (told_items(script, holders, "losses", "criterions") or {}):
        return False
    metric = _metric(script, holders, key)
    origin = script.origin(metric) if metric is not None else None  # of a library, which is known by itself
    return named_direction(origin.rpartition(".")[2] if origin else key)


def _of_function(script: Script, holders: list[Holder], key: str) -> bool | None:
    """What the name of the function says that a metric is: ``{"dice": dice_loss}``."""
    metric = _metric(script, holders, key)
    return named_direction(metric.id) if isinstance(metric, ast.Name) else None


def _metric(script: Script, holders: list[Holder], key: str) -> ast.expr | None:
    found = (told_items(script, holders, name) or {} for name in ("val_metrics", "metrics"))
    return next((each[key] for each in found if key in each), None)


def score_mode(script: Script) -> Iterator[Finding]:
    """Scores whose names mislead: once the lowest was the best of experiments, the highest of trainers."""
    makers = [(maker, maker, runs, False) for maker, runs in with_runs(script)]
    makers += [(maker, call, [call], True) for call, maker in called(script, TRAINERS, "train")]
    for maker, call, runs, was_larger in makers:
        holders = settings_of(script, maker, runs)
        given = entry(call, "val_score_key", 3 if was_larger else 6) or told(holders or [], "val_score_key")
        key = text_of(script.last_value(given)).removeprefix("val_")
        if holders is None or not key or told(holders, "val_score_mode") or (was_larger and len(call.args) > 4):
            continue
        is_misnamed = _of_function(script, holders, key) is was_larger
        if is_misnamed and _is_larger(script, holders, key) is (not was_larger):  # the worst epoch otherwise
            then, here = ("highest", "lowest") if was_larger else ("lowest", "highest")
            why = f"of the score {key!r} the {here} value is the best now, as its name has it; then it was the {then}"
            if takes_settings(script, maker) or was_larger:
                yield _found(call, why, script.with_keyword(call, "val_score_mode", f'"{then}"'))


def plateau_mode(script: Script) -> Iterator[Finding]:
    """Schedules that wait for a score, which was once to fall."""
    makers = [*with_runs(script)]
    trained = called(script, TRAINERS, "train")
    makers += [(one, [call for call, owner in trained if owner is one]) for one in made(script, TRAINERS)]
    known: dict[int, list[bool]] = {}
    for maker, runs in makers:
        holders = settings_of(script, maker, runs) or []
        given = told(holders, "val_score_key") or entry(
            maker, "val_score_key", 6 if kinds_of(script, maker.func) & EXPERIMENTS else 99
        )
        given = given or next((one for run in runs if (one := entry(run, "val_score_key", 3))), None)
        key = text_of(script.last_value(given)).removeprefix("val_")
        for holder in holders:
            known.setdefault(id(holder), []).append(bool(key and _is_larger(script, holders, key)))
    for holder, cls in settings(script, "lr_sched_cls", "lr_scheduler_cls"):
        name = "lr_sched_params" if entry(holder, "lr_sched_cls") else "lr_scheduler_params"
        given = entry(holder, name)
        params, entries = script.last_value(given), {} if given is None else all_items(script, given)
        is_known = entries is not None and "mode" not in entries and all(known.get(id(holder), [False]))
        if is_known and (script.old_name(cls) or "").startswith("ReduceLROnPlateau"):
            edit = with_entry(script, holder, name, '{"mode": "min"}')
            if isinstance(params, ast.Dict):
                edit = with_entry(script, params, "mode", '"min"')
            why = "the rate falls when the score does not rise; then, unless told, when it did not fall"
            yield _found(cls, why, edit)


def values_of_samples(script: Script) -> Iterator[Finding]:
    """What is asked of the values of a test, of which there was one for each sample."""
    given = {id(holder): (value, metrics) for holder, value, metrics in tested_metrics(script)}
    for call in script.nodes_of(ast.Call):
        for part in _asked(call) if last_name(script, call.func) in _OF_MANY else ():
            binding = script.binding(root_of(script, part))
            value, metrics = given.get(id(binding.of), (None, {})) if binding and binding.part == 1 else (None, {})
            key = text_of(part.slice)
            metric = metrics.get(key)
            if metric is None or (isinstance(metric, ast.Call) and script.old_name(metric.func) == "per_sample"):
                continue
            name, lines = called_as(script, "delira.metrics", "per_sample")
            function = function_of(script, metric)
            names = [one.arg for one in function.args.args] if function else []
            first, second = names if len(names) == 2 else ("y_true", "y_pred")
            own = f"({script.of(metric)})" if isinstance(metric, ast.Lambda) else script.of(metric)
            text = f"{name}(lambda {first}, {second}: {own}({first}[None], {second}[None]))"
            why = "a metric of a test is one number, over all samples; then there was one for each sample"
            edit = _with_metric(script, value, key, text) if value is not None else script.replaced(metric, text)
            yield _found(call, why, edit, imports=lines)


def _asked(call: ast.Call) -> Iterator[ast.Subscript]:
    """What is indexed of what several values are asked for: not what a function within makes one value of."""
    left: list[ast.AST] = [call.func, *_given(call)]
    while left:
        node = left.pop(0)
        is_one = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _TO_ONE
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            left += [one.iter for one in node.generators]
        elif not is_one and not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Subscript):
                yield node
            left += ast.iter_child_nodes(node)


def _with_metric(script: Script, given: ast.expr, key: str, text: str) -> Edit:
    """The change of one metric of a test; what is used elsewhere, too, stays as it is."""
    binding, value = script.binding(given), script.last_value(given)
    is_alone = binding is None or len(script.scopes.reads[id(binding)]) == 1
    if is_alone and isinstance(value, ast.Dict) and key in items(value):
        return script.replaced(items(value)[key], text)
    if isinstance(given, ast.Dict):
        return script.with_part(given, f'"{key}": {text}')
    return script.replaced(given, f'{{**{script.of(given)}, "{key}": {text}}}')


# ------------------------------------------------------------------ runs


def seeds(script: Script) -> Iterator[Finding]:
    """Seeds of a framework before the run of an experiment."""
    sown = [one for one in script.nodes_of(ast.Call) if script.origin(one.func) in _SEEDS and one.args]
    found: dict[int, list[Edit]] = {}
    for maker, runs in with_runs(script) if sown else ():
        holders = settings_of(script, maker, runs)
        is_open = any(unpacked(call) for call in (maker, *runs)) or any(settings(script, "seed"))
        if not runs or told(holders or [maker, *runs], "seed", "random_seed") or (holders is None and is_open):
            continue
        scope, start, end = scope_of(script, runs[0]), script.start(runs[0]), script.start(runs[-1])
        near = [one for one in sown if scope_of(script, one) is scope and not is_apart(script, one, runs[0])]
        before = [one for one in near if script.start(one) < start]
        if not before:
            continue
        edits = found.setdefault(id(before[-1]), [])
        is_only = all(scope_of(script, run) is scope for run in runs)
        is_only = is_only and not any(start < script.start(one) < end for one in near)
        if is_only and _can_be_given(script, before[-1], runs[0], maker) and takes_settings(script, maker):
            edits.append(script.with_keyword(maker, "seed", script.of(before[-1].args[0])))
    why = "an experiment has a seed of its own, 0 unless it is told; then this one decided"
    yield from (_found(one, why, *found[id(one)]) for one in sown if id(one) in found)


def _can_be_given(script: Script, sown: ast.Call, run: ast.Call, maker: ast.Call) -> bool:
    """Whether a seed is the same, and known, where an experiment is made, and always sown before it runs."""
    seed = sown.args[0]
    above = [*script.above(sown, ast.If, ast.For, ast.While, ast.Try)]
    if any(not is_within(script, run, one) for one in above):
        return False
    if isinstance(seed, ast.Constant):
        return type(seed.value) is int
    is_own = script.scopes.place(seed) is None  # not self.seed, which any method may change
    name = seed.value if isinstance(seed, ast.Attribute) and is_own else seed  # of args.seed
    given = script.scopes.bindings(name)
    is_near = isinstance(name, ast.Name) and scope_of(script, maker) is scope_of(script, sown)
    return is_near and len(given) == 1 and given[0].is_before(maker) and not is_changed(script, name)


def trained_further(script: Script) -> Iterator[Finding]:
    """A second training by one trainer."""
    trained = called(script, TRAINERS, "train")
    before: dict[int, list[ast.Call]] = {}
    for call, maker in trained:
        scope = scope_of(script, call)
        others = [one for one in before.get(id(maker), []) if scope_of(script, one) is scope]
        before.setdefault(id(maker), []).append(call)
        loops = [one for one in script.above(call, ast.For, ast.AsyncFor, ast.While) if scope_of(script, one) is scope]
        is_second = any(not is_apart(script, one, call) for one in others)
        is_again = any(not is_within(script, maker, one) for one in loops)
        epochs = entry(call, "num_epochs", 0)
        if (is_second or is_again) and epochs is not None and not _is_total(script, epochs):
            owner = script.of(call.func).rpartition(".")[0]
            more = f"{owner}.state.epoch + {closed(script.of(epochs))}"
            edit, begin = script.replaced(epochs, more), entry(maker, "start_epoch")
            is_known = isinstance(begin, ast.Constant) and begin.value == 1 if begin is not None else True
            why = "the number of epochs is the total of all trainings now; then this one added so many"
            yield _found(call, why, *([edit] if is_known else []))


def _is_total(script: Script, epochs: ast.expr) -> bool:
    values = [epochs, *(one.value for one in script.scopes.bindings(epochs) if one.value is not None)]
    return any("state.epoch" in script.of(one) for one in values)


def copied_callbacks(script: Script) -> Iterator[Finding]:
    """Callbacks that are looked at after a run, which had a copy."""
    for call, maker in called(script, EXPERIMENTS, "run", "resume"):
        given = [script.last_value(entry(one, "callbacks")) for one in (call, maker)]
        parts = [part for one in given if isinstance(one, ast.List) for part in one.elts]
        classes = [script.of(one.func) for one in (_as_made(script, part, call) for part in parts) if one is not None]
        for part in parts:
            value = _as_made(script, part, call) if isinstance(part, ast.Name) else None
            if value is None or not isinstance(part, ast.Name) or not _is_seen(script, part, call):
                continue
            owner, cls = script.of(call.func).rpartition(".")[0], script.of(value.func)
            line = f"{part.id} = next(one for one in {owner}.last_trainer.callbacks if isinstance(one, {cls}))"
            is_name = isinstance(call.func, ast.Attribute) and script.scopes.place(call.func.value) is not None
            is_known = is_name and scope_of(script, value) is scope_of(script, call)
            edit = _line_after(script, call, line) if is_known and classes.count(cls) == 1 else None
            why = f"a run has copies of its callbacks: {part.id!r} stays as it was made; then it was told itself"
            yield _found(call, why, *([edit] if edit is not None else []))


def _as_made(script: Script, part: ast.AST, call: ast.Call) -> ast.Call | None:
    """The call that made a callback, before it was taken from a trainer."""
    if isinstance(part, ast.Call):
        return part
    values = [one.value for one in script.scopes.bindings(part) if one.is_before(call)]
    own = [one for one in values if isinstance(one, ast.Call) and script.of(one.func) != "next"]
    return own[-1] if own else None


def _is_seen(script: Script, name: ast.Name, call: ast.Call) -> bool:
    """Whether attributes of a name are read after a call, before the name is something else."""
    binding, end = script.binding(name), script.end(call)
    later = [one for one in script.scopes.reads[id(binding)] if binding is not None and script.start(one) >= end]
    return any(isinstance(next(script.above(one, ast.AST), None), ast.Attribute) for one in later)


def _line_after(script: Script, call: ast.Call, line: str) -> Edit | None:
    """The change that puts a line behind a call, if that is a statement or is assigned."""
    statement = next(script.above(call, ast.stmt))
    if not isinstance(statement, (ast.Expr, ast.Assign)) or statement.value is not call:
        return None
    place, end = script.end(statement), script.text.find("\n", script.end(statement)) + 1
    begin = script.text.rfind("\n", 0, script.start(statement)) + 1
    indent, rest = script.text[begin : script.start(statement)], script.text[place : end - 1].strip()
    if indent.strip() or not end or (rest and not rest.startswith("#")):  # of the line of an if, or before another one
        return Edit(place, place, f"; {line}")
    return Edit(end, end, f"{indent}{line}\n")


# ------------------------------------------------------------------ trials


def evaluations(script: Script) -> Iterator[Finding]:
    """Evaluations of data that are not those of the validation."""
    last = _last_reads(script)
    run = {id(trial) for _, trial in trial_calls(script, "run")}
    for call, trial in trial_calls(script, "evaluate"):
        key = entry(call, "data_key", 1)
        is_other = key is not None and script.old_name(key) in ("TEST_DATA", "TRAIN_DATA")
        is_seen = id(trial) in run and last.get(id(trial), -1) > script.start(call)
        if is_other and is_seen and entry(call, "to_history", 2) is None:
            why = "the values are returned only; then they went into the last record of the history, too"
            yield _found(call, why, script.with_keyword(call, "to_history", "True"))


def _last_reads(script: Script) -> dict[int, int]:
    """Where the history of each trial is looked at last."""
    found: list[tuple[ast.Call | None, ast.AST]] = []
    for _, binding, _, trial in histories(script).values():
        found += [(trial, one) for one in script.scopes.reads.get(id(binding), [])]
    for node in script.nodes_of(ast.Attribute, ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in _HISTORIES:
            found.append((trial_of(script, node.value), node))
        elif isinstance(node, ast.Subscript) and script.old_name(node.slice) == "HISTORY":
            state = node.value
            if isinstance(state, ast.Attribute) and state.attr == "state":
                found.append((trial_of(script, state.value), node))
    last: dict[int, int] = {}
    for owner, one in found:
        last[id(owner)] = max(last.get(id(owner), 0), script.start(one))
    return last


def names_in_history(script: Script) -> Iterator[Finding]:
    """Entries of records that have other names or numbers."""
    with_validation = trial_calls(script, "with_val_data", "with_val_generator", "with_data", "with_generators")
    validated = {id(trial) for _, trial in with_validation}
    shifted = {id(one.left) for one in script.nodes_of(ast.BinOp) if isinstance(one.op, ast.Sub)}
    for read, trial in reads_of_records(script):
        given = script.last_value(entry(trial, "metrics", 3))
        metrics = given.elts if isinstance(given, (ast.List, ast.Tuple)) else []
        makers = {script.of(one): script.last_value(one) for one in metrics}
        keys = {
            name: text_of(entry(maker, "key", 0))
            for name, maker in makers.items()
            if isinstance(maker, ast.Call) and script.old_name(maker.func) == "state_key"
        }
        name, text = script.of(read.slice), text_of(read.slice)
        if id(trial) in validated and (name in keys or (text and text in keys.values())):
            key = f'f"val_{{{name}}}"' if name in keys else f'"val_{text}"'
            why = f"{name} is of the training, that of the validation begins with 'val_'; then this was the latter"
            yield _found(read, why, script.replaced(read.slice, key))
        elif text == "epoch" and "epoch" in map(text_of, metrics) and id(read) not in shifted:
            why = "records number epochs from 1 now; then the metric 'epoch' did so from 0"
            yield _found(read, why, script.replaced(read, f"({script.of(read)} - 1)"))


def grown_histories(script: Script) -> Iterator[Finding]:
    """Runs that go on, where the list of the first is looked at."""
    runs: dict[int, list[ast.Call]] = {}
    for call, trial in trial_calls(script, "run"):
        runs.setdefault(id(trial), []).append(call)
    alone = {id(one.value) for one in script.nodes_of(ast.Expr)}
    for name, binding, first, trial in histories(script).values():
        last = max(map(script.start, script.scopes.reads.get(id(binding), [])), default=0)
        for run in runs[id(trial)]:
            is_further = binding.is_before(run) and script.start(run) < last and not is_apart(script, first, run)
            if is_further and id(run) in alone and scope_of(script, run) is scope_of(script, first):
                edit = Edit(script.start(run), script.start(run), f"{name} = ")
                yield _found(run, f"{name!r} is as long as it was; then every run added to the one list", edit)


#: what looks for such lines
MEANINGS: tuple[Callable[[Script], Iterable[Finding]], ...] = (
    unshuffled, with_replacement, unsigned_entries, metric_order, score_of_first_metric, score_mode, plateau_mode,
    values_of_samples, seeds, trained_further, copied_callbacks, evaluations, names_in_history, grown_histories,
)  # fmt: skip
