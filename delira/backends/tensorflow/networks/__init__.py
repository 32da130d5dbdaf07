"""Ready networks of the TensorFlow backend: each is a plain layer behind the interface of the backend."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.backends.tensorflow.networks.classification": (
            "ClassificationNetworkBaseTf RegressionNetworkBaseTf VGG3DClassificationNetworkTf"
        ),
        "delira.backends.tensorflow.networks.gan": "GenerativeAdversarialNetworkBaseTf",
        "delira.backends.tensorflow.networks.segmentation": "UNet2dTf UNet3dTf",
        "delira.backends.tensorflow.networks.vae": "VariationalAutoencoderTf",
    },
)
