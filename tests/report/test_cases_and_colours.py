"""Cases by name, classes and runs in one colour each, tables that are ordered by any metric, bands that end."""

import re

import numpy as np
import pytest
from test_report_page import HOSTILE, Page
from test_samples_shown import Counting

from delira.metrics import DicePerClass, HausdorffPerClass
from delira.report import runs_page
from delira.report.examples import (
    CLASS_COLOURS,
    choose_examples,
    class_colour,
    drawn_pictures,
    labelled,
    write_examples,
)
from delira.report.page import RUN_COLOURS, overlaid_curves
from delira.report.plots import curve_panels
from delira.report.shown_cases import MAX_ROWS, shown_cases

ORGANS = ["background", "liver", "tumour"]
N = 12
NAMES = [f"patient {number:02d}" for number in range(N)]


@pytest.fixture
def volumes(validate, tmp_path):
    """A result of volumes with two organs; the liver of case i is missed in i rows."""
    true = np.zeros((N, 9, 16, 16), np.int64)
    true[:, 4, 2:14, 2:10] = 1
    true[:, 4, 4:7, 11:14] = 2
    pred = true.copy()
    for case in range(N):
        pred[case, 4, 2 : 2 + case, 2:10] = 0
    scores = np.moveaxis(np.eye(3, dtype=np.float32)[pred], -1, 1)
    metrics = {"dice": DicePerClass(ORGANS), "hd95": HausdorffPerClass(ORGANS, spacing=1.0, missing=20.0)}

    def build(**settings):
        result = validate(true, scores, n_folds=2, metrics=metrics, **settings)
        write_examples(tmp_path, choose_examples(result, Counting(data=true[:, None].astype(float))))
        result.path = tmp_path
        return result

    return build


def test_pictures_say_which_slice_of_which_case(volumes):
    html = volumes(case_names=NAMES).to_html()
    assert html.count("slice 4 of 9") == N
    assert f'alt="{NAMES[-1]}, true classes"' in html
    assert f'alt="{NAMES[-1]}, predicted classes"' in html
    assert "slices are counted from 0" in Page(html).text


def test_without_names_a_case_has_its_number_and_hostile_names_are_text(volumes):
    assert 'alt="case 11, true classes"' in volumes().to_html()
    page = Page(volumes(case_names=[HOSTILE, *NAMES[1:]]).to_html())
    assert "script" not in page.tags
    assert HOSTILE in page.text


def test_each_class_has_its_colour_and_its_name_in_the_legend(volumes):
    html = volumes().to_html()
    legend = re.findall(r'class="class" style="background: (#\w{6})"></i>([^<]+)<', html)
    assert legend == [("#e69f00", "liver"), ("#56b4e9", "tumour")]
    named = volumes(info={"class_names": ["air", "left", "right"]}).to_html()
    assert [name for _, name in re.findall(r'class="class" style="background: (#\w{6})"></i>([^<]+)<', named)] == [
        "left", "right",
    ]  # fmt: skip


def test_true_and_predicted_classes_are_drawn_alike_and_the_background_is_left_alone(volumes):
    best = next(example for example in volumes().examples.examples if example.case == 0)  # it is without a mistake
    drawn = drawn_pictures(best, by_class=True)
    np.testing.assert_array_equal(drawn["true"], drawn["predicted"])
    image = np.full((160, 160), 100, np.uint8)
    mask = np.zeros((160, 160), np.uint8)
    mask[:40], mask[100:] = 1, 2
    pixels = labelled(image, mask)
    assert pixels[70, 80].tolist() == [100, 100, 100]
    assert [pixels[39, 80].tolist(), pixels[100, 80].tolist()] == [list(CLASS_COLOURS[0]), list(CLASS_COLOURS[1])]


def test_twenty_one_classes_have_colours_of_their_own():
    assert len({class_colour(label) for label in range(1, 22)}) == 21


def test_cases_are_ordered_by_any_metric_the_worst_first(volumes):
    result = volumes(case_names=NAMES)
    found = shown_cases(result)
    assert found["metrics"] == ["dice", "dice.liver", "dice.tumour", "hd95", "hd95.liver", "hd95.tumour"]
    for number, name in enumerate(found["metrics"]):
        values = result.cases[name][np.argsort([row["places"][number] for row in found["rows"]])]
        steps = np.diff(values)
        assert (steps >= 0 if name.startswith("dice") else steps <= 0).all()
    html = result.to_html()
    page = Page(html)
    table = next(table for table in page.tables if table[0][0] == "Case")
    assert [row[0] for row in table[1:]] == NAMES
    for number, name in enumerate(found["metrics"]):  # the column that orders is the bold one
        chosen = re.search(rf"#by-{number}:checked\) tr :nth-child\((\d+)\) {{[^}}]*font-weight: 600", html)
        assert table[0][int(chosen[1]) - 1] == name
    assert page.tags.count("input") == 6


def test_of_many_cases_the_worst_by_each_metric_are_listed(validate):
    labels = np.arange(900) % 3
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 900).astype(np.float32)
    result = validate(labels, scores)
    found = shown_cases(result)
    worst = np.sort(np.argsort(result.cases["certainty"], kind="stable")[:MAX_ROWS])
    assert [row["name"] for row in found["rows"]] == [f"case {index}" for index in worst]
    assert found["notes"] == ["Of 900 tests of a case, the worst by each metric."]


def test_without_metrics_over_samples_there_is_no_table_of_cases(validate, data):
    assert shown_cases(validate(data.labels, data.scores, metrics={"m": lambda t, p: 0.5})) is None


def test_bands_of_scores_end_at_one_on_both_pages(validate, data):
    result = validate(data.labels, data.scores)
    for fold, values in zip(result.folds, ([1.0, 1.0], [0.2, 1.0], [1.0, 0.7], [1.0, 0.0]), strict=True):
        fold.history = [{"epoch": k + 1, "val_accuracy": value} for k, value in enumerate(values)]
    for panels in (curve_panels(result.folds), overlaid_curves([result])):
        (axes,) = panels["accuracy"].axes
        ends = axes.collections[0].get_paths()[0].vertices[:, 1]
        assert (ends.min(), ends.max()) == (pytest.approx(0.0, abs=0.3), 1.0)
        assert ends.min() >= 0


def test_a_run_has_one_colour_in_tables_strips_legend_and_warnings(validate, data):
    runs = [validate(data.labels, data.scores, name=f"run {number}") for number in range(10)]
    html = runs_page(runs)
    for number, run in enumerate(runs):
        marks = {*re.findall(rf'<i class="dot ([\w ]+)"></i>\s*(?:<strong>)?{run.name}<', html)}
        marks |= {*re.findall(rf'<i class="((?!dot)[\w ]+)"></i>{run.name}<', html)}
        assert marks == {f"run{number % len(RUN_COLOURS)}{' again' if number >= len(RUN_COLOURS) else ''}"}
    assert html.count('class="strip run3"') == 2
    table = html[html.index("accuracy, fold") :]
    assert table.count('class="dot run3"') >= 1
    rules = dict(re.findall(r"\.run(\d) \{ color: ([^;]+);", html))
    assert [rules[str(number)] for number in range(2, 8)] == list(RUN_COLOURS[2:])
    assert len(set(RUN_COLOURS)) == len(RUN_COLOURS)
