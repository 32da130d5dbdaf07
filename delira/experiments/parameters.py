"""The parameters of an experiment: fixed and variable, of the model and of the training; on command lines, too."""

import argparse
import contextlib
import copy
import difflib
import numbers
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from delira.errors import ConfigError, did_you_mean, expect
from delira.utils import yaml_codec
from delira.utils.config import LookupConfig
from delira.utils.files import open_regular, publish_text, writable_folder
from delira.utils.yaml_codec import read_yaml, write_yaml

PARTS = ("model", "training")

VARIABILITY_ON_TOP = "variability\n|\n->\ttraining"
TRAINING_ON_TOP = "training\n|\n->\tvariability"
NO_HIERARCHY = "no valid hierarchy"


class HierarchyError(ConfigError, RuntimeError, AttributeError):
    """The top keys are neither "fixed" and "variable" nor "model" and "training"."""


class Parameters(LookupConfig):
    """Fixed and variable parameters, of the model and of the training.

    Parameters
    ----------
    fixed_params
        ``{"model": {...}, "training": {...}}``: what stays the same. Missing parts are empty.
    variable_params
        Likewise: what a search may change. A name that is both fixed and variable has the variable value.

    Examples
    --------
    >>> params = Parameters({"model": {"n_classes": 10}, "training": {"num_epochs": 3}},
    ...                     {"training": {"lr": 0.1}})
    >>> params.variable.training.lr, params["fixed.training.num_epochs"], params.nested_get("n_classes")
    (0.1, 3, 10)
    >>> params.training_settings()
    {'num_epochs': 3, 'lr': 0.1}
    """

    __slots__ = ()

    def __init__(self, fixed_params: Mapping[str, Any] | None = None, variable_params: Mapping[str, Any] | None = None):
        super().__init__(
            fixed=_filled("fixed_params", fixed_params), variable=_filled("variable_params", variable_params)
        )

    # ---- what experiments read

    def model_kwargs(self) -> dict[str, Any]:
        """Return the arguments of the network, variable before fixed, whatever the hierarchy."""
        return self._effective("model")

    def training_settings(self) -> dict[str, Any]:
        """Return the settings of the training, variable before fixed, whatever the hierarchy.

        Whole entries win: a variable ``optimizer_params`` replaces the fixed one, it is not merged with it.
        """
        return self._effective("training")

    def _effective(self, part: str) -> dict[str, Any]:
        view = self._seen_by(VARIABILITY_ON_TOP)
        _check_parts(view)
        merged = {**dict.get(view["fixed"], part, {}), **dict.get(view["variable"], part, {})}
        return {name: value.to_dict() if isinstance(value, LookupConfig) else value for name, value in merged.items()}

    def _find(self, key: object) -> list[tuple[tuple[Any, ...], Any]]:
        return [(path, value) for path, value in super()._find(key) if not self._is_shadowed(path)]

    def _is_shadowed(self, path: tuple[Any, ...]) -> bool:
        """Return True if a fixed entry is hidden by a variable one of the same part."""
        if len(path) < 3 or "fixed" not in path[:2]:
            return False
        variable = self.get(".".join("variable" if step == "fixed" else str(step) for step in path[:2]))
        return isinstance(variable, Mapping) and path[2] in variable

    # ---- the two hierarchies

    @property
    def variability_on_top(self) -> bool:
        """Return True if the top keys are "fixed" and "variable"."""
        return all(dict.__contains__(self, name) for name in VARIABILITIES)

    @property
    def training_on_top(self) -> bool:
        """Return True if the top keys are "model" and "training"."""
        return all(dict.__contains__(self, name) for name in PARTS)

    @property
    def hierarchy(self) -> str:
        """The hierarchy as a small drawing; :meth:`permute_to_hierarchy` takes it."""
        if self.variability_on_top:
            return VARIABILITY_ON_TOP
        return TRAINING_ON_TOP if self.training_on_top else NO_HIERARCHY

    def permute_hierarchy(self) -> Self:
        """Exchange the two upper levels, in place."""
        if self.variability_on_top == self.training_on_top:
            raise HierarchyError(
                f"cannot permute top keys {list(self)}; they must be either 'fixed' and 'variable' or "
                f"'model' and 'training'. Parameters(fixed_params, variable_params) makes both"
            )
        turned = _turned(self)
        self.clear()
        dict.update(self, turned)
        return self

    def permute_training_on_top(self) -> Self:
        """Put "model" and "training" on top, in place."""
        return self if self.training_on_top and not self.variability_on_top else self.permute_hierarchy()

    def permute_variability_on_top(self) -> Self:
        """Put "fixed" and "variable" on top, in place."""
        return self if self.variability_on_top and not self.training_on_top else self.permute_hierarchy()

    def permute_to_hierarchy(self, hierarchy: str) -> Self:
        """Establish the hierarchy that ``other.hierarchy`` gave, in place."""
        if hierarchy == VARIABILITY_ON_TOP:
            return self.permute_variability_on_top()
        if hierarchy == TRAINING_ON_TOP:
            return self.permute_training_on_top()
        raise ConfigError(
            f"unknown hierarchy {hierarchy!r}; known are {VARIABILITY_ON_TOP!r} and {TRAINING_ON_TOP!r}, "
            f"which params.hierarchy gives; or call permute_variability_on_top() or permute_training_on_top()"
        )

    def _seen_by(self, hierarchy: str) -> Self:
        """The same parameters in a hierarchy, to be read: these themselves if it is theirs, else a copy."""
        tops = {VARIABILITY_ON_TOP: {*VARIABILITIES}, TRAINING_ON_TOP: {*PARTS}}
        own = [name for name, top in tops.items() if top <= self.keys()]
        return self if own == [hierarchy] else copy.copy(self).permute_to_hierarchy(hierarchy)

    # ---- merging, text, files

    def update(  # type: ignore[override]  # the historic signature, not dict's
        self,
        dict_like: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (),
        deep: bool = False,
        ignore: Iterable[str] | None = None,
        allow_dict_overwrite: bool = True,
    ) -> None:
        """Merge parameters in; see :meth:`LookupConfig.update`.

        ``Parameters`` may come in either hierarchy and are left as they are. A plain dictionary needs
        the top keys of the present hierarchy; its dotted keys are paths (``{"fixed.training.lr": 0.1}``).
        """
        if self.hierarchy == NO_HIERARCHY:
            raise HierarchyError(f"cannot update parameters with the top keys {list(self)}; start from Parameters()")
        if isinstance(dict_like, Parameters):
            source: LookupConfig = dict_like._seen_by(self.hierarchy)
        else:
            source = LookupConfig()
            for key, value in dict(dict_like).items():
                if isinstance(key, str) and "." in key:
                    source[key] = value
                else:
                    LookupConfig.update(source, {key: value})
            top = VARIABILITIES if self.variability_on_top else PARTS
            if source and not any(name in source for name in top):
                raise HierarchyError(
                    f"update got the top keys {list(source)}, but {' and '.join(map(repr, top))} are on top; "
                    f"write update({{{top[0]!r}: {{...}}}}) or update(Parameters(...))"
                )
            for name in top:
                if not isinstance(source.get(name, {}), Mapping):
                    raise ConfigError(f"update got {name!r}: {source[name]!r}; it must be a dictionary")
        super().update(source, deep, ignore, allow_dict_overwrite)

    # ---- the command line of a script

    def create_argparser(self, prog: str | None = None) -> argparse.ArgumentParser:
        """Return a parser whose ``--help`` lists every parameter that can be given as text, with its present value.

        Parameters
        ----------
        prog
            Name of the program; that of the script if ``None``.
        """
        parser = argparse.ArgumentParser(prog=prog, allow_abbrev=False)
        add_parameters(parser, self)
        return parser

    def update_from_argparse(
        self,
        parser: argparse.ArgumentParser | None = None,
        add_unknown_items: bool = False,
        arguments: Sequence[str] | None = None,
    ) -> argparse.Namespace:
        """Replace parameters by what the command line of the script says: ``--training.lr 1e-4``.

        A parameter is named by its path or by any part of it that says which one is meant: ``--lr``,
        ``--training.lr``, ``--fixed.training.optimizer_params.lr``. Values are written as in YAML and must be of the
        kind of the present value. ``--help`` lists all of them. Wrong names and values end the program with exit
        code 2 and one line that says what is known.

        Parameters
        ----------
        parser
            Of further arguments of the script; it gets the parameters, too.
        add_unknown_items
            Also take new ones: ``--training.new 3``, ``--variable.model.depth 2``.
        arguments
            Words to read; those of the process if ``None``.

        Returns
        -------
        argparse.Namespace
            The further arguments.

        Examples
        --------
        >>> params = Parameters({"training": {"optimizer_params": {"lr": 0.1}}})
        >>> params.update_from_argparse(arguments=["--training.lr", "1e-4"])
        Namespace()
        >>> params.fixed.training.optimizer_params.lr
        0.0001
        """
        parser = argparse.ArgumentParser(allow_abbrev=False) if parser is None else parser
        add_parameters(parser, self)
        leaves, others = settable(self), _options_of(parser)
        if parser.usage is None and others <= {"-h", "--help"}:
            parser.usage = "%(prog)s [-h] [--NAME VALUE ...]"
        words, rest = sys.argv[1:] if arguments is None else list(arguments), []
        given: dict[str, Any] = {}
        try:
            while words and words[0] != "--":
                word = words.pop(0)
                name, equals, text = word.removeprefix("--").partition("=")
                if not word.startswith("--") or f"--{name}" in others:
                    rest.append(word)
                    continue
                path = _path_of(name, self, leaves, add_unknown_items)
                if not equals and not words:
                    raise ConfigError(f"--{name} needs a value")
                given[".".join(path)] = _value_of(text if equals else words.pop(0), name, leaves.get(path))
        except ConfigError as error:
            parser.exit(2, f"{parser.prog}: {error}\n")
        options = parser.parse_args([*rest, *words])
        for place, value in given.items():
            self[place] = value
        return options

    def __str__(self) -> str:
        return "Parameters:\n" + "".join(f"\t{key} = {value}\n" for key, value in self.items())

    def save(self, filepath: str | Path) -> Path:
        """Write a YAML file, all or nothing, with variability on top.

        Classes and functions are written by their names; see :mod:`delira.utils.yaml_codec`.

        Parameters
        ----------
        filepath
            ``.yml`` is appended unless it ends in ``.yml`` or ``.yaml``; missing folders are made.

        Returns
        -------
        pathlib.Path
            The file that was written.
        """
        path = _with_suffix(filepath)
        text = yaml_codec.dumps(self._seen_by(VARIABILITY_ON_TOP))
        writable_folder(path.parent)
        return publish_text(path, text)

    @classmethod
    def load(cls, filepath: str | Path, objects: Mapping[str, Any] | None = None) -> Self:
        """Read what :meth:`save` wrote, or a file written by hand; nothing is imported or executed.

        Parameters
        ----------
        filepath
            As given to :meth:`save`.
        objects
            Classes and functions by name, for entries whose module is not imported yet and for objects
            that have to be constructed: ``{"CrossEntropyLoss": torch.nn.CrossEntropyLoss}``. What stays
            unresolved fails when it is used.
        """
        path = _with_suffix(filepath)
        try:
            with open_regular(path) as file:  # no pipe, which would block
                text = file.read()
            tree = yaml_codec.loads(text, objects)
            if not isinstance(tree, Mapping) or not any(name in tree for name in (*VARIABILITIES, *PARTS)):
                raise ConfigError(
                    "this is no parameter file; it must be a mapping with 'fixed' and 'variable', each "
                    "holding 'model' and 'training'"
                )
            return _from_tree(cls, dict(tree))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error


