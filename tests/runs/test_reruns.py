"""Two runs compared from their folders alone: what counts as the same, and which difference is the first."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from edited_files import plain, write_lines
from problems import linear_problem, mae
from small_backends import toy_kit

from delira.data_loading import BaseDataManager
from delira.runs.reruns import Difference, compare_runs
from delira.runs.results import FoldResult, read_fold, write_fold
from delira.runs.stored_run import read_run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    experiment = toy_kit().experiment(path, training={"num_epochs": 3, "save_freq": 1}, name="run")
    experiment.kfold(
        BaseDataManager(linear_problem(12), 4), {"mae": mae}, num_splits=3, shuffle=True, random_seed=5, val_split=None
    )
    return next((path / "run").iterdir())


@pytest.fixture
def pair(made, tmp_path):
    """A run and its rerun, which may be damaged."""
    return [Path(shutil.copytree(made, tmp_path / name)) for name in ("run", "rerun")]


def compare(pair, folds=(0, 1, 2)):
    return compare_runs(*map(read_run, pair), folds)


def change(path, epoch, **entries):
    """Replace entries of one epoch, of both lines and checksums."""
    write_lines(path, lambda line: line | entries if line["epoch"] == epoch else line)


def history(folder, fold):
    return folder / f"fold_{fold:02d}" / "history.jsonl"


def test_a_run_is_equal_to_a_copy_of_it(pair):
    found = compare(pair)
    assert found.is_equal
    assert (found.epochs, found.hashes, found.folds) == (9, 9, [0, 1, 2])
    assert (found.tested, found.predicted) == ([0, 1, 2], [0, 1, 2])
    assert (found.firsts, found.largest, found.remarks) == ([], None, [])


@pytest.mark.parametrize(
    ("run", "rerun", "is_same"),
    [
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        (1.0, np.nextafter(1.0, 2.0).item(), False),
        (float("nan"), 1.0, False),
        ([1, {"a": 2}], [1, {"a": 2}], True),
        (None, 0.0, False),
    ],
)
def test_values_are_the_same_in_all_bits(pair, run, rerun, is_same):
    change(history(pair[0], 1), 2, mse=run)
    change(history(pair[1], 1), 2, mse=rerun)
    found = compare(pair)
    assert found.is_equal == is_same
    if not is_same:
        ((fold, epoch, entry, *values),) = found.firsts
        assert (fold, epoch, entry) == (1, 2, "mse")
        assert repr(values) == repr([run, rerun])


def test_each_fold_has_its_first_difference_and_the_largest_may_be_another(pair):
    change(history(pair[1], 0), 3, mse=1e9)
    change(history(pair[1], 2), 1, extra=1.0)
    change(history(pair[1], 2), 2, mse=1e12)
    found = compare(pair)
    assert [each[:3] for each in found.firsts] == [(0, 3, "mse"), (2, 1, "extra")]
    assert found.firsts[1][3:] == ("missing", 1.0)
    assert found.largest is not None
    assert found.largest[:3] == (2, 2, "mse")
    assert found.largest.relative == pytest.approx(1.0)
    assert compare(pair, [1]).is_equal


def test_numbers_of_an_epoch_go_before_the_weights_after_it(pair):
    change(pair[1] / "fold_00" / "hashes.jsonl", 2, weights="0" * 64)
    assert compare(pair).firsts[0][:3] == (0, 2, "weights")
    change(history(pair[1], 0), 2, mse=1.0)
    assert compare(pair).firsts[0][:3] == (0, 2, "mse")


def test_an_epoch_that_only_one_was_trained_for_is_a_difference(pair):
    path = history(pair[1], 1)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    assert compare(pair).firsts == [Difference(1, 3, "epoch", "trained", "not trained")]
    assert compare(pair[::-1]).firsts == [Difference(1, 3, "epoch", "not trained", "trained")]


def test_a_fold_that_was_broken_off_is_compared_as_far_as_it_came(pair):
    path = history(pair[0], 1)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    (pair[0] / "fold_01" / "result.zip").unlink()
    lines = [plain(line) for line in (pair[0] / "ledger.jsonl").read_text().splitlines()]
    kept = [
        line
        for line in lines
        if line["event"] != "finished" and (line["event"], line.get("fold")) != ("fold_finished", 1)
    ]
    (pair[0] / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    found = compare(pair)
    assert found.is_equal
    assert (found.epochs, found.tested) == (8, [0, 2])


def edit_fold(folder, number, change):
    """Write the result of a fold again, with what ``change`` makes of its predictions and metrics."""
    place = folder / f"fold_{number:02d}"
    stored = read_fold(place)
    assert stored.outputs is not None
    outputs = {name: dict(stored.outputs[name]) for name in ("predictions", "targets")}
    outputs["predictions"] = {name: np.array(value) for name, value in outputs["predictions"].items()}
    fold = FoldResult(**stored.fields, **outputs, path=place)
    change(fold)
    write_fold(fold, stored.asked, stored.callbacks)


def test_a_prediction_that_differs_is_found_by_its_place(pair):
    before = []

    def change(fold):
        before.append(fold.predictions["pred"][2, 0].item())
        fold.predictions["pred"][2, 0] += 1.0

    edit_fold(pair[1], 1, change)
    (first,) = compare(pair).firsts
    assert first == Difference(1, None, "predictions.pred[2, 0]", *before, before[0] + 1.0)


def test_metrics_shapes_and_types_are_compared(pair):
    edit_fold(pair[1], 0, lambda fold: fold.metrics.update(mae=fold.metrics["mae"] * 2, other=np.ones(1)))
    edit_fold(pair[1], 2, lambda fold: fold.predictions.update(pred=fold.predictions["pred"].astype(np.float32)))
    found = compare(pair)
    assert [(each.fold, each.entry) for each in found.firsts] == [(0, "metrics.mae"), (2, "predictions.pred")]
    assert found.firsts[0].relative == pytest.approx(0.5)
    assert found.firsts[1][3:] == ("float64 of shape (4, 1)", "float32 of shape (4, 1)")


def test_what_cannot_be_compared_is_said_and_hides_nothing(pair):
    (pair[1] / "fold_00" / "result.zip").write_bytes(b"nothing")
    with (history(pair[0], 2)).open("a") as file:
        file.write('{"epoch": 4, "mse"')
    found = compare(pair)
    assert found.is_equal
    assert found.tested == [1, 2]
    assert len(found.remarks) == 2
    assert "its test is not compared" in found.remarks[0]
    assert f"1 of 4 epochs in {history(pair[0], 2)} cannot be read" in found.remarks[1]


def test_a_line_whose_checksum_is_another_one_is_compared_and_told(pair):
    path = history(pair[0], 0)
    path.write_text(path.read_text().replace('"epoch": 2, "mse": ', '"epoch": 2, "mse": 1'))
    found = compare(pair)
    assert found.firsts[0][:3] == (0, 2, "mse")
    assert any("epoch 2 of" in each and "checksum" in each for each in found.remarks)


def test_a_run_without_epochs_is_not_called_equal(pair):
    for folder in pair:
        for number in range(3):
            history(folder, number).write_text("")
    assert not compare(pair).is_equal
