"""Cases of the fuzz: one public callable, one parameter, one value, and what must come of it."""

import contextlib
import importlib.util
import inspect
import io
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_names import resolve
from fuzz_values import Fresh, UserError, raises_user_error

from delira.errors import DeliraError

RECIPES = Path(__file__).parent / "recipes"
REFUSED, OWN, RIGHT = "refused", "the user's own error", "accepted and right"


def nothing(made: Any, folder: Path) -> Any:
    """Return what the call gave."""
    return made


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How one public callable is called rightly, and what can be wrong with each parameter."""

    name: str
    """Public name, e.g. ``delira.metrics.Dice``; text behind ``#`` tells several entries of one callable apart."""
    good: Callable[[Path], dict[str, Any]]
    """Arguments of a call that works; gets an empty folder. ``"*"`` holds positional ones."""
    use: Callable[[Any, Path], Any] = nothing
    """Uses what the call gave as a user would, and returns what is to be seen then."""
    expected: Callable[[dict[str, Any]], Any] | None = None
    """The same by an independent computation, from the arguments; None: nothing can be computed."""
    wrong: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Parameter -> values that must be refused."""
    right: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Parameter -> values that must give what ``expected`` computes."""
    own: Sequence[str] = ()
    """Parameters that take a function of the user's: its error must arrive as it is."""
    says: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Parameter -> words of messages that name the culprit as well as parameter and value do."""
    free: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> why no value of it can be wrong."""
    make: Callable[..., Any] | None = None
    """What is called in its place: a class of a user's, where the public one is only a base."""
    needs: str | Sequence[str] | None = None
    """Package that must be installed, or several."""
    is_slow: bool = False
    """A case takes more than a tenth of a second."""

    @property
    def callable_name(self) -> str:
        """The public name alone."""
        return self.name.partition("#")[0]

    @property
    def is_possible(self) -> bool:
        """Whether all packages that it needs are installed."""
        names = [self.needs] if isinstance(self.needs, str) else self.needs or ()
        return all(importlib.util.find_spec(name) is not None for name in names)

    def cases(self) -> list["Case"]:
        """Return all cases: every right value, every wrong one, every function that fails."""
        cases = [Case(self, None, None, RIGHT)] if self.expected is not None else []
        cases += [Case(self, name, value, RIGHT) for name, values in self.right.items() for value in values]
        cases += [Case(self, name, value, REFUSED) for name, values in self.wrong.items() for value in values]
        return cases + [Case(self, name, raises_user_error, OWN) for name in self.own]


@dataclass(frozen=True)
class Case:
    """One call."""

    entry: Entry
    parameter: str | None
    value: Any
    must_be: str

    def __str__(self) -> str:
        changed = "" if self.parameter is None else f"{self.parameter}={self.value!r:.60}"
        return f"{self.entry.name}({changed})"

    def trouble(self, folder: Path) -> str:
        """Make the call; return what is wrong with the outcome, or an empty text."""
        arguments = self.entry.good(folder)
        if self.parameter is not None:
            place_value(arguments, self.parameter, self.value.make() if isinstance(self.value, Fresh) else self.value)
        try:
            got = self.call(dict(arguments), folder)
        except DeliraError as error:
            return self.trouble_of_refusal(error)
        except UserError:
            return "" if self.must_be == OWN else "a function that is not called was called"
        except (Exception, SystemExit) as error:
            return f"raw error: {type(error).__name__}: {error}"
        if self.must_be == REFUSED:
            return f"accepted in silence; {got!r:.200}"
        if self.must_be == OWN:
            return f"the error of the user's function was lost; {got!r:.200}"
        return self.trouble_of_value(got, arguments)

    def call(self, arguments: dict[str, Any], folder: Path) -> Any:
        """Call the entry and use what it gives, with nothing printed."""
        positional = arguments.pop("*", ())
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            make = self.entry.make or resolve(self.entry.callable_name)
            return self.entry.use(make(*positional, **arguments), folder)

    def trouble_of_refusal(self, error: DeliraError) -> str:
        """Say what is wrong with an error of delira's own."""
        if self.must_be == OWN and isinstance(error.__cause__, UserError):
            return ""
        if self.must_be != REFUSED:
            return f"refused, though it is {self.must_be}: {type(error).__name__}: {error}"
        assert self.parameter is not None
        parameter = self.parameter.strip("*").rpartition(".")[2]
        words = [parameter, repr(self.value), *self.entry.says.get(self.parameter, ())]
        if any(word and word in str(error) for word in words):
            return ""
        return f"the message names neither {parameter!r} nor {self.value!r}: {type(error).__name__}: {error}"

    def trouble_of_value(self, got: Any, arguments: dict[str, Any]) -> str:
        """Compare with the independent computation."""
        if self.entry.expected is None:
            return ""
        expected = self.entry.expected(arguments)
        try:
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7) if is_number(expected) else None
        except (AssertionError, TypeError, ValueError) as error:
            return f"silently wrong: {got!r:.200}, by hand {expected!r:.200} ({error!s:.300})"
        if not is_number(expected) and got != expected:
            return f"silently wrong: {got!r:.300}, by hand {expected!r:.300}"
        return ""


def is_number(value: Any) -> bool:
    """Say whether it is a number or an array of numbers."""
    return isinstance(value, (int, float, complex, np.number, np.ndarray)) and not isinstance(value, bool)


def place_value(arguments: dict[str, Any], parameter: str, value: Any) -> None:
    """Set one argument; ``*2`` is the third positional one, ``a.b`` the entry ``b`` of the dictionary ``a``."""
    if parameter.startswith("*"):
        positional, index = list(arguments.get("*", ())), int(parameter[1:])
        arguments["*"] = [*positional[:index], value, *positional[index + 1 :]]
        return
    *path, last = parameter.split(".")
    place = arguments
    for name in path:
        place[name] = dict(place.get(name) or {})
        place = place[name]
    place[last] = value


def missing_parameters(entry: Entry) -> set[str]:
    """Return the parameters of the callable that no case changes and that ``free`` does not explain."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = list(inspect.signature(resolve(entry.callable_name)).parameters.values())
    except ValueError:  # a builtin without a signature
        return set()
    names = [parameter.name for parameter in parameters if parameter.kind not in kinds]
    mentioned = {*entry.wrong, *entry.right, *entry.own, *entry.free}
    mentioned |= {names[int(name[1:])] for name in mentioned if name.startswith("*") and int(name[1:]) < len(names)}
    return set(names) - {name.partition(".")[0] for name in mentioned}


def all_entries() -> list[Entry]:
    """Return the entries of all files in ``recipes/``."""
    entries: list[Entry] = []
    for path in sorted(RECIPES.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"fuzz_recipes_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        entries.extend(module.ENTRIES)
    return entries


def select(entries: Sequence[Entry], count: int, seed: int, least: int = 0) -> dict[str, list[Case]]:
    """Draw cases: at least ``least`` of each entry, ``count`` in all where there are as many; the same for one seed."""
    rng = random.Random(seed)
    shuffled = {entry.name: rng.sample(cases, len(cases)) for entry in entries if (cases := entry.cases())}
    chosen = {name: cases[:least] for name, cases in shuffled.items()}
    rest = [(name, case) for name, cases in shuffled.items() for case in cases[least:]]
    missing = max(0, count - sum(map(len, chosen.values())))
    for name, case in rng.sample(rest, min(missing, len(rest))):
        chosen[name].append(case)
    return {name: cases for name, cases in chosen.items() if cases}
