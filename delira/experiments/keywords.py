"""Keywords that experiments take besides those that their methods name, for editors and type checkers."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from delira.experiments.parameters import Parameters
from delira.experiments.preprocessing import Preprocessing
from delira.settings.signatures import Entries, Functions, NetworkKeywords

if TYPE_CHECKING:
    from delira.execution import Mirror


class _OfRuns(NetworkKeywords, total=False):
    losses: Functions | None
    batch_size: int | None
    callbacks: Iterable[Any] | None
    start_epoch: int


class ExperimentKeywords(_OfRuns, total=False):
    """Settings of an experiment, for all of its runs."""

    metrics: Mapping[str, Any] | None
    metric_keys: Entries | None
    num_epochs: int | None
    fold: int


class RunKeywords(ExperimentKeywords, total=False):
    """Settings of one run."""

    n_epochs: int | None
    key_mapping: Mapping[str, str] | None


class ResumeKeywords(RunKeywords, total=False):
    """Settings of a run that continues another one."""

    params: Parameters | Mapping[str, Any] | None
    preprocessing: Preprocessing | Mapping[str, Any] | None
    allow_changes: bool
    data_keys: Sequence[str] | None
    mirror: "Mirror | str | os.PathLike[str] | None"


class KFoldKeywords(_OfRuns, total=False):
    """Settings of a cross-validation; those of a split have the types of ``SplitConfig``."""

    n_epochs: int | None
    key_mapping: Mapping[str, str] | None
    split_type: Any
    shuffle: bool
    random_seed: int | None
    val_split: float | None
    label_key: str
    groups_key: str | None
    splits: Any
    check_duplicates: bool


class PredictionKeywords(TypedDict, total=False):
    """What a test uses in place of the methods of the network and of the backend."""

    prepare_batch: Callable[..., Any] | None
    convert_fn: Callable[..., Any] | None
    key_mapping: Mapping[str, str] | None
