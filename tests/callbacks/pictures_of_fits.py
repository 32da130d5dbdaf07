"""Small fits that make pictures."""

import numpy as np
import pytest

import delira

pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
import torch
from torch import nn

#: 10 pictures whose pixels tell them apart: of the i-th, all are (i + 1) / 20
X = np.broadcast_to((np.arange(10, dtype="f4").reshape(10, 1, 1, 1) + 1) / 20, (10, 1, 2, 3)).copy()


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.weight * x


def fit(*callbacks, module=None, metrics=("loss",), **settings):
    """A trial with 3, 3, 3 and 1 pictures to train on, 4, 4 and 2 to validate with, 5 and 5 to predict."""
    module = module or Twice()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    trial = delira.Trial(module, optimizer, nn.MSELoss(), metrics, callbacks, verbose=0, **{"seed": 0, **settings})
    trial.with_train_data(X, X, 3, shuffle=False).with_val_data(X, X, 4, shuffle=False)
    return trial.with_test_data(X, 5)


class Collected:
    """A handler that keeps what it gets."""

    def __init__(self, *fields):
        self.fields, self.seen = fields, []

    def __call__(self, picture, state):
        assert picture.dtype == np.float32
        assert picture.shape[0] == 1
        self.seen.append((*(state[field] for field in self.fields), np.unique(picture).tolist()))

    @property
    def numbers(self):
        """Of the pictures, by their pixels."""
        return [round(pixels[-1] * 20) - 1 for *_, pixels in self.seen]


def read(path):
    from matplotlib.image import imread

    pixels = imread(path)
    return pixels if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
