"""Runs side by side: the same numbers as on their own pages, and plain words about what cannot be compared."""

import numpy as np
import pytest
from test_report_page import HOSTILE, Page

from delira.errors import ConfigError
from delira.metrics import accuracy
from delira.report import Section, Table, runs_page
from delira.report.page import RUN_COLOURS, compared_settings, overlaid_curves, run_names


@pytest.fixture
def make(validate, data):
    def build(name, lr=0.1, **settings):
        text = f"training:\n  optimizer_params: {{lr: {lr}}}\n  num_epochs: 5"
        return validate(data.labels, data.scores, **{"name": name, "info": {"settings": text}, **settings})

    return build


def test_numbers_are_those_of_each_result(make):
    first, second = make("wide"), make("deep", n_folds=3)
    page = Page(runs_page([first, second]))
    rows = {tuple(row[:1]): row for row in page.tables[1][1:]}
    assert rows[("wide",)][2] == f"{first.summary()['certainty']['oof']:.4f}"
    metrics = [row[0] for row in page.tables[1]]
    assert metrics == ["Metric", "accuracy", "wide", "deep", "certainty", "wide", "deep"]


def test_the_same_folds_are_said_to_be_the_same_and_shown_in_a_row(make):
    page = Page(runs_page([make("wide"), make("deep")]))
    assert "All runs were tested on the same cases in the same folds" in page.text
    folds = next(table for table in page.tables if table[0][0] == "accuracy, fold")
    assert folds[0] == ["accuracy, fold", "wide", "deep"]
    assert len(folds) == 5


@pytest.mark.slow
def test_different_folds_are_said_to_differ_and_are_not_put_in_a_row(make):
    page = Page(runs_page([make("wide"), make("deep", n_folds=3), make("high")]))
    assert "The folds are not all the same" in page.text
    assert "compared fold by fold: wide, high." in page.text
    assert not any(table[0][0] == "accuracy, fold" for table in page.tables)


def test_runs_of_which_no_two_have_the_same_folds_are_not_called_groups(make):
    page = Page(runs_page([make("wide"), make("deep", n_folds=3)]))
    assert "no two of these runs can be compared fold by fold." in page.text


def test_an_out_of_fold_value_that_nobody_can_compute_is_a_dash_with_its_reason(make):
    lost = make("lost")
    lost.metrics = {}
    page = Page(runs_page([make("wide"), lost]))
    row = next(row for row in page.tables[1] if row[0] == "lost")
    assert row[2:4] == ["–", "–"]
    assert "lost, accuracy: no out-of-fold value and no interval, the function that computed it is not" in page.text
    assert "accuracy: no out-of-fold value and no interval" in lost.table()


def test_settings_that_differ_stand_before_the_common_ones(make):
    differing, common = compared_settings([make("wide"), make("deep", lr=0.3)])
    assert differing == [("optimizer_params.lr", ["0.1", "0.3"])] or differing == [
        ("training.optimizer_params.lr", ["0.1", "0.3"])
    ]
    assert ("training.num_epochs", "5") in common
    text = Page(runs_page([make("wide"), make("deep", lr=0.3)])).text
    assert text.index("training.optimizer_params.lr") < text.index("2 settings that are the same")
    assert "No setting differs." in Page(runs_page([make("wide"), make("deep")])).text


def test_curves_are_means_over_folds_one_colour_for_each_run(make):
    figures = overlaid_curves([make("wide"), make("deep")])
    assert list(figures) == ["ce", "accuracy"]
    (axes,) = figures["ce"].axes
    assert [line.get_color() for line in axes.lines] == list(RUN_COLOURS[:2])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 1.2 - 0.1 * np.arange(1, 6) + 0.015)


def test_runs_of_one_name_are_told_apart(make, tmp_path):
    first, second = make("a"), make("a")
    assert run_names([first, second]) == ["a (1)", "a (2)"]
    first.path, second.path = tmp_path / "2026-01-01", tmp_path / "2026-01-02"
    assert run_names([first, second]) == ["a 2026-01-01", "a 2026-01-02"]


def test_warnings_say_which_run_they_are_about(make):
    bad = make("bad")
    bad.folds[1].history[2]["ce"] = float("nan")
    assert (
        "bad : Fold 1: ce is not finite in 1 of 6 epochs, first in epoch 3" in Page(runs_page([make("good"), bad])).text
    )


def test_a_metric_that_one_run_lacks_is_shown_for_the_others(make):
    page = Page(runs_page([make("wide"), make("deep", metrics={"accuracy": accuracy})]))
    assert [row[0] for row in page.tables[1]] == ["Metric", "accuracy", "wide", "deep", "certainty", "wide"]


def test_every_phase_that_took_time_has_a_column_so_that_they_add_up_to_the_sum(make):
    first, second = make("wide"), make("deep")
    first.folds[0].timings = {"version": 1, "seconds": {"other": 4.0, "step": 2.0, "upload": 3.0, "test": 0.0}}
    second.folds[0].timings = {"version": 1, "seconds": {"step": 1.0}}
    table = next(table for table in Page(runs_page([first, second])).tables if table[0][-1] == "Sum")
    assert table == [
        ["Run", "step", "other", "upload", "Sum"],
        ["wide", "2.00 s", "4.0 s", "3.0 s", "9.00 s"],
        ["deep", "1.00 s", "–", "–", "1.00 s"],
    ]


def test_there_is_a_place_for_statistics(make):
    pair = [make("wide"), make("deep")]
    assert "Wilcoxon" not in runs_page(pair)
    tests = Section("Tests", {}, [Table("tests", ["Pair", "p"], [["wide, deep", 0.03]])], ["Wilcoxon, signed ranks."])
    page = Page(runs_page(pair, statistics=[tests]))
    assert [["Pair", "p"], ["wide, deep", "0.03000"]] in page.tables
    assert page.text.index("Tests") < page.text.index("Learning curves")


def test_hostile_names_are_text(make):
    html = runs_page([make(HOSTILE, lr=f"'{HOSTILE[:8]}'"), make("b")])
    page = Page(html)
    assert not {"script", "img"} & set(page.tags)
    assert all(target.startswith("#") for target in page.loads)
    assert page.text.count(HOSTILE) > 4


def test_the_page_of_many_runs_is_written_to_a_file(make, tmp_path):
    path = runs_page([make(f"run {number}") for number in range(10)], tmp_path / "new" / "runs.html")
    assert path == tmp_path / "new" / "runs.html"
    assert Page(path.read_text("utf-8")).text.count("run 9") > 3


def test_one_run_alone_has_a_page_and_none_has_not(make):
    text = Page(runs_page([make("alone")])).text
    assert "fold by fold" not in text
    with pytest.raises(ConfigError, match="at least one result"):
        runs_page([])


def test_settings_that_are_no_yaml_are_compared_as_they_are(make):
    first, second = make("a", info={"settings": "a: [1"}), make("b", info={"settings": "a: [2"})
    assert compared_settings([first, second])[0] == [("settings", ["a: [1", "a: [2"])]
