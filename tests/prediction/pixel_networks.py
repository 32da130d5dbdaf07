"""Folds of a network of pixels, which knows what it says without learning, and images for it."""

import numpy as np

from delira.data_loading import AbstractDataset, BaseDataManager
from delira.testing import ToyExperiment, ToyNetwork, ToySGD

#: shapes that the network was called with
CALLS = []


class Pixels(ToyNetwork):
    """Scores of two classes for each pixel or voxel of images of one channel, shape (B, 2, ...)."""

    def __init__(self, slope=1.0):
        super().__init__(n_features=1)
        object.__setattr__(self, "init_kwargs", {"slope": slope})
        self.slope = slope

    def __call__(self, x):
        CALLS.append(np.shape(x))
        x = np.asarray(x, dtype=np.float64)
        return {"pred": np.concatenate([0 * x, self.slope * x], axis=1)}

    @staticmethod
    def closure(model, data_dict, optimizers, **how):
        """It learns nothing."""
        return {"loss": 0.0}, model(data_dict["data"])


def images(n=6, shape=(5, 4), seed=0):
    return np.random.default_rng(seed).normal(size=(n, 1, *shape)).astype(np.float32)


def pixel_run(path, shape=(5, 4), num_splits=2, slope=1.0, **how):
    """Folds of a network of pixels."""
    params = {"model": {"slope": slope}, "training": {"num_epochs": 1}}
    experiment = ToyExperiment(
        {"fixed": params}, Pixels, name="pixels", save_path=path, optimizer_cls=ToySGD, optimizer_params={"lr": 0.0},
        logging_type=None, verbose=False, output="logits",
    )  # fmt: skip
    data = BaseDataManager({"data": images(shape=shape), "label": np.zeros((6, 1))}, 2)
    result = experiment.kfold(data, num_splits=num_splits, val_split=None, **how)
    CALLS.clear()
    return result


class Slices(AbstractDataset):
    """Labelled samples that are loaded one by one."""

    def __init__(self, arrays, case_names=None):
        super().__init__(None, None)
        self.arrays = arrays
        if case_names is not None:
            self.case_names = case_names

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        return {"data": self.arrays[index], "label": index}

    def __len__(self):
        return len(self.arrays)
