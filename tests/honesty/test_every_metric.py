"""Every metric prints the number of the whole data set, computed elsewhere, whatever the batches are."""

import dataclasses
import importlib.util

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn.metrics", reason="the numbers are compared with those of scikit-learn")
import metric_values as by_hand
import sklearn.metrics as sk
from metric_cases import (
    CASES,
    SKLEARN,
    STRINGS,
    Case,
    historic,
    sklearn_labels,
    sklearn_numbers,
    sklearn_scores,
)
from metric_data import KINDS
from pairwise import every_second

import delira.metrics as dm
from delira.data_loading import BaseDataManager
from delira.metrics import score
from delira.metrics.per_class import may_lack_values, mean_of_values
from delira.settings.config import TrainerConfig
from delira.state import CRITERION, MIXUP_LAMBDA, Y_PRED, Y_TRUE, State, X
from delira.testing import toy
from delira.training.predictor import Predictor

# scikit-learn warns of classes that occur in one of both only
pytestmark = [
    pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning"),
]
SEEDS = st.integers(0, 2**32 - 1)
#: how many samples: batches of 7 are ragged
SIZES = (9, 15, 22, 27)
#: a seed is not made simpler: another one is other data
FEW = settings(max_examples=1, phases=[Phase.generate])

# ------------------------------------------------------------------ the evaluations of users


class CrossEntropyLoss:
    """Losses are known by the names of their classes, without any framework."""

    ignore_index = -100

    def __call__(self, prediction, target):
        """Nobody asks for its value."""
        return 0.0


class BCEWithLogitsLoss:
    """For yes or no."""

    __call__ = CrossEntropyLoss.__call__


class MSELoss:
    """For numbers."""

    __call__ = CrossEntropyLoss.__call__


#: loss of a kind of data -> the losses of an experiment, and what it says of the output
LOSSES = {
    "classes": (CrossEntropyLoss, "logits"),
    "one-hot classes": (CrossEntropyLoss, "logits"),
    "yes or no": (BCEWithLogitsLoss, "logits"),
    "several labels": (BCEWithLogitsLoss, "logits"),
    "numbers": (MSELoss, None),
}


class Through(toy.ToyNetwork):
    """Predicts what it is given."""

    def __call__(self, x):
        """The same."""
        return {"pred": x}

    @staticmethod
    def prepare_batch(batch, input_device, output_device):
        """Nothing is changed."""
        return dict(batch)


def bound(metrics, loss, metric_keys=None):
    """Metrics as the trainer of an experiment with that loss has them."""
    made, output = LOSSES.get(loss, (None, None))
    config = TrainerConfig(losses={"loss": made()} if made else {}, output=output)
    return config.bound(metrics, metric_keys or {}, backend=toy.ToyBackend())


def of_experiment(metrics, entries, batch_size, metric_keys=None):
    """What an evaluation of a network says of metrics that are bound."""
    manager = BaseDataManager(entries, batch_size, n_process_augmentation=0)
    values = Predictor(Through()).evaluate(manager, metrics=metrics, metric_keys=metric_keys).metrics
    return {
        name: mean_of_values(value, may_lack_values(metrics[name])) for name, value in values.items() if name in metrics
    }


def torch_parts(loss):
    torch = pytest.importorskip("torch", reason="a network of PyTorch hands its input through")
    losses = {
        "classes": torch.nn.CrossEntropyLoss,
        "one-hot classes": torch.nn.CrossEntropyLoss,
        "yes or no": torch.nn.BCEWithLogitsLoss,
        "several labels": torch.nn.BCEWithLogitsLoss,
        "numbers": torch.nn.MSELoss,
    }
    return torch.nn.Identity(), losses.get(loss, lambda: None)()


def tensorflow_parts(loss):
    keras = pytest.importorskip("keras", reason="a network of Keras hands its input through")
    losses = {
        "classes": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "one-hot classes": lambda: keras.losses.CategoricalCrossentropy(from_logits=True),
        "yes or no": lambda: keras.losses.BinaryCrossentropy(from_logits=True),
        "several labels": lambda: keras.losses.BinaryCrossentropy(from_logits=True),
        "numbers": keras.losses.MeanSquaredError,
    }
    return keras.layers.Identity(), losses.get(loss, lambda: None)()


