"""Checkpoint files: zips of records, compared with their checksums before anything of them is loaded.

The container of backends without a format of their own is one of ``.npy`` arrays and JSON. Nothing in it is ever
executed. Entries are stored, not compressed, so that a small file cannot unpack into a huge one, and each carries a
CRC-32.
"""

import importlib
import io
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from delira.errors import CheckpointError, check_flags, check_names, check_that, check_whole
from delira.utils.files import as_path, check_unpacked, open_regular, read_patiently

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_LONG_END = struct.Struct("<4sQ2H2L4Q")
_DESCRIPTOR = 24  # bytes that PyTorch writes after each record
_CHUNK = 1 << 18
_OUTSIDE = re.compile(r"/|[A-Za-z]:|.*\\|(.*/)?\.\.(/|$)", re.DOTALL)
_PICKLE = (
    "it is a pickle, which could run code when loaded, so it was not loaded. If you trust its source, read it "
    "yourself with torch.load(path, weights_only=False), or the program that wrote it"
)
#: what the zip layer raises for a file that is none or is damaged
BROKEN_ZIP = (OSError, ValueError, ArithmeticError, MemoryError, RuntimeError, struct.error, zipfile.BadZipFile)


class Record(NamedTuple):
    """Where the bytes of one record of a zip file are, and what they must be."""

    start: int
    """Position of its first byte in the file."""
    size: int
    """Number of its bytes."""
    crc: int
    """CRC-32 of its bytes."""
    packed: int | None = None
    """Number of the bytes that unpack into it; ``None`` if it is not compressed."""


def verify_zip(path: str | Path, *, compressed: bool = False) -> None:
    """Compare the checksum of every record of a checkpoint file.

    Records must be stored one after the other and uncompressed, as all backends write them: then nothing in the
    file can unpack into more than the file itself.

    Parameters
    ----------
    path
        The file.
    compressed
        Whether records may be compressed (deflate), as TorchScript compresses the code of programs; together they may
        unpack into 256 MiB.

    Raises
    ------
    ConfigError
        If ``path`` is no path.
    CheckpointError
        If the file is missing, no plain file, no zip file, cut short, changed, or made to do harm.
    UnreadableError
        If the system cannot read it now.
    """
    place = as_path(path, "path")
    check_flags("verify_zip", compressed=compressed)
    read_patiently(place, lambda: _verify_zip(place, compressed))


def _verify_zip(path: Path, compressed: bool) -> None:
    try:
        with open_regular(path) as file:
            records = stored_records(file, compressed=compressed)
            damaged = next((name for name, record in records.items() if not _is_whole(file, record)), None)
    except BROKEN_ZIP as error:
        raise CheckpointError(f"{path} is not a complete checkpoint file: {error}") from error
    if damaged is not None:
        raise CheckpointError(f"{path} is damaged: the checksum of its record {damaged!r} is wrong")


def stored_records(file: io.BufferedReader, *, compressed: bool = False) -> dict[str, Record]:
    """Find the records of a zip file by their names, and refuse what no backend writes.

    Parameters
    ----------
    file
        The open file; its position changes.
    compressed
        As in :func:`verify_zip`.

    Raises
    ------
    zipfile.BadZipFile
        If the file does not end as zip files do; a record is compressed, encrypted, outside of the file or inside
        another one; a name occurs twice or leads out of a folder. Further kinds are in :data:`BROKEN_ZIP`.
    """
    count = _check_end(file)
    with zipfile.ZipFile(file) as archive:
        entries, end = sorted(archive.infolist(), key=lambda entry: entry.header_offset), archive.start_dir
    if count != len(entries):
        raise zipfile.BadZipFile(f"it has {len(entries)} records and claims {count}")
    records: dict[str, Record] = {}
    position, room = 0, 0  # nothing stands before the first record
    for entry in entries:
        _check_entry(entry, compressed)
        start = _start_of(file, entry)
        # overlapping records are how a small file unpacks into a huge one
        if not position <= entry.header_offset <= position + room or start + entry.compress_size > end:
            raise zipfile.BadZipFile(f"its record {entry.filename!r} is not where it can be")
        # readers that do not tell small letters from capitals would find another one
        if entry.filename.lower() in records:
            raise zipfile.BadZipFile(f"it has two records called {entry.filename!r}")
        packed = entry.compress_size if entry.compress_type else None
        records[entry.filename.lower()] = Record(start, entry.file_size, entry.CRC, packed)
        position, room = start + entry.compress_size, _DESCRIPTOR
    if compressed:
        check_unpacked(file)
    return {entry.filename: records[entry.filename.lower()] for entry in entries}


