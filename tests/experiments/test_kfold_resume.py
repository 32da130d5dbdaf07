"""A cross-validation that was broken off goes on, and its result is that of an unbroken one, bit for bit."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from digests import digest
from small_backends import build_kit, toy_kit

from delira.cli.main import main
from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.errors import ConfigError, FolderInUseError, TrainingInterrupted
from delira.experiments.result import KFoldResult
from delira.metrics import per_sample
from delira.runs import results
from delira.runs.folder import RunFolder
from delira.runs.results import RESULT_FILE, read_fold
from delira.training.callbacks import AbstractCallback, EarlyStopping
from delira.utils.arrays import iterate_leaves

pytestmark = [pytest.mark.forks, pytest.mark.turns]


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def worst(y_true, y_pred):
    return float(np.max(np.abs(y_true - y_pred)))


@per_sample
def mae(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


class Sum:
    """A metric that is fed batch by batch, and whose value depends on where the batches begin."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.total = np.float32(0)

    def update(self, y_true, y_pred):
        self.total = np.float32(self.total * 0.5 + np.abs(y_true - y_pred).astype(np.float32).sum())

    def compute(self):
        return float(self.total)


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class Watch(AbstractCallback):
    """Notes every step, and breaks the run off at one of them."""

    def __init__(self, *at, event="at_iter_end"):
        self.at, self.event, self.steps = at, event, []

    def _note(self, event, trainer, epoch, iteration):
        now = (trainer.fold, epoch, iteration)
        if event == "at_iter_end":
            self.steps.append(now)
        if event == self.event and now == self.at:
            raise Interrupted(f"at {now}")

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        self._note("at_iter_end", trainer, curr_epoch, iter_num)

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        self._note("at_epoch_end", trainer, curr_epoch, 0)

    def __deepcopy__(self, memo):
        return self  # one for all folds


class Seen(AbstractCallback):
    """A callback with a state of its own."""

    def __init__(self):
        self.epochs, self.sum = [], np.zeros(2, dtype=np.float32)

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        self.epochs.append((trainer.fold, curr_epoch))
        self.sum += np.float32(0.1)

    def state_dict(self):
        return {"epochs": [list(epoch) for epoch in self.epochs], "sum": self.sum}

    def load_state_dict(self, state):
        self.epochs, self.sum = [tuple(epoch) for epoch in state["epochs"]], state["sum"]


SPLITS = {"num_splits": 3, "shuffle": True, "random_seed": 5, "val_split": 0.3}


def experiment_of(kit, path, num_epochs=3, **training):
    training = {"val_metrics": {"rmse": rmse, "mae": mae}, "num_epochs": num_epochs, "save_freq": 1, **training}
    return kit.experiment(path, {"dropout": 0.3}, training=training, val_score_key="rmse")


def events(folder):
    return [json.loads(line)["event"] for line in (folder / "ledger.jsonl").read_text().splitlines()]


def kfold(backend, path, data, *callbacks, **options):
    own = [Seen(), EarlyStopping("val_mse", patience=9), *callbacks]
    return experiment_of(backend, path).kfold(data, callbacks=own, **{**SPLITS, **options})


def broken_off(backend, path, data, *at, event="at_iter_end", **options):
    """The folder of a cross-validation that was broken off."""
    with pytest.raises(Interrupted, match="at "):
        kfold(backend, path, data, Watch(*at, event=event), **options)
    (folder,) = (path / "UnnamedExperiment").iterdir()
    return folder


# ---- going on


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("at", "event"),
    [
        ((0, 1, 1), "at_iter_end"),
        ((0, 3, 0), "at_epoch_end"),
        ((1, 1, 0), "at_iter_end"),
        ((1, 2, 1), "at_iter_end"),
        ((2, 3, 0), "at_epoch_end"),
    ],
)
def test_a_cross_validation_that_goes_on_equals_an_unbroken_one_bit_for_bit(kit, tmp_path, manager, at, event):
    data, watch = manager(24), Watch()
    expected = digest(kfold(kit, tmp_path / "unbroken", data))
    folder = broken_off(kit, tmp_path / "broken", data, *at, event=event)
    resumed = kfold(kit, tmp_path / "broken", data, watch, resume=folder)
    assert digest(resumed) == expected
    assert {fold for fold, _, _ in watch.steps} == set(range(at[0], 3))
    assert [fold.path for fold in resumed.folds] == [folder / f"fold_{number:02d}" for number in range(3)]
    assert events(folder).count("fold_finished") == 3
    assert events(folder)[-1] == "finished"
    assert events(folder).count("fold_started") == 4  # the one that was broken off began twice


