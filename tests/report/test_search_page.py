"""The page of a search says how it was made, and what each score is a score of."""

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit
from test_report_page import Page

from delira.data_loading import BaseDataManager
from delira.experiments.parameters import Parameters
from delira.runs.environment import versions
from delira.search import Float, Int, SearchResult

pytest.importorskip("optuna")


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def search(path, **asked):
    kit = toy_kit()
    training = {**kit.settings, "num_epochs": 3, "val_metrics": {"rmse": rmse}}
    spaces = {"training": {"optimizer_params": {"lr": Float(1e-3, 0.3, log=True)}, "num_epochs": Int(2, 3)}}
    params = Parameters({"model": {"n_features": 3}, "training": training}, spaces)
    experiment = kit.experiment_cls(params, kit.network, save_path=path, val_score_key="rmse", val_score_mode="min")
    data = BaseDataManager(linear_problem(24, 3, 7), 4)
    return experiment.tune(data, **{"n_trials": 3, "num_splits": 3, "random_seed": 5, "sampler": "random", **asked})


def facts(page):
    """Everything that the page says, in words apart by one space."""
    return " ".join(page.text.split())


def test_the_page_says_how_the_search_was_made(tmp_path):
    found = search(tmp_path, split_type="random", shuffle=True, num_splits=5, pruner="wilcoxon", val_split=0.25)
    for result in (found, SearchResult.load(tmp_path)):
        page = Page(result.to_html())
        text = facts(page)
        for said in (
            "Sampler random",
            "Pruner wilcoxon",
            "Splits 5, random, 0.25 of each training part for validation",
            "Cases 24",
            "Seed 5",
        ):
            assert said in text
        for name, version in versions().items():
            assert f"{name} {version}" in text
        rows = dict(page.tables[-1])
        assert {"platform", "command", "n_trials", "data fingerprint", "splits fingerprint"} <= {*rows}
        assert "lr: {$space: Float, low: 0.001, high: 0.3, log: true}" in rows["settings"]
        assert "num_epochs: {$space: Int, low: 2, high: 3}" in rows["settings"]
        assert "tune:\n  num_splits: 5\n" in rows["settings"]
        assert "split_type: random" in rows["settings"]


def test_a_part_that_is_held_out_is_no_split_in_folds(tmp_path):
    text = facts(Page(search(tmp_path, num_splits=None, val_split=0.25, n_trials=1).to_html()))
    assert "Splits 0.25 of the data held out" in text
    assert "Pruner none" in text


def test_objects_of_optuna_are_named_by_their_class(tmp_path):
    from optuna.pruners import MedianPruner

    text = facts(Page(search(tmp_path, pruner=MedianPruner(n_startup_trials=2), n_trials=3).to_html()))
    assert "Pruner MedianPruner" in text


def test_a_search_whose_folder_is_gone_has_a_page_without_settings(tmp_path):
    found = search(tmp_path / "run", n_trials=1)
    lost = SearchResult(
        trials=found.trials, metrics=found.metrics, are_maximised=found.are_maximised, path=tmp_path / "gone"
    )
    assert lost.info == {}
    text = facts(Page(lost.to_html()))
    assert "Sampler" not in text
    assert "Settings" not in text


# ------------------------------------------------------------------ what a score is of


@pytest.fixture(params=["between epochs", "between folds"])
def pruned(request, tmp_path):
    """A search with trials that were given up, and what their scores are of."""
    is_of_epochs = request.param == "between epochs"
    asked = {"pruner": "median"} if is_of_epochs else {"pruner": "wilcoxon", "num_splits": 6}
    result = search(tmp_path, n_trials=14 if is_of_epochs else 10, shuffle=True, **asked)
    given_up = [trial for trial in result.trials if trial.state == "pruned"]
    assert given_up
    return result, given_up


def test_a_score_says_what_it_is_of(pruned):
    result, given_up = pruned
    for trial in result.trials:
        n_folds = len(trial.fold_scores)
        if trial in given_up and not n_folds:
            assert trial.score_of == "validation"
        elif trial in given_up:
            assert trial.score_of == f"{n_folds} fold{'s' if n_folds > 1 else ''}"
            assert trial.scores[0] == pytest.approx(np.mean(trial.fold_scores))
        else:
            assert trial.score_of == "all folds"
    assert [row["score_of"] for row in result.table()] == [trial.score_of for trial in result.trials]


def test_the_tables_have_it_beside_the_score(pruned):
    pytest.importorskip("pandas")
    result, _ = pruned
    frame = result.to_dataframe()
    assert {"state", "rmse", "epochs", "seconds"} <= {*frame.columns}
    assert [*frame.columns].index("score_of") == [*frame.columns].index("rmse") + 1
    assert {*frame.score_of[frame.state == "finished"]} == {"all folds"}
    page = Page(result.to_html())
    (table,) = [each for each in page.tables if each and each[0][:2] == ["Trial", "State"]]
    of = table[0].index("Score of")
    assert table[0][of - 1] == "rmse"
    assert [row[of] for row in table[1:]] == [trial.score_of for trial in result.trials]
    assert "Only scores of all folds are to be compared." in page.text


def test_plots_tell_other_scores_apart(pruned):
    result, given_up = pruned
    drawn = {name: figure for name, figure in result.plot().items() if name.startswith(("history", "slice"))}
    assert len(drawn) == 3
    for name, figure in drawn.items():
        lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
        assert lines["finished"].get_marker() == "o", name
        assert lines["pruned"].get_marker() == "x", name
        assert len(lines["pruned"].get_xdata()) == len(given_up)
    text = facts(Page(result.to_html()))
    assert "Scores of trials that were given up (grey crosses)" in text


def test_nothing_is_said_where_all_trials_have_finished(tmp_path):
    text = facts(Page(search(tmp_path, n_trials=2).to_html()))
    assert "crosses" not in text
    assert "to be compared" not in text
    assert "all folds" in text
