"""Hashes of the weights: one for each checkpoint that ends an epoch, in step with the history."""

import json
import os
import threading

import numpy as np
import pytest
from small_backends import build_kit

from delira.callbacks import AbstractCallback
from delira.data_loading import BaseDataManager
from delira.experiments.parameters import Parameters
from delira.io import shards
from delira.runs.weight_hashes import FILE, WeightHashes, read_hashes
from delira.search import Float
from delira.training.saving import hash_of_weights


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(10, 3)).astype(np.float32)
    return BaseDataManager({"data": data, "label": data.sum(1, keepdims=True)}, 4)


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def tree(epoch, weights=(1.0,), step=0):
    return {"epoch": epoch, "step": step, "model": {"weight": [*weights]}}


def digest_of(tree):
    """What is hashed, instead of its hash."""
    return json.dumps(tree["model"])


def trained(kit, path, data, num_epochs=3, **settings):
    trainer = kit.trainer(path, **{"seed": 4, "save_freq": 1, **settings})
    trainer.train(num_epochs, data)
    return trainer


def test_equal_trainings_have_equal_hashes_and_others_do_not(kit, tmp_path, data):
    settings = {"a": {}, "b": {}, "c": {"seed": 5}, "d": {"save_in_background": True}}
    for name, given in settings.items():
        trained(kit, tmp_path / name, data, **given)
    found = {name: read_hashes(tmp_path / name)[0] for name in settings}
    assert [*found["a"]] == [1, 2, 3]
    assert len({*found["a"].values()}) == 3
    assert found["a"] == found["b"] == found["d"]
    assert not {*found["a"].values()} & {*found["c"].values()}


def test_the_hash_is_that_of_the_checkpoint(kit, tmp_path, data):
    trainer = trained(kit, tmp_path, data)
    for epoch, digest in read_hashes(tmp_path)[0].items():
        stored = trainer.load_state(tmp_path / "checkpoints" / f"checkpoint_epoch_{epoch}")
        assert digest == hash_of_weights(kit.backend, stored)


class Stop(AbstractCallback):
    """Ends the training in the midst of an epoch, or before its checkpoint."""

    def __init__(self, epoch, moment):
        self.epoch, self.moment = epoch, moment

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        if (curr_epoch, self.moment) == (self.epoch, "end"):
            raise InterruptedError

    def at_iter_end(self, trainer, **facts):
        if (trainer.state.epoch + 1, self.moment) == (self.epoch, "step"):
            raise InterruptedError


@pytest.mark.parametrize("moment", ["end", "step"])
def test_a_training_that_goes_on_has_the_hashes_of_one_that_was_never_broken_off(kit, tmp_path, data, moment):
    trained(kit, tmp_path / "whole", data)
    with pytest.raises(InterruptedError):
        trained(kit, tmp_path / "broken", data, callbacks=[Stop(3, moment)])
    assert [*read_hashes(tmp_path / "broken")[0]] == [1, 2]
    trained(kit, tmp_path / "broken", data)
    whole, broken = ((tmp_path / name / FILE).read_text() for name in ("whole", "broken"))
    assert whole == broken


def test_a_training_that_goes_back_loses_the_later_ones(kit, tmp_path, data):
    trained(kit, tmp_path, data)
    whole = (tmp_path / FILE).read_text().splitlines()
    path = next(path for path in (tmp_path / "checkpoints").glob("checkpoint_epoch_1*") if path.suffix != ".ptj")
    again = kit.trainer(tmp_path, seed=4, save_freq=1, resume_from=path, callbacks=[Stop(2, "step")])
    with pytest.raises(InterruptedError):
        again.train(3, data)
    assert (tmp_path / FILE).read_text().splitlines() == whole[:1]
    again = kit.trainer(tmp_path, seed=4, save_freq=1)
    again.train(3, data)
    assert (tmp_path / FILE).read_text().splitlines() == whole


def test_half_a_line_that_a_kill_left_goes_before_the_next_is_written(kit, tmp_path, data):
    trained(kit, tmp_path / "whole", data)
    whole = (tmp_path / "whole" / FILE).read_text()
    trained(kit, tmp_path / "broken", data, num_epochs=2)
    with open(tmp_path / "broken" / FILE, "a") as file:
        file.write(whole.splitlines()[2][:30])
    trained(kit, tmp_path / "broken", data)
    assert (tmp_path / "broken" / FILE).read_text() == whole


