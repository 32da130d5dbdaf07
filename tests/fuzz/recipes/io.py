"""Containers of trees and files of weights: what is read is what was written, bit for bit, or refused by name."""

import io
import json
from pathlib import Path

import numpy as np
from fuzz_cases import Entry
from fuzz_containers import NO_PATHS, SPOILED, WRONG_TREES, spoiled
from fuzz_networks import BACKENDS, OUTPUTS, filled, linear, outputs_of, weights_of
from fuzz_values import NAN, NOT_A_BOOL, NOT_CALLABLE, STRANGE, Fresh, raises_user_error

from delira.io import load_weights, read_tree, save_weights, verify_zip, write_tree

NAME = "checkpoint_3.zip"
TREE = {
    "model": {"weight": np.arange(6.0).reshape(2, 3), "empty": np.zeros((0, 4), np.int8)},
    "list": [1, -(2**70), 0.1, 1e308, True, None, "täxt", [np.float32(0.5), np.uint8(3)]],
    "epoch": 3,
    "": {},
}
FINE = {
    "infinite": float("inf"),
    "text": "\ud800 \0 \x1b",
    "types": [np.arange(2).astype(kind) for kind in ("?", "i1", "u8", "f2", ">f4", "c16", "M8[s]", "U3", "S2")],
    "order": [np.asfortranarray(np.eye(3)), np.arange(12).reshape(3, 4)[::-1, ::2], np.array(5.0)],
    "signs": np.array([-0.0, 0.0, NAN, -NAN, np.inf]),
}


