"""Names of classes, functions and objects on disk, and what stands for them until they are known."""

import contextlib
import copy
import enum
import hashlib
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from delira.errors import ConfigError
from delira.frameworks import SAID_OTHERWISE, TELLING, USUAL_WEIGHTS

NOTHING: Any = object()

#: module of today, module that files on disk know, and names (none: all of the module that have no row of their own):
#: runs go on for longer than modules stay where they are
_MOVED = (
    ("backends.jax.arrays", "backends.jax.values", "convert_jax_array_to_npy"),
    ("backends.jax.checkpoints", "backends.jax.io", "load_checkpoint_jax save_checkpoint_jax"),
    ("backends.jax.networks.ready", "backends.jax.networks.classification", ""),
    ("backends.jax.networks.ready", "backends.jax.networks.gan", "GenerativeAdversarialNetworkBaseJax"),
    ("backends.jax.networks.ready", "backends.jax.networks.segmentation", "UNet2dJax UNet3dJax"),
    ("backends.jax.networks.ready", "backends.jax.networks.vae", "VariationalAutoencoderJax"),
    ("backends.jax.optimizers", "backends.jax.building", "create_optims_default_jax create_optims_gan_default_jax"),
    ("backends.sklearn.network", "backends.sklearn.io", "load_checkpoint_sklearn save_checkpoint_sklearn"),
    ("backends.tensorflow.arrays", "backends.tensorflow.values", "convert_tf_tensor_to_npy"),
    ("backends.tensorflow.checkpoints", "backends.tensorflow.io", "load_checkpoint_tf save_checkpoint_tf"),
    ("backends.tensorflow.networks.ready", "backends.tensorflow.networks.classification", ""),
    ("backends.tensorflow.networks.ready", "backends.tensorflow.networks.gan", "GenerativeAdversarialNetworkBaseTf"),
    ("backends.tensorflow.networks.ready", "backends.tensorflow.networks.segmentation", "UNet2dTf UNet3dTf"),
    ("backends.tensorflow.networks.ready", "backends.tensorflow.networks.vae", "VariationalAutoencoderTf"),
    ("backends.tensorflow.optimizers", "backends.tensorflow.builders", "create_optims_default_tf"),
    ("backends.tensorflow.optimizers", "backends.tensorflow.builders", "create_optims_gan_default_tf"),
    ("backends.torch.arrays", "backends.torch.values", "convert_torch_tensor_to_npy"),
    ("backends.torch.checkpoints", "backends.torch.io", "load_checkpoint_torch save_checkpoint_torch"),
    ("backends.torch.networks.ready", "backends.torch.networks.classification", ""),
    ("backends.torch.networks.ready", "backends.torch.networks.gan", "GenerativeAdversarialNetworkBasePyTorch"),
    ("backends.torch.networks.ready", "backends.torch.networks.segmentation", "UNet2dPyTorch UNet3dPyTorch"),
    ("backends.torch.networks.ready", "backends.torch.networks.vae", "VariationalAutoencoderPyTorch"),
    ("backends.torch.optimizers", "backends.torch.building", "create_optims_default_pytorch"),
    ("backends.torch.optimizers", "backends.torch.building", "create_optims_gan_default_pytorch"),
    ("callbacks.abstract_callback", "training.callbacks.hooks", "Callback"),
    ("callbacks.history", "training.callbacks.csv_logger", "CSVLogger"),
    ("callbacks.imaging.callback", "training.callbacks.imaging.caching", "CachingImagingCallback MakeGrid"),
    ("callbacks.initialisers", "training.callbacks.lsuv", "LsuvInit"),
    ("callbacks.live_view", "training.callbacks.live_plot", "LiveLossPlot"),
    ("callbacks.mixing.images", "training.callbacks.mixing.between_class", "BCPlus bc_loss"),
    ("callbacks.mixing.images", "training.callbacks.mixing.erasing", ""),
    ("callbacks.mixing.mixed", "training.callbacks.mixing.batches", "MixedTargets"),
    ("callbacks.mixing.mixed", "training.callbacks.mixing.smoothing", "LabelSmoothingRegularisation"),
    ("callbacks.mixing.mixup", "training.callbacks.mixing.manifold", "ManifoldMixup"),
    ("callbacks.monitor", "training.callbacks.early_stopping", "EarlyStopping"),
    ("callbacks.monitor", "training.callbacks.terminate_on_nan", "TerminateOnNaN"),
    ("callbacks.progress", "training.callbacks.printers", "ConsolePrinter Tqdm"),
    ("callbacks.schedules.for_all", "training.callbacks.cycles", "CyclicLR OneCycleLR WarmupCosine"),
    ("callbacks.schedules.for_all", "training.callbacks.schedules", ""),
    ("callbacks.schedules.rates", "training.callbacks.schedules.schedule", "OptimizerSchedule"),
    ("callbacks.tensorboard", "training.callbacks.tensorboard_base", "AbstractTensorBoard"),
    ("callbacks.tensorboard", "training.callbacks.tensorboard_scalars", "TensorBoard"),
    ("callbacks.tensorboard", "training.callbacks.tensorboard_text", "TensorBoardText"),
    ("callbacks.tensorboard_images", "training.callbacks.tensorboard_projector", "TensorBoardProjector"),
    ("callbacks.weights", "training.callbacks.freezing", "FreezeUnfreeze"),
    ("callbacks.weights", "training.callbacks.gradient_clipping", "GradientClipping GradientNormClipping"),
    ("callbacks.weights", "training.callbacks.swa", "SWA"),
    ("callbacks.weights", "training.callbacks.weight_average", "ExponentialMovingAverage"),
    ("callbacks.weights", "training.callbacks.weight_decay", "L1WeightDecay L2WeightDecay WeightDecay"),
    ("data_loading.array_dataset", "data_loading.wrapped_dataset", "WrappedDataset"),
    ("data_loading.dataset", "data_loading.blank_dataset", "BlankDataset"),
    ("data_loading.dataset", "data_loading.concat_dataset", "ConcatDataset"),
    ("data_loading.dataset", "data_loading.torchvision_dataset", "TorchvisionClassificationDataset"),
    ("data_loading.sampler.by_class", "data_loading.sampler.group", "GroupRandomSampler"),
    ("data_loading.sampler.by_class", "data_loading.sampler.prevalence", ""),
    ("data_loading.sampler.by_class", "data_loading.sampler.weighted", "WeightedPrevalenceRandomSampler"),
    ("data_loading.sampler.by_class", "data_loading.sampler.weighted", "WeightedRandomSampler"),
    ("data_loading.sampler.orders", "data_loading.sampler.abstract_sampler", "AbstractSampler"),
    ("data_loading.sampler.orders", "data_loading.sampler.batch", "BatchSampler"),
    ("data_loading.sampler.orders", "data_loading.sampler.lambda_sampler", "LambdaSampler"),
    ("data_loading.sampler.orders", "data_loading.sampler.random", ""),
    ("data_loading.sampler.orders", "data_loading.sampler.sequential", "SequentialSampler"),
    ("data_loading.transforms", "data_loading.preprocessing", "FittedPreprocessing"),
    ("data_loading.workers.pool", "data_loading.workers.settings", "WorkerSettings"),
    ("experiments.experiment", "training.base_experiment", ""),
    ("experiments.parameters", "training.parameters", ""),
    ("experiments.preprocessing", "training.preprocessing", ""),
    ("experiments.result", "training.result", ""),
    ("io.container", "io.verify", "verify_zip"),
    ("io.export", "io.weights", "load_weights save_weights"),
    ("logging.handlers", "logging.image_files", "ImgSaveHandler"),
    ("logging.handlers", "logging.message_file", "MessageFileHandler"),
    ("logging.logger", "logging.contexts", "LoggingContext close_logger get_logger log make_logger"),
    ("logging.trackers", "logging.tensorboard", "TensorboardXLoggingHandler"),
    ("logging.trackers", "logging.trixi_handler", "TrixiHandler"),
    ("logging.writers", "logging.visdom_handlers", "VisdomImageHandler VisdomImageSaveHandler"),
    ("logging.writers", "logging.visdom_handlers", "VisdomImageSaveStreamHandler VisdomLoggingHandler"),
    ("logging.writers", "logging.visdom_handlers", "VisdomStreamHandler"),
    ("metrics.gather", "metrics.tree.moments", "Weighted"),
    ("metrics.metric_set", "metrics.forms", "SklearnFunction TreeMetric kind_of score"),
    ("metrics.of_arrays", "metrics.functions", "accuracy dice"),
    ("metrics.of_arrays", "metrics.sklearn_metrics", ""),
    ("metrics.tree.accuracies", "metrics.tree.regression", "MeanAbsoluteError MeanSquaredError RootMeanSquaredError"),
    ("metrics.tree.aggregators", "metrics.tree.running", "RunningMean RunningMetric"),
    ("metrics.tree.hanging", "metrics.tree.lambdas", "EpochLambda lambda_metric"),
    ("metrics.tree.hanging", "metrics.tree.registry", "default_for_key known_keys"),
    ("metrics.tree.hanging", "metrics.tree.roots", "BatchLambda KeyMetric StateLambda"),
    ("metrics.tree.metric_list", "metrics.tree.basics", "Epoch LR Loss"),
    ("models.weights", "models.transfer", "transfer_weights"),
    ("runs.results", "training.result", ""),
    ("settings.config", "training.config", ""),
    ("settings.signatures", "training.signatures", ""),
    ("testing.toy.backend", "testing.toy.network", "SquaredError ToyNetwork mean_squared_error"),
    ("testing.toy.backend", "testing.toy.optimizers", "ToySGD"),
    ("testing.toy.backend", "testing.toy.training", "ToyExperiment ToyTrainer"),
    ("training.finders", "training.finders.batch_size", "find_batch_size"),
    ("training.finders", "training.finders.learning_rate", ""),
    ("training.run", "training.state", "TrainingState"),
    ("training.trainer", "training.base_trainer", ""),
    ("trial.bridge", "training.trial.bridge", ""),
    ("trial.class_appearance", "training.callbacks.imaging.appearance", ""),
    ("trial.closures", "training.trial.closures", ""),
    ("trial.data", "training.trial.moving", "deep_to"),
    ("trial.trial", "training.trial.trial", ""),
    ("utils.files", "utils.foreign", "open_regular"),
    ("utils.pictures", "training.callbacks.imaging.grid", "make_grid"),
)
_ON_DISK = {
    f"delira.{today}:{name}" if name else f"delira.{today}": f"delira.{before}"
    for today, before, names in _MOVED
    for name in names.split() or [""]
}


