"""Which network an estimator trains, and what of its arguments the data say."""

import copy
import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from delira.contract import Backend, Network
from delira.errors import ConfigError, MissingBackendError, NetworkError
from delira.experiments.experiment import BaseExperiment
from delira.experiments.run_request import check_model_arguments
from delira.frameworks import NAMES, PREFERRED, installed_backends
from delira.training.run import own_generators, seed_generators
from delira.training.trainer import BaseNetworkTrainer
from delira.utils.frameworks import backend_named, find_backend

#: arguments of networks that are the second axis of the inputs: features of rows, channels of images
INPUTS = ("n_features", "in_features", "in_channels")
#: those that are the number of classes, or of values to predict
OUTPUTS = ("n_outputs", "out_features")
#: those that are the number of classes, and of nothing else
CLASSES = ("n_classes", "num_classes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What the data ask of a network."""

    kind: str
    """``"classification"`` or ``"regression"``."""
    n_inputs: int
    """Length of the second axis of the inputs."""
    n_outputs: int
    """Classes, or values to predict for each sample."""
    is_yes_or_no: bool = False
    """Whether a network has one output for two classes."""
    in_batches: bool = False
    """Whether an estimator of scikit-learn learns batch by batch."""

    @property
    def n_columns(self) -> int:
        """Numbers that a network says of a sample."""
        return 1 if self.is_yes_or_no else self.n_outputs

    def sizes(self) -> dict[str, int]:
        """What the data say of arguments, by their usual names."""
        outputs = (*OUTPUTS, *CLASSES) if self.kind == "classification" else OUTPUTS
        return {**dict.fromkeys(INPUTS, self.n_inputs), **dict.fromkeys(outputs, self.n_columns)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A network that is not built yet."""

    network_cls: Any
    """Its class."""
    arguments: Mapping[str, Any]
    """What it is built with."""

    @property
    def backend(self) -> Backend:
        """The verbs of its framework."""
        return find_backend(self.network_cls)

    def experiment(self, **settings: Any) -> BaseExperiment[Any]:
        """An experiment with it, of its backend.

        Parameters
        ----------
        **settings
            Keywords of the experiment besides parameters and network class.
        """
        own, params = self.backend.name, {"model": dict(self.arguments)}
        shown = [name for name in NAMES.get(own, {}).get("training", ()) if name.endswith("Experiment")]
        if not shown:  # a backend of the user's own
            return BaseExperiment(params, self.network_cls, trainer_cls=BaseNetworkTrainer, **settings)
        cls: type[BaseExperiment[Any]] = getattr(importlib.import_module("delira.training"), shown[0])
        return cls(params, self.network_cls, **settings)

    def build(self, seed: int) -> Network:
        """A network as an experiment begins with."""
        with own_generators(self.backend):
            seed_generators(self.backend, seed, 0, stream="network")
            return self.network_cls(**copy.deepcopy(dict(self.arguments)))


def backend_of(model_cls: Any) -> Backend:
    """The backend of a network class, or of an estimator class of scikit-learn; the preferred one of None.

    Raises
    ------
    ConfigError
        If it is no class.
    MissingBackendError
        If there is none, and no framework with a ready network.
    NetworkError
        If it is a class of something else.
    """
    if model_cls is None:
        there = installed_backends()
        for name in PREFERRED:
            if name in there and (backend := backend_named(name)).defaults is not None:
                return backend
        raise MissingBackendError(
            "without model_cls a multilayer perceptron is trained, and no framework that has one is installed; install "
            "one, e.g. pip install 'delira[torch]', or give model_cls"
        )
    if not isinstance(model_cls, type):
        name = type(model_cls).__name__
        raise ConfigError(
            f"model_cls must be a class, got an instance of {name}: every fit builds a new one, so pass {name}, and "
            "its arguments as model={…}"
        )
    if is_estimator_class(model_cls):
        return backend_named("sklearn")
    try:
        return find_backend(model_cls)
    except NetworkError as error:
        raise NetworkError(f"model_cls: {error}, or give an estimator class of scikit-learn") from error


def is_estimator_class(model_cls: Any) -> bool:
    """Return True for a class of estimators of scikit-learn, not of networks."""
    is_one = isinstance(model_cls, type) and hasattr(model_cls, "fit") and hasattr(model_cls, "get_params")
    return is_one and not hasattr(model_cls, "__delira_backend__")


def make_plan(model_cls: Any, model: Mapping[str, Any] | None, task: Task) -> Plan:
    """The network of a task.

    Parameters
    ----------
    model_cls
        A network class, an estimator class of scikit-learn, or None for a multilayer perceptron.
    model
        Arguments of it; sizes that are not among them are those of the data.
    task
        What the data ask for.

    Raises
    ------
    ConfigError
        If an argument is unknown, or one is missing, with its name.
    """
    if model is not None and not isinstance(model, Mapping):
        raise ConfigError(f"model must be a dict of arguments of the network, got {model!r}")
    arguments, backend = dict(model or {}), backend_of(model_cls)
    if is_estimator_class(model_cls):
        return _of_estimator(model_cls, arguments, task)
    if model_cls is None and backend.defaults is not None:
        model_cls = pkgutil.resolve_name(backend.defaults.network)
    return Plan(network_cls=model_cls, arguments=_filled(model_cls, arguments, task))


def _filled(network_cls: Any, given: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Arguments of a network, with what the data say of those that are not given."""
    known = [*inspect.signature(network_cls.__init__).parameters.values()][1:]
    names = [one.name for one in known if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    sizes = task.sizes()
    arguments = {**{name: sizes[name] for name in names if name in sizes}, **given}
    needed = {one.name for one in known if one.name in names and one.default is one.empty}
    if missing := [name for name in names if name in needed - arguments.keys()]:
        raise ConfigError(
            f"{network_cls.__name__} needs the argument {missing[0]!r}, which the data do not say (they say "
            f"{', '.join(sizes)}); give it: model={{{missing[0]!r}: …}}"
        )
    check_model_arguments(network_cls, arguments)
    return arguments


def _of_estimator(model_cls: Any, arguments: dict[str, Any], task: Task) -> Plan:
    """An estimator of scikit-learn as a network, which learns numbers of classes."""
    check_model_arguments(model_cls, arguments)
    estimator = model_cls(**arguments)
    is_of_classes = task.kind == "classification"
    if is_classifier(estimator) != is_of_classes:
        raise ConfigError(
            f"{model_cls.__name__} is {'no' if is_of_classes else 'a'} classifier; use delira.sklearn."
            f"{'Regressor' if is_of_classes else 'Classifier'}"
        )
    own = {"estimator": estimator, "partial_fit": task.in_batches}
    if is_of_classes:
        own["classes"] = np.arange(task.n_outputs).tolist()
    return Plan(network_cls=pkgutil.resolve_name(backend_named("sklearn").network_class), arguments=own)
