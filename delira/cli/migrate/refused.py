"""Lines at which the library stops: names that are gone, and calls that are refused."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from keyword import iskeyword
from typing import Any, NamedTuple

from delira.callbacks.abstract_callback import EVENTS, HOOKS
from delira.cli.migrate.gone import gone, of_backend, torchbearer, written_out
from delira.cli.migrate.objects import is_apart, kinds_of, own_method, scope_of
from delira.cli.migrate.source import Edit, Finding, Script
from delira.cli.migrate.written import Holder, entry, items, text_of, unpacked
from delira.experiments.run_request import RUN_NAMES
from delira.metrics.direction import named_direction
from delira.settings.config import SETTINGS


def _found(line: int, why: str, *edits: Edit) -> Finding:
    return Finding(line, "refused", why, edits)


# ------------------------------------------------------------------ arguments that are gone, or wanted


def _loggers(script: Script) -> Iterator[Finding]:
    """``make_logger`` of a backend."""
    for call in script.calls("make_logger"):
        made = script.value(entry(call, "backend", 0))
        name = script.old_name(made.func) if isinstance(made, ast.Call) else None
        if name is not None and name.endswith(("Backend", "LoggingHandler")):
            yield of_backend(script, call)


def _monitors(script: Script) -> Iterator[Finding]:
    """Callbacks that watch a value of which nobody knows whether it should be small."""

    def is_unknown(name: str) -> bool:
        # an experiment knows its losses, and which metrics are delira's
        is_of_trial = _has(script, "Trial") and not _has(script, _EXPERIMENT, _TRAINER)
        return is_of_trial or _is_own_metric(script, name)

    for call in script.calls("EarlyStopping", "Best", "ModelCheckpoint"):
        given = {one.name: one.value for one in _given(script, call)}
        first = call.args[0] if call.args and script.old_name(call.func) == "EarlyStopping" else None
        monitor = given.get("monitor", given.get("monitor_key", first))
        is_auto = "mode" not in given or script.of(given["mode"]).strip("'\"") == "auto"
        is_best = script.old_name(call.func) != "ModelCheckpoint" or _is_true(given.get("save_best_only"))
        is_open = bool(call.args[3:]) or bool(unpacked(call))
        if not isinstance(monitor, ast.Constant) or is_open or not is_auto or not is_best:
            continue
        if isinstance(monitor.value, str) and named_direction(monitor.value) is None and is_unknown(monitor.value):
            is_of_trial = not (script.origin(call.func) or "").startswith("delira.training")
            said = "max" if "acc" in monitor.value and is_of_trial else "min"
            why = f"nothing says whether large values of {monitor.value!r} are good; the older library took {said!r}"
            yield _found(call.lineno, why, script.with_keyword(call, "mode", f'"{said}"'))


def _is_true(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and not node.value)


_SCHEDULES = "LambdaLR StepLR MultiStepLR ExponentialLR CosineAnnealingLR ReduceLROnPlateau CyclicLR"
#: classes -> arguments that are gone, and the value of which they say nothing; ``None``: any
_TAKEN_AWAY = {
    "Trial": (("pass_state", None),),
    "ModelCheckpoint MostRecent Best Interval": (("pickle_module", None), ("pickle_protocol", None)),
    _SCHEDULES: (("last_epoch", "-1"),),
    "CyclicLR": (("monitor", None),),
    "WeightedRandomSampler": (("cum_weights", "None"),),
    "LoggingContext": (("initialize_if_missing", "False"), ("destroy_on_exit", "False"), ("destroy_on_exit", "None")),
}


#: schedule -> the place that last_epoch had
_LAST_EPOCH = {"StepLR": 2, "MultiStepLR": 2, "CosineAnnealingLR": 2, "ExponentialLR": 1, "LambdaLR": 1}


def _arguments(script: Script) -> Iterator[Finding]:
    """Arguments that are gone."""
    for names, arguments in _TAKEN_AWAY.items():
        for call in script.calls(*names.split()):
            for one in _given(script, call):
                if (one.name, None) in arguments or (one.name, script.of(one.value)) in arguments:
                    why = f"{script.old_name(call.func)} takes no {one.name}; what it said is so"
                    yield _found(script.line_at(one.start), why, script.without_keyword(call, one.name))

    for name, place in _LAST_EPOCH.items():
        for call in script.calls(name):
            if len(call.args) == place + 1 and script.of(last := call.args[place]) == "-1":
                why = f"{name} takes no last_epoch; what it said is so"
                yield _found(last.lineno, why, script.without_part(call, script.start(last), script.end(last)))


def _accuracies(script: Script) -> Iterator[Finding]:
    """The metric 'acc' of a trial with a criterion of the user's."""
    for call in script.calls("Trial"):
        criterion, metrics = entry(call, "criterion", 2), entry(call, "metrics", 3)
        if _is_own_function(script, criterion) and isinstance(metrics, ast.List):
            for one in metrics.elts:
                if isinstance(one, ast.Constant) and one.value in ("acc", "accuracy"):
                    why = "'acc' is chosen by the criterion, and of this one nothing is known; it was that of classes"
                    yield _found(one.lineno, why, script.replaced(one, '"cat_acc"'))


