"""The table of backends: which backend needs which package and provides which public names.

Adding a backend to delira is one folder in ``delira/backends`` and one entry in each table; ``docs/design.md`` lists
what goes with it. A backend of one's own needs no entry anywhere (``docs/own_backend.md``).
"""

import importlib.util

#: backend -> package that must be installed for it
FRAMEWORKS = {"torch": "torch", "torchscript": "torch", "sklearn": "sklearn", "tensorflow": "tensorflow", "jax": "flax"}

#: backend -> all packages that it needs, the first one with the devices
PACKAGES = {
    "torch": ("torch",),
    "torchscript": ("torch",),
    "tensorflow": ("tensorflow", "keras"),
    "jax": ("jax", "flax", "optax"),
    "sklearn": ("sklearn", "skops"),
}

#: packages in which frameworks define their networks, losses, optimizers and arrays
LIBRARIES = frozenset({"torch", "tensorflow", "keras", "jax", "jaxlib", "flax", "optax"})
#: those of them in which functions and classes are written: a function of the user's that JAX compiled is of jaxlib
WRITTEN_IN = LIBRARIES - {"jaxlib"}
#: package and name of the classes that networks are of
NETWORKS = {("torch", "Module"), ("keras", "Layer"), ("flax", "Module")}
#: the same of all that a training is made of by class and arguments
KINDS = NETWORKS | {
    ("torch", "Optimizer"), ("torch", "LRScheduler"), ("keras", "BaseOptimizer"), ("keras", "LearningRateSchedule"),
    ("keras", "Loss"), ("keras", "Metric"), ("flax", "Metric"), ("sklearn", "BaseEstimator"),
}  # fmt: skip

#: functions of the frameworks themselves that networks take as what is between their layers
ELEMENTWISE = {
    f"{module}:{name}"
    for module in ("torch", "jax.numpy")
    for name in ("relu", "tanh", "sigmoid", "softmax", "selu", "celu", "rrelu", "sin", "cos", "exp", "abs", "square")
}
#: package and name of the networks whose weights, buffers and layers are attributes of their own
MODULE = ("torch", "Module")
#: modules of frameworks and of delira whose functions read no file and run no code that they are given as text
COMPUTE = (
    "torch.nn.functional", "torch._C._nn", "torch.nn.init", "optax", "jax.nn", "jax._src.nn", "keras.src.losses",
    "keras.src.metrics", "keras.src.activations", "keras.src.ops", "sklearn.metrics",
    "delira.metrics", "delira.callbacks.mixing", "delira.testing.toy", "delira.backends.torch.arrays",
    "delira.backends.torch.optimizers", "delira.backends.tensorflow.arrays", "delira.backends.tensorflow.optimizers",
    "delira.backends.jax.arrays", "delira.backends.jax.optimizers",
)  # fmt: skip
#: what the names of those among them begin with that make any object of what they are told of it
MAKERS = ("get", "deserialize")
#: package whose constructors take words that need no attribute: older ones for what another one says as well, and
#: where weights lie
SAID_OTHERWISE = {"torch.nn": {"size_average", "reduce", "min_value", "max_value", "device"}}
#: type of weights where nobody says another one
USUAL_WEIGHTS = "torch.float32"
#: package whose losses, metrics and schedules tell their arguments by ``get_config``
TELLING = "keras"

#: endings of the names of classes that frameworks have alike
ENDINGS = ("PyTorch", "Tf", "Jax")

#: endings of checkpoints that need their framework to be read, the longest first -> backend
CHECKPOINTS = {"_trainer_state.pt": "torchscript", ".pt": "torch"}

#: packages, as pip knows them, whose versions tell what a backend computed with
DISTRIBUTIONS = ("torch", "tensorflow", "tensorflow-cpu", "keras", "jax", "flax", "optax")
#: package as it is imported -> what pip knows it as, where that is something else
_DISTRIBUTED_AS = {"sklearn": ("scikit-learn",), "tensorflow": ("tensorflow", "tensorflow-cpu")}
#: what is imported first, before the second, where the third is installed: both bring a LLVM of their own, and
#: triton's, loaded after TensorFlow's, is a segmentation fault
IMPORT_ORDER = ("triton", "tensorflow", "torch")
#: backends, the one that is shown first where nobody names one; scikit-learn is there with delira itself, what stores
#: its networks is not
PREFERRED = ("torch", "jax", "tensorflow", "sklearn", "torchscript")


