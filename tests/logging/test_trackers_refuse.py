"""What a tracker cannot do is told early, in one error, and the end of the process stays quiet."""

import importlib
import importlib.util
import logging
import os
import socket
import sys
import time
import types
import warnings

import pytest
from problems import linear_problem

from delira.data_loading import BaseDataManager, DictDataset
from delira.errors import ConfigError, MissingBackendError
from delira.logging import MLflowHandler, TrixiHandler, VisdomLoggingHandler, WandbHandler


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """MLflow, in an empty folder and told nothing."""
    pytest.importorskip("mlflow", reason="needs the package 'mlflow', see requirements/trackers.txt")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield importlib.import_module("mlflow")


@pytest.fixture
def no_alembic(monkeypatch):
    """As after ``pip install mlflow-skinny``."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "alembic" else find(name, *rest)
    )


@pytest.fixture
def silent_server():
    """The address of one that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def refuses(*args, **kwargs):
    raise ConnectionError("nobody is there")


class Refusing:
    """A logger of trixi that cannot be made."""

    __init__ = refuses
    show_value = refuses


def make_mlflow(monkeypatch):
    module = types.SimpleNamespace(
        MlflowClient=refuses, get_tracking_uri=lambda: "http://x", environment_variables=types.SimpleNamespace(),
        exceptions=types.SimpleNamespace(MlflowException=ConnectionError),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return MLflowHandler()


def make_wandb(monkeypatch):
    module = types.SimpleNamespace(init=refuses, Settings=lambda **settings: None)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return WandbHandler()


MAKERS = {
    "mlflow": make_mlflow,
    "wandb": make_wandb,
    "visdom": lambda monkeypatch: VisdomLoggingHandler("main"),
    "trixi": lambda monkeypatch: TrixiHandler(Refusing),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_handler_that_could_not_be_made_is_closed_without_an_error(monkeypatch, name):
    if name == "visdom":
        monkeypatch.setattr("delira.logging.writers.VisdomParams", refuses)
    before = {id(found()) for found in logging._handlerList}
    with pytest.raises((ConnectionError, ConfigError), match="nobody is there") as caught:
        MAKERS[name](monkeypatch)
    # the traceback holds the handler, as where an error ends the process
    made = [found() for found in logging._handlerList if id(found()) not in before]
    assert made, caught
    for handler in made:
        handler.close()


@pytest.mark.parametrize("uri", [None, "sqlite:///m.db", "postgresql+psycopg2://me@host/runs"])
def test_a_database_without_its_packages_is_told_when_the_trainer_is_made(mlflow, no_alembic, kit, tmp_path, uri):
    kwargs = {} if uri is None else {"tracking_uri": uri}
    with pytest.raises(MissingBackendError, match=r"'alembic' is not installed.*pip install mlflow\. .*file:mlruns"):
        kit.trainer(tmp_path / "run", logging_type="mlflow", logging_kwargs=kwargs)
    assert not list(tmp_path.glob("m*"))


@pytest.mark.parametrize("uri", ["file:./ml", "ml"])
def test_a_folder_that_mlflow_refuses_is_told_when_the_trainer_is_made(mlflow, kit, tmp_path, uri):
    if not hasattr(mlflow.environment_variables, "MLFLOW_ALLOW_FILE_STORE"):
        pytest.skip("this MLflow takes folders without being told")
    with pytest.raises(ConfigError, match="MLFLOW_ALLOW_FILE_STORE is 'true'; set it before the trainer is made"):
        kit.trainer(tmp_path / "run", logging_type="mlflow", logging_kwargs={"tracking_uri": uri})
    assert not list(tmp_path.glob("ml*"))


@pytest.mark.parametrize("uri", ["databricks", "databricks://profile", "http://127.0.0.1:9"])
def test_a_server_is_asked_only_when_the_training_begins(mlflow, kit, tmp_path, uri):
    kit.trainer(tmp_path / "run", logging_type="mlflow", logging_kwargs={"tracking_uri": uri})


def test_a_server_of_mlflow_that_is_not_there_is_told_soon(mlflow, kit, tmp_path):
    settings = {"logging_type": "mlflow", "logging_kwargs": {"tracking_uri": "http://127.0.0.1:9"}}
    data = BaseDataManager(DictDataset(linear_problem(12)), 4, n_process_augmentation=0)
    before, began = dict(os.environ), time.monotonic()
    with pytest.raises(ConfigError, match=r"cannot write to 'http://127\.0\.0\.1:9'.*Is the server running"):
        kit.trainer(tmp_path / "run", **settings).train(1, data)
    assert time.monotonic() - began < 30
    assert dict(os.environ) == before


def test_the_user_says_how_long_mlflow_waits(mlflow, silent_server, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    began = time.monotonic()
    with pytest.raises(ConfigError, match="Is the server running"):
        MLflowHandler(silent_server)
    assert time.monotonic() - began < 8
