"""Ways to ask ``delira.predict``: spread, transforms, volumes with a geometry, folders of folders, other spacings."""

import json
import logging

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit

import delira
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Two folds of a small network that reads three numbers."""
    experiment = toy_kit().experiment(tmp_path_factory.mktemp("runs"), training={"num_epochs": 1}, name="lines")
    return experiment.kfold(BaseDataManager(linear_problem(12, 3, 7), 4), num_splits=2, verbose=False)


NEW = np.random.default_rng(3).normal(size=(4, 3))


def doubled(batch):
    return {**batch, "data": 2 * batch["data"]}


def halved(**batch):
    return {**batch, "data": batch["data"] / 2}


def shifted(batch, rng):
    return {**batch, "data": batch["data"] + rng.normal(size=batch["data"].shape)}


# ---- spread


def test_spread_is_the_ensembles_unless_it_is_asked_for(result, tmp_path):
    ensemble, without = result.ensemble(), result.ensemble(spread=False)
    assert "spread" not in delira.predict(ensemble, NEW, spread=False)
    assert "spread" not in delira.predict(without, NEW)
    with_it = delira.predict(without, NEW, spread=True)
    np.testing.assert_array_equal(with_it["spread"]["pred"]["sd"], ensemble.predict(NEW)["spread"]["pred"]["sd"])
    assert (ensemble.spread, without.spread) == (True, False), "only these predictions"
    with pytest.raises(ConfigError, match="spread=True is how far the members of an ensemble differ"):
        delira.predict(result.folds[0], NEW, spread=True)
    assert [*delira.predict(result.folds[0], NEW, spread=False)] == ["pred"]
    files = delira.predict(ensemble, NEW, out=tmp_path / "out", spread=False)
    with np.load(files[0]) as case:
        assert [*case] == ["pred"]
    with pytest.raises(ConfigError, match="spread=False, now True"):
        delira.predict(ensemble, NEW, out=tmp_path / "out")
    assert delira.predict(without, NEW, out=tmp_path / "out") == files, "however it is said"


# ---- transforms


def test_transforms_are_done_to_whatever_is_predicted(result, tmp_path):
    fold = result.folds[0]
    expected = delira.predict(fold, 2 * NEW)["pred"]
    for number, case in enumerate(NEW):
        (tmp_path / "new").mkdir(exist_ok=True)
        np.save(tmp_path / "new" / f"{number}.npy", case)
    manager = BaseDataManager({"data": NEW}, 3)
    for data in (NEW, {"data": NEW}, manager, tmp_path / "new", [{"data": case} for case in NEW]):
        np.testing.assert_allclose(delira.predict(fold, data, transforms=doubled)["pred"], expected)
    manager = BaseDataManager({"data": NEW}, 3, transforms=doubled)
    np.testing.assert_allclose(delira.predict(fold, manager)["pred"], expected)
    again = delira.predict(fold, manager, transforms=halved)["pred"]
    np.testing.assert_allclose(again, delira.predict(fold, NEW)["pred"])


def test_a_transform_that_draws_draws_the_same_each_time(result):
    first, second = (delira.predict(result.folds[0], NEW, transforms=shifted)["pred"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_another_transform_is_refused_in_the_same_folder(result, tmp_path):
    delira.predict(result, NEW, out=tmp_path, transforms=doubled)
    assert "doubled" in json.loads((tmp_path / "predictions.json").read_text())["asked"]["transforms"]
    assert len(delira.predict(result, NEW, out=tmp_path, transforms=doubled)) == 4
    for other in (None, halved, lambda batch: doubled(batch)):
        with pytest.raises(ConfigError, match="transforms="):
            delira.predict(result, NEW, out=tmp_path, transforms=other)


def test_a_transform_that_cannot_be_one_is_named(result):
    with pytest.raises(ConfigError, match="transforms must be a callable"):
        delira.predict(result, NEW, transforms=[doubled])
    with pytest.raises(DataError, match="lost the keys"):
        delira.predict(result, NEW, transforms=lambda batch: {"image": batch["data"]})


# ---- how it is told


def test_an_ensemble_says_how_it_combines_once_it_is_loaded(result, tmp_path):
    ensemble = result.ensemble()
    assert repr(ensemble) == "Ensemble(2 members: fold_00, fold_01; combine=None)", "nothing is loaded to be shown"
    ensemble.predict(NEW)
    assert "combine='mean'" in repr(ensemble)
    assert "combine='logits'" in repr(result.ensemble(combine="logits"))
    delira.predict(result, NEW, out=tmp_path)
    assert "combine='mean'" in json.loads((tmp_path / "predictions.json").read_text())["model"]
    assert delira.predict(ensemble, NEW, out=tmp_path), "it was loaded before, and is the same"


# ---- names


def test_cases_of_one_name_are_refused_only_where_they_would_be_one_file(result, tmp_path):
    samples = [{"data": case, "name": "same"} for case in NEW]
    assert len(delira.predict(result, samples)["pred"]) == 4
    with pytest.raises(DataError, match="4 cases are called 'same'"):
        delira.predict(result, samples, out=tmp_path / "samples")
    manager = BaseDataManager({"data": NEW}, 2)
    manager.dataset.case_names = ["a", "b", "a", "c"]
    with pytest.raises(DataError, match="several cases are called 'a'"):
        delira.predict(result, manager, out=tmp_path / "manager")


def test_a_folder_of_a_folder_for_each_case(result, tmp_path):
    for number, case in enumerate(NEW):
        (tmp_path / "new" / f"case_{number}").mkdir(parents=True)
        np.save(tmp_path / "new" / f"case_{number}" / "values.npy", case)
    files = delira.predict(result, tmp_path / "new", out=tmp_path / "out")
    assert [file.name for file in files] == [f"case_{number}.npz" for number in range(4)]
    listed = sorted((tmp_path / "new").glob("*/values.npy"))
    assert delira.predict(result, listed, out=tmp_path / "out") == files, "files of one name are called by their folder"
    np.save(tmp_path / "new" / "case_2" / "more.npy", NEW[0])
    with pytest.raises(ConfigError, match=r"case_2' has several files \(more.npy, values.npy\).*new/\*/more.npy"):
        delira.predict(result, tmp_path / "new")
    with pytest.raises(ConfigError, match="are one case by their names"):
        delira.predict(result, [*listed, listed[0]])


def test_a_data_set_that_cannot_be_read_is_skipped_whatever_it_raises(result, caplog):
    class Cases(delira.data_loading.AbstractDataset):
        def __init__(self):
            super().__init__(None, None)
            self.data = [*NEW]

        def __getitem__(self, index):
            if index == 1:
                raise RuntimeError("the scanner was off")
            return {"data": self.data[index]}

    with caplog.at_level(logging.WARNING, "delira"):
        assert len(delira.predict(result, Cases(), on_error="skip", batch_size=3)["pred"]) == 3
    assert "1 case was not predicted: 1 (RuntimeError: the scanner was off)" in caplog.text
    with pytest.raises(RuntimeError, match="the scanner was off"):
        delira.predict(result, Cases())
