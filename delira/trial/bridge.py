"""The framework that a module belongs to, its trainer and its experiment: the module of a trial, cross-validated."""

import copy
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira import state as keys
from delira.contract import Array, Backend, Network
from delira.contract.calls import is_ours, needed_inputs, parameters_of, single_output, takes_state_only
from delira.errors import ConfigError, NetworkError
from delira.frameworks import NAMES, PACKAGES, framework_of
from delira.metrics import MetricList, metric_set
from delira.metrics.tree.criteria import known_of


def experiment_of(trial: Any, name: str | None, save_path: str | Path | None, settings: Mapping[str, Any]) -> Any:
    """The experiment whose runs each fit a copy of the trial's module, as it is now.

    Raises
    ------
    ConfigError
        If the trial was fitted already, or has what an experiment cannot do: no criterion of predictions and targets,
        several optimizers, a closure or a loader of its own.
    """
    state, backend = trial.state, trial.backend
    model, optimizer = state[keys.MODEL], state[keys.OPTIMIZER]
    experiment = shown(model, "Experiment")
    if trial.history:
        raise ConfigError(
            "the trial was fitted already, so every fold would begin with what it is tested on; call to_experiment "
            "before run"
        )
    if backend.is_differentiable:
        _refuse(trial)
    given = {"val_metrics": _metrics_of(trial), "callbacks": list(trial.callbacks), **trial.settings, **settings}
    if not backend.is_differentiable:
        return experiment.of(copy.deepcopy(model), name, save_path, **given)
    try:
        module = copy.deepcopy(model)
    except TypeError as error:  # Keras builds its own from their configuration
        raise ConfigError(
            f"each fold trains a copy of the {type(model).__name__}, and it cannot be copied: {str(error)[:200]}"
        ) from error

    def build(model: Network, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"default": backend.optimizers.copy(optimizer, state[keys.MODEL], model.module)}

    network = _network_class(pkgutil.resolve_name(backend.network_class), module)
    given = {"losses": {"loss": state[keys.CRITERION]}, "optim_fn": build, **given}
    return experiment({}, network, name=name, save_path=save_path, **given)


def _metrics_of(trial: Any) -> dict[str, Any]:
    """What the trial reports, by name; of an experiment each is one number."""
    known, model = known_of(trial.state), trial.state[keys.MODEL]
    known = known if known.class_axis else known._replace(class_axis=-1 if trial.backend.channels_last else 1)
    named = {
        str(metric if isinstance(metric, str) else MetricList([metric]).names[0]): metric
        for metric in trial.given_metrics
        if metric != "loss"
    }
    return {name: metric_set.in_form(metric, name, known, model) for name, metric in named.items()}


def _refuse(trial: Any) -> None:
    state = trial.state
    if takes_state_only(state[keys.CRITERION]):
        raise ConfigError("an experiment needs a criterion of predictions and targets: criterion(prediction, target)")
    model = state[keys.MODEL]
    if needed_inputs(model) > 1 or "state" in parameters_of(model):
        raise ConfigError(
            f"to_experiment takes a module of one input; the {type(model).__name__} has several, or takes the state; "
            "write a network of delira.models, whose key_mapping says which entry of a batch is which input"
        )
    if state[keys.DATA_TYPE] is not None:
        raise ConfigError(
            f"the trial was moved to {state[keys.DATA_TYPE]}, but the batches of an experiment are of 32 bits; move it "
            "back, or write a network of delira.models with a prepare_batch of its own"
        )
    if isinstance(state[keys.OPTIMIZER], Mapping) or state[keys.OPTIMIZER] is None:
        raise ConfigError("to_experiment needs one optimizer; write a network with a closure for several")
    if trial.closure is not None or state[keys.LOADER] is not None:
        raise ConfigError("to_experiment cannot take a closure or a loader over; write a network with a closure")


def _network_class(base: Any, module: Network) -> type:
    """Make a network class whose instances hold copies of a module."""
    method = next((name for name in ("forward", "call") if hasattr(base, name)), "__call__")

    def __init__(self: Any) -> None:
        base.__init__(self)
        self.module = copy.deepcopy(module)

    def compute(self: Any, x: Array) -> dict[str, Any]:
        output = self.module(x)
        return {"pred": single_output(output) if is_ours(self.module) else output}

    parts = {"__init__": __init__, method: compute, "__module__": __name__, "made_of": (module,)}
    return type(type(module).__name__, (base,), parts)


def shown(model: Network, ending: str) -> Any:
    """Return the trainer, or another public class, of the framework that a module or a network of ours belongs to.

    Parameters
    ----------
    model
        The module; None stands for a network that returns None.
    ending
        Of the name of the class: ``"NetworkTrainer"`` or ``"Experiment"``.

    Raises
    ------
    NetworkError
        If it belongs to none.
    """
    own = getattr(type(model), "__delira_backend__", None)
    found = next(iter(PACKAGES)) if model is None else framework_of(model)
    name = found if own is None else own.name
    if name not in NAMES:
        raise NetworkError(
            f"a trial takes a torch.nn.Module, a keras.Model, a flax nnx.Module or a scikit-learn estimator, got "
            f"{model!r}"
        )
    cls = next(one for one in NAMES[name]["training"] if one.endswith(ending))
    return getattr(importlib.import_module("delira.training"), cls)


def backend_of(model: Network) -> Backend:
    """Return the verbs of the framework that a module belongs to; errors as of :func:`shown`."""
    return shown(model, "NetworkTrainer").backend
