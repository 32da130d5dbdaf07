"""Ready networks of the TorchScript backend: modules, closures and batch preparations of PyTorch's, scripted."""

import warnings
from collections.abc import Callable
from typing import Any

import torch

from delira.backends.torch import networks as eager
from delira.backends.torch.networks.ready import draw_noise, named_scales
from delira.backends.torchscript.network import AbstractTorchScriptNetwork
from delira.contract import closure as closures
from delira.models import ready


def _scripted(forward: Callable[..., Any]) -> Any:
    """``torch.jit.script_method`` without its warning, which is for who writes a script, not for who imports this.

    It looks names up where it is called, so it must be called from this module.
    """
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return torch.jit.script_method(forward)


class ClassificationNetworkBaseTorchScript(ready.Classification, AbstractTorchScriptNetwork):
    """:class:`delira.models.ClassificationNetworkBasePyTorch` as a script.

    Parameters
    ----------
    in_channels, n_outputs, **kwargs
        As there. What :meth:`_build_model` returns must be a module that TorchScript understands.
    """

    @_scripted
    def forward(self, input_batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch (B, in_channels, *spatial), float32."""
        return {"pred": self.module(input_batch)}

    _build_model = staticmethod(eager.ClassificationNetworkBasePyTorch._build_model)
    prepare_batch = staticmethod(eager.ClassificationNetworkBasePyTorch.prepare_batch)


class VGG3DClassificationNetworkTorchScript(ClassificationNetworkBaseTorchScript):
    """:class:`delira.models.VGG3DClassificationNetworkPyTorch` as a script; the arguments are those of its base."""

    _build_model = staticmethod(eager.VGG3DClassificationNetworkPyTorch._build_model)


class RegressionNetworkBaseTorchScript(ClassificationNetworkBaseTorchScript):
    """:class:`delira.models.RegressionNetworkBasePyTorch` as a script; the arguments are those of its base."""

    _build_model = staticmethod(eager.RegressionNetworkBasePyTorch._build_model)
    prepare_batch = staticmethod(eager.RegressionNetworkBasePyTorch.prepare_batch)


class MultilayerPerceptronTorchScript(ready.MultilayerPerceptron, AbstractTorchScriptNetwork):
    """:class:`delira.models.MultilayerPerceptronPyTorch` as a script.

    Parameters
    ----------
    n_features, n_outputs, hidden
        As there.
    """

    @_scripted
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits or values of a batch (B, n_features), float32."""
        return {"pred": self.module(x)}

    _build_model = staticmethod(eager.MultilayerPerceptronPyTorch._build_model)
    prepare_batch = staticmethod(eager.MultilayerPerceptronPyTorch.prepare_batch)


class UNet2dTorchScript(ready.UNet2d, AbstractTorchScriptNetwork):
    """:class:`delira.models.UNet2dPyTorch` as a script.

    Parameters
    ----------
    num_classes, in_channels, depth, start_filts, up_mode, merge_mode
        As there.
    """

    @_scripted
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch (B, in_channels, *spatial), float32."""
        return {"pred": self.module(x)}

    def reset_params(self) -> None:
        """Draw all weights again."""
        # the layers of a script cannot be told apart any more
        self.module.load_state_dict(self._build_model(n_axes=self._n_axes, **self.init_kwargs).state_dict())

    _build_model = staticmethod(eager.UNet2dPyTorch._build_model)
    weight_init = staticmethod(eager.UNet2dPyTorch.weight_init)
    prepare_batch = staticmethod(eager.UNet2dPyTorch.prepare_batch)


class UNet3dTorchScript(ready.UNet3d, UNet2dTorchScript):
    """:class:`delira.models.UNet3dPyTorch` as a script.

    Parameters
    ----------
    num_classes, in_channels, depth, start_filts, up_mode, merge_mode
        As there.
    """

    prepare_batch = staticmethod(eager.UNet3dPyTorch.prepare_batch)


class ResidualUNet2dTorchScript(ready.ResidualUNet2d, AbstractTorchScriptNetwork):
    """:class:`delira.models.ResidualUNet2dPyTorch` as a script.

    Parameters
    ----------
    num_classes, in_channels, channels, strides, norm, deep_supervision, **details
        As there.
    """

    @_scripted
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch (B, in_channels, *spatial), float32; in training also those of levels that learn."""
        return named_scales(self.module(x, self.n_scales if self.training else 1))

    _build_model = staticmethod(eager.ResidualUNet2dPyTorch._build_model)
    closure = staticmethod(closures.closure_over_scales(AbstractTorchScriptNetwork.closure))
    prepare_batch = staticmethod(eager.ResidualUNet2dPyTorch.prepare_batch)


class ResidualUNet3dTorchScript(ready.ResidualUNet3d, ResidualUNet2dTorchScript):
    """:class:`delira.models.ResidualUNet3dPyTorch` as a script.

    Parameters
    ----------
    num_classes, in_channels, channels, strides, norm, deep_supervision, **details
        As there.
    """

    prepare_batch = staticmethod(eager.ResidualUNet3dPyTorch.prepare_batch)


class GenerativeAdversarialNetworkBaseTorchScript(ready.GenerativeAdversarialNetwork, AbstractTorchScriptNetwork):
    """:class:`delira.models.GenerativeAdversarialNetworkBasePyTorch` as a script.

    Parameters
    ----------
    n_channels, noise_length, **kwargs
        As there. What :meth:`_build_models` returns must be modules that TorchScript understands.
    """

    @_scripted
    def forward(self, real_image_batch: torch.Tensor, noise: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Make as many images as there are real ones, and judge both."""
        if noise is None:
            noise = draw_noise(real_image_batch, self.nz)
        fake = self.gen(noise)
        return {"fake_images": fake, "discr_fake": self.discr(fake), "discr_real": self.discr(real_image_batch)}

    _build_models = staticmethod(eager.GenerativeAdversarialNetworkBasePyTorch._build_models)
    closure = staticmethod(eager.GenerativeAdversarialNetworkBasePyTorch.closure)


class VariationalAutoencoderTorchScript(ready.VariationalAutoencoder, AbstractTorchScriptNetwork):
    """:class:`delira.models.VariationalAutoencoderPyTorch` as a script.

    Parameters
    ----------
    in_channels, image_size, latent_dim, start_filts
        As there.
    """

    @_scripted
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Encode a batch (B, in_channels, H, W), float32; draw in training; decode."""
        mean, log_var = self.encoder(x)
        latent = mean
        if self.training:
            latent = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return {"pred": self.decoder(latent), "mean": mean, "log_var": log_var}

    _build_models = staticmethod(eager.VariationalAutoencoderPyTorch._build_models)
    closure = staticmethod(eager.VariationalAutoencoderPyTorch.closure)
