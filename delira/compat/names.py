"""The one table of old names: where each is now, and of those that are gone what to type instead."""

import importlib
import sys
import warnings
from types import ModuleType
from typing import Any

#: where something is now -> names that are shown, separated by blanks; ``Old=New``: under another name
Homes = dict[str, str]

_SAMPLER, _TORCH, _TF = "delira.data_loading.sampler", "delira.backends.torch", "delira.backends.tensorflow"
_DATA = "delira.data_loading"
_TORCH_IO = {
    "delira.io": (
        "save_checkpoint=save_checkpoint_torch load_checkpoint=load_checkpoint_torch save_checkpoint_torch"
        " load_checkpoint_torch torch_save_checkpoint torch_load_checkpoint save_checkpoint_torchscript"
        " load_checkpoint_torchscript save_checkpoint_jit=save_checkpoint_torchscript"
        " load_checkpoint_jit=load_checkpoint_torchscript"
    )
}
_TF_IO = {"delira.io": "save_checkpoint=save_checkpoint_tf load_checkpoint=load_checkpoint_tf tf_save_checkpoint "}
_TORCH_TRAINING = {"delira.training": "PyTorchNetworkTrainer PyTorchExperiment"}
_TORCH_UTILS = {
    "delira.training": (
        "convert_to_numpy=convert_torch_tensor_to_npy create_optims_default=create_optims_default_pytorch"
        " create_optims_default_pytorch convert_torch_tensor_to_npy"
    )
}
_SCHEDULES = [
    "ReduceLROnPlateau",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "MultiStepLR",
    "StepLR",
    "OneCycleLR",
]
_SEGMENTATION = {"delira.models": "UNet2dPyTorch UNet3dPyTorch"}
_GAN = {"delira.models": "GenerativeAdversarialNetworkBasePyTorch"}
_CLASSIFICATION = {
    "delira.models": "ClassificationNetworkBasePyTorch VGG3DClassificationNetworkPyTorch ClassificationNetworkBaseTf"
}

