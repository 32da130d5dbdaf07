"""What one fold gives back: its fields are checked where it is made."""

import numpy as np
import pytest

from delira.errors import ConfigError
from delira.runs.results import PREPROCESSING, FoldResult

PARTS = {"fold": 1, "train_indices": [2, 3], "val_indices": None, "test_indices": [0]}


def test_indices_and_metrics_become_arrays_and_it_prints_its_sizes():
    fold = FoldResult(**PARTS, metrics={"dice": 0.25})
    assert fold.train_indices.dtype == np.int64
    assert fold.metrics["dice"].shape == (1,)
    assert repr(fold) == "FoldResult(1, train/val/test=2/0/1, dice=0.25)"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("fold", -1, "fold is a whole number of at least 0, got -1"),
        ("train_indices", [0.5], "train_indices are indices of the data set"),
        ("test_indices", [-1], "test_indices are indices of the data set"),
        ("val_indices", "12", "val_indices are indices of the data set"),
        ("metrics", [1], "metrics is a dictionary"),
        ("metrics", {"dice": "high"}, "metrics are numbers, or arrays of them, by name"),
        ("history", {}, "history is a list of one record for each epoch"),
        ("output_readings", {"pred": {"output": "logits"}}, "output_readings say of each output by name"),
    ],
)
def test_what_cannot_be_is_refused_by_name(field, value, message):
    with pytest.raises(ConfigError, match=message):
        FoldResult(**{**PARTS, field: value})


def test_its_transformers_are_known_by_their_file(tmp_path):
    fold = FoldResult(**PARTS, path=tmp_path)
    assert fold.preprocessing is None
    (tmp_path / PREPROCESSING).touch()
    assert fold.preprocessing == tmp_path / PREPROCESSING
    assert FoldResult(**PARTS).preprocessing is None
