"""Values that wait on a device are read when somebody looks at them, and not before."""

import json

import numpy as np
import pytest

from delira.utils.late import Lazy, ReadValues


@pytest.fixture
def reads():
    return []


@pytest.fixture
def values(reads):
    def late(value):
        return Lazy(lambda: reads.append(value) or value)

    return ReadValues({"loss": late(0.25), "n": late(3), "parts": late([1.0, 2.0]), "name": "plain"})


def test_nothing_is_read_before_somebody_looks(values, reads):
    assert list(values) == ["loss", "n", "parts", "name"]
    assert "loss" in values
    assert len(values) == 4
    assert reads == []
    assert values["n"] == 3
    assert reads == [3]
    assert values["n"] + values.get("n") == 6
    assert reads == [3]


@pytest.mark.parametrize(
    "look",
    [dict, lambda values: {**values}, lambda values: values.copy(), lambda values: dict(values.items()),
     lambda values: dict(zip(values, values.values(), strict=True)), lambda values: json.loads(json.dumps(values))],
)  # fmt: skip
def test_however_they_are_copied_they_are_numbers(values, look):
    assert look(values) == {"loss": 0.25, "n": 3, "parts": [1.0, 2.0], "name": "plain"}
    assert isinstance(look(values)["loss"], float)


def test_one_that_is_looked_up_is_a_number_and_answers_as_a_tensor_does(values):
    loss, parts = values["loss"], values["parts"]
    assert isinstance(loss, float)
    assert round(loss, 1) == 0.2
    assert type(loss.item()) is float
    assert loss.cpu().detach().clone() is loss
    assert parts.item() == [1.0, 2.0]
    np.testing.assert_array_equal(parts.numpy(), [1.0, 2.0])
    assert values["name"] == "plain"
    assert values.get("nothing", 7) == 7


def test_one_that_is_taken_out_is_plain(values, reads):
    assert type(values.pop("loss")) is float
    assert values.pop("loss", None) is None
    with pytest.raises(KeyError):
        values["loss"]
    values["loss"] = 1
    assert repr(values) == "{'n': 3, 'parts': [1.0, 2.0], 'name': 'plain', 'loss': 1}"
