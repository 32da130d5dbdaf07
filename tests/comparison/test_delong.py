"""DeLong's test says what pROC says of the same scores, and is made within each fold."""

import numpy as np
import pytest
from reference_numbers import OF_R, roc_set
from sklearn.metrics import roc_auc_score

from delira.comparison.auroc import Areas, delong_areas, delong_test
from delira.errors import DataError

SETS = ("smooth", "tied", "rare")


@pytest.mark.parametrize("name", SETS)
def test_areas_and_their_variance_are_those_of_proc(name):
    labels, first, second = roc_set(name)
    found = delong_areas(labels, first, second)
    assert found.first == pytest.approx(OF_R[f"delong {name} first"])
    assert found.second == pytest.approx(OF_R[f"delong {name} second"])
    assert found.variance == pytest.approx(OF_R[f"delong {name} variance"])
    assert found.first == pytest.approx(roc_auc_score(labels, first))


@pytest.mark.parametrize("name", SETS)
def test_the_test_of_one_fold_is_that_of_proc(name):
    found = delong_test([delong_areas(*roc_set(name))])
    assert found.statistic == pytest.approx(OF_R[f"delong {name} statistic"])
    assert found.p_value == pytest.approx(OF_R[f"delong {name} p"])


def test_differences_of_folds_are_averaged_and_their_variances_added():
    folds = [delong_areas(*roc_set(name)) for name in SETS]
    statistics = [OF_R[f"delong {name} second"] - OF_R[f"delong {name} first"] for name in SETS]
    variance = sum(OF_R[f"delong {name} variance"] for name in SETS) / 9
    assert delong_test(folds).statistic == pytest.approx(np.mean(statistics) / np.sqrt(variance))


def test_scales_of_folds_do_not_matter():
    labels, first, second = roc_set("smooth")
    folds = [np.arange(0, 80, 2), np.arange(1, 80, 2)]
    plain = delong_test([delong_areas(labels[of], first[of], second[of]) for of in folds])
    moved = delong_test([delong_areas(labels[of], first[of] + 100 * at, second[of]) for at, of in enumerate(folds)])
    assert plain == moved


def test_what_cannot_be_tested_says_so():
    assert "fewer than 2 cases of a class" in delong_test([delong_areas([0, 0, 1], [1, 2, 3], [3, 2, 1])]).note
    assert "in the same way" in delong_test([delong_areas([0, 0, 1, 1], [1, 2, 3, 4], [10, 20, 30, 40])]).note
    assert Areas(0.5, 0.75, 0.1).difference == 0.25


def test_labels_and_scores_are_checked():
    with pytest.raises(DataError, match="labels 0 and 1, both of them"):
        delong_areas([1, 1], [0.1, 0.2], [0.1, 0.2])
    with pytest.raises(DataError, match="there are 3 labels and 2 scores"):
        delong_areas([0, 1, 1], [0.1, 0.2], [0.1, 0.2])
    with pytest.raises(DataError, match="scores must be finite"):
        delong_areas([0, 1], [0.1, np.nan], [0.1, 0.2])
