"""Callbacks of a run by type and arguments, so that another run can be compared with it."""

import inspect
from collections.abc import Iterable
from typing import Any

from delira.callbacks.abstract_callback import CallbackList
from delira.callbacks.hooks import IN_STEP
from delira.errors import ConfigError
from delira.utils import yaml_codec
from delira.utils.references import class_on_disk, module_on_disk

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
    module = module_on_disk(type(callback).__module__, type(callback).__qualname__)
    return module.startswith(_OURS) and module.removeprefix(_OURS).partition(".")[0] in _WATCHING


def _describe(callback: object) -> dict[str, Any]:
    cls = type(callback)
    try:
        names = {*inspect.signature(cls).parameters}
    except (TypeError, ValueError):  # no constructor that Python could show
        names = set()
    kept = dict(getattr(callback, "__dict__", {}))
    arguments = {}
    for name, value in kept.items():
        if name.lstrip("_") in names or name in _TOGETHER | _MADE:
            inner = vars(value) if name in _MADE and hasattr(value, "__dict__") else value
            arguments[name.lstrip("_")] = yaml_codec.encode(inner)
    if hooks := getattr(callback, "hooks", None):  # a decorated function is known by its name
        arguments = {"function": getattr(kept.get("function"), "__qualname__", ""), "hooks": yaml_codec.encode(hooks)}
        name = f"{getattr(kept.get('function'), '__module__', '')}:callback"
    else:
        name = class_on_disk(cls)
    return {"$call": name, "arguments": arguments, "in_step": _acts_in_step(callback)}


def _acts_in_step(callback: object) -> bool:
    try:
        heard = CallbackList([callback])
    except ConfigError:  # the trainer says so
        return False
    return any(heard.hears(hook) for hook in IN_STEP)