# ------------------------------------------------------------------ callbacks


def _returned(script: Script) -> Iterator[Finding]:
    """Callbacks that return attributes for the trainer."""
    for method, trainer in _methods_of_callbacks(script):
        for node in ast.walk(method):
            if not isinstance(node, ast.Return) or next(script.above(node, ast.FunctionDef, ast.Lambda)) is not method:
                continue
            branches = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else []
            if any(_entries(script, one)[0].keys() - {"stop_training"} for one in branches):
                yield _found(node.lineno, "a callback returns stop_training alone, no attributes")
            entries, is_whole = _entries(script, node.value)
            unknown = {key: text for key, text in entries.items() if key != "stop_training"}
            if not unknown:
                continue
            lines = [f"{trainer}.{key} = {text}" for key, text in unknown.items()]
            stop = f'return {{"stop_training": {entries["stop_training"]}}}' if "stop_training" in entries else "return"
            why = f"a callback returns stop_training alone; {', '.join(unknown)} is set as an attribute of the trainer"
            edits = (script.before(node, *lines), script.replaced(node, stop))
            yield _found(node.lineno, why, *(edits if is_whole else ()))


def _methods_of_callbacks(script: Script) -> Iterator[tuple[ast.FunctionDef, str]]:
    """What hears events of a trainer, and what it calls the trainer."""
    handed = _handed(script)
    for cls in script.nodes_of(ast.ClassDef):
        is_derived = any(name.endswith("Callback") or name == "EarlyStopping" for name in kinds_of(script, cls))
        if not is_derived and cls.name not in handed:
            continue
        for method in cls.body:
            if isinstance(method, ast.FunctionDef) and method.name in EVENTS and len(method.args.args) > 1:
                yield method, method.args.args[1].arg


def _handed(script: Script) -> set[str]:
    """Names of the classes whose objects are given to experiments and trainers as callbacks."""
    places: list[Holder] = [place for place, _ in _places_of_settings(script)]
    methods = {call: _method(script, call, (_EXPERIMENT, _TRAINER)) for call in script.nodes_of(ast.Call)}
    given = [entry(one, "callbacks") for one in [*places, *(call for call, method in methods.items() if method)]]
    given += [one for call, method in methods.items() if method == "register_callback" for one in call.args[:1]]
    parts = [part for one in given if one is not None for part in ast.walk(script.value(one) or one)]
    made = [script.value(part) for part in parts if isinstance(part, (ast.Call, ast.Name))]
    return {script.of(one.func) for one in made if isinstance(one, ast.Call)}


def _entries(script: Script, value: ast.expr | None) -> tuple[dict[str, str], bool]:
    """Key and text of each value of a dictionary, as far as they are written down, and whether these are all."""
    node = script.value(value)
    if isinstance(node, ast.Call) and script.of(node.func) == "dict":
        parts: list[Any] = [*node.args, *node.keywords]
    elif isinstance(node, ast.Dict):
        parts = node.keys
    else:
        return {}, False
    pairs = {one.name: script.of(one.value) for one in _given(script, node)}
    is_whole = len(pairs) == len(parts)
    if isinstance(value, ast.Name):
        put, is_sure = _put(script, value)
        is_whole = is_whole and is_sure
        pairs = {key: f'{value.id}["{key}"]' for key in [*pairs, *put]}
    return pairs, is_whole and all(key.isidentifier() and not iskeyword(key) for key in pairs)


