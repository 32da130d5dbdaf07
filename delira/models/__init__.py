"""Networks: the base class of all rooms, and what each room shows."""

from typing import TYPE_CHECKING

from delira.models.abstract_network import AbstractNetwork
from delira.models.transfer import transfer_weights
from delira.models.weights import load_named_weights, named_weights
from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
    from delira.backends.jax import AbstractJaxNetwork as AbstractJaxNetwork
    from delira.backends.sklearn import SklearnEstimator as SklearnEstimator
    from delira.backends.tensorflow import AbstractTfNetwork as AbstractTfNetwork
    from delira.backends.torch import AbstractPyTorchNetwork as AbstractPyTorchNetwork
    from delira.backends.torch import ClassificationNetworkBasePyTorch as ClassificationNetworkBasePyTorch
    from delira.backends.torch import GenerativeAdversarialNetworkBasePyTorch as GenerativeAdversarialNetworkBasePyTorch
    from delira.backends.torch import RegressionNetworkBasePyTorch as RegressionNetworkBasePyTorch
    from delira.backends.torch import UNet2dPyTorch as UNet2dPyTorch
    from delira.backends.torch import UNet3dPyTorch as UNet3dPyTorch
    from delira.backends.torch import VariationalAutoencoderPyTorch as VariationalAutoencoderPyTorch
    from delira.backends.torch import VGG3DClassificationNetworkPyTorch as VGG3DClassificationNetworkPyTorch
    from delira.backends.torchscript import AbstractTorchScriptNetwork as AbstractTorchScriptNetwork

__all__ = ["AbstractNetwork", "load_named_weights", "named_weights", "transfer_weights"]

__getattr__, __dir__ = lazy_names(__name__)
