"""Lines that run, and mean something else than in the older library."""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from delira.cli.migrate.objects import (
    EXPERIMENTS,
    TRAINERS,
    base,
    called,
    entries,
    entry,
    function_of,
    has_method,
    histories,
    import_of,
    is_of_05,
    is_within,
    items,
    last_name,
    reads_of_records,
    says,
    scope_of,
    settings,
    tested_metrics,
    text_of,
    with_entry,
    with_runs,
)
from delira.cli.migrate.source import Edit, Finding, Script
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
_HISTORIES = {"HISTORY", "history", "replay", "state_dict"}


def _found(node: ast.AST, why: str, *edits: Edit, imports: Sequence[str] = (), drops: Sequence[str] = ()) -> Finding:
    line = node.lineno  # type: ignore[attr-defined]
    return Finding(line, "means otherwise", why, edits, tuple(drops), tuple(imports))


# ------------------------------------------------------------------ data


def unshuffled(script: Script) -> Iterator[Finding]:
    """Managers without a sampler that are trained on."""
    assigned = [one for one in script.nodes if isinstance(one, ast.Assign)]
    trained = {script.of(data) for data in _trained(script)}
    for one in assigned:  # a part of a manager has its order
        method = one.value.func if isinstance(one.value, ast.Call) else None
        is_part = any(script.of(part) in trained for part in ast.walk(one.targets[0]) if isinstance(part, ast.Name))
        if is_part and isinstance(method, ast.Attribute) and method.attr in ("get_subset", "train_test_split"):
            trained.add(script.of(method.value))
    names = {id(one.value): script.of(one.targets[0]) for one in assigned}
    for call in script.calls("BaseDataManager", "DataManager"):
        is_trained = names.get(id(call), script.of(call)) in trained
        is_ordered = entry(call, "sampler_cls", 4) or entry(call, "sampler")
        if is_trained and not is_ordered and all(keyword.arg for keyword in call.keywords):
            name, lines = import_of(script, "delira.data_loading", "SequentialSampler")
            why = "without a sampler a training shuffles now; then it kept the order of the data"
            yield _found(call, why, script.with_keyword(call, "sampler_cls", name), imports=lines)


def _trained(script: Script) -> Iterator[ast.expr]:
    """What is trained on, as far as the loop is the library's."""
    own = {one.name for one in script.nodes if isinstance(one, ast.ClassDef) and has_method(one, "train")}
    for call, maker in called(script, EXPERIMENTS | TRAINERS, *_TRAINS):
        position, name = _TRAINS[last_name(script, call.func)]
        is_of_03 = name == "data" and bool(call.args) and isinstance(call.args[0], ast.Constant)  # epochs go first
        data, changes = entry(call, name, position + is_of_03), entry(call, "train_kwargs")
        has_sampler = changes is not None and "sampler" in script.of(script.value(changes) or changes)
        if data is not None and script.of(maker.func) not in own and not has_sampler:
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
            name, lines = import_of(script, "delira.data_loading", "RandomSamplerWithReplacement")
            if isinstance(one, ast.Attribute):
                name, lines = f"{script.of(one.value)}.RandomSamplerWithReplacement", []
            why = "each sample is drawn once an epoch now; then samples were drawn independently, with replacement"
            yield _found(one, why, script.replaced(one, name), imports=lines, drops=["RandomSampler"])


def unsigned_entries(script: Script) -> Iterator[Finding]:
    """Labels of bytes, with which networks compute."""
    networks = [one for one in script.nodes if isinstance(one, ast.ClassDef) and script.bases(one) & _NETWORKS]
    if not networks or any(has_method(one, "prepare_batch") for one in networks):
        return
    for sample in (items(one) for one in script.nodes if isinstance(one, ast.Dict)):
        for name, given in sample.items() if "data" in sample else ():
            value = script.value(given)
            is_cast = isinstance(value, ast.Call) and last_name(script, value.func) == "astype"
            dtype = entry(value, "dtype", 0 if is_cast else 1) if isinstance(value, ast.Call) else None
            told = (script.origin(dtype) or text_of(dtype)) if dtype is not None else ""
            if name != "data" and dtype is not None and told.rpartition(".")[2].startswith("uint"):
                text = f"{script.of(dtype.value)}.float32" if isinstance(dtype, ast.Attribute) else '"float32"'
                why = f"{name!r} keeps its type in the network, where 0 - 1 is 255; then it became float"
                yield _found(dtype, why, script.replaced(dtype, text))


