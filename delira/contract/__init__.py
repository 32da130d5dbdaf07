"""The contract between the training loop and a backend: what each side may expect of the other."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.contract.arrays": "ArraysRole",
        "delira.contract.backend": "Backend roles_in",
        "delira.contract.calls": "CallsRole",
        "delira.contract.checkpoints": "CheckpointsRole",
        "delira.contract.closure": "default_closure",
        "delira.contract.devices": "DevicesRole",
        "delira.contract.export": "ExportRole",
        "delira.contract.generators": "GeneratorsRole",
        "delira.contract.kinds": (
            "Array Builder ByName Closure CompileConfig Criterion Data Defaults Devices Network Optimizer Role Scope "
            "Tree UpdateConfig"
        ),
        "delira.contract.natives": "NativesRole",
        "delira.contract.optimizers": "OptimizersRole WrappedOptimizers",
        "delira.contract.step": (
            "DEFAULT_LOSS_KEYS DEFAULT_METRIC_KEYS NO_HOOKS TARGET_FIRST Compute Hooks Step StepHooks StepRole "
            "backend_default call_losses call_metrics default_optimizer look_up mark named_outputs needs_losses "
            "run_hooks select_inputs tell_marks validation_names"
        ),
        "delira.contract.weights": "WeightsRole",
    },
    renamed={"room_default": "backend_default"},
)
