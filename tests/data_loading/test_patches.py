"""Patches: where they lie, what they read, and that everything is divided by cases."""

import pickle
import warnings

import numpy as np
import pytest

from delira.data_loading import (
    BaseDataManager,
    CachedDataset,
    ConcatDataset,
    DictDataset,
    IterableDataset,
    MappedDataset,
    Patches,
    PrevalenceRandomSampler,
    Subset,
)
from delira.errors import ConfigError, DataError, MissingKeyError, SampleIndexError
from delira.utils.seeding import counted, current_counters


def case(number, shape=(20, 30), share=0.05):
    """A case whose voxels say where they are: 1,000 times the row and the column, from 1 on, and the case."""
    rng = np.random.default_rng(number)
    rows, columns = np.indices(shape)
    values = np.stack([1000 * (rows + 1) + columns + 1, np.full(shape, number)]).astype(np.float32)
    label = rng.choice([0, 1, 2], shape, p=[1 - share, 0.9 * share, 0.1 * share])
    return {"data": values, "label": label, "patient": f"P{number // 2}", "spacing": np.array([1.0, 2.0])}


@pytest.fixture
def cases():
    return [case(number, (20 + number, 30)) for number in range(6)]


def epoch_of(manager, epoch=3, start=0, seed=1, fold=2):
    return list(manager.epoch(seed, fold, epoch, start, shuffle=True))


