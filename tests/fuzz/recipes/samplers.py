"""Samplers: which indices an epoch visits."""

from collections import Counter

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_BOOL, NOT_A_COUNT, NOT_CALLABLE, NOT_POSITIVE_INT, STRANGE

from delira.data_loading import AbstractSampler, SequentialSampler

INDICES = ["x", 1.5, NAN, [1.5], [[1, 2]], [-1, 2], -3, True, np.array([True, False]), STRANGE, {"a": 1}, 1j]
NO_CLASSES = ["x", 5, NAN, [NAN, 1.0], [[0.2, 0.8], [0.5, 0.5]], np.zeros((2, 2, 2)), STRANGE, None]
SEEDS = [value for value in NOT_A_COUNT if not isinstance(value, bool)]
LABELS = [0, 0, 0, 0, 1, 1, 2, 2]


class Reversed(AbstractSampler):
    """A sampler as users write one."""

    def order(self, rng):
        return self.indices[::-1]


def one_epoch(sampler, folder):
    """Indices of one epoch, in order."""
    return list(sampler)


def sorted_epoch(sampler, folder):
    """Indices of one epoch, whatever their order."""
    return sorted(sampler)


def classes_of_an_epoch(sampler, folder):
    """How often an epoch visits each class."""
    return Counter(LABELS[index] for index in sampler)


def length(sampler, folder):
    """Indices of an epoch, counted."""
    return len(list(sampler))


def as_list(arguments):
    """The indices as they were given."""
    indices = arguments["indices"]
    return list(range(indices)) if isinstance(indices, int) else list(indices)


def all_classes_equally_often(arguments):
    """Eight samples of three classes: 3, 3 and 2, whichever."""
    return AnyCounter({3: 2, 2: 1})


class AnyCounter(dict):
    """How many classes have how many samples."""

    def __eq__(self, other):
        return Counter(other.values()) == dict(self)

    def __ne__(self, other):
        return not self == other

    __hash__ = None


def prevalence(name, expected):
    return Entry(
        name=f"delira.data_loading.{name}",
        good=lambda folder: {"indices": LABELS},
        use=classes_of_an_epoch,
        expected=expected,
        right={"shuffle_batch": [False, np.bool_(True)], "seed": [3, np.int64(5), 2**40]},
        wrong={"indices": NO_CLASSES, "shuffle_batch": NOT_A_BOOL, "seed": SEEDS},
        says={"indices": ["one class for each sample", "class"]},
    )


def random_sampler(name, **more):
    return Entry(
        name=f"delira.data_loading.{name}",
        good=lambda folder: {"indices": range(10)},
        use=length,
        expected=lambda arguments: arguments.get("num_samples") or len(arguments["indices"]),
        right={"num_samples": [1, 10, None], "indices": [[4, 5, 5]], "seed": [1, 2**63]},
        wrong={
            "indices": INDICES,
            "num_samples": [value for value in NOT_POSITIVE_INT if value is not None],
            "seed": SEEDS,
            **more,
        },
    )


ENTRIES = [
    Entry(
        name="delira.data_loading.SequentialSampler",
        good=lambda folder: {"indices": range(10)},
        use=one_epoch,
        expected=as_list,
        right={"indices": [[0, 1, 2], (5, 3), 4, np.arange(3, dtype=np.uint8)], "seed": [7]},
        wrong={"indices": INDICES, "seed": SEEDS},
    ),
    Entry(
        name="delira.data_loading.AbstractSampler",
        good=lambda folder: {"indices": range(10)},
        make=Reversed,
        use=one_epoch,
        expected=lambda arguments: as_list(arguments)[::-1],
        wrong={"indices": INDICES, "seed": SEEDS},
    ),
    random_sampler("RandomSampler", replacement=NOT_A_BOOL),
    random_sampler("RandomSamplerNoReplacement"),
    random_sampler("RandomSamplerWithReplacement"),
    prevalence("PrevalenceRandomSampler", all_classes_equally_often),
    prevalence("PrevalenceSequentialSampler", all_classes_equally_often),
    prevalence("StoppingPrevalenceRandomSampler", lambda arguments: {0: 2, 1: 2, 2: 2}),
    prevalence("StoppingPrevalenceSequentialSampler", lambda arguments: {0: 2, 1: 2, 2: 2}),
    Entry(
        name="delira.data_loading.WeightedPrevalenceRandomSampler",
        good=lambda folder: {"indices": LABELS},
        use=length,
        expected=lambda arguments: arguments.get("num_samples") or 8,
        right={"num_samples": [1, 100, None], "seed": [2]},
        wrong={"indices": NO_CLASSES, "num_samples": NOT_POSITIVE_INT, "seed": SEEDS},
        says={"indices": ["one class for each sample", "class"]},
    ),
    Entry(
        name="delira.data_loading.WeightedRandomSampler",
        good=lambda folder: {"indices": range(4), "weights": [0, 0, 1, 0]},
        use=lambda sampler, folder: set(sampler),
        expected=lambda arguments: {index for index, weight in enumerate(arguments["weights"]) if weight},
        right={"weights": [[0, 5, 0, 0], np.array([0, 0, 0, 1e-300])], "seed": [2]},
        wrong={
            "indices": INDICES,
            "weights": ["x", 5, NAN, [1, NAN, 1, 1], [1, 1], [-1, 1, 1, 1], [0, 0, 0, 0], np.ones((4, 2)), STRANGE, {}],
            "num_samples": NOT_POSITIVE_INT,
            "replacement": NOT_A_BOOL,
            "seed": SEEDS,
        },
    ),
    Entry(
        name="delira.data_loading.GroupRandomSampler",
        good=lambda folder: {"groups": ["a", "a", "b", "c", "c", "c"]},
        use=length,
        expected=lambda arguments: 6 if arguments.get("samples_per_group") is None else 3,
        right={"samples_per_group": [1, None], "seed": [4]},
        wrong={
            "groups": ["x", 5, NAN, np.zeros((2, 2)), STRANGE, None, [NAN, 1.0]],
            "samples_per_group": NOT_POSITIVE_INT,
            "seed": SEEDS,
        },
        says={"groups": ["one group for each sample"]},
    ),
    Entry(
        name="delira.data_loading.LambdaSampler",
        good=lambda folder: {"indices": range(5), "sampling_fn": lambda indices, n: indices[-1:] * n},
        use=one_epoch,
        expected=lambda arguments: as_list(arguments)[-1:] * len(as_list(arguments)),
        right={"indices": [[3, 1], 4]},
        wrong={
            "indices": INDICES,
            "sampling_fn": [*NOT_CALLABLE, None, lambda indices, n: "x", lambda indices, n: [1.5]],
            "seed": SEEDS,
        },
        own=["sampling_fn"],
    ),
    Entry(
        name="delira.data_loading.BatchSampler",
        good=lambda folder: {"sampler": SequentialSampler(5), "batch_size": 2},
        use=lambda sampler, folder: [list(map(int, batch)) for batch in sampler],
        expected=lambda arguments: [[0, 1], [2, 3], *([] if arguments.get("drop_last") else [[4]])],
        right={"drop_last": [True, False]},
        wrong={
            "sampler": ["x", 5, None, STRANGE, [], range(5)],
            "batch_size": NOT_POSITIVE_INT,
            "drop_last": NOT_A_BOOL,
        },
    ),
]
