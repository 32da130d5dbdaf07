"""Small pictures with class numbers, out of torchvision."""

import os
import tempfile
from typing import Any

import numpy as np

from delira.data_loading.abstract_dataset import AbstractDataset, Sample
from delira.data_loading.load_utils import check_size, to_channels_first
from delira.errors import ConfigError, DataError, MissingBackendError, MissingKeyError
from delira.utils.checks import check_flags, check_paths, did_you_mean, import_optional

_CLASSES = {
    "mnist": "MNIST",
    "emnist": "EMNIST",
    "fashion_mnist": "FashionMNIST",
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
}


class TorchvisionClassificationDataset(AbstractDataset):
    """One of torchvision's classification datasets as arrays.

    A sample is ``{"data": float32 of shape (C, *img_shape), 0 to 1, "label": float32 of shape (1,)}``.

    Parameters
    ----------
    dataset
        ``"mnist"``, ``"emnist"``, ``"fashion_mnist"``, ``"cifar10"`` or ``"cifar100"``, in upper or lower case.
    root
        The folder that holds it; by default the system's for temporary files.
    train
        Whether to take the training part, else the test part.
    download
        Whether it may be fetched from the internet if it is not in ``root``.
    img_shape
        Height and width that the pictures are resized to.
    one_hot
        Whether labels are rows of shape (num_classes,) instead of class numbers.
    **kwargs
        Handed to torchvision's class, e.g. ``split="letters"`` for emnist.

    Attributes
    ----------
    num_classes : int

    Raises
    ------
    MissingKeyError
        If ``dataset`` is unknown.
    DataError
        If it is not in ``root`` and may not be fetched.
    MissingBackendError
        If torchvision is not installed, or does not fit the torch that is.
    """

    def __init__(
        self,
        dataset: str,
        root: str | None = None,
        train: bool = True,
        download: bool = False,
        img_shape: tuple[int, int] = (28, 28),
        one_hot: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(tempfile.gettempdir() if root is None else root)
        check_paths(self, root=self.data_path)
        check_flags(self, train=train, download=download, one_hot=one_hot)
        if (name := str(dataset).lower()) not in _CLASSES:
            raise MissingKeyError(f"there is no dataset {dataset!r}{did_you_mean(name, _CLASSES)}")
        if changed := [key for key in ("transform", "target_transform") if key in kwargs]:
            raise ConfigError(f"{changed[0]} would change what is loaded; pass transforms to the data manager")
        self.train = train
        self.one_hot = one_hot
        self.img_shape = check_size(self, img_shape)
        self.data = self._make_dataset(name, train=train, download=download, **kwargs)
        self.num_classes = len(self.data.classes)

    def _make_dataset(self, path: Any, **kwargs: Any) -> Any:
        root = os.fspath(self.data_path)
        try:
            datasets = import_optional("torchvision.datasets", type(self).__name__, "torchvision")
        except RuntimeError as error:  # operators of another build of torch
            raise MissingBackendError(
                f"{type(self).__name__} needs torchvision, which is installed but does not fit the installed torch "
                f"({error}); install the two together, see pytorch.org"
            ) from error
        try:
            return getattr(datasets, _CLASSES[path])(root, **kwargs)
        except RuntimeError as error:
            raise DataError(f"{path} could not be loaded from {root!r}: {error}; download=True fetches it") from error

    def __getitem__(self, index: int) -> Sample:
        picture, number = self.data[index]
        image = np.asarray(picture)
        n_channels = 1 if image.ndim == 2 else image.shape[-1]
        return {"data": to_channels_first(image, self.img_shape, n_channels), "label": self._to_labels([number])[0]}

    def _read_labels(self, key: str) -> np.ndarray:
        return self._to_labels(self.data.targets) if key == "label" else super()._read_labels(key)

    def _to_labels(self, numbers: object) -> np.ndarray:
        """Turn class numbers, n of them, into labels of shape (n, 1) or (n, num_classes)."""
        classes = np.asarray(numbers, dtype=np.int64)
        if self.one_hot:
            return np.eye(self.num_classes, dtype=np.float32)[classes]
        return classes[:, np.newaxis].astype(np.float32)
