"""Prediction: batches in, numpy arrays and exact metrics out, and nothing of the caller's changed."""

import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.data_loading.dataset import AbstractDataset
from delira.errors import ConfigError, DataError, MissingKeyError, NetworkError
from delira.training import Predictor


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def distance(y_true, y_pred):
    """A metric of one sample."""
    return float(np.abs(y_true - y_pred).max())


distance.over = "sample"

METRICS = {"rmse": rmse, "distance": distance}


@pytest.fixture
def watched(kit):
    """A network that drops inputs when it learns, and notes whether it did."""

    class Watched(kit.network):
        seen: ClassVar[list] = []

        def __call__(self, *args, **kwargs):
            self.seen.append(kit.learns(self))
            return super().__call__(*args, **kwargs)

    return kit.build(dropout=0.5, cls=Watched)


@pytest.fixture
def nested(kit):
    """A network whose predictions are a tree."""

    class Nested(kit.network):
        def __call__(self, *args, **kwargs):
            pred = super().__call__(*args, **kwargs)["pred"]
            return {"pred": pred, "more": {"twice": 2 * pred, "both": [pred, -pred]}}

    return kit.build(cls=Nested)


def check_seen(kit, watched, n_calls):
    """The network did not learn in any of its calls; where it is compiled, it saw only the first of each kind."""
    if kit.compiles:
        assert set(watched.seen) == {False}
    else:
        assert watched.seen == [False] * n_calls


def by_hand(kit, network, data):
    """Labels and predictions of a manager in the order of its data."""
    arrays = data.dataset.data
    return arrays["label"], arrays["data"] @ kit.read(network)


# ---- one batch


def test_a_batch_is_predicted_as_numpy_arrays(kit, watched, regression):
    batch = regression(5)
    predictor = Predictor(watched)
    for predictions in (predictor.predict(batch), predictor(batch)):
        assert isinstance(predictions["pred"], np.ndarray)
        np.testing.assert_allclose(predictions["pred"], batch["data"] @ kit.read(watched), rtol=kit.rtol)
    check_seen(kit, watched, 2)


def test_a_batch_is_not_changed_by_its_prediction(kit, regression):
    batch, same = regression(5), regression(5)
    Predictor(kit.build()).predict(batch)
    assert kit.same(batch, same)


def test_key_mapping_says_which_entry_is_the_input(kit, regression):
    arrays = regression(5)
    predictor = Predictor(kit.build(), key_mapping={"x": "image"})
    predictions = predictor.predict({"image": arrays["data"], "data": 0 * arrays["data"]})
    np.testing.assert_allclose(predictions["pred"], arrays["data"] @ kit.read(kit.build()), rtol=kit.rtol)


def test_a_batch_without_the_input_is_refused(kit, regression):
    with pytest.raises(MissingKeyError, match=r"reads 'data', but the batch has only \['label'\]; set key_mapping="):
        Predictor(kit.build()).predict({"label": np.zeros(2)})


def test_a_network_that_returns_no_dict_is_refused(kit, regression):
    class Net(kit.network):
        def __call__(self, x):
            return [x]

    with pytest.raises(NetworkError, match="Net returned a list; a network returns a dict of named outputs"):
        Predictor(kit.build(cls=Net)).predict(regression(2))


def test_what_belongs_to_no_backend_is_refused():
    with pytest.raises(NetworkError, match="int belongs to no backend; subclass the network class of one"):
        Predictor(3)


def test_preparation_and_conversion_can_be_replaced(kit, regression):
    def prepare(batch):
        return kit.prepared({"data": 2 * batch["data"]})

    def convert(**predictions):
        return [], {name: 10 * np.asarray(value) for name, value in predictions.items()}

    batch = regression(5)
    predictor = Predictor(kit.build(), None, convert, prepare)
    expected = 20 * batch["data"] @ kit.read(kit.build())
    np.testing.assert_allclose(predictor.predict(batch)["pred"], expected, rtol=kit.rtol)


# ---- a data set at once


def test_the_historic_form_gives_outputs_labels_and_metrics(kit, tmp_path, manager):
    data = manager()
    trainer = kit.trainer(tmp_path, val_metrics=METRICS)
    outputs, labels, metrics = trainer.predict(data)
    y_true, y_pred = by_hand(kit, trainer.module, data)
    np.testing.assert_allclose(outputs[0], y_pred, rtol=kit.rtol)
    assert len(outputs) == 1
    assert kit.same(labels, [y_true, np.arange(10)])
    assert metrics["rmse"] == pytest.approx(np.array([rmse(y_true, y_pred)]), rel=kit.rtol)
    assert Predictor(trainer.module).predict(data, batch_size=3)[2] == {}


def test_metrics_are_arrays_of_one_number_or_of_one_for_each_sample(kit, manager):
    data = manager()
    network = kit.build()
    (values,) = Predictor(network).predict_data_mgr_cache_metrics_only(data, metrics=METRICS)
    y_true, y_pred = by_hand(kit, network, data)
    assert {name: array.shape for name, array in values.items()} == {"rmse": (1,), "distance": (10,)}
    np.testing.assert_allclose(values["rmse"], [rmse(y_true, y_pred)], rtol=kit.rtol)
    np.testing.assert_allclose(values["distance"], np.abs(y_true - y_pred)[:, 0], rtol=kit.rtol)


