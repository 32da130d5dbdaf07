"""The contract between the training loop and a room: what each side may expect of the other."""

from delira.contract.backend import Backend
from delira.contract.closure import default_closure
from delira.contract.settings import CompileConfig, Devices, UpdateConfig
from delira.contract.step import (
    DEFAULT_LOSS_KEYS,
    DEFAULT_METRIC_KEYS,
    NO_HOOKS,
    TARGET_FIRST,
    Step,
    StepHooks,
    call_losses,
    call_metrics,
    default_optimizer,
    look_up,
    mark,
    named_outputs,
    needs_losses,
    room_default,
    run_hooks,
    select_inputs,
    tell_marks,
    validation_names,
)

__all__ = [
    "DEFAULT_LOSS_KEYS",
    "DEFAULT_METRIC_KEYS",
    "NO_HOOKS",
    "TARGET_FIRST",
    "Backend",
    "CompileConfig",
    "Devices",
    "Step",
    "StepHooks",
    "UpdateConfig",
    "call_losses",
    "call_metrics",
    "default_closure",
    "default_optimizer",
    "look_up",
    "mark",
    "named_outputs",
    "needs_losses",
    "room_default",
    "run_hooks",
    "select_inputs",
    "tell_marks",
    "validation_names",
]
