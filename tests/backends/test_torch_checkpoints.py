"""Checkpoints of PyTorch: plain files, whole or not there, never executed."""

import enum
import functools
import importlib
import io
import json
import os
import pickle
import zipfile
from typing import NamedTuple

import numpy as np
import pytest

from delira.errors import CheckpointError

torch = pytest.importorskip("torch")

from delira.io import (  # noqa: E402
    load_checkpoint_torch,
    save_checkpoint_torch,
    torch_load_checkpoint,
    torch_save_checkpoint,
)
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer, create_optims_gan_default_pytorch  # noqa: E402

MSE = torch.nn.functional.mse_loss
#: verified first, and not
LOADERS = [load_checkpoint_torch, PyTorchNetworkTrainer.load_state, PyTorchNetworkTrainer.backend.checkpoints.read]


class Net(AbstractPyTorchNetwork):
    def __init__(self, n_hidden=4):
        super().__init__(n_hidden=n_hidden)
        self.first = torch.nn.Linear(3, n_hidden)
        self.drop = torch.nn.Dropout(0.3)
        self.second = torch.nn.Linear(n_hidden, 1)

    def forward(self, x):
        return {"pred": self.second(self.drop(torch.relu(self.first(x))))}


class Deeper(Net):
    def __init__(self, n_hidden=4):
        super().__init__(n_hidden)
        self.third = torch.nn.Linear(1, 1)


@pytest.fixture
def batches():
    rng = np.random.default_rng(8)
    return [
        {"data": rng.normal(size=(4, 3)).astype(np.float32), "label": rng.normal(size=(4, 1)).astype(np.float32)}
        for _ in range(3)
    ]


def trainer_of(path, network=None, seed=0, **settings):
    torch.manual_seed(seed)
    defaults = {
        "losses": {"mse": MSE},
        "optimizer_cls": torch.optim.Adam,
        "optimizer_params": {"lr": 0.01},
        "logging_type": None,
        "verbose": False,
    }
    return PyTorchNetworkTrainer(network or Net(), path, **{**defaults, **settings})