def _put(script: Script, name: ast.Name) -> tuple[list[str], bool]:
    """The keys that a dictionary gets before it is returned by its name, and whether it gets them always."""
    keys, is_sure = [], True
    for one in script.scopes.reads[id(script.binding(name))]:
        above = next(script.above(one, ast.AST))
        if script.start(one) >= script.start(name) or not isinstance(above, (ast.Attribute, ast.Subscript)):
            continue
        if isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store) and text_of(above.slice):
            keys.append(text_of(above.slice))
            statement = next(script.above(above, ast.stmt))
            is_around = next(script.above(statement, ast.AST)) in script.above(name, ast.FunctionDef, ast.If, ast.With)
            is_sure = is_sure and isinstance(statement, ast.Assign) and is_around and not is_apart(script, above, name)
        elif isinstance(above, ast.Attribute) or not isinstance(above.ctx, ast.Load):
            is_sure = False
    return keys, is_sure


def _misspelt(script: Script) -> Iterator[Finding]:
    """Methods that look like events and are none."""
    for cls in script.nodes_of(ast.ClassDef):
        if not kinds_of(script, cls) & {"AbstractCallback", "Callback"}:
            continue
        methods = [one for one in cls.body if isinstance(one, ast.FunctionDef) and not one.decorator_list]
        named = [one for one in methods if one.name.startswith(("on_", "at_"))]
        wrong = [one for one in named if one.name not in EVENTS and one.name not in HOOKS]
        if any("not_hooks" in script.of(one) for one in cls.body if isinstance(one, ast.Assign)):
            continue
        for one in wrong:
            names = ", ".join(f'"{method.name}"' for method in wrong) + ("" if wrong[1:] else ",")
            why = f"{one.name} is no event, and was never called; the change says so. Rename it if an event was meant"
            yield _found(one.lineno, why, script.before(methods[0], f"not_hooks = ({names})", ""))


# ------------------------------------------------------------------ settings

_EXPERIMENT, _TRAINER, _MANAGER = "Experiment", "NetworkTrainer", "DataManager"
_OF_TRAINERS = (*SETTINGS, *RUN_NAMES, "network", "save_path", "resume_from", "config")
_OF_EXPERIMENTS = (
    *SETTINGS, *RUN_NAMES, "params", "config", "model_cls", "name", "save_path", "predictor_cls", "trainer_cls",
    "val_score_key", "val_score_mode", "train_data", "val_data", "preprocessing", "resume", "allow_changes",
    "data_keys", "backend",
)  # fmt: skip
_OF_MANAGERS = {
    "data", "batch_size", "n_process_augmentation", "n_process_loading", "transforms", "sampler", "sampler_cls",
    "sampler_kwargs", "sampling_kwargs", "data_loader_cls", "dataset_cls", "load_fn", "from_disc", "worker_settings",
    "bad_samples", "drop_last",
}  # fmt: skip
#: attributes of a configuration of 0.5 in which settings are
_OF_CONFIGS = ("fixed_params", "variable_params", "fixed_training", "variable_training", "fixed", "variable")


def _method(script: Script, call: ast.Call, ending: str | tuple[str, ...]) -> str:
    """The name of the method of an object, as ``_is`` tells them, that a call is one of; empty if it is none."""
    owner, name = getattr(call.func, "value", None), getattr(call.func, "attr", "")
    return name if owner is not None and _is(script, owner, ending, name) else ""


def _is(script: Script, node: ast.AST, ending: str | tuple[str, ...], method: str = "") -> bool:
    """Whether an expression is an object of a class of an older library, by how the names of such classes end.

    Of a subclass that has a method of its own this is not said.
    """
    made = script.value(node)
    seen: set[ast.AST] = set()
    while (value := _returned_by(script, made)) is not None and value not in seen:
        seen.add(value)
        made = script.value(value)
    if not isinstance(made, ast.Call) or own_method(script, made.func, method) is not None:
        return False
    return any(name.endswith(ending) for name in kinds_of(script, made.func))


