"""What a training run can be told: written down once, checked once, the same for every backend.

Publicly the settings are the historic flat keywords (``optimizer_cls``, ``lr_scheduler_params``, …).
:func:`read_settings` turns them into the frozen dataclasses that the trainer works with.
"""

import dataclasses
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from delira.contract import DEFAULT_LOSS_KEYS, Backend, CompileConfig, UpdateConfig
from delira.errors import ConfigError, did_you_mean, expect, flag, is_count, positive
from delira.inference import Inference, TestTimeAugmentation, joined
from delira.metrics import direction, scoring
from delira.metrics.metric_set import in_form, is_in_reach
from delira.metrics.per_class import expanded
from delira.metrics.tree import criteria
from delira.settings.parts import GuardConfig, LoggingConfig, OptimizerConfig, SavingConfig, ScheduleConfig
from delira.utils import seeding, yaml_codec


def is_same_score(key: object, other: object) -> bool:
    """Return True if two names, with or without ``val_``, are those of one score."""
    return str(key).removeprefix("val_") == str(other).removeprefix("val_")


def check_epochs(num_epochs: Any) -> int:
    """Refuse anything but a non-negative integer."""
    if isinstance(num_epochs, bool) or not isinstance(num_epochs, numbers.Integral) or num_epochs < 0:
        raise ConfigError(f"num_epochs must be an integer of at least 0 (epochs in total), got {num_epochs!r}")
    return int(num_epochs)


def check_start(start_epoch: Any) -> int:
    """Refuse anything but a positive integer."""
    if isinstance(start_epoch, bool) or not isinstance(start_epoch, numbers.Integral) or start_epoch < 1:
        raise ConfigError(
            f"start_epoch must be an integer of at least 1 (number of the first epoch), got {start_epoch!r}"
        )
    return int(start_epoch)


