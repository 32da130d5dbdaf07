"""Checkpoints of PyTorch: plain files, whole or not there, never executed."""

import os
import pickle
import zipfile

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
    assert sorted(os.listdir(folder)) == ["checkpoint_best.pt", "checkpoint_epoch_2.pt", "checkpoint_last.pt"]
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
    assert tree["network"] == {"class": f"{__name__}:Net", "init_kwargs": {"n_hidden": 5}}


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


def test_a_pickle_that_is_no_zip_file_is_refused_and_not_executed(tmp_path):
    target, path = tmp_path / "executed", tmp_path / "old.pt"
    path.write_bytes(pickle.dumps({"model": Malicious(target)}))
    with pytest.raises(CheckpointError, match=r"old\.pt is not a complete checkpoint file"):
        load_checkpoint_torch(path)
    torch.save({"model": Malicious(target)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"old\.pt is not a complete checkpoint file"):
        load_checkpoint_torch(path)
    assert not target.exists()


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
