"""What estimators learn: labels of any kind, several targets, in parts, with a validation; and what they leave."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
from sklearn_problems import QUICK, classes, needs, values

import delira
from delira.models import named_weights
from delira.runs.stored_run import read_run
from delira.sklearn import Classifier, Regressor

torch = pytest.importorskip("torch", reason="the default network is of the package 'torch', which is not installed")


def small(face=Classifier, **params):
    return face(model={"hidden": 16}, optimizer_params={"lr": 0.01}, **{**QUICK, **params})


@pytest.mark.parametrize("names", [["cat", "dog", "eel"], [-3, 7, 100], [0.5, 1.5, 2.5]], ids=str)
def test_labels_of_any_kind_come_back_as_they_were(names):
    x, numbers = classes()
    y = np.array(names)[numbers] if not isinstance(names[0], float) else np.array(names)[numbers].astype(str)
    classifier = small().fit(x, y)
    assert classifier.classes_.tolist() == sorted(np.unique(y).tolist())
    assert classifier.predict(x).dtype == y.dtype
    assert classifier.score(x, y) > 0.8
    probabilities = classifier.predict_proba(x)
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(classifier.classes_[probabilities.argmax(axis=1)], classifier.predict(x))


def test_labels_that_are_objects_or_bools_come_back():
    x, numbers = classes(n_classes=2)
    for y in (np.array(["no", "yes"], dtype=object)[numbers], numbers.astype(bool)):
        assert small(num_epochs=5).fit(x, y).predict(x).dtype == y.dtype


def test_a_single_class_is_predicted_for_sure():
    x, _ = classes(20)
    classifier = small(num_epochs=1).fit(x, np.zeros(20, int))
    assert (classifier.predict(x) == 0).all()
    assert (classifier.predict_proba(x) == 1).all()


@pytest.mark.parametrize("n_targets", [1, 3])
def test_values_are_learned_one_or_several_at_a_time(n_targets):
    x, y = values(n_targets=n_targets)
    regressor = small(Regressor).fit(x, y)
    predicted = regressor.predict(x)
    assert predicted.shape == y.shape
    assert predicted.dtype == np.float64
    assert regressor.score(x, y) > 0.9


def test_a_column_of_values_stays_a_column():
    x, y = values()
    assert small(Regressor, num_epochs=1).fit(x, y[:, None]).predict(x).shape == (len(x), 1)


# ------------------------------------------------------------------ random numbers


def test_the_same_random_state_gives_the_same_bits():
    x, y = classes()
    first, again, other = (small(num_epochs=3, random_state=seed).fit(x, y).predict_proba(x) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_none_draws_from_the_global_generator_of_numpy_and_a_fit_leaves_it():
    x, y = classes(60)
    found, states = [], []
    for seed in (3, 3, 4):
        np.random.seed(seed)
        found.append(small(num_epochs=1, random_state=None).fit(x, y).predict_proba(x))
        states.append(np.random.randint(2**31))
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    np.random.seed(3)
    np.random.randint(np.iinfo(np.int32).max)  # the one draw
    assert states[:2] == [np.random.randint(2**31)] * 2


def test_a_generator_is_drawn_from_at_each_fit():
    x, y = classes(60)
    classifier = small(num_epochs=1, random_state=np.random.RandomState(1))
    first, second = classifier.fit(x, y).predict_proba(x), classifier.fit(x, y).predict_proba(x)
    assert not np.array_equal(first, second)


# ------------------------------------------------------------------ validation, history, files


def test_the_best_epoch_of_a_validation_is_kept_and_patience_ends_the_training():
    x, y = classes()
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, (y + 1) % 3, y)  # so that it overfits
    classifier = Classifier(
        model={"hidden": 200}, optimizer_params={"lr": 0.05}, num_epochs=60, val_split=0.3, patience=4, random_state=0
    )
    classifier.fit(x, y)
    losses = [record["val_loss"] for record in classifier.history_]
    assert len(losses) < 60
    assert int(np.argmin(losses)) == len(losses) - 1 - 4
    unwatched = clone_of(classifier, val_split=None, patience=None).fit(x, y)
    assert "val_loss" not in unwatched.history_[0]
    assert len(unwatched.history_) == 60


def clone_of(estimator, **params):
    return type(estimator)(**{**estimator.get_params(deep=False), **params})


def test_a_metric_chooses_the_best_epoch():
    x, y = classes()
    from sklearn.metrics import accuracy_score

    training = {"val_metrics": {"accuracy": accuracy_score}, "val_score_key": "accuracy"}
    classifier = small(num_epochs=5, val_split=0.2, training=training).fit(x, y)
    assert {"val_accuracy", "val_loss", "loss", "epoch"} <= classifier.history_[-1].keys()


def test_the_network_that_is_kept_is_that_of_the_best_epoch():
    x, y = classes()
    classifier = small(num_epochs=8, val_split=0.25).fit(x, y)
    best = min(classifier.history_, key=lambda record: record["val_loss"])["epoch"]
    again = small(num_epochs=int(best), val_split=0.25).fit(x, y)
    np.testing.assert_array_equal(classifier.predict_proba(x), again.predict_proba(x))


def test_no_file_is_left_unless_a_folder_is_named(tmp_path, monkeypatch):
    x, y = classes(60)
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("tempfile.tempdir", str(there))
    plain = small(num_epochs=2).fit(x, y)
    watched = small(num_epochs=2, val_split=0.2).fit(x, y).partial_fit(x, y)
    assert [*here.iterdir(), *there.iterdir()] == []
    written = small(num_epochs=2, save_path=tmp_path / "runs").fit(x, y)
    np.testing.assert_array_equal(plain.predict_proba(x), written.predict_proba(x))
    (run,) = (tmp_path / "runs" / "Classifier").iterdir()
    assert read_run(run).path == run
    network = delira.load_network(run)
    assert {name: array.tolist() for name, array in named_weights(network).items()} == {
        name: array.tolist() for name, array in named_weights(written.network_).items()
    }
    assert [*here.iterdir(), *there.iterdir()] == []
    assert watched.history_[-1]["epoch"] >= 2


def test_nothing_is_shown_unless_it_is_asked_for(capsys, caplog):
    x, y = classes(60)
    small(num_epochs=2, val_split=0.2, patience=1).fit(x, y).partial_fit(x, y)
    out = capsys.readouterr()
    assert (out.out, out.err, caplog.text) == ("", "", "")
    small(num_epochs=2, verbose=1).fit(x, y)
    out = capsys.readouterr()
    assert out.out + out.err != ""


# ------------------------------------------------------------------ going on


def test_parts_are_learned_one_after_the_other():
    x, y = classes()
    classifier = small()
    for _ in range(20):
        for part in (slice(0, 60), slice(60, None)):
            classifier.partial_fit(x[part], y[part], classes=[0, 1, 2])
    assert classifier.score(x, y) > 0.8
    assert [record["epoch"] for record in classifier.history_] == list(range(1, 41))


def test_epochs_one_by_one_are_those_of_a_fit():
    x, y = classes()
    whole = small(num_epochs=3).fit(x, y)
    steps = small()
    for _ in range(3):
        steps.partial_fit(x, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(whole.predict_proba(x), steps.predict_proba(x))
    two = small(num_epochs=2).fit(x, y).partial_fit(x, y)
    np.testing.assert_array_equal(whole.predict_proba(x), two.predict_proba(x))


def test_a_validated_network_goes_on_from_its_best_epoch():
    x, y = classes()
    classifier = small(num_epochs=4, val_split=0.25, patience=2).fit(x, y)
    before = classifier.predict_proba(x)
    classifier.partial_fit(x, y)
    assert not np.array_equal(classifier.predict_proba(x), before)
    assert len(classifier.history_) == 5


def test_values_are_learned_in_parts():
    x, y = values()
    regressor = small(Regressor)
    for _ in range(40):
        regressor.partial_fit(x, y)
    assert regressor.score(x, y) > 0.9
    with pytest.raises(ValueError, match="y has 2 outputs, and the network has learned 1"):
        regressor.partial_fit(x, np.stack([y, y], axis=1))


def test_the_first_part_needs_all_classes_and_later_ones_have_no_others():
    x, y = classes()
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        small().partial_fit(x, y)
    classifier = small().partial_fit(x[:10], y[:10] % 2, classes=[0, 1, 2])
    assert classifier.predict_proba(x).shape == (len(x), 3)
    with pytest.raises(ValueError, match=r"y has the labels \[5\], which are not among the classes \[0, 1, 2\]"):
        classifier.partial_fit(x[:2], [0, 5])
    with pytest.raises(ValueError, match="are not those of the first call"):
        classifier.partial_fit(x[:2], [0, 1], classes=[0, 1])


# ------------------------------------------------------------------ estimators of scikit-learn


def test_an_estimator_of_scikit_learn_is_fitted_as_by_itself():
    needs("skops", "sklearn")
    x, y = classes()
    names = np.array(["a", "b", "c"])[y]
    classifier = Classifier(LogisticRegression, {"C": 0.1}).fit(x, names)
    plain = LogisticRegression(C=0.1).fit(x, names)
    np.testing.assert_allclose(classifier.predict_proba(x), plain.predict_proba(x))
    assert classifier.get_params()["model__C"] == 0.1
    assert not hasattr(classifier, "partial_fit")


def test_an_estimator_of_scikit_learn_learns_in_parts_if_it_can():
    needs("skops", "sklearn")
    x, y = classes()
    classifier = Classifier(SGDClassifier, random_state=0)
    for _ in range(5):
        classifier.partial_fit(x, y, classes=[0, 1, 2])
    assert classifier.score(x, y) > 0.7
    assert not hasattr(classifier, "predict_proba")  # of its default loss
    calibrated = Classifier(CalibratedClassifierCV, {"estimator": SGDClassifier(random_state=0), "cv": 2})
    assert calibrated.fit(x, y).predict_proba(x).shape == (len(x), 3)
    given = calibrated.model["estimator"]
    assert calibrated.get_params()["model__estimator__random_state"] == 0
    assert calibrated.set_params(model__estimator__alpha=1.0).model["estimator"].alpha == 1.0
    assert given.alpha == 0.0001
    regressor = Regressor(SGDRegressor, random_state=0).fit(*values())
    before = regressor.network_.estimator.coef_.copy()
    regressor.partial_fit(*values())
    assert regressor.score(*values()) > 0.9
    assert not np.array_equal(before, regressor.network_.estimator.coef_)
