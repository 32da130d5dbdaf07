"""An experiment as a file that people can read: written, read, and what it is to be run on."""

import copy
import dataclasses
import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.errors import ConfigError, check_known, expect
from delira.experiments.command_line import settable
from delira.experiments.parameters import Parameters
from delira.experiments.run_request import RUN_NAMES, RunRequest, as_parameters, check_mapping, merged, replace_entries
from delira.experiments.training_sizes import check_sizes
from delira.runs.folder import loss_tolerated
from delira.settings.config import SETTINGS
from delira.utils import files, references, yaml_codec
from delira.utils.urls import SECRET_NAME, tells_secrets

if TYPE_CHECKING:
    from delira.experiments.experiment import BaseExperiment

_log = logging.getLogger("delira")

#: name of the file in the folder of the experiment
FILE_NAME = "experiment.yml"
#: entries that are no arguments of an experiment
_FURTHER = ("experiment_cls", "data", "data_arguments", "kfold", "tune", "learning_curve", "run")
#: methods that a file may be run by; without one of them it is one training
_METHODS = ("kfold", "tune", "learning_curve")
#: arguments of ``kfold`` and ``tune`` that belong to a call, not to an experiment
_OF_A_CALL = ("self", "data", "options", "resume", "allow_changes", "folds", "params", "log_to")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a file says besides the experiment: its class, and what it is run on."""

    experiment_cls: str = ""
    """``module:qualname``; empty: an older file, which does not say it."""
    data: str = ""
    """The function that gives the data, ``module:qualname``; empty: the file names none."""
    data_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What it is called with."""
    kfold: Mapping[str, Any] | None = None
    """What a cross-validation is asked for; ``None``: one training, or a search."""
    tune: Mapping[str, Any] | None = None
    """What a search is asked for; ``None``: there is none."""
    learning_curve: Mapping[str, Any] | None = None
    """What a learning curve is asked for; ``None``: there is none."""
    run: Mapping[str, Any] | None = None
    """What one training is asked for besides its data and the settings; ``None``: nothing."""

    def __post_init__(self) -> None:
        is_name = isinstance(self.data, str) and (not self.data or all(self.data.partition(":")))
        expect(("data", self.data, is_name, "a function at the top of a module, or its name: 'module:function'"))
        asked = {"kfold": self.kfold, "tune": self.tune, "learning_curve": self.learning_curve}
        check_mapping(data_arguments=self.data_arguments, run=self.run, **asked)
        if len(said := [repr(name) for name, arguments in asked.items() if arguments is not None]) > 1:
            raise ConfigError(f"the file says both {' and '.join(said)}; it is run as one of them")

    @property
    def asked(self) -> Mapping[str, Any]:
        """Arguments of the method that the file is run by; empty: it is one training."""
        return self.kfold or self.tune or self.learning_curve or {}


def write(
    experiment: "BaseExperiment[Any]",
    path: str | Path | None,
    data: Callable[..., Any] | str | None,
    data_arguments: Mapping[str, Any] | None,
    **asked: Mapping[str, Any] | None,
) -> Path:
    """Write an experiment, and what it is run on.

    Parameters
    ----------
    experiment, path
        What is written, and into which file; that of its folder if ``None``.
    data, data_arguments
        As of ``experiment.save``.
    **asked
        ``kfold``, ``tune`` or ``learning_curve``: the arguments of this method.

    Raises
    ------
    ConfigError
        If ``data`` is no function at the top of a module, an argument of it may be secret, or the method does not know
        one.
    """
    if data_arguments and data is None:
        raise ConfigError("data_arguments are those of data, which is not given: data=function or 'module:function'")
    if secret := _secret_in(yaml_codec.encode(data_arguments or {}), "data_arguments"):
        raise ConfigError(
            f"data_arguments would write into a file what may be secret: {secret}; leave keys to the environment, or "
            "to the function that gives the data"
        )
    for method, arguments in asked.items():
        check_mapping(**{method: arguments})
        known = {*inspect.signature(getattr(type(experiment), method)).parameters} - {*_OF_A_CALL}
        check_known(arguments or (), known, f"{method} takes no")
        if arguments and "sizes" in arguments:
            check_sizes(arguments["sizes"])
    return _write(experiment, Path(path or experiment.save_path / FILE_NAME), _name_of(data), data_arguments, **asked)


def write_plan(experiment: "BaseExperiment[Any]", folder: Path, data: Any, **asked: Mapping[str, Any] | None) -> Path:
    """Write what a run is, into its folder, for those who join it or repeat it.

    Parameters
    ----------
    experiment
        As the run has settled it.
    folder
        Of the run.
    data
        A function that gives the data, or ``functools.partial`` of one: its name is written, if others can find it.
    **asked
        ``kfold``, ``tune``, ``learning_curve`` or ``run``, as the run has settled its arguments.
    """
    name, arguments = _found_by_name(data)
    return _write(experiment, folder / FILE_NAME, name, arguments, **asked)


