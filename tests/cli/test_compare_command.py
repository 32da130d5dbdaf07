"""``delira compare``: runs over the same folds, compared in a terminal."""

import json
from pathlib import Path

import numpy as np
import pytest

from delira import cli
from delira.data_loading import BaseDataManager
from delira.metrics import accuracy


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    from delira.training import SklearnExperiment

    path = tmp_path_factory.mktemp("compared") / "runs"
    features = np.random.default_rng(0).normal(size=(90, 3))
    data = BaseDataManager({"data": features, "label": np.int64(features[:, 0] > 0)}, batch_size=10)
    for name, estimator, n_folds in (
        ("linear", LogisticRegression(), 3),
        ("near", KNeighborsClassifier(3), 3),
        ("other", KNeighborsClassifier(3), 5),
    ):
        experiment = SklearnExperiment.of(estimator, save_path=path, name=name, verbose=False)
        experiment.kfold(data, {"accuracy": accuracy}, num_splits=n_folds, shuffle=True, random_seed=0)
    return path


@pytest.fixture
def ask(made, monkeypatch, capsys):
    monkeypatch.chdir(made.parent)

    def ask(*words):
        capsys.readouterr()
        code = cli.main(["compare", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return ask


def test_runs_are_compared_in_words(ask):
    code, out, _ = ask("runs/linear", "runs/near")
    assert code == 0
    assert out.startswith("linear and near: 3 folds, 90 cases")
    assert "The corrected t-test gives p" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_programs_get_numbers(ask):
    code, out, _ = ask(
        "runs/linear", "runs/near", "--json", "--metric", "accuracy", "--baseline", "near", "--rope", "0.2"
    )
    found = json.loads(out)
    assert code == 0
    assert (found["names"], found["metrics"], found["n_cases"]) == (["linear", "near"], ["accuracy"], 90)
    (row,) = found["differences"]
    assert (row["first"], row["second"], row["rope"]) == ("near", "linear", 0.2)
    assert found["page"] is None


def test_a_page_is_written_on_request(ask):
    code, out, _ = ask("runs/linear", "runs/near", "--html", "new/page.html")
    assert code == 0
    assert out.endswith("page  new/page.html\n")
    assert "What may be said" in Path("new/page.html").read_text(encoding="utf-8")
    Path("taken").touch()
    code, _, err = ask("runs/linear", "runs/near", "--html", "taken/page.html")
    assert code == 2
    assert "the page cannot be written" in err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("runs/linear",), 2, "at least two results can be compared, got 1"),
        (("runs/linear", "nowhere"), 2, "there is no run in 'nowhere'"),
        (("runs/linear", "runs/near", "--metric", "loss"), 2, "no result has the metric 'loss'"),
        (("runs/linear", "runs/near", "--baseline", "far"), 2, "there is no result 'far'"),
        (("runs/linear", "runs/other"), 1, "linear and other are not over the same folds and cases"),
        (("runs/linear", "runs/linear"), 1, "are identical"),
    ],
)
def test_misuse_is_one_line(ask, words, code, message):
    found, out, err = ask(*words)
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1
