"""A key of the state as a metric has one name, and the value of the validation stands in the history."""

import torch

import delira as torchbearer
from delira import Trial, callbacks

PENALTY = torchbearer.state_key("penalty")


@callbacks.on_forward
def in_training(state):
    state[PENALTY] = 2 * state[torchbearer.X].mean()


@callbacks.on_forward_validation
def in_validation(state):
    state[PENALTY] = 5 * state[torchbearer.X].mean()


x = torch.ones(4, 1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
trial = Trial(
    model, optimizer, torch.nn.MSELoss(), metrics=[PENALTY, "loss"], callbacks=[in_training, in_validation], verbose=0
)
history = trial.with_train_data(x, x, batch_size=4).with_val_data(3 * x, x, batch_size=4).run(2)
found = [record[PENALTY] for record in history]  # means otherwise
assert [found[0], history[-1][PENALTY]] == [15, 15]  # means otherwise
