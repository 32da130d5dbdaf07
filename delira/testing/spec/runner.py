"""Running the specification, and what became of it."""

import dataclasses
import importlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from delira.errors import ConfigError, check_flags, check_names
from delira.testing.spec.areas import AREAS
from delira.testing.spec.check import FAILED, LACKING, PASSED, REFUSED, Check, registered
from delira.testing.spec.under_test import FEATURES, BackendUnderTest, check_filled_in

#: outcome -> how tables show it
MARKS = {PASSED: "✓", REFUSED: "refused", LACKING: "–", FAILED: "FAILED"}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one check."""

    check: Check
    kind: str
    """``"passed"``, ``"refused"``, ``"not offered"`` or ``"failed"``."""
    reason: str = ""
    """Why something is not offered, or the error."""
    error: BaseException | None = None
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class SpecReport:
    """The outcomes of all checks of a backend; prints as a table."""

    backend: str
    """Name of the backend."""
    outcomes: Sequence[Outcome]
    lacks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Feature -> why the backend does not offer it."""

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    @property
    def failures(self) -> list[Outcome]:
        """The checks that failed."""
        return [outcome for outcome in self.outcomes if outcome.kind == FAILED]

    @property
    def counts(self) -> dict[str, int]:
        """Number of checks by outcome."""
        found = Counter(outcome.kind for outcome in self.outcomes)
        return {kind: found[kind] for kind in MARKS}

    def raise_failures(self) -> None:
        """Raise if a check failed.

        Raises
        ------
        AssertionError
            With all failures; the first error is its cause.
        """
        if failures := self.failures:
            lines = [f"{outcome.check}: {outcome.reason}" for outcome in failures]
            broken = f"the backend {self.backend!r} breaks {len(lines)} of {len(self.outcomes)} promises:"
            raise AssertionError("\n".join([broken, *lines])) from failures[0].error

    def to_markdown(self) -> str:
        """The table as Markdown: area, promise, outcome."""
        lines = ["| area | promise | outcome |", "|---|---|---|"]
        for outcome in self.outcomes:
            why = f": {outcome.reason}" if outcome.reason else ""
            text = f"{outcome.kind}{why}".replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {outcome.check.area} | {outcome.check.promise} | {text} |")
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        width = max((len(str(outcome.check)) for outcome in self.outcomes), default=0)
        lines = [f"{outcome.check!s:{width}}  {outcome.kind}  {outcome.reason}".rstrip() for outcome in self.outcomes]
        total = ", ".join(f"{number} {kind}" for kind, number in self.counts.items() if number)
        return "\n".join([*lines, f"{self.backend}: {total}"])


def spec_checks() -> list[Check]:
    """All checks, in their order; ``check.run(backend)`` runs one, ``str(check)`` is its name.

    Examples
    --------
    >>> @pytest.mark.parametrize("check", spec_checks(), ids=str)  # doctest: +SKIP
    ... def test_my_backend(check):
    ...     check.run(MyBackend())
    """
    for area in AREAS:
        importlib.import_module(f"delira.testing.spec.areas.{area}")
    return sorted(registered(), key=lambda check: AREAS.index(check.area))


def check_backend(
    tested: BackendUnderTest, only: str | Sequence[str] | Callable[[Check], bool] | None = None, raises: bool = True
) -> SpecReport:
    """Run the specification on a backend.

    Parameters
    ----------
    tested
        The backend, filled in.
    only
        Names or areas of the checks to run, one or several, or a function that chooses; all if ``None``.
    raises
        Whether a broken promise raises; if not, it stands in the report.

    Returns
    -------
    SpecReport
        What became of every check; ``print`` shows it as a table.

    Raises
    ------
    AssertionError
        With all promises that are broken.
    ConfigError
        If ``only`` names what does not exist, or nothing, or ``backend`` is a class, or not filled in.
    """
    if isinstance(tested, type):
        raise ConfigError(
            f"check_backend takes an instance, got the class {tested.__name__}; write {tested.__name__}()"
        )
    check_filled_in(tested)
    check_flags("check_backend", raises=raises)
    wanted = checks = spec_checks()
    if callable(only):
        wanted = [check for check in checks if only(check)]
    elif only is not None:
        check_names("check_backend", only=only)
        # an area had another name before
        names = [name.replace("moments", "events") for name in ([only] if isinstance(only, str) else only)]
        if unknown := [name for name in names if all(name not in _names(check) for check in checks)]:
            raise ConfigError(f"only={unknown[0]!r} is no check and no area; areas are {', '.join(AREAS)}")
        wanted = [check for check in checks if not _names(check).isdisjoint(names)]
    if not wanted:
        raise ConfigError(f"only={only!r} chooses no check; areas are {', '.join(AREAS)}")
    report = SpecReport(tested.name, [_outcome(check, tested) for check in wanted], tested.lacks)
    if raises:
        report.raise_failures()
    return report


def _names(check: Check) -> set[str]:
    return {str(check), check.name, check.area}


def _outcome(check: Check, tested: BackendUnderTest) -> Outcome:
    begin, failure = time.perf_counter(), None
    try:
        kind, reason = check.run(tested)
    except Exception as error:
        kind, reason, failure = FAILED, f"{type(error).__name__}: {error}", error
    return Outcome(check, kind, reason, failure, time.perf_counter() - begin)


INTRODUCTION = f"""\
`delira.testing.check_backend(backend)` runs {{n}} checks, the same for every backend. {MARKS[PASSED]}: the promise is
kept; {MARKS[REFUSED]}: the backend does not offer it, and says so with a `ConfigError` when asked; {MARKS[LACKING]}:
the backend does not offer it, and nobody can ask. Written by `make spec`."""


def compare(reports: Sequence[SpecReport]) -> str:
    """Backends side by side, as Markdown: one row for each check, and what each backend does not offer.

    Parameters
    ----------
    reports
        Of whole backends.
    """
    backends = [report.backend for report in reports]
    found = {(outcome.check, report.backend): outcome for report in reports for outcome in report}
    checks = list(dict.fromkeys(outcome.check for report in reports for outcome in report))
    lines = ["# The specification", "", INTRODUCTION.format(n=len(checks)), ""]
    lines += [f"| check | promise | {' | '.join(backends)} |", "|---|---|" + "---|" * len(backends)]
    for check in checks:
        marks = [MARKS[found[check, tested].kind] if (check, tested) in found else "" for tested in backends]
        lines.append(f"| {check} | {check.promise} | {' | '.join(marks)} |".replace("||", "| |"))
    counts = [", ".join(f"{n} {kind}" for kind, n in report.counts.items() if n) for report in reports]
    lines.append(f"| | **in all** | {' | '.join(counts)} |")
    for report in reports:
        missing = {
            (feature, report.lacks[feature]) for o in report for feature in o.check.needs if feature in report.lacks
        }
        if missing:
            lines += ["", f"## What the backend {report.backend} does not offer", ""]
            lines += [f"- {FEATURES[feature]}: {reason}" for feature, reason in sorted(missing)]
    return "\n".join(lines) + "\n"