#: the same for a whole package
_CALLBACKS, _CALLBACKS_ON_DISK = "delira.callbacks.", "delira.training.callbacks."


class Unresolved:
    """What was written about an object that could not be made from a file.

    It prints the recorded text, equals another one with the same record, survives copying, pickling and
    saving, and raises a :class:`ConfigError` with the cure as soon as it is called or an attribute is used.
    """

    __slots__ = ("_cure", "_plain")

    def __init__(self, plain: dict[str, Any], cure: str) -> None:
        self._plain = plain
        self._cure = cure

    def _refuse(self) -> NoReturn:
        raise ConfigError(f"{self} was read from a file and is not resolved; {self._cure}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse, and say what to type."""
        self._refuse()

    def __getitem__(self, key: object) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):  # asked for by copy, numpy, inspect
            raise AttributeError(name)
        self._refuse()

    def __str__(self) -> str:
        return _text(self._plain)

    def __repr__(self) -> str:
        return f"<unresolved {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unresolved) and record(self) == record(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "Unresolved":
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        return Unresolved, (self._plain, self._cure)


def record(unresolved: Unresolved) -> dict[str, Any]:
    """Return what was read, so that it can be written again."""
    return copy.deepcopy(unresolved._plain)


def cure(unresolved: Unresolved) -> str:
    """Return what to type so that it resolves."""
    return unresolved._cure


