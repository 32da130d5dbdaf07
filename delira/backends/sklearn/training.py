"""Trainer and experiment of scikit-learn: the common ones, bound to this room."""

import logging
from typing import Any, Self

import numpy as np

from delira.backends.sklearn.backend import BACKEND, check_writable
from delira.backends.sklearn.network import SklearnEstimator, is_estimator
from delira.data_loading.dataset import read_labels
from delira.errors import ConfigError
from delira.metrics import MetricSet
from delira.training.base_experiment import BaseExperiment
from delira.training.base_trainer import BaseNetworkTrainer
from delira.training.config import TrainerConfig

_log = logging.getLogger("delira")


class SklearnNetworkTrainer(BaseNetworkTrainer):
    """Trains a :class:`SklearnEstimator`; the arguments are those of :class:`BaseNetworkTrainer`.

    A scikit-learn estimator that is passed as it is gets wrapped. An estimator without ``partial_fit`` is fitted at
    the end of the first epoch; the training stops then, since further epochs would bring nothing.
    """

    backend = BACKEND

    def _setup(self, network: Any) -> None:
        if is_estimator(network) and not hasattr(network, "closure"):
            network = SklearnEstimator(network)
        if isinstance(network, SklearnEstimator):
            _refuse(self.config, network)
            network.set_random_states(self.seed, self.fold)
            check_writable(network)
        super()._setup(network)
        for fit in self.optimizers.values():
            metrics = self.config.metrics
            entries = MetricSet(metrics, self.config.keys_of(metrics)).entries
            fit.kept = frozenset({*entries, *(key.split(".", 1)[0] for key in entries)})
            fit.after = self._after_fit

    def _at_training_begin(self, *args: Any, **facts: Any) -> None:
        if self.module.needs_classes and self.module.classes is None:
            self.module.found_classes = _find_classes(self.module.target, self.train_data)
        super()._at_training_begin(*args, **facts)

    def _after_fit(self, batches: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        """The metrics over the epoch, which had to wait for the fit."""
        if self._running is not None and self._running.over_epoch is not None:
            for batch, inputs in batches:
                predictions = self.to_numpy(self.backend.forward(self.module, inputs))
                self._running.over_epoch.update({**predictions, **batch})

    def _at_epoch_end(self, *args: Any, **facts: Any) -> None:
        if any(fit.is_done for fit in self.optimizers.values()):
            self.stop_training = True
            if facts["num_epochs"] > self.state.epoch:
                _log.warning(
                    "%s is fitted after epoch %d; further epochs would bring nothing, so the training ends",
                    type(self.module.estimator).__name__, self.state.epoch,
                )  # fmt: skip
        super()._at_epoch_end(*args, **facts)


class SklearnExperiment(BaseExperiment):
    """Runs experiments with scikit-learn estimators; the arguments are those of :class:`BaseExperiment`.

    ``model_cls`` is :class:`SklearnEstimator` or any estimator class, whose arguments the model parameters are then.
    The number of epochs is 1 unless it is set.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> experiment = SklearnExperiment.of(RandomForestClassifier(), save_path="runs")  # doctest: +SKIP
    >>> experiment.kfold(data, {"accuracy": delira.metrics.accuracy}, num_splits=5)  # doctest: +SKIP
    """

    trainer_cls = SklearnNetworkTrainer

    @classmethod
    def of(cls, estimator: Any, name: str | None = None, save_path: Any = None, **settings: Any) -> Self:
        """An experiment with an estimator as it would be used without delira.

        Parameters
        ----------
        estimator
            An estimator or a :class:`SklearnEstimator`; every run gets an unfitted copy.
        name
            Name of the experiment; the estimator's class if ``None``.
        save_path
            Parent folder of the runs; the working directory if ``None``.
        **settings
            Settings of the experiment and the trainer.
        """
        network = estimator if isinstance(estimator, SklearnEstimator) else SklearnEstimator(estimator)
        own = network.init_kwargs if network is estimator else {"estimator": network.init_kwargs["estimator"]}
        name = name or type(network.estimator).__name__
        return cls({"model": dict(own)}, SklearnEstimator, name=name, save_path=save_path, **settings)

    def _check(self) -> None:
        stated = {**self.params.training_settings(), **self.settings}
        if self.n_epochs is None and stated.get("num_epochs") is None and stated.get("n_epochs") is None:
            self.n_epochs = 1
        super()._check()


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


def _find_classes(target: str | None, data: Any) -> Any:
    """All classes of the training data; an estimator that is told of more may divide by their number of samples."""
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