def _returned_by(script: Script, call: ast.AST | None) -> ast.expr | None:
    """What a function of the script returns, if it does so in one place."""
    binding = script.binding(call.func, is_sure=True) if isinstance(call, ast.Call) else None
    function = binding.value if binding is not None else None
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return None
    own = [one for one in script.nodes_of(ast.Return, ast.Yield, ast.YieldFrom) if scope_of(script, one) is function]
    return own[0].value if len(own) == 1 and isinstance(own[0], ast.Return) else None


def _places_of_settings(script: Script) -> Iterator[tuple[Holder, tuple[str, ...]]]:
    """Calls, and dictionaries of parameters, that hold settings of a training, and the names that they may have."""
    for call in script.nodes_of(ast.Call):
        name = script.old_name(call.func) or ""
        if name.endswith(_EXPERIMENT) or _method(script, call, _EXPERIMENT) == "run":
            yield call, _OF_EXPERIMENTS
        elif name.endswith(_TRAINER):
            yield call, _OF_TRAINERS
    if _has(script, _EXPERIMENT):
        for call in script.calls("Parameters", "DeliraConfig"):
            named = [(str(one.arg).removeprefix("fixed_"), one.value) for one in call.keywords]
            within = [items(script.value(given)) for given in [*call.args, *(value for _, value in named)]]
            pairs = [*named, *(pair for entries in within for pair in entries.items())]
            for part in [script.value(value) for key, value in pairs if key == "training"]:
                if isinstance(part, ast.Dict):
                    yield part, (*SETTINGS, *RUN_NAMES)
        for statement in script.nodes_of(ast.Assign):
            place, whole = statement.targets[0], script.value(statement.value)
            if isinstance(place, ast.Attribute) and place.attr in _OF_CONFIGS:
                part = whole if place.attr.endswith("training") else script.value(items(whole).get("training"))
                if isinstance(part, ast.Dict) and _is(script, place.value, "DeliraConfig"):
                    yield part, (*SETTINGS, *RUN_NAMES)


class _Entry(NamedTuple):
    """One argument of a call by its name, or one entry of a dictionary that is written out."""

    name: str
    start: int
    end: int
    value: ast.expr


def _given(script: Script, node: ast.AST | None) -> list[_Entry]:
    """The named arguments of a call, or the entries of a dictionary, whose names are known."""
    if isinstance(node, ast.Call):
        named = [one for one in node.keywords if one.arg is not None]
        return [_Entry(str(one.arg), script.start(one), script.end(one), one.value) for one in named]
    found = []
    for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            opened = script.text[script.end(key) : script.start(value)].count("(")
            closed = re.compile(rf"(?:\s*\)){{{opened}}}").match(script.text, script.end(value))
            end = script.end(value) if closed is None else closed.end()
            found.append(_Entry(key.value, script.start(key), end, value))
    return found


def _settings(script: Script) -> Iterator[Finding]:
    """Settings that nobody knows, which became attributes of the trainer, or were never read."""
    for place, known in _places_of_settings(script):
        given = _given(script, place)
        unknown = [one for one in given if one.name not in known]
        if unknown and "extra" not in {one.name for one in given}:
            form = '"extra": {{{}}}' if isinstance(place, ast.Dict) else "extra={{{}}}"
            text = form.format(", ".join(f'"{one.name}": {script.of(one.value)}' for one in unknown))
            edits = [Edit(unknown[0].start, unknown[0].end, text)]
            edits += [script.without_part(place, one.start, one.end) for one in unknown[1:]]
            readings = [_readings(script, place, one.name) for one in unknown]
            is_safe = None not in readings
            edits += [edit for some in readings for edit in some or ()]
            for one in unknown:
                why = f"there is no setting {one.name!r}; what only your closure needs is an entry of extra"
                yield _found(script.line_at(one.start), why, *(edits if is_safe else ()))
    for call in script.calls("BaseDataManager", "DataManager"):
        data = script.value(entry(call, "data", 0))
        if isinstance(data, ast.Dict) or (data is not None and _is(script, data, "Dataset")):
            for one in _given(script, call):
                if one.name not in _OF_MANAGERS:
                    why = f"a data manager of a dataset takes no {one.name}, which nothing read"
                    yield _found(script.line_at(one.start), why, script.without_keyword(call, one.name))


