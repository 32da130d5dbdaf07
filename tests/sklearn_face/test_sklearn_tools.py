"""Pipelines, searches, cross-validation and calibration of scikit-learn, with a network inside."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn_problems import QUICK, classes, values

from delira.errors import ConfigError
from delira.sklearn import Classifier, Regressor

pytest.importorskip("torch", reason="the default network is of the package 'torch', which is not installed")


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left():
    """Those of joblib wait for more to do, for minutes."""
    yield
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor(max_workers=2).shutdown(wait=True)


def small(face=Classifier, **params):
    return face(model={"hidden": 16}, optimizer_params={"lr": 0.01}, **{**QUICK, **params})


def test_a_pipeline_scales_and_learns():
    x, y = classes()
    x[:, 0] *= 1000
    pipeline = make_pipeline(StandardScaler(), small()).fit(x[:80], y[:80])
    assert pipeline.score(x[80:], y[80:]) > 0.8
    pipeline.set_params(classifier__model__hidden=4)
    assert pipeline.get_params()["classifier__model__hidden"] == 4


def test_a_search_varies_the_network_and_its_training():
    x, y = classes()
    grid = {
        "model__hidden": [4, 16],
        "optimizer_params__lr": [1e-6, 0.01],
        "training__gradient_clip_norm": [1.0],
    }
    search = GridSearchCV(small(), grid, cv=2).fit(x, y)
    assert search.best_params_["optimizer_params__lr"] == 0.01
    assert search.best_estimator_.network_.init_kwargs["hidden"] == (search.best_params_["model__hidden"],)
    assert search.best_score_ > 0.8
    assert search.predict_proba(x).shape == (len(x), 3)


@pytest.mark.slow
def test_folds_in_processes_score_as_those_in_this_one():
    x, y = classes()
    here = cross_val_score(small(), x, y, cv=3)
    assert here.min() > 0.7
    np.testing.assert_array_equal(cross_val_score(small(), x, y, cv=3, n_jobs=2), here)


@pytest.mark.slow
def test_a_search_in_processes_gives_the_estimator_back():
    x, y = classes()
    search = GridSearchCV(small(num_epochs=5), {"model__hidden": [8, 16]}, cv=2, n_jobs=2).fit(x, y)
    again = small(num_epochs=5).set_params(**search.best_params_).fit(x, y)
    np.testing.assert_array_equal(search.predict_proba(x), again.predict_proba(x))


@pytest.mark.slow
def test_every_fit_of_a_search_in_processes_has_a_run_of_its_own(tmp_path):
    x, y = classes(60)
    estimator = small(num_epochs=1, save_path=tmp_path)
    GridSearchCV(estimator, {"model__hidden": [4, 8]}, cv=2, n_jobs=2).fit(x, y)
    assert len([*(tmp_path / "Classifier").iterdir()]) == 2 * 2 + 1


def test_a_search_varies_the_class_of_the_network():
    from delira.models import MultilayerPerceptronPyTorch, MultilayerPerceptronTorchScript

    x, y = classes(60)
    grid = {"model_cls": [MultilayerPerceptronPyTorch, MultilayerPerceptronTorchScript]}
    search = GridSearchCV(small(num_epochs=2), grid, cv=2).fit(x, y)
    assert np.ptp(search.cv_results_["mean_test_score"]) == 0  # they are the same
    assert "Classifier" in search.best_estimator_._repr_html_()


def test_threads_train_side_by_side():
    from joblib import parallel_config

    x, y = classes()
    with parallel_config("threading", n_jobs=2):
        assert cross_val_score(small(), x, y, cv=2).min() > 0.7


def test_a_network_is_calibrated():
    x, y = classes()
    calibrated = CalibratedClassifierCV(small(), cv=2).fit(x[:80], y[:80])
    probabilities = calibrated.predict_proba(x[80:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (calibrated.predict(x[80:]) == y[80:]).mean() > 0.7


def test_a_network_votes_beside_other_estimators_and_is_predicted_out_of_fold():
    x, y = classes()
    voting = VotingClassifier([("network", small()), ("linear", LogisticRegression())], voting="soft").fit(x, y)
    assert voting.score(x, y) > 0.8
    assert cross_val_predict(small(), x, y, cv=2, method="predict_proba").shape == (len(x), 3)


def test_large_targets_are_learned_when_they_are_scaled():
    x, y = values()
    regressor = TransformedTargetRegressor(small(Regressor), transformer=StandardScaler())
    assert regressor.fit(x, 1e5 * y + 1e6).score(x, 1e5 * y + 1e6) > 0.9


def test_a_clone_has_the_parameters_and_nothing_that_was_learned():
    x, y = classes(60)
    given = {"hidden": 8}
    classifier = Classifier(model=given, num_epochs=1).fit(x, y)
    other = clone(classifier).set_params(model__hidden=4, training__output="logits")
    assert not hasattr(other, "network_")
    assert not hasattr(other, "history_")
    assert given == {"hidden": 8} == classifier.model
    assert other.model == {"hidden": 4}
    assert other.training == {"output": "logits"}
    assert "hidden" in repr(other)


def test_parameters_that_are_dicts_are_named_entry_by_entry():
    classifier = Classifier(model={"hidden": 8}, training={"val_metrics": {"f1": len}})
    deep = classifier.get_params()
    assert deep["model__hidden"] == 8
    assert deep["training__val_metrics__f1"] is len
    assert "model__hidden" not in classifier.get_params(deep=False)
    classifier.set_params(training__val_metrics__f1=max, model={"hidden": 2}, model__hidden=3, losses__ce=min)
    assert classifier.training == {"val_metrics": {"f1": max}}
    assert classifier.model == {"hidden": 3}
    assert classifier.losses == {"ce": min}
    with pytest.raises(ValueError, match="Invalid parameter 'modle'"):
        classifier.set_params(modle__hidden=3)
    with pytest.raises(ConfigError, match="model must be a dict for model__hidden to be set, got 3"):
        Classifier(model=3).set_params(model__hidden=3)


def test_data_frames_are_taken_with_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas", reason="needs the package 'pandas', see requirements/dev.txt")
    x, y = classes(60)
    frame = pandas.DataFrame(x, columns=[*"abcde"])
    classifier = small(num_epochs=2).fit(frame, pandas.Series(y))
    assert classifier.feature_names_in_.tolist() == [*"abcde"]
    assert classifier.n_features_in_ == 5
    np.testing.assert_array_equal(classifier.predict(frame), classifier.set_params().predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame[[*"edcba"]])
