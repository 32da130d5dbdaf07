"""An experiment: parameters, a network class, and independent runs with them."""

import contextlib
import copy
import dataclasses
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, Unpack

from delira.contract import Backend
from delira.contract.kinds import Data, Network
from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, expect, flag, noting
from delira.experiments import (
    experiment_file,
    keywords,
    kfold_call,
    learning_curve,
    mirroring,
    nested,
    run_request,
    search_call,
    tested,
    variable,
)
from delira.experiments.kept_hashes import keep_of_run
from delira.experiments.parameters import Parameters
from delira.experiments.preprocessing import Preprocessing, as_preprocessing, check_manager
from delira.experiments.result import KFoldResult
from delira.experiments.run_request import RunRequest
from delira.experiments.selection import tell_numbers
from delira.runs.folder import At, RunFolder, locate_fold
from delira.runs.stored_run import read_run
from delira.settings.config import canonical
from delira.training import checks
from delira.training.epoch import with_names
from delira.training.launched import follows, led, on_cpu
from delira.training.predictor import Predictor
from delira.training.run import own_generators, seed_generators, threads_if_possible
from delira.training.trainer import BaseNetworkTrainer
from delira.utils import files, yaml_codec
from delira.utils.frameworks import find_backend

if TYPE_CHECKING:
    from delira.execution import Executor, Mirror, Resources
    from delira.experiments import search_result
    from delira.experiments.search_result import SearchResult
    from delira.search import Tune


#: the class of networks that an experiment trains
NetworkT = TypeVar("NetworkT")