def check_fold(fold: Any) -> int:
    """Refuse anything but a non-negative integer."""
    if isinstance(fold, bool) or not isinstance(fold, numbers.Integral) or fold < 0:
        is_whole = isinstance(fold, numbers.Integral) and not isinstance(fold, bool)
        raise ConfigError(f"fold must be {'at least 0' if is_whole else 'an integer'}, got {fold!r}")
    return int(fold)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Settings of a trainer; the same for every backend."""

    losses: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    """Loss functions by name, called as ``loss(prediction, target)`` on device values, unless the names of their
    parameters say otherwise; their sum is minimised."""

    loss_keys: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """Entries each loss reads, in the order of its arguments; if not given, ``"pred"`` and ``"label"`` by the names of
    its parameters, else in this order."""

    train_metrics: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    """Metrics of the training steps by name, called inside the closure on device values."""

    val_metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Validation metrics by name: whatever :class:`delira.metrics.MetricSet` takes, e.g. ``f(y_true, y_pred)``."""

    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Like ``val_metrics``, but computed over the training epoch as well."""

    metric_keys: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """Entries each metric reads, in the order of its arguments; if not given, ``"label"`` and ``"pred"`` by the names
    of its parameters, else in this order."""

    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    """How the optimizers are made."""

    schedule: ScheduleConfig = dataclasses.field(default_factory=ScheduleConfig)
    """How the learning rate changes."""

    update: UpdateConfig = dataclasses.field(default_factory=UpdateConfig)
    """How gradients become an update."""

    compiling: CompileConfig = dataclasses.field(default_factory=CompileConfig)
    """Whether the step is compiled."""

    logging: LoggingConfig = dataclasses.field(default_factory=LoggingConfig)
    """Where the numbers go."""

    saving: SavingConfig = dataclasses.field(default_factory=SavingConfig)
    """When checkpoints are written."""

    guards: GuardConfig = dataclasses.field(default_factory=GuardConfig)
    """What is done about numbers that are not finite."""

    gpu_ids: Sequence[int] = ()
    """CUDA devices by number; empty: the CPU."""

    device: str | None = None
    """``"auto"``, ``"cpu"``, ``"cuda:1"``; the modern spelling of ``gpu_ids``."""

    devices: int = 1
    """How many devices train the network together, each with its share of every batch: GPUs, or parts of the CPU with
    ``device="cpu"``. Of PyTorch each has a process of its own."""

    shard: bool = False
    """Whether each of several processes holds a part of the weights and of what the optimizer keeps of them, by FSDP2;
    layers are put together as they compute."""

    shard_transforms: bool = False
    """Whether each of several processes loads and transforms only its share of every batch, with random numbers of its
    own; else all have the same batch, as one process has."""

    sync_batchnorm: bool = False
    """Whether batch normalisation of several GPUs is that of the whole batch, not of the share of each."""

    num_threads: int | None = None
    """CPU threads of the framework; ``None`` leaves them as they are."""

    val_freq: int = 1
    """Validate every ``val_freq`` epochs."""

    val_inference: Inference | None = None
    """How validation and test predict, e.g. :class:`delira.inference.SlidingWindow`; None: batches as they are."""

    val_tta: TestTimeAugmentation | None = None
    """The same in several positions, around ``val_inference``."""

    val_score_key: str | None = None
    """Validation metric or loss, with or without ``val_``, that decides which epoch is the best."""

    val_score_mode: str = direction.AUTO
    """Which score is good: ``"lowest"``/``"min"``, ``"highest"``/``"max"``, or ``"auto"``: low losses, and of a metric
    what is known of it. Of a metric that is not known it must be said."""

    output: str | Mapping[str, str] | None = None
    """What predictions are: ``"logits"``, ``"probabilities"`` or ``"labels"``, of several by name, ``{"pred":
    "logits"}``. ``None``: as known losses of the framework have it, else read off their values, with a caveat."""

    reduce_mode: str = "mean"
    """How the values of the training steps become one of the epoch; a loss of a validation is always a mean."""

    seed: int = 0
    """Seed of every random decision."""

    convert_batch_to_npy_fn: Callable[..., Any] | None = None
    """Replaces the backend's conversion of predictions: ``fn(**predictions) -> (args, arrays)``."""

    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Handed to the closure as keywords."""

    def __post_init__(self) -> None:
        parts = {part: (getattr(self, part), kind) for part, kind in PART_CLASSES.items()}
        given = {name: getattr(self, name) for name in _BY_NAME if hasattr(self, name)}
        expect(
            *((part, each, isinstance(each, kind), f"a {kind.__name__}") for part, (each, kind) in parts.items()),
            *((name, value, value is not None, "a dict with names as keys") for name, value in given.items()),
        )
        _check_mappings(given)
        ids, device, convert = self.gpu_ids, self.device, self.convert_batch_to_npy_fn
        way, tta, late = self.val_inference, self.val_tta, yaml_codec.Unresolved
        are_ids = isinstance(ids, Sequence) and not isinstance(ids, str) and all(map(is_count, ids))
        # PyTorch has objects for its devices
        is_device = device is None or (hasattr(device, "type") and hasattr(device, "index"))
        is_device = is_device or (isinstance(device, str) and device != "")
        expect(
            positive("val_freq", self.val_freq, "epoch"),
            positive("devices", self.devices, "device"),
            flag("shard", self.shard),
            flag("shard_transforms", self.shard_transforms),
            flag("sync_batchnorm", self.sync_batchnorm),
            *(() if self.num_threads is None else (positive("num_threads", self.num_threads, "thread"),)),
            ("gpu_ids", ids, are_ids, "a list of numbers of GPUs (e.g. [0]; [] is the CPU)"),
            ("device", device, is_device, "a name such as 'cpu', 'auto' or 'cuda:1'"),
            ("convert_batch_to_npy_fn", convert, convert is None or callable(convert), "a function"),
            ("val_inference", way, isinstance(way, Inference | late | None), "a way of prediction"),
            ("val_tta", tta, isinstance(tta, TestTimeAugmentation | late | None), "a TestTimeAugmentation(…)"),
            ("reduce_mode", self.reduce_mode, self.reduce_mode in REDUCTIONS, f"one of {REDUCTIONS}"),
        )
        seeding.check_seed(self.seed)
        check_output(self.output)
        object.__setattr__(self, "val_score_mode", direction.as_mode(self.val_score_mode))
        self._check_names()
        self.check_score_key(self.val_score_key)
        self.direction_of(self.val_score_key, self.val_score_mode)

    @property
    def inference(self) -> Inference | None:
        """How validation and test predict; None: batches go through the network as they are."""
        return joined(self.val_tta, self.val_inference)

    @property
    def epoch_metrics(self) -> dict[str, Any]:
        """Metrics of the validation, those of ``metrics`` included."""
        metrics = {**self.metrics, **self.val_metrics}
        return expanded(metrics) if metrics else metrics

    def keys_of(self, metrics: Mapping[str, Any]) -> dict[str, Sequence[str]]:
        """Return the ``metric_keys`` of some metrics."""
        named = {name: scoring.reads_as(metric) or name for name, metric in metrics.items()}
        return {name: self.metric_keys[read] for name, read in named.items() if read in self.metric_keys}

    def bound(
        self,
        metrics: Mapping[str, Any],
        metric_keys: Mapping[str, Sequence[str]] | None = None,
        backend: Backend | None = None,
    ) -> dict[str, Any]:
        """Metrics with what losses and settings say about the predictions that they read, e.g. that these are logits.

        Parameters
        ----------
        metrics
            By name; what is bound already stays as it is.
        metric_keys
            The entries each reads; those of the settings if ``None``.
        backend
            The verbs of the framework, which say where channels are.
        """
        if not metrics:
            return {}
        metrics = expanded(metrics)
        keys = scoring.keys_of(metrics, self.keys_of(metrics) if metric_keys is None else metric_keys)
        return {
            name: in_form(metric, name, self.known_output(scoring.predicted_key(metric, keys[name]), backend))
            for name, metric in metrics.items()
        }

    def known_output(self, prediction: str | None, backend: Backend | None = None) -> criteria.Criterion:
        """Return what losses and settings say of a prediction.

        Parameters
        ----------
        prediction
            Name of the prediction; None: of one that nobody names.
        backend
            The verbs of the framework, which say where channels are; None: nobody says it.
        """
        losses = [
            loss for name, loss in self.losses.items() if prediction in self.loss_keys.get(name, DEFAULT_LOSS_KEYS)
        ]
        said = self.output.get(prediction or "") if isinstance(self.output, Mapping) else self.output
        known = criteria.with_output(criteria.combined([criteria.describe_criterion(loss) for loss in losses]), said)
        if backend is None:
            return known
        if not backend.is_differentiable and known.told_by == "values":
            known = known._replace(told_by="backend")
        return known if known.class_axis is not None else known._replace(class_axis=-1 if backend.channels_last else 1)

    def known_outputs(
        self, metrics: Mapping[str, Any], keys: Mapping[str, Sequence[str]], backend: Backend
    ) -> dict[str, tuple[str, criteria.Criterion]]:
        """Return what losses and settings say of each prediction that is read, with the name of its target.

        Parameters
        ----------
        metrics, keys
            Metrics by name, and the entries that each reads; those that losses read are told, too.
        backend
            As for :meth:`known_output`.
        """
        pairs = [(scoring.predicted_key(metric, keys[name]), keys[name]) for name, metric in metrics.items()]
        pairs += [(pair[0], pair) for name in self.losses if (pair := self.loss_keys.get(name, DEFAULT_LOSS_KEYS))]
        pairs += [(DEFAULT_LOSS_KEYS[0], DEFAULT_LOSS_KEYS)]
        found: dict[str, tuple[str, criteria.Criterion]] = {}
        for prediction, pair in pairs:
            targets = [entry for entry in pair if entry != prediction]
            if prediction is not None and len(targets) == 1 and prediction not in found:
                found[prediction] = (targets[0], self.known_output(prediction, backend))
        return found

    def check_score_key(self, key: str | None) -> None:
        """Refuse a score that nothing computes."""
        if key is not None and not isinstance(key, str):
            raise ConfigError(f"val_score_key must name a validation metric or a loss, got {key!r}")
        if key is not None and self._name_of_score(key) is None:
            raise ConfigError(
                f"val_score_key={key!r} is neither a validation metric nor a loss"
                f"{did_you_mean(key, [*self.losses, *self.epoch_metrics])}"
            )

    def _name_of_score(self, key: str) -> str | None:
        """Return the loss or metric that a score is, whichever of the two is written with ``val_``."""
        name = key.removeprefix("val_")
        return next((each for each in (name, f"val_{name}") if each in self.losses or each in self.epoch_metrics), None)

    def output_of(self, key: str | None) -> str | None:
        """Return the output of the network that a score reads; None of a loss, and without a score."""
        name = None if key is None else self._name_of_score(key)
        if name is None or name not in self.epoch_metrics:
            return None
        metric = {name: self.epoch_metrics[name]}
        return scoring.predicted_key(metric[name], scoring.keys_of(metric, self.keys_of(metric))[name])

    def score(self, key: str | None, mode: str | None) -> tuple[str | None, str]:
        """Return the score that one training watches, and which of its values are good.

        Parameters
        ----------
        key, mode
            What the training was asked for; ``None``, and ``"auto"``, ask for what the settings say, as far as they
            say it of the same score.
        """
        key = key or self.val_score_key
        if mode in (None, direction.AUTO):
            is_own = self.val_score_key is None or is_same_score(key, self.val_score_key)
            mode = self.val_score_mode if is_own else direction.AUTO
        return key, self.direction_of(key, direction.as_mode(mode))

    def direction_of(self, key: str | None, mode: str) -> str:
        """``"lowest"`` or ``"highest"``: which values of a score are good.

        Raises
        ------
        ConfigError
            If ``mode`` is ``"auto"``, and nobody knows.
        """
        if mode != direction.AUTO or key is None:
            return "lowest" if mode == direction.AUTO else mode
        name = self._name_of_score(key)
        if name is None or name in self.losses:
            return "lowest"
        metric = self.epoch_metrics[name]
        if not isinstance(metric, yaml_codec.Unresolved):
            metric = self.bound({name: metric})[name]
        is_larger = direction.higher_is_better(metric, name)
        # what is not resolved is of a file, and complains when it is used
        if is_larger is None and not isinstance(metric, yaml_codec.Unresolved):
            raise ConfigError(
                f"val_score_key={key!r}: it is not known whether small or large values of {name!r} are good, so say "
                "val_score_mode='min' (also called 'lowest') or val_score_mode='max' (also called 'highest'); or give "
                "the metric an attribute higher_is_better"
            )
        return "highest" if is_larger else "lowest"

    def _check_names(self) -> None:
        for setting in ("losses", "train_metrics", "val_metrics", "metrics"):
            for name, function in getattr(self, setting).items():
                if setting not in ("val_metrics", "metrics") or not is_in_reach(function):
                    _check_function(setting, name, function)
        epoch_metrics = self.epoch_metrics
        metrics, of_validation = {*self.train_metrics, *epoch_metrics}, {f"val_{name}" for name in self.losses}
        for some, others, told in (
            (self.losses, metrics, "names both a loss and a metric; give them different names"),
            (self.train_metrics, {*self.metrics}, "is both in metrics and in train_metrics; keep one of them"),
            (self.val_metrics, of_validation, "names a metric and the validation of a loss; give it another name"),
        ):
            if twice := some.keys() & others:
                raise ConfigError(f"{sorted(twice)} {told}")
        for name in epoch_metrics:
            if f"val_{name}" in epoch_metrics:
                raise ConfigError(f"val_metrics has {name!r} and 'val_{name}', which mean the same; keep one of them")
        for setting in ("losses", "train_metrics", "metrics"):
            if taken := [name for name in getattr(self, setting) if name.startswith("val_")]:
                raise ConfigError(
                    f"{setting} names {taken[0]!r}, which is how values of the validation begin, so that one would "
                    f"stand under the name of the other; call it {taken[0].removeprefix('val_')!r}"
                )
        if reserved := [name for name in self.extra if name in CLOSURE_NAMES]:
            raise ConfigError(f"extra names {reserved[0]!r}, which a closure is given anyway; use another name")
        for keys, known in (("metric_keys", metrics), ("loss_keys", {*self.losses})):
            for name in getattr(self, keys):
                if name not in known:
                    raise ConfigError(f"{keys} names {name!r}, which does not exist{did_you_mean(name, known)}")
        self.bound(epoch_metrics)


def _check_function(setting: str, name: str, function: object) -> None:
    if name == "epoch":
        raise ConfigError(f"{setting} names 'epoch', which is the number of the epoch; use another name")
    if isinstance(function, type):
        raise ConfigError(
            f"{setting}[{name!r}] is the class {function.__name__}; pass an instance, {function.__name__}()"
        )
    if not callable(function) and not hasattr(function, "update"):
        raise ConfigError(f"{setting}[{name!r}] is a {type(function).__name__}, which cannot be called")


#: how the values of the training steps become one
REDUCTIONS = ("mean", "sum", "first_only", "last_only")
#: what a closure is given by name
CLOSURE_NAMES = (
    "model", "data_dict", "optimizers", "losses", "metrics", "fold", "key_mapping", "loss_keys", "metric_keys", "hooks",
    "batch_nr", "iter_num", "global_iter_num",
)  # fmt: skip


#: flat keyword -> (part of the TrainerConfig, field of the part)
PARTS = {
    "optimizer_cls": ("optimizer", "cls"),
    "optimizer_params": ("optimizer", "params"),
    "optim_fn": ("optimizer", "builder"),
    "lr_scheduler_cls": ("schedule", "cls"),
    "lr_scheduler_params": ("schedule", "params"),
    "gradient_accumulation_steps": ("update", "accumulation_steps"),
    "gradient_clip_norm": ("update", "clip_norm"),
    "gradient_clip_value": ("update", "clip_value"),
    "mixed_precision": ("update", "precision"),
    "compiled": ("compiling", "compiled"),
    "jit_compile": ("compiling", "jit"),
    "logging_type": ("logging", "type"),
    "logging_kwargs": ("logging", "kwargs"),
    "logging_frequencies": ("logging", "frequencies"),
    "logging_reductions": ("logging", "reductions"),
    "log_freq": ("logging", "freq"),
    "verbose": ("logging", "verbose"),
    "save_freq": ("saving", "freq"),
    "save_freq_steps": ("saving", "steps"),
    "save_freq_minutes": ("saving", "minutes"),
    "keep_last_checkpoints": ("saving", "keep_last"),
    "keep_best_checkpoints": ("saving", "keep_best"),
    "save_in_background": ("saving", "background"),
    "on_save_error": ("saving", "on_error"),
    "save_on_signal": ("saving", "on_signal"),
    **{field.name: ("guards", field.name) for field in dataclasses.fields(GuardConfig)},
}
#: part of the TrainerConfig -> its class
PART_CLASSES: dict[str, type] = {
    field.name: field.type
    for field in dataclasses.fields(TrainerConfig)
    if isinstance(field.type, type) and dataclasses.is_dataclass(field.type)
}
#: other spellings of a flat keyword
_ALIASES = {
    "lr_sched_cls": "lr_scheduler_cls",
    "lr_sched_params": "lr_scheduler_params",
    "optim_builder": "optim_fn",
    "checkpoint_freq": "save_freq",
    "compile": "compiled",
    "reduce_types": "logging_reductions",
}
#: renamed long ago
_DEPRECATED = {"criterions": "losses"}
PLAIN = tuple(field.name for field in dataclasses.fields(TrainerConfig) if field.name not in PART_CLASSES)

#: every flat keyword that :func:`read_settings` understands
SETTINGS = (*PLAIN, *PARTS, *_ALIASES, *_DEPRECATED, "mixed_precision_kwargs")
#: settings that change nothing about the numbers of a run
SILENT = ("checkpoint_freq", *(name for name, (part, _) in PARTS.items() if part in ("logging", "saving")))


def canonical(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under their names of today, for a trainer of the user's that has its own signature."""
    names = {name: _ALIASES.get(name, _DEPRECATED.get(name, name)) for name in settings}
    return {names[name]: value for name, value in settings.items() if names[name] == name or value is not None}