def test_everything_is_kept_by_cache_all(kit, nested, manager):
    data = manager()
    results = list(Predictor(nested).predict_data_mgr_cache_all(data, metrics={"rmse": rmse}))
    ((predictions, values),) = results
    y_true, y_pred = by_hand(kit, nested, data)
    assert predictions.keys() == {"pred", "more"}
    np.testing.assert_allclose(predictions["pred"], y_pred, rtol=kit.rtol)
    np.testing.assert_allclose(predictions["more"]["twice"], 2 * y_pred, rtol=kit.rtol)
    np.testing.assert_allclose(predictions["more"]["both"][1], -y_pred, rtol=kit.rtol)
    np.testing.assert_allclose(values["rmse"], [rmse(y_true, y_pred)], rtol=kit.rtol)


def test_cache_preds_decides_between_the_two(kit, manager):
    predictor = Predictor(kit.build())
    (both,) = predictor.predict_data_mgr_cache(manager(), metrics=METRICS, cache_preds=True)
    (alone,) = predictor.predict_data_mgr_cache(manager(), metrics=METRICS)
    assert kit.same(both[1], alone)
    assert both[0].keys() == {"pred"}


@pytest.mark.parametrize("batchsize", [1, 3, 4, 10, 99])
def test_the_batch_size_changes_nothing_and_the_tail_is_kept(kit, watched, manager, batchsize):
    data = manager()
    predictor = Predictor(watched)
    ((predictions, values),) = predictor.predict_data_mgr_cache_all(data, batchsize, METRICS)
    y_true, y_pred = by_hand(kit, watched, data)
    np.testing.assert_allclose(predictions["pred"], y_pred, rtol=kit.rtol)
    np.testing.assert_allclose(values["rmse"], [rmse(y_true, y_pred)], rtol=kit.rtol)
    check_seen(kit, watched, -(-10 // batchsize))
    assert data.batch_size == 4


def test_the_data_are_read_in_their_order(kit, manager):
    data = manager()
    done = Predictor(kit.build()).evaluate(data, targets=["number"])
    assert done.targets["number"].tolist() == list(range(10))


def test_a_list_of_batches_is_a_data_set_without_another_batch_size(kit, manager):
    predictor = Predictor(kit.build())
    batches = list(manager())
    assert kit.same(predictor.predict(batches), predictor.predict(manager()))
    assert kit.same(predictor.predict(batches, batch_size=2), predictor.predict(manager()))
    with pytest.raises(ConfigError, match="batch_size=2 needs a data manager; the data is a list"):
        predictor.evaluate(batches, batchsize=2)


def test_metric_keys_may_leave_metrics_out(kit, nested, manager):
    def twice(y_true, y_pred):
        return rmse(2 * y_true, y_pred)

    data = manager()
    predictor = Predictor(nested)
    (values,) = predictor.predict_data_mgr_cache_metrics_only(
        data, metrics={"rmse": rmse, "twice": twice}, metric_keys={"twice": ("label", "more.twice")}
    )
    y_true, y_pred = by_hand(kit, nested, data)
    np.testing.assert_allclose(values["rmse"], [rmse(y_true, y_pred)], rtol=kit.rtol)
    np.testing.assert_allclose(values["twice"], 2 * values["rmse"], rtol=kit.rtol)


def test_metric_keys_that_name_no_metric_or_no_entry_are_refused(kit, manager):
    predictor = Predictor(kit.build())
    with pytest.raises(
        ConfigError, match="metric_keys names the metric 'rsme', which does not exist; did you mean 'rmse'"
    ):
        predictor.evaluate(manager(), metrics=METRICS, metric_keys={"rsme": ("label", "pred")})
    with pytest.raises(MissingKeyError, match="metric 'rmse' reads 'logits'"):
        predictor.evaluate(manager(), metrics=METRICS, metric_keys={"rmse": ("label", "logits")})


def test_an_empty_data_set_has_no_metrics(kit):
    with pytest.raises(DataError, match="have seen no data: the data set is empty"):
        Predictor(kit.build()).evaluate([], metrics=METRICS)


def test_no_metrics_are_no_metrics(kit, manager):
    done = Predictor(kit.build()).evaluate(manager())
    assert done.metrics == {}
    assert done.predictions["pred"].shape == (10, 1)


class Drawing(AbstractDataset):
    """Draws a random number for each sample."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return {"data": np.random.normal(size=3), "label": np.zeros(1)}


def test_random_data_are_the_same_each_time_and_leave_the_callers_generators_alone(kit):
    predictor = Predictor(kit.build())
    with kit.undisturbed():
        first = predictor.predict(BaseDataManager(Drawing(), 2))
    np.random.seed(5)
    assert kit.same(first, predictor.predict(BaseDataManager(Drawing(), 2)))


# ---- batch by batch


def test_batches_come_one_by_one_with_their_own_metrics(kit, manager):
    network = kit.build()
    taken = []

    class Lazy:
        def __iter__(self):
            for batch in manager():
                taken.append(len(batch["data"]))
                yield batch

    results = Predictor(network).predict_data_mgr(Lazy(), metrics=METRICS)
    assert taken == []
    for number, (batch, (predictions, values)) in enumerate(zip(manager(), results, strict=True), 1):
        assert len(taken) == number
        y_pred = batch["data"] @ kit.read(network)
        np.testing.assert_allclose(predictions["pred"], y_pred, rtol=kit.rtol)
        np.testing.assert_allclose(values["rmse"], [rmse(batch["label"], y_pred)], rtol=kit.rtol)
        assert values["distance"].shape == (len(batch["data"]),)
    assert taken == [4, 4, 2]


def test_what_is_not_finite_is_told_after_the_last_batch(kit, manager, caplog):
    batches, predictor = list(manager()), Predictor(kit.build())
    batches[1]["data"][2] = np.nan
    whole = predictor.evaluate(batches, metrics=METRICS)
    (told,) = [record.message for record in caplog.records]
    assert whole.not_finite == (6,)
    caplog.clear()
    singly = Predictor(kit.build()).predict_data_mgr(batches, metrics=METRICS)
    next(singly), next(singly)
    assert caplog.records == []
    assert len(list(singly)) == 1
    assert [record.message for record in caplog.records] == [told]


def test_single_batches_are_read_as_earlier_passes_have_told(kit, manager):
    def settled(metrics, metric_keys, told):
        assert (metric_keys, told) == ({}, {"pred": {"output": "logits", "since": 1}})
        return {name: lambda y_true, y_pred: 5.0 for name in metrics}

    predictor = Predictor(kit.build())
    predictor.follow(SimpleNamespace(settled=settled, outputs={}), {"pred": {"output": "logits", "since": 1}})
    found = [values["rmse"].tolist() for _, values in predictor.predict_data_mgr(manager(), metrics={"rmse": rmse})]
    assert found == [[5.0]] * 3


def test_keys_of_metrics_that_are_left_out_do_not_matter_for_single_batches(kit, manager):
    found = Predictor(kit.build()).predict_data_mgr(manager(), metric_keys={"rmse": ("label", "pred")})
    assert [values for _, values in found] == [{}] * 3


def test_between_batches_the_network_is_as_the_caller_left_it(kit, watched, manager):
    with kit.backend.calls.training(watched):
        for _ in Predictor(watched).predict_data_mgr(manager(), metrics=METRICS):
            assert kit.learns(watched)
            if kit.name.startswith("torch"):
                torch = sys.modules["torch"]
                assert torch.is_grad_enabled()
                assert watched.training
        assert kit.learns(watched)
    check_seen(kit, watched, 3)


def test_modes_are_restored_after_a_break_and_after_an_exception(kit, watched, manager):
    def fails(y_true, y_pred):
        raise RuntimeError("in a metric")

    predictor = Predictor(watched)
    with kit.backend.calls.training(watched):
        for _ in predictor.predict_data_mgr(manager()):
            break
        assert kit.learns(watched)
        with pytest.raises(RuntimeError, match="in a metric"):
            list(predictor.predict_data_mgr(manager(), metrics={"m": fails}))
        assert kit.learns(watched)
        with pytest.raises(RuntimeError, match="in a metric"):
            predictor.evaluate(manager(), metrics={"m": fails})
        assert kit.learns(watched)
        predictor.predict(manager())
        assert kit.learns(watched)
    assert not any(watched.seen)


def test_modes_of_single_layers_are_restored(kit, manager):
    if not kit.name.startswith("torch"):
        pytest.skip("the toy network has no layers")
    network = kit.build(dropout=0.5)
    network.train()
    network.drop.eval()  # frozen by the user
    Predictor(network).predict(manager())
    assert network.training
    assert not network.drop.training


def test_a_trainer_predicts_like_a_predictor(kit, tmp_path, watched, manager):
    trainer = kit.trainer(tmp_path, watched)
    predictor = Predictor(watched)
    for mine, others in zip(
        trainer.predict_data_mgr(manager(), 3), predictor.predict_data_mgr(manager(), 3), strict=True
    ):
        assert kit.same(mine, others)
    assert not any(watched.seen)


# ---- progress


def test_a_bar_is_drawn_in_a_terminal_if_asked_for(kit, tmp_path, manager, monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    drawn = []
    monkeypatch.setattr(tqdm, "tqdm", lambda batches, desc, leave: drawn.append(desc) or batches)
    predictor, trainer = Predictor(kit.build()), kit.trainer(tmp_path)
    predictor.evaluate(manager(), verbose=True)
    assert drawn == []  # the error stream of a test is no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    predictor.evaluate(manager())
    predictor.evaluate(manager(), verbose=True)
    list(trainer.predict_data_mgr(manager(), verbose=True))
    assert drawn == ["Test", "Validate"]
