"""Tables and plots as files: complete, readable by other programs, the same bytes each time."""

import csv

import numpy as np
import pytest

from delira.errors import ConfigError
from delira.report.table import Table


@pytest.fixture
def timed(validate, data):
    def make(**settings):
        result = validate(data.labels, data.scores, info={"class_names": ["a_1", "b & c", "d"]}, **settings)
        for fold in result.folds:
            fold.timings = {"version": 1, "seconds": {"data": 1.0, "forward": 2.0}}
        return result

    return make


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.slow
def test_each_table_and_each_plot_is_a_file(timed, tmp_path):
    paths = timed().export(tmp_path / "paper", formats=("csv", "tex", "svg"))
    assert all(path.stat().st_size > 40 for path in paths)
    tables, plots = {"summary", "folds", "classes", "calibration", "time"}, {
        "learning_curves", "roc", "precision_recall", "calibration", "calibration_with_temperature", "roc_classes",
        "precision_recall_classes", "confusion", "time",
    }  # fmt: skip
    assert {path.name for path in paths} == {
        *(f"{name}.{kind}" for name in tables for kind in ("csv", "tex")),
        "metrics.tex",
        "cases.csv",
        "history.csv",
        *(f"{name}.svg" for name in plots),
    }
    assert sorted(paths) == sorted((tmp_path / "paper").iterdir())


def test_the_numbers_in_csv_have_all_their_digits(timed, tmp_path):
    result = timed()
    result.export(tmp_path, formats="csv")
    header, first, _ = rows_of(tmp_path / "summary.csv")
    row = dict(zip(header, first, strict=True))
    summary = result.summary()["accuracy"]
    assert row["Metric"] == "accuracy"
    assert [float(row[name]) for name in ("Mean", "SD", "Out-of-fold", "CI low", "CI high", "n")] == [
        summary[name] for name in ("mean", "std", "oof", "ci_low", "ci_high", "n")
    ]
    history = rows_of(tmp_path / "history.csv")
    assert history[0][:3] == ["Fold", "Epoch", "ce"]
    assert len(history) == 1 + 5 + 6 + 7 + 8
    assert float(rows_of(tmp_path / "folds.csv")[2][-1]) == 65.0


def test_names_are_escaped_for_latex(timed, tmp_path):
    timed().export(tmp_path, formats="tex")
    text = (tmp_path / "classes.tex").read_text("utf-8")
    assert r"  a\_1 & " in text
    assert r"  b \& c & " in text
    assert text.startswith("\\begin{tabular}{lrrrrr}\n  \\toprule\n")


@pytest.mark.slow
@pytest.mark.parametrize("formats", [("csv", "tex", "svg"), pytest.param(("png", "pdf"), marks=pytest.mark.slow)])
def test_the_same_result_gives_the_same_bytes(formats, timed, tmp_path):
    first, second = (timed().export(tmp_path / name, formats) for name in ("a", "b"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_an_unknown_format_is_refused_before_anything_is_written(timed, tmp_path):
    with pytest.raises(ConfigError, match="nothing is exported as 'bmp'; known are"):
        timed().export(tmp_path / "paper", formats=("csv", "bmp"))
    assert not (tmp_path / "paper").exists()


def test_what_is_missing_is_left_out(validate, data, tmp_path):
    result = validate(data.labels, data.scores, metrics={})
    for fold in result.folds:
        fold.history, fold.predictions, fold.targets = [], {}, {}
    assert [path.name for path in result.export(tmp_path)] == ["folds.csv", "folds.tex"]


def test_numbers_that_are_none_are_empty_in_csv(validate, data, tmp_path):
    result = validate(data.labels, data.scores, metrics={"m": lambda t, p: np.nan})
    result.export(tmp_path, formats=("csv", "tex"))
    assert rows_of(tmp_path / "summary.csv")[1] == ["m", "", "", "", "", "", "90"]
    assert "m & -- & --" in (tmp_path / "summary.tex").read_text("utf-8")


def test_a_row_that_begins_with_a_bracket_is_no_option_of_latex():
    lines = Table("t", ["[x]", "y"], [["[CLS]", 1], ["*", 2], ["a<b|c", 3]]).latex().splitlines()
    assert [line.split("&")[0].strip() for line in lines if "&" in line] == [
        "{[}x]",
        "{[}CLS]",
        "{*}",
        r"a\textless{}b\textbar{}c",
    ]


def test_a_spreadsheet_calculates_nothing_and_numbers_stay_numbers():
    names = ["=1+1", "@sum", "\t=1", "-cmd|x", "+1", "-1.5", "a=b"]
    text = Table("t", ["=name"], [[name] for name in names]).csv()
    assert [row[0] for row in csv.reader(text.splitlines())] == [
        "'=name", "'=1+1", "'@sum", "'\t=1", "'-cmd|x", "+1", "-1.5", "a=b",
    ]  # fmt: skip
