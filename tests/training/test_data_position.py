"""Where an epoch of the training data is entered again."""

import numpy as np
import pytest
from broken_off import Break


class Loader:
    """Goes through its batches, and counts its epochs as loaders of others do."""

    def __init__(self, batches, shuffles=False):
        self.batches, self.shuffles, self.epoch, self.position = batches, shuffles, 0, 0

    def __iter__(self):
        order = np.arange(len(self.batches))
        if self.shuffles:
            order = np.random.default_rng(self.epoch).permutation(order)
        while self.position < len(order):
            self.position += 1
            yield self.batches[order[self.position - 1]]
        self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], state["position"]


def check_loader(room, path, regression, step, shuffles, same_trainer, **settings):
    batches = [regression(4, seed=seed) for seed in range(4)]
    unbroken = room.trainer(path / "unbroken", **settings)
    unbroken.train(3, Loader(batches, shuffles), Loader(batches[:1]))
    broken = room.trainer(path / "broken", callbacks=[Break(step)], **settings)
    loader = Loader(batches, shuffles)
    with pytest.raises(KeyboardInterrupt):
        broken.train(3, loader, Loader(batches[:1]))
    if not same_trainer:
        broken, loader = room.trainer(path / "broken", **settings), Loader(batches, shuffles)
    broken.train(3, loader, Loader(batches[:1]))
    assert np.array_equal(room.read(broken.module), room.read(unbroken.module))
    assert broken.state.history == unbroken.state.history


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("step", [2, 6, 8, 12])
@pytest.mark.parametrize("shuffles", [False, True])
@pytest.mark.parametrize("same_trainer", [False, True])
def test_a_loader_that_tells_its_position_goes_on_there(room, tmp_path, regression, step, shuffles, same_trainer):
    check_loader(room, tmp_path, regression, step, shuffles, same_trainer, save_freq_steps=1)


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("shuffles", "same_trainer"), [(True, False), (False, True)])
def test_a_loader_goes_on_after_a_whole_epoch_too(room, tmp_path, regression, shuffles, same_trainer):
    """One that keeps its own order; and any in the process where it was broken off, since it is inside an epoch."""
    check_loader(room, tmp_path, regression, 6, shuffles, same_trainer, save_freq=1)
