"""What MLflow and Weights & Biases have of messages, as they themselves read it."""

import contextlib
import importlib
import json
import struct
import time
import warnings

import numpy as np
import pytest
from log_messages import send
from problems import linear_problem

from delira.data_loading import BaseDataManager, DictDataset
from delira.errors import ConfigError
from delira.logging import MLflowHandler, WandbHandler, log

STAIRS = np.arange(12.0).reshape(3, 4)
MESSAGES = (
    {"value": {"value": 0.5, "name": "loss"}},
    {"value": {"value": 0.25, "name": "loss"}},
    {"scalars": {"main_tag": "both", "tag_scalar_dict": {"a": 1, "b": 2}, "global_step": 4}},
    {"text": {"text": "half <of> it", "name": "note"}},
    {"image": {"image": np.full((3, 4, 6), 0.5), "name": "pictures/gray"}},
    {"histogram": {"array": STAIRS, "name": "stairs"}},
    {"bar": {"array": [1.0, 2.0], "name": "bars"}},
)

pytestmark = pytest.mark.slow


def quietly(module):
    """A module that warns while it is imported."""
    pytest.importorskip(module.partition(".")[0], reason=f"needs the package {module!r}, see requirements/trackers.txt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


class Broken:
    """Networks whose steps fail."""

    @staticmethod
    def of(kit):
        class Network(kit.network):
            @staticmethod
            def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
                raise RuntimeError("the step failed")

        return kit.build(cls=Network)


class Talkative:
    """Networks whose closures log their loss."""

    @staticmethod
    def of(kit):
        class Network(kit.network):
            @staticmethod
            def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
                loss, pred = kit.step(model, data_dict, optimizers, losses)
                log({"value": {"value": loss, "name": "own"}})
                return {}, {"mse": loss}, {"pred": pred}

        return kit.build(cls=Network)


def data():
    return BaseDataManager(DictDataset(linear_problem(12)), 4, n_process_augmentation=0)


# ---- MLflow


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A client of MLflow, with runs in files."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = quietly("mlflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield mlflow.MlflowClient(f"file://{tmp_path}/mlruns")


def values_of(client, run_id, name):
    return [(each.step, each.value) for each in client.get_metric_history(run_id, name)]


def test_mlflow_has_metrics_texts_and_pictures(client, tmp_path, caplog):
    handler = MLflowHandler(f"file://{tmp_path}/mlruns", experiment="digits", run_name="first")
    send(handler, *MESSAGES, {"value": {"value": 1.0, "name": "odd:name(é)"}})
    run = client.get_run(handler.run_id)
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert values_of(client, handler.run_id, "loss") == [(0, 0.5), (1, 0.25)]
    assert values_of(client, handler.run_id, "both/b") == [(4, 2.0)]
    artifacts = {each.path for kind in ("images", "texts") for each in client.list_artifacts(handler.run_id, kind)}
    assert artifacts == {
        "images/pictures_gray_000000.png", "images/stairs_000000.png", "images/bars_000000.png",
        "texts/note_000000.txt",
    }  # fmt: skip
    assert {name for name in run.data.metrics if name.startswith("odd")} == {
        "odd:name(é)".replace("(", "_").replace(")", "_")
    }
    assert not [record for record in caplog.records if record.name == "delira"]


def test_a_continued_training_continues_its_run_of_mlflow(client, kit, tmp_path):
    settings = {
        "logging_type": "mlflow", "save_freq": 1, "logging_kwargs": {"tracking_uri": f"file://{tmp_path}/mlruns"},
    }  # fmt: skip
    for epochs in (2, 3):
        trainer = kit.trainer(tmp_path / "run", Talkative.of(kit), **settings)
        trainer.train(epochs, data())
    experiment = client.get_experiment_by_name("delira")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    expected = [(record["epoch"], record["mse"]) for record in trainer.state.history]
    assert sorted(values_of(client, run.info.run_id, "mse")) == expected
    assert [step for step, _ in values_of(client, run.info.run_id, "own")] == list(range(1, 10))


#: what every tracker is told of a run, as it is asked for below
FACTS = {"seed": 7, "fold": 3, "model.n_features": 3, "training.optimizer_params.lr": 0.25}


def run_with(kit, tmp_path, **settings):
    """Train once, and go on for one more epoch."""
    training = {"save_freq": 1, "optimizer_params": {"lr": 0.25}, **settings}
    experiment = kit.experiment(tmp_path, training=training, seed=7)
    experiment.run(data(), num_epochs=1, fold=3)
    return experiment, experiment.last_trainer.save_path


def test_mlflow_has_the_parameters_seed_fold_and_versions_of_a_run(client, kit, tmp_path):
    settings = {"logging_type": "mlflow", "logging_kwargs": {"tracking_uri": f"file://{tmp_path}/mlruns"}}
    experiment, folder = run_with(kit, tmp_path, **settings)
    experiment.run(data(), num_epochs=2, fold=3, resume=folder)  # MLflow refuses other values of a parameter it has
    (run,) = client.search_runs([client.get_experiment_by_name("delira").experiment_id])
    assert run.data.params.items() >= {name: str(value) for name, value in FACTS.items()}.items()
    assert run.data.params["versions.numpy"] == np.__version__


def test_mlflow_has_a_training_that_failed_as_failed(client, kit, tmp_path):
    kwargs = {"tracking_uri": f"file://{tmp_path}/mlruns"}
    trainer = kit.trainer(tmp_path / "run", Broken.of(kit), logging_type="mlflow", logging_kwargs=kwargs)
    with pytest.raises(RuntimeError, match="the step failed"):
        trainer.train(1, data())
    (run,) = client.search_runs([client.get_experiment_by_name("delira").experiment_id])
    assert run.info.status == "FAILED"


def test_what_mlflow_refuses_is_told_before_the_training(client, kit, tmp_path):
    settings = {"logging_type": "mlflow", "logging_kwargs": {"tracking_uri": "nowhere://x"}}
    with pytest.raises(ConfigError, match="MLflow cannot write to 'nowhere://x'"):
        kit.trainer(tmp_path, **settings).train(1, data())
    with pytest.raises(ConfigError, match=r"'uri', which MLflowHandler does not take"):
        kit.trainer(tmp_path, logging_type="mlflow", logging_kwargs={"uri": "x"})


# ---- Weights & Biases


@pytest.fixture
def wandb(monkeypatch, tmp_path):
    for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "wandb_own"))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    return quietly("wandb")


