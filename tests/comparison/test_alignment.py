"""Results over other folds or cases are refused, and the message says what differs."""

import numpy as np
import pytest
from small_results import cross_validate

import delira
from delira.comparison.tests_of_folds import corrected_t_test
from delira.errors import ConfigError, DataError
from delira.experiments.result import KFoldResult
from delira.metrics import accuracy
from delira.report.predictions import learned_from


def changed(result, fold=0, **fields):
    """The result with fields of one fold set."""
    for name, value in fields.items():
        setattr(result.folds[fold], name, value)
    return result


def test_cases_in_another_order_are_the_same_cases(pair, method):
    turned = method(1.2, "wide", 2)
    for fold in turned.folds:
        order = np.random.default_rng(fold.fold).permutation(len(fold.test_indices))
        fold.test_indices = fold.test_indices[order]
        fold.predictions = {"pred": fold.predictions["pred"][order]}
        fold.targets = {"label": fold.targets["label"][order]}
    turned.folds = turned.folds[::-1]
    expected, found = delira.compare(pair), delira.compare([pair[0], turned])
    assert str(found) == str(expected)


def test_values_of_samples_are_put_in_order(data):
    other = data.scores[:, ::-1].copy()
    first, second, turned = (
        cross_validate(data.labels, each, name=name) for each, name in ((data.scores, "a"), (other, "b"), (other, "b"))
    )
    for fold in turned.folds:
        order = np.random.default_rng(fold.fold).permutation(len(fold.test_indices))
        fold.test_indices = fold.test_indices[order]
        fold.metrics = {name: value[order] if len(value) > 1 else value for name, value in fold.metrics.items()}
        fold.predictions, fold.targets = (
            {key: value[order] for key, value in kept.items()} for kept in (fold.predictions, fold.targets)
        )
    expected, found = (
        delira.compare([first, one], metric="certainty", direction="highest") for one in (second, turned)
    )
    assert str(found) == str(expected)
    assert found.differences[0].cases.tolist() == expected.differences[0].cases.tolist()


def test_another_number_of_samples_is_refused(pair, method, labels):
    with pytest.raises(DataError, match="plain is over a data set of 120 samples, wide of 119"):
        delira.compare([pair[0], method(1.2, "wide", 2, labels=labels[:119])])


def test_a_missing_fold_is_named(pair):
    pair[1].folds = pair[1].folds[:-1]
    with pytest.raises(DataError, match=r"not over the same folds and cases: wide lacks fold 4$"):
        delira.compare(pair)


def test_a_fold_that_has_not_ended_is_named(pair):
    *folds, last = pair[1].folds
    unfinished = KFoldResult(folds, 120, pair[1].metrics, name="wide", unfinished=[last])
    with pytest.raises(DataError, match="wide lacks fold 4, which began and has not ended"):
        delira.compare([pair[0], unfinished])


def test_cases_that_only_one_of_them_tested_are_named(pair):
    changed(pair[1], test_indices=np.r_[1, pair[1].folds[0].test_indices[1:]])
    with pytest.raises(DataError, match="fold 0 tested cases 0 only by plain, 1 only by wide"):
        delira.compare(pair)


def test_other_folds_are_told_shortly(pair, method):
    with pytest.raises(DataError, match="lacks fold") as error:
        delira.compare([pair[0], method(1.2, "wide", 2, n_folds=20, metrics={"accuracy": accuracy})])
    assert len(str(error.value)) < 900


def test_other_targets_are_refused_with_the_first_case(pair):
    fold = pair[1].folds[2]
    label = fold.targets["label"].copy()
    label[3] = 1 - label[3]
    changed(pair[1], 2, targets={"label": label})
    with pytest.raises(DataError, match="'label' is another one for 1 cases of fold 2, the first of them is case 17"):
        delira.compare(pair)


