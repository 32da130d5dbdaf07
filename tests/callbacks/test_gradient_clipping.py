"""Limits of the gradients: on every batch, as PyTorch computes them."""

import numpy as np
import pytest
from small_backends import build_kit

from delira.callbacks.abstract_callback import Callback
from delira.errors import ConfigError, NonFiniteLossError
from delira.state import GRADIENTS, State
from delira.training.callbacks import GradientClipping, GradientNormClipping


class Watch(Callback):
    """Keeps the gradients of every batch, as one row of (kernel, bias)."""

    traceable = False

    def __init__(self):
        self.seen = []

    def on_backward(self, state):
        gradients = state[GRADIENTS]
        order = sorted(gradients, key=lambda name: name.endswith("bias"))
        self.seen.append(np.concatenate([np.asarray(gradients[name]).ravel() for name in order]))


def clipped_by_torch(row, clip):
    torch = pytest.importorskip("torch", reason="the comparison is with PyTorch")
    parameter = torch.nn.Parameter(torch.zeros(len(row)))
    parameter.grad = torch.tensor(row)
    clip(torch, [parameter])
    return parameter.grad.numpy()


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("norm", [1, 2, 3, float("inf")])
@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_the_norm_of_every_batch_is_limited(fit, norm, limit):
    before, after = Watch(), Watch()
    fit.trial(before, GradientNormClipping(limit, norm), after).run(2)
    assert len(before.seen) == len(after.seen) == 6
    for raw, seen in zip(before.seen, after.seen, strict=True):
        wanted = clipped_by_torch(raw, lambda torch, p: torch.nn.utils.clip_grad_norm_(p, limit, norm))
        np.testing.assert_allclose(seen, wanted, rtol=1e-5)


def test_the_values_of_every_batch_are_limited(fit):
    before, after = Watch(), Watch()
    fit.trial(before, GradientClipping(0.2), after).run(2)
    for raw, seen in zip(before.seen, after.seen, strict=True):
        wanted = clipped_by_torch(raw, lambda torch, p: torch.nn.utils.clip_grad_value_(p, 0.2))
        np.testing.assert_allclose(seen, wanted, rtol=1e-6)
    assert max(abs(raw).max() for raw in before.seen) > 0.2  # else there was nothing to show


def test_clipped_gradients_are_those_of_the_update(fit, by_hand):
    trial = fit.trial(GradientNormClipping(0.05))
    kernel, bias = fit.weights(trial)
    trial.run(1)
    for x, y in fit.batches():
        _, by_kernel, by_bias = by_hand(kernel, bias, x, y)
        factor = min(1.0, 0.05 / np.sqrt((by_kernel**2).sum() + (by_bias**2).sum()))
        kernel, bias = kernel - 0.1 * factor * by_kernel, bias - 0.1 * factor * by_bias
    np.testing.assert_allclose(fit.weights(trial)[0], kernel, rtol=1e-4)
    np.testing.assert_allclose(fit.weights(trial)[1], bias, rtol=1e-4)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("make", [GradientNormClipping, GradientClipping])
def test_params_choose_whose_gradients(fit, make):
    name = fit.names(fit.trial())[0]
    before, after = Watch(), Watch()
    fit.trial(before, make(1e-3, params=[name]), after).run(1)
    for raw, seen in zip(before.seen, after.seen, strict=True):
        assert abs(seen[:3]).max() <= 1e-3 < abs(raw[:3]).max()
        assert seen[3] == raw[3]


def test_a_gradient_that_is_no_number_stays_one(torch_fit):
    watch = Watch()
    target = torch_fit.y * np.nan
    with pytest.raises(NonFiniteLossError):
        torch_fit.trial(GradientClipping(0.2), watch, y=target).run(1)
    assert np.isnan(watch.seen[0]).all()


def test_gradients_of_several_types_keep_them():
    torch = pytest.importorskip("torch", reason="the types are those of PyTorch")
    gradients = {"scale": torch.tensor(3.0), "weight": torch.tensor([4.0], dtype=torch.float64)}
    state = State({GRADIENTS: gradients})
    GradientNormClipping(1).on_backward(state)
    found = state[GRADIENTS]
    assert {name: value.dtype for name, value in found.items()} == {"scale": torch.float32, "weight": torch.float64}
    assert found["scale"].item() == pytest.approx(0.6, rel=1e-5)
    assert found["weight"].item() == pytest.approx(0.8, rel=1e-5)


def test_an_experiment_has_it_too(tmp_path, manager):
    kit = build_kit("torch")
    trainer = kit.trainer(tmp_path, callbacks=[GradientNormClipping(1e-3)])
    before = kit.read(trainer.module).copy()
    trainer.train(1, manager(4))
    assert 0 < np.linalg.norm(kit.read(trainer.module) - before) <= 0.1 * 1e-3 * 1.001


def test_what_cannot_be_is_refused(torch_fit):
    with pytest.raises(ConfigError, match="max_norm is a number above 0, got 0"):
        GradientNormClipping(0)
    with pytest.raises(ConfigError, match="clip_value is a number above 0, got -1"):
        GradientClipping(-1)
    with pytest.raises(ConfigError, match=r"GradientClipping sees .*; use the setting gradient_clip_value"):
        torch_fit.trial(GradientClipping(1), gradient_accumulation_steps=2).run(1)
