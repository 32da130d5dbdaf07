"""What one run was asked for: parameters, settings of the experiment and of the call, merged and checked."""

import contextlib
import copy
import dataclasses
import functools
import inspect
import logging
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.callbacks.abstract_callback import IN_STEP, CallbackList
from delira.contract import Backend, Data
from delira.contract.process_settings import unusual_settings
from delira.errors import ConfigError, NetworkError, check_known, did_you_mean, expect, positive
from delira.experiments import variable
from delira.experiments.parameters import Parameters
from delira.experiments.preprocessing import Preprocessing
from delira.frameworks import LIBRARIES
from delira.runs.code_of import code_of, code_of_functions
from delira.settings import config as trainer_settings
from delira.settings.config import SETTINGS, SILENT, TrainerConfig, check_names, is_same_score, read_settings
from delira.settings.parts import OptimizerConfig
from delira.training.launched import launched
from delira.training.ranks import number_of_processes
from delira.utils import references, yaml_codec

_log = logging.getLogger("delira")

#: what backends know as the learning rate, whatever an optimizer calls it
_RATES = ("lr", "learning_rate")
#: names of the parameters' training part that are no settings of the trainer
RUN_NAMES = ("num_epochs", "n_epochs", "batch_size", "fold", "callbacks", "key_mapping", "start_epoch")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Copies of everything, so that nothing of one run leaks into the next."""

    params: Parameters
    settings: Mapping[str, Any]
    """Flat keywords of the trainer."""
    config: TrainerConfig
    """The settings as they were read and checked."""
    model_kwargs: Mapping[str, Any]
    """Arguments of the network."""
    num_epochs: int
    seed: int
    fold: int
    callbacks: list[Any]
    key_mapping: Mapping[str, str] | None
    start_epoch: int
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What a cross-validation changes about the data manager for training and for testing."""
    preprocessing: Preprocessing | None = None
    """What is fitted on the training data and done to all."""

    def for_fold(self, fold: int) -> "RunRequest":
        """Return the same, with copies of its own."""
        # together: what is in two of them stays one object
        names = ("params", "settings", "config", "model_kwargs", "callbacks")
        return dataclasses.replace(self, fold=fold, **copied({n: getattr(self, n) for n in names}, self.callbacks))

    def with_settings(self, **settings: Any) -> "RunRequest":
        """Return the same with other settings."""
        changed = {**self.settings, **settings}
        return dataclasses.replace(self, settings=changed, config=read_settings(changed))

    @functools.cached_property
    def _encoded(self) -> dict[str, Any]:
        """The settings and the arguments of the network as plain values."""
        return {"model": yaml_codec.encode(self.model_kwargs), "training": yaml_codec.encode(dict(self.settings))}

    def fingerprint(self, data: object) -> dict[str, Any]:
        """Return what must be equal for a run to be continued; the number of epochs is not part of it."""
        training = {name: value for name, value in self._encoded["training"].items() if name not in SILENT}
        manager = data.describe() if hasattr(data, "describe") else None
        return {
            "fold": self.fold,
            "parameters": yaml_codec.digest({"model": self._encoded["model"], "training": training}),
            "data": _samples_of(data)["data"],
            "batches": yaml_codec.fingerprint({"manager": manager, **self.changes, **self._learned}),
        }

    @functools.cached_property
    def _learned(self) -> dict[str, Any]:
        return {} if self.preprocessing is None else {"preprocessing": self.preprocessing.describe()}

    def describe_batches(self, data: object) -> dict[str, Any]:
        """What decides the batches, by name: the settings of a manager, and the preprocessing if there is any."""
        return {**(data.describe() if hasattr(data, "describe") else {}), **self._learned}

    def functions(self, data: object) -> list[Any]:
        """Losses, metrics of the training, and transforms."""
        named = [self.settings.get(name) for name in ("losses", "train_metrics", "metrics", "val_metrics")]
        parts = [change.get("transforms") for change in self.changes.values() if isinstance(change, Mapping)]
        return [*named, getattr(data, "transforms", None), *parts]

    def described(self, data: Data, backend: Backend) -> dict[str, Any]:
        """Return what the manifest says of the run, also to tell later what differs."""
        score_key, mode = self.config.score(None, None)
        return {
            "room": backend.name,
            "num_threads": self.settings.get("num_threads") or backend.devices.thread_count(),
            "process_settings": unusual_settings(backend.devices.process_settings),
            "seed": self.seed,
            "num_epochs": self.num_epochs,
            "settings": self._encoded["training"],
            "score_mode": None if score_key is None else mode,
            "model_params": self._encoded["model"],
            "callbacks": settings_of_callbacks(self.callbacks),
            "batches": yaml_codec.encode(self.describe_batches(data) or None),
            "n_samples": None if (dataset := getattr(data, "dataset", None)) is None else len(dataset),
        }


