"""A generative adversarial network: two networks with an optimizer and a loss each."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.dcgan import Discriminator, Generator
from delira.contract import NO_HOOKS, select_inputs
from delira.errors import ConfigError

Values = dict[str, torch.Tensor]


class GenerativeAdversarialNetworkBasePyTorch(AbstractPyTorchNetwork):
    """Images like those of the training data, by DCGAN (Radford et al. 2016).

    The images are (B, n_channels, 64, 64), scaled to [-1, 1]. ``gen`` makes images of noise (B, nz), ``discr`` tells
    real from made by one logit for each image, (B, 1). The outputs are ``"fake_images"``, ``"discr_fake"`` and
    ``"discr_real"``. Losses are called as ``loss(logits, target)`` with ones or zeros as target:
    ``torch.nn.BCEWithLogitsLoss``, or ``torch.nn.MSELoss`` for a least-squares GAN. The optimizers are called ``"gen"``
    and ``"discr"``: train with ``optim_fn=create_optims_gan_default_pytorch``.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of, kept in ``nz``.
    **kwargs
        What else :meth:`_build_models` takes: here ``start_filts`` (64), the channels of the widest level.
    """

    def __init__(self, n_channels: int, noise_length: int, **kwargs: Any) -> None:
        super().__init__(n_channels=n_channels, noise_length=noise_length, **kwargs)
        self.nz = noise_length
        self.gen, self.discr = self._build_models(n_channels, noise_length, **kwargs)

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
    def closure(
        model: Any,
        data_dict: dict[str, Any],
        optimizers: Mapping[str, Any],
        losses: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Update the discriminator, then the generator against it; each with the gradient of its own loss only.

        Without ``optimizers`` nothing is learned, and the names get the prefix ``val_``.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``. A loss or metric ``name`` gives three values: ``<name>_discr_real`` and
            ``<name>_discr_fake``, which the discriminator lowers, and ``<name>_adversarial``, which the generator does.
        """
        if kwargs.get("hooks", NO_HOOKS) not in (None, NO_HOOKS):
            raise ConfigError("the closure of a GAN makes two updates, so it runs no hooks of a step; write a closure")
        mapping = kwargs.get("key_mapping") or model.__delira_backend__.key_mapping(model)
        inputs = select_inputs(mapping, data_dict)
        real = inputs["real_image_batch"]
        with torch.set_grad_enabled(bool(optimizers)):
            noise = inputs.get("noise")
            fake = model.gen(draw_noise(real, model.nz) if noise is None else noise)
            discr_real, discr_fake = model.discr(real), model.discr(fake.detach())
            loss_values = _judge(losses, "discr_real", discr_real, 1) | _judge(losses, "discr_fake", discr_fake, 0)
            if optimizers:
                _update(_named(optimizers, "discr"), loss_values, model.discr)
            fooled = model.discr(fake)
            adversarial = _judge(losses, "adversarial", fooled, 1)
            if optimizers:
                _update(_named(optimizers, "gen"), adversarial, model.gen)
        loss_values |= adversarial
        with torch.no_grad():
            metric_values = (
                _judge(metrics, "discr_real", discr_real, 1, target_first=True)
                | _judge(metrics, "discr_fake", discr_fake, 0, target_first=True)
                | _judge(metrics, "adversarial", fooled, 1, target_first=True)
            )
        prefix = "" if optimizers else "val_"
        outputs = {"fake_images": fake, "discr_fake": discr_fake, "discr_real": discr_real}
        return (
            {prefix + name: value for name, value in metric_values.items()},
            {prefix + name: value.detach() for name, value in loss_values.items()},
            {name: value.detach() for name, value in outputs.items()},
        )


def draw_noise(images: torch.Tensor, noise_length: int) -> torch.Tensor:
    """Noise for as many images, of shape (B, noise_length), from PyTorch's generator of their device."""
    return torch.randn((images.size(0), noise_length), dtype=images.dtype, device=images.device)


def _judge(
    functions: Mapping[str, Callable[..., Any]] | None,
    part: str,
    logits: torch.Tensor,
    wanted: int,
    target_first: bool = False,
) -> Values:
    """Every loss or metric of the logits against ones or zeros."""
    logits = logits.detach() if target_first else logits
    target = torch.full_like(logits, wanted)
    arguments = (target, logits) if target_first else (logits, target)
    return {f"{name}_{part}": function(*arguments) for name, function in (functions or {}).items()}


def _update(optimizer: Any, losses: Values, network: torch.nn.Module) -> None:
    """Lower the sum of the losses; the other network, which they depend on as well, gets no gradient."""
    learned = [weight for weight in network.parameters() if weight.requires_grad]
    if not losses or not learned:
        return
    optimizer.zero_grad()
    with optimizer.scale_loss(torch.stack(list(losses.values())).sum()) as scaled:
        scaled.backward(inputs=learned)
    optimizer.step()


def _named(optimizers: Mapping[str, Any], name: str) -> Any:
    if name not in optimizers:
        raise ConfigError(
            f"a GAN is trained with the optimizers 'gen' and 'discr', but there are only {sorted(optimizers)}; pass "
            "optim_fn=create_optims_gan_default_pytorch"
        )
    return optimizers[name]
