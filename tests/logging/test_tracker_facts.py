"""Trackers are told the parameters, the seed, the fold and the versions of a run."""

import importlib.metadata
import sys
import types
from types import SimpleNamespace

from delira.logging import MLflowHandler, WandbHandler
from delira.logging.handlers import MessageHandler


class Noting(MessageHandler):
    facts = None

    def describe_run(self, facts):
        self.facts = facts

    def show(self, message, place):
        pass


def test_a_run_tells_its_parameters_seed_fold_and_versions(kit, tmp_path, manager):
    handler = Noting()
    training = {
        "num_epochs": 1, "logging_type": handler, "optimizer_params": {"lr": 0.25, "momentum": 0.5},
        "val_metrics": {"error": mean_error},
    }  # fmt: skip
    experiment = kit.experiment(tmp_path, training=training, seed=7)
    experiment.run(manager(), fold=3)
    facts = handler.facts
    assert (facts["seed"], facts["fold"], facts["model.n_features"]) == (7, 3, 3)
    assert facts["training.optimizer_params.lr"] == 0.25
    assert facts["training.val_metrics.error"].endswith("test_tracker_facts.mean_error")
    assert facts["versions.numpy"] == importlib.metadata.version("numpy")
    assert not [name for name in facts if name.startswith("training.logging")]
    assert all(isinstance(value, (str, int, float, bool)) for value in facts.values())


def mean_error(y_true, y_pred):
    return abs(y_true - y_pred).mean()


def test_mlflow_gets_them_as_parameters_and_keeps_those_of_a_continued_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    entities = types.ModuleType("mlflow.entities")
    entities.Param = lambda key, value: SimpleNamespace(key=key, value=value)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    sent = []
    known = SimpleNamespace(data=SimpleNamespace(params={"seed": "7"}))
    client = SimpleNamespace(get_run=lambda run: known, log_batch=lambda run, params: sent.append(params))
    handler = MLflowHandler.__new__(MLflowHandler)
    handler._client, handler.run_id = client, "r"
    handler.describe_run({"seed": 7, "fold": 0, **{f"training.a{n}": n for n in range(150)}, "model.f(x)": "y"})
    assert [len(batch) for batch in sent] == [100, 52]
    found = {one.key: one.value for batch in sent for one in batch}
    assert "seed" not in found
    assert (found["fold"], found["model.f_x_"]) == ("0", "y")


def test_wandb_gets_them_as_its_configuration():
    told = {}
    handler = WandbHandler.__new__(WandbHandler)
    handler._run = SimpleNamespace(config=SimpleNamespace(update=lambda facts, allow_val_change: told.update(facts)))
    handler.describe_run({"seed": 7, "fold": 0})
    assert told == {"seed": 7, "fold": 0}
