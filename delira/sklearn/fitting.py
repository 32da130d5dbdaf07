"""The training behind an estimator: the experiment of the backend, the network it gives, and how both are kept."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.callbacks.monitor import EarlyStopping
from delira.contract import DEFAULT_LOSS_KEYS
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, check_known
from delira.experiments import run_request
from delira.experiments.experiment import BaseExperiment
from delira.experiments.run_request import RunRequest
from delira.metrics.tree import criteria
from delira.metrics.tree.criteria import Criterion
from delira.settings.config import SETTINGS, TrainerConfig, read_settings
from delira.sklearn.networks import Plan, Task
from delira.training import checkpoints
from delira.training.predictor import Predictor
from delira.training.trainer import BaseNetworkTrainer

#: settings of the trainer that are arguments of an estimator, under another name
OWN = {
    **{name: name for name in ("losses", "optimizer_cls", "optimizer_params", "num_epochs", "batch_size", "verbose")},
    "n_epochs": "num_epochs",
    "seed": "random_state",
    "save_path": "save_path",
}
#: names of an experiment that are no settings of the trainer
_OF_RUNS = ("callbacks", "key_mapping")
#: settings that say nothing without validation data
_OF_SCORES = ("val_score_key", "val_score_mode")
#: the default learning rate of the default optimizer
RATE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How an estimator trains, as its arguments say it."""

    losses: Mapping[str, Any] | None
    """By name; those of the backend for the task if None."""
    optimizer_cls: Any
    """Adam if None."""
    optimizer_params: Mapping[str, Any] | None
    """Keywords of it."""
    batch_size: int
    """Samples in a batch, of training and of prediction."""
    verbose: int
    """As of the trainer."""
    patience: int | None
    """Epochs without improvement after which a training ends; None: it does not."""
    training: Mapping[str, Any]
    """Other settings of the trainer."""

    def __post_init__(self) -> None:
        for name in ("losses", "optimizer_params", "training"):
            if not isinstance(given := getattr(self, name), Mapping | None):
                raise ConfigError(f"{name} must be a dict with names as keys, got {given!r}")
        if taken := [name for name in self.training if name in OWN]:
            raise ConfigError(
                f"training names {taken[0]!r}, which is an argument of the estimator: say {OWN[taken[0]]} there"
            )
        check_known(self.training, (*SETTINGS, *_OF_RUNS), "training takes no")

    def keywords(self, plan: Plan, task: Task, seed: int, *, is_watched: bool) -> dict[str, Any]:
        """Keywords of an experiment.

        Parameters
        ----------
        plan, task
            What is trained for what.
        seed
            The seed of everything.
        is_watched
            Whether there are validation data.
        """
        keywords = {"logging_type": None, "save_freq": None, "verbose": self.verbose, "seed": seed, **self.training}
        if plan.backend.is_differentiable:
            keywords |= self._learning(plan, task)
        elif given := [n for n in ("losses", "optimizer_cls", "optimizer_params") if getattr(self, n)]:
            raise ConfigError(
                f"{given[0]}: an estimator of scikit-learn brings its own loss and optimizer; leave it out"
            )
        if is_watched:
            return {**keywords, **self._watched(keywords)}
        return {name: value for name, value in keywords.items() if name not in _OF_SCORES}

    def _learning(self, plan: Plan, task: Task) -> dict[str, Any]:
        """Losses and optimizer, those of the backend where nobody names any."""
        defaults = plan.backend.defaults
        losses, optimizer_cls, params = self.losses, self.optimizer_cls, dict(self.optimizer_params or {})
        if defaults is None:
            wanted = {"losses": losses, "optimizer_cls": optimizer_cls or self.training.get("optim_fn")}
            if missing := [name for name, value in wanted.items() if not value]:
                raise ConfigError(f"the backend {plan.backend.name!r} has no default for {missing[0]}; name one")
        else:
            losses = losses or {"loss": defaults.losses[task.kind]()}
            if optimizer_cls is None and "optim_fn" not in self.training:
                optimizer_cls, params = defaults.optimizer_cls, {defaults.rate: RATE, **params}
        return {"losses": dict(losses or {}), "optimizer_cls": optimizer_cls, "optimizer_params": params}

    def _watched(self, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The score of the validation that decides, and what stops the training by it."""
        losses = [*keywords.get("losses", ())]
        key = keywords.get("val_score_key") or (losses[0] if len(losses) == 1 else None)
        if key is None:
            raise ConfigError(
                f"val_split needs one score that says which epoch is the best, and there are {losses or 'no losses'}; "
                "name it: training={'val_score_key': …}"
            )
        watched: dict[str, Any] = {"val_score_key": key}
        if self.patience is not None:
            mode = keywords.get("val_score_mode", "auto")
            stop = EarlyStopping(f"val_{key.removeprefix('val_')}", patience=self.patience, mode=mode)
            watched["callbacks"] = [*(keywords.get("callbacks") or ()), stop]
        return watched


class Samples(NamedTuple):
    """What is learned from."""

    x: np.ndarray
    """Inputs of shape (n, ...)."""
    y: np.ndarray
    """Numbers of classes, of shape (n,), or values of shape (n,) or (n, k)."""


class Fit:
    """A network of an estimator, and the training that it has behind it.

    Pickled it is bytes of delira's own checkpoints, and plain values: networks of frameworks do not all go into a
    pickle. An estimator of scikit-learn does, and is one part of it.

    Parameters
    ----------
    plan
        The network that is trained.
    task
        What the data ask of it.
    settings
        How it is trained.
    seed
        The seed of everything.
    """

    def __init__(self, plan: Plan, task: Task, settings: Settings, seed: int):
        self.plan, self.task, self.settings, self.seed = plan, task, settings, seed
        #: the trained network, in evaluation mode
        self.network: Any = None
        #: one record for each finished epoch
        self.history: list[dict[str, float]] = []
        #: name of the output that is the prediction, and the shape of a sample of it; None until it was looked at
        self.output: tuple[str, tuple[int, ...]] | None = None
        self._trainer: BaseNetworkTrainer | None = None
        self._files: dict[str, bytes] = {}

    # ------------------------------------------------------------------ learning

    def train(
        self, samples: Samples, validation: Samples | None, num_epochs: int, save_path: Path | str | None = None
    ) -> None:
        """Train a new network.

        Parameters
        ----------
        samples, validation
            What it learns from, and what chooses the best epoch; None: the last one is kept.
        num_epochs
            How often all samples are seen.
        save_path
            Folder that the run is written to; None: no file is left.
        """
        is_watched = validation is not None
        learned, watched = self._manager(samples), None if validation is None else self._manager(validation)
        keywords = self.settings.keywords(self.plan, self.task, self.seed, is_watched=is_watched)
        with self._folder(save_path) as folder:
            experiment = self._experiment(folder, keywords)
            if save_path is None:
                request = self._request(experiment, num_epochs)
                trainer = experiment.build_trainer(request, Path(folder, "run") if is_watched else None)
                self.network = trainer.train(num_epochs, learned, watched)
            else:
                self.network = experiment.run(learned, watched, num_epochs=num_epochs)
                trainer = experiment.last_trainer  # type: ignore[assignment]
            self.history = _records(trainer, 0)
            if is_watched or save_path is not None:  # the files of the trainer are not there for ever
                self._files = self._written(trainer)
            elif self.plan.backend.is_differentiable:
                self._trainer = trainer

    def go_on(self, samples: Samples, num_epochs: int = 1) -> None:
        """Train the network on, from the weights, the optimizer and the epoch that it is at, without files."""
        manager = self._manager(samples)
        if self._trainer is None:
            keywords = self.settings.keywords(self.plan, self.task, self.seed, is_watched=False)
            with self._folder() as folder:
                self._trainer = self._continued(self._experiment(folder, keywords), samples.x[:2])
        trainer, epoch = self._trainer, self._trainer.state.epoch
        trainer.stop_training = False  # early stopping has ended another training
        self.network = trainer.train(epoch + num_epochs, manager)
        self.history = [*self.history, *_records(trainer, epoch)]
        self._files = {}

    def _continued(self, experiment: BaseExperiment[Any], few: np.ndarray) -> BaseNetworkTrainer:
        """A trainer of the network as it is; a few inputs give layers their weights that wait for the first batch."""
        request = self._request(experiment, 1)
        trainer: BaseNetworkTrainer
        if self.network is not None and not self.plan.backend.is_differentiable:
            self.network.partial_fit = True
            trainer = experiment.trainer_cls(self.network, None, request.key_mapping, **request.settings)
            return trainer
        trainer = experiment.build_trainer(request, None)
        if self._files:
            trainer.predict({"data": few})
            with self._unpacked() as path:
                trainer.update_state(path)
            trainer.state.callbacks.clear()  # those that are here have read theirs; early stopping is not
        return trainer

    def _manager(self, samples: Samples) -> BaseDataManager:
        return BaseDataManager({"data": samples.x, "label": self._shaped(*samples)}, self.settings.batch_size)

    def _experiment(self, folder: Path | str, keywords: Mapping[str, Any]) -> BaseExperiment[Any]:
        name = {"classification": "Classifier", "regression": "Regressor"}[self.task.kind]
        return self.plan.experiment(name=name, save_path=folder, **keywords)

    @staticmethod
    def _request(experiment: BaseExperiment[Any], num_epochs: int) -> RunRequest:
        asked = {"num_epochs": num_epochs, "key_mapping": experiment.key_mapping}
        return run_request.resolve((experiment.params, None), experiment.settings, asked)

    @staticmethod
    @contextlib.contextmanager
    def _folder(save_path: Path | str | None = None) -> Iterator[Path | str]:
        """The folder of a run; a temporary one if nobody wants it."""
        if save_path is not None:
            yield save_path
            return
        with tempfile.TemporaryDirectory(prefix="delira-sklearn-") as folder:
            yield folder

    # ------------------------------------------------------------------ targets as the network's outputs are

    def _shaped(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Targets in the shape that losses compare with what the network says."""
        if not self.plan.backend.is_differentiable:
            return y
        self.output = self.output or self._look(x)
        (name, shape), task = self.output, self.task
        is_one_of_several = task.kind == "classification" and not task.is_yes_or_no
        shapes = [(task.n_columns,)] if is_one_of_several or task.n_columns > 1 else [(), (1,)]
        if shape not in shapes:
            raise DataError(
                f"{self.plan.network_cls.__name__} says {name!r} of the shape {_of_n(shape)}, and y asks for "
                f"{task.n_columns} {'scores' if task.kind == 'classification' else 'values'} for each sample: "
                f"{' or '.join(map(_of_n, shapes))}"
            )
        return y if is_one_of_several else y.astype(np.float32).reshape(len(y), *shape)

    def _look(self, x: np.ndarray) -> tuple[str, tuple[int, ...]]:
        """Let a network that is thrown away say what its outputs are."""
        said = Predictor(self.plan.build(self.seed), self.settings.training.get("key_mapping")).predict({"data": x[:2]})
        name = next(iter(said)) if len(said) == 1 else DEFAULT_LOSS_KEYS[0]
        if name not in said:
            raise DataError(
                f"{self.plan.network_cls.__name__} says {[*said]}, and an estimator predicts one of these that is "
                f"called {name!r}; name it so"
            )
        return name, np.shape(said[name])[1:]

    # ------------------------------------------------------------------ predicting

    @property
    def _name(self) -> str:
        return DEFAULT_LOSS_KEYS[0] if self.output is None else self.output[0]

    @property
    def config(self) -> TrainerConfig:
        """The settings of the trainer."""
        keywords = self.settings.keywords(self.plan, self.task, self.seed, is_watched=False)
        return read_settings({name: value for name, value in keywords.items() if name not in _OF_RUNS})

    @property
    def known(self) -> Criterion:
        """What losses, settings and, of scikit-learn, the estimator say of the predictions."""
        known = self.config.known_output(self._name, self.plan.backend)
        kind = getattr(self.network, "output_kind", None)
        return criteria.with_output(known, kind, "backend") if kind in ("probabilities", "numbers") else known

    def predict(self, x: np.ndarray) -> np.ndarray:
        """What the network says of inputs of shape (n, ...): an array of shape (n,) or (n, k)."""
        config = self.config
        mapping = self.settings.training.get("key_mapping")
        predictor = Predictor(self.network, mapping, config.convert_batch_to_npy_fn, backend=self.plan.backend)
        predictor.inference = config.inference
        done = predictor.evaluate(BaseDataManager({"data": x}, self.settings.batch_size))
        return np.asarray(done.predictions[self._name])

    def labels(self, x: np.ndarray) -> np.ndarray:
        """Numbers of classes, of shape (n,): those with the largest score."""
        scores = self.predict(x)
        if self.task.is_yes_or_no:
            return np.asarray(scores.reshape(len(scores)) > criteria.threshold_of(self.known), dtype=np.int64)
        return np.asarray(scores.argmax(axis=1))

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Probabilities of classes, float64 of shape (n, n_classes)."""
        scores, output = self.predict(x), self.known.output
        if not self.task.is_yes_or_no:
            return criteria.probabilities(scores, output)
        yes = criteria.probabilities(scores.reshape(len(scores)), output)
        return np.stack([1 - yes, yes], axis=1)

    # ------------------------------------------------------------------ kept

    def __getstate__(self) -> dict[str, Any]:
        """Plain values, and the network as the bytes of a checkpoint."""
        state = {**vars(self), "_trainer": None}
        if self.plan.backend.is_differentiable:
            state["network"] = None
            state["_files"] = self._files or self._written(self._trainer)
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Build the network, and give it its weights."""
        vars(self).update(state)
        if self.network is None and self._files:
            backend = self.plan.backend
            self.network = self.plan.build(self.seed)
            with self._unpacked() as path, backend.calls.evaluating(self.network):
                tree = checkpoints.read(path, backend)
                backend.checkpoints.load_state_tree({"model": tree["model"]}, self.network, {})
            backend.calls.set_evaluating(self.network)

    @staticmethod
    def _written(trainer: BaseNetworkTrainer | None) -> dict[str, bytes]:
        """The files of a checkpoint by their names."""
        if trainer is None or not trainer.backend.is_differentiable:
            return {}
        with tempfile.TemporaryDirectory(prefix="delira-sklearn-") as folder:
            first = trainer.save_state(Path(folder, "network"))
            others = sorted(path for path in Path(folder).iterdir() if path != first)
            return {path.name: path.read_bytes() for path in (first, *others)}

    @contextlib.contextmanager
    def _unpacked(self) -> Iterator[Path]:
        """The checkpoint as a file, for as long as the scope lasts."""
        with tempfile.TemporaryDirectory(prefix="delira-sklearn-") as folder:
            for name, content in self._files.items():
                Path(folder, name).write_bytes(content)
            yield Path(folder, next(iter(self._files)))


def _records(trainer: BaseNetworkTrainer, start: int) -> list[dict[str, float]]:
    """The epochs of a trainer from one on."""
    return [dict(record) for record in trainer.state.history[start:]]


def _of_n(shape: tuple[int, ...]) -> str:
    """The shape of n samples, as it is written."""
    return f"(n{''.join(f', {length}' for length in shape)})" if shape else "(n,)"
