"""The result of a cross-validation: historic dictionaries, summary, table."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn.metrics

from delira.cli.new import render
from delira.errors import ConfigError, DataError, MissingBackendError
from delira.experiments.result import FoldResult, KFoldResult
from delira.logging.handlers import draw
from delira.logging.messages import Message
from delira.metrics import MetricSet, SklearnF1Score, accuracy
from delira.report import bootstrap, mean_interval, page, score_interval
from delira.report.examples import data_uri
from delira.utils.pictures import picture_class


def fold(number, test, predictions=None, metrics=None, targets=None):
    return FoldResult(number, [], None, test, metrics or {}, predictions or {}, targets or {})


def test_the_result_unpacks_as_the_historic_dictionaries(result, data):
    outputs, metrics = result
    assert list(outputs) == list(metrics) == ["0", "1", "2", "3"]
    assert result[0] == outputs
    assert result[1] == metrics
    assert len(result) == 2
    np.testing.assert_array_equal(outputs["1"]["pred"], data.scores[1::4])
    hits = data.scores[1::4].argmax(1) == data.labels[1::4]
    assert metrics["1"]["accuracy"] == [hits.mean()]
    assert metrics["1"]["certainty"].shape == (22 + 1,)


def test_mean_and_standard_deviation_are_over_folds_and_the_rest_over_cases(result, data):
    row = result.summary()["accuracy"]
    hits = data.scores.argmax(1) == data.labels
    values = [hits[number::4].mean() for number in range(4)]
    assert row["mean"] == pytest.approx(np.mean(values))
    assert row["std"] == pytest.approx(np.std(values, ddof=1))
    assert row["oof"] == hits.mean()
    interval = score_interval(accuracy, [data.labels, data.scores], seed=7)
    assert (row["ci_low"], row["ci_high"]) == interval[:2]
    assert (row["n"], row["n_groups"], row["note"]) == (90, None, "")


def test_a_metric_over_samples_has_the_interval_of_its_mean(result, data):
    row = result.summary()["certainty"]
    values = data.scores[np.arange(90), data.labels].astype(float)
    assert row["oof"] == pytest.approx(values.mean())
    assert (row["ci_low"], row["ci_high"]) == mean_interval(values, seed=7)[:2]
    np.testing.assert_array_equal(result.oof.per_case["certainty"], values)


def test_a_function_that_is_no_mean_is_evaluated_over_all_cases(validate, data):
    metrics = {"f1": SklearnF1Score(average="macro")}
    row = validate(data.labels, data.scores, 2, metrics).summary()["f1"]
    assert row["oof"] == sklearn.metrics.f1_score(data.labels, data.scores.argmax(1), average="macro")
    assert row["oof"] != pytest.approx(row["mean"], abs=1e-6)
    assert row["pooled"]
    assert row["ci_low"] < row["mean"] < row["ci_high"]


def test_groups_widen_the_interval_and_are_counted(validate, data):
    order = np.argsort(data.scores.argmax(1) == data.labels)
    groups = np.empty(90, int)
    groups[order] = np.arange(90) // 9
    alone = validate(data.labels, data.scores).summary()["accuracy"]
    grouped = validate(data.labels, data.scores, groups=groups)
    row = grouped.summary()["accuracy"]
    assert row["oof"] == alone["oof"]
    assert row["ci_high"] - row["ci_low"] > 1.5 * (alone["ci_high"] - alone["ci_low"])
    assert (row["n"], row["n_groups"]) == (90, 10)
    assert "2,000 draws of the 10 groups of out-of-fold cases" in " ".join(grouped.table().split())
    assert "| groups " in grouped.table("markdown")


class Streaming:
    def __init__(self):
        self.reset()

    def reset(self):
        self.hits, self.n = 0, 0

    def update(self, y_true, y_pred):
        self.hits += (y_pred.argmax(1) == y_true).sum()
        self.n += len(y_true)

    def compute(self):
        return self.hits / self.n


class Uncopiable(Streaming):
    def __deepcopy__(self, memo):
        raise TypeError("holds a socket")


def test_streaming_objects_are_run_again_on_every_draw(validate, data):
    rows = validate(data.labels, data.scores, 2, {"function": accuracy, "object": Streaming()}).summary()
    same = ("mean", "std", "oof", "n")
    assert [rows["object"][key] for key in same] == [rows["function"][key] for key in same]
    assert rows["object"]["ci_low"] < rows["object"]["mean"] < rows["object"]["ci_high"]


def test_a_streaming_object_that_cannot_be_copied_has_no_interval(validate, data):
    row = validate(data.labels, data.scores, metrics={"m": Uncopiable()}).summary()["m"]
    assert np.isfinite(row["mean"])
    assert np.isnan(row["oof"])
    assert np.isnan(row["ci_low"])
    assert "holds a socket" in row["note"]


def test_without_the_functions_there_is_no_value_over_all_folds_but_values_per_case_remain(result):
    bare = KFoldResult(result.folds, 90, seed=7)
    rows = bare.summary()
    assert np.isnan(rows["accuracy"]["oof"])
    assert rows["accuracy"]["note"] == "the function that computed it is not known here"
    assert rows["certainty"] == result.summary()["certainty"]


def test_large_arrays_are_not_resampled(result, monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLING_LIMIT", 1000)
    result.metrics = {**result.metrics, "accuracy": lambda y_true, y_pred: accuracy(y_true, y_pred)}
    row = result.summary()["accuracy"]
    assert np.isfinite(row["oof"])
    assert np.isnan(row["ci_low"])
    assert "too large to be drawn 2,000 times" in row["note"]
    assert np.isfinite(result.summary()["certainty"]["ci_low"])


def test_what_is_known_by_case_is_drawn_at_any_size(result, monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLING_LIMIT", 0)
    assert np.isfinite(result.summary()["accuracy"]["ci_low"])


def test_entries_that_were_not_kept_are_named(result):
    for one in result.folds:
        one.targets = {}
    note = result.summary()["accuracy"]["note"]
    assert note.startswith("it could not be computed over all cases (MissingKeyError: there is no entry 'label'")


def test_entries_without_a_row_per_case_cannot_be_pooled(result):
    for one in result.folds:
        one.targets = {"label": one.targets["label"][:3]}
    assert "'label' does not have one row per case" in result.summary()["accuracy"]["note"]


def test_the_summary_is_computed_once_when_it_is_asked_for(data, validate):
    calls = []

    def counting(y_true, y_pred):
        calls.append(len(y_true))
        return 0.5

    result = validate(data.labels, data.scores, 2, {"m": counting})
    assert len(calls) == 2  # one per fold
    result.summary()["m"]["mean"] = "mine"
    assert len(calls) == 2 + 1 + 2 * 2000
    assert result.summary()["m"]["mean"] == 0.5
    result.table()
    assert len(calls) == 2 + 1 + 2 * 2000


def test_the_batch_wins_over_a_prediction_of_the_same_name_as_in_a_metric_set(data, validate):
    result = validate(data.labels, data.scores)
    for one in result.folds:
        one.predictions["label"] = np.zeros(len(one.test_indices), int)
    assert result.summary()["accuracy"]["oof"] == (data.scores.argmax(1) == data.labels).mean()


# ------------------------------------------------------------------ table


def test_the_table_reads_like_this(data, validate):
    labels = np.tile([0, 1], 8)
    scores = np.eye(2, dtype=np.float32)[np.where(np.arange(16) < 3, 1 - labels, labels)]
    text = str(validate(labels, scores, n_folds=2, metrics={"accuracy": accuracy}))
    assert text == "\n".join(
        [
            "toy: 2 folds, 16 cases, seed 7",
            "",
            "fold   accuracy",
            "---------------",
            "0        0.7500",
            "1        0.8750",
            "",
            "metric          mean ± std   out-of-fold      95 % interval    n",
            "----------------------------------------------------------------",
            "accuracy   0.8125 ± 0.0884        0.8125   [0.6250, 1.0000]   16",
            "",
            "Intervals: percentile bootstrap, 2,000 draws of the out-of-fold cases.",
        ]
    )


def test_ten_folds_and_five_metrics_fit_into_a_terminal(data, validate):
    names = ["accuracy", "balanced_accuracy", "certainty", "f1_macro", "hausdorff_95"]
    metrics = dict.fromkeys(names, accuracy)
    result = validate(data.labels, data.scores, n_folds=10, metrics=metrics)
    lines = result.table().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 12 + 1 + 7 + 2


def test_the_sentence_on_groups_fits_into_a_terminal(data, validate):
    text = str(validate(data.labels, data.scores, groups=np.arange(90) // 2))
    assert max(map(len, text.splitlines())) <= 80
    assert "2,000 draws of the 45 groups of out-of-fold cases." in " ".join(text.split())


def test_more_metrics_than_fit_go_on_below(data, validate):
    metrics = {f"a_rather_long_name_{number}": accuracy for number in range(6)}
    lines = validate(data.labels, data.scores, metrics=metrics).table().splitlines()
    assert [line.split() for line in lines if line.startswith("fold")] == [
        ["fold", *list(metrics)[:3]],
        ["fold", *list(metrics)[3:]],
    ]
    assert max(map(len, lines)) <= 80


def test_the_same_inputs_give_the_same_table_to_the_byte(data, validate):
    first, second = (validate(data.labels, data.scores) for _ in range(2))
    for fmt in ("plain", "markdown", "latex", "html"):
        assert first.table(fmt) == second.table(fmt)
    other = validate(data.labels, data.scores, seed=8)
    assert first.table() != other.table()


def test_one_fold_has_no_standard_deviation(data, validate):
    result = validate(data.labels, data.scores, n_folds=1)
    assert np.isnan(result.summary()["accuracy"]["std"])
    mean = result.summary()["accuracy"]["mean"]
    assert f"accuracy    {mean:.4f} ± –" in result.table()
    assert "1 fold, 90 cases" in str(result)


def test_nan_is_shown(data, validate):
    result = validate(data.labels, data.scores)
    result.folds[1].metrics["certainty"][0] = np.nan
    result.folds[2].metrics["accuracy"][:] = np.nan
    table = result.table()
    lines = {line.split()[0]: line.split() for line in table.splitlines() if line}
    assert lines["1"][2] == "nan"
    assert lines["2"][1] == "nan"
    assert lines["accuracy"][1:5] == ["NaN", "in", "fold", "2"]
    assert lines["certainty"][1:] == ["NaN", "in", "fold", "1", "nan", "–", "90"]
    assert "certainty: no interval, it is NaN in 1 of 90 cases" in table


@pytest.mark.parametrize(
    ("values", "shown"),
    [([0.98765, 0.5], "0.9877"), ([98.765, 5], "98.765"), ([1234.567, 1], "1234.6"), ([0.00012345], "1.234e-04")],
)
def test_decimals_follow_the_size_of_the_numbers(values, shown):
    folds = [fold(i, [i], metrics={"m": [value]}) for i, value in enumerate(values)]
    assert f"0  {shown:>7}".split() in [line.split() for line in KFoldResult(folds, 5).table().splitlines()]


def test_markdown_is_a_table_with_one_row_per_fold(result):
    lines = result.table("markdown").splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["fold", "accuracy", "certainty"]
    assert [row[0] for row in cells[2:]] == ["0", "1", "2", "3", "mean ± std", "out-of-fold [95 % CI]", "n"]
    assert cells[-1] == ["n", "90", "90"]


def test_latex_escapes_names(data, validate):
    result = validate(data.labels, data.scores, metrics={r"100%_of\$x^2": accuracy})
    text = result.table("latex")
    assert r"100\%\_of\textbackslash{}\$x\textasciicircum{}2" in text
    assert r"out-of-fold [95 \% CI]" in text
    assert text.startswith(r"\begin{tabular}{lr}")
    assert text.count(r"\\") == 1 + 4 + 3


def test_html_and_markdown_escape_names(data, validate):
    result = validate(data.labels, data.scores, metrics={"<b>|x*": accuracy}, name="<script>")
    assert "<th>&lt;b&gt;|x*</th>" in result.table("html")
    assert r"\<b>\|x\*" in result.table("markdown")
    assert result._repr_html_().startswith("<p><strong>&lt;script&gt;: 4 folds")


def test_an_unknown_format_is_refused_with_a_guess(result):
    with pytest.raises(ConfigError, match="there is no table format 'latec'; did you mean 'latex'"):
        result.table("latec")


def test_no_metrics_is_said(validate, data):
    result = validate(data.labels, data.scores, metrics={})
    assert result.summary() == {}
    assert "no metrics were computed" in str(result)
    assert "<h1>toy</h1>" in result.to_html()


def test_the_data_frame_has_a_row_per_fold(result):
    pandas = pytest.importorskip("pandas")
    frame = result.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["accuracy", "certainty"]
    assert frame.index.tolist() == [0, 1, 2, 3]
    assert frame.index.name == "fold"
    assert frame.loc[2, "accuracy"] == result.folds[2].metrics["accuracy"][0]
    assert frame["accuracy"].std() == pytest.approx(result.summary()["accuracy"]["std"])


def test_a_missing_pandas_says_how_to_get_it(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingBackendError, match=r"needs the package 'pandas'.*pip install pandas"):
        result.to_dataframe()


@pytest.mark.parametrize(
    ("module", "install", "show"),
    [
        ("matplotlib.figure", "matplotlib", KFoldResult.plot),
        ("matplotlib.figure", "matplotlib", lambda result: draw(Message("line", "loss", [1.0, 2.0]))),
        ("jinja2", "jinja2", KFoldResult.to_html),
        ("jinja2", "jinja2", lambda result: render("ears", "sklearn", "classification")),
        ("PIL.Image", "pillow", lambda result: data_uri(np.zeros((2, 2), np.uint8))),
    ],
)
def test_a_package_of_the_core_that_pip_was_told_to_leave_out_says_how_to_get_it(
    result, monkeypatch, module, install, show
):
    for cached in (picture_class, page.template):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingBackendError, match=rf"needs the package '{module}'.*pip install '{install}'"):
        show(result)


# ------------------------------------------------------------------ construction


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: KFoldResult([], 3), ConfigError, "at least one fold"),
        (lambda: KFoldResult([fold(1, [0]), fold(1, [1])], 3), ConfigError, r"different numbers, got \[1, 1\]"),
        (lambda: KFoldResult([fold(0, [3])], 3), DataError, "fold 0 tested indices outside of 0 to 2"),
        (lambda: KFoldResult([fold(0, [0])], 3, groups=[1, 2]), ConfigError, "groups has 2 entries for n_samples=3"),
        (
            lambda: KFoldResult([fold(0, [0], metrics={"a": [1]}), fold(1, [1])], 3),
            DataError,
            r"fold 1 has the metrics \[\], the first has \['a'\]",
        ),
    ],
)
def test_folds_that_do_not_belong_together_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_representations_are_short(result):
    assert repr(result) == "KFoldResult('toy', 4 folds, metrics=['accuracy', 'certainty'])"
    assert repr(result.folds[0]).startswith("FoldResult(0, train/val/test=65/2/23, accuracy=0.")
    assert repr(result.oof) == "OutOfFold(90 of 90 cases, ['pred'])"


def test_a_result_can_be_stored_and_copied(result):
    text = str(result)
    assert str(copy.deepcopy(result)) == text
    assert str(pickle.loads(pickle.dumps(KFoldResult(result.folds, 90, seed=7)))).startswith("4 folds, 90 cases")


def test_the_result_equals_a_metric_set_over_everything(result, data):
    metrics = MetricSet(result.metrics)
    metrics.update({"label": data.labels, "pred": data.scores})
    assert result.summary()["accuracy"]["oof"] == metrics.compute()["accuracy"][0]


def test_importing_reports_imports_neither_matplotlib_nor_jinja():
    code = (
        "import sys, delira.report; "
        "print([m for m in ('matplotlib', 'jinja2', 'pandas', 'sklearn', 'torch') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
