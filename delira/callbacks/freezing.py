"""Which layers learn, epoch by epoch."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import trainer_of
from delira.errors import ConfigError
from delira.state import State
from delira.utils.checks import check_names, check_whole
from delira.utils.suggest import did_you_mean

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class FreezeUnfreeze(Callback):
    """Freeze and unfreeze layers at the beginning of given epochs.

    Parameters
    ----------
    schedule
        Epoch, counted from 0 -> what learns from then on: None for all that learned at first; a name, or several, of
        weights or of layers (``"body"`` stands for every ``"body.…"``); or a function that is true for the names
        of weights that learn. Before the first of the epochs all learn.

    Raises
    ------
    ConfigError
        If an epoch is impossible; when an epoch begins, if a name is none of the network's, or nothing would learn.

    Examples
    --------
    >>> schedule = FreezeUnfreeze({0: "head", 5: ["head", "body.2"], 10: None})
    """

    phases = ("fit",)
    needs_gradients = True

    def __init__(self, schedule: Mapping[int, str | Iterable[str] | Callable[[str], bool] | None]):
        if not isinstance(schedule, Mapping):
            raise ConfigError(f"FreezeUnfreeze: the schedule is a dict of what learns by epoch, got {schedule!r}")
        for epoch in schedule:
            check_whole(self, at_least=0, epoch=epoch)
            if schedule[epoch] is not None and not callable(schedule[epoch]):
                check_names("FreezeUnfreeze: schedule", chosen=schedule[epoch])
        # lists: a generator could be read once only
        self.schedule = {epoch: _listed(schedule[epoch]) for epoch in sorted(schedule)}
        self._all: frozenset[str] = frozenset()

    def attach(self, trainer: "BaseNetworkTrainer") -> None:
        """Remember what learns without the schedule."""
        self._all = trainer.learned_names

    def on_start(self, state: State) -> None:
        """Freeze for the epoch that a fit is continued in."""
        self._apply(state)

    def on_start_epoch(self, state: State) -> None:
        """Freeze and unfreeze."""
        self._apply(state)

    def _apply(self, state: State) -> None:
        trainer = trainer_of(state)
        self._all = self._all or trainer.learned_names  # a network without shapes has no names at first
        begun = [epoch for epoch in self.schedule if epoch <= state[keys.EPOCH]]
        names = self._names(self.schedule[begun[-1]]) if begun else self._all
        if names != trainer.learned_names:
            trainer.backend.weights.set_learned_names(trainer.module, names)

    def _names(self, chosen: Any) -> frozenset[str]:
        if chosen is None:
            return self._all
        if callable(chosen):
            names = frozenset(filter(chosen, self._all))
        else:
            names = frozenset().union(*map(self._names_of, chosen))
        if not names:
            raise ConfigError(f"FreezeUnfreeze would freeze all weights; there are {', '.join(sorted(self._all))}")
        return names

    def _names_of(self, layer: str) -> frozenset[str]:
        names = frozenset(name for name in self._all if name == layer or name.startswith(f"{layer}."))
        if not names:
            raise ConfigError(f"FreezeUnfreeze: there is no layer {layer!r}{did_you_mean(layer, sorted(self._all))}")
        return names


def _listed(chosen: Any) -> Any:
    if chosen is None or callable(chosen):
        return chosen
    return [chosen] if isinstance(chosen, str) else list(chosen)
