"""Numbers that were computed once are read by other processes, and only if they are of the same run."""

import json
import os
import time

import numpy as np
import pytest
from sklearn import metrics as sk

from delira.experiments.result import FoldResult, KFoldResult
from delira.metrics import MetricSet, lambda_metric, per_sample
from delira.report import summary as summary_module
from delira.report.stored_numbers import FILE

LABELS = np.random.default_rng(0).integers(2, size=120)
SCORES = np.random.default_rng(1).normal(size=120) + LABELS


@per_sample
def distance(y_true, y_pred):
    return abs(float(y_true) - float(y_pred))


def cross_validation(path, metrics=None, scores=SCORES, **settings):
    metrics = metrics or {"auc": sk.roc_auc_score, "tree": "pr_auc", "distance": distance}
    folds = []
    for number in range(3):
        test, found = np.arange(number, 120, 3), MetricSet(metrics)
        found.update({"label": LABELS[test], "pred": scores[test]})
        folds.append(
            FoldResult(number, [], None, test, found.compute(), {"pred": scores[test]}, {"label": LABELS[test]})
        )
    return KFoldResult(folds, 120, found.metrics, path=path, **{"seed": 0, **settings})


@pytest.fixture
def computed(monkeypatch):
    """Names of the metrics that are computed, not read."""
    names, numbers = [], summary_module._Row.numbers
    monkeypatch.setattr(
        summary_module._Row, "numbers", lambda row, values: names.append(row.name) or numbers(row, values)
    )
    return names


def test_a_second_process_reads_what_the_first_computed(tmp_path, computed):
    first = cross_validation(tmp_path).summary()
    assert computed == ["auc", "tree", "distance"]
    assert cross_validation(tmp_path).summary() == first
    assert computed == ["auc", "tree", "distance"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"groups": np.arange(120) // 2},
        {"scores": SCORES + 0.5 * np.sin(np.arange(120.0))},
        {"without_intervals": "they are lost"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_was_computed_of_something_else_is_computed_again(tmp_path, computed, change):
    cross_validation(tmp_path).summary()
    del computed[:]
    changed = cross_validation(tmp_path, **change)
    assert changed.summary() == cross_validation(None, **change).summary()
    assert computed[:3] == ["auc", "tree", "distance"]


def test_another_metric_under_the_same_name_is_computed_again(tmp_path, computed):
    cross_validation(tmp_path, {"m": sk.roc_auc_score}).summary()
    row = cross_validation(tmp_path, {"m": sk.average_precision_score}).summary()["m"]
    assert computed == ["m", "m"]
    assert row["mean"] == cross_validation(None, {"m": sk.average_precision_score}).summary()["m"]["mean"]


def own_metric(factor):
    def metric(y_true, y_pred):
        return float(np.mean(y_pred[y_true > 0]) * factor)

    return metric


def test_a_function_of_ones_own_is_read_as_long_as_its_code_is_the_same(tmp_path, computed):
    first = cross_validation(tmp_path, {"m": own_metric(2)}).summary()
    assert cross_validation(tmp_path, {"m": own_metric(2)}).summary() == first
    assert computed == ["m"]
    changed = cross_validation(tmp_path, {"m": own_metric(3)}).summary()
    assert computed == ["m", "m"]
    assert changed == cross_validation(None, {"m": own_metric(3)}).summary()


def test_stored_folds_with_another_function_of_ones_own_are_computed_again(tmp_path, computed):
    """As after a run was loaded with functions that have changed: the values of its folds are the old ones."""
    for factor in (2, 2, 3):
        result = cross_validation(tmp_path, {"m": own_metric(2)})
        result.metrics = {"m": own_metric(factor)}
        result.summary()
    assert computed == ["m", "m"]


def test_a_function_of_batches_of_ones_own_is_read_as_well(tmp_path, computed):
    for factor in (2, 2, 3):
        cross_validation(tmp_path, {"m": lambda_metric("m", on_epoch=True)(own_metric(factor))}).summary()
    assert computed == ["m", "m"]


def test_a_function_whose_result_may_change_without_its_code_is_computed_again(tmp_path, computed):
    reads = tmp_path / "scale.txt"
    reads.write_text("2")

    def scaled(y_true, y_pred):
        return float(np.mean(y_pred) * float(reads.read_text()))

    for _ in range(2):
        cross_validation(tmp_path, {"m": scaled}).summary()
    assert computed == ["m", "m"]


def test_a_slow_function_says_how_far_it_is_and_is_evaluated_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(summary_module, "PATIENCE", 0.0)
    first = cross_validation(tmp_path, {"slow": own_metric(2)}).summary()
    assert "interval of slow: 6,000 of 6,000 evaluations" in capsys.readouterr().err
    assert cross_validation(tmp_path, {"slow": own_metric(2)}).summary() == first
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("["),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text('{"format": 99, "rows": {}}'),
        lambda path: path.write_text(path.read_text().replace('"note": ""', '"note": "\\u001b[2J"')),
        lambda path: path.write_text(path.read_text().replace('"n": 120', '"n": "many"')),
        lambda path: path.write_text(path.read_text().replace('"mean"', '"median"')),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["cut", "deep", "format", "escape", "type", "field", "fifo", "folder"],
)
def test_a_file_of_anything_else_is_computed_again(tmp_path, computed, spoil):
    first = cross_validation(tmp_path).summary()
    spoil(tmp_path / FILE)
    assert cross_validation(tmp_path).summary() == first
    assert computed == ["auc", "tree", "distance"] * 2


def test_numbers_that_are_none_are_stored_and_read(tmp_path):
    metrics = {"distance": distance}
    scores = np.where(np.arange(120) == 3, np.inf, SCORES)
    first = cross_validation(tmp_path, metrics, scores).summary()
    json.loads((tmp_path / FILE).read_text(), parse_constant=pytest.fail)
    assert cross_validation(tmp_path, metrics, scores).summary() == first


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path):
    result = cross_validation(tmp_path / "gone")
    assert result.summary()["auc"]["n"] == 120
    assert not (tmp_path / "gone").exists()


