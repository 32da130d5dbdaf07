"""What losses count in a batch: those with class weights or ignored labels are no means over its samples."""

import math
from collections.abc import Mapping
from typing import Any

from delira.contract import DEFAULT_LOSS_KEYS
from delira.metrics.tree.criteria import Weigh, adds_up, weigh
from delira.training.run import Run

#: targets that are counted in a tenth of a millisecond or so; an exchange between processes takes some of them
_FEW = 1 << 18


class LossWeights:
    """What the losses of a run count in a batch; nothing is known of losses in a closure of the user's.

    Parameters
    ----------
    run
        The run.
    """

    #: losses that were looked at
    _losses: Any = None
    #: what weighs their batches: name, function, entry
    _weighed: tuple[tuple[str, Weigh, str], ...] = ()
    _sums: frozenset[str] = frozenset()

    def __init__(self, run: Run):
        self._run = run

    def __call__(self, prepared: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the means of losses count in a prepared batch, where that is not its samples.

        Parameters
        ----------
        prepared
            The batch.
        """
        self._look()
        found = {name: count(prepared.get(key)) for name, count, key in self._weighed}
        return {name: weight for name, weight in found.items() if weight is not None} or None

    def of_whole(self, prepared: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the same of a batch of which processes learn shares; ``None``: to count takes longer than to ask.

        Parameters
        ----------
        prepared
            The whole batch.
        """
        self._look()
        targets = (prepared.get(key) for _, _, key in self._weighed)
        return self(prepared) if all(math.prod(getattr(one, "shape", ())) <= _FEW for one in targets) else None

    @property
    def sums(self) -> frozenset[str]:
        """Losses that are sums over samples."""
        self._look()
        return self._sums

    def _look(self) -> None:
        config = self._run.config
        if self._losses is config.losses:
            return
        losses = config.losses if self._run.has_default_closure else {}
        entries = {name: config.loss_keys.get(name, DEFAULT_LOSS_KEYS)[-1] for name in losses}
        found = ((name, weigh(loss), entries[name]) for name, loss in losses.items())
        self._losses, self._sums = config.losses, frozenset(name for name, loss in losses.items() if adds_up(loss))
        self._weighed = tuple((name, count, key) for name, count, key in found if count is not None)
