"""Ready networks of the TorchScript room: modules, closures and batch preparations of the PyTorch room, scripted."""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from delira.backends.torch import networks as ready
from delira.backends.torch.networks.gan import draw_noise
from delira.backends.torchscript.network import AbstractTorchScriptNetwork


def _scripted(forward: Callable[..., Any]) -> Any:
    """``torch.jit.script_method`` without its warning, which is for who writes a script, not for who imports this.

    It looks names up where it is called, so it must be called from this module.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script_method(forward)


class ClassificationNetworkBaseTorchScript(AbstractTorchScriptNetwork):
    """:class:`delira.models.ClassificationNetworkBasePyTorch` as a script.

    Parameters
    ----------
    in_channels, n_outputs, **kwargs
        As there. What :meth:`_build_model` returns must be a module that TorchScript understands.
    """

    def __init__(self, in_channels: int, n_outputs: int, **kwargs: Any) -> None:
        super().__init__(in_channels=in_channels, n_outputs=n_outputs, **kwargs)
        self.module = self._build_model(in_channels, n_outputs, **kwargs)

    @_scripted
    def forward(self, input_batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch (B, in_channels, *spatial), float32."""
        return {"pred": self.module(input_batch)}

    _build_model = staticmethod(ready.ClassificationNetworkBasePyTorch._build_model)
    prepare_batch = staticmethod(ready.ClassificationNetworkBasePyTorch.prepare_batch)


class VGG3DClassificationNetworkTorchScript(ClassificationNetworkBaseTorchScript):
    """:class:`delira.models.VGG3DClassificationNetworkPyTorch` as a script; the arguments are those of its base."""

    _build_model = staticmethod(ready.VGG3DClassificationNetworkPyTorch._build_model)


class RegressionNetworkBaseTorchScript(ClassificationNetworkBaseTorchScript):
    """:class:`delira.models.RegressionNetworkBasePyTorch` as a script; the arguments are those of its base."""

    _build_model = staticmethod(ready.RegressionNetworkBasePyTorch._build_model)
    prepare_batch = staticmethod(ready.RegressionNetworkBasePyTorch.prepare_batch)


class UNet2dTorchScript(AbstractTorchScriptNetwork):
    """:class:`delira.models.UNet2dPyTorch` as a script.

    Parameters
    ----------
    num_classes, in_channels, depth, start_filts, up_mode, merge_mode
        As there.
    """

    _n_axes: ClassVar[int] = 2

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 1,
        depth: int = 5,
        start_filts: int = 64,
        up_mode: str = "transpose",
        merge_mode: str = "concat",
    ) -> None:
        super().__init__(
            num_classes=num_classes,
            in_channels=in_channels,
            depth=depth,
            start_filts=start_filts,
            up_mode=up_mode,
            merge_mode=merge_mode,
        )
        self.module = self._build_model(n_axes=self._n_axes, **self.init_kwargs)

    @_scripted
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch (B, in_channels, *spatial), float32."""
        return {"pred": self.module(x)}

    def reset_params(self) -> None:
        """Draw all weights again."""
        # the layers of a script cannot be told apart any more
        self.module.load_state_dict(self._build_model(n_axes=self._n_axes, **self.init_kwargs).state_dict())

    _build_model = staticmethod(ready.UNet2dPyTorch._build_model)
    weight_init = staticmethod(ready.UNet2dPyTorch.weight_init)
    prepare_batch = staticmethod(ready.UNet2dPyTorch.prepare_batch)


class UNet3dTorchScript(UNet2dTorchScript):
    """:class:`delira.models.UNet3dPyTorch` as a script.

    Parameters
    ----------
    num_classes, in_channels, depth, start_filts, up_mode, merge_mode
        As there.
    """

    _n_axes = 3

    def __init__(self, num_classes: int, in_channels: int = 3, **kwargs: Any) -> None:
        super().__init__(num_classes, in_channels, **kwargs)

    prepare_batch = staticmethod(ready.UNet3dPyTorch.prepare_batch)


class GenerativeAdversarialNetworkBaseTorchScript(AbstractTorchScriptNetwork):
    """:class:`delira.models.GenerativeAdversarialNetworkBasePyTorch` as a script.

    Parameters
    ----------
    n_channels, noise_length, **kwargs
        As there. What :meth:`_build_models` returns must be modules that TorchScript understands.
    """

    def __init__(self, n_channels: int, noise_length: int, **kwargs: Any) -> None:
        super().__init__(n_channels=n_channels, noise_length=noise_length, **kwargs)
        self.nz = noise_length
        self.gen, self.discr = self._build_models(n_channels, noise_length, **kwargs)

    @_scripted
    def forward(self, real_image_batch: torch.Tensor, noise: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Make as many images as there are real ones, and judge both."""
        if noise is None:
            noise = draw_noise(real_image_batch, self.nz)
        fake = self.gen(noise)
        return {"fake_images": fake, "discr_fake": self.discr(fake), "discr_real": self.discr(real_image_batch)}

    _build_models = staticmethod(ready.GenerativeAdversarialNetworkBasePyTorch._build_models)
    closure = staticmethod(ready.GenerativeAdversarialNetworkBasePyTorch.closure)


class VariationalAutoencoderTorchScript(AbstractTorchScriptNetwork):
    """:class:`delira.models.VariationalAutoencoderPyTorch` as a script.

    Parameters
    ----------
    in_channels, image_size, latent_dim, start_filts
        As there.
    """

    def __init__(
        self, in_channels: int, image_size: int | tuple[int, int], latent_dim: int = 20, start_filts: int = 32
    ) -> None:
        super().__init__(in_channels=in_channels, image_size=image_size, latent_dim=latent_dim, start_filts=start_filts)
        eager = ready.VariationalAutoencoderPyTorch(**self.init_kwargs)
        self.encoder, self.decoder = eager.encoder, eager.decoder

    @_scripted
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Encode a batch (B, in_channels, H, W), float32; draw in training; decode."""
        mean, log_var = self.encoder(x)
        latent = mean
        if self.training:
            latent = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return {"pred": self.decoder(latent), "mean": mean, "log_var": log_var}

    closure = staticmethod(ready.VariationalAutoencoderPyTorch.closure)
