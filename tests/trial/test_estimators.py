"""Estimators of scikit-learn in a trial, beyond the acceptance cases."""

import sys

import numpy as np
import pytest
from kits import quiet

import delira


@pytest.mark.parametrize("kit", ["sklearn"], indirect=True)
def test_a_pipeline_learns_from_labels(kit, blobs):
    pytest.importorskip("sklearn", reason="the sklearn backend needs the package scikit-learn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline, plain = (make_pipeline(StandardScaler(), LogisticRegression()) for _ in range(2))
    x, labels = blobs
    record = quiet(pipeline, metrics=["acc"]).with_train_data(x, labels, 7, shuffle=False).run()[0]
    assert record["acc"] == plain.fit(x, labels).score(x, labels)
    np.testing.assert_array_equal(pipeline.predict_proba(x), plain.predict_proba(x))


@pytest.mark.parametrize("kit", ["sklearn"], indirect=True)
def test_an_estimator_learns_without_the_package_of_its_checkpoints(kit, blobs, monkeypatch):
    from sklearn.naive_bayes import GaussianNB

    monkeypatch.setitem(sys.modules, "skops.io", None)
    trial = delira.Trial(GaussianNB(), metrics=["acc"], verbose=0).with_train_data(*blobs, 8)
    assert trial.run(2)[-1]["acc"] > 0.9
    with pytest.raises(delira.errors.MissingBackendError, match="skops"):
        trial.state_dict()
