"""Messages like ``{"value": {"value": 0.5, "name": "loss"}}``, and what they show as numbers and pictures of numpy."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import ConfigError, did_you_mean
from delira.utils.arrays import as_array, ops_of, read_arrays, to_plain
from delira.utils.late import Lazy
from delira.utils.pictures import as_numbers, side_by_side

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


Reduction = str | Callable[[np.ndarray], Any]
#: what several values of one name may become
REDUCTIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "last": lambda values: values[-1],
    "first": lambda values: values[0],
    "mean": np.mean,
    "median": np.median,
    "max": np.max,
    "min": np.min,
}
#: classes of values that stand for some while a step is compiled
_TRACED = ("Tracer", "SymbolicTensor", "KerasTensor")
#: channels that a picture of numpy with the channels last may have
_CHANNELS = ((1, 3), (1, 3, 4))


def refuse_traced(message: Message) -> None:
    """Refuse what has no value: a step that is compiled runs as Python only while it is traced.

    Raises
    ------
    ConfigError
        Saying what to do.
    """
    parts = message.value.values() if isinstance(message.value, Mapping) else [message.value]
    for value in (*parts, *message.args, *message.options.values()):
        if any(cls.__name__ in _TRACED for cls in type(value).__mro__):
            raise ConfigError(
                f"{message.name!r} is logged inside a compiled step, where it has no value yet, and which runs as "
                "Python only once. Return it from the closure as a metric and give logging_frequencies, log it in a "
                "callback (on_step_training), or train with compiled=False"
            )


def read(message: Message) -> Message:
    """Return the same message with values of numpy, brought from their devices."""
    convert: dict[str, Callable[[Any], Any]] = {
        "scalar": number,
        "scalars": lambda values: {str(name): number(value) for name, value in values.items()},
        "image": lambda value: picture(value, message.given("channels_last")),
        "image_grid": lambda value: grid(value, message),
        "histogram": lambda value: array(value).ravel(),
        "text": str,
        "figure": lambda value: value.gcf() if hasattr(value, "gcf") else value,
    }
    value = convert.get(message.kind, array)(message.value) if message.value is not None else None
    options = {name: plain(option) for name, option in message.options.items()}
    return dataclasses.replace(message, value=value, options=options, args=[plain(each) for each in message.args])


def array(value: object) -> np.ndarray:
    """Return an array of any framework, or nested lists, as one of numpy."""
    if isinstance(value, (list, tuple)) and any(hasattr(each, "shape") for each in value):
        return np.stack([array(each) for each in value])
    return read_arrays([as_array(value)])[0]


def number(value: object) -> Any:
    """Return a number; nested lists of several."""
    if isinstance(value, Lazy):
        value = value.item()
    if isinstance(value, Mapping):
        return {name: number(part) for name, part in value.items()}
    if isinstance(value, (bool, int, float)):
        return float(value)
    found = array(value)
    if found.dtype.kind not in "biuf":
        raise ConfigError(f"a scalar is a number, got {value!r}")
    return to_plain(found.astype(np.float64))


def kept(value: object) -> Any:
    """Return a number, or a device value of one, as it is now: it may wait for others, and nothing is read."""
    if isinstance(value, (Lazy, bool, int, float)):
        return value
    found = as_array(value)
    return ops_of(found).keep(found)


def reduce(values: Sequence[Any], how: Reduction) -> float:
    """One number of several.

    Parameters
    ----------
    values
        Numbers, or device values of one number each; read together.
    how
        A name of ``REDUCTIONS``, or a function of an array of shape ``(n,)``.
    """
    read_ones = read_arrays([as_array(value.item() if isinstance(value, Lazy) else value) for value in values])
    return reduce_array(np.array([float(one.ravel()[0]) for one in read_ones]), how)


def reduce_array(values: np.ndarray, how: Reduction) -> float:
    """Return the same for an array of shape ``(n,)``."""
    return float((REDUCTIONS[how] if isinstance(how, str) else how)(values))


def picture(value: object, channels_last: bool | None = None) -> np.ndarray:
    """One picture of any framework: float32 of shape ``(c, h, w)``, bytes in [0, 1].

    Parameters
    ----------
    value
        Shape ``(h, w)``, ``(c, h, w)`` or ``(h, w, c)``.
    channels_last
        Which of the two; None: as the framework has it, of numpy where only one has 1, 3 or 4 channels.
    """
    pixels = array(value)
    if pixels.ndim == 4 and len(pixels) == 1:
        pixels = pixels[0]
    if pixels.ndim not in (2, 3):
        raise ConfigError(f"an image has the shape (height, width) or (channels, height, width), got {pixels.shape}")
    return as_numbers(_channels_first(pixels, value, channels_last))


def grid(value: object, message: Message) -> np.ndarray:
    """Several pictures side by side: float32 of shape ``(c, H, W)``."""
    pictures = array(value)
    if pictures.ndim not in (2, 3, 4):
        raise ConfigError(f"a grid of images has the shape (n, channels, height, width), got {pictures.shape}")
    example = value[0] if isinstance(value, (list, tuple)) else value
    each = [pictures] if pictures.ndim == 2 else pictures
    pictures = np.stack([_channels_first(pixels, example, message.given("channels_last")) for pixels in each])
    columns = message.given("nrow", default=min(8, math.ceil(math.sqrt(len(pictures)))))
    return side_by_side(as_numbers(pictures), int(columns), int(message.given("padding", default=2)))


def _channels_first(pixels: np.ndarray, original: object, channels_last: bool | None) -> np.ndarray:
    if pixels.ndim == 2:
        return pixels[None]
    if channels_last is None:
        ops, (first, last) = ops_of(as_array(original)), (pixels.shape[0], pixels.shape[-1])
        is_clear = any(last in few and first not in few for few in _CHANNELS)
        channels_last = is_clear if ops is ops_of(None) else ops.class_axis == -1
    return np.moveaxis(pixels, -1, 0) if channels_last else pixels


def plain(value: object) -> Any:
    """Return a value that may be an array of a framework, then as one of numpy."""
    return array(value) if ops_of(value) is not ops_of(None) else value
