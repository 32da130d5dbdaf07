"""Every number of a cross-validation, computed again from the indices of its splitter and the scores of its networks.

The network hands out scores that are stored in the samples, so that nothing of what is expected comes from delira.
"""

import csv
import re

import numpy as np
import pytest
from fold_numbers import METRICS, OF_CASES, Row, blocks, is_written, statistic
from fold_problems import N_EPOCHS, SPLITTERS, Problem, handed
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from delira.training import KFoldResult

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore:A single label was found:UserWarning"),
    pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true:UserWarning"),
]
NEAR = {"rel": 1e-9, "abs": 1e-12, "nan_ok": True}
SEEDS = st.integers(0, 10**6)
#: nothing is shrunk: each attempt is a cross-validation
FEW, MANY = (settings(max_examples=n, phases=[Phase.generate]) for n in (2, 15))


@st.composite
def problems(draw, kind):
    sizes = {"k": st.integers(2, 4), "n": st.integers(24, 60), "n_groups": st.integers(5, 9)}
    return Problem(
        kind, seed=draw(SEEDS), is_sorted=draw(st.booleans()), **{name: draw(each) for name, each in sizes.items()}
    )


def rows_of(problem, **facts):
    return {name: Row(name, problem, **facts) for name in METRICS}


# ------------------------------------------------------------------ what is checked of a result


def check_folds(result, problem, rows, epochs=None):
    """Indices, predictions and metrics of each fold."""
    assert [fold.fold for fold in result.folds] == [part.folds[0] for part in rows["mae"].folds]
    for position, fold in enumerate(result.folds):
        train, test = problem.splits[fold.fold]
        np.testing.assert_array_equal(fold.test_indices, test)
        inner = [fold.train_indices] if fold.val_indices is None else [fold.train_indices, fold.val_indices]
        np.testing.assert_array_equal(np.sort(np.concatenate(inner)), np.sort(train))
        expected = handed(problem.arrays["data"][test], 0 if epochs is None else epochs[fold.fold], fold.fold)
        for output in expected:
            np.testing.assert_array_equal(fold.predictions[output], expected[output])
        for name, row in rows.items():
            part = row.folds[position]
            found = OF_CASES[name](part.true, part.pred) if name == "off" else row.values[[position]]
            assert fold.metrics[name] == pytest.approx(found, **NEAR), (name, fold.fold)


def check_summary(result, rows):
    """All numbers of ``summary()``, and why some are missing."""
    found = result.summary()
    assert [*found] == [*rows]
    for name, row in rows.items():
        numbers = dict(found[name])
        row.check_interval(numbers.pop("ci_low"), numbers.pop("ci_high"), numbers.pop("note"))
        told, exact = numbers.pop("undefined"), row.exact
        assert numbers.pop("n_groups") == exact.pop("n_groups")
        assert numbers == pytest.approx(exact, **NEAR), name
        assert bool(told) == bool(row.undefined), name
        if told:
            named = [int(number) for group in re.findall(r"folds? ([\d, ]+):", told) for number in group.split(", ")]
            assert sorted(named) == row.undefined
            n_left, n_all = len(row.folds) - len(row.undefined), len(row.folds)
            rest = f"mean and SD are over {n_left} of {n_all} folds" if n_left else "so there is no mean"
            assert told.endswith(f"; {rest}")


def check_aligned(result, problem):
    """The out-of-fold predictions: for each case the last one, and in how many folds it was tested."""
    counts, last = np.zeros(problem.n, int), np.full(problem.n, -1)
    for fold in result.folds:
        test = problem.splits[fold.fold][1]
        counts[test] += 1
        last[test] = fold.fold
    np.testing.assert_array_equal(result.oof.counts, counts)
    np.testing.assert_array_equal(result.oof.mask, counts > 0)
    np.testing.assert_array_equal(result.oof.fold, last)
    for case in range(problem.n):
        expected = handed(problem.arrays["data"][[case]], 0, last[case])
        for output in expected:
            is_right = np.array_equal(result.oof.predictions[output][case], expected[output][0])
            assert is_right if counts[case] else np.isnan(result.oof.predictions[output][case]).all()


