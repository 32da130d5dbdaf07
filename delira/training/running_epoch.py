"""What the steps of the running epoch have brought so far; a checkpoint inside the epoch keeps it."""

from collections.abc import Mapping
from typing import Any, Self

from delira.contract import Backend
from delira.contract.kinds import Tree
from delira.errors import CheckpointError
from delira.metrics import MetricSet, kind_of
from delira.settings.config import TrainerConfig
from delira.training.output_readings import OutputReadings
from delira.training.run import Run
from delira.training.step_values import StepValues, reduce_values


class RunningEpoch:
    """Losses and metrics of one epoch.

    Parameters
    ----------
    config
        Settings of the trainer.
    backend
        The backend's verbs.
    rates
        Learning rates with which the epoch began, by name.
    left_out
        Batches that were left out of updates before it began.
    metrics
        Those over the epoch, with what is known of the predictions that they read; as losses and settings say if
        ``None``.
    """

    def __init__(
        self,
        config: TrainerConfig,
        backend: Backend,
        rates: Mapping[str, float],
        left_out: int = 0,
        metrics: Mapping[str, Any] | None = None,
    ):
        self.losses, self.metrics = StepValues(backend.arrays.read_scalars), StepValues(backend.arrays.read_scalars)
        self.rates, self.left_out = dict(rates), left_out
        self._skips = config.guards.nonfinite == "skip"
        if metrics is None:
            metrics = config.bound(config.metrics, backend=backend)
        self.over_epoch = MetricSet(metrics, config.keys_of(metrics)) if metrics else None
        self._kinds = {name: kind_of(metric, name) for name, metric in metrics.items()}

    @classmethod
    def of(cls, run: Run, readings: OutputReadings | None) -> Self:
        """Make that of an epoch which begins now.

        Parameters
        ----------
        run
            The run.
        readings
            Outputs of which nobody says what they are.
        """
        config, backend = run.config, run.backend
        metrics = config.bound(config.metrics, backend=backend)
        if readings is not None:
            metrics = readings.settled(metrics, config.keys_of(metrics), run.state.outputs)
        rates, left_out = (
            backend.optimizers.learning_rates(run.optimizers),
            backend.optimizers.count_left_out(run.optimizers),
        )
        return cls(config, backend, rates, left_out, metrics)

    def finish(self, n_steps: int) -> tuple[StepValues, StepValues]:
        """Compute the metrics over the epoch; returns ``(metrics, losses)``."""
        if self.over_epoch is None:
            return self.metrics, self.losses
        metrics = self.metrics.copy()  # a checkpoint in the validation holds only what the steps brought
        for name, array in self.over_epoch.compute().items():
            metrics.append({name: float(array.mean())}, 1, n_steps)
        return metrics, self.losses

    def reduce(self, values: Tree, mode: str) -> dict[str, float]:
        """Return one number for each name of what the steps brought, as :meth:`finish` or a user's loop has it."""
        if isinstance(values, StepValues):
            return values.reduce(mode, finite_only=self._skips)
        return {name: reduce_values(steps, mode) for name, steps in values.items()}

    @property
    def is_storable(self) -> bool:
        """Whether all of it can be put into a checkpoint; not if a streaming metric hides its state."""
        return self.over_epoch is None or self.over_epoch.is_storable

    def state_dict(self) -> dict[str, Any]:
        """All of it as a checkpoint tree."""
        return {
            "losses": self.losses.state_dict(),
            "metrics": self.metrics.state_dict(),
            "over_epoch": {} if self.over_epoch is None else self.over_epoch.state_dict(),
            "kinds": self._kinds,
            "rates": self.rates,
            "left_out": self.left_out,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint.

        Raises
        ------
        CheckpointError
            If the metrics over the epoch were others: they would be computed over a part of it.
        """
        kinds = state.get("kinds", self._kinds)
        if kinds != self._kinds:
            raise CheckpointError(
                f"the checkpoint is inside an epoch with the metrics {_listed(kinds)}, but the trainer has "
                f"{_listed(self._kinds)}; train with the same metrics, or resume from a checkpoint of a whole epoch "
                "(resume='…/checkpoint_epoch_<n>…')"
            )
        self.losses.load_state_dict(state["losses"])
        self.metrics.load_state_dict(state["metrics"])
        self.rates, self.left_out = dict(state["rates"]), state.get("left_out", 0)
        if self.over_epoch is not None:
            self.over_epoch.load_state_dict(state["over_epoch"])


def _listed(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name!r} ({kind})" for name, kind in sorted(kinds.items())) or "none"
