"""``delira fetch`` brings a run that was mirrored; ``delira train --mirror`` is how one is."""

import json

import pytest

pytest.importorskip("fsspec", reason="mirrors need fsspec, see requirements/remote.txt")

from problems import linear_problem
from small_backends import toy_kit

from delira.cli.main import BROKEN, FINE, MISUSE, main
from delira.data_loading import BaseDataManager
from delira.execution import fetching
from delira.runs.folder import RunFolder


@pytest.fixture
def data():
    return BaseDataManager(linear_problem(12), 4)


def test_a_run_is_brought_and_told(tmp_path, capsys, data):
    store = tmp_path / "store"
    experiment = toy_kit().experiment(tmp_path / "runs", {}, name="small", training={"num_epochs": 1, "verbose": 0})
    run = experiment.kfold(data, num_splits=2, random_seed=0, mirror=store).path
    assert main(["fetch", str(store), "--out", str(tmp_path / "new"), "--json"]) == FINE
    brought = tmp_path / "new" / "small" / run.name
    assert json.loads(capsys.readouterr().out) == {"path": str(brought)}
    assert RunFolder(brought).events() == RunFolder(run).events()
    (store / "small" / run.name).rename(store / "small" / "elsewhere")
    assert main(["fetch", f"{store}/small/{run.name}"]) == MISUSE
    assert "there is no run at url=" in capsys.readouterr().err


def test_what_is_damaged_is_an_error(tmp_path, capsys, data, monkeypatch):
    monkeypatch.setattr(fetching, "_PAUSES", ())
    store = tmp_path / "store"
    experiment = toy_kit().experiment(tmp_path / "runs", {}, name="small", training={"num_epochs": 1, "verbose": 0})
    experiment.kfold(data, num_splits=2, random_seed=0, mirror=store)
    for path in store.rglob("objects/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert main(["fetch", str(store), "--out", str(tmp_path / "new")]) == BROKEN
    assert "is damaged" in capsys.readouterr().err
    assert not list((tmp_path / "new").rglob("manifest.json"))