def places_of(batches):
    """(case, first row, first column) of each patch."""
    data = np.concatenate([batch["data"] for batch in batches])
    first = data[:, 0, 0, 0]
    return [(int(n), int(v // 1000) - 1, int(v % 1000) - 1) for n, v in zip(data[:, 1, 0, 0], first, strict=True)]


def assert_equal(batches, others):
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        assert batch.keys() == other.keys()
        for key in batch:
            assert np.array_equal(batch[key], other[key])


# ------------------------------------------------------------------ what a patch is


def test_a_patch_is_a_part_of_its_case_in_all_entries_of_its_shape(cases):
    patches = Patches(cases, (8, 8), per_case=3)
    assert len(patches) == 18
    for index, patch in enumerate(patches):
        whole = cases[index // 3]
        assert patch.keys() == whole.keys()
        (_, row, column), *_ = places_of([{"data": patch["data"][None]}])
        assert np.array_equal(patch["data"], whole["data"][:, row : row + 8, column : column + 8])
        assert np.array_equal(patch["label"], whole["label"][row : row + 8, column : column + 8])
        assert np.array_equal(patch["spacing"], whole["spacing"])
        assert patch["patient"] == whole["patient"]


def test_a_label_may_have_an_axis_of_channels(cases):
    given = [{**one, "label": one["label"][None]} for one in cases]
    plain, with_axis = Patches(cases, (8, 8), 2, foreground=1), Patches(given, (8, 8), 2, foreground=1)
    for patch, other in zip(plain, with_axis, strict=True):
        assert other["label"].shape == (1, 8, 8)
        assert np.array_equal(patch["label"], other["label"][0])


def test_what_is_written_to_a_patch_does_not_reach_its_case(cases):
    before = [one["data"].copy() for one in cases]
    for patch in Patches(cases, (20, 30)):
        patch["data"][:] = -1
    assert all(np.array_equal(one["data"], old) for one, old in zip(cases, before, strict=True))


@pytest.mark.parametrize("pad", ["constant", "edge", "reflect", -5, {"data": -7}])
def test_a_small_case_is_padded_on_both_sides_alike(pad):
    small = case(1, (5, 40))
    patch = Patches([small], (9, 8), foreground=0, pad=pad)[0]
    column = int(patch["data"][0, 4, 0] % 1000) - 1
    mode = {"mode": pad} if pad in ("edge", "reflect") else {}
    for key, value in (("data", -7 if isinstance(pad, dict) else pad), ("label", 0 if isinstance(pad, dict) else pad)):
        part = small[key][..., :, column : column + 8]
        width = [(0, 0)] * (part.ndim - 2) + [(2, 2), (0, 0)]
        constant = {} if mode else {"constant_values": 0 if isinstance(value, str) else value}
        assert np.array_equal(patch[key], np.pad(part, width, **mode, **constant))
        assert patch[key].dtype == small[key].dtype


def test_every_place_is_drawn_and_the_same_often():
    patches = Patches([case(0, (10, 12))], (8, 8), per_case=3000, foreground=0)
    found = places_of([{"data": np.stack([patch["data"] for patch in patches])}])
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 3 * 5
    assert counts.min() > 200 - 5 * np.sqrt(200)
    assert counts.max() < 200 + 5 * np.sqrt(200)


# ------------------------------------------------------------------ foreground


@pytest.mark.parametrize("share", [0, 1 / 3, 1])
def test_the_share_of_patches_with_foreground_at_their_centre(share):
    label = np.zeros((101, 101), int)
    label[30:70:7, 30:70:7] = 1
    n = 3000
    patches = Patches([{"data": np.zeros((1, 101, 101)), "label": label}], (9, 9), n, foreground=share)
    count = sum(patch["label"][4, 4] > 0 for patch in patches)
    by_chance = label[4:97, 4:97].astype(bool).mean()
    expected = n * (share + (1 - share) * by_chance)
    assert abs(count - expected) <= 4 * np.sqrt(n * by_chance if share == 0 else max(expected * (1 - share), 0)) + 1e-9


def test_classes_of_the_foreground_are_drawn_evenly_however_rare():
    label = np.zeros((60, 60), int)
    label[10:50, 10:30] = 1
    label[20, 45] = 7
    n = 2000
    patches = Patches([{"data": np.zeros((1, 60, 60)), "label": label}], (5, 5), n, foreground=1)
    found = np.array([patch["label"][2, 2] for patch in patches])
    assert set(found.tolist()) == {1, 7}
    assert abs(np.count_nonzero(found == 7) - n / 2) < 4 * np.sqrt(n / 4)


def test_foreground_at_the_border_is_inside_of_the_patch():
    label = np.zeros((20, 20), int)
    label[0, 19] = 1
    for patch in Patches([{"data": np.zeros((1, 20, 20)), "label": label}], (8, 8), 20, foreground=1):
        assert patch["label"][0, 7] == 1


def test_several_channels_of_a_label_are_classes():
    label = np.zeros((2, 30, 30), bool)
    label[0, 5:25, 5:25] = label[1, 10, 20] = True
    patches = Patches([{"data": np.zeros((1, 30, 30)), "label": label}], (5, 5), 400, foreground=1)
    count = sum(bool(patch["label"][1, 2, 2]) for patch in patches)
    assert abs(count - 200) < 4 * np.sqrt(100) + 400 / 400


def test_cases_without_foreground_are_told_of_once_and_cut_anywhere():
    empty = [{"data": np.zeros((1, 9, 9)), "label": np.zeros((9, 9), int)} for _ in range(3)]
    patches = Patches(empty, (4, 4), 5, foreground=1)
    with pytest.warns(
        UserWarning, match="sample 0 of IterableDataset has no label above 0 in 'label'.*further"
    ) as told:
        assert len(list(patches)) == 15
    assert len(told) == 1


def test_a_label_is_read_once_for_all_epochs():
    class Counting(IterableDataset):
        labels_read = 0

        def read_part(self, index, parts, keys=None):
            Counting.labels_read += keys == ["label"]
            return super().read_part(index, parts, keys)

    patches = Patches(Counting([case(0), case(1)]), (8, 8), 4)
    for epoch in range(5):
        epoch_of(BaseDataManager(patches, 4), epoch)
    assert Counting.labels_read == 2


# ------------------------------------------------------------------ the same again


def test_each_epoch_fold_and_seed_has_other_patches(cases):
    manager = BaseDataManager(Patches(cases, (8, 8), 2), 4)
    same = places_of(epoch_of(manager))
    assert places_of(epoch_of(manager)) == same
    for other in ({"epoch": 4}, {"seed": 2}, {"fold": 1}):
        assert sorted(places_of(epoch_of(manager, **other))) != sorted(same)


@pytest.mark.parametrize("batch_size", [1, 5, 12])
def test_patches_do_not_depend_on_the_size_of_the_batch(cases, batch_size):
    expected = places_of(epoch_of(BaseDataManager(Patches(cases, (8, 8), 2), 4)))
    assert places_of(epoch_of(BaseDataManager(Patches(cases, (8, 8), 2), batch_size))) == expected


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("workers", [1, 2])
def test_patches_do_not_depend_on_the_number_of_workers(cases, workers, method):
    expected = epoch_of(BaseDataManager(Patches(cases, (8, 8), 3), 4))
    manager = BaseDataManager(Patches(cases, (8, 8), 3), 4, workers, worker_settings={"start_method": method})
    try:
        assert_equal(epoch_of(manager), expected)
        pool = manager._keeper
        assert_equal(epoch_of(manager), expected)  # what is kept of cases is no change of the dataset
        assert manager._keeper is pool
    finally:
        manager.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_patches_are_the_same_when_an_epoch_goes_on_in_its_midst(cases, workers):
    manager = BaseDataManager(Patches(cases, (8, 8), 3), 4, workers)
    try:
        assert_equal(epoch_of(manager, start=3), epoch_of(manager)[3:])
        batch, _ = manager.batch_at(1, 2, 3, 2, shuffle=True)
        assert_equal([batch], epoch_of(manager)[2:3])
    finally:
        manager.close()


def test_patches_draw_from_no_global_generator(cases):
    np.random.seed(5)
    expected = np.random.get_state()[1].copy()
    patches = Patches(cases, (8, 8), 2)
    first = list(patches)
    assert np.array_equal(np.random.get_state()[1], expected)
    np.random.seed(6)
    assert_equal(list(patches), first)
    assert patches.is_deterministic()


def test_counters_hold_within_their_scope_alone():
    assert current_counters() == (0, 0, 0)

    def fail():
        assert current_counters() == (1, 2, 3)
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"), counted((1, 2, 3)):
        fail()
    assert current_counters() == (0, 0, 0)


def test_patches_can_be_pickled(cases):
    patches = Patches(cases, (8, 8), 2)
    expected = list(patches)
    assert_equal(list(pickle.loads(pickle.dumps(patches))), expected)


# ------------------------------------------------------------------ divided by cases


def test_parts_of_patches_are_those_of_cases(cases):
    patches = Patches(cases, (8, 8), 4)
    part = patches.get_subset([5, 1])
    assert type(part) is Patches
    assert len(part) == 8
    assert part.labels("patient").tolist() == ["P2"] * 4 + ["P0"] * 4
    with pytest.raises(SampleIndexError, match="6"):
        patches.get_subset([6])  # a patch, but no case
    for train, test in (
        patches.train_test_split(test_size=2, random_state=0),
        (one.dataset for one in BaseDataManager(patches, 2).train_test_split(test_size=2, random_state=0)),
    ):
        numbers = [{int(patch["data"][1, 0, 0]) for patch in one} for one in (train, test)]
        assert list(map(len, numbers)) == [4, 2]
        assert not numbers[0] & numbers[1]


def test_a_sampler_keeps_its_weights_in_a_part():
    given = DictDataset({"data": np.zeros((6, 1, 9, 9)), "seg": np.ones((6, 9, 9), int), "label": [0, 0, 0, 0, 1, 1]})
    patches = Patches(given, (4, 4), 2, label_key="seg")
    manager = BaseDataManager(patches, 4, sampler_cls=PrevalenceRandomSampler)
    batch = next(iter(manager.get_subset([0, 1, 2, 4])))
    assert sorted(batch["label"].tolist()) == [0, 0, 1, 1]


def test_whole_cases_come_one_by_one_and_in_order(cases):
    manager = BaseDataManager(Patches(cases, (8, 8), 4), 5, transforms=lambda batch: batch, drop_last=True)
    whole = manager.whole_cases()
    assert whole.whole_cases() is whole
    assert (whole.batch_size, whole.n_batches, manager.batch_size) == (1, 6, 5)
    assert [batch["data"].shape for batch in whole] == [(1, 2, 20 + number, 30) for number in range(6)]
    assert [manager.case_of(index) for index in (0, 3, 4)] == [0, 0, 1]
    assert whole.case_of(4) == 4


def test_labels_of_cases_are_set_for_cases(cases):
    patches = Patches(cases, (8, 8), 2)
    patches.set_labels("site", ["a", "a", "a", "b", "b", "b"])
    assert patches.labels("site").tolist() == ["a"] * 6 + ["b"] * 6
    assert patches.cases.labels("site").tolist() == ["a"] * 3 + ["b"] * 3
    part = patches.get_subset([0, 3])
    assert part.labels("site").tolist() == ["a", "a", "b", "b"]


def test_names_of_cases_survive_all_views(cases, tmp_path):
    named = IterableDataset(cases)
    assert named.case_names == ["P0", "P0", "P1", "P1", "P2", "P2"]
    named.case_names = list("abcdef")
    assert Subset(named, [4, 0]).case_names == ["e", "a"]
    assert ConcatDataset(named.get_subset([1]), named).case_names == list("babcdef")
    assert CachedDataset(named, tmp_path).case_names == list("abcdef")
    assert Patches(named.get_subset([2, 5]), (8, 8), 2).case_names == list("ccff")
    with pytest.raises(ConfigError, match="case_names must be 6 texts"):
        named.case_names = ["a"]


def test_what_is_not_told_by_case_any_more_cannot_be_divided(cases, tmp_path):
    patches = Patches(cases, (8, 8), 2)
    for view in (Subset(patches, [0, 1]), ConcatDataset(patches, patches)):
        assert len(view[0]) == 4
        with pytest.raises(ConfigError, match=r"cannot be divided by cases; put Patches around it"):
            BaseDataManager(view, 2).whole_cases()
    with pytest.raises(ConfigError, match=r"cache the cases: Patches\(CachedDataset"):
        CachedDataset(patches, tmp_path)
    with pytest.raises(ConfigError, match="holds patches already"):
        Patches(patches, (4, 4))


def test_the_fingerprint_is_of_cases_and_settings(cases):
    known = {Patches(cases, (8, 8)).fingerprint()}
    assert Patches(cases, [8, 8]).fingerprint() in known
    others = [
        Patches(cases, (8, 9)), Patches(cases, (8, 8), 2), Patches(cases, (8, 8), pad="edge"),
        Patches(cases, (8, 8), foreground=0.5), Patches(cases[1:], (8, 8)), Patches(cases, (8, 8), entries="data"),
    ]  # fmt: skip
    known |= {other.fingerprint() for other in others}
    assert len(known) == 7


# ------------------------------------------------------------------ only the part is read


@pytest.mark.parametrize("order", ["C", "F"])
def test_of_a_mapped_file_only_the_part_is_read(tmp_path, order):
    values = np.asarray(np.random.default_rng(0).random((3, 1, 64, 64, 64)), order=order)
    np.save(tmp_path / "a.npy", values)
    dataset = MappedDataset({"data": str(tmp_path / "a.npy"), "label": [0, 1, 2]})
    assert dataset.entry_shapes(1) == {"data": (1, 64, 64, 64), "label": ()}
    part = dataset.read_part(1, {"data": (slice(3, 5), slice(0, 9), slice(60, 64))})
    assert np.array_equal(part["data"], values[1, :, 3:5, 0:9, 60:64])
    assert part["data"].base is None  # holds nothing but itself
    assert part["label"] == 1
    assert dataset.read_part(1, {}, ["label"]) == {"label": 1}
    with pytest.raises(MissingKeyError, match="'mask'"):
        dataset.read_part(0, {"mask": (slice(0, 1),)})


def test_of_a_compressed_store_only_the_chunks_of_the_part_are_read(tmp_path):
    zarr = pytest.importorskip("zarr")
    values = np.random.default_rng(0).random((2, 1, 64, 64, 64)).astype(np.float32)
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=values, chunks=(1, 1, 16, 16, 16))
    read = set()
    store_get = type(array.store).get

    async def get(self, key, *arguments, **more):
        read.add(key)
        return await store_get(self, key, *arguments, **more)

    dataset = MappedDataset({"data": array})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(array.store), "get", get)
        part = dataset.read_part(1, {"data": (slice(0, 10), slice(16, 32), slice(30, 34))})
    assert np.array_equal(part["data"], values[1, :, 0:10, 16:32, 30:34])
    assert sorted(key for key in read if "/" in key) == ["c/1/0/0/1/1", "c/1/0/0/1/2"]  # of 128


def test_patches_ask_for_no_more_than_they_need():
    asked = []

    class Asking(DictDataset):
        def read_part(self, index, parts, keys=None):
            asked.append({key: tuple(each.stop - each.start for each in part) for key, part in parts.items()})
            return super().read_part(index, parts, keys)

    dataset = Asking({"data": np.zeros((2, 1, 40, 6)), "label": np.zeros((2, 40, 6), int)})
    assert Patches(dataset, (8, 8), foreground=0)[0]["data"].shape == (1, 8, 8)
    assert asked == [{"data": (8, 6), "label": (8, 6)}]


def test_a_cached_case_is_read_in_part(tmp_path, cases):
    cached = CachedDataset(cases, tmp_path)
    assert cached.entry_shapes(0)["data"] == (2, 20, 30)
    plain = list(Patches(cases, (8, 8), 2))
    assert_equal(list(Patches(cached, (8, 8), 2)), plain)
    with pytest.raises(MissingKeyError, match=r"'mask'.*'data', 'label'"):
        cached.read_part(0, {}, ["mask"])


def test_a_class_with_samples_of_its_own_gives_parts_of_these():
    class Doubled(DictDataset):
        def __getitem__(self, index):
            return {**super().__getitem__(index), "data": 2 * super().__getitem__(index)["data"][:, :10]}

    dataset = Doubled({"data": np.ones((2, 1, 20, 20))})
    assert dataset.entry_shapes(0) == {"data": (1, 10, 20)}
    assert (dataset.read_part(0, {"data": (slice(0, 3), slice(0, 3))})["data"] == 2).all()


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"per_case": 0}, "per_case must be an integer of at least 1, got 0"),
        ({"per_case": 1.5}, "per_case must be an integer"),
        ({"size": 8}, r"size must list the length of a patch along each axis, e\.g\. \(64, 64, 32\), got 8"),
        ({"size": (8, 0)}, r"size\[1\] must be an integer of at least 1"),
        ({"foreground": 1.1}, "foreground must be a share between 0 and 1, got 1.1"),
        ({"pad": "zeros"}, "pad must be one of 'constant', 'edge', 'reflect', a number"),
        ({"label_key": 3}, "label_key"),
        ({"entries": 3}, "entries"),
    ],
)
def test_wrong_arguments_are_refused(cases, arguments, message):
    with pytest.raises(ConfigError, match=message):
        Patches(cases, **{"size": (8, 8), **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"size": (32, 8), "pad": None},
            DataError,
            r"sample 0 .*'P0'.* has the shape \(20, 30\), smaller than patches",
        ),
        (
            {"size": (8,)},
            DataError,
            r"entry 'data' .* has the shape \(2, 20, 30\); patches of size=\(8,\) are cut from 1",
        ),
        ({"size": (8, 8, 8, 8)}, DataError, "are cut from 4 axes"),
        ({"size": (8, 8), "label_key": "mask"}, MissingKeyError, "no entry 'mask' that says where foreground is"),
        ({"size": (8, 8), "entries": "scan"}, MissingKeyError, r"no entry 'scan' to cut patches from, only \["),
        ({"size": (8, 8), "entries": ["data", "spacing"]}, DataError, r"entry 'spacing' .* has the shape \(2,\)"),
        ({"size": (40, 8), "pad": 0.5}, DataError, "pad=0.5 cannot be a value of entry 'label', whose dtype is int64"),
    ],
)
def test_cases_that_cannot_be_cut_are_named(cases, arguments, error, message):
    with pytest.raises(error, match=message):
        list(Patches(cases, foreground=arguments.pop("foreground", 1), **arguments))


