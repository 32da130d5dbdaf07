"""A metric must be one function in all results that are compared; where nobody knows it, that is said."""

import functools
import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score
from sklearn.neighbors import KNeighborsClassifier

import delira
from delira import cli
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.metrics import accuracy
from delira.runs.results import SUMMARY
from delira.training import KFoldResult, SklearnExperiment
from delira.utils.files import sealed

pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")

OLD = "def quality(y_true, y_pred):\n    return float((y_true == y_pred.argmax(1)).mean())"
NEW = "def quality(y_true, y_pred):\n    return 1 - float((y_true == y_pred.argmax(1)).mean())"
COMMENTED = OLD.replace("return", "# as accuracy\n    return")


def written(text, module="train"):
    """A function as a program of that name defines it."""
    scope = {"__name__": module}
    exec(text, scope)
    return scope["quality"]


def one_minus(y_true, y_pred):
    return 1 - accuracy(y_true, y_pred)


def macro(**options):
    return functools.partial(f1_score, **options)


@pytest.fixture
def run(tmp_path):
    """Make a stored cross-validation with one metric."""
    features = np.random.default_rng(0).normal(size=(60, 3))
    data = BaseDataManager({"data": features, "label": np.int64(features[:, 0] > 0)}, batch_size=10)

    def run(name, metric, **asked):
        estimator = LogisticRegression() if name == "linear" else KNeighborsClassifier(3)
        experiment = SklearnExperiment.of(estimator, save_path=tmp_path / "runs", name=name, verbose=False)
        return experiment.kfold(data, {"quality": metric}, num_splits=3, shuffle=True, random_seed=0, **asked)

    return run


def caveats(results):
    return [each for each in delira.compare(results, direction="highest").caveats if "same function" in each]


def without_code(path):
    """Make the file of a run what it was before the code of metrics was kept."""
    content = json.loads((path / SUMMARY).read_text())
    for entry in content["metrics"].values():
        del entry["code"]
    content.pop("checksum", None)
    (path / SUMMARY).write_text(json.dumps(sealed(content)))


DIFFERENT = {
    "another function": (accuracy, one_minus, r"delira.*accuracy in linear, .*one_minus in near"),
    "other options": (
        macro(average="macro"),
        macro(average="micro"),
        r'average="macro"\) in linear, .*average="micro"',
    ),
    "edited code": (written(OLD), written(NEW), "the code of quality is not the same"),
    "lambdas": (lambda t, p: accuracy(t, p), lambda t, p: 1 - accuracy(t, p), "the code of .*lambda.* is not the same"),
    "one package": (accuracy_score, balanced_accuracy_score, "accuracy_score in linear, .*balanced_accuracy_score"),
}
SAME = {
    "a function": (accuracy, accuracy),
    "with options": (macro(average="macro"), macro(average="macro")),
    "another comment": (written(OLD), written(COMMENTED)),
    "another program": (written(OLD, "train"), written(OLD, "__main__")),
}


@pytest.mark.parametrize("is_loaded", [False, True], ids=["in memory", "loaded"])
@pytest.mark.parametrize("case", DIFFERENT)
def test_another_function_of_the_same_name_is_refused(run, case, is_loaded):
    first, other, why = DIFFERENT[case]
    results = [run("linear", first), run("near", other)]
    given = [result.path for result in results] if is_loaded else results
    with pytest.raises(DataError, match=rf"'quality' is another function in linear than in near: .*{why}.*resume=RUN"):
        delira.compare(given, direction="highest")


@pytest.mark.parametrize("is_loaded", [False, True], ids=["in memory", "loaded"])
@pytest.mark.parametrize("case", SAME)
def test_one_function_is_compared_without_a_word(run, case, is_loaded):
    results = [run("linear", SAME[case][0]), run("near", SAME[case][1])]
    assert caveats([result.path for result in results] if is_loaded else results) == []


def test_results_made_by_hand_are_told_apart_by_their_functions(method):
    first = method(0.5, "plain", 1, metrics={"accuracy": accuracy})
    other = method(1.2, "wide", 2, metrics={"accuracy": one_minus})
    with pytest.raises(DataError, match="'accuracy' is another function in plain than in wide"):
        delira.compare([first, other])


def test_the_cure_that_is_named_works(run):
    first, other = run("linear", written(OLD)), run("near", written(NEW))
    again = run("near", written(OLD), resume=other.path)
    assert caveats([first.path, again.path]) == caveats([first, again]) == []


def test_the_command_refuses_it_too(run, capsys):
    paths = [str(run(name, written(text)).path) for name, text in (("linear", OLD), ("near", NEW))]
    assert cli.main(["compare", *paths, "--direction", "highest"]) != 0
    assert "'quality' is another function in linear than in near" in capsys.readouterr().err


def test_what_is_not_known_of_older_runs_and_of_other_packages_is_a_caveat(run):
    first, other = run("linear", written(OLD)), run("near", written(NEW))
    without_code(other.path)
    (said,) = caveats([first.path, other.path])
    assert said == (
        "that quality in linear and near is the same function is not known: near is of before the code of metrics was "
        "kept"
    )
    (said,) = caveats([run("linear", accuracy), run("near", accuracy_score)])
    assert "not known: it is delira" in said


def test_functions_that_are_known_by_name_need_no_code(run):
    results = [run("linear", accuracy), run("near", accuracy)]
    without_code(results[0].path)
    assert caveats([KFoldResult.load(result.path) for result in results]) == []


def test_other_metrics_may_be_compared_all_the_same(method):
    first = method(0.5, "plain", 1, metrics={"accuracy": accuracy, "quality": accuracy})
    other = method(1.2, "wide", 2, metrics={"accuracy": accuracy, "quality": one_minus})
    assert delira.compare([first, other], metric="accuracy").metrics == ["accuracy"]


def test_each_result_is_compared_with_each(method):
    metrics = {"unknown": accuracy, "right": accuracy, "wrong": one_minus}
    results = [method(0.5, name, seed, metrics={"accuracy": each}) for seed, (name, each) in enumerate(metrics.items())]
    results[0].stated_metrics = {}
    with pytest.raises(DataError, match="'accuracy' is another function in right than in wrong"):
        delira.compare(results)
    (said,) = caveats(results[:2])
    assert said.endswith("unknown does not say what it was computed with")


def test_how_metrics_were_given_is_a_dictionary(method):
    result = method(0.5, "plain", 1)
    with pytest.raises(ConfigError, match=r"KFoldResult: .*stated_metrics"):
        KFoldResult(result.folds, result.n_samples, stated_metrics=["accuracy"])
