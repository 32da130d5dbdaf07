"""Data managers: whole epochs of batches, by settings, samplers and workers."""

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
    Beyond,
    Halves,
    Reversed,
    all_batches,
    by_hand,
    double,
    in_batches,
    load,
)
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_POSITIVE_INT,
    STRANGE,
    Fresh,
)

from delira.data_loading import (
    BaseCacheDataset,
    BaseDataLoader,
    BaseDataManager,
    BaseLazyDataset,
    Compose,
    DictDataset,
    FittedPreprocessing,
    GroupRandomSampler,
    LambdaSampler,
    PerSampleTransform,
    PrevalenceRandomSampler,
    SequentialSampler,
    StoppingPrevalenceRandomSampler,
    WeightedPrevalenceRandomSampler,
    WeightedRandomSampler,
    WorkerSettings,
)

PACKAGE = "delira.data_loading"
EMPTY = [[], {"data": []}, {"data": np.zeros((0, 2))}, DictDataset({"data": np.zeros((0, 2))})]


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


def without(bad):
    """Batches of two by hand, without some samples."""
    batches = [[item for item in batch if item not in bad] for batch in ([0, 1], [2, 3], [4])]
    batches = [batch for batch in batches if batch]
    return [*VALUES[[item for batch in batches for item in batch]].ravel().tolist(), *map(len, batches)]


def kind_of(made):
    """The argument of a manager that a function is for."""
    return "load_fn" if made is load else "transforms"


ENTRIES = [
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
            "data": SAME_DATA,
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
            "sampler": NO_SAMPLER_OF_FIVE,
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
        name=f"{PACKAGE}.BaseDataManager#skip",
        good=lambda folder: {"bad": {1}, "bad_samples": "skip"},
        make=lambda bad, bad_samples: BaseDataManager(
            range(5), 2, load_fn=lambda item: load("x" if item in bad else item), bad_samples=bad_samples
        ),
        use=all_batches,
        expected=lambda arguments: without(arguments["bad"]),
        right={"bad": [set(), {0, 1}, {4}, {0, 2, 4}, {0, 1, 2, 3}]},
        wrong={"bad": [{0, 1, 2, 3, 4}]},
        says={"bad": ["no sample of the epoch can be loaded"]},
    ),
    *(
        Entry(
            name=f"{PACKAGE}.BaseDataManager#{kind}-of-workers",
            good=lambda folder, made=made: {kind_of(made): made},
            make=lambda **arguments: BaseDataManager(list(range(5)), 2, 1, **{"load_fn": load, **arguments}),
            use=all_batches,
            expected=expected,
            wrong={kind_of(made): wrong},
            own=[kind_of(made)],
            says={"transforms": ["transform"], "load_fn": ["sample"]},
            is_slow=True,
        )
        for kind, made, wrong, expected in (
            ("transforms", double, NO_RESULT, lambda arguments: in_batches(2, values=VALUES * 2)),
            ("samples", load, [lambda item: None, lambda item: {"data": [1] * item}], lambda arguments: in_batches(2)),
        )
    ),
    *(
        Entry(
            name=f"{PACKAGE}.BaseDataManager#{sampler.__name__}",
            good=lambda folder, sampler=sampler: {"labels": LABELS, "sampler_cls": sampler},
            make=lambda labels, **arguments: BaseDataManager(
                {"data": VALUES, "label": labels}, 2, sampler_kwargs={"key": "label"}, **arguments
            ),
            use=lambda made, folder: len(all_batches(made, folder)) > 0,
            expected=lambda arguments: True,
            right={"labels": [list("aabba"), [True, False] * 2 + [True], [1.0, 1.0, 2.0, 2.0, 1.0], [[0, 1]] * 5]},
            wrong={
                "labels": [
                    np.array([1, 0, NAN, 1, 0]),
                    [[1, 1]] * 5,
                    [1.5, 1.5, 2.5, 2.5, 1.5],
                    [1, 0],
                    [1, "a", 0, 1, 0],
                    np.array([1, None, 0, 1, 0]),
                    np.array([1, "a", 0, 1, 0], dtype=object),
                ]
            },
            says={"labels": ["'label'", "class"]},
        )
        for sampler in (PrevalenceRandomSampler, StoppingPrevalenceRandomSampler, WeightedPrevalenceRandomSampler)
    ),
    Entry(
        name=f"{PACKAGE}.BaseDataManager#GroupRandomSampler",
        good=lambda folder: {"groups": ["a", "b", "a", "b", "b"]},
        make=lambda groups: BaseDataManager(
            DATA, 2, sampler_cls=GroupRandomSampler, sampler_kwargs={"groups": groups, "samples_per_group": 1}
        ),
        use=lambda made, folder: made.n_samples,
        expected=lambda arguments: len(set(arguments["groups"])),
        right={"groups": [[5, 3, 5, 4, 4], [2**63, 2**63 + 1, 1, 2, 3], ["b", "a", "b", "a", "a"]]},
        wrong={
            "groups": ["x", 5, [1, 2], [1] * 6, np.ones((5, 2)), [1, "a", 1, 1, 1], [NAN, 1, 1, 2, 2], None, STRANGE]
        },
        says={"groups": ["group"]},
    ),
]
