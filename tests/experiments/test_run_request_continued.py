"""A run or a cross-validation is continued only as what it is, and with what it began with."""

import copy

import pytest
from broken_off import Interrupted, InterruptOnce
from problems import mae

from delira.errors import ConfigError

pytestmark = pytest.mark.turns


def test_a_cross_validation_cannot_be_continued_by_a_run(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    folder = experiment.kfold(manager(), {"mae": mae}, num_splits=2).path
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in (folder, folder / "fold_00"):
        with pytest.raises(ConfigError, match="holds a kfold and cannot be continued by a run"):
            experiment.run(manager(), resume=path)
        with pytest.raises(ConfigError, match="holds a kfold and cannot be continued by a run"):
            experiment.resume(path, manager())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_run_cannot_be_continued_by_a_cross_validation(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    experiment.run(manager())
    with pytest.raises(ConfigError, match="holds a run and cannot be continued by a kfold"):
        experiment.kfold(manager(), {"mae": mae}, num_splits=2, resume=experiment.last_trainer.save_path.parent)


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("what", "data", "settings"),
    [
        ("data", {"seed": 8}, {}),
        ("data", {"n": 11}, {}),
        ("batches", {"batch_size": 3}, {}),
        ("batches", {"transforms": copy.copy}, {}),
        ("parameters", {}, {"optimizer_params": {"lr": 0.2}}),
        ("parameters", {}, {"seed": 1}),
        ("fold", {}, {"fold": 1}),
        ("parameters and data", {"seed": 8}, {"val_freq": 2}),
    ],
)
def test_a_run_is_continued_only_with_what_it_began_with(kit, tmp_path, manager, what, data, settings):
    experiment = kit.experiment(tmp_path)
    experiment.run(manager())
    folder = experiment.last_trainer.save_path.parent
    before = (folder / "ledger.jsonl").read_bytes()
    with pytest.raises(ConfigError, match=f"the run in .* cannot be continued: its {what} differ from"):
        experiment.run(manager(**data), resume=folder, **settings)
    with pytest.raises(ConfigError, match=f"the run in .* cannot be continued: its {what} differ from"):
        experiment.resume(folder, manager(**data), **settings)
    assert (folder / "ledger.jsonl").read_bytes() == before
    experiment.resume(folder, manager(), num_epochs=3, verbose=False, save_freq=2)  # these change no number
    assert len(experiment.last_trainer.state.history) == 3


def shifted(batch):
    return {**batch, "data": batch["data"] + 1}


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("data", "settings", "match"),
    [
        ({"batch_size": 3}, {}, "its batches differ"),
        ({"transforms": shifted}, {}, "its batches differ"),
        ({}, {"train_kwargs": {"transforms": shifted}}, "its batches differ"),
        ({}, {"test_kwargs": {"batch_size": 3}}, "its batches differ"),
        ({}, {"random_seed": 3, "shuffle": True}, "its parameters and splits differ"),
        ({}, {"num_epochs": 1}, "fold 0 was trained for 2 epochs already, more than num_epochs=1"),
    ],
)
def test_a_cross_validation_is_continued_only_with_what_it_began_with(kit, tmp_path, manager, data, settings, match):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1})
    with pytest.raises(Interrupted, match="in epoch 1, step 0"):
        experiment.kfold(manager(), {"mae": mae}, num_splits=2, callbacks=[InterruptOnce(1, 0, fold=1)])
    (folder,) = experiment.save_path.iterdir()
    weights = [path.read_bytes() for path in sorted(folder.glob("fold_*/checkpoints/*"))]
    with pytest.raises(ConfigError, match=match):
        experiment.kfold(manager(**data), {"mae": mae}, num_splits=2, resume=folder, **settings)
    assert [path.read_bytes() for path in sorted(folder.glob("fold_*/checkpoints/*"))] == weights
    assert experiment.kfold(manager(), {"mae": mae}, num_splits=2, resume=folder).path == folder
