"""Estimators of networks pass what scikit-learn checks of every estimator."""

import importlib.util

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import check_estimator
from sklearn_problems import needs

from delira.sklearn import EXPECTED_FAILED_CHECKS, Classifier, Regressor

FACES = [Classifier, Regressor]
#: backend -> package, ending of its ready networks, and what its optimizer calls the learning rate
BACKENDS = {
    "torch": ("torch", "PyTorch", "lr"),
    "tensorflow": ("tensorflow", "Tf", "learning_rate"),
    "jax": ("flax", "Jax", "learning_rate"),
}


#: checks that are skipped where a package is not installed
OF_PANDAS = {
    "check_classifier_data_not_an_array", "check_regressor_data_not_an_array", "check_sample_weights_pandas_series",
}  # fmt: skip


def checked(estimator):
    """Names of the checks that failed though nobody expected it; those that are skipped need what is not installed."""
    results = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILED_CHECKS, on_fail=None, on_skip=None)
    assert len(results) > 40
    may_be_skipped = {"check_array_api_input", *(() if importlib.util.find_spec("pandas") else OF_PANDAS)}
    assert {result["check_name"] for result in results if result["status"] == "skipped"} <= may_be_skipped
    return {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}


@pytest.mark.filterwarnings("ignore")  # the checks are noisy: they feed what warns
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "backend", ["torch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tensorflow", "jax"))]
)
@pytest.mark.timeout(900)
def test_scikit_learns_checks_pass_with_a_network(face, backend):
    package, ending, rate = BACKENDS[backend]
    needs(package, backend)
    network = getattr(importlib.import_module("delira.models"), f"MultilayerPerceptron{ending}")
    few = {"num_epochs": 6, "batch_size": 8, "random_state": 0}
    assert checked(face(network, {"hidden": 32}, optimizer_params={rate: 0.05}, **few)) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("settings", [{}, {"val_split": 0.2, "patience": 3}], ids=["as it is", "with a validation"])
def test_scikit_learns_checks_pass_without_a_setting(face, settings):
    needs("torch", "torch")
    assert checked(face(**settings)) == {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [Classifier(LogisticRegression), Regressor(Ridge)], ids=["classes", "values"])
def test_scikit_learns_checks_pass_with_an_estimator_of_its_own(estimator):
    needs("skops", "sklearn")
    assert checked(estimator) == {}


def test_at_most_five_checks_may_fail_and_each_says_why():
    assert len(EXPECTED_FAILED_CHECKS) <= 5
    assert all(len(reason) > 40 for reason in EXPECTED_FAILED_CHECKS.values())