def read_settings(settings: Mapping[str, Any]) -> TrainerConfig:
    """Read flat keywords into a :class:`TrainerConfig`.

    Raises
    ------
    ConfigError
        Naming every unknown keyword, each with a guess, or the first impossible value.
    """
    check_names(settings, SETTINGS)
    flat: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, value in settings.items():
        if value is None and name in (*_ALIASES, *_DEPRECATED):
            continue  # not given: signatures of trainers have both names
        if name in _DEPRECATED:
            warnings.warn(f"{name!r} is now called {_DEPRECATED[name]!r}", DeprecationWarning, stacklevel=4)
        if name == "mixed_precision_kwargs":
            continue  # steered a package that is gone; PyTorch's own mixed precision needs none of it
        target = _ALIASES.get(name, _DEPRECATED.get(name, name))
        if target in flat:
            raise ConfigError(f"{given[target]!r} and {name!r} mean the same; give only one of them")
        flat[target], given[target] = value, name
    flat = {name: value for name, value in flat.items() if value is not None or name in _NONE_IS_MEANT}
    if isinstance(precision := flat.get("mixed_precision"), bool):
        flat["mixed_precision"] = "auto" if precision else "32"
    parts = {
        part: {field: flat[name] for name, (owner, field) in PARTS.items() if owner == part and name in flat}
        for part in PART_CLASSES
    }
    in_parts = flat.get("micro_batches", 1)
    parts["update"]["skip_nonfinite"] = flat.get("nonfinite") == "skip"
    parts["update"]["in_parts"] = not (isinstance(in_parts, int) and in_parts == 1)
    _check_mappings(flat)
    built: dict[str, Any] = {part: cls(**parts[part]) for part, cls in PART_CLASSES.items()}
    return TrainerConfig(**{name: flat[name] for name in PLAIN if name in flat}, **built)