def check_printed(result, problem, rows):
    """The title and every cell of the table, against our numbers and, of intervals, those of ``summary()``."""
    n_folds, n_cases = len(result.folds), len(rows["mae"].cases)
    assert str(result).startswith(
        f"UnnamedExperiment: {n_folds} {'fold' if n_folds == 1 else 'folds'}, {n_cases} cases, seed {problem.seed}\n"
    )
    summary, seen = result.summary(), []
    for header, *body in blocks(str(result)):
        if header[0] == "fold":
            assert [int(line[0]) for line in body] == [fold.fold for fold in result.folds]
            for place, name in enumerate(header[1:], 1):
                assert all(is_written(line[place], value) for line, value in zip(body, rows[name].values, strict=True))
                seen.append(name)
            continue
        for line in body:
            cells, row, numbers = dict(zip(header, line, strict=True)), rows[line[0]], summary[line[0]]
            assert ("pooled" in cells) == row.is_of_several
            check_cell(cells["mean ± std"], row.exact["mean"], row.exact["std"])
            check_cell(cells["pooled" if row.is_of_several else "out-of-fold"], row.exact["oof"], row.exact["oof_std"])
            low, _, high = cells["95 % interval"].strip("[]").partition(", ")
            assert is_written(low, numbers["ci_low"])
            assert is_written(high or "–", numbers["ci_high"])
            assert cells["n"] == f"{n_cases}"
            seen.append(line[0])
    assert sorted(seen) == sorted([*rows, *rows])


def check_cell(cell, value, spread):
    first, _, second = cell.partition(" ± ")
    assert is_written(first, value), (cell, value)
    assert is_written(second or "–", spread), (cell, spread)


def check_everything(result, problem):
    rows = rows_of(problem)
    check_folds(result, problem, rows)
    check_summary(result, rows)
    check_aligned(result, problem)
    check_printed(result, problem, rows)
    said = " ".join(result.warnings)
    for name, numbers in result.summary().items():
        assert (f"{name} has no interval: {numbers['note']}" in said) == bool(
            numbers["note"] and not numbers["undefined"]
        )
        assert (f"{name} is {numbers['undefined']}" in said) == bool(numbers["undefined"])
    assert "has not tested all cases" not in said
    (result.path / "numbers.json").unlink()
    assert repr(KFoldResult.load(result.path).summary()) == repr(result.summary())


# ------------------------------------------------------------------ the numbers of a cross-validation


def check_kind(kind, folder, data):
    problem = data.draw(problems(kind))
    batch_size = data.draw(st.sampled_from([1, 7, problem.n]))
    check_everything(problem.kfold(folder, batch_size), problem)


@pytest.mark.slow_cases("^(?!RepeatedStratifiedKFold|ShuffleSplit|KFold|GroupKFold)")
@pytest.mark.parametrize("kind", SPLITTERS)
@FEW
@given(data=st.data())
def test_every_number_is_what_its_splitter_and_scores_give(tmp_path_factory, kind, data):
    check_kind(kind, tmp_path_factory.mktemp("run"), data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", SPLITTERS)
@MANY
@given(data=st.data())
def test_every_number_of_many_cross_validations(tmp_path_factory, kind, data):
    check_kind(kind, tmp_path_factory.mktemp("run"), data)


SPLIT_LIKE_REPEATS = Problem("GroupShuffleSplit", k=2, seed=9, n=40, n_groups=5, is_sorted=False)


def test_splits_whose_last_repeats_some_cases_of_the_others_are_no_unfinished_repeat(tmp_path):
    first, second, third = (set(test.tolist()) for _, test in SPLIT_LIKE_REPEATS.splits)
    assert not first & second
    assert third < first | second
    result = SPLIT_LIKE_REPEATS.kfold(tmp_path, 7)
    assert result.rounds.kind == "splits"
    check_everything(result, SPLIT_LIKE_REPEATS)


@pytest.mark.parametrize("name", METRICS)
@FEW
@given(seed=SEEDS, n=st.integers(8, 30))
def test_our_metrics_of_draws_are_those_of_scikit_learn_draw_by_draw(name, seed, n):
    problem = Problem("KFold in order", k=2, seed=seed, n=n, n_groups=5, is_sorted=False)
    function, target, output = METRICS[name]
    function = {"accuracy": sk.accuracy_score, "off": sk.mean_absolute_error}.get(name, function)
    true, pred = problem.arrays[target], handed(problem.arrays["data"], 0, 0)[output]
    pred = pred.argmax(1) if output == "logits" else pred
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=20)
    whole = [len(np.unique(true[count > 0])) == len(np.unique(true)) for count in counts]
    counts = counts if target == "value" else counts[whole]
    expected = [function(*(np.repeat(array, count) for array in (true, pred))) for count in counts]
    assert statistic(name, counts, true, handed(problem.arrays["data"], 0, 0)[output]) == pytest.approx(
        expected, **NEAR
    )


