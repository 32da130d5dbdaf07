"""The configuration of version 0.5, a face of the parameters; and the codecs of its files."""

import argparse
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from delira.errors import ConfigError
from delira.experiments.parameters import VARIABILITIES, Parameters
from delira.utils import yaml_codec
from delira.utils.config import LookupConfig as Config
from delira.utils.files import publish_text

__all__ = ["Config", "Decoder", "DeliraConfig", "Encoder"]

_UNSAID: Any = object()


def _cell(variability: str, part: str) -> Any:
    """One of the four dictionaries, to be read, changed and set."""

    def place(config: "DeliraConfig") -> tuple[Any, str]:
        return (config[variability], part) if config.variability_on_top else (config[part], variability)

    def read(config: "DeliraConfig") -> Any:
        holder, name = place(config)
        return holder[name]

    def write(config: "DeliraConfig", value: Mapping[str, Any]) -> None:
        holder, name = place(config)
        holder[name] = dict(value)

    return property(read, write, doc=f"The {variability} parameters of the {part}.")


def _view(**cells: str) -> Any:
    """Two of the four dictionaries by name; they are shown, not copied."""

    def read(config: "DeliraConfig") -> Config:
        shown = Config()
        dict.update(shown, {name: getattr(config, cell) for name, cell in cells.items()})
        return shown

    def write(config: "DeliraConfig", value: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping) or not value.keys() <= cells.keys():
            raise ConfigError(f"it takes a dictionary with {' and '.join(map(repr, cells))}, got {value!r}")
        for name, cell in cells.items():
            setattr(config, cell, value.get(name) or {})

    return property(read, write, doc=f"A dictionary of {' and '.join(cells)}.")


