"""A learning rate to begin with: rates are tried from small to large, until the loss gets worse."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from delira import state as keys
from delira.contract.kinds import Data
from delira.errors import ConfigError
from delira.training.finders.rehearsal import Rehearsal, participants, rehearsing
from delira.utils.checks import check_numbers, check_whole
from delira.utils.pictures import picture_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from delira.training.trainer import BaseNetworkTrainer

_BLUE, _RED, _GREY = "#0072b2", "#d55e00", "#9aa1ab"


@dataclasses.dataclass(frozen=True)
class RateSearch:
    """What :func:`find_learning_rate` has seen, one entry for each rate that was tried.

    Parameters
    ----------
    rates
        Learning rates, shape ``(n,)``.
    losses
        Losses of the steps at these rates, before their update, shape ``(n,)``; the last one may be infinite or no
        number.
    smoothed
        Their moving mean, of which the suggestion is made, shape ``(n,)``.
    n_unsettled
        So many of its first entries are means of a few losses only, and not looked at.
    """

    rates: np.ndarray
    losses: np.ndarray
    smoothed: np.ndarray
    n_unsettled: int = 0

    def __post_init__(self) -> None:
        curves = {"rates": self.rates, "losses": self.losses, "smoothed": self.smoothed}
        length = next((len(curve) for curve in curves.values() if _is_curve(curve)), 0)
        for name, curve in curves.items():
            if not _is_curve(curve) or len(curve) != length:
                raise ConfigError(
                    f"RateSearch: {name} is an array of numbers, as long as the others of rates, losses and smoothed, "
                    f"got {curve!r:.80}"
                )
        check_whole(self, at_least=0, n_unsettled=self.n_unsettled)

    @property
    def suggestion(self) -> float | None:
        """The rate at which the smoothed loss falls the fastest, over the logarithm of the rate, on its way down.

        Slopes are those of lines through a tenth of the entries. None if the loss never falls, or too few rates were
        tried. See Smith, Cyclical learning rates for training neural networks, section 3.3, arXiv:1506.01186 (2015),
        for the test; to take the steepest place of its curve is the rule of fastai (Howard and Gugger,
        arXiv:2002.04688, 2020).
        """
        from scipy.signal import savgol_filter

        finite = np.flatnonzero(np.isfinite(self.smoothed))[self.n_unsettled :]
        lowest = int(np.argmin(self.smoothed[finite])) if len(finite) else 0
        window = max(3, len(self.rates) // 10 | 1)
        if lowest + 1 < window:
            return None
        falling = finite[: lowest + 1]
        slopes = savgol_filter(self.smoothed[falling], window, polyorder=1, deriv=1)
        return float(self.rates[falling[int(np.argmin(slopes))]])

    def plot(self) -> "Figure":
        """The losses over the rates, with the suggestion.

        Returns
        -------
        matplotlib.figure.Figure
            Notebooks show it; ``.savefig(path)`` writes it.
        """
        figure = picture_class()(figsize=(5.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(self.rates, self.losses, color=_GREY, linewidth=0.8, label="loss")
        axes.plot(self.rates, self.smoothed, color=_BLUE, linewidth=1.8, label="smoothed")
        if (rate := self.suggestion) is not None:
            at = int(np.argmin(abs(self.rates - rate)))
            axes.plot([rate], [self.smoothed[at]], "o", color=_RED, label=f"suggestion: {rate:.2g}")
        axes.set_xscale("log")
        axes.set_xlabel("learning rate")
        axes.set_ylabel("loss")
        finite, single = (values[np.isfinite(values)] for values in (self.smoothed, self.losses))
        if len(finite) and (span := finite.max() - single.min()) > 0:  # single losses may be far above
            axes.set_ylim(single.min() - 0.05 * span, finite.max() + 0.05 * span)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        return figure


def _is_curve(curve: Any) -> bool:
    return isinstance(curve, np.ndarray) and curve.ndim == 1 and curve.dtype.kind in "fiu"


def find_learning_rate(
    of: Any,
    data: Data = None,
    start: float = 1e-7,
    end: float = 10.0,
    steps: int = 100,
    smoothing: float = 0.9,
    divergence: float = 4.0,
) -> RateSearch:
    """Try learning rates from small to large, one for each update, until the loss diverges.

    Everything is put back afterwards, bit for bit: weights, optimizers, generators, history, callbacks. The rate itself
    is left as it was, too.

    Parameters
    ----------
    of
        A :class:`delira.Trial`, or a trainer.
    data
        To train on; a trial has its own.
    start, end
        The first and the last rate; those between grow geometrically.
    steps
        How many rates. Data that are shorter begin again.
    smoothing
        Share of the mean so far in the moving mean of the losses, from 0 to 1; its first values are corrected for their
        small number.
    divergence
        The search ends when the smoothed loss is this many times the lowest so far; from 1 on. (Where that is near 0 or
        below, when it is as far above it as the first loss was that often.)

    Returns
    -------
    RateSearch
        With ``rates``, ``losses``, ``suggestion`` and ``plot()``.

    Raises
    ------
    ConfigError
        If an argument is impossible, there are no data, or nobody can change the rate of an optimizer.

    Examples
    --------
    >>> import delira, torch
    >>> x = torch.randn(64, 3)
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), verbose=0).with_train_data(x, x[:, :1], 16)
    >>> search = find_learning_rate(trial, end=0.1, steps=50)
    >>> float(search.rates[0]), len(search.rates)
    (1e-07, 50)
    """
    _check(start, end, steps, smoothing, divergence)
    trainer, data = participants(of, data)
    if hasattr(of, "data_of") and of.state[keys.OPTIMIZER] is None:
        raise ConfigError("the trial has no optimizer whose learning rate could be found")
    tried = np.geomspace(start, end, steps)
    losses: list[float] = []
    smoothed: list[float] = []
    mean = 0.0
    with rehearsing(trainer, data) as rehearsal, _rates_kept(trainer):
        for number, rate in enumerate(tried, 1):
            _set_rates(trainer, float(rate))
            losses.append(_loss_of_update(trainer, rehearsal))
            mean = smoothing * mean + (1 - smoothing) * losses[-1]
            smoothed.append(mean / (1 - smoothing**number))
            if _has_diverged(smoothed, divergence):
                break
    n_unsettled = round(1 / (1 - smoothing)) - 1
    return RateSearch(tried[: len(losses)], np.array(losses), np.array(smoothed), n_unsettled)


def _loss_of_update(trainer: "BaseNetworkTrainer", rehearsal: Rehearsal) -> float:
    """Mean loss of the batches that make one update."""
    number = trainer.config.update.accumulation_steps
    return float(np.mean([rehearsal.step(next(rehearsal.batches)) for _ in range(number)]))


def _set_rates(trainer: "BaseNetworkTrainer", rate: float) -> None:
    for optimizer in trainer.optimizers.values():
        for group in getattr(optimizer, "param_groups", ()):
            if hasattr(group["lr"], "fill_"):  # a tensor, which a compiled update reads
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if not hasattr(optimizer, "param_groups"):
            if not hasattr(optimizer, "rate"):
                raise ConfigError(f"the backend {trainer.backend.name!r} has no learning rates to change")
            optimizer.rate = rate


@contextlib.contextmanager
def _rates_kept(trainer: "BaseNetworkTrainer") -> Iterator[None]:
    """Scope after which optimizers have their rates: those of JAX remember the one that was set last."""
    before = {name: getattr(optimizer, "rate", None) for name, optimizer in trainer.optimizers.items()}
    try:
        yield
    finally:
        for name, rate in before.items():
            if rate is not None:
                trainer.optimizers[name].rate = rate


def _has_diverged(smoothed: list[float], divergence: float) -> bool:
    if not math.isfinite(smoothed[-1]):
        return True
    first, lowest = smoothed[0], min(smoothed)
    return smoothed[-1] > lowest + (divergence - 1) * max(abs(lowest), first - lowest)


def _check(start: float, end: float, steps: int, smoothing: float, divergence: float) -> None:
    who = "find_learning_rate"
    check_numbers(who, above=0, start=start, end=end)
    if not start < end:
        raise ConfigError(f"{who}: rates go from start up to end, got {start!r} and {end!r}")
    check_whole(who, at_least=3, steps=steps)
    check_numbers(who, at_least=0, smoothing=smoothing)
    check_numbers(who, above=1, divergence=divergence)
    if not smoothing < 1:
        raise ConfigError(f"{who}: smoothing is at least 0 and below 1, got {smoothing!r}")
