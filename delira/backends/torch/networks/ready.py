"""The ready networks of PyTorch: plain modules behind the interface of the backend."""

from collections.abc import Sequence
from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks import architectures
from delira.contract import ByName, mark, needs_losses
from delira.contract import closure as closures
from delira.models import ready
from delira.models.unet_plan import UNetPlan

LABELS = ready.Labels(
    is_numeric=lambda value: isinstance(value, torch.Tensor),
    integers=lambda label: label.long(),
    floats=lambda label: label.float(),
)


class _ResNet(AbstractPyTorchNetwork):
    module: torch.nn.Module

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> torch.nn.Module:
        """The module that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return architectures.ResNet18(in_channels, n_outputs, **kwargs)

    def forward(self, input_batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits or values of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}


@closures.described_by_base
class ClassificationNetworkBasePyTorch(ready.Classification, _ResNet):
    """A classifier in PyTorch, for ``torch.nn.CrossEntropyLoss``."""

    prepare_batch = staticmethod(closures.labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.class_numbers))


@closures.described_by_base
class VGG3DClassificationNetworkPyTorch(ready.VGG3DClassification, ClassificationNetworkBasePyTorch):
    """A classifier of volumes in PyTorch, for ``torch.nn.CrossEntropyLoss``.

    (The network of this name in delira 0.4 returned probabilities. With ``CrossEntropyLoss``, which applies softmax
    itself, it hardly learned.)
    """

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> torch.nn.Module:
        return architectures.VGG3D(in_channels, n_outputs, **kwargs)


@closures.described_by_base
class RegressionNetworkBasePyTorch(ready.Regression, _ResNet):
    """A regressor in PyTorch, for ``torch.nn.MSELoss`` and its like."""

    prepare_batch = staticmethod(closures.labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.values))


@closures.described_by_base
class MultilayerPerceptronPyTorch(ready.MultilayerPerceptron, AbstractPyTorchNetwork):
    """A multilayer perceptron in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    module: torch.nn.Module

    @staticmethod
    def _build_model(sizes: Sequence[int]) -> torch.nn.Module:
        """The module that maps (B, n_features) to (B, n_outputs); override it for another one."""
        return architectures.MultilayerPerceptron(sizes)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits or values of a batch.

        Parameters
        ----------
        x
            Tensor of shape (B, n_features), float32.
        """
        return {"pred": self.module(x)}


class _SegmentationNetwork(AbstractPyTorchNetwork):
    """What the U-Nets for images and volumes have in common."""

    module: torch.nn.Module

    @staticmethod
    def _build_model(**kwargs: Any) -> torch.nn.Module:
        """The module that maps (B, in_channels, *spatial) to (B, num_classes, *spatial); override it for another."""
        return architectures.UNet(**kwargs)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, *spatial), float32.
        """
        return {"pred": self.module(x)}

    @staticmethod
    def weight_init(m: torch.nn.Module) -> None:
        """Draw the weights of one convolution (Xavier, normal) and set its biases to 0; others stay as they are."""
        architectures.init_xavier(m)

    def reset_params(self) -> None:
        """Draw all weights again."""
        self.apply(self.weight_init)


@closures.described_by_base
class UNet2dPyTorch(ready.UNet2d, _SegmentationNetwork):
    """A U-Net for images in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    prepare_batch = staticmethod(closures.labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.masks, n_axes=2))


@closures.described_by_base
class UNet3dPyTorch(ready.UNet3d, _SegmentationNetwork):
    """A U-Net for volumes in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    prepare_batch = staticmethod(closures.labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.masks, n_axes=3))


def named_scales(outputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Outputs of one scale after the other by name, in words that TorchScript understands."""
    named = {"pred": outputs[0]}
    for number in range(1, len(outputs)):
        named[f"pred_{number}"] = outputs[number]
    return named


class _ResidualUNet(AbstractPyTorchNetwork):
    """What the U-Nets of residual units have in common."""

    module: torch.nn.Module
    n_scales: int

    @staticmethod
    def _build_model(plan: UNetPlan) -> torch.nn.Module:
        """The module that maps images and a number of scales to their logits, the finest first; override it."""
        return architectures.ResidualUNet(plan)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch; in training also those of coarser levels, if they learn.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, *spatial), float32.
        """
        return named_scales(self.module(x, self.n_scales if self.training else 1))

    closure = staticmethod(closures.closure_over_scales(AbstractPyTorchNetwork.closure))


@closures.described_by_base
class ResidualUNet2dPyTorch(ready.ResidualUNet2d, _ResidualUNet):
    """A U-Net of today for images in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    prepare_batch = staticmethod(closures.labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.masks, n_axes=2))


@closures.described_by_base
class ResidualUNet3dPyTorch(ready.ResidualUNet3d, _ResidualUNet):
    """A U-Net of today for volumes in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    prepare_batch = staticmethod(closures.labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.masks, n_axes=3))


