"""An experiment as a file: text that people can read, and that executes nothing."""

import functools
import pickle
import sys

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from delira.callbacks import AbstractCallback
from delira.data_loading import RemoteSettings
from delira.errors import ConfigError
from delira.experiments import experiment_file
from delira.training import Predictor, Preprocessing
from delira.utils.yaml_codec import Unresolved


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def test_an_experiment_is_saved_as_text_and_loaded_without_executing_anything(kit, tmp_path, manager, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("something was unpickled")

    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    training = {"val_metrics": {"rmse": rmse}, "seed": 3}
    experiment = kit.experiment(
        tmp_path, {"dropout": 0.25}, name="saved", n_epochs=3, key_mapping={"x": "data"}, training=training,
        val_score_key="rmse", val_score_mode="min",
    )  # fmt: skip
    path = experiment.save()
    assert path.parent == experiment.save_path
    assert "rmse" in path.read_text()
    for place in (path, path.parent, str(path)):
        loaded = kit.experiment_cls.load(place)
        assert loaded.params == experiment.params
        names = ("name", "save_path", "n_epochs", "key_mapping", "settings", "model_cls")
        assert [getattr(loaded, name) for name in names] == [getattr(experiment, name) for name in names]
    first, second = experiment.run(manager(), manager(7)), loaded.run(manager(), manager(7))
    assert kit.same(kit.read(first), kit.read(second))


def test_what_cannot_be_found_again_is_missed_only_when_it_is_used(kit, tmp_path, manager):
    cls = type("Local", (kit.network,), {"__module__": "a_module_that_is_not_imported"})
    path = kit.experiment(tmp_path, cls=cls).save(tmp_path / "mine.yml")
    loaded = kit.experiment_cls.load(path)
    assert isinstance(loaded.model_cls, Unresolved)
    with pytest.raises(ConfigError, match="Local"):
        loaded.run(manager())
    found = kit.experiment_cls.load(path, objects={"Local": cls})
    assert found.model_cls is cls
    found.run(manager())


class OwnPredictor(Predictor):
    """Found again by its name."""


def test_trainer_and_predictor_classes_are_saved_too(kit, tmp_path, monkeypatch):
    trainer_cls = type("OwnTrainer", (kit.trainer_cls,), {"__module__": __name__})
    monkeypatch.setattr(sys.modules[__name__], "OwnTrainer", trainer_cls, raising=False)
    path = kit.experiment(tmp_path, trainer_cls=trainer_cls, predictor_cls=OwnPredictor).save()
    loaded = kit.experiment_cls.load(path)
    assert (loaded.trainer_cls, loaded.predictor_cls) == (trainer_cls, OwnPredictor)


def test_another_file_is_no_experiment(kit, tmp_path):
    (tmp_path / "other.yml").write_text("a: 1\n")
    with pytest.raises(ConfigError, match=r"other.yml is no experiment file; it was not written by Experiment.save"):
        kit.experiment_cls.load(tmp_path / "other.yml")


def test_an_experiment_whose_name_is_a_path_keeps_its_folder_when_it_is_saved_and_loaded(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, name="a/b")
    assert experiment.save_path == tmp_path / "a" / "b"
    loaded = kit.experiment_cls.load(experiment.save(), {kit.network.__qualname__: kit.network})
    assert (loaded.name, loaded.save_path) == ("a/b", tmp_path / "a" / "b")
    again = kit.experiment_cls.load(loaded.save())
    assert again.save_path == tmp_path / "a" / "b"


# ---- of a run, in its own folder


class HalveTheRate(AbstractCallback):
    """A callback without a constructor."""

    def at_epoch_end(self, trainer, **facts):
        trainer.scale_rates(0.5)


def only_run(experiment):
    (folder,) = (each for each in experiment.save_path.iterdir() if each.is_dir())
    return folder


def test_a_single_run_says_in_its_folder_all_that_it_was_asked_for(kit, tmp_path, manager):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    experiment = kit.experiment(tmp_path / "first", name="once")
    asked = {"fold": 2, "seed": 5, "key_mapping": {"x": "data"}, "callbacks": [HalveTheRate()], "num_epochs": 3}
    network = experiment.run(manager(), manager(7), preprocessing={"data": StandardScaler()}, **asked)
    folder = only_run(experiment)
    objects = {cls.__name__: cls for cls in (HalveTheRate, StandardScaler, Preprocessing)}
    arguments, plan = experiment_file.read(folder, objects)
    assert (plan.data, plan.kfold, plan.tune, [*(plan.run or {})]) == ("", None, None, ["preprocessing"])
    again = kit.experiment_cls(**arguments.pop("settings"), **{**arguments, "save_path": tmp_path / "second"})
    other = again.run(manager(), manager(7), num_epochs=3, **plan.run)
    assert kit.same(kit.read(network), kit.read(other))
    ours, theirs = ((only_run(each) / "fold_02" / "hashes.jsonl").read_text() for each in (experiment, again))
    assert ours == theirs


def test_what_batches_are_called_is_part_of_a_run(kit, tmp_path, manager):
    batches = [(batch["data"], batch["label"]) for batch in manager()]
    experiment = kit.experiment(tmp_path)
    experiment.run(batches, data_keys=("data", "label"))
    assert experiment_file.read(only_run(experiment), None)[1].run == {"data_keys": ("data", "label")}


def test_the_file_of_a_run_stays_as_it_is_when_that_goes_on(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, name="once")
    experiment.run(manager())
    file = only_run(experiment) / experiment_file.FILE_NAME
    file.write_text(before := file.read_text() + "# mine\n")
    experiment.run(manager(), resume=file.parent, num_epochs=3)
    assert file.read_text() == before


def data_of_a_module(n):
    """Found again by its name."""


def test_a_file_is_told_where_the_data_come_from(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    experiment.run(manager())
    folder = only_run(experiment)
    before = experiment_file.read(folder, None)[0]
    experiment_file.name_data(folder, lambda: manager())  # which has no name
    assert experiment_file.read(folder, None)[1].data == ""
    experiment_file.name_data(folder, functools.partial(data_of_a_module, n=3))
    arguments, plan = experiment_file.read(folder, None)
    assert (plan.data, plan.data_arguments) == (f"{__name__}:data_of_a_module", {"n": 3})
    assert arguments == before


SECRETS = (
    {"url": "s3://key:hush@bucket/x.zarr"},
    {"urls": {"a": ["https://host/x.npy?X-Amz-Signature=hush"]}},
    {"remote": RemoteSettings(storage_options={"key": "hush"})},
    {"remote": {"storage_options": {"secret": "hush"}}},
    {"remote": {1: 2, "storage_options": {"secret": "hush"}}},
    {"options": (("storage_options", {"key": "hush"}),)},
    {"options": {"client_kwargs": {"aws_secret_access_key": "hush"}}},
    {"hf_token": "hush"},
)


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: next(iter(secret)))
def test_keys_of_a_store_are_written_into_no_file(kit, tmp_path, manager, caplog, secret):
    experiment = kit.experiment(tmp_path)
    name = f"{__name__}:data_of_a_module"
    with pytest.raises(ConfigError, match="would write into a file what may be secret") as told:
        experiment.save(tmp_path / "a.yml", data=data_of_a_module, data_arguments=secret)
    assert "hush" not in str(told.value)
    assert not (tmp_path / "a.yml").exists()
    experiment.run(manager())
    folder = only_run(experiment)
    data = functools.partial(data_of_a_module, **secret)
    experiment_file.name_data(folder, data)
    assert "hush" not in (folder / "experiment.yml").read_text()
    assert experiment_file.read(folder, None)[1].data == ""
    experiment_file.write_plan(experiment, tmp_path, data, kfold={})
    assert "hush" not in (tmp_path / "experiment.yml").read_text()
    assert f"say --data {name} and --data-arguments" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    "open_to_all",
    [
        {"url": "s3://bucket/x.zarr"},
        {"remote": RemoteSettings(retries=2)},
        {"url": "https://h/x.zip?download=1"},
        {"label_key": "label", "pad_token": "[PAD]", "key": "images"},
    ],
)
def test_addresses_without_secrets_are_written(kit, tmp_path, open_to_all):
    experiment_file.write_plan(kit.experiment(tmp_path), tmp_path, functools.partial(data_of_a_module, **open_to_all))
    assert "data_of_a_module" in (tmp_path / "experiment.yml").read_text()
    kit.experiment(tmp_path).save(tmp_path / "a.yml", data=data_of_a_module, data_arguments=open_to_all)
