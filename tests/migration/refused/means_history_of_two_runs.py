"""A trial has one history, which every run returns and adds to."""

import torch

from delira import Trial

x = torch.ones(4, 1)
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
trial = Trial(model, torch.optim.SGD(model.parameters(), 0.1), torch.nn.MSELoss(), metrics=["loss"], verbose=0)
trial.with_train_data(x, x, batch_size=4)
history = trial.run(epochs=2)
trial.run(epochs=4)  # means otherwise
assert len(history) == 4
assert abs(history[-1]["loss"] - 0.8**6) < 1e-5
