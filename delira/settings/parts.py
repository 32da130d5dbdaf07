"""The parts of a trainer's settings, each checked where it is built."""

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from delira.errors import ConfigError, Expected, expect, positive
from delira.utils.optimizing import check_rate_in


def _verbosity(verbose: object) -> Expected:
    is_right = isinstance(verbose, numbers.Integral) and verbose in (0, 1, 2)
    return "verbose", verbose, is_right, "0 (nothing), 1 (a bar, or lines) or 2 (a bar for each pass)"


def check_verbose(verbose: object) -> None:
    """Refuse what says nothing about how much is shown."""
    expect(_verbosity(verbose))


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """How the optimizers of a network are made."""

    cls: Any = None
    """Optimizer class of the framework, e.g. ``torch.optim.Adam``."""

    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keyword arguments of the class, e.g. ``{"lr": 1e-3}``."""

    builder: Callable[..., dict[str, Any]] | None = None
    """``builder(network, cls, **params)`` returns optimizers by name; for networks that need several."""

    def __post_init__(self) -> None:
        is_builder = self.builder is None or callable(self.builder)
        expect(
            ("optimizer_cls", self.cls, self.cls is None or callable(self.cls), "a class, e.g. torch.optim.Adam"),
            ("optim_fn", self.builder, is_builder, "a function that returns optimizers by name"),
        )
        check_rate_in(self.params)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How the learning rate changes."""

    cls: Any = None
    """A schedule callback of the backend, or a schedule class of the framework."""

    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keyword arguments of the class, without the optimizer."""

    def __post_init__(self) -> None:
        if self.params and self.cls is None:
            raise ConfigError(
                f"lr_scheduler_params={dict(self.params)!r} has no effect without lr_scheduler_cls, and the rate "
                "would stay as it is; name the class of the schedule, or leave its parameters out"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoggingConfig:
    """Where the numbers of a run go besides the history files."""

    type: Any = "tensorboardx"
    """``"tensorboardx"`` (event files, if the package is installed), ``"visdom"``, ``"mlflow"``, ``"wandb"``, a handler
    of Python's logging, a logger of trixi, the class of one, or a list of these; ``None`` writes nothing more."""

    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keyword arguments of the handler; for a list of them, by name."""

    frequencies: int | Mapping[str, int] | None = None
    """Every how many steps losses and metrics are logged, and of how many messages of a name one is: a number, or one
    by name. ``None``: every message, and the losses and metrics of epochs alone."""

    reductions: Any = "last"
    """What the numbers since the last that was logged become: ``"last"``, ``"first"``, ``"mean"``, ``"median"``,
    ``"max"``, ``"min"``, or a function of an array of shape ``(n,)``; one for all, or by name."""

    freq: int = 50
    """Every how many steps the values of the running epoch are read from the device and checked."""

    verbose: int = 1
    """What is shown while the training runs: 0 or False nothing; 1 or True a bar (a line for each epoch where none can
    be drawn; in a notebook also the curves; for a cross-validation a table of its folds); 2 a bar for each pass."""

    def __post_init__(self) -> None:
        from delira.logging.logger import check_frequencies, check_reductions
        from delira.logging.targets import check_targets

        check_targets(self.type, self.kwargs)
        if self.frequencies is not None:
            check_frequencies(self.frequencies, "logging_frequencies")
        check_reductions(self.reductions, "logging_reductions")
        expect(positive("log_freq", self.freq, "step"), _verbosity(self.verbose))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavingConfig:
    """When checkpoints are written, which are kept, and what a failure means."""

    freq: int | None = 1
    """Keep a checkpoint every ``save_freq`` epochs; ``None`` writes only the best ones and, at the end, the last."""

    steps: int | None = None
    """Write a checkpoint every so many training steps, counted over all epochs, also inside an epoch."""

    minutes: float | None = None
    """Write ``checkpoint_last`` if the last checkpoint is older than this, also inside an epoch."""

    keep_last: int | None = None
    """Keep only the newest so many numbered checkpoints; ``None`` keeps all."""

    keep_best: int | None = None
    """Keep, of the numbered checkpoints, only the so many with the best validation score (and those of
    ``keep_last_checkpoints``). Where no score is watched (``val_score_key``), it changes nothing."""

    background: bool = False
    """Write in a thread from a copy of the state, while the training goes on; takes memory for one more state."""

    on_error: str = "raise"
    """What a checkpoint that cannot be written does (disk full, no permission): ``"raise"`` stops the training,
    ``"warn"`` lets it go on. The checkpoint before it is intact either way."""

    on_signal: bool = True
    """Whether SIGINT (Ctrl-C), SIGTERM and SIGUSR1 during the training finish the step, write a checkpoint and then
    stop; a second signal stops at once."""

    def __post_init__(self) -> None:
        counts = (
            ("save_freq", self.freq, "epoch"),
            ("save_freq_steps", self.steps, "step"),
            ("keep_last_checkpoints", self.keep_last, "file"),
            ("keep_best_checkpoints", self.keep_best, "file"),
        )
        is_time = self.minutes is None or (isinstance(self.minutes, (int, float)) and 0 < self.minutes < math.inf)
        expect(
            ("save_in_background", self.background, isinstance(self.background, bool), "True or False"),
            ("save_on_signal", self.on_signal, isinstance(self.on_signal, bool), "True or False"),
            *(positive(*count) for count in counts if count[1] is not None),
            ("save_freq_minutes", self.minutes, is_time, "a number above 0 (minutes)"),
            ("on_save_error", self.on_error, self.on_error in ("raise", "warn"), "'raise' or 'warn'"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """What is done about numbers that are not finite, and about memory that does not suffice."""

    nonfinite: str = "raise"
    """What to do about a loss, gradients or weights that are infinite or not a number: ``"raise"``; ``"skip"`` the
    batch; ``"rollback"`` to the last checkpoint and
    go on with smaller learning rates; ``"ignore"``."""

    nonfinite_predictions: str = "nan"
    """What to do about predictions of a validation or test that are infinite or not a number: ``"nan"``: metrics over
    them are not a number, and the cases are named; ``"raise"`` an error that names them."""

    rollback_factor: float = 0.5
    """What a rollback multiplies the learning rates with."""

    max_rollbacks: int = 3
    """How many rollbacks a run may need before it is given up."""

    micro_batches: int | str = 1
    """Parts that a batch is computed in, one after the other, with one update from all of their gradients; ``"auto"``:
    twice as many whenever the device runs out of memory. Layers that look at the whole batch (batch normalisation)
    see the parts."""

    deterministic: bool = False
    """Use only algorithms of the framework that give the same bits every time; an operation that has none fails."""

    def __post_init__(self) -> None:
        given, predicted, factor = self.nonfinite, self.nonfinite_predictions, self.rollback_factor
        is_known = given in ("raise", "skip", "rollback", "ignore")
        is_factor = isinstance(factor, (int, float)) and 0 < factor < 1
        micro = positive("micro_batches", self.micro_batches, "part")
        is_auto = isinstance(self.micro_batches, str) and self.micro_batches == "auto"
        expect(
            ("nonfinite", given, is_known, "'raise', 'skip', 'rollback' or 'ignore'"),
            ("nonfinite_predictions", predicted, predicted in ("nan", "raise"), "'nan' or 'raise'"),
            ("rollback_factor", factor, is_factor, "between 0 and 1 (exclusive)"),
            ("deterministic", self.deterministic, isinstance(self.deterministic, bool), "True or False"),
            positive("max_rollbacks", self.max_rollbacks, "rollback"),
            *(() if is_auto else (micro,)),
        )
