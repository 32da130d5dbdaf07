"""A cached sample is what the dataset would make now: nothing that makes it goes unseen, or it is refused."""

import collections
import operator
import re
import sys
import threading

import numpy as np
import pytest
from other_processes import printed

from delira.data_loading import AbstractDataset, BaseLazyDataset, CachedDataset, MappedDataset
from delira.data_loading._cache_key import preprocessing_key
from delira.errors import ConfigError


def values(dataset, tmp_path, **options):
    """What the cache gives, beside what the dataset itself gives."""
    cached = CachedDataset(dataset, tmp_path / "cache", **options)
    return [sample["data"].tolist() for sample in cached], [np.asarray(sample["data"]).tolist() for sample in dataset]


def assert_true(dataset, tmp_path, **options):
    cached, now = values(dataset, tmp_path, **options)
    assert cached == now


# ------------------------------------------------------------------ other items


class Own(AbstractDataset):
    def __init__(self, items):
        super().__init__()
        self.data = items

    def __getitem__(self, index):
        return {"data": np.asarray(self.data[index] * 2)}


class Neighbours(Own):
    def __getitem__(self, index):
        return {"data": np.asarray(self.data[index - 1] + self.data[index])}


class MeanOfAll(Own):
    def __getitem__(self, index):
        return {"data": np.asarray(self.data[index] - np.mean(self.data))}


class ThroughAMethod(Own):
    def around(self, index):
        return self.data[max(0, index - 1) : index + 2]

    def __getitem__(self, index):
        return {"data": np.asarray(sum(self.around(index)))}


class OfTheDataset(Own):
    def __getitem__(self, index):
        return {"data": np.asarray(sum(self.get_sample_from_index(i) for i in (index, 0)))}


class BySuper(Own):
    def __getitem__(self, index):
        return {"data": super().__getitem__(index)["data"] + super().__getitem__(max(0, index - 1))["data"]}


class MovedIndex(Own):
    def __getitem__(self, index):
        index = max(0, index - 1)
        return {"data": np.asarray(self.data[index])}


class InAComprehension(Own):
    def __getitem__(self, index):
        return {"data": np.asarray([self.data[place] for place in (0, index)])}


class OfItself(Own):
    def __getitem__(self, index):
        before = self[index - 1]["data"] if index else 0
        return {"data": np.asarray(self.data[index] + before)}


class ByItsDict(Own):
    def __getitem__(self, index):
        return {"data": np.asarray(sum(self.__dict__["data"]))}


class HandedOut(Own):
    def __getitem__(self, index):
        return {"data": np.asarray(all_of(self))}


def all_of(dataset):
    return sum(dataset.data)


def lazy_with_itself(items):
    dataset = BaseLazyDataset(items, lambda item: {"data": np.asarray(item + sum(dataset.data))})
    return dataset


class LoadsByAMethod(BaseLazyDataset):
    def __init__(self, items):
        super().__init__(items, self.load)

    def load(self, item):
        return {"data": np.asarray(item - sum(self.data))}


OTHERS = [
    Neighbours,
    MeanOfAll,
    ThroughAMethod,
    OfTheDataset,
    BySuper,
    MovedIndex,
    InAComprehension,
    OfItself,
    ByItsDict,
    HandedOut,
    lazy_with_itself,
    LoadsByAMethod,
]


