"""The closure for NVIDIA's apex, which is gone: the trial has mixed precision of its own."""

import torch
from torchbearer import Trial, apex_closure  # refused

x = torch.linspace(-1, 1, 16).reshape(8, 2)
y = x @ torch.tensor([[1.0], [3.0]])
model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.zeros_(model.weight)
trial = Trial(model, torch.optim.SGD(model.parameters(), 0.1), torch.nn.MSELoss(), ["loss"], verbose=0)
trial.with_closure(apex_closure()).with_train_generator([(x, y)])
loss = trial.run(2)[-1]["loss"]
w = torch.zeros(2, 1)
w -= 0.1 * 2 * x.T @ (x @ w - y) / 8
torch.testing.assert_close(torch.tensor(loss), ((x @ w - y) ** 2).mean(), rtol=2e-2, atol=0)
