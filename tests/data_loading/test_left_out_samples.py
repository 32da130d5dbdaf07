"""Pictures and batches that are made anew name the samples that are in them, whatever was left out."""

import warnings

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.data_loading._preview import _samples


def manager_without(bad, n=12):
    def read(index):
        if index in bad:
            raise OSError("truncated")
        return {"data": np.full(2, index), "label": index}

    return BaseDataManager(BaseLazyDataset(range(n), read), 3, bad_samples="skip")


def orders_of(manager):
    return [task.tolist() for task in np.split(manager.epoch(0, 0, 0, shuffle=True).order, 4)]


@pytest.mark.parametrize("which", ["first batch", "one sample", "two batches"])
def test_preview_and_batch_at_name_the_samples_that_are_there(which):
    order = orders_of(manager_without(()))
    bad = {"first batch": order[0], "one sample": order[1][:1], "two batches": order[0] + order[1]}[which]
    manager = manager_without(bad)
    seen = [*_samples(manager, 12, (0, 0, 0), ["data", "label"])]
    assert len(seen) == 12 - len(bad)
    for index, sample in seen:
        assert index == sample["label"] == sample["data"][0]
    for number in range(4):
        batch, indices = manager.batch_at(0, 0, 0, number, shuffle=True)
        assert (
            batch.get("label", np.zeros(0)).tolist() == indices.tolist() == [i for i in order[number] if i not in bad]
        )
    assert manager.left_out == {}


def test_preview_draws_them_with_their_names():
    pytest.importorskip("matplotlib")
    order = orders_of(manager_without(()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        figure = manager_without(order[0]).preview(3)
    titles = [text.get_text() for text in figure.texts if text.get_text().startswith("#")]
    assert [title.split()[0] for title in titles] == [f"#{index}" for index in order[1]]
    assert [title.split()[-1] for title in titles] == [str(index) for index in order[1]]
