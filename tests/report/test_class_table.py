"""The table of the classes: its numbers, their count, its forms, and where it is shown."""

import csv

import numpy as np
import pytest
from small_results import cross_validate

from delira.errors import ConfigError
from delira.metrics import DicePerClass, HausdorffPerClass
from delira.report import class_table, fold_table, mean_interval, runs_page
from delira.report.class_table import class_section, has_classes, rows_of_classes

ORGANS = ["background", "liver & bile", "tumour"]
N = 20


@pytest.fixture(scope="module")
def arrays():
    generator = np.random.default_rng(0)
    true = np.zeros((N, 8, 9), int)
    true[:, 1:5, 1:6] = 1
    true[::2, 5:, 5:] = 2
    scores = np.moveaxis(np.eye(3)[true], -1, 1) + generator.normal(0, 0.5, (N, 3, 8, 9))
    return true, scores


@pytest.fixture(scope="module")
def segmented(arrays):
    metrics = {"dice": DicePerClass(ORGANS), "hd95": HausdorffPerClass(ORGANS, missing=12.0)}
    return cross_validate(*arrays, metrics=metrics)


def test_rows_are_means_over_the_cases_that_have_a_value(segmented, arrays):
    values = np.array([DicePerClass(3).values(*case) for case in zip(*arrays, strict=True)])
    found = rows_of_classes(segmented)
    assert {name: [*rows] for name, rows in found.items()} == {
        "dice": ["liver & bile", "tumour", "all classes"],
        "hd95": ["liver & bile", "tumour", "all classes"],
    }
    tumour = found["dice"]["tumour"]
    kept = values[~np.isnan(values[:, 1]), 1]
    assert tumour["oof"] == pytest.approx(kept.mean())
    assert tumour["n"] == len(kept) == 10
    assert (tumour["ci_low"], tumour["ci_high"]) == mean_interval(kept, seed=7)[:2]
    assert found["dice"]["all classes"]["oof"] == pytest.approx(np.nanmean(values, axis=1).mean())
    assert found["dice"]["all classes"]["n"] == N


def test_a_fold_without_the_class_is_named_and_does_not_hide_the_others(segmented):
    row = segmented.summary()["dice.tumour"]
    # every second case has a tumour, and case i is tested in fold i % 4
    assert row["undefined"] == "not defined in folds 1, 3: no case has a value; mean and SD are over 2 of 4 folds"
    assert row["n_folds"] == 2
    assert np.isfinite([row["mean"], row["std"], row["oof"], row["ci_low"]]).all()
    assert "dice.tumour is not defined in folds 1, 3: no case has a value; mean and SD" in " ".join(segmented.warnings)


def test_the_table_of_the_folds_leaves_single_classes_to_that_of_the_classes(segmented):
    text = str(segmented)
    assert "dice.tumour" not in fold_table(segmented)
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("liver", "tumour", "all"))] == [
        "liver", "tumour", "all",
    ]  # fmt: skip
    assert max(map(len, class_table(segmented).splitlines())) <= 80
    assert "Means over the n out-of-fold cases that have a value" in text
    assert "tumour" in segmented._repr_html_()


def test_every_form_has_every_class_and_is_escaped(segmented):
    assert "| liver & bile | " in segmented.class_table("markdown")
    assert r"liver \& bile & 0." in segmented.class_table("latex")
    assert "<th>liver &amp; bile</th><td>0." in segmented.class_table("html")
    assert segmented.class_table("html").count("<tr") == 4
    with pytest.raises(ConfigError, match="there is no table format 'mardown'; did you mean 'markdown'"):
        segmented.class_table("mardown")


def test_a_result_without_such_metrics_has_no_table(result):
    assert class_table(result).startswith("there are no metrics per class")
    assert class_section(result) is None
    assert not has_classes(result)


def test_the_page_and_the_page_of_runs_show_each_class(segmented):
    page = segmented.to_html()
    assert page.count("<h2>Each class</h2>") == 1
    section = page[page.index("<h2>Each class</h2>") :]
    assert section.index("liver &amp; bile") < section.index("tumour") < section.index("all classes")
    assert "dice.tumour</th>" not in page[: page.index("<h2>Cases</h2>")]
    assert "dice.tumour" in runs_page([segmented, segmented])


def test_the_files_of_an_export_have_all_digits(segmented, tmp_path):
    names = {path.name for path in segmented.export(tmp_path, formats=("csv", "tex"))}
    assert {"per_class.csv", "per_class.tex", "cases.csv", "summary.csv"} <= names
    with open(tmp_path / "per_class.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Class"] for row in rows[:3]] == ["liver & bile", "tumour", "all classes"]
    assert float(rows[1]["Mean"]) == segmented.summary()["dice.tumour"]["oof"]
    assert rows[1]["n"] == "10"
    assert (tmp_path / "per_class.tex").read_text() == segmented.class_table("latex") + "\n"


def test_a_class_that_no_case_has_is_a_dash_with_a_reason(arrays):
    true, scores = arrays
    result = cross_validate(np.minimum(true, 1), scores, metrics={"dice": DicePerClass(ORGANS)})
    row = result.summary()["dice.tumour"]
    assert (row["n"], row["note"], row["n_folds"]) == (0, "no case has a value", 0)
    assert np.isnan(row["oof"])
    text = class_table(result)
    assert text.splitlines()[3].split() == ["tumour", "–", "–", "0"]
    assert "No interval of dice of tumour: no case has a value." in text


def test_repeats_have_one_mean_each(arrays):
    true, scores = arrays
    metrics = {"dice": DicePerClass(ORGANS)}
    once = cross_validate(true, scores, metrics=metrics)
    again = cross_validate(true, scores + np.random.default_rng(1).normal(0, 0.5, scores.shape), metrics=metrics)
    for number, fold in enumerate(again.folds):
        fold.fold = 4 + number
    result = type(once)([*once.folds, *again.folds], N, once.metrics, seed=7)
    both = [one.summary()["dice.tumour"]["oof"] for one in (once, again)]
    row = result.summary()["dice.tumour"]
    assert row["oof"] == pytest.approx(np.mean(both))
    assert (row["n"], row["n_rounds"]) == (10, 2)
    assert row["ci_low"] < row["oof"] < row["ci_high"]