def test_an_epoch_waits_for_the_disk_three_times(kit, tmp_path, data, monkeypatch):
    synced, fsync = [], os.fsync

    def counted(file):
        if threading.current_thread() is threading.main_thread():
            synced.append(file)
        fsync(file)

    counts = []
    notes = AbstractCallback()
    notes.at_epoch_begin = lambda trainer, **facts: counts.append(len(synced))
    monkeypatch.setattr(os, "fsync", counted)
    trained(kit, tmp_path, data, num_epochs=5, callbacks=[notes])
    n_files = 1 + len(kit.backend.checkpoints.further_files(kit.build()))
    assert [*np.diff(counts)[1:]] == [2 * n_files + 1] * 3


def test_epochs_without_a_checkpoint_have_none(kit, tmp_path, data):
    trained(kit, tmp_path, data, num_epochs=5, save_freq=2)
    assert [*read_hashes(tmp_path)[0]] == [2, 4, 5]


def test_a_trial_of_a_search_does_not_pay_for_them(kit, tmp_path, data):
    pytest.importorskip("optuna", reason="a search needs the package 'optuna', which is not installed")
    variable = {"training": {"optimizer_params": {"lr": Float(1e-3, 0.3, log=True), "momentum": 0.5}}}
    params = Parameters({"model": {"n_features": 3}, "training": {**kit.settings, "num_epochs": 2}}, variable)
    experiment = kit.experiment_cls(params, kit.network, save_path=tmp_path)
    experiment.tune(data, n_trials=1, num_splits=2, metric="rmse", direction="min", metrics={"rmse": rmse})
    assert [*tmp_path.rglob("history.jsonl")]
    assert not [*tmp_path.rglob(FILE)]


# ---- of the file alone


def test_only_the_end_of_an_epoch_is_noted(tmp_path):
    hashes = WeightHashes(tmp_path, digest_of)
    for each in (tree(0), tree(1, step=2)):
        hashes.note(each)
    assert not (tmp_path / FILE).exists()
    hashes.note(tree(1))
    assert read_hashes(tmp_path) == ({1: '{"weight": [1.0]}'}, "")


def test_what_was_noted_of_an_epoch_before_is_replaced_and_later_ones_go(tmp_path):
    hashes = WeightHashes(tmp_path, digest_of)
    for each in (tree(1), tree(2), tree(3), tree(2, [5.0])):
        hashes.note(each)
    assert read_hashes(tmp_path)[0] == {1: '{"weight": [1.0]}', 2: '{"weight": [5.0]}'}


def test_a_line_that_was_changed_or_torn_is_told(tmp_path):
    hashes = WeightHashes(tmp_path, digest_of)
    for epoch in (1, 2, 3):
        hashes.note(tree(epoch))
    first, second, third = (tmp_path / FILE).read_text().splitlines()
    (tmp_path / FILE).write_text("\n".join([first, second.replace("1.0", "1.5"), third[:20]]))
    found, told = read_hashes(tmp_path)
    assert [*found] == [1]
    assert "2 of 3 hashes" in told
    assert str(tmp_path / FILE) in told


def test_a_disk_that_refuses_is_told_and_the_next_epoch_tries_again(tmp_path, caplog):
    hashes = WeightHashes(tmp_path / "gone" / "away", digest_of)
    (tmp_path / "gone").write_text("a file")
    hashes.note(tree(1))
    assert "could not be written" in caplog.text
    (tmp_path / "gone").unlink()
    (tmp_path / "gone" / "away").mkdir(parents=True)
    hashes.note(tree(2))
    assert [*read_hashes(tmp_path / "gone" / "away")[0]] == [2]


def test_weights_that_processes_share_have_the_hash_of_their_parts(kit):
    weights = np.arange(6.0).reshape(3, 2)

    def digest(cut):
        parts = shards.Shards([weights[:cut], weights[cut:]])
        return hash_of_weights(kit.backend, {"model": {"w": parts}})

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_types_that_numpy_does_not_have_have_no_hash():
    torch = pytest.importorskip("torch", reason="of numpy itself every type has a hash")
    backend = build_kit("torch").backend
    assert hash_of_weights(backend, {"model": {"w": torch.zeros(2).to(torch.float8_e4m3fn)}}) is None
    assert hash_of_weights(backend, {"model": {"w": torch.zeros(2, dtype=torch.bfloat16)}}) is not None