def _text(plain: Mapping[str, Any]) -> str:
    for tag in ("$repr", "$object"):
        if tag in plain:
            return str(plain[tag])
    name = plain.get("$call") or f"partial of {plain.get('$partial')}"
    given = [json.dumps(value, default=str) for value in plain.get("args") or ()]
    given += [f"{k}={json.dumps(v, default=str)}" for k, v in (plain.get("arguments") or {}).items()]
    return f"{name}({', '.join(given)})"


# ---- from objects to names


def name_of(value: object) -> str | None:
    """Return ``module:qualname`` of a class, function, enum member or named constant, else None.

    A name is given only if it leads back to ``value``; classes and functions whose module no longer
    shows them keep theirs. Lambdas and what is defined inside a function have none.
    """
    if isinstance(value, enum.Enum):
        module: Any = type(value).__module__
        name: Any = f"{type(value).__qualname__}.{value.name}"
    else:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return _name_on_top(value)
    if "<" in name:
        return None
    found, on_disk = walk(module, name), f"{module_on_disk(module, name)}:{name}"
    if found is NOTHING:
        return on_disk if isinstance(value, (type, types.FunctionType)) else _name_on_top(value)
    same = found is value or (isinstance(value, types.MethodType) and found == value)  # made anew at each access
    return on_disk if same else _name_on_top(value)


