"""Metrics and losses get the prediction and the target as the names of their parameters say."""

import functools
import logging

import numpy as np
import pytest

from delira.contract import call_losses, call_metrics
from delira.metrics import MetricSet, lambda_metric, per_sample
from delira.state import Y_PRED, Y_TRUE, State
from delira.utils.binding import order_of

RNG = np.random.default_rng(5)
LABEL, PRED = RNG.normal(size=(23, 1)), RNG.normal(size=(23, 1))
#: of no symmetry: a wrong order is seen in the value
EXPECTED = float(np.mean(PRED - 2 * LABEL))

PREDICTIONS = ("pred", "preds", "prediction", "y_pred", "yPred", "y_hat", "y_score", "y_prob", "input", "inputs",
               "output", "logits", "scores", "predicted_labels", "predicted", "predictions", "estimate", "forecast",
               "reconstruction")  # fmt: skip
TARGETS = ("target", "targets", "label", "labels", "y", "y_true", "gt", "ground_truth", "true_labels", "actual",
           "expected", "observed", "reference")  # fmt: skip


def mean(values):
    """The mean of an array of any framework."""
    if hasattr(values, "mean"):
        return values.mean()
    return pytest.importorskip("tensorflow").reduce_mean(values)


def named(first, second, is_prediction_first):
    """A function whose parameters have these names, and whose value tells which is which."""
    scope = {"mean": mean}
    body = f"mean({first} - 2 * {second})" if is_prediction_first else f"mean({second} - 2 * {first})"
    exec(f"def metric({first}, {second}):\n    return {body}", scope)
    return scope["metric"]


def over_batches(metrics, **keys):
    """The value of a metric over a data set in batches of 7, the last of which is ragged."""
    seen = MetricSet({"m": metrics}, **keys)
    for start in range(0, len(LABEL), 7):
        seen.update({"label": LABEL[start : start + 7], "pred": PRED[start : start + 7]})
    return float(seen.compute()["m"].mean())


@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_two_known_names_say_the_order(prediction, target):
    assert over_batches(named(prediction, target, True)) == pytest.approx(EXPECTED)
    assert over_batches(named(target, prediction, False)) == pytest.approx(EXPECTED)


@pytest.mark.parametrize("known", PREDICTIONS)
def test_one_known_prediction_makes_the_other_the_target(known):
    assert over_batches(named(known, "a", True)) == pytest.approx(EXPECTED)
    assert over_batches(named("a", known, False)) == pytest.approx(EXPECTED)


@pytest.mark.parametrize("known", TARGETS)
def test_one_known_target_makes_the_other_the_prediction(known):
    assert over_batches(named("a", known, True)) == pytest.approx(EXPECTED)
    assert over_batches(named(known, "a", False)) == pytest.approx(EXPECTED)


class Scorer:
    def measure(self, preds, target):
        return (preds - 2 * target).mean()

    def __call__(self, preds, target):
        return self.measure(preds, target)


def scaled(factor, preds, target, offset=0.0):
    return factor * (preds - 2 * target).mean() + offset


@pytest.mark.parametrize(
    "metric",
    [
        Scorer(),
        Scorer().measure,
        functools.partial(scaled, 1.0),
        functools.partial(scaled, 1.0, offset=0.0),
        functools.wraps(scaled)(functools.partial(scaled, 1.0)),
        per_sample(lambda preds, target: float((preds - 2 * target).mean())),
    ],
    ids=["object", "method", "partial", "partial with a keyword", "wrapped partial", "per sample"],
)
def test_names_are_found_wherever_they_are(metric):
    assert over_batches(metric) == pytest.approx(EXPECTED)


def test_a_stream_is_updated_as_its_names_say():
    class Stream:
        def __init__(self):
            self.reset()

        def reset(self):
            self.values = []

        def update(self, output, gt):
            self.values += (output - 2 * gt).ravel().tolist()

        def compute(self):
            return np.mean(self.values)

    assert over_batches(Stream()) == pytest.approx(EXPECTED)