def _filled(argument: str, given: Mapping[str, Any] | None) -> LookupConfig:
    """Copy the dictionaries and add the parts that are missing."""
    expect((argument, given, isinstance(given, Mapping | None), "a dictionary {'model': {...}, 'training': {...}}"))
    filled = LookupConfig()
    filled.update(given or {})
    for part in PARTS:
        content = dict.get(filled, part)
        expect((f"{argument}[{part!r}]", content, isinstance(content, Mapping | None), "a dictionary"))
        dict.__setitem__(filled, part, content if isinstance(content, LookupConfig) else LookupConfig(content or {}))
    return filled


def _check_parts(view: LookupConfig) -> None:
    """Refuse settings that lie beside "model" and "training" and would silently do nothing."""
    lost = [f"{name!r}; write 'fixed.{name}' or 'variable.{name}'" for name in PARTS if dict.__contains__(view, name)]
    for variability in VARIABILITIES:
        for name, content in view[variability].items():
            if name in PARTS:
                continue
            if near := difflib.get_close_matches(str(name), PARTS, n=1, cutoff=0.7):
                lost.append(f"'{variability}.{name}'; did you mean '{variability}.{near[0]}'")
            elif not isinstance(content, Mapping):
                lost.append(f"'{variability}.{name}'; write '{variability}.training.{name}' (or 'model')")
    if lost:
        raise ConfigError(
            f"parameters must be inside 'model' or 'training' of 'fixed' or 'variable', got {'; '.join(lost)}"
        )


