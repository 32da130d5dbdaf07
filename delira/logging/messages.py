"""The messages: dictionaries like ``{"value": {"value": 0.5, "name": "loss"}}``, read and never changed."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from delira.errors import ConfigError
from delira.utils.suggest import did_you_mean

#: kind -> its other names
SPELLINGS: dict[str, tuple[str, ...]] = {
    "scalar": ("value",),
    "scalars": ("values",),
    "image": ("img", "picture"),
    "image_grid": ("images",),
    "histogram": ("hist",),
    "text": (),
    "figure": ("fig", "matplot", "matplot_plt"),
    "line": ("lineplot", "curve"),
    "scatter": ("scatterplot",),
    "bar": ("barplot",),
    "pie": ("piechart",),
    "boxplot": (),
    "heatmap": ("hm",),
    "contour": ("contourplot",),
    "surface": ("surfaceplot",),
    "pr_curve": ("pr",),
    "embedding": (),
    "audio": ("sound",),
    "video": (),
    "hparams": (),
}
KINDS = {name: kind for kind, others in SPELLINGS.items() for name in (kind, *others)}
#: shown by a method of the tool that is named like them, with the arguments of the message
PASSED_ON = ("pr_curve", "embedding", "audio", "video", "hparams")
#: drawn where a tool has no plot of its own
PLOTS = ("histogram", "line", "scatter", "bar", "pie", "boxplot", "heatmap", "contour", "surface")

#: what the value of a kind may be called, besides ``value`` and the kind itself
_VALUES = {
    "scalar": ("scalar_value",),
    "scalars": ("tag_scalar_dict", "val_dict", "values"),
    "image": ("img", "img_tensor", "array"),
    "image_grid": ("images", "image_array", "img_tensor", "array"),
    "histogram": ("values", "array"),
    "text": ("text_string",),
    "figure": ("fig", "plt"),
    "line": ("y_vals", "y", "Y", "array"),
}
_ARRAYS = ("array", "x_vals", "X", "values")
_NAMES = ("name", "tag", "main_tag")
_STEPS = ("global_step", "counter", "step")


@dataclasses.dataclass(frozen=True)
class Message:
    """One thing to be shown."""

    kind: str
    """A key of ``SPELLINGS``."""

    name: str
    """What it is called."""

    value: Any = None
    """The number, array, text, figure, or numbers by name; of what is only passed on, nothing."""

    step: int | None = None
    """Its place on the axis, if the message says it."""

    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further keywords."""

    args: Sequence[Any] = ()
    """Of what is only passed on, the arguments without a name."""

    appendix: str = ""
    """``env_appendix`` of the message, e.g. ``"_00"`` of fold 0."""

    def given(self, *names: str, default: object = None) -> Any:
        """Return the first of some keywords that the message has."""
        return next((self.options[name] for name in names if name in self.options), default)


def read_messages(message: Mapping[str, Any]) -> list[Message]:
    """Return what a message consists of: one for each of its keys.

    Parameters
    ----------
    message
        Kinds, each with its keywords as a dictionary, with ``{"args": [...], "kwargs": {...}}``, with a list of
        arguments, or with the value alone.

    Raises
    ------
    ConfigError
        If a kind is unknown, or the value is missing.
    """
    return [_read(key, content) for key, content in message.items()]


def split(content: object) -> tuple[list[Any], dict[str, Any]]:
    """Arguments without and with a name of what a message has under a key."""
    if isinstance(content, Mapping):
        named = {key: value for key, value in content.items() if key not in ("args", "kwargs")}
        args, more = content.get("args", ()), content.get("kwargs", {})
        return list(args if isinstance(args, (list, tuple)) else [args]), {**named, **more}
    return list(content) if isinstance(content, (list, tuple)) else [content], {}


def _read(key: Any, content: Any) -> Message:
    kind = KINDS.get(key)
    if kind is None:
        raise ConfigError(f"nothing shows a message of the kind {key!r}{did_you_mean(str(key), KINDS)}")
    if key == "values" and isinstance(content, Mapping) and not set(content) & {"args", "kwargs", "values", "value"}:
        content = {"value": content}  # numbers by name, as they are
    args, named = split(content)
    if kind in PASSED_ON:
        name = str(next((named[each] for each in _NAMES if each in named), args[0] if args else key))
        return Message(kind, name, options=named, args=args)
    found = dict(_positional(key, args))
    for role, spellings in (("value", _values_of(kind)), ("name", _NAMES), ("step", _STEPS)):
        for spelling in spellings:
            if spelling in named and role not in found:
                found[role] = named.pop(spelling)
    if "value" not in found:
        allowed = ", ".join(map(repr, _values_of(kind)))
        raise ConfigError(f"a message of the kind {key!r} has no value: give one of {allowed}; got {sorted(named)}")
    appendix, step = str(named.pop("env_appendix", "")), found.get("step")
    name = str(key if found.get("name") is None else found["name"])
    return Message(kind, name, found["value"], None if step is None else int(step), named, appendix=appendix)


def _values_of(kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((kind, *_VALUES.get(kind, _ARRAYS), "value")))


def _positional(key: str, args: Sequence[Any]) -> list[tuple[str, Any]]:
    is_named_first = key != "text" and args and isinstance(args[0], str)
    order = ["name", "value", "step"] if is_named_first else ["value", "name", "step"]
    if len(args) > len(order):
        raise ConfigError(f"a message of the kind {key!r} has {len(args)} arguments without a name; name them")
    return list(zip(order, args, strict=False))
