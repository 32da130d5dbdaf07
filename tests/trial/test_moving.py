"""Where a trial computes, in which number format and mode."""

from collections import namedtuple

import numpy as np
import pytest
from kits import DIFFERENTIABLE, build_kit, quiet

from delira.callbacks.decorators import on_step_training
from delira.errors import ConfigError
from delira.state import DATA_TYPE, DEVICE, TEST_DATA, Y_PRED, X
from delira.trial import deep_to

Pair = namedtuple("Pair", "first second")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")


def test_network_optimizer_and_batches_become_float64(torch, line):
    kit, seen = build_kit("torch"), []

    @on_step_training
    def look(state):
        seen.append((state[X].dtype, state[Y_PRED].dtype))

    net = kit.linear(np.zeros((3, 2)))
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    trial = quiet(net, optimizer, kit.mse, ["loss"], [look]).with_train_data(*line, batch_size=6, shuffle=False)
    trial.run(1)
    assert trial.to(torch.float64) is trial
    trial.run(2)
    assert seen == [(torch.float32,) * 2] * 2 + [(torch.float64,) * 2] * 2
    assert trial.state[DATA_TYPE] is torch.float64
    assert {value.dtype for state in optimizer.state.values() for name, value in state.items() if name != "step"} == {
        torch.float64
    }
    # as by hand, the format changed after the first epoch
    twin = kit.linear(np.zeros((3, 2)))
    other = torch.optim.Adam(twin.parameters(), 0.1)
    for dtype in (torch.float32, torch.float64):
        twin.to(dtype)
        other.load_state_dict(other.state_dict())
        for start in (0, 6):
            x, y = (torch.tensor(part[start : start + 6]).to(dtype) for part in line)
            other.zero_grad()
            kit.mse(twin(x), y).backward()
            other.step()
    torch.testing.assert_close(net.weight, twin.weight, rtol=0, atol=0)


def test_the_device_is_that_of_later_batches(torch, line):
    kit = build_kit("torch")
    net = kit.linear(np.zeros((3, 2)))
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse).with_train_data(*line, batch_size=6).to("cpu")
    assert trial.settings["device"] == "cpu"
    trial.run(1)
    assert trial.cpu().state[DEVICE] == torch.device("cpu")
    assert trial.run(2)


@pytest.mark.gpu
def test_a_trial_moves_to_the_gpu_and_back(torch, line):
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    kit = build_kit("torch")
    net = kit.linear(np.zeros((3, 2)))
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    trial = quiet(net, optimizer, kit.mse, ["loss"]).with_train_data(*line, batch_size=6)
    trial.run(1)
    trial.cuda().run(2)
    assert net.weight.is_cuda
    assert trial.state[X].is_cuda
    assert optimizer.state[net.weight]["exp_avg"].is_cuda
    trial.cpu().run(3)
    assert not net.weight.is_cuda


@pytest.mark.parametrize("backend", DIFFERENTIABLE)
def test_a_device_that_is_not_there_is_refused(backend, line):
    kit = build_kit(backend)
    net = kit.linear(np.zeros((3, 2)))
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse).with_train_data(*line, batch_size=6)
    for _ in range(2):  # before it was run, and after
        with pytest.raises(ConfigError):
            trial.to("abacus")
        assert trial.run(1)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_other_frameworks_build_networks_with_their_number_format(backend, line):
    kit = build_kit(backend)
    net = kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="build it with the dtype"):
        quiet(net, kit.sgd(net, 0.1), kit.mse).to(dtype="float64")
    trial = quiet(net, kit.sgd(net, 0.1), kit.mse).with_train_data(*line, batch_size=6)
    assert trial.to("cpu").run(1)
    assert trial.cpu().run(2)


def test_integers_are_no_number_format_of_a_network(torch):
    kit = build_kit("torch")
    net = kit.linear(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="floating-point"):
        quiet(net, kit.sgd(net, 0.1), kit.mse).to(torch.int32)


@pytest.mark.parametrize("backend", [*DIFFERENTIABLE, "sklearn"])
def test_modes_are_switched(backend):
    kit = build_kit(backend)
    net = kit.mlp()
    trial = quiet(net, kit.adam(net, 0.1), kit.cross_entropy, ["cat_acc"])
    assert trial.eval(TEST_DATA) is trial
    assert trial.metrics.trees[0].prefix == "test_"
    assert backend != "torch" or not net.training
    assert trial.train() is trial
    assert trial.metrics.trees[0].prefix == ""
    assert backend != "torch" or net.training


def test_batches_of_any_structure_are_moved(torch):
    batch = {"a": (torch.ones(2), [torch.ones(1, dtype=torch.int64), "name"]), "b": Pair(torch.zeros(1), None)}
    moved = deep_to(batch, "cpu", torch.float64)
    assert moved["a"][0].dtype is torch.float64
    assert moved["a"][1][0].dtype is torch.int64
    assert moved["a"][1][1] == "name"
    assert type(moved["b"]) is Pair
    assert moved["b"].first.dtype is torch.float64
    assert batch["a"][0].dtype is torch.float32  # the batch stays as it is
    assert deep_to(np.ones(2, "f4"), dtype="f8").dtype == np.float64
    with pytest.raises(ConfigError, match="tensors of PyTorch"):
        deep_to(np.ones(2), "cpu")
