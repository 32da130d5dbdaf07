"""The HTML page: complete, on its own, and safe with hostile names."""

import datetime
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from delira.experiments.result import KFoldResult
from delira.metrics import accuracy
from delira.report.page import confusion, duration

VOID = {"meta", "link", "br", "img", "hr", "input"}
LOADING = {"src", "href", "xlink:href", "data", "srcset", "action", "poster"}


class Page(HTMLParser):
    """Tags, attributes that load something, text, tables; refuses tags that are closed in the wrong order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.loads, self.texts, self.tables = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for name, value in attributes if name in LOADING]
        self.loads += [name for name, _ in attributes if name.startswith("on")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if "style" in self.open:
            return
        self.texts.append(text)
        if {"td", "th"} & set(self.open) and self.tables:
            self.tables[-1][-1][-1] += text.strip()

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def info():
    return {
        "started": "2026-11-21T09:30:00+01:00",
        "split_type": "stratified",
        "versions": {"delira": "1.0.0", "torch": "2.13.0"},
        "training": {"lr": 0.01, "losses": ["ce", "dice"]},
        "commit": None,
    }


@pytest.fixture
def page(data, validate, info):
    return Page(validate(data.labels, data.scores, info=info).to_html())


def test_the_page_stands_on_its_own(data, validate):
    html = validate(data.labels, data.scores).to_html()
    page = Page(html)
    assert "http://" not in html
    assert "https://" not in html
    assert "url(" not in re.sub(r"url\(#[^)]*\)", "", html)
    assert "@import" not in html
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(page.tags)
    assert all(target.startswith("#") for target in page.loads)
    assert html.startswith("<!DOCTYPE html>")
    assert "prefers-color-scheme: dark" in html


def test_the_header_tells_what_was_run(page):
    assert page.text.startswith(
        "toy Cross-validation toy Date 21 November 2026, 09:30 Splits 4, stratified Cases 90 Seed 7"
    )


def test_the_tables_hold_the_numbers_of_the_summary(page, data, validate):
    summary, folds, *_ = page.tables
    rows = validate(data.labels, data.scores).summary()
    assert [row[0] for row in summary] == ["Metric", "accuracy", "certainty"]
    low, high = rows["accuracy"]["ci_low"], rows["accuracy"]["ci_high"]
    mean, std, oof = (rows["accuracy"][name] for name in ("mean", "std", "oof"))
    assert summary[1][1:5] == [f"{mean:.4f} ± {std:.4f}", f"{oof:.4f}", f"[{low:.4f}, {high:.4f}]", "90"]
    assert folds[0] == [
        "Fold", "Train", "Validation", "Test", "Epochs", "Best epoch", "accuracy", "certainty", "Duration",
    ]  # fmt: skip
    assert folds[3][:6] == ["2", "66", "2", "22", "7", "5"]
    assert folds[3][-1] == "2 min 05 s"


def test_the_confusion_matrix_counts_out_of_fold_cases(page, data):
    matrix = page.tables[2]
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    expected = sklearn_metrics.confusion_matrix(data.labels, data.scores.argmax(1))
    assert [[int(cell) for cell in row[1:-1]] for row in matrix[2:]] == expected.tolist()
    recall = np.diag(expected) / expected.sum(1)
    assert [row[-1] for row in matrix[2:]] == [f"{share:.1%}" for share in recall]


def test_settings_and_versions_are_listed(page):
    assert page.tables[-1] == [["training.lr", "0.01"], ["training.losses", "ce, dice"], ["commit", "–"]]
    assert "Settings delira 1.0.0 torch 2.13.0 training.lr 0.01" in page.text


def test_learning_curves_are_drawn_in_the_colours_of_the_page(data, validate):
    html = validate(data.labels, data.scores).to_html()
    drawing = html[html.index('<figure class="curves">') : html.index("</figure>")]
    assert drawing.count("stroke: var(--training)") > 4
    assert drawing.count("stroke: var(--validation)") > 4
    assert "#0072b2" not in drawing
    assert "<metadata>" not in drawing
    assert "validation, mean" in drawing


def test_the_drawing_beside_a_metric_shows_folds_interval_and_value(data, validate):
    html = validate(data.labels, data.scores).to_html()
    strip = html[html.index('<td class="strip">') : html.index("</svg>")]
    assert strip.count('class="fold"') == 4
    assert strip.count('class="interval"') == strip.count('class="oof"') == 1
    places = [float(x) for x in re.findall(r'(?:cx|x1|x2)="([\d.]+)"', strip)]
    assert min(places) == 0
    assert max(places) == 220


HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>&amp;{{ 7 * 7 }}"


def test_hostile_names_are_text(data, validate):
    result = validate(
        data.labels,
        data.scores,
        metrics={HOSTILE: accuracy},
        name=HOSTILE,
        info={
            "class_names": [HOSTILE] * 3,
            "versions": {HOSTILE: HOSTILE},
            "split_type": HOSTILE,
            "date": HOSTILE,
            HOSTILE: {HOSTILE: HOSTILE},
        },
    )
    for fold in result.folds:
        fold.history = [{"epoch": e, HOSTILE: e, f"val_{HOSTILE}": e} for e in (1, 2)]
    html = result.to_html()
    page = Page(html)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert all(target.startswith("#") for target in page.loads)
    assert html.count("{{ 7 * 7 }}") > 8
    assert page.tables[0][1][0] == HOSTILE
    assert page.tables[2][2][0] == HOSTILE
    assert page.text.count(HOSTILE) > 12


def test_the_page_is_written_to_a_file(result, tmp_path):
    path = result.to_html(tmp_path / "report" / "kfold.html")
    assert path == tmp_path / "report" / "kfold.html"
    text = path.read_text(encoding="utf-8")
    assert "<h1>toy</h1>" in text
    assert [file.name for file in path.parent.iterdir()] == ["kfold.html"]


def test_a_page_with_a_date_is_the_same_to_the_byte(data, validate, info):
    first, second = (validate(data.labels, data.scores, info=info).to_html() for _ in range(2))
    assert first == second


def test_a_result_without_a_name_or_date_has_a_page(data, validate):
    page = Page(validate(data.labels, data.scores, name="", info={}).to_html())
    assert page.text.startswith("cross-validation Cross-validation cross-validation Date ")
    assert str(datetime.datetime.now().year) in page.text


@pytest.mark.slow
def test_groups_and_untested_cases_are_in_the_header(data, validate):
    whole = validate(data.labels, data.scores, groups=np.arange(90) // 2)
    assert "Cases 90 Groups 45" in Page(whole.to_html()).text
    part = KFoldResult(whole.folds[:1], 90, whole.metrics)
    assert "Splits 1 Cases 23 of 90" in Page(part.to_html()).text
    part.info["num_splits"] = 4
    assert "Splits 1 of 4 Cases 23 of 90" in Page(part.to_html()).text
    part.groups = whole.groups
    assert re.search(r"Groups \d+ of 45", Page(part.to_html()).text)


def test_folds_that_have_not_ended_are_named_below_the_curves(data, validate):
    whole = validate(data.labels, data.scores)
    assert "Not finished" not in whole.to_html()
    part = KFoldResult(whole.folds[:1], 90, whole.metrics, unfinished=whole.folds[1:2])
    n_epochs = len(whole.folds[1].history)
    assert f"Not finished, and not drawn: fold 1 after epoch {n_epochs}." in Page(part.to_html()).text
    begun = KFoldResult([], 90, whole.metrics, unfinished=whole.folds[1:2], problems=["it was killed"])
    assert f"Not finished: fold 1 after epoch {n_epochs}." in Page(begun.to_html()).text


def test_a_metric_that_is_nan_everywhere_has_no_drawing(data, validate):
    html = validate(data.labels, data.scores, metrics={"m": lambda t, p: float("nan")}).to_html()
    assert Page(html).tables[0][1] == ["m", "NaN in 4 folds", "nan", "–", "90", ""]
    assert 'class="fold"' not in html
    assert "m: no interval, it is NaN" in html


def test_missing_numbers_are_dashes(data, validate):
    result = validate(data.labels, data.scores)
    fold = result.folds[0]
    fold.val_indices, fold.best_epoch, fold.seconds, fold.history = None, None, float("nan"), []
    row = Page(result.to_html()).tables[1][1]
    assert [row[i] for i in (2, 4, 5, -1)] == ["–"] * 4


@pytest.mark.parametrize(
    ("labels", "scores"),
    [
        (np.zeros(8), np.zeros((8, 2))),  # labels that are no integers
        (np.zeros((8, 3), int), np.zeros((8, 4, 3))),  # pixels
        (np.arange(8), np.random.default_rng(0).normal(size=8)),  # a regression
        (np.arange(8) * 10, np.arange(8) * 10),  # more than 30 classes
        (np.arange(8) - 1, np.arange(8)),  # a negative label
        (np.arange(8), np.arange(8).astype(object)),
    ],
)
def test_what_is_no_classification_has_no_confusion_matrix(labels, scores, validate):
    result = validate(labels, scores, n_folds=2, metrics={"m": lambda t, p: 0.5})
    assert confusion(result) is None
    assert "Confusion" not in result.to_html()


def test_predicted_labels_have_a_confusion_matrix_too(validate):
    labels, predicted = np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2])
    result = validate(labels[:, None], predicted, n_folds=2, metrics={"m": lambda t, p: 0.5})
    rows = confusion(result)["rows"]
    assert [[count for count, _ in cells] for _, cells, _ in rows] == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]


def test_rows_are_true_classes_whatever_the_order_of_the_arguments(validate):
    labels, predicted = np.array([0, 1, 1, 1]), np.array([0, 0, 0, 1])
    result = validate(labels, predicted, n_folds=2, metrics={})
    for keys in ({"m": ("label", "pred")}, {"m": ("pred", "label")}):
        result.metrics, result.metric_keys = {"m": lambda t, p: 0.5}, keys
        assert [[count for count, _ in cells] for _, cells, _ in confusion(result)["rows"]] == [[1, 0], [2, 1]]


def test_a_class_that_never_occurs_has_no_recall(validate):
    result = validate(np.array([0, 1, 1, 0]), np.eye(3)[[0, 1, 1, 0]], n_folds=2, metrics={})
    assert confusion(result)["rows"][2] == ("2", [(0, 0.0)] * 3, "–")


def test_entries_that_were_not_kept_give_no_confusion_matrix(result):
    for fold in result.folds:
        fold.targets = {}
    assert confusion(result) is None


def test_the_confusion_matrix_follows_metric_keys(data, validate):
    result = validate(data.labels, data.scores)
    for fold in result.folds:
        fold.targets, fold.predictions = {"y": fold.targets["label"]}, {"out": {"logits": fold.predictions["pred"]}}
    result.metric_keys = {"accuracy": ("y", "out.logits"), "certainty": ("y", "out.logits")}
    assert sum(count for _, cells, _ in confusion(result)["rows"] for count, _ in cells) == 90


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (125, "2 min 05 s"), (4025, "1 h 07 min")],
)
def test_durations_are_readable(seconds, text):
    assert duration(seconds) == text


def test_the_page_says_that_the_splits_were_seeded_with_zero(kit, tmp_path, manager):
    result = kit.experiment(tmp_path).kfold(manager(), num_splits=2, num_epochs=1, shuffle=True, random_seed=0)
    assert "random_seed: 0" in result.info["settings"]
    assert "groups_key" not in result.info["settings"]
