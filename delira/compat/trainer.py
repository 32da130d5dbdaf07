"""Trainers as they were: arguments by position, a set-up and states that users override, and bare trainers."""

import functools
import inspect
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.callbacks.abstract_callback import CallbackList
from delira.errors import CheckpointError, ConfigError
from delira.settings.config import read_settings
from delira.training.run import Run
from delira.training.trainer import BaseNetworkTrainer

_log = logging.getLogger("delira")

_SCHEDULE = ("lr_scheduler_cls", "lr_scheduler_params")
_METRICS = ("train_metrics", "val_metrics")
_REST = ("logging_type", "logging_kwargs", "fold", "callbacks", "start_epoch", "metric_keys", "convert_batch_to_npy_fn")
_OPTIMIZER = ("optimizer_cls", "optimizer_params")
#: names of the arguments after network and folder, by position: of the base, of trainers of a framework, and of 0.3
_OF_BASE = (
    "losses", *_OPTIMIZER, *_METRICS, *_SCHEDULE, "gpu_ids", "save_freq", "optim_fn", "key_mapping", *_REST, "val_freq",
)  # fmt: skip
_OF_FRAMEWORKS = (
    "key_mapping", "losses", *_OPTIMIZER, *_METRICS, *_SCHEDULE, "gpu_ids", "save_freq", "optim_fn", *_REST,
    "mixed_precision", "mixed_precision_kwargs", "criterions", "val_freq",
)  # fmt: skip
_OF_03 = (
    "losses", *_OPTIMIZER, "metrics", *_SCHEDULE, "gpu_ids", "save_freq", "optim_fn", "logging_type", "logging_kwargs",
    "fold", "callbacks", "start_epoch",
)  # fmt: skip
#: the same of ``_setup``, after the network: of the base, and of trainers of a framework
_SETUP_OF_BASE = (*_SCHEDULE, "gpu_ids", "key_mapping", "convert_batch_to_npy_fn", "prepare_batch_fn")
_SETUP_OF_FRAMEWORKS = (
    "optim_fn", *_OPTIMIZER, *_SCHEDULE, "gpu_ids", "key_mapping", "convert_batch_to_npy_fn", "mixed_precision",
    "mixed_precision_kwargs",
)  # fmt: skip


