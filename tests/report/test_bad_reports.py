"""Results that lack something have a page all the same, which says what is missing."""

import json

import numpy as np
import pytest

from delira.experiments.result import FoldResult, KFoldResult
from delira.metrics import accuracy
from delira.report import runs_page
from delira.report.summary import caveats

HISTORY = [{"epoch": 1, "ce": 2.0}, {"epoch": 2, "ce": float("nan")}]


def fold(number=0, **more):
    return FoldResult(fold=number, train_indices=np.arange(4), val_indices=None, test_indices=np.empty(0, int), **more)


@pytest.fixture
def run(tmp_path):
    """The folder of a run that was interrupted twice and continued."""
    events = [
        {"event": "started"},
        {"event": "broken_off", "error": "KeyboardInterrupt: "},
        {"event": "resumed"},
        {"event": "broken_off", "error": "OSError: no <space>"},
        {"event": "resumed", "changes": ["training.lr: 0.1, now 0.2"]},
        {"event": "finished"},
    ]
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps({"time": "", **event}) + "\n" for event in events))
    (tmp_path / "manifest.json").write_text(json.dumps({"fingerprint": {"data": "ab" * 32, "splits": "cd" * 32}}))
    return tmp_path


def test_no_finished_fold_shows_what_there_is(tmp_path):
    result = KFoldResult(
        [], 10, path=tmp_path, unfinished=[fold(history=HISTORY[:1])], problems=["The run is broken off."]
    )
    html = result.to_html()
    assert "The run is broken off." in html
    assert "<h2>Learning curves</h2>" in html
    assert "<h2>Folds</h2>" not in html
    assert [path.name for path in result.export(tmp_path / "paper", ("csv", "tex", "svg"))] == [
        "history.csv",
        "learning_curves.svg",
    ]
    assert "The run is broken off." in runs_page([result])


def test_nothing_at_all_shows_the_problems():
    assert "no folds here" in KFoldResult([], 0, problems=["no folds here"]).to_html()


def test_a_single_training_is_called_one(tmp_path):
    html = KFoldResult([fold(history=HISTORY)], 0, name="gan", path=tmp_path).to_html()
    assert '<p class="kind">Training</p>' in html
    assert "<dt>Splits</dt>" not in html
    assert "<h2>Folds</h2>" not in html
    assert "<dt>Epochs</dt><dd>2</dd>" in html
    assert '<th scope="row">ce</th><td class="number">–</td>' in html
    assert "<h2>Summary</h2>" not in html
    assert "<dt>Cases</dt>" not in html


def test_the_title_of_a_single_training_speaks_of_no_folds_and_of_cases_only_if_there_are(validate, data):
    trained = KFoldResult([fold(history=HISTORY)], 0, name="gan", kind="run")
    assert trained.title == "gan: a single training, 2 epochs, seed 0"
    assert str(trained).startswith(trained.title)
    assert caveats(trained) == ["ce is not finite in 1 of 2 epochs, first in epoch 2"]
    begun = KFoldResult([], 0, unfinished=[fold(history=HISTORY[:1])], problems=["It runs."], kind="run")
    assert begun.title == "a single training, 1 epoch, seed 0"
    html = begun.to_html()
    assert '<p class="kind">Training</p>\n<h1>training</h1>' in html
    assert "<dt>Epochs</dt><dd>1</dd>" in html
    assert "<dt>Splits</dt>" not in html
    (tested,) = validate(data.labels, data.scores, n_folds=1, metrics={}).folds
    predicted = KFoldResult([tested], 90, kind="run")
    assert predicted.title == "a single training, 5 epochs, 90 cases, seed 0"
    assert "<dt>Cases</dt><dd>90</dd>" in predicted.to_html()
    assert '<td class="number">–</td><td class="number">–</td><td class="number">0</td>' in runs_page([trained])


def test_a_training_of_which_nothing_is_left_has_a_page():
    assert '<p class="kind">Training</p>' in KFoldResult([], 0, problems=["no epochs"], kind="run").to_html()


def test_values_that_are_not_finite_are_told(validate, data):
    result = validate(data.labels, data.scores, metrics={"accuracy": accuracy})
    result.folds[1].history[2]["ce"] = float("inf")
    result.folds[2].metrics["accuracy"] = np.array([np.nan])
    assert caveats(result) == [
        "Fold 1: ce is not finite in 1 of 6 epochs, first in epoch 3",
        "accuracy is not finite in fold 2, so its mean and spread are no numbers",
    ]
    assert "accuracy is not finite in fold 2" in result.to_html()


def test_many_such_values_are_counted(validate, data):
    result = validate(data.labels, data.scores, n_folds=20, metrics={})
    for one in result.folds:
        one.history[0]["ce"] = float("nan")
    assert caveats(result)[-1] == "and 10 more of this kind"


def test_interruptions_are_read_from_the_ledger(result, run):
    result.path = run
    assert caveats(result) == [
        "The run was interrupted and continued 2 times (broken off by KeyboardInterrupt; OSError: no <space>).",
        "It was continued with changes: training.lr: 0.1, now 0.2",
    ]
    html = result.to_html()
    assert "OSError: no &lt;space&gt;" in html
    assert "data fingerprint</th><td>" + ("ab" * 8) + "</td>" in html


def test_a_ledger_that_cannot_be_read_is_nothing(result, tmp_path):
    (tmp_path / "ledger.jsonl").write_bytes(b"\xff\x00{")
    (tmp_path / "manifest.json").write_bytes(b"[1]")
    result.path = tmp_path
    assert caveats(result) == []
    assert "fingerprint" not in result.to_html()


def test_predictions_that_were_not_kept_leave_their_sections_out(result, tmp_path):
    for one in result.folds:
        one.predictions, one.targets = {}, {}
    html = result.to_html()
    assert "<h2>Summary</h2>" in html
    assert "<h2>Classes</h2>" not in html


@pytest.mark.slow
def test_metrics_that_are_not_known_here_leave_the_predictions_shown(validate, data):
    result = validate(data.labels, data.scores)
    stored = KFoldResult(result.folds, 90, metrics=None, metric_keys={"accuracy": ("label", "pred")})
    assert "<h2>Classes</h2>" in stored.to_html()
    stored = KFoldResult(result.folds, 90, metrics={}, metric_keys={"accuracy": ("label", "pred")})
    assert "<h2>Classes</h2>" in stored.to_html()


def test_an_epoch_without_a_value_is_a_dash_in_a_training():
    history = [{"epoch": 1, "ce": None, "val_ce": 1.0}, {"epoch": 2, "ce": 0.5, "val_ce": 2.0}]
    html = KFoldResult([fold(history=history, best_epoch=1)], 0).to_html()
    assert "<h2>Values</h2>" in html


def test_versions_that_are_no_table_are_left_out():
    assert "<html" in KFoldResult([fold(history=HISTORY)], 0, info={"versions": True}).to_html()
