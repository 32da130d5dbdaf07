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
