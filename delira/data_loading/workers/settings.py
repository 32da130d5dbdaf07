"""Settings of the worker processes."""

import dataclasses
import math
import multiprocessing
import numbers
import sys
from collections.abc import Mapping
from typing import Any

from delira.data_loading._checks import check_count
from delira.errors import ConfigError
from delira.utils.suggest import did_you_mean


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How worker processes are started and watched; what the batches are does not depend on it."""

    start_method: str | None = None
    """``"fork"``, ``"forkserver"`` or ``"spawn"``; by default fork on Linux, elsewhere spawn."""

    time_limit: float | None = 300.0
    """Seconds that the training waits for one batch before the worker that makes it counts as stuck;
    ``None``: for ever."""

    prefetch: int = 2
    """Batches that each worker makes ahead."""

    replacements: int = 1
    """Lost workers (killed, crashed or stuck) that are replaced in one epoch; one more is an error."""

    def __post_init__(self) -> None:
        methods = multiprocessing.get_all_start_methods()
        if self.start_method is not None and self.start_method not in methods:
            raise ConfigError(
                f"start_method must be one of {', '.join(map(repr, methods))}, got {self.start_method!r}"
                f"{meant if (meant := did_you_mean(str(self.start_method), methods)).startswith('; did') else ''}"
            )
        limit = self.time_limit
        is_number = isinstance(limit, numbers.Real) and not isinstance(limit, bool)
        if limit is not None and not (is_number and 0 < limit < math.inf):
            raise ConfigError(f"time_limit must be a number of seconds above 0, or None for no limit, got {limit!r}")
        check_count(self.prefetch, "prefetch", 1)
        check_count(self.replacements, "replacements", 0)

    @property
    def method(self) -> str:
        """The start method in use."""
        return self.start_method or ("fork" if sys.platform == "linux" else "spawn")


def as_worker_settings(settings: WorkerSettings | Mapping[str, Any] | None) -> WorkerSettings:
    """Make settings of a mapping of them, or the defaults of None.

    Raises
    ------
    ConfigError
        If it is something else, or there is no such setting.
    """
    if settings is None:
        return WorkerSettings()
    if isinstance(settings, WorkerSettings):
        return settings
    if not isinstance(settings, Mapping):
        raise ConfigError(f"worker_settings must be a WorkerSettings or a dict of its settings, got {settings!r}")
    known = [field.name for field in dataclasses.fields(WorkerSettings)]
    if unknown := [name for name in settings if name not in known]:
        raise ConfigError(f"worker_settings has no {unknown[0]!r}{did_you_mean(str(unknown[0]), known)}")
    return WorkerSettings(**settings)