@pytest.mark.slow_cases("^(?!RepeatedKFold)")
@pytest.mark.parametrize("kind", ["KFold in order", "StratifiedGroupKFold", "RepeatedKFold"])
@settings(FEW, max_examples=1)
@given(data=st.data())
def test_files_and_other_tables_have_the_same_numbers(tmp_path_factory, kind, data):
    pytest.importorskip("pandas")
    problem, folder = data.draw(problems(kind)), tmp_path_factory.mktemp("run")
    result, rows = problem.kfold(folder, 7), rows_of(problem)
    result.export(folder / "tables", ["csv"])
    summary, folds = (
        [*csv.DictReader((folder / "tables" / name).read_text().splitlines())] for name in ("summary.csv", "folds.csv")
    )
    for line, row in zip(summary, rows.values(), strict=True):
        exact, numbers = row.exact, result.summary()[row.name]
        found = {name: float(line.get(name) or "nan") for name in line if name not in ("Metric", "CI of")}
        expected = {
            "Mean": exact["mean"], "SD": exact["std"], "CI low": numbers["ci_low"], "CI high": numbers["ci_high"],
            "Out-of-fold": np.nan if row.is_of_several else exact["oof"], "Out-of-fold SD": exact["oof_std"],
            "Pooled": exact["oof"] if row.is_of_several else np.nan, "n": exact["n"], "Groups": exact["n_groups"],
        }  # fmt: skip
        assert found == pytest.approx({name: expected[name] for name in found}, **NEAR), row.name
        of = "mean" if row.is_of_several else "out-of-fold"
        assert (line["Metric"], line["CI of"]) == (row.name, "" if np.isnan(numbers["ci_low"]) else of)
    for position, (line, fold) in enumerate(zip(folds, result.folds, strict=True)):
        train, test = problem.splits[fold.fold]
        assert (int(line["Train"]), int(line["Test"])) == (len(train), len(test))
        found = {name: float(line[name] or "nan") for name in rows}
        assert found == pytest.approx({name: row.values[position] for name, row in rows.items()}, **NEAR)
    for name, values in result.to_dataframe().items():
        assert values.tolist() == pytest.approx(rows[name].values, **NEAR)
    (header, _, *body) = [line.strip("|").split("|") for line in result.table("markdown").splitlines()]
    for name, *column in zip(*([cell.strip() for cell in line] for line in (header, *body)), strict=True):
        for cell in printed_cells(result).get(name, ()):
            assert any(cell in each for each in column), (name, cell)


def printed_cells(result):
    """What is printed of each metric: its folds, and its line."""
    found = {}
    for header, *body in blocks(str(result)):
        if header[0] == "fold":
            found |= {name: list(cells) for name, *cells in zip(header, *body, strict=True)}
        else:
            for name, *cells in body:
                found[name] += cells
    return found


