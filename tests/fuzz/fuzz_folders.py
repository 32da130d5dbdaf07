"""Run folders damaged at random, one file at a time: which file, how, and what it is to be compared with."""

import copy
import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "secret of the reader"
DEEP = 5_000
#: what is put in place of a value of JSON
VALUES: dict[str, Any] = {
    "another type": None,
    "a huge number": 10**400,
    "a large number": 1e308,
    "NaN": float("nan"),
    "a negative number": -3,
    "a fraction": 0.5,
    "a text": "x",
    "a list": [1, "a"],
    "a dictionary": {"a": 1},
    "an escape": "\x1b[2J\u202e",
}


@dataclass(frozen=True)
class Damage:
    """One file of a run folder, and what is done to it."""

    file: str
    """Path in the folder."""
    how: str
    seed: int

    def __str__(self) -> str:
        return f"{self.file}, {self.how}, {self.seed}"

    def do(self, run: Path) -> None:
        """Damage the file of a copy of the run."""
        DAMAGES[self.how](run / self.file, random.Random(self.seed))

    @property
    def is_forged(self) -> bool:
        """Whether its checksums are right, so that nobody can know: it must only be read without harm."""
        return self.file.endswith(".zip") and self.how.startswith("JSON,")

    def is_named(self, text: str) -> bool:
        """Whether a message tells the reader where to look: the file, or the fold or folder that holds it."""
        path = Path(self.file)
        folds = [part for part in path.parts if part.startswith("fold_")]
        names = [path.name, *folds, *(f"fold {int(fold.removeprefix('fold_'))}" for fold in folds)]
        return any(name in text for name in names)


def select(run: Path, count: int, seed: int) -> list[Damage]:
    """Draw damages of the files of a run: each file, and each kind, as often as the others."""
    rng = random.Random(seed)
    files = [str(path.relative_to(run)) for path in sorted(run.rglob("*")) if not path.name.startswith(".")]
    drawn: list[Damage] = []
    decks: dict[str, list[str]] = {}
    while len(drawn) < count:
        for file in rng.sample(files, len(files)):
            if not decks.get(file):
                decks[file] = [how for how in DAMAGES if is_possible(run / file, how)]
                rng.shuffle(decks[file])
            drawn.append(Damage(file, decks[file].pop(), rng.randrange(1 << 30)))
    return drawn[:count]


def is_possible(path: Path, how: str) -> bool:
    """Whether a file can be damaged like this."""
    if how == "no permission" and os.geteuid() == 0:
        return False  # root reads all
    if path.is_dir():
        return how in ("deleted", "a text", "a pipe", "a link out", "a link to nothing", "no permission")
    if how.startswith("JSON"):
        return path.suffix in (".json", ".jsonl") or path.name == "result.zip"
    return True


def _whole(path: Path) -> bytes:
    content = path.read_bytes()
    path.unlink()
    return content


def _delete(path: Path, rng: random.Random) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _truncate(path: Path, rng: random.Random) -> None:
    content = _whole(path)
    path.write_bytes(content[: rng.randrange(max(1, len(content)))])


def _flip(path: Path, rng: random.Random) -> None:
    content = bytearray(_whole(path))
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _flip_digit(path: Path, rng: random.Random) -> None:
    """Another digit in a number of a text, which stays a text of the same form."""
    content = bytearray(_whole(path))
    digits = [place for place, letter in enumerate(content) if 48 <= letter < 58]
    if digits:
        place = rng.choice(digits)
        content[place] = 48 + (content[place] - 48 + rng.randrange(1, 10)) % 10
    path.write_bytes(content)


def _replaced(write: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], None]:
    def damage(path: Path, rng: random.Random) -> None:
        _delete(path, rng)
        write(path, rng)

    return damage


def _link_out(path: Path, rng: random.Random) -> None:
    secret = next(parent for parent in path.parents if parent.name == "runs").with_name("outside.json")
    secret.write_text(json.dumps({"secret": SECRET, "name": SECRET, "event": SECRET}))
    path.symlink_to(secret)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a tree of JSON something stands."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from _places(item, (*place, key))


def _change_tree(tree: Any, rng: random.Random, what: str) -> Any:
    """Change one place of a tree."""
    tree = copy.deepcopy(tree)
    places = [*_places(tree)]
    if not places:
        return VALUES.get(what)
    *way, last = rng.choice(places)
    part = tree
    for key in way:
        part = part[key]
    if what == "missing":
        del part[last]
    elif what == "deep":
        part[last] = "DEEP"
    elif what == "another type":
        part[last] = str(part[last]) if not isinstance(part[last], str) else [part[last]]
    else:
        part[last] = VALUES[what]
    return tree


def _dump(tree: Any, **how: Any) -> str:
    return json.dumps(tree, **how).replace('"DEEP"', "[" * DEEP + "]" * DEEP)


def _json(what: str) -> Callable[[Path, random.Random], None]:
    """A value of a file of JSON is another one, also inside of a container, whose checksums are then right."""

    def damage(path: Path, rng: random.Random) -> None:
        content = _whole(path)
        if path.suffix == ".json":
            path.write_text(_dump(_change_tree(json.loads(content), rng, what), indent=1))
        elif path.suffix == ".jsonl":
            lines = content.decode().splitlines()
            number = rng.randrange(len(lines))
            lines[number] = _dump(_change_tree(json.loads(lines[number]), rng, what))
            path.write_text("\n".join(lines) + "\n")
        else:
            _write_container(path, content, lambda tree: _change_tree(tree, rng, what))

    return damage


def _write_container(path: Path, content: bytes, change: Callable[[Any], Any]) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for entry in old.infolist():
            record = old.read(entry)
            if entry.filename == "tree.json":
                record = _dump(change(json.loads(record))).encode()
            new.writestr(entry, record)


def _newer(path: Path, rng: random.Random) -> None:
    """The file of a later version, which means something else by the same names."""
    content = _whole(path)
    if path.suffix == ".jsonl":
        lines = [{**json.loads(line), "format": 99} for line in content.splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif path.suffix == ".json":
        path.write_text(json.dumps({**json.loads(content), "format": 99, "version": 99}))
    else:
        _write_container(path, content, lambda tree: {**tree, "format": 99})


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "deleted": _delete,
    "emptied": _replaced(lambda path, rng: path.write_bytes(b"") and None),
    "truncated": _truncate,
    "a flipped bit": _flip,
    "another digit": _flip_digit,
    "noise": _replaced(lambda path, rng: path.write_bytes(rng.randbytes(rng.randrange(1, 3000))) and None),
    "a text": _replaced(lambda path, rng: path.write_text("Dear diary,\n") and None),
    "a folder": _replaced(lambda path, rng: path.mkdir()),
    "a pipe": _replaced(lambda path, rng: os.mkfifo(path)),
    "a link out": _replaced(_link_out),
    "a link to nothing": _replaced(lambda path, rng: path.symlink_to("nowhere")),
    "no permission": lambda path, rng: path.chmod(0),
    "a list of JSON": _replaced(lambda path, rng: path.write_text('["a", {"b": 1}]') and None),
    "deep JSON": _replaced(lambda path, rng: path.write_text("[" * 100_000) and None),
    "JSON of a newer format": _newer,
    **{f"JSON, {what}": _json(what) for what in ("missing", "deep", *VALUES)},
}


def contents(root: Path, without: Sequence[str] = ()) -> dict[str, Any]:
    """What stands in a folder: bytes of files, where links lead, and the names of the rest."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if any(name.startswith(prefix) for prefix in without):
            continue
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = path.read_bytes() if path.is_file() else "no file"
    return found
