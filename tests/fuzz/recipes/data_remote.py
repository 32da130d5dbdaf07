"""Data elsewhere, shards and streams."""

import io
import tarfile

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_BOOL, NOT_A_COUNT, NOT_A_MAPPING, NOT_A_PATH, NOT_POSITIVE_INT, STRANGE

from delira.data_loading import DataStream, MappedDataset, RemoteSettings, load_array

PACKAGE = "delira.data_loading"
VALUES = np.arange(12.0).reshape(6, 2)
NO_REMOTE = [*NOT_A_MAPPING, {"cache": 1}, {"retries": -1}, {5: 1}]


def shard(folder):
    with tarfile.open(folder / "a.tar", "w") as archive:
        for number in range(6):
            content = str(number).encode()
            member = tarfile.TarInfo(f"{number}.cls")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return folder / "a.tar"


def stored(folder):
    np.save(folder / "a.npy", VALUES)
    return folder / "a.npy"


def read_at_a_url(settings, folder):
    """What is read of a file of this machine that is named by its URL."""
    return MappedDataset({"data": f"file://{stored(folder)}"}, settings).labels("data")


def labels(dataset, folder):
    return [next(iter(dataset[number].values())) for number in range(len(dataset))]


def joined(stream, folder):
    return np.concatenate([batch["data"] for batch in stream])


class Told:
    """A stream that goes on where it stood."""

    def __init__(self):
        self.place = 0

    def __iter__(self):
        for row in VALUES:
            yield {"data": row}

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


ENTRIES = [
    Entry(
        name=f"{PACKAGE}.RemoteSettings",
        good=lambda folder: {"cache_dir": folder / "cache"},
        use=read_at_a_url,
        expected=lambda arguments: VALUES,
        right={
            "cache_size": [0, 1, 10**12], "time_limit": [1, 0.5, 1e6], "retries": [0, 3], "storage_options": [{}],
        },
        wrong={
            "cache_dir": NOT_A_PATH,
            "cache_size": NOT_A_COUNT,
            "time_limit": ["x", 0, -1, NAN, np.inf, None, True, STRANGE, []],
            "retries": NOT_A_COUNT,
            "storage_options": NOT_A_MAPPING,
        },
        needs="fsspec",
    ),
    Entry(
        name=f"{PACKAGE}.MappedDataset#remote",
        good=lambda folder: {"arrays": {"data": VALUES}, "remote": {"cache_size": 0}},
        use=lambda dataset, folder: dataset.labels("data"),
        expected=lambda arguments: VALUES,
        right={"remote": [None, {}, RemoteSettings()]},
        wrong={"remote": NO_REMOTE},
        says={"remote": ["retries"]},
    ),
    Entry(
        name=f"{PACKAGE}.load_array#remote",
        good=lambda folder: {"path": stored(folder)},
        make=load_array,
        expected=lambda arguments: VALUES,
        right={"remote": [None, {}, RemoteSettings()]},
        wrong={"remote": NO_REMOTE},
        says={"remote": ["retries"]},
    ),
    Entry(
        name=f"{PACKAGE}.ShardDataset",
        good=lambda folder: {"shards": shard(folder)},
        use=labels,
        expected=lambda arguments: [*range(6)],
        right={"keys": [None, {"label": "cls"}, {"label": "txt;.CLS"}], "decoders": [None, {}, {"cls": int}]},
        wrong={
            "shards": ["x", 5, None, [], [5], [""], STRANGE, NAN, "/nonsense/a.tar", __file__],
            "keys": [*NOT_A_MAPPING, {}, {"label": "x"}, {"label": 5}, {5: "cls"}],
            "decoders": [*NOT_A_MAPPING, {"cls": 5}, {5: int}],
            "remote": NO_REMOTE,
        },
        says={"shards": ["shard"], "remote": ["retries"]},
    ),
    Entry(
        name=f"{PACKAGE}.DataStream",
        good=lambda folder: {"stream": Told(), "batch_size": 4},
        use=joined,
        expected=lambda arguments: VALUES,
        right={
            "stream": [[{"data": row} for row in VALUES], lambda: iter([{"data": row} for row in VALUES])],
            "batch_size": [1, 5, 100], "n_batches": [None, 2], "drop_last": [False],
            "keys": [None, ["data"], {"data": "data"}], "resume": [None, "state", "skip"],
        },
        wrong={
            "stream": [5, None, STRANGE, NAN, iter([])],
            "batch_size": NOT_POSITIVE_INT,
            "n_batches": NOT_POSITIVE_INT,
            "drop_last": NOT_A_BOOL,
            "keys": ["x", 5, [], ["data", "data"], STRANGE, {"data": "x"}],
            "resume": ["x", 5, True, "", STRANGE],
        },
        says={"stream": ["stream", "read only once"], "keys": ["keys"]},
    ),
    Entry(
        name=f"{PACKAGE}.DataStream#state",
        good=lambda folder: {"resume": "state"},
        make=lambda resume: DataStream([{"data": row} for row in VALUES], 4, resume=resume),
        use=joined,
        right={"resume": ["skip", None]},
        wrong={"resume": ["state"]},
    ),
]  # fmt: skip