def _readings(script: Script, place: Holder, name: str) -> list[Edit] | None:
    """The changes of what reads a setting that is in ``extra`` then; none if that is not clear."""
    edits = []
    for node in script.nodes_of(ast.Attribute, ast.Constant):
        if isinstance(node, ast.Attribute):
            if node.attr != name or script.origin(node) is not None:
                continue
            owner, added = node.value, ".extra"
        else:
            text, above = str(getattr(node, "value", "")), next(script.above(node, ast.AST))
            is_asked = isinstance(above, ast.Call) and script.of(above.func).endswith(".nested_get")
            if not f".{text}".endswith(f".{name}") or isinstance(above, ast.Dict) or is_asked:
                continue
            if not isinstance(above, ast.Subscript):
                return None
            owner, added = above.value, '["extra"]'
            if text != name:
                if not text.endswith(f"training.{name}") or not script.of(node)[:-1].endswith(name):
                    return None
                end = script.end(node) - len(name) - 1
                edits.append(Edit(end, end, "extra."))
                continue
        is_training = getattr(owner, "attr", "") in ("training", "fixed_training") or (
            isinstance(owner, ast.Subscript) and script.of(owner.slice).strip("'\"").endswith("training")
        )
        if isinstance(place, ast.Call) or not is_training or next(script.above(node, ast.JoinedStr), None):
            return None
        edits.append(Edit(script.end(owner), script.end(owner), added))
    return edits


#: experiments and trainers that have one GPU for now
_OF_ONE_GPU = {
    "PyTorchExperiment", "PyTorchNetworkTrainer", "TorchScriptExperiment", "TorchScriptNetworkTrainer"
}  # fmt: skip


def _several_gpus(script: Script) -> Iterator[Finding]:
    """Numbers of GPUs: without a GPU the processor was taken, and of several one is used."""
    names = {script.old_name(node) for node in script.nodes}
    for place, _ in _places_of_settings(script) if names & _OF_ONE_GPU else ():
        for one in _given(script, place):
            if one.name == "gpu_ids" and re.match(r"[\[(]\s*0\b", script.of(one.value)):
                text = '"device": "auto"' if isinstance(place, ast.Dict) else 'device="auto"'
                why = "gpu_ids needs a GPU, and of PyTorch one alone; device='auto' is the first GPU, or else the CPU"
                line = script.line_at(one.start)
                yield _found(line, why, Edit(one.start, one.end, text))


def _log_folders(script: Script) -> Iterator[Finding]:
    """The folder of TensorBoard, as its writers called it once."""
    for place, _ in _places_of_settings(script):
        for one in _given(script, place):
            for key in _given(script, script.value(one.value)) if one.name == "logging_kwargs" else ():
                if key.name == "logdir":
                    start = script.text.index("logdir", key.start)
                    edit = Edit(start, start + len("logdir"), "log_dir")
                    yield _found(script.line_at(key.start), "it is called log_dir", edit)


#: what holds the class of a schedule, and how such classes, their modules and their callbacks are called
_SCHEDULE_KEYS = ("lr_sched_cls", "lr_scheduler_cls")
_SCHEDULE = re.compile(r"\w*LR|\w*LROnPlateau|\w*lr_sched\w*(?<!_params)|\w*Schedul\w*|\w+Callback(PyTorch)?")
#: a trainer with more arguments by their places may have the class of a schedule among them
_BEFORE_SCHEDULES = 6


def _schedules(script: Script) -> Iterator[Finding]:
    """Parameters of a schedule that is nowhere in the script."""
    if _names_a_schedule(script):
        return
    for place, _ in _places_of_settings(script):
        is_open = isinstance(place, ast.Call) and len(place.args) > _BEFORE_SCHEDULES
        is_open = is_open or not all(isinstance(script.value(one), ast.Dict) for one in unpacked(place))
        for one in [] if is_open else _given(script, place):
            if one.name in ("lr_sched_params", "lr_scheduler_params") and getattr(one.value, "keys", None):
                why = f"{one.name} has no effect without a schedule"
                yield _found(one.value.lineno, why, script.replaced(one.value, "{}"))