def write_run(experiment: "BaseExperiment[Any]", request: RunRequest, folder: Path, data_keys: Any) -> None:
    """Write what a single training is, into its folder, if that does not say so yet; its data have no name.

    Parameters
    ----------
    experiment, request, folder
        Who runs what, and where.
    data_keys
        As of ``experiment.run``.
    """
    asked = {"preprocessing": request.preprocessing, "data_keys": data_keys}
    given = {name: value for name, value in asked.items() if value is not None}
    if not (folder / FILE_NAME).exists():
        with loss_tolerated("what is needed to run it again"):
            write_plan(settled(experiment, request), folder, None, run=given or None)


def settled(experiment: Any, request: RunRequest) -> Any:
    """Return a copy of an experiment, with all that a call of it said besides."""
    experiment = copy.copy(experiment)
    experiment.params = request.params
    if getattr(request, "has_epochs", True):  # without any, an estimator is fitted in another way
        experiment.n_epochs = request.num_epochs
    experiment.key_mapping = request.key_mapping
    places = {"fold": (request.fold, 0), "start_epoch": (request.start_epoch, 1)}
    others = {name: number for name, (number, usual) in places.items() if number != usual}
    experiment.settings = {**request.settings, "callbacks": request.callbacks, **others}
    return experiment


def gathered(experiment: Any, plan: Plan) -> Plan:
    """Let words of a command line change a training wherever its file says of it; the training stays what it is.

    A file has its settings in as many as three places: parameters, ``settings``, and what the method is asked for,
    each of which goes before those that are named first. Words change parameters, so all that they can name is there
    afterwards, and nowhere else.

    Parameters
    ----------
    experiment
        That of the file, which is changed.
    plan
        What else the file says.

    Returns
    -------
    Plan
        The same without what is in the parameters now.
    """
    method = next((name for name in _METHODS if getattr(plan, name) is not None), "run")
    asked, params, settings = dict(getattr(plan, method) or {}), experiment.params, dict(experiment.settings)
    if (given := asked.pop("params", None)) is not None:
        replace_entries(params, as_parameters(given))
    # the metrics of these methods are those of the test, not those of the training
    known = {*SETTINGS, *RUN_NAMES} - ({"metrics", "metric_keys"} if method != "run" else set())
    stated = params.training_settings()
    levels = [settings, {name: asked[name] for name in asked.keys() & known}]
    _say_epochs(experiment, levels)
    flat = merged(stated, *levels)
    by_words = {name for level in levels for name in level if name in stated or settable({name: level[name]})}
    # the direction of a score that is no longer the one that is watched, and a second name of the epochs
    for name in (stated.keys() - flat.keys()) | ({"n_epochs"} if "num_epochs" in flat else set()):
        _drop(params, name)
    for name in by_words:
        _state(params, name, flat[name])
    experiment.settings = {name: value for name, value in settings.items() if name not in by_words}
    gone = {*by_words, "num_epochs", "n_epochs"}
    rest = {name: value for name, value in asked.items() if name not in gone}
    told: dict[str, Any] = {method: rest if method != "run" or rest else None}
    return dataclasses.replace(plan, **told)


def _say_epochs(experiment: Any, levels: Sequence[dict[str, Any]]) -> None:
    """State how many epochs there are once, under the name that the parameters have for it."""
    stated = experiment.params.training_settings()
    call, given = levels[-1], levels[0]
    places = [call.pop("num_epochs", None), call.pop("n_epochs", None), given.get("num_epochs")]
    places += [stated.get("num_epochs"), experiment.n_epochs, stated.get("n_epochs")]
    epochs = next((number for number in places if number is not None), None)
    given.pop("num_epochs", None)
    given.pop("n_epochs", None)
    if epochs is not None:
        name = "num_epochs" if "num_epochs" in stated or "n_epochs" not in stated else "n_epochs"
        experiment.n_epochs = None
        call[name] = epochs


def _drop(params: Parameters, name: str) -> None:
    params.permute_variability_on_top()
    for kind in ("fixed", "variable"):
        dict.pop(params[kind]["training"], name, None)


def _state(params: Parameters, name: str, value: Any) -> None:
    """Give a parameter of the training a value where it is; a fixed one if it is nowhere."""
    params.permute_variability_on_top()
    kind = "variable" if name in params["variable"]["training"] else "fixed"
    params[kind]["training"][name] = value


