"""Trials of a search in trackers, as they themselves read them."""

import json
import logging
import math

import pytest
from test_trackers import client, offline_records, values_of, wandb

from delira.errors import ConfigError
from delira.experiments.search_result import SearchResult, Trial
from delira.logging import MLflowHandler, TensorboardXLoggingHandler, WandbHandler
from delira.logging.handlers import MessageHandler

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
    assert told[2].data.metrics == {}
    assert [each.path for each in client.list_artifacts(runs[2], "texts")] == ["texts/error_000000.txt"]


@pytest.mark.slow
def test_wandb_has_a_run_for_each_trial(wandb, found, tmp_path):
    found.log_to(lambda trial: WandbHandler("digits", tmp_path / str(trial.number), name=f"trial {trial.number}"))
    for trial, code in zip(TRIALS, (0, 0, 1), strict=True):
        records = offline_records(tmp_path / str(trial.number))
        told, scores = {}, {}
        for record in records:
            for item in (*record.run.config.update, *record.config.update):
                told[item.key or ".".join(item.nested_key)] = item.value_json
            for item in record.history.item:
                scores.setdefault(item.key or "/".join(item.nested_key), []).append(json.loads(item.value_json))
        assert told["training.lr"] == str(trial.values["training.lr"])
        assert told["state"] == f'"{trial.state}"'
        assert scores.get("accuracy", []) == [value for value in trial.scores[:1] if math.isfinite(value)]
        assert scores.get("fold/accuracy", []) == [row[0] for row in trial.fold_scores]
        (end,) = [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"]
        assert end == code


def test_tensorboard_has_them_on_its_page_of_parameters(found, tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tensorboard.plugins.hparams import plugin_data_pb2

    found.log_to(lambda trial: TensorboardXLoggingHandler(tmp_path / f"trial_{trial.number}"))
    for trial in TRIALS:
        folder = tmp_path / f"trial_{trial.number}"
        events = accumulator.EventAccumulator(str(folder / "hparams")).Reload()
        content = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
        info = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        assert info.hparams["training.lr"].number_value == trial.values["training.lr"]
        assert info.hparams["model.kind"].string_value == trial.values["model.kind"]
        is_known = trial.state != "failed"
        assert ("accuracy" in events.Tags()["scalars"]) == is_known
        if is_known:
            assert events.Scalars("accuracy")[0].value == trial.scores[0]
            whole = accumulator.EventAccumulator(str(folder)).Reload()
            assert [each.value for each in whole.Scalars("fold/seconds")] == [row[1] for row in trial.fold_scores]


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