def describe_validation(data: object) -> dict[str, Any]:
    """The validation data of a single run, for the manifest: what tells them from others, and how they are batched."""
    return {
        "given": "none" if data is None else type(data).__name__,
        **_samples_of(data),
        "batches": yaml_codec.encode(data.describe()) if hasattr(data, "describe") else None,
    }


def _samples_of(data: object) -> dict[str, Any]:
    """How many samples data have, and what tells them from others; None where nobody knows."""
    dataset = getattr(data, "dataset", None)
    return {
        "n_samples": None if dataset is None else len(dataset),
        "data": dataset.fingerprint() if dataset is not None and hasattr(dataset, "fingerprint") else None,
    }


def resolve(
    params: tuple[Parameters, Parameters | None],
    settings: Mapping[str, Any],
    kwargs: Mapping[str, Any],
    *,
    num_epochs: int | None = None,
    seed: int | None = None,
) -> RunRequest:
    """Merge what holds: a call's keywords go before an experiment's settings, and those before parameters.

    Parameters
    ----------
    params
        Parameters of the experiment, and those of the call that replace entries of them.
    settings, kwargs
        Settings of the experiment, keywords of the call. Everything is copied, together, so that an
        object that is in two places is one object in the copy too.
    num_epochs, seed
        Used if none of them says ``num_epochs``, ``seed``; ``n_epochs`` of the parameters comes last.

    Raises
    ------
    ConfigError
        Naming unknown or impossible settings, or what cannot be copied.
    """
    stated_callbacks = [level.get("callbacks") for level in (settings, kwargs)]
    callbacks = [one for some in stated_callbacks if isinstance(some, (list, tuple)) for one in some]
    (own, given), settings, kwargs = copied((params, dict(settings), dict(kwargs)), callbacks)
    if given is not None:
        replace_entries(own, given)
    variable.refuse_fixed([("the settings of the experiment", settings), ("the settings of the call", kwargs)])
    own = own.with_defaults()
    stated = own.training_settings()
    flat = merged(stated, settings, kwargs)
    check_names(flat, (*SETTINGS, *RUN_NAMES))
    if (batch_size := flat.get("batch_size")) is not None:
        expect(positive("batch_size", batch_size, "sample"))
    if seed is not None:
        flat.setdefault("seed", seed)
    training = {name: value for name, value in flat.items() if name not in RUN_NAMES}
    asked = [kwargs.get("num_epochs"), kwargs.get("n_epochs"), settings.get("num_epochs"), stated.get("num_epochs")]
    epochs = next((number for number in (*asked, num_epochs, stated.get("n_epochs")) if number is not None), None)
    if epochs is None:
        raise ConfigError("num_epochs is not set; put it into the training parameters, or pass it to run or kfold")
    epochs, config = trainer_settings.check_epochs(epochs), read_settings(training)
    return RunRequest(
        params=own,
        settings=training,
        config=config,
        num_epochs=epochs,
        seed=config.seed,
        fold=trainer_settings.check_fold(flat.get("fold", 0)),
        callbacks=_as_callbacks(flat.get("callbacks")),
        key_mapping=flat.get("key_mapping"),
        start_epoch=trainer_settings.check_start(flat.get("start_epoch", 1)),
        model_kwargs=own.model_kwargs(),
    )