def jax_parts(loss):
    nnx = pytest.importorskip("flax.nnx", reason="a network of JAX hands its input through")
    optax = importlib.import_module("optax")

    class Same(nnx.Module):
        def __init__(self):
            self.weight = nnx.Param(np.zeros(1))  # a trial refuses a network without any

        def __call__(self, x):
            return x

    losses = {
        "classes": optax.softmax_cross_entropy_with_integer_labels,
        "one-hot classes": optax.softmax_cross_entropy,
        "yes or no": optax.sigmoid_binary_cross_entropy,
        "several labels": optax.sigmoid_binary_cross_entropy,
        "numbers": optax.squared_error,
    }
    return Same(), losses.get(loss)


PARTS = {"torch": torch_parts, "tensorflow": tensorflow_parts, "jax": jax_parts}


def of_trial(framework, metrics, loss, data, batch_size):
    """What an evaluation of a trial prints."""
    import delira

    network, criterion = PARTS[framework](loss)
    is_turned = framework != "torch" and data.pred.ndim == data.true.ndim + 1 > 2  # the channels are the last axis
    pred = np.moveaxis(data.pred, 1, -1) if is_turned else data.pred
    trial = delira.Trial(network, None, criterion, metrics, verbose=0, seed=0)
    found = trial.with_val_data(pred, data.true, batch_size=batch_size).evaluate()
    return {name.removeprefix("val_"): value for name, value in found.items()}


def drawn(name, seed):
    random = np.random.default_rng(seed)
    n = int(random.choice(SIZES))
    function, loss = KINDS[name]
    return function(random, n), loss, (1, 7, n)


def by_waves(cases):
    """Cases and their metrics, as few lists of them as can be in which no name is there twice."""
    waves = []
    for case in cases:
        for metric in case.metrics:
            wave = next((wave for wave in waves if case.name not in wave), None)
            if wave is None:
                waves.append(wave := {})
            wave[case.name] = (case, metric)
    return waves


def compare(found, expected, batch_size):
    """All values, so that one failure names whatever is wrong."""
    texts = []
    for name, value in expected.items():
        pair = [np.asarray(each, float) for each in (found[name], value)]
        is_alike = pair[0].shape == pair[1].shape or np.isnan(pair[1]).all()
        if not is_alike or not np.allclose(*pair, rtol=1e-6, atol=1e-6, equal_nan=True):
            texts.append(f"{name} in batches of {batch_size}: {found[name]!r} and not {value!r}")
    assert not texts, "\n".join(texts)


def ragged(n, batch_size):
    """Where the batches lie."""
    return [slice(start, start + batch_size) for start in range(0, n, batch_size)]


# ------------------------------------------------------------------ every metric


def compare_experiment(cases, data, loss, batch_sizes):
    metrics, expected = {}, {}
    for case in cases:
        value = case.expected(data) if case.is_number else None
        for metric in case.metrics if case.is_number else ():
            metrics[name := f"{case.name}, {len(metrics)}"] = metric
            expected[name] = value
    given_metrics = bound(metrics, loss)
    for batch_size in batch_sizes:
        compare(of_experiment(given_metrics, {"data": data.pred, "label": data.true}, batch_size), expected, batch_size)
    entries = {"label": data.true, "pred": data.pred}
    read = dm.MetricSet(given_metrics).required_keys()
    at_once = {
        name: score(metric, [entries[key] for key in read[name]], name) for name, metric in given_metrics.items()
    }
    compare(at_once, expected, "all, scored")


def compare_trial(framework, cases, data, loss, batch_sizes):
    for wave in by_waves([case for case in cases if case.in_trial]):
        expected = {reported: case.expected(data) for reported, (case, _) in wave.items()}
        for batch_size in batch_sizes:
            found = of_trial(framework, [metric for _, metric in wave.values()], loss, data, batch_size)
            compare(found, expected, batch_size)


@pytest.mark.left_to_full(every_second(CASES))
@pytest.mark.parametrize("name", CASES)
@given(seed=SEEDS)
@FEW
def test_an_experiment_prints_the_number_of_the_whole_data_set(name, seed):
    data, loss, (one, seven, _) = drawn(name, seed)
    compare_experiment(CASES[name], data, loss, (one, seven))  # and all at once


