"""Processes that make their shares of batches alone, and normalise by whole ones."""

import sys
import types

import numpy as np
import pytest
from problems import linear_problem, mae

from delira.data_loading import AbstractDataset, BaseDataManager
from delira.errors import ConfigError, DataError
from delira.runs.stored_run import read_run
from delira.training.ranks import Ranks
from delira.training.share import begin_share

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")
from trained_in_processes import kfold, rmse_of_step, train, values_of, weights_of  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]


class Told(AbstractDataset):
    """Each process writes down which samples it loads."""

    def __init__(self, folder, n):
        super().__init__(None, None)
        self.folder, self.arrays = folder, {key: one.astype(np.float32) for key, one in linear_problem(n).items()}

    def __len__(self):
        return len(self.arrays["data"])

    def __getitem__(self, index):
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else "none"
        with open(self.folder / f"{rank}.txt", "a") as file:
            file.write(f"{index}\n")
        return {key: one[index] for key, one in self.arrays.items()}


def noise(batch, rng):
    return {**batch, "data": batch["data"] + rng.normal(size=batch["data"].shape).astype(np.float32)}


def doubled(batch):
    return {key: np.concatenate([one, one]) for key, one in batch.items()}


def plain(n=43, **how):
    return BaseDataManager({key: one.astype(np.float32) for key, one in linear_problem(n).items()}, 8, **how)


SHARED = {"devices": 2, "device": "cpu", "shard_transforms": True}