def stated_for(
    experiment: Any, request: RunRequest, data: Data, *, kind: str, called: Iterable[Any], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the manifest of a run says, of which its ``fingerprint`` must stay the same.

    Parameters
    ----------
    experiment, request, data
        Who runs what, on what.
    kind, called, facts
        As of ``experiment.open_folder``; ``splits`` and ``search`` are parts of the fingerprint.
    """
    if request.num_epochs == 0:  # networks as they begin are sometimes wanted, but seldom
        _log.warning("num_epochs is 0: nothing is trained, and the results are those of untrained networks")
    further = {name: value for name, value in facts.items() if name != "splits"}
    fingerprint = {"kind": kind, **request.fingerprint(data), "splits": facts.get("splits")}
    if "search" in facts:
        fingerprint["search"] = yaml_codec.digest(facts["search"])
    return {
        "name": experiment.name,
        "model": references.class_on_disk(experiment.model_cls),
        "code": code_of(experiment.model_cls, request.model_kwargs.values()),
        "functions": code_of_functions([*request.functions(data), *called]),
        **request.described(data, experiment.backend),
        "fingerprint": fingerprint,
        **further,
    }


def in_processes(request: RunRequest, backend: Backend) -> RunRequest:
    """Return what is asked of as many processes as a launcher has started, if one has: the run says how many."""
    if launched(backend.devices) is None:
        return request
    return request.with_settings(devices=number_of_processes(request.config, backend.devices))


def merged(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of several levels, the last of which wins; the direction of one score is not that of another."""
    flat: dict[str, Any] = {}
    for level in levels:
        before, key = flat.get("val_score_key"), level.get("val_score_key")
        if None not in (before, key) and not is_same_score(before, key):
            flat.pop("val_score_mode", None)
        flat.update(level)
    return flat


def copied(tree: object, callbacks: Sequence[Any] = ()) -> Any:
    """Return a deep copy, but of what callbacks share; what cannot be copied is named."""
    memo = shared_objects(callbacks)
    try:
        return copy.deepcopy(tree, memo)
    except Exception as error:  # __deepcopy__ raises what it likes
        raise ConfigError(
            f"the parameters, settings, metrics or callbacks cannot be copied for a run of their own: {error}; give "
            "objects that can (no open files or locks), build them in at_training_begin, or name them in the "
            "callback's shared"
        ) from error


def replace_entries(own: Parameters, given: Parameters) -> None:
    """Merge a call's parameters in; a fixed entry of the call also replaces a variable one.

    Parameters
    ----------
    own, given
        What is changed, and by what.
    """
    given = given.permute_variability_on_top()
    hierarchy = own.hierarchy
    own.permute_variability_on_top()
    for part, entries in given["fixed"].items():
        for name in entries:
            own["variable"].get(part, {}).pop(name, None)
    own.update(given, deep=True)
    own.permute_to_hierarchy(hierarchy)


def _as_callbacks(callbacks: object) -> list[Any]:
    callbacks = () if callbacks is None else callbacks
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, (str, bytes, Mapping)):
        raise ConfigError(f"callbacks must be a list, got {callbacks!r}; write callbacks=[…]")
    return list(callbacks)


def as_parameters(params: Parameters | Mapping[str, Any] | str | Path) -> Parameters:
    """Parameters of any accepted form: a mapping may leave ``fixed`` out, a path is read."""
    if isinstance(params, Parameters):
        return params
    if isinstance(params, (str, Path)):
        try:
            return Parameters.load(params)
        except FileNotFoundError as error:
            raise ConfigError(
                f"params={str(params)!r} names a file of parameters, and there is none: {error}"
            ) from error
    if not isinstance(params, Mapping):
        raise ConfigError(f"params must be Parameters, a dict or a path, got {type(params).__name__}")
    if {"fixed", "variable"} & params.keys():
        return Parameters(params.get("fixed"), params.get("variable"))
    return Parameters(params)


def check_settings(flat: Mapping[str, Any], n_epochs: int | None) -> None:
    """Refuse settings of an experiment that are unknown or impossible, before any run."""
    check_names(flat, (*SETTINGS, *RUN_NAMES))
    config = read_settings({name: value for name, value in flat.items() if name not in RUN_NAMES})
    _check_optimizer_arguments(config.optimizer)
    for epochs in (n_epochs, flat.get("num_epochs"), flat.get("n_epochs")):
        if epochs is not None:
            trainer_settings.check_epochs(epochs)


def _check_optimizer_arguments(stated: OptimizerConfig) -> None:
    """Refuse arguments that the class of an optimizer does not take; a function that makes several takes its own."""
    cls = stated.cls
    if stated.builder is not None or not (inspect.isclass(cls) or inspect.isfunction(cls)):
        return
    try:
        known = inspect.signature(cls).parameters
    except ValueError:  # compiled: nobody knows what it takes
        return
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        check_known([name for name in stated.params if name not in _RATES], known, f"{cls.__name__} takes no")


def check_name(name: Any) -> str:
    """Refuse a name that cannot be that of a folder below ``save_path``."""
    is_name = (
        isinstance(name, str) and "\0" not in name and ".." not in Path(name).parts and not Path(name).is_absolute()
    )
    expect(("name", name, is_name, "the text that the folder of the experiment is called"))
    return name


