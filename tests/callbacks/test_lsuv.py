"""First weights with which every layer gives values of one spread."""

import logging

import numpy as np
import pytest

import delira
from delira.errors import NetworkError
from delira.training.callbacks import (
    LSUV,
    LsuvInit,
)


def deep(torch):
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)]
    layers += [torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Flatten(), torch.nn.Linear(128, 20), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(20, 4, bias=False))


def deviations(torch, net, x):
    """Of what each layer with weights gives."""
    net.eval()
    found = []
    with torch.no_grad():
        for layer in net:
            x = layer(x)
            if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
                found.append(float(x.std()))
    net.train()
    return found


@pytest.mark.parametrize(("needed", "tolerance"), [(1.0, 0.1), (0.5, 0.01), (3.0, 0.05)])
def test_every_layer_gives_values_of_the_wanted_spread(needed, tolerance):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    torch.manual_seed(0)
    net, x = deep(torch), torch.randn(16, 3, 8, 8) * 5 + 1
    generators = torch.get_rng_state()
    statistics = net[1].running_mean.clone()
    delira.Trial(net, callbacks=[LsuvInit(x, needed_std=needed, std_tol=tolerance)], seed=0, verbose=0)
    assert deviations(torch, net, x) == pytest.approx([needed] * 4, abs=tolerance)
    assert net.training
    assert torch.equal(net[1].running_mean, statistics)
    assert torch.equal(torch.get_rng_state(), generators)
    assert not any(module._forward_hooks for module in net.modules())


def test_weights_are_orthonormal_but_for_their_scale():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    nets = [torch.nn.Linear(6, 4) for _ in range(3)]
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        delira.Trial(net, callbacks=[LsuvInit(np.random.default_rng(0).normal(size=(64, 6)).astype("f4"))], seed=seed)
    products = (nets[0].weight @ nets[0].weight.T).detach().numpy()
    np.testing.assert_allclose(products, products[0, 0] * np.eye(4), atol=1e-5)
    assert not nets[0].bias.any()
    assert torch.equal(nets[0].weight, nets[1].weight)
    assert not torch.equal(nets[0].weight, nets[2].weight)


def test_weights_may_be_scaled_as_they_are():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    net, x = torch.nn.Linear(6, 4), torch.randn(64, 6)
    before, bias = net.weight.detach().clone(), net.bias.detach().clone()
    seen = []
    callback = LsuvInit(x, weight_lambda=lambda layer: seen.append(layer) or layer.weight, do_orthonorm=False)
    delira.Trial(net, callbacks=[callback], verbose=0)
    ratio = net.weight / before
    torch.testing.assert_close(ratio, torch.full_like(ratio, float(ratio[0, 0].detach())))
    assert torch.equal(net.bias, bias)
    assert net in seen
    assert float(net(x).detach().std()) == pytest.approx(1, abs=0.1)


def test_networks_that_take_the_state_and_several_inputs_are_measured():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.unused = torch.nn.Linear(3, 5), torch.nn.Linear(2, 5), torch.nn.Linear(1, 1)

        def forward(self, x, y, state):
            state["seen"] = True
            return self.a(x) + self.b(y)

    net, x = Net(), (torch.randn(40, 3), torch.randn(40, 2))
    trial = delira.Trial(net, callbacks=[LsuvInit(x)], seed=0, verbose=0)
    assert trial.state["seen"]
    assert float(net.a(x[0]).detach().std()) == pytest.approx(1, abs=0.1)
    assert float(net.b(x[1]).detach().std()) == pytest.approx(1, abs=0.1)


def test_a_layer_that_cannot_be_scaled_is_told(caplog):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    with pytest.raises(NetworkError, match=r"LsuvInit: the layer '' gives values of the standard deviation 0\.0"):
        delira.Trial(torch.nn.Linear(3, 2), callbacks=[LsuvInit(torch.zeros(4, 3))], seed=0, verbose=0)
    net = torch.nn.Linear(3, 2)
    net.bias.data = torch.tensor([0.0, 50.0])
    with caplog.at_level(logging.WARNING):
        callback = LsuvInit(torch.randn(40, 3), do_orthonorm=False, max_attempts=2)
        delira.Trial(net, callbacks=[callback], verbose=0)
    assert "after 2 attempts the layer '' gives a standard deviation of 25" in caplog.text


def test_lsuv_has_two_names():
    assert LSUV is LsuvInit