class BaseExperiment(Generic[NetworkT]):
    """Trains fresh networks of one class: once, or once for each fold.

    Parameters
    ----------
    params
        The parameters, or a path to a file written by ``Parameters.save``. Their model part goes to
        ``model_cls``, their training part are settings of the trainer, and ``num_epochs``.
    model_cls
        The network class.
    n_epochs
        Epochs in total, if the parameters do not say.
    name
        Name of the experiment; its runs lie in ``<save_path>/<name>``.
    save_path
        Parent folder; the working directory if ``None``.
    key_mapping
        Argument of the network -> batch entry, e.g. ``{"x": "data"}``; ``None`` asks the backend.
    trainer_cls, predictor_cls
        Replace the backend's.
    config
        Another name of ``params``.
    **settings
        Settings of the trainer that hold for every run; they go before those of the parameters.
        ``print(delira.training.settings_help())`` explains each.

    Raises
    ------
    ConfigError
        Naming unknown or impossible settings, and arguments that ``model_cls`` does not take.
    """

    trainer_cls: type[BaseNetworkTrainer]
    predictor_cls: type[Predictor] = Predictor
    #: whether a class that is no network of delira becomes one, as estimators of scikit-learn do
    wraps_models: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        params: Parameters | Mapping[str, Any] | str | Path | None = None,
        model_cls: type[NetworkT] | None = None,
        n_epochs: int | None = None,
        name: str | None = None,
        save_path: str | Path | None = None,
        key_mapping: Mapping[str, str] | None = None,
        trainer_cls: type[BaseNetworkTrainer] | None = None,
        predictor_cls: type[Predictor] | None = None,
        *,
        config: Any = None,
        **settings: Unpack[keywords.ExperimentKeywords],
    ):
        if None not in (params, config):
            raise ConfigError("'params' and 'config' mean the same; give only one of them")
        self.params = run_request.as_parameters(config if params is None else params)
        self.model_cls: Any = model_cls
        self.n_epochs = n_epochs
        self.name = "UnnamedExperiment" if name is None or name == "" else run_request.check_name(name)
        self.parent = Path() if save_path is None or save_path == "" else files.as_path(save_path)
        self.save_path = self.parent / self.name
        self.key_mapping = key_mapping
        if trainer_cls is not None:
            self.trainer_cls = trainer_cls
        if predictor_cls is not None:
            self.predictor_cls = predictor_cls
        self.settings = settings
        #: the trainer of the last ``run``, with its state and callbacks
        self.last_trainer: BaseNetworkTrainer | None = None
        self._check()

    @property
    def backend(self) -> Backend:
        """The verbs of the framework: those of the trainer, or what the network is of if that does not say."""
        own: Backend | None = getattr(self.trainer_cls, "backend", None)
        return find_backend(self.model_cls) if own is None else own

    def _check(self) -> None:
        """Refuse what cannot work, before any run."""
        variable.refuse_fixed([("the settings of the experiment", self.settings)])
        for told, params in self.params.examples():
            with noting(f"with {told}") if told else contextlib.nullcontext():
                self._check_parameters(params)
        run_request.check_class("trainer_cls", self.trainer_cls, BaseNetworkTrainer)
        run_request.check_class("predictor_cls", self.predictor_cls, Predictor)
        run_request.check_model_class(self.model_cls, self.backend.network_class, self.wraps_models)
        files.writable_folder(self.save_path)

    def _check_parameters(self, params: Mapping[str, Any]) -> None:
        run_request.check_settings(run_request.merged(params["training"], self.settings), self.n_epochs)
        run_request.check_model_arguments(self.model_cls, params["model"])

    def resolve(self, params: Any, kwargs: Mapping[str, Any], seed: int | None = None) -> RunRequest:
        """Return what a call asks for; nothing of the experiment changes."""
        given = None if params is None else run_request.as_parameters(params)
        if isinstance(self.model_cls, yaml_codec.Unresolved):
            self.model_cls()  # says what it is and where it could be found
        request = run_request.resolve((self.params, given), self.settings, kwargs, num_epochs=self.n_epochs, seed=seed)
        run_request.check_model_arguments(self.model_cls, request.model_kwargs)
        request = run_request.in_processes(request, self.backend)
        return request if request.key_mapping else dataclasses.replace(request, key_mapping=self.key_mapping)

    # ------------------------------------------------------------------ runs

    @led(tell=on_cpu)
    def run(  # noqa: PLR0913 - what is trained on what, and where it goes on
        self,
        train_data: Any,
        val_data: Any = None,
        params: Parameters | Mapping[str, Any] | None = None,
        *,
        preprocessing: Preprocessing | Mapping[str, Any] | None = None,
        resume: str | Path | None = None,
        allow_changes: bool = False,
        data_keys: Sequence[str] | None = None,
        mirror: "Mirror | str | os.PathLike[str] | None" = None,
        **kwargs: Unpack[keywords.RunKeywords],
    ) -> NetworkT:
        """Train one network.

        Parameters
        ----------
        train_data, val_data
            Data managers, or other iterables of batches.
        params
            Replace entries of the experiment's parameters for this run.
        preprocessing
            Transformers of scikit-learn by entry of the batch, e.g. ``{"data": StandardScaler()}``: fitted on the
            training data alone, and applied before ``transforms`` to training, validation and, by :meth:`test` and
            predictors, to all data that the network is given; see :class:`~delira.training.Preprocessing`.
        resume
            ``None``: a new run folder. A path: continue what lies there; of a checkpoint file, exactly from it.
            ``"auto"``: continue the newest unfinished run with the same network, parameters and data that no other
            process is at work on; else read the network of the newest that has finished; else begin a new one.
        allow_changes
            Continue though network, parameters or data differ, with a warning that says what. Never allowed for
            ``optimizer_cls``; learning rates and schedules stay those of the checkpoint.
        data_keys
            Names of the parts of batches that are tuples, as a ``DataLoader`` of PyTorch and a ``tf.data.Dataset`` give
            them, e.g. ``("data", "label")``.
        mirror
            A URL, e.g. ``"s3://bucket/folder"``, that the files of the run are copied to while it runs, and where
            ``resume`` looks for what is not here; or a :class:`delira.execution.Mirror`.
        **kwargs
            Settings of the trainer for this run; also ``num_epochs``, ``fold``, ``callbacks``.

        Returns
        -------
        AbstractNetwork
            In evaluation mode; with the best weights if a validation score was watched, else with the last.
        """
        request = dataclasses.replace(self.resolve(params, kwargs), preprocessing=as_preprocessing(preprocessing))
        expect(flag("allow_changes", allow_changes))
        train_data, val_data = with_names(data_keys, train_data, val_data)
        checks.check_data(train_data, "training")
        if val_data is not None:
            checks.check_data(val_data, "validation")
        if request.preprocessing is not None:
            check_manager(train_data, "training")
            check_manager(val_data, "validation")
        fold = checkpoint = None
        if resume is not None and resume != "auto" and not isinstance(resume, At):
            fold, checkpoint = locate_fold(mirroring.located(mirror, self.save_path, self.name, resume))
            resume = fold.parent
        with self.open_folder(
            request,
            train_data,
            resume,
            kind="run",
            allow_changes=allow_changes,
            mirror=mirror,
            called=[getattr(val_data, "transforms", None)],
            validation=run_request.describe_validation(val_data),
            seen_cases=True,
        ) as folder:
            experiment_file.write_run(self, request, folder.path, data_keys)
            trainer = self.last_trainer = self.build_trainer(request, fold or folder.fold(request.fold), checkpoint)
            if fold is not None and trainer.state.is_new and trainer.checkpoints.has_damaged():
                raise CheckpointError(  # what a user asked to continue never begins anew
                    f"no valid checkpoint is left in {str(trainer.checkpoints.folder)!r}: all were damaged and set "
                    "aside (….damaged); begin a new run, or bring a copy of one back"
                )
            # transforms that keep a state begin anew
            given = (train_data, val_data)
            train, val = (one.with_own_transforms() if isinstance(one, BaseDataManager) else one for one in given)
            if request.preprocessing is not None:
                fitted = request.preprocessing.of_fold(trainer, train)
                train, val = (None if data is None else data.with_preprocessing(fitted) for data in (train, val))
            keep_of_run(folder.path, trainer, (train_data, val_data), allow_changes)
            network = trainer.train(request.num_epochs, train, val)
            tell_numbers(folder, trainer)
            return network

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Same as :meth:`run`."""
        return self.run(*args, **kwargs)

    @led(tell=on_cpu)
    def resume(
        self, save_path: str | Path, train_data: Any, val_data: Any = None, **kwargs: Unpack[keywords.ResumeKeywords]
    ) -> NetworkT:
        """Continue the run in ``save_path`` as :meth:`run` does: its folder, a fold's, or a checkpoint file.

        Of the folder of an experiment the newest run is continued.
        """
        path = files.as_path(save_path)
        if path.is_dir() and not (path / "checkpoints").is_dir() and not any(path.glob("fold_*")):
            save_path = read_run(path).path
        return self.run(train_data, val_data, resume=save_path, **kwargs)

    @led()
    def test(
        self,
        network: Network,
        test_data: Any,
        metrics: Mapping[str, Any] | None = None,
        metric_keys: Mapping[str, Any] | None = None,
        verbose: bool = False,
        data_keys: Sequence[str] | None = None,
        **kwargs: Unpack[keywords.PredictionKeywords],
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Predict a data set with a trained network.

        Parameters
        ----------
        network
            The trained network.
        test_data
            A data manager or another iterable of batches.
        metrics, metric_keys
            Metrics by name and the entries they read; those of the validation if ``None``.
        verbose
            Show a progress bar.
        data_keys
            As for :meth:`run`.
        **kwargs
            ``prepare_batch``, ``convert_fn``, ``key_mapping``: replace the network's and the backend's.

        Returns
        -------
        tuple
            ``(predictions, metrics)``: arrays of shape ``(n, ...)`` by name, and arrays of shape ``(1,)``,
            or ``(n,)`` for metrics of single samples.
        """
        return tested.test_network(self, locals())

    @led()
    def kfold(  # noqa: PLR0913 - the historic signature
        self,
        data: Data | Callable[[], Data],
        metrics: Mapping[str, Any] | None = None,
        num_epochs: int | None = None,
        num_splits: int | None = None,
        *,
        train_kwargs: Mapping[str, Any] | None = None,
        test_kwargs: Mapping[str, Any] | None = None,
        metric_keys: Mapping[str, Any] | None = None,
        params: Parameters | Mapping[str, Any] | None = None,
        preprocessing: Preprocessing | Mapping[str, Any] | None = None,
        folds: Iterable[int] | None = None,
        keep_predictions: Literal["labels", "probabilities", "logits"] | bool | None = None,
        predictions_dtype: Literal["float16", "float32"] | None = None,
        executor: "Executor | Literal['here', 'processes', 'ray', 'slurm'] | None" = None,
        n_jobs: int | None = None,
        resources: "Resources | Mapping[str, Any] | None" = None,
        takeover_after: float = 60.0,
        mirror: "Mirror | str | os.PathLike[str] | None" = None,
        resume: str | Path | None = None,
        allow_changes: bool = False,
        tune: "Tune | Mapping[str, Any] | None" = None,
        **options: Unpack[keywords.KFoldKeywords],
    ) -> KFoldResult:
        """Cross-validate: train one fresh network for each fold and test it on what it never saw.

        Parameters
        ----------
        data
            A data manager, or a function that gives one, which ``delira work`` can call, too. It is divided by the
            samples of its dataset; if these are patches, by their cases, which are validated and tested on as a whole.
        metrics, metric_keys
            Test metrics by name and the entries they read; those of the validation if ``None``.
        num_epochs
            Epochs of each fold; those of the experiment if ``None``.
        num_splits
            Number of folds; 10, with a warning, if ``None``.
        train_kwargs, test_kwargs
            Changes of the manager for training, and for validation and testing: ``{"transforms": augmentation}``.
        params
            Replace entries of the experiment's parameters.
        preprocessing
            As for :meth:`run`: cloned for each fold, and fitted on its training part alone, neither on the inner
            validation nor on the test part.
        folds
            Numbers of the folds to run, from 0 as in the table and in the names of their folders; all if ``None``.
            Each is, bit for bit, what it is among all. A result that lacks some says so; ``resume`` runs the others.
        keep_predictions
            What is kept of the predictions, and with it on disk: ``"labels"``, ``"probabilities"``, ``"logits"``, as
            the network says them if ``None``, or nothing, nor targets, if ``False``. Metrics are computed of what it
            says in any case, but never again: one that is no mean over cases has then no value over all folds.
        predictions_dtype
            Type of their numbers on disk; as the network gives them if ``None``.
        executor
            Where the folds run, which changes no bit of them: ``"here"``, ``"processes"``, ``"ray"``, ``"slurm"``, or a
            :class:`delira.execution.Executor`. ``None``: processes if ``n_jobs`` is more than 1, else here.
        n_jobs
            Folds that run at once; -1: one for each core. These are shared out: unless ``num_threads`` is set, each
            fold computes with ``cores // n_jobs`` threads, also when the run is continued in another way.
        resources
            What each fold needs, as :class:`delira.execution.Resources` or its fields: ``{"cpus": 2, "gpus": 0.5}``.
        takeover_after
            Seconds without a sign of life after which a fold that another machine works at is taken over.
        mirror
            As for :meth:`run`. It changes no bit.
        resume
            ``None``: a new run folder. A path: continue the cross-validation in that folder; finished folds are read,
            others are shared with whoever works at it. ``"auto"``: continue, or join, the newest unfinished one with
            the same network, parameters, data and splits; else read the newest finished one; else begin anew.
        allow_changes
            As for :meth:`run`; finished folds stay as they are. Never allowed for the splits, either.
        tune
            Search the variable parameters anew in each fold, in its training part alone (nested cross-validation): a
            :class:`delira.search.Tune`, or its fields.
        **options
            The fields of :class:`delira.experiments.splits.SplitConfig` (``split_type``, ``shuffle``, ``random_seed``,
            ``val_split``, ``label_key``, ``groups_key``, ``check_duplicates``) and settings of the trainer.

        Returns
        -------
        KFoldResult
            Unpacks as ``outputs, metrics``; prints as a table.
        """
        if isinstance(data, int):  # 0.3: (num_epochs, data, …)
            data, metrics, num_epochs = metrics, None, data  # type: ignore[assignment]
        return nested.validation_of(self, locals()).run(resume, allow_changes)

    @led()
    def learning_curve(
        self,
        data: Data | Callable[[], Data],
        sizes: Sequence[float] = learning_curve.SIZES,
        *,
        resume: str | Path | None = None,
        allow_changes: bool = False,
        **asked: Any,
    ) -> "learning_curve.LearningCurve":
        """Cross-validate with several numbers of training cases, each fold tested on the same cases at every size.

        Parameters
        ----------
        data
            As for :meth:`kfold`.
        sizes
            Numbers of cases that a fold learns from, validation included, or shares of its training part: ``(50, 100,
            200)`` or ``(0.1, 0.5, 1.0)``. Smaller parts lie within larger ones; classes keep their shares where folds
            are stratified, and groups are whole.
        resume, allow_changes
            As for :meth:`kfold`.
        **asked
            All other arguments of :meth:`kfold` but ``folds`` and ``tune``.

        Returns
        -------
        LearningCurve
            Its ``at(size)`` is a ``KFoldResult``; prints as a table.
        """
        made = learning_curve.validation_of(self, data, sizes, asked, allow_changes)
        return learning_curve.LearningCurve(made.run(resume, allow_changes))

    @led()
    def tune(  # noqa: PLR0913 - what is searched, as for kfold
        self,
        data: Data | Callable[[], Data],
        n_trials: int | None = None,
        metric: str | Sequence[str] | None = None,
        *,
        direction: str | Sequence[str] = "auto",
        num_splits: int | None = None,
        sampler: Any = "tpe",
        pruner: Any = None,
        constraints: Callable[..., Any] | None = None,
        keep_checkpoints: Literal["best", "all", "none"] = "best",
        log_to: "Callable[[search_result.Trial], logging.Handler] | None" = None,
        metrics: Mapping[str, Any] | None = None,
        num_epochs: int | None = None,
        train_kwargs: Mapping[str, Any] | None = None,
        test_kwargs: Mapping[str, Any] | None = None,
        metric_keys: Mapping[str, Any] | None = None,
        preprocessing: Preprocessing | Mapping[str, Any] | None = None,
        executor: "Executor | Literal['here', 'processes', 'ray', 'slurm'] | None" = None,
        n_jobs: int | None = None,
        resources: "Resources | Mapping[str, Any] | None" = None,
        parallel: Literal["trials", "folds"] = "trials",
        takeover_after: float = 60.0,
        mirror: "Mirror | str | os.PathLike[str] | None" = None,
        resume: str | Path | None = None,
        allow_changes: bool = False,
        **options: Unpack[keywords.KFoldKeywords],
    ) -> "SearchResult":
        """Search the best values of the variable parameters: each trial is trained and scored on the same parts.

        Parameters
        ----------
        n_trials, metric, direction, num_splits, sampler, pruner, constraints
            See :class:`delira.search.Tune`. ``metric=None``: the score that chooses the best epoch, or the only metric.
        keep_checkpoints
            Of which trials that have ended: those of hundreds would fill a disk; each runs again to the same weights.
        log_to
            Gives the run of a tracker for each trial as it ends, as ``SearchResult.log_to``; what fails is a warning.
        data, metrics, num_epochs, train_kwargs, test_kwargs, metric_keys, preprocessing
            As for :meth:`kfold`.
        executor, n_jobs, resources, takeover_after, mirror
            As for :meth:`kfold`, of trials: one after the other equal bit for bit; of several each can be run again.
        parallel
            What runs at once: ``"trials"``, or the ``"folds"`` of one trial after the other, with the bits of one job.
        resume, allow_changes
            As for :meth:`kfold`: trials that have ended are read, one that was broken off goes on under its number.
        **options
            As for :meth:`kfold`; also ``val_split``: without ``num_splits`` it is scored on this part of the data.

        Returns
        -------
        SearchResult
            Its ``params`` are the best :class:`~delira.training.Parameters`.
        """
        return search_call.search_of(self, locals()).run(resume, allow_changes)

    def setup(
        self, params: Parameters | Mapping[str, Any] | None = None, training: bool = True, **kwargs: Any
    ) -> BaseNetworkTrainer | Predictor:
        """Build a trainer with a fresh network, or a predictor of ``model=``."""
        if training:
            request = self.resolve(params, {"num_epochs": 0, **kwargs})
            folder = None if follows(self.backend) else RunFolder.create(self.save_path).fold(request.fold)
            return self.build_trainer(request, folder)
        if "model" not in kwargs:
            raise ConfigError("setup(training=False) builds a predictor; pass the network as model=")
        request = self.resolve(params, {"num_epochs": 0})
        predictor = self.predictor_cls(kwargs["model"], request.key_mapping, backend=self.backend)
        predictor.inference = request.config.inference
        return predictor

    # ------------------------------------------------------------------ parts of a run

    def build_trainer(
        self, request: RunRequest, folder: Path | None, checkpoint: Path | None = None
    ) -> BaseNetworkTrainer:
        """A trainer with a fresh network, initialised from (seed, fold), that goes on from what is in its folder."""
        backend = self.backend
        start: dict[str, Any] = {} if checkpoint is None else {"resume_from": checkpoint}
        if self.trainer_cls.__init__ is BaseNetworkTrainer.__init__:  # one of the user's may hand other settings on
            start["config"] = request.config
        with own_generators(backend), threads_if_possible(backend, request.config.num_threads):
            seed_generators(backend, request.seed, request.fold, stream="network")
            return self.trainer_cls(
                self._build_network(request), folder, request.key_mapping, fold=request.fold,
                callbacks=request.callbacks, start_epoch=request.start_epoch, **start, **canonical(request.settings),
            )  # fmt: skip

    def _build_network(self, request: RunRequest) -> Any:
        return self.model_cls(**copy.deepcopy(request.model_kwargs))

    def open_folder(
        self,
        request: RunRequest,
        data: Data,
        resume: str | Path | At | None,
        *,
        kind: str,
        allow_changes: bool = False,
        mirror: "Mirror | str | os.PathLike[str] | None" = None,
        called: Iterable[Any] = (),
        **facts: Any,
    ) -> AbstractContextManager[RunFolder]:
        """Scope of a run in a new folder, or in an old one that is continued; see ``RunFolder.opened``.

        Parameters
        ----------
        request, data
            What is run on what.
        resume, allow_changes
            As of :meth:`run`, but a path is that of a run folder.
        kind
            ``"run"`` or ``"kfold"``.
        mirror
            Where else its files go.
        called
            Functions whose code counts besides that of losses, metrics and transforms of the training.
        **facts
            For the manifest; ``splits`` is part of the fingerprint.
        """
        stated = run_request.stated_for(self, request, data, kind=kind, called=called, facts=facts)
        return mirroring.opened(mirror, self.save_path, request.params.save, stated, resume, allow_changes)

    # ------------------------------------------------------------------ on disk

    def save(
        self,
        path: str | Path | None = None,
        *,
        data: Callable[..., Any] | str | None = None,
        data_arguments: Mapping[str, Any] | None = None,
        kfold: Mapping[str, Any] | None = None,
        tune: Mapping[str, Any] | None = None,
        learning_curve: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the experiment as readable YAML, which ``delira train`` runs if it names its data; returns the file.

        Parameters
        ----------
        path
            The file; ``experiment.yml`` in the folder of the experiment if ``None``.
        data
            A function at the top of a module, or ``"module:function"``; it returns a manager, or two for a training.
        data_arguments
            What it is called with.
        kfold, tune, learning_curve
            Arguments of one of these methods; without them it is one training.
        """
        asked = {"kfold": kfold, "tune": tune, "learning_curve": learning_curve}
        return experiment_file.write(self, path, data, data_arguments, **asked)

    @classmethod
    def load(cls, file_name: str | Path, objects: Mapping[str, Any] | None = None) -> Self:
        """Read an experiment written by :meth:`save`; imports and executes nothing that the file names.

        Parameters
        ----------
        file_name
            The file, or the folder that holds ``experiment.yml``.
        objects
            Classes, functions and instances by the name the file uses, for what is not imported yet.
        """
        arguments, _ = experiment_file.read(file_name, objects)
        return cls(**arguments.pop("settings"), **arguments)

    def __str__(self) -> str:
        return f"{self!r}\n{self.params}"

    def __repr__(self) -> str:
        model = str(self.model_cls) if isinstance(self.model_cls, yaml_codec.Unresolved) else self.model_cls.__name__
        return f"{type(self).__name__}({self.name!r}, {model}, save_path={str(self.parent)!r})"


kfold_call.show_signatures(BaseExperiment)
