"""The settings as typed keywords: what editors complete, and what type checkers refuse to be misspelt.

Each keyword has the type of its field in :class:`delira.training.TrainerConfig`; where a few texts alone mean
something, they are listed. ``tests/settings/test_keywords.py`` holds them equal. At run time nothing
is checked here, but in the settings.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

Functions = Mapping[str, Callable[..., Any]]
Entries = Mapping[str, Sequence[str]]
ScoreMode = Literal["auto", "lowest", "min", "highest", "max"]
Reduction = Literal["mean", "sum", "first_only", "last_only"]


class _Everywhere(TypedDict, total=False):
    """Settings of trainers, experiments and trials."""

    lr_scheduler_cls: Any
    lr_scheduler_params: Mapping[str, Any]
    lr_sched_cls: Any
    lr_sched_params: Mapping[str, Any]
    gradient_accumulation_steps: int
    gradient_clip_norm: float | None
    gradient_clip_value: float | None
    mixed_precision: bool | str
    mixed_precision_kwargs: Any
    compiled: bool | Mapping[str, Any] | None
    compile: bool | Mapping[str, Any] | None
    jit_compile: bool
    logging_type: Any
    logging_kwargs: Mapping[str, Any]
    logging_frequencies: int | Mapping[str, int] | None
    logging_reductions: Any
    reduce_types: Any
    log_freq: int
    save_freq: int | None
    checkpoint_freq: int | None
    save_freq_steps: int | None
    save_freq_minutes: float | None
    keep_last_checkpoints: int | None
    keep_best_checkpoints: int | None
    save_in_background: bool
    on_save_error: Literal["raise", "warn"]
    save_on_signal: bool
    nonfinite: Literal["raise", "skip", "rollback", "ignore"]
    nonfinite_predictions: Literal["nan", "raise"]
    rollback_factor: float
    max_rollbacks: int
    micro_batches: int | Literal["auto"]
    deterministic: bool
    gpu_ids: Sequence[int]
    device: str | None
    num_threads: int | None
    val_freq: int
    val_score_key: str | None
    val_score_mode: ScoreMode
    output: str | Mapping[str, str] | None
    reduce_mode: Reduction
    seed: int
    convert_batch_to_npy_fn: Callable[..., Any] | None
    extra: Mapping[str, Any]


class TrialKeywords(_Everywhere, total=False):
    """Settings of a :class:`delira.Trial`."""

    fold: int
    start_epoch: int
    resume_from: str | Path | None


class NetworkKeywords(_Everywhere, total=False):
    """Settings of whatever builds its optimizers, losses and metrics by name."""

    loss_keys: Entries
    train_metrics: Functions
    val_metrics: Mapping[str, Any]
    optimizer_cls: Any
    optimizer_params: Mapping[str, Any]
    optim_fn: Callable[..., dict[str, Any]] | None
    optim_builder: Callable[..., dict[str, Any]] | None
    verbose: int


class TrainerKeywords(NetworkKeywords, total=False):
    """Settings of a trainer."""

    metrics: Mapping[str, Any]
    metric_keys: Entries
