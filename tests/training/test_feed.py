"""Batches of any data, in order, with what is prepared of them ahead."""

import numpy as np
import pytest

from delira.errors import ConfigError, DataError, NonFiniteLossError
from delira.training.epoch import Feed, batch_length


def prepared(batch):
    return {"prepared": batch}


@pytest.fixture
def feed(kit):
    return Feed(kit.backend, prepared)


def test_any_iterable_is_gone_through_as_it_is(feed):
    data = [{"data": np.zeros(3)}]
    assert feed.in_order(data, None, (0, 0, 1)) is data
    with pytest.raises(ConfigError, match="batch_size=2 needs a data manager; the data is a list"):
        feed.in_order(data, 2, (0, 0, 1))


def test_a_manager_gives_its_batches_in_order_and_of_another_size_if_that_is_asked_for(feed, manager):
    data = manager(10, 4)
    batches = list(feed.in_order(data, 3, (0, 0, 1)))
    assert [len(batch["number"]) for batch in batches] == [3, 3, 3, 1]
    assert np.concatenate([batch["number"] for batch in batches]).tolist() == list(range(10))
    assert data.batch_size == 4
    assert [len(batch["number"]) for batch in feed.in_order(data, None, (0, 0, 1))] == [4, 4, 2]


def test_preprocessing_is_done_to_the_batches_of_an_iterable(feed):
    feed.preprocessing = lambda batch: {**batch, "done": True}
    assert list(feed.in_order([{"data": 1}], None, (0, 0, 1))) == [{"data": 1, "done": True}]


def test_every_batch_comes_with_what_was_prepared_of_it_or_none(kit, feed):
    batches = [{"data": np.full(2, number)} for number in range(3)]
    with feed.opened(batches) as fed:
        pairs = list(fed)
    assert [batch["data"][0] for batch, _ in pairs] == [0, 1, 2]
    assert all(ready is None or ready["prepared"] is batch for batch, ready in pairs)
    with feed.opened(batches, ahead=False) as fed:
        assert [ready for _, ready in fed] == [None] * 3


def test_nothing_is_prepared_ahead_where_that_is_forbidden(kit):
    calls = []
    feed = Feed(kit.backend, lambda batch: calls.append(batch) or {}, may_look_ahead=lambda: False)
    with feed.opened([{"data": np.zeros(2)}] * 3) as fed:
        assert [ready for _, ready in fed] == [None] * 3
    assert calls == []


def test_batches_of_a_manager_are_closed_however_the_pass_ends(feed, manager):
    closed = []
    batches = feed.in_order(manager(), None, (0, 0, 1))
    batches.close = lambda: closed.append("closed")
    with pytest.raises(ZeroDivisionError), feed.opened(batches):
        raise ZeroDivisionError
    assert closed == ["closed"]


def test_there_is_no_bar_where_nobody_looks(feed, capsys):
    with feed.opened([{"data": np.zeros(2)}], verbose=True, ahead=False) as fed:
        list(fed)
    assert not capsys.readouterr().err, "the output of a test is no terminal"


def test_an_error_says_at_which_batch_it_arose_and_one_of_reading_does_not(feed, manager):
    batches = feed.in_order(manager(10, 4), None, (0, 0, 1))
    batches.seek(1)  # as a training that goes on
    with pytest.raises(ZeroDivisionError) as caught, feed.opened(batches) as fed:
        [1 // (1 - number) for number, _ in enumerate(fed)]
    assert caught.value.__notes__ == ["at batch 3 of epoch 1 (fold 0, seed 0; samples 8, 9)"]

    with (
        pytest.raises(NonFiniteLossError) as caught,
        feed.opened(feed.in_order(manager(10, 4), None, (0, 0, 1))) as fed,
    ):
        raise next(NonFiniteLossError("of step 1") for _ in fed)
    assert not hasattr(caught.value, "__notes__"), "losses are looked at later, and the error names its own step"

    def failing():
        yield {"data": np.zeros(2)}
        raise ValueError("of reading")

    with pytest.raises(ValueError, match="of reading") as caught, feed.opened(failing()) as fed:
        list(fed)
    assert not hasattr(caught.value, "__notes__")


class Knows(dict):
    n_samples = 7


@pytest.mark.parametrize(("batch", "length"), [({"data": np.zeros((5, 2)), "x": [0]}, 5), (Knows(data=[1]), 7)])
def test_the_length_of_a_batch_is_that_of_its_first_entry_unless_it_knows_better(batch, length):
    assert batch_length(batch) == length


@pytest.mark.parametrize("batch", [{}, [1, 2], {"data": 3}, None])
def test_what_has_no_samples_is_no_batch(batch):
    with pytest.raises(DataError, match="a batch must be a dict of arrays with the samples first"):
        batch_length(batch)


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(DataError, match="a batch has no sample"):
        batch_length({"data": np.zeros((0, 2))})
