"""The methods that say what a trial is fitted to: each returns the trial, and what is None stays."""

import numpy as np
import pytest

from delira import state as keys
from delira.errors import ConfigError
from delira.state import State
from delira.trial.data import ENDLESS, FluentData


class Fluent(FluentData):
    """The data of a trial, without the trial."""

    def __init__(self):
        self.state = State({keys.LOADER: None, keys.INF_TRAIN_LOADING: False})
        super().__init__()


@pytest.fixture
def fluent():
    return Fluent()


LIST = [(np.zeros((2, 3)), np.zeros(2))]


def test_nothing_is_there_at_first(fluent):
    for key in (keys.TRAIN_DATA, keys.VALIDATION_DATA, keys.TEST_DATA):
        assert fluent.data_of(key) is None
        assert fluent.state[key] == (None, None)


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("with_train_generator", keys.TRAIN_DATA),
        ("with_val_generator", keys.VALIDATION_DATA),
        ("with_test_generator", keys.TEST_DATA),
    ],
)
def test_a_generator_is_that_of_its_data_set_alone(fluent, method, key):
    assert getattr(fluent, method)(LIST, 5) is fluent
    assert fluent.state[key] == (LIST, 5)
    assert fluent.data_of(key).generator is LIST
    assert fluent.data_of(key) is fluent.data_of(key), "made once"
    others = {keys.TRAIN_DATA, keys.VALIDATION_DATA, keys.TEST_DATA} - {key}
    assert [fluent.data_of(other) for other in others] == [None, None]


def test_what_is_none_stays_as_it_is(fluent):
    fluent.with_generators(LIST, LIST, train_steps=3).with_generators(val_steps=4).for_train_steps(6)
    assert (fluent.state[keys.TRAIN_DATA], fluent.state[keys.VALIDATION_DATA]) == ((LIST, 6), (LIST, 4))
    assert fluent.state[keys.TEST_DATA] == (None, None)


def test_data_that_are_given_again_are_made_anew(fluent):
    first = fluent.with_train_generator(LIST).data_of(keys.TRAIN_DATA)
    assert fluent.for_train_steps(2).data_of(keys.TRAIN_DATA) is not first


def test_steps_without_an_end(fluent):
    fluent.for_inf_steps(train=True, val=False, test=True)
    assert [fluent.state[key][1] for key in (keys.TRAIN_DATA, keys.VALIDATION_DATA, keys.TEST_DATA)] == [
        ENDLESS, None, ENDLESS,
    ]  # fmt: skip


def test_arrays_come_in_batches(fluent):
    x, y = np.arange(10.0).reshape(5, 2), np.arange(5)
    fluent.with_data(x, y, x, y, x, batch_size=2)
    sizes = {key: fluent.state[key][0].batch_size for key in (keys.TRAIN_DATA, keys.VALIDATION_DATA, keys.TEST_DATA)}
    assert set(sizes.values()) == {2}


def test_a_loader_is_a_function_or_none(fluent):
    load = lambda state: None  # noqa: E731
    assert fluent.with_loader(load).state[keys.LOADER] is load
    assert fluent.with_loader(None).state[keys.LOADER] is None
    with pytest.raises(ConfigError):
        fluent.with_loader(3)


@pytest.mark.parametrize("steps", [-5, 1.5, "all"])
def test_steps_that_cannot_be_are_refused(fluent, steps):
    with pytest.raises(ConfigError):
        fluent.for_train_steps(steps)
