"""Weights that are spread over processes: the numbers of one, and checkpoints that any number of them reads."""

import shutil
import sys

import numpy as np
import psutil
import pytest
from problems import linear_problem

import delira
from delira.data_loading import BaseDataManager, SequentialSampler
from delira.errors import ConfigError, WorkerLostError
from delira.io.shards import wrong_parts

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")
from trained_in_processes import (  # noqa: E402
    Clip,
    Deep,
    Net,
    Raises,
    kfold,
    plain_closure,
    train,
    values_of,
    weights_of,
)

from delira.backends.torch.checkpoints import load_checkpoint_torch  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]
SPREAD = {"devices": 2, "device": "cpu", "shard": True, "network": Deep}


def data(n=43):
    return BaseDataManager({key: one.astype(np.float32) for key, one in linear_problem(n).items()}, 8)


def check_same(one, several):
    for alone, spread in zip(values_of(one), values_of(several), strict=True):
        np.testing.assert_allclose([*spread.values()], [*alone.values()], rtol=1e-5)
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(several)[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)


HOW = {
    "adam": {"optimizer_cls": "Adam"},
    "accumulation": {"gradient_accumulation_steps": 3},
    "clipping": {"gradient_clip_norm": 0.2},
    "clipping values": {"gradient_clip_value": 0.05},
    "hooks on gradients": {"callbacks": [Clip(0.1)]},
    "left out": {"nonfinite": "skip"},
    "four": {"devices": 4, "optimizer_cls": "Adam"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOW)
def test_spread_weights_learn_what_one_process_does(tmp_path, name):
    how = dict(HOW[name])
    devices = how.pop("devices", 2)
    one = train(tmp_path / "one", data(), epochs=3, network=Deep, **how)
    several = train(tmp_path / "several", data(), epochs=3, **how, **{**SPREAD, "devices": devices})
    check_same(one, several)
    assert all(type(weight) is torch.nn.Parameter for weight in several.network.parameters())
    assert type(several.network) is Deep
    groups = [group["params"] for group in several.optimizers["default"].optimizer.param_groups]
    assert all(any(one is weight for weight in several.network.parameters()) for group in groups for one in group)


def test_the_weights_after_a_batch_that_is_left_out_are_those_of_the_update(tmp_path):
    """It ends a group, and has no backward pass after which weights that are put together would be let go."""
    arrays = {key: one.astype(np.float32) for key, one in linear_problem(32).items()}
    arrays["label"][8:16] = np.inf
    how = {"gradient_accumulation_steps": 2, "nonfinite": "skip", "val": data(), "epochs": 3}
    manager = BaseDataManager(arrays, 8, sampler_cls=SequentialSampler)
    check_same(train(tmp_path / "one", manager, network=Deep, **how), train(tmp_path / "two", manager, **how, **SPREAD))


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_a_run_goes_on_with_the_same_bits(tmp_path, devices):
    how = {**SPREAD, "devices": devices, "optimizer_cls": "Adam"}
    quiet = train(tmp_path / "quiet", data(), epochs=4, **how)
    train(tmp_path / "broken", data(), epochs=2, **how)
    again = train(tmp_path / "broken", data(), epochs=4, **how)
    for name, weight in weights_of(quiet).items():
        np.testing.assert_array_equal(weights_of(again)[name], weight)
    assert values_of(quiet) == values_of(again)


@pytest.mark.slow
def test_any_number_of_processes_reads_the_parts(tmp_path):
    one = train(tmp_path / "one", data(), epochs=4, network=Deep, optimizer_cls="Adam")
    train(tmp_path / "other", data(), epochs=2, optimizer_cls="Adam", **SPREAD)
    checkpoint = tmp_path / "other" / "checkpoints" / "checkpoint_last.pt"
    shards = checkpoint.parent / "shards"
    tree = load_checkpoint_torch(checkpoint)
    assert {name: tuple(weight.shape) for name, weight in tree["model"].items()} == {
        name: tuple(weight.shape) for name, weight in Deep().state_dict().items()
    }
    network = delira.load_network(tmp_path / "other")
    for name, weight in network.state_dict().items():
        np.testing.assert_array_equal(weight, tree["model"][name])
    index = torch.load(checkpoint, weights_only=True)
    assert len(index["shards"]) == 2
    assert all((shards / f"{name}.shard").is_file() for name in index["shards"])
    four = train(tmp_path / "other", data(), epochs=3, optimizer_cls="Adam", **{**SPREAD, "devices": 4})
    assert four.state.epoch == 3
    alone = train(tmp_path / "other", data(), epochs=4, network=Deep, optimizer_cls="Adam")
    check_same(one, alone)
    assert not [*shards.glob("*.partial*")]


@pytest.mark.slow
def test_no_part_is_left_that_no_checkpoint_names(tmp_path):
    train(tmp_path, data(), epochs=5, save_freq=1, keep_last_checkpoints=2, **SPREAD)
    folder = tmp_path / "checkpoints"
    named = {name for file in folder.glob("*.pt") for name in torch.load(file, weights_only=True)["shards"]}
    assert {file.stem for file in (folder / "shards").iterdir()} == named
    assert len(named) == 2 * 2


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_a_damaged_part_is_told_and_the_checkpoint_before_it_is_taken(tmp_path, harm):
    how = {**SPREAD, "optimizer_cls": "Adam"}
    quiet = train(tmp_path / "quiet", data(), epochs=3, save_freq=1, **how)
    train(tmp_path / "run", data(), epochs=2, save_freq=1, **how)
    folder = tmp_path / "run" / "checkpoints"
    last = torch.load(folder / "checkpoint_last.pt", weights_only=True)["shards"][1]
    file = folder / "shards" / f"{last}.shard"
    file.write_bytes(file.read_bytes()[:-9]) if harm == "cut" else file.unlink()
    part = f"shards/{last}.shard is {'damaged' if harm == 'cut' else 'missing'}"
    assert wrong_parts(folder / "checkpoint_last.pt") == f"its part {part}"
    with pytest.warns(RuntimeWarning, match="an earlier checkpoint is looked for"):
        again = train(tmp_path / "run", data(), epochs=3, save_freq=1, **how)
    for name, weight in weights_of(quiet).items():
        np.testing.assert_array_equal(weights_of(again)[name], weight)


@pytest.mark.slow
def test_an_error_leaves_whole_weights_and_says_which(tmp_path, caplog):
    how = {**SPREAD, "callbacks": [Raises(rank=1)]}
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, data(), epochs=2, **how)
    assert "has those from before this training" in caplog.text
    again = train(tmp_path, data(), epochs=2, **SPREAD)
    assert again.state.epoch == 2


