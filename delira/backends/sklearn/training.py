"""Trainer and experiment of scikit-learn: the common ones, bound to this backend."""

import dataclasses
import functools
import logging
from collections.abc import Callable
from typing import Any, Self

from delira.backends.sklearn.backend import BACKEND
from delira.backends.sklearn.checkpoints import check_writable
from delira.backends.sklearn.labels import find_classes, find_columns
from delira.backends.sklearn.naming import name_of
from delira.backends.sklearn.network import SklearnEstimator, as_network
from delira.callbacks import ProgressBar
from delira.contract.kinds import ByName, Network
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

    def _resolve(self, params: Any, kwargs: Any, seed: int | None = None) -> RunRequest:
        given = {} if params is None else as_parameters(params).training_settings()
        stated = [self.params.training_settings(), given, self.settings, kwargs, {"n_epochs": self.n_epochs}]
        has_epochs = any(each.get(name) is not None for each in stated for name in ("num_epochs", "n_epochs"))
        request = super()._resolve(params, kwargs if has_epochs else {**kwargs, "num_epochs": 1}, seed)
        fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
        return _Request(**fields, has_epochs=has_epochs)

    def _build_network(self, request: RunRequest) -> Any:
        network = as_network(super()._build_network(request))
        is_open = isinstance(network, SklearnEstimator) and network.partial_fit is None
        if is_open and not getattr(request, "has_epochs", True):
            network.partial_fit = False
        return network


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Request(RunRequest):
    has_epochs: bool
    """Whether a number of epochs was set; if not, an estimator is fitted once, though it may have ``partial_fit``."""

    def fingerprint(self, data: object) -> dict[str, Any]:
        """A run does not continue one that learned in the other way."""
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
