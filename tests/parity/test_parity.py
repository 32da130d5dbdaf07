"""The same training in every backend, step by step."""

import functools

import numpy as np
import pytest
from parity import compare, reference


@functools.cache
def by_hand(network, optimizer):
    return compare.by_hand(network, optimizer)


@pytest.fixture(params=compare.BACKENDS)
def backend_name(request):
    pytest.importorskip(compare.BACKENDS[request.param])
    return request.param


@pytest.mark.sampled("values")
@pytest.mark.slow_cases("tensorflow|jax|convnet")
@pytest.mark.parametrize("optimizer", compare.OPTIMIZERS)
@pytest.mark.parametrize("network", reference.SHAPES)
def test_every_step_has_the_loss_of_float64_arithmetic(backend_name, network, optimizer):
    losses = compare.train(backend_name, network, optimizer)
    assert losses.shape == (compare.STEPS,)
    np.testing.assert_allclose(losses, by_hand(network, optimizer), rtol=compare.RTOL)


@pytest.mark.parametrize("network", reference.SHAPES)
def test_the_gradients_by_hand_are_those_of_finite_differences(network):
    weights = {name: array.astype(np.float64) for name, array in reference.initial_weights(network).items()}
    batch = next(iter(compare.data(network).epoch(0, 0, 1)))
    x, label = batch["data"].astype(np.float64), batch["label"]
    gradients_of = {"mlp": reference._mlp, "convnet": reference._convnet}[network]
    _, gradients = gradients_of(weights, x, label)
    rng = np.random.default_rng(0)
    for name, array in weights.items():
        place = tuple(rng.integers(size) for size in array.shape)
        value, step = array[place], 1e-6
        array[place] = value + step
        above, _ = gradients_of(weights, x, label)
        array[place] = value - step
        below, _ = gradients_of(weights, x, label)
        array[place] = value
        assert gradients[name][place] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-9), name


@pytest.mark.sampled("values")
@pytest.mark.parametrize("optimizer", compare.OPTIMIZERS)
@pytest.mark.parametrize("network", reference.SHAPES)
def test_the_losses_fall(network, optimizer):
    losses = by_hand(network, optimizer)
    assert losses[-10:].mean() < 0.7 * losses[:10].mean()