def read_record(file: io.BufferedReader, record: Record) -> bytearray:
    """Read one record as a whole.

    Raises
    ------
    zipfile.BadZipFile
        If its checksum is wrong.
    """
    content = bytearray(record.size)
    file.seek(record.start)
    if file.readinto(content) != record.size or zlib.crc32(content) != record.crc:
        raise zipfile.BadZipFile("the checksum of a record is wrong")
    return content


def _is_whole(file: io.BufferedReader, record: Record) -> bool:
    file.seek(record.start)
    if record.packed is not None:
        # no packer makes so much more of it: what is longer is there to fill the memory
        return record.packed <= 2 * record.size + _DESCRIPTOR and _unpacks(file.read(record.packed), record)
    left, crc = record.size, 0
    while content := file.read(min(_CHUNK, left)):
        crc, left = zlib.crc32(content, crc), left - len(content)
    return not left and crc == record.crc


def _unpacks(packed: bytes, record: Record) -> bool:
    """Return True if all bytes of a compressed record unpack into what it must be, never into more."""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = unpacker.decompress(packed, record.size + 1)
    except zlib.error:
        return False
    is_at_end = unpacker.eof and not unpacker.unused_data
    return is_at_end and (len(content), zlib.crc32(content)) == (record.size, record.crc)


