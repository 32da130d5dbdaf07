"""Numbers of parts of the cases are those of these cases alone, and a gap is between the same draws."""

import dataclasses
import json

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit
from small_results import METRICS
from test_temperature import drawn

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.experiments.result import KFoldResult
from delira.metrics import AurocMetric, DicePerClass, accuracy, per_sample
from delira.report import mean_interval
from delira.report.predictions import softmax
from delira.runs.results import SUMMARY
from delira.utils.files import sealed, unsealed

N = 240


def sites(n=N):
    return np.array(["north", "south", "west"])[np.random.default_rng(3).integers(3, size=n)]


@pytest.fixture
def three(validate):
    labels, logits = drawn(N)
    return validate(labels, softmax(logits))


def hits(result):
    return (result.oof.predictions["pred"].argmax(axis=1) == result.oof.targets["label"]).astype(float)


def test_the_numbers_of_a_subgroup_are_those_of_its_cases(three):
    found, right = three.subgroups(sites()), hits(three)
    assert found.n_cases == {name: int((sites() == name).sum()) for name in ("north", "south", "west")}
    for name, summary in found.summary().items():
        own = right[sites() == name]
        assert summary["accuracy"]["oof"] == pytest.approx(own.mean())
        interval = mean_interval(own, seed=7)
        assert (summary["accuracy"]["ci_low"], summary["accuracy"]["ci_high"]) == pytest.approx(interval[:2])
        certainty = three.oof.per_case["certainty"][sites() == name]
        assert summary["certainty"]["oof"] == pytest.approx(certainty.mean())
        assert summary["certainty"]["n"] == len(certainty)


def test_a_gap_is_that_to_all_others(three):
    found, right = three.subgroups(sites()), hits(three)
    for name, gap in found.gaps["accuracy"].items():
        is_in = sites() == name
        assert gap.value == pytest.approx(right[is_in].mean() - right[~is_in].mean())
        assert gap.interval.low < gap.value < gap.interval.high
    assert {*found.gaps} == {*METRICS}


def test_an_interval_of_a_gap_holds_the_gap_as_often_as_it_says(validate):
    held = []
    for seed in range(200):
        generator = np.random.default_rng(seed)
        labels = generator.integers(2, size=160)
        is_in = generator.random(160) < 0.4
        is_right = generator.random(160) < np.where(is_in, 0.9, 0.7)
        predicted = np.where(is_right, labels, 1 - labels)
        gap = validate(labels, predicted, metrics={"accuracy": accuracy}).subgroups(is_in).gaps["accuracy"]["True"]
        held.append(gap.interval.low <= 0.2 <= gap.interval.high)
    assert 0.90 <= np.mean(held) <= 0.99


def test_of_a_metric_that_is_no_mean_of_cases_it_is_of_each_fold(validate):
    from sklearn.metrics import roc_auc_score

    labels, logits = drawn(600, 2)
    score = softmax(logits)[:, 1]
    result = validate(labels, score, metrics={"auroc": AurocMetric()})
    is_in = sites(600) == "north"
    found = result.subgroups(np.where(is_in, "north", "elsewhere"))
    areas = {
        where: np.array([roc_auc_score(labels[part], score[part]) for part in _parts(mask)])
        for where, mask in (("north", is_in), ("elsewhere", ~is_in))
    }
    for where, values in areas.items():
        assert found.summary()[where]["auroc"]["mean"] == pytest.approx(values.mean())
    gap = found.gaps["auroc"]["north"]
    assert gap.value == pytest.approx(areas["north"].mean() - areas["elsewhere"].mean())
    assert gap.interval.low < gap.value < gap.interval.high
    assert f"{areas['north'].mean():.4f}" in str(found)


def _parts(mask, n_folds=4):
    return [np.flatnonzero(mask & (np.arange(len(mask)) % n_folds == number)) for number in range(n_folds)]


