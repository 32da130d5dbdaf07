"""Experiments: independent runs with one set of parameters, found again and continued."""

import json
import random
from typing import ClassVar

import numpy as np
import pytest
from scripted import scripted

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.training import Parameters, Predictor
from delira.utils.files import unsealed

pytestmark = pytest.mark.turns


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class Interrupt:
    """Ends a run inside an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def at_iter_end(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == self.epoch:
            raise Interrupted(f"in epoch {curr_epoch}")


def runs(experiment):
    """Its run folders, the oldest first."""
    return sorted((path for path in experiment.save_path.iterdir() if path.is_dir()), key=lambda path: path.name)


def history(folder):
    return [unsealed(json.loads(line)) for line in (folder / "history.jsonl").read_text().splitlines()]


def interrupted_run(experiment, data, val=None, epoch=3, **kwargs):
    """The folder of a run that was broken off inside ``epoch``."""
    before = runs(experiment)
    with pytest.raises(Interrupted, match=f"in epoch {epoch}"):
        experiment.run(data, val, callbacks=[Interrupt(epoch)], **kwargs)
    (folder,) = set(runs(experiment)) - set(before)
    return folder


# ---- one run


def test_a_run_returns_the_trained_network(kit, tmp_path, manager):
    data = manager()
    experiment = kit.experiment(tmp_path, training={"num_epochs": 8})
    network = experiment.run(data)
    assert isinstance(network, kit.network)
    arrays = data.dataset.data
    assert rmse(arrays["label"], arrays["data"] @ kit.read(network)) < 1
    assert kit.same(kit.read(experiment(data)), kit.read(network))  # calling it is the same


def test_a_run_is_that_of_a_trainer_with_the_same_settings(kit, tmp_path, manager):
    weights = []

    class Keep:
        def at_training_begin(self, trainer, **facts):
            weights.append(kit.read(trainer.module))

    experiment = kit.experiment(tmp_path, training={"seed": 4}, callbacks=[Keep()])
    network = experiment.run(manager(), manager(7))
    by_hand = kit.build()
    kit.write(by_hand, weights[0])
    trainer = kit.trainer(tmp_path / "trainer", by_hand, seed=4)
    assert kit.same(kit.read(trainer.train(2, manager(), manager(7))), kit.read(network))


def test_a_run_folder_holds_parameters_manifest_ledger_and_the_fold(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, name="digits", training={"seed": 4})
    experiment.run(manager(), manager(7))
    (folder,) = runs(experiment)
    assert folder.parent == tmp_path / "digits"
    files = {"parameters.yml", "experiment.yml", "manifest.json", "ledger.jsonl", "cases.json"}
    assert {path.name for path in folder.iterdir()} == {*files, "fold_00"}
    assert {path.name for path in (folder / "fold_00").iterdir()} == {
        "checkpoints",
        "hashes.jsonl",
        "history.csv",
        "history.jsonl",
        "timings.json",
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    facts = {name: manifest[name] for name in ("name", "seed", "num_epochs", "n_samples")}
    assert facts == {"name": "digits", "seed": 4, "num_epochs": 2, "n_samples": 10}
    assert manifest["model"].endswith(f":{kit.network.__qualname__}")
    assert Parameters.load(folder / "parameters.yml").training_settings()["seed"] == 4
    events = [json.loads(line)["event"] for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert events == ["started", "finished"]


def test_lists_of_batches_can_be_run_on(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    network = experiment.run(list(manager()), list(manager(7)), val_score_key="mse")
    assert isinstance(network, kit.network)


def test_without_validation_data_the_score_is_ignored_with_one_warning(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, val_score_key="mse")
    with pytest.warns(UserWarning, match="val_score_key='mse' is ignored: there are no validation data") as caught:
        network = experiment.run(manager())
    assert len(caught) == 1
    (folder,) = runs(experiment)
    last = next((folder / "fold_00" / "checkpoints").glob(f"checkpoint_last{kit.backend.checkpoint_suffix}"))
    assert kit.same(kit.weight_in(kit.trainer_cls.load_state(last)["model"]), kit.read(network))
    assert not list(last.parent.glob("checkpoint_best*"))


def test_the_experiments_score_and_mode_reach_the_trainer(kit, tmp_path, manager):
    scores = {"min": 3, "max": 1}
    for mode, best in scores.items():
        experiment = kit.experiment(
            tmp_path / mode, val_score_key="score", val_score_mode=mode,
            training={"val_metrics": {"score": scripted(3, 2, 1)}, "num_epochs": 3},
        )  # fmt: skip
        experiment.run(manager(), manager(7))
        name = f"checkpoint_best{kit.backend.checkpoint_suffix}"
        best_file = runs(experiment)[0] / "fold_00" / "checkpoints" / name
        assert kit.trainer_cls.load_state(best_file)["epoch"] == best


# ---- how long


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("training", "argument", "settings", "call", "epochs"),
    [
        ({"num_epochs": 1}, None, {}, {}, 1),
        ({"n_epochs": 1}, None, {}, {}, 1),
        ({}, 1, {}, {}, 1),
        ({}, None, {}, {"num_epochs": 1}, 1),
        ({}, None, {}, {"n_epochs": 1}, 1),
        ({"num_epochs": 2}, 3, {}, {}, 2),  # the argument is for parameters that do not say
        ({"n_epochs": 2}, 3, {}, {}, 3),  # historic: this spelling gives way to the argument
        ({"num_epochs": 2}, 3, {"num_epochs": 4}, {}, 4),
        ({"n_epochs": 2}, 3, {"num_epochs": 4}, {}, 4),
        ({"num_epochs": 2}, 3, {"num_epochs": 4}, {"num_epochs": 1}, 1),
        ({"num_epochs": 2}, 3, {"num_epochs": 4}, {"n_epochs": 1}, 1),
        ({"num_epochs": 2}, None, {}, {"num_epochs": None}, 2),
    ],
)
def test_the_call_says_how_long_before_the_experiment_and_that_before_the_parameters(
    kit, tmp_path, manager, training, argument, settings, call, epochs
):
    training = {"num_epochs": None, **training}
    experiment = kit.experiment(tmp_path, n_epochs=argument, training=training, **settings)
    experiment.run(manager(), **call)
    assert len(history(runs(experiment)[0] / "fold_00")) == epochs


# ---- one seed


class NoisyInitialisation:
    """Mixed into a network: its constructor draws from every generator there is."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.noise = [np.random.random(), random.random()]


