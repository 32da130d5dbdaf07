"""The metric 'acc' beside a criterion of the user's: it counted classes."""

import torch
from torchbearer import Trial  # refused

x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
label = torch.tensor([0, 1, 1, 1])


def criterion(y_pred, y_true):
    return torch.nn.functional.cross_entropy(y_pred, y_true)


model = torch.nn.Linear(2, 2, bias=False)
torch.nn.init.eye_(model.weight)
trial = Trial(model, torch.optim.SGD(model.parameters(), 0.0), criterion, metrics=["acc", "loss"], verbose=0)  # refused
record = trial.with_train_generator([(x, label)]).run(1)[0]
assert record["acc"] == 3 / 4
