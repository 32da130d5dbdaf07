"""Datasets of what is in memory, and views on datasets: samples, labels, indices."""

import itertools

import numpy as np
import scipy.sparse
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_COUNT, STRANGE, Fresh

from delira.data_loading import (
    AbstractDataset,
    BaseCacheDataset,
    BaseDataLoader,
    BaseLazyDataset,
    BlankDataset,
    ConcatDataset,
    DictDataset,
    IterableDataset,
    MappedDataset,
    Subset,
    WrappedDataset,
)

PACKAGE = "delira.data_loading"
VALUES = np.arange(12, dtype=np.float32).reshape(6, 2) / 7
LABELS = [0, 1, 1, 0, 2, 2]
SAMPLES = [{"data": row, "label": label} for row, label in zip(VALUES, LABELS, strict=True)]
PAIRS = [(row, label) for row, label in zip(VALUES, LABELS, strict=True)]
NO_INDEX = ["x", 1.5, NAN, STRANGE, 6, -7, 10**9, 2**70, 1j, True, None]
NO_INDICES = ["x", 5, None, 1.5, [1.5], [NAN], ["a"], [[0, 1]], [6], [0, -7], [True, False], {"a": 1}, STRANGE, [None]]
#: what makes no column of values, one for each sample
NO_COLUMN = [
    "x",
    5,
    None,
    NAN,
    STRANGE,
    [[1, 2], [3]] * 3,
    [1, "a"] * 3,
    scipy.sparse.eye(6).tocsr(),
    np.float32(2),
    {"a": 1},
    {1, 2},
]
WRONG_LENGTHS = [[1, 2], [], np.zeros((7, 6)), [0] * 5]
MASKED = np.ma.masked_array(np.arange(6), [0, 0, 1, 0, 0, 0])
NO_LABELS = [*NO_COLUMN, *WRONG_LENGTHS, MASKED, [2**63, -1, 0, 0, 0, 0]]
NO_SAMPLES = ["x", 5, None, STRANGE, NAN, [1, 2], [SAMPLES[0], 5], [SAMPLES[0], None], [{"data": 1}, {"label": 1}]]


class Squares(AbstractDataset):
    """A dataset as users write one."""

    def __init__(self, *args):
        super().__init__(*args)
        self.data = list(range(6))

    def __getitem__(self, index):
        return dict(SAMPLES[index])


class Pairs:
    """A dataset of another library."""

    def __init__(self, pairs=PAIRS):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


class Endless(Pairs):
    """It does not know how long it is."""

    def __len__(self):
        raise TypeError("no length")


def load(item):
    """Load a sample as users do."""
    return dict(SAMPLES[item])


#: every dataset of the same six samples
KINDS = {
    "AbstractDataset": Squares,
    "BaseCacheDataset": lambda: BaseCacheDataset(range(6), load),
    "BaseLazyDataset": lambda: BaseLazyDataset(range(6), load),
    "BlankDataset": lambda: BlankDataset(
        range(6), BaseLazyDataset.__getitem__, _load_fn=load, _load_kwargs={}, _img_extensions=None
    ),
    "ConcatDataset": lambda: ConcatDataset(
        IterableDataset(SAMPLES[:2]), DictDataset({"data": VALUES[2:], "label": LABELS[2:]})
    ),
    "DictDataset": lambda: DictDataset({"data": VALUES, "label": LABELS}),
    "IterableDataset": lambda: IterableDataset(SAMPLES),
    "MappedDataset": lambda: MappedDataset({"data": VALUES, "label": LABELS}),
    "Subset": lambda: Subset(IterableDataset(SAMPLES[::-1]), range(5, -1, -1)),
    "WrappedDataset": lambda: WrappedDataset(Pairs()),
}


def parts_of(lengths):
    """Datasets of so many samples, one after the other."""
    ends = np.cumsum([0, *lengths])
    return [DictDataset({"data": VALUES[a:b], "label": LABELS[a:b]}) for a, b in itertools.pairwise(ends)]


def values(made, folder):
    """The entry ``data`` of a sample or a batch."""
    return np.asarray(made["data"], dtype=np.float64)


def all_values(dataset, folder):
    """The entry ``data`` of all samples, one after the other."""
    return np.array([np.asarray(dataset[index]["data"]) for index in range(len(dataset))])


def all_labels(dataset, folder):
    """What the dataset says the labels are."""
    return np.asarray(dataset.labels())