def test_a_run_leaves_the_callers_generators_as_they_were(kit, tmp_path, manager):
    cls = type("Noisy", (NoisyInitialisation, kit.network), {})
    experiment = kit.experiment(tmp_path, {"dropout": 0.5}, cls)
    with kit.undisturbed():
        experiment.run(manager(), manager(7))
        experiment.setup()


def test_runs_of_one_seed_are_equal_bit_for_bit_whatever_the_global_state(kit, tmp_path, manager):
    cls = type("Noisy", (NoisyInitialisation, kit.network), {})
    experiment = kit.experiment(tmp_path, {"dropout": 0.5}, cls, training={"seed": 3})
    first = experiment.run(manager(), manager(7))
    for seed in (np.random.seed, random.seed, kit.backend.generators.seed):
        seed(99)
    again = kit.experiment(tmp_path / "again", {"dropout": 0.5}, cls, training={"seed": 3}).run(manager(), manager(7))
    second = experiment.run(manager(), manager(7))
    for other in (again, second):
        assert kit.same(kit.read(first), kit.read(other))
        assert first.noise == other.noise


@pytest.mark.sampled("values")
@pytest.mark.parametrize("other", [{"seed": 4}, {"fold": 1}])
def test_seed_and_fold_decide_what_a_network_begins_with(kit, tmp_path, manager, other):
    experiment = kit.experiment(tmp_path, training={"seed": 3})
    first, second = experiment.run(manager(), num_epochs=0), experiment.run(manager(), num_epochs=0, **other)
    assert not kit.same(kit.read(first), kit.read(second))


# ---- isolation


