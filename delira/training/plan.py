"""What one call of ``train`` was asked for, checked before the first step."""

import dataclasses
import warnings
from typing import Any

from delira.data_loading.data_manager import BaseDataManager
from delira.errors import ConfigError
from delira.settings.config import REDUCTIONS, TrainerConfig, check_epochs


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Data, length and score of one training."""

    num_epochs: int
    train_data: Any
    val_data: Any
    val_score_key: str | None
    """Name of the value among those of the epoch, with ``val_``; ``None``: no score is watched."""
    val_score_mode: str
    """``"lowest"`` or ``"highest"``."""
    reduce_mode: str

    def validates(self, epoch: int, val_freq: int) -> bool:
        """Return True if ``epoch`` (from 1) ends with a validation."""
        return self.val_data is not None and epoch % val_freq == 0


def close_workers(*data: Any) -> None:
    """End the worker processes of data managers; other iterables are left alone."""
    for manager in data:
        if isinstance(manager, BaseDataManager):
            manager.close()


def warn_of_score(key: str, stacklevel: int) -> None:
    """Say that a score cannot be watched; ``stacklevel`` as seen from the caller."""
    text = f"val_score_key={key!r} is ignored: there are no validation data, so the last weights are kept"
    warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


def make_plan(config: TrainerConfig, asked: TrainingPlan, *, validates_losses: bool) -> TrainingPlan:
    """Check what was asked for and name the score as the epochs will.

    Parameters
    ----------
    config
        Settings of the trainer.
    asked
        The arguments of ``train``, with the settings in place of those that were left out.
    validates_losses
        Whether losses are computed on validation data.

    Raises
    ------
    ConfigError
        If an argument is impossible, or the score is one that nothing computes.
    """
    config.check_score_key(asked.val_score_key)
    key = asked.val_score_key
    if key is not None and asked.val_data is None:
        warn_of_score(key, stacklevel=4)
        key = None
    if key is not None:
        name = key.removeprefix("val_")
        if name in config.losses and not validates_losses:
            raise ConfigError(
                f"val_score_key={key!r} is a loss, but the network brings its own closure, so no validation losses "
                "are computed; use a validation metric"
            )
        key = f"val_{name}"
    if asked.reduce_mode not in REDUCTIONS:
        raise ConfigError(f"reduce_mode must be one of {REDUCTIONS}, got {asked.reduce_mode!r}")
    return dataclasses.replace(
        asked,
        num_epochs=check_epochs(asked.num_epochs),
        val_score_key=key,
    )