def test_a_label_of_another_shape_is_no_label_of_the_case(cases):
    given = [{**one, "label": one["label"][:-1]} for one in cases]
    with pytest.raises(DataError, match=r"the label 'label' of sample 0 .* has the shape \(19, 30\), .* \(20, 30\)"):
        Patches(given, (8, 8), foreground=1)[0]
    assert Patches(given, (8, 8), foreground=0)[0]["label"].shape == (19, 30)


def test_entries_that_are_named_are_cut_alone(cases):
    patch = Patches(cases, (8, 8), entries="data")[0]
    assert patch["data"].shape == (2, 8, 8)
    assert patch["label"].shape == (20, 30)


def test_a_case_that_changes_its_shape_is_refused():
    class Shrinking(IterableDataset):
        n = 40

        def __getitem__(self, index):
            Shrinking.n -= 10
            return {"data": np.zeros((1, Shrinking.n, 30))}

    with pytest.raises(DataError, match="has not the same shape each time it is read"):
        list(Patches(Shrinking([{"data": 0}]), (20, 30), 3, foreground=0))


# ------------------------------------------------------------------ cross-validation


@pytest.fixture
def experiment(tmp_path):
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchExperiment

    class Tiny(AbstractPyTorchNetwork):
        seen = []  # noqa: RUF012

        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Conv2d(2, 3, 3, padding=1)

        def forward(self, data):
            Tiny.seen.append((self.training, tuple(data.shape), sorted({*data[:, 1, 4, 4].int().tolist()})))
            return {"pred": self.layers(data)}

    made = PyTorchExperiment(
        {"model": {}}, Tiny, n_epochs=2, name="patches", save_path=str(tmp_path),
        losses={"ce": torch.nn.CrossEntropyLoss()}, optimizer_cls=torch.optim.Adam, optimizer_params={"lr": 1e-3},
    )  # fmt: skip
    return made, Tiny.seen


