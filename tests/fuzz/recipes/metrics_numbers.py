"""Metrics of predicted numbers, and what hangs on any metric: means, spreads, extremes, running means."""

import numpy as np
import sklearn.metrics as sk
from fuzz_cases import Entry
from fuzz_metrics import GUESSES, N_SAMPLES, NUMBERS, RANDOM, batches, metric_entry, of_trial, with_value
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_BOOL,
    NOT_A_CHOICE,
    NOT_A_TEXT,
    NOT_POSITIVE_INT,
    STRANGE,
)

from delira import metrics
from delira.state import Y_PRED, Y_TRUE, State, X

TWO, TWO_GUESSES = (RANDOM.normal(size=(N_SAMPLES, 2)).astype(np.float32) for _ in range(2))
NO_NUMBERS = [
    NUMBERS.astype(str),
    NUMBERS.astype(complex),
    NUMBERS.astype(object),
    np.array(["2026-01-01"] * N_SAMPLES, dtype="datetime64[D]"),
    NUMBERS[:6],
    NUMBERS[:0],
    np.stack([NUMBERS, NUMBERS], 1),
    NUMBERS.reshape(1, N_SAMPLES),
]
NO_DIM = ["x", 1.5, NAN, {}, STRANGE, True, ("a",), (0.5,), "", 2, -3, (0, 2)]
ROWS = RANDOM.normal(size=(N_SAMPLES, 4))


def finite(function):
    """A function of scikit-learn, not a number where a prediction or a target is none."""

    def expected(arguments):
        true, pred = (np.asarray(arguments[name], dtype=np.float64) for name in ("true", "pred"))
        settings = {name: arguments[name] for name in ("multioutput",) if name in arguments}
        if not np.isfinite(pred).all() or not np.isfinite(true).all():
            return np.nan if np.isnan(pred + true).any() or function is sk.r2_score else np.inf
        if true.ndim > 2:
            true, pred = (array.reshape(len(array), -1) for array in (true, pred))
        return function(true.reshape(pred.shape), pred, **settings)

    return expected


def regression(name, function, *, wrong=None, right=None):
    return metric_entry(
        name,
        NUMBERS,
        GUESSES,
        finite(function),
        right={
            "pred": [
                with_value(GUESSES, NAN),
                with_value(GUESSES, INFINITE) if name != "R2" else with_value(GUESSES, -INFINITE),
                GUESSES[:, None],
                GUESSES.astype(np.float64),
                np.round(GUESSES).astype(np.int64),
            ],
            "true": [NUMBERS[:, None], NUMBERS.astype(np.float64), np.round(NUMBERS).astype(np.int8)],
            **(right or {}),
        },
        wrong={"true": [*NO_NUMBERS, None], "pred": NO_NUMBERS, **(wrong or {})},
    )


# ------------------------------------------------------------------ what hangs on a metric

#: name -> the same of all rows at once
OVER = {
    "Mean": np.mean,
    "RootMean": lambda rows, axis=None: np.sqrt(np.mean(rows, axis=axis)),
    "Max": np.max,
    "Min": np.min,
    "Var": lambda rows, axis=None, ddof=1: np.var(rows, axis=axis, ddof=ddof),
    "Std": lambda rows, axis=None, ddof=1: np.std(rows, axis=axis, ddof=ddof),
}


class Rows(metrics.Metric):
    """The prediction itself."""

    def __init__(self, name="rows"):
        super().__init__(name)

    def process(self, *args):
        return args[0][Y_PRED]


def hung(make):
    """A pass over the rows, with what is made hanging on them."""

    def call(*, rows, batch_size=3, **settings):
        tree = metrics.MetricTree(Rows("rows"), [make(**settings)])
        return of_trial(tree, batches(rows, rows, batch_size, {}), {})

    return call


def whole(name):
    """All rows at once, by numpy."""

    def expected(arguments):
        rows = np.asarray(arguments["rows"], dtype=np.float64)
        settings = {"axis": arguments.get("dim")}
        if "unbiased" in arguments:
            settings["ddof"] = int(arguments["unbiased"])
        if np.isinf(rows).any() and name in ("Var", "Std"):
            return np.nan
        with np.errstate(invalid="ignore"):  # the root of a mean below 0
            return OVER[name](rows, **settings)

    return expected


def aggregator(name):
    right = {
        "rows": [ROWS[:, 0], with_value(ROWS, NAN), with_value(ROWS, INFINITE), ROWS.astype(np.float64) ** 2 + 1e6],
        "batch_size": [1, 100],
        "dim": [0, None, (0, 1)],
    }
    wrong = {"name": [*NOT_A_TEXT, ""], "dim": NO_DIM}
    if name in ("Var", "Std"):
        right["unbiased"] = [False, True]
        wrong["unbiased"] = NOT_A_BOOL
    return Entry(
        name=f"delira.metrics.{name}",
        good=lambda folder: {"name": "rows", "rows": ROWS**2},
        make=hung(getattr(metrics, name)),
        expected=whole(name),
        right=right,
        wrong=wrong,
    )