def assert_equal_weights(left, right):
    for (name, ours), theirs in zip(left.state_dict().items(), right.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name


# ---- plain files


def test_a_checkpoint_is_read_by_plain_torch(batches, tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.train(2, batches)
    for name in ("epoch_2", "last"):
        tree = torch.load(tmp_path / "checkpoints" / f"checkpoint_{name}.pt", weights_only=True)
        assert {"model", "optimizer", "epoch"} <= tree.keys()
        assert tree["epoch"] == 2
        network = Net()
        network.load_state_dict(tree["model"])
        assert_equal_weights(network, trainer.network)
        optimizer = torch.optim.Adam(network.parameters(), lr=9.0)
        optimizer.load_state_dict(tree["optimizer"]["default"])
        assert optimizer.param_groups[0]["lr"] == 0.01
        assert optimizer.state[network.first.weight]["step"] == 6


def test_files_are_named_by_finished_epochs_and_serialised_once(batches, tmp_path):
    trainer = trainer_of(tmp_path, val_score_key="mse", save_freq=2)
    trainer.train(3, batches, batches)
    folder = tmp_path / "checkpoints"
    names = ("best", "epoch_2", "last", "previous")
    assert sorted(os.listdir(folder)) == [f"checkpoint_{name}.pt" for name in names]
    best = torch.load(folder / "checkpoint_best.pt", weights_only=True)
    assert best["epoch"] == trainer.state.best_epoch
    if trainer.state.best_epoch == 3:
        assert os.path.samefile(folder / "checkpoint_best.pt", folder / "checkpoint_last.pt")
    assert_equal_weights(trainer.network, _loaded(best))


def _loaded(tree):
    network = Net()
    network.load_state_dict(tree["model"])
    return network


def test_the_network_s_class_and_arguments_are_recorded(batches, tmp_path):
    trainer = trainer_of(tmp_path, Net(n_hidden=5))
    tree = torch.load(trainer.save_state(tmp_path / "state.pt"), weights_only=True)
    recorded = dict(tree["network"])
    assert json.loads(recorded.pop("arguments")) == {"n_hidden": 5}
    assert recorded == {"class": f"{__name__}:Net", "init_kwargs": {"n_hidden": 5}}


# ---- saving and loading by hand


def test_a_network_and_its_optimizers_come_back(tmp_path):
    network = Net()
    optimizers = {"default": torch.optim.Adam(network.parameters(), lr=0.5)}
    network(torch.ones(2, 3))["pred"].sum().backward()
    optimizers["default"].step()
    path = save_checkpoint_torch(tmp_path / "state.pt", network, optimizers, 7, note="mine", factor=np.float64(0.25))
    tree = load_checkpoint_torch(path)
    assert (tree["epoch"], tree["note"], tree["factor"]) == (7, "mine", 0.25)
    other = Net()
    other.load_state_dict(tree["model"])
    assert_equal_weights(other, network)
    fresh = torch.optim.Adam(other.parameters(), lr=0.1)
    fresh.load_state_dict(tree["optimizer"]["default"])
    assert fresh.param_groups[0]["lr"] == 0.5
    assert torch.equal(
        fresh.state[other.first.weight]["exp_avg"], optimizers["default"].state[network.first.weight]["exp_avg"]
    )
    assert torch.load(path, weights_only=True).keys() == tree.keys()


def test_arrays_and_half_precision_come_back_as_what_they_were(tmp_path):
    array, half = np.arange(6, dtype=np.int16).reshape(2, 3), torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    path = save_checkpoint_torch(tmp_path / "state.pt", extra={"array": [array, None], "half": half, "on": True})
    extra = load_checkpoint_torch(path)["extra"]
    assert isinstance(extra["array"][0], np.ndarray)
    assert extra["array"][0].dtype == np.int16
    assert np.array_equal(extra["array"][0], array)
    assert extra["half"].dtype is torch.bfloat16
    assert torch.equal(extra["half"], half)
    assert extra["on"] is True


def test_without_a_network_there_is_an_empty_entry_as_it_always_was(tmp_path):
    tree = load_checkpoint_torch(save_checkpoint_torch(tmp_path / "state.pt"))
    assert tree == {"model": {}, "optimizer": {}, "epoch": 0}


def test_the_historic_names_are_the_same_functions():
    assert torch_save_checkpoint is save_checkpoint_torch
    assert torch_load_checkpoint is load_checkpoint_torch


def test_a_state_is_saved_and_taken_over_by_name(batches, tmp_path):
    trainer = trainer_of(tmp_path / "run")
    trainer.train(1, batches)
    path = trainer.save_state(tmp_path / "mine")
    assert path == tmp_path / "mine.pt"
    assert PyTorchNetworkTrainer.load_state(tmp_path / "mine")["epoch"] == 1
    other = trainer_of(tmp_path / "other", seed=5)
    assert other.update_state(path) is other
    assert other.state.epoch == 1
    assert_equal_weights(other.network, trainer.network)
    assert PyTorchNetworkTrainer.load_state(trainer.save_state(tmp_path / "later", epoch=9))["epoch"] == 9


def test_a_file_of_plain_torch_is_taken_over(batches, tmp_path):
    """As other programs write it: no training state of delira."""
    network = Net()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.3)
    tree = {"model": network.state_dict(), "optimizer": {"default": optimizer.state_dict()}, "epoch": 3}
    torch.save(tree, tmp_path / "state.pt")
    trainer = trainer_of(tmp_path / "run", seed=5)
    trainer.update_state(tmp_path / "state.pt")
    assert trainer.state.epoch == 3
    assert_equal_weights(trainer.network, network)


def test_a_failed_save_leaves_the_file_before(tmp_path):
    path = save_checkpoint_torch(tmp_path / "state.pt", Net(), epoch=1)
    with pytest.raises(CheckpointError, match="checkpoint entry extra/1 is a function, which cannot be stored safely"):
        save_checkpoint_torch(path, Net(), epoch=2, extra=[1, lambda: None])
    assert load_checkpoint_torch(path)["epoch"] == 1
    assert os.listdir(tmp_path) == ["state.pt"]


# ---- restart


def test_a_restarted_training_equals_an_unbroken_one_bit_for_bit(batches, tmp_path):
    unbroken = trainer_of(tmp_path / "unbroken")
    unbroken.train(5, batches)
    trainer_of(tmp_path / "broken").train(2, batches)
    torch.rand(7)
    again = trainer_of(tmp_path / "broken", seed=5)
    assert again.state.epoch == 2
    again.train(5, batches)
    assert_equal_weights(again.network, unbroken.network)
    assert again.state.history == unbroken.state.history
    ours, theirs = (trainer.optimizers["default"].state_dict()["state"] for trainer in (again, unbroken))
    assert all(torch.equal(ours[i][name], theirs[i][name]) for i in theirs for name in theirs[i])


def test_a_damaged_last_checkpoint_falls_back_to_the_one_before(batches, tmp_path):
    trainer_of(tmp_path).train(3, batches)
    for name in ("last", "epoch_3"):
        path = tmp_path / "checkpoints" / f"checkpoint_{name}.pt"
        content = path.read_bytes()
        path.unlink()  # not in place: both are names of one file
        path.write_bytes(content[: len(content) // 2])
    with pytest.warns(RuntimeWarning, match=r"checkpoint_(last|epoch_3)\.pt is not a complete checkpoint file"):
        again = trainer_of(tmp_path, seed=5)
    assert again.state.epoch == 2


# ---- what does not fit


@pytest.mark.parametrize(
    ("network", "match"),
    [
        (
            lambda: Net(n_hidden=6),
            r"network Net: first\.weight has shape \(4, 3\) in the checkpoint and \(6, 3\) in the",
        ),
        (Deeper, r"network Deeper: missing in the checkpoint: third\.weight, third\.bias"),
    ],
)
def test_a_checkpoint_of_another_network_is_refused_by_its_entries(network, match, batches, tmp_path):
    trainer_of(tmp_path).train(1, batches)
    with pytest.raises(CheckpointError, match=rf"cannot continue from .*checkpoint_last\.pt: .*{match}"):
        trainer_of(tmp_path, network())


def test_entries_that_the_network_does_not_have_are_named(batches, tmp_path):
    trainer_of(tmp_path, Deeper()).train(1, batches)
    with pytest.raises(CheckpointError, match=r"unknown to the network: third\.weight, third\.bias"):
        trainer_of(tmp_path)


def test_nothing_changes_if_a_checkpoint_does_not_fit(batches, tmp_path):
    path = trainer_of(tmp_path / "other", Deeper()).save_state(tmp_path / "other.pt")
    trainer = trainer_of(tmp_path / "run")
    trainer.train(1, batches)
    before = trainer.load_state(trainer.save_state(tmp_path / "before"))
    with pytest.raises(CheckpointError, match="unknown to the network"):
        trainer.update_state(path)
    assert_same_tree(trainer.load_state(trainer.save_state(tmp_path / "after")), before)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"optimizer_cls": torch.optim.SGD}, "optimizer 'default'"),
        (
            {"optimizer_cls": torch.optim.SGD, "optim_fn": lambda m, c, **p: {"gen": c(m.parameters(), **p)}},
            "no optimizer",
        ),
        ({"optim_fn": lambda m, c, **p: {"default": c(m.first.parameters(), **p)}}, "optimizer 'default'"),
    ],
    ids=["another class", "another name", "other parameters"],
)
def test_a_checkpoint_of_another_optimizer_is_refused_and_changes_nothing(settings, match, batches, tmp_path):
    path = trainer_of(tmp_path / "other", seed=5, **settings).save_state(tmp_path / "other.pt")
    trainer = trainer_of(tmp_path / "run")
    trainer.train(1, batches)
    before = trainer.load_state(trainer.save_state(tmp_path / "before"))
    with pytest.raises(CheckpointError, match=match):
        trainer.update_state(path)
    assert_same_tree(trainer.load_state(trainer.save_state(tmp_path / "after")), before)


