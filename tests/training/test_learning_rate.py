"""The learning rate that is suggested, and rates that are put back."""

import numpy as np
import pytest
from small_backends import torch_kit, toy_kit

from delira.errors import ConfigError
from delira.training.finders import find_learning_rate


@pytest.fixture
def kit():
    pytest.importorskip("torch")
    return torch_kit()


def test_rates_grow_geometrically_and_nothing_stays_of_them(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    before = trainer.checkpoint_tree()
    search = find_learning_rate(trainer, manager(), start=1e-4, end=1e-2, steps=3)
    np.testing.assert_allclose(search.rates, [1e-4, 1e-3, 1e-2])
    assert search.losses.shape == search.smoothed.shape == (3,)
    assert kit.same(trainer.checkpoint_tree(), before)
    assert trainer.learning_rates() == [0.1]


def test_the_search_ends_when_the_loss_diverges(kit, tmp_path, manager):
    search = find_learning_rate(kit.trainer(tmp_path), manager(), start=0.1, end=1e6, steps=50, smoothing=0.0)
    assert len(search.rates) < 50


def test_a_rate_that_nobody_can_change_is_refused(tmp_path, manager):
    with pytest.raises(ConfigError, match="the backend 'toy' has no learning rates to change"):
        find_learning_rate(toy_kit().trainer(tmp_path), manager())


@pytest.mark.parametrize(
    "wrong", [{"start": 0}, {"start": 1.0, "end": 0.5}, {"steps": 2}, {"smoothing": 1.0}, {"divergence": 1.0}]
)
def test_what_cannot_be_is_refused(tmp_path, manager, wrong):
    with pytest.raises(ConfigError, match="find_learning_rate"):
        find_learning_rate(toy_kit().trainer(tmp_path), manager(), **wrong)
