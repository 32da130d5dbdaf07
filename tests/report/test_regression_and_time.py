"""What the page says about a regression, and about where the time went."""

import json

import numpy as np
import pytest

from delira.report.sections import regression_section, time_section

SECONDS = {"data": 1.0, "forward": 2.0, "backward": 3.0, "update": 0.5, "validation": 1.5, "other": 2.0}


@pytest.fixture
def numbers(validate):
    generator = np.random.default_rng(3)
    true = generator.normal(size=80)
    pred = true + generator.normal(size=80) / 4
    return true, pred, validate(true[:, None], pred[:, None], metrics={})


def test_errors_of_a_regression_are_over_all_cases(numbers):
    true, pred, result = numbers
    section = regression_section(result)
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    values = {row[0]: row[1] for row in section.tables[0].rows}
    assert values["mean absolute error"] == pytest.approx(sklearn_metrics.mean_absolute_error(true, pred))
    assert values["root mean squared error"] == pytest.approx(sklearn_metrics.root_mean_squared_error(true, pred))
    assert values["mean of the residuals"] == pytest.approx(np.mean(pred - true))
    assert values["R²"] == pytest.approx(sklearn_metrics.r2_score(true, pred))


def test_points_are_cases(numbers):
    true, pred, result = numbers
    (axes,) = regression_section(result).panels["residuals"].axes
    (points,) = [line for line in axes.lines if line.get_label() == "case"]
    np.testing.assert_allclose(points.get_xdata(), pred)
    np.testing.assert_allclose(points.get_ydata(), pred - true)


def test_many_points_are_one_picture(validate):
    generator = np.random.default_rng(3)
    true = generator.normal(size=20_000)
    html = validate(true, true + 1, metrics={}).to_html()
    assert len(html) < 1 << 20
    assert "<h2>Predicted and true values</h2>" in html


def test_a_prediction_that_is_no_number_is_left_out_and_counted(validate):
    true = np.arange(12.0)
    pred = true.copy()
    pred[3] = np.inf
    section = regression_section(validate(true, pred, metrics={}))
    assert any("1 cases without a finite number" in note for note in section.notes)


def test_what_is_no_regression_has_no_such_section(validate):
    images = np.zeros((8, 4, 4))
    assert regression_section(validate(images, images, n_folds=2, metrics={})) is None


def test_the_table_of_times_has_a_row_for_each_fold_and_the_shares(result):
    for fold in result.folds[:3]:
        fold.timings = {"version": 1, "steps": 9, "seconds": SECONDS, "note": "forward and backward are estimated"}
    section = time_section(result)
    (table,) = section.tables
    assert table.header == ["Fold", "data", "forward", "backward", "update", "validation", "other", "Sum"]
    assert table.texts()[-2:] == [
        ["all", "3.00 s", "6.00 s", "9.00 s", "1.50 s", "4.50 s", "6.00 s", "30.0 s"],
        ["share", "10.0%", "20.0%", "30.0%", "5.0%", "15.0%", "20.0%", "100.0%"],
    ]
    assert section.notes == [
        "forward and backward are estimated",
        "Nothing was measured in fold 3.",
        "other: what is in no phase, as callbacks, and what happens once, as imports at the first step",
    ]


def test_notes_that_differ_in_a_number_are_said_once(result):
    for fold, steps in zip(result.folds, (8, 6, 8, 9), strict=True):
        note = f"all are estimated from {steps} steps"
        fold.timings = {"version": 1, "steps": 9, "seconds": SECONDS, "note": note}
    assert time_section(result).notes[0] == "all are estimated from 8, 6 and 9 steps of each fold"


def test_times_are_read_from_the_folder_of_a_fold(result, tmp_path):
    (tmp_path / "timings.json").write_text(json.dumps({"version": 1, "seconds": SECONDS}))
    result.folds[0].path = tmp_path
    assert [row[0] for row in time_section(result).tables[0].rows] == ["0", "share"]


@pytest.mark.sampled("half")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2, "seconds": {"data": 1.0}}',
        '{"version": 1, "seconds": {"data": "x"}}',
        '{"version": 1}',
    ],
)
def test_times_that_cannot_be_read_are_left_out(text, result, tmp_path):
    (tmp_path / "timings.json").write_text(text)
    for fold in result.folds:
        fold.path = tmp_path
    assert time_section(result) is None
    assert "<h2>Time</h2>" not in result.to_html()
