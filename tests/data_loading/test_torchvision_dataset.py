"""torchvision's classification datasets as arrays.

torchvision has no build for the torch that is tested here, so its classes are played by small ones with
the same constructors, attributes and items. What is made of the items is real.
"""

import sys
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from delira.data_loading import BaseDataManager
from delira.data_loading.dataset import TorchvisionClassificationDataset
from delira.errors import ConfigError, DataError, MissingBackendError, MissingKeyError

N_SAMPLES = 12


class Played:
    """Pictures and class numbers in the manner of torchvision."""

    n_classes, picture = 10, (28, 28)

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        fetched = Path(root, "fetched")
        if download:
            fetched.touch()
        if not fetched.exists():
            raise RuntimeError("Dataset not found. You can use download=True to download it")
        rng = np.random.default_rng(train)
        self.pictures = rng.integers(0, 256, (N_SAMPLES, *self.picture), np.uint8)
        self.targets = (np.arange(N_SAMPLES) % self.n_classes).tolist()
        self.classes = [str(number) for number in range(self.n_classes)]

    def __len__(self):
        return N_SAMPLES

    def __getitem__(self, index):
        return Image.fromarray(self.pictures[index]), self.targets[index]


class Letters(Played):
    n_classes = 27

    def __init__(self, root, split, **kwargs):
        if split != "letters":
            raise ValueError(f"unknown split {split}")
        super().__init__(root, **kwargs)


class Colours(Played):
    picture = (32, 32, 3)


class ManyColours(Colours):
    n_classes = 100


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with the datasets in it, and a torchvision that reads them."""
    (tmp_path / "fetched").touch()
    datasets = types.ModuleType("torchvision.datasets")
    datasets.MNIST, datasets.FashionMNIST, datasets.EMNIST = Played, Played, Letters
    datasets.CIFAR10, datasets.CIFAR100 = Colours, ManyColours
    package = types.ModuleType("torchvision")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)
    return tmp_path


def make(name, root, **more):
    return TorchvisionClassificationDataset(name, root, **more)


EVERY = [
    ("mnist", 10, (1, 28, 28), {}),
    ("Fashion_MNIST", 10, (1, 28, 28), {}),
    ("emnist", 27, (1, 28, 28), {"split": "letters"}),
    ("cifar10", 10, (3, 32, 32), {}),
    ("CIFAR100", 100, (3, 32, 32), {}),
]


@pytest.mark.parametrize(("name", "num_classes", "shape", "more"), EVERY)
def test_every_dataset_has_its_classes_and_its_channels(root, name, num_classes, shape, more):
    dataset = make(name, root, img_shape=shape[1:], **more)
    assert (len(dataset), dataset.num_classes) == (N_SAMPLES, num_classes)
    picture = np.asarray(dataset.data[3][0]) / 255
    sample = dataset[3]
    assert (sample["data"].shape, sample["data"].dtype) == (shape, np.float32)
    assert np.allclose(sample["data"], picture.transpose(2, 0, 1) if picture.ndim == 3 else picture[None], atol=1e-6)
    assert (sample["label"].tolist(), sample["label"].dtype) == ([3], np.float32)
    assert make(name, root, img_shape=shape[1:], one_hot=True, **more)[3]["label"].tolist() == [
        float(number == 3) for number in range(num_classes)
    ]


@pytest.mark.parametrize(("name", "channels"), [("mnist", 1), ("cifar10", 3)])
def test_pictures_are_resized(root, name, channels):
    pytest.importorskip("skimage")
    for shape in ((14, 20), (40, 40)):
        data = make(name, root, img_shape=shape)[0]["data"]
        assert data.shape == (channels, *shape)
        assert 0 <= data.min() < data.max() <= 1


@pytest.mark.parametrize("one_hot", [False, True])
def test_labels_are_read_without_the_pictures(root, monkeypatch, one_hot):
    dataset = make("mnist", root, one_hot=one_hot)
    expected = np.stack([sample["label"] for sample in dataset])
    monkeypatch.setattr(Played, "__getitem__", None)
    for labels in (dataset.labels(), dataset.get_subset(range(N_SAMPLES)).labels("label")):
        assert labels.dtype == np.float32
        assert (labels == expected).all()


def test_other_entries_are_read_from_the_samples(root):
    assert make("mnist", root).labels("data").shape == (N_SAMPLES, 1, 28, 28)
    with pytest.raises(MissingKeyError, match="'patient'"):
        make("mnist", root).labels("patient")


def test_it_makes_batches(root):
    batch = next(iter(BaseDataManager(make("cifar10", root, img_shape=(32, 32)), batch_size=4)))
    assert (batch["data"].shape, batch["label"].shape) == ((4, 3, 32, 32), (4, 1))


def test_training_and_test_part_differ(root):
    assert make("mnist", root).fingerprint() != make("mnist", root, train=False).fingerprint()
    assert make("mnist", root).fingerprint() == make("mnist", root).fingerprint()


def test_nothing_is_fetched_unless_asked_for(root):
    (root / "fetched").unlink()
    with pytest.raises(DataError, match=r"mnist could not be loaded from .*not found.*; download=True fetches it"):
        make("mnist", root)
    assert len(make("mnist", root, download=True)) == N_SAMPLES


def test_an_unknown_dataset_is_refused(root):
    with pytest.raises(MissingKeyError, match="there is no dataset 'cifar20'; did you mean 'cifar10'") as caught:
        make("cifar20", root)
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize("name", ["transform", "target_transform"])
def test_transforms_belong_to_the_manager(root, name):
    with pytest.raises(ConfigError, match=f"^{name} would change what is loaded; pass transforms to the data manager"):
        make("mnist", root, **{name: abs})


def test_without_torchvision_it_is_said_what_to_install(monkeypatch, tmp_path):
    for name in ("torchvision", "torchvision.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingBackendError, match=r"needs the package 'torchvision.*pip install 'torchvision'"):
        make("mnist", str(tmp_path))


def test_a_torchvision_of_another_torch_is_said_to_be_one(monkeypatch, tmp_path):
    (tmp_path / "torchvision").mkdir()
    source = "raise RuntimeError('operator torchvision::nms does not exist')"
    (tmp_path / "torchvision" / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("torchvision", "torchvision.datasets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingBackendError, match=r"does not fit the installed torch .*nms does not exist"):
        make("mnist", str(tmp_path))