@pytest.mark.left_to_full(every_second(CASES, 1))
@pytest.mark.parametrize("name", CASES)
@given(seed=SEEDS)
@FEW
def test_a_trial_prints_the_number_of_the_whole_data_set(name, seed):
    data, loss, batch_sizes = drawn(name, seed)
    compare_trial("torch", CASES[name], data, loss, batch_sizes)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
@pytest.mark.parametrize("name", [name for name in CASES if name != "ignored"])  # -100 is PyTorch's
@given(seed=SEEDS)
@settings(FEW, max_examples=1)
def test_a_trial_of_another_framework_does_so_of_ragged_batches(name, framework, seed):
    data, loss, (_, seven, _) = drawn(name, seed)
    compare_trial(framework, CASES[name], data, loss, (seven,))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@given(seed=SEEDS)
@settings(FEW, max_examples=8)
def test_both_do_so_of_much_data(name, seed):
    data, loss, batch_sizes = drawn(name, seed)
    compare_experiment(CASES[name], data, loss, batch_sizes)
    if importlib.util.find_spec("torch"):
        compare_trial("torch", CASES[name], data, loss, batch_sizes)


@pytest.mark.sampled("half")
@pytest.mark.parametrize("name", ["classes", "two_columns", "chances", "labels", "positive_numbers"])
@given(seed=SEEDS)
@settings(FEW, max_examples=1)
def test_weights_of_samples_weigh_the_samples(name, seed):
    data, loss, batch_sizes = drawn(name, seed)
    weights = {"sample_weight": np.random.default_rng(seed).uniform(0.1, 3, size=len(data.pred))}
    cases = sklearn_numbers(False, **weights) if name == "positive_numbers" else []
    if not cases:
        cases = [*sklearn_labels(data.n_classes, **weights)]
        cases += historic(data.n_classes, name != "labels", **weights) if name != "chances" else []
        are_columns = name != "chances"
        cases += sklearn_scores(data.n_classes, are_columns=are_columns, **weights) if name != "labels" else []
    compare_experiment(cases, data, loss, batch_sizes)
    if importlib.util.find_spec("torch"):
        compare_trial("torch", cases, data, loss, batch_sizes)


@given(seed=SEEDS)
@FEW
def test_weights_groups_and_spacings_of_the_batch_are_those_of_their_samples(seed):
    data, loss, batch_sizes = drawn("label_masks", seed)
    random = np.random.default_rng(seed)
    entries = {
        "data": data.pred, "label": data.true, "weight": random.uniform(0.1, 2, len(data.pred)),
        "group": random.integers(3, size=len(data.pred)), "spacing": random.uniform(0.5, 2, (len(data.pred), 2)),
    }  # fmt: skip

    def weighted(y_true, y_pred, weight):
        return np.average((y_true == y_pred).mean(axis=(1, 2)), weights=weight)

    def of_groups(y_true, y_pred, group):
        return np.mean([np.mean((y_true == y_pred)[group == each]) for each in np.unique(group)])

    @dm.per_sample
    def of_sample(y_true, y_pred, weight):
        return (y_true == y_pred).mean() * weight

    keys = {name: ("label", "pred", entry) for name, entry in (
        ("weighted", "weight"), ("groups", "group"), ("sample", "weight"),
    )}  # fmt: skip
    distance = dm.Hausdorff(spacing="spacing", num_classes=3)
    metrics = {"weighted": weighted, "groups": of_groups, "sample": of_sample, "distance": distance}
    right = (data.true == data.said).mean(axis=(1, 2))
    groups = [np.mean(right[entries["group"] == each]) for each in np.unique(entries["group"])]
    expected = {
        "weighted": np.sum(right * entries["weight"]) / np.sum(entries["weight"]),
        "groups": np.mean(groups),
        "sample": np.mean(right * entries["weight"]),
        "distance": by_hand.hausdorff(data.label, data.said, 3, spacing=entries["spacing"]),
    }
    for batch_size in batch_sizes:
        compare(of_experiment(bound(metrics, loss, keys), entries, batch_size, keys), expected, batch_size)