#: names of other libraries, and of other places here, that are near to settings which mean something else
_ELSEWHERE = {
    "n_jobs": "; kfold(…, n_jobs=2) runs folds in parallel, n_process_augmentation of the data manager loads in "
    "parallel, and num_threads says how many threads compute",
    "num_workers": "; BaseDataManager(…, n_process_augmentation=…) says how many processes load",
    "val_kwargs": "; test_kwargs of kfold changes the data manager for validation and testing",
    "folds": "; kfold(folds=[…]) runs some folds alone, kfold(num_splits=…) says how many there are",
    "epochs": "; did you mean 'num_epochs'?",
    "lr": "; write optimizer_params={'lr': …}",
    "learning_rate": "; write optimizer_params={'learning_rate': …}",
}


def check_names(settings: Iterable[str], known: Iterable[str]) -> None:
    """Refuse unknown training settings, all in one message."""
    known = tuple(known)
    if unknown := [name for name in settings if name not in known]:
        told = {name: _ELSEWHERE.get(name) or did_you_mean(name, known) for name in unknown}
        lines = [f"unknown training setting {name!r}{text}" for name, text in told.items()]
        raise ConfigError("\n".join(lines) + "\n(what only your closure needs goes under training['extra'])")


#: where ``None`` is a value of its own; elsewhere it stands for the default (the historic signature has many)
_NONE_IS_MEANT = ("save_freq", "logging_type", "device", "val_score_key")

