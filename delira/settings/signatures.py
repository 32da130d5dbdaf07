"""What ``help()``, editors and type checkers know of the settings: a signature, a text for each, and typed keywords.

At run time nothing is checked here, but in the settings.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from delira.inference import Inference, TestTimeAugmentation
from delira.settings.config import PART_CLASSES, PARTS, PLAIN, TrainerConfig


def show_settings(method: Any, *more: inspect.Parameter, without: Iterable[str] = ()) -> None:
    """Let ``help()`` and notebooks see every keyword that the ``**settings`` of a method take.

    Parameters
    ----------
    method
        Gets a ``__signature__``.
    *more
        Keywords of its own among the ``**settings``.
    without
        Settings that it does not take.
    """
    own = [p for p in inspect.signature(method).parameters.values() if p.kind is not p.VAR_KEYWORD]
    method.__signature__ = settings_signature(*own, *more, without=without)


def keyword(name: str, default: object, kind: object = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a keyword of a signature with its default and, if it is known, its type."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def settings_signature(*leading: inspect.Parameter, without: Iterable[str] = ()) -> inspect.Signature:
    """Signature with ``leading`` parameters and every flat keyword but for some."""
    taken = {*without, *(parameter.name for parameter in leading)}
    parameters = [*leading]
    for name, cls, field in _stated():
        if name not in taken:
            described = next(each for each in dataclasses.fields(cls) if each.name == field)
            default = None if described.default is dataclasses.MISSING else described.default
            facts = (False, bool | str) if name == "mixed_precision" else (default, described.type)
            parameters.append(keyword(name, *facts))
    return inspect.Signature(parameters)


def settings_help() -> str:
    """Every flat keyword of trainers and experiments with its meaning, to be printed.

    The meanings are the texts below the fields; there are none where the source is not at hand.
    """
    return "\n".join(f"{name}\n    {_field_texts(cls).get(field, '')}" for name, cls, field in _stated())


def _stated() -> list[tuple[str, type, str]]:
    """Every flat keyword, with the class and the name of the field that state it."""
    plain: list[tuple[str, type, str]] = [(name, TrainerConfig, name) for name in PLAIN]
    return plain + [(name, PART_CLASSES[part], field) for name, (part, field) in PARTS.items()]


@functools.cache
def _field_texts(cls: type) -> dict[str, str]:
    """Return the strings below the fields of a dataclass."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError):
        return {}
    texts = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            texts[ast.unparse(field.target)] = str(below.value.value)
    return texts


Functions = Mapping[str, Callable[..., Any]]
Entries = Mapping[str, Sequence[str]]
ScoreMode = Literal["auto", "lowest", "min", "highest", "max"]
Reduction = Literal["mean", "sum", "first_only", "last_only"]


class _Everywhere(TypedDict, total=False):
    """Settings of trainers, experiments and trials; ``None`` is the default, unless the setting says what it means."""

    lr_scheduler_cls: Any
    lr_scheduler_params: Mapping[str, Any] | None
    lr_sched_cls: Any
    lr_sched_params: Mapping[str, Any] | None
    gradient_accumulation_steps: int | None
    gradient_clip_norm: float | None
    gradient_clip_value: float | None
    mixed_precision: bool | str | None
    mixed_precision_kwargs: Any
    compiled: bool | Mapping[str, Any] | None
    compile: bool | Mapping[str, Any] | None
    jit_compile: bool | None
    logging_type: Any
    logging_kwargs: Mapping[str, Any] | None
    logging_frequencies: int | Mapping[str, int] | None
    logging_reductions: Any
    reduce_types: Any
    log_freq: int | None
    save_freq: int | None
    checkpoint_freq: int | None
    save_freq_steps: int | None
    save_freq_minutes: float | None
    keep_last_checkpoints: int | None
    keep_best_checkpoints: int | None
    save_in_background: bool | None
    on_save_error: Literal["raise", "warn"] | None
    save_on_signal: bool | None
    nonfinite: Literal["raise", "skip", "rollback", "ignore"] | None
    nonfinite_predictions: Literal["nan", "raise"] | None
    rollback_factor: float | None
    max_rollbacks: int | None
    micro_batches: int | Literal["auto"] | None
    deterministic: bool | None
    gpu_ids: Sequence[int] | None
    device: str | None
    devices: int | None
    shard: bool | None
    shard_transforms: bool | None
    sync_batchnorm: bool | None
    num_threads: int | None
    val_freq: int | None
    val_score_key: str | None
    val_score_mode: ScoreMode | None
    output: str | Mapping[str, str] | None
    reduce_mode: Reduction | None
    seed: int | None
    convert_batch_to_npy_fn: Callable[..., Any] | None
    extra: Mapping[str, Any] | None


class TrialKeywords(_Everywhere, total=False):
    """Settings of a :class:`delira.Trial`."""

    fold: int
    start_epoch: int
    resume_from: str | Path | None


class NetworkKeywords(_Everywhere, total=False):
    """Settings of whatever builds its optimizers, losses and metrics by name."""

    loss_keys: Entries | None
    train_metrics: Functions | None
    val_inference: Inference | None
    val_tta: TestTimeAugmentation | None
    val_metrics: Mapping[str, Any] | None
    optimizer_cls: Any
    optimizer_params: Mapping[str, Any] | None
    optim_fn: Callable[..., dict[str, Any]] | None
    optim_builder: Callable[..., dict[str, Any]] | None
    verbose: int | None


class TrainerKeywords(NetworkKeywords, total=False):
    """Settings of a trainer."""

    metrics: Mapping[str, Any] | None
    metric_keys: Entries | None
