"""The mean of the weights over epochs."""

import numpy as np
import pytest
from small_backends import build_kit
from weights_of_epochs import Snapshots

from delira.errors import ConfigError
from delira.training import callbacks as cb
from delira.training.callbacks import SWA, ExponentialMovingAverage


def mean(snapshots):
    return [np.mean([pair[at] for pair in snapshots], axis=0) for at in (0, 1)]


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("start", "period", "counted"), [(0, 1, [0, 1, 2, 3, 4]), (2, 1, [2, 3, 4]), (1, 2, [1, 3])])
def test_the_network_has_the_mean_of_the_epochs(fit, by_hand, start, period, counted):
    snapshots = Snapshots(fit)
    trial = fit.trial(snapshots, SWA(start, period))
    history = trial.run(5)
    wanted = mean([snapshots.seen[epoch] for epoch in counted])
    for found, expected in zip(fit.weights(trial), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    losses = [by_hand(*wanted, x, y)[0] for x, y in fit.batches()]
    assert history[-1]["val_loss"] == pytest.approx(np.average(losses, weights=[4, 4, 2]), rel=1e-4)


def test_before_its_start_the_weights_themselves_are_validated(fit):
    assert fit.trial(SWA(5)).run(2)[0]["val_loss"] > 0
    snapshots = Snapshots(fit)
    trial = fit.trial(snapshots, SWA(5))
    trial.run(2)
    np.testing.assert_array_equal(fit.weights(trial)[0], snapshots.seen[-1][0])


def test_the_mean_goes_on_after_a_resume(tmp_path, manager):
    kit = build_kit("torch")
    run = lambda path: kit.trainer(tmp_path / path, callbacks=[SWA(1)])  # noqa: E731
    unbroken = run("a")
    start = kit.read(unbroken.module).copy()
    unbroken.train(5, manager())
    broken = run("b")
    kit.write(broken.module, start)
    broken.train(3, manager())
    resumed = run("b")
    resumed.train(5, manager())
    np.testing.assert_allclose(kit.read(resumed.module), kit.read(unbroken.module), rtol=1e-6)
    assert resumed.weight_average.n_averaged == 4


def test_there_is_one_average_only(torch_fit):
    with pytest.raises(ConfigError, match="there is an ExponentialMovingAverage already"):
        torch_fit.trial(ExponentialMovingAverage(), SWA()).run(1)
    with pytest.raises(ConfigError, match="SWA: start_epoch is a whole number of at least 0, got -1"):
        SWA(-1)


def test_two_averages_are_refused_by_name(torch_fit):
    with pytest.raises(ConfigError, match="there is an SWA already"):
        torch_fit.trial(cb.SWA(), cb.ExponentialMovingAverage()).run(1)
