"""The exponential moving average of weights as an object: its decay, and when it moves."""

from types import SimpleNamespace

import pytest

from delira.callbacks.weights import ExponentialMovingAverage
from delira.errors import ConfigError


def averaging(**settings):
    """An average of a network that is a number, and the decays it was moved by."""
    decays = []

    def average(before, network, decay):
        decays.append(decay)
        return {"weight": 0.0}

    optimizer = SimpleNamespace(num_updates=0)
    trainer = SimpleNamespace(
        backend=SimpleNamespace(weights=SimpleNamespace(average=average)), module=None,
        optimizers={"default": optimizer}, averages=SimpleNamespace(use=lambda callback: None),
    )  # fmt: skip
    callback = ExponentialMovingAverage(**settings)
    callback.attach(trainer)
    decays.clear()  # it begins with a copy
    return callback, trainer, optimizer, decays


def test_it_moves_with_each_update_and_stays_without_one():
    callback, trainer, optimizer, decays = averaging(decay=0.9, warmup=False)
    for n_updates in (1, 1, 2):
        optimizer.num_updates = n_updates
        callback.at_iter_end(trainer)
    assert decays == [0.9, 0.9]
    assert callback.state_dict() == {"n_updates": 2}


def test_it_begins_with_smaller_decays():
    callback, trainer, optimizer, decays = averaging(decay=0.2)
    callback.load_state_dict({"n_updates": 0})
    for optimizer.num_updates in (1, 2, 3):
        callback.at_iter_end(trainer)
    assert decays == pytest.approx([2 / 11, 0.2, 0.2])


@pytest.mark.parametrize("decay", [1.0, -0.1, "0.9"])
def test_impossible_decays_are_refused(decay):
    with pytest.raises(ConfigError, match="ExponentialMovingAverage: decay"):
        ExponentialMovingAverage(decay)