#: settings that are dictionaries by name
_BY_NAME = (
    "losses", "loss_keys", "train_metrics", "val_metrics", "metrics", "metric_keys", "extra", "optimizer_params",
    "lr_scheduler_params", "logging_kwargs",
)  # fmt: skip


def _check_mappings(flat: Mapping[str, Any]) -> None:
    for name in _BY_NAME:
        if (value := flat.get(name)) is not None and not isinstance(value, Mapping):
            raise ConfigError(f"{name} must be a dict with names as keys, got {type(value).__name__}")
        for key in value or ():
            if not isinstance(key, str):
                raise ConfigError(f"{name} must be a dict with names as keys, got the key {key!r}")
    for name in ("loss_keys", "metric_keys"):
        for key, entries in (flat.get(name) or {}).items():
            expect((f"{name}[{key!r}]", entries, isinstance(entries, Sequence), "a list of names of entries"))


def check_output(output: object) -> None:
    """Refuse a setting ``output`` that says nothing of what predictions may be.

    Raises
    ------
    ConfigError
        Naming what may be said.
    """
    if output is None:
        return
    given = output if isinstance(output, Mapping) else {"": output}
    for name, said in given.items():
        if not isinstance(name, str) or not isinstance(said, str) or said not in criteria.OUTPUTS:
            entry = f"output[{name!r}]" if isinstance(output, Mapping) else "output"
            guess = did_you_mean(said, criteria.OUTPUTS) if isinstance(said, str) else ""
            known = f"one of {', '.join(map(repr, criteria.OUTPUTS))}, or a dict of them by the name of a prediction"
            raise ConfigError(f"{entry} must be {known}, got {said!r}{guess}")
