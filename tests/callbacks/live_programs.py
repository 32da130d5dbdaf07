"""Programs that train the toy, as a user runs them."""

import pytest

pytest.importorskip("pyte", reason="pyte is not installed")
pytest.importorskip("pty", reason="this system has no pseudo terminals")

PROGRAM = """
import sys, tempfile, time
import numpy as np
from delira.data_loading import BaseDataManager
from delira.testing.toy import ToyExperiment, ToyNetwork, mean_squared_error

class Naps:
    def at_iter_end(self, trainer, **facts):
        time.sleep({nap})

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        {at_epoch_end}

if __name__ == "__main__":
    x = np.random.default_rng(0).normal(size=(24, 3))
    data = BaseDataManager({{"data": x, "label": x @ np.ones((3, 1))}}, batch_size=4)
    training = {{"losses": {{"mse": mean_squared_error}}, "optimizer_params": {{"lr": 0.01}}, "logging_type": None}}
    params = {{"fixed": {{"model": {{"n_features": 3}}, "training": {{**training, "num_epochs": {num_epochs}}}}}}}
    experiment = ToyExperiment(params, ToyNetwork, save_path=tempfile.mkdtemp(), callbacks=[Naps()])
    {call}
"""
KFOLD = 'experiment.kfold(data, {"mse": mean_squared_error}, num_splits=3, val_split=0.25, val_score_key="mse"%s)'
RUN = "experiment.run(data, data%s)"


def program(call, more="", *, nap=0.02, num_epochs=4, at_epoch_end="pass"):
    return PROGRAM.format(call=call % more, nap=nap, num_epochs=num_epochs, at_epoch_end=at_epoch_end)
