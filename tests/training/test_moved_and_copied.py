"""A run that is moved while it runs, a clock that goes back, files under other names, versions and types."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from problems import linear_problem
from small_backends import build_kit, toy_kit

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError
from delira.runs.folder import RunFolder, order_of
from delira.runs.stored_run import read_run
from delira.training import KFoldResult
from delira.utils import files as files_module
from delira.utils.files import publish_text


def mae(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def data(n=12):
    return BaseDataManager(linear_problem(n, 3, 7), 4)


def experiment_of(kit, path, **training):
    return kit.experiment(path, name="good", training={"num_epochs": 2, "save_freq": 1, **training})


def runs_in(path):
    return sorted((path / "good").iterdir(), key=order_of)


# ---- moved while it runs


class Move:
    """Rename a folder of the run before an epoch."""

    def __init__(self, of, to, again=False):
        self.of, self.to, self.again = of, to, again

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == 2:
            folder = self.of(trainer)
            folder.rename(self.to)
            if self.again:
                (folder / "fold_00" / "checkpoints").mkdir(parents=True)

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("again", [False, True], ids=["nothing in its place", "another folder in its place"])
@pytest.mark.parametrize("level", [0, 1], ids=["the run", "the experiment"])
def test_a_run_that_is_moved_while_it_runs_does_not_fall_into_two_halves(tmp_path, level, again):
    new = tmp_path / "moved"
    again = again and level == 0
    move = Move(lambda trainer: trainer.save_path.parents[level], new, again)
    experiment = experiment_of(toy_kit(), tmp_path, num_epochs=4)
    with pytest.raises(CheckpointError, match=rf"was moved or renamed .*{new}.* resume="):
        experiment.run(data(), callbacks=[move])
    old = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(new)]
    assert old == []
    (run,) = [path.parent for path in new.rglob("ledger.jsonl")]
    experiment.run(data(), resume=run)
    assert [record["epoch"] for record in experiment.last_trainer.state.history] == [1, 2, 3, 4]
    assert read_run(run).state == "finished"


def test_a_folder_of_a_trainer_that_is_moved_is_refused_too(kit, tmp_path, manager):
    class Rename:
        def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
            if curr_epoch == 2:
                (tmp_path / "run").rename(tmp_path / "elsewhere")

    trainer = kit.trainer(tmp_path / "run", kit.build(), callbacks=[Rename()], save_freq=1)
    with pytest.raises(CheckpointError, match="was moved or renamed"):
        trainer.train(3, manager(), manager(seed=8))
    assert not (tmp_path / "run").exists()
    assert kit.trainer(tmp_path / "elsewhere", kit.build(), save_freq=1).state.epoch == 1


# ---- which run is the newest


def test_the_newest_run_is_the_one_that_was_begun_last_whatever_the_clock_says(tmp_path, monkeypatch):
    times = iter(["2026-10-25_02-59-59", "2026-10-25_02-00-00", "2025-01-01_00-00-00"])
    monkeypatch.setattr("delira.runs.folder.now", lambda: next(times))
    experiment = experiment_of(toy_kit(), tmp_path)
    for epochs in (1, 2, 3):
        experiment.run(data(), num_epochs=epochs)
    assert [path.name[:4] for path in runs_in(tmp_path)] == ["2026", "2026", "2025"]
    assert [RunFolder(path).read_manifest()["number"] for path in runs_in(tmp_path)] == [1, 2, 3]
    assert read_run(tmp_path / "good").path.name.startswith("2025")
    experiment.run(data(), num_epochs=4, resume="auto")
    assert experiment.last_trainer.save_path.parent.name.startswith("2025")


def test_runs_of_before_there_were_numbers_are_in_the_order_of_their_times(tmp_path):
    for name, number in (("2026-01-01_00-00-00-10", None), ("2026-01-01_00-00-00-9", None), ("2020-01-01_00-00-00", 1)):
        (tmp_path / name).mkdir()
        text = json.dumps({} if number is None else {"number": number})
        (tmp_path / name / "manifest.json").write_text(text)
    found = [path.name[17:] for path in sorted(tmp_path.iterdir(), key=order_of)]
    assert found == ["00-9", "00-10", "00"]


# ---- a finished run


def test_auto_after_finished_returns_the_stored_result_and_none_begins_anew(tmp_path):
    experiment = experiment_of(toy_kit(), tmp_path)
    options = {"num_splits": 2, "random_seed": 5, "metrics": {}}
    first = experiment.kfold(data(), **options)
    (run,) = runs_in(tmp_path)
    before = (run / "ledger.jsonl").read_bytes()
    again = experiment.kfold(data(), **options, resume="auto")
    assert again.path == first.path
    assert all(np.array_equal(one.predictions["pred"], other.predictions["pred"])
               for one, other in zip(first.folds, again.folds, strict=True))  # fmt: skip
    assert (run / "ledger.jsonl").read_bytes() == before
    assert not [text for text in KFoldResult.load(run).problems if "continued" in text]
    experiment.kfold(data(), **options)
    assert len(runs_in(tmp_path)) == 2


def test_a_finished_training_is_read_and_goes_on_for_more_epochs(tmp_path, monkeypatch):
    kit = toy_kit()
    experiment = experiment_of(kit, tmp_path)
    expected = kit.read(experiment.run(data()))
    steps = []

    class Count:
        def at_iter_end(self, trainer, **facts):
            steps.append(1)

    assert kit.same(kit.read(experiment.run(data(), callbacks=[Count()], resume="auto")), expected)
    assert steps == []
    assert [event["event"] for event in RunFolder(runs_in(tmp_path)[0]).events()] == ["started", "finished"]
    experiment.run(data(), num_epochs=3, resume="auto")
    (run,) = runs_in(tmp_path)
    assert [event["event"] for event in RunFolder(run).events()] == ["started", "finished", "resumed", "finished"]
    experiment.run(data(), num_epochs=3, resume="auto")
    assert len(RunFolder(run).events()) == 4
    experiment.run(data(), num_epochs=1, resume="auto")  # what has three epochs cannot be a run of one
    assert len(runs_in(tmp_path)) == 2


def test_a_finished_run_that_is_asked_for_more_says_so_in_its_ledger(tmp_path):
    experiment = experiment_of(toy_kit(), tmp_path)
    experiment.kfold(data(), num_splits=2, random_seed=5, metrics={})
    (run,) = runs_in(tmp_path)
    shutil.rmtree(run / "fold_01")
    with pytest.warns(UserWarning, match="fold 1 is tested again"):
        result = experiment.kfold(data(), num_splits=2, random_seed=5, metrics={"mae": mae}, resume="auto")
    assert len(result.folds) == 2
    events = [event["event"] for event in RunFolder(run).events()]
    assert events[-1] == "finished"
    assert "resumed" in events


# ---- other names, versions, types


@pytest.fixture(params=["toy", "torch", "jax", "tensorflow"])
def trained(request, tmp_path):
    kit = build_kit(request.param)
    trainer = kit.trainer(tmp_path / "run", kit.build(), save_freq=1)
    trainer.train(2, data_of(kit), data_of(kit))
    return kit, trainer


def data_of(backend):
    return BaseDataManager(linear_problem(8), 4)


def rewrite(trainer, name, change):
    path = trainer.checkpoints.path(name)
    tree = change(trainer.load_state(path))
    path.unlink()
    with open(path, "wb") as file:
        trainer.backend.checkpoints.write(file, tree)
    return path


def test_a_checkpoint_under_a_later_name_is_refused_by_name(trained, tmp_path):
    kit, trainer = trained
    source, target = trainer.checkpoints.path("epoch_1"), trainer.checkpoints.path("epoch_9")
    shutil.copy(source, target)
    match = r"checkpoint_epoch_9\S* is not what its name says: it holds the state of checkpoint_epoch_1"
    with pytest.raises(CheckpointError, match=match):
        kit.trainer(tmp_path / "run", kit.build(), save_freq=1)
    assert target.exists()
    target.unlink()
    assert kit.trainer(tmp_path / "run", kit.build(), save_freq=1).state.epoch == 2


def test_a_checkpoint_under_another_name_is_refused_where_it_is_named(tmp_path):
    kit = toy_kit()
    experiment = experiment_of(kit, tmp_path)
    experiment.run(data())
    folder = experiment.last_trainer.checkpoints
    os.replace(folder.path("epoch_1"), folder.path("epoch_2"))
    with pytest.raises(CheckpointError, match=r"epoch_2\S* is not what its name says: it holds .*epoch_1"):
        experiment.run(data(), resume=folder.path("epoch_2"))


def test_a_checkpoint_of_a_later_format_is_refused_by_name(trained, tmp_path):
    kit, trainer = trained
    path = rewrite(trainer, "epoch_2", lambda tree: {**tree, "format": 99})
    shutil.copy(path, trainer.checkpoints.path("last"))
    with pytest.raises(CheckpointError, match=r"checkpoint_last.* has the format 99"):
        kit.trainer(tmp_path / "run", kit.build(), save_freq=1)
    other = kit.trainer(tmp_path / "other", kit.build())
    with pytest.raises(CheckpointError, match=r"checkpoint_epoch_2.* has the format 99; .* reads 1"):
        other.update_state(path)
    assert other.state.epoch == 0


def test_weights_of_another_type_are_refused_by_name(trained, tmp_path):
    kit, trainer = trained

    def halved(tree):
        model = {name: to_half(value) for name, value in tree["model"].items()}
        return {**tree, "model": model}

    path = rewrite(trainer, "epoch_2", halved)
    other = kit.trainer(tmp_path / "other", kit.build())
    before = kit.read(other.network)
    with pytest.raises(
        CheckpointError, match=r"(weight|kernel)\S* is float16 in the checkpoint and float(32|64) in the"
    ):
        other.update_state(path)
    assert kit.same(kit.read(other.network), before)


def to_half(value):
    if isinstance(value, dict):
        return {name: to_half(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.astype(np.float16)
    return value.half() if hasattr(value, "half") else value


def test_a_manifest_of_a_later_format_is_not_continued(tmp_path):
    experiment = experiment_of(toy_kit(), tmp_path)
    experiment.run(data())
    (run,) = runs_in(tmp_path)
    manifest = RunFolder(run).read_manifest()
    (run / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(ConfigError, match=r"manifest\.json has the format 99"):
        experiment.run(data(), resume=run)
    experiment.run(data(), resume="auto")
    assert len(runs_in(tmp_path)) == 2


# ---- pages that were not written to their end

KILLED = """
import os, sys
from pathlib import Path
from delira.utils.files import publish
publish(sys.argv[1], lambda file: (file.write(b"<html>" * 5000), file.flush(), os.kill(os.getpid(), 9)), durable=False)
"""


def test_what_a_killed_page_left_is_removed_by_the_next_and_what_is_being_written_is_not(tmp_path):
    page = tmp_path / "report.html"
    subprocess.run([sys.executable, "-c", KILLED, str(page)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("report.html.partial-")
    others = [
        tmp_path / name for name in ("other.html.partial-0123abcd", "report.html.partial-mine", "report.html.bak")
    ]
    for other in others:
        other.write_text("not of this page")

    def write(file):
        file.write(b"first")
        file.flush()
        assert len(list(tmp_path.glob("report.html.partial-????????"))) == 2
        publish_text(page, "second", durable=False)  # another process, at the same time
        file.write(b"end")

    files_module.publish(page, write, durable=False)
    assert page.read_text() == "firstend"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["report.html", *(path.name for path in others)])