# ------------------------------------------------------------------ metrics and scores


def metric_order(script: Script) -> Iterator[Finding]:
    """Metrics of 0.4 whose arguments have names that tell nothing."""
    said = entries(script, "metric_keys")
    for holder, metrics in [] if is_of_05(script) else tested_metrics(script):
        if entry(holder, "metric_keys") is not None:  # which had to name them all
            continue
        unclear = {name: one for name, one in metrics.items() if name not in said and _is_unclear(script, one)}
        pairs = ", ".join(f'"{name}": ("pred", "label")' for name in unclear)
        for name, value in unclear.items():
            why = f"the metric {name!r} gets (label, pred) now, as no name says otherwise; then it got (pred, label)"
            yield _found(value, why, with_entry(script, holder, "metric_keys", f"{{{pairs}}}"))


def _is_unclear(script: Script, metric: ast.expr) -> bool:
    function = function_of(script, metric)
    roles = [role_of(one.arg) for one in function.args.args] if function else []
    return len(roles) == 2 and roles[0] == roles[1]


def score_of_first_metric(script: Script) -> Iterator[Finding]:
    """Experiments with metrics of a validation, and no score."""
    names = sorted(entries(script, "val_metrics", *(["metrics"] if is_of_05(script) else [])))
    for maker, calls in with_runs(script):
        if not names or entry(maker, "val_score_key", 6) or says(script, "val_score_key", maker, *calls):
            continue
        if any(_validates(script, call) for call in calls):
            mode = "highest" if _is_larger(script, names[0]) else "lowest"
            edit = script.with_keyword(maker, "val_score_key", f'"{names[0]}", val_score_mode="{mode}"')
            why = f"without a score the last epoch is taken; then that of the lowest {names[0]!r}, the first metric"
            yield _found(maker, why, edit)


def _validates(script: Script, call: ast.Call) -> bool:
    name, split = last_name(script, call.func), entry(call, "val_split")
    if name == "kfold":
        return split is None or script.of(split) != "None"
    return entry(call, "val_data", 1 if name == "run" else 2) is not None


def _is_larger(script: Script, key: str) -> bool | None:
    """Whether large values of a score are good, as it is known here."""
    if key in entries(script, "losses", "criterions"):
        return False
    metric = entries(script, "val_metrics", "metrics").get(key)
    origin = script.origin(metric) if metric is not None else None  # of a library, which is known by itself
    return named_direction(origin.rpartition(".")[2] if origin else key)


def score_mode(script: Script) -> Iterator[Finding]:
    """Scores of which nobody says which values are good: once the lowest of experiments, the highest of trainers."""
    known = next((value for holder, value in settings(script, "val_score_key") if isinstance(holder, ast.Dict)), None)
    calls = [(maker, entry(maker, "val_score_key", 6) or known, runs, False) for maker, runs in with_runs(script)]
    calls += [(one, entry(one, "val_score_key", 3), [], True) for one, _ in called(script, TRAINERS, "train")]
    for call, given, runs, was_larger in calls:
        key = text_of(given).removeprefix("val_")
        is_said = says(script, "val_score_mode", call, *runs) or (was_larger and len(call.args) > 4)
        is_larger = _is_larger(script, key) if key else None
        if is_said or is_larger is None or is_larger == was_larger:
            continue
        then, here = ("highest", "lowest") if was_larger else ("lowest", "highest")
        metric = entries(script, "val_metrics", "metrics").get(key)
        own = named_direction(metric.id) if isinstance(metric, ast.Name) else None
        why = f"of the score {key!r} the {here} value is the best now, as its name has it; then it was the {then}"
        edit = script.with_keyword(call, "val_score_mode", f'"{then if own == was_larger else here}"')
        yield _found(call, why, edit)


