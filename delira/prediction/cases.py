"""What is predicted: arrays, data sets, managers, samples and files, as batches with a name for each case."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading import BaseDataManager, load_nii
from delira.data_loading.abstract_dataset import AbstractDataset
from delira.data_loading.load_utils import read_image
from delira.errors import ConfigError, DataError, listed
from delira.training.epoch import batch_length, has_epochs
from delira.utils.arrays import iterate_leaves

#: samples of arrays that are predicted at once
BATCH_SIZE = 32
#: endings of files that hold volumes, pictures, and arrays
VOLUMES = (".nii", ".nii.gz", ".mgh", ".mgz", ".nrrd", ".mha", ".mhd")
PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
ARRAYS = (".npy", ".npz")


class Case(NamedTuple):
    """Some cases that are predicted at once."""

    names: list[str]
    """One for each."""
    batch: Mapping[str, Any]
    """Arrays of shape ``(B, ...)`` by name."""
    files: list[Path | None]
    """Where each comes from, if it is a file."""


class Unreadable(NamedTuple):
    """A case that cannot be read."""

    name: str
    error: Exception


def cases_of(
    data: Any, entry: str, inputs: Mapping[str, tuple[int, ...]], batch_size: int | None
) -> Iterator[Case | Unreadable]:
    """The cases in any data.

    Parameters
    ----------
    data
        An array of shape ``(n, ...)``, a dict of arrays, a sample (a dict of arrays as a data set gives them), a data
        set, a data manager, an iterable of batches, files, or a folder of files. Of patches their whole cases.
    entry
        What arrays and files are called in a batch.
    inputs
        Shape of a sample that the network learned from, by entry, which tells samples from batches; empty: not known.
    batch_size
        Cases at once; None: that of a manager, 32 of arrays, else 1.

    Raises
    ------
    ConfigError
        If it is something else, or there are no files.
    """
    if isinstance(data, (AbstractDataset, BaseDataManager)):
        data = data.whole_cases()  # patches are to learn from: several of one case have one name
    if isinstance(data, (str, Path)):
        return _of_files(files_in(Path(data)), entry, inputs)
    if isinstance(data, np.ndarray) or hasattr(data, "__array__"):
        data = {entry: np.asarray(data)}
    if isinstance(data, Mapping):
        return _of_arrays(data, entry, inputs, batch_size or BATCH_SIZE)
    if isinstance(data, AbstractDataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return _of_sequence(data, entry, inputs, batch_size or 1)
    if has_epochs(data):
        return _of_manager(data, batch_size)
    if isinstance(data, Iterable):
        return _of_batches(data)
    raise ConfigError(
        "predict takes arrays, a dict of arrays, a data set, a data manager, samples, files or a folder, got a "
        f"{type(data).__name__}"
    )


def files_in(path: Path) -> list[Path]:
    """A file, or the files of a folder that can be predicted, in the order of their names."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ConfigError(f"there is no file or folder {str(path)!r}")
    endings = (*VOLUMES, *PICTURES, *ARRAYS)
    found = sorted(file for file in path.iterdir() if file.is_file() and file.name.lower().endswith(endings))
    if not found:
        raise ConfigError(f"there is no file in {str(path)!r} that can be predicted ({', '.join(endings)})")
    stems: dict[str, list[Path]] = {}
    for file in found:
        stems.setdefault(stem_of(file), []).append(file)
    if twice := next((files for files in stems.values() if len(files) > 1), None):
        raise ConfigError(
            f"{listed([file.name for file in twice], 3)} are one case by their names, and their predictions would be "
            "one file; name the files"
        )
    return found


def stem_of(file: Path) -> str:
    """Name of a case: that of its file without the ending."""
    name = file.name
    ending = next((one for one in (*VOLUMES, *PICTURES, *ARRAYS) if name.lower().endswith(one)), file.suffix)
    return name.removesuffix(name[len(name) - len(ending) :]) if ending else name


def _of_arrays(
    data: Mapping[str, Any], entry: str, inputs: Mapping[str, tuple[int, ...]], batch_size: int
) -> Iterator[Case]:
    """Batches of a dict of arrays; of one sample that has no axis of samples, one case."""
    if _is_sample(data, entry, inputs):
        yield Case(["0"], {key: np.asarray(value)[None] for key, value in data.items()}, [None])
        return
    number = batch_length(data)
    for start in range(0, number, batch_size):
        stop = min(number, start + batch_size)
        batch = {key: value[start:stop] if np.ndim(value) else value for key, value in data.items()}
        yield Case([*map(str, range(start, stop))], batch, [None] * (stop - start))


def _is_sample(data: Mapping[str, Any], entry: str, inputs: Mapping[str, tuple[int, ...]]) -> bool:
    known = next((key for key in (entry, *inputs) if key in data and key in inputs), None)
    return known is not None and np.ndim(data[known]) == len(inputs[known])