def _turned(params: "Parameters") -> dict[Any, Any]:
    """Return the same with the two upper levels exchanged; what is in neither of them stays on top."""
    if params.variability_on_top:
        rows = {name: _row(params, name) for name in VARIABILITIES}
        names = [*dict.fromkeys((*PARTS, *rows["fixed"], *rows["variable"]))]  # an ordered set
    else:
        # a part of the user's own ("data") was turned along with ours: it holds nothing but the variabilities
        own = [key for key, value in params.items() if isinstance(value, LookupConfig) and {*value} <= {*VARIABILITIES}]
        rows = {part: _row(params, part) for part in dict.fromkeys((*PARTS, *(key for key in own if params[key])))}
        names = [*VARIABILITIES]
    rest = {key: value for key, value in params.items() if key not in rows}
    if params.variability_on_top and (both := [name for name in names if name in rest]):
        raise HierarchyError(f"{both} are on top and inside 'fixed' or 'variable'; delete one of them")
    ours = {*PARTS}
    return {
        name: LookupConfig({top: row.get(name, {}) for top, row in rows.items() if {top, name} & ours or name in row})
        for name in names
    } | rest


def _row(params: LookupConfig, name: str) -> Mapping[Any, Any]:
    row = dict.__getitem__(params, name)
    if not isinstance(row, Mapping):
        raise HierarchyError(f"cannot permute: {name!r} must be a dictionary, got {row!r}")
    return row


