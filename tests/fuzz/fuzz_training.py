"""One tiny training, by delira and by hand: what a callback does to the weights is compared between both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

N_SAMPLES, BATCH, EPOCHS, RATE = 8, 4, 2, 0.1
RANDOM = np.random.default_rng(3)
INPUTS = RANDOM.normal(size=(N_SAMPLES, 3)).astype(np.float32)
TARGETS = RANDOM.normal(size=(N_SAMPLES, 1)).astype(np.float32) * 3


def network() -> Any:
    """Return a linear layer, always the same."""
    import torch

    layer = torch.nn.Linear(3, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.5, -1.0, 2.0]]))
        layer.bias.fill_(0.25)
    return layer


def weights_of(model: Any) -> np.ndarray:
    """Return all weights as one row."""
    return np.concatenate([parameter.detach().numpy().ravel() for parameter in model.parameters()])


def train(callback: Any, folder: Path | None = None) -> tuple[Any, Any]:
    """Train with a callback, two epochs in order; return the trial and its network."""
    import torch

    from delira import Trial

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    callbacks = [] if callback is None else [callback]
    trial = Trial(model, optimizer, torch.nn.MSELoss(), ["loss"], callbacks, verbose=0, seed=0)
    inputs, targets = torch.tensor(INPUTS), torch.tensor(TARGETS)
    trial.with_data(inputs, targets, inputs, targets, batch_size=BATCH, shuffle=False)
    trial.run(EPOCHS)
    return trial, model


def trained_weights(callback: Any, folder: Path) -> np.ndarray:
    """Return the weights that a training with the callback ends with."""
    return weights_of(train(callback)[1])


def by_hand(
    *,
    to_loss: Callable[[Any], Any] = lambda model: 0.0,
    to_gradients: Callable[[Any], Any] = lambda model: None,
    schedule: Callable[[Any], Any] | None = None,
    each_step: bool = False,
) -> np.ndarray:
    """Return the weights after the same training, as PyTorch's own documentation would write it."""
    import torch

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    scheduler = schedule(optimizer) if schedule is not None else None
    for _ in range(EPOCHS):
        for start in range(0, N_SAMPLES, BATCH):
            optimizer.zero_grad()
            rows = slice(start, start + BATCH)
            loss = torch.nn.functional.mse_loss(model(torch.tensor(INPUTS[rows])), torch.tensor(TARGETS[rows]))
            (loss + to_loss(model)).backward()
            to_gradients(model)
            optimizer.step()
            if scheduler is not None and each_step:
                scheduler.step()
        if scheduler is not None and not each_step:
            scheduler.step()
    return weights_of(model)
