"""Every way to import torchbearer, within functions as well."""

import torch
import torchbearer.callbacks as c  # refused
import torchbearer.metrics  # refused
from torchbearer.callbacks.early_stopping import EarlyStopping  # refused
from torchbearer.metrics import (  # refused
    CategoricalAccuracy,  # of classes
    mean,
)


def fitted(x, y):
    from torchbearer import Trial  # refused

    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trial = Trial(model, optimizer, torch.nn.MSELoss(), metrics=["loss"], callbacks=[weight], verbose=0)
    return trial.with_train_data(x, y, batch_size=8, shuffle=False, num_workers=0).run(1), model


@c.on_forward
def weight(state):
    assert state[torchbearer.Y_PRED].shape == (8, 1) and torchbearer.metrics.Mean


x = torch.linspace(-1, 1, 16).reshape(8, 2)
y = x @ torch.tensor([[1.0], [3.0]])
history, model = fitted(x, y)
torch.testing.assert_close(model.weight.detach().T, 0.1 * 2 * x.T @ y / 8)
torch.testing.assert_close(torch.tensor(history[0]["loss"]), (y**2).mean())
assert CategoricalAccuracy and mean and EarlyStopping
