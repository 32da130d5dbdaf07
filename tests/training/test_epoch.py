"""What a checkpoint inside an epoch keeps of its metrics: half of them done, and continued."""

import warnings

import numpy as np
import pytest
from broken_off import Break
from small_backends import build_kit
from stored_trees import through_a_file

from delira.errors import CheckpointError
from delira.metrics import AurocMetric, MetricSet, SklearnAccuracyScore, accuracy, dice, per_sample
from delira.settings.config import read_settings
from delira.training.epoch import RunningEpoch

N_BATCHES = 7


class Streaming:
    """Numbers, arrays, lists and None; no methods for its state."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.n, self.largest, self.counts, self.seen = 0.0, 0, None, np.zeros(4, dtype=np.int64), []

    def update(self, y_true, y_pred):
        self.total, self.n = self.total + float(np.abs(y_true - y_pred).sum()), self.n + len(y_true)
        self.largest = max(float(np.abs(y_pred).max()), self.largest or 0.0)
        self.counts[: len(y_true)] += 1
        self.seen.append(float(y_pred.sum()))

    def compute(self):
        return self.total / self.n + self.largest + float(self.counts @ np.arange(4)) + sum(self.seen)


class Stateful(Streaming):
    """Tells its state itself."""

    def __init__(self):
        super().__init__()
        self.helper = lambda: None  # nothing that could be stored

    def state_dict(self):
        return {"total": self.total, "n": self.n, "largest": self.largest, "counts": self.counts, "seen": self.seen}

    def load_state_dict(self, state):
        self.total, self.n, self.largest = state["total"], state["n"], state["largest"]
        self.counts, self.seen = state["counts"], list(state["seen"])


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


@per_sample
def error(y_true, y_pred):
    return float(np.abs(y_true - y_pred).sum())


def deep(y_true, y_pred):
    return float(y_pred["a"].mean() + y_pred["b"][0].sum() - y_true.mean())


KINDS = {
    "over the data": lambda: {"rmse": rmse},
    "two that read the same": lambda: {"rmse": rmse, "mean": lambda y_true, y_pred: float(y_pred.mean())},
    "per sample": lambda: {"error": error},
    "streaming": lambda: {"stream": Streaming()},
    "streaming with a state": lambda: {"stream": Stateful()},
    "all": lambda: {"rmse": rmse, "error": error, "stream": Streaming(), "stateful": Stateful()},
    "none": dict,
}


def batches(n=N_BATCHES):
    """The last one is smaller."""
    rng = np.random.default_rng(3)
    for number in range(n):
        size = 2 if number == n - 1 else 4
        yield {"label": rng.normal(size=(size, 1)), "pred": rng.normal(size=(size, 1)).astype(np.float32)}


def interrupted(backend, path, make, values, stop, keys=None):
    """Metrics of all batches, of which a checkpoint was written and read after ``stop``."""
    first, second = MetricSet(make(), keys), MetricSet(make(), keys)
    for number, batch in enumerate(values):
        if number < stop:
            first.update(batch)
    assert first.is_storable
    state = through_a_file(backend, first.state_dict(), path)
    for batch in values[:1]:  # what another pass has left
        second.update(batch)
    second.load_state_dict(state)
    for batch in values[stop:]:
        second.update(batch)
    return second.compute()


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].tobytes() == expected[name].tobytes(), name


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [0, 1, 3, N_BATCHES])
def test_metrics_go_on_where_they_were(kit, tmp_path, kind, stop):
    values, whole = list(batches()), MetricSet(KINDS[kind]())
    for batch in values:
        whole.update(batch)
    expected = whole.compute()
    assert_same(interrupted(kit, tmp_path / "metrics", KINDS[kind], values, stop), expected)


def test_metrics_of_scikit_learn_and_our_own_go_on(kit, tmp_path):
    rng = np.random.default_rng(0)
    values = [
        {"label": np.array([0, 1, 2, 0]), "pred": rng.random((4, 3)), "mask": rng.integers(0, 3, (4, 1, 5, 5)),
         "segmented": rng.random((4, 3, 5, 5)), "binary": np.array([0, 1, 1, 0]), "score": rng.random(4)}
        for _ in range(4)
    ]  # fmt: skip
    make = lambda: {"acc": accuracy, "dice": dice, "sk": SklearnAccuracyScore(), "auc": AurocMetric()}  # noqa: E731
    keys = {"dice": ("mask", "segmented"), "auc": ("binary", "score")}
    whole = MetricSet(make(), keys)
    for batch in values:
        whole.update(batch)
    assert_same(interrupted(kit, tmp_path / "metrics", make, values, 2, keys), whole.compute())


def test_metrics_of_trees_go_on(kit, tmp_path):
    rng = np.random.default_rng(0)
    values = [
        {"label": rng.normal(size=3), "pred": {"a": rng.normal(size=(3, 2)), "b": [rng.normal(size=3)]}}
        for _ in range(3)
    ]
    whole = MetricSet({"deep": deep})
    for batch in values:
        whole.update(batch)
    assert_same(interrupted(kit, tmp_path / "metrics", lambda: {"deep": deep}, values, 2), whole.compute())


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float16, np.float32, np.complex64])
def test_gathered_arrays_keep_their_type(kit, tmp_path, dtype):
    rng = np.random.default_rng(0)
    values = [{"label": rng.normal(size=4).astype(dtype), "pred": rng.normal(size=4)} for _ in range(3)]
    seen = []

    def look(y_true, y_pred):
        seen.append((y_true.dtype, y_true.tobytes()))
        return 0.0

    interrupted(kit, tmp_path / "metrics", lambda: {"look": look}, values, 2)
    assert seen == [(np.dtype(dtype), np.concatenate([batch["label"] for batch in values]).tobytes())]


def test_predictions_in_files_go_on(tmp_path):
    """Beyond a size they are not kept in memory."""
    from small_backends import toy_kit

    values, kit = list(batches()), toy_kit()
    whole = MetricSet({"rmse": rmse})
    first, second = MetricSet({"rmse": rmse}, limit_bytes=50), MetricSet({"rmse": rmse}, limit_bytes=50)
    for number, batch in enumerate(values):
        whole.update(batch)
        if number < 4:
            first.update(batch)
    assert first.is_storable
    second.load_state_dict(through_a_file(kit, first.state_dict(), tmp_path / "metrics"))
    for batch in values[4:]:
        second.update(batch)
    assert_same(second.compute(), whole.compute())


@pytest.mark.parametrize(
    "entry", [np.array(["a", "b", "c"]), np.array([None, 1, {}], dtype=object), np.array(["2020-01-01"] * 3, "M8[D]")]
)
def test_what_a_checkpoint_cannot_hold_is_told_before(entry):
    metrics = MetricSet({"names": lambda y_true, y_pred: 0.0})
    metrics.update({"label": entry, "pred": np.zeros(3)})
    assert not metrics.is_storable


def test_ragged_predictions_cannot_be_held():
    metrics = MetricSet({"first": lambda y_true, y_pred: float(y_pred[0].mean())})
    for length in (3, 5):
        metrics.update({"label": np.zeros(2), "pred": np.ones((2, length))})
    assert not metrics.is_storable


def test_a_run_whose_predictions_are_ragged_begins_its_epoch_again(tmp_path, regression, caplog):
    """It is trained and resumed all the same."""
    from small_backends import toy_kit

    kit = toy_kit()

    class Ragged(kit.network):
        """As many predictions per sample as the batch has samples."""

        def __call__(self, x):
            pred = super().__call__(x)["pred"]
            return {"pred": pred, "wide": np.repeat(pred, len(x), axis=1)}

    class Break:
        def at_iter_end(self, trainer, *, global_iter_num, **facts):
            if global_iter_num == 5:
                raise KeyboardInterrupt

    data = [regression(n) for n in (4, 3, 2)]

    def build(path, *callbacks):
        return kit.trainer(
            path, kit.build(cls=Ragged), callbacks=callbacks, save_freq_steps=1, save_freq=1,
            metrics={"widest": lambda y_true, y_pred: float(max(row.max() for row in y_pred))},
            metric_keys={"widest": ("label", "wide")},
        )  # fmt: skip

    unbroken = build(tmp_path / "unbroken")
    unbroken.train(3, data)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "broken", Break()).train(3, data)
    assert "no checkpoint is written inside an epoch: a metric cannot be continued there" in caplog.text
    resumed = build(tmp_path / "broken")
    resumed.train(3, data)
    assert kit.same(resumed.checkpoint_tree(), unbroken.checkpoint_tree())


def _torchmetrics(name):
    torchmetrics = pytest.importorskip("torchmetrics")
    return {
        "accuracy": lambda: torchmetrics.Accuracy(task="multiclass", num_classes=3),
        "confusion": lambda: torchmetrics.F1Score(task="multiclass", num_classes=3, average="macro"),
        "auroc, all values": lambda: torchmetrics.AUROC(task="multiclass", num_classes=3),
        "auroc, binned": lambda: torchmetrics.AUROC(task="multiclass", num_classes=3, thresholds=20),
        "calibration": lambda: torchmetrics.CalibrationError(task="multiclass", num_classes=3),
    }[name]


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("name", ["accuracy", "confusion", "auroc, all values", "auroc, binned", "calibration"])
@pytest.mark.parametrize("stop", [0, 1, 2, 5])
def test_torchmetrics_go_on_where_they_were(kit, tmp_path, name, stop):
    make, rng = _torchmetrics(name), np.random.default_rng(0)
    scores = [rng.random((4, 3)).astype(np.float32) for _ in range(5)]
    values = [{"pred": s / s.sum(1, keepdims=True), "label": rng.integers(0, 3, 4)} for s in scores]
    whole = MetricSet({"m": make()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torchmetrics, e.g. about memory
        for batch in values:
            whole.update(batch)
        expected = whole.compute()
        found = interrupted(kit, tmp_path / "metrics", lambda: {"m": make()}, values, stop)
    assert_same(found, expected)


@pytest.mark.parametrize("kind", ["MeanSquaredError", "PearsonCorrCoef", "R2Score", "SpearmanCorrCoef"])
def test_torchmetrics_of_numbers_go_on(tmp_path, kind):
    torchmetrics = pytest.importorskip("torchmetrics")
    from small_backends import torch_kit

    rng = np.random.default_rng(0)
    values = [{"pred": rng.random(4), "label": rng.random(4)} for _ in range(4)]
    make = lambda: {"m": getattr(torchmetrics, kind)()}  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = MetricSet(make())
        for batch in values:
            whole.update(batch)
        assert_same(interrupted(torch_kit(), tmp_path / "metrics", make, values, 2), whole.compute())


def test_a_state_of_torchmetrics_is_a_copy():
    torchmetrics = pytest.importorskip("torchmetrics")
    metrics = MetricSet({"m": torchmetrics.MeanSquaredError()})
    values = [{"pred": np.full(2, float(n), np.float32), "label": np.zeros(2, np.float32)} for n in (1, 5)]
    metrics.update(values[0])
    state = metrics.state_dict()
    metrics.update(values[1])
    other = MetricSet({"m": torchmetrics.MeanSquaredError()})
    other.load_state_dict(state)
    assert other.compute()["m"] == 1.0
    other.update(values[1])
    third = MetricSet({"m": torchmetrics.MeanSquaredError()})
    third.load_state_dict(state)
    assert third.compute()["m"] == 1.0, "going on has changed what was loaded"


def test_wrappers_of_torchmetrics_are_told_to_hide_their_state():
    torchmetrics = pytest.importorskip("torchmetrics")
    metrics = MetricSet({"m": torchmetrics.MinMaxMetric(torchmetrics.MeanSquaredError())})
    assert not metrics.is_storable


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"rmse": rmse}, {}),
        ({}, {"rmse": rmse}),
        ({"rmse": rmse}, {"error": error}),
        ({"rmse": rmse}, {"rmse": rmse, "error": error}),
        ({"stream": Streaming()}, {"rmse": rmse}),
        ({"stream": Streaming()}, {"stream": Streaming(), "other": Streaming()}),
        ({"rmse": rmse}, {"rmse": error}),
    ],
)
def test_other_metrics_inside_an_epoch_are_refused_with_both_lists(kit, tmp_path, manager, then, now):
    """A value over a part of the epoch would look like one over all of it."""
    with pytest.raises(KeyboardInterrupt):
        kit.trainer(tmp_path, save_freq_steps=1, metrics=then, callbacks=[Break(5)]).train(3, manager())
    trainer = kit.trainer(tmp_path, save_freq_steps=1, metrics=now)
    with pytest.raises(CheckpointError, match=r"inside an epoch with the metrics .*, but the trainer has "):
        trainer.train(3, manager())


def test_other_metrics_between_epochs_are_allowed(kit, tmp_path, manager):
    kit.trainer(tmp_path, metrics={"rmse": rmse}).train(1, manager())
    trainer = kit.trainer(tmp_path, metrics={"error": error})
    trainer.train(2, manager())
    assert {"epoch", "mse", "rmse", "lr"} == trainer.state.history[0].keys()
    assert {"epoch", "mse", "error", "lr"} == trainer.state.history[1].keys()


def test_the_state_of_a_running_epoch_goes_through_every_file(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path / "run", metrics=KINDS["all"]())
    first = RunningEpoch(trainer.config, kit.backend, {"lr": 0.25})
    for step, batch in enumerate(batches(), 1):
        first.losses.append({"mse": 0.5 * step}, len(batch["label"]), step)
        first.over_epoch.update(batch)
    state = through_a_file(kit, first.state_dict(), tmp_path / "state")
    other = kit.trainer(tmp_path / "other", metrics=KINDS["all"]())
    second = RunningEpoch(other.config, kit.backend, {"lr": 99.0})
    second.load_state_dict(state)
    assert second.rates == {"lr": 0.25}
    results = [[part.reduce() for part in running.finish(N_BATCHES)] for running in (first, second)]
    assert results[0] == results[1]


# ---- alone, without a trainer


def running_of(**settings):
    kit = build_kit("toy")
    return RunningEpoch(read_settings({"losses": {"mse": kit.loss}, **settings}), kit.backend, {"lr": 0.5}, left_out=1)


def test_without_metrics_over_the_epoch_there_are_values_of_steps_alone():
    running = running_of()
    running.losses.append({"mse": 1.0}, 3, 1)
    running.losses.append({"mse": 4.0}, 1, 2)
    metrics, losses = running.finish(2)
    assert running.reduce(losses, "mean") == {"mse": 1.75}
    assert running.reduce({"mse": [1.0, 4.0]}, "mean") == {"mse": 2.5}
    assert running.reduce(metrics, "mean") == {}
    assert (running.rates, running.left_out, running.is_storable) == ({"lr": 0.5}, 1, True)


def test_metrics_over_the_epoch_do_not_stay_among_the_values_of_steps():
    running = running_of(metrics={"rmse": rmse})
    running.over_epoch.update({"label": np.zeros((2, 1)), "pred": np.full((2, 1), 3.0)})
    assert running.reduce(running.finish(1)[0], "mean") == {"rmse": 3.0}
    assert running.metrics.keys() == []
