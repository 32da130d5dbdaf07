"""Several processes that train one network agree on its data, its losses, its random numbers and its buffers."""

import sys

import numpy as np
import pytest
from problems import linear_problem

from delira.data_loading import BaseDataManager

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")
from trained_in_processes import (  # noqa: E402
    train,
    values_of,
    weights_of,
)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]
TWO = {"devices": 2, "device": "cpu"}


def data(n=43, batch_size=8):
    arrays = {name: array.astype(np.float32) for name, array in linear_problem(n).items()}
    return BaseDataManager(arrays, batch_size)


def check_same(one, several, rtol=1e-5):
    assert values_of(one)
    for alone, together in zip(values_of(one), values_of(several), strict=True):
        assert alone.keys() == together.keys()
        for name, value in alone.items():
            np.testing.assert_allclose(together[name], value, rtol=rtol, err_msg=name)
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(several)[name], weight, rtol=rtol, atol=1e-6, err_msg=name)


def test_what_was_changed_before_the_training_counts_in_all_processes(tmp_path):
    """The number of the first epoch, by which data are shuffled, and rates that are not those of the settings."""
    how = {"start_epoch": 3, "epochs": 4, "before": lambda trainer: trainer.scale_rates(0.1)}
    one = train(tmp_path / "one", data(), **how)
    two = train(tmp_path / "two", data(), **how, **TWO)
    assert [epoch["epoch"] for epoch in values_of(two)] == [3, 4]
    assert values_of(two)[0]["lr"] == pytest.approx(0.001)
    check_same(one, two)
