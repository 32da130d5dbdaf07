"""The parameters of an experiment: fixed and variable, of the model and of the training."""

import argparse
import copy
import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from delira.errors import ConfigError, check_known, expect
from delira.experiments import command_line, variable
from delira.experiments.command_line import fold_numbers as fold_numbers
from delira.experiments.command_line import mistakes_in_one_line as mistakes_in_one_line
from delira.experiments.variable import VARIABILITIES as VARIABILITIES
from delira.utils import spaces, yaml_codec
from delira.utils.config import LookupConfig
from delira.utils.files import open_regular, publish_text, writable_folder

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

    def spaces(self) -> dict[str, spaces.Space]:
        """Return what a search may change, by its path without the variability: ``"training.optimizer_params.lr"``."""
        return variable.Variable(self._parts()).spaces

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return the same parameters with values for their search spaces.

        Parameters
        ----------
        values
            By the names of :meth:`spaces`. One whose condition does not hold with the others may be left out.

        Raises
        ------
        ConfigError
            If a value is missing, is not in its space, or there is no such space.
        """
        known = self.spaces()
        check_known(values, known, "there is no search space")

        def pick(name: str, space: spaces.Space) -> Any:
            if name not in values or not space.has(values[name]):
                what = f"got {values[name]!r}" if name in values else "got none"
                raise ConfigError(f"{name} needs a value out of {space!r}, {what}")
            return values[name]

        return self._settled(variable.Variable(self._parts()).chosen(pick))

    def with_defaults(self) -> Self:
        """Return the same parameters with the default of each search space.

        Raises
        ------
        ConfigError
            Naming those that have none.
        """
        return self if not self._has_spaces() else self._settled(variable.with_defaults(self._parts()))

    def examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ``model`` and ``training`` as they are, or with corners of their spaces, and which, in words.

        Raises
        ------
        ConfigError
            See :meth:`check_conditions`.
        """
        self.check_conditions()
        return variable.examples(self._parts())

    def check_conditions(self) -> None:
        """Refuse spaces whose condition can never hold.

        Raises
        ------
        ConfigError
            Naming the space, its condition, and what can be.
        """
        own = self._seen_by(VARIABILITY_ON_TOP)["variable"]
        variable.Variable(self._parts()).check_conditions(lambda path: path[1] in dict.get(own, path[0], {}))

    def _has_spaces(self) -> bool:
        variable.refuse_fixed([("the fixed parameters", self._seen_by(VARIABILITY_ON_TOP)["fixed"])])
        return bool(variable.find_spaces(self))

    def _parts(self) -> dict[str, dict[str, Any]]:
        self._has_spaces()
        return {part: self._effective(part) for part in PARTS}

    def _settled(self, parts: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the same with entries of the variable part replaced, or left out."""
        settled = copy.deepcopy(self)
        own = settled.permute_to_hierarchy(VARIABILITY_ON_TOP)["variable"]
        for part in PARTS:
            for name in [*own[part]]:
                if name in parts[part]:
                    own[part][name] = copy.deepcopy(parts[part][name])
                else:
                    del own[part][name]  # what is fixed under the same name holds, if there is any
        return settled.permute_to_hierarchy(self.hierarchy)

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
        command_line.add_parameters(parser, self)
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
        words = sys.argv[1:] if arguments is None else list(arguments)
        return command_line.read_words(parser, self, words, add_unknown_items)

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
