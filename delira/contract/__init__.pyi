from delira.contract.arrays import ArraysRole as ArraysRole
from delira.contract.backend import Backend as Backend
from delira.contract.backend import roles_in as roles_in
from delira.contract.calls import CallsRole as CallsRole
from delira.contract.checkpoints import CheckpointsRole as CheckpointsRole
from delira.contract.closure import default_closure as default_closure
from delira.contract.devices import DevicesRole as DevicesRole
from delira.contract.export import ExportRole as ExportRole
from delira.contract.generators import GeneratorsRole as GeneratorsRole
from delira.contract.kinds import Array as Array
from delira.contract.kinds import Builder as Builder
from delira.contract.kinds import ByName as ByName
from delira.contract.kinds import Closure as Closure
from delira.contract.kinds import CompileConfig as CompileConfig
from delira.contract.kinds import Criterion as Criterion
from delira.contract.kinds import Data as Data
from delira.contract.kinds import Defaults as Defaults
from delira.contract.kinds import Devices as Devices
from delira.contract.kinds import Network as Network
from delira.contract.kinds import Optimizer as Optimizer
from delira.contract.kinds import Role as Role
from delira.contract.kinds import Scope as Scope
from delira.contract.kinds import Tree as Tree
from delira.contract.kinds import UpdateConfig as UpdateConfig
from delira.contract.natives import NativesRole as NativesRole
from delira.contract.optimizers import OptimizersRole as OptimizersRole
from delira.contract.optimizers import WrappedOptimizers as WrappedOptimizers
from delira.contract.step import backend_default as backend_default
from delira.contract.step import call_losses as call_losses
from delira.contract.step import call_metrics as call_metrics
from delira.contract.step import Compute as Compute
from delira.contract.step import DEFAULT_LOSS_KEYS as DEFAULT_LOSS_KEYS
from delira.contract.step import DEFAULT_METRIC_KEYS as DEFAULT_METRIC_KEYS
from delira.contract.step import default_optimizer as default_optimizer
from delira.contract.step import Hooks as Hooks
from delira.contract.step import look_up as look_up
from delira.contract.step import mark as mark
from delira.contract.step import named_outputs as named_outputs
from delira.contract.step import needs_losses as needs_losses
from delira.contract.step import NO_HOOKS as NO_HOOKS
from delira.contract.step import run_hooks as run_hooks
from delira.contract.step import select_inputs as select_inputs
from delira.contract.step import Step as Step
from delira.contract.step import StepHooks as StepHooks
from delira.contract.step import StepRole as StepRole
from delira.contract.step import TARGET_FIRST as TARGET_FIRST
from delira.contract.step import tell_marks as tell_marks
from delira.contract.step import validation_names as validation_names
from delira.contract.weights import WeightsRole as WeightsRole

__all__ = [
    "DEFAULT_LOSS_KEYS",
    "DEFAULT_METRIC_KEYS",
    "NO_HOOKS",
    "TARGET_FIRST",
    "Array",
    "ArraysRole",
    "Backend",
    "Builder",
    "ByName",
    "CallsRole",
    "CheckpointsRole",
    "Closure",
    "CompileConfig",
    "Compute",
    "Criterion",
    "Data",
    "Defaults",
    "Devices",
    "DevicesRole",
    "ExportRole",
    "GeneratorsRole",
    "Hooks",
    "NativesRole",
    "Network",
    "Optimizer",
    "OptimizersRole",
    "Role",
    "Scope",
    "Step",
    "StepHooks",
    "StepRole",
    "Tree",
    "UpdateConfig",
    "WeightsRole",
    "WrappedOptimizers",
    "backend_default",
    "call_losses",
    "call_metrics",
    "default_closure",
    "default_optimizer",
    "look_up",
    "mark",
    "named_outputs",
    "needs_losses",
    "roles_in",
    "run_hooks",
    "select_inputs",
    "tell_marks",
    "validation_names",
]