def test_folds_train_on_patches_and_test_on_whole_cases_of_others(cases, experiment):
    from delira.metrics import dice, per_sample

    run, seen = experiment
    data = BaseDataManager(Patches(cases, (8, 8), 3), 4)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "val_split")
        result = run.kfold(data, {"dice": per_sample(dice)}, num_splits=3, groups_key="patient", verbose=False)
    assert result.n_samples == 6
    trained = [set(numbers) for is_training, shape, numbers in seen if is_training and shape[2:] == (8, 8)]
    assert len(trained) == len([one for one in seen if one[0]])  # on nothing but patches
    assert all(shape[0] == 1 and shape[2:] in {(20 + n, 30) for n in range(6)} for t, shape, _ in seen if not t and
               shape[2:] != (8, 8))  # fmt: skip
    patients = [number // 2 for number in range(6)]
    for fold in result.folds:
        parts = [fold.train_indices, fold.val_indices, fold.test_indices]
        assert sorted(np.concatenate(parts).tolist()) == list(range(6))
        sides = [{patients[index] for index in part} for part in parts]
        assert sum(map(len, sides)) == len(set.union(*sides))
        shapes = [prediction.shape for prediction in fold.predictions["pred"]]
        assert shapes == [(3, 20 + index, 30) for index in fold.test_indices]
        assert fold.metrics["dice"].shape == (2,)
    again = run.kfold(
        data, {"dice": per_sample(dice)}, num_splits=3, groups_key="patient", verbose=False, resume=result.path
    )
    for fold, other in zip(result.folds, again.folds, strict=True):
        assert np.array_equal(fold.metrics["dice"], other.metrics["dice"])


def test_a_patient_on_two_sides_is_told_of_cases(cases, experiment):
    run, _ = experiment
    with pytest.warns(UserWarning, match=r"'patient' \(\d of its 3 values are on two sides"):
        run.kfold(BaseDataManager(Patches(cases, (8, 8)), 4), num_splits=2, num_epochs=1, verbose=False)


def test_a_run_validates_on_patches_or_on_whole_cases_as_it_is_given(cases, experiment):
    run, seen = experiment
    train, val = BaseDataManager(Patches(cases, (8, 8), 2), 4).train_test_split(test_size=2, random_state=0)
    run.run(train, val.whole_cases(), num_epochs=1, verbose=False)
    held_out = [shape for is_training, shape, _ in seen if not is_training and shape[2:] != (8, 8)]
    assert held_out
    assert all(shape[0] == 1 for shape in held_out)


def test_left_out_patches_are_told_by_case(cases, experiment):
    run, _ = experiment

    class Lossy(IterableDataset):
        def __getitem__(self, index):
            if self.data[index]["data"][1, 0, 0] == 3:
                raise OSError("truncated")
            return super().__getitem__(index)

    data = BaseDataManager(Patches(Lossy(cases), (8, 8), 2), 4, bad_samples="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run.kfold(data, num_splits=2, num_epochs=1, val_split=0.6, groups_key="", verbose=False)
    assert all(set(fold.left_out) <= {3} for fold in result.folds)
    assert any(fold.left_out for fold in result.folds)
