"""The parameters of a script on its command line: which there are, what was typed, and mistakes in one line."""

import argparse
import contextlib
import numbers
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError, did_you_mean
from delira.experiments.variable import VARIABILITIES, leads_to, without_variability
from delira.utils import spaces
from delira.utils.config import LookupConfig
from delira.utils.yaml_codec import read_yaml, write_yaml

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
    ("SPACE", spaces.Space, "a search space, or a value of one"),
    ("VALUE", object, "null"),
)
_DELIRA = str(Path(__file__).parents[1] / "_").removesuffix("_")

Steps = tuple[str, ...]


def add_parameters(parser: argparse.ArgumentParser, params: LookupConfig) -> None:
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


def read_words(
    parser: argparse.ArgumentParser, params: LookupConfig, words: list[str], add_unknown: bool
) -> argparse.Namespace:
    """Replace parameters by what the words of a command line say; see ``Parameters.update_from_argparse``.

    Parameters
    ----------
    parser, params
        Of further arguments; what is changed.
    words
        What was typed.
    add_unknown
        Also take new parameters.
    """
    add_parameters(parser, params)
    leaves, others = settable(params), _options_of(parser)
    if parser.usage is None and others <= {"-h", "--help"}:
        parser.usage = "%(prog)s [-h] [--NAME VALUE ...]"
    rest: list[str] = []
    given: dict[str, Any] = {}
    try:
        while words and words[0] != "--":
            word = words.pop(0)
            name, equals, text = word.removeprefix("--").partition("=")
            if not word.startswith("--") or f"--{name}" in others:
                rest.append(word)
                continue
            path = _path_of(name, params, leaves, add_unknown)
            if not equals and not words:
                raise ConfigError(f"--{name} needs a value")
            given[".".join(path)] = _value_of(text if equals else words.pop(0), name, leaves.get(path))
    except ConfigError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    options = parser.parse_args([*rest, *words])
    for place, value in given.items():
        params[_variable_place(params, place) if isinstance(value, spaces.Space) else place] = value
    return options


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
    return value is None or isinstance(value, (str, bool, np.bool_, numbers.Real, spaces.Space))


# ------------------------------------------------------------------ names


def _path_of(name: str, params: LookupConfig, leaves: Mapping[Steps, Any], add_unknown: bool) -> Steps:
    """Return the full path of a parameter that is named in part."""
    asked = tuple(name.split("."))
    exact = [path for path in leaves if asked in (path, without_variability(path), _other_order(path))]
    found = exact or [path for path in leaves if leads_to(asked, path) or leads_to(asked, _other_order(path))]
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
    is_turned = not dict.__contains__(params, "variable")
    return _other_order(asked) if is_turned == (asked[0] in VARIABILITIES) else asked


def _variable_place(params: LookupConfig, place: str) -> str:
    """Return where a search space may stand: a fixed entry becomes variable as a whole."""
    path = tuple(place.split("."))
    if "fixed" not in path[:2]:
        return place
    part, name, *_ = without_variability(path)
    is_turned = not dict.__contains__(params, "variable")
    places = [(part, kind, name) if is_turned else (kind, part, name) for kind in VARIABILITIES]
    fixed, target = (".".join(each) for each in places)
    params[target] = params.pop(fixed)
    return ".".join("variable" if step == "fixed" else step for step in path)


def shown(path: Steps) -> str:
    """Return a path as ``--help`` lists it: the variability is left out."""
    return ".".join(without_variability(path))


def _other_order(path: Steps) -> Steps:
    """Return the same in the other hierarchy."""
    return (path[1], path[0], *path[2:]) if len(path) > 2 else path


def _is_hidden(path: Steps, others: Iterable[Steps]) -> bool:
    """Return True if the same parameter is variable, too, which goes before what is fixed."""
    twins = [other for other in others if without_variability(other) == without_variability(path) and other != path]
    return bool(twins) and "fixed" in path[:2]


# ------------------------------------------------------------------ values


def _value_of(text: str, name: str, present: Any) -> Any:
    """Read a text as a value of the kind of the present one."""
    if spaces.is_like(text):
        return spaces.parse(text)
    if isinstance(present, spaces.Choice):
        return present.valued(_option_of(text, present.labels, name))
    if isinstance(present, spaces.Space):
        present = present.corners()[0]
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


def _option_of(text: str, labels: Sequence[Any], name: str) -> Any:
    """Return the label of an option that a text means."""
    found = [label for label in labels if text in (str(label), _short(label))]
    if not found:
        raise ConfigError(f"--{name} {text} is none of its options: {', '.join(map(_short, labels))}")
    return found[0]


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