def _with_suffix(filepath: str | Path) -> Path:
    path = Path(filepath)
    return path if path.suffix.lower() in (".yml", ".yaml") else path.with_name(f"{path.name}.yml")


def _from_tree(cls: type[Any], tree: dict[Any, Any]) -> Any:
    if any(name in tree for name in VARIABILITIES):
        params = cls(tree.pop("fixed", None), tree.pop("variable", None))
    else:  # written by hand, training on top
        rows = {part: {} if (row := tree.pop(part, None)) is None else row for part in PARTS}
        for part, row in rows.items():
            if not isinstance(row, Mapping) or not {*row} <= {*VARIABILITIES}:
                raise ConfigError(f"{part!r} on top must hold 'fixed' and 'variable' and nothing else, got {row!r}")
        params = cls(*({part: row.get(name) for part, row in rows.items()} for name in VARIABILITIES))
    LookupConfig.update(params, tree)
    return params


VARIABILITIES = ("fixed", "variable")
_GROUP = "parameters"
_LONG = 40  # characters of a default that are shown
#: what values are, as ``--help`` and as messages call them; the first that fits
_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("BOOL", (bool, np.bool_), "true or false"),
    ("INT", numbers.Integral, "a whole number"),
    ("FLOAT", numbers.Real, "a number"),
    ("TEXT", str, "a text"),
    ("MAPPING", Mapping, "a mapping"),
    ("LIST", (list, tuple), "a list like [1, 2]"),
    ("VALUE", object, "null"),
)
_DELIRA = str(Path(__file__).parents[1] / "_").removesuffix("_")

