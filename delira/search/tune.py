"""What a search is asked for, refused where it cannot work before anything is trained."""

import dataclasses
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delira.errors import ConfigError, did_you_mean, expect
from delira.metrics.direction import AUTO, MODES
from delira.utils import references, yaml_codec

SAMPLERS = ("tpe", "random", "grid", "gp", "nsga2")
PRUNERS = ("median", "percentile", "halving", "wilcoxon")
#: trials that must have finished before these pruners of Optuna give one up, unless they are made with other numbers
_STARTUP_TRIALS = {"median": 5, "percentile": 5, "halving": 1}
#: classes of Optuna whose state lies in a study as a pickle, or that count in it what they have proposed
_WITH_STATE = {
    "CmaEsSampler": "it keeps its state as a pickle in the file of the study, and reading that would run code",
    "GridSampler": "say sampler='grid'",
    "BruteForceSampler": "say sampler='grid'",
    "QMCSampler": "it counts in the study what it has proposed, which is not the same for several workers",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tune:
    """A search: how many trials, what makes one better, who proposes and who gives up.

    Parameters
    ----------
    n_trials
        Settings that are tried; ``None``: all of a grid.
    metric
        Name of the metric that is looked at, or several: then no trial is the best, but some are not beaten by any.
    direction
        ``"max"``, ``"min"``, or ``"auto"``: as the metric says; for several one for each.
    num_splits
        Folds in which each trial is trained and tested; ``None``: it is trained once, and scored by its validation.
    val_split
        Part that is held out for validation: of the training part of each fold, or of the data where there are none.
    split_type
        How a nested search divides the training part of an outer fold; ``None``: as the outer folds are divided.
    sampler
        ``"tpe"``, ``"random"``, ``"grid"``, ``"gp"``, ``"nsga2"``; or what makes a sampler of Optuna of ``seed=``, as
        ``functools.partial(TPESampler, multivariate=True)``.
    pruner
        Who gives trials up: ``"median"``, ``"percentile"`` (the worse three quarters), ``"halving"``, after each epoch;
        ``"wilcoxon"``, after each fold; or a pruner of Optuna. ``None``: nobody.
    constraints
        Called with the parameters of a trial and its metrics, ``(params, metrics)``; returns a number, or several:
        above 0 a trial breaks them, and cannot be the best.

    Raises
    ------
    ConfigError
        If something is not what it must be, or contradicts something else.
    """

    n_trials: int | None = None
    metric: str | Sequence[str] | None = None
    direction: str | Sequence[str] = AUTO
    num_splits: int | None = None
    val_split: float | None = 0.2
    split_type: Any = None
    sampler: Any = "tpe"
    pruner: Any = None
    constraints: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        number = self.n_trials
        is_number = number is None or (isinstance(number, numbers.Integral) and not isinstance(number, bool))
        is_list = isinstance(self.metric, Sequence) and bool(self.metrics)
        are_names = self.metric is None or (is_list and all(isinstance(name, str) for name in self.metrics))
        is_called = self.constraints is None or callable(self.constraints)
        splits, part = self.num_splits, self.val_split
        are_splits = splits is None or (isinstance(splits, numbers.Integral) and not isinstance(splits, bool))
        is_part = part is None or (isinstance(part, numbers.Real) and 0 < part < 1)
        if are_names and len({*self.metrics}) < len(self.metrics):
            raise ConfigError(f"metric names one twice: {[*self.metrics]}")
        expect(
            ("num_splits", splits, are_splits and (splits is None or splits >= 2), "a whole number from 2"),
            ("val_split", part, is_part, "between 0 and 1 (or None for no validation)"),
            ("n_trials", number, is_number and (number is None or number >= 1), "a whole number from 1"),
            ("metric", self.metric, are_names, "the name of a metric, or a list of names"),
            ("constraints", self.constraints, is_called, "a function of parameters and metrics"),
        )
        if number is None and self.sampler != "grid":
            raise ConfigError("n_trials is not given: say how many settings are to be tried, e.g. n_trials=50")
        self._check_directions()
        self._check_sampler()
        self._check_pruner()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that are looked at, without ``val_``; empty: the experiment's is."""
        if self.metric is None:
            return ()
        names = (self.metric,) if isinstance(self.metric, str) else tuple(self.metric)
        return tuple(name.removeprefix("val_") if isinstance(name, str) else name for name in names)

    @property
    def prunes(self) -> str:
        """``"epoch"`` or ``"fold"``, after which a trial may be given up; empty: never."""
        if self.pruner is None:
            return ""
        return "fold" if self.pruner == "wilcoxon" or "WilcoxonPruner" in _names_of(self.pruner) else "epoch"

    def _check_directions(self) -> None:
        is_list = isinstance(self.direction, Sequence) and not isinstance(self.direction, str)
        stated = [*self.direction] if is_list else [self.direction]
        for each in stated:
            if not isinstance(each, str) or (each != AUTO and each not in MODES):
                # Optuna's words are too long for a guess by their letters
                meant = next((mode for mode in ("min", "max") if str(each).lower().startswith(mode)), None)
                raise ConfigError(
                    f"direction must be {AUTO!r} or one of {', '.join(map(repr, MODES))}, got {each!r}"
                    f"{'' if meant is None else f'; did you mean {meant!r}?'}"
                )
        if is_list and not self.metrics:
            raise ConfigError(
                f"direction={stated!r} is a list, one for each metric, and no metric is named: name as many with "
                f"metric=[…], or give one direction alone, e.g. direction={stated[0] if stated else AUTO!r}"
            )
        if is_list and len(stated) != len(self.metrics):
            raise ConfigError(f"{len(stated)} directions for {len(self.metrics)} metrics; one for each, or 'auto'")

    def _check_sampler(self) -> None:
        given = self.sampler
        if isinstance(given, str):
            if given not in SAMPLERS:
                raise ConfigError(
                    f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, or what makes one of Optuna, got "
                    f"{given!r}{did_you_mean(given, SAMPLERS)}"
                )
            return
        made = getattr(given, "func", given)
        name = getattr(made, "__name__", type(made).__name__)
        if name in _WITH_STATE:
            raise ConfigError(f"{name} cannot be used here: {_WITH_STATE[name]}")
        if not callable(given):
            raise ConfigError(
                f"sampler={given!r} is one sampler, whose random numbers nobody could continue; give what makes it "
                f"of a seed: functools.partial({type(given).__name__}, …)"
            )
        try:
            inspect.signature(given).bind(seed=0)
        except TypeError as error:
            raise ConfigError(f"sampler={name} is called with seed=…, and cannot be: {error}") from None
        except ValueError:  # compiled: nobody knows what it takes
            return

    def _check_pruner(self) -> None:
        given = self.pruner
        is_known = given is None or given in PRUNERS if isinstance(given, str | None) else hasattr(given, "prune")
        expect(("pruner", given, is_known, f"one of {', '.join(map(repr, PRUNERS))}, or a pruner of Optuna"))
        if given is None:
            return
        if len(self.metrics) > 1:
            raise ConfigError(
                f"pruner={given!r} compares one number, and {len(self.metrics)} metrics are looked at: leave the "
                "pruner out, or look at one metric"
            )
        if self.prunes == "epoch" and self.val_split is None:
            raise ConfigError(f"pruner={given!r} looks at the validation of each epoch; val_split=None leaves none")
        if self.prunes == "fold":
            self._check_folds()
        self._check_state(given)
        self._check_trials()

    def _check_state(self, pruner: Any) -> None:
        """Refuse pruners that settle something by the trials they see first, which are others after a break."""
        unsettled = {"SuccessiveHalvingPruner": "min_resource", "HyperbandPruner": "max_resource"}
        known = {} if isinstance(pruner, str) else settings_of(pruner)
        for name, setting in unsettled.items():
            if name in _names_of(pruner) and not isinstance(known.get(setting), numbers.Integral):
                raise ConfigError(
                    f"{name} guesses its {setting} from the first trials that it sees, and after a break these are "
                    f"others; give it {setting}= a number of epochs"
                )

    def _check_folds(self) -> None:
        """Refuse a test of folds that so few can never decide: of m folds no p-value is below 2 ** -m."""
        known = self._pruner_settings("p_threshold")
        p_threshold, n_startup = known.get("p_threshold", 0.1), known.get("n_startup_steps", 2)
        n_folds = self.num_splits or 1
        needed = next(m for m in range(1, 200) if m >= max(2, n_startup) and 2.0**-m < p_threshold) + 1
        if n_folds < needed:
            raise ConfigError(
                f"WilcoxonPruner can give up no trial of {n_folds} fold{'s' if n_folds > 1 else ''}: with "
                f"p_threshold={p_threshold} it needs {needed - 1} before the last one; say num_splits={needed} or more "
                "(also with splits=), or another pruner"
            )

    def _check_trials(self) -> None:
        """Refuse a pruner that compares with more finished trials than there can be."""
        given = self.pruner
        n_startup = _STARTUP_TRIALS.get(given) if isinstance(given, str) else None
        if not isinstance(given, str) and "PercentilePruner" in _names_of(given):
            n_startup = max(1, self._pruner_settings("n_startup_trials").get("n_startup_trials", 1))
        if n_startup is not None and self.n_trials is not None and self.n_trials <= n_startup:
            name = given if isinstance(given, str) else type(given).__name__
            raise ConfigError(
                f"pruner={name!r} can give up none of "
                f"{self.n_trials} trial{'s' if self.n_trials > 1 else ''}: it compares with {n_startup} that have "
                f"finished before; say n_trials={n_startup + 1} or more, or leave the pruner out"
            )

    def check_epochs(self, num_epochs: int, val_freq: int) -> None:
        """Refuse a pruner that looks at the validation of epochs where no epoch is validated.

        Parameters
        ----------
        num_epochs
            Of the longest training.
        val_freq
            The smallest there may be: every how many epochs is validated.
        """
        if self.prunes == "epoch" and val_freq > num_epochs:
            raise ConfigError(
                f"pruner={self.pruner!r} looks at the validation of each epoch, and val_freq={val_freq} with "
                f"num_epochs={num_epochs} validates none: say val_freq={num_epochs} or less, or leave the pruner out"
            )

    def _pruner_settings(self, holds: str) -> Mapping[str, Any]:
        """What the pruner was made of, or the one that it wraps if that has this setting; empty for a name."""
        if isinstance(self.pruner, str):
            return {}
        known = settings_of(self.pruner)
        return next((each for each in known.values() if isinstance(each, Mapping) and holds in each), known)

    def describe(self) -> dict[str, Any]:
        """Return what decides which trials there are, as plain values; not how many."""
        names = ("num_splits", "val_split", "split_type", "constraints", "direction")
        named = {name: getattr(self, name) for name in names}
        pruner = self.pruner if isinstance(self.pruner, str | None) else settings_of(self.pruner)
        return yaml_codec.encode({**named, "metric": [*self.metrics], "sampler": self.sampler, "pruner": pruner})  # type: ignore[no-any-return]


def _names_of(pruner: object) -> set[str]:
    """Names of the classes of a pruner, and of one that it wraps."""
    inner = [value for value in getattr(pruner, "__dict__", {}).values() if hasattr(value, "prune")]
    return {each.__name__ for one in (pruner, *inner) for each in type(one).__mro__}


def settings_of(pruner: object) -> Mapping[str, Any]:
    """Return the class of a pruner and what it was made of."""
    stated = {name.lstrip("_"): value for name, value in vars(pruner).items()}
    inner = {name: settings_of(value) if hasattr(value, "prune") else value for name, value in stated.items()}
    return {"class": references.class_on_disk(type(pruner)), **inner}
