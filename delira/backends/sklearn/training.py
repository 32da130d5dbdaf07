"""Trainer and experiment of scikit-learn: the common ones, bound to this backend."""

import dataclasses
import functools
import inspect
import logging
import re
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from delira.backends.sklearn.backend import BACKEND
from delira.backends.sklearn.checkpoints import SILENT, check_writable
from delira.backends.sklearn.network import SklearnEstimator, as_network
from delira.callbacks import ProgressBar
from delira.contract.kinds import ByName, Network
from delira.data_loading.dataset import Subset, given_labels, read_labels
from delira.errors import ConfigError
from delira.experiments.experiment import BaseExperiment
from delira.experiments.run_request import RunRequest, as_parameters
from delira.metrics import MetricSet
from delira.settings.config import TrainerConfig
from delira.training.objective import Objective
from delira.training.trainer import BaseNetworkTrainer

_log = logging.getLogger("delira")


class SklearnObjective(Objective):
    """The metrics of an experiment with an estimator, which may have to wait for its fit."""

    def prepare_fits(self, fits: ByName, to_numpy: Callable[[Any], Any]) -> None:
        """Tell what fits an estimator what to keep of its batches, and what follows."""
        config = self.run.config
        metrics = config.bound(config.metrics, backend=self.run.backend)
        entries = MetricSet(metrics, config.keys_of(metrics)).entries
        for fit in fits.values():
            fit.kept = frozenset({*entries, *(key.split(".", 1)[0] for key in entries)})
            fit.after = functools.partial(self._after_fit, to_numpy)

    def labelled(self) -> tuple[Any, Any]:
        """Return the entry of the labels, and data in which all of them are found."""
        return self.run.network.target, self.run.train_data

    def _after_fit(self, to_numpy: Callable[[Any], Any], batches: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        """Compute the metrics over the epoch, which had to wait for the fit."""
        running, backend = self.run.running, self.run.backend
        if running is not None and running.over_epoch is not None:
            for batch, inputs in batches:
                predictions = to_numpy(backend.calls.forward(self.run.network, inputs))
                running.over_epoch.update({**predictions, **batch})


class SklearnNetworkTrainer(BaseNetworkTrainer):
    """Trains a :class:`SklearnEstimator`; the arguments are those of :class:`BaseNetworkTrainer`.

    A scikit-learn estimator that is passed as it is gets wrapped. An estimator without ``partial_fit`` is fitted at
    the end of the first epoch; the training stops then, since further epochs would bring nothing. It gets the
    samples in the order of the data, as scikit-learn alone would, unless the manager names a sampler.
    """

    backend = BACKEND
    objective_cls = SklearnObjective
    objective: Any

    def _setup(self, network: object) -> None:
        network = as_network(network)
        if isinstance(network, SklearnEstimator):
            _refuse(self.config, network)
            network.set_random_states(self.seed, self.fold)
            if self.save_path is not None or self.callbacks.hears("on_checkpoint"):
                check_writable(network)
        super()._setup(network)
        self.objective.prepare_fits(self.optimizers, self.to_numpy)

    def _at_training_begin(self, *args: Any, **facts: Any) -> None:
        network = self.module
        if network.needs_classes and network.classes is None:
            network.found_classes = find_classes(*self.objective.labelled())
        if network.needs_columns:
            network.columns = find_columns(*self.objective.labelled())
        super()._at_training_begin(*args, **facts)

    def _at_epoch_end(self, *args: Any, **facts: Any) -> None:
        if any(fit.is_done for fit in self.optimizers.values()):
            self.stop_training = True
            is_shown = any(isinstance(callback, ProgressBar) for callback in self.callbacks)
            if facts["num_epochs"] > self.state.epoch and is_shown and self.fold == 0:
                _log.warning(
                    "%s is fitted after epoch %d; further epochs would bring nothing, so the training ends",
                    type(self.module.estimator).__name__, self.state.epoch,
                )  # fmt: skip
        super()._at_epoch_end(*args, **facts)


class SklearnExperiment(BaseExperiment[Any]):
    """Runs experiments with scikit-learn estimators; the arguments are those of :class:`BaseExperiment`.

    ``model_cls`` is :class:`SklearnEstimator` or any estimator class, whose arguments the model parameters are then.
    Where no number of epochs is set, every estimator is fitted once, by its own ``fit``. With ``num_epochs``, or
    ``SklearnEstimator(estimator, partial_fit=True)``, one that can learns batch by batch.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> experiment = SklearnExperiment.of(RandomForestClassifier(), save_path="runs")  # doctest: +SKIP
    >>> experiment.kfold(data, {"accuracy": delira.metrics.accuracy}, num_splits=5)  # doctest: +SKIP
    """

    trainer_cls = SklearnNetworkTrainer
    wraps_models = True

    @classmethod
    def of(cls, estimator: Network, name: str | None = None, save_path: Any = None, **settings: Any) -> Self:
        """An experiment with an estimator as it would be used without delira.

        Parameters
        ----------
        estimator
            An estimator or a :class:`SklearnEstimator`; every run gets an unfitted copy.
        name
            Name of the experiment; the estimator's class and what of its parameters is no default if ``None``, e.g.
            ``"SVC-kernel=linear"``.
        save_path
            Parent folder of the runs; the working directory if ``None``.
        **settings
            Settings of the experiment and the trainer.
        """
        network = estimator if isinstance(estimator, SklearnEstimator) else SklearnEstimator(estimator)
        own = network.init_kwargs if network is estimator else {"estimator": network.init_kwargs["estimator"]}
        name = name or name_of(network.estimator)
        return cls({"model": dict(own)}, SklearnEstimator, name=name, save_path=save_path, **settings)

    def resolve(self, params: Any, kwargs: Any, seed: int | None = None) -> RunRequest:
        given = {} if params is None else as_parameters(params).training_settings()
        stated = [self.params.training_settings(), given, self.settings, kwargs, {"n_epochs": self.n_epochs}]
        has_epochs = any(each.get(name) is not None for each in stated for name in ("num_epochs", "n_epochs"))
        request = super().resolve(params, kwargs if has_epochs else {**kwargs, "num_epochs": 1}, seed)
        fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
        mapping = dict(request.key_mapping or {})
        if "X" in mapping:  # as in version 0.5, where the entries of a batch are scikit-learn's names, too
            fields["key_mapping"] = {"x": mapping.pop("X"), **mapping}
        is_older = fields["key_mapping"] == {"x": "X"}
        return _Request(**fields, has_epochs=has_epochs, target="y" if is_older else None)

    def _build_network(self, request: RunRequest) -> Any:
        network = as_network(super()._build_network(request))
        is_open = isinstance(network, SklearnEstimator) and network.partial_fit is None
        if is_open and not getattr(request, "has_epochs", True):
            network.partial_fit = False
        if isinstance(network, SklearnEstimator) and (target := getattr(request, "target", None)) is not None:
            network.target = target
        return network


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Request(RunRequest):
    has_epochs: bool
    """Whether a number of epochs was set; if not, an estimator is fitted once, though it may have ``partial_fit``."""
    target: str | None = None
    """The entry that is learned, if its name follows from that of the input."""

    def fingerprint(self, data: object) -> dict[str, Any]:
        """Return the fingerprint, with the way of learning: a run continues only one that learns in the same way."""
        return {**super().fingerprint(data), "epochs": "set" if self.has_epochs else "not set"}


def _refuse(config: TrainerConfig, network: SklearnEstimator) -> None:
    """Refuse settings that mean nothing to an estimator."""
    optimizer, update, compiling, guards = config.optimizer, config.update, config.compiling, config.guards
    given = {
        "losses": config.losses,
        "optimizer_cls": optimizer.cls is not None,
        "optimizer_params": optimizer.params,
        "optim_fn": optimizer.builder is not None,
        "lr_scheduler_cls": config.schedule.cls is not None,
        "mixed_precision": update.precision != "32",
        "gradient_accumulation_steps": update.accumulation_steps != 1,
        "gradient_clip_norm": update.clip_norm is not None,
        "gradient_clip_value": update.clip_value is not None,
        "compiled": compiling.compiled,
        "jit_compile": compiling.jit,
        f"nonfinite={guards.nonfinite!r}": guards.nonfinite in ("skip", "rollback"),
        "micro_batches": guards.micro_batches != 1,
    }
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ConfigError(
            f"scikit-learn estimators bring their own loss and optimizer, so {', '.join(wrong)} cannot be set; what is "
            "to be watched are metrics and val_metrics"
        )
    if config.train_metrics and not network.is_incremental:
        raise ConfigError(
            f"train_metrics are values of single steps, but {type(network.estimator).__name__} is fitted once; use "
            "metrics, which are computed over the epoch"
        )


def find_classes(target: str | None, data: object) -> Any:
    """All classes of the training data; an estimator that is told of more may divide by their number of samples.

    Parameters
    ----------
    target
        Entry that is learned.
    data
        The training data.

    Returns
    -------
    ndarray or list of ndarray
        The sorted labels; of several labels a sample, those of each.

    Raises
    ------
    ConfigError
        If the data can be read only once.
    """
    dataset = getattr(data, "dataset", None)
    if target is not None and dataset is not None:
        labels = read_labels(dataset, target)
    elif target is not None and isinstance(data, (list, tuple)):
        labels = np.concatenate([batch[target] for batch in data])
    else:
        raise ConfigError(
            f"partial_fit must know all classes beforehand, which cannot be found in a {type(data).__name__}; name "
            "them: SklearnEstimator(estimator, classes=[…])"
        )
    labels = np.asarray(labels).reshape(len(labels), -1)
    if labels.shape[1] == 1:
        return np.unique(labels)
    return [np.unique(column) for column in labels.T]


def find_columns(target: str, data: object) -> list[Any] | None:
    """All labels of the data set that the training data are a part of, so that every fold has the same columns.

    Parameters
    ----------
    target
        Entry that is learned.
    data
        The training data.

    Returns
    -------
    list or None
        The sorted labels; ``None`` if the data are no part of a set, or a sample has several labels.
    """
    dataset = getattr(data, "dataset", None)
    if type(dataset) is not Subset or target in given_labels(dataset):
        return None
    try:
        labels = np.asarray(read_labels(dataset.parent, target))
    except Exception as error:  # whatever reading a sample raises; the batches may have other labels than the samples
        warnings.warn(
            f"the classes of the whole data set cannot be found ({error!r}), so the columns of 'pred' may differ "
            "between folds; name them: SklearnEstimator(estimator, classes=[…])",
            stacklevel=2,
        )
        return None
    is_single = labels.size == len(labels) and labels.dtype != object
    return np.unique(labels).tolist() if is_single else None


_LONGEST = 80


def name_of(estimator: object) -> str:
    """The class of an estimator, or of each step of a pipeline, and the plain parameters that are no defaults.

    Parameters
    ----------
    estimator
        The estimator.

    Returns
    -------
    str
        A name for a folder, e.g. ``"StandardScaler+SVC-kernel=linear"``, of at most 80 characters.
    """
    steps = [step for _, step in getattr(estimator, "steps", ()) if hasattr(step, "get_params")] or [estimator]
    name = "+".join("-".join([type(step).__name__, *_changed(step)]) for step in steps)
    return re.sub(r"[^\w.,+=-]", "_", name)[:_LONGEST].rstrip(".")


def _changed(step: Any) -> list[str]:
    defaults = inspect.signature(type(step)).parameters
    return [
        f"{name}={value}"
        for name, value in sorted(step.get_params(deep=False).items())
        if name not in SILENT
        and isinstance(value, (str, int, float, tuple))
        and name in defaults
        and repr(value) != repr(defaults[name].default)
    ]