Steps = tuple[str, ...]


def add_parameters(parser: argparse.ArgumentParser, params: "Parameters") -> None:
    """Let a parser take every parameter that can be written as text.

    Parameters
    ----------
    parser
        Any; it lists them in a group of their own.
    params
        The parameters, in either hierarchy.
    """
    if any(group.title == _GROUP for group in parser._action_groups):
        return  # a parser that has them already
    leaves, taken = settable(params), _options_of(parser)
    group = parser.add_argument_group(
        _GROUP, f"Named by as much of the path as says which one is meant{_example(leaves, taken)}; values as in YAML."
    )
    for path, value in leaves.items():
        option = f"--{'.'.join(path) if _is_hidden(path, leaves) else shown(path)}"
        if option not in taken:
            explained = f"now {_short(value)}".replace("%", "%%")  # argparse reads % as a format
            group.add_argument(option, default=argparse.SUPPRESS, metavar=_kind_of(value)[0], help=explained)


def _example(leaves: Mapping[Steps, Any], taken: set[str]) -> str:
    """A parameter of this script whose last name says which one is meant: a learning rate rather than another."""
    lasts = [path[-1] for path in leaves]
    short = [path for path in leaves if len(path) > 2 and lasts.count(path[-1]) == 1 and f"--{path[-1]}" not in taken]
    numbers_first = sorted(short, key=lambda path: _kind_of(leaves[path])[0] != "FLOAT")
    return f" (--{numbers_first[0][-1]})".replace("%", "%%") if short else ""


def _options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Options of a script itself."""
    own = {id(one) for group in parser._action_groups if group.title == _GROUP for one in group._group_actions}
    return {option for action in parser._actions if id(action) not in own for option in action.option_strings}


def fold_numbers(text: str) -> list[int]:
    """Numbers of folds out of ``"1,3"``: ``parser.add_argument("--only-folds", type=fold_numbers)``."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} are no numbers of folds; write them from 0, as in 1,3")
    return [int(word) for word in words]


@contextlib.contextmanager
def mistakes_in_one_line(parser: argparse.ArgumentParser) -> Iterator[None]:
    """End a script with one line and exit code 2 where delira refuses what it was given.

    Only a :class:`~delira.errors.ConfigError` that delira raises by itself when the script calls it is told so. Errors
    from within other code, such as a dataset, a network or an optimizer, in the script or elsewhere, keep their
    traceback.

    Parameters
    ----------
    parser
        That of the script, whose name begins the line.
    """
    try:
        yield
    except ConfigError as error:
        if not _is_from_the_script(error):
            raise
        parser.exit(2, f"{parser.prog}: {' '.join(str(error).split())}\n")


def _is_from_the_script(error: BaseException) -> bool:
    """Return True if delira raised it, called by one file, the script, and without calling other code before."""
    # notes tell of a sample, a batch or a worker; a cause is somebody else's error
    if error.__cause__ is not None or getattr(error, "__notes__", None):
        return False
    # the first frame is that of the context manager
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)][1:]
    # "<string>" is the constructor of a dataclass
    is_own = {file: file.startswith((_DELIRA, "<")) for file in files if file != contextlib.__file__}
    order = [is_own[file] for file in files if file in is_own]
    return files[-1].startswith(_DELIRA) and order == sorted(order) and [*is_own.values()].count(False) == 1


def settable(params: Mapping[Any, Any], path: Steps = ()) -> dict[Steps, Any]:
    """Parameters that can be written as text, by their full path."""
    found: dict[Steps, Any] = {}
    for name, value in params.items():
        if not isinstance(name, str) or not name or "." in name or "=" in name:
            continue
        if isinstance(value, Mapping):
            found |= settable(value, (*path, name))
        elif _is_writable(value):
            found[*path, name] = value
    return found


