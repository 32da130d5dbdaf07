"""Datasets of other libraries become datasets: their samples dicts of arrays, their labels read cheaply."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, DictDataset
from delira.data_loading.array_dataset import WrappedDataset, is_wrappable
from delira.errors import ConfigError, DataError, MissingKeyError


class Plain:
    """A length, an index, and samples made by a function."""

    def __init__(self, make, length=6):
        self.make = make
        self.length = length
        self.read = []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.read.append(index)
        return self.make(index)


class Targets(Plain):
    """Like the datasets of torchvision: pairs of an image and a target, and all targets at once."""

    def __init__(self, targets, change=lambda target: target):
        super().__init__(lambda i: (np.full(2, i), change(int(targets[i]))), len(targets))
        self.targets = targets


def test_pairs_are_data_and_label():
    dataset = WrappedDataset(Plain(lambda i: (np.full((2, 3), i, np.float32), i)))
    assert len(dataset) == 6
    assert dataset[4]["data"].dtype == np.float32
    assert [int(sample["label"]) for sample in dataset] == [0, 1, 2, 3, 4, 5]


def test_negative_indices_count_from_the_end_and_others_are_refused():
    dataset = WrappedDataset(Plain(lambda i: (i, i)))
    assert dataset[-1]["label"] == 5
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"index {index} is not in this WrappedDataset of 6 samples"):
            dataset[index]
    assert dataset[np.int64(2)]["label"] == 2


def test_keys_name_the_parts_of_tuples():
    dataset = WrappedDataset(Plain(lambda i: [i, -i, "name"]), keys=("image", "mask", "patient"))
    assert dataset[2] == {"image": 2, "mask": -2, "patient": "name"}


def test_single_values_have_one_name():
    assert WrappedDataset(Plain(lambda i: np.full(3, i)), keys=["data"])[2]["data"].tolist() == [2, 2, 2]


def test_entries_of_dicts_keep_their_names_or_get_others():
    plain = Plain(lambda i: {"image": [i], "fine": i, "coarse": i // 2})
    assert WrappedDataset(plain)[3].keys() == {"image", "fine", "coarse"}
    assert WrappedDataset(plain, ["image", "fine"])[3].keys() == {"image", "fine"}
    renamed = WrappedDataset(plain, {"data": "image", "label": "coarse"})[3]
    assert renamed["data"].tolist() == [3]
    assert renamed["label"] == 1


@pytest.mark.parametrize(
    ("sample", "keys", "error", "match"),
    [
        ((1, 2, 3), None, DataError, r"sample 2 of the wrapped Plain is a tuple of 3 parts, but 2 names .*'label'"),
        ((1, 2), ("a", "b", "c"), DataError, "is a tuple of 2 parts, but 3 names"),
        (np.zeros(2), None, DataError, "sample 2 of the wrapped Plain is a ndarray, but 2 names"),
        ((1, 2), {"data": "image"}, DataError, "rename the entries of dicts, but sample 2 is a tuple"),
        ({"image": 1}, {"data": "picture"}, MissingKeyError, r"sample 2 has no entries \['picture'\].*\['image'\]"),
        ({"image": 1}, ["image", "label"], MissingKeyError, r"sample 2 has no entries \['label'\]"),
    ],
)
def test_samples_that_do_not_fit_the_keys_are_refused(sample, keys, error, match):
    with pytest.raises(error, match=match):
        WrappedDataset(Plain(lambda i: sample), keys)[2]


@pytest.mark.parametrize("keys", ["data", [], [1, 2], ["data", "data"], 3, {"data": 1, 2: "x"}])
def test_keys_that_name_nothing_are_refused(keys):
    with pytest.raises(ConfigError, match="keys must be a list of different names"):
        WrappedDataset(Plain(lambda i: i), keys)


def test_images_lists_and_nested_dicts_become_arrays():
    image_module = pytest.importorskip("PIL.Image")
    image = image_module.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    sample = WrappedDataset(Plain(lambda i: {"image": image, "boxes": [[1, 2]], "more": {"mask": image}}))[0]
    assert sample["image"].shape == (2, 2, 3)
    assert sample["image"].dtype == np.uint8
    assert sample["boxes"].shape == (1, 2)
    assert sample["more"]["mask"][1, 1, 2] == 11


def test_what_makes_no_array_is_named_with_its_sample():
    with pytest.raises(ValueError, match="inhomogeneous") as caught:
        WrappedDataset(Plain(lambda i: {"more": {"boxes": [[1], [1, 2]]}}))[3]
    assert caught.value.__notes__ == ["while entry 'more/boxes' of sample 3 was turned into an array"]


def test_an_error_of_the_dataset_keeps_its_type_and_names_the_sample():
    def make(index):
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire") as caught:
        WrappedDataset(Plain(make))[3]
    assert caught.value.__notes__ == ["while sample 3 was read from the wrapped Plain"]


def test_labels_are_read_from_the_samples_if_nothing_else_is_known():
    dataset = WrappedDataset(Plain(lambda i: (np.zeros(2), i % 3)))
    assert dataset.labels().tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(MissingKeyError, match="sample 0 has no entry 'target'"):
        dataset.labels("target")


@pytest.mark.parametrize("kind", [list, np.array])
def test_targets_are_labels_without_reading_all_samples(kind):
    inner = Targets(kind([i % 7 for i in range(500)]))
    assert WrappedDataset(inner).labels().tolist() == [i % 7 for i in range(500)]
    assert len(inner.read) < 20
    inner.read.clear()
    assert WrappedDataset(inner, ("image", "digit")).labels("digit")[8] == 1
    assert len(inner.read) < 20


def test_targets_that_samples_do_not_have_are_not_believed():
    inner = Targets([i % 7 for i in range(50)], change=lambda target: int(target == 3))
    assert WrappedDataset(inner).labels().tolist() == [int(i % 7 == 3) for i in range(50)]
    inner = Targets([0, 1, 2])
    inner.length = 2  # a dataset that hides its last sample
    assert WrappedDataset(inner).labels().tolist() == [0, 1]


def test_an_empty_dataset_has_no_labels():
    assert WrappedDataset(Plain(lambda i: i, 0)).labels().shape == (0,)


def test_a_subset_and_its_labels_are_those_of_the_samples():
    subset = WrappedDataset(Targets(list(range(10)))).get_subset([7, 2])
    assert subset.labels().tolist() == [7, 2]
    assert [int(sample["label"]) for sample in subset] == [7, 2]
    assert subset.data == [7, 2]


def test_a_fingerprint_is_known_by_the_samples():
    def dataset(change=0):
        return WrappedDataset(Plain(lambda i: (np.full(2, i + change), i)))

    assert dataset().fingerprint() == dataset().fingerprint() != dataset(1).fingerprint()


class Stream:
    def __iter__(self):
        return iter([{"data": 1}])


class NoLength(Plain):
    def __len__(self):
        raise TypeError("unknown")


@pytest.mark.parametrize(
    ("dataset", "match"),
    [
        (Stream(), "a Stream is a stream.*Load it without streaming"),
        ({"train": [1], "test": [2]}, r"a dict cannot be wrapped.*\['train', 'test'\].*pass one of them"),
        (3, "needs __len__ and __getitem__, which a int does not have"),
        (NoLength(lambda i: i), "the length of the wrapped NoLength is unknown"),
    ],
)
def test_what_has_no_length_or_no_index_is_refused(dataset, match):
    with pytest.raises(ConfigError, match=match):
        WrappedDataset(dataset)


def test_what_can_be_wrapped_is_told_from_plain_data():
    assert is_wrappable(Plain(lambda i: i))
    for plain in ("ab", b"ab", {"a": 1}, [1], (1,), range(3), np.zeros(3), DictDataset({"a": [1]}), Stream(), Plain, 3):
        assert not is_wrappable(plain)


# ---- the real libraries


def test_a_dataset_of_torch():
    torch = pytest.importorskip("torch")
    images, targets = torch.arange(24.0).reshape(4, 2, 3), torch.tensor([3, 1, 2, 0])
    inner = torch.utils.data.TensorDataset(images, targets)
    assert is_wrappable(inner)
    assert not is_wrappable(images)
    dataset = WrappedDataset(inner)
    assert isinstance(dataset[1]["data"], np.ndarray)
    assert dataset[1]["data"].dtype == np.float32
    assert dataset.labels().tolist() == [3, 1, 2, 0]
    batches = [batch["label"].tolist() for batch in BaseDataManager(dataset, 3)]
    assert batches == [[3, 1, 2], [0]]
    with pytest.raises(DataError, match="sample 0 of the wrapped TensorDataset is a tuple of 1 parts"):
        WrappedDataset(torch.utils.data.TensorDataset(images))[0]


def test_a_tensor_that_asks_for_gradients_is_an_array_too():
    torch = pytest.importorskip("torch")
    weights = torch.ones(2, requires_grad=True)
    assert WrappedDataset(Plain(lambda i: (weights * i, i)))[3]["data"].tolist() == [3, 3]


def test_a_tensor_that_numpy_cannot_hold_is_named():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="BFloat16") as caught:
        WrappedDataset(Plain(lambda i: (torch.zeros(2, dtype=torch.bfloat16), i)))[3]
    assert "entry 'data' of sample 3" in caught.value.__notes__[0]


def test_targets_are_found_through_the_subsets_of_torch():
    torch = pytest.importorskip("torch")
    inner = Targets(torch.arange(300) % 5)
    part, _ = torch.utils.data.random_split(inner, [200, 100], torch.Generator().manual_seed(0))
    assert WrappedDataset(part).labels().tolist() == [i % 5 for i in part.indices]
    assert len(inner.read) < 20


def test_a_stream_of_torch_is_refused_even_if_it_has_a_length():
    torch = pytest.importorskip("torch")

    class Sized(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1])

        def __len__(self):
            return 1

    assert not is_wrappable(Sized())
    with pytest.raises(ConfigError, match="a Sized is a stream"):
        WrappedDataset(Sized())


def hugging_face(**columns):
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict(columns or {"image": [[i, i + 1] for i in range(40)], "fine": list(range(40))})


def test_a_hugging_face_dataset():
    inner = hugging_face()
    assert is_wrappable(inner)
    dataset = WrappedDataset(inner, {"data": "image", "label": "fine"})
    assert dataset[3]["data"].tolist() == [3, 4]
    assert dataset.get_subset([5, 1]).labels().tolist() == [5, 1]
    batch = next(iter(BaseDataManager(dataset, 4)))
    assert batch["data"].shape == (4, 2)
    assert batch["label"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("layout", [None, "numpy", "torch"])
def test_labels_of_a_hugging_face_dataset_are_read_as_a_column(layout, monkeypatch):
    if layout == "torch":
        pytest.importorskip("torch")
    inner = hugging_face().shuffle(seed=0).with_format(layout)
    expected = [int(inner[i]["fine"]) for i in range(40)]
    dataset = WrappedDataset(inner)
    monkeypatch.setattr(WrappedDataset, "__getitem__", lambda self, index: pytest.fail("read a sample"))
    assert dataset.labels("fine").tolist() == expected


def test_a_transform_of_a_hugging_face_dataset_is_seen_by_its_labels():
    inner = hugging_face().with_transform(lambda batch: {"label": [value * 2 for value in batch["fine"]]})
    assert WrappedDataset(inner).labels()[:3].tolist() == [0, 2, 4]

    def transform(batch):
        assert len(batch["image"]) == 1  # not all images at once
        return {"fine": [sum(image) for image in batch["image"]]}

    assert WrappedDataset(hugging_face().with_transform(transform)).labels("fine")[:3].tolist() == [1, 3, 5]


def test_labels_of_different_shapes_are_named():
    with pytest.raises(DataError, match=r"entry 'label' of sample 1 has shape \(2,\)"):
        WrappedDataset(hugging_face(label=[[1], [1, 2]])).labels()


def test_a_hugging_face_stream_and_a_dict_of_splits_are_refused():
    datasets = pytest.importorskip("datasets")
    with pytest.raises(ConfigError, match="a IterableDataset is a stream"):
        WrappedDataset(hugging_face().to_iterable_dataset())
    with pytest.raises(ConfigError, match=r"a DatasetDict cannot be wrapped.*\['train'\]"):
        WrappedDataset(datasets.DatasetDict(train=hugging_face()))


def test_a_column_that_its_library_cannot_join_is_named_by_the_sample_that_differs():
    class Ragged:
        def __getitem__(self, rows):
            raise ValueError("setting an array element with a sequence")

    class Columns(Plain):
        column_names, format = ("data", "label"), {"type": "numpy"}

        def __getitem__(self, index):
            return Ragged() if isinstance(index, str) else super().__getitem__(index)

    columns = Columns(lambda i: {"data": np.zeros(2), "label": np.zeros(i + 1)})
    with pytest.raises(DataError, match=r"entry 'label' of sample 1 has shape \(2,\)"):
        WrappedDataset(columns).labels("label")
