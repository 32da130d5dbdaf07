"""What ``logging_type`` may be, and the handlers that it stands for."""

import importlib.util
import inspect
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.errors import ConfigError, MissingBackendError, did_you_mean
from delira.logging import logger, trackers, writers

#: name -> handler, package that must be installed, and how
TARGETS: dict[str, tuple[type[logging.Handler], str, str]] = {
    "tensorboardx": (trackers.TensorboardXLoggingHandler, "tensorboardX", "'delira[logging]'"),
    "visdom": (writers.VisdomLoggingHandler, "visdom", ""),
    "mlflow": (trackers.MLflowHandler, "mlflow", "mlflow-skinny"),
    "wandb": (trackers.WandbHandler, "wandb", "wandb"),
}
DEFAULT = "tensorboardx"
_FORMS = "None, a handler of Python's logging, a logger of trixi, the class of one, or a list of these"


def as_list(targets: object) -> list[Any]:
    """Return the targets of ``logging_type``: none, one, or those of a list."""
    if targets is None:
        return []
    return list(targets) if isinstance(targets, (list, tuple)) else [targets]


def check_targets(targets: object, kwargs: Mapping[str, Any]) -> None:
    """Refuse what cannot be a ``logging_type``, or is not installed, and arguments that nobody takes.

    Raises
    ------
    ConfigError, MissingBackendError
        Saying what to do.
    """
    for name, target, arguments in _paired(targets, kwargs):
        if name is not None:
            _check_installed(name, is_default=targets == DEFAULT)
            _check_arguments(name, arguments)
            if name == "mlflow":
                trackers.check_store(arguments.get("tracking_uri"))
        elif isinstance(target, type):
            if not (issubclass(target, logging.Handler) or trackers.is_trixi(target)):
                raise ConfigError(f"logging_type={target.__name__} is no class of handlers: give {_FORMS}")
            if arguments:
                _bind(target, arguments, target.__name__)
        elif isinstance(target, str) or not (isinstance(target, logging.Handler) or trackers.is_trixi(target)):
            guess = did_you_mean(target, TARGETS) if isinstance(target, str) else ""
            known = ", ".join(map(repr, TARGETS))
            raise ConfigError(f"logging_type must be one of {known}, {_FORMS}, got {target!r}{guess}")
        elif arguments:
            raise ConfigError(f"logging_kwargs are for what is still to be made, and {target!r} is made already")


def make_handlers(
    targets: object, kwargs: Mapping[str, Any], folder: Path | None, fold: int, identities: Mapping[str, str]
) -> list[logging.Handler]:
    """Return the handlers of a run.

    Parameters
    ----------
    targets, kwargs
        ``logging_type`` and ``logging_kwargs``; checked.
    folder
        Folder of the run; None if it writes no files.
    fold
        Fold of the cross-validation.
    identities
        Runs of trackers that are continued, by name of the target.

    Returns
    -------
    list of logging.Handler
        What was given ready-made as it is.
    """
    made: list[logging.Handler] = []
    for name, target, arguments in _paired(targets, kwargs):
        if name is not None:
            own = {**_defaults(name, folder, fold), **arguments}
            if identity := identities.get(name):
                own |= {"run_id": identity} if name == "mlflow" else {"id": identity, "resume": "allow"}
            if name == "visdom":
                own["exp_name"] = f"{own['exp_name']}_{fold:02d}"
            if (name != "tensorboardx" or "log_dir" in own) and importlib.util.find_spec(TARGETS[name][1]):
                made.append(TARGETS[name][0](**own))
        elif isinstance(target, type) and issubclass(target, logging.Handler):
            made.append(target(**arguments))
        else:  # a logger of trixi, or the class of one
            made.append(target if isinstance(target, logging.Handler) else trackers.TrixiHandler(target, **arguments))
    return made


def identities_of(handlers: Sequence[logging.Handler]) -> dict[str, str]:
    """Return the runs of trackers, by name of the target: to be continued later."""
    kinds: dict[str, type[Any]] = {"mlflow": trackers.MLflowHandler, "wandb": trackers.WandbHandler}
    return {name: one.run_id for name, kind in kinds.items() for one in handlers if isinstance(one, kind)}


