"""Networks: the base class of all rooms, and what each room shows."""

from typing import TYPE_CHECKING

from delira.models.abstract_network import AbstractNetwork
from delira.models.transfer import transfer_weights
from delira.models.weights import load_named_weights, named_weights
from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
    from delira.backends.jax import AbstractJaxNetwork as AbstractJaxNetwork
    from delira.backends.jax import ClassificationNetworkBaseJax as ClassificationNetworkBaseJax
    from delira.backends.jax import GenerativeAdversarialNetworkBaseJax as GenerativeAdversarialNetworkBaseJax
    from delira.backends.jax import RegressionNetworkBaseJax as RegressionNetworkBaseJax
    from delira.backends.jax import UNet2dJax as UNet2dJax
    from delira.backends.jax import UNet3dJax as UNet3dJax
    from delira.backends.jax import VariationalAutoencoderJax as VariationalAutoencoderJax
    from delira.backends.jax import VGG3DClassificationNetworkJax as VGG3DClassificationNetworkJax
    from delira.backends.sklearn import SklearnEstimator as SklearnEstimator
    from delira.backends.tensorflow import AbstractTfNetwork as AbstractTfNetwork
    from delira.backends.tensorflow import ClassificationNetworkBaseTf as ClassificationNetworkBaseTf
    from delira.backends.tensorflow import GenerativeAdversarialNetworkBaseTf as GenerativeAdversarialNetworkBaseTf
    from delira.backends.tensorflow import RegressionNetworkBaseTf as RegressionNetworkBaseTf
    from delira.backends.tensorflow import UNet2dTf as UNet2dTf
    from delira.backends.tensorflow import UNet3dTf as UNet3dTf
    from delira.backends.tensorflow import VariationalAutoencoderTf as VariationalAutoencoderTf
    from delira.backends.tensorflow import VGG3DClassificationNetworkTf as VGG3DClassificationNetworkTf
    from delira.backends.torch import AbstractPyTorchNetwork as AbstractPyTorchNetwork
    from delira.backends.torch import ClassificationNetworkBasePyTorch as ClassificationNetworkBasePyTorch
    from delira.backends.torch import GenerativeAdversarialNetworkBasePyTorch as GenerativeAdversarialNetworkBasePyTorch
    from delira.backends.torch import RegressionNetworkBasePyTorch as RegressionNetworkBasePyTorch
    from delira.backends.torch import UNet2dPyTorch as UNet2dPyTorch
    from delira.backends.torch import UNet3dPyTorch as UNet3dPyTorch
    from delira.backends.torch import VariationalAutoencoderPyTorch as VariationalAutoencoderPyTorch
    from delira.backends.torch import VGG3DClassificationNetworkPyTorch as VGG3DClassificationNetworkPyTorch
    from delira.backends.torchscript import AbstractTorchScriptNetwork as AbstractTorchScriptNetwork
    from delira.backends.torchscript import ClassificationNetworkBaseTorchScript as ClassificationNetworkBaseTorchScript
    from delira.backends.torchscript import (
        GenerativeAdversarialNetworkBaseTorchScript as GenerativeAdversarialNetworkBaseTorchScript,
    )
    from delira.backends.torchscript import RegressionNetworkBaseTorchScript as RegressionNetworkBaseTorchScript
    from delira.backends.torchscript import UNet2dTorchScript as UNet2dTorchScript
    from delira.backends.torchscript import UNet3dTorchScript as UNet3dTorchScript
    from delira.backends.torchscript import VariationalAutoencoderTorchScript as VariationalAutoencoderTorchScript
    from delira.backends.torchscript import (
        VGG3DClassificationNetworkTorchScript as VGG3DClassificationNetworkTorchScript,
    )

__all__ = ["AbstractNetwork", "load_named_weights", "named_weights", "transfer_weights"]

__getattr__, __dir__ = lazy_names(__name__)