def check_class(name: str, cls: object, base: type) -> None:
    """Refuse what is no class of a kind; ``name`` is that of the argument."""
    # what a loaded file could not resolve complains when it is used
    is_right = isinstance(cls, yaml_codec.Unresolved) or (isinstance(cls, type) and issubclass(cls, base))
    expect((name, cls, is_right, f"{base.__name__} or a subclass of it"))


def check_mapping(**given: object) -> None:
    """Refuse what has no names; ``None`` stands for nothing."""
    what = "a dict with names as keys"
    expect(*((name, value, value is None or isinstance(value, Mapping), what) for name, value in given.items()))


def check_model_class(model_cls: Any, subclassed: str, wraps_models: bool = False) -> None:
    """Refuse a class that is no network; ``subclassed`` says what one is made of, ``wraps_models`` takes estimators."""
    if isinstance(model_cls, yaml_codec.Unresolved):
        return
    is_wrapped = wraps_models and not hasattr(model_cls, "closure")
    for name in ("fit", "get_params") if is_wrapped else ("closure", "prepare_batch"):
        if not callable(getattr(model_cls, name, None)):
            cure = "give a class of estimators" if is_wrapped else f"subclass {subclassed}"
            raise NetworkError(f"{getattr(model_cls, '__name__', model_cls)} has no {name}; {cure} (model_cls)")


