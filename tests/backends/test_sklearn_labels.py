"""The classes that a data set has: those to learn, and those that columns stand for."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the backend needs the package 'scikit-learn', which is not installed")

from delira.backends.sklearn.labels import find_classes, find_columns
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError

ARRAYS = {"data": np.zeros((6, 1)), "label": np.array([2, 0, 2, 5, 0, 5])}


def test_classes_are_sorted_whether_data_come_as_a_manager_or_as_batches():
    assert find_classes("label", BaseDataManager(ARRAYS, 4)).tolist() == [0, 2, 5]
    batches = [{"label": np.array([2, 0])}, {"label": np.array([5])}]
    assert find_classes("label", batches).tolist() == [0, 2, 5]


def test_several_labels_of_a_sample_have_classes_of_their_own():
    found = find_classes("label", [{"label": np.array([[1, 7], [0, 7]])}])
    assert [classes.tolist() for classes in found] == [[0, 1], [7]]


def test_data_that_can_be_read_only_once_are_refused():
    with pytest.raises(ConfigError, match="cannot be found in a generator; name them: SklearnEstimator"):
        find_classes("label", (batch for batch in ()))


def test_only_parts_of_a_data_set_have_columns_of_the_whole():
    manager = BaseDataManager(ARRAYS, 4)
    assert find_columns("label", manager) is None
    assert find_columns("label", manager.get_subset([0, 1])) == [0, 2, 5]