_BUILDER = "create_optims_gan_default_pytorch"
Values = dict[str, torch.Tensor]


@closures.described_by_base
class GenerativeAdversarialNetworkBasePyTorch(ready.GenerativeAdversarialNetwork, AbstractPyTorchNetwork):
    """A GAN in PyTorch, e.g. for ``torch.nn.BCEWithLogitsLoss``.

    Train with ``optim_fn=create_optims_gan_default_pytorch``.
    """

    @staticmethod
    def _build_models(in_channels: int, noise_length: int, **kwargs: Any) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Generator and discriminator; override it for others."""
        generator = architectures.Generator(in_channels, noise_length, **kwargs)
        return generator, architectures.Discriminator(in_channels, **kwargs)

    def forward(self, real_image_batch: torch.Tensor, noise: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Make as many images as there are real ones, and judge both.

        Parameters
        ----------
        real_image_batch
            Tensor of shape (B, n_channels, 64, 64), float32.
        noise
            Tensor of shape (B, nz); drawn from the normal distribution if ``None``.
        """
        if noise is None:
            noise = draw_noise(real_image_batch, self.nz)
        fake = self.gen(noise)
        return {"fake_images": fake, "discr_fake": self.discr(fake), "discr_real": self.discr(real_image_batch)}

    @staticmethod
    @needs_losses("{'bce': torch.nn.BCEWithLogitsLoss()}")
    def closure(
        model: Any,
        data_dict: dict[str, Any],
        optimizers: ByName,
        losses: ByName | None = None,
        metrics: ByName | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Update the discriminator, then the generator against it; each with the gradient of its own loss only."""
        real, noise = closures.gan_inputs(model, data_dict, kwargs)
        with torch.set_grad_enabled(bool(optimizers)):
            fake = model.gen(draw_noise(real, model.nz) if noise is None else noise)
            logits = {"discr_real": model.discr(real), "discr_fake": model.discr(fake.detach())}
            values = closures.gan_losses(losses, logits, torch.full_like)
            if optimizers:
                _update(closures.gan_optimizer(optimizers, "discr", _BUILDER), values, model.discr)
            fooled = {"adversarial": model.discr(fake)}
            adversarial = closures.gan_losses(losses, fooled, torch.full_like)
            if optimizers:
                _update(closures.gan_optimizer(optimizers, "gen", _BUILDER), adversarial, model.gen)
        logits = {part: value.detach() for part, value in (logits | fooled).items()}
        values = {name: value.detach() for name, value in (values | adversarial).items()}
        with torch.no_grad():
            return closures.gan_results(fake.detach(), logits, values, metrics, bool(optimizers), torch.full_like)


def draw_noise(images: torch.Tensor, noise_length: int) -> torch.Tensor:
    """Noise for as many images, of shape (B, noise_length), from PyTorch's generator of their device."""
    return torch.randn((images.size(0), noise_length), dtype=images.dtype, device=images.device)


def _update(optimizer: Any, losses: Values, network: torch.nn.Module) -> None:
    """Lower the sum of the losses; the other network, which they depend on as well, gets no gradient."""
    learned = [weight for weight in network.parameters() if weight.requires_grad]
    if not losses or not learned:
        return
    mark("forward")
    optimizer.zero_grad()
    with optimizer.scale_loss(torch.stack(list(losses.values())).sum()) as scaled:
        scaled.backward(inputs=learned)
    mark("backward")
    optimizer.step()
    mark("update")


def kl_to_standard_normal(mean: torch.Tensor, log_var: torch.Tensor) -> torch.Tensor:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.float(), log_var.float()  # exp overflows in half precision
    return 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1)


def _divergence(predictions: ByName) -> torch.Tensor:
    """The mean of a batch, divided by the values of an image."""
    n_values = predictions["pred"][0].numel()
    return kl_to_standard_normal(predictions["mean"], predictions["log_var"]).mean() / n_values


@closures.described_by_base
class VariationalAutoencoderPyTorch(ready.VariationalAutoencoder, AbstractPyTorchNetwork):
    """An autoencoder in PyTorch, e.g. for ``torch.nn.BCEWithLogitsLoss``.

    New images: ``model.decoder(torch.randn(n, latent_dim))``.
    """

    @staticmethod
    def _build_models(*args: Any) -> tuple[architectures.Encoder, architectures.Decoder]:
        """Encoder and decoder, of the same arguments."""
        return architectures.Encoder(*args), architectures.Decoder(*args)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Encode, draw, decode.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, H, W), float32.
        """
        mean, log_var = self.encoder(x)
        latent = mean
        if self.training:
            latent = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return {"pred": self.decoder(latent), "mean": mean, "log_var": log_var}

    closure = staticmethod(
        needs_losses("{'bce': torch.nn.BCEWithLogitsLoss()}")(
            closures.autoencoder_closure(AbstractPyTorchNetwork.closure, _divergence)
        )
    )