def test_what_a_network_or_a_closure_does_to_its_arguments_stays_in_its_run(kit, tmp_path, manager):
    seen = []

    class Net(kit.network):
        def __init__(self, n_features, dropout=0.0, layers=()):
            super().__init__(n_features, dropout)
            seen.append(list(layers))
            layers.append("changed")

        @staticmethod
        def closure(model, data_dict, optimizers, losses, memory):
            seen.append(list(memory))
            memory.append("changed")
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {"mse": loss}, {"pred": pred}

    training = {"extra": {"memory": []}, "num_epochs": 1}
    experiment = kit.experiment(tmp_path, {"layers": [1]}, Net, training=training)
    for _ in range(2):
        experiment.run(manager(4))
    assert seen == [[1], []] * 2
    assert experiment.params.nested_get("layers") == [1]


def test_run_folders_never_collide(kit, tmp_path, manager, monkeypatch):
    monkeypatch.setattr("delira.runs.folder.now", lambda: "26-01-01_00-00-00")
    first, second = kit.experiment(tmp_path, name="same"), kit.experiment(tmp_path, name="same")
    for experiment in (first, second, first):
        experiment.run(manager(), num_epochs=1)
    second.setup()
    names = sorted(folder.name for folder in runs(first))
    assert names == ["26-01-01_00-00-00", *(f"26-01-01_00-00-00-{number}" for number in (1, 2, 3))]
    assert all(len(history(folder / "fold_00")) == 1 for folder in runs(first)[:3])


# ---- resuming


@pytest.mark.sampled("values")
@pytest.mark.parametrize("form", ["run folder", "fold folder", "checkpoints folder", "file", "text"])
def test_a_broken_run_is_continued_from_any_path_in_it(kit, tmp_path, manager, form):
    training = {"num_epochs": 4, "save_freq": 1, **kit.halving()}
    unbroken = kit.experiment(tmp_path, {"dropout": 0.5}, name="unbroken", training=training)
    expected = kit.read(unbroken.run(manager(), manager(7), val_score_key="mse"))
    training = {"num_epochs": 4, "save_freq": 1}
    own = kit.halving().pop("callbacks", [])
    schedule = {name: value for name, value in kit.halving().items() if name != "callbacks"}
    experiment = kit.experiment(tmp_path, {"dropout": 0.5}, name="broken", training={**training, **schedule})
    with pytest.raises(Interrupted, match="in epoch 3"):
        experiment.run(manager(), manager(7), val_score_key="mse", callbacks=[*own, Interrupt(3)])
    (folder,) = runs(experiment)
    checkpoints = folder / "fold_00" / "checkpoints"
    path = {
        "run folder": folder,
        "fold folder": folder / "fold_00",
        "checkpoints folder": checkpoints,
        "file": next(checkpoints.glob(f"checkpoint_last{kit.backend.checkpoint_suffix}")),
        "text": str(folder),
    }[form]
    resumed = experiment.resume(path, manager(), manager(7), val_score_key="mse", callbacks=own)
    assert kit.same(kit.read(resumed), expected)
    assert runs(experiment) == [folder]
    assert history(folder / "fold_00") == history(runs(unbroken)[0] / "fold_00")
    events = [json.loads(line)["event"] for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert events[0] == "started"
    assert events[-1] == "finished"


def test_a_run_of_another_fold_is_continued_from_its_run_folder_too(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"num_epochs": 4, "save_freq": 1})
    expected = experiment.run(manager(), fold=2)
    folder = interrupted_run(experiment, manager(), fold=2)
    assert kit.same(kit.read(experiment.resume(folder, manager(), fold=2)), kit.read(expected))