def sample_of(kind):
    """Samples by their number, as Python counts."""
    return Entry(
        name=f"{PACKAGE}.{kind}#sample",
        good=lambda folder: {"index": 1},
        make=lambda index: KINDS[kind]()[index],
        use=values,
        expected=lambda arguments: VALUES[arguments["index"]],
        right={"index": [0, 5, -1, -6, np.int64(2), np.uint8(3)]},
        # what the user's own class says of wrong ones is its own affair
        wrong={} if kind == "AbstractDataset" else {"index": NO_INDEX},
    )


def batch_of(kind):
    """Batches of given samples; they may repeat."""
    return Entry(
        name=f"{PACKAGE}.{kind}#batch",
        good=lambda folder: {"indices": [0, 2]},
        make=lambda indices: BaseDataLoader(KINDS[kind]())(indices),
        use=values,
        expected=lambda arguments: VALUES[np.asarray(arguments["indices"])],
        right={
            "indices": [[1, 1], [5], range(6), (3, 0), np.array([4, 4, 1]), *(np.array([2], t) for t in "bBhHiIlLqQ")]
        },
        wrong={
            "indices": [
                *NO_INDICES,
                [],
                np.array([1.5]),
                np.array([6]),
                np.array([2**64 - 1], np.uint64),
                [2**64 - 1],
                [2**70],
                np.array(["a"]),
                np.array([[1]]),
            ]
        },
        says={"indices": ["index 6", "index -7", "at least one index"]},
    )


def part_of(kind):
    """Views on some samples."""
    return Entry(
        name=f"{PACKAGE}.{kind}#part",
        good=lambda folder: {"indices": [0, 2]},
        make=lambda indices: KINDS[kind]().get_subset(indices),
        use=lambda part, folder: [*all_values(part, folder)[:, 0], *part.labels()],
        expected=lambda arguments: [
            *VALUES[list(arguments["indices"]), 0],
            *np.array(LABELS)[list(arguments["indices"])],
        ],
        right={"indices": [[1, 1], [5], range(6), (3, 0), np.array([4, 4, 1])]},
        wrong={"indices": NO_INDICES},
    )


def labels_of(kind):
    """Labels that are set in place of those of the samples."""
    return Entry(
        name=f"{PACKAGE}.{kind}#labels",
        good=lambda folder: {"key": "label", "values": LABELS[::-1]},
        make=lambda **arguments: (KINDS[kind](), arguments),
        use=lambda made, folder: np.asarray(set_and_read(*made)),
        expected=lambda arguments: np.asarray(arguments["values"]),
        right={"key": ["patient"], "values": [np.linspace(0, 1, 6), [True, False] * 3, np.ones((6, 2))]},
        wrong={"values": NO_LABELS, "key": [5, None, [], STRANGE]},
    )


def set_and_read(dataset, arguments):
    """Labels after they were set."""
    dataset.set_labels(**arguments)
    return dataset.labels(arguments["key"])


def entry_of(kind):
    """An entry of all samples, which must be there."""
    return Entry(
        name=f"{PACKAGE}.{kind}#entry",
        good=lambda folder: {"key": "label"},
        make=lambda key: KINDS[kind]().labels(key),
        expected=lambda arguments: {"label": np.array(LABELS), "data": VALUES}[arguments["key"]],
        right={"key": ["data"]},
        wrong={"key": ["nonsense", "", "Label", 5, None, NAN]},
        says={"key": ["no entry"]},
    )


def division_of(kind):
    """Two parts at random."""
    return Entry(
        name=f"{PACKAGE}.{kind}#division",
        good=lambda folder: {"test_size": 2, "random_state": 0},
        make=lambda **arguments: KINDS[kind]().train_test_split(**arguments),
        use=lambda parts, folder: sorted([*parts[0].indices, *parts[1].indices, 100 * len(parts[1])]),
        expected=lambda arguments: [0, 1, 2, 3, 4, 5, 200],
        right={"shuffle": [False], "random_state": [None, 7]},
        wrong={
            "test_size": ["x", 0, 6, 7, -1, 1.5, NAN, [], STRANGE],
            "random_state": ["x", -1, 1.5, STRANGE],
            "stratify": ["label", [0, 1], 5, [0, 1, 2, 3, 4, 5], [NAN] * 6],
            "tset_size": [2],
        },
        says={"stratify": ["class"]},
    )