def begin(trainer: Any, network: Any, save_path: Any, values: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Make a trainer of arguments by position, or a bare one with a fold and callbacks alone.

    Parameters
    ----------
    trainer
        The trainer, which has nothing yet.
    network, save_path
        The first two arguments; of a bare trainer the fold and the callbacks.
    values
        The others by position, from the third on.
    kwargs
        Those by name.
    """
    if network is None or isinstance(network, int):
        fold, callbacks = kwargs["fold"] if network is None else network, save_path or kwargs["callbacks"] or ()
        if not isinstance(callbacks, (list, tuple)):
            raise ConfigError(f"a trainer without a network takes a fold and a list of callbacks, got {callbacks!r}")
        backend: Any = getattr(trainer, "backend", None)
        trainer.run = Run(read_settings({}), backend, fold=fold, callbacks=callbacks)
        return
    first, is_base = values[0], type(trainer).__mro__[1:2] == (BaseNetworkTrainer,) and not hasattr(trainer, "backend")
    is_losses = isinstance(first, Mapping) and any(map(callable, first.values()))
    order: tuple[str, ...] = _OF_BASE if is_losses or (is_base and first is None) else _OF_FRAMEWORKS
    if order is _OF_BASE and len(values) > 4 and not isinstance(values[4], Mapping | None):
        order = _OF_03
    if len(values) > len(order):
        raise TypeError(f"{type(trainer).__name__} takes {len(order) + 2} arguments, got {len(values) + 2}")
    given = dict(zip(order, values, strict=False))
    named = {name: value for name, value in kwargs.items() if value is not None or name not in given}
    if twice := [name for name in named if given.get(name) is not None and name not in ("fold", "start_epoch")]:
        raise TypeError(f"{type(trainer).__name__} got {twice[0]!r} by position and by name")
    BaseNetworkTrainer.__init__(trainer, network, save_path, **{**named, **given})


# ------------------------------------------------------------------ the set-up


def call_setup(trainer: Any, network: Any) -> None:
    """Call ``_setup`` of the user's with the arguments that its signature names, unless its constructor does it."""
    below = [cls for cls in type(trainer).__mro__ if issubclass(cls, BaseNetworkTrainer) and "__init__" in vars(cls)]
    calls = [vars(cls)["__init__"].__code__.co_names for cls in below if cls is not BaseNetworkTrainer]
    if not any("_setup" in names for names in calls):
        settings = trainer.given_settings
        values = {name: settings.get(name) for name in _SETUP_OF_FRAMEWORKS}
        empty: dict[str, Any] = {"optimizer_params": {}, "lr_scheduler_params": {}, "gpu_ids": []}
        values |= {name: value for name, value in empty.items() if values[name] is None}
        values |= {"key_mapping": trainer.asked_mapping, "prepare_batch_fn": network.prepare_batch}
        parameters = inspect.signature(type(trainer)._setup).parameters
        trainer._setup(network, **{name: value for name, value in values.items() if name in parameters})
    if not hasattr(trainer, "step"):
        BaseNetworkTrainer._setup(trainer, network)
    _keep_own_schedules(trainer)


def _keep_own_schedules(trainer: Any) -> None:
    """Leave out the schedules of the settings where the set-up has made its own of them: rates would fall twice."""
    run = trainer.run
    made = [one for one in run.callbacks if type(one) is run.config.schedule.cls]
    if len(made) > len(run.optimizers):
        built = set(map(id, made[: len(made) - len(run.optimizers)]))
        run.callbacks = CallbackList(one for one in run.callbacks if id(one) not in built)
        trainer.step.bind_hooks()


def take_arguments(trainer: Any, values: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Take over what an older ``_setup`` passes on, as far as it is not what the trainer was made with."""
    order = _SETUP_OF_BASE if len(values) <= len(_SETUP_OF_BASE) else _SETUP_OF_FRAMEWORKS
    given = {**dict(zip(order, values, strict=False)), **named}
    if unknown := given.keys() - {*_SETUP_OF_BASE, *_SETUP_OF_FRAMEWORKS}:
        raise TypeError(f"_setup takes no argument {sorted(unknown)[0]!r}")
    trainer.asked_mapping = given.pop("key_mapping", trainer.asked_mapping)
    if (prepare := given.pop("prepare_batch_fn", None)) is not None:
        methods_of = trainer.objective.methods_of
        trainer.objective.methods_of = lambda network: (prepare, methods_of(network)[1])
    given.pop("mixed_precision_kwargs", None)
    before = trainer.given_settings
    changed = {name: one for name, one in given.items() if (one or before.get(name)) and before.get(name) is not one}
    if changed:
        _log.warning(
            "%s._setup trains with other settings than it was given, and than the manifest of the run names: %s",
            type(trainer).__name__, ", ".join(sorted(changed)),
        )  # fmt: skip
        trainer.given_settings = {**before, **changed}
        trainer.run.config = read_settings(trainer.given_settings)


# ------------------------------------------------------------------ states


def keep_others(trainer: Any) -> None:
    """Write and read files of the user's own beside the checkpoints."""
    own, base = type(trainer), BaseNetworkTrainer
    if own.save_state is not base.save_state:
        trainer.saving.save_others = functools.partial(save_others, trainer)
    if own._update_state is not base._update_state or not _reads_delira(trainer):
        trainer.saving.restore_others = functools.partial(restore_others, trainer)


def save_others(trainer: Any, names: Sequence[str]) -> None:
    """Call ``save_state`` of the user's for each checkpoint that has a historic name."""
    for name in names:
        if name == "best" or (name.startswith("epoch_") and "step" not in name):
            trainer.save_state(str(trainer.save_path / f"checkpoint_{name}"), trainer.state.epoch)


def restore_others(trainer: Any, tree: Mapping[str, Any]) -> None:
    """Call ``load_state`` and ``_update_state`` of the user's with the file of the epoch, if it is there."""
    name = f"checkpoint_epoch_{tree['epoch']}"
    files = [] if trainer.save_path is None or tree.get("step") else list(Path(trainer.save_path).glob(f"{name}*"))
    if not _reads_delira(trainer):
        if any(not file.name[len(name) :][:1].isdigit() for file in files):
            trainer._update_state(trainer.load_state(str(trainer.save_path / name)))
    else:
        trainer._update_state(tree)


def _reads_delira(trainer: Any) -> bool:
    own = vars(BaseNetworkTrainer)["load_state"].__func__
    return getattr(type(trainer).load_state, "__func__", None) is own


def _load_optimizers(trainer: Any, states: Mapping[str, Any]) -> None:
    """Give optimizers their states: by their own method, or by the backend where frameworks have none."""
    others = {}
    for key, own in states.items():
        optimizer = getattr(trainer.optimizers[key], "optimizer", trainer.optimizers[key])
        if hasattr(optimizer, "load_state_dict"):
            optimizer.load_state_dict(own)
        else:
            others[key] = trainer.optimizers[key]
    if others:
        tree = {"model": trainer.run.weights, "optimizer": states}
        trainer.backend.checkpoints.load_state_tree(tree, trainer.module, others)


def update_partly(trainer: Any, state: Mapping[str, Any]) -> None:
    """Take parts of a state over: weights, states of optimizers, the number of the epoch; others become attributes."""
    if lacking := sorted((state.get("optimizer") or {}).keys() - trainer.optimizers.keys()):
        raise CheckpointError(f"the state has the optimizers {lacking}, and the trainer {sorted(trainer.optimizers)}")
    for name, value in state.items():
        if name == "model":
            trainer.saving.load_weights(value)
        elif name == "optimizer":
            _load_optimizers(trainer, value)
        elif name == "epoch":
            if trainer.run.state.is_new:
                trainer.run.state.epoch = int(value or 0)
        else:
            setattr(trainer, name, value)
