"""Trials of a search in trackers, as they themselves read them."""

import json
import logging
import math

import pytest
from problems import linear_problem
from small_backends import toy_kit
from test_trackers import client, offline_records, values_of, wandb

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments.parameters import Parameters
from delira.experiments.search_result import SearchResult, Trial
from delira.logging import MLflowHandler, TensorboardXLoggingHandler, WandbHandler
from delira.logging.handlers import MessageHandler
from delira.search import Choice

__all__ = ["client", "wandb"]

TRIALS = [
    Trial(
        number=0, state="finished", values={"training.lr": 0.1, "model.kind": "deep"}, scores=(0.75, 3.0),
        fold_scores=((0.5, 2.0), (1.0, 4.0)),
    ),
    Trial(number=1, state="pruned", values={"training.lr": 0.5, "model.kind": "flat"}, scores=(0.25, 9.0),
          fold_scores=((0.25, 9.0),)),
    Trial(number=2, state="failed", values={"training.lr": 0.9, "model.kind": "flat"}, scores=(math.nan, math.nan),
          error="ValueError: too large"),
]  # fmt: skip


@pytest.fixture
def found(tmp_path):
    return SearchResult(
        trials=TRIALS, metrics=["accuracy", "seconds"], are_maximised=[True, False], path=tmp_path, name="digits"
    )


@pytest.mark.slow
def test_mlflow_has_a_run_for_each_trial(client, found, tmp_path):
    runs = {}

    def handler_of(trial):
        handler = MLflowHandler(f"file://{tmp_path}/mlruns", experiment="digits", run_name=f"trial {trial.number}")
        runs[trial.number] = handler.run_id
        return handler

    found.log_to(handler_of)
    told = {number: client.get_run(run_id) for number, run_id in runs.items()}
    assert [run.info.run_name for run in told.values()] == ["trial 0", "trial 1", "trial 2"]
    assert [run.info.status for run in told.values()] == ["FINISHED", "FINISHED", "FAILED"]
    assert told[0].data.params == {
        "search": "digits", "trial": "0", "state": "finished", "training.lr": "0.1", "model.kind": "deep",
    }  # fmt: skip
    assert told[1].data.params["state"] == "pruned"
    assert told[0].data.metrics.items() >= {"accuracy": 0.75, "seconds": 3.0}.items()
    assert values_of(client, runs[0], "fold/accuracy") == [(0, 0.5), (1, 1.0)]
    assert values_of(client, runs[0], "fold/seconds") == [(0, 2.0), (1, 4.0)]
    assert values_of(client, runs[1], "fold/seconds") == [(0, 9.0)]
    assert told[2].data.metrics == {}
    assert [each.path for each in client.list_artifacts(runs[2], "texts")] == ["texts/error_000000.txt"]


@pytest.mark.slow
def test_wandb_has_a_run_for_each_trial(wandb, found, tmp_path):
    found.log_to(lambda trial: WandbHandler("digits", tmp_path / str(trial.number), name=f"trial {trial.number}"))
    assert_wandb_has(TRIALS, found.metrics, tmp_path)


@pytest.mark.slow
def test_wandb_has_each_trial_of_a_search_that_runs(wandb, tmp_path):
    result = tune(tmp_path, lambda trial: WandbHandler("digits", tmp_path / str(trial.number)))
    assert_wandb_has(result.trials, result.metrics, tmp_path)


def tune(folder, log_to):
    """A small search whose trials are tracked; one of them fails."""

    def loss(y_true, y_pred):
        return float(abs(y_true - y_pred).mean())

    kit = toy_kit()
    training = {**kit.settings, "num_epochs": 2, "val_metrics": {"loss": loss}}
    spaces = {"optimizer_params": {"lr": Choice([0.01, 0.05, 1e200])}}
    params = Parameters({"model": {"n_features": 3}, "training": training}, {"training": spaces})
    experiment = kit.experiment_cls(params, kit.network, save_path=folder / "search")
    data = BaseDataManager(linear_problem(24, 3, 7), 4)
    asked = {"metric": "loss", "direction": "min", "sampler": "grid", "num_splits": 2}
    result = experiment.tune(data, **asked, log_to=log_to)
    assert [trial.state for trial in result.trials] == ["finished", "finished", "failed"]
    return result


