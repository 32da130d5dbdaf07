"""Metrics of a step as the examples of torchbearer use them: as numbers, as tensors, in JSON."""

import json

import numpy as np
import torch

import delira as torchbearer
from delira import Trial
from delira.callbacks import on_end_epoch, on_step_training
from delira.metrics import running_mean

x = torch.linspace(-1, 1, 16).reshape(8, 2)
y = x @ torch.tensor([[1.0], [3.0]])
rounded, dumped, tensors, kinds, copies = [], [], [], [], []


@on_step_training
def use(state):
    value = state[torchbearer.METRICS]["running_loss"]
    rounded.append(round(value, 3))
    tensors.append(float(value.cpu()) if hasattr(value, "cpu") else value)
    kinds.append(isinstance(value, float))
    dumped.append(json.loads(json.dumps(state[torchbearer.METRICS])))
    copies.append({**state[torchbearer.METRICS]})


ends = []


@on_end_epoch
def end(state):
    ends.append(state[torchbearer.METRICS]["loss"])


model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trial = Trial(model, optimizer, torch.nn.MSELoss(), metrics=["loss", "mse"], callbacks=[use, end], verbose=0)
history = trial.with_train_data(x, y, batch_size=4, shuffle=False, num_workers=0).run(2)

losses, w = [], np.zeros((2, 1))
for _ in range(2):
    for start in (0, 4):
        part, target = x[start : start + 4].numpy().astype(float), y[start : start + 4].numpy().astype(float)
        losses.append(((part @ w - target) ** 2).mean())
        w -= 0.1 * 2 * part.T @ (part @ w - target) / 4
np.testing.assert_allclose(history[0]["loss"], np.mean(losses[:2]), rtol=1e-4)
assert kinds == [True] * 4
assert abs(rounded[0] - losses[0]) < 1e-3
assert abs(dumped[0]["running_loss"] - losses[0]) < 1e-4 and set(dumped[0]) == {"running_loss", "running_mse"}
assert all(isinstance(value, float) for values in copies for value in values.values())
assert ends == [record["loss"] for record in history]
assert callable(running_mean)
