"""What is refused before the first step, and in which words."""

import threading

import numpy as np
import pytest
from problems import mae

from delira.data_loading import DictDataset
from delira.errors import CheckpointError, ConfigError, DataError, MissingKeyError, NetworkError
from delira.training.checks import check_data, check_length, check_step_names, describe_batch, unpack_closure
from delira.training.run import TrainingState


def apart(y_true, y_pred):
    """No number: one for each sample."""
    return np.abs(y_true - y_pred).ravel()


def returning(kit, convert):
    """A network whose outputs went through ``convert``."""

    class Other(kit.network):
        def __call__(self, x):
            return convert(super().__call__(x))

    return kit.build(cls=Other)


class Weighted:
    """A loss that has to be built."""

    def __call__(self, prediction, target):
        return 0.0


def test_an_output_with_the_name_of_a_target_is_refused_before_the_first_step(kit, tmp_path, manager):
    network = returning(kit, lambda outputs: {**outputs, "label": outputs["pred"]})
    trainer = kit.trainer(tmp_path, network)
    match = "loss 'mse' reads 'label', which is both in the batch and in what the network returned"
    with pytest.raises(NetworkError, match=match):
        trainer.train(1, manager())
    assert trainer.state.global_step == 0
    kit.trainer(tmp_path / "apart", network, loss_keys={"mse": ("pred", "target")}).train(
        1, manager(more={"target": np.ones((10, 1))})
    )  # nobody reads it


@pytest.mark.parametrize("setting", ["losses", "train_metrics", "val_metrics", "metrics"])
def test_nothing_may_have_the_name_of_the_epoch_s_number(kit, tmp_path, setting):
    with pytest.raises(ConfigError, match=f"{setting} names 'epoch', which is the number of the epoch"):
        kit.trainer(tmp_path, **{setting: {"epoch": mae}})


def test_two_spellings_of_one_validation_metric_are_refused(kit, tmp_path):
    for settings in (
        {"val_metrics": {"acc": mae, "val_acc": mae}},
        {"metrics": {"acc": mae}, "val_metrics": {"val_acc": mae}},
    ):
        with pytest.raises(ConfigError, match="val_metrics has 'acc' and 'val_acc', which mean the same"):
            kit.trainer(tmp_path, **settings)


@pytest.mark.parametrize("name", ["losses", "model", "data_dict", "optimizers", "fold", "hooks"])
def test_an_extra_of_the_closure_may_not_replace_what_it_is_given_anyway(kit, tmp_path, name):
    with pytest.raises(ConfigError, match=f"extra names '{name}', which a closure is given anyway"):
        kit.trainer(tmp_path, extra={name: 1})


@pytest.mark.parametrize(
    ("metrics", "losses", "match"),
    [
        (["mse"], ["mse"], "closure returned 'mse' as a metric and as a loss"),
        (["epoch"], ["mse"], "closure returned a value called 'epoch'"),
        (["mae"], ["epoch"], "closure returned a value called 'epoch'"),
    ],
)
def test_values_of_a_closure_that_would_write_over_each_other_are_refused(
    kit, tmp_path, manager, metrics, losses, match
):
    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, **kwargs):
            return dict.fromkeys(metrics, 1.0), dict.fromkeys(losses, 1.0), {}

    trainer = kit.trainer(tmp_path, kit.build(cls=Net), save_freq=1)
    with pytest.raises(NetworkError, match=match):
        trainer.train(1, manager())
    assert not trainer.checkpoints.folder.exists()


def test_an_error_of_a_loss_names_the_loss_and_what_it_read(kit, tmp_path, manager):
    def broken(prediction, target):
        raise ArithmeticError("by zero")

    trainer = kit.trainer(tmp_path, losses={"mse": kit.loss, "other": broken})
    with pytest.raises(ArithmeticError, match="by zero") as caught:
        trainer.train(1, manager())
    note = next(note for note in caught.value.__notes__ if note.startswith("while loss 'other' read "))
    assert note.count("of shape (4, 1) and dtype") == 2
    assert trainer.state.global_step == 0


@pytest.mark.parametrize("setting", ["losses", "train_metrics", "val_metrics", "metrics"])
def test_a_class_in_place_of_an_instance_is_refused(kit, tmp_path, setting):
    match = rf"{setting}\['w'\] is the class Weighted; pass an instance, Weighted\(\)"
    with pytest.raises(ConfigError, match=match):
        kit.trainer(tmp_path, **{setting: {"w": Weighted}})


@pytest.mark.parametrize("value", [None, "0.5", (0.5, 0.5), [0.5], {"a": 0.5}, 0.5j, slice(2)], ids=repr)
def test_a_loss_that_is_no_number_is_refused_by_name_before_the_first_step(kit, tmp_path, manager, value):
    network = kit.build()
    before = kit.read(network)
    trainer = kit.trainer(tmp_path, network, losses={"odd": lambda prediction, target: value})
    with pytest.raises(NetworkError, match=r"loss '?\(?odd'?\)?:? "):
        trainer.train(1, manager())
    assert kit.same(kit.read(network), before)


def test_what_a_backend_cannot_copy_is_told_before_the_first_step(kit, manager, monkeypatch):
    def snapshot(tree, previous=None):
        raise CheckpointError("no copy of these")

    monkeypatch.setattr(kit.backend.arrays, "snapshot", snapshot)
    with pytest.raises(CheckpointError, match="no copy of these"):
        kit.trainer(None, kit.build()).train(1, manager())