def assert_same_tree(left, right):
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name in left:
            assert_same_tree(left[name], right[name])
    elif isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    else:
        assert left == right


def test_a_checkpoint_of_two_optimizers_goes_back_to_both(batches, tmp_path):
    class Pair(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.gen, self.discr = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)

        def forward(self, x):
            return {"pred": self.gen(x)}

        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            for name, optimizer in optimizers.items():
                loss = losses["mse"](getattr(model, name)(data_dict["data"]), data_dict["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return {"mse": loss.detach()}, {}

    unbroken = trainer_of(tmp_path / "unbroken", Pair(), optim_fn=create_optims_gan_default_pytorch)
    broken = Pair()
    broken.load_state_dict(unbroken.network.state_dict())
    unbroken.train(3, batches)
    trainer_of(tmp_path / "broken", broken, optim_fn=create_optims_gan_default_pytorch).train(1, batches)
    again = trainer_of(tmp_path / "broken", Pair(), optim_fn=create_optims_gan_default_pytorch)
    again.train(3, batches)
    assert_equal_weights(again.network, unbroken.network)


# ---- files that must not be trusted


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def trap(tmp_path):
    """A checkpoint with a pickled call in it, and the file that the call would create."""
    target, path = tmp_path / "executed", tmp_path / "trap.pt"
    torch.save({"model": Net().state_dict(), "optimizer": {}, "epoch": 1, "more": Malicious(target)}, path)
    torch.load(path, weights_only=False)["more"].close()
    assert target.exists()  # it works
    target.unlink()
    return path, target


def test_a_pickled_object_is_refused_with_the_line_to_read_it_and_not_executed(trap):
    path, target = trap
    match = (
        r"trap\.pt holds pickled objects, which could run code when loaded, so it was not loaded. "
        r"If you trust its source, read it yourself with torch\.load\(path, weights_only=False\)"
    )
    for load in (load_checkpoint_torch, PyTorchNetworkTrainer.load_state):
        with pytest.raises(CheckpointError, match=match):
            load(path)
    assert not target.exists()


def test_a_trainer_does_not_execute_a_checkpoint_that_it_finds(trap, tmp_path):
    path, target = trap
    folder = tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    path.rename(folder / "checkpoint_last.pt")
    with pytest.raises(CheckpointError, match=r"checkpoint_last\.pt holds pickled objects, which could run code"):
        trainer_of(tmp_path / "run")
    assert not target.exists()


def test_formats_before_the_zip_file_are_refused_with_the_line_to_read_them_and_not_executed(tmp_path):
    """Weights only is not safe for them in every version of PyTorch."""
    target, path = tmp_path / "executed", tmp_path / "old.pt"
    match = r"old\.pt is not a .*it is a pickle.*torch\.load\(path, weights_only=False\)"
    for content in ({"model": Malicious(target)}, {"model": Net().state_dict(), "epoch": 1}):
        path.write_bytes(pickle.dumps(content, 2))
        for load in LOADERS:
            with pytest.raises(CheckpointError, match=match):
                load(path)
        torch.save(content, path, _use_new_zipfile_serialization=False)
        for load in LOADERS:
            with pytest.raises(CheckpointError, match=match):
                load(path)
    assert not target.exists()


# ---- files put together by hand


def pickled(code):
    """A ``.pt`` file whose pickle is ``code``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in {"data.pkl": code, "byteorder": b"little", "version": b"3\n"}.items():
            archive.writestr(f"archive/{name}", content)
    return buffer.getvalue()


def call(module, name, *arguments):
    """Pickle of ``module.name(*arguments)``."""

    class Call:
        def __reduce__(self):
            return functools.reduce(getattr, name.split("."), importlib.import_module(module)), arguments

    return pickle.dumps(Call(), 4)[2:-1]  # without the version and the end


CALLS = {
    "os.system": lambda target: call("os", "system", f"touch {target}"),
    "eval": lambda target: call("builtins", "eval", f"open({str(target)!r}, 'w').close()"),
    "exec": lambda target: call("builtins", "exec", f"open({str(target)!r}, 'w').close()"),
    "open": lambda target: call("builtins", "open", str(target), "w"),
    "getattr": lambda target: call("builtins", "getattr", "text", "format_map"),
    "subprocess": lambda target: call("subprocess", "check_call", ["touch", str(target)]),
    "pathlib": lambda target: call("pathlib", "Path.touch", target),
    "pickle": lambda target: call("pickle", "loads", pickle.dumps(Malicious(target))),
    "numpy": lambda target: call("numpy", "save", str(target), 1),
    "torch.save": lambda target: call("torch", "save", 1, str(target)),
    "torch.hub": lambda target: call("torch.hub", "load", str(target.parent), "anything", None),
    "torch.load": lambda target: call("torch", "load", str(target)),
    "torch.jit": lambda target: call("torch.jit", "load", str(target)),
    "torch.library": lambda target: b"ctorch.ops\nload_library\nV%b\n\x85R" % str(target).encode(),
    "an object": lambda target: pickle.dumps(Malicious, 4)[2:-1] + b")\x81",
    "a function": lambda target: pickle.dumps(Malicious, 4)[2:-1],
    "an instance of old": lambda target: b"(ios\nsystem\n" + f"Vtouch {target}\n".encode(),
    "an extension": lambda target: b"\x82\x01",
    "a network": lambda target: pickle.dumps(Net(), 4)[2:-1],
}


@pytest.mark.parametrize("what", ["os.system", "eval", "exec", "open", "subprocess", "pathlib", "pickle"])
def test_the_calls_below_do_what_they_say(what, tmp_path):
    result = pickle.loads(b"\x80\4" + CALLS[what](tmp_path / "executed") + b".")
    if isinstance(result, io.IOBase):
        result.close()
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("place", ["model", "optimizer", "callbacks", "state", "key", "root"])
@pytest.mark.parametrize("what", CALLS)
def test_no_call_of_a_pickle_is_executed_wherever_it_is(what, place, tmp_path):
    target, path = tmp_path / "executed", tmp_path / "trap.pt"
    made = CALLS[what](target)
    nested = {"root": b"", "key": b"}", "callbacks": b"}(X\5\0\0\0stateX\x09\0\0\0callbacks]"}
    before = nested.get(place, b"}X%c\0\0\0%b" % (len(place), place.encode()))
    after = {"root": b".", "key": b"K\1s.", "callbacks": b"au."}.get(place, b"s.")
    path.write_bytes(pickled(b"\x80\x02" + before + made + after))
    for load in LOADERS:
        with pytest.raises(CheckpointError, match=r"trap\.pt holds pickled objects.*torch\.load\(path, weights_"):
            load(path)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "code",
    [
        b"",
        b".",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x02}",
        b"\x80\x02}K\1.",
        b"\x80\x02}s.",
        b"\x80\x02h\0.",
        b"\x80\x02X\xff\xff\xff\x7f.",
        b"\x80\x02K\1Q.",
        b"\x80\x02(X\7\0\0\0storageK\1tQ.",
        b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\0\0\0\0\0\1\x85R.",
        b"\x80\x02}X\1\0\0\0ah\0ss.",
        b"\x80\x63}.",
        b"\x80\x02}X\1\0\0\0a}X\x08\0\0\0$ndarrayK\1ss.",
        b"\x80\x02}X\1\0\0\0a" + b"]" * 20_000 + b"a" * 19_999 + b"s.",
        b"\xff" * 100,
        bytes(100),
    ],
)
def test_a_pickle_that_is_none_is_refused(code, tmp_path):
    (tmp_path / "state.pt").write_bytes(pickled(code))
    for load in LOADERS:
        with pytest.raises(CheckpointError, match=r"state\.pt (is not a readable checkpoint|holds pickled|is no )"):
            load(tmp_path / "state.pt")


def test_a_tree_that_unfolds_into_a_huge_one_is_refused(tmp_path):
    """A hundred lists of a few hundred bytes, each ten times in the next; and a list that holds itself."""
    path, tree = tmp_path / "state.pt", ["x"]
    for _ in range(100):
        tree = [tree] * 10
    circle = []
    circle.append(circle)
    for bad in (tree, circle):
        torch.save({"model": {}, "epoch": 1, "callbacks": bad}, path)
        assert path.stat().st_size < 10_000
        for load in LOADERS:
            with pytest.raises(CheckpointError, match="unfolds into more entries than it has bytes"):
                load(path)


@pytest.fixture
def rebuilt(tmp_path):
    """A good checkpoint whose records are replaced, with checksums that are right."""
    path = save_checkpoint_torch(tmp_path / "state.pt", extra={"a": torch.arange(6.0), "b": torch.ones(3), "c": 4})
    with zipfile.ZipFile(path) as archive:
        records = {entry.filename.split("/", 1)[1]: archive.read(entry) for entry in archive.infolist()}

    def rebuild(changes):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in (records | changes(records)).items():
                if content is not None:
                    archive.writestr(f"archive/{name}", content)
        return path

    return rebuild


def test_a_rebuilt_checkpoint_is_read_if_nothing_is_changed(rebuilt):
    extra = load_checkpoint_torch(rebuilt(lambda records: {}))["extra"]
    assert torch.equal(extra["a"], torch.arange(6.0))
    assert extra["c"] == 4


@pytest.mark.parametrize(
    "changes",
    [
        lambda records: {"data/0": b""},
        lambda records: {"data/0": records["data/0"][:-4]},
        lambda records: {"data/0": records["data/0"] + bytes(4)},
        lambda records: {"data/0": None},
        lambda records: {"data/0": records["data/1"], "data/1": records["data/0"]},
        lambda records: {"data.pkl": None},
        lambda records: {"data.pkl": records["data.pkl"][:-20]},
        # the number of a storage's elements, then the shape of its tensor
        lambda records: {"data.pkl": _replaced(records, b"K\x06tq", b"J\xff\xff\xff\x7ftq")},
        lambda records: {"data.pkl": _replaced(records, b"K\x06tq", b"J\xff\xff\xff\xfftq")},
        lambda records: {"data.pkl": _replaced(records, b"K\x06tq", b"\x8a\x08\1\0\0\0\0\0\0\x40tq")},
        lambda records: {"data.pkl": _replaced(records, b"K\x06\x85", b"J\xff\xff\xff\x7f\x85")},
        lambda records: {"data.pkl": _replaced(records, b"QK\0K\x06\x85", b"QJ\xff\xff\xff\x7fK\x06\x85")},
        lambda records: {"byteorder": b"middle"},
        lambda records: {"version": b"999"},
        lambda records: {"version": b"text"},
        lambda records: {".storage_alignment": b"text"},
        lambda records: {"constants.pkl": b"\x80\x02)."},
    ],
    ids=[
        "empty storage",
        "short storage",
        "long storage",
        "no storage",
        "storages exchanged",
        "no tree",
        "cut tree",
        "too many elements",
        "negative elements",
        "elements that overflow",
        "shape larger than the storage",
        "begin behind the storage",
        "unknown order of bytes",
        "later version",
        "version is text",
        "alignment is text",
        "a TorchScript archive",
    ],
)
@pytest.mark.filterwarnings("ignore:'torch.load' received a zip file")
def test_records_that_are_not_what_the_tree_claims_are_refused(changes, rebuilt):
    path = rebuilt(changes)
    for load in LOADERS:
        with pytest.raises(CheckpointError, match=r"state\.pt (is not a readable checkpoint|holds pickled objects)"):
            load(path)


def _replaced(records, old, new):
    assert records["data.pkl"].count(old) == 1, records["data.pkl"]
    return records["data.pkl"].replace(old, new)


def test_a_torchscript_archive_is_refused(tmp_path):
    torch.jit.script(torch.nn.Linear(2, 1)).save(tmp_path / "script.pt")
    for load in LOADERS:
        with pytest.raises(CheckpointError, match=r"script\.pt is not a .*is compressed; delira never does that"):
            load(tmp_path / "script.pt")


# ---- what is written can be read


class Colour(enum.IntEnum):
    RED = 1


class Shade(str):
    def __str__(self):
        return "another"


class Pair(NamedTuple):
    left: int
    right: np.ndarray


def test_values_with_a_class_of_their_own_come_back_as_plain_ones(tmp_path):
    """A class is code, which is not read back: not to write it is better than to lose the checkpoint."""
    tree = {"int": Colour.RED, "str": Shade("black"), "pair": Pair(1, np.ones(2)), "set": {1, Colour.RED}, "on": True}
    keys = {Colour.RED: 1, Shade("black"): 2, (Colour.RED, None): 3, np.int64(5): 4, np.float64(0.5): 5}
    extra = load_checkpoint_torch(save_checkpoint_torch(tmp_path / "state.pt", extra={**tree, "keys": keys}))["extra"]
    assert (extra["int"], type(extra["int"])) == (1, int)
    assert (extra["str"], type(extra["str"])) == ("black", str)
    assert extra["set"] == {1}
    assert extra["on"] is True
    assert type(extra["pair"]) is tuple
    assert isinstance(extra["pair"][1], np.ndarray)
    assert extra["keys"] == {1: 1, "black": 2, (1, None): 3, 5: 4, 0.5: 5}
    assert {type(key) for key in extra["keys"]} == {int, str, tuple, float}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"a": [{1, frozenset()}]}, r"extra/a/0/\d is a frozenset"),
        ({"a": [0, object()]}, "extra/a/1 is a object, which cannot be stored safely"),
        ({"a": {object(): 1}}, "extra/a has a object as key; use plain strings"),
        ({"a": {("b", object()): 1}}, "extra/a has a object as key; use plain strings"),
        ({"a": np.array(["text"])}, "extra/a cannot be stored: .*"),
        ({"a": np.array([None])}, "extra/a cannot be stored: .*"),
        ({"a": np.zeros(2, [("x", "f4")])}, "extra/a cannot be stored: .*"),
        ({"a": np.array(["2020"], "M8[Y]")}, "extra/a cannot be stored: .*"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(value, match, tmp_path):
    with pytest.raises(CheckpointError, match=f"checkpoint entry {match}"):
        save_checkpoint_torch(tmp_path / "state.pt", extra=value)
    assert not list(tmp_path.iterdir())


def test_a_flipped_byte_is_found_wherever_it_is(tmp_path):
    path = save_checkpoint_torch(tmp_path / "state.pt", Net(), epoch=1)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        records = {entry.filename: entry for entry in archive.infolist() if entry.file_size}
    assert len(records) >= 5
    for entry in records.values():
        start = entry.header_offset + 30  # the local header, then name and padding, then the record
        name, extra = (int.from_bytes(content[start - 4 + i : start - 2 + i], "little") for i in (0, 2))
        position = start + name + extra + entry.file_size // 2
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(CheckpointError, match=r"state\.pt is damaged: the checksum of its record .* is wrong"):
            load_checkpoint_torch(path)
    path.write_bytes(content)
    assert load_checkpoint_torch(path)["epoch"] == 1


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_file_that_was_cut_short_is_refused(kept, tmp_path):
    path = save_checkpoint_torch(tmp_path / "state.pt", Net())
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(CheckpointError, match=r"state\.pt is not a complete checkpoint file"):
        load_checkpoint_torch(path)


def test_a_missing_file_is_refused(tmp_path):
    for load in (load_checkpoint_torch, PyTorchNetworkTrainer.load_state):
        with pytest.raises(CheckpointError, match=r"nowhere\S* is not a complete checkpoint file: .*No such file"):
            load(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [torch.ones(3), [1, 2], "text"])
def test_a_file_that_holds_no_dictionary_is_refused(content, tmp_path):
    torch.save(content, tmp_path / "state.pt")
    with pytest.raises(CheckpointError, match=r"is no checkpoint: it holds a (Tensor|list|str), not a dictionary"):
        load_checkpoint_torch(tmp_path / "state.pt")


def test_a_zip_file_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "state.pt", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(CheckpointError, match=r"state\.pt is not a readable checkpoint"):
        load_checkpoint_torch(tmp_path / "state.pt")