def bits(tree):
    """A tree with the bits of its arrays; tuples are lists, and numbers of numpy those of Python."""
    if isinstance(tree, dict):
        return {key: bits(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [bits(value) for value in tree]
    if isinstance(tree, np.ndarray):
        return tree.dtype.str, tree.shape, tree.tobytes()
    value = tree.item() if isinstance(tree, np.generic) else tree
    return type(value).__name__, repr(value)


def written(folder, tree=TREE):
    """A file with a tree."""
    path = folder / NAME
    with open(path, "wb") as file:
        write_tree(file, tree)
    return path


def cyclic(kind):
    """A container that holds itself."""
    made = kind()
    if isinstance(made, dict):
        made["again"] = {"a": made}
    else:
        made.append(made)
    return made


def nested(depth):
    """Lists in lists."""
    made = []
    for _ in range(depth):
        made = [made]
    return made


# ------------------------------------------------------------------ trees


def read_spoiled(folder, kind):
    """Read a tree out of what stands in its place."""
    path = folder / NAME
    if kind in WRONG_TREES:
        path.write_bytes(WRONG_TREES[kind])
        return bits(read_tree(path))
    return bits(read_tree(spoiled(written(folder), kind)))


def verify_spoiled(folder, kind):
    """Verify what stands in place of a file."""
    return verify_zip(spoiled(written(folder), kind))


def round_trip(file, tree):
    """Write a tree, and read what the file holds then."""
    if not isinstance(file, Path):
        return write_tree(file, tree)
    with open(file, "wb") as opened:
        write_tree(opened, tree)
    return bits(read_tree(file))


class ReadOnly(io.BytesIO):
    """A file that is not open for writing."""

    def writable(self):
        return False

    def write(self, data):
        raise io.UnsupportedOperation("not writable")


def closed():
    """A file that was closed."""
    file = io.BytesIO()
    file.close()
    return file


#: values that are no trees, or that a tree cannot hold
NO_TREES = ["x", 5, None, NAN, [1], ("a", 1), STRANGE, np.ones(2), True, int, {1, 2}, b"x"]
NO_VALUES = [
    STRANGE,
    {1, 2},
    1j,
    b"x",
    int,
    raises_user_error,
    {1: 2},
    {None: 1},
    {("a", 1): 2},
    {b"a": 1},
    {"$array": 0},
    {"$dtype": "x"},
    np.array([{}, None]),
    np.array([1, "x"], dtype=object),
    np.zeros(2, [("a", "f4")]),
    np.complex64(1),
    np.datetime64("2020-01-01"),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    [STRANGE],
    {"a": [{"b": STRANGE}]},
    Fresh("a dict that holds itself", lambda: cyclic(dict)),
    Fresh("a list that holds itself", lambda: cyclic(list)),
    Fresh("100,000 lists in each other", lambda: nested(100_000)),
    io.BytesIO(b"x"),
]

TREES = [
    Entry(
        name="delira.io.write_tree",
        good=lambda folder: {"file": folder / NAME, "tree": {**TREE, "new": 1}},
        make=round_trip,
        expected=lambda arguments: bits(arguments["tree"]),
        right={"tree": [{}, FINE, {"a": {"b": {"c": [[], {}]}}}], "tree.new": [*FINE.values(), (), nested(50)]},
        wrong={
            "file": [5, "a.zip", None, [], STRANGE, NAN, io.StringIO(), ReadOnly(), Fresh("closed", closed)],
            "tree": NO_TREES,
            "tree.new": NO_VALUES,
        },
        says={"tree.new": ["new"]},
    ),
    Entry(
        name="delira.io.read_tree",
        good=lambda folder: {"path": written(folder)},
        use=lambda tree, folder: bits(tree),
        expected=lambda arguments: {
            name: value
            for name, value in bits(TREE).items()
            if arguments.get("only") is None or name in arguments["only"]
        },
        right={"only": [None, (), ["epoch"], {"model", ""}, ("nowhere",), ["list", "epoch"]], "is_mapped": [True]},
        wrong={
            "path": NO_PATHS,
            "is_mapped": NOT_A_BOOL,
            "only": [5, "epoch", NAN, [5], STRANGE, True, {"epoch": 1}, b"epoch"],
        },
    ),
    Entry(
        name="delira.io.read_tree#spoiled",
        good=lambda folder: {"folder": folder, "kind": "whole"},
        make=read_spoiled,
        expected=lambda arguments: bits(TREE),
        wrong={"kind": [*SPOILED, *WRONG_TREES]},
        says={"kind": [NAME]},
    ),
    Entry(
        name="delira.io.verify_zip",
        good=lambda folder: {"path": written(folder)},
        expected=lambda arguments: None,
        right={"compressed": [True, np.bool_(False)]},
        wrong={"path": NO_PATHS, "compressed": NOT_A_BOOL},
    ),
    Entry(
        name="delira.io.verify_zip#spoiled",
        good=lambda folder: {"folder": folder, "kind": "whole"},
        make=verify_spoiled,
        expected=lambda arguments: None,
        wrong={"kind": [kind for kind in SPOILED if not kind.startswith("zip of")]},
        says={"kind": [NAME]},
    ),
]

# ------------------------------------------------------------------ weights


def weights_back(path, folder):
    """What a file of weights holds."""
    return {name: bits(array) for name, array in sorted(load_weights(path).items())}


def saved(folder, backend="PyTorch"):
    """A file of weights."""
    return save_weights(filled(backend), folder / "a.safetensors")


def load_spoiled(folder, kind):
    """Read weights out of what stands in place of their file."""
    network = linear("PyTorch")
    load_weights(spoiled(saved(folder), kind), network)
    return outputs_of(network)


def loaded(path, network):
    """What a network computes with the weights of a file."""
    load_weights(path, network)
    return OUTPUTS if network is None else outputs_of(network)


#: where nothing can be written
NO_PLACES = [f"{__file__}/a.safetensors", "/dev/null/a.safetensors", "/tmp", "."]
NO_NETWORK = [5, "x", NAN, [], {}, STRANGE, dict, b"x", np.zeros(2)]

WEIGHTS = [
    *(
        Entry(
            name=f"delira.io.save_weights#{backend}",
            good=lambda folder, backend=backend: {"network": filled(backend), "path": folder / "a.safetensors"},
            use=weights_back,
            expected=lambda arguments, backend=backend: {
                name: bits(array) for name, array in sorted(weights_of(backend).items())
            },
            wrong={"network": [*NO_NETWORK, None], "path": [*NO_PATHS, *NO_PLACES]},
            says={"network": ["belongs to no backend"], "path": NO_PLACES},
            needs=(needs, "safetensors"),
        )
        for backend, needs in BACKENDS.items()
    ),
    *(
        Entry(
            name=f"delira.io.load_weights#{backend}",
            good=lambda folder, backend=backend: {"path": saved(folder, backend), "network": linear(backend)},
            make=loaded,
            expected=lambda arguments: OUTPUTS,
            right={"network": [None]},
            wrong={"path": NO_PATHS, "network": NO_NETWORK},
            says={"network": ["belongs to no backend"]},
            needs=(needs, "safetensors"),
        )
        for backend, needs in BACKENDS.items()
    ),
    Entry(
        name="delira.io.load_weights#spoiled",
        good=lambda folder: {"folder": folder, "kind": "whole"},
        make=load_spoiled,
        expected=lambda arguments: OUTPUTS,
        wrong={"kind": SPOILED},
        says={"kind": ["a.safetensors"]},
        needs=("torch", "safetensors"),
    ),
]

# ------------------------------------------------------------------ folders of checkpoints


def write_json(file, tree):
    """As users' own formats may be."""
    file.write(json.dumps(tree).encode())


def stored_and_found(checkpoints, folder):
    """Save two states; which files are there, and what is the newest."""
    from delira.io import read_tree

    checkpoints.save({"epoch": 1, "a": 1}, "epoch_1", "best", "last")
    checkpoints.save({"epoch": 2, "a": 2}, "epoch_2", "last")
    names = sorted(path.name for path in checkpoints.folder.iterdir())
    path, tree = checkpoints.newest()
    states = {
        name: read_tree(checkpoints.folder / name)["epoch"] for name in names if name.endswith(checkpoints.suffix)
    }
    return tree["a"], path.name, names, states


def names_by_hand(arguments):
    """One state by three names, and another one by two."""
    suffix = arguments["suffix"]
    states = {"best": 1, "epoch_1": 1, "epoch_2": 2, "last": 2, "previous": 1}
    beside = [f"checkpoint_{name}{ending}" for ending in arguments.get("beside", {}) for name in states]
    files = {f"checkpoint_{name}{suffix}": epoch for name, epoch in states.items()}
    return 2, f"checkpoint_last{suffix}", sorted([*files, *beside]), files


FOLDERS = [
    Entry(
        name="delira.io.CheckpointFolder",
        good=lambda folder: {"folder": folder, "suffix": ".zip", "write": write_tree, "read": read_tree},
        use=stored_and_found,
        expected=names_by_hand,
        right={"suffix": [".ckpt"], "beside": [{"_model.json": write_json}, {}]},
        wrong={
            "folder": [*NO_PATHS],
            "suffix": [5, None, "", "zip", "a/b", STRANGE, [], NAN, "/", ".a/b", ".a\0"],
            "write": [*NOT_CALLABLE, None],
            "read": [*NOT_CALLABLE, None],
            "beside": [
                "x",
                5,
                None,
                [1],
                STRANGE,
                {"_model.json": 5},
                {5: write_json},
                {"": write_json},
                {".zip": write_json},
            ],
        },
        own=["write", "beside.x"],
    ),
]

ENTRIES = [*TREES, *WEIGHTS, *FOLDERS]