@pytest.mark.slow
def test_a_process_that_is_killed_ends_all_and_the_run_goes_on(tmp_path):
    import threading
    import time

    quiet = train(tmp_path / "quiet", data(), epochs=4, save_freq=1, **SPREAD)

    def kill():
        while not (tmp_path / "run" / "checkpoints" / "checkpoint_epoch_2.pt").exists():
            time.sleep(0.01)
        for child in psutil.Process().children():
            child.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(WorkerLostError):
            train(tmp_path / "run", data(), epochs=4000, save_freq=1, **SPREAD)
    finally:
        thread.join()
    reached = int(torch.load(tmp_path / "run" / "checkpoints" / "checkpoint_last.pt", weights_only=True)["epoch"])
    again = train(tmp_path / "run", data(), epochs=max(4, reached), save_freq=1, **SPREAD)
    assert values_of(again)[:4] == values_of(quiet)


@pytest.mark.slow
def test_the_folds_of_a_cross_validation(tmp_path):
    alone = kfold(tmp_path / "alone", data())
    several = kfold(tmp_path / "several", data(), devices=2, device="cpu", shard=True)
    for one, two in zip(alone.folds, several.folds, strict=True):
        np.testing.assert_allclose(two.means()["squares"], one.means()["squares"], rtol=1e-5)
    # an ensemble has the parts of its members
    ensemble = several.ensemble()
    ensemble.save(tmp_path / "ensemble")
    expected = ensemble.predict(data())["pred"]
    shutil.rmtree(several.path)
    found = delira.load_ensemble(tmp_path / "ensemble").predict(data())["pred"]
    np.testing.assert_array_equal(found, expected)


class Tied(Net):
    def __init__(self, **how):
        super().__init__(**how)
        self.other = self.linear


REFUSED = [
    ({"closure": plain_closure}, "a closure of one's own"),
    ({"nonfinite": "rollback"}, "nonfinite='rollback'"),
    ({"compile": True}, "excludes compile"),
    ({"save_in_background": True}, "save_in_background"),
    ({"save_freq_minutes": 1.0}, "save_freq_minutes"),
    ({"mixed_precision": "fp16"}, "fp16"),
    ({"network": Tied}, "weights that have two names: other.bias, other.weight"),
    ({"shard": 2}, "shard"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "text"), REFUSED)
def test_what_does_not_work_with_spread_weights_is_refused(tmp_path, how, text):
    with pytest.raises(ConfigError, match=text):
        train(tmp_path, data(), **{**SPREAD, "network": Net, **how})