def plateau_mode(script: Script) -> Iterator[Finding]:
    """Schedules that wait for a score, which was once to fall."""
    keys = [text_of(value) for _, value in settings(script, "val_score_key")]
    keys += [text_of(entry(call, "val_score_key", 3)) for call, _ in called(script, TRAINERS, "train")]
    if not any(_is_larger(script, key.removeprefix("val_")) for key in keys if key):
        return
    for holder, cls in settings(script, "lr_sched_cls", "lr_scheduler_cls"):
        name = "lr_sched_params" if entry(holder, "lr_sched_cls") else "lr_scheduler_params"
        given = entry(holder, name)
        params = None if given is None else script.value(given)
        is_known = given is None or (isinstance(params, ast.Dict) and "mode" not in items(params))
        if is_known and (script.old_name(cls) or "").startswith("ReduceLROnPlateau"):
            edit = with_entry(script, holder, name, '{"mode": "min"}')
            if isinstance(params, ast.Dict):
                edit = with_entry(script, params, "mode", '"min"')
            why = "the rate falls when the score does not rise; then, unless told, when it did not fall"
            yield _found(cls, why, edit)


def values_of_samples(script: Script) -> Iterator[Finding]:
    """What is asked of the values of a test, of which there was one for each sample."""
    pairs = [
        (one.targets[0].elts[1], one.value)
        for one in script.nodes
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Tuple) and len(one.targets[0].elts) == 2
    ]
    given = {id(holder): metrics for holder, metrics in tested_metrics(script)}
    tests = {script.of(target): given.get(id(value), {}) for target, value in pairs}
    for call in script.nodes:
        is_asked = isinstance(call, ast.Call) and last_name(script, call.func) in _OF_MANY
        for part in ast.walk(call) if is_asked else ():
            key = text_of(part.slice) if isinstance(part, ast.Subscript) else ""
            metric = tests.get(base(part), {}).get(key)
            if metric is None or (isinstance(metric, ast.Call) and script.old_name(metric.func) == "per_sample"):
                continue
            name, lines = import_of(script, "delira.metrics", "per_sample")
            function = function_of(script, metric)
            names = [one.arg for one in function.args.args] if function else []
            first, second = names if len(names) == 2 else ("y_true", "y_pred")
            own = f"({script.of(metric)})" if isinstance(metric, ast.Lambda) else script.of(metric)
            text = f"{name}(lambda {first}, {second}: {own}({first}[None], {second}[None]))"
            why = "a metric of a test is one number, over all samples; then there was one for each sample"
            yield _found(call, why, script.replaced(metric, text), imports=lines)


# ------------------------------------------------------------------ runs


def seeds(script: Script) -> Iterator[Finding]:
    """Seeds of a framework before an experiment."""
    if any(settings(script, "seed")):
        return
    told = {
        id(run) for name in ("seed", "random_seed") for _, runs in with_runs(script) for run in runs if entry(run, name)
    }
    makers = [maker for maker, runs in with_runs(script) if not any(id(run) in told for run in runs)]
    sown = [one for one in script.nodes if isinstance(one, ast.Call) and script.origin(one.func) in _SEEDS and one.args]
    for call in sown:
        function = scope_of(script, call)
        later = [one.lineno for one in sown if one.lineno > call.lineno and scope_of(script, one) is function]
        near = range(call.lineno, min(later, default=2**31))
        mine = [one for one in makers if one.lineno in near and scope_of(script, one) is function]
        edits = [script.with_keyword(one, "seed", script.of(call.args[0])) for one in mine]
        if edits:
            why = "an experiment has a seed of its own, 0 unless it is told; then this one decided"
            yield _found(call, why, *edits)


def trained_further(script: Script) -> Iterator[Finding]:
    """A second training by one trainer."""
    calls = called(script, TRAINERS, "train")
    loops = [one for one in script.nodes if isinstance(one, (ast.For, ast.While))]
    for number, (call, maker) in enumerate(calls):
        is_second = any(owner is maker for _, owner in calls[:number])
        is_again = any(is_within(script, call, one) and not is_within(script, maker, one) for one in loops)
        epochs = entry(call, "num_epochs", 0)
        if (is_second or is_again) and epochs is not None and "state.epoch" not in script.of(epochs):
            owner = script.of(call.func).rpartition(".")[0]
            edit = script.replaced(epochs, f"{owner}.state.epoch + {script.of(epochs)}")
            why = "the number of epochs is the total of all trainings now; then this one added so many"
            yield _found(call, why, edit)


