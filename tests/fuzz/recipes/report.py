"""Reports: intervals against scipy, tables by hand, and what is no result is refused."""

from types import SimpleNamespace

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_COUNT, NOT_A_PATH, NOT_CALLABLE, NOT_POSITIVE_INT, STRANGE

from delira.training import FoldResult, KFoldResult

VALUES = np.random.default_rng(5).normal(size=60)
NO_NUMBERS = ["x", 5, NAN, [], ["a", "b"], np.zeros((2, 2)), [[1], [1, 2]], STRANGE, None, {"a": 1}, [1j, 2j]]
NO_GROUPS = ["x", 5, NAN, [1, 2], np.zeros((60, 2)), STRANGE]
NO_RESULT = ["x", 5, NAN, None, [], {}, STRANGE, KFoldResult]
COUNTS = [value for value in NOT_A_COUNT if value is not True]


class Near:
    """Numbers that a bootstrap with other draws gives, too."""

    def __init__(self, values, tolerance):
        self.values, self.tolerance = values, tolerance

    def __eq__(self, other):
        return np.allclose(self.values, other, rtol=0, atol=self.tolerance)

    def __ne__(self, other):
        return not self == other

    def __repr__(self):
        return f"{self.values} ± {self.tolerance}"

    __hash__ = None


def by_scipy(statistic):
    """Percentiles of another bootstrap."""

    def expected(arguments):
        from scipy.stats import bootstrap

        values = np.asarray(arguments["values"] if "values" in arguments else arguments["arrays"][0], dtype=float)
        made = bootstrap((values,), statistic, n_resamples=4000, method="percentile", random_state=1, vectorized=False)
        return Near(tuple(made.confidence_interval), 0.15 * values.std() + 1e-9)

    return expected


def one_result(folder=None):
    """A cross-validation of two folds, whose numbers are known."""
    folds = [
        FoldResult(
            fold=number,
            train_indices=np.arange(5),
            val_indices=None,
            test_indices=np.arange(5) + 5 * number,
            metrics={"err": np.array([value])},
            history=[{"epoch": 1, "loss": 0.5 + number}, {"epoch": 2, "loss": 0.25 + number}],
        )
        for number, value in enumerate([1.0, 2.0])
    ]
    return KFoldResult(folds, n_samples=10, name="two", metrics={})


def of_result(name, expected, use, **more):
    return Entry(
        name=f"delira.report.{name}",
        good=lambda folder: {"result": one_result(), **more.get("given", {})},
        use=use,
        expected=lambda arguments: expected,
        wrong={"result": NO_RESULT, **more.get("wrong", {})},
        says=more.get("says", {}),
        is_slow=more.get("is_slow", False),
    )


def numbers_of(found, folder):
    return found["err"]["mean"], round(found["err"]["std"], 9), found["err"]["n_folds"]