def decorated(name, of):
    """The decorator: on a metric, on a function, on a class."""

    def call(*, rows=ROWS**2, batch_size=3, target=None, **settings):
        given = Rows("rows") if target is None else target
        return of_trial(getattr(metrics, name)(given, **settings), batches(rows, rows, batch_size, {}), {})

    def rows_of(state):
        return state[Y_PRED]

    return Entry(
        name=f"delira.metrics.{name}",
        good=lambda folder: {},
        make=call,
        expected=lambda arguments: whole(of)({"rows": ROWS**2, **arguments}),
        right={
            "target": [Rows, rows_of, lambda y_pred, y_true: y_pred, Y_PRED],
            "batch_size": [100],
            "dim": [0],
            "rows": [ROWS[:, 1] ** 2],
            **({"unbiased": [False]} if of in ("Var", "Std") else {}),
        },
        wrong={
            "target": [5, NAN, [], "x", STRANGE, int, sk.accuracy_score, lambda: 1, lambda a, b, c: 1],
            "dim": NO_DIM,
            **({"unbiased": NOT_A_BOOL} if of in ("Var", "Std") else {}),
        },
        says={"target": ["metric", "accuracy_score", "<lambda>"]},
    )


def running(name, make):
    """What a trial reports of the last batches while it trains: the first means are read at once."""

    def call(*, rows=ROWS, batch_size=2, step_size=1, **settings):
        made = make(batch_size=batch_size, step_size=step_size, **settings)
        metric = metrics.MetricTree(Rows("rows"), [made]) if isinstance(made, metrics.RunningMetric) else made
        one, state = metrics.MetricList([metric]), State()
        one.train()
        one.reset(state)
        told = []
        for row in rows:
            state.update({X: row, Y_TRUE: row, Y_PRED: row[None]})
            told.append(np.asarray(one.process(state)["running_rows"].item()))
        return np.stack(told)

    def by_hand(arguments):
        window, step = arguments.get("batch_size", 2), arguments.get("step_size", 1)
        means = ROWS if "dim" in arguments and arguments["dim"] is not None else ROWS.mean(1, keepdims=True)
        told = [means[max(0, at - window + 1) : at + 1].mean(0) for at in range(N_SAMPLES)]
        told = [told[at - at % step] for at in range(N_SAMPLES)]
        return np.squeeze(np.stack(told))

    return Entry(
        name=f"delira.metrics.{name}",
        good=lambda folder: {"name": "rows"} if name != "running_mean" else {},
        make=call,
        expected=by_hand,
        right={"batch_size": [1, 3, 50], "step_size": [1, 3, 10], "dim": [0, None]},
        wrong={
            "batch_size": NOT_POSITIVE_INT,
            "step_size": NOT_POSITIVE_INT,
            "dim": NO_DIM,
            **({"name": [*NOT_A_TEXT, ""]} if name != "running_mean" else {"target": [5, NAN, [], "x", STRANGE]}),
        },
        says={"target": ["metric"]},
    )


class OwnRunning(metrics.RunningMetric):
    """What a user derives: the mean of the last means."""

    def compute(self, means):
        return means.mean(axis=0)


ENTRIES = [
    regression("MeanAbsoluteError", sk.mean_absolute_error),
    regression("MeanSquaredError", sk.mean_squared_error),
    regression(
        "RootMeanSquaredError",
        sk.root_mean_squared_error,
        wrong={"multioutput": [*NOT_A_CHOICE, "variance_weighted"]},
    ),
    metric_entry(
        "RootMeanSquaredError#outputs",
        TWO,
        TWO_GUESSES,
        finite(sk.root_mean_squared_error),
        right={"multioutput": ["uniform_average"]},
        wrong={"true": [TWO[:, :1], TWO.T, TWO[:, :, None].repeat(2, 2)]},
    ),
    regression("R2", sk.r2_score),
    metric_entry(
        "R2#outputs",
        TWO,
        TWO_GUESSES,
        finite(sk.r2_score),
        right={"pred": [TWO, TWO.astype(np.float64)]},
        wrong={"true": [TWO[:, :1], TWO.T]},
    ),
    *map(aggregator, OVER),
    *(decorated(name.lower() + "_" * (name in ("Max", "Min")), name) for name in OVER if name != "RootMean"),
    running("RunningMean", lambda name, **settings: metrics.RunningMean(name, **settings)),
    running("RunningMetric", lambda name, **settings: OwnRunning(name, **settings)),
    running(
        "running_mean",
        lambda target=None, **settings: metrics.running_mean(Rows() if target is None else target, **settings),
    ),
]