def described(kind):
    """What a dataset says of itself."""
    return Entry(
        name=f"{PACKAGE}.{kind}#describe",
        good=lambda folder: {"label_key": "label"},
        make=lambda **arguments: KINDS[kind]().describe(**arguments),
        use=lambda said, folder: said.n_samples,
        expected=lambda arguments: 6,
        right={"limit": [1, 100, None]},
        wrong={"limit": NOT_A_COUNT, "label_key": [5, None, [], STRANGE]},
    )


ENTRIES = [
    *map(sample_of, KINDS),
    *map(batch_of, KINDS),
    *map(part_of, KINDS),
    *map(labels_of, ["AbstractDataset", "DictDataset", "Subset", "WrappedDataset"]),
    *map(division_of, ["AbstractDataset", "Subset"]),
    *map(described, ["AbstractDataset", "DictDataset", "MappedDataset"]),
    *map(entry_of, KINDS),
    Entry(
        name=f"{PACKAGE}.AbstractDataset",
        good=lambda folder: {},
        make=Squares,
        use=all_values,
        expected=lambda arguments: VALUES,
        free=dict.fromkeys(("data_path", "load_fn", "img_extensions", "gt_extensions"), "kept for the user's class"),
    ),
    *(
        Entry(
            name=f"{PACKAGE}.{name}",
            good=lambda folder: {"arrays": {"data": VALUES, "label": LABELS}},
            use=lambda dataset, folder: np.column_stack([all_values(dataset, folder), dataset.labels()]),
            expected=lambda arguments: np.column_stack([np.asarray(value) for value in arguments["arrays"].values()]),
            right={
                "arrays.label": [np.arange(6), np.full(6, NAN), [1.5, 0, np.inf, 0, 0, 1]],
                "arrays.data": [VALUES.tolist(), VALUES.astype(np.float16), np.full((6, 2), NAN)],
            },
            wrong={
                "arrays": ["x", 5, None, [], {}, STRANGE, [1, 2], SAMPLES],
                "arrays.label": [*NO_COLUMN, *WRONG_LENGTHS, MASKED, Pairs()],
            },
            says={"arrays": ["dict of"]},
        )
        for name in ("DictDataset", "MappedDataset")
    ),
    Entry(
        name=f"{PACKAGE}.IterableDataset",
        good=lambda folder: {"samples": SAMPLES},
        use=all_values,
        expected=lambda arguments: VALUES,
        right={"samples": [tuple(SAMPLES), Fresh("a generator", lambda: (dict(each) for each in SAMPLES))]},
        wrong={"samples": [*NO_SAMPLES, {"data": VALUES}, {}, VALUES]},
        says={"samples": ["sample 1", "sample 0"]},
    ),
    Entry(
        name=f"{PACKAGE}.IterableDataset#labels",
        good=lambda folder: {"label": 1},
        make=lambda label: IterableDataset([{"label": 0}, {"label": label}, {"label": 2}]),
        use=all_labels,
        expected=lambda arguments: np.array([0, arguments["label"], 2]),
        right={"label": [NAN, 0.5, True, np.int8(3), np.inf, 2**63 + 1]},
        wrong={"label": ["ill", [1], [1, [2]], {"a": 1}, np.zeros((2, 2)), np.ma.masked]},
    ),
    Entry(
        name=f"{PACKAGE}.ConcatDataset",
        good=lambda folder: {"*": [IterableDataset(SAMPLES[:2]), IterableDataset(SAMPLES[2:])]},
        use=lambda dataset, folder: np.column_stack([all_values(dataset, folder), dataset.labels()]),
        expected=lambda arguments: np.column_stack([VALUES, LABELS]),
        right={
            "*1": [
                DictDataset({"data": VALUES[2:], "label": LABELS[2:]}),
                Subset(IterableDataset(SAMPLES), range(2, 6)),
            ]
        },
        wrong={
            "*1": [
                "x",
                5,
                None,
                SAMPLES,
                {"data": VALUES},
                STRANGE,
                IterableDataset([{"data": VALUES[0], "label": "ill"}]),
                IterableDataset([{"data": VALUES[0]}]),
                IterableDataset([{"data": VALUES[0], "label": [1, 2]}]),
            ]
        },
        says={"*1": ["number 1", "part 1", "sample 0 has no entry 'label'"]},
    ),
    Entry(
        name=f"{PACKAGE}.ConcatDataset#one",
        good=lambda folder: {"*": [[IterableDataset(SAMPLES)]]},
        use=all_values,
        expected=lambda arguments: VALUES,
        wrong={"*0": ["x", 5, None, SAMPLES, {"data": IterableDataset(SAMPLES)}, STRANGE, NAN, {}]},
        says={"*0": ["takes datasets"]},
    ),
    Entry(
        name=f"{PACKAGE}.ConcatDataset#parts",
        good=lambda folder: {"lengths": (2, 4)},
        make=lambda lengths: ConcatDataset(parts_of(lengths)),
        use=lambda dataset, folder: np.column_stack([BaseDataLoader(dataset)(range(6))["data"], dataset.labels()]),
        expected=lambda arguments: np.column_stack([VALUES, LABELS]),
        right={"lengths": [(0, 6), (6, 0, 0), (1,) * 6, (0, 3, 0, 3)]},
        wrong={"lengths": [(1, 2), (0,), ()]},
        says={"lengths": ["of 3 samples", "of 0 samples"]},
    ),
    Entry(
        name=f"{PACKAGE}.Subset#nested",
        good=lambda folder: {"indices": [[5, 3, 1], [2, 0]]},
        make=lambda indices: Subset(Subset(DictDataset({"data": VALUES, "label": LABELS}), indices[0]), indices[1]),
        use=lambda dataset, folder: np.column_stack([all_values(dataset, folder), dataset.labels()]),
        expected=lambda arguments: np.column_stack([VALUES, LABELS])[
            np.array(arguments["indices"][0])[arguments["indices"][1]]
        ],
        right={"indices": [([0, 0, 4], [2, 2, 1, 0]), (range(6), [5])]},
        wrong={"indices": [([0, 1], [2]), ([6], [0]), ([0], [-1])]},
        says={"indices": ["indices 2", "indices 6", "indices -1"]},
    ),
    Entry(
        name=f"{PACKAGE}.Subset",
        good=lambda folder: {"parent": IterableDataset(SAMPLES), "indices": [1, 1, 4]},
        use=all_values,
        expected=lambda arguments: VALUES[np.asarray(arguments["indices"], int)],
        right={"indices": [[5, 0], np.array([2, 2]), range(0, 6, 2)], "parent": [DictDataset({"data": VALUES})]},
        wrong={"indices": NO_INDICES, "parent": ["x", 5, None, SAMPLES, {"data": VALUES}, Pairs(), STRANGE]},
    ),
    Entry(
        name=f"{PACKAGE}.BlankDataset",
        good=lambda folder: {
            "data": VALUES,
            "old_getitem": lambda dataset, index: {"data": dataset.data[index] + dataset.more},
            "more": 1,
        },
        use=all_values,
        expected=lambda arguments: np.asarray(arguments["data"]) + arguments["more"],
        right={"data": [VALUES[:1], VALUES * NAN], "more": [2, NAN]},
        wrong={"data": [5, None, NAN, STRANGE], "old_getitem": ["x", 5, None, STRANGE, {}]},
        own=["old_getitem"],
    ),
    Entry(
        name=f"{PACKAGE}.WrappedDataset",
        good=lambda folder: {"dataset": PAIRS, "keys": ("data", "label")},
        use=lambda dataset, folder: np.column_stack([all_values(dataset, folder), dataset.labels()]),
        expected=lambda arguments: np.column_stack([VALUES, LABELS]),
        right={"dataset": [Pairs(), SAMPLES, tuple(PAIRS)], "keys": [None, ["data", "label"]]},
        wrong={
            "dataset": [
                5,
                None,
                NAN,
                STRANGE,
                {"data": VALUES},
                Fresh("a generator", lambda: iter(PAIRS)),
                Endless(),
                Pairs([(1, 2, 3)]),
                Pairs([{"label": 1}]),
            ],
            "keys": [
                "x",
                5,
                NAN,
                [],
                {},
                ["data"],
                ["data", "data"],
                ["data", 5],
                ("data", "label", "more"),
                {"data": "data"},
                STRANGE,
            ],
        },
        says={"dataset": ["wrapped", "wrap", "stream", "sample 0"], "keys": ["names"]},
    ),
    Entry(
        name=f"{PACKAGE}.WrappedDataset#own",
        good=lambda folder: {"read": lambda index: PAIRS[index]},
        make=lambda read: WrappedDataset(type("Reads", (Pairs,), {"__getitem__": lambda self, index: read(index)})()),
        use=all_values,
        expected=lambda arguments: VALUES,
        own=["read"],
        right={"read": [lambda index: SAMPLES[index]]},
        wrong={"read": [lambda index: None, lambda index: "x", lambda index: (1, 2, 3)]},
        says={"read": ["sample 0", "'data'"]},
    ),
]