def _check_end(file: io.BufferedReader) -> int:
    """Number of records that the end of the file claims; all that it says must be true."""
    head = file.read(512)
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LONG_END.size - _LOCATOR.size - _END.size))
    tail = file.read().rjust(_LONG_END.size + _LOCATOR.size + _END.size, b"\0")
    signature, *disks, here, total, length, offset, comment = _END.unpack(tail[-_END.size :])
    if signature != b"PK\5\6" or comment:
        raise zipfile.BadZipFile(_why_no_zip(head))
    stop = size - _END.size
    locator = tail[_LONG_END.size : -_END.size]
    if locator.startswith(b"PK\6\7"):  # PyTorch writes it always, zipfile from 65,535 records or 2 GiB on
        short, stop = (here, total, length, offset), stop - _LOCATOR.size - _LONG_END.size
        long_signature, rest, _, _, *more, here, total, length, offset = _LONG_END.unpack(tail[: _LONG_END.size])
        disks += more
        limits = (0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
        same = short == tuple(map(min, (here, total, length, offset), limits))
        if not same or (long_signature, rest) != (b"PK\6\6", 44) or locator != _LOCATOR.pack(b"PK\6\7", 0, stop, 1):
            raise zipfile.BadZipFile("its end is damaged")
    if any(disks) or here != total or offset + length != stop:
        raise zipfile.BadZipFile("its end is damaged, or it was cut short in the middle")
    return int(total)


def _why_no_zip(head: bytes) -> str:
    """Return what a file is that does not end as a zip file does."""
    if not head:
        return "it is empty"
    if head[:2] in (b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5") or head[257:262] == b"ustar":  # PyTorch before 1.6, 0.1
        return _PICKLE
    return "it was cut short, or something follows its end" if head[:4] == b"PK\3\4" else "it is no zip file"


def _check_entry(entry: zipfile.ZipInfo, may_be_compressed: bool) -> None:
    is_compressed = entry.compress_type == zipfile.ZIP_DEFLATED and may_be_compressed
    is_stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
    if not (is_compressed or is_stored):
        raise zipfile.BadZipFile(f"its record {entry.filename!r} is compressed; delira never does that")
    if entry.flag_bits & 0x2061:
        raise zipfile.BadZipFile(f"its record {entry.filename!r} is encrypted; delira never does that")
    if entry.volume or entry.external_attr & 0x10:  # PyTorch leaves memory as it is for a record that is a folder
        raise zipfile.BadZipFile(f"its record {entry.filename!r} is not in this file, or is a folder")
    if not entry.filename or entry.filename != entry.orig_filename or _OUTSIDE.match(entry.filename):
        raise zipfile.BadZipFile(f"its record {entry.orig_filename!r} has a name that leads out of a folder")


def _start_of(file: io.BufferedReader, entry: zipfile.ZipInfo) -> int:
    """Return where the bytes of a record begin: after its own header, which must agree with the directory."""
    file.seek(entry.header_offset)
    signature, _, flags, method, _, _, crc, _, _, n_name, n_extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    name = file.read(n_name).decode("utf-8" if flags & 0x800 else "cp437")
    same = (flags, method, name) == (entry.flag_bits, entry.compress_type, entry.orig_filename)
    # with this flag the checksum comes behind the record
    if signature != b"PK\3\4" or not same or (crc != entry.CRC and not flags & 0x8):
        raise zipfile.BadZipFile(f"the header of its record {entry.filename!r} is damaged")
    return entry.header_offset + _LOCAL_HEADER.size + n_name + n_extra


_TREE = "tree.json"
#: dictionaries and lists inside each other
DEEPEST = 200
_LONGEST_TREE = 1 << 28  # bytes of JSON; read, they take about twenty times as much memory
_LONGEST_HEADER = 1 << 14  # bytes before the numbers of an array
#: what zip, JSON and numpy raise for a file that is none of theirs
_GARBAGE = (*BROKEN_ZIP, AttributeError, ImportError, LookupError, SyntaxError, TypeError)
#: bytes of arrays that are worth a memory map
MAPPED_FROM = 1 << 16
_FIELD = struct.Struct("<2H")  # of more facts in the header of a record: what it is, and its length
_PADDING, _LONG_FIELD = 0xD935, 20  # the number by which Android's zipalign has it; sizes beyond 4 GiB
_EPOCH_OF_ZIP = (1980, 1, 1, 0, 0, 0)  # no clock in the file: equal trees give equal bytes


def write_tree(file: BinaryIO, tree: Mapping[str, Any]) -> None:
    """Write a tree of dictionaries (string keys), lists, numbers, strings, ``None`` and arrays.

    Parameters
    ----------
    file
        An open file; arrays are streamed to it.
    tree
        The tree.

    Raises
    ------
    ConfigError
        If ``file`` is not open for writing bytes, or ``tree`` is no dictionary.
    CheckpointError
        If the tree holds anything else, or itself, naming the place; or numbers and strings that do not fit into
        256 MiB of text.
    """
    can_write = getattr(file, "writable", None)
    is_open = callable(getattr(file, "write", None)) and not getattr(file, "closed", False)
    is_of_bytes = is_open and not isinstance(file, io.TextIOBase) and (can_write is None or can_write())
    check_that(is_of_bytes, "write_tree", "file is a file open for writing bytes, open(path, 'wb')", file)
    check_that(isinstance(tree, Mapping), "write_tree", "tree is a dictionary", tree)
    arrays: list[np.ndarray] = []
    text = json.dumps(_to_plain(tree, "", arrays), indent=1)
    if len(text) > _LONGEST_TREE:
        raise CheckpointError(
            f"the checkpoint holds {len(text) >> 20} MiB of numbers and strings outside of arrays, and "
            f"{_LONGEST_TREE >> 20} are allowed; keep long lists of numbers as arrays"
        )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for number, array in enumerate(arrays):
            write_npy(archive, f"arrays/{number}.npy", array)
        archive.writestr(zipfile.ZipInfo(_TREE, _EPOCH_OF_ZIP), text)


def write_npy(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> int:
    """Write one array as a record, streamed; of a large one the numbers begin where a memory map can use them.

    Parameters
    ----------
    archive
        Open for writing.
    name
        Of the record, ``….npy``.
    array
        Without objects.

    Returns
    -------
    int
        CRC-32 of the record.
    """
    entry = zipfile.ZipInfo(name, _EPOCH_OF_ZIP)
    entry.file_size = array.nbytes + _LONGEST_HEADER  # about: beyond 2 GiB the header needs more room
    is_long = array.nbytes > 1 << 30
    if array.nbytes >= MAPPED_FROM:
        start = archive.start_dir + _LOCAL_HEADER.size + len(name.encode()) + _LONG_FIELD * is_long + _FIELD.size
        gap = -start % 64
        entry.extra = _FIELD.pack(_PADDING, gap) + bytes(gap)
    with archive.open(entry, "w", force_zip64=is_long) as record:
        np.lib.format.write_array(record, array, allow_pickle=False)
    return entry.CRC


def read_tree(path: str | Path, only: Sequence[str] | None = None, *, is_mapped: bool = False) -> dict[str, Any]:
    """Read a tree written by :func:`write_tree`; the checksum of every record that is read is compared.

    Parameters
    ----------
    path
        The file.
    only
        Entries at the top that are read; arrays of the others are passed by. None: all.
    is_mapped
        Whether arrays of 64 KiB and more are memory maps of the file, which writing to does not change.

    Raises
    ------
    ConfigError
        If ``path`` is no path, or ``only`` no list of names.
    CheckpointError
        If the file is no such container, or is damaged.
    UnreadableError
        If the system cannot read it now.
    """
    place = as_path(path, "path")
    check_that(not isinstance(only, (str, bytes, Mapping)), "read_tree", "only is a list of names", only)
    if only is not None:
        check_names("read_tree", only=only)
    check_flags("read_tree", is_mapped=is_mapped)
    return read_patiently(place, lambda: _read_tree(place, only, is_mapped))


def read_npy(path: Path, names: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Read arrays of an ``.npz`` file; those of 64 KiB and more are memory maps, which writing to does not change.

    Parameters
    ----------
    path
        The file.
    names
        Of the arrays, with the CRC-32 that each must have.

    Raises
    ------
    CheckpointError
        If the file is missing or damaged, or another one.
    UnreadableError
        If the system cannot read it now.
    """

    def read() -> dict[str, np.ndarray]:
        try:
            with open_regular(path) as file:
                records, found = stored_records(file), {}
                bytes_of = _Bytes(file, is_mapped=True)
                for name, crc in names.items():
                    if records[f"{name}.npy"].crc != crc:
                        raise ValueError(f"its {name!r} is of another time than what names it")
                    found[name] = _array(bytes_of(records[f"{name}.npy"]), name)
                return found
        except _GARBAGE as error:
            raise CheckpointError(f"{path} does not hold what was kept: {error}") from error

    return read_patiently(path, read)


class _Bytes:
    """Gives the bytes of records, compared with their checksums: of large ones as parts of one memory map.

    Parameters
    ----------
    file
        The open file.
    is_mapped
        Whether there are memory maps.
    """

    def __init__(self, file: io.BufferedReader, is_mapped: bool):
        self.file, self._is_mapped = file, is_mapped
        self._map: np.memmap | None = None

    def __call__(self, record: Record) -> np.ndarray | bytearray:
        if not self._is_mapped or record.size < MAPPED_FROM:
            return read_record(self.file, record)
        if not _is_whole(self.file, record):
            raise zipfile.BadZipFile("the checksum of a record is wrong")
        if self._map is None:
            self._map = np.memmap(self.file, np.uint8, "c")  # what writes into an array changes its own copy
        return self._map[record.start : record.start + record.size]


def _read_tree(path: Path, only: Sequence[str] | None, is_mapped: bool) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            records = stored_records(file)
            if _TREE not in records:
                raise ValueError(f"it has no {_TREE}")
            if records[_TREE].size > _LONGEST_TREE:
                raise ValueError(f"{_TREE} has {records[_TREE].size >> 20} MiB; {_LONGEST_TREE >> 20} are allowed")
            plain = json.loads(read_record(file, records.pop(_TREE)), object_pairs_hook=_distinct)
            if only is not None and isinstance(plain, dict):
                plain = {name: entry for name, entry in plain.items() if name in only}
            tree = _from_plain(plain, _Bytes(file, is_mapped), records)
    except _GARBAGE as error:
        raise CheckpointError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path} is not a checkpoint: it holds a {type(tree).__name__}, not a dictionary")
    return tree


def _to_plain(value: Any, place: str, arrays: list[np.ndarray], depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise CheckpointError(f"checkpoint entry {place[:80]}… is nested deeper than {DEEPEST} levels, or holds itself")
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str) or key.startswith("$")]:
            raise CheckpointError(
                f"checkpoint entry {place or '/'} has the key {wrong[0]!r}; keys must be plain strings"
            )
        return {key: _to_plain(item, f"{place}/{key}", arrays, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item, f"{place}/{number}", arrays, depth + 1) for number, item in enumerate(value)]
    if isinstance(value, np.generic) and not isinstance(value, (np.void, np.complexfloating)):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    is_array = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)  # its mask would be lost
    if is_array and not value.dtype.hasobject and value.dtype.type is not np.void:
        entry = {"$array": len(arrays)}
        if value.dtype.isbuiltin == 2:  # registered by ml_dtypes, e.g. bfloat16: kept by their bits
            entry["$dtype"] = value.dtype.name
            value = value.view(f"u{value.dtype.itemsize}")
        arrays.append(value)
        return entry
    raise CheckpointError(f"checkpoint entry {place} is a {type(value).__name__}, which cannot be stored safely")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"{_TREE} has a dictionary with two entries of the same name among {sorted(found)}")
    return found


def _from_plain(value: object, file: _Bytes, records: dict[str, Record]) -> Any:
    if isinstance(value, list):
        return [_from_plain(item, file, records) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" not in value:
        return {key: _from_plain(item, file, records) for key, item in value.items()}
    if unknown := value.keys() - {"$array", "$dtype"}:
        raise ValueError(f"{_TREE} says {sorted(unknown)} of an array, which nobody understands")
    name = f"arrays/{int(value['$array'])}.npy"
    if name not in records:  # each is named once, or a small file could ask for one large array many times
        raise ValueError(f"{_TREE} names {name}, which is not there or was named before")
    array = _array(file(records.pop(name)), name)
    if "$dtype" not in value:
        return array
    dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), str(value["$dtype"])))
    if dtype.isbuiltin != 2:
        raise ValueError(f"{_TREE} names the type {value['$dtype']!r}, which is none of ml_dtypes")
    return array.view(dtype)


def _array(content: np.ndarray | bytearray, name: str) -> np.ndarray:
    """Return the array of an ``.npy`` record, in the memory of ``content``."""
    head = io.BytesIO(bytes(content[:_LONGEST_HEADER]))
    if (version := np.lib.format.read_magic(head)) != (1, 0):
        raise ValueError(f"{name} is of version {version} of its format; (1, 0) is expected")
    shape, in_columns, dtype = np.lib.format.read_array_header_1_0(head)
    if dtype.hasobject:
        raise ValueError(f"{name} holds pickled objects, which could run code when loaded")
    start = head.tell()
    if math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError(f"{name} claims shape {shape} of {dtype}, but has {len(content) - start} bytes of numbers")
    if isinstance(content, np.ndarray):
        flat = content[start:].view(dtype)
        return flat.reshape(shape[::-1]).T if in_columns else flat.reshape(shape)
    return np.ndarray(shape, dtype, content, start, order="F" if in_columns else "C")


def check_model(owner: str, model: Any, kind: Any, what: str) -> None:
    """Refuse a model of another kind.

    Parameters
    ----------
    owner
        Name of the function.
    model
        What was given.
    kind
        Class of models; ``… | None`` where it may be left out.
    what
        The same in words.

    Raises
    ------
    ConfigError
        Naming what was given.
    """
    check_that(isinstance(model, kind), owner, f"model is {what}", model)


def check_saved(
    owner: str,
    optimizers: Any,
    epoch: object = None,
    *,
    is_optimizer: Callable[[Any], bool] = lambda optimizer: False,
    what: str = "optimizer",
) -> None:
    """Refuse optimizers that are no dictionary of them, and an epoch that is no number; None is none.

    Parameters
    ----------
    owner
        Name of the function.
    optimizers, epoch
        What was given.
    is_optimizer
        Whether a value is one of the backend.
    what
        The same in words.

    Raises
    ------
    ConfigError
        Naming what was given.
    """
    is_named = isinstance(optimizers, Mapping) and all(isinstance(name, str) for name in optimizers)
    are_right = optimizers is None or (is_named and all(map(is_optimizer, optimizers.values())))
    check_that(are_right, owner, f"optimizers is a dict, name -> {what}", optimizers)
    if epoch is not None:
        check_whole(owner, at_least=0, epoch=epoch)


def check_kept(tree: object, place: str = "", depth: int = 0) -> None:
    """Refuse a tree that holds itself, or masked arrays, before anything copies it: masks would be lost.

    Parameters
    ----------
    tree
        The tree, or a part of it.
    place, depth
        Where the part is.

    Raises
    ------
    CheckpointError
        Naming the place.
    """
    if depth > DEEPEST:
        raise CheckpointError(f"checkpoint entry {place[:80]}… is nested deeper than {DEEPEST} levels, or holds itself")
    if isinstance(tree, np.ma.MaskedArray):
        raise CheckpointError(f"checkpoint entry {place} is a MaskedArray, which cannot be stored safely")
    parts = enumerate(tree) if isinstance(tree, (list, tuple)) else ()
    for name, part in tree.items() if isinstance(tree, Mapping) else parts:
        check_kept(part, f"{place}/{name}", depth + 1)
