"""Names of files that callbacks write: formats over the state and its metrics."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from delira.callbacks.monitor import fields_of, fill_in, of_fold, path_of
from delira.errors import ConfigError
from delira.state import EPOCH, METRICS, SELF, State


def state(fold=0, **metrics):
    return State({EPOCH: 3, METRICS: metrics, SELF: SimpleNamespace(trainer=SimpleNamespace(fold=fold), fold=fold)})


def test_fields_are_found_whatever_is_done_with_them():
    assert fields_of("{epoch:02d}-{val_loss:.2f}-{x.y}-{z[0]}") == {"epoch", "val_loss", "x", "z"}
    assert fields_of("plain") == set()


def test_metrics_the_state_and_further_values_are_filled_in():
    found = fill_in("{epoch:02d} {loss:.1f} {what}", state(loss=np.float32(0.25)), "Test", {"what": "it"})
    assert found == "03 0.2 it"


def test_a_further_value_goes_before_a_metric_and_that_before_the_state():
    assert fill_in("{a}", state(a=1), "Test", {"a": 2}) == "2"
    assert fill_in("{epoch}", state(epoch=9), "Test") == "3"  # the epoch is the state's


def test_an_unknown_field_is_told_with_what_there_is():
    with pytest.raises(ConfigError, match=r"Test: the name '\{los\}' has the field 'los', but .* \(loss\)"):
        fill_in("{los}", state(loss=1.0), "Test")
    with pytest.raises(ConfigError, match=r"Test: the name .* cannot be filled in"):
        fill_in("{loss:q}", state(loss=1.0), "Test")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a.csv", "a_fold_2.csv"), ("a", "a_fold_2"), ("loss_0.25", "loss_0.25_fold_2"), ("b/a.pt", "b/a_fold_2.pt")],
)
def test_further_folds_have_files_of_their_own(path, expected):
    assert of_fold(Path(path), state(fold=2)) == Path(expected)
    assert of_fold(Path(path), state()) == Path(path)


def test_a_name_that_says_the_fold_gets_it_once():
    assert path_of("in_{fold}.csv", state(fold=1), "Test") == Path("in_1.csv")
    assert path_of("in.csv", state(fold=1), "Test") == Path("in_fold_1.csv")