def distributions_of(backend: str) -> list[str]:
    """Packages, as pip knows them, that a backend computes with; of one of the user's own those of all.

    Parameters
    ----------
    backend
        Its name.
    """
    if backend not in PACKAGES:
        return [*DISTRIBUTIONS]
    return [name for package in PACKAGES[backend] for name in _DISTRIBUTED_AS.get(package, (package,))]


def framework_of(value: object) -> str | None:
    """The backend of the package that the class of an object, or one of its bases, is from; None of any other.

    Parameters
    ----------
    value
        A module, a callback, whatever frameworks have.
    """
    packages = [parent.__module__.partition(".")[0] for parent in type(value).__mro__]
    found = (name for package in packages for name, needed in PACKAGES.items() if package in needed)
    return next(found, None)


#: backend -> public package (below ``delira``) -> module of the backend -> names that are defined there and shown in
#: both: the one statement of them
_SHOWN: dict[str, dict[str, dict[str, list[str]]]] = {
    "torch": {
        "models": {
            "network": ["AbstractPyTorchNetwork"],
            "networks.ready": [
                "ClassificationNetworkBasePyTorch",
                "GenerativeAdversarialNetworkBasePyTorch",
                "MultilayerPerceptronPyTorch",
                "RegressionNetworkBasePyTorch",
                "ResidualUNet2dPyTorch",
                "ResidualUNet3dPyTorch",
                "UNet2dPyTorch",
                "UNet3dPyTorch",
                "VGG3DClassificationNetworkPyTorch",
                "VariationalAutoencoderPyTorch",
            ],
        },
        "training": {
            "training": [
                "PyTorchExperiment",
                "PyTorchNetworkTrainer",
            ],
            "arrays": ["convert_torch_tensor_to_npy"],
            "optimizers": [
                "create_optims_default_pytorch",
                "create_optims_gan_default_pytorch",
            ],
        },
        "callbacks": {
            "schedules": [
                "CosineAnnealingLRCallbackPyTorch",
                "DefaultPyTorchSchedulerCallback",
                "ExponentialLRCallbackPyTorch",
                "LambdaLRCallbackPyTorch",
                "MultiStepLRCallbackPyTorch",
                "OneCycleLRCallbackPyTorch",
                "ReduceLROnPlateauCallbackPyTorch",
                "StepLRCallbackPyTorch",
                "TorchSchedulerCallback",
            ],
        },
        "training.losses": {
            "losses": [
                "BCEFocalLossLogitPyTorch",
                "BCEFocalLossPyTorch",
                "DiceCELossPyTorch",
                "DiceLossPyTorch",
                "TverskyLossPyTorch",
            ],
        },
        "io": {
            "checkpoints": [
                "load_checkpoint_torch",
                "save_checkpoint_torch",
                "torch_load_checkpoint",
                "torch_save_checkpoint",
            ],
        },
    },
    "torchscript": {
        "models": {
            "network": ["AbstractTorchScriptNetwork"],
            "networks": [
                "ClassificationNetworkBaseTorchScript",
                "GenerativeAdversarialNetworkBaseTorchScript",
                "MultilayerPerceptronTorchScript",
                "RegressionNetworkBaseTorchScript",
                "ResidualUNet2dTorchScript",
                "ResidualUNet3dTorchScript",
                "UNet2dTorchScript",
                "UNet3dTorchScript",
                "VGG3DClassificationNetworkTorchScript",
                "VariationalAutoencoderTorchScript",
            ],
        },
        "training": {
            "training": [
                "TorchScriptExperiment",
                "TorchScriptNetworkTrainer",
            ],
        },
        "io": {
            "io": [
                "load_checkpoint_torchscript",
                "save_checkpoint_torchscript",
            ],
        },
    },
    "sklearn": {
        "models": {
            "network": ["SklearnEstimator"],
        },
        "training": {
            "training": [
                "SklearnExperiment",
                "SklearnNetworkTrainer",
            ],
        },
        "io": {
            "network": [
                "load_checkpoint_sklearn",
                "save_checkpoint_sklearn",
            ],
        },
    },
    "tensorflow": {
        "models": {
            "network": ["AbstractTfNetwork"],
            "networks.ready": [
                "ClassificationNetworkBaseTf",
                "GenerativeAdversarialNetworkBaseTf",
                "MultilayerPerceptronTf",
                "RegressionNetworkBaseTf",
                "ResidualUNet2dTf",
                "ResidualUNet3dTf",
                "UNet2dTf",
                "UNet3dTf",
                "VGG3DClassificationNetworkTf",
                "VariationalAutoencoderTf",
            ],
        },
        "training": {
            "training": [
                "TfExperiment",
                "TfNetworkTrainer",
            ],
            "arrays": ["convert_tf_tensor_to_npy"],
            "optimizers": [
                "create_optims_default_tf",
                "create_optims_gan_default_tf",
            ],
        },
        "callbacks": {
            "schedules": [
                "CosineAnnealingLRCallbackTf",
                "DefaultTfSchedulerCallback",
                "ExponentialLRCallbackTf",
                "LambdaLRCallbackTf",
                "MultiStepLRCallbackTf",
                "OneCycleLRCallbackTf",
                "ReduceLROnPlateauCallbackTf",
                "StepLRCallbackTf",
                "TfSchedulerCallback",
            ],
        },
        "training.losses": {
            "losses": [
                "BCEFocalLossLogitTf",
                "BCEFocalLossTf",
                "DiceCELossTf",
                "DiceLossTf",
                "TverskyLossTf",
            ],
        },
        "io": {
            "checkpoints": [
                "load_checkpoint_tf",
                "save_checkpoint_tf",
                "tf_load_checkpoint",
                "tf_save_checkpoint",
            ],
        },
    },
    "jax": {
        "models": {
            "network": ["AbstractJaxNetwork"],
            "networks.ready": [
                "ClassificationNetworkBaseJax",
                "GenerativeAdversarialNetworkBaseJax",
                "MultilayerPerceptronJax",
                "RegressionNetworkBaseJax",
                "ResidualUNet2dJax",
                "ResidualUNet3dJax",
                "UNet2dJax",
                "UNet3dJax",
                "VGG3DClassificationNetworkJax",
                "VariationalAutoencoderJax",
            ],
        },
        "training": {
            "training": [
                "JaxExperiment",
                "JaxNetworkTrainer",
            ],
            "arrays": ["convert_jax_array_to_npy"],
            "optimizers": [
                "JaxOptimizer",
                "create_optims_default_jax",
                "create_optims_gan_default_jax",
            ],
        },
        "callbacks": {
            "schedules": [
                "CosineAnnealingLRCallbackJax",
                "DefaultJaxSchedulerCallback",
                "ExponentialLRCallbackJax",
                "LambdaLRCallbackJax",
                "MultiStepLRCallbackJax",
                "OneCycleLRCallbackJax",
                "OptaxScheduleCallbackJax",
                "ReduceLROnPlateauCallbackJax",
                "StepLRCallbackJax",
            ],
        },
        "training.losses": {
            "losses": [
                "BCEFocalLossJax",
                "BCEFocalLossLogitJax",
                "DiceCELossJax",
                "DiceLossJax",
                "TverskyLossJax",
            ],
        },
        "io": {
            "checkpoints": [
                "load_checkpoint_jax",
                "save_checkpoint_jax",
            ],
        },
    },
}


