"""The metric of the epoch counts from 0."""

import torch

from delira import Trial

x = torch.ones(4, 1)
model = torch.nn.Linear(1, 1)
trial = Trial(model, torch.optim.SGD(model.parameters(), 0.1), torch.nn.MSELoss(), ["epoch", "loss"], verbose=0)
history = trial.with_train_data(x, x, batch_size=4).run(3)
print(history[-1]["epoch"], history[-1]["loss"])  # means otherwise
assert [record["epoch"] for record in history] == [0, 1, 2]  # means otherwise
