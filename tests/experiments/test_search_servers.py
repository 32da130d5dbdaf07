"""A search in servers of this machine that users look at it with: MLflow's, and Optuna's dashboard."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from small_backends import toy_kit
from test_tuning import Fail, tune
from visdom_server import free_port

from delira.experiments.tracked_trials import MARK
from delira.logging import MLflowHandler

pytest.importorskip("optuna")

#: an environment of their own, as MLflow's server cannot be installed beside what delira is tested with
SERVERS = Path(os.environ.get("DELIRA_SERVERS", Path(sys.prefix) / "servers"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@contextlib.contextmanager
def serving(name, *arguments, folder, port=None):
    """Scope of a server; gives its address."""
    program = shutil.which(name, path=SERVERS / "bin")
    if program is None:
        pytest.skip(f"needs the command {name!r} in an environment of its own, see requirements/servers.txt")
    address = f"http://127.0.0.1:{port or free_port()}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MLFLOW"))}
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "HOME": str(folder)}
    command = [program, *arguments, "--host", "127.0.0.1", "--port", address.rpartition(":")[2]]
    with open(folder / f"{name}.log", "ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={**kept, **quiet}, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 120
        while not answers(address):
            if time.monotonic() > deadline or process.poll() is not None:
                pytest.fail(f"{name} did not start:\n{(folder / f'{name}.log').read_text()[-3000:]}")
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def answers(address):
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError:
        return False
    return True


def asked(address, **query):
    """What a server says to a question, as JSON; ``body`` is sent."""
    body = query.pop("body", None)
    data = None if body is None else json.dumps(body).encode()
    url = f"{address}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
        return json.loads(answer.read())


# ---- MLflow


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """Arguments of a server whose runs are in a database of this test."""
    pytest.importorskip("mlflow", reason="needs the package 'mlflow', see requirements/trackers.txt")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # a server that dies while a trial is written is not waited for
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    folder = tmp_path / "server"
    folder.mkdir()
    stores = ("--backend-store-uri", f"sqlite:///{folder}/runs.db", "--artifacts-destination", str(folder / "files"))
    return {"arguments": ("server", "--workers", "1", *stores), "folder": folder}


def runs_of(address):
    """Runs by the number of their trial, as the server itself says; of one that was written twice both."""
    api = f"{address}/api/2.0/mlflow"
    experiment = asked(f"{api}/experiments/get-by-name", experiment_name="digits")["experiment"]
    body = {"experiment_ids": [experiment["experiment_id"]], "max_results": 1000}
    runs = {}
    for run in asked(f"{api}/runs/search", body=body).get("runs", []):
        told = {
            "status": run["info"]["status"],
            "name": run["info"]["run_name"],
            "params": {each["key"]: each["value"] for each in run["data"].get("params", [])},
            "scores": {each["key"]: each["value"] for each in run["data"].get("metrics", [])},
        }
        run_id = run["info"]["run_id"]
        history = asked(f"{api}/metrics/get-history", run_id=run_id, metric_key="fold/rmse").get("metrics", [])
        told["folds"] = [each["value"] for each in sorted(history, key=lambda each: each["step"])]
        told["texts"] = [
            each["path"] for each in asked(f"{api}/artifacts/list", run_id=run_id, path="texts").get("files", [])
        ]
        runs.setdefault(int(told["name"].removeprefix("trial ")), []).append(told)
    return runs


def handler_for(address, trial):
    return MLflowHandler(address, experiment="digits", run_name=f"trial {trial.number}")


def test_the_server_of_mlflow_has_each_trial(mlflow, tmp_path):
    with serving("mlflow", *mlflow["arguments"], folder=mlflow["folder"]) as address:
        options = {"pruner": "median", "n_trials": 10, "callbacks": [Fail(0.02, 0.05)]}
        asking = {**options, "log_to": lambda trial: handler_for(address, trial)}
        result = tune(toy_kit(), tmp_path / "search", asked=asking)
        runs = runs_of(address)
    assert {trial.state for trial in result.trials} == {"finished", "pruned", "failed"}
    assert sorted(runs) == [*range(10)]
    for trial in result.trials:
        (run,) = runs[trial.number]
        common = {"search": result.name, "trial": str(trial.number), "state": trial.state}
        assert run["params"] == {**common, **{name: str(value) for name, value in trial.values.items()}}
        assert run["status"] == ("FAILED" if trial.state == "failed" else "FINISHED")
        assert run["folds"] == [value for (value,) in trial.fold_scores]
        assert run["scores"].get("rmse") == (trial.scores[0] if trial.scores else None)
        assert run["texts"] == (["texts/error_000000.txt"] if trial.error else [])
    assert any(len(run["folds"]) == 3 for (run,) in runs.values())


def test_a_server_of_mlflow_that_dies_ends_no_search_and_has_all_of_it_in_the_end(mlflow, tmp_path, caplog):
    port = free_port()
    with contextlib.ExitStack() as server:
        address = server.enter_context(serving("mlflow", *mlflow["arguments"], folder=mlflow["folder"], port=port))

        def handler_of(trial):
            handler = handler_for(address, trial)  # of trial 2 there is nobody who answers
            if trial.number == 1:
                server.close()
            return handler

        first = tune(toy_kit(), tmp_path / "search", asked={"log_to": handler_of, "n_trials": 3})
    assert [trial.state for trial in first.trials] == ["finished"] * 3
    assert [(trial.path / MARK).exists() for trial in first.trials] == [True, False, False]
    for number in (1, 2):
        assert f"trial {number} has not reached its tracker, and the search goes on" in caplog.text
    with serving("mlflow", *mlflow["arguments"], folder=mlflow["folder"], port=port) as address:
        asking = {"log_to": lambda trial: handler_for(address, trial), "n_trials": 4, "resume": "auto"}
        result = tune(toy_kit(), tmp_path / "search", asked=asking)
        runs = runs_of(address)
    whole = {number: [run for run in told if run["status"] == "FINISHED"] for number, told in runs.items()}
    assert sorted(whole) == [0, 1, 2, 3]
    for trial in result.trials:
        (run,) = whole[trial.number]
        assert run["folds"] == [value for (value,) in trial.fold_scores]
        assert run["scores"]["rmse"] == trial.scores[0]
    # of the trial that was being written there is what had arrived
    assert [run["status"] for run in runs[1] if run not in whole[1]] == ["RUNNING"]


# ---- Optuna's dashboard


def test_optunas_dashboard_opens_the_study_of_a_search(tmp_path):
    options = {"pruner": "median", "n_trials": 10, "callbacks": [Fail(0.02, 0.05)]}
    result = tune(toy_kit(), tmp_path / "search", asked=options)
    before = (result.path / "study.journal").read_bytes()
    with serving("optuna-dashboard", str(result.path / "study.journal"), folder=tmp_path) as address:
        (study,) = asked(f"{address}/api/studies")["study_summaries"]
        assert (study["study_name"], study["directions"]) == (result.name, ["minimize"])
        told = asked(f"{address}/api/studies/{study['study_id']}")
        assert (result.path / "study.journal").read_bytes() == before
        longer = tune(toy_kit(), tmp_path / "search", asked={**options, "n_trials": 12, "resume": "auto"})
        deadline = time.monotonic() + 60  # the dashboard looks at the file every ten seconds
        while len((later := asked(f"{address}/api/studies/{study['study_id']}"))["trials"]) < 12:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    states = {"finished": "Complete", "pruned": "Pruned", "failed": "Fail"}
    for found, shown in ((result, told), (longer, later)):
        assert len(shown["trials"]) == len(found.trials)
        assert {trial.state for trial in found.trials} == {*states}
        for trial, row in zip(found.trials, shown["trials"], strict=True):
            assert (row["number"], row["state"]) == (trial.number, states[trial.state])
            values = {each["name"]: float(each["param_external_value"]) for each in row["params"]}
            assert values == trial.values
        (best,) = shown["best_trials"]
        assert (best["number"], best["values"]) == (found.best.number, [*found.best.scores])
