"""Names of classes, functions and objects on disk, and what stands for them until they are known."""

import copy
import enum
import hashlib
import inspect
import json
import re
import sys
import types
from collections.abc import Mapping
from typing import Any, NoReturn

from delira.errors import ConfigError

NOTHING: Any = object()

#: where a module, or a name of one, lies today -> the module that files on disk know it by, since runs go on for longer
#: than modules stay where they are
_ON_DISK = {
    "delira.backends.jax.arrays:convert_jax_array_to_npy": "delira.backends.jax.values",
    "delira.backends.jax.checkpoints:load_checkpoint_jax": "delira.backends.jax.io",
    "delira.backends.jax.checkpoints:save_checkpoint_jax": "delira.backends.jax.io",
    "delira.backends.jax.networks.ready": "delira.backends.jax.networks.classification",
    "delira.backends.jax.networks.ready:GenerativeAdversarialNetworkBaseJax": "delira.backends.jax.networks.gan",
    "delira.backends.jax.networks.ready:UNet2dJax": "delira.backends.jax.networks.segmentation",
    "delira.backends.jax.networks.ready:UNet3dJax": "delira.backends.jax.networks.segmentation",
    "delira.backends.jax.networks.ready:VariationalAutoencoderJax": "delira.backends.jax.networks.vae",
    "delira.backends.jax.optimizers:create_optims_default_jax": "delira.backends.jax.building",
    "delira.backends.jax.optimizers:create_optims_gan_default_jax": "delira.backends.jax.building",
    "delira.backends.tensorflow.arrays:convert_tf_tensor_to_npy": "delira.backends.tensorflow.values",
    "delira.backends.tensorflow.checkpoints:load_checkpoint_tf": "delira.backends.tensorflow.io",
    "delira.backends.tensorflow.checkpoints:save_checkpoint_tf": "delira.backends.tensorflow.io",
    "delira.backends.tensorflow.networks.ready": "delira.backends.tensorflow.networks.classification",
    "delira.backends.tensorflow.networks.ready:GenerativeAdversarialNetworkBaseTf": "delira.backends.tensorflow.networks.gan",  # noqa: E501
    "delira.backends.tensorflow.networks.ready:UNet2dTf": "delira.backends.tensorflow.networks.segmentation",
    "delira.backends.tensorflow.networks.ready:UNet3dTf": "delira.backends.tensorflow.networks.segmentation",
    "delira.backends.tensorflow.networks.ready:VariationalAutoencoderTf": "delira.backends.tensorflow.networks.vae",
    "delira.backends.tensorflow.optimizers:create_optims_default_tf": "delira.backends.tensorflow.builders",
    "delira.backends.tensorflow.optimizers:create_optims_gan_default_tf": "delira.backends.tensorflow.builders",
    "delira.backends.torch.arrays:convert_torch_tensor_to_npy": "delira.backends.torch.values",
    "delira.backends.torch.checkpoints:load_checkpoint_torch": "delira.backends.torch.io",
    "delira.backends.torch.checkpoints:save_checkpoint_torch": "delira.backends.torch.io",
    "delira.backends.torch.networks.ready": "delira.backends.torch.networks.classification",
    "delira.backends.torch.networks.ready:GenerativeAdversarialNetworkBasePyTorch": "delira.backends.torch.networks.gan",  # noqa: E501
    "delira.backends.torch.networks.ready:UNet2dPyTorch": "delira.backends.torch.networks.segmentation",
    "delira.backends.torch.networks.ready:UNet3dPyTorch": "delira.backends.torch.networks.segmentation",
    "delira.backends.torch.networks.ready:VariationalAutoencoderPyTorch": "delira.backends.torch.networks.vae",
    "delira.backends.torch.optimizers:create_optims_default_pytorch": "delira.backends.torch.building",
    "delira.backends.torch.optimizers:create_optims_gan_default_pytorch": "delira.backends.torch.building",
    "delira.data_loading.array_dataset:WrappedDataset": "delira.data_loading.wrapped_dataset",
    "delira.data_loading.dataset:BlankDataset": "delira.data_loading.blank_dataset",
    "delira.data_loading.dataset:ConcatDataset": "delira.data_loading.concat_dataset",
    "delira.data_loading.dataset:TorchvisionClassificationDataset": "delira.data_loading.torchvision_dataset",
    "delira.data_loading.file_dataset:Nii3DCacheDataset": "delira.data_loading.nifti_dataset",
    "delira.data_loading.file_dataset:Nii3DLazyDataset": "delira.data_loading.nifti_dataset",
    "delira.data_loading.sampler.by_class": "delira.data_loading.sampler.prevalence",
    "delira.data_loading.sampler.by_class:GroupRandomSampler": "delira.data_loading.sampler.group",
    "delira.data_loading.sampler.by_class:WeightedPrevalenceRandomSampler": "delira.data_loading.sampler.weighted",
    "delira.data_loading.sampler.by_class:WeightedRandomSampler": "delira.data_loading.sampler.weighted",
    "delira.data_loading.sampler.orders": "delira.data_loading.sampler.random",
    "delira.data_loading.sampler.orders:AbstractSampler": "delira.data_loading.sampler.abstract_sampler",
    "delira.data_loading.sampler.orders:BatchSampler": "delira.data_loading.sampler.batch",
    "delira.data_loading.sampler.orders:LambdaSampler": "delira.data_loading.sampler.lambda_sampler",
    "delira.data_loading.sampler.orders:SequentialSampler": "delira.data_loading.sampler.sequential",
    "delira.data_loading.transforms:FittedPreprocessing": "delira.data_loading.preprocessing",
    "delira.data_loading.workers.pool:WorkerSettings": "delira.data_loading.workers.settings",
    "delira.experiments.experiment": "delira.training.base_experiment",
    "delira.experiments.parameters": "delira.training.parameters",
    "delira.experiments.preprocessing": "delira.training.preprocessing",
    "delira.experiments.result": "delira.training.result",
    "delira.io.container:verify_zip": "delira.io.verify",
    "delira.io.export:load_weights": "delira.io.weights",
    "delira.io.export:save_weights": "delira.io.weights",
    "delira.logging.handlers:ImgSaveHandler": "delira.logging.image_files",
    "delira.logging.handlers:MessageFileHandler": "delira.logging.message_file",
    "delira.logging.logger:LoggingContext": "delira.logging.contexts",
    "delira.logging.logger:close_logger": "delira.logging.contexts",
    "delira.logging.logger:get_logger": "delira.logging.contexts",
    "delira.logging.logger:log": "delira.logging.contexts",
    "delira.logging.logger:make_logger": "delira.logging.contexts",
    "delira.logging.trackers:TensorboardXLoggingHandler": "delira.logging.tensorboard",
    "delira.logging.trackers:TrixiHandler": "delira.logging.trixi_handler",
    "delira.logging.writers:VisdomImageHandler": "delira.logging.visdom_handlers",
    "delira.logging.writers:VisdomImageSaveHandler": "delira.logging.visdom_handlers",
    "delira.logging.writers:VisdomImageSaveStreamHandler": "delira.logging.visdom_handlers",
    "delira.logging.writers:VisdomLoggingHandler": "delira.logging.visdom_handlers",
    "delira.logging.writers:VisdomStreamHandler": "delira.logging.visdom_handlers",
    "delira.metrics.tree.accuracies:MeanAbsoluteError": "delira.metrics.tree.regression",
    "delira.metrics.tree.accuracies:MeanSquaredError": "delira.metrics.tree.regression",
    "delira.metrics.tree.accuracies:RootMeanSquaredError": "delira.metrics.tree.regression",
    "delira.metrics.tree.aggregators:RunningMean": "delira.metrics.tree.running",
    "delira.metrics.tree.aggregators:RunningMetric": "delira.metrics.tree.running",
    "delira.metrics.tree.hanging:BatchLambda": "delira.metrics.tree.roots",
    "delira.metrics.tree.hanging:EpochLambda": "delira.metrics.tree.lambdas",
    "delira.metrics.tree.hanging:KeyMetric": "delira.metrics.tree.roots",
    "delira.metrics.tree.hanging:StateLambda": "delira.metrics.tree.roots",
    "delira.metrics.tree.hanging:default_for_key": "delira.metrics.tree.registry",
    "delira.metrics.tree.hanging:known_keys": "delira.metrics.tree.registry",
    "delira.metrics.tree.hanging:lambda_metric": "delira.metrics.tree.lambdas",
    "delira.metrics.tree.metric_list:Epoch": "delira.metrics.tree.basics",
    "delira.metrics.tree.metric_list:LR": "delira.metrics.tree.basics",
    "delira.metrics.tree.metric_list:Loss": "delira.metrics.tree.basics",
    "delira.models.weights:transfer_weights": "delira.models.transfer",
    "delira.utils.files:open_regular": "delira.utils.foreign",
    "delira.runs.results": "delira.training.result",
    "delira.settings.config": "delira.training.config",
    "delira.settings.signatures": "delira.training.signatures",
    "delira.callbacks.abstract_callback:Callback": "delira.training.callbacks.hooks",
    "delira.callbacks.monitor:EarlyStopping": "delira.training.callbacks.early_stopping",
    "delira.callbacks.monitor:TerminateOnNaN": "delira.training.callbacks.terminate_on_nan",
    "delira.callbacks.history:CSVLogger": "delira.training.callbacks.csv_logger",
    "delira.callbacks.imaging.callback:CachingImagingCallback": "delira.training.callbacks.imaging.caching",
    "delira.callbacks.imaging.callback:MakeGrid": "delira.training.callbacks.imaging.caching",
    "delira.callbacks.initialisers:LsuvInit": "delira.training.callbacks.lsuv",
    "delira.callbacks.mixing.images": "delira.training.callbacks.mixing.erasing",
    "delira.callbacks.mixing.images:BCPlus": "delira.training.callbacks.mixing.between_class",
    "delira.callbacks.mixing.images:bc_loss": "delira.training.callbacks.mixing.between_class",
    "delira.callbacks.mixing.mixed:LabelSmoothingRegularisation": "delira.training.callbacks.mixing.smoothing",
    "delira.callbacks.mixing.mixed:MixedTargets": "delira.training.callbacks.mixing.batches",
    "delira.callbacks.mixing.mixup:ManifoldMixup": "delira.training.callbacks.mixing.manifold",
    "delira.callbacks.progress:ConsolePrinter": "delira.training.callbacks.printers",
    "delira.callbacks.progress:Tqdm": "delira.training.callbacks.printers",
    "delira.callbacks.weights:ExponentialMovingAverage": "delira.training.callbacks.weight_average",
    "delira.callbacks.weights:FreezeUnfreeze": "delira.training.callbacks.freezing",
    "delira.callbacks.weights:GradientClipping": "delira.training.callbacks.gradient_clipping",
    "delira.callbacks.weights:GradientNormClipping": "delira.training.callbacks.gradient_clipping",
    "delira.callbacks.weights:L1WeightDecay": "delira.training.callbacks.weight_decay",
    "delira.callbacks.weights:L2WeightDecay": "delira.training.callbacks.weight_decay",
    "delira.callbacks.weights:SWA": "delira.training.callbacks.swa",
    "delira.callbacks.weights:WeightDecay": "delira.training.callbacks.weight_decay",
    "delira.callbacks.schedules.for_all": "delira.training.callbacks.schedules",
    "delira.callbacks.schedules.for_all:CyclicLR": "delira.training.callbacks.cycles",
    "delira.callbacks.schedules.for_all:OneCycleLR": "delira.training.callbacks.cycles",
    "delira.callbacks.schedules.for_all:WarmupCosine": "delira.training.callbacks.cycles",
    "delira.callbacks.schedules.rates:OptimizerSchedule": "delira.training.callbacks.schedules.schedule",
    "delira.callbacks.tensorboard:AbstractTensorBoard": "delira.training.callbacks.tensorboard_base",
    "delira.callbacks.tensorboard:TensorBoard": "delira.training.callbacks.tensorboard_scalars",
    "delira.callbacks.tensorboard:TensorBoardText": "delira.training.callbacks.tensorboard_text",
    "delira.callbacks.tensorboard_images:TensorBoardProjector": "delira.training.callbacks.tensorboard_projector",
    "delira.training.finders": "delira.training.finders.learning_rate",
    "delira.training.finders:find_batch_size": "delira.training.finders.batch_size",
    "delira.training.run:TrainingState": "delira.training.state",
    "delira.testing.toy.backend:ToySGD": "delira.testing.toy.optimizers",
    "delira.training.trainer": "delira.training.base_trainer",
    "delira.trial.bridge": "delira.training.trial.bridge",
    "delira.trial.class_appearance": "delira.training.callbacks.imaging.appearance",
    "delira.trial.closures": "delira.training.trial.closures",
    "delira.trial.data:deep_to": "delira.training.trial.moving",
    "delira.trial.trial": "delira.training.trial.trial",
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


def module_on_disk(module: str, name: str = "") -> str:
    """Return the module under which files know a name of a module of delira, wherever that lies today."""
    known = _ON_DISK.get(f"{module}:{name.partition('.')[0]}") or _ON_DISK.get(module, module)
    if known.startswith(_CALLBACKS):
        return _CALLBACKS_ON_DISK + known.removeprefix(_CALLBACKS)
    return known


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
    places = [module, *(today.partition(":")[0] for today, before in _ON_DISK.items() if before == module)]
    if module.startswith(_CALLBACKS_ON_DISK):
        places.append(_CALLBACKS + module.removeprefix(_CALLBACKS_ON_DISK))
    found = (_walk(place, qualname) for place in places)
    return next((each for each in found if each is not NOTHING), NOTHING)


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

    An attribute that is missing counts as the default. None if an argument without default cannot be read,
    if none of several can, or if the constructor takes arguments without names.
    """
    init = type(value).__init__
    plain_init = isinstance(init, types.FunctionType)
    try:
        parameters = list(inspect.signature(init if plain_init else type(value)).parameters.values())[plain_init:]
    except (TypeError, ValueError):
        return None
    arguments: dict[str, Any] = {}
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
    return arguments if n_read or not parameters else None


def _attribute(value: object, name: str) -> Any:
    try:
        found = getattr(value, name)
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
    # nothing that would not have been written by name: a hostile file gets no dictionaries of modules
    return value if value is not NOTHING and name_of(value) else NOTHING
