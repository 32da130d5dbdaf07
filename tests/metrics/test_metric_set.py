"""Metrics over a data set are those of the whole data set, whatever the batches."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn.metrics

from delira.errors import ConfigError, DataError, MissingKeyError
from delira.metrics import MetricSet, accuracy, kind_of, per_sample, score

N = 70
GENERATOR = np.random.default_rng(3)
LABEL = GENERATOR.integers(3, size=N)
PRED = GENERATOR.random((N, 3)).astype(np.float32)


def f1(y_true, y_pred):
    return sklearn.metrics.f1_score(y_true, y_pred.argmax(1), average="macro")


@per_sample
def certainty(y_true, y_pred):
    return y_pred[y_true]


class MeanError:
    """The smallest streaming metric: mean absolute difference."""

    def __init__(self):
        self.calls = []
        self.reset()

    def reset(self):
        self.total, self.n = 0.0, 0

    def update(self, y_true, y_pred):
        self.calls.append((y_true, y_pred))
        self.total += float(abs(y_true - y_pred).sum())
        self.n += len(y_true)

    def compute(self):
        return self.total / self.n


class TorchMetric(MeanError):
    """The same, with the names and the order of torchmetrics."""

    __module__ = "torchmetrics.regression"

    def update(self, preds, target):
        super().update(preds, target)


def fill(metrics, batch_size=32, **entries):
    entries = entries or {"label": LABEL, "pred": PRED}
    for start in range(0, N, batch_size):
        metrics.update({name: array[start : start + batch_size] for name, array in entries.items()})
    return metrics


@pytest.mark.parametrize("batch_size", [1, 32, 70])
def test_a_ragged_last_batch_changes_nothing(batch_size):
    metrics = MetricSet({"accuracy": accuracy, "f1": f1, "certainty": certainty})
    values = fill(metrics, batch_size).compute()
    assert values["accuracy"] == [(PRED.argmax(1) == LABEL).mean()]
    assert values["f1"] == [f1(LABEL, PRED)]
    np.testing.assert_array_equal(values["certainty"], PRED[np.arange(N), LABEL])


def test_values_are_float64_of_one_number_or_one_per_sample():
    values = fill(MetricSet({"accuracy": accuracy, "certainty": certainty})).compute()
    assert {name: (value.shape, value.dtype) for name, value in values.items()} == {
        "accuracy": ((1,), np.float64),
        "certainty": ((N,), np.float64),
    }


def test_a_function_gets_labels_before_predictions():
    # sklearn's order; delira 0.4 handed over (pred, label) (defect 47)
    assert sklearn.metrics.recall_score([1, 1, 1, 0], [1, 0, 0, 0]) == pytest.approx(1 / 3)
    metrics = MetricSet({"recall": sklearn.metrics.recall_score})
    metrics.update({"pred": np.array([1, 0, 0, 0]), "label": np.array([1, 1, 1, 0])})
    assert metrics.compute()["recall"] == pytest.approx(1 / 3)


def test_metric_keys_may_leave_metrics_out():
    # delira 0.4 raised KeyError unless every metric was named
    metrics = MetricSet({"mean": lambda data: data.mean(), "accuracy": accuracy}, {"mean": ["data"]})
    assert metrics.required_keys() == {"mean": ("data",), "accuracy": ("label", "pred")}
    values = fill(metrics, label=LABEL, pred=PRED, data=PRED).compute()
    assert values["mean"] == pytest.approx(PRED.mean())


def test_nested_entries_are_read_by_dotted_paths_and_exact_names_win():
    values = {"seg": {"mask": np.array([1, 0]), "heads": [np.array([5]), np.array([1, 1])]}, "a.b": np.array([9])}
    keys = {"agree": ("seg.mask", "seg.heads.1"), "nine": ("a.b",)}
    metrics = MetricSet({"agree": accuracy, "nine": lambda x: x[0]}, keys)
    metrics.update(values)
    assert metrics.compute() == {"agree": [0.5], "nine": [9.0]}


def test_a_metric_may_read_a_whole_tree():
    metrics = MetricSet({"sum": lambda tree: tree["a"].sum() + tree["b"][0].sum()}, {"sum": ("x",)})
    for _ in range(2):
        metrics.update({"x": {"a": np.ones(3), "b": [np.ones(3)]}})
    assert metrics.compute()["sum"] == [12.0]


def test_per_sample_metrics_see_trees_one_sample_at_a_time():
    metrics = MetricSet({"m": per_sample(lambda tree, n: tree["a"] * n)}, {"m": ("x", "n")})
    metrics.update({"x": {"a": np.array([1, 2])}, "n": np.array([10, 100])})
    np.testing.assert_array_equal(metrics.compute()["m"], [10, 200])


def test_an_object_with_over_sample_is_a_metric_over_samples():
    class Peak:
        over = "sample"

        def __call__(self, y_true, y_pred):
            return y_pred.max()

    assert kind_of(Peak()) == "sample"
    values = fill(MetricSet({"peak": Peak()})).compute()
    np.testing.assert_array_equal(values["peak"], PRED.max(1))


def test_streaming_objects_are_updated_per_batch_in_sklearns_order():
    metric = MeanError()
    metrics = fill(MetricSet({"mae": metric}, {"mae": ("label", "data")}), label=LABEL, data=LABEL + 0.5)
    assert len(metric.calls) == 3
    assert metric.calls[0][0] is not metric.calls[0][1]
    np.testing.assert_array_equal(metric.calls[2][0], LABEL[64:])
    assert metrics.compute()["mae"] == [0.5]


def test_a_streaming_object_that_was_used_before_starts_afresh():
    metric = MeanError()
    metric.update(np.zeros(4), np.full(4, 100.0))
    metrics = fill(MetricSet({"mae": metric}, {"mae": ("label", "label")}), label=LABEL)
    assert metrics.compute()["mae"] == [0.0]


def test_reset_forgets_everything():
    metrics = MetricSet({"accuracy": accuracy, "certainty": certainty, "mae": MeanError()}, {"mae": ("label", "label")})
    fill(metrics)
    metrics.reset()
    metrics.update({"label": np.array([0]), "pred": np.array([[1.0, 0, 0]])})
    assert {name: value.tolist() for name, value in metrics.compute().items()} == {
        "accuracy": [1.0],
        "certainty": [1.0],
        "mae": [0.0],
    }


def test_torchmetrics_get_tensors_and_predictions_first():
    torch = pytest.importorskip("torch")
    metric = TorchMetric()
    metrics = MetricSet({"mae": metric})
    assert metrics.required_keys() == {"mae": ("pred", "label")}
    frozen = np.array([1.0, 2.0])
    frozen.flags.writeable = False
    metrics.update({"label": np.array([1.0, 4.0])[::-1][::-1], "pred": frozen})
    pred, label = metric.calls[0]
    assert isinstance(pred, torch.Tensor)
    assert pred.tolist() == [1.0, 2.0]
    assert label.tolist() == [1.0, 4.0]
    assert metrics.compute()["mae"] == [1.0]


def test_a_class_derived_from_torchmetrics_is_one_of_torchmetrics():
    pytest.importorskip("torch")

    class Mine(TorchMetric):
        pass

    assert MetricSet({"mae": Mine()}).required_keys() == {"mae": ("pred", "label")}


def test_the_real_torchmetrics_agree_with_sklearn():
    torchmetrics = pytest.importorskip("torchmetrics")
    metric = torchmetrics.classification.MulticlassF1Score(num_classes=3, average="macro")
    values = fill(MetricSet({"f1": metric})).compute()
    assert values["f1"] == pytest.approx(f1(LABEL, PRED), abs=1e-6)
    assert score(metric, [PRED, LABEL]) == pytest.approx(f1(LABEL, PRED), abs=1e-6)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.reshape(1), lambda x: x.requires_grad_()])
def test_device_values_are_read_as_numbers(make):
    torch = pytest.importorskip("torch")
    metrics = MetricSet({"m": lambda y_true, y_pred: make(torch.tensor(0.25))})
    assert fill(metrics).compute()["m"].tolist() == [0.25]


def test_values_of_frameworks_that_know_only_numpy_are_read_too():
    class EagerTensor:
        shape = ()

        def numpy(self):
            return np.float32(0.25)

    assert fill(MetricSet({"m": lambda y_true, y_pred: EagerTensor()})).compute()["m"] == [0.25]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (np.zeros(3), r"an array of shape \(3,\)"),
        ({"f1": 1.0}, "a dict"),
        (None, "a NoneType"),
        ("0.5", "a str"),
        (1j, "a complex"),
    ],
)
def test_what_is_not_a_number_is_refused_by_name(value, what):
    with pytest.raises(DataError, match=f"metric 'odd' returned {what}, but a metric is one number"):
        fill(MetricSet({"odd": lambda y_true, y_pred: value})).compute()
    with pytest.raises(DataError, match=f"metric 'odd' returned {what} for sample 0"):
        fill(MetricSet({"odd": per_sample(lambda y_true, y_pred: value)}))


@pytest.mark.parametrize("value", [True, 3, np.float32(0.5), np.array(0.5), np.array([0.5]), np.bool_(True)])
def test_every_kind_of_number_is_accepted(value):
    assert fill(MetricSet({"m": lambda y_true, y_pred: value})).compute()["m"] == [float(np.squeeze(value))]


def test_missing_entries_are_named_all_at_once():
    metrics = MetricSet({"mae": MeanError(), "accuracy": accuracy}, {"mae": ("mask", "pred")})
    metrics.check_keys({"mask": 0, "label": 0}, {"pred": 0})
    with pytest.raises(MissingKeyError) as caught:
        metrics.check_keys({"data": 0, "info": {"label": 0}}, {"pred": 0})
    assert str(caught.value).splitlines() == [
        "metric 'mae' reads 'mask', but the batch has ['data', 'info.label'] and the network's predictions have "
        "['pred']; set metric_keys={'mae': (...)}",
        "metric 'accuracy' reads 'label', but the batch has ['data', 'info.label'] and the network's predictions "
        "have ['pred']; set metric_keys={'accuracy': (...)}",
    ]


def test_updating_without_an_entry_says_which_metric_reads_it():
    with pytest.raises(MissingKeyError, match=r"metric 'accuracy' reads 'label'.* have \['pred'\]; set metric_keys"):
        MetricSet({"accuracy": accuracy}).update({"pred": PRED})


def test_keys_of_a_metric_that_does_not_exist_are_refused_with_a_guess():
    with pytest.raises(ConfigError, match="the metric 'acuracy', which does not exist; did you mean 'accuracy'"):
        MetricSet({"accuracy": accuracy}, {"acuracy": ("label", "pred")})


def test_keys_must_be_a_sequence_of_names():
    with pytest.raises(ConfigError, match=r"metric_keys\['accuracy'\] must be a tuple of names.*got 'label'"):
        MetricSet({"accuracy": accuracy}, {"accuracy": "label"})


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (0.5, "metric 'm' is of type float; give a function"),
        (MeanError, "metric 'm' is the class MeanError; give a function"),
    ],
)
def test_what_cannot_be_computed_is_refused_at_once(metric, message):
    with pytest.raises(ConfigError, match=message):
        MetricSet({"m": metric})


def test_an_unknown_over_is_refused():
    metric = per_sample(f1)
    metric.over = "pixel"
    with pytest.raises(ConfigError, match="over='pixel'; allowed are 'sample' and 'dataset'"):
        MetricSet({"m": metric})


def test_a_metric_that_raises_keeps_its_error_and_tells_what_it_got():
    def broken(y_true, y_pred):
        raise ZeroDivisionError("no positives")

    for metric, shape in ((broken, "int64(70,)"), (per_sample(broken), "int64(32,)")):
        with pytest.raises(ZeroDivisionError, match="no positives") as caught:
            fill(MetricSet({"mine": metric})).compute()
        note = caught.value.__notes__[0]
        assert note.startswith(f"in metric 'mine', called with (label: {shape}, pred: float32(")


def test_samples_that_do_not_match_are_refused():
    metrics = MetricSet({"m": certainty})
    with pytest.raises(DataError, match=r"metric 'm' is called per sample, but its arrays have \[2, 3\] samples"):
        metrics.update({"label": np.zeros(2, int), "pred": np.zeros((3, 3))})


def test_an_empty_data_set_has_no_metrics():
    with pytest.raises(DataError, match=r"the metrics \['accuracy'\] have seen no data"):
        MetricSet({"accuracy": accuracy}).compute()


def test_no_metrics_is_a_set_of_its_own():
    metrics = MetricSet({})
    metrics.update({"label": LABEL})
    assert metrics.compute() == {}
    assert len(metrics) == 0


def test_predictions_beyond_the_limit_give_the_same_values():
    metrics = MetricSet({"accuracy": accuracy, "kind": lambda t, p: isinstance(p, np.memmap)}, limit_bytes=500)
    assert fill(metrics).compute() == {"accuracy": [(PRED.argmax(1) == LABEL).mean()], "kind": [1.0]}


def test_score_evaluates_every_kind_and_leaves_streaming_objects_alone():
    metric = MeanError()
    metric.update(np.zeros(1), np.ones(1))
    assert score(f1, [LABEL, PRED]) == f1(LABEL, PRED)
    assert score(certainty, [LABEL, PRED]) == pytest.approx(PRED[np.arange(N), LABEL].mean())
    assert score(metric, [np.zeros(2), np.full(2, 4.0)]) == 4.0
    assert metric.compute() == 1.0


def test_per_sample_metrics_can_be_copied_and_sent_to_other_processes():
    wrapped = per_sample(f1)
    for clone in (pickle.loads(pickle.dumps(wrapped)), copy.deepcopy(wrapped)):
        assert clone.over == "sample"
        assert clone.function is f1
    assert pickle.loads(pickle.dumps(certainty)) is certainty  # decorated: hides the function's own name
    assert repr(wrapped) == "per_sample(f1)"
    assert certainty.__name__ == "certainty"


def test_importing_metrics_imports_no_framework():
    code = (
        "import sys, delira.metrics; "
        "print([m for m in ('sklearn', 'scipy', 'matplotlib', 'torch', 'jinja2') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