def test_metric_keys_win_over_names_and_names_over_position():
    assert over_batches(named("pred", "label", True)) == pytest.approx(EXPECTED)
    turned = over_batches(named("pred", "label", True), metric_keys={"m": ("label", "pred")})
    assert turned == pytest.approx(float(np.mean(LABEL - 2 * PRED)))


def test_names_that_tell_nothing_keep_the_documented_order_and_say_so_once(caplog):
    first, second = "left_side", "right_side"
    metric = named(first, second, False)  # the target goes first
    with caplog.at_level(logging.WARNING, logger="delira"):
        assert over_batches(metric) == pytest.approx(EXPECTED)
        assert over_batches(metric) == pytest.approx(EXPECTED)
    said = [record.getMessage() for record in caplog.records if "nothing tells" in record.getMessage()]
    assert len(said) == 1
    assert "metric 'm' is called with (label, pred)" in said[0]
    assert "left_side and right_side" in said[0]
    assert "metric_keys={'m': ('label', 'pred')}" in said[0]


def test_nothing_is_said_where_names_tell_or_shapes_differ_or_keys_are_given(caplog):
    def unnamed(one_side, other_side):
        return float(np.mean(one_side)) + 0 * len(other_side)

    with caplog.at_level(logging.WARNING, logger="delira"):
        over_batches(named("y_true", "y_pred", False))
        over_batches(unnamed, metric_keys={"m": ("label", "pred")})
        seen = MetricSet({"m": unnamed})
        seen.update({"label": LABEL[:, 0], "pred": PRED})
    assert not [record for record in caplog.records if "nothing tells" in record.getMessage()]


def test_functions_of_scikit_learn_get_the_target_first():
    metrics = pytest.importorskip("sklearn.metrics")
    true, pred = RNG.integers(0, 2, 40), RNG.integers(0, 2, 40)
    seen = MetricSet({
        "precision": metrics.precision_score,
        "recall": functools.partial(metrics.recall_score, pos_label=0),
        "mine": lambda y_true, y_score: metrics.roc_auc_score(y_true, y_score),
    })  # fmt: skip
    seen.update({"label": true, "pred": pred})
    values = {name: float(value[0]) for name, value in seen.compute().items()}
    assert values == pytest.approx({
        "precision": metrics.precision_score(true, pred),
        "recall": metrics.recall_score(true, pred, pos_label=0),
        "mine": metrics.roc_auc_score(true, pred),
    })  # fmt: skip


def test_functions_of_torchmetrics_get_the_prediction_first():
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchmetrics.functional")
    true, pred = torch.from_numpy(RNG.integers(0, 2, 40)), torch.from_numpy(RNG.integers(0, 2, 40))
    precision = functools.partial(functional.classification.binary_precision, threshold=0.5)
    expected = float(((true == 1) & (pred == 1)).sum() / (pred == 1).sum())
    assert float(call_metrics({"p": precision}, {}, {"pred": pred}, {"label": true})["p"]) == pytest.approx(expected)
    seen = MetricSet({"p": lambda preds, target: float(precision(torch.tensor(preds), torch.tensor(target)))})
    seen.update({"label": true.numpy(), "pred": pred.numpy()})
    assert seen.compute()["p"][0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "second", "is_prediction_first"),
    [("y_true", "y_pred", False), ("input", "target", True), ("labels", "logits", False), ("a", "b", True)],
)
def test_losses_are_called_as_their_names_say(first, second, is_prediction_first):
    loss = named(first, second, is_prediction_first)
    values = call_losses({"loss": loss}, {}, {"pred": PRED}, {"label": LABEL})
    assert float(values["loss"]) == pytest.approx(EXPECTED)


def test_loss_keys_win_over_names():
    loss = named("y_true", "y_pred", False)
    values = call_losses({"loss": loss}, {"loss": ("pred", "label")}, {"pred": PRED}, {"label": LABEL})
    assert float(values["loss"]) == pytest.approx(float(np.mean(LABEL - 2 * PRED)))