@pytest.mark.sampled("half")
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("labels", "label_masks")])
@given(seed=SEEDS)
@settings(FEW, max_examples=1)
def test_one_prediction_that_is_no_number_makes_every_number_none(name, seed):
    data, loss, batch_sizes = drawn(name, seed)
    at = np.random.default_rng(seed).integers(len(data.pred))
    data.pred[at] = np.nan
    cases = [dataclasses.replace(case, expected=lambda data, case=case: case.of_nothing) for case in CASES[name]]
    compare_experiment(cases, data, loss, batch_sizes[1:2])
    if importlib.util.find_spec("torch"):
        compare_trial("torch", cases, data, loss, batch_sizes[1:2])


@pytest.mark.sampled("half")
@pytest.mark.parametrize("name", ["classes", "ignored", "chances", "steps", "tables", "label_masks", "several_numbers"])
@pytest.mark.parametrize("is_whole", [True, False], ids=["ended", "midst"])
@given(seed=SEEDS)
@settings(FEW, max_examples=1)
def test_a_pass_that_goes_on_from_its_state_ends_with_the_same_number(name, is_whole, seed):
    torch = pytest.importorskip("torch", reason="losses of PyTorch")
    data, loss, _ = drawn(name, seed)
    rows = ragged(len(data.pred), 7)
    for wave in by_waves([case for case in CASES[name] if case.in_trial]):
        criterion, kept = torch_parts(loss)[1], None
        for part in (rows if is_whole else rows[:1], [] if is_whole else rows[1:]):
            metrics, state = dm.MetricList([metric for _, metric in wave.values()]), State({CRITERION: criterion})
            metrics.eval()
            metrics.reset(state)
            if kept is not None:
                metrics.load_state_dict(kept)
            for each in part:
                pred, true = torch.tensor(data.pred[each]), torch.tensor(data.true[each])
                state.update({X: pred, Y_PRED: pred, Y_TRUE: true})
                metrics.process(state)
            kept = metrics.state_dict()
        found = {key.removeprefix("val_"): value for key, value in metrics.process_final(state).items()}
        compare(found, {reported: case.expected(data) for reported, (case, _) in wave.items()}, "7, continued")


# ------------------------------------------------------------------ what hangs on a metric


@given(seed=SEEDS)
@FEW
def test_aggregates_are_those_of_all_values_or_of_one_number_for_each_batch(seed):
    data, loss, batch_sizes = drawn("several_numbers", seed)

    def array(y_pred, y_true):
        return y_pred - y_true

    def number(y_pred, y_true):
        return ((y_pred - y_true) ** 2).mean()

    squared = dm.lambda_metric("root")(lambda y_pred, y_true: (y_pred - y_true) ** 2)
    metrics = [
        dm.mean(dm.std(dm.var(dm.max_(dm.min_(array))))),
        dm.mean(dm.std(dm.var(dm.max_(dm.min_(number))))),
        dm.MetricTree(squared, [dm.RootMean("root"), dm.Var("biased", unbiased=False), dm.Max("columns", dim=0)]),
        dm.MetricTree(dm.lambda_metric("other")(array), [dm.Mean("columns", dim=0), dm.Std("columns", dim=0)]),
        dm.MetricTree(dm.MetricTree(dm.lambda_metric("last")(array), [dm.Min("rows", dim=1)]).root, [dm.Mean("last")]),
        dm.to_dict(dm.EpochLambda("whole", lambda y_pred, y_true: abs(y_pred - y_true).max())),
    ]
    found = data.wide - data.true
    everything = {
        "array": found.mean(), "array_std": found.std(ddof=1), "array_var": found.var(ddof=1), "array_max": found.max(),
        "array_min": found.min(), "number": np.mean(found**2), "root": np.sqrt(np.mean(found**2)),
        "biased_var": np.var(found**2), "columns_max": np.max(found**2, axis=0), "columns": found.mean(axis=0),
        "columns_std": found.std(axis=0, ddof=1), "last": found.mean(), "whole": abs(found).max(),
    }  # fmt: skip
    for batch_size in batch_sizes:
        each = np.array([np.mean(found[rows] ** 2) for rows in ragged(len(found), batch_size)])
        of_batches = {
            "number_std": each.std(ddof=1) if len(each) > 1 else np.nan, "number_max": each.max(),
            "number_var": each.var(ddof=1) if len(each) > 1 else np.nan, "number_min": each.min(),
        }  # fmt: skip
        compare(of_trial("torch", metrics, loss, data, batch_size), {**everything, **of_batches}, batch_size)


