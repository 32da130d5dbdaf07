"""One check of the specification: what it promises, how it is run, and how a user asks for what a backend lacks."""

import contextlib
import dataclasses
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from delira.callbacks import ExponentialMovingAverage
from delira.errors import ConfigError, check_choice, check_functions, check_texts
from delira.io import export
from delira.models import load_named_weights, named_weights
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


def check(*needs: str) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Make a function a check: its module names the area, its docstring is the promise."""

    def register(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
        area = function.__module__.rpartition(".")[2]
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
