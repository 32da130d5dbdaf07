"""A temperature is fitted on cases that it is not judged by, and is that of scikit-learn."""

import numpy as np
import pytest

from delira.errors import ConfigError, DataError
from delira.metrics import CalibrationError, accuracy
from delira.report.predictions import softmax
from delira.report.temperature import BOUNDS, MOST_ON_PAGE, calibrate, fit_temperature

N = 600


def drawn(n=N, n_classes=3, temperature=1.0, seed=0, scale=2.0):
    """Labels that were drawn with the probabilities of these logits; a network would say ``temperature`` times them."""
    generator = np.random.default_rng(seed)
    logits = scale * generator.normal(size=(n, n_classes))
    labels = (generator.random(n)[:, None] > softmax(logits).cumsum(axis=1)).sum(axis=1)
    return labels, temperature * logits


@pytest.fixture
def sure(validate):
    """A result of networks whose logits are three times those that labels were drawn with."""
    return validate(*drawn(temperature=3.0), metrics={"accuracy": accuracy})


# ------------------------------------------------------------------ the temperature


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_it_is_the_one_that_labels_were_drawn_with(temperature):
    labels, logits = drawn(40_000, 4, temperature)
    assert fit_temperature(logits, labels) == pytest.approx(temperature, rel=0.03)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_it_is_that_of_scikit_learn(n_classes):
    sklearn = pytest.importorskip("sklearn", minversion="1.8")
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Given(sklearn.base.ClassifierMixin, sklearn.base.BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return softmax(X)

        def predict(self, X):
            return X.argmax(axis=1)

    labels, logits = drawn(500, n_classes, 2.0, seed=n_classes)
    fitted = CalibratedClassifierCV(FrozenEstimator(Given().fit(logits, labels)), method="temperature")
    expected = fitted.fit(logits, labels).predict_proba(logits)
    found = softmax(logits / fit_temperature(logits, labels))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_logits_and_logarithms_of_probabilities_give_the_same():
    labels, logits = drawn(temperature=2.0)
    assert fit_temperature(logits, labels) == pytest.approx(fit_temperature(np.log(softmax(logits)), labels), rel=1e-6)


def test_without_a_best_one_it_is_the_last_that_is_looked_for():
    labels, logits = drawn()
    right = 5.0 * np.eye(3)[labels]
    assert fit_temperature(right, labels) == BOUNDS[0]
    assert fit_temperature(-right, labels) == BOUNDS[1]
    with pytest.raises(DataError, match="there are none"):
        fit_temperature(logits[:0], labels[:0])


# ------------------------------------------------------------------ of folds


def test_networks_that_are_too_sure_become_honest(sure):
    found = sure.calibration()
    assert found.temperature == pytest.approx(3.0, rel=0.2)
    before, after = zip(*found.numbers.values(), strict=True)
    assert np.all(np.array(after) < before)
    assert found.fall.low > 0
    assert "the networks are too sure" in found.words()[0]
    assert "does not show" not in str(found)


def test_numbers_are_those_of_scikit_learn_and_of_the_metric(sure):
    from sklearn.metrics import brier_score_loss, log_loss

    found = sure.calibration()
    labels, logits = drawn(temperature=3.0)
    for place, probabilities in enumerate((softmax(logits)[found.index], found.probabilities)):
        true = labels[found.index]
        assert found.numbers["log loss"][place] == pytest.approx(log_loss(true, probabilities))
        assert found.numbers["Brier score"][place] == pytest.approx(brier_score_loss(true, probabilities))
        metric = CalibrationError()
        metric.is_logit = False
        assert found.numbers["ECE"][place] == pytest.approx(metric.compute(true, probabilities))


def test_that_of_a_fold_knows_nothing_of_its_cases(validate):
    labels, logits = drawn(temperature=2.0)
    changed = labels.copy()
    changed[::4] = (changed[::4] + 1) % 3  # those of fold 0
    first, other = (validate(each, logits, metrics={}).calibration() for each in (labels, changed))
    assert first.of_folds[0] == other.of_folds[0]
    assert all(first.of_folds[number] != other.of_folds[number] for number in (1, 2, 3))
    labels_of_others = np.delete(labels, np.s_[::4])
    assert first.of_folds[0] == pytest.approx(fit_temperature(np.delete(logits, np.s_[::4], axis=0), labels_of_others))


def test_groups_that_a_fold_tests_are_left_out_of_its_fit(validate):
    labels, logits = drawn(40, temperature=2.0)
    groups = np.arange(40) // 2  # each is in two folds, which a splitter would not do
    found = validate(labels, logits, metrics={}, groups=groups).calibration()
    others = ~np.isin(groups, groups[::4])
    assert found.of_folds[0] == pytest.approx(fit_temperature(logits[others], labels[others]))
    assert found.fall.n_groups == 20


def test_in_repeats_a_case_never_decides_the_temperature_of_its_fold(validate):
    labels, logits = drawn(80, temperature=2.0)
    once, again = validate(labels, logits, metrics={}), validate(labels, logits + 0.1, metrics={})
    for number, fold in enumerate(again.folds, start=4):
        fold.fold = number
    twice = type(once)([*once.folds, *again.folds], 80, {}, seed=7)
    found = twice.calibration()
    others = np.delete(np.arange(80), np.s_[::4])
    rows = np.concatenate([logits[others], logits[others] + 0.1])
    assert found.of_folds[0] == pytest.approx(fit_temperature(rows, np.tile(labels[others], 2)), rel=1e-6)
    assert len(found.index) == 160
    assert found.fall.n_groups == 80  # both predictions of a case are drawn together


@pytest.mark.parametrize("kind", ["logit", "probability"])
def test_one_score_for_each_case(kind, validate):
    labels, logits = drawn(n_classes=2, temperature=3.0)
    score = logits[:, 1] - logits[:, 0]
    given = score if kind == "logit" else 1 / (1 + np.exp(-score))
    found = validate(labels, given, metrics={}).calibration()
    assert found.temperature == pytest.approx(fit_temperature(logits, labels), rel=1e-4)
    np.testing.assert_array_equal(found.probabilities[:, 1] > 0.5, score[found.index] > 0)
    new = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(found.apply(new), found.apply(np.stack([1 - new, new], axis=1))[:, 1])
    assert found.apply(new)[1] == pytest.approx(0.5)


def test_large_logits_keep_what_a_softmax_would_round_away(validate):
    labels, logits = drawn(temperature=200.0)
    found = validate(labels, logits, metrics={}).calibration()
    assert np.isfinite([*found.numbers["log loss"]]).all()
    assert found.n_impossible == int((softmax(logits)[np.arange(N), labels] == 0).sum())
    assert found.of_folds[0] == BOUNDS[1]
    assert "as far as it is looked for" in str(found)


def test_true_classes_with_the_probability_0_are_counted_and_said(validate):
    labels, logits = drawn(temperature=2.0)
    probabilities = softmax(logits)
    probabilities[:2] = np.eye(3)[(labels[:2] + 1) % 3]
    found = validate(labels, probabilities, metrics={}).calibration()
    assert found.n_impossible == 2
    assert "2 cases had the probability 0 of their true class" in found.words()[-1]


def test_new_probabilities(sure):
    found = sure.calibration()
    _, logits = drawn(50, temperature=3.0, seed=5)
    np.testing.assert_allclose(
        found.apply(softmax(logits).astype(np.float32)), softmax(logits / found.temperature), atol=1e-5
    )
    for wrong, said in (
        (logits, "not logits"),
        (softmax(logits)[:, :2], r"shape \(n, 3\)"),
        (softmax(logits)[0], r"shape \(n, 3\)"),
        (np.array(["a"]), "needs probabilities"),
        (np.full((2, 3), np.nan), "needs probabilities"),
    ):
        with pytest.raises(DataError, match=said):
            found.apply(wrong)


# ------------------------------------------------------------------ what cannot be


def test_what_has_no_probabilities_is_refused(validate):
    labels, logits = drawn()
    for given in (logits.argmax(axis=1), np.eye(3, dtype=np.float32)[labels]):
        with pytest.raises(DataError, match="probabilities or logits, which this result does not have"):
            validate(labels, given, metrics={}).calibration()
    with pytest.raises(DataError, match="does not have"):
        validate(labels.astype(float) / 7, logits[:, 0], metrics={}).calibration()


def test_a_single_fold_is_refused(validate):
    with pytest.raises(DataError, match="there is 1; one fitted on the cases that it is judged by"):
        validate(*drawn(), n_folds=1, metrics={}).calibration()


def test_folds_that_test_the_same_cases_are_refused(validate):
    labels, logits = drawn(40)
    result = validate(labels, logits, metrics={}, groups=np.zeros(40, int))
    with pytest.raises(DataError, match="fold 0 tests all cases that there are"):
        result.calibration()


def test_where_groups_are_lost_there_is_no_interval(validate):
    found = validate(*drawn(), metrics={}, without_intervals="groups are lost").calibration()
    assert np.isnan(found.fall.low)
    assert "no interval: groups are lost" in found.words()[0]


# ------------------------------------------------------------------ how it is shown


def test_it_does_not_say_that_it_helps_where_that_is_not_shown(validate):
    found = validate(*drawn(60, temperature=1.02), metrics={}).calibration()
    assert found.fall.low <= 0
    assert "does not show that it helps" in found.words()[0]


def test_the_page_and_its_files_have_it(sure, tmp_path):
    page = sure.to_html()
    assert "With temperature" in page
    assert "the networks are too sure" in page
    names = {path.name for path in sure.export(tmp_path, ["csv", "png"])}
    assert {"calibration.csv", "calibration_with_temperature.png"} <= names
    rows = (tmp_path / "calibration.csv").read_text().splitlines()
    assert rows[0] == "Out-of-fold,As predicted,With temperature"
    assert float(rows[1].split(",")[2]) == sure.calibration().numbers["log loss"][1]


def test_a_page_of_too_many_numbers_fits_none_and_says_so(sure, monkeypatch):
    monkeypatch.setattr("delira.report.sections.MOST_ON_PAGE", 3 * N - 1)
    page = sure.to_html()
    assert "With temperature" not in page
    assert "result.calibration()" in page
    assert MOST_ON_PAGE > 3 * N


def test_a_page_without_probabilities_has_none(validate):
    labels, logits = drawn()
    assert "With temperature" not in validate(labels, logits.argmax(axis=1), metrics={}).to_html()
    assert "With temperature" not in validate(labels, logits, n_folds=1, metrics={}).to_html()


def test_its_table_has_the_formats_of_others(sure, tmp_path):
    found = calibrate(sure)
    assert found.table().rendered("markdown").count("|") > 10
    with pytest.raises(ConfigError, match="no table format"):
        found.table().rendered("word")
    found.plot(tmp_path / "new" / "plot.png")
    assert (tmp_path / "new" / "plot.png").stat().st_size > 1000
    assert repr(found) == f"Calibration({found.temperature:.4g}, {N} cases, 4 folds)"