def _of_sequence(
    data: Any, entry: str, inputs: Mapping[str, tuple[int, ...]], batch_size: int
) -> Iterator[Case | Unreadable]:
    """A data set, or a list of samples or files."""
    if not isinstance(data, AbstractDataset) and len(data) and isinstance(data[0], (str, Path)):
        yield from _of_files([Path(file) for file in data], entry, inputs)
        return
    names = getattr(data, "case_names", None)
    for start in range(0, len(data), batch_size):
        samples, named = [], []
        for index in range(start, min(len(data), start + batch_size)):
            name = str(index if names is None else names[index])
            try:
                sample = data[index]
            except Exception as error:  # of the user's loading
                yield Unreadable(name, error)
                continue
            samples.append(sample if isinstance(sample, Mapping) else {entry: np.asarray(sample)})
            named.append(name)
        if samples and not isinstance(data, AbstractDataset) and not _is_sample(samples[0], entry, inputs) and inputs:
            for sample in samples:  # a list of batches
                yield from _of_batches([sample])
            continue
        if samples:
            batch = {key: np.stack([np.asarray(sample[key]) for sample in samples]) for key in samples[0]}
            yield Case(named, batch, [None] * len(named))


def _of_manager(data: Any, batch_size: int | None) -> Iterator[Case]:
    """The batches of a manager, in the order of its data set unless it has a sampler."""
    if batch_size is not None and isinstance(data, BaseDataManager):
        data = data.with_own_transforms()
        data.batch_size = batch_size
    batches = data.epoch(0, 0, 0)
    order = getattr(batches, "loaded_order", None)
    names = getattr(getattr(data, "dataset", None), "case_names", None)
    place = itertools.count()
    try:
        for batch in batches:
            order = getattr(batches, "loaded_order", order)
            positions = list(itertools.islice(place, batch_length(batch)))
            indices = [int(order[one]) if order is not None and one < len(order) else one for one in positions]
            yield Case([str(one if names is None else names[one]) for one in indices], batch, [None] * len(indices))
    finally:
        if hasattr(batches, "close"):
            batches.close()


def _of_batches(data: Iterable[Any]) -> Iterator[Case]:
    place = itertools.count()
    for batch in data:
        if not isinstance(batch, Mapping):
            raise DataError(
                f"a batch must be a dict of arrays, got {type(batch).__name__}; data_keys=('data', 'label') of an "
                "experiment names the parts of a tuple"
            )
        names = [str(next(place)) for _ in range(batch_length(batch))]
        yield Case(names, batch, [None] * len(names))


def _of_files(files: Sequence[Path], entry: str, inputs: Mapping[str, tuple[int, ...]]) -> Iterator[Case | Unreadable]:
    for file in files:
        try:
            batch = read_case(file, entry, inputs)
        except Exception as error:  # whatever a library says of a damaged file
            yield Unreadable(stem_of(file), error)
        else:
            yield Case([stem_of(file)], batch, [file])


def read_case(file: Path, entry: str, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """One case of a file, with an axis of samples in front.

    Parameters
    ----------
    file
        A volume, a picture, an array (``.npy``), or several by name (``.npz``).
    entry
        What an array without a name is called.
    inputs
        Shape of a sample that the network learned from: an axis of one channel is added where the file has none.
    """
    name = file.name.lower()
    if name.endswith(".npz"):
        with np.load(file, allow_pickle=False) as content:
            found = {key: content[key] for key in content.files}
        if len(found) == 1 and entry not in found:
            found = {entry: next(iter(found.values()))}
    elif name.endswith(".npy"):
        found = {entry: np.load(file, allow_pickle=False)}
    elif name.endswith(VOLUMES):
        found = {entry: load_nii(file)}
    else:
        found = {entry: _picture(file, inputs.get(entry))}
    shape = inputs.get(entry)
    array = found.get(entry)
    if array is not None and shape is not None and array.ndim == len(shape) - 1 and shape[0] == 1:
        found[entry] = array[None]
    return {key: np.asarray(value)[None] for key, value in found.items()}


def _picture(file: Path, shape: tuple[int, ...] | None) -> np.ndarray:
    """A picture with its channels first."""
    image = read_image(str(file), shape[0] if shape else 0)
    return np.moveaxis(image, -1, 0) if image.ndim == 3 else image[None]


def check_inputs(case: Case, inputs: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a case that is not such as the network learned from.

    Raises
    ------
    DataError
        If an entry is missing, or has other axes or channels.
    """
    name = case.names[0]
    for entry, shape in inputs.items():
        if entry not in case.batch:
            raise DataError(
                f"case {name!r} has no entry {entry!r}, which the network reads; it has {sorted(case.batch)}"
            )
        found = np.shape(case.batch[entry])[1:]
        if len(found) != len(shape):
            raise DataError(
                f"{entry!r} of case {name!r} has the shape {found}, and the network learned from samples of "
                f"{len(shape)} axes, such as {shape}"
            )
        is_image = len(shape) > 1
        if (is_image and found[0] != shape[0]) or (len(shape) == 1 and found != shape):
            what = "channels" if is_image else "values"
            raise DataError(
                f"{entry!r} of case {name!r} has {found[0]} {what} (shape {found}), and the network learned from "
                f"{shape[0]}"
            )


def space_in(batch: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape in space of the entry that has the most axes."""
    shapes = [np.shape(leaf)[2:] for _, leaf in iterate_leaves(batch)]
    return max(shapes, key=len, default=())
