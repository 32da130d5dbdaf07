"""The one fit of an estimator that does not learn batch by batch."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the backend needs the package 'scikit-learn', which is not installed")

from delira.backends.sklearn.backend import WholeFit
from delira.errors import DataError


class Noting:
    """Notes what it is to learn."""

    def __init__(self):
        self.learned = []

    def learn(self, x, y, batch):
        self.learned.append((x.tolist(), None if y is None else y.tolist(), batch))


def test_batches_are_kept_as_they_were_and_learned_once():
    network, memory = Noting(), np.array([[1.0]])
    fit = WholeFit(network)
    fit.append({}, {"x": memory}, np.array([0]))
    memory[...] = 2.0  # a worker writes the next batch into it
    fit.append({}, {"x": memory}, np.array([1]))
    fit.flush()
    fit.flush()
    assert network.learned == [([[1.0], [2.0]], [0, 1], False)]


def test_entries_that_somebody_wants_are_kept_for_him():
    fit, seen = WholeFit(Noting()), []
    fit.kept, fit.after = frozenset({"name"}), seen.extend
    fit.append({"name": np.array(["a"]), "other": np.array([1])}, {"x": np.ones((1, 1))}, None)
    fit.flush()
    ((batch, inputs),) = seen
    assert (batch.keys(), inputs.keys()) == ({"name"}, {"x"})
    assert fit.network.learned[0][1] is None


def test_an_epoch_that_begins_anew_forgets_the_batches():
    fit = WholeFit(Noting())
    fit.append({}, {"x": np.ones((1, 1))}, None)
    fit.restart(is_done=False)
    fit.append({}, {"x": np.zeros((1, 1))}, None)
    fit.flush()
    assert fit.network.learned == [([[0.0]], None, False)]


def test_samples_of_several_shapes_are_refused():
    fit = WholeFit(Noting())
    for width in (1, 2):
        fit.append({}, {"x": np.ones((1, width))}, None)
    with pytest.raises(DataError, match=r"needs inputs of one shape, but the batches have samples of the shapes"):
        fit.flush()
