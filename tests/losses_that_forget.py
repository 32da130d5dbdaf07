"""Losses that keep some of their arguments, or none, under their names."""

import torch


class Forgetting(torch.nn.Module):
    """Keeps none under its name."""

    def __init__(self, include_background=True, batch=False, weight=1.0):
        super().__init__()
        self.skipped = 0 if include_background else 1
        self.axes = (0,) if batch else (1,)
        self.register_buffer("w", torch.tensor(weight))


class Together(torch.nn.Module):
    """Hands some on to a part."""

    def __init__(self, reduction="mean", include_background=True, batch=False, weight=1.0):
        super().__init__()
        self.reduction = reduction
        self.part = Forgetting(include_background, batch, weight)


class Perceptual(torch.nn.Module):
    """Has a network of its own, and counts its calls."""

    def __init__(self, scale=1.0, layers=1):
        super().__init__()
        self.scale, self._n_calls = scale, 0
        self.net = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(layers)))

    def forward(self, pred, label):
        self._n_calls += 1
        return self.scale * (self.net(pred) - self.net(label)).square().mean()


class Drawn(torch.nn.Module):
    """Shows nothing of its weights, which are drawn."""

    def __init__(self, size=2):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(size))