def given_handlers(targets: object, handlers: Sequence[logging.Handler]) -> list[logging.Handler]:
    """Return those of the handlers that were given ready-made, or around such a logger: they are not ours to close."""
    given = {id(target) for target in as_list(targets)}
    return [one for one in handlers if id(one) in given or id(getattr(one, "logger", None)) in given]


def _paired(targets: object, kwargs: Mapping[str, Any]) -> list[tuple[str | None, Any, Mapping[str, Any]]]:
    """Return each target with its name, if it has one, and its arguments."""
    listed = as_list(targets)
    if not isinstance(targets, (list, tuple)):
        if kwargs and not listed:
            raise ConfigError("logging_kwargs are given, but logging_type=None writes nothing")
        return [(_named(target), target, kwargs) for target in listed]
    names = [_label(target) for target in listed]
    if twice := sorted(name for name in names if names.count(name) > 1):
        raise ConfigError(f"logging_type names {twice[0]!r} twice")
    for name, arguments in kwargs.items():
        if name not in names:
            raise ConfigError(
                f"logging_kwargs[{name!r}] belongs to no logging_type of the list{did_you_mean(name, names)}"
            )
        if not isinstance(arguments, Mapping):
            raise ConfigError(
                f"logging_kwargs[{name!r}] must be a dict: of a list of logging_type each has arguments of its own"
            )
    return [(_named(target), target, kwargs.get(name, {})) for target, name in zip(listed, names, strict=True)]


def _label(target: object) -> str:
    name = _named(target) or (target if isinstance(target, str) else None)
    return name or (target.__name__ if isinstance(target, type) else f"{type(target).__name__} {id(target)}")


def _named(target: object) -> str | None:
    """Return the name of a target that has one, as a string or as the class of the handler."""
    if isinstance(target, str):
        return target if target in TARGETS else None
    return next((name for name, (cls, *_) in TARGETS.items() if target is cls), None)


def _check_installed(name: str, *, is_default: bool) -> None:
    _, package, install = TARGETS[name]
    if importlib.util.find_spec(package) is not None:
        return
    if is_default:  # nobody asked for it
        logger.tell_once(
            f"nothing is written for TensorBoard, as the package {package!r} is not installed (pip install {install}); "
            "history.csv and history.jsonl are written all the same. logging_type=None says that you want no more"
        )
    elif name == "visdom":
        raise MissingBackendError(writers.NO_VISDOM.format(what="logging_type='visdom'"))
    else:
        raise MissingBackendError(
            f"logging_type={name!r} needs the package {package!r}, which is not installed. Install it with: pip "
            f"install {install}"
        )


def _check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that neither the handler nor what it hands them on to knows."""
    cls, package, _ = TARGETS[name]
    passed_to = {"tensorboardx": "SummaryWriter", "visdom": "Visdom", "wandb": "init"}.get(name)
    own = inspect.signature(cls).parameters
    others = {key: value for key, value in arguments.items() if key not in own}
    if passed_to is None:
        _bind(cls, others, cls.__name__)
    elif others and importlib.util.find_spec(package) is not None:
        _bind(getattr(importlib.import_module(package), passed_to), others, f"{package}.{passed_to}", is_open=False)


def _bind(function: Any, arguments: Mapping[str, Any], name: str, *, is_open: bool = True) -> None:
    """Refuse arguments that a function does not name; ``is_open``: unless it takes any."""
    try:
        known = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return  # it will say itself what it does not take
    if is_open and any(each.kind is each.VAR_KEYWORD for each in known.values()):
        return
    known.pop("logdir", None)  # of tensorboardX: here it is log_dir
    if unknown := [each for each in arguments if each not in known]:
        raise ConfigError(
            f"logging_kwargs names {unknown[0]!r}, which {name} does not take{did_you_mean(unknown[0], known)}"
        )


def _defaults(name: str, folder: Path | None, fold: int) -> dict[str, Any]:
    if name == "visdom":
        return {"exp_name": "main"}
    if folder is None:
        return {}
    run_name = "/".join(folder.parts[-3:])
    known: dict[str, dict[str, Any]] = {
        "tensorboardx": {"log_dir": folder / "logs"},
        "mlflow": {"run_name": run_name},
        "wandb": {"folder": folder / "logs", "name": run_name},
    }
    return known[name]