@pytest.mark.slow
@pytest.mark.parametrize("n", [43, 41, 40], ids=["ragged", "an empty share", "whole"])
@pytest.mark.parametrize("workers", [0, 2])
def test_without_random_transforms_shares_are_those_of_one_batch(tmp_path, n, workers):
    how = {"metrics": {"mae": mae}, "train_metrics": {"rmse": rmse_of_step}, "epochs": 3}
    one = train(tmp_path / "one", plain(n), **how)
    several = train(tmp_path / "several", plain(n, n_process_augmentation=workers), **how, **SHARED)
    for alone, shared in zip(values_of(one), values_of(several), strict=True):
        np.testing.assert_allclose([*shared.values()], [*alone.values()], rtol=1e-5)
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(several)[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_each_process_loads_its_share_alone(tmp_path):
    train(tmp_path / "run", BaseDataManager(Told(tmp_path, 41), 8), epochs=1, val_freq=2, **SHARED)
    loaded = [set(map(int, (tmp_path / f"{rank}.txt").read_text().split())) for rank in (0, 1)]
    # the first batches are looked at before as a whole, and of the last one there is one sample for both
    assert loaded[0] | loaded[1] == {*range(41)}
    assert len(loaded[1]) <= 21 + 16
    counted = (tmp_path / "1.txt").read_text().split()
    assert len(counted) <= 21 + 16


@pytest.mark.slow
def test_they_draw_apart_and_go_on_with_the_same_bits(tmp_path):
    quiet = train(tmp_path / "quiet", plain(transforms=noise), epochs=4, **SHARED)
    again = train(tmp_path / "again", plain(transforms=noise), epochs=2, **SHARED)
    again = train(tmp_path / "again", plain(transforms=noise, n_process_augmentation=1), epochs=4, **SHARED)
    whole = train(tmp_path / "whole", plain(transforms=noise), epochs=4, devices=2, device="cpu")
    for name, weight in weights_of(quiet).items():
        np.testing.assert_array_equal(weights_of(again)[name], weight)
        assert not np.allclose(weights_of(whole)[name], weight, rtol=1e-4)


def test_a_share_is_a_function_of_the_counters_and_the_rank():
    manager = plain(41, transforms=noise)
    shares = [[*manager.epoch(1, 0, 1, shuffle=True, ranks=Ranks(rank, 2))] for rank in (0, 1)]
    again = manager.epoch(1, 0, 1, 3, shuffle=True, ranks=Ranks(1, 2))
    np.testing.assert_array_equal(next(again)["data"], shares[1][3]["data"])
    assert [len(batch["data"]) for batch in shares[0]] == [4, 4, 4, 4, 4, 1]
    assert [len(batch["data"]) for batch in shares[1]] == [4, 4, 4, 4, 4, 1]
    whole = [*manager.epoch(1, 0, 1, shuffle=True)]
    for number, batch in enumerate(whole[:-1]):
        labels = np.concatenate([shares[0][number]["label"], shares[1][number]["label"]])
        np.testing.assert_array_equal(labels, batch["label"])
        assert not np.array_equal(shares[0][number]["data"], batch["data"][:4])


@pytest.mark.slow
def test_the_manifest_says_so(tmp_path):
    found = kfold(tmp_path, plain(), **SHARED)
    assert read_run(found.path).manifest["settings"]["shard_transforms"] is True


REFUSED = [
    ({"n_data": "a list", **SHARED}, ConfigError, "BaseDataManager, got list"),
    ({"bad_samples": "skip", **SHARED}, ConfigError, "must not leave samples out by itself"),
    ({"transforms": doubled, **SHARED}, DataError, "keep the number of samples"),
    ({"devices": 2, "device": "cpu", "sync_batchnorm": True}, ConfigError, "sync_batchnorm=True needs GPUs"),
    ({"shard_transforms": 1}, ConfigError, "shard_transforms"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "error", "text"), REFUSED)
def test_what_cannot_be_shared_out_is_refused(tmp_path, how, error, text):
    how = dict(how)
    of_data = {name: how.pop(name) for name in ("transforms", "bad_samples") if name in how}
    data = [*plain()] if how.pop("n_data", None) else plain(**of_data)
    with pytest.raises(error, match=text):
        train(tmp_path, data, **how)


def test_what_does_nothing_in_one_process_says_so(tmp_path, caplog):
    train(tmp_path, plain(), epochs=1, shard_transforms=True, shard=True)
    assert "shard, shard_transforms: nothing changes, as one process trains the network" in caplog.text


# ---- normalisation by whole batches


def test_layers_normalise_together_in_a_scope_and_are_themselves_again():
    from delira.backends.torch.group import TorchGroup

    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Sequential())
    network[2].append(torch.nn.BatchNorm1d(3).eval())
    own = network[1], network[2][0]
    with TorchGroup(0, 2, torch.device("cpu"), 1.0).normalising(network):
        assert [type(layer) for layer in (network[1], network[2][0])] == [torch.nn.SyncBatchNorm] * 2
        assert network[1].weight is own[0].weight
        assert [layer.training for layer in (network[1], network[2][0])] == [True, False]
        network[1].running_mean += 1
        network.eval()(torch.zeros(2, 3))  # predicts anywhere
    assert (network[1], network[2][0]) == own
    assert own[0].running_mean.tolist() == [1, 1, 1]
    assert not own[0].training


@pytest.mark.parametrize(("n_samples", "n_told"), [(1, 1), (2, 0)])
def test_statistics_in_which_a_sample_counts_twice_are_told(n_samples, n_told):
    """Who has no share of a batch computes with its first sample."""
    told = []
    run = types.SimpleNamespace(
        ranks=Ranks(0, 2, group=types.SimpleNamespace()), state=types.SimpleNamespace(step_in_epoch=0), epoch_data=None,
        config=types.SimpleNamespace(sync_batchnorm=True, losses={}), warn_once=told.append, makes_shares=True,
    )  # fmt: skip
    begin_share(run, {"x": np.zeros((n_samples, 3))}, n_samples)
    assert len(told) == n_told
    assert all("a batch of 1 samples has none for some of the 2 processes" in text for text in told)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_normalise_by_the_whole_batch(tmp_path):
    one = train(tmp_path / "one", plain(44), gpu_ids=[0], batchnorm=True, epochs=3)
    two = train(tmp_path / "two", plain(44), gpu_ids=[0, 1], sync_batchnorm=True, batchnorm=True, epochs=3)
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(two)[name], weight, rtol=1e-4, atol=1e-5)
