"""Where an epoch of the training data is entered again."""

import numpy as np
import pytest
from broken_off import Break

from delira.errors import ConfigError
from delira.training.epoch import EpochData, batches_again, can_be_entered, is_foreign_loader
from delira.training.run import TrainingState


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


def check_loader(kit, path, regression, step, shuffles, same_trainer, **settings):
    batches = [regression(4, seed=seed) for seed in range(4)]
    unbroken = kit.trainer(path / "unbroken", **settings)
    unbroken.train(3, Loader(batches, shuffles), Loader(batches[:1]))
    broken = kit.trainer(path / "broken", callbacks=[Break(step)], **settings)
    loader = Loader(batches, shuffles)
    with pytest.raises(KeyboardInterrupt):
        broken.train(3, loader, Loader(batches[:1]))
    if not same_trainer:
        broken, loader = kit.trainer(path / "broken", **settings), Loader(batches, shuffles)
    broken.train(3, loader, Loader(batches[:1]))
    assert np.array_equal(kit.read(broken.module), kit.read(unbroken.module))
    assert broken.state.history == unbroken.state.history


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("step", [2, 6, 8, 12])
@pytest.mark.parametrize("shuffles", [False, True])
@pytest.mark.parametrize("same_trainer", [False, True])
def test_a_loader_that_tells_its_position_goes_on_there(kit, tmp_path, regression, step, shuffles, same_trainer):
    check_loader(kit, tmp_path, regression, step, shuffles, same_trainer, save_freq_steps=1)


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("shuffles", "same_trainer"), [(True, False), (False, True)])
def test_a_loader_goes_on_after_a_whole_epoch_too(kit, tmp_path, regression, shuffles, same_trainer):
    """One that keeps its own order; and any in the process where it was broken off, since it is inside an epoch."""
    check_loader(kit, tmp_path, regression, 6, shuffles, same_trainer, save_freq=1)


COUNTERS = (5, 0, 2)


def numbers(batches):
    return [batch["number"].tolist() for batch in batches]


def test_a_manager_is_entered_at_the_batch_where_the_run_stands(manager):
    data = manager(20, 4)
    whole = numbers(EpochData(data, COUNTERS, TrainingState()).batches)
    entered = EpochData(data, COUNTERS, TrainingState(step_in_epoch=2))
    assert numbers(entered.batches) == whole[2:]
    left_out = EpochData(data, COUNTERS, TrainingState(step_in_epoch=2, batch_in_epoch=3))
    assert numbers(left_out.batches) == whole[3:], "batches that were left out as a whole count"


def test_only_a_manager_that_is_told_so_shuffles(manager):
    data, ordered = manager(20, 4), np.arange(20).reshape(5, 4).tolist()
    assert numbers(EpochData(data, COUNTERS, TrainingState(), shuffle=False).batches) == ordered
    assert numbers(EpochData(data, COUNTERS, TrainingState(), shuffle=True).batches) != ordered


def test_the_position_counts_from_the_step_where_the_epoch_was_entered(manager):
    state = TrainingState(step_in_epoch=2)
    entered = EpochData(manager(20, 4), COUNTERS, state)
    iterator = iter(entered.batches)
    next(iterator)
    assert entered.position(3) == 3
    assert EpochData([1, 2, 3], COUNTERS, state).position(2) == 2


def test_the_batches_of_an_epoch_are_the_same_once_more(manager):
    data = manager(20, 4)
    first = numbers(EpochData(data, COUNTERS, TrainingState()).batches)
    assert numbers(batches_again(data, COUNTERS, TrainingState())) == first
    assert numbers(batches_again(data, (5, 0, 3), TrainingState())) != first
    batches = [1, 2]
    assert batches_again(batches, COUNTERS, TrainingState()) is batches


@pytest.mark.parametrize("make", [list, tuple])
def test_a_list_is_entered_and_has_the_length_of_the_whole_epoch(make):
    entered = EpochData(make("abcd"), COUNTERS, TrainingState(step_in_epoch=3)).batches
    assert (list(entered), len(entered)) == (["d"], 4)


def test_an_epoch_that_has_all_its_steps_gives_no_batch(manager):
    entered = EpochData(manager(), COUNTERS, TrainingState(step_in_epoch=3, has_all_steps=True)).batches
    assert (list(entered), len(entered)) == ([], 3)


def test_what_cannot_be_entered_is_refused_by_its_type():
    data = map(str, range(3))
    assert not can_be_entered(data)
    assert EpochData(data, COUNTERS, TrainingState()).batches is data
    with pytest.raises(ConfigError, match="inside epoch 2, after batch 1, where the training data, a map, cannot be"):
        EpochData(data, COUNTERS, TrainingState(step_in_epoch=1))


def test_a_loader_of_the_user_s_is_given_the_position_that_it_told():
    loader = Loader([{"a": 1}, {"a": 2}])
    assert is_foreign_loader(loader)
    assert can_be_entered(loader)
    state = TrainingState(step_in_epoch=1, loader={"epoch": 3, "position": 1})
    assert list(EpochData(loader, COUNTERS, state).batches) == [{"a": 2}]
