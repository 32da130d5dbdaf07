"""Where a run stands: everything that must survive a restart besides weights and optimizers."""

import dataclasses
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from delira.errors import CheckpointError, ConfigError
from delira.utils.checks import check_flags, check_texts, check_whole


@dataclasses.dataclass
class TrainingState:
    """Counters count what is finished: ``0`` means that nothing is."""

    epoch: int = 0
    """Finished epochs."""

    step_in_epoch: int = 0
    """Finished steps of the running epoch; 0 between epochs."""

    batch_in_epoch: int = 0
    """Number of the next batch inside an epoch; more than the steps if batches were left out as a whole."""

    has_all_steps: bool = False
    """Whether the running epoch has only its validation left."""

    global_step: int = 0
    """Finished steps of all epochs."""

    fold: int = 0
    """Fold of the cross-validation; a counter of every random decision."""

    seed: int = 0
    """Seed of every random decision."""

    best_score: float | None = None
    """Best validation score so far."""

    best_epoch: int | None = None
    """Epoch of the best score, counted from 1."""

    score_key: str | None = None
    """What the best score is a score of."""

    score_mode: str | None = None
    """``"lowest"`` or ``"highest"``: which score is good."""

    outputs: dict[str, Any] = dataclasses.field(default_factory=dict)
    """How outputs are read of which nobody says what they are, by name: ``"output"``, and ``"since"`` which epoch."""

    stop_training: bool = False
    """Set by a callback to end the training after the running epoch."""

    rollbacks: int = 0
    """How often the run went back to a checkpoint because of numbers that were not finite."""

    micro_batches: int = 1
    """Parts that a batch is computed in."""

    history: list[dict[str, float]] = dataclasses.field(default_factory=list)
    """One record for each finished epoch."""

    callbacks: dict[str, Any] = dataclasses.field(default_factory=dict)
    """States of the callbacks, by name."""

    accumulators: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Values of the running epoch; empty between epochs."""

    generators: dict[str, Any] = dataclasses.field(default_factory=dict)
    """States of the random generators inside an epoch; empty between epochs, where they are seeded anew."""

    loader: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Position of a loader of the user's that can tell one; a data manager needs only ``step_in_epoch``."""

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in _COUNTS}
        check_whole(self, at_least=0, **counts)
        check_whole(self, seed=self.seed)
        check_whole(self, at_least=1, micro_batches=self.micro_batches)
        check_flags(self, has_all_steps=self.has_all_steps, stop_training=self.stop_training)
        for name, kind in _KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"TrainingState: {name} is a {kind.__name__.lower()}, got {getattr(self, name)!r}")
        if self.best_epoch is not None:
            check_whole(self, at_least=1, best_epoch=self.best_epoch)
        if self.best_score is not None and (isinstance(self.best_score, bool) or not isinstance(self.best_score, Real)):
            raise ConfigError(f"TrainingState: best_score is a number, got {self.best_score!r}")
        for name in ("score_key", "score_mode"):
            if getattr(self, name) is not None:
                check_texts(self, **{name: getattr(self, name)})

    @property
    def is_new(self) -> bool:
        """Return True if nothing was trained yet."""
        return self.global_step == 0

    def to_tree(self) -> dict[str, Any]:
        """The state as a checkpoint tree; it shares its parts with the state."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "TrainingState":
        """Read a state back; entries that later versions add keep their defaults."""
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := tree.keys() - known:
            raise CheckpointError(
                f"the checkpoint's training state has the unknown entries {sorted(unknown)}; "
                "it was written by a newer version of delira"
            )
        for name, default in vars(cls()).items():
            kind = list if isinstance(default, list) else Mapping
            if isinstance(default, (list, dict)) and not isinstance(tree.get(name, default), kind):
                raise CheckpointError(f"the checkpoint's training state has a {type(tree[name]).__name__} as {name!r}")
        if not isinstance(tree.get("epoch"), Integral):
            raise CheckpointError(f"the checkpoint's training state has the epoch {tree.get('epoch')!r}, no number")
        try:
            return cls(**tree)
        except ConfigError as error:
            raise CheckpointError(f"the checkpoint's training state is none: {error}") from error


_COUNTS = ("epoch", "step_in_epoch", "batch_in_epoch", "global_step", "fold", "rollbacks")
_KINDS: dict[str, type] = {
    "history": list, **dict.fromkeys(("callbacks", "accumulators", "generators", "loader", "outputs"), Mapping),
}  # fmt: skip