def _names_a_schedule(script: Script) -> bool:
    """Whether anything in a script may be the class of a schedule, or tell it."""
    of_dicts = [(key, value) for one in script.nodes_of(ast.Dict) for key, value in items(one).items()]
    entries = [*((one.arg, one.value) for one in script.nodes_of(ast.keyword)), *of_dicts]
    told = [value for key, value in entries if key in _SCHEDULE_KEYS]
    if any(not isinstance(one, ast.Constant) or one.value is not None for one in told):
        return True
    keys = [one for one in script.nodes_of(ast.Constant) if str(one.value).endswith(_SCHEDULE_KEYS)]
    if len(keys) > len([key for key, _ in of_dicts if key in _SCHEDULE_KEYS]):
        return True  # by a path, or an index
    names = {str(getattr(one, "id", getattr(one, "attr", None))) for one in script.nodes}
    names |= {part for _, alias, _ in script.imports for part in alias.name.split(".")}
    return any(_SCHEDULE.fullmatch(name) for name in names - {"AbstractCallback"})


def _scores(script: Script) -> Iterator[Finding]:
    """A score that is a function of the script, of which nobody knows whether it should be small."""
    for call in script.nodes_of(ast.Call):
        if _method(script, call, _TRAINER) == "train":
            key, mode = entry(call, "val_score_key", 3), "highest"
        elif (script.old_name(call.func) or "").endswith(_EXPERIMENT):
            key, mode = entry(call, "val_score_key", 6), "lowest"
        else:
            continue
        name = text_of(key).removeprefix("val_")
        is_unknown = bool(name) and named_direction(name) is None and _is_own_metric(script, name)
        if is_unknown and not _says_mode(script, call):
            why = f"nothing says whether small or large values of {name!r} are good; the older library took the {mode}"
            yield _found(call.lineno, why, script.with_keyword(call, "val_score_mode", f'"{mode}"'))


def _says_mode(script: Script, call: ast.Call) -> bool:
    """Whether a call, or settings or runs that may be those of its experiment, say which scores are good."""
    if {"val_score_mode", None} & {one.arg for one in call.keywords}:
        return True
    others = [one for one in script.nodes_of(ast.Call) if isinstance(one.func, ast.Attribute)]
    runs = [one for one in others if one.func.attr in ("run", "resume", "kfold", "setup")]  # type: ignore[attr-defined]
    told = [one.value for one in script.nodes_of(ast.Constant)] + [one.attr for one in script.nodes_of(ast.Attribute)]
    in_runs = any(one.arg == "val_score_mode" for run in runs for one in run.keywords)
    return in_runs or any(str(one).endswith("val_score_mode") for one in told)


# ------------------------------------------------------------------ calls of experiments

_KFOLD = (
    "data metrics num_epochs num_splits shuffle random_seed split_type val_split label_key train_kwargs test_kwargs"
    " metric_keys params verbose"
)
#: method of an experiment -> how many arguments may come by their places, and the names of all of them
_PLACES = {
    "kfold": (4, _KFOLD),
    "test": (5, "network test_data metrics metric_keys verbose prepare_batch convert_fn"),
    "resume": (3, "save_path train_data val_data params"),
}
_PLACES_OF_MAKING = (
    6,
    "params model_cls n_epochs name save_path key_mapping val_score_key optim_builder checkpoint_freq trainer_cls"
    " predictor_cls",
)
_PLACES_OF_03 = (2, "num_epochs data num_splits shuffle random_seed train_kwargs test_kwargs")
_STRATIFIED = (2, "num_epochs data num_splits shuffle random_seed label_key train_kwargs test_kwargs")


def _places(script: Script) -> Iterator[Finding]:
    """Arguments that come by their places, and now by their names."""
    for call in script.nodes_of(ast.Call):
        if (script.old_name(call.func) or "").endswith(_EXPERIMENT):
            order = _PLACES_OF_MAKING
        else:
            method = _method(script, call, _EXPERIMENT)
            order = _PLACES.get(method, (len(call.args), ""))
            if method == "kfold" and call.args and isinstance(script.value(call.args[0]), ast.Constant):
                order = _PLACES_OF_03
        if edits := _named(script, call, *order):
            why = "arguments in the order of the older library are given by their names"
            yield _found(call.lineno, why, *edits)


def _named(script: Script, call: ast.Call, number: int, names: str) -> list[Edit]:
    """The changes that give names to the arguments after some."""
    edits = []
    for argument, name in list(zip(call.args, names.split(), strict=False))[number:]:
        start = script.start(argument)
        while number and script.text[start - 1] == "(":  # an argument in parentheses
            start -= 1
        edits.append(Edit(start, start, f"{name}="))
    return edits


