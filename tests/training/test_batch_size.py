"""The largest batch that fits: which sizes are tried, and batches whose samples are repeated."""

import collections

import numpy as np
import pytest

from delira.training.finders import find_batch_size, resized

Pair = collections.namedtuple("Pair", ["one", "other"])


def test_samples_are_repeated_in_any_structure():
    batch = {"data": np.arange(3), "pair": Pair(np.arange(3), 5), "names": ["a", "b", "c"], "other": np.arange(4)}
    found = resized(batch, 3, 5)
    assert found["data"].tolist() == [0, 1, 2, 0, 1]
    assert found["pair"].one.tolist() == [0, 1, 2, 0, 1]
    assert found["pair"].other == 5
    assert found["names"] == ["a", "b", "c", "a", "b"]
    assert found["other"].tolist() == [0, 1, 2, 3]
    assert resized(batch, 3, 2)["data"].tolist() == [0, 1]


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    assert resized(torch.arange(2), 2, 3).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("fits", "is_exact", "tried"), [(9, False, [2, 4, 8, 16]), (9, True, [2, 4, 8, 16, 12, 10, 9])]
)
def test_sizes_are_doubled_and_halved_between_the_last_two_if_that_is_asked_for(
    tmp_path, manager, monkeypatch, fits, is_exact, tried
):
    from small_backends import toy_kit

    sizes = []

    def fits_or_not(trainer, rehearsal, first, size, steps):
        sizes.append(size)
        return size <= fits

    monkeypatch.setattr("delira.training.finders._fits", fits_or_not)
    trainer = toy_kit().trainer(tmp_path)
    found = find_batch_size(trainer, manager(4, 2), start=2, max_batch_size=100, is_exact=is_exact)
    assert (found, sizes) == (9 if is_exact else 8, tried)
