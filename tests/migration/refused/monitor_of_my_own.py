"""Callbacks that watch a metric of the user's, whose direction was guessed by its name."""

import torch
from torchbearer import Trial, metrics  # refused
from torchbearer.callbacks import EarlyStopping, ModelCheckpoint  # refused

x = torch.linspace(-1, 1, 16).reshape(8, 2)
y = x @ torch.tensor([[1.0], [3.0]])
model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


@metrics.lambda_metric("off")
def off(y_pred, y_true):
    return (y_pred - y_true).abs().mean()


callbacks = [
    EarlyStopping("val_off", patience=2),  # refused
    EarlyStopping(monitor="val_off_by_acc", patience=3, mode="auto"),  # refused
    ModelCheckpoint("best_{epoch}.pt", monitor="val_off", save_best_only=True, save_model_params_only=True),  # refused
]
trial = Trial(
    model, optimizer, torch.nn.MSELoss(), metrics=["loss", off], callbacks=[callbacks[0], callbacks[2]], verbose=0
)
history = trial.with_train_generator([(x, y)]).with_val_generator([(x, y)]).run(2)
w = 0.1 * 2 * x.T @ y / 8
torch.testing.assert_close(torch.tensor(history[0]["val_off"]), (x @ w - y).abs().mean())
w = w - 0.1 * 2 * x.T @ (x @ w - y) / 8
torch.testing.assert_close(torch.load("best_1.pt")["weight"].T, w)