def test_a_repeat_that_was_broken_off_is_drawn_with_the_cases_of_the_one_before(tmp_path):
    problem = Problem("RepeatedKFold", k=3, seed=4, n=45, n_groups=5, is_sorted=False)
    whole = problem.kfold(tmp_path, 7)
    part = KFoldResult(whole.folds[:5], problem.n, whole.metrics, whole.metric_keys, seed=0)
    assert part.rounds.unfinished == whole.folds[3:5]
    for name, row in rows_of(problem, numbers=range(5)).items():
        numbers = part.summary()[name]
        assert (numbers["mean"], numbers["std"]) == pytest.approx((row.exact["mean"], row.exact["std"]), **NEAR)
        finished = Row(name, problem, numbers=range(3))
        assert numbers["oof"] == pytest.approx(finished.exact["oof"], **NEAR)
        of = row if row.is_pooled else finished
        of.check_interval(numbers["ci_low"], numbers["ci_high"], numbers["note"])
    assert "draws of cases, the same in all folds" in " ".join(part.table().split())
    assert any("Fold 3, 4: of a repeat that has not tested all cases" in text for text in part.warnings)


# ------------------------------------------------------------------ what may not change a number


def content(result):
    """All that folds have come to and all that is said of them, but for times and places."""
    folds = [
        (
            fold.fold, fold.train_indices.tolist(), fold.test_indices.tolist(), fold.history, fold.best_epoch,
            {name: value.tobytes() for name, value in {**fold.metrics, **fold.predictions, **fold.targets}.items()},
        )
        for fold in result.folds
    ]  # fmt: skip
    oof = {name: value.tobytes() for name, value in {**result.oof.predictions, **result.oof.targets}.items()}
    return repr((folds, oof, result.summary(), str(result)))


@pytest.mark.slow_cases("^(?!ShuffleSplit)")
@pytest.mark.parametrize("kind", ["StratifiedGroupKFold", "RepeatedKFold", "ShuffleSplit"])
@settings(FEW, max_examples=1)
@given(data=st.data())
def test_folds_one_by_one_in_any_order_are_the_whole_bit_for_bit(tmp_path_factory, kind, data):
    problem, folder = data.draw(problems(kind)), tmp_path_factory.mktemp("run")
    whole = problem.kfold(folder / "whole", 7)
    order, path = data.draw(st.permutations(range(len(whole.folds)))), None
    for position, number in enumerate(order):
        part = problem.kfold(folder / "parts", 7, folds=[number], resume=path)
        path, numbers = part.path, sorted(order[: position + 1])
        rows = rows_of(problem, numbers=numbers)
        check_folds(part, problem, rows)
        check_aligned(part, problem)
        if kind == "StratifiedGroupKFold":  # the rounds of some folds of repeats are another matter
            check_summary(part, rows)
            check_printed(part, problem, rows)
    assert content(part) == content(whole)
    assert content(problem.kfold(folder / "parts", 7, resume="auto")) == content(whole)
    assert content(KFoldResult.load(path)) == content(whole)


@pytest.mark.slow
@settings(FEW, max_examples=1)
@given(data=st.data())
def test_workers_and_the_size_of_test_batches_change_nothing(tmp_path_factory, data):
    problem = data.draw(problems("repeated GroupKFold"))
    found = {
        content(problem.kfold(tmp_path_factory.mktemp("run"), 7, manager=manager, test_kwargs=changes))
        for manager, changes in (
            ({}, {}),
            ({}, {"batch_size": 1}),
            ({}, {"batch_size": problem.n}),
            ({"n_process_augmentation": 2}, {}),
        )
    }
    assert len(found) == 1


# ------------------------------------------------------------------ which epoch is tested

VALIDATED = {"accuracy": max, "auc": max, "r2": max, "mae": min, "rmse": min, "mse": min}


def by_hand(name, problem, cases, epoch, fold):
    """A value of the validation; ``mse`` is the loss."""
    _, target, output = METRICS["mae" if name == "mse" else name]
    true, pred = problem.arrays[target][cases], handed(problem.arrays["data"][cases], epoch, fold)[output]
    if name in OF_CASES:
        return float(np.mean(OF_CASES[name](true, pred)))
    return (
        float(np.mean((true - pred) ** 2))
        if name == "mse"
        else float(statistic(name, np.ones((1, len(true)), int), true, pred)[0])
    )