def check_model_arguments(model_cls: object, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the network class does not take, before anything is built."""
    if isinstance(model_cls, yaml_codec.Unresolved):
        return  # of a loaded file; it complains when it is used
    if not inspect.isclass(model_cls):
        name = type(model_cls).__name__
        raise ConfigError(
            f"model_cls must be a network class, got an instance of {name}; pass the class itself ({name}, not "
            f"{name}(…)), and its arguments under 'model' of the parameters"
        )
    signature = inspect.signature(model_cls.__init__)  # not of the class: a metaclass may take anything
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    known = signature.parameters
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    check_known(() if is_open else arguments, known, f"{model_cls.__name__} takes no")
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ConfigError(f"{model_cls.__name__} cannot be built from the model parameters: {error}") from error


# ---- callbacks as plain values, so that another run can be compared

#: as files know them
_OURS = "delira.training.callbacks."
#: modules of our callbacks that show and store, and change no number
_WATCHING = {
    "checkpoints", "confusion", "csv_logger", "fold_table", "history", "imaging", "live_plot", "printers", "profiler",
    "progress", "run_log", "tensorboard", "tensorboard_base", "tensorboard_images", "tensorboard_projector",
    "tensorboard_scalars", "tensorboard_text",
}  # fmt: skip
#: attributes in which arguments are kept together
_TOGETHER = {"params", "arguments"}
#: of ours, what is made of arguments
_MADE = {"_filter", "gain", "weight_of"}


def settings_of_callbacks(callbacks: Iterable[Any]) -> list[dict[str, Any]]:
    """Return those that may change numbers, as plain values for the manifest, in their order.

    Parameters
    ----------
    callbacks
        As they were given: before any training.
    """
    return [_describe(callback) for callback in _flat(callbacks) if not _only_watches(callback)]


def _flat(callbacks: Iterable[Any]) -> Iterable[Any]:
    for callback in callbacks:
        if isinstance(callback, (list, tuple)):
            yield from _flat(callback)
        else:
            yield callback


def _only_watches(callback: object) -> bool:
    if getattr(callback, "only_watches", False):
        return True
    module = references.module_on_disk(type(callback).__module__, type(callback).__qualname__)
    return module.startswith(_OURS) and module.removeprefix(_OURS).partition(".")[0] in _WATCHING


def _describe(callback: object) -> dict[str, Any]:
    cls, names = type(callback), set()
    with contextlib.suppress(TypeError, ValueError):  # no constructor that Python could show
        names = {*inspect.signature(cls).parameters}
    kept = dict(getattr(callback, "__dict__", {}))
    arguments = {}
    for name, value in kept.items():
        if name.lstrip("_") in names or name in _TOGETHER | _MADE:
            is_made = name in _MADE and hasattr(value, "__dict__")
            arguments[name.lstrip("_")] = yaml_codec.encode(vars(value) if is_made else value)
    if hooks := getattr(callback, "hooks", None):  # a decorated function is known by its name
        arguments = {"function": getattr(kept.get("function"), "__qualname__", ""), "hooks": yaml_codec.encode(hooks)}
        name = f"{getattr(kept.get('function'), '__module__', '')}:callback"
    else:
        name = references.class_on_disk(cls)
    return {"$call": name, "arguments": arguments, "in_step": _acts_in_step(callback)}


def _acts_in_step(callback: object) -> bool:
    try:
        heard = CallbackList([callback])
    except ConfigError:  # the trainer says so
        return False
    return any(heard.hears(hook) for hook in IN_STEP)


# ---- what every run shares although its callbacks are copies: objects that are something only once

#: packages whose objects stand for something outside of the process, or for one search: a copy would talk to nobody
LIVE = frozenset({
    "optuna", "mlflow", "wandb", "ray", "neptune", "comet_ml", "clearml", "aim", "tensorboardX", "visdom", "trixi",
})  # fmt: skip
#: packages whose objects copy themselves well, and are large
_NOT_LOOKED_INTO = LIBRARIES | {"sklearn", "numpy", "pandas", "builtins"}
_PLAIN = (str, bytes, int, float, complex, type(None), type)
_MOST_OBJECTS = 10_000
_told: set[str] = set()


def shared_objects(callbacks: object) -> dict[int, Any]:
    """Return what copies of callbacks share with them, as a memo of :func:`copy.deepcopy`.

    That is what a callback names in its attribute ``shared``, objects of packages that trackers and searches are made
    of, and objects that leave something out when they are copied (their ``__getstate__`` says so), e.g. a connection.
    What was not asked for is said once.

    Parameters
    ----------
    callbacks
        Callbacks, or anything else, which shares nothing.

    Raises
    ------
    ConfigError
        If ``shared`` names no attributes.
    """
    memo: dict[int, Any] = {}
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else ():
        if isinstance(callback, type) or not hasattr(callback, "__dict__"):
            continue
        for name in _named(callback):
            memo[id(getattr(callback, name))] = getattr(callback, name)
        for name, value in vars(callback).items():
            for found, reason in _live_in(value, memo):
                memo[id(found)] = found
                _tell(type(callback).__name__, name, found, reason)
    return memo


def _named(callback: object) -> Iterable[str]:
    """Return the attributes that a callback says are shared."""
    names = getattr(callback, "shared", ())
    who = type(callback).__name__
    are_names = isinstance(names, (tuple, list)) and all(isinstance(name, str) for name in names)
    expect((f"{who}.shared", names, are_names, "a tuple of names of attributes, e.g. ('trial',)"))
    for name in names:
        if not hasattr(callback, name):
            guess = did_you_mean(name, vars(callback))
            raise ConfigError(f"{who}.shared names {name!r}, which it does not have{guess}")
    return names


def _live_in(value: object, known: Mapping[int, Any]) -> Iterator[tuple[Any, str]]:
    """Objects within a value that are not to be copied, each with the reason."""
    waiting, seen = [value], set(known)
    while waiting and len(seen) < _MOST_OBJECTS:
        one = waiting.pop()
        if isinstance(one, types.MethodType):
            one = one.__self__
        if id(one) in seen or isinstance(one, (*_PLAIN, logging.Logger)) or inspect.isroutine(one):
            continue  # a copy of a logger is the logger
        seen.add(id(one))
        if isinstance(one, Mapping):
            waiting.extend(one.values())
            continue
        if isinstance(one, (list, tuple, set, frozenset)):
            waiting.extend(one)
            continue
        package = type(one).__module__.partition(".")[0]
        if package in LIVE:
            yield one, f"it belongs to {package}"
        elif package not in _NOT_LOOKED_INTO and hasattr(one, "__dict__") and not hasattr(one, "__deepcopy__"):
            if package != "delira" and (gone := _left_out(one)):
                yield one, f"a copy would lack {gone!r}"
            else:
                waiting.extend(vars(one).values())


def _left_out(one: object) -> str | None:
    """Return an attribute that a copy would not have."""
    own = getattr(type(one), "__getstate__", None)
    if own is None or own is getattr(object, "__getstate__", None):
        return None
    try:
        state = one.__getstate__()
    except Exception:  # the copy will fail, and say why
        return None
    return next((name for name in vars(one) if name not in state), None) if isinstance(state, Mapping) else None


def _tell(who: str, name: str, found: object, reason: str) -> None:
    sentence = (
        f"{who}.{name} holds a {type(found).__name__}, which all runs share, since {reason}; say shared = ({name!r},) "
        f"in {who} if that is meant, or build it in at_training_begin for one of its own"
    )
    if sentence not in _told:
        _told.add(sentence)
        logging.getLogger("delira").warning(sentence)