def assert_wandb_has(trials, metrics, folder):
    """Each trial has a run in a folder that is named by its number."""
    for trial in trials:
        records = offline_records(folder / str(trial.number))
        told, scores = {}, {}
        for record in records:
            for item in (*record.run.config.update, *record.config.update):
                told[item.key or ".".join(item.nested_key)] = item.value_json
            for item in record.history.item:
                scores.setdefault(item.key or "/".join(item.nested_key), []).append(json.loads(item.value_json))
        assert json.loads(told["state"]) == trial.state
        assert {name: json.loads(told[name]) for name in trial.values} == trial.values
        for place, name in enumerate(metrics):
            assert scores.get(name, []) == [value for value in trial.scores[place : place + 1] if math.isfinite(value)]
            folds = [row[place] for row in trial.fold_scores if math.isfinite(row[place])]
            assert scores.get(f"fold/{name}", []) == folds
        assert ("error/path" in scores) == bool(trial.error)
        (end,) = [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"]
        assert end == (trial.state == "failed")


def test_tensorboard_has_them_on_its_page_of_parameters(found, tmp_path):
    pytest.importorskip("tensorboardX")
    found.log_to(lambda trial: TensorboardXLoggingHandler(tmp_path / str(trial.number)))
    assert_tensorboard_has(TRIALS, found.metrics, tmp_path)


def test_tensorboard_has_each_trial_of_a_search_that_runs(tmp_path):
    pytest.importorskip("tensorboardX")
    pytest.importorskip("optuna")
    result = tune(tmp_path, lambda trial: TensorboardXLoggingHandler(tmp_path / str(trial.number)))
    assert_tensorboard_has(result.trials, result.metrics, tmp_path)


def assert_tensorboard_has(trials, metrics, tmp_path):
    """Each trial has its events in a folder that is named by its number."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tensorboard.plugins.hparams import plugin_data_pb2

    for trial in trials:
        folder = tmp_path / str(trial.number)
        whole = accumulator.EventAccumulator(str(folder)).Reload()
        events = accumulator.EventAccumulator(str(folder / "hparams")).Reload()
        content = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
        info = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        shown = {name: getattr(value, value.WhichOneof("kind")) for name, value in info.hparams.items()}
        assert shown == {"state": trial.state, **trial.values}
        assert bool([tag for tag in whole.Tags()["tensors"] if "error" in tag]) == bool(trial.error)
        for place, name in enumerate(metrics):
            score = [value for value in trial.scores[place : place + 1] if math.isfinite(value)]
            folds = [row[place] for row in trial.fold_scores if math.isfinite(row[place])]
            assert values_in(events, name) == pytest.approx(score, rel=1e-6)
            assert values_in(whole, f"fold/{name}") == pytest.approx(folds, rel=1e-6)


def values_in(events, name):
    return [each.value for each in events.Scalars(name)] if name in events.Tags()["scalars"] else []


class Kept(MessageHandler):
    def __init__(self):
        super().__init__()
        self.messages, self.is_closed = [], False

    def show(self, message, place):
        self.messages.append((message.kind, message.name, message.step))

    def close(self):
        self.is_closed = True
        super().close()


def test_a_handler_of_ones_own_is_told_and_closed(found):
    handlers = []
    found.log_to(lambda trial: handlers.append(Kept()) or handlers[-1])
    assert [handler.is_closed for handler in handlers] == [True] * 3
    assert [handler.has_failed for handler in handlers] == [False, False, True]
    assert ("scalar", "fold/accuracy", 1) in handlers[0].messages


def test_what_is_no_handler_of_its_own_is_refused(found):
    with pytest.raises(ConfigError, match="a function that makes a handler"):
        found.log_to("mlflow")
    with pytest.raises(ConfigError, match=r"a handler of delira\.logging for each trial"):
        found.log_to(lambda trial: "mlflow")
    one = logging.NullHandler()
    with pytest.raises(ConfigError, match="one handler for two trials"):
        found.log_to(lambda trial: one)
