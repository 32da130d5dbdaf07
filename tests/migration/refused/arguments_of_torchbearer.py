"""Arguments of callbacks that say nothing here: how to pickle, and where a schedule begins."""

import pickle

import torch
from torchbearer import Trial  # refused
from torchbearer.callbacks import CyclicLR, ExponentialLR, MostRecent  # refused

x = torch.linspace(-1, 1, 16).reshape(8, 2)
y = x @ torch.tensor([[1.0], [3.0]])
model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
callbacks = [
    MostRecent("last.pt", save_model_params_only=True, pickle_module=pickle, pickle_protocol=2),  # refused
    ExponentialLR(gamma=0.5, last_epoch=-1),  # refused
]
assert CyclicLR(0.01, 0.1, step_size_up=2, monitor="val_loss")  # refused
trial = Trial(model, optimizer, torch.nn.MSELoss(), metrics=["loss"], callbacks=callbacks, verbose=0)
trial.with_train_generator([(x, y)]).run(2)
w = torch.zeros(2, 1)
for rate in (0.1, 0.05):
    w -= rate * 2 * x.T @ (x @ w - y) / 8
torch.testing.assert_close(torch.load("last.pt")["weight"].T, w)