#: module of an older version that is no file any more -> what it shows
MODULES: dict[str, Homes] = {
    f"{_DATA}.augmenter": {"delira.compat.data": "Augmenter"},
    f"{_DATA}.numba_transform": {},
    f"{_SAMPLER}.abstract_sampler": {_SAMPLER: "AbstractSampler BatchSampler"},
    f"{_SAMPLER}.lambda_sampler": {_SAMPLER: "LambdaSampler"},
    f"{_SAMPLER}.random_sampler": {
        _SAMPLER: "RandomSampler PrevalenceRandomSampler StoppingPrevalenceRandomSampler RandomSamplerNoReplacement"
        " RandomSamplerWithReplacement"
    },
    f"{_SAMPLER}.sequential_sampler": {
        _SAMPLER: "SequentialSampler PrevalenceSequentialSampler StoppingPrevalenceSequentialSampler"
    },
    f"{_SAMPLER}.weighted_sampler": {
        _SAMPLER: "WeightedRandomSampler WeightedPrevalenceRandomSampler PrevalenceRandomSampler"
    },
    f"{_SAMPLER}.batch_sampler": {_SAMPLER: "BatchSampler"},
    "delira.io.torch": _TORCH_IO,
    "delira.io.tf": _TF_IO,
    "delira.io.sklearn": {
        "delira.io": "save_checkpoint=save_checkpoint_sklearn load_checkpoint=load_checkpoint_sklearn"
    },
    "delira.logging.multistream_handler": {"delira.logging": "MultiStreamHandler MultistreamHandler"},
    "delira.logging.trixi_handler": {"delira.logging": "TrixiHandler TensorboardXLoggingHandler VisdomLoggingHandler"},
    "delira.logging_handlers": {
        "delira.logging": (
            "ImgSaveHandler MultistreamHandler MultiStreamHandler VisdomImageHandler VisdomImageSaveHandler"
            " VisdomImageSaveStreamHandler VisdomStreamHandler"
        )
    },
    "delira.models.classification": _CLASSIFICATION,
    "delira.models.classification.classification_network": _CLASSIFICATION,
    "delira.models.classification.classification_network_3D": _CLASSIFICATION,
    "delira.models.classification.classification_network_tf": _CLASSIFICATION,
    "delira.models.classification.ResNet18": {},
    "delira.models.gan": _GAN,
    "delira.models.gan.generative_adversarial_network": _GAN,
    "delira.models.segmentation": _SEGMENTATION,
    "delira.models.segmentation.unet": _SEGMENTATION,
    "delira.models.backends": {},
    "delira.models.backends.torch": {"delira.models": "AbstractPyTorchNetwork"},
    "delira.models.backends.torchscript": {"delira.models": "AbstractTorchScriptNetwork"},
    "delira.models.backends.tf_eager": {"delira.models": "AbstractTfEagerNetwork=AbstractTfNetwork"},
    "delira.models.backends.tf_graph": {"delira.models": "AbstractTfGraphNetwork=AbstractTfNetwork"},
    "delira.models.backends.sklearn": {"delira.models": "SklearnEstimator"},
    "delira.training.backends": {
        "delira.training": "PyTorchNetworkTrainer PyTorchExperiment TorchScriptNetworkTrainer TorchScriptExperiment"
        " SklearnExperiment SklearnEstimatorTrainer=SklearnNetworkTrainer"
    },
    "delira.training.backends.torch": _TORCH_TRAINING | _TORCH_UTILS,
    "delira.training.backends.torch.utils": _TORCH_UTILS,
    "delira.training.backends.torch.trainer": _TORCH_TRAINING,
    "delira.training.backends.torch.experiment": _TORCH_TRAINING,
    "delira.training.backends.torchscript": {"delira.training": "TorchScriptNetworkTrainer TorchScriptExperiment"},
    "delira.training.backends.sklearn": {
        "delira.training": "SklearnExperiment SklearnEstimatorTrainer=SklearnNetworkTrainer"
    },
    "delira.training.abstract_trainer": {"delira.training": "AbstractNetworkTrainer"},
    "delira.training.experiment": {
        "delira.training": "BaseExperiment AbstractExperiment PyTorchExperiment TfExperiment"
    },
    "delira.training.pytorch_trainer": {"delira.training": "PyTorchNetworkTrainer"},
    "delira.training.pytorch_experiment": {"delira.training": "PyTorchExperiment"},
    "delira.training.tf_trainer": {"delira.training": "TfNetworkTrainer"},
    "delira.training.utils": {
        "delira.training.train_utils": "convert_to_numpy_identity=convert_batch_to_numpy_identity"
    },
    "delira.training.callbacks.abstract_callback": {"delira.callbacks": "AbstractCallback"},
    "delira.training.callbacks.early_stopping": {"delira.callbacks": "EarlyStopping"},
    "delira.training.callbacks.pytorch_schedulers": {
        "delira.callbacks": "DefaultPyTorchSchedulerCallback "
        + " ".join(f"{name}Callback={name}CallbackPyTorch {name}CallbackPyTorch" for name in _SCHEDULES)
    },
    "delira.utils.context_managers": {
        "delira.compat.helpers": "DefaultOptimWrapperTorch DebugMode DebugEnabled DebugDisabled"
    },
    "delira.utils.decorators": {
        "delira.compat.helpers": "dtype_func classtype_func make_deprecated numpy_array_func torch_tensor_func"
        " torch_module_func"
    },
    "delira.utils.imageops": {"delira.compat.helpers": "bounding_box max_energy_slice calculate_origin_offset"},
    "delira.utils.codecs": {"delira.compat.config": "Encoder Decoder"},
    "delira.utils.messenger": {},
    "delira.utils.dict_reductions": {},
    "delira.callbacks.checkpointers": {"delira.callbacks": "ModelCheckpoint MostRecent Best Interval"},
    "delira.callbacks.init": {
        "delira.callbacks": "WeightInit KaimingNormal KaimingUniform XavierNormal XavierUniform ZeroBias LsuvInit LSUV"
    },
    "delira.callbacks.manifold_mixup": {"delira.callbacks": "ManifoldMixup"},
    "delira.callbacks.cutout": {"delira.callbacks": "Cutout RandomErase CutMix"},
    "delira.callbacks.torch_scheduler": {
        "delira.callbacks": "TorchScheduler CyclicLR " + " ".join(_SCHEDULES),
    },
    "delira.cv_utils": {
        "delira.compat.torchbearer": (
            "DatasetValidationSplitter SubsetDataset train_valid_splitter get_train_valid_sets"
        )
    },
    "delira.bases": {
        "delira.callbacks": "Callback",
        "delira.metrics": "Metric",
        "delira.trial.closures": "base_closure standard_closure",
        "delira.compat.torchbearer": "get_metric",
        "torch": "no_grad enable_grad",
    },
    "delira.callbacks.mixup": {"delira.callbacks": "Mixup mixup_loss"},
}

