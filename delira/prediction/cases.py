"""What is predicted: arrays, data sets, managers, samples and files, as batches with a name for each case."""

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading import BaseDataManager, load_nii
from delira.data_loading.abstract_dataset import AbstractDataset
from delira.data_loading.case_hashes import hash_case
from delira.data_loading.load_utils import read_image, to_channels_first
from delira.errors import ConfigError, DataError, MissingBackendError, listed
from delira.training.epoch import batch_length, has_epochs

#: samples of arrays that are predicted at once
BATCH_SIZE = 32
#: the cure if cases have no names of their own
NAME_THEM = "give the data set other case_names"
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
    contents: Sequence[str] = ()
    """What tells the data of each from others, of files and arrays; empty: nothing does."""

    def content(self, position: int) -> str | None:
        """What tells the data of one case from others, if anything does."""
        return self.contents[position] if self.contents else None


class Unreadable(NamedTuple):
    """A case that cannot be read."""

    name: str
    error: Exception


class OtherDataError(DataError):
    """A case is there already, of other data."""


#: whether the case of this name, and of these data, is predicted already, and need not be read
IsDone = Callable[[str, str | None], bool]
#: bytes at both ends of a file by which it is known again: what is packed has a checksum of all at its end
_ENDS = 2**16


def cases_of(
    data: Any,
    entry: str,
    inputs: Mapping[str, tuple[int, ...]],
    batch_size: int | None = None,
    is_done: IsDone | None = None,
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
        Cases at once; None: that of a manager, 32 of arrays, else 1. Files, and samples of a data set, are one batch
        only if their shapes are alike.
    is_done
        Cases of files and data sets that are left out; with it each case needs a name of its own.

    Raises
    ------
    ConfigError
        If it is something else, or there are no files.
    """
    if isinstance(data, (AbstractDataset, BaseDataManager)):
        data = data.whole_cases()  # patches are to learn from: several of one case have one name
    if isinstance(data, (str, Path)):
        return of_files(files_in(Path(data)), entry, inputs, batch_size or 1, is_done)
    if isinstance(data, np.ndarray) or hasattr(data, "__array__"):
        data = {entry: np.asarray(data)}
    if isinstance(data, Mapping):
        return _of_arrays(data, entry, inputs, batch_size or BATCH_SIZE, is_done is not None)
    if isinstance(data, AbstractDataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return _of_sequence(data, entry, inputs, batch_size or 1, is_done)
    if has_epochs(data):
        return _of_manager(data, batch_size)
    if isinstance(data, Iterable):
        return _of_batches(data)
    raise ConfigError(
        "predict takes arrays, a dict of arrays, a data set, a data manager, samples, files or a folder, got a "
        f"{type(data).__name__}"
    )


def files_in(path: Path) -> dict[str, Path]:
    """The files that can be predicted, by the name of their case, in the order of their names.

    Parameters
    ----------
    path
        A file, a folder of files, or a folder with one folder for each case, which has one file.

    Raises
    ------
    ConfigError
        If there are none, or it is not clear which file is which case.
    """
    if path.is_file():
        return named([path])
    if not path.is_dir():
        raise ConfigError(f"there is no file or folder {str(path)!r}")
    if found := _predictable(path):
        return named(found)
    folders = {folder: _predictable(folder) for folder in sorted(path.iterdir()) if folder.is_dir()}
    if several := next((folder for folder, files in folders.items() if len(files) > 1), None):
        files = listed([file.name for file in folders[several]], 3)
        raise ConfigError(
            f"the folder {str(several)!r} has several files ({files}), and a case is one; name that of each folder: "
            f"sorted(folder.glob('*/{folders[several][0].name}')), or in a shell {path}/*/{folders[several][0].name}"
        )
    cases = {folder.name: files[0] for folder, files in folders.items() if files}
    if not cases:
        endings = ", ".join((*VOLUMES, *PICTURES, *ARRAYS))
        raise ConfigError(
            f"there is no file in {str(path)!r}, nor in the folders in it, that can be predicted ({endings})"
        )
    return cases


def _predictable(folder: Path) -> list[Path]:
    endings = (*VOLUMES, *PICTURES, *ARRAYS)
    files = (file for file in folder.iterdir() if file.is_file() and file.name.lower().endswith(endings))
    return sorted(file for file in files if not file.name.startswith("."))


def named(files: Sequence[Path]) -> dict[str, Path]:
    """Files by the name of their case: their own, or where these are alike, that of their folder.

    Raises
    ------
    ConfigError
        If these are alike, too.
    """
    for name_of in (stem_of, lambda file: file.absolute().parent.name):
        if len(found := {name_of(file): file for file in files}) == len(files):
            return found
    alike: dict[str, list[Path]] = {}
    for file in files:
        alike.setdefault(stem_of(file), []).append(file)
    twice = next(several for several in alike.values() if len(several) > 1)
    raise ConfigError(
        f"{listed([str(file) for file in twice], 3)} are one case by their names, and their predictions would be one "
        "file; rename them, or name some alone"
    )


def stem_of(file: Path) -> str:
    """Name of a case: that of its file without the ending."""
    name = file.name
    ending = next((one for one in (*VOLUMES, *PICTURES, *ARRAYS) if name.lower().endswith(one)), file.suffix)
    return name.removesuffix(name[len(name) - len(ending) :]) if ending else name


def _of_arrays(
    data: Mapping[str, Any], entry: str, inputs: Mapping[str, tuple[int, ...]], batch_size: int, told_apart: bool
) -> Iterator[Case]:
    """Batches of a dict of arrays; of one sample that has no axis of samples, one case."""
    read = sorted(data.keys() & {entry, *inputs})
    if _is_sample(data, entry, inputs):
        batch = {key: np.asarray(value)[None] for key, value in data.items()}
        yield Case([str(data.get("name", 0))], batch, [None], _contents_of(batch, read, 1) if told_apart else ())
        return
    number = batch_length(data)
    for start in range(0, number, batch_size):
        stop = min(number, start + batch_size)
        batch = {key: value[start:stop] if np.ndim(value) else value for key, value in data.items()}
        n_cases = stop - start
        contents = _contents_of(batch, read, n_cases) if told_apart else ()
        yield Case([*map(str, range(start, stop))], batch, [None] * n_cases, contents)


def _contents_of(batch: Mapping[str, Any], read: Sequence[str], n_cases: int) -> list[str]:
    return [str(hash_case({key: batch[key][row] for key in read}, read)) for row in range(n_cases)]


def content_of_file(file: Path) -> str:
    """What tells the content of a file from others: the sha256 (hex) of its size and of both of its ends."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        digest.update(b"%d;" % size)
        for start in (0, max(0, size - _ENDS)):
            opened.seek(start)
            digest.update(opened.read(_ENDS))
    return digest.hexdigest()


def _is_sample(data: Mapping[str, Any], entry: str, inputs: Mapping[str, tuple[int, ...]]) -> bool:
    known = next((key for key in (entry, *inputs) if key in data and key in inputs), None)
    return known is not None and np.ndim(data[known]) == len(inputs[known])


def _of_sequence(
    data: Any, entry: str, inputs: Mapping[str, tuple[int, ...]], batch_size: int, is_done: IsDone | None
) -> Iterator[Case | Unreadable]:
    """A data set, or a list of samples, batches or files."""
    is_dataset = isinstance(data, AbstractDataset)
    first = None if is_dataset or not len(data) else data[0]
    if isinstance(first, (str, Path)):
        yield from of_files(named([Path(file) for file in data]), entry, inputs, batch_size, is_done)
    elif isinstance(first, Mapping) and inputs and not _is_sample(first, entry, inputs):
        yield from _of_batches(data)
    else:
        yield from _stacked(_samples(data, entry, is_done), batch_size)


def _samples(data: Any, entry: str, is_done: IsDone | None) -> Iterator[Case | Unreadable]:
    """The samples of a data set that are not done, one by one."""
    names = [*map(str, getattr(data, "case_names", None) or _own_names(data))]
    (most, times), *_ = [*Counter(names).most_common(1), ("", 0)]
    if is_done is not None and times > 1:
        raise DataError(f"{times} cases are called {most!r}, and their predictions would be one file; {NAME_THEM}")
    for index, name in enumerate(names):
        if is_done is not None and is_done(name, None):
            continue
        try:
            sample = data[index]
        except Exception as error:  # of the user's loading
            yield Unreadable(name, error)
            continue
        if isinstance(sample, tuple):
            raise DataError(
                f"sample {name!r} is a tuple, whose parts have no names; give dicts of arrays: [{{{entry!r}: one[0]}} "
                "for one in data]"
            )
        entries = sample if isinstance(sample, Mapping) else {entry: sample}
        yield Case([name], {key: np.asarray(value)[None] for key, value in entries.items()}, [None])


def _own_names(data: Any) -> Iterable[Any]:
    """Of samples in a list what they say themselves, as those of ``load_nii(path, geometry=True)``; else numbers."""
    say_so = isinstance(data, (list, tuple)) and all(isinstance(one, Mapping) and "name" in one for one in data)
    return [one["name"] for one in data] if say_so else range(len(data))


def _stacked(cases: Iterator[Case | Unreadable], batch_size: int) -> Iterator[Case | Unreadable]:
    """Cases one after the other as batches, of those that have the same shapes."""
    gathered: list[Case] = []
    for case in cases:
        if isinstance(case, Unreadable):
            yield case
            continue
        if gathered and _shapes(case) != _shapes(gathered[0]):
            yield _one_batch(gathered)
            gathered = []
        gathered.append(case)
        del case  # else it is still in memory while the next one is read
        if len(gathered) == batch_size:
            yield _one_batch(gathered)
            gathered = []
    if gathered:
        yield _one_batch(gathered)


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    return {key: np.shape(value) for key, value in case.batch.items()}


def _one_batch(cases: list[Case]) -> Case:
    if len(cases) == 1:
        return cases[0]
    batch = {key: np.concatenate([case.batch[key] for case in cases]) for key in cases[0].batch}
    contents = [content for case in cases for content in case.contents]
    return Case([case.names[0] for case in cases], batch, [case.files[0] for case in cases], contents)


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


def of_files(
    files: Mapping[str, Path],
    entry: str,
    inputs: Mapping[str, tuple[int, ...]],
    batch_size: int = 1,
    is_done: IsDone | None = None,
) -> Iterator[Case | Unreadable]:
    """The cases of files by name; see :func:`cases_of`."""
    return _stacked(_read(files, entry, inputs, is_done), batch_size)


def _read(
    files: Mapping[str, Path], entry: str, inputs: Mapping[str, tuple[int, ...]], is_done: IsDone | None
) -> Iterator[Case | Unreadable]:
    for name, file in files.items():
        try:
            content = content_of_file(file)
            batch = None if is_done is not None and is_done(name, content) else read_case(file, entry, inputs)
        except (MissingBackendError, OtherDataError) as error:
            yield Unreadable(name, error)
        except Exception as error:  # whatever a library says of a damaged file
            refused = DataError(f"the case {name!r} cannot be read ({file}): {type(error).__name__}: {error}")
            refused.__cause__ = error
            yield Unreadable(name, refused)
        else:
            if batch is not None:
                yield Case([name], batch, [file], [content])


def read_case(file: Path, entry: str, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """One case of a file, with an axis of samples in front.

    Parameters
    ----------
    file
        A volume, which brings the entries ``spacing`` and ``affine``, a picture, an array (``.npy``), or several by
        name (``.npz``).
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
        volume = load_nii(file, geometry=True)
        found = {entry: volume["data"], "spacing": volume["spacing"], "affine": volume["affine"]}
    else:
        found = {entry: _picture(file, inputs.get(entry))}
    shape = inputs.get(entry)
    array = found.get(entry)
    if array is not None and shape is not None and array.ndim == len(shape) - 1 and shape[0] == 1:
        found[entry] = array[None]
    return {key: np.asarray(value)[None] for key, value in found.items()}


def _picture(file: Path, shape: tuple[int, ...] | None) -> np.ndarray:
    """A picture as :func:`delira.data_loading.default_load_fn_2d` gives it, in its own size."""
    image = read_image(str(file), shape[0] if shape else 0)
    n_channels = shape[0] if shape else 1 if image.ndim == 2 else image.shape[2]
    return to_channels_first(image, image.shape[:2], n_channels)


def space_in(batch: Mapping[str, Any], reads: Sequence[str]) -> tuple[int, ...]:
    """The shape in space of the entry with the most axes, of those that a network reads.

    Parameters
    ----------
    batch
        Arrays of shape ``(B, C, *space)`` or fewer axes.
    reads
        Names of the entries.
    """
    return np.shape(batch[widest_of(batch, reads)])[2:]


def widest_of(batch: Mapping[str, Any], reads: Sequence[str]) -> str:
    """The entry with the most axes, of those that a network reads."""
    return max(reads, key=lambda name: np.ndim(batch[name]))


def check_inputs(name: str, batch: Mapping[str, Any], inputs: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a case that is not such as the network learned from.

    Raises
    ------
    DataError
        If an entry is missing, or has other axes or channels.
    """
    for entry, shape in inputs.items():
        if entry not in batch:
            raise DataError(f"case {name!r} has no entry {entry!r}, which the network reads; it has {sorted(batch)}")
        found = np.shape(batch[entry])[1:]
        if len(found) != len(shape):
            raise DataError(
                f"{entry!r} of case {name!r} has the shape {found}, and the network learned from samples of "
                f"{len(shape)} axes, such as {shape}"
            )
        if not _has_channels_of(found, shape):
            what = "channels" if len(shape) > 1 else "values"
            lacks = (
                "; an axis of one channel may be missing, array[:, None]" if len(shape) > 2 and shape[0] == 1 else ""
            )
            raise DataError(
                f"{entry!r} of case {name!r} has {found[0]} {what} (shape {found}), and the network learned from "
                f"{shape[0]} (such as {shape}){lacks}"
            )


def _has_channels_of(found: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a sample has the channels of another one, whatever its size in space.

    Channels come first, unless the axes say that they come last: (256, 256, 3), or a sequence of vectors.
    """
    if len(shape) < 2 or found[0] == shape[0]:
        return tuple(found) == tuple(shape) or len(shape) > 1
    return (len(shape) == 2 or shape[0] > shape[-1]) and found[-1] == shape[-1]


#: another spacing than those learned from by this factor is another kind of image
_ALIKE = 1.1


def check_spacing(names: Sequence[str], batch: Mapping[str, Any], learned: Sequence[Sequence[float]]) -> None:
    """Refuse volumes whose entry ``spacing`` is out of the range of those that the network learned from.

    Parameters
    ----------
    names
        Of the cases.
    batch
        Of them; without this entry nothing is known.
    learned
        The least and the largest along each axis, in mm.

    Raises
    ------
    DataError
        If it is less or more by more than 10 %.
    """
    spacing = np.asarray(batch.get("spacing", ()))
    if not learned or spacing.shape[1:] != np.shape(learned)[1:]:
        return
    least, largest = np.asarray(learned)
    for name, own in zip(names, spacing, strict=True):
        if (own * _ALIKE < least).any() or (own > largest * _ALIKE).any():
            known = _in_mm(least) if np.allclose(least, largest) else f"{_in_mm(least)} to {_in_mm(largest)}"
            raise DataError(
                f"case {name!r} has the spacing {_in_mm(own)} along its axes, and the network learned from {known}; "
                "resample it (delira.data_loading.resample, and resample_like for the way back), or predict it as it "
                "is with any_spacing=True (of a command: --any-spacing)"
            )


def _in_mm(spacing: np.ndarray) -> str:
    return f"{' × '.join(f'{length:.3g}' for length in spacing)} mm"


def apart(case: Case) -> Iterator[Case]:
    """The cases of a batch, each as a batch of its own."""
    for position, (name, file) in enumerate(zip(case.names, case.files, strict=True)):
        part = slice(position, position + 1)
        batch = {key: value[part] if np.ndim(value) else value for key, value in case.batch.items()}
        yield Case([name], batch, [file], case.contents[part])
