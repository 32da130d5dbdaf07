"""The checks of the specification: what each promises, how a user asks for what a backend lacks, and running them."""

import contextlib
import dataclasses
import importlib
import logging
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.callbacks import ExponentialMovingAverage
from delira.errors import ConfigError, check_choice, check_flags, check_functions, check_names, check_texts
from delira.io import export
from delira.models import load_named_weights, named_weights
from delira.testing.spec.areas import AREAS
from delira.testing.spec.bench import Bench
from delira.testing.spec.under_test import FEATURES, BackendUnderTest, check_filled_in
from delira.training.run import own_generators

PASSED = "passed"
REFUSED = "refused"
LACKING = "not offered"
FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class Check:
    """A promise that every backend keeps."""

    area: str
    """What it is about, e.g. ``"resume"``."""
    name: str
    """Name of the function."""
    promise: str
    """One sentence."""
    function: Callable[[Bench], None]
    """Raises if the promise is broken."""
    needs: tuple[str, ...] = ()
    """Features without which there is nothing to check."""

    def __post_init__(self) -> None:
        check_texts("Check", area=self.area, name=self.name, promise=self.promise)
        check_functions("Check", function=self.function)
        if not isinstance(self.needs, (tuple, list)):
            raise ConfigError(f"Check: needs is a tuple of features, got {self.needs!r}")
        for feature in self.needs:
            check_choice("Check", FEATURES, needs=feature)

    def __str__(self) -> str:
        return f"{self.area}-{self.name}"

    def run(self, tested: BackendUnderTest) -> tuple[str, str]:
        """Run the check in a folder of its own and leave no trace.

        Parameters
        ----------
        tested
            The backend.

        Returns
        -------
        tuple
            ``("passed", "")``; or, if the backend does not offer what is needed, ``("refused", reason)`` where asking
            for it was refused as it must be, and ``("not offered", reason)`` where nobody can ask for it.

        Raises
        ------
        AssertionError
            If the promise is broken, or something is not refused.
        """
        check_filled_in(tested)
        missing = [feature for feature in self.needs if feature in tested.lacks]
        with (
            own_generators(tested.backend),
            _quiet(),
            tempfile.TemporaryDirectory(prefix="delira-spec-", ignore_cleanup_errors=True) as folder,
        ):
            bench = Bench(tested, Path(folder))
            if not missing:
                self.function(bench)
                return PASSED, ""
            for feature in missing:
                if feature in REFUSALS and feature != "gradients":  # nobody asks for gradients check by check
                    demand_refusal(bench, feature)
                    return REFUSED, tested.lacks[feature]
        return LACKING, tested.lacks[missing[0]]


def demand_refusal(bench: Bench, feature: str) -> None:
    """Ask for a feature of :data:`REFUSALS` that the backend lacks; anything but a ConfigError is a broken promise."""
    try:
        REFUSALS[feature](bench)
    except ConfigError:
        return
    raise AssertionError(
        f"the backend lacks {feature!r} ({bench.tested.lacks[feature]}), but asking for it raised no ConfigError; it "
        "must not be ignored"
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Scope without warnings: what a check asks for on purpose is no news to the user."""
    log = logging.getLogger("delira")
    before, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        log.disabled = before


_CHECKS: dict[str, Check] = {}


def check(area: str, *needs: str) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Make a function a check of an area that needs some features; its docstring is the promise."""

    def register(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
        promise = " ".join((function.__doc__ or function.__name__).split())  # python -OO drops docstrings
        made = Check(area, function.__name__, promise, function, needs)
        _CHECKS[str(made)] = made
        return function

    return register


def registered() -> list[Check]:
    """All checks of the modules imported so far."""
    return list(_CHECKS.values())


def _train(**settings: Any) -> Callable[[Bench], None]:
    def ask(bench: Bench) -> None:
        bench.trained(**settings)

    return ask


def _every(*asks: Callable[[Bench], None]) -> Callable[[Bench], None]:
    """Raises if each of these does."""

    def ask(bench: Bench) -> None:
        for each in asks[1:]:
            try:
                each(bench)
            except ConfigError:
                continue
            return
        asks[0](bench)

    return ask


def _average(bench: Bench) -> None:
    bench.trained(callbacks=[ExponentialMovingAverage(0.9)])


def _rollback(bench: Bench) -> None:
    bench.trainer(nonfinite="rollback").scale_rates(0.5)


def _named_weights(bench: Bench) -> None:
    network = bench.linear()
    load_named_weights(network, named_weights(network))


def _export(bench: Bench) -> None:
    for suffix in bench.tested.exports or (".pt2", ".onnx", ".zip", ""):
        export(bench.linear(), bench.folder / f"exported{suffix}", bench.arrays())


#: feature -> what asks for it
REFUSALS: dict[str, Callable[[Bench], None]] = {
    "gradients": _train(optimizer_cls=object, optimizer_params={"lr": 0.1}),
    "schedules": _train(lr_scheduler_cls=object, lr_scheduler_params={}),
    "accumulation": _train(gradient_accumulation_steps=2),
    "clipping": _every(_train(gradient_clip_norm=1.0), _train(gradient_clip_value=1.0)),
    "skip_nonfinite": _train(nonfinite="skip"),
    "rollback": _rollback,
    "micro_batches": _train(micro_batches=2),
    "mixed_precision": _train(mixed_precision="bf16"),
    "average": _average,
    "compiled": _every(_train(compiled=True), _train(jit_compile=True)),
    "named_weights": _named_weights,
    "export": _export,
}


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
    for module in dict.fromkeys(AREAS.values()):
        importlib.import_module(f"delira.testing.spec.areas.{module}")
    return sorted(registered(), key=lambda check: [*AREAS].index(check.area))


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
