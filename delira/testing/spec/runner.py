"""Running the specification."""

import importlib
import time
from collections.abc import Callable, Sequence

from delira.errors import ConfigError
from delira.testing.spec.areas import AREAS
from delira.testing.spec.check import FAILED, Check, registered
from delira.testing.spec.report import Outcome, SpecReport
from delira.testing.spec.under_test import BackendUnderTest, check_filled_in
from delira.utils.checks import check_flags, check_names


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
        names = [only] if isinstance(only, str) else list(only)
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