#: module of today -> what it shows besides
FURTHER: dict[str, Homes] = {
    "delira": {
        "delira.callbacks": "Callback",
        "torch": "no_grad enable_grad",
        "delira.trial.closures": "base_closure standard_closure",
        "delira.state": (
            "VERSION MODEL CRITERION OPTIMIZER DEVICE DATA_TYPE METRIC_LIST METRICS SELF EPOCH MAX_EPOCHS DATA"
            " GENERATOR ITERATOR STEPS TRAIN_GENERATOR VALIDATION_GENERATOR TEST_GENERATOR TRAIN_STEPS"
            " VALIDATION_STEPS TEST_STEPS TRAIN_DATA VALIDATION_DATA TEST_DATA INF_TRAIN_LOADING STOP_TRAINING X INPUT"
            " Y_TRUE TARGET Y_PRED PREDICTION SAMPLER LOADER LOSS FINAL_PREDICTIONS BATCH TIMINGS CALLBACK_LIST"
            " HISTORY BACKWARD_ARGS MIXUP_LAMBDA MIXUP_PERMUTATION"
        ),
    },
    _DATA: {
        "delira.compat.data": "Augmenter",
        "delira.data_loading.nii": "BaseLabelGenerator",
        "delira.data_loading.load_utils": "is_valid_image_file",
    },
    f"{_DATA}.data_manager": {"delira.compat.data": "Augmenter", _DATA: "DataManager"},
    "delira.models": {
        "delira.models": "AbstractPyTorchJITNetwork=AbstractTorchScriptNetwork AbstractTfEagerNetwork=AbstractTfNetwork"
        " AbstractTfGraphNetwork=AbstractTfNetwork"
    },
    "delira.models.abstract_network": {"delira.models": "AbstractPyTorchNetwork AbstractTfNetwork"},
    "delira.callbacks.imaging": {"delira.trial.class_appearance": "ClassAppearanceModel"},
    "delira.training": {
        "delira.compat.config": "DeliraConfig",
        "delira.training": (
            "create_pytorch_optims_default=create_optims_default_pytorch"
            " convert_torch_to_numpy=convert_torch_tensor_to_npy pytorch_batch_to_numpy=convert_torch_tensor_to_npy"
            " pytorch_tensor_to_numpy=convert_torch_tensor_to_npy TfEagerExperiment=TfExperiment"
            " TfEagerNetworkTrainer=TfNetworkTrainer TfGraphExperiment=TfExperiment"
            " TfGraphNetworkTrainer=TfNetworkTrainer SklearnEstimatorTrainer=SklearnNetworkTrainer"
        ),
    },
    "delira.training.train_utils": {
        "delira.compat.helpers": "convert_batch_to_numpy_identity float_to_pytorch_tensor",
        "delira.training": "create_optims_default=create_optims_default_pytorch",
    },
    "delira.utils": {
        "delira.compat.helpers": "bounding_box max_energy_slice calculate_origin_offset",
        "delira.compat.config": "Config DeliraConfig",
    },
    "delira.utils.config": {"delira.compat.config": "Config DeliraConfig"},
}

#: modules of today that are reached as attributes of their package, whether somebody has imported them or not
SUBMODULES = {
    "delira.callbacks", "delira.metrics", "delira.state", "delira.trial", "delira.callbacks.imaging",
    "delira.callbacks.decorators",
}  # fmt: skip

_SITK = "SimpleITK.{}; arrays come and go by GetArrayFromImage, GetImageFromArray"
_PLACE = "Resample(image, size, transform, interpolator, origin, spacing, direction)"
_NUMBA = "numba.njit around the function itself; a transform is any function of a batch"
_LOG = "delira.logging.{}"
_RESNET = "keras.applications, or a keras.Model of your own; delira.models has ClassificationNetworkBaseTf"
_MESSENGER = "a callback that posts at at_training_end: delira.callbacks.AbstractCallback"
_HANDLERS = "logging_type='tensorboardx' or 'visdom' of the trainer, or a handler of delira.logging"

_REDUCTIONS = "the setting logging_reductions of the trainer ('mean', 'median', …), or numpy"
_MODEL_PACKAGES = ("delira.models", "delira.models.backends.torch", "delira.models.backends.tf_eager")

