"""Averages of weights in PyTorch."""

import copy

import numpy as np
import pytest

from delira.errors import NetworkError

torch = pytest.importorskip("torch")
from torch_updates import HandWritten, assert_equal, batches_of, build, compute, optimizers_of  # noqa: E402

from delira.backends.torch.backend import BACKEND  # noqa: E402


def test_the_average_is_the_exponential_one_of_the_weights():
    network = build(HandWritten)
    optimizers, found, expected = optimizers_of(network), None, None
    for batch in batches_of(4, 4, 4, 4):
        found = BACKEND.weights.average(found, network, 0.8)
        weights = {name: p.detach().double().numpy().copy() for name, p in network.named_parameters()}
        expected = weights if expected is None else {n: 0.8 * expected[n] + 0.2 * w for n, w in weights.items()}
        compute(network, optimizers, batch)
    assert found.keys() == expected.keys() == dict(network.named_parameters()).keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].numpy(), values, rtol=1e-5, atol=1e-7)
        assert not found[name].requires_grad


def test_the_average_is_updated_in_place_and_the_network_is_left_alone():
    network = build()
    first = BACKEND.weights.average(None, network, 0.5)
    before = copy.deepcopy(network)
    with torch.no_grad():
        network.layers[0].weight += 1
    moved = copy.deepcopy(network)
    second = BACKEND.weights.average(first, network, 0.5)
    assert all(second[name] is first[name] for name in first)
    torch.testing.assert_close(second["layers.0.weight"], before.layers[0].weight + 0.5, check_stride=False)
    assert_equal(network, moved)


def test_buffers_are_not_averaged_and_tied_weights_count_once():
    network = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    network[2].weight = network[1].weight
    averages = BACKEND.weights.average(None, network, 0.9)
    assert averages.keys() == {"0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"}
    assert averages["2.weight"] is averages["1.weight"]


def test_a_network_without_weights_has_an_empty_average():
    assert BACKEND.weights.average(BACKEND.weights.average(None, torch.nn.ReLU(), 0.9), torch.nn.ReLU(), 0.9) == {}


def test_an_average_of_another_network_is_refused():
    found = BACKEND.weights.average(None, build(), 0.9)
    with pytest.raises(NetworkError, match=r"does not fit the network Linear: bias, layers\.0\.bias, "):
        BACKEND.weights.average(found, torch.nn.Linear(3, 1), 0.9)