def _folds(script: Script) -> Iterator[Finding]:
    """The methods of 0.3 for stratified folds, and its order of the arguments of a test."""
    for call in script.nodes_of(ast.Call):
        method = _method(script, call, _EXPERIMENT)
        if method == "stratified_kfold":
            end = script.end(call.func)
            name = Edit(end - len(method), end, "kfold")
            stratified = script.with_keyword(call, "split_type", '"stratified"')
            edits = [name, *_named(script, call, *_STRATIFIED), stratified]
            yield _found(call.lineno, "it is a way to split of kfold", *edits)
        elif method == "stratified_kfold_predict":
            yield _by_function(script, call, method)
        elif method == "test" and len(call.args) > 2 and _is(script, call.args[2], _MANAGER):
            yield _by_function(script, call, "tested_as_in_03")


def _by_function(script: Script, call: ast.Call, name: str) -> Finding:
    """A call of a method becomes one of a function that the script gets."""
    edits, imports = written_out(script, name)
    function = call.func
    comma = ", " if call.args or call.keywords else ""
    place = script.text.index("(", script.end(function))
    text = f"{name}({script.of(function.value)}{comma}"  # type: ignore[attr-defined]
    edits.append(Edit(script.start(function), place + 1, text))
    why = "outputs, labels and metrics come from two methods; the change writes a function that returns all three"
    return Finding(call.lineno, "refused", why, tuple(edits), (), tuple(imports))


def _labels(script: Script) -> Iterator[Finding]:
    """Whole numbers as targets of losses that take no whole numbers."""
    losses = {(script.origin(one.func) or "").rpartition(".")[2] for one in script.nodes_of(ast.Call)}
    if not losses & {"BCELoss", "BCEWithLogitsLoss", "HuberLoss"} or losses & {"CrossEntropyLoss", "NLLLoss"}:
        return
    for call in script.calls("BaseDataManager", "DataManager"):
        value = items(script.value(entry(call, "data", 0))).get("label")
        if value is not None and _is_whole(script, value):
            why = "the loss takes numbers of floating point, and labels keep their type; they were made float32"
            yield _found(value.lineno, why, script.replaced(value, f'({script.of(value)}).astype("float32")'))


def _is_whole(script: Script, node: ast.expr) -> bool:
    """Whether an array is made as one of whole numbers."""
    made = script.value(node)
    words = r"\b(u?int(8|16|32|64)?|bool_?)\b"
    if not isinstance(made, ast.Call):
        return isinstance(made, ast.Compare)
    name = script.of(made.func).rpartition(".")[2]
    dtype = entry(made, "dtype", 0 if name == "astype" else 99)
    if dtype is not None or name == "astype":
        return dtype is not None and re.search(words, script.of(dtype)) is not None
    if name in ("array", "asarray") and len(made.args) == 1 and isinstance(made.args[0], ast.List):
        numbers = [one for one in ast.walk(made.args[0]) if not isinstance(one, (ast.List, ast.Load))]
        return all(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in numbers)
    return name == "randint" or re.fullmatch(words, name) is not None


# ------------------------------------------------------------------ what nodes are


def _has(script: Script, *endings: str) -> bool:
    """Whether a script has classes of an older library whose names end so."""
    return any((script.old_name(node) or "").endswith(endings) for node in script.nodes)


def _is_own_metric(script: Script, name: str) -> bool:
    """Whether a dictionary has a function of the script under the name of a metric."""
    given = [items(one).get(name.removeprefix("val_")) for one in script.nodes_of(ast.Dict)]
    return any(one is not None and _is_own_function(script, one) for one in given)


def _is_own_function(script: Script, node: ast.AST | None) -> bool:
    """Whether an expression is a function that the script itself defines."""
    value = script.value(node)
    return isinstance(value, ast.Lambda) or value in script.defined.values()


#: what looks for such lines
REFUSED: tuple[Callable[[Script], Iterable[Finding]], ...] = (
    torchbearer, gone, _loggers, _monitors, _arguments, _accuracies, _returned, _misspelt, _settings, _several_gpus,
    _log_folders, _schedules, _scores, _places, _folds, _labels,
)  # fmt: skip
