"""What a trial evaluates goes into the last record of its history, of whatever data."""

import torch

import delira as torchbearer
from delira import Trial

x = torch.ones(4, 1)
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
trial = Trial(model, torch.optim.SGD(model.parameters(), 0.1), torch.nn.MSELoss(), metrics=["loss"], verbose=0)
trial.with_train_data(x, x, batch_size=4).with_test_generator([(x, 3 * x)])
history = trial.run(epochs=2)
trial.evaluate(data_key=torchbearer.TEST_DATA)  # means otherwise

weight = 1 - 0.8**2
assert abs(history[-1].get("test_loss", 0) - (3 - weight) ** 2) < 1e-5