def copied_callbacks(script: Script) -> Iterator[Finding]:
    """Callbacks that are looked at after a run, which had a copy."""
    for call, maker in called(script, EXPERIMENTS, "run", "resume"):
        given = [script.value(entry(one, "callbacks")) for one in (call, maker)]
        parts = [part for one in given if isinstance(one, ast.List) for part in one.elts if isinstance(part, ast.Name)]
        reads = [one for one in script.nodes if isinstance(one, ast.Attribute) and one.lineno > call.lineno]
        for name, value in {part.id: script.value(part) for part in parts}.items():
            is_made = isinstance(value, ast.Call) and script.of(value.func) != "next"
            if isinstance(value, ast.Call) and is_made and any(base(one.value) == name for one in reads):
                begin = script.text.rfind("\n", 0, script.start(call)) + 1
                line = script.text[begin : script.start(call)]
                end = script.text.find("\n", script.end(call)) + 1
                owner = script.of(call.func).rpartition(".")[0]
                told = f"one for one in {owner}.last_trainer.callbacks if isinstance(one, {script.of(value.func)})"
                edit = Edit(end, end, f"{line[: len(line) - len(line.lstrip())]}{name} = next({told})\n")
                why = f"a run has copies of its callbacks: {name!r} stays as it was made; then it was told itself"
                is_known = owner.isidentifier() and scope_of(script, value) is scope_of(script, call)
                yield _found(call, why, *([edit] if is_known else []))


# ------------------------------------------------------------------ trials


def evaluations(script: Script) -> Iterator[Finding]:
    """Evaluations of data that are not those of the validation."""
    for call in script.methods(("Trial",), "evaluate"):
        key = entry(call, "data_key", 1)
        is_other = key is not None and script.old_name(key) in ("TEST_DATA", "TRAIN_DATA")
        later = {
            last_name(script, one) for one in script.nodes if isinstance(one, ast.expr) and one.lineno > call.lineno
        }
        is_seen = any(script.methods(("Trial",), "run")) and later & {*_HISTORIES, *histories(script)}
        if is_other and is_seen and entry(call, "to_history", 2) is None:
            why = "the values are returned only; then they went into the last record of the history, too"
            yield _found(call, why, script.with_keyword(call, "to_history", "True"))


def names_in_history(script: Script) -> Iterator[Finding]:
    """Entries of records that have other names or numbers."""
    given = [entry(call, "metrics", 3) for call in script.calls("Trial")]
    metrics = [one for each in given if isinstance(each, (ast.List, ast.Tuple)) for one in each.elts]
    makers = {script.of(one): script.value(one) for one in metrics if script.made_by(one) == "state_key"}
    keys = {name: text_of(entry(maker, "key", 0)) for name, maker in makers.items() if isinstance(maker, ast.Call)}
    validates = any(script.methods(("Trial",), "with_val_data", "with_val_generator", "with_data", "with_generators"))
    shifted = {id(one.left) for one in script.nodes if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub)}
    for read in reads_of_records(script):
        name, text = script.of(read.slice), text_of(read.slice)
        if validates and (name in keys or text in keys.values()):
            key = f'f"val_{{{name}}}"' if name in keys else f'"val_{text}"'
            why = f"{name} is of the training, that of the validation begins with 'val_'; then this was the latter"
            yield _found(read, why, script.replaced(read.slice, key))
        elif text == "epoch" and "epoch" in map(text_of, metrics) and id(read) not in shifted:
            why = "records number epochs from 1 now; then the metric 'epoch' did so from 0"
            yield _found(read, why, script.replaced(read, f"({script.of(read)} - 1)"))


def grown_histories(script: Script) -> Iterator[Finding]:
    """Runs that go on, where the list of the first is looked at."""
    alone = [one.value for one in script.nodes if isinstance(one, ast.Expr)]
    for name, calls in histories(script).items():
        reads = [one.lineno for one in script.nodes if isinstance(one, ast.Name) and one.id == name]
        for run in script.methods(("Trial",), "run"):
            is_further = any(one.lineno < run.lineno and script.of(one.func) == script.of(run.func) for one in calls)
            if is_further and run.lineno < max(reads, default=0) and any(one is run for one in alone):
                edit = Edit(script.start(run), script.start(run), f"{name} = ")
                yield _found(run, f"{name!r} is as long as it was; then every run added to the one list", edit)


#: what looks for such lines
MEANINGS: tuple[Callable[[Script], Iterable[Finding]], ...] = (
    unshuffled, with_replacement, unsigned_entries, metric_order, score_of_first_metric, score_mode, plateau_mode,
    values_of_samples, seeds, trained_further, copied_callbacks, evaluations, names_in_history, grown_histories,
)  # fmt: skip