@pytest.mark.parametrize("is_prediction_first", [True, False])
def test_a_training_reports_losses_and_metrics_as_their_names_say(kit, manager, is_prediction_first):
    names = ("prediction", "target") if is_prediction_first else ("target", "prediction")
    signed = named(*names, is_prediction_first)
    train = manager()
    trainer = kit.trainer(
        None, losses={"mse": kit.loss, "signed": named(*names, is_prediction_first)},
        train_metrics={"step": named(*names, is_prediction_first)}, metrics={"whole": signed},
        val_metrics={"held_out": signed}, optimizer_params={"lr": 0.0},
    )  # fmt: skip
    weight = kit.read(trainer.module).copy()
    trainer.train(1, train, manager())
    batches = list(train.epoch(0, 0, 1))
    x, y = (np.concatenate([batch[key] for batch in batches]) for key in ("data", "label"))
    expected = float(np.mean(x @ weight - 2 * y))
    record = trainer.state.history[-1]
    found = {name: record[name] for name in ("step", "whole", "val_held_out", "val_signed")}
    assert found == pytest.approx(dict.fromkeys(found, expected), rel=1e-4, abs=1e-5)


def test_losses_of_keras_and_pytorch_and_optax_are_known():
    keras_losses = pytest.importorskip("keras").losses
    torch = pytest.importorskip("torch")
    optax = pytest.importorskip("optax")
    for loss in (torch.nn.CrossEntropyLoss(), torch.nn.functional.kl_div, optax.softmax_cross_entropy):
        assert order_of(loss) == "prediction first"
    for loss in (keras_losses.KLDivergence(), keras_losses.huber):
        assert order_of(loss) == "target first"


@pytest.mark.slow
def test_compiled_functions_are_looked_through():
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")

    def error(y_true, y_pred):
        return (y_pred - 2 * y_true).mean()

    assert order_of(jax.jit(error)) == "target first"
    assert order_of(torch.jit.script(error)) == "target first"
    assert order_of(torch.compile(torch.nn.MSELoss())) == "prediction first"
    assert order_of(np.add) is None  # no names, no error


@pytest.mark.parametrize("on_epoch", [True, False])
def test_metrics_of_a_trial_are_called_as_their_names_say(on_epoch):
    for metric in (named("y_pred", "y_true", True), named("y_true", "y_pred", False)):
        made = lambda_metric("m", on_epoch=on_epoch)(metric)
        state = State({Y_PRED: PRED, Y_TRUE: LABEL})
        made.reset(state)
        value = made.process(state)
        value = made.process_final(state) if on_epoch else value
        assert float(getattr(value, "value", value)) == pytest.approx(EXPECTED)


def test_the_criterion_of_a_trial_is_called_as_its_names_say():
    torch = pytest.importorskip("torch")
    from delira import Trial

    x, y = torch.randn(6, 2), torch.randn(6, 1)
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        expected = float((model(x) - 2 * y).mean())
    for criterion in (named("y_true", "y_pred", False), named("output", "gt", True)):
        trial = Trial(model, torch.optim.SGD(model.parameters(), lr=0.0), criterion, metrics=["loss"], verbose=0)
        record = trial.with_train_data(x, y, batch_size=6).run(1)[-1]
        assert record["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_criterion_of_a_trial_whose_names_tell_nothing_says_its_order_once(caplog):
    torch = pytest.importorskip("torch")
    from delira import Trial

    def run(criterion, y):
        model = torch.nn.Linear(2, 1)
        trial = Trial(model, torch.optim.SGD(model.parameters(), lr=0.0), criterion, metrics=["loss"], verbose=0)
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="delira"):
            trial.with_train_data(torch.randn(6, 2), y, batch_size=2).run(2)
        return [record.getMessage() for record in caplog.records if "nothing tells" in record.getMessage()]

    y = torch.randn(6, 1)
    (said,) = run(named("upper_side", "lower_side", True), y)
    assert "the criterion 'metric' is called with (prediction, target)" in said
    assert "upper_side and lower_side" in said
    assert "both have the shape (2, 1)" in said
    assert not run(named("expected", "anything", False), y)
    assert not run(named("one", "other", True), y[:, 0])  # of another shape: a wrong order is seen
    assert not run(torch.nn.MSELoss(), y)
