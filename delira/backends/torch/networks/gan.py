"""A generative adversarial network: two networks with an optimizer and a loss each."""

from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.architectures import Discriminator, Generator
from delira.contract import ByName, mark, needs_losses
from delira.contract.ready_steps import described_by_base, gan_inputs, gan_losses, gan_optimizer, gan_results
from delira.models import ready

_BUILDER = "create_optims_gan_default_pytorch"
Values = dict[str, torch.Tensor]


@described_by_base
class GenerativeAdversarialNetworkBasePyTorch(ready.GenerativeAdversarialNetwork, AbstractPyTorchNetwork):
    """A GAN in PyTorch, e.g. for ``torch.nn.BCEWithLogitsLoss``.

    Train with ``optim_fn=create_optims_gan_default_pytorch``.
    """

    @staticmethod
    def _build_models(in_channels: int, noise_length: int, **kwargs: Any) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Generator and discriminator; override it for others."""
        return Generator(in_channels, noise_length, **kwargs), Discriminator(in_channels, **kwargs)

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
        real, noise = gan_inputs(model, data_dict, kwargs)
        with torch.set_grad_enabled(bool(optimizers)):
            fake = model.gen(draw_noise(real, model.nz) if noise is None else noise)
            logits = {"discr_real": model.discr(real), "discr_fake": model.discr(fake.detach())}
            values = gan_losses(losses, logits, torch.full_like)
            if optimizers:
                _update(gan_optimizer(optimizers, "discr", _BUILDER), values, model.discr)
            fooled = {"adversarial": model.discr(fake)}
            adversarial = gan_losses(losses, fooled, torch.full_like)
            if optimizers:
                _update(gan_optimizer(optimizers, "gen", _BUILDER), adversarial, model.gen)
        logits = {part: value.detach() for part, value in (logits | fooled).items()}
        values = {name: value.detach() for name, value in (values | adversarial).items()}
        with torch.no_grad():
            return gan_results(fake.detach(), logits, values, metrics, bool(optimizers), torch.full_like)


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