ENTRIES = [
    Entry(
        name="delira.report.mean_interval",
        good=lambda folder: {"values": VALUES},
        use=lambda made, folder: (made.low, made.high),
        expected=by_scipy(np.mean),
        right={
            "values": [VALUES * 3 + 1, list(VALUES), VALUES > 0],
            "seed": [3, np.int64(5)],
            "weights": [np.ones(60)],
        },
        wrong={
            "values": NO_NUMBERS,
            "groups": NO_GROUPS,
            "seed": COUNTS,
            "n_draws": NOT_POSITIVE_INT,
            "weights": ["x", 5, [1, 2], -np.ones(60), np.full(60, NAN), STRANGE],
        },
    ),
    Entry(
        name="delira.report.score_interval",
        good=lambda folder: {"function": np.median, "arrays": [VALUES]},
        use=lambda made, folder: (made.low, made.high),
        expected=by_scipy(np.median),
        right={"arrays": [[VALUES * 2]], "seed": [3]},
        wrong={
            "function": [*NOT_CALLABLE, None],
            "arrays": ["x", 5, None, [], STRANGE, VALUES, [VALUES, VALUES[:3]], [5]],
            "groups": NO_GROUPS,
            "seed": COUNTS,
            "n_draws": NOT_POSITIVE_INT,
        },
        is_slow=True,
    ),
    Entry(
        name="delira.report.Resampling",
        good=lambda folder: {"n": 6, "n_draws": 4},
        use=lambda made, folder: sum(counts.sum() for counts in made.counts()),
        expected=lambda arguments: arguments["n"] * arguments["n_draws"],
        right={"n": [1, 9], "n_draws": [1], "seed": [4], "fold": [0, 3], "groups": [[*"abcdef"], range(6)]},
        wrong={
            "n": NOT_A_COUNT,
            "groups": NO_GROUPS,
            "seed": NOT_A_COUNT,
            "n_draws": NOT_POSITIVE_INT,
            "fold": NOT_A_COUNT,
        },
    ),
    Entry(
        name="delira.report.Table",
        good=lambda folder: {"name": "a", "header": ["fold", "err"], "rows": [["0", 0.5], ["1", 1.25]]},
        use=lambda made, folder: made.csv(),
        expected=lambda arguments: "fold,err\n0,0.5\n1,1.25\n",
        right={"name": ["b"], "n_last": [1], "by_row": [True], "header": [("fold", "err")]},
        free={"rows": "a record of cells of any kind"},
    ),
    of_result("summarise", (1.5, round(0.5**0.5, 9), 2), numbers_of),
    of_result(
        "fold_table",
        [True, True, True],
        lambda text, folder: [word in text for word in ("1.0000", "2.0000", "1.5000 ± 0.7071")],
        wrong={"fmt": ["nonsense", "", 5, NAN, [], STRANGE, None]},
    ),
    of_result(
        "class_table",
        True,
        lambda text, folder: text.startswith("there are no metrics per class"),
        wrong={"fmt": ["nonsense", "", 5, NAN, [], STRANGE, None]},
    ),
    of_result("result_page", True, lambda page, folder: "1.5000 ± 0.7071" in page, is_slow=True),
    Entry(
        name="delira.report.export",
        good=lambda folder: {"result": one_result(), "folder": folder / "out", "formats": ["csv"]},
        use=lambda files, folder: (folder / "out" / "folds.csv").read_text().splitlines()[1:3],
        expected=lambda arguments: ["0,5,,5,2,,1.0,", "1,5,,5,2,,2.0,"],
        wrong={
            "result": NO_RESULT,
            "folder": [*NOT_A_PATH, None, ""],
            "formats": ["nonsense", ["csv", "nonsense"], 5, NAN, [5], STRANGE],
        },
        says={"formats": ["exported as 'nonsense'"]},
    ),
    Entry(
        name="delira.report.run_names",
        good=lambda folder: {"results": [one_result(), one_result()]},
        expected=lambda arguments: ["two (1)", "two (2)"][: len(arguments["results"])],
        wrong={"results": ["x", 5, NAN, None, [5], ["x"], STRANGE, SimpleNamespace(folds=[])]},
    ),
    Entry(
        name="delira.report.runs_page",
        good=lambda folder: {"results": [one_result(), one_result()]},
        use=lambda page, folder: "two (1)" in str(page),
        expected=lambda arguments: True,
        wrong={
            "results": ["x", 5, NAN, None, [], [5], ["x"], STRANGE],
            "path": [*NOT_A_PATH, ""],
            "names": ["x", 5, NAN, ["one"], ["a", "a"], [1, 2], STRANGE],
        },
        free={"statistics": "sections that other code makes"},
        is_slow=True,
    ),
    Entry(
        name="delira.report.learning_curves",
        good=lambda folder: {"folds": one_result().folds},
        use=lambda figure, folder: len(figure.axes) > 0,
        expected=lambda arguments: True,
        wrong={"folds": ["x", 5, NAN, None, [5], STRANGE, {}]},
        is_slow=True,
    ),
]