class DeliraConfig(Parameters):
    """Parameters by the names that they have in version 0.5; an experiment takes them as any others.

    Parameters
    ----------
    dict_like
        ``fixed_params`` and the other views, ``fixed`` and ``variable``, or entries of one's own.
    fixed_model, fixed_training, variable_model, variable_training
        The four dictionaries.
    **kwargs
        As entries of ``dict_like``.

    Examples
    --------
    >>> config = DeliraConfig(fixed_model={"n_classes": 10}, variable_training={"lr": 0.1})
    >>> config.variable_params, config.model_params["fixed"], config.nested_get("lr")
    ({'model': {}, 'training': {'lr': 0.1}}, {'n_classes': 10}, 0.1)
    """

    fixed_model = _cell("fixed", "model")
    fixed_training = _cell("fixed", "training")
    variable_model = _cell("variable", "model")
    variable_training = _cell("variable", "training")

    fixed_params = _view(model="fixed_model", training="fixed_training")
    variable_params = _view(model="variable_model", training="variable_training")
    model_params = _view(fixed="fixed_model", variable="variable_model")
    training_params = _view(fixed="fixed_training", variable="variable_training")
    params = _view(fixed="fixed_params", variable="variable_params")

    def __init__(
        self,
        dict_like: Mapping[str, Any] | None = None,
        fixed_model: Mapping[str, Any] | None = None,
        fixed_training: Mapping[str, Any] | None = None,
        variable_model: Mapping[str, Any] | None = None,
        variable_training: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__()
        for name, value in {**(dict_like or {}), **kwargs}.items():
            self._enter(name, value)
        self.update({
            "fixed": {"model": fixed_model or {}, "training": fixed_training or {}},
            "variable": {"model": variable_model or {}, "training": variable_training or {}},
        }, overwrite=True)  # fmt: skip

    def _enter(self, name: Any, value: Any) -> None:
        if not isinstance(name, str):
            warnings.warn(f"the key {name!r} is no text, so no dotted key leads to it", RuntimeWarning, stacklevel=3)
        if isinstance(getattr(type(self), str(name), None), property):
            setattr(self, name, value)
        elif name in VARIABILITIES:
            setattr(self, f"{name}_params", value)
        else:
            self[name] = value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    # ------------------------------------------------------------------ reading and changing

    def update(  # type: ignore[override]
        self,
        dict_like: Any = (),
        deepcopy: bool | None = None,
        overwrite: bool = False,
        *,
        deep: Any = _UNSAID,
        **further: Any,
    ) -> None:
        """Merge parameters in; what is there already is replaced with ``overwrite=True`` only.

        Raises
        ------
        ConfigError
            Naming what would be replaced (a ``ValueError``).
        """
        if deep is _UNSAID and not overwrite and not further:
            given = dict_like if isinstance(dict_like, Mapping) else dict(dict_like)
            if taken := [path for path, value in _leaves(given) if self.get(path, value) != value]:
                raise ConfigError(f"update would replace {', '.join(taken)}; say overwrite=True if that is meant")
        super().update(dict_like, deep=bool(deepcopy) if deep is _UNSAID else deep, **further)

    def nested_get(self, key: Any, *args: Any, allow_multiple: bool = False, **kwargs: Any) -> Any:
        """Return the entry of that name, wherever it is; with ``allow_multiple`` a list of all."""
        return [value for _, value in self._find(key)] if allow_multiple else super().nested_get(key, *args, **kwargs)

    def log_as_string(self, full_config: bool = False) -> str:
        """Log the variable parameters, or all of them, as YAML, and return the text."""
        text = self.dumps() if full_config else yaml_codec.dumps(self.variable_params)
        logging.getLogger("delira").info("%s", text)
        return text

    # ------------------------------------------------------------------ files and command lines

    def dumps(self) -> str:
        """Return the parameters as YAML."""
        return yaml_codec.dumps(dict(self.deepcopy().permute_variability_on_top()))

    def dump(self, path: str | Path) -> Path:
        """Write the parameters as YAML."""
        return publish_text(Path(path), self.dumps())

    def loads(self, text: str, objects: Mapping[str, Any] | None = None) -> Self:
        """Take parameters over that :meth:`dumps` wrote."""
        for name, value in dict(yaml_codec.loads(text, objects)).items():
            self._enter(name, value)
        return self

    def load(  # type: ignore[override]
        self: Any, path: str | Path, objects: Mapping[str, Any] | None = None
    ) -> Any:
        """Take the parameters of a file over: ``config.load(path)``."""
        return self.loads(Path(path).read_text(encoding="utf-8"), objects)

    @classmethod
    def create_from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Make a configuration of a dictionary."""
        return cls(d)

    @classmethod
    def create_from_file(cls, path: str | Path, objects: Mapping[str, Any] | None = None) -> Self:
        """Make a configuration of a file."""
        made: Self = cls().load(path, objects)
        return made

    @classmethod
    def create_from_str(cls, text: str, objects: Mapping[str, Any] | None = None) -> Self:
        """Make a configuration of YAML."""
        return cls().loads(text, objects)

    @classmethod
    def create_from_argparse(cls, value: argparse.ArgumentParser | argparse.Namespace, **kwargs: Any) -> Self:
        """Make a configuration of what a parser read: each argument a fixed setting of the training."""
        options = value if isinstance(value, argparse.Namespace) else value.parse_args(**kwargs)
        return cls(fixed_training=vars(options))


def _leaves(tree: Mapping[Any, Any], path: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        here = f"{path}.{name}" if path else str(name)
        found += _leaves(value, here) if isinstance(value, Mapping) else [(here, value)]
    return found


class Encoder:
    """Makes plain values of a tree, as files hold them."""

    def encode(self, obj: Any) -> Any:
        """Return dictionaries with texts as keys, lists, texts, numbers, True, False and None."""
        return yaml_codec.encode(obj)


class Decoder:
    """Makes a tree of plain values; nothing is imported or executed."""

    def decode(self, obj: Any, objects: Mapping[str, Any] | None = None) -> Any:
        """Return what was encoded; classes and functions are looked up in ``objects`` and in what is imported."""
        return yaml_codec.decode(obj, objects)