def test_targets_of_other_names_and_forms_are_compared_as_far_as_they_can_be(pair):
    for fold in pair[1].folds:
        fold.targets = {"label": fold.targets["label"].astype(np.float32)[:, None]}
    delira.compare(pair, metric="accuracy")
    for fold in pair[1].folds:
        fold.targets = {"y": 1 - fold.targets["label"]}
    pair[1].metric_keys = {"accuracy": ("y", "pred"), "auroc": ("y", "pred")}
    with pytest.raises(DataError, match="'label' is another one for 24 cases of fold 0"):
        delira.compare(pair)


def test_other_names_of_cases_are_refused(method):
    names = [f"case {number}" for number in range(120)]
    first = method(0.5, "plain", 1, case_names=names)
    other = method(1.2, "wide", 2, case_names=["another", *names[1:]])
    with pytest.raises(DataError, match="1 cases have other names, the first of them is case 0, 'case 0' in plain and"):
        delira.compare([first, other])


def test_groups_may_be_called_otherwise_and_not_be_others(method):
    groups = np.arange(120) // 3
    first = method(0.5, "plain", 1, groups=groups)
    assert delira.compare([first, method(1.2, "wide", 2, groups=[f"p{g}" for g in groups])]).title.endswith("40 groups")
    with pytest.raises(DataError, match="cases are in other groups"):
        delira.compare([first, method(1.2, "wide", 2, groups=np.arange(120) // 4)])


def test_groups_that_one_of_them_was_not_told_are_taken_for_both(method):
    found = delira.compare([method(0.5, "plain", 1, groups=np.arange(120) // 3), method(1.2, "wide", 2)])
    assert found.of("accuracy")[0].interval.n_groups == 40
    assert "Wide was not told of groups; those of the others are taken for all." in found.words


def test_other_training_cases_are_a_caveat(pair):
    changed(pair[1], train_indices=pair[1].folds[0].train_indices[:50])
    found = delira.compare(pair)
    assert any("plain and wide learned from other cases in fold 0 (96 cases and 52)" in one for one in found.caveats)
    assert len(learned_from(pair[1].folds[0])) == 52
    difference = found.of("accuracy")[0]
    assert found.aligned.share(1) > found.aligned.share(0)  # the larger one is the more careful
    expected = corrected_t_test(difference.folds, found.aligned.share(1))
    assert difference.tests["corrected t"].p_value == expected.p_value


def test_validation_counts_as_training(pair):
    fold = pair[1].folds[0]
    changed(pair[1], train_indices=np.r_[fold.train_indices, fold.val_indices], val_indices=None)
    found = delira.compare(pair)
    assert not found.aligned.caveats
    assert found.aligned.share(0) == found.aligned.share(1) == 24 / 96


def test_runs_that_are_not_finished_are_compared_as_far_as_they_go(pair):
    for result in pair:
        *folds, last = result.folds
        result.folds, result.unfinished = folds, [last]
    found = delira.compare(pair)
    assert found.aligned.numbers == [0, 1, 2, 3]
    assert "Plain is not finished: fold 4 began and has not ended, and does not count." in found.words


def test_a_single_training_has_no_folds(pair):
    pair[1].kind = "run"
    with pytest.raises(ConfigError, match="wide is a single training, which has no folds"):
        delira.compare(pair)


def test_fewer_than_two_folds_are_refused(pair):
    for result in pair:
        result.folds = result.folds[:1]
    with pytest.raises(ConfigError, match=r"plain has 1 finished fold\(s\); at least two are needed"):
        delira.compare(pair)


@pytest.mark.parametrize("given", [7, "runs", b"runs", [7, 8], [None, "runs"]])
def test_what_are_no_results_is_refused(given):
    with pytest.raises(ConfigError, match="results must be"):
        delira.compare(given)


def test_one_result_is_compared_with_nothing(pair):
    with pytest.raises(ConfigError, match="at least two results can be compared, got 1"):
        delira.compare(pair[:1])


def test_names_are_made_different_or_given(pair, method):
    assert delira.compare([pair[0], method(1.2, "plain", 2)]).names == ("plain (1)", "plain (2)")
    assert delira.compare({"small": pair[0], "large": pair[1]}).names == ("small", "large")
