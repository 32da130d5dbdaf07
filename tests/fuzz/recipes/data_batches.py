"""From samples to batches: loaders, managers, transforms, preprocessing, settings of workers."""

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
    Fresh,
)
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from delira.data_loading import (
    AbstractSampler,
    BaseCacheDataset,
    BaseDataLoader,
    BaseDataManager,
    BaseLazyDataset,
    Compose,
    DictDataset,
    FittedPreprocessing,
    LambdaSampler,
    PerSampleTransform,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
    WorkerSettings,
)

PACKAGE = "delira.data_loading"
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
EMPTY = [[], {"data": []}, {"data": np.zeros((0, 2))}, DictDataset({"data": np.zeros((0, 2))})]
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
#: the same of single samples
NO_SAMPLE = [
    lambda sample: None,
    lambda sample: 5,
    lambda sample: {"image": sample["data"]},
    lambda sample: {**sample, "data": sample["data"][: int(sample["data"][0])]},
    lambda sample: {**sample, "more": 1} if sample["data"][0] else sample,
    lambda sample: {**sample, "data": np.ma.masked_less(sample["data"], 30)},
    lambda sample: {**sample, "data": "a" if sample["data"][0] else 1},
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


def transformed(made, folder):
    """The entry ``data`` of a batch behind a transform."""
    return made({"data": VALUES.copy(), "label": LABELS}, rng=np.random.default_rng(0))["data"]


def preprocessed(made, folder):
    """The entry ``data`` of a batch behind preprocessing."""
    return made(DATA)["data"]


def by_hand(arguments):
    """The scaler in numpy."""
    return (VALUES - VALUES.mean(axis=0)) / VALUES.std(axis=0)


def managed(method, good, expected, use=all_batches, **more):
    """One method of a manager, by its arguments."""
    return Entry(
        name=f"{PACKAGE}.BaseDataManager#{method}",
        good=lambda folder: dict(good),
        make=lambda **arguments: getattr(BaseDataManager(DATA, 2), method)(**arguments),
        use=use,
        expected=expected,
        **more,
    )


def double(batch):
    """A transform."""
    return {**batch, "data": batch["data"] * 2}


def negate(**sample):
    """One that is called by keyword."""
    return {**sample, "data": -sample["data"]}


def load(item):
    """Load a sample."""
    return {"data": VALUES[item], "label": LABELS[item]}


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


SCALED = {"data": StandardScaler().fit(VALUES)}
ENTRIES = [
    Entry(
        name=f"{PACKAGE}.BaseDataLoader",
        good=lambda folder: {"dataset": DATA, "batch_size": 2},
        use=all_batches,
        expected=lambda arguments: in_batches(arguments["batch_size"], most=arguments.get("num_batches")),
        right={
            "batch_size": [1, 3, 5, 7, 10**9, np.int64(2)],
            "num_batches": [1, 2, 3, None],
            "dataset": [DictDataset(DATA), [{"data": row} for row in VALUES], BaseLazyDataset(range(5), load)],
            "sampler": [SequentialSampler(5)],
            "sampler_cls": [SequentialSampler],
            "seed": [0, 2**40],
        },
        wrong={
            "dataset": NO_DATA,
            "batch_size": NOT_POSITIVE_INT,
            "num_batches": [*NOT_POSITIVE_INT, 4],
            "seed": SEEDS,
            "sampler": [*NO_SAMPLER, SequentialSampler(6), Beyond(range(5)), Halves(range(5)), SequentialSampler(0)],
            "sampler_cls": [*NO_SAMPLER, SequentialSampler(5)],
            "sampler_kwargs": [*NOT_A_MAPPING, {"num_samples": 1}],
        },
        says={
            "dataset": ["dataset", "dict of arrays", "'data'", "sample 1"],
            "sampler": ["Beyond", "Halves", "Sampler"],
        },
    ),
    Entry(
        name=f"{PACKAGE}.BaseDataLoader#kwargs",
        good=lambda folder: {"dataset": DATA, "sampler_cls": RandomSampler, "sampler_kwargs": {"num_samples": 3}},
        use=lambda loader, folder: len(all_batches(loader, folder)),
        expected=lambda arguments: 3 * arguments["sampler_kwargs"]["num_samples"],
        right={"sampler_kwargs": [{"num_samples": 1}]},
        wrong={
            "sampler_kwargs": [*NOT_A_MAPPING, {"num_sampels": 3}, {"num_samples": 6}, {"replacement": "x"}, {5: 1}],
        },
        says={"sampler_kwargs": ["num_sampels", "num_samples=6", "replacement", "RandomSampler takes no 5"]},
    ),
    Entry(
        name=f"{PACKAGE}.BaseDataManager",
        good=lambda folder: {"data": DATA, "batch_size": 2},
        use=all_batches,
        expected=lambda arguments: in_batches(
            arguments["batch_size"],
            arguments.get("drop_last", False),
            VALUES[:: -1 if arguments.get("sampler_cls") is Reversed or arguments.get("sampler") else 1]
            * (2 if arguments.get("transforms") else 1),
        ),
        right={
            "data": [DictDataset(DATA), [{"data": row} for row in VALUES], BaseLazyDataset(range(5), load)],
            "batch_size": [1, 3, 5, 7, 10**9, np.int64(2)],
            "drop_last": [True, np.bool_(False)],
            "transforms": [double, Compose([double]), PerSampleTransform(double), lambda **batch: double(batch)],
            "sampler_cls": [Reversed, SequentialSampler],
            "sampler": [Reversed(range(5))],
            "bad_samples": ["skip"],
            "data_loader_cls": [BaseDataLoader],
            "worker_settings": [{"prefetch": 1}, WorkerSettings(), {}],
        },
        wrong={
            "data": [*NO_DATA, *EMPTY],
            "batch_size": NOT_POSITIVE_INT,
            "n_process_augmentation": NOT_A_COUNT,
            "transforms": [*NOT_CALLABLE, [double], *NO_RESULT],
            "sampler_cls": [*NO_SAMPLER, SequentialSampler(5), Beyond, Halves],
            "sampler_kwargs": [*NOT_A_MAPPING, {"num_samples": 1}],
            "data_loader_cls": ["x", 5, int, STRANGE, BaseDataLoader(DATA)],
            "dataset_cls": ["x", 5, int, STRANGE, DictDataset(DATA)],
            "load_fn": [*NOT_CALLABLE, load],
            "from_disc": NOT_A_BOOL,
            "sampler": [*NO_SAMPLER, SequentialSampler(6), Beyond(range(5)), Halves(range(5)), SequentialSampler(0)],
            "drop_last": NOT_A_BOOL,
            "worker_settings": [*NOT_A_MAPPING, {"prefecth": 2}, {"prefetch": 0}, {5: 1}],
            "bad_samples": [*NOT_A_TEXT, "ignore", "", True, None],
            "batchsize": [2],
        },
        own=["transforms"],
        says={
            "data": ["dataset", "dict of arrays", "sample 1"],
            "sampler": ["Beyond", "Halves", "Sampler"],
            "sampler_cls": ["Beyond", "Halves"],
            "transforms": ["transform", "batch 0"],
            "worker_settings": ["prefetch"],
        },
    ),
    Entry(
        name=f"{PACKAGE}.BaseDataManager#load",
        good=lambda folder: {"data": list(range(5)), "load_fn": load, "batch_size": 2},
        make=BaseDataManager,
        use=all_batches,
        expected=lambda arguments: in_batches(2, values=VALUES[list(arguments["data"])]),
        right={
            "from_disc": [True, False],
            "dataset_cls": [BaseLazyDataset, BaseCacheDataset],
            "data": [range(4), (1, 1, 3), Fresh("a generator", lambda: range(5))],
            "bad_samples": ["skip"],
        },
        wrong={
            "data": ["x", 5, None, NAN, STRANGE, [], (), "/nonsense/nowhere", DATA],
            "load_fn": [*NOT_CALLABLE, None, lambda item: None, lambda item: 5, lambda item: {"data": [1] * item}],
            "dataset_cls": ["x", 5, int, DictDataset, STRANGE],
            "from_disc": NOT_A_BOOL,
        },
        own=["load_fn"],
        says={"load_fn": ["sample"], "data": ["dataset", "items"], "dataset_cls": ["dataset"]},
    ),
    managed(
        "epoch",
        {"seed": 0, "fold": 0, "epoch": 0},
        lambda arguments: in_batches(2, values=VALUES[2 * arguments.get("start", 0) :]),
        right={"start": [0, 1, 2], "seed": [3], "fold": [5], "epoch": [10**6]},
        wrong={
            "seed": SEEDS,
            "fold": NOT_A_COUNT,
            "epoch": NOT_A_COUNT,
            "start": [*NOT_A_COUNT, 4],
            "shuffle": NOT_A_BOOL,
        },
    ),
    managed(
        "first_batch",
        {"seed": 0},
        lambda arguments: in_batches(2, values=VALUES[:2]),
        use=lambda batch, folder: all_batches([batch], folder),
        wrong={"seed": SEEDS, "fold": NOT_A_COUNT, "epoch": NOT_A_COUNT},
    ),
    managed(
        "batch_at",
        {"seed": 0, "fold": 0, "epoch": 0, "number": 1},
        lambda arguments: in_batches(2, values=VALUES[2 * arguments["number"] :][:2]),
        use=lambda made, folder: all_batches([made[0]], folder),
        right={"number": [0, 2]},
        wrong={
            "seed": SEEDS,
            "fold": NOT_A_COUNT,
            "epoch": NOT_A_COUNT,
            "number": [*NOT_A_COUNT, 3, 10**9],
            "shuffle": NOT_A_BOOL,
        },
    ),
    managed("get_batchgen", {"seed": 3}, lambda arguments: in_batches(2), wrong={"seed": SEEDS}),
    managed(
        "get_subset",
        {"indices": [0, 3]},
        lambda arguments: in_batches(2, values=VALUES[list(arguments["indices"])]),
        right={"indices": [range(1, 4), [2, 2, 2], np.array([4])]},
        wrong={"indices": ["x", 5, None, [1.5], [[1]], [5], [-1], [True, False], [], STRANGE, ["a"]]},
        says={"indices": ["empty"]},
    ),
    managed(
        "train_test_split",
        {"test_size": 2, "random_state": 0},
        lambda arguments: [3, 2],
        use=lambda parts, folder: [part.n_samples for part in parts],
        wrong={"test_size": ["x", 0, 5, -1, 1.5, NAN, STRANGE], "random_state": ["x", -1, 1.5], "tset_size": [2]},
    ),
    managed(
        "preview",
        {"n": 2},
        lambda arguments: True,
        use=lambda figure, folder: figure is not None,
        right={"n": [1]},
        wrong={
            "n": NOT_POSITIVE_INT,
            "seed": SEEDS,
            "fold": NOT_A_COUNT,
            "epoch": NOT_A_COUNT,
            "data_key": [5, None, "image", STRANGE],
            "label_keys": [5, None, [5], STRANGE],
        },
        is_slow=True,
    ),
    managed(
        "update_state_from_dict",
        {"new_state": {"batch_size": 3}},
        lambda arguments: None,
        use=lambda made, folder: made,
        right={"new_state": [{}, {"drop_last": True}]},
        wrong={
            "new_state": [*NOT_A_MAPPING, {"batchsize": 3}, {5: 3}, None],
            "new_state.batch_size": NOT_POSITIVE_INT,
            "new_state.drop_last": NOT_A_BOOL,
            "new_state.transforms": NOT_CALLABLE,
            "new_state.sampler": NO_SAMPLER,
            "new_state.sampler_kwargs": NOT_A_MAPPING,
        },
        says={"new_state": ["'batchsize'", "settings: 5"], "new_state.transforms": ["transforms"]},
    ),
    managed(
        "with_preprocessing",
        {"fitted": FittedPreprocessing(SCALED)},
        lambda arguments: in_batches(2, values=by_hand(arguments)),
        wrong={"fitted": ["x", 5, [], SCALED, SCALED["data"], STRANGE, NAN, abs]},
        says={"fitted": ["with_preprocessing takes"]},
    ),
    Entry(
        name=f"{PACKAGE}.BaseDataManager#weights",
        good=lambda folder: {
            "data": DATA,
            "sampler_cls": WeightedRandomSampler,
            "sampler_kwargs": {"weights": [0, 0, 1, 0, 0]},
        },
        use=lambda made, folder: sorted({*all_batches(made, folder)}),
        expected=lambda arguments: [1, 4, 5],
        wrong={
            "sampler_kwargs.weights": ["x", 5, [1, 1], [NAN] * 5, [-1] * 5, [0] * 5, np.ones((5, 2)), STRANGE],
            "sampler_kwargs.key": [5, "labels", "labl"],
        },
    ),
    Entry(
        name=f"{PACKAGE}.BaseDataManager#order",
        good=lambda folder: {"data": DATA, "batch_size": 2, "order": lambda indices, n: list(indices)[:n]},
        make=lambda data, batch_size, order: BaseDataManager(data, batch_size, sampler=LambdaSampler(range(5), order)),
        use=all_batches,
        expected=lambda arguments: in_batches(2, values=VALUES[[0, 1, 0, 1, 0]]),
        right={"data": [[{"data": row} for row in VALUES]]},
        wrong={
            "order": [
                lambda indices, n: [5] * n,
                lambda indices, n: [-1] * n,
                lambda indices, n: [0.5] * n,
                lambda indices, n: [[0]] * n,
                lambda indices, n: None,
                lambda indices, n: ["a"] * n,
                lambda indices, n: [True] * n,
            ]
        },
        own=["order"],
        says={"order": ["sampling_fn", "LambdaSampler"]},
    ),
    Entry(
        name=f"{PACKAGE}.Compose",
        good=lambda folder: {"transforms": [double, negate]},
        use=transformed,
        expected=lambda arguments: VALUES * {0: 1, 1: 2, 2: -2}[len(list(arguments["transforms"]))],
        right={"transforms": [[], (double,), [double, PerSampleTransform(negate)]]},
        wrong={"transforms": ["x", "", 5, None, NAN, {}, {"a": double}, [5], [double, "x"], [None], STRANGE, double]},
        says={"transforms": ["transforms"]},
    ),
    Entry(
        name=f"{PACKAGE}.Compose#result",
        good=lambda folder: {"transform": double},
        make=lambda transform: Compose([transform]),
        use=lambda made, folder: all_batches(BaseDataManager(DATA, 2, transforms=made), folder),
        expected=lambda arguments: in_batches(2, values=VALUES * 2),
        wrong={"transform": NO_RESULT},
        own=["transform"],
    ),
    Entry(
        name=f"{PACKAGE}.PerSampleTransform",
        good=lambda folder: {"transform": negate},
        use=transformed,
        expected=lambda arguments: -VALUES,
        right={
            "keys": [{"data": "data"}, {"data": "data", "label": "x"}, None],
            "channels_last": [True, False],
            "convert": [np.asfortranarray, None],
            "transform": [lambda sample: negate(**sample), lambda sample, rng: negate(**sample)],
        },
        wrong={
            "transform": [*NOT_CALLABLE, None, [negate], *NO_SAMPLE],
            "keys": [
                "data",
                5,
                [],
                {},
                ["data"],
                {"data": 5},
                {"data": "a", "label": "a"},
                {"image": "image"},
                STRANGE,
            ],
            "channels_last": NOT_A_BOOL,
            "convert": [value for value in NOT_CALLABLE if value is not None],
        },
        own=["transform", "convert"],
        says={"transform": ["sample", "transforms"]},
    ),
    Entry(
        name=f"{PACKAGE}.PerSampleTransform#batch",
        good=lambda folder: {"batch": DATA},
        make=lambda batch: PerSampleTransform(negate, {"data": "data"})(batch, np.random.default_rng(0)),
        use=lambda batch, folder: batch["data"],
        expected=lambda arguments: -np.asarray(arguments["batch"]["data"]),
        right={"batch": [{"data": VALUES}, {"data": VALUES.astype(np.float32)}, {"data": VALUES * NAN}]},
        wrong={"batch": [{}, {"label": LABELS}, {"data": 5}, {"data": np.array(5)}, "x", 5, None, STRANGE]},
        says={"batch": ["batch"]},
    ),
    Entry(
        name=f"{PACKAGE}.FittedPreprocessing",
        good=lambda folder: {"transformers": SCALED},
        use=preprocessed,
        expected=by_hand,
        right={"transformers": [{"data": PCA(2, whiten=False).fit(VALUES), **SCALED}]},
        wrong={
            "transformers": [
                *NOT_A_MAPPING,
                {"data": 5},
                {"data": None},
                {"data": abs},
                {"image": SCALED["data"]},
                {5: 5},
            ],
        },
        says={"transformers": ["preprocessing names 'image'"]},
    ),
    Entry(
        name=f"{PACKAGE}.FittedPreprocessing#batch",
        good=lambda folder: {"batch": DATA},
        make=lambda batch: FittedPreprocessing(SCALED)(batch),
        use=lambda batch, folder: batch["data"],
        expected=lambda arguments: (np.asarray(arguments["batch"]["data"]) - VALUES.mean(axis=0)) / VALUES.std(axis=0),
        right={"batch": [{"data": VALUES[:1]}, {"data": VALUES * NAN}, {"data": VALUES.astype(np.float32)}]},
        wrong={"batch": [{}, {"label": LABELS}, {"data": 5}, "x", None, STRANGE]},
        says={"batch": ["'data'"]},
    ),
    Entry(
        name=f"{PACKAGE}.FittedPreprocessing#made",
        good=lambda folder: {"made": lambda rows: rows - 1},
        make=lambda made: FittedPreprocessing(
            {"data": type("Makes", (), {"transform": lambda self, rows: made(rows)})()}
        ),
        use=preprocessed,
        expected=lambda arguments: VALUES - 1,
        right={"made": [lambda rows: (rows - 1).tolist()]},
        wrong={
            "made": [
                lambda rows: None,
                lambda rows: 5,
                lambda rows: rows[1:],
                lambda rows: rows[None],
                lambda rows: "x",
            ]
        },
        own=["made"],
        says={"made": ["preprocessing['data'] (Makes)"]},
    ),
    Entry(
        name=f"{PACKAGE}.WorkerSettings",
        good=lambda folder: {},
        use=lambda settings, folder: (settings.time_limit, settings.prefetch, settings.replacements),
        expected=lambda arguments: (
            arguments.get("time_limit", 300.0),
            arguments.get("prefetch", 2),
            arguments.get("replacements", 1),
        ),
        right={
            "start_method": [None, "fork", "spawn", "forkserver"],
            "time_limit": [None, 0.5, 3],
            "prefetch": [1, 10],
            "replacements": [0, 3],
        },
        wrong={
            "start_method": [5, NAN, [], {}, STRANGE, "x", "", "froksrever", True],
            "time_limit": NOT_POSITIVE,
            "prefetch": NOT_POSITIVE_INT,
            "replacements": NOT_A_COUNT,
        },
    ),
]
