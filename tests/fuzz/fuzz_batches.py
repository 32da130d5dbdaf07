"""Data, and what is none, for recipes that make batches."""

import numpy as np
from fuzz_values import NAN, NOT_A_COUNT, STRANGE
from sklearn.preprocessing import StandardScaler

from delira.data_loading import AbstractSampler, BaseLazyDataset, DictDataset, RandomSampler, SequentialSampler

VALUES = np.arange(10.0).reshape(5, 2)
LABELS = np.array([0, 1, 1, 0, 1])
DATA = {"data": VALUES, "label": LABELS}
SEEDS = [value for value in NOT_A_COUNT if not isinstance(value, bool)]
NO_SAMPLES = [{"data": 1}, {"data": [1, 2]}]
#: what is no data, or none that make batches
NO_DATA = [
    "x", 5, None, NAN, STRANGE, [1, 2], {}, {"data": 5}, {"data": VALUES, "label": [1]}, {"data": [[1], [1, 2]]},
    [{"data": 1}, {"label": 1}], [{"data": 1}, 5], NO_SAMPLES, [{"data": "a"}, {"data": 1}],
]  # fmt: skip
NO_SAMPLER = ["x", 5, NAN, [], [0, 1], {}, STRANGE, int, RandomSampler.from_dataset]
#: transforms whose result is no batch
NO_RESULT = [
    lambda batch: None,
    lambda batch: 5,
    lambda batch: [batch],
    lambda batch: {},
    lambda batch: {"data": batch["data"]},
    lambda batch: {"image": batch["data"], "label": batch["label"]},
    lambda batch: {**batch, "data": batch["data"][:1]},
    lambda batch: {**batch, "data": np.ma.masked_less(batch["data"], 3)},
    lambda **batch: None,
    lambda **batch: batch["data"],
]


def all_batches(made, folder):
    """The entry ``data`` of all batches, one after the other; behind it how many samples each has."""
    batches = [np.asarray(batch["data"], float) for batch in made]
    return [*np.concatenate(batches).ravel().tolist(), *map(len, batches)]


def in_batches(size, drop_last=False, values=VALUES, most=None):
    """The same by hand."""
    parts = [values[start : start + size] for start in range(0, len(values), size)][:most]
    parts = [part for part in parts if len(part) == size or not drop_last]
    return [*np.concatenate(parts).ravel().tolist(), *map(len, parts)]


def by_hand(arguments):
    """The scaler in numpy."""
    return (VALUES - VALUES.mean(axis=0)) / VALUES.std(axis=0)


def load(item):
    """Load a sample."""
    return {"data": VALUES[item], "label": LABELS[item]}


def double(batch):
    """A transform."""
    return {**batch, "data": batch["data"] * 2}


class Reversed(AbstractSampler):
    """A sampler as users write one."""

    def order(self, rng):
        return self.indices[::-1]


class Beyond(AbstractSampler):
    """It asks for what is not there."""

    def order(self, rng):
        return self.indices + 1


class Halves(AbstractSampler):
    """It asks for halves of samples."""

    def order(self, rng):
        return self.indices / 2


#: the data in other forms
SAME_DATA = [DictDataset(DATA), [{"data": row} for row in VALUES], BaseLazyDataset(range(5), load)]
#: what is no sampler of five samples
NO_SAMPLER_OF_FIVE = [*NO_SAMPLER, SequentialSampler(6), SequentialSampler(0), Beyond(range(5)), Halves(range(5))]
SCALED = {"data": StandardScaler().fit(VALUES)}
