"""Which layers learn, epoch by epoch."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import Trainer
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import trainer_of
from delira.errors import ConfigError
from delira.state import State
from delira.utils.checks import check_names, check_whole, did_you_mean


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
        listed = {}
        for epoch, chosen in schedule.items():
            check_whole(self, at_least=0, epoch=epoch)
            if chosen is not None and not callable(chosen):
                check_names("FreezeUnfreeze: schedule", chosen=chosen)
                # a list: a generator could be read once only
                chosen = [chosen] if isinstance(chosen, str) else list(chosen)
            listed[epoch] = chosen
        self.schedule: dict[int, Any] = dict(sorted(listed.items()))
        self._all: frozenset[str] = frozenset()

    def attach(self, trainer: Trainer) -> None:
        """Remember what learns without the schedule."""
        self._all = trainer.learned_names

    def on_start_epoch(self, state: State) -> None:
        """Freeze and unfreeze."""
        trainer = trainer_of(state)
        self._all = self._all or trainer.learned_names  # a network without shapes has no names at first
        begun = [epoch for epoch in self.schedule if epoch <= state[keys.EPOCH]]
        names = self._names(self.schedule[begun[-1]]) if begun else self._all
        if names != trainer.learned_names:
            trainer.backend.weights.set_learned_names(trainer.module, names)

    on_start = on_start_epoch  # of a fit that is continued inside an epoch

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