def _names_of(shown: dict[str, dict[str, list[str]]]) -> dict[str, list[str]]:
    names = {package: sorted(name for some in homes.values() for name in some) for package, homes in shown.items()}
    return {**names, "training.train_utils": [name for name in names["training"] if name.islower()]}


#: backend -> public package -> names that are shown there; the functions of ``training`` have a historic path, too
NAMES = {backend: _names_of(shown) for backend, shown in _SHOWN.items()}
#: name -> the module that defines it (below ``delira.backends``)
_HOMES = {
    name: f"{backend}.{home}"
    for backend, shown in _SHOWN.items()
    for homes in shown.values()
    for home, names in homes.items()
    for name in names
}


def homes_in(package: str) -> dict[str, str]:
    """Names that a package below ``delira.backends`` shows -> the modules of it that they come from."""
    inside = f"{package.removeprefix('delira.backends.')}."
    found = {name: home.removeprefix(inside) for name, home in _HOMES.items() if home.startswith(inside)}
    return {name: f"{package}.{home.split('.')[0]}" for name, home in found.items()}


def installed_backends() -> tuple[str, ...]:
    """Backends whose package is installed; nothing is imported to find out."""
    return tuple(backend for backend, package in FRAMEWORKS.items() if importlib.util.find_spec(package))


#: names that backends had
_ONCE = {"TF": "TENSORFLOW", "TFEAGER": "TENSORFLOW"}


class Backends(tuple[str, ...]):
    """Names of backends; those that they had are in it, too."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return super().__contains__(_ONCE.get(name, name) if isinstance(name, str) else name)


def get_backends() -> tuple[str, ...]:
    """Upper-case names of the backends whose package is installed, e.g. ``("TORCH",)``.

    ``"TF" in get_backends()`` is the older spelling of ``"TENSORFLOW" in get_backends()``.
    """
    return Backends(backend.upper() for backend in installed_backends())