def test_a_loss_that_is_not_reduced_is_refused_before_the_first_step(kit, tmp_path, manager):
    network = kit.build()
    before = kit.read(network)
    trainer = kit.trainer(tmp_path, network, losses={"apart": lambda prediction, target: (prediction - target) ** 2})
    with pytest.raises(NetworkError, match=r"loss 'apart': a loss or training metric has the shape \(4, 1\)"):
        trainer.train(1, manager())
    assert kit.same(kit.read(network), before)


@pytest.mark.parametrize("setting", ["val_metrics", "metrics"])
def test_a_metric_that_returns_an_array_is_refused_before_the_first_step(kit, tmp_path, manager, setting):
    trainer = kit.trainer(tmp_path, **{setting: {"apart": apart}})
    with pytest.raises(DataError, match=r"metric 'apart' returned an array of shape \(\d+,\)"):
        trainer.train(1, manager(), manager(7))
    assert trainer.state.global_step == 0


def test_a_test_metric_that_returns_an_array_is_refused_before_the_first_fold(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    with pytest.raises(DataError, match=r"metric 'apart' returned an array of shape \(\d+,\)"):
        experiment.kfold(manager(), {"apart": apart}, num_splits=2)
    assert not list(experiment.save_path.glob("*/fold_*/checkpoints/*"))
    assert not list(experiment.save_path.glob("*/fold_*/history.csv"))


def test_a_key_mapping_that_is_no_dict_is_refused(kit, tmp_path, manager):
    match = r"key_mapping must be a dict \{argument of the network: entry of the batch\}, got 'data'"
    with pytest.raises(ConfigError, match=match):
        kit.trainer(tmp_path, key_mapping="data")
    with pytest.raises(ConfigError, match=match):
        kit.experiment(tmp_path, key_mapping="data").run(manager())


def test_a_metric_that_cannot_be_copied_is_not_tried_and_works_all_the_same(kit, tmp_path, manager):
    class Locked:
        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, y_true, y_pred):
            with self.lock:
                return 1.0

    trainer = kit.trainer(tmp_path, val_metrics={"locked": Locked()})
    trainer.train(1, manager(), manager(7))
    assert trainer.state.history[0]["val_locked"] == 1.0


def test_a_metric_without_its_entry_still_says_all_there_is(kit, tmp_path, manager):
    predictor = kit.experiment(tmp_path).setup(training=False, model=kit.build())
    with pytest.raises(MissingKeyError, match=r"'mask'.*'data'.*'pred'"):
        predictor.evaluate(manager(), metrics={"m": lambda a, b: 0.0}, metric_keys={"m": ("mask", "pred")})


# ---- the checks alone


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (({"a": 1}, {"b": 2}, {"c": 3}), ({"a": 1}, {"b": 2}, {"c": 3})),
        (({"b": 2}, {"c": 3}), ({}, {"b": 2}, {"c": 3})),
        (({"b": 2}, [3]), ({}, {"b": 2}, {"pred": 3})),
        (({"b": 2}, (3, 4)), ({}, {"b": 2}, {"pred_0": 3, "pred_1": 4})),
    ],
)
def test_what_a_closure_returned_is_split(result, wanted):
    assert unpack_closure(result) == wanted


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (None, "closure returned a NoneType; it returns"),
        (({}, {}, {}, {}), "closure returned a tuple of 4; it returns"),
        ((1.0, {}), "closure returned a float for losses; it must be a dict by name"),
        (({}, {}, 3), "closure returned a int for predictions; it must be a dict by name"),
    ],
)
def test_what_a_closure_cannot_return_is_refused(result, told):
    with pytest.raises(NetworkError, match=told):
        unpack_closure(result)


def test_values_of_one_name_are_refused():
    check_step_names({"a": 1}, {"b": 2})
    for metrics, losses, told in (({"a": 1}, {"a": 2}, "'a' as a metric and as a loss"), ({}, {"epoch": 1}, "'epoch'")):
        with pytest.raises(NetworkError, match=told):
            check_step_names(metrics, losses)


def test_data_that_give_batches_are_taken(manager):
    for data in (manager(), [{"data": 1}], iter([]), range(0)):
        check_data(data, "training")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"data": np.zeros(3)}, "the test data is a dict; pass a BaseDataManager"),
        (np.zeros(3), "the test data is a ndarray"),
        (3, "the test data is a int"),
        ([1, {}], "a batch must be a dict of arrays with the samples first, got int: the test data"),
        (DictDataset({"data": np.zeros(3)}), r"the test data is a dataset; wrap it: BaseDataManager\(dataset"),
    ],
)
def test_what_gives_no_batches_is_refused_in_words(data, told):
    with pytest.raises(DataError, match=told):
        check_data(data, "test")


def test_a_run_does_not_end_before_the_epoch_that_it_is_inside_of():
    check_length(TrainingState(epoch=2), 2)
    check_length(TrainingState(epoch=1, step_in_epoch=1), 2)
    with pytest.raises(ConfigError, match="num_epochs=2, but the run is inside epoch 3 already"):
        check_length(TrainingState(epoch=2, step_in_epoch=1), 2)


def test_a_batch_is_described_by_its_entries():
    assert describe_batch([1]) == "list"
    told = describe_batch({"data": np.zeros((2, 3), "f4"), "name": "a"})
    assert told.startswith("'data': ")
    assert "(2, 3)" in told
    assert ", 'name': " in told
