"""The .632+ estimate is that of ipred of R, by hand from given numbers, and says where it is none."""

import csv
from pathlib import Path

import numpy as np
import pytest

from delira.errors import ConfigError, DataError
from delira.metrics import AurocMetric, accuracy
from delira.report.bootstrap632 import weigh
from delira.runs.results import FoldResult
from delira.training import KFoldResult

FOLDER = Path(__file__).parent / "references"


def read(name):
    with open(FOLDER / f"bootstrap632_{name}.csv") as file:
        return [*csv.DictReader(file)]


OF_R = {row["name"]: float(row["value"]) for row in read("of_r")}
CASES = np.array([[float(row["a"]), float(row["b"])] for row in read("data")])
LABELS = np.array([int(row["label"]) for row in read("data")])
NOISE = np.array([int(row["label"]) for row in read("noise")])
SAMPLES = [np.array([int(value) for value in row.values()]) for row in read("samples")]


def to_means(train, labels, cases):
    means = np.array([train[labels == number].mean(axis=0) for number in (0, 1)])
    return ((cases[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)


def to_neighbour(train, labels, cases):
    return labels[((cases[:, None] - train) ** 2).sum(axis=2).argmin(axis=1)]


def wrong(y_true, y_pred):
    return float(np.mean(y_true != y_pred))


METRICS = {"error": wrong, "accuracy": accuracy}


def fold(number, train, test, labels, classify, metrics, **more):
    predicted = classify(CASES[train], labels[train], CASES[test])
    values = {name: np.atleast_1d(metric(labels[test], predicted)) for name, metric in metrics.items()}
    outputs = {"predictions": {"pred": predicted}, "targets": {"label": labels[test]}}
    return FoldResult(number, train, None, test, values, **outputs, **more)


def bootstrap(labels=LABELS, classify=to_means, samples=SAMPLES, metrics=METRICS, **more):
    every = np.arange(len(CASES))
    folds = [fold(k, s, np.setdiff1d(every, s), labels, classify, metrics) for k, s in enumerate(samples)]
    folds.append(fold(len(samples), every, every, labels, classify, metrics, is_apparent=True))
    keys = dict.fromkeys(metrics, ("label", "pred"))
    return KFoldResult(folds, len(CASES), metrics, keys, info={"num_splits": len(folds)}, **more)


# ---- numbers


@pytest.mark.parametrize(
    ("rates", "expected", "overfitting"),
    [
        ((0.3, 0.1, 0.5), 0.368 * 0.1 + 0.632 * 0.3 + 0.2 * 0.368 * 0.632 * 0.5 / (1 - 0.368 * 0.5), 0.5),
        ((0.2, 0.2, 0.5), 0.2, 0.0),  # no overfitting: what both say
        ((0.1, 0.2, 0.5), 0.368 * 0.2 + 0.632 * 0.1, 0.0),  # better than on what it learned: no correction
        ((0.5, 0.0, 0.5), 0.5, 1.0),  # the nearest neighbour of noise: not 0.316, as .632 says
        ((0.6, 0.0, 0.5), 0.632 * 0.6 + 0.368 * 0.5, 1.0),  # worse than without information counts as that
        ((0.3, 0.6, 0.5), 0.368 * 0.6 + 0.632 * 0.3, 0.0),  # worse on what it learned than without information
    ],
)
def test_the_estimate_by_hand_from_given_error_rates(rates, expected, overfitting):
    assert weigh(*rates) == pytest.approx((expected, overfitting))
    gains = (1 - rate for rate in rates)
    assert weigh(*gains, is_larger_better=True) == pytest.approx((1 - expected, overfitting))


def test_of_a_number_that_is_none_there_is_no_estimate():
    assert np.isnan(weigh(np.nan, 0.1, 0.5)).all()
    assert np.isnan(weigh(0.3, 0.1, np.inf)).all()


@pytest.mark.parametrize(
    ("name", "labels", "classify"),
    [
        ("means", LABELS, to_means),
        ("neighbour", LABELS, to_neighbour),
    ],
)
def test_it_is_what_ipred_says_of_the_same_samples(name, labels, classify):
    found = bootstrap(labels, classify).bootstrap632()
    assert 1 - found["accuracy"].value == pytest.approx(OF_R[name], abs=1e-12)
    assert found["accuracy"].note == ""


def test_where_it_is_worse_than_without_information_the_rate_ends_at_one_which_that_of_ipred_does_not():
    found = bootstrap(NOISE, to_neighbour).bootstrap632()["accuracy"]
    out_of_bag, apparent, no_information = 1 - found.out_of_bag, 1 - found.apparent, 1 - found.no_information
    assert out_of_bag > no_information
    assert found.overfitting == 1
    rate = (out_of_bag - apparent) / (no_information - apparent)
    correction = (no_information - apparent) * 0.368 * 0.632 / (1 / rate - 0.368)
    assert OF_R["neighbour of noise"] == pytest.approx(0.368 * apparent + 0.632 * out_of_bag + correction, abs=1e-12)
    assert 1 - found.value == pytest.approx(0.632 * out_of_bag + 0.368 * no_information, abs=1e-12)


def test_a_metric_that_is_no_known_mean_over_cases_is_averaged_over_folds():
    result = bootstrap()
    found = result.bootstrap632()["error"]
    values = [wrong(LABELS[fold.test_indices], fold.predictions["pred"]) for fold in result.folds]
    assert found.out_of_bag == pytest.approx(np.mean(values))
    assert found.out_of_bag != pytest.approx(1 - result.bootstrap632()["accuracy"].out_of_bag, abs=1e-4)
    assert found.no_information == pytest.approx(0.5, abs=0.02)  # two classes of equal size, drawn pairings


def test_without_information_each_prediction_belongs_to_each_case():
    result = bootstrap()
    predicted = result.apparent.predictions["pred"]
    assert result.bootstrap632()["accuracy"].no_information == pytest.approx((LABELS[:, None] == predicted).mean())


def test_an_area_without_information_is_a_half():
    def score(train, labels, cases):
        return to_means(train, labels, cases) + 0.01 * cases[:, 0]

    found = bootstrap(classify=score, metrics={"auroc": AurocMetric()}).bootstrap632()["auroc"]
    assert found.no_information == pytest.approx(0.5, abs=0.02)
    assert found.no_information < found.out_of_bag < found.value < found.apparent


def test_what_counts_grows_with_overfitting_from_632_to_one():
    plain, noise = bootstrap().bootstrap632()["accuracy"], bootstrap(NOISE, to_neighbour).bootstrap632()["accuracy"]
    assert 0.632 <= plain.weight < noise.weight <= 1
    assert noise.apparent == 1
    assert noise.overfitting == 1


# ---- the fold of all cases


def test_the_fold_of_all_cases_is_in_no_mean():
    result = bootstrap()
    assert [each.fold for each in result.folds] == list(range(20))
    assert result.apparent.fold == 20
    assert result.info["num_splits"] == 20
    assert len(result.oof.fold) == len(CASES)
    assert result.oof.fold.max() == 19
    values = [float(each.metrics["accuracy"][0]) for each in result.folds]
    assert result.summary()["accuracy"]["mean"] == pytest.approx(np.mean(values))


def test_page_text_and_files_have_the_estimate(tmp_path):
    result = bootstrap()
    value = f"{result.bootstrap632()['accuracy'].value:.4f}"
    page = result.to_html()
    assert ".632+ bootstrap" in page
    assert "Cross-validation" not in page
    assert value in page
    assert value in str(result)
    assert "It has no interval" in str(result)
    assert "bootstrap632.csv" in {path.name for path in result.export(tmp_path, formats=["csv"])}


def test_a_cross_validation_has_none():
    result = bootstrap()
    for other in (
        KFoldResult(result.folds, len(CASES), METRICS, result.metric_keys),
        KFoldResult([result.apparent], len(CASES), METRICS, result.metric_keys, problems=["the others are missing"]),
    ):
        with pytest.raises(DataError, match=r"no \.632\+ estimate: it needs folds of bootstrap samples and the one"):
            other.bootstrap632()
        assert ".632+" not in str(other)
    with pytest.raises(ConfigError, match="the bootstrap has no metric 'f1'; it has error, accuracy"):
        result.bootstrap632()["f1"]


def test_a_metric_that_is_not_known_here_has_no_estimate_and_the_others_have():
    result = bootstrap()
    known = {"accuracy": accuracy}
    other = KFoldResult([*result.folds, result.apparent], len(CASES), known, {"accuracy": ("label", "pred")})
    found = other.bootstrap632()
    assert np.isnan(found["error"].value)
    assert "not known here" in found["error"].note
    assert found["accuracy"].value == result.bootstrap632()["accuracy"].value


def test_a_metric_that_nobody_knows_takes_its_direction_from_what_it_is_without_information():
    def quality(y_true, y_pred):
        return float(np.mean(y_true == y_pred))

    found = bootstrap(classify=to_neighbour, metrics={"quality": quality}).bootstrap632()["quality"]
    assert "nobody says whether large values are good" in found.note
    assert found.apparent > found.value > found.no_information


def test_what_the_numbers_depend_on_is_said():
    result = bootstrap(samples=SAMPLES[:2])
    n_always = len(np.intersect1d(*SAMPLES[:2]))
    assert any(text.startswith(f"{n_always} cases were in every sample") for text in result.bootstrap632().words())
    assert not any("val_split" in text for text in result.bootstrap632().words())
    for each in [*result.folds, result.apparent]:
        each.train_indices, each.val_indices = each.train_indices[2:], each.train_indices[:2]
    assert any("holds a part of its cases out to choose its epoch" in text for text in result.bootstrap632().words())


def test_folds_in_which_it_is_not_defined_do_not_count():
    def rare(y_true, y_pred):
        return float("nan") if len(y_true) % 2 else float(np.mean(y_true == y_pred))

    result = bootstrap(metrics={"rare_accuracy": rare})
    found = result.bootstrap632()["rare_accuracy"]
    values = [float(fold.metrics["rare_accuracy"][0]) for fold in result.folds]
    assert np.isnan(values).any()
    assert found.out_of_bag == pytest.approx(np.nanmean(values))
    assert f"{np.isfinite(values).sum()} of 20 folds in which it is defined" in found.note
    assert np.isfinite(found.value)


def test_the_card_says_which_network_is_of_all_cases():
    card = bootstrap().card()
    assert "20 networks, one for each fold; one more was trained on all cases" in card
    assert "By bootstrap: each tested case was tested in some of the splits" in card
    assert f"{bootstrap().bootstrap632()['accuracy'].value:.4f}" in card


def test_no_zero_is_negative():
    value, _ = weigh(0.0, 0.0, 0.0, is_larger_better=True)
    assert str(value) == "0.0"