def learning_nothing(loss, metrics, *callbacks):
    """A trial that trains a factor of 1, at a rate of 0."""
    torch = pytest.importorskip("torch", reason="a network of PyTorch is trained")
    import delira

    class Factor(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            """The same."""
            return x * self.factor

    network = Factor()
    made = torch.optim.SGD(network.parameters(), 0.0)
    return delira.Trial(network, made, loss, metrics, list(callbacks), verbose=0, seed=0)


@given(seed=SEEDS)
@FEW
def test_running_means_are_those_of_the_last_batches_and_the_rest_is_of_all_samples(seed):
    torch = pytest.importorskip("torch", reason="a network of PyTorch is trained")
    data, _, batch_sizes = drawn("classes", seed)
    data.pred = data.pred.astype("f4")

    def right(y_pred, y_true):
        return y_pred.argmax(1) == y_true

    metrics = ["loss", "cat_acc", "f1", "epoch", "lr", dm.running_mean(right, batch_size=2, step_size=1)]
    late = dm.lambda_metric("late")(right)
    metrics.append(dm.MetricTree(late, [dm.RunningMean("late", batch_size=3, step_size=2)]))
    losses = -np.log(by_hand.softmax(data.pred)[np.arange(len(data.true)), data.true])
    is_right = data.pred.argmax(1) == data.true
    for batch_size in batch_sizes:
        trial = learning_nothing(torch.nn.CrossEntropyLoss(), metrics)
        trial.with_train_data(data.pred, data.true, batch_size=batch_size, shuffle=False)
        (record,) = trial.with_val_data(data.pred, data.true, batch_size=batch_size).run(1)
        rows = ragged(len(losses), batch_size)
        means, of_loss = ([np.mean(values[each]) for each in rows] for values in (is_right, losses))
        last = (len(rows) - 1) // 2 * 2  # the last batch in which it was computed anew
        tenth = (len(rows) - 1) // 10 * 10
        whole = {"loss": losses.mean(), "acc": is_right.mean(), "f1": by_hand.f1(data.true, data.pred.argmax(1), 4)}
        expected = {
            **whole, **{f"val_{name}": value for name, value in whole.items()}, "epoch": 1, "val_epoch": 0, "lr": 0.0,
            "running_right": np.mean(means[-2:]), "running_late": np.mean(means[max(0, last - 2) : last + 1]),
            "running_acc": np.mean(means[: tenth + 1]), "running_loss": np.mean(of_loss[: tenth + 1]),
        }  # fmt: skip
        compare(record, expected, batch_size)


@given(seed=SEEDS)
@FEW
def test_the_loss_counts_what_its_mean_counts(seed):
    torch = pytest.importorskip("torch", reason="losses of PyTorch")
    data, _, batch_sizes = drawn("classes", seed)
    random = np.random.default_rng(seed)
    data.pred = data.pred.astype("f4")
    data.true = np.where(random.random(len(data.true)) < 0.3, 9, data.true)
    data.true[0] = 0
    weights = random.uniform(0.2, 3, 4).astype("f4")
    counts = data.true != 9
    losses = -np.log(by_hand.softmax(data.pred)[np.arange(len(data.true)), np.where(counts, data.true, 0)])
    each = np.where(counts, weights[np.where(counts, data.true, 0)], 0.0).astype("f8")
    right = np.mean((data.pred.argmax(1) == data.true)[counts])
    criterion = torch.nn.CrossEntropyLoss(weight=torch.tensor(weights), ignore_index=9)
    for batch_size in batch_sizes[1:]:
        trial = learning_nothing(criterion, ["loss", dm.Loss, "acc", sk.accuracy_score])
        found = trial.with_val_data(data.pred, data.true, batch_size=batch_size).evaluate()
        expected = {"loss": np.sum(losses * each) / np.sum(each), "acc": right, "accuracy_score": right}
        compare(found, {f"val_{name}": value for name, value in expected.items()}, batch_size)


@given(seed=SEEDS)
@settings(FEW, max_examples=2)
def test_mixed_samples_are_right_by_the_weight_of_their_label(seed):
    torch = pytest.importorskip("torch", reason="a network of PyTorch is trained")
    from delira.training.callbacks import Mixup, mixup_loss, on_step_training

    data, _, batch_sizes = drawn("classes", seed)
    right = []

    @on_step_training
    def look(state):
        said, weight = state[Y_PRED].detach().numpy().argmax(1), float(state[MIXUP_LAMBDA])
        one, other = (np.asarray(target) for target in state[Y_TRUE])
        right.extend(weight * (said == one) + (1 - weight) * (said == other))

    for batch_size in batch_sizes:
        right.clear()
        trial = learning_nothing(mixup_loss(torch.nn.CrossEntropyLoss()), ["mixup_acc"], Mixup(), look)
        (record,) = trial.with_train_data(data.pred.astype("f4"), data.true, batch_size=batch_size).run(1)
        assert len(right) == len(data.true)
        compare(record, {"mixup_acc": np.mean(right)}, batch_size)


@given(seed=SEEDS)
@settings(FEW, max_examples=1)
def test_objects_of_torchmetrics_see_every_sample_once(seed):
    found = pytest.importorskip("torchmetrics", reason="needs torchmetrics")
    cases = {
        "classes": (found.classification.MulticlassF1Score(4, average="macro"), by_hand.f1, ("label", "said"), (4,)),
        "chances": (found.classification.BinaryAUROC(), by_hand.roc_auc, ("label", "wide"), ()),
        "several_numbers": (found.MeanAbsoluteError(), lambda a, b: np.mean(abs(a - b)), ("true", "wide"), ()),
        "labels": (found.MeanMetric(), np.mean, ("said",), ()),
    }  # fmt: skip
    for name, (metric, value, read, more) in cases.items():
        data, loss, batch_sizes = drawn(name, seed)
        if name == "chances":  # they may have an axis more
            data.pred, data.wide = data.pred.ravel(), data.wide.ravel()
        expected = value(*(getattr(data, each) for each in read), *more)
        case = Case((metric, dm.TorchMetric(metric)), lambda data, expected=expected: expected, type(metric).__name__)
        compare_trial("torch", [case], data, loss, batch_sizes)
        compare_experiment([case], data, loss, batch_sizes)


# ------------------------------------------------------------------ and every one of them

NO_METRICS = {
    "AdvancedMetric": "a base class", "Gatherer": "keeps arrays", "Metric": "a base class",
    "MetricList": "any number of metrics", "MetricSet": "any number of metrics",
    "MetricTree": "a metric and its children", "RunningMetric": "a base class",
    "TimerMetric": "seconds, and no number of data",
    "Weighted": "what a metric returns", "default_for_key": "names a metric", "kind_of": "how a metric is computed",
    "known_keys": "names of metrics", "score": "evaluates a metric: every case goes through it",
}  # fmt: skip
AGGREGATES = "test_aggregates_are_those_of_all_values_or_of_one_number_for_each_batch"
RUNNING = "test_running_means_are_those_of_the_last_batches_and_the_rest_is_of_all_samples"
LOSS = "test_the_loss_counts_what_its_mean_counts"
#: what is no case of a table -> the test of its number
BY_THEMSELVES = {
    **dict.fromkeys(["Mean", "RootMean", "Std", "Var", "Max", "Min", "ToDict"], AGGREGATES),
    **dict.fromkeys(["mean", "std", "var", "max_", "min_", "to_dict"], AGGREGATES),
    **dict.fromkeys(["RunningMean", "running_mean", "epoch", "Epoch", "lr", "LR"], RUNNING),
    **dict.fromkeys(["loss", "Loss"], LOSS),
    "PerSample": "test_weights_groups_and_spacings_of_the_batch_are_those_of_their_samples",
    "TorchMetric": "test_objects_of_torchmetrics_see_every_sample_once",
    "lambda_metric": AGGREGATES,
}


def test_every_metric_has_a_number_that_is_computed_elsewhere():
    import delira.training.metrics

    names = {*dm.__all__, *delira.training.metrics.__all__, *STRINGS}
    names |= {f"sklearn.{name}" for kind in SKLEARN.values() for name in kind}
    covered = {name for cases in CASES.values() for case in cases for name in case.covers()}
    assert sorted(names - covered - {*BY_THEMSELVES, *NO_METRICS}) == []
    assert sorted(({*BY_THEMSELVES} | {*NO_METRICS}) - names) == []  # none that is gone
    assert sorted(covered & {*NO_METRICS}) == []
    assert all(callable(globals().get(test)) for test in BY_THEMSELVES.values())
    assert {*CASES} == {*KINDS}