@pytest.mark.parametrize("cls", OTHERS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("kind", [list, np.array])
def test_what_a_sample_reads_of_other_items_is_in_its_key(tmp_path, cls, kind):
    for items in ([1, 2, 3], [1, 5, 3], [7, 5, 3]):
        assert_true(cls(kind(items)), tmp_path)


class Slices(Own):
    def __getitem__(self, index):
        return {"data": np.stack([np.load(self.data[place]) for place in (max(0, index - 1), index)])}


def test_a_changed_file_of_a_neighbour_is_seen(tmp_path):
    files = [str(tmp_path / f"{number}.npy") for number in range(3)]
    for number, file in enumerate(files):
        np.save(file, np.full(2, number))
    assert_true(Slices(files), tmp_path)
    np.save(files[0], np.full(2, 9))
    assert_true(Slices(files), tmp_path)


def before(path):
    return path.with_name(f"{max(0, int(path.stem) - 1)}.npy")


def test_a_file_of_a_neighbour_that_a_function_finds_by_its_name_is_seen(tmp_path):
    files = [tmp_path / "slices" / f"{number}.npy" for number in range(3)]
    files[0].parent.mkdir()

    def both(path):
        return {"data": np.load(path) + np.load(before(path))}

    def write(*values):
        for file, value in zip(files, values, strict=True):
            np.save(file, np.full(2, value))

    for values in ((1, 2, 3), (5, 2, 3), (5, 7, 3)):
        write(*values)
        assert_true(BaseLazyDataset(files, both), tmp_path)
    stamp = sorted(file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*.sample"))
    assert_true(BaseLazyDataset(files, both), tmp_path)
    assert stamp == sorted(file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*.sample"))


def test_files_that_are_written_or_missing_are_no_obstacle(tmp_path):
    def load(item):
        with open(tmp_path / "log.txt", "a") as file:
            file.write("read\n")
        np.save(tmp_path / "scratch.npy", np.full(2, item))
        return {"data": np.load(tmp_path / "scratch.npy")}

    for _ in range(2):
        CachedDataset(BaseLazyDataset([1, 2], load), tmp_path / "cache").build()
        (tmp_path / "scratch.npy").unlink(missing_ok=True)
    assert (tmp_path / "log.txt").read_text() == "read\n" * 2


class Prepared(Own):
    factor = 3

    def __init__(self, items):
        super().__init__(items)
        self.made = []

    def __getitem__(self, index):
        item = self.data[index]
        return {"data": np.asarray(self.scaled(item) + self.offset)}

    def scaled(self, item):
        return item * self.factor

    @property
    def offset(self):
        return 1


class OnTop(Prepared):
    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return {"data": sample["data"] + 1}


@pytest.mark.parametrize("cls", [Own, Prepared, OnTop])
def test_plain_datasets_keep_the_samples_of_items_that_stay(tmp_path, cls):
    keys = {preprocessing_key(cls(items), None) for items in ([1, 2], [1, 5], [1, 2, 3])}
    assert len(keys) == 1
    assert_true(cls([1, 2, 3]), tmp_path)


# ------------------------------------------------------------------ fitted and foreign objects


def keys_of(*objects):
    def key(value):
        return preprocessing_key(BaseLazyDataset([1], print, value=value), None)

    return [key(value) for value in objects]


def pairs():
    """Two objects of one repr (or nearly) and other content, by name."""
    yield "itemgetter", lambda: (operator.itemgetter(0), operator.itemgetter(1))
    long = collections.deque([np.zeros(5000)], maxlen=3), collections.deque([np.eye(1, 5000, 2500)[0]], maxlen=3)
    yield "deque", lambda: long
    masked = np.ma.array([1, 2, 3], mask=[0, 0, 1])
    yield "masked", lambda: (masked, np.ma.array([1, 2, 3], mask=[0, 1, 0]))
    yield (
        "objects",
        lambda: (np.array([{"a": np.zeros(5000)}], object), np.array([{"a": np.eye(1, 5000, 2500)}], object)),
    )
    yield "vectorized pair", lambda: (Held(np.zeros(3)), Held(np.ones(3)))
    for name in ("scaler", "pca", "forest", "kd tree", "ball tree", "scipy tree"):
        yield name, lambda name=name: fitted(name)
    for name in ("frame index", "frame columns", "series index", "categories"):
        yield name, lambda name=name: frames(name)
    yield "sitk", transforms


class Held:
    def __init__(self, values):
        self.values = values

    def __repr__(self):
        return "Held()"


def fitted(name):
    pytest.importorskip("sklearn")
    from scipy.spatial import cKDTree
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import BallTree, KDTree
    from sklearn.preprocessing import StandardScaler

    made = []
    for seed in (0, 1):
        rows = np.random.default_rng(seed).normal(seed, 1 + seed, (20, 3))
        made.append(
            {
                "scaler": lambda rows=rows: StandardScaler().fit(rows),
                "pca": lambda rows=rows: PCA(2).fit(rows),
                "forest": lambda rows=rows: RandomForestClassifier(2, random_state=0).fit(rows, rows[:, 0] > 0),
                "kd tree": lambda rows=rows: KDTree(rows),
                "ball tree": lambda rows=rows: BallTree(rows),
                "scipy tree": lambda rows=rows: cKDTree(rows),
            }[name]()
        )
    return made


def frames(name):
    pandas = pytest.importorskip("pandas")
    data = np.zeros((100, 30))
    if name == "frame index":
        return [pandas.DataFrame(data, index=np.r_[:50, one, 51:100]) for one in (50, 777)]
    if name == "frame columns":
        return [pandas.DataFrame(data, columns=[*range(15), one, *range(16, 30)]) for one in (15, 777)]
    if name == "categories":
        return [pandas.Categorical.from_codes([0, 1], [one, "b"]) for one in ("a", "c")]
    return [pandas.Series(data[:, 0], index=np.r_[:50, one, 51:100]) for one in (50, 777)]


def transforms():
    itk = pytest.importorskip("SimpleITK")
    return itk.TranslationTransform(2, (1.0, 2.0)), itk.TranslationTransform(2, (1.0, 3.0))


@pytest.mark.parametrize("make", [pair[1] for pair in pairs()], ids=[pair[0] for pair in pairs()])
def test_objects_of_one_kind_are_told_apart_by_what_they_hold(make):
    first, again, other = make()[0], make()[0], make()[1]
    keys = keys_of(first, again, other)
    assert keys[0] == keys[1] != keys[2]


def test_a_scaler_that_is_fitted_again_for_each_fold_leaks_nothing(tmp_path):
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    rows = np.random.default_rng(0).normal(size=(12, 3))
    for fold in range(3):
        train = np.arange(12) % 3 != fold
        scaler = preprocessing.StandardScaler().fit(rows[train])
        arguments = BaseLazyDataset(
            range(12), lambda i, scaler: {"data": scaler.transform(rows[i : i + 1])[0]}, scaler=scaler
        )
        assert_true(arguments, tmp_path)
        assert_true(BaseLazyDataset(range(12), lambda i: {"data": scaler.transform(rows[i : i + 1])[0]}), tmp_path)  # noqa: B023


def test_weights_of_a_network_count_and_traced_ones_are_told_apart_or_refused():
    torch = pytest.importorskip("torch")
    layers = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        layers.append(torch.nn.Linear(2, 2))
    keys = keys_of(*layers)
    assert keys[0] == keys[1] != keys[2]
    halves = keys_of(*(layer.weight.detach().bfloat16() for layer in layers))
    assert halves[0] == halves[1] != halves[2]
    try:
        traced = [torch.jit.trace(layer, torch.zeros(1, 2)) for layer in layers]
    except Exception:
        pytest.skip("this release of PyTorch does not trace")
    with pytest.raises(ConfigError, match="what is in it cannot be told"):
        keys_of(traced[0])


CODE = """
import numpy as np
from sklearn.neighbors import KDTree
from sklearn.preprocessing import StandardScaler
from scipy.spatial import cKDTree
from delira.data_loading import BaseLazyDataset
from delira.data_loading._cache_key import preprocessing_key
import collections, re
rows = np.arange(60.0).reshape(20, 3) % 7
objects = [StandardScaler().fit(rows), KDTree(rows), cKDTree(rows)]
objects += [collections.deque([rows]), re.compile("a+"), {"b", "a"}]
print(*[preprocessing_key(BaseLazyDataset([1], print, value=one), None) for one in objects])
"""


@pytest.mark.slow
def test_fitted_objects_have_one_key_in_every_process(tmp_path):
    pytest.importorskip("sklearn")
    assert len(printed(CODE, tmp_path)) == 1


# ------------------------------------------------------------------ what cannot be told


class Opaque:
    """Stands for an object written in C that shows nothing."""

    def __init__(self, amount=0):
        self._amount = amount

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle 'Opaque' object")


Opaque.__module__ = "numpy"  # a class of an installed package


def shifting(opaque):
    return BaseLazyDataset([1, 2], lambda item: {"data": np.asarray(item + opaque._amount)})


def used_up(numbers):
    return BaseLazyDataset([1], lambda item: {"data": next(numbers)})


def test_what_cannot_be_told_is_refused_with_its_place_and_the_cure(tmp_path):
    with pytest.raises(ConfigError) as caught:
        CachedDataset(shifting(Opaque()), tmp_path / "cache")
    assert re.search(r"a numpy\.Opaque \(_load_fn\.opaque\), and what is in it cannot be told", str(caught.value))
    assert "hash_funcs={Opaque: function}" in str(caught.value)
    with pytest.raises(ConfigError, match=r"numpy\.Opaque \(the item of sample 0\.filter\)"):
        CachedDataset(BaseLazyDataset([{"filter": Opaque()}], print), tmp_path / "cache")[0]
    with pytest.raises(ConfigError, match=r"a generator \(_load_fn\.numbers\)"):
        CachedDataset(used_up(number for number in range(3)), tmp_path / "cache")


def test_the_cure_makes_changes_seen(tmp_path):
    for amount in (0, 1):
        assert_true(shifting(Opaque(amount)), tmp_path, hash_funcs={Opaque: operator.attrgetter("_amount")})
    assert values(shifting(Opaque(7)), tmp_path, hash_funcs={Opaque: None})[0] == [8, 9]


@pytest.mark.parametrize("wrong", [["Opaque"], {"Opaque": len}, {Opaque: 3}, 3])
def test_hash_funcs_that_make_no_sense_are_refused(tmp_path, wrong):
    with pytest.raises(ConfigError, match=r"hash_funcs must be a dict {type: function"):
        CachedDataset(shifting(Opaque()), tmp_path / "cache", hash_funcs=wrong)


def test_locks_files_and_generators_are_no_obstacle(tmp_path):
    with open(tmp_path / "log.txt", "w") as log:
        things = [threading.Lock(), threading.Event(), log, np.random.default_rng(), sys.stdout]
        assert_true(BaseLazyDataset([1], lambda item, things: {"data": np.asarray(item)}, things=things), tmp_path)
    assert len({*keys_of(np.random.default_rng(0), np.random.default_rng(1), np.random.default_rng(0))}) == 2


# ------------------------------------------------------------------ mapped files


class Halved(MappedDataset):
    def __getitem__(self, index):
        return {"data": super().__getitem__(index)["data"][26420:26424] / 2}


@pytest.mark.slow_cases("zarr")
@pytest.mark.parametrize("kind", ["npy", "zarr", "open zarr"])
def test_a_large_mapped_array_that_is_changed_in_place_is_seen(tmp_path, kind):
    shape = (3, 2**20 + 1)  # of 8 bytes: 24 MiB, of which a fingerprint sees 64 blocks
    source = path = tmp_path / f"a.{kind}"
    if kind == "npy":
        np.save(path, np.zeros(shape))
    else:
        zarr = pytest.importorskip("zarr")
        array = zarr.create_array(str(path), shape=shape, chunks=(1, shape[1]), dtype="f8")
        array[:] = 0
        source = array if kind == "open zarr" else path
    assert_true(Halved({"data": source}), tmp_path)
    before = Halved({"data": source}).fingerprint()
    if kind == "npy":
        array = np.load(path, mmap_mode="r+")
        array[1, 26422] = 8
        array.flush()
        del array
    else:
        zarr.open(str(path), mode="r+")[1, 26422] = 8
    assert kind != "npy" or Halved({"data": path}).fingerprint() == before  # what is sampled does not tell
    assert_true(Halved({"data": source}), tmp_path)