def small(validate, n_of_class=6, n_classes=2, **settings):
    """A result, and who is in a subgroup that has so many cases of each class in each of four folds."""
    n = 4 * n_classes * 40
    labels = np.arange(n) // 4 % n_classes
    scores = softmax(np.random.default_rng(5).normal(size=(n, n_classes)) + np.eye(n_classes)[labels])
    result = validate(
        labels,
        scores[:, 1] if n_classes == 2 else scores,
        metrics={"auroc": AurocMetric(classes=range(n_classes))},
        **settings,
    )
    return result, np.where(np.arange(n) < 4 * n_classes * n_of_class, "few", "many")


def test_a_small_subgroup_is_drawn_within_its_classes_where_draws_may_lack_one(validate):
    from sklearn.metrics import roc_auc_score

    result, which = small(validate)
    found = result.subgroups(which)
    row, generator = found.summary()["few"]["auroc"], np.random.default_rng(0)
    score, labels = result.oof.predictions["pred"], result.oof.targets["label"]
    strata = [
        [np.flatnonzero((which == "few") & (np.arange(len(which)) % 4 == fold) & (labels == label)) for label in (0, 1)]
        for fold in range(4)
    ]
    areas = []
    for _ in range(1000):
        drawn = [np.concatenate([generator.choice(each, len(each)) for each in fold]) for fold in strata]
        areas.append(np.mean([roc_auc_score(labels[each], score[each]) for each in drawn]))
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(np.percentile(areas, [2.5, 97.5]), abs=0.02)
    assert row["note"].startswith("drawn within classes, whose shares stay as they are, since ")
    assert row["note"].endswith(" of 2,000 draws of all cases have no value, as a draw that lacks a class")
    assert "few: auroc: its interval is drawn within classes" in str(found)
    own = found.results["few"]
    assert "auroc: drawn within classes" in " ".join(own.table().split())
    assert not any("auroc" in text for text in own.warnings)


def test_so_is_its_gap_to_the_others(validate):
    result, which = small(validate)
    gap = result.subgroups(which).gaps["auroc"]["few"]
    assert gap.interval.low < gap.value < gap.interval.high
    assert "drawn within classes" in gap.interval.note
    assert "few, many: auroc: its interval of the gap is drawn within classes" in str(result.subgroups(which))


