"""What may stand where a file should: nothing, something else, or a part of it."""

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

NO_PATHS: list[Any] = [5, 0, 1.5, float("nan"), None, [], {}, True, b"x", object, "", "a\0b", ["a.zip"]]
#: kinds of what is no whole file of the kind that was written
SPOILED = [
    "missing",
    "in no folder",
    "behind a file",
    "folder",
    "empty",
    "a byte",
    "half",
    "without its last byte",
    "followed by more",
    "a bit changed",
    "text",
    "pickle",
    "pipe",
    "device",
    "link to nothing",
    "link to itself",
    "zeros",
    "zip of nothing",
    "zip of text",
]


def spoiled(path: Path, kind: str) -> Path:
    """Spoil a file, or put something else into its place; return where that is."""
    content = path.read_bytes()
    parts = {
        "empty": b"",
        "a byte": content[:1],
        "half": content[: len(content) // 2],
        "without its last byte": content[:-1],
        "followed by more": content + b"more",
        "a bit changed": flipped(content),
        "text": b"epoch: 3\n",
        "pickle": pickle.dumps({"epoch": 3}),
        "zeros": bytes(len(content)),
        "zip of nothing": zipped({}),
        "zip of text": zipped({"readme.txt": b"text"}),
    }
    if kind in parts:
        path.write_bytes(parts[kind])
    elif kind != "whole":
        path.unlink()
        path = _in_place_of(path, kind)
    return path


def _in_place_of(path: Path, kind: str) -> Path:
    if kind == "in no folder":
        return path.parent / "nowhere" / path.name
    if kind == "behind a file":
        path.parent.joinpath("file").write_bytes(b"x")
        return path.parent / "file" / path.name
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "link to nothing":
        path.symlink_to(path.parent / "nowhere")
    elif kind == "link to itself":
        path.symlink_to(path)
    return path


def flipped(content: bytes) -> bytes:
    """The same with a bit changed in what is stored first, behind the header of its record."""
    place = content.index(b"NUMPY") + 20 if b"NUMPY" in content else min(200, len(content) // 3)
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def zipped(records: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in records.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


def record(array: Any, *, pickled: bool = False) -> bytes:
    """An array as ``.npy``."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


def tree_of(text: str | bytes, **records: bytes) -> bytes:
    """A container whose tree is this text."""
    content = text.encode() if isinstance(text, str) else text
    return zipped({**{f"arrays/{name[1:]}.npy": value for name, value in records.items()}, "tree.json": content})


#: containers that say what cannot be
WRONG_TREES = {
    "a list": tree_of("[1, 2]"),
    "a number": tree_of("3"),
    "no JSON": tree_of("{"),
    "empty JSON": tree_of(""),
    "nested deeply": tree_of('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "not UTF-8": tree_of(b'{"a": "\xff\xfe"}'),
    "an array that is not there": tree_of('{"a": {"$array": 0}}'),
    "an array twice": tree_of('{"a": {"$array": 0}, "b": {"$array": 0}}', _0=record(np.ones(2))),
    "an array by a text": tree_of('{"a": {"$array": "x"}}'),
    "an array by nothing": tree_of('{"a": {"$array": null}}'),
    "an array by a list": tree_of('{"a": {"$array": []}}'),
    "more about an array": tree_of('{"a": {"$array": 0, "$more": 1}}', _0=record(np.ones(2))),
    "an unknown type": tree_of('{"a": {"$array": 0, "$dtype": "nonsense"}}', _0=record(np.ones(2))),
    "a type that is a function": tree_of('{"a": {"$array": 0, "$dtype": "finfo"}}', _0=record(np.ones(2))),
    "an array of objects": tree_of('{"a": {"$array": 0}}', _0=record(np.array([{}]), pickled=True)),
    "half an array": tree_of('{"a": {"$array": 0}}', _0=record(np.ones(20))[:-8]),
    "no array": tree_of('{"a": {"$array": 0}}', _0=b"text"),
    "a name twice": tree_of('{"a": 1, "a": 2}'),
    "compressed": zipped({"tree.json": json.dumps({"a": "x" * 1000}).encode()}, zipfile.ZIP_DEFLATED),
}
