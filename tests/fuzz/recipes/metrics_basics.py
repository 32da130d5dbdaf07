"""What metrics are made of: functions of one's own, lists, sets and trees of metrics, losses and rates as metrics."""

import types

import numpy as np
import sklearn.metrics as sk
from fuzz_cases import Entry
from fuzz_metrics import (
    GUESSES,
    LABELS,
    N_SAMPLES,
    NO_AXIS,
    NO_LABELS,
    NUMBERS,
    ONE_HOT,
    SCORES,
    batches,
    metric_entry,
    of_trial,
    with_value,
)
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_POSITIVE_INT,
    STRANGE,
    Fresh,
)

from delira import metrics
from delira.state import CRITERION, EPOCH, LOSS, OPTIMIZER, Y_PRED, Y_TRUE, State, X

NAMES = [*NOT_A_TEXT, ""]
#: nothing that a list of metrics takes
NO_METRIC = [5, NAN, STRANGE, int, object(), "nonsense", "acccuracy", {}, None]
LOSSES = np.array([1.0, 5.0, 2.0])
SIZES = [3, 3, 1]


class CrossEntropyLoss:
    """Criteria are known by the name of their class."""


class BCEWithLogitsLoss(CrossEntropyLoss):
    """Of yes or no."""


class MSELoss:
    """Of numbers."""


class Error(metrics.Metric):
    """What users derive."""

    def __init__(self, name="error"):
        super().__init__(name)

    def process(self, *args):
        return abs(args[0][Y_PRED] - args[0][Y_TRUE])


class Split(metrics.AdvancedMetric):
    """One that is another number in validations."""

    def process_validate(self, *args):
        return abs(args[0][Y_PRED] - args[0][Y_TRUE])


def absolute(y_pred, y_true):
    """A metric of a batch, as users write it."""
    return abs(y_pred - y_true)


def mean_absolute(y_true, y_pred):
    """A metric of a data set."""
    return float(np.mean(np.abs(y_true - y_pred)))


def one_sided(target, preds):
    """The order does not matter where names tell."""
    return float(np.mean(preds - target))


def numbers(arguments):
    """Mean absolute error."""
    return np.abs(np.float64(arguments["true"]) - arguments["pred"]).mean()


def trial_of(make):
    """A pass over numbers of the metric that is made."""

    def call(*, true=NUMBERS, pred=GUESSES, batch_size=3, **settings):
        return of_trial(make(**settings), batches(true, pred, batch_size, {}), {})

    return call


def own_metric(name, make, wrong, *, own=(), expected=None, right=None, says=None, free=None):
    """A metric of users' over the numbers."""
    return Entry(
        name=f"delira.metrics.{name}",
        good=lambda folder: {},
        make=trial_of(make),
        expected=expected or (lambda arguments: numbers({"true": NUMBERS, "pred": GUESSES, **arguments})),
        right={
            "batch_size": [1, 100],
            "pred": [with_value(GUESSES, NAN), with_value(GUESSES, INFINITE)],
            **(right or {}),
        },
        wrong=wrong,
        own=own,
        says=says or {},
        free=free or {},
    )


def losses_of(*, losses=LOSSES, sizes=SIZES, metric="loss", **entries):
    """A pass in which a state has losses."""
    one, state = metrics.MetricList([metric]), State({CRITERION: None, EPOCH: 4, **entries})
    one.eval()
    one.reset(state)
    for loss, size in zip(losses, sizes, strict=True):
        state.update({LOSS: loss, X: np.zeros((size, 2)), Y_TRUE: np.zeros(size)})
        one.process(state)
    return next(iter(one.process_final(state).values()))


def of_state(name, **entries):
    """A metric that reads the state."""

    def call(**given):
        state = State({**entries, **{key: value for key, value in given.items() if key != "nothing"}})
        metric = getattr(metrics, name)()
        return metric.process(state)

    return call