def test_groups_are_drawn_whole_within_classes(validate):
    result, which = small(validate, groups=np.arange(320) // 8 * 4 + np.arange(320) % 4)  # one case of each class
    row = result.subgroups(which).summary()["few"]["auroc"]
    assert (row["n_groups"], row["note"]) == (24, "")  # no draw lacks a class
    result, which = small(validate, groups=np.arange(320) // 4 // 4 * 8 + np.arange(320) % 8, n_of_class=12)  # of one
    row = result.subgroups(which).summary()["few"]["auroc"]
    assert row["ci_low"] < row["mean"] < row["ci_high"]
    assert "drawn within classes" in row["note"]
    assert row["n_groups"] == 48


def test_of_several_classes_each_is_drawn_by_itself(validate):
    result, which = small(validate, n_classes=3)
    row = result.subgroups(which).summary()["few"]["auroc"]
    assert row["ci_low"] < row["mean"] < row["ci_high"]
    assert "drawn within classes" in row["note"]


def test_fewer_than_five_of_a_class_are_too_few_to_draw_from(validate):
    result, which = small(validate, n_of_class=4)
    row = result.subgroups(which).summary()["few"]["auroc"]
    assert np.isnan(row["ci_low"])
    assert row["note"].endswith("as a draw that lacks a class")


def test_intervals_of_draws_that_have_all_classes_stay_as_they_are(validate):
    result, which = small(validate, n_of_class=20)
    found = result.subgroups(which)
    row = found.summary()["few"]["auroc"]
    assert row["note"] == found.gaps["auroc"]["few"].interval.note == ""
    alone = dataclasses.replace(found.results["few"], draws_within_classes=False)
    assert alone.summary()["auroc"] == row


def test_whole_groups_are_drawn_where_there_are_some(validate):
    labels, logits = drawn(N)
    groups = np.arange(N) % 60  # each in one fold
    found = validate(labels, softmax(logits), groups=groups).subgroups(groups % 2)
    assert found.summary()["0"]["accuracy"]["n_groups"] == 30
    assert found.gaps["accuracy"]["0"].interval.n_groups == 60


def test_by_the_name_of_an_entry_that_was_kept(three):
    for fold in three.folds:
        fold.targets["site"] = sites()[fold.test_indices]
    found = three.subgroups("site")
    assert (found.by, [*found.results]) == ("site", ["north", "south", "west"])
    assert found.gaps["accuracy"] == three.subgroups(sites()).gaps["accuracy"]
    with pytest.raises(ConfigError, match="'scanner' of the samples was not kept"):
        three.subgroups("scanner")


@per_sample
def error(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


@pytest.fixture
def grouped():
    """What is trained, and a cross-validation of it that kept each of 24 sites together; no metric reads any."""
    entries = {"site": np.array([f"site {index // 2:02d}" for index in range(48)]), "scanner": np.arange(48) % 2}
    data = BaseDataManager(linear_problem(48, 3, 7, **entries), 8)
    asked = {"metrics": {"error": error}, "num_splits": 4, "val_split": None, "random_seed": 3}
    return data, lambda path, **more: toy_kit().experiment(path).kfold(data, **{**asked, "groups_key": "site", **more})


def test_by_the_name_of_the_groups_of_a_run_now_and_when_it_is_read_again(grouped, tmp_path):
    data, run = grouped
    result = run(tmp_path)
    errors, labels = result.oof.per_case["error"], data.dataset.labels("site")
    stored = KFoldResult.load(result.path, {"error": error})
    for each in (result, stored):
        found = each.subgroups(by="site")
        assert found.by == "site"
        assert found.n_cases == dict.fromkeys(sorted({*labels.tolist()}), 2)
        for site, summary in found.summary().items():
            assert summary["error"]["oof"] == pytest.approx(errors[labels == site].mean())
            gap = found.gaps["error"][site].value
            assert gap == pytest.approx(errors[labels == site].mean() - errors[labels != site].mean())
    assert str(stored.subgroups(by="site")) == str(result.subgroups(by="site"))
    assert "error: site 07" in result.card(by="site")
    assert stored.card(by="site") == result.card(by="site")
    part = result.subgroups({"scanner": data.dataset.labels("scanner")}).results["1"]
    assert len(part.subgroups(by="site").results) == 24


def test_by_the_name_of_the_groups_of_an_older_run(grouped, tmp_path):
    result = grouped[1](tmp_path)
    file = result.path / SUMMARY
    written = unsealed(json.loads(file.read_text()))
    assert written["info"].pop("groups_key") == "site"
    file.write_text(json.dumps(sealed(written)))
    stored = KFoldResult.load(result.path, {"error": error})
    assert not stored.problems
    assert str(stored.subgroups(by="site")) == str(result.subgroups(by="site"))


def test_an_entry_that_was_not_kept_is_given_as_the_error_says(grouped, tmp_path):
    data, run = grouped
    result = run(tmp_path)
    with pytest.raises(ConfigError, match=r"by=\{'scanner': data.dataset.labels\('scanner'\)\}"):
        result.subgroups(by="scanner")
    for each in (result, KFoldResult.load(result.path, {"error": error})):
        found = each.subgroups(by={"scanner": data.dataset.labels("scanner")})
        assert (found.by, found.n_cases) == ("scanner", {"0": 24, "1": 24})
        assert found.gaps == each.subgroups(data.dataset.labels("scanner")).gaps
    ungrouped = run(tmp_path / "ungrouped", groups_key=None)
    assert "groups_key" not in ungrouped.info
    with pytest.raises(ConfigError, match="'site' of the samples was not kept"):
        ungrouped.card(by="site")


def test_cases_without_a_value_are_not_counted(validate):
    generator = np.random.default_rng(0)
    masks = generator.random((40, 4, 4)) < 0.4
    masks[::8] = False  # no liver, so no Dice of it
    scores = np.stack([~masks, masks], axis=1) + generator.normal(size=(40, 2, 4, 4))
    result = validate(masks.astype(int), scores.astype(np.float32), metrics={"dice": DicePerClass(["bg", "liver"])})
    is_in = np.arange(40) < 20
    found = result.subgroups(np.where(is_in, "first", "second"))
    n_of = {row[0]: row[1] for row in found.table().rows}
    values = result.oof.per_case["dice.liver"]
    assert n_of["dice.liver: first"] == np.isfinite(values[is_in]).sum() < 20
    gap = np.nanmean(values[is_in]) - np.nanmean(values[~is_in])
    assert found.gaps["dice.liver"]["first"].value == pytest.approx(gap)


def test_repeats_count_a_case_once(three):
    again = three.subgroups(sites())
    folds = [*three.folds]
    for number, fold in enumerate(type(three)(three.folds, N, METRICS).folds, start=4):
        folds.append(type(fold)(**{**vars(fold), "fold": number}))
    twice = type(three)(folds, N, METRICS, seed=7).subgroups(sites())
    assert twice.n_cases == again.n_cases
    assert twice.gaps["accuracy"]["west"].value == pytest.approx(again.gaps["accuracy"]["west"].value)


@pytest.mark.parametrize(
    "labels", [np.arange(N) % 2, np.arange(N) % 2 + 0.5, np.arange(N) % 2 == 0, [*"ab"] * (N // 2)]
)
def test_values_of_any_kind_divide(three, labels):
    assert len(three.subgroups(labels).results) == 2


def test_one_subgroup_has_no_gap(three):
    found = three.subgroups(np.zeros(N))
    assert found.gaps == {}
    assert found.summary()["0"]["accuracy"]["oof"] == pytest.approx(three.summary()["accuracy"]["oof"])
    assert "Less others" in str(found)


def test_what_is_not_defined_in_a_subgroup_is_said(validate):
    labels, logits = drawn(N, 2)
    result = validate(labels, softmax(logits)[:, 1], metrics={"auroc": AurocMetric()})
    is_alone = np.where(labels == 1, sites(), "south")  # the others hold one class
    found = result.subgroups(is_alone)
    assert np.isnan(found.gaps["auroc"]["north"].value)
    assert "lacks cases of the subgroup, of the others, or of a class" in str(found)


def test_subgroups_of_few_cases_have_no_intervals(three):
    found = three.subgroups(np.where(np.arange(N) < 3, "few", "many"))
    assert np.isnan(found.summary()["few"]["accuracy"]["ci_low"])
    assert "few: accuracy: " in str(found)


def test_lost_groups_leave_no_intervals(validate):
    labels, logits = drawn(N)
    found = validate(labels, softmax(logits), without_intervals="groups are lost").subgroups(sites())
    assert np.isnan(found.gaps["accuracy"]["west"].interval.low)
    assert "groups are lost" in str(found)


def test_the_more_intervals_the_more_chance(three):
    assert "Of 6 intervals 0.3 miss 0 by chance" in str(three.subgroups(sites()))


@pytest.mark.parametrize(
    ("by", "error", "said"),
    [
        (np.arange(N), DataError, "240 different values"),
        (np.zeros(3), ConfigError, r"shape \(240,\)"),
        (np.zeros((N, 2)), ConfigError, r"shape \(240,\)"),
        (7, ConfigError, r"shape \(240,\)"),
        ({"site": sites(), "scanner": sites()}, ConfigError, "one name with its array, .*got 2 names"),
        ([None] * 5 + ["a"] * (N - 5), DataError, "missing in 5 tested cases"),
        ([float("nan")] * 5 + [1.0] * (N - 5), DataError, "missing in 5 tested cases"),
    ],
    ids=["ids", "short", "wide", "number", "two", "none", "nan"],
)
def test_what_is_no_division_is_refused(three, by, error, said):
    with pytest.raises(error, match=said):
        three.subgroups(by)