#: modules that were a script when the run began whose files name them, and what they were called then
known_as: dict[str, str] = {}


@contextlib.contextmanager
def as_main(modules: Iterable[str]) -> Iterator[None]:
    """Scope in which files know modules as the script that runs."""
    added = {module: "__main__" for module in modules if module not in known_as}
    known_as.update(added)
    try:
        yield
    finally:
        for module in added:
            known_as.pop(module, None)


def module_on_disk(module: str, name: str = "") -> str:
    """Return the module under which files know a name of a module of delira, wherever that lies today."""
    module = known_as.get(module, module)
    known = _ON_DISK.get(f"{module}:{name.partition('.')[0]}") or _ON_DISK.get(module, module)
    if known.startswith(_CALLBACKS):
        return _CALLBACKS_ON_DISK + known.removeprefix(_CALLBACKS)
    return known


def module_today(module: str, name: str) -> str:
    """Return the module that has what files know by this module and name: the other way round."""
    for place in _places(module):
        today, _, moved = place.partition(":")
        if place != module and moved in ("", name.partition(".")[0]):
            return today
    return module


def class_on_disk(cls: type) -> str:
    """Return ``module:qualname`` of a class, as files know it."""
    return f"{module_on_disk(cls.__module__, cls.__qualname__)}:{cls.__qualname__}"


def _name_on_top(value: object) -> str | None:
    """Find ``torch.relu`` or ``torch.float32``, which do not know their module, by their package."""
    owner = getattr(value, "__self__", None)
    homes = [getattr(each, "__module__", None) for each in (value, type(value), owner, type(owner))]
    name = getattr(value, "__name__", None)
    if not isinstance(name, str) and re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+", text := safe_repr(value)):
        name = text.rpartition(".")[2]
    if isinstance(name, str):
        for package in (home.partition(".")[0] for home in homes if isinstance(home, str)):
            if walk(package, name) is value:
                return f"{package}:{name}"
    return None


def walk(module: str, qualname: str) -> Any:
    """Follow a name through modules that are imported already; NOTHING if it leads nowhere.

    Neither lazy modules nor module-level ``__getattr__`` are triggered: nothing is imported.
    """
    found = (_walk(place.partition(":")[0], qualname) for place in _places(module))
    return next((each for each in found if each is not NOTHING), NOTHING)


def _places(module: str) -> list[str]:
    """Where what files know by this module may be: there, in others as a whole, or single names (``module:name``)."""
    places = [module, *(today for today, before in _ON_DISK.items() if before == module)]
    if module.startswith(_CALLBACKS_ON_DISK):
        places.append(_CALLBACKS + module.removeprefix(_CALLBACKS_ON_DISK))
    return places


def _walk(module: str, qualname: str) -> Any:
    place = sys.modules.get(module, NOTHING)
    for name in qualname.split("."):
        if issubclass(type(place), types.ModuleType):
            place = object.__getattribute__(place, "__dict__").get(name, NOTHING)
        elif isinstance(place, type) and inspect.getattr_static(place, name, NOTHING) is not NOTHING:
            place = getattr(place, name, NOTHING)
        else:
            return NOTHING
    return place


def constructor_arguments(value: object) -> dict[str, Any] | None:
    """Read the arguments that ``value`` was made with from its attributes of the same names.

    None if one of them cannot be read, or if the constructor takes arguments without names and the object has kept
    anything: what is made with a default in place of an argument is another object.
    """
    read = _read_arguments(value)
    return None if read is None or read[1] else read[0]


def forgets(value: object) -> bool:
    """Return True if an object has kept some of its arguments, and not all."""
    read = _read_arguments(value)
    return read is not None and bool(read[1])


