"""What a run was asked for: whose word counts, what is refused, and that nothing leaks into the next run."""

import copy
import json

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.training import Parameters
from delira.training.callbacks import AbstractCallback, EarlyStopping
from delira.utils.files import unsealed


def runs(experiment):
    """Its run folders, the oldest first."""
    return sorted((path for path in experiment.save_path.iterdir() if path.is_dir()), key=lambda path: path.name)


def history(folder):
    return [unsealed(json.loads(line)) for line in (folder / "history.jsonl").read_text().splitlines()]


def test_parameters_may_come_as_objects_dictionaries_or_files(kit, tmp_path, manager):
    settings = {**kit.settings, "num_epochs": 1}
    plain = {"model": {"n_features": 3}, "training": settings}
    path = Parameters(plain).save(tmp_path / "parameters")
    in_parts = {"fixed": {"training": settings}, "variable": {"model": {"n_features": 3}}}
    forms = [plain, {"fixed": plain}, in_parts, Parameters(plain), path, str(path)]
    networks = [kit.experiment_cls(form, kit.network, save_path=tmp_path).run(manager()) for form in forms]
    assert all(kit.same(kit.read(network), kit.read(networks[0])) for network in networks)


def test_an_experiment_that_is_not_told_how_long_says_so(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"num_epochs": None})
    with pytest.raises(
        ConfigError, match="num_epochs is not set; put it into the training parameters, or pass it to run"
    ):
        experiment.run(manager())


@pytest.fixture
def watched():
    """A callback that notes what each run was given; its notes are shared by all of its copies."""
    notes = []

    class Watch(AbstractCallback):
        def at_training_begin(self, trainer, **facts):
            rate = trainer.backend.optimizers.learning_rates(trainer.optimizers)["lr"]
            notes.append(
                {
                    "epochs": facts["num_epochs"],
                    "lr": rate,
                    "key_mapping": trainer.key_mapping,
                    "callbacks": [type(callback).__name__ for callback in trainer.callbacks],
                    "folder": trainer.save_path,
                    "fold": trainer.fold,
                    "extra": copy.deepcopy(dict(trainer.config.extra)),
                    "self": id(self),
                }
            )

    return Watch(), notes


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    "given",
    [
        {"num_epochs": 1},
        {"callbacks": []},
        {"optimizer_params": {"lr": 0.01}},
        {"params": {"fixed": {"training": {"num_epochs": 1, "optimizer_params": {"lr": 0.01}}}}},
        {"params": {"variable": {"training": {"extra": {"temperature": 1}}}}},
        {"fold": 1},
        {"extra": {"temperature": 1}},
        {"seed": 9},
    ],
)
def test_what_one_run_is_given_does_not_leak_into_the_next(kit, tmp_path, manager, watched, given):
    callback, notes = watched
    experiment = kit.experiment(tmp_path, callbacks=[callback])
    before = copy.deepcopy(experiment.params)
    first = experiment.run(manager())
    experiment.run(manager(), **given)
    third = experiment.run(manager())
    assert experiment.params == before
    assert len(notes) == (2 if given == {"callbacks": []} else 3)
    changing = ("folder", "self")
    assert {k: v for k, v in notes[0].items() if k not in changing} == {
        k: v for k, v in notes[-1].items() if k not in changing
    }
    assert notes[0]["folder"] != notes[-1]["folder"]
    assert kit.same(kit.read(first), kit.read(third))


def test_a_key_mapping_holds_for_its_run_alone(kit, tmp_path, manager, watched):
    callback, notes = watched
    experiment = kit.experiment(tmp_path, callbacks=[callback])
    arrays = manager().dataset.data
    renamed = BaseDataManager({"image": arrays["data"], "label": arrays["label"]}, 4)
    first = experiment.run(renamed, key_mapping={"x": "image"})
    second = experiment.run(manager())
    assert [note["key_mapping"] for note in notes] == [{"x": "image"}, {"x": "data"}]
    assert kit.same(kit.read(first), kit.read(second))


def test_each_run_gets_callbacks_of_its_own(kit, tmp_path, manager, watched):
    callback, notes = watched
    stopping = EarlyStopping("mse", mode="max", patience=1)
    experiment = kit.experiment(tmp_path, callbacks=[callback, stopping], training={"num_epochs": 5})
    for _ in range(2):
        experiment.run(manager(20))
    assert stopping.epochs_waited == 0
    assert stopping.best == np.inf
    assert id(callback) not in [note["self"] for note in notes]
    assert [len(history(folder / "fold_00")) for folder in runs(experiment)] == [2, 2]


@pytest.mark.parametrize(
    ("training", "settings", "message"),
    [
        ({"optimiser_cls": 1}, {}, "unknown training setting 'optimiser_cls'; did you mean 'optimizer_cls'"),
        ({}, {"val_score_kee": "x"}, "unknown training setting 'val_score_kee'; did you mean 'val_score_key'"),
        ({}, {"val_score_mode": "big"}, "val_score_mode must be one of"),
        ({"num_epochs": -1}, {}, "num_epochs must be an integer of at least 0"),
        ({}, {"n_epochs": 1.5}, "num_epochs must be an integer of at least 0"),
        ({"val_score_key": "acuracy"}, {}, "val_score_key='acuracy' is neither a validation metric nor a loss"),
    ],
)
def test_impossible_settings_are_refused_at_construction(kit, tmp_path, training, settings, message):
    with pytest.raises(ConfigError, match=message):
        kit.experiment(tmp_path, training=training, **settings)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"n_feature": 3}, "takes no 'n_feature'; did you mean 'n_features'"),
        ({"n_features": 3, "depth": 2}, "takes no 'depth'"),
    ],
)
def test_arguments_that_the_network_does_not_take_are_refused_at_construction(kit, tmp_path, model, message):
    with pytest.raises(ConfigError, match=message):
        kit.experiment(tmp_path, model)


def test_arguments_that_the_network_misses_are_refused_at_construction(kit, tmp_path):
    class Net(kit.network):
        def __init__(self, n_features, width):
            super().__init__(n_features)

    with pytest.raises(ConfigError, match=r"Net cannot be built from the model parameters: missing .*'width'"):
        kit.experiment(tmp_path, cls=Net)


def test_unknown_keywords_of_a_run_are_refused(kit, tmp_path, manager):
    with pytest.raises(ConfigError, match="unknown training setting 'num_epoch'; did you mean 'num_epochs'"):
        kit.experiment(tmp_path).run(manager(), num_epoch=3)
