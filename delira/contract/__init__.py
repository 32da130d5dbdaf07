"""The contract between the training loop and a backend: what each side may expect of the other."""

from delira.contract.arrays import ArraysRole
from delira.contract.backend import Backend
from delira.contract.checkpoints import CheckpointsRole
from delira.contract.closure import default_closure
from delira.contract.devices import DevicesRole
from delira.contract.export import ExportRole
from delira.contract.generators import GeneratorsRole
from delira.contract.network_calls import CallsRole
from delira.contract.optimizers import OptimizersRole, WrappedOptimizers
from delira.contract.role import Role
from delira.contract.settings import CompileConfig, Devices, UpdateConfig
from delira.contract.step import (
    DEFAULT_LOSS_KEYS,
    DEFAULT_METRIC_KEYS,
    NO_HOOKS,
    TARGET_FIRST,
    Step,
    StepHooks,
    StepRole,
    backend_default,
    call_losses,
    call_metrics,
    default_optimizer,
    look_up,
    mark,
    named_outputs,
    needs_losses,
    run_hooks,
    select_inputs,
    tell_marks,
    validation_names,
)
from delira.contract.weights import WeightsRole
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, renamed={"room_default": "backend_default"})
