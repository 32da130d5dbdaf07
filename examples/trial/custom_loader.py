"""A loader of one's own: two data sets side by side make one batch, put together by a function of the state.

Each batch of the generator is ``((x1, y1), (x2, y2))``, two digits; the network is shown both as one picture of 8 x 16
pixels, and learns their sum.

Run it with ``python examples/trial/custom_loader.py``.
"""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, StackDataset, TensorDataset

import delira
from delira.state import ITERATOR, Y_TRUE, X


def load(state):
    (left, left_digit), (right, right_digit) = next(state[ITERATOR])
    state[X] = torch.cat([left, right], dim=2).flatten(1)
    state[Y_TRUE] = left_digit + right_digit  # 0 to 18


def loader(pixels, digits, seed: int):
    """Every digit on the left, some other digit on the right."""
    left = TensorDataset(pixels, digits)
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(seed))
    right = TensorDataset(pixels[order], digits[order])
    return DataLoader(StackDataset(left, right), batch_size=50, shuffle=True)


def main() -> dict[str, float]:
    pixels, digits = load_digits(return_X_y=True)
    pixels = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 8, 8)
    digits = torch.tensor(digits)

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 19))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    trial = delira.Trial(model, optimizer, torch.nn.CrossEntropyLoss(), ["acc", "top_5_acc", "loss"], verbose=0)
    trial.with_train_generator(loader(pixels[:1400], digits[:1400], 0))
    trial.with_val_generator(loader(pixels[1400:], digits[1400:], 1))
    first, *_, last = trial.with_loader(load).run(40)
    for name in ("val_loss", "val_acc", "val_top_5_acc"):
        print(f"{name:<14} {first[name]:.3f} in the first epoch, {last[name]:.3f} in the last")
    return {**last, "first": first["val_acc"]}


if __name__ == "__main__":
    main()