#: modules -> names that are gone there -> what to type instead
GONE: dict[tuple[str, ...], dict[str, str]] = {
    ("delira.utils", "delira.utils.imageops"): {
        "sitk_resample_to_spacing": _SITK.format(_PLACE),
        "sitk_resample_to_image": _SITK.format("Resample(image, reference_image, transform, interpolator)"),
        "sitk_resample_to_shape": _SITK.format(_PLACE),
        "sitk_new_blank_image": _SITK.format(
            "Image(size, SimpleITK.sitkFloat64) + value, with SetSpacing, SetOrigin, SetDirection"
        ),
        "sitk_copy_metadata": _SITK.format(
            "Image: target.SetMetaData(key, source.GetMetaData(key)) for each of source.GetMetaDataKeys()"
        ),
    },
    (f"{_DATA}.numba_transform",): dict.fromkeys(("NumbaTransform", "NumbaTransformWrapper", "NumbaCompose"), _NUMBA),
    ("delira.models.classification", "delira.models.classification.ResNet18"): {
        "ResNet18": _RESNET,
        "ResBlock": _RESNET,
        "get_image_format_and_axis": "keras.config.image_data_format()",
    },
    _MODEL_PACKAGES: {
        "DataParallelPyTorchNetwork": "the network itself, and gpu_ids=[0, 1] of the trainer",
        "DataParallelTfEagerNetwork": "the network itself, and gpu_ids=[0, 1] of the trainer",
        "scale_loss": "with optimizers['default'].scale_loss(loss) as scaled: scaled.backward()",
        "AbstractChainerNetwork": "AbstractPyTorchNetwork, AbstractTfNetwork, …; AbstractNetwork for plain Python",
    },
    ("delira.training", "delira.training.metrics", "delira.metrics"): {
        "AurocMetricPyTorch": "delira.metrics.AurocMetric",
        "AccuracyMetricPyTorch": "delira.metrics.accuracy",
    },
    ("delira.training.train_utils",): {
        "initialize_uninitialized": "nothing: variables of TensorFlow 2 have their values when they are made",
    },
    ("delira.utils.messenger",): {"BaseMessenger": _MESSENGER, "SlackMessenger": _MESSENGER},
    ("delira.utils.dict_reductions",): dict.fromkeys(
        ("flatten_dict", "unflatten_dict", "reduce_dict", "get_reduction", "possible_reductions"), _REDUCTIONS
    ),
    ("delira.logging",): {
        "BaseBackend": _HANDLERS,
        "WriterLoggingBackend": _HANDLERS,
        "TensorboardBackend": _LOG.format("TensorboardXLoggingHandler, or logging_type='tensorboardx' of the trainer"),
        "VisdomBackend": _LOG.format("VisdomLoggingHandler, or logging_type='visdom' of the trainer"),
        "Logger": _LOG.format("MessageLogger(name, handlers)"),
        "SingleThreadedLogger": _LOG.format("MessageLogger(name, handlers)"),
        "register_logger": _LOG.format("make_logger(name, …)"),
        "unregister_logger": _LOG.format("close_logger(name)"),
        "logger_exists": _LOG.format("get_logger(name), which says what there is"),
        "get_available_loggers": _LOG.format("get_logger(name), which says what there is"),
    },
    ("delira.callbacks",): {
        "DefaultLoggingCallback": "logging_frequencies=1 of the trainer: losses and metrics of every step",
        "AggregatePredictions": "trial.predict(), which joins predictions itself",
    },
    ("delira",): {"apex_closure": "the setting mixed_precision='fp16' of the trial"},
}


def find(module: str, name: str) -> Any:
    """Return what an old name stands for.

    Parameters
    ----------
    module
        The module in which it was looked for.
    name
        The name.

    Raises
    ------
    ImportError
        If it is gone, with what to type instead.
    AttributeError
        If there never was such a name.
    """
    if f"{module}.{name}" in MODULES or f"{module}.{name}" in SUBMODULES:
        return importlib.import_module(f"{module}.{name}")
    for home, names in {**MODULES.get(module, {}), **FURTHER.get(module, {})}.items():
        for shown, _, real in (entry.partition("=") for entry in names.split()):
            if shown == name:
                if real:
                    warnings.warn(f"{module}.{name} is now {home}.{real}", DeprecationWarning, stacklevel=4)
                return getattr(importlib.import_module(home), real or name)
    for modules, gone in GONE.items():
        if module in modules and name in gone:
            raise ImportError(f"{module}.{name} is gone; use {gone[name]} (docs/migrating.md)", name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class OldModule(ModuleType):
    """A module of an older version: its names are those of others."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return dir(self)
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return find(self.__name__, name)

    def __dir__(self) -> list[str]:
        names = " ".join(MODULES[self.__name__].values()).split()
        return sorted({name.partition("=")[0] for name in names})


def register(package: str) -> None:
    """Let the old modules below a package be imported."""
    for name in MODULES:
        if name.startswith(f"{package}."):
            sys.modules.setdefault(name, OldModule(name, "Shows what is elsewhere now; see delira.compat."))