def _is_writable(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_writable, value))
    return value is None or isinstance(value, (str, bool, np.bool_, numbers.Real))


# ------------------------------------------------------------------ names


def _path_of(name: str, params: "Parameters", leaves: Mapping[Steps, Any], add_unknown: bool) -> Steps:
    """Return the full path of a parameter that is named in part."""
    asked = tuple(name.split("."))
    exact = [path for path in leaves if asked in (path, without_variability(path), _other_order(path))]
    found = exact or [path for path in leaves if _leads_to(asked, path) or _leads_to(asked, _other_order(path))]
    found = [path for path in found if not _is_hidden(path, found)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"--{name} may be any of {', '.join(f'--{shown(path)}' for path in found)}")
    if (place := params.get(name)) is not None and not isinstance(place, Mapping):
        raise ConfigError(f"--{name} is {_short(place)}, which cannot be written as text; change it in the script")
    if not add_unknown or len(asked) == 1:
        raise ConfigError(f"there is no parameter {name!r}{did_you_mean(name, map(shown, leaves))}")
    if not {"model", "training"} & {*asked[:2]}:
        raise ConfigError(f"--{name} is in no part; write --training.{asked[-1]} or --model.{asked[-1]}")
    if not {*VARIABILITIES} & {*asked[:2]}:
        asked = ("fixed", *asked)
    is_turned = params.training_on_top and not params.variability_on_top
    return _other_order(asked) if is_turned == (asked[0] in VARIABILITIES) else asked


def shown(path: Steps) -> str:
    """Return a path as ``--help`` lists it: the variability is left out."""
    return ".".join(without_variability(path))


def without_variability(path: Steps) -> Steps:
    """Return a path without ``fixed`` or ``variable``, which stand first or second."""
    return tuple(name for place, name in enumerate(path) if place > 1 or name not in VARIABILITIES)


def _other_order(path: Steps) -> Steps:
    """Return the same in the other hierarchy."""
    return (path[1], path[0], *path[2:]) if len(path) > 2 else path


def _leads_to(asked: Steps, path: Steps) -> bool:
    """Return True if the names are those of a path, in order, with others left out; the last one is the parameter's."""
    steps = iter(path)
    return asked[-1] == path[-1] and all(name in steps for name in asked)


def _is_hidden(path: Steps, others: Iterable[Steps]) -> bool:
    """Return True if the same parameter is variable, too, which goes before what is fixed."""
    twins = [other for other in others if without_variability(other) == without_variability(path) and other != path]
    return bool(twins) and "fixed" in path[:2]


# ------------------------------------------------------------------ values


def _value_of(text: str, name: str, present: Any) -> Any:
    """Read a text as a value of the kind of the present one."""
    if isinstance(present, str):
        return text  # 'max' as well as '1e-4': a text needs no quotes
    try:
        value = read_yaml(text)
    except ConfigError:
        value = text
    (kind, is_given), (wanted, is_wanted) = _kind_of(value), _kind_of(present)
    if present is None:
        return value
    if wanted == "FLOAT" and kind in ("INT", "FLOAT"):
        return float(value)
    if kind != wanted:
        raise ConfigError(
            f"--{name} {text} is {is_given}; it must be {is_wanted}, as the present value {_short(present)}"
        )
    return tuple(value) if isinstance(present, tuple) else value


def _kind_of(value: object) -> tuple[str, str]:
    """Return what a value is, in a word for ``--help`` and in words for a message."""
    return next((word, words) for word, kind, words in _KINDS if isinstance(value, kind))


def _short(value: object) -> str:
    if isinstance(value, (list, tuple)):
        text = f"[{', '.join(map(_short, value))}]"
    elif isinstance(value, (str, bool, int, float)) or value is None:
        text = write_yaml([value]).strip()[1:-1]
    else:
        text = repr(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
