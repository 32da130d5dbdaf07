"""Fit anything: a module, an optimizer, a criterion, metrics and callbacks, put together by one object."""

import importlib.metadata
import numbers
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, Unpack

from delira import state as keys
from delira.callbacks.abstract_callback import CallbackList
from delira.contract import Backend, Criterion, Network, Optimizer, Tree
from delira.contract.calls import bind_criterion
from delira.errors import ConfigError, check_flags, check_that
from delira.metrics.tree.metric_list import MetricList
from delira.settings import config, parts
from delira.settings.signatures import TrialKeywords, keyword, show_settings
from delira.state import State, StateFunction
from delira.trial.bridge import backend_of, experiment_of, shown
from delira.trial.closures import Closure, base_closure, combined_closure, optimizers_of
from delira.trial.data import X_ENTRY
from delira.trial.estimators import EstimatorObjective
from delira.trial.objective import TrialObjective
from delira.trial.passes import Passes
from delira.utils.files import as_path


class Trial(Passes):
    """A fit of any module: ``Trial(model, optimizer, criterion, ["acc", "loss"]).with_train_data(x, y).run(10)``.

    It is a face of the same training loop that experiments have: every setting of a trainer may be given, and
    everything that holds there holds here, exact resume included.

    Parameters
    ----------
    model
        A ``torch.nn.Module``, ``keras.Model``, flax ``nnx.Module``, scikit-learn estimator or a network of ours. It is
        called with the input (a tuple or list is spread over its arguments); a parameter ``state`` that is required,
        or annotated as :class:`delira.state.State`, gets the state. None stands for a network that returns None.
    optimizer
        An optimizer of the framework, or a dict of several; None: nothing is updated. Keras' may be texts, as
        ``"adam"``.
    criterion
        ``criterion(prediction, target)``, ``criterion(state)``, or a state key under which the network stores its
        loss; None: the loss is 0, and callbacks add to it. For a Keras model also what ``compile`` takes:
        ``"mse"``, or a function of ``keras.losses``. Where batches have weights of their samples, it has an argument
        ``sample_weight``.
    metrics
        See :class:`delira.metrics.MetricList`; with a Keras model also metrics of Keras and their names, with a
        module of flax ``nnx.Metric``.
    callbacks
        See :class:`delira.training.callbacks.Callback`; ``keras.callbacks`` are told what ``Model.fit`` tells them.
    verbose
        2: a bar for each pass, 1: one bar over all epochs, 0: nothing.
    save_path
        Folder for checkpoints and the history, from which a new trial continues; None: no files.
    **settings
        Further settings of a trainer, e.g. ``seed``, ``mixed_precision``, ``gradient_accumulation_steps``;
        ``print(delira.training.settings_help())`` explains each. ``fold`` and ``start_epoch`` number the fit, and
        ``resume_from`` is a checkpoint to continue from, as for a trainer. Without ``seed`` a number is drawn from the
        global generator of the framework (of numpy for JAX and scikit-learn), so that ``torch.manual_seed`` decides
        over the fit, too; a trial that continues has the seed that was recorded.

    Raises
    ------
    ConfigError
        If a setting is unknown; if one is impossible, when the trainer is made.
    NetworkError
        If the model is of no framework that is known.
    """

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer = None,
        criterion: Criterion = None,
        metrics: Iterable[Any] = (),
        callbacks: Iterable[Any] = (),
        verbose: int = 2,
        *,
        save_path: str | Path | None = None,
        **settings: Unpack[TrialKeywords],
    ):
        if taken := [name for name in _GIVEN_THEMSELVES if name in settings]:
            raise ConfigError(f"a trial has no setting {taken[0]!r}; pass {_GIVEN_THEMSELVES[taken[0]]} themselves")
        if taken := [name for name in _OF_EXPERIMENTS if name in settings]:
            raise ConfigError(
                f"a trial has no setting {taken[0]!r}, as it calls its module with batches as they are; "
                f"trial.to_experiment({taken[0]}=…) makes an experiment, which has it"
            )
        config.check_names(settings, (*config.SETTINGS, "fold", "start_epoch", "resume_from"))
        if model is None:
            model = backend_of(None).calls.no_network()
        natives = backend_of(model).natives
        optimizer = (
            {name: natives.optimizer(one, model) for name, one in optimizer.items()}
            if isinstance(optimizer, Mapping)
            else natives.optimizer(optimizer, model)
        )
        criterion = natives.criterion(criterion)
        _check_parts(optimizer, criterion)
        parts.check_verbose(verbose)
        self.given_metrics = [natives.metric(metric) for metric in _listed(metrics)]
        self.metrics = MetricList(self.given_metrics)
        self.verbose, self.save_path = verbose, save_path
        self.settings: dict[str, Any] = {**settings}
        self.closure: Any = None
        self.callbacks = CallbackList(_flat(callbacks))
        self._trainer: Any = None
        self.own_standard_closure = base_closure()
        #: the optimizers that those of the trainer were made of, by name
        self.built_optimizers: dict[str, Any] = {}
        self._criteria: tuple[Any, StateFunction] | None = None
        self.state = State({
            keys.VERSION: _version(), keys.SELF: self, keys.MODEL: model, keys.OPTIMIZER: optimizer,
            keys.CRITERION: criterion, keys.METRIC_LIST: self.metrics, keys.CALLBACK_LIST: self.callbacks,
            keys.HISTORY: [], keys.DEVICE: None, keys.DATA_TYPE: None, keys.BACKWARD_ARGS: {}, keys.LOADER: None,
            keys.INF_TRAIN_LOADING: False, keys.OUTPUT: _output_of(settings),
        })  # fmt: skip
        #: of every random decision of the fit
        self.seed: Any = settings["seed"] if "seed" in settings else self.backend.generators.draw_seed()
        super().__init__()
        if not self.backend.is_differentiable and optimizer is not None:
            raise ConfigError("an estimator of scikit-learn learns by itself; leave the optimizer out")
        self.callbacks.fire("on_init", self.state, "fit")

    # ------------------------------------------------------------------ the trainer behind it

    @property
    def trainer(self) -> Any:
        """The trainer that does the work; made when it is first needed."""
        if self._trainer is None:
            model = self.state[keys.MODEL]
            make, learns = shown(model, "NetworkTrainer"), self.backend.is_differentiable
            self.objective = TrialObjective(self) if learns else EstimatorObjective(self)
            self._trainer = make(
                model, self.save_path, {} if learns else {"x": X_ENTRY}, callbacks=[*self.callbacks],
                objective=self.objective, **({"optim_fn": self.given_optimizers} if learns else {}),
                **{"logging_type": None, **self.settings, "seed": self.seed},
            )  # fmt: skip
            self.callbacks = self._trainer.callbacks
        return self._trainer

    @property
    def fold(self) -> int:
        """Fold of a cross-validation; a counter of every random decision."""
        return self.settings.get("fold", 0)

    def given_optimizers(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The optimizers of the state by name, as a backend asks for them, with those under keys of closures."""
        optimizer = self.state[keys.OPTIMIZER]
        given = dict(optimizer) if isinstance(optimizer, Mapping) else {"default": optimizer}
        given = {name: one for name, one in given.items() if one is not None}
        known = [id(one) for one in given.values()]
        further = optimizers_of(self.closure, self.state)
        self.built_optimizers = given | {name: one for name, one in further.items() if id(one) not in known}
        return dict(self.built_optimizers) or {"default": self.backend.optimizers.none()}

    @property
    def backend(self) -> Backend:
        """The verbs of the framework of the model."""
        return backend_of(self.state[keys.MODEL])

    def learning_rates(self) -> list[float]:
        """The learning rates as they are now, as far as the optimizers tell them."""
        return self.trainer.learning_rates()

    def criterion_of(self, criterion: Criterion) -> StateFunction:
        """The criterion as a function of the state."""
        if self._criteria is None or self._criteria[0] is not criterion:
            self._criteria = (criterion, bind_criterion(criterion))
        return self._criteria[1]

    # ------------------------------------------------------------------ where it computes, and in which mode

    def to(self, device: Any = None, dtype: Any = None) -> Self:
        """Compute somewhere else, or in another number format: network, optimizers' states and later batches.

        Parameters
        ----------
        device
            As the setting ``device`` takes it, or a device of PyTorch; None: stay. A dtype may be given in its place.
        dtype
            A floating-point dtype of PyTorch; None: stay. In other frameworks the network is built with its dtype.

        Raises
        ------
        ConfigError
            If there is no such device, or the framework cannot change the number format of a network.
        """
        if dtype is None and device is not None and type(device).__name__ == "dtype":
            device, dtype = None, device
        device = None if device is None else str(device)
        resolve = self.backend.devices.resolve  # refuses a device that is not there
        if self._trainer is not None or dtype is not None:
            run, state = self.trainer.run, self.state
            devices = run.devices if device is None else resolve((), device)
            run.backend.devices.move(run.network, run.optimizers, devices, dtype)
            run.devices, run.n_replaced = devices, run.n_replaced + 1
            state[keys.DEVICE], state[keys.DATA_TYPE] = devices.input, dtype or state[keys.DATA_TYPE]
        elif device is not None:
            resolve((), device)
            self.settings = {**self.settings, "device": device}
        return self

    def cuda(self, device: int | None = None) -> Self:
        """Compute on a GPU.

        Parameters
        ----------
        device
            Its number.
        """
        return self.to("cuda" if device is None else f"cuda:{device}")

    def cpu(self) -> Self:
        """Compute on the CPU."""
        return self.to("cpu")

    def train(self) -> Self:
        """Put network and metrics into training mode; each pass of the trial sets its own."""
        if callable(getattr(self.state[keys.MODEL], "train", None)):
            self.state[keys.MODEL].train()
        self.metrics.train()
        return self

    def eval(self, data_key: Any = None) -> Self:
        """Put network and metrics into evaluation mode; each pass of the trial sets its own.

        Parameters
        ----------
        data_key
            Of the data that the metrics name their values after; by default those to validate on.
        """
        if callable(getattr(self.state[keys.MODEL], "eval", None)):
            self.state[keys.MODEL].eval()
        self.metrics.eval(data_key)
        return self

    # ------------------------------------------------------------------ what is done in a step

    def with_closure(self, closure: StateFunction) -> "Trial":
        """Replace forward pass, criterion and gradients by a function of the state; it is not compiled.

        Parameters
        ----------
        closure
            Sets Y_PRED and LOSS, and calls the hooks of callbacks that are to be called inside of the step:
            ``state[CALLBACK_LIST].on_forward(state)``, ``on_criterion``, ``on_backward``. In PyTorch it leaves
            gradients on the weights, and the optimizer updates after it; if
            the trial has several optimizers, or none, and in other frameworks, the closure updates by itself.
        """
        if isinstance(closure, Closure) and isinstance(self.state[keys.OPTIMIZER], (Mapping, type(None))):
            closure = combined_closure(closure)  # which updates
        kept = self.state_dict() if self._trainer is not None and not self._trainer.state.is_new else None
        self.closure, self._trainer = closure, None
        self.settings = {**self.settings, "compiled": False}
        return self if kept is None else self.load_state_dict(kept)

    # ------------------------------------------------------------------ further

    def to_experiment(self, name: str | None = None, save_path: str | Path | None = None, **settings: Any) -> Any:
        """The experiment whose runs each fit a copy of the module: ``trial.to_experiment().kfold(data, ...)``.

        Parameters
        ----------
        name
            Of the experiment.
        save_path
            Parent of its folder.
        **settings
            Settings of its trainers, e.g. ``num_epochs``; they go before those of the trial.

        Returns
        -------
        BaseExperiment
            Of the framework. Networks read the batch entry ``"data"`` and give ``"pred"``, which criterion and metrics
            compare with ``"label"``.

        Raises
        ------
        ConfigError
            If the trial was fitted already, or has what an experiment cannot do.
        """
        return experiment_of(self, name, save_path, settings)

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Everything from which the fit can be continued: network, optimizers, history, callbacks, generators.

        Returns
        -------
        dict
            Plain values and tensors under plain text, safe to store with the framework's own means.
        """
        tree = self.trainer.checkpoint_tree()
        state = tree["state"] = _without_keys(tree["state"])
        return {**tree, "version": _version(), "history": state["history"], "callback_list": state["callbacks"]}

    def load_state_dict(self, state_dict: Mapping[str, Any], resume: bool = True) -> "Trial":
        """Continue from :meth:`state_dict`.

        Parameters
        ----------
        state_dict
            The state, or weights of the network alone.
        resume
            Whether to continue the fit; else only the network's weights are taken. A dictionary that is no state of a
            trial is taken for weights, with a warning; there is one for a state of another version, too.
        """
        if not isinstance(state_dict, Mapping):
            raise ConfigError(
                f"load_state_dict takes what state_dict returned, got {state_dict!r}; trial.load(path) reads a file"
            )
        check_flags("load_state_dict", resume=resume)
        tree = dict(state_dict)
        own = tree.get("state", tree)
        check_that(isinstance(own, Mapping), "load_state_dict", "the entry 'state' of a state_dict is a dict", own)
        is_state = resume and "state" in tree
        if is_state and (written := tree.get("version", _version())) != _version():
            warnings.warn(f"the state was written by delira {written}, and this is {_version()}", stacklevel=2)
        elif resume and not is_state:
            warnings.warn(
                "the dictionary is no state of a trial, so it is taken for weights; say so by resume=False",
                stacklevel=2,
            )
        # a copy: the trainer goes on with the lists and arrays of what it is given
        tree = self.trainer.backend.arrays.snapshot(tree)
        if is_state:
            self.objective.take_over(self.trainer.saving.take, tree)
            self.state[keys.HISTORY] = self.trainer.state.history
        else:
            self.trainer.saving.load_weights(tree["model"] if "model" in tree and "optimizer" in tree else tree)
            self.objective.weights_were_loaded()
        return self

    def save(self, path: str | Path) -> Path:
        """Write everything from which the fit can be continued to a file, completely or not at all.

        Parameters
        ----------
        path
            Name of the file; the ending of the framework's checkpoints is added if it has none.

        Returns
        -------
        Path
            The file.
        """
        return self.trainer.save_state(path)

    def load(self, path: str | Path, resume: bool = True) -> "Trial":
        """Continue from a file of :meth:`save`, of a checkpointing callback, or of an experiment.

        Parameters
        ----------
        path
            The file; nothing in it is executed.
        resume
            Whether to continue the fit; else only the network's weights are taken.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, no checkpoint, or one of another network.
        """
        check_flags("load", resume=resume)
        return self.load_state_dict(self.trainer.load_state(as_path(path, "path")), resume)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold: everything, unless a trainer is at work, which belongs to this trial alone."""
        if self._trainer is not None:
            raise ConfigError(
                "a trial that was in use is neither copied nor pickled; make a new one, and give it the state of this "
                "one: new.load_state_dict(trial.state_dict())"
            )
        return vars(self)

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record for each finished epoch, those in the folder of the trial included."""
        if self.save_path is not None:
            self.trainer  # noqa: B018 - continues from the folder
        return self.state[keys.HISTORY]

    def __repr__(self) -> str:
        state = self.state
        rows = {
            "OPTIMIZER": state[keys.OPTIMIZER],
            "CRITERION": state[keys.CRITERION],
            "METRICS": [str(metric) for metric in self.metrics],
            "CALLBACKS": [str(callback) for callback in self.callbacks],
            "MODEL": state[keys.MODEL],
        }
        line = "-" * 78
        return "\n".join([line, *(f"{name}: {value}\n{line}" for name, value in rows.items())])


#: settings of trainers that a trial has as arguments -> what these are
_GIVEN_THEMSELVES = {
    **dict.fromkeys(("losses", "loss_keys", "criterions", "closure"), "optimizer and criterion"),
    **dict.fromkeys(("optimizer_cls", "optimizer_params", "optim_fn", "optim_builder"), "optimizer and criterion"),
    **dict.fromkeys(("train_metrics", "val_metrics", "metric_keys"), "metrics"),
}
#: settings of trainers that know the entries of a batch by name
_OF_EXPERIMENTS = ("val_inference", "val_tta")
_own = (keyword("fold", 0), keyword("start_epoch", 1), keyword("resume_from", None))
show_settings(Trial.__init__, *_own, without=(*_GIVEN_THEMSELVES, *_OF_EXPERIMENTS))


def _listed(metrics: Any) -> list[Any]:
    """Metrics as they were given; a text is one."""
    if isinstance(metrics, Mapping) or not isinstance(metrics, (str, Iterable)):
        raise ConfigError(f"metrics is a list of metrics, e.g. ['acc', 'loss'], got {metrics!r}")
    return [metrics] if isinstance(metrics, str) else [*metrics]


def _output_of(settings: Mapping[str, Any]) -> str | None:
    """What predictions are said to be."""
    output = settings.get("output")
    config.check_output(output)
    if isinstance(output, Mapping):
        raise ConfigError(
            f"a trial has one prediction, so output is 'logits', 'probabilities' or 'labels', got {output}"
        )
    return output


def _check_parts(optimizer: Optimizer, criterion: Criterion) -> None:
    """Refuse classes, and what is no optimizer in any framework; one of optax is a tuple of functions."""
    for name, value in {"optimizer": optimizer, "criterion": criterion}.items():
        if isinstance(value, type):
            raise ConfigError(f"the {name} {value.__name__} is a class, pass an instance: {value.__name__}(...)")
    if type(optimizer) in (list, tuple, set):
        raise ConfigError(
            f"the optimizers are a {type(optimizer).__name__}; pass a dict with a name for each, and say by "
            "with_closure which network learns by which"
        )
    if isinstance(optimizer, (str, bytes, numbers.Number)):
        raise ConfigError(f"the optimizer must be one of the framework, e.g. torch.optim.Adam(…), got {optimizer!r}")


def _flat(callbacks: Any) -> list[Any]:
    """Callbacks out of lists of lists."""
    if isinstance(callbacks, Iterable) and not callable(callbacks) and not isinstance(callbacks, (str, bytes)):
        return [one for part in callbacks for one in _flat(part)]
    return [callbacks]


def _without_keys(tree: Tree) -> Any:
    """The tree with plain text for state keys, whose class the readers of other programs refuse."""
    if isinstance(tree, dict):
        return {_without_keys(key): _without_keys(value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(map(_without_keys, tree))
    return str(tree) if isinstance(tree, keys.StateKey) else tree


def _version() -> str:
    return importlib.metadata.version("delira")