def rate(value):
    """An optimizer as PyTorch has it."""
    return types.SimpleNamespace(param_groups=[{"lr": value}])


def gathered(*, rows=NUMBERS, batch_size=3, limit_bytes=1 << 30, folder=None):
    """Everything, put together again."""
    gatherer = metrics.Gatherer(limit_bytes, folder=folder)
    for start in range(0, len(rows), batch_size):
        gatherer.append({"rows": rows[start : start + batch_size]})
    return np.asarray(gatherer.result()["rows"])


def appended(entries):
    """A second batch with these entries."""
    gatherer = metrics.Gatherer()
    gatherer.append({"a": NUMBERS, "b": {"c": GUESSES}})
    gatherer.append(entries)
    return sorted(gatherer.result())


def of_set(*, metrics_given=None, entries=None, batch_size=3, **settings):
    """A set of metrics over the numbers."""
    given = {"mae": mean_absolute} if metrics_given is None else metrics_given
    made = metrics.MetricSet(given, **settings)
    values = {"label": NUMBERS, "pred": GUESSES} if entries is None else entries
    for start in range(0, N_SAMPLES, batch_size):
        made.update({name: array[start : start + batch_size] for name, array in values.items()})
    return np.mean(next(iter(made.compute().values())))


def labels_of_one(*, true, pred, **settings):
    """The function of the package itself."""
    return metrics.accuracy(true, pred, **settings)


def right_labels(arguments):
    """The share of them."""
    true, pred = arguments["true"], arguments["pred"]
    true = true.argmax(1) if true.ndim == 2 and true.shape[1] > 1 else true.ravel()
    if pred.dtype.kind == "f" and not np.isfinite(pred.max(-1)).all():
        return np.nan
    return np.mean(true == (pred.argmax(1) if pred.ndim == 2 else pred))


def registered(key, metric=None):
    """A string that stands for a metric, and is gone again."""
    from delira.metrics.tree import hanging

    kept = dict(hanging._DEFAULTS)
    try:
        metrics.default_for_key(key)(metrics.mean(Error) if metric is None else metric)
        return of_trial(key, batches(NUMBERS, GUESSES, 3, {}), {})
    finally:
        hanging._DEFAULTS.clear()
        hanging._DEFAULTS.update(kept)


def read_early(name, true, pred, **fixed):
    """A metric that is read before there was a sample, and one that reads what the state does not have."""

    def call(*, has_empty=False, **settings):
        n_samples = N_SAMPLES if settings else 0
        data = batches(true[:n_samples], pred[:n_samples], 3, {}, has_empty)
        return of_trial(getattr(metrics, name)(**fixed, **settings), data, {})

    return Entry(
        name=f"delira.metrics.{name}#early",
        good=lambda folder: {},
        make=call,
        expected=lambda arguments: np.nan,
        right={"has_empty": [True]},
        wrong={"pred_key": ["nonsense", "yy_pred", 5], "target_key": ["nonsense", "yy_true", 5]},
        free={"classes": "said by another entry"},
    )


#: metrics of a trial that compare predictions with targets
COMPARING = {
    **dict.fromkeys(
        ("BalancedAccuracy", "CategoricalAccuracy", "CohenKappa", "ConfusionMatrix", "FBeta", "MatthewsCorrCoef",
         "MixupAcc", "PrAuc", "Precision", "Recall", "RocAuc", "RocAucScore", "TopKCategoricalAccuracy",
         "CalibrationError"),
        (LABELS, SCORES),
    ),
    **dict.fromkeys(("MeanAbsoluteError", "MeanSquaredError", "R2", "RootMeanSquaredError"), (NUMBERS, GUESSES)),
    **dict.fromkeys(("Dice", "IoU", "Hausdorff"), (ONE_HOT.astype(int), ONE_HOT)),
    "BinaryAccuracy": (LABELS > 0, SCORES[:, 0]),
}  # fmt: skip
KINDS = [
    (mean_absolute, "dataset"),
    (metrics.per_sample(mean_absolute), "sample"),
    ("mae", "stream"),
    (Error, "stream"),
    (sk.accuracy_score, "dataset"),
]
STREAM = Fresh("torchmetrics' mean", lambda: __import__("torchmetrics").MeanMetric())

