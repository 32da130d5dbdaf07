"""Names of experiments that are made of an estimator alone."""

import pytest

pytest.importorskip("sklearn", reason="the backend needs the package 'scikit-learn', which is not installed")

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from delira.backends.sklearn.naming import name_of


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (SVC(), "SVC"),
        (SVC(kernel="linear", C=2.0), "SVC-C=2.0-kernel=linear"),
        (SVC(verbose=True), "SVC"),
        (make_pipeline(StandardScaler(), SVC(kernel="linear")), "StandardScaler+SVC-kernel=linear"),
        (StandardScaler(with_mean=False), "StandardScaler-with_mean=False"),
    ],
    ids=str,
)
def test_a_name_has_the_steps_and_what_is_no_default(estimator, name):
    assert name_of(estimator) == name


def test_a_name_is_that_of_a_folder_and_not_too_long():
    name = name_of(make_pipeline(*(SVC(kernel="linear", gamma="a/b") for _ in range(9))))
    assert len(name) <= 80
    assert "/" not in name
