"""The callback that joins predictions, of torchbearer's own predict."""

import torch

import torchbearer  # refused
from torchbearer import Trial  # refused
from torchbearer.callbacks import AggregatePredictions, on_end_validation  # refused

x = torch.linspace(-1, 1, 16).reshape(8, 2)
joined = []


@on_end_validation
def keep(state):
    joined.append(state[torchbearer.FINAL_PREDICTIONS])


model = torch.nn.Linear(2, 1, bias=False)
trial = Trial(model, criterion=torch.nn.MSELoss(), callbacks=[AggregatePredictions(), keep], verbose=0)
trial.with_val_generator([(x[:5], torch.zeros(5, 1)), (x[5:], torch.zeros(3, 1))]).evaluate()
torch.testing.assert_close(joined[0], (x @ model.weight.T).detach())
