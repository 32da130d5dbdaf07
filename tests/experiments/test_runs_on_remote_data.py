"""Runs on data at a URL: the bits of data here, and a run refuses to go on with data that have changed."""

import numpy as np
import pytest

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from served import serving

from delira.data_loading import BaseDataManager, MappedDataset
from delira.errors import ConfigError
from delira.runs.seen_cases import SeenCases
from delira.testing.toy import ToyExperiment, ToyNetwork, mean_squared_error

X = np.random.default_rng(0).normal(size=(24, 3))
Y = X @ np.ones((3, 1))


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def server():
    with serving() as served:
        served.save("x.npy", X)
        served.save("y.npy", Y)
        yield served


def experiment(folder, **settings):
    training = {"losses": {"mse": mean_squared_error}, "optimizer_params": {"lr": 0.05}, "num_epochs": 2} | settings
    params = {"fixed": {"model": {"n_features": 3}, "training": training | {"verbose": False}}}
    return ToyExperiment(params, ToyNetwork, name="remote", save_path=folder)


def remote_data(server, query="", **settings):
    sources = {"data": f"{server.url}/x.npy{query}", "label": f"{server.url}/y.npy"}
    return BaseDataManager(MappedDataset(sources, settings), 5)


def test_folds_have_the_bits_of_data_here(server, tmp_path):
    here = experiment(tmp_path / "here").kfold(BaseDataManager({"data": X, "label": Y}, 5), num_splits=3)
    there = experiment(tmp_path / "there").kfold(remote_data(server), num_splits=3)
    for one, other in zip(here.folds, there.folds, strict=True):
        assert one.history == other.history
    assert SeenCases.read(here.path).hashes == SeenCases.read(there.path).hashes


def test_a_run_goes_on_with_the_same_data_and_not_with_others(server, tmp_path):
    first = experiment(tmp_path).kfold(remote_data(server), num_splits=2)
    assert experiment(tmp_path).kfold(remote_data(server), num_splits=2, resume=first.path).path == first.path
    server.save("x.npy", X + 1)
    with pytest.raises(ConfigError, match="data"):
        experiment(tmp_path).kfold(remote_data(server), num_splits=2, resume=first.path)


def test_what_is_too_much_for_the_cache_is_not_hashed_and_that_is_kept(server, tmp_path):
    run = experiment(tmp_path).kfold(remote_data(server, cache_size=100), num_splits=2)
    seen = SeenCases.read(run.path)
    assert not seen.hashes
    assert "lie elsewhere" in seen.unknown


def test_no_key_is_in_any_file_of_a_run(server, tmp_path):
    data = remote_data(server, "?X-Amz-Signature=geheim2", storage_options={"headers": {"X-Key": "geheim99"}})
    run = experiment(tmp_path).kfold(data, num_splits=2)
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if b"geheim" in path.read_bytes()]
