"""Shards in the format of WebDataset, as a data set with an index: tar files whose members belong together by name."""

import functools
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from delira.data_loading import _exact
from delira.data_loading._content import describe_callable, stem_of
from delira.data_loading._images import read_image, to_channels_first
from delira.data_loading.abstract_dataset import AbstractDataset
from delira.data_loading.nii import load_nii
from delira.data_loading.remote import RemoteFile, RemoteSettings, as_remote_settings
from delira.data_loading.shard_index import (
    NUMBERS,
    UNKNOWN,
    LocalFile,
    Members,
    describe_endings,
    expanded,
    last_of,
    open_shards,
    to_number,
)
from delira.errors import ConfigError, DataError, MissingKeyError, expect, noting

Decoder = Callable[[bytes], Any]
_REFUSED = ("pyd", "pickle", "pkl", "pth", "pt", "joblib")


class ShardDataset(AbstractDataset):
    """Samples in tar files, as `WebDataset <https://github.com/webdataset/webdataset>`_ writes them.

    Members that follow each other and have one name up to the first dot are a sample: ``0001.jpg``, ``0001.cls``. An
    index of where they lie is made once, from the headers in the shards; so samples have numbers, and are shuffled,
    divided into folds, and read by any number of workers like those of every other data set.

    Parameters
    ----------
    shards
        A path or URL, e.g. ``"s3://bucket/train-{000000..000009}.tar"``, or a list of these.
    keys
        ``{entry: ending}``, e.g. ``{"data": "jpg;png", "label": "cls"}``; of several endings the first that a
        sample has. By default all under their endings.
    decoders
        ``{ending: function of the bytes}``, for other endings, or in place of what is described below.
    remote
        How shards at a URL are reached and kept: a :class:`RemoteSettings` or a dict of its settings.

    Raises
    ------
    ConfigError
        If an argument is wrong, no sample has an ending that ``keys`` names, or nothing says how it is decoded.
    DataError
        If a shard is missing, compressed or damaged.

    Notes
    -----
    ========================================  ============================================================
    ``npy``, ``npz``                          an array, a dict of arrays
    ``cls``, ``cls2``, ``class``, ``count``,
    ``index``, ``inx``, ``id``                an integer
    ``json``, ``jsn``; ``txt``, ``text``      what it says; a text
    ``jpg``, ``jpeg``, ``png``, ``ppm``,
    ``pgm``, ``bmp``, ``tif``, ``webp``, ...  float32, shape (C, H, W), 0 to 1, upright, as :func:`default_load_fn_2d`
    ``nii``, ``nii.gz``                       shape ``(*spatial,)``, as :func:`load_nii`
    ========================================  ============================================================

    Of ``seg.png`` what stands behind the last dot counts. Pickles (``pyd``, ``pth``, ...) are never read, as they can
    run code.

    To find the members of a shard at a URL its headers are read, and with them all members of less than 1 MiB, since
    they lie between; what fits into the cache is not fetched again. Integers are in the index, so that labels cost
    nothing.

    Examples
    --------
    >>> dataset = ShardDataset("train-{000000..000009}.tar", {"data": "png", "label": "cls"})  # doctest: +SKIP
    >>> len(dataset), dataset[0]["data"].shape  # doctest: +SKIP
    (10000, (3, 64, 64))
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        keys: Mapping[str, str] | None = None,
        decoders: Mapping[str, Decoder] | None = None,
        remote: RemoteSettings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._delira_settings = as_remote_settings(remote)
        names = expanded(shards)
        expect(("decoders", decoders, _are_functions(decoders), "a dict {ending: function}"))
        self._decoders = {ending.lower(): function for ending, function in (decoders or {}).items()}
        self._shards, self._members = open_shards(names, self._delira_settings)
        self._keys, self._takes_all = _check_keys(keys, self._members), keys is None
        for ending in {ending for endings in self._keys.values() for ending in endings}:
            self._decoder(ending)  # refuses it

    _draws_nothing = True

    def __len__(self) -> int:
        return len(self._members.keys)

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = _exact.to_index(index, len(self), self)
        found = {key: self._place_of(number, key) for key in self._keys}
        return {key: self._value(number, place) for key, place in found.items() if place is not None}

    def get_sample_from_index(self, index: int) -> int:
        """Return the number of the sample: nothing else is kept of it."""
        return index

    def is_deterministic(self) -> bool:
        """Return True if it is certain that reading a sample draws no random numbers."""
        return not self._decoders and super().is_deterministic()

    def _place_of(self, number: int, key: str) -> int | None:
        """Which of the endings of an entry a sample has; None where it need not have one.

        Raises
        ------
        MissingKeyError
            If it has none.
        """
        endings = self._members.endings
        for ending in self._keys[key]:
            place = endings.index(ending) if ending in endings else None
            if place is not None and self._members.places[number, place, 0] >= 0:
                return place
        if self._takes_all:
            return None
        has = [one for place, one in enumerate(endings) if self._members.places[number, place, 0] >= 0]
        raise MissingKeyError(
            f"sample {number}, {self._called(number)}, has no {' or '.join(self._keys[key])} for its entry {key!r}; it "
            f"has {describe_endings(has)}"
        )

    def _value(self, number: int, place: int) -> Any:
        ending, known = self._members.endings[place], self._members.numbers[number, place]
        decode = self._decoder(ending)
        if decode is _to_int and known != UNKNOWN:
            return int(known)
        offset, size = self._members.places[number, place].tolist()
        what = f"the member {self._members.keys[number]}.{ending}"
        with noting(lambda: f"while {what} of {self._shard_of(number)} was read"):
            content = self._shards[self._members.shards[number]].read(offset, offset + size)
        with noting(lambda: f"while {what} of {self._shard_of(number)} was decoded"):
            return decode(content)

    def _decoder(self, ending: str) -> Decoder:
        """The function for an ending.

        Raises
        ------
        ConfigError
            If there is none.
        """
        last = last_of(ending)
        for one in (ending, last):
            if one in self._decoders:
                return self._decoders[one]
        if last in _REFUSED:
            raise ConfigError(
                f"members that end in {ending!r} are pickles, which can run code when they are read; write them anew "
                "as npy or json, or leave them out by keys={entry: ending}"
            )
        if last not in _DECODERS:
            raise ConfigError(
                f"nothing says how members that end in {ending!r} are decoded; pass decoders={{{ending!r}: function of "
                "the bytes}, or leave them out by keys={entry: ending}"
            )
        return _DECODERS[last]

    def _read_labels(self, key: str) -> np.ndarray:
        numbers = self._numbers(key)
        return super()._read_labels(key) if numbers is None else numbers

    def _reads_cheaply(self, key: str) -> bool:
        return self._numbers(key) is not None

    def _numbers(self, key: str) -> np.ndarray | None:
        """An entry of all samples, where the index holds it."""
        endings = self._keys.get(key, ())
        if len(endings) != 1 or self._decoder(endings[0]) is not _to_int:
            return None
        numbers: np.ndarray = self._members.numbers[:, self._members.endings.index(endings[0])]
        return None if (numbers == UNKNOWN).any() else numbers

    def _called(self, index: int) -> str:
        return f"{self._members.keys[index]!r} in {self._shard_of(index)}"

    def _shard_of(self, index: int) -> str:
        return str(self._shards[self._members.shards[index]])

    def _case_names(self) -> list[str]:
        keys = self._members.keys
        if len(set(keys)) == len(keys):
            return list(keys)
        stems = [stem_of(str(shard)) for shard in self._shards]
        return [f"{stems[shard]}/{key}" for shard, key in zip(self._members.shards.tolist(), keys, strict=True)]

    def _files(self) -> list[str]:
        return [str(shard) for shard in self._shards if isinstance(shard, LocalFile)]

    def _content(self) -> Any:
        decoders = {ending: describe_callable(function) for ending, function in self._decoders.items()}
        members = self._members
        stamps = [shard.stamp for shard in self._shards]
        glance = super()._content() if not self._elsewhere()[0] else []
        return [members.keys, members.endings, members.places, members.numbers, self._keys, decoders, stamps, glance]

    def _elsewhere(self) -> tuple[int, int]:
        size = sum(shard.size for shard in self._shards if isinstance(shard, RemoteFile))
        return size, self._delira_settings.cache_size if size else 0


def _check_keys(keys: object, members: Members) -> dict[str, tuple[str, ...]]:
    if keys is None:
        return {ending: (ending,) for ending in members.endings}
    is_right = isinstance(keys, Mapping) and keys and all(isinstance(one, str) for pair in keys.items() for one in pair)
    expect(("keys", keys, bool(is_right), "a dict {entry: ending}, e.g. {'data': 'jpg;png', 'label': 'cls'}"))
    wanted = {key: tuple(one.strip().lower().lstrip(".") for one in text.split(";")) for key, text in keys.items()}  # type: ignore[attr-defined]
    for key, endings in wanted.items():
        if members.keys and not {*endings} & {*members.endings}:
            raise ConfigError(
                f"keys={keys!r}: no sample has {' or '.join(map(repr, endings))} for the entry {key!r}; the shards "
                f"have {describe_endings(members.endings)}"
            )
    return wanted


def _are_functions(decoders: object) -> bool:
    if decoders is None:
        return True
    return isinstance(decoders, Mapping) and all(
        isinstance(ending, str) and callable(function) for ending, function in decoders.items()
    )


# ------------------------------------------------------------------ what members hold


def _to_npy(content: bytes) -> np.ndarray:
    try:
        array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"it cannot be read as an array ({error})") from error
    return array


def _to_npz(content: bytes) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, OSError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"it cannot be read as an archive of arrays ({error})") from error


def _to_int(content: bytes) -> int:
    return to_number(content, "it")


def _to_json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise DataError(f"it is no JSON ({error})") from error


def _to_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"it is no text in UTF-8 ({error})") from error


def _to_image(content: bytes) -> np.ndarray:
    image = read_image("a member of a shard", content=content)
    return to_channels_first(image, image.shape[:2], 1 if image.ndim == 2 else image.shape[2])


def _to_volume(ending: str, content: bytes) -> np.ndarray:
    with tempfile.NamedTemporaryFile(suffix=f".{ending}") as file:  # its readers want the name of a file
        file.write(content)
        file.flush()
        return load_nii(file.name)


_DECODERS: dict[str, Decoder] = {
    "npy": _to_npy,
    "npz": _to_npz,
    **dict.fromkeys(NUMBERS, _to_int),
    **dict.fromkeys(("json", "jsn"), _to_json),
    **dict.fromkeys(("txt", "text"), _to_text),
    **dict.fromkeys(("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "bmp", "tif", "tiff", "webp", "gif"), _to_image),
    **{ending: functools.partial(_to_volume, ending) for ending in ("nii", "nii.gz")},
}
"""Ending -> what makes a value of the bytes."""