def test_what_takes_longer_than_three_seconds_is_told(monkeypatch, capsys):
    clock = iter(np.arange(0.0, 1e6, 0.01))
    monkeypatch.setattr(summary_module.time, "monotonic", lambda: next(clock))
    cross_validation(None, {"own": lambda y_true, y_pred: float(np.mean(y_pred))}).summary()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("interval of own: ")
    assert "of 6,000 evaluations, 3 s so far" in lines[0]
    assert 10 < len(lines) < 30


def test_what_is_quick_is_silent(capsys):
    began = time.monotonic()
    cross_validation(None, {"distance": distance, "auc": sk.roc_auc_score}).summary()
    if time.monotonic() - began < 3:
        assert capsys.readouterr().err == ""


def without_functions(path, metrics, factor=None, **settings):
    """The same run in a process that does not have its functions; ``factor``: of the one that is given by hand."""
    result = cross_validation(path, metrics, **settings)
    result.metrics = {} if factor is None else {"m": own_metric(factor)}
    return result


def test_a_function_that_is_not_at_hand_has_the_numbers_that_were_stored(tmp_path, computed):
    metrics = {"m": own_metric(2), "batches": lambda_metric("batches", on_epoch=True)(own_metric(3))}
    first = cross_validation(tmp_path, metrics).summary()
    assert first["m"]["ci_low"] < first["m"]["mean"] < first["m"]["ci_high"]
    del computed[:]
    assert without_functions(tmp_path, metrics).summary() == first
    assert computed == []
    (tmp_path / FILE).unlink()
    row = without_functions(tmp_path, metrics).summary()["m"]
    assert (row["has_oof"], row["note"]) == (False, "the function that computed it is not known here")


@pytest.mark.parametrize(
    "change",
    [{"scores": SCORES + 1e-12}, {"groups": np.arange(120) // 2}, {"seed": 1}],
    ids=lambda change: next(iter(change)),
)
def test_stored_numbers_of_other_predictions_are_not_shown(tmp_path, change):
    metrics = {"m": own_metric(2)}
    cross_validation(tmp_path, metrics).summary()
    row = without_functions(tmp_path, metrics, **change).summary()["m"]
    assert (row["has_oof"], row["note"]) == (False, "the function that computed it is not known here")


def test_numbers_of_another_function_than_that_of_the_run_are_not_shown(tmp_path):
    metrics = {"m": own_metric(2)}
    given = without_functions(tmp_path, metrics, factor=3).summary()["m"]
    assert given["has_oof"]
    row = without_functions(tmp_path, metrics).summary()["m"]
    assert (row["has_oof"], row["note"]) == (False, "the function that computed it is not known here")