def offline_records(folder):
    """The records of the one offline run in a folder, as ``wandb sync`` would send them."""
    for _ in range(100):  # the service of wandb writes them in its own time
        records = read_records(folder)
        if any(each.WhichOneof("record_type") == "exit" for each in records):
            return records
        time.sleep(0.1)
    pytest.fail("the run of wandb did not end")


def read_records(folder):
    proto = quietly("wandb.proto.wandb_internal_pb2")
    (path,) = [found for found in folder.rglob("*.wandb") if not found.parent.is_symlink()]
    content, position, parts, records = path.read_bytes(), 7, b"", []
    while position + 7 <= len(content):
        if 32768 - position % 32768 < 7:  # the rest of a block is empty
            position += 32768 - position % 32768
            continue
        _, length, kind = struct.unpack("<IHB", content[position : position + 7])
        parts += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = proto.Record()
            record.ParseFromString(parts)
            records.append(record)
            parts = b""
    return records


def logged(folder):
    """What was logged together, by name."""
    histories = [each.history.item for each in offline_records(folder) if each.WhichOneof("record_type") == "history"]
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items} for items in histories
    ]


def test_wandb_has_numbers_pictures_and_histograms_offline(wandb, tmp_path, caplog):
    send(WandbHandler("digits", tmp_path, name="first"), *MESSAGES)
    found = logged(tmp_path)
    assert [each["loss"] for each in found if "loss" in each] == [0.5, 0.25]
    assert [each["step"] for each in found if "loss" in each] == [0, 1]
    assert next(each for each in found if "both/a" in each).items() >= {"both/a": 1, "both/b": 2, "step": 4}.items()
    kinds = {name.removesuffix("/_type"): each[name] for each in found for name in each if name.endswith("/_type")}
    assert kinds == {"pictures/gray": "image-file", "stairs": "histogram", "bars": "image-file", "note": "html-file"}
    assert not [record for record in caplog.records if record.name == "delira"]


def test_wandb_has_the_parameters_seed_fold_and_versions_of_a_run(wandb, kit, tmp_path):
    _, folder = run_with(kit, tmp_path, logging_type="wandb", logging_kwargs={"project": "digits"})
    records = offline_records(folder / "logs")
    found = {}
    for record in records:
        updates = [*record.run.config.update, *record.config.update]
        found |= {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in updates}
    assert found.items() >= FACTS.items()
    assert found["versions.numpy"] == np.__version__


def test_wandb_draws_epochs_and_steps_over_axes_of_their_own(wandb, kit, tmp_path):
    trainer = kit.trainer(tmp_path, Talkative.of(kit), logging_type="wandb", logging_kwargs={"project": "digits"})
    trainer.train(2, data())
    found = logged(tmp_path / "logs")
    epochs = [(each["epoch"], each["mse"]) for each in found if "mse" in each]
    assert epochs == [(record["epoch"], pytest.approx(record["mse"])) for record in trainer.state.history]
    assert [each["step"] for each in found if "own" in each] == [1, 2, 3, 4, 5, 6]
    records = [each for each in offline_records(tmp_path / "logs") if each.WhichOneof("record_type") == "metric"]
    assert {each.metric.name: each.metric.step_metric for each in records}["own"] == "step"


@pytest.mark.parametrize(("network", "code"), [(Talkative, 0), (Broken, 1)])
def test_wandb_has_a_training_that_failed_as_failed(wandb, kit, tmp_path, network, code):
    trainer = kit.trainer(tmp_path, network.of(kit), logging_type="wandb")
    with pytest.raises(RuntimeError, match="the step failed") if code else contextlib.nullcontext():
        trainer.train(1, data())
    ends = [each.exit for each in offline_records(tmp_path / "logs") if each.WhichOneof("record_type") == "exit"]
    assert [end.exit_code for end in ends] == [code]
