"""From samples to batches: loaders, transforms, preprocessing, settings of workers."""

import numpy as np
from fuzz_batches import (
    DATA,
    LABELS,
    NO_DATA,
    NO_RESULT,
    NO_SAMPLER,
    NO_SAMPLER_OF_FIVE,
    SAME_DATA,
    SCALED,
    SEEDS,
    VALUES,
    all_batches,
    by_hand,
    double,
    in_batches,
)
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_CALLABLE,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
)
from sklearn.decomposition import PCA

from delira.data_loading import (
    BaseDataManager,
    Compose,
    FittedPreprocessing,
    PerSampleTransform,
    RandomSampler,
    SequentialSampler,
)

PACKAGE = "delira.data_loading"
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


def transformed(made, folder):
    """The entry ``data`` of a batch behind a transform."""
    return made({"data": VALUES.copy(), "label": LABELS}, rng=np.random.default_rng(0))["data"]


def preprocessed(made, folder):
    """The entry ``data`` of a batch behind preprocessing."""
    return made(DATA)["data"]


def negate(**sample):
    """One that is called by keyword."""
    return {**sample, "data": -sample["data"]}


ENTRIES = [
    Entry(
        name=f"{PACKAGE}.BaseDataLoader",
        good=lambda folder: {"dataset": DATA, "batch_size": 2},
        use=all_batches,
        expected=lambda arguments: in_batches(arguments["batch_size"], most=arguments.get("num_batches")),
        right={
            "batch_size": [1, 3, 5, 7, 10**9, np.int64(2)],
            "num_batches": [1, 2, 3, None],
            "dataset": SAME_DATA,
            "sampler": [SequentialSampler(5)],
            "sampler_cls": [SequentialSampler],
            "seed": [0, 2**40],
        },
        wrong={
            "dataset": NO_DATA,
            "batch_size": NOT_POSITIVE_INT,
            "num_batches": [*NOT_POSITIVE_INT, 4],
            "seed": SEEDS,
            "sampler": NO_SAMPLER_OF_FIVE,
            "sampler_cls": [*NO_SAMPLER, SequentialSampler(5)],
            "sampler_kwargs": [*NOT_A_MAPPING, {"num_samples": 1}],
        },
        free={"sampler_queues": "read by loaders of the user's"},
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
        wrong={
            "batch": [
                {},
                {"label": LABELS},
                {"data": 5},
                "x",
                None,
                STRANGE,
                {"data": VALUES[:, :1]},
                {"data": VALUES + np.inf},
                {"data": VALUES[:0]},
                {"data": [["a", "b"]]},
                {"data": np.zeros((2, 2, 2))},
                {"data": VALUES[0]},
            ]
        },
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
