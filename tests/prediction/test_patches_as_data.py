"""Patches are to learn from: what is predicted of them is their cases."""

import numpy as np
import pytest

import delira
from delira.data_loading import BaseDataManager, Patches
from delira.testing import ToyNetwork


class Twice(ToyNetwork):
    """Says twice what it gets, of any shape."""

    def __call__(self, x):
        return {"pred": 2 * x}


@pytest.fixture
def cases():
    return [
        {"data": np.full((1, 6 + number, 6), number, np.float32), "label": np.ones((6 + number, 6), int)}
        for number in range(3)
    ]


@pytest.mark.parametrize("wrap", [lambda patches: patches, lambda patches: BaseDataManager(patches, 4)])
def test_cases_are_predicted_whole_and_once(wrap, cases, tmp_path):
    network = Twice()
    patches = wrap(Patches(cases, (4, 4), per_case=3))
    found = [*delira.predict(network, patches, stream=True)]
    assert [one.name for one in found] == ["0", "1", "2"]
    for one, case in zip(found, cases, strict=True):
        np.testing.assert_allclose(one.outputs["pred"], 2 * case["data"])
    assert len(delira.predict(network, patches, out=tmp_path / "out")) == 3