def test_the_running_fold_goes_on_inside_its_epoch(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    expected = digest(kfold(kit, tmp_path / "unbroken", data, save_freq_steps=1))
    folder = broken_off(kit, tmp_path / "broken", data, 1, 2, 2, save_freq_steps=1)
    resumed = kfold(kit, tmp_path / "broken", data, watch, resume=folder, save_freq_steps=1)
    assert digest(resumed) == expected
    assert watch.steps[:2] == [(1, 2, 2), (1, 3, 0)]


def test_it_may_be_broken_off_again_and_again(kit, tmp_path, manager):
    data = manager(24)
    expected = digest(kfold(kit, tmp_path / "unbroken", data))
    folder = broken_off(kit, tmp_path / "broken", data, 0, 2, 1)
    for at in ((0, 3, 0), (1, 1, 1), (2, 2, 0)):
        with pytest.raises(Interrupted, match="at "):
            kfold(kit, tmp_path / "broken", data, Watch(*at), resume="auto")
    assert digest(kfold(kit, tmp_path / "broken", data, resume="auto")) == expected
    assert [*folder.parent.iterdir()] == [folder]


def test_a_finished_fold_builds_no_network_and_reads_no_sample(kit, tmp_path, manager):
    built, transformed = [], []

    class Net(kit.network):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            built.append(self)

    def note(batch):
        transformed.append(len(batch["data"]))
        return batch

    options = {"test_kwargs": {"transforms": note}, "train_kwargs": {"transforms": note}, **SPLITS}
    training = {"val_metrics": {"rmse": rmse}, "save_freq": 1}
    experiment = kit.experiment(tmp_path, training=training, cls=Net)
    first = experiment.kfold(manager(24), check_duplicates=False, **options)
    assert len(built) == 3
    built.clear()
    transformed.clear()
    again = experiment.kfold(manager(24), check_duplicates=False, resume=first.path, **options)
    assert not built
    assert not transformed
    assert digest(again) == digest(first)
    assert events(first.path).count("fold_finished") == 3


def test_a_fold_that_the_ledger_does_not_know_yet_is_not_done_again(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    first = kfold(kit, tmp_path, data)
    ledger = first.path / "ledger.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    (last,) = (number for number, line in enumerate(lines) if '"fold_finished", "fold": 2' in line)
    ledger.write_text("".join(lines[:last]))  # killed between the two
    assert digest(kfold(kit, tmp_path, data, watch, resume="auto")) == digest(first)
    assert not watch.steps
    assert events(first.path).count("fold_finished") == 3


def test_a_fold_is_stored_before_the_ledger_says_that_it_is_finished(kit, tmp_path, manager, monkeypatch):
    stored, log = [], RunFolder.log

    def look(folder, event, **facts):
        if event == "fold_finished":
            stored.append(read_fold(folder.fold(facts["fold"])).fields["fold"])
        log(folder, event, **facts)

    monkeypatch.setattr(RunFolder, "log", look)
    kfold(kit, tmp_path, manager(24))
    assert stored == [0, 1, 2]


def test_a_cross_validation_that_was_told_to_stop_goes_on(kit, tmp_path, manager):
    class Terminate(AbstractCallback):
        def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
            if (trainer.fold, curr_epoch, iter_num) == (1, 2, 1):
                os.kill(os.getpid(), signal.SIGTERM)

    data, watch = manager(24), Watch()
    expected = digest(kfold(kit, tmp_path / "unbroken", data))
    with pytest.raises(TrainingInterrupted, match="SIGTERM"):
        kfold(kit, tmp_path / "broken", data, Terminate())
    assert digest(kfold(kit, tmp_path / "broken", data, watch, resume="auto")) == expected
    assert watch.steps[0] == (1, 2, 2)


def test_without_metrics_the_folds_are_read_all_the_same(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    folder = broken_off(kit, tmp_path, data, 2, 1, 0)
    resumed = kfold(kit, tmp_path, data, watch, resume=folder, metrics={})
    assert [fold.metrics for fold in resumed.folds] == [{}] * 3
    assert {fold for fold, _, _ in watch.steps} == {2}


def test_parameters_and_seconds_are_there_too(kit, tmp_path, manager):
    data = manager(24)
    first = kfold(kit, tmp_path, data)
    again = kfold(kit, tmp_path, data, resume=first.path)
    assert [fold.seconds for fold in again.folds] == [fold.seconds for fold in first.folds]
    assert [fold.parameters["fixed"]["model"] for fold in again.folds] == [{"n_features": 3, "dropout": 0.3}] * 3
    assert len({id(fold.parameters) for fold in again.folds}) == 3
    assert len({id(callback) for fold in again.folds for callback in fold.callbacks}) == 6


def test_the_first_fold_that_is_trained_has_its_test_metrics_tried_before(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    folder = broken_off(kit, tmp_path, data, 1, 1, 0)
    with pytest.raises(Exception, match="takes 0 positional arguments"):
        kfold(kit, tmp_path, data, watch, resume=folder, metrics={"wrong": lambda: 0.0})
    assert not watch.steps


# ---- more epochs, other metrics


def test_more_epochs_train_the_finished_folds_further(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    expected = digest(kfold(kit, tmp_path / "unbroken", data, num_epochs=4))
    first = kfold(kit, tmp_path / "broken", data)
    again = kfold(kit, tmp_path / "broken", data, watch, num_epochs=4, resume=first.path)
    assert {(fold, epoch) for fold, epoch, _ in watch.steps} == {(0, 4), (1, 4), (2, 4)}
    assert digest(again) == expected
    with pytest.raises(ConfigError, match="fold 0 was trained for 4 epochs already, more than num_epochs=3"):
        kfold(kit, tmp_path / "broken", data, resume=first.path)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("batch_size", [3, 4])
def test_other_metrics_are_computed_from_what_was_predicted(kit, tmp_path, manager, batch_size):
    data, watch = manager(24, batch_size), Watch()
    metrics = {"rmse": rmse, "worst": worst, "mae": mae, "sum": Sum(), "of a lambda": lambda a, b: float((a - b).sum())}
    expected = digest(kfold(kit, tmp_path / "unbroken", data, metrics=metrics))
    folder = broken_off(kit, tmp_path / "broken", data, 2, 1, 0)
    shutil.rmtree(folder / "fold_00" / "checkpoints")  # nothing could be tested again
    shutil.rmtree(folder / "fold_01" / "checkpoints")
    assert digest(kfold(kit, tmp_path / "broken", data, watch, metrics=metrics, resume=folder)) == expected
    assert {fold for fold, _, _ in watch.steps} == {2}


def scaled(y_true, y_pred, factor):
    return factor * rmse(y_true, y_pred)


def test_the_folder_says_what_was_computed_by_other_metrics_of_the_same_name(tmp_path, manager, capsys):
    data, kit = manager(24), toy_kit()
    extra = {"mean": per_sample(lambda number: float(number))}
    keys = {"metric_keys": {"mean": ("number",)}}
    by = [{"f": functools.partial(scaled, factor=factor)} for factor in (1.0, 2.0)]
    first = kfold(kit, tmp_path, data, metrics=by[0] | extra, **keys)
    again = kfold(kit, tmp_path, data, metrics=by[1], resume="auto")
    assert again.path == first.path
    assert [fold.means()["f"] for fold in again.folds] == [2 * fold.means()["f"] for fold in first.folds]
    stored = KFoldResult.load(first.path, metrics=by[1])
    assert [fold.means() for fold in stored.folds] == [fold.means() for fold in again.folds]
    assert stored.summary()["f"] == again.summary()["f"]
    assert main(["verify", str(first.path)]) == 0, capsys.readouterr().out
    for number in range(3):
        shutil.rmtree(first.path / f"fold_{number:02d}" / "checkpoints")  # what was kept for the metrics of before is
    back = kfold(kit, tmp_path, data, metrics=by[0] | extra, resume="auto", **keys)
    assert [fold.means() for fold in back.folds] == [fold.means() for fold in first.folds]
    assert [fold.callbacks[0].epochs for fold in back.folds] == [fold.callbacks[0].epochs for fold in first.folds]


def test_the_last_of_two_sessions_says_what_the_folder_says(tmp_path, manager):
    data, kit = manager(24), toy_kit()
    by = [{"f": functools.partial(scaled, factor=factor)} for factor in (1.0, 2.0)]

    class Joined(AbstractCallback):
        """Has another session end while the last fold is trained."""

        def at_training_begin(self, trainer, **facts):
            if trainer.fold == 2 and trainer.save_path.parent not in seen:
                seen.append(trainer.save_path.parent)
                kfold(kit, tmp_path, data, Joined(), metrics=by[1], resume=seen[0], folds=[0, 1])

    seen: list = []
    result = kfold(kit, tmp_path, data, Joined(), metrics=by[0])
    stored = KFoldResult.load(result.path, metrics=by[0])
    assert [fold.means() for fold in stored.folds] == [fold.means() for fold in result.folds]
    summary, _ = results.read_summary(result.path)
    assert summary["metrics"]["f"]["metric"]["arguments"] == {"factor": 1.0}
    assert not [text for text in stored.warnings if "other functions" in text]


def test_a_run_is_read_while_its_folds_are_of_several_metrics(tmp_path, manager):
    data, kit = manager(24), toy_kit()
    by = [{"f": functools.partial(scaled, factor=factor)} for factor in (1.0, 2.0)]
    first = kfold(kit, tmp_path, data, metrics=by[0], folds=[0, 1])
    shutil.rmtree(first.path / "fold_01" / "checkpoints")
    with pytest.raises(Interrupted):
        kfold(kit, tmp_path, data, Watch(2, 1, 0), metrics=by[1], resume=first.path)
    told = "fold 0 was tested by other functions of the names ['f'] than the run asks for now"
    assert told in KFoldResult.load(first.path).warnings
    whole = kfold(kit, tmp_path, data, metrics=by[1], resume=first.path)
    assert not [text for text in KFoldResult.load(whole.path).warnings if "other functions" in text]


def test_a_lambda_is_never_taken_for_another(kit, tmp_path, manager):
    data = manager(24)
    first = kfold(kit, tmp_path, data, metrics={"m": lambda y_true, y_pred: 1.0})
    again = kfold(kit, tmp_path, data, metrics={"m": lambda y_true, y_pred: 2.0}, resume=first.path)
    assert [fold.metrics["m"].tolist() for fold in first.folds + again.folds] == [[1.0]] * 3 + [[2.0]] * 3


def test_metrics_that_read_what_was_not_kept_are_computed_by_testing_again(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    options = {"metrics": {"mean": per_sample(lambda number: float(number))}, "metric_keys": {"mean": ("number",)}}
    expected = digest(kfold(kit, tmp_path / "unbroken", data, **options))
    folder = broken_off(kit, tmp_path / "broken", data, 2, 1, 0)
    assert digest(kfold(kit, tmp_path / "broken", data, watch, resume=folder, **options)) == expected
    assert {fold for fold, _, _ in watch.steps} == {2}


def test_fewer_targets_are_those_of_an_unbroken_run(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    options = {"metrics": {"mean": per_sample(lambda number: float(number))}, "metric_keys": {"mean": ("number",)}}
    folder = broken_off(kit, tmp_path / "broken", data, 2, 1, 0, **options)
    expected = kfold(kit, tmp_path / "unbroken", data)
    for number in (0, 1):
        shutil.rmtree(folder / f"fold_{number:02d}" / "checkpoints")  # they could not be tested again
    resumed = kfold(kit, tmp_path / "broken", data, watch, resume=folder)
    assert digest(resumed) == digest(expected)
    assert resumed.oof.targets.keys() == {"label"}
    assert {fold for fold, _, _ in watch.steps} == {2}


def test_an_entry_that_was_not_kept_is_read_by_testing_again(kit, tmp_path, manager):
    data = manager(24)
    expected = digest(kfold(kit, tmp_path / "unbroken", data, label_key="number"))
    folder = broken_off(kit, tmp_path / "broken", data, 2, 1, 0)
    assert digest(kfold(kit, tmp_path / "broken", data, label_key="number", resume=folder)) == expected


# ---- what cannot be read


def test_a_fold_whose_file_is_gone_is_tested_again(kit, tmp_path, manager):
    data, watch = manager(24), Watch()
    first = kfold(kit, tmp_path, data)
    (first.folds[1].path / RESULT_FILE).unlink()
    with pytest.warns(UserWarning, match="fold 1 is tested again from its checkpoint: .*fold_01.*result.zip") as caught:
        again = kfold(kit, tmp_path, data, watch, resume=first.path)
    assert [warning.filename for warning in caught] == [experiment_of.__code__.co_filename]
    assert digest(again) == digest(first)
    assert not watch.steps
    assert (first.folds[1].path / RESULT_FILE).exists()


@pytest.mark.sampled("values")
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "of another fold", "later"])
def test_a_fold_whose_file_is_damaged_is_tested_again(kit, tmp_path, manager, damage):
    data = manager(24)
    first = kfold(kit, tmp_path, data)
    path = first.folds[1].path / RESULT_FILE
    whole = path.read_bytes()
    half = len(whole) // 2
    flipped = bytearray(whole)
    flipped[whole.index(b"\x93NUMPY") + 130] ^= 1
    content = {
        "cut": whole[:half],
        "flipped": bytes(flipped),
        "empty": b"",
        "text": b"no zip at all",
        "of another fold": (first.folds[0].path / RESULT_FILE).read_bytes(),
        "later": whole,
    }
    path.write_bytes(content[damage])
    with pytest.MonkeyPatch.context() as patch:
        if damage == "later":
            patch.setattr(results, "RESULT_FORMAT", 2)
        with pytest.warns(UserWarning, match=r"fold \d is tested again from its checkpoint: .*result.zip") as caught:
            again = kfold(kit, tmp_path, data, resume=first.path)
    assert len(caught) == (3 if damage == "later" else 1)
    assert digest(again) == digest(first)


def test_a_fold_without_file_and_checkpoint_is_trained_again(kit, tmp_path, manager):
    data = manager(24)
    first = kfold(kit, tmp_path, data)
    shutil.rmtree(first.folds[2].path)
    with pytest.warns(UserWarning, match="fold 2 is tested again"):
        again = kfold(kit, tmp_path, data, resume=first.path)
    assert digest(again) == digest(first)


# ---- what comes out of networks and data


def test_large_predictions_are_maps_of_the_file_that_keeps_them(kit, tmp_path, manager, monkeypatch):
    from delira.io import container
    from delira.training import keeping

    data, watch = manager(24), Watch()
    monkeypatch.setattr(container, "MAPPED_FROM", 30)
    monkeypatch.setattr(keeping, "KEPT_BYTES", 30)
    first = kfold(kit, tmp_path, data)
    again = kfold(kit, tmp_path, data, watch, resume=first.path)
    for result in (first, again):
        leaves = [leaf for _, leaf in iterate_leaves(result.folds[0].predictions)]
        assert all(isinstance(leaf, np.memmap) for leaf in leaves)
        assert {Path(leaf.filename).name for leaf in leaves} == {"predictions.npz"}
    assert digest(again) == digest(first)
    assert not watch.steps
    assert first.folds[0].metrics.keys() == read_fold(first.folds[0].path).fields["metrics"].keys()


def test_predictions_in_a_file_are_kept(kit, tmp_path, manager, monkeypatch):
    from delira.training import keeping

    monkeypatch.setattr(keeping, "KEPT_BYTES", 30)
    data = manager(24)
    first = kfold(kit, tmp_path, data)
    assert digest(kfold(kit, tmp_path, data, resume=first.path)) == digest(first)


def test_samples_that_were_left_out_are_known_without_a_second_look(kit, tmp_path):
    def load(index):
        if index in (3, 7):
            raise OSError("torn")
        return {"data": np.full(3, index / 10), "label": np.array([index / 5])}

    data = BaseDataManager(BaseLazyDataset(list(range(24)), load), 5, bad_samples="skip")
    with pytest.warns(UserWarning, match="is left out"):
        first = experiment_of(kit, tmp_path).kfold(data, **SPLITS)
    again = experiment_of(kit, tmp_path).kfold(data, resume=first.path, **SPLITS)  # a warning would be an error
    assert digest(again) == digest(first)
    assert [sorted(fold.left_out) for fold in again.folds] == [[3, 7]] * 3
    with pytest.warns(UserWarning, match="is left out"):  # nobody knows where its batches began
        other = experiment_of(kit, tmp_path).kfold(data, resume=first.path, metrics={"sum": Sum()}, **SPLITS)
    assert len(np.concatenate([fold.test_indices for fold in other.folds])) == 22


# ---- processes that are killed


class Report(AbstractCallback):
    """Tells the parent of every step."""

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        sys.stdout.write(f"{trainer.fold} {curr_epoch} {iter_num}\n")
        sys.stdout.flush()
        sys.stdin.readline()


def work(name, path):
    """What a process does that is to be killed: tell of every step, and wait for the word to go on."""
    kfold(build_kit(name), Path(path), data_of_processes(), Report(), resume="auto")


def data_of_processes():
    rng = np.random.default_rng(7)
    data = rng.normal(size=(24, 3))
    return BaseDataManager({"data": data, "label": data.sum(axis=1, keepdims=True)}, 4)


def start(name, path):
    tests = Path(__file__).resolve().parents[1]
    script = (
        f"import sys; sys.path[:0] = [{str(tests)!r}, {str(tests / 'training')!r}]\n"
        f"import test_kfold_resume\ntest_kfold_resume.work({name!r}, {str(path)!r})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def run_until(process, steps):
    """Let a process do so many steps; whether it has another one begun."""
    for _ in range(steps):
        if not process.stdout.readline():
            return False
        process.stdin.write("\n")
        process.stdin.flush()
    return bool(process.stdout.readline())


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stdin.close()


@pytest.mark.left_to_full("torch")
def test_one_that_is_in_use_is_joined_and_goes_on_when_its_process_was_killed(kit, tmp_path):
    process = start(kit.name, tmp_path)
    try:
        assert run_until(process, 12)
        (folder,) = (tmp_path / "UnnamedExperiment").iterdir()
        before = (folder / "ledger.jsonl").read_bytes()
        asked = rf"(?s)process {process.pid} on .* asked for something else:\n  num_epochs: 3 there, 5 here\n"
        with pytest.raises(FolderInUseError, match=asked):
            kfold(kit, tmp_path, data_of_processes(), num_epochs=5, resume=folder)
        with pytest.warns(UserWarning, match=asked):
            longer = kfold(kit, tmp_path, data_of_processes(), num_epochs=5, resume="auto")
        assert longer.path != folder
        assert (folder / "ledger.jsonl").read_bytes() == before
        threading.Timer(2, kill, [process]).start()
        watch = Watch()
        joined = kfold(kit, tmp_path, data_of_processes(), watch, resume="auto")
    finally:
        kill(process)
    assert joined.path == folder
    assert {fold for fold, _, _ in watch.steps} == {1, 2}
    assert events(folder).count("joined") == 1
    assert digest(joined) == digest(kfold(kit, tmp_path, data_of_processes()))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(1, 1, 1), (4, 12), (8, 1), (9,), (17, 3), (26,)])
def test_a_killed_cross_validation_goes_on_wherever_it_was_killed(kit, tmp_path, steps):
    killed_at(kit, tmp_path, steps)


def killed_at(kit, tmp_path, steps):
    for number in steps:
        process = start(kit.name, tmp_path / "killed")
        try:
            assert run_until(process, number)
        finally:
            kill(process)
    (folder,) = (tmp_path / "killed" / "UnnamedExperiment").iterdir()
    assert "finished" not in events(folder)
    resumed = kfold(kit, tmp_path / "killed", data_of_processes(), resume="auto")
    assert resumed.path == folder
    assert digest(resumed) == digest(kfold(kit, tmp_path / "unbroken", data_of_processes()))
