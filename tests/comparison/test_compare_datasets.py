"""``delira.compare_datasets``: methods over many data sets by ranks."""

import dataclasses
import re

import numpy as np
import pytest
from small_results import cross_validate

import delira
from delira.comparison.many import critical_difference, friedman_test, nemenyi
from delira.comparison.tests_of_folds import wilcoxon_test
from delira.errors import ConfigError, DataError
from delira.metrics import accuracy

STRENGTHS = {"linear": 0.2, "forest": 0.5, "network": 0.9, "chance": 0.0}


@pytest.fixture(scope="module")
def datasets():
    generator = np.random.default_rng(0)
    found = {}
    for number in range(6):
        labels = generator.integers(3, size=60)
        found[f"set {number}"] = own = {}
        for name, strength in STRENGTHS.items():
            scores = generator.random((60, 3))
            scores[np.arange(60), labels] += strength
            own[name] = cross_validate(labels, scores.astype(np.float32), metrics={"accuracy": accuracy}, name=name)
    return found


@pytest.fixture
def found(datasets):
    return delira.compare_datasets(datasets)


def test_scores_are_means_over_folds_and_ranks_are_of_each_data_set(datasets, found):
    expected = [[result.summary()["accuracy"]["mean"] for result in own.values()] for own in datasets.values()]
    assert found.scores == pytest.approx(np.array(expected))
    assert found.mean_ranks[2] == 1
    assert found.ranks.sum(axis=1) == pytest.approx(10)


def test_its_tests_are_those_of_friedman_and_nemenyi(found):
    assert tuple(found.tests.values()) == friedman_test(found.scores)
    assert found.p_values == pytest.approx(nemenyi(found.mean_ranks, 6))
    assert found.critical_difference == critical_difference(4, 6)
    assert 0 < found.agreement <= 1


def test_two_methods_are_compared_by_wilcoxons_test(datasets):
    two = {name: [own["linear"], own["network"]] for name, own in datasets.items()}
    found = delira.compare_datasets(two)
    assert found.methods == ["linear", "network"]
    assert found.tests == {"Wilcoxon": wilcoxon_test(found.scores[:, 1] - found.scores[:, 0])}
    assert "The Wilcoxon test gives p = 0.0312" in str(found)
    assert "pairs" not in found.tables


def test_words_name_pairs_and_claim_no_equality(found):
    text = " ".join(found.words)
    assert "Mean ranks in accuracy over 6 data sets, 1 is the best: network 1.00" in text
    assert "Nemenyi's test shows a better rank of network over" in text
    assert "Of pairs that it does not show it may not be said that they are equal." in text
    assert "6 data sets are few" in text


def test_methods_that_do_not_differ_are_not_called_equal(datasets):
    generator = np.random.default_rng(1)
    names = list(STRENGTHS)
    mixed = {
        name: dict(zip(names, [list(own.values())[place] for place in generator.permutation(4)], strict=True))
        for name, own in datasets.items()
    }
    text = " ".join(delira.compare_datasets(mixed).words)
    assert "that the methods differ is not shown. It may not be said that they are equal." in text


def test_the_diagram_joins_what_the_test_does_not_part(found, tmp_path):
    figure = found.plot(tmp_path / "new" / "ranks.png")
    assert (tmp_path / "new" / "ranks.png").stat().st_size > 5000
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert f"critical difference {found.critical_difference:.2f}" in texts
    assert "network  1.00" in texts


def test_tables_and_pages(found, tmp_path):
    assert found.table("latex").count(r"\midrule") == 2
    assert "mean rank" in found.table()
    page = found.to_html(tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert found.to_html() == page
    assert "<svg" in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)
    for part in ("What may be said", "Ranks", "Pairs", "Scores", "set 5"):
        assert part in page
    assert "<table>" in found._repr_html_()
    assert repr(found).startswith("DatasetsComparison(6 data sets")
    pytest.importorskip("pandas", reason="tables are those of the package 'pandas', which is not installed")
    assert list(found.to_dataframe().columns) == list(STRENGTHS)


def test_methods_must_be_the_same_everywhere(datasets):
    lacking = {**datasets, "set 3": {"linear": datasets["set 3"]["linear"], "other": datasets["set 3"]["forest"]}}
    with pytest.raises(ConfigError, match="set 0 has linear, forest, network, chance, set 3 has linear, other"):
        delira.compare_datasets(lacking)


def test_results_of_a_data_set_are_over_the_same_folds(datasets):
    other = {**datasets["set 1"], "linear": cross_validate(np.arange(61) % 3, np.eye(3)[np.arange(61) % 3], name="x")}
    with pytest.raises(DataError, match="not over the same folds and cases"):
        delira.compare_datasets({**datasets, "set 1": other})


@pytest.mark.parametrize("given", [[], {}, {"one": []}, "runs"])
def test_fewer_than_two_data_sets_are_refused(given):
    with pytest.raises(ConfigError, match="a mapping of at least two data sets"):
        delira.compare_datasets(given)


def test_a_metric_must_be_chosen_and_have_a_direction(datasets):
    with pytest.raises(ConfigError, match="no result has the metric 'loss'"):
        delira.compare_datasets(datasets, metric="loss")
    with pytest.raises(ConfigError, match="alpha is a level"):
        delira.compare_datasets(datasets, alpha=2)
    turned = delira.compare_datasets(datasets, direction="lowest")
    assert turned.mean_ranks[2] == 4


def test_another_function_of_the_same_name_is_refused_with_its_data_set(datasets):
    def wrong(y_true, y_pred):
        return 1 - accuracy(y_true, y_pred)

    labels = np.arange(60) % 3
    own = {
        name: cross_validate(labels, np.eye(3, dtype=np.float32)[labels], metrics={"accuracy": metric}, name=name)
        for name, metric in zip(STRENGTHS, (accuracy, accuracy, wrong, accuracy), strict=True)
    }
    with pytest.raises(DataError, match="'accuracy' is another function in linear on odd than in network on odd"):
        delira.compare_datasets({**datasets, "odd": own})


def test_a_metric_of_which_nobody_knows_whether_it_is_one_function_is_told_once_with_its_data_sets(datasets):
    found = delira.compare_datasets(datasets)
    assert not found.caveats
    assert "same function" not in str(found)
    unknown = {"accuracy": {"metric": {"$object": "train:accuracy"}}}
    named = {"accuracy": {"metric": {"$object": "train:accuracy"}, "code": {"missing": ["accuracy"]}}}

    def with_old(names):
        """The results of the second method there do not say what their metric does."""
        return {
            name: {
                method: dataclasses.replace(result, stated_metrics=unknown if method == "forest" else named)
                if name in names and method in ("linear", "forest")
                else result
                for method, result in list(own.items())[:2]
            }
            for name, own in datasets.items()
        }

    some = delira.compare_datasets(with_old(["set 1", "set 4"]))
    (said,) = some.caveats
    assert said.startswith("On set 1 and set 4, that accuracy in linear and forest is the same function is not known: ")
    assert said in some.words
    assert " ".join(str(some).split()).count("is the same function") == 1
    assert some.to_html().count("is the same function") == 1
    (said,) = delira.compare_datasets(with_old([*datasets])).caveats
    assert said.startswith("On all 6 data sets, that accuracy in linear and forest")
