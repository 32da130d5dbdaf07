"""Bad input is refused before the first step, by an error that names the culprit and the cure."""

import os
import warnings

import numpy as np
import pytest

from delira.data_loading import AbstractDataset, BaseDataManager, BaseLazyDataset
from delira.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DeliraError,
    MissingKeyError,
    NetworkError,
    NonFiniteLossError,
)
from delira.training import Parameters

N_FEATURES = 3


class Steps:
    """Counts the steps of all trainings; experiments work on copies of a callback."""

    count = 0

    def at_iter_begin(self, trainer, **facts):
        type(self).count += 1


@pytest.fixture(autouse=True)
def no_step():
    """No test of this file, unless it says so, reaches a step."""
    Steps.count = 0
    yield
    assert Steps.count == 0, "a step was done before the mistake was found"


def mae(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def trainer_of(kit, path, network=None, **settings):
    return kit.trainer(path, network, callbacks=[Steps()], **settings)


def experiment_of(kit, path, **training):
    return kit.experiment(path, training={"callbacks": [Steps()], **training})


def classes(n=10, n_rare=3):
    """Two classes; one of them is rare."""
    rng = np.random.default_rng(0)
    label = np.zeros((n, 1))
    label[:n_rare] = 1
    return BaseDataManager({"data": rng.normal(size=(n, N_FEATURES)), "label": label}, batch_size=4)


# ---- unknown parameter names


def test_an_unknown_setting_of_a_trainer_is_refused_with_a_suggestion(kit, tmp_path):
    with pytest.raises(
        ConfigError, match="unknown training setting 'optimiser_params'; did you mean 'optimizer_params'"
    ):
        trainer_of(kit, tmp_path, optimiser_params={"lr": 1})


def test_all_unknown_settings_are_named_in_one_message(kit, tmp_path):
    with pytest.raises(ConfigError) as caught:
        trainer_of(kit, tmp_path, optimiser_params={}, val_metric={}, qwertz=1)
    text = str(caught.value)
    assert "'optimiser_params'; did you mean 'optimizer_params'?" in text
    assert "'val_metric'; did you mean 'val_metrics'?" in text
    assert "'qwertz'" in text
    assert "training['extra']" in text


@pytest.mark.parametrize("place", ["parameters", "experiment", "run", "run parameters", "kfold", "setup"])
def test_an_unknown_setting_is_refused_wherever_an_experiment_gets_it(place, kit, manager, tmp_path):
    wrong = {"bacth_size": 3}
    match = "unknown training setting 'bacth_size'; did you mean 'batch_size'"
    if place == "parameters":
        with pytest.raises(ConfigError, match=match):
            experiment_of(kit, tmp_path, **wrong)
        return
    if place == "experiment":
        with pytest.raises(ConfigError, match=match):
            kit.experiment(tmp_path, **wrong)
        return
    experiment = experiment_of(kit, tmp_path)
    call = {
        "run": lambda: experiment.run(manager(), **wrong),
        "run parameters": lambda: experiment.run(manager(), params=Parameters({"training": wrong})),
        "kfold": lambda: experiment.kfold(manager(), num_splits=2, **wrong),
        "setup": lambda: experiment.setup(**wrong),
    }[place]
    with pytest.raises(ConfigError, match=match):
        call()


def test_a_misspelt_option_of_the_split_is_refused_with_a_suggestion(kit, manager, tmp_path):
    with pytest.raises(ConfigError, match="'split_typ'; did you mean 'split_type'"):
        experiment_of(kit, tmp_path).kfold(manager(), num_splits=2, split_typ="random")


def test_an_argument_that_the_network_does_not_take_is_refused_with_a_suggestion(kit, tmp_path):
    with pytest.raises(ConfigError, match="takes no 'n_feature'; did you mean 'n_features'"):
        kit.experiment(tmp_path, model={"n_feature": 3})


def test_a_missing_argument_of_the_network_is_refused(kit, tmp_path):
    class Demanding(kit.network):
        def __init__(self, n_features, n_classes):
            super().__init__(n_features)

    with pytest.raises(ConfigError, match=r"Demanding cannot be built from the model parameters: .*'n_classes'"):
        kit.experiment(tmp_path, cls=Demanding)


def test_an_unknown_setting_of_a_data_manager_is_refused_with_a_suggestion():
    with pytest.raises(
        ConfigError, match="a data manager has no such settings: 'transform'; did you mean 'transforms'"
    ):
        BaseDataManager({"data": np.zeros((3, 1))}, transform=lambda batch: batch)


def test_an_unknown_change_of_the_manager_is_refused_before_the_first_fold(kit, manager, tmp_path):
    experiment = experiment_of(kit, tmp_path)
    for which in ("train_kwargs", "test_kwargs"):
        with pytest.raises(MissingKeyError, match="'transform'; did you mean 'transforms'"):
            experiment.kfold(manager(), num_splits=2, **{which: {"transform": None}})


# ---- a sample that misses a key


def test_a_sample_that_misses_a_key_is_refused_with_its_index_when_the_data_are_given():
    samples = [{"data": np.zeros(N_FEATURES), "label": np.zeros(1)} for _ in range(5)]
    del samples[3]["label"]
    with pytest.raises(
        MissingKeyError, match=r"sample 3 has the keys \['data'\], but sample 0 has \['data', 'label'\]"
    ):
        BaseDataManager(samples, batch_size=2)


def load(item):
    sample = {"data": np.full(N_FEATURES, float(item)), "label": np.zeros(1)}
    if item == 2:
        del sample["label"]
    return sample


def test_a_sample_that_misses_a_key_is_refused_with_its_index_when_it_is_loaded(kit, tmp_path):
    data = BaseDataManager([0, 1, 2, 3], batch_size=4, dataset_cls=BaseLazyDataset, load_fn=load)
    trainer = trainer_of(kit, tmp_path)
    with pytest.raises(
        MissingKeyError, match=r"sample 2 has the keys \['data'\], but \['data', 'label'\] were expected"
    ):
        trainer.train(1, data)


def test_data_without_what_a_loss_reads_are_refused_before_the_first_step(kit, manager, tmp_path):
    data = manager()
    del data.dataset.data["label"]
    trainer = trainer_of(kit, tmp_path)
    match = r"loss 'mse' reads 'label', but there are only .*; set loss_keys=\{'mse': \(prediction, target\)\}"
    with pytest.raises(MissingKeyError, match=match):
        trainer.train(1, data)


def test_data_without_what_the_network_reads_are_refused_before_the_first_step(kit, manager, tmp_path):
    data = manager()
    data.dataset.data["image"] = data.dataset.data.pop("data")
    trainer = trainer_of(kit, tmp_path)
    with pytest.raises(MissingKeyError, match=r"reads 'data', but the batch has only \['image', 'label', 'number'\]"):
        trainer.train(1, data)


def test_validation_data_without_what_the_network_reads_are_refused_before_the_first_step(kit, manager, tmp_path):
    val = manager()
    val.dataset.data["image"] = val.dataset.data.pop("data")
    with pytest.raises(MissingKeyError, match=r"reads 'data', but the batch has only \['image', 'label', 'number'\]"):
        trainer_of(kit, tmp_path).train(1, manager(), val)


@pytest.mark.parametrize("key", ["label_key", "groups_key"])
def test_a_split_by_an_absent_entry_is_refused_before_the_first_fold(key, kit, manager, tmp_path):
    split = {"split_type": "stratified"} if key == "label_key" else {}
    with pytest.raises(MissingKeyError, match="'patient'"):
        experiment_of(kit, tmp_path).kfold(manager(), num_splits=2, **split, **{key: "patient"})


# ---- samples of unequal shape


def test_samples_of_unequal_shape_are_refused_with_the_index(kit, tmp_path):
    samples = [{"data": np.zeros(N_FEATURES + (number == 2)), "label": np.zeros(1)} for number in range(4)]
    data = BaseDataManager(samples, batch_size=4)
    match = r"entry 'data' of sample 2 has shape \(4,\), but \(3,\) was expected .*resize, crop or pad"
    with pytest.raises(DataError, match=match):
        trainer_of(kit, tmp_path).train(1, data)


def test_arrays_of_unequal_length_are_refused():
    with pytest.raises(DataError, match=r"must have equal lengths \(first axes\), got 'data': 3, 'label': 2"):
        BaseDataManager({"data": np.zeros((3, 1)), "label": np.zeros(2)})


# ---- no data


class Empty(AbstractDataset):
    def __getitem__(self, index):
        raise IndexError(index)


@pytest.mark.parametrize("data", [[], {"data": np.zeros((0, 3))}, Empty()], ids=["list", "arrays", "dataset"])
def test_empty_data_are_refused(data):
    with pytest.raises(ConfigError, match=r"the dataset \(\w+\) is empty; check the path and the filter"):
        BaseDataManager(data)


def test_an_iterable_that_gives_no_batch_is_refused(kit, tmp_path):
    trainer = trainer_of(kit, tmp_path)
    with pytest.raises(DataError, match="the training data gave no batch in epoch 1"):
        trainer.train(1, [])
    assert not (tmp_path / "checkpoints").exists() or not os.listdir(tmp_path / "checkpoints")


@pytest.mark.parametrize("data", [None, 3, {"data": np.zeros((2, 3)), "label": np.zeros((2, 1))}])
def test_data_that_are_no_manager_and_no_iterable_of_batches_are_refused(data, kit, tmp_path):
    trainer = trainer_of(kit, tmp_path)
    with pytest.raises(
        DataError, match=r"the training data is a \w+; pass a BaseDataManager or an iterable of batches"
    ):
        trainer.train(1, data)


@pytest.mark.parametrize(
    "batch", [np.zeros((2, 3)), {}, (np.zeros((2, 3)), np.zeros((2, 1)))], ids=["array", "empty", "pair"]
)
def test_a_batch_that_is_no_dict_of_arrays_is_refused(batch, kit, tmp_path):
    with pytest.raises(DataError, match="a batch must be a dict of arrays with the samples first, got"):
        trainer_of(kit, tmp_path).train(1, [batch])


# ---- the number of folds


def assert_no_fold_was_begun(path):
    assert list(path.rglob("fold_*")) == []


def test_more_splits_than_samples_are_refused(kit, tmp_path):
    with pytest.raises(ConfigError, match="num_splits=11, but the dataset has only 10 samples"):
        experiment_of(kit, tmp_path).kfold(classes(10), num_splits=11)
    assert_no_fold_was_begun(tmp_path)


def test_more_splits_than_members_of_a_class_are_refused(kit, tmp_path):
    match = "num_splits=4, but class 1.* has only 3 samples, .*use fewer splits or split_type='random'"
    with pytest.raises(ConfigError, match=match):
        experiment_of(kit, tmp_path).kfold(classes(10, n_rare=3), num_splits=4, split_type="stratified")
    assert_no_fold_was_begun(tmp_path)


def test_more_splits_than_groups_are_refused(kit, manager, tmp_path):
    data = manager(more={"patient": np.arange(10) // 5})
    with pytest.raises(ConfigError, match="num_splits=3, but 'patient' has only 2 groups; use fewer splits"):
        experiment_of(kit, tmp_path).kfold(data, num_splits=3, groups_key="patient")
    assert_no_fold_was_begun(tmp_path)


@pytest.mark.parametrize("number", [1, 0, -2, 2.5, "3", True])
def test_an_impossible_number_of_splits_is_refused(number, kit, manager, tmp_path):
    with pytest.raises(ConfigError, match=f"num_splits must be an integer of at least 2, got {number!r}"):
        experiment_of(kit, tmp_path).kfold(manager(), num_splits=number)


@pytest.mark.parametrize("part", [0, 1, -0.1, 1.5])
def test_an_impossible_validation_part_is_refused(part, kit, manager, tmp_path):
    with pytest.raises(ConfigError, match=f"val_split must be between 0 and 1 .* got {part}"):
        experiment_of(kit, tmp_path).kfold(manager(), num_splits=2, val_split=part)


def test_a_validation_part_that_cannot_be_stratified_is_refused_before_any_fold_is_trained(kit, tmp_path):
    """Two members of a class: one tests, the other cannot both train and validate."""
    with pytest.raises(ConfigError, match=r"val_split=0\.2 cannot divide the \d+ training samples of fold 0"):
        experiment_of(kit, tmp_path).kfold(classes(10, n_rare=2), num_splits=2, split_type="stratified")


def test_an_unknown_kind_of_split_is_refused_with_a_suggestion(kit, manager, tmp_path):
    with pytest.raises(
        ConfigError, match=r"split_type must be one of 'random', 'stratified', .*did you mean 'stratified'"
    ):
        experiment_of(kit, tmp_path).kfold(manager(), num_splits=2, split_type="stratifed")


def test_stratifying_by_continuous_labels_is_refused(kit, manager, tmp_path):
    with pytest.raises(ConfigError, match="needs classes, but 'label' is continuous; use split_type='random'"):
        experiment_of(kit, tmp_path).kfold(manager(), num_splits=2, split_type="stratified")


# ---- the score


@pytest.mark.parametrize("mode", ["maximum", "", None, 1])
def test_a_wrong_val_score_mode_is_refused(mode, kit, manager, tmp_path):
    match = f"val_score_mode must be one of 'auto', 'min', 'lowest', 'max', 'highest', got {mode!r}"
    if mode is not None:  # None is the default
        with pytest.raises(ConfigError, match=match):
            trainer_of(kit, tmp_path / "trainer", val_score_mode=mode)
        with pytest.raises(ConfigError, match=match):
            experiment_of(kit, tmp_path / "experiment", val_score_mode=mode)
    if mode:
        with pytest.raises(ConfigError, match=match):
            trainer_of(kit, tmp_path).train(1, manager(), manager(), val_score_key="mse", val_score_mode=mode)
        with pytest.raises(ConfigError, match=match):
            experiment_of(kit, tmp_path).kfold(manager(), num_splits=2, val_score_key="mse", val_score_mode=mode)


@pytest.mark.parametrize("key", ["acuracy", "val_acuracy"])
def test_a_val_score_key_that_nothing_computes_is_refused_with_a_suggestion(key, kit, manager, tmp_path):
    metrics = {"accuracy": mae}
    match = f"val_score_key='{key}' is neither a validation metric nor a loss; did you mean 'accuracy'"
    with pytest.raises(ConfigError, match=match):
        trainer_of(kit, tmp_path / "trainer", val_metrics=metrics, val_score_key=key)
    with pytest.raises(ConfigError, match=match):
        experiment_of(kit, tmp_path / "experiment", val_metrics=metrics, val_score_key=key)
    with pytest.raises(ConfigError, match=match):
        trainer_of(kit, tmp_path, val_metrics=metrics).train(1, manager(), manager(), val_score_key=key)


def test_a_training_metric_cannot_be_the_score(kit, tmp_path):
    with pytest.raises(ConfigError, match="val_score_key='mae' is neither a validation metric nor a loss"):
        trainer_of(kit, tmp_path, train_metrics={"mae": mae}, val_score_key="mae")


def test_a_loss_cannot_be_the_score_of_a_network_with_a_closure_of_its_own(kit, manager, tmp_path):
    class Own(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {"mse": loss}, {"pred": pred}

    trainer = trainer_of(kit, tmp_path, kit.build(cls=Own), val_score_key="mse")
    match = "val_score_key='val_mse' is a loss, but the network brings its own closure|val_score_key='mse' is a loss"
    with pytest.raises(ConfigError, match=match):
        trainer.train(1, manager(), manager())


# ---- metric keys


@pytest.mark.parametrize(("setting", "known"), [("metric_keys", "val_metrics"), ("loss_keys", "losses")])
def test_keys_of_an_absent_metric_or_loss_are_refused_with_a_suggestion(setting, known, kit, tmp_path):
    name = "accuracy" if known == "val_metrics" else "mse"
    settings = {"val_metrics": {"accuracy": mae}, setting: {name[:-1]: ("pred", "label")}}
    with pytest.raises(
        ConfigError, match=f"{setting} names '{name[:-1]}', which does not exist; did you mean '{name}'"
    ):
        trainer_of(kit, tmp_path, **settings)


@pytest.mark.parametrize("kind", ["val_metrics", "metrics", "train_metrics"])
def test_a_metric_that_reads_an_absent_entry_is_refused_before_the_first_step(kind, kit, manager, tmp_path):
    trainer = trainer_of(kit, tmp_path, **{kind: {"mae": mae}}, metric_keys={"mae": ("target", "pred")})
    with pytest.raises(MissingKeyError, match=r"metric 'mae' reads 'target', but .*set metric_keys=\{'mae': "):
        trainer.train(1, manager(), manager())


def test_a_test_metric_that_reads_an_absent_entry_is_refused_before_the_first_fold(kit, manager, tmp_path):
    experiment = experiment_of(kit, tmp_path)
    with pytest.raises(MissingKeyError, match=r"metric 'mae' reads 'target'"):
        experiment.kfold(manager(), {"mae": mae}, num_splits=2, metric_keys={"mae": ("target", "pred")})


def test_keys_of_an_absent_test_metric_are_refused_before_the_first_fold(kit, manager, tmp_path):
    experiment = experiment_of(kit, tmp_path)
    with pytest.raises(ConfigError, match="metric_keys"):
        experiment.kfold(manager(), {"mae": mae}, num_splits=2, metric_keys={"mea": ("label", "pred")})


def test_a_validation_metric_is_checked_in_kfold_even_without_validation_data(kit, manager, tmp_path):
    experiment = experiment_of(kit, tmp_path, val_metrics={"mae": mae}, metric_keys={"mae": ("target", "pred")})
    with pytest.raises(MissingKeyError, match=r"metric 'mae' reads 'target'"):
        experiment.kfold(manager(), num_splits=2, val_split=None)


# ---- numbers


@pytest.mark.parametrize("epochs", [-1, 1.5, "2", True])
def test_an_impossible_number_of_epochs_is_refused(epochs, kit, manager, tmp_path):
    match = f"num_epochs must be an integer of at least 0 .* got {epochs!r}"
    with pytest.raises(ConfigError, match=match):
        trainer_of(kit, tmp_path / "trainer").train(epochs, manager())
    with pytest.raises(ConfigError, match=match):
        experiment_of(kit, tmp_path / "parameters", num_epochs=epochs)
    with pytest.raises(ConfigError, match=match):
        kit.experiment(tmp_path / "experiment", n_epochs=epochs)
    experiment = experiment_of(kit, tmp_path / "run")
    with pytest.raises(ConfigError, match=match):
        experiment.run(manager(), num_epochs=epochs)
    with pytest.raises(ConfigError, match=match):
        experiment.kfold(manager(), num_epochs=epochs, num_splits=2)


@pytest.mark.parametrize("size", [-1, 0, 2.5, "4", True, None])
def test_an_impossible_batch_size_is_refused(size, kit, tmp_path):
    with pytest.raises(ConfigError, match=f"batch_size must be an integer of at least 1, got {size!r}"):
        BaseDataManager({"data": np.zeros((3, 1))}, batch_size=size)
    if size is not None:
        with pytest.raises(ConfigError, match=f"batch_size must be an integer of at least 1.*, got {size!r}"):
            experiment_of(kit, tmp_path, batch_size=size).setup()


@pytest.mark.parametrize("name", ["val_freq", "save_freq", "log_freq", "num_threads"])
@pytest.mark.parametrize("value", [-1, 0, 2.5, "3", True])
def test_an_impossible_frequency_is_refused(name, value, kit, tmp_path):
    match = rf"{name} must be an integer of at least 1 \(\w+\), got {value!r}"
    with pytest.raises(ConfigError, match=match):
        trainer_of(kit, tmp_path / "trainer", **{name: value})
    with pytest.raises(ConfigError, match=match):
        experiment_of(kit, tmp_path / "experiment", **{name: value})


@pytest.mark.parametrize("start", [0, -3, 1.5, "2"])
def test_an_impossible_first_epoch_is_refused(start, kit, tmp_path):
    with pytest.raises(ConfigError, match=f"start_epoch must be an integer of at least 1 .* got {start!r}"):
        trainer_of(kit, tmp_path, start_epoch=start)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_an_impossible_seed_is_refused(seed, kit, tmp_path):
    with pytest.raises(ConfigError, match=f"seed must be a non-negative integer, got {seed!r}"):
        trainer_of(kit, tmp_path / "trainer", seed=seed)
    with pytest.raises(ConfigError, match=f"seed must be a non-negative integer, got {seed!r}"):
        experiment_of(kit, tmp_path / "experiment", seed=seed)


@pytest.mark.parametrize("fold", ["first", None, -1])
def test_an_impossible_fold_is_refused(fold, kit, tmp_path):
    with pytest.raises(ConfigError, match=f"fold must be (an integer|at least 0), got {fold!r}"):
        trainer_of(kit, tmp_path, fold=fold)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("losses", [mae]),
        ("val_metrics", mae),
        ("optimizer_params", 0.1),
        ("extra", [1]),
        ("metric_keys", ("label", "pred")),
    ],
)
def test_a_setting_that_must_be_a_dict_is_refused_if_it_is_none(setting, value, kit, tmp_path):
    with pytest.raises(ConfigError, match=f"{setting} must be a dict with names as keys, got {type(value).__name__}"):
        trainer_of(kit, tmp_path, **{setting: value})


@pytest.mark.parametrize(
    ("setting", "value"),
    [("losses", "mse"), ("train_metrics", "mse"), ("val_metrics", 0.5), ("metrics", 0.5)],
)
def test_a_loss_or_metric_that_cannot_be_called_is_refused(setting, value, kit, tmp_path):
    message = rf"{setting}\['wrong'\] is a {type(value).__name__}, which cannot be called"
    with pytest.raises(ConfigError, match=message):
        trainer_of(kit, tmp_path, **{setting: {"wrong": value}})


@pytest.mark.parametrize("setting", ["val_metrics", "metrics"])
def test_a_string_that_stands_for_no_metric_is_refused(setting, kit, tmp_path):
    with pytest.raises(ConfigError, match="there is no metric 'accuracies'; did you mean 'accuracy'"):
        trainer_of(kit, tmp_path, **{setting: {"wrong": "accuracies"}})


def test_a_training_without_losses_is_refused(kit, tmp_path):
    with pytest.raises(ConfigError, match="losses is empty; pass losses="):
        trainer_of(kit, tmp_path, losses={})


def test_a_callback_that_is_none_is_refused(kit, tmp_path):
    with pytest.raises(ConfigError, match="is no callback: it has none of the methods at_training_begin"):
        kit.trainer(tmp_path, callbacks=[object()])
    with pytest.raises(ConfigError, match="it is a class, pass an instance"):
        kit.trainer(tmp_path, callbacks=[Steps])


# ---- the network


def test_a_network_that_returns_no_dict_is_refused_before_the_first_step(kit, manager, tmp_path):
    class Bare(kit.network):
        def __call__(self, x):
            return super().__call__(x)["pred"]

    network = kit.build(cls=Bare)
    before = kit.read(network)
    with pytest.raises(NetworkError, match=r"Bare returned a \w+; a network returns a dict of named outputs, e\.g\. "):
        trainer_of(kit, tmp_path, network).train(1, manager())
    assert np.array_equal(kit.read(network), before)


def test_a_network_that_returns_no_dict_is_refused_in_an_iterable_of_batches_too(kit, regression, tmp_path):
    class Bare(kit.network):
        def __call__(self, x):
            return super().__call__(x)["pred"]

    network = kit.build(cls=Bare)
    before = kit.read(network)
    with pytest.raises(NetworkError, match=r"Bare returned a \w+; a network returns a dict of named outputs, e\.g\. "):
        kit.trainer(tmp_path, network).train(1, [regression()])
    assert np.array_equal(kit.read(network), before)


@pytest.mark.parametrize("what", ["class", "function"])
def test_what_is_no_network_is_refused(what, kit, tmp_path):
    network = {"class": kit.network, "function": lambda x: {"pred": x}}[what]
    with pytest.raises((NetworkError, ConfigError), match=r"is a class, pass an instance|has no closure"):
        kit.trainer_cls(network, tmp_path, **kit.settings)


# ---- losses that are not finite


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_is_an_error_that_names_epoch_step_and_loss(bad, kit, regression, tmp_path):
    batches = [regression(4, seed=number) for number in range(3)]
    batches[1]["label"][0] = bad
    trainer = kit.trainer(tmp_path)
    match = rf"(?s)loss 'mse' became {bad} in epoch 1, step 2 of the epoch.*learning rate.*'skip'.*'ignore'"
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError, match=match):
        trainer.train(2, batches)
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.parametrize("value", ["warn", None, True])
def test_an_unknown_answer_to_a_loss_that_is_not_finite_is_refused(value, kit, tmp_path):
    if value is None:
        assert kit.trainer(tmp_path, nonfinite=None).config.guards.nonfinite == "raise"
        return
    with pytest.raises(ConfigError, match=f"nonfinite must be 'raise', 'skip', 'rollback' or 'ignore', got {value!r}"):
        trainer_of(kit, tmp_path, nonfinite=value)


def test_a_backend_that_cannot_skip_says_so(tmp_path):
    from delira.testing import ToyNetwork, ToyTrainer, mean_squared_error

    with pytest.raises(
        ConfigError, match="the toy backend has neither mixed precision nor accumulation, clipping, skip"
    ):
        ToyTrainer(ToyNetwork(), tmp_path, losses={"mse": mean_squared_error}, nonfinite="skip")


# ---- the save path


@pytest.mark.parametrize("below", [(), ("run",), ("run", "deeper")])
def test_a_save_path_that_is_a_file_is_refused(below, kit, tmp_path):
    file = tmp_path / "file"
    file.touch()
    path = file.joinpath(*below)
    with pytest.raises(
        ConfigError, match=r"save_path='.*' cannot be a folder: '.*file.*' is a file; choose another path"
    ):
        trainer_of(kit, path)
    with pytest.raises(
        ConfigError, match=r"save_path='.*' cannot be a folder: '.*file.*' is a file; choose another path"
    ):
        experiment_of(kit, path)


def test_a_save_path_that_is_not_writable_is_refused(kit, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere; test_files.py does it by simulation")
    with pytest.raises(ConfigError, match=r"save_path='.*locked.*' is not writable \(Permission denied\)"):
        trainer_of(kit, folder)
    with pytest.raises(ConfigError, match=r"save_path='.*locked.*' is not writable \(Permission denied\)"):
        experiment_of(kit, folder)


def test_a_save_path_on_a_read_only_file_system_is_refused(kit):
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no /proc")
    with pytest.raises(ConfigError, match=r"save_path='/proc/self/run' is not writable"):
        trainer_of(kit, "/proc/self/run")


# ---- checkpoints of another network


def test_a_checkpoint_of_another_network_is_refused_by_its_entries(kit, manager, tmp_path):
    kit.trainer(tmp_path).train(1, manager())
    match = r"cannot continue from .*checkpoint_last.*(weight|kernel) has shape \(.*3.*in the checkpoint.*\(.*5.*\)"
    with pytest.raises(CheckpointError, match=match):
        trainer_of(kit, tmp_path, kit.build(n_features=5))


def test_a_checkpoint_of_another_seed_or_fold_is_refused(kit, manager, tmp_path):
    kit.trainer(tmp_path).train(1, manager())
    with pytest.raises(
        CheckpointError, match="is of seed 0, fold 0, the trainer of seed 1, fold 0; use another save_path"
    ):
        trainer_of(kit, tmp_path, seed=1)
    with pytest.raises(
        CheckpointError, match="is of seed 0, fold 0, the trainer of seed 0, fold 2; use another save_path"
    ):
        trainer_of(kit, tmp_path, fold=2)


def test_a_run_to_resume_that_is_not_there_is_refused(kit, manager, tmp_path):
    with pytest.raises(ConfigError, match=r"there are no checkpoints to resume from in '.*nowhere'"):
        experiment_of(kit, tmp_path).resume(tmp_path / "nowhere", manager())


# ---- devices


def test_a_gpu_that_is_not_there_is_an_error_and_not_the_cpu(kit, tmp_path):
    if kit.name.startswith("torch"):
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
    with pytest.raises(
        ConfigError,
        match=r"gpu_ids=\[0\] .*sees (no GPU|only cpu); .*device='cpu'|CPU only, got gpu_ids=\[0\]",
    ):
        trainer_of(kit, tmp_path / "trainer", gpu_ids=[0])
    with pytest.raises(ConfigError, match=r"gpu_ids=\[0\]"):
        experiment_of(kit, tmp_path / "experiment", gpu_ids=[0]).setup()


# ---- of every error


def test_every_error_is_also_a_builtin_kind():
    for error, kind in {
        ConfigError: ValueError,
        DataError: ValueError,
        MissingKeyError: KeyError,
        NetworkError: TypeError,
        NonFiniteLossError: ArithmeticError,
        CheckpointError: RuntimeError,
    }.items():
        assert issubclass(error, (DeliraError, kind))
        assert str(error("plain text")) == "plain text"


def test_nothing_is_left_on_disk_by_a_trainer_that_was_refused(kit, tmp_path):
    path = tmp_path / "run"
    with warnings.catch_warnings(), pytest.raises(ConfigError, match="unknown training setting 'bacth_size'"):
        trainer_of(kit, path, bacth_size=2)
    assert not path.exists()