def name_data(folder: Path, data: Any) -> None:
    """Say in the file of a single training where its data come from, which were given to it.

    Parameters
    ----------
    folder
        Of the run.
    data
        As of :func:`write_plan`.
    """
    name, arguments = _found_by_name(data)
    if name and (folder / FILE_NAME).exists():
        tree = yaml_codec.loads(files.read_bytes(folder / FILE_NAME))
        with loss_tolerated("where the data of the run come from"):
            told = {**tree, "data": name, "data_arguments": dict(arguments)}
            files.publish_text(folder / FILE_NAME, yaml_codec.dumps(told))


def _found_by_name(data: Any) -> tuple[str, Mapping[str, Any]]:
    """Name of a function that gives data, and what it is called with; empty if a file cannot name it."""
    function = data.func if isinstance(data, functools.partial) and not data.args else data
    name = references.name_of(function) if callable(function) else None
    is_found = name is not None and "<" not in name and (inspect.isfunction(function) or inspect.isclass(function))
    arguments = data.keywords if isinstance(data, functools.partial) else {}
    if is_found and (secret := _secret_in(yaml_codec.encode(arguments))):
        _log.warning(
            "%s is not written into %s, as %s may be secret: say --data %s and --data-arguments to delira work and "
            "delira rerun, or leave keys to the environment", name, FILE_NAME, secret, name,
        )  # fmt: skip
        return "", {}
    return name or "" if is_found else "", arguments


def _secret_in(plain: Any, place: str = "") -> str:
    """Say which encoded argument may hold a key or a password; empty: none does. Nothing of it is shown."""
    if isinstance(plain, str):
        if plain and SECRET_NAME.fullmatch(place):
            return repr(place)
        return f"user, password or query of the address in {place!r}" if tells_secrets(plain) else ""
    if isinstance(plain, Mapping):
        items = [(str(key), value) for key, value in plain.items()]
    elif isinstance(plain, list):  # pairs, where keys are no texts
        unwrapped = [each["$tuple"] if isinstance(each, Mapping) and [*each] == ["$tuple"] else each for each in plain]
        items = [(str(each[0]), each[1]) if _is_pair(each) else (place, each) for each in unwrapped]
    else:
        return ""
    if any(name == "storage_options" and value for name, value in items):
        return "storage_options"
    return next((found for name, value in items if (found := _secret_in(value, name))), "")


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _write(
    experiment: "BaseExperiment[Any]",
    path: Path,
    data: str,
    data_arguments: Mapping[str, Any] | None,
    **asked: Mapping[str, Any] | None,
) -> Path:
    plan = Plan(data=data, data_arguments=dict(data_arguments or {}), **asked)  # type: ignore[arg-type]
    own = {name: vars(experiment).get(name) for name in ("n_epochs", "key_mapping", "trainer_cls", "predictor_cls")}
    tree = {
        "experiment_cls": references.class_on_disk(type(experiment)),
        "model_cls": experiment.model_cls,
        "name": experiment.name,
        "save_path": str(experiment.parent),
        **{name: value for name, value in own.items() if value is not None},
        "settings": dict(experiment.settings),
        "params": dict(experiment.params.deepcopy().permute_variability_on_top()),
        **({"data": plan.data, "data_arguments": dict(plan.data_arguments)} if plan.data else {}),
        **{method: dict(arguments) for method, arguments in asked.items() if arguments is not None},
    }
    return files.publish_text(path, yaml_codec.dumps(tree))


def _name_of(data: Callable[..., Any] | str | None) -> str:
    if data is None or isinstance(data, str):
        return data or ""
    name = references.name_of(data) if callable(data) else None
    if name is None or "<" in name:
        raise ConfigError(
            f"data must be a function at the top of a module, or its name 'module:function', got {data!r}: a file can "
            "name nothing else"
        )
    return name


def read(path: str | Path, objects: Mapping[str, Any] | None) -> tuple[dict[str, Any], Plan]:
    """Arguments of the experiment in a file, and what else the file says; nothing is imported or executed.

    Parameters
    ----------
    path
        The file, or the folder that has it.
    objects
        Classes, functions and instances by the name the file uses.

    Raises
    ------
    ConfigError
        If it is no file of an experiment.
    """
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    try:
        tree = yaml_codec.loads(files.read_bytes(path), objects)
    except ConfigError as error:
        error.add_note(f"in {path}")
        raise
    if not isinstance(tree, Mapping) or not {"model_cls", "params"} <= tree.keys():
        raise ConfigError(f"{path} is no experiment file; it was not written by Experiment.save")
    arguments = {name: value for name, value in tree.items() if name not in _FURTHER}
    arguments["params"] = Parameters(tree["params"]["fixed"], tree["params"]["variable"])
    arguments |= {"settings": dict(tree.get("settings") or {})}
    return arguments, Plan(**{name: tree[name] for name in _FURTHER if tree.get(name) is not None})