def check_validation_part(problem, fold):
    """Of the size that was asked for, and apart from everything else."""
    rest, val = problem.splits[fold.fold][0], fold.val_indices
    assert sorted([*val, *fold.train_indices]) == sorted(rest)
    if problem.groups is not None:
        assert not {*problem.groups[val]} & {*problem.groups[fold.train_indices]}
        n_groups, n_val = len(np.unique(problem.groups[rest])), len(np.unique(problem.groups[val]))
        assert problem.kind == "StratifiedGroupKFold" or n_val == int(np.ceil(0.25 * n_groups))
    elif problem.kind == "TimeSeriesSplit":
        np.testing.assert_array_equal(val, rest[-round(0.25 * len(rest)) :])
    else:
        assert len(val) == int(np.ceil(0.25 * len(rest)))
        if "Stratified" in problem.kind:
            shares = [np.bincount(problem.arrays["label"][part], minlength=3) / len(part) for part in (val, rest)]
            assert np.abs(shares[0] - shares[1]).max() <= 1 / len(val) + 1e-9


def check_selection(kind, folder, data):
    problem, key = data.draw(problems(kind)), data.draw(st.sampled_from([*VALIDATED]))
    if problem.groups is not None:  # training parts of one group cannot be divided, which is refused
        assume(all(len(np.unique(problem.groups[train])) > 1 for train, _ in problem.splits))
    training = {
        "num_epochs": N_EPOCHS, "val_score_key": key,
        "val_metrics": {name: METRICS[name][0] for name in VALIDATED if name != "mse"},
        "metric_keys": {name: METRICS[name][1:] for name in VALIDATED if name != "mse"},
    }  # fmt: skip
    batch_size = data.draw(st.sampled_from([1, 7, problem.n]))
    result = problem.kfold(folder, batch_size, training=training, val_split=0.25)
    epochs = {}
    for fold in result.folds:
        check_validation_part(problem, fold)
        scores = {
            name: [by_hand(name, problem, fold.val_indices, epoch, fold.fold) for epoch in range(N_EPOCHS)]
            for name in VALIDATED
        }
        for name, values in scores.items():
            assert [record[f"val_{name}"] for record in fold.history] == pytest.approx(values, **NEAR), name
        losses = [by_hand("mse", problem, fold.train_indices, epoch, fold.fold) for epoch in range(N_EPOCHS)]
        assert [record["mse"] for record in fold.history] == pytest.approx(losses, **NEAR)
        # of equal scores the first counts; those recorded may differ from ours in the last digit
        recorded = [record[f"val_{key}"] for record in fold.history]
        numbers = [value for value in recorded if not np.isnan(value)]
        best = recorded.index(VALIDATED[key](numbers)) if numbers else None
        assert fold.best_epoch == (None if best is None else best + 1)
        assert fold.score_key == f"val_{key}"
        epochs[fold.fold] = N_EPOCHS - 1 if best is None else best
        assert fold.weights_epoch == epochs[fold.fold] + 1
        assert fold.best_score is None if best is None else fold.best_score == pytest.approx(scores[key][best], **NEAR)
    check_folds(result, problem, rows_of(problem, epochs=epochs), epochs)
    check_summary(result, rows_of(problem, epochs=epochs))


SELECTED = ["KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "TimeSeriesSplit", "RepeatedKFold"]


@pytest.mark.slow_cases("^(?!KFold)")
@pytest.mark.parametrize("kind", SELECTED)
@FEW
@given(data=st.data())
def test_the_epoch_that_is_tested_is_the_best_by_hand(tmp_path_factory, kind, data):
    check_selection(kind, tmp_path_factory.mktemp("run"), data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", SELECTED)
@MANY
@given(data=st.data())
def test_the_epochs_that_are_tested_in_many_cross_validations_are_the_best_by_hand(tmp_path_factory, kind, data):
    check_selection(kind, tmp_path_factory.mktemp("run"), data)