def test_the_folder_of_the_experiment_stands_for_its_newest_run(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    for _ in range(2):
        experiment.run(manager(), num_epochs=1)
    experiment.resume(experiment.save_path, manager(), num_epochs=2)
    assert [len(history(run / "fold_00")) for run in runs(experiment)] == [1, 2]


def test_parameters_may_be_called_config_but_not_twice(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    cls, given = type(experiment), {"model_cls": experiment.model_cls, "save_path": tmp_path, "name": "other"}
    assert cls(config=experiment.params, **given).params == experiment.params
    with pytest.raises(ConfigError, match="'params' and 'config' mean the same"):
        cls(experiment.params, config=experiment.params, **given)


def test_a_finished_run_can_be_continued_with_more_epochs(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    expected = experiment.run(manager(), num_epochs=4)
    experiment.run(manager(), num_epochs=2)
    folder = runs(experiment)[-1]
    assert kit.same(kit.read(experiment.resume(folder, manager(), num_epochs=4)), kit.read(expected))


def test_a_run_after_a_resumed_one_has_a_folder_of_its_own(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"num_epochs": 4, "save_freq": 1})
    folder = interrupted_run(experiment, manager())
    experiment.resume(folder, manager())
    experiment.run(manager())
    assert len(runs(experiment)) == 2


def test_a_path_without_checkpoints_is_refused(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    with pytest.raises(ConfigError, match=r"there are no checkpoints to resume from in .*nowhere"):
        experiment.resume(tmp_path / "nowhere", manager())


def test_a_run_of_another_network_is_refused(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    experiment.run(manager())
    other = kit.experiment(tmp_path, {"n_features": 4})
    with pytest.raises(ConfigError, match="cannot be continued: its parameters and data differ from what is asked for"):
        other.resume(runs(experiment)[0], manager(n_features=4))


def test_auto_continues_the_newest_unfinished_run_with_the_same_parameters_and_data(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"num_epochs": 4, "save_freq": 1})
    expected = kit.read(experiment.run(manager()))
    folder = interrupted_run(experiment, manager())
    begun = []

    class Note:
        def at_training_begin(self, trainer, **facts):
            begun.append((trainer.save_path.parent, trainer.state.epoch))

    assert kit.same(kit.read(experiment.run(manager(), resume="auto", callbacks=[Note()])), expected)
    assert begun == [(folder, 2)]
    assert len(runs(experiment)) == 2
    assert kit.same(kit.read(experiment.run(manager(), resume="auto")), expected)  # nothing is unfinished any more
    assert len(runs(experiment)) == 2


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("change", "continues"),
    [
        ({}, True),
        ({"num_epochs": 6}, True),
        ({"verbose": True}, True),
        ({"save_freq": 2}, True),
        ({"optimizer_params": {"lr": 0.01}}, False),
        ({"seed": 1}, False),
        ({"fold": 1}, False),
        ({"params": {"fixed": {"model": {"dropout": 0.1}}}}, False),
        ({"data": 3}, False),
    ],
)
def test_auto_continues_only_what_would_give_the_same_numbers(kit, tmp_path, manager, change, continues):
    experiment = kit.experiment(tmp_path, training={"num_epochs": 4, "save_freq": 1})
    folder = interrupted_run(experiment, manager())
    change = dict(change)
    data = manager(seed=change.pop("data", 7))
    experiment.run(data, resume="auto", **change)
    assert (runs(experiment) == [folder]) is continues


def test_auto_begins_a_run_where_there_is_none(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    experiment.run(manager(), resume="auto")
    assert len(runs(experiment)) == 1


# ---- testing


def watching(kit):
    """A network class that notes whether it learns while it predicts."""

    class Watched(kit.network):
        seen: ClassVar[list] = []

        def __call__(self, *args, **kwargs):
            self.seen.append(kit.learns(self))
            return super().__call__(*args, **kwargs)

    return Watched


def test_a_network_is_tested_in_evaluation_mode_even_after_a_run_without_validation(kit, tmp_path, manager):
    cls = watching(kit)
    experiment = kit.experiment(tmp_path, {"dropout": 0.5}, cls, training={"val_metrics": {"rmse": rmse}})
    network = experiment.run(manager())
    cls.seen.clear()
    data = manager(7, batch_size=3)
    predictions, metrics = experiment.test(network, data)
    assert not any(cls.seen)
    assert kit.compiles or len(cls.seen) == 3
    arrays = data.dataset.data
    np.testing.assert_allclose(predictions["pred"], arrays["data"] @ kit.read(network), rtol=kit.rtol)
    np.testing.assert_allclose(metrics["rmse"], [rmse(arrays["label"], predictions["pred"])], rtol=kit.rtol)


def test_a_test_takes_metrics_and_keys_of_its_own(kit, tmp_path, manager):
    experiment = kit.experiment(
        tmp_path, training={"val_metrics": {"rmse": rmse}, "metric_keys": {"rmse": ("label", "pred")}}
    )
    network = experiment.run(manager(), manager(7))
    data = manager(7)
    _, metrics = experiment.test(network, data, {"zero": rmse}, {"zero": ("label", "label")})
    assert metrics == {"zero": np.array([0.0])}
    with pytest.raises(ConfigError, match="metric_keys names the metric 'rsme', which does not exist"):
        experiment.test(network, data, {"rmse": rmse}, {"rsme": ("label", "pred")})
    assert experiment.test(network, data, {})[1] == {}


def test_key_mapping_and_conversion_hold_for_testing_too(kit, tmp_path, manager):
    arrays = manager().dataset.data
    renamed = BaseDataManager({"image": arrays["data"], "label": arrays["label"]}, 4)
    by_argument = kit.experiment(tmp_path / "argument", key_mapping={"x": "image"})
    by_parameter = kit.experiment(tmp_path / "parameter", training={"key_mapping": {"x": "image"}})
    for experiment in (by_argument, by_parameter):
        network = experiment.run(renamed)
        expected = arrays["data"] @ kit.read(network)
        np.testing.assert_allclose(experiment.test(network, renamed)[0]["pred"], expected, rtol=kit.rtol)
        predictor = experiment.setup(training=False, model=network)
        np.testing.assert_allclose(predictor.predict(renamed)[0][0], expected, rtol=kit.rtol)
    plain = kit.experiment(tmp_path / "plain")
    predictions, _ = plain.test(network, renamed, key_mapping={"x": "image"})
    np.testing.assert_allclose(predictions["pred"], expected, rtol=kit.rtol)
    convert = {"convert_fn": lambda **tree: ([], {name: np.asarray(value) * 0 for name, value in tree.items()})}
    assert not by_argument.test(network, renamed, **convert)[0]["pred"].any()
    with pytest.raises(ConfigError, match="test takes no 'convert_fun'; did you mean 'convert_fn'"):
        plain.test(network, renamed, convert_fun=1)


# ---- parts


def test_setup_builds_a_trainer_or_a_predictor(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"seed": 3})
    trainer = experiment.setup()
    assert isinstance(trainer, kit.trainer_cls)
    assert kit.same(kit.read(trainer.train(2, manager())), kit.read(experiment.run(manager())))
    predictor = experiment.setup(training=False, model=trainer.module)
    assert type(predictor) is Predictor
    assert predictor.predict(manager())[0][0].shape == (10, 1)
    with pytest.raises(ConfigError, match=r"setup\(training=False\) builds a predictor; pass the network as model="):
        experiment.setup(training=False)


def test_trainer_and_predictor_classes_can_be_replaced(kit, tmp_path, manager):
    class Trainer(kit.trainer_cls):
        def _at_training_end(self, *args, **kwargs):
            return "replaced"

    class Other(Predictor):
        pass

    experiment = kit.experiment(tmp_path, trainer_cls=Trainer, predictor_cls=Other)
    assert experiment.run(manager()) == "replaced"
    assert type(experiment.setup(training=False, model=kit.build())) is Other
    assert kit.experiment_cls.trainer_cls is kit.trainer_cls


def test_a_trainer_with_a_constructor_of_its_own_may_change_the_settings(kit, tmp_path, manager):
    class Trainer(kit.trainer_cls):
        def __init__(self, network, save_path, key_mapping, *, fold, callbacks, start_epoch, **settings):
            settings["seed"] = settings.get("seed", 0) + 5
            super().__init__(
                network, save_path, key_mapping, fold=fold, callbacks=callbacks, start_epoch=start_epoch, **settings
            )

    experiment = kit.experiment(tmp_path, trainer_cls=Trainer)
    experiment.run(manager(), seed=1)
    assert experiment.last_trainer.seed == experiment.last_trainer.config.seed == 6


# ---- on disk


# ---- refused at construction
