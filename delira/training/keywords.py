"""The settings as typed keywords: what editors complete, and what type checkers refuse to be misspelt.

Each keyword has the type of its field in :class:`delira.training.TrainerConfig` or :class:`SplitConfig`; where a few
texts alone mean something, they are listed. ``tests/training/test_keywords.py`` holds them equal. At run time nothing
is checked here, but in the settings.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from delira.training.parameters import Parameters
from delira.training.preprocessing import Preprocessing

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


class _OfNetworks(_Everywhere, total=False):
    """Settings of whatever builds its optimizers, losses and metrics by name."""

    loss_keys: Entries
    train_metrics: Functions
    val_metrics: Mapping[str, Any]
    optimizer_cls: Any
    optimizer_params: Mapping[str, Any]
    optim_fn: Callable[..., dict[str, Any]] | None
    optim_builder: Callable[..., dict[str, Any]] | None
    verbose: int


class TrainerKeywords(_OfNetworks, total=False):
    """Settings of a trainer."""

    metrics: Mapping[str, Any]
    metric_keys: Entries


class _OfRuns(_OfNetworks, total=False):
    losses: Functions
    batch_size: int
    callbacks: Iterable[Any] | None
    start_epoch: int


class ExperimentKeywords(_OfRuns, total=False):
    """Settings of an experiment, for all of its runs."""

    metrics: Mapping[str, Any]
    metric_keys: Entries
    num_epochs: int
    fold: int


class RunKeywords(ExperimentKeywords, total=False):
    """Settings of one run."""

    n_epochs: int
    key_mapping: Mapping[str, str] | None


class ResumeKeywords(RunKeywords, total=False):
    """Settings of a run that continues another one."""

    params: Parameters | Mapping[str, Any] | None
    preprocessing: Preprocessing | Mapping[str, Any] | None
    allow_changes: bool


class KFoldKeywords(_OfRuns, total=False):
    """Settings of a cross-validation."""

    n_epochs: int
    key_mapping: Mapping[str, str] | None
    split_type: Any
    shuffle: bool
    random_seed: int | None
    val_split: float | None
    label_key: str
    groups_key: str | None
    check_duplicates: bool