ENTRIES = [
    *(read_early(name, *data) for name, data in COMPARING.items()),
    read_early("SklearnMetric", LABELS, SCORES, function=sk.accuracy_score),
    own_metric("Metric", lambda name="error": metrics.mean(Error(name)), {"name": NAMES}),
    own_metric("AdvancedMetric", lambda name="error": metrics.mean(Split(name)), {"name": NAMES}),
    own_metric(
        "BatchLambda",
        lambda name="error", function=absolute: metrics.BatchLambda(name, function),
        {"name": NAMES, "function": [*NOT_CALLABLE, None, len, lambda: 1, lambda y_pred, y_true: "x"]},
        own=["function"],
        right={
            "function": [
                lambda y_true, y_pred: abs(y_pred - y_true),
                lambda y_pred, y_true: absolute(y_pred, y_true).mean(),
            ]
        },
        says={"function": ["<lambda>", "error"]},
    ),
    own_metric(
        "EpochLambda",
        lambda name="error", function=mean_absolute, **settings: metrics.EpochLambda(name, function, **settings),
        {
            "name": NAMES,
            "function": [*NOT_CALLABLE, None, lambda: 1, lambda y_pred, y_true: "x"],
            "running": NOT_A_BOOL,
            "step_size": NOT_POSITIVE_INT,
        },
        own=["function"],
        right={"step_size": [1, 7], "running": [False]},
        says={"function": ["error"]},
    ),
    own_metric(
        "lambda_metric",
        lambda name="error", function=absolute, **settings: metrics.lambda_metric(name, **settings)(function),
        {"name": NAMES, "on_epoch": NOT_A_BOOL, "function": [*NOT_CALLABLE, None]},
        own=["function"],
    ),
    own_metric(
        "MetricTree",
        lambda metric=None, **settings: metrics.MetricTree(
            Error() if metric is None else metric, **{"children": [metrics.Mean("error")], **settings}
        ),
        {"metric": [5, NAN, "mae", STRANGE, Error], "children": [5, NAN, "mae", [5], ["mae"], STRANGE, [Error]]},
        right={"children": [(metrics.Mean("error"),)]},
    ),
    own_metric(
        "MetricList",
        lambda metrics="mae": metrics if isinstance(metrics, list) else [metrics],
        {"metrics": [*NO_METRIC, sk.roc_curve, len, ["mae", 5], [["nonsense"]], b"mae"]},
        right={"metrics": [["mae"], [["mae"]], metrics.mean(Error), metrics.MeanAbsoluteError()]},
        says={"metrics": ["metric", "scikit-learn"]},
    ),
    Entry(
        name="delira.metrics.Weighted",
        good=lambda folder: {"value": NUMBERS, "weight": np.array([1, 0, 1, 1, 0, 1, 1], bool)},
        make=lambda value, weight, doubt=None: of_trial(
            metrics.mean(lambda state: metrics.Weighted(value, weight, doubt)), batches(NUMBERS, GUESSES, 100, {}), {}
        ),
        expected=lambda arguments: (
            np.nan
            if arguments.get("doubt") is not None and not np.isfinite(arguments["doubt"]).all()
            else np.mean(np.asarray(arguments["value"])[np.asarray(arguments["weight"], bool)])
        ),
        right={
            "value": [GUESSES, with_value(NUMBERS, NAN, 1)],
            "weight": [np.ones(N_SAMPLES, bool)],
            "doubt": [np.zeros(N_SAMPLES), with_value(NUMBERS, NAN, 0)],
        },
        wrong={
            "weight": [np.ones(6, bool), np.ones((N_SAMPLES, 2)), -1.0, NAN, INFINITE],
            "value": [NUMBERS[:6]],
            "doubt": [np.zeros(6)],
        },
        says={name: ["shape", "weight"] for name in ("weight", "value", "doubt")},
    ),
    Entry(
        name="delira.metrics.Loss",
        good=lambda folder: {},
        make=losses_of,
        expected=lambda arguments: np.average(arguments.get("losses", LOSSES), weights=arguments.get("sizes", SIZES)),
        right={
            "losses": [np.array([1.0, NAN, 2.0]), [1, 2, 3], np.array([1, 2, 3], np.float32)],
            "sizes": [[1, 1, 1], [100, 3, 2]],
        },
        wrong={"sizes": [], "losses": []},
    ),
    Entry(
        name="delira.metrics.Epoch",
        good=lambda folder: {},
        make=of_state("Epoch", **{EPOCH: 4}),
        expected=lambda arguments: arguments.get(EPOCH, 4),
        right={EPOCH: [0, 7, 10**6, np.int64(3), 1]},
    ),
    Entry(
        name="delira.metrics.LR",
        good=lambda folder: {OPTIMIZER: rate(0.5)},
        make=of_state("LR"),
        expected=lambda arguments: 0.5,
        right={OPTIMIZER: [types.SimpleNamespace(learning_rate=np.float32(0.5))]},
        wrong={OPTIMIZER: [5, "x", STRANGE, None, []]},
        says={OPTIMIZER: ["optimizer", "learning rate"]},
    ),
    Entry(
        name="delira.metrics.ToDict",
        good=lambda folder: {"name": "error"},
        make=lambda name: of_trial(
            metrics.MetricTree(metrics.R2(), [metrics.ToDict(name)]), batches(NUMBERS, GUESSES, 3, {}), {}
        ),
        expected=lambda arguments: sk.r2_score(NUMBERS, GUESSES),
        right={"name": ["r2"]},
        wrong={"name": NAMES},
    ),
    Entry(
        name="delira.metrics.to_dict",
        good=lambda folder: {"target": metrics.R2()},
        make=lambda target: of_trial(metrics.to_dict(target), batches(NUMBERS, GUESSES, 3, {}), {}),
        expected=lambda arguments: sk.r2_score(NUMBERS, GUESSES),
        right={"target": [metrics.R2]},
        wrong={"target": [5, NAN, [], "x", STRANGE, int, sk.r2_score, lambda: 1]},
        says={"target": ["metric", "r2_score", "<lambda>"]},
    ),
    *(
        metric_entry(
            f"DefaultAccuracy#{type(criterion).__name__}",
            LABELS if type(criterion) is CrossEntropyLoss else NUMBERS,
            SCORES if type(criterion) is CrossEntropyLoss else GUESSES,
            right_labels
            if type(criterion) is CrossEntropyLoss
            else lambda arguments: sk.mean_squared_error(NUMBERS, GUESSES),
            data={"criterion": criterion},
            wrong={
                "true": NO_LABELS if type(criterion) is CrossEntropyLoss else [NUMBERS[:6], NUMBERS.astype(str)],
                "criterion": [None, STRANGE, 5, "x", len],
            },
            says={"criterion": ["criterion"]},
        )
        for criterion in (CrossEntropyLoss(), MSELoss())
    ),
    Entry(
        name="delira.metrics.ConfusionMatrix",
        good=lambda folder: {"true": LABELS, "pred": SCORES},
        make=lambda true, pred, batch_size=3, **settings: of_trial(
            metrics.ConfusionMatrix(**settings), batches(true, pred, batch_size, {}), {}
        ),
        expected=lambda arguments: (
            sk.confusion_matrix(
                arguments["true"], arguments["pred"].argmax(1), labels=range(arguments.get("num_classes") or 3)
            )
            if np.isfinite(arguments["pred"]).all()
            else np.nan
        ),
        right={"batch_size": [1, 100], "num_classes": [3, 5, None], "pred": [with_value(SCORES, NAN)]},
        wrong={
            "true": [*NO_LABELS, LABELS[:6], None],
            "pred": [SCORES[:6], SCORES[:, :2], SCORES.astype(str)],
            "num_classes": [*(value for value in NOT_POSITIVE_INT if value is not None), 2],
        },
        says={"true": ["target", "label"], "pred": ["prediction", "target 2"], "num_classes": ["num_classes"]},
    ),
    Entry(
        name="delira.metrics.accuracy",
        good=lambda folder: {"true": LABELS, "pred": SCORES},
        make=labels_of_one,
        expected=right_labels,
        right={
            "true": [ONE_HOT, LABELS[:, None], LABELS.astype(np.uint8), LABELS.astype(np.float32)],
            "pred": [with_value(SCORES, NAN), with_value(SCORES, INFINITE), LABELS[::-1], SCORES.astype(np.float16)],
            "class_axis": [1, -1],
        },
        wrong={
            "true": [*NO_LABELS, LABELS[:6], None],
            "pred": [
                SCORES[:6],
                SCORES[:, :2],
                SCORES.T,
                SCORES.astype(str),
                SCORES.astype(complex),
                None,
                SCORES[:, 0],
            ],
            "class_axis": [*NO_AXIS, None],
        },
        says={
            "true": ["label", "target", "y_true"],
            "pred": ["prediction", "y_pred", "target 2"],
            "class_axis": ["axis"],
        },
        free={"y_true": "it is `true` here", "y_pred": "it is `pred` here"},
    ),
    Entry(
        name="delira.metrics.per_sample",
        good=lambda folder: {"function": mean_absolute},
        make=lambda function: of_set(metrics_given={"own": metrics.per_sample(function)}),
        expected=lambda arguments: numbers({"true": NUMBERS, "pred": GUESSES}),
        right={"function": [lambda y_pred, y_true: abs(y_pred - y_true)]},
        wrong={"function": [*NOT_CALLABLE, None, lambda y_true, y_pred: "x", lambda y_true, y_pred: None]},
        own=["function"],
        says={"function": ["own"]},
    ),
    Entry(
        name="delira.metrics.PerSample",
        good=lambda folder: {"function": mean_absolute},
        make=lambda function: np.mean(
            [metrics.PerSample(function)(*pair) for pair in zip(NUMBERS, GUESSES, strict=True)]
        ),
        expected=lambda arguments: numbers({"true": NUMBERS, "pred": GUESSES}),
        wrong={"function": [*NOT_CALLABLE, None]},
        own=["function"],
    ),
    *(
        Entry(
            name=f"delira.metrics.kind_of#{number}",
            good=lambda folder, metric=metric: {"metric": metric},
            expected=lambda arguments, kind=kind: kind,
            wrong={"metric": NO_METRIC if number == 0 else []},
            says={"metric": ["metric"]},
            free={"name": "for messages"},
        )
        for number, (metric, kind) in enumerate(KINDS)
    ),
    Entry(
        name="delira.metrics.score",
        good=lambda folder: {"metric": mean_absolute, "arrays": [NUMBERS, GUESSES]},
        expected=lambda arguments: numbers({"true": NUMBERS, "pred": GUESSES}),
        right={"metric": ["mae", metrics.per_sample(mean_absolute), sk.mean_absolute_error, metrics.MeanAbsoluteError]},
        wrong={
            "metric": [*NO_METRIC, lambda y_true, y_pred: "x", lambda y_true, y_pred: NUMBERS, lambda *a: None],
            "arrays": ["x", 5, NAN, None, [], STRANGE, {"label": NUMBERS}],
        },
        own=["metric"],
        says={"metric": ["metric"]},
        free={"name": "for messages"},
    ),
    Entry(
        name="delira.metrics.default_for_key",
        good=lambda folder: {"key": "fuzz_error"},
        make=registered,
        expected=lambda arguments: numbers({"true": NUMBERS, "pred": GUESSES}),
        wrong={"key": NAMES, "metric": [5, NAN, STRANGE, "no metric", int, []]},
        right={"metric": [metrics.mean(Error), metrics.MeanAbsoluteError, "mae"]},
    ),
    Entry(
        name="delira.metrics.Gatherer",
        good=lambda folder: {},
        make=gathered,
        expected=lambda arguments: np.asarray(arguments.get("rows", NUMBERS)),
        right={"limit_bytes": [0, 10, 1 << 20], "rows": [SCORES, LABELS], "batch_size": [1, 100]},
        wrong={"limit_bytes": NOT_A_COUNT, "folder": [5, NAN, STRANGE, True]},
    ),
    Entry(
        name="delira.metrics.Gatherer#append",
        good=lambda folder: {"entries": {"a": NUMBERS, "b": {"c": GUESSES}}},
        make=appended,
        expected=lambda arguments: ["a", "b"],
        wrong={"entries": [{}, {"a": NUMBERS}, {"a": NUMBERS, "b": GUESSES}, {"c": NUMBERS}, 5, None, "x", [NUMBERS]]},
        says={"entries": ["entries"]},
        free={"limit_bytes": "said by the other entry"},
    ),
    Entry(
        name="delira.metrics.MetricSet",
        good=lambda folder: {},
        make=of_set,
        expected=lambda arguments: numbers({"true": NUMBERS, "pred": GUESSES}),
        right={
            "metrics_given": [{"m": "mae"}, {"m": metrics.per_sample(mean_absolute)}, {"m": sk.mean_absolute_error}],
            "batch_size": [1, 100],
            "limit_bytes": [0, 10],
            "metric_keys": [{"mae": ("label", "pred")}, {"mae": ["pred", "label"]}, None, {}],
        },
        wrong={
            "metrics_given": [*NOT_A_MAPPING, *({"own": metric} for metric in NO_METRIC), {5: mean_absolute}],
            "metric_keys": [
                *NOT_A_MAPPING,
                {"nonsense": ("label", "pred")},
                {"mae": "label"},
                {"mae": 5},
                {"mae": ("label", "nonsense")},
                {"mae": (1, 2)},
            ],
            "entries": [{"label": NUMBERS}, {"pred": GUESSES}, {}, {"label": NUMBERS, "prd": GUESSES}],
            "limit_bytes": NOT_A_COUNT,
        },
        says={
            "metrics_given": ["metric"],
            "metric_keys": ["nonsense"],
            "entries": ["reads"],
        },
        free={"metrics": "it is `metrics_given` here"},
    ),
    Entry(
        name="delira.callbacks.TimerMetric",
        good=lambda folder: {"*": ["forward"]},
        use=lambda metric, folder: metric.parts,
        expected=lambda arguments: tuple(arguments["*"]),
        right={"*0": ["data", "validation"]},
        wrong={"*0": [*NOT_A_TEXT, "nonsense", "forwad", ""], "prints": NOT_A_BOOL, "wait": NOT_A_BOOL},
        says={"*0": ["part"]},
    ),
    Entry(
        name="delira.metrics.dice#shapes",
        good=lambda folder: {"*": [LABELS, LABELS]},
        expected=lambda arguments: 1.0,
        right={"*0": [LABELS.astype(np.uint8), LABELS.astype(np.float32), LABELS[None]]},
        wrong={
            "*0": [*NO_LABELS[1:2], *NO_LABELS[3:6], *NO_LABELS[7:], LABELS[:6], None, "x"],
            "*1": [LABELS[:6], LABELS.astype(complex), LABELS.astype(str), with_value(LABELS, -1), None],
            "class_axis": [*(value for value in NO_AXIS if value not in (0, 5)), None],
        },
        says={"*0": ["label", "y_true"], "*1": ["label", "prediction", "y_pred"]},
    ),
]