def parameter_names(value: object) -> frozenset[str]:
    """Names of what the constructor of an object takes; empty if nobody knows."""
    try:
        return frozenset(inspect.signature(type(value)).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _read_arguments(value: object) -> tuple[dict[str, Any], list[str]] | None:
    """The arguments that an object has kept, and the names of those with a default that it has not."""
    init = type(value).__init__
    plain_init = isinstance(init, types.FunctionType)
    try:
        parameters = list(inspect.signature(init if plain_init else type(value)).parameters.values())[plain_init:]
    except (TypeError, ValueError):
        return None
    is_open = all(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters)
    if is_open and getattr(value, "__dict__", None) == {}:  # as callbacks without a constructor of their own
        return {}, []
    arguments: dict[str, Any] = {}
    lacking = []
    n_read = 0
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            return None
        read = _attribute(value, parameter.name)
        n_read += read is not NOTHING
        if parameter.kind is parameter.VAR_KEYWORD:
            if not isinstance(read, Mapping):
                return None
            arguments.update(read)
        elif read is not NOTHING:
            arguments[parameter.name] = read
        elif parameter.default is parameter.empty:
            return None
        elif not _is_said_otherwise(value, parameter.name):
            lacking.append(parameter.name)
    lacking = [name for name in lacking if name not in arguments]
    return (arguments, lacking) if n_read or not parameters else None


def _is_said_otherwise(value: object, name: str) -> bool:
    """Return True for arguments of a framework's own constructors that change nothing that other ones do not say."""
    module = str(getattr(type(value).__init__, "__module__", ""))
    words = next((each for package, each in SAID_OTHERWISE.items() if module.startswith(f"{package}.")), None)
    if words is not None and name == "dtype":  # of weights
        return str(getattr(getattr(value, "weight", None), "dtype", USUAL_WEIGHTS)) == USUAL_WEIGHTS
    return words is not None and name in words


def _told_by(value: object) -> Mapping[str, Any]:
    """Arguments that objects of a framework tell when they are asked, or have kept for their functions."""
    if not any(each.__module__.partition(".")[0] == TELLING for each in type(value).__mro__):
        return {}
    config = value.get_config() if hasattr(value, "get_config") else {}
    return {**config, **(getattr(value, "_fn_kwargs", None) or {})}


def _attribute(value: object, name: str) -> Any:
    try:
        kept = _told_by(value)
        found = kept[name] if name in kept and not hasattr(value, name) else getattr(value, name)
    except Exception:  # a property may raise anything; then the argument cannot be read
        return NOTHING
    return NOTHING if getattr(found, "__self__", None) is value else found  # a method is no argument


def safe_repr(value: object) -> str:
    """``repr`` without addresses, and short: what is beyond 1,000 characters is a checksum."""
    try:
        text = repr(value)
    except Exception as error:  # a broken __repr__ must not lose the run
        text = f"<{type(value).__module__}.{type(value).__qualname__} whose repr raises {type(error).__name__}>"
    text = strip_addresses(text)
    if len(text) <= 1000:
        return text
    return f"{text[:1000]}... sha256 {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"


def strip_addresses(text: str) -> str:
    """Leave memory addresses out, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


# ---- from names to objects


class Vouched(dict[str, Any]):
    """Objects that a file from elsewhere is read with: of what else is imported, it finds what does no harm.

    Parameters
    ----------
    objects
        By the names that files use.
    may_be_named
        Whether it may have another object that it names.
    """

    def __init__(self, objects: Mapping[str, Any], may_be_named: Callable[[Any], bool]) -> None:
        super().__init__(objects)
        self.may_be_named = may_be_named


def vouched(name: str, objects: Mapping[str, Any] | None) -> Any:
    """Look ``module:qualname`` up in what the user gave: in full, without the module, or by the last name."""
    qualname = name.partition(":")[2]
    for key in (name, qualname, qualname.rpartition(".")[2]):
        if key and objects and key in objects:
            return objects[key]
    return NOTHING


def find(name: str, objects: Mapping[str, Any] | None) -> Any:
    """Find an object by name: in ``objects``, else among what is imported already; else NOTHING."""
    if (value := vouched(name, objects)) is not NOTHING:
        return value
    module, _, qualname = name.partition(":")
    value = walk(module, qualname)
    if isinstance(objects, Vouched) and value is not NOTHING and not objects.may_be_named(value):
        return NOTHING
    # nothing that would not have been written by name: a hostile file gets no dictionaries of modules
    return value if value is not NOTHING and name_of(value) else NOTHING
