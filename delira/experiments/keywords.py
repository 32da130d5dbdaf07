"""The settings of experiments, runs and cross-validations as typed keywords; see ``delira.settings.keywords``.

Those of a split have the types of :class:`~delira.experiments.splits.SplitConfig`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from delira.experiments.parameters import Parameters
from delira.experiments.preprocessing import Preprocessing
from delira.settings.keywords import Entries, Functions, NetworkKeywords


class _OfRuns(NetworkKeywords, total=False):
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
