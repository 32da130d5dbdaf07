"""Penalties on the weights: on every batch, in the loss and in its gradient."""

import numpy as np
import pytest
from small_backends import build_kit

from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import on_step_training
from delira.errors import ConfigError
from delira.state import LOSS
from delira.training.callbacks import L1WeightDecay, L2WeightDecay, WeightDecay

RATE = 0.3


class Watch(Callback):
    """Keeps losses of the steps."""

    def __init__(self):
        self.losses = []

    def on_step_training(self, state):
        self.losses.append(float(np.asarray(state[LOSS])))


def slope(weights, p):
    """Gradient of the p-norm."""
    if p == np.inf:
        return np.sign(weights) * (abs(weights) == abs(weights).max())
    norm = (abs(weights) ** p).sum() ** (1 / p)
    return np.sign(weights) * abs(weights) ** (p - 1) / norm ** (p - 1)


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("make", "p"),
    [
        (lambda: WeightDecay(RATE), 2),
        (lambda: WeightDecay(RATE, 3), 3),
        (lambda: L1WeightDecay(RATE), 1),
        (lambda: WeightDecay(RATE, np.inf), np.inf),
    ],
)
def test_every_batch_has_the_norms_in_its_loss_and_its_update(fit, by_hand, make, p):
    watch = Watch()
    trial = fit.trial(make(), watch)
    kernel, bias = fit.weights(trial)
    trial.run(1)
    expected = []
    for x, y in fit.batches():
        loss, by_kernel, by_bias = by_hand(kernel, bias, x, y)
        norms = [np.linalg.norm(one.ravel(), p) for one in (kernel, bias)]
        expected.append(loss + RATE * sum(norms))
        kernel, bias = (
            kernel - 0.1 * (by_kernel + RATE * slope(kernel, p)),
            bias - 0.1 * (by_bias + RATE * slope(bias, p)),
        )
    np.testing.assert_allclose(watch.losses, expected, rtol=1e-5)
    for found, wanted in zip(fit.weights(trial), (kernel, bias), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_it_works_without_a_criterion(fit):
    watch = Watch()
    trial = fit.trial(WeightDecay(RATE), watch, has_criterion=False)
    kernel, bias = fit.weights(trial)
    trial.run(1)
    expected = []
    for _ in range(3):
        expected.append(RATE * (np.linalg.norm(kernel) + np.linalg.norm(bias)))
        kernel, bias = kernel - 0.1 * RATE * slope(kernel, 2), bias - 0.1 * RATE * slope(bias, 2)
    np.testing.assert_allclose(watch.losses, expected, rtol=1e-5)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kind", ["name", "names", "function"])
def test_params_choose_the_weights(fit, by_hand, kind):
    name = fit.names(fit.trial())[0]
    params = {"name": name, "names": [name], "function": lambda one: not one.endswith("bias")}[kind]
    watch = Watch()
    trial = fit.trial(L2WeightDecay(RATE, params=params), watch)
    kernel, bias = fit.weights(trial)
    trial.run(1)
    x, y = fit.batches()[0]
    assert watch.losses[0] == pytest.approx(by_hand(kernel, bias, x, y)[0] + RATE * np.linalg.norm(kernel), rel=1e-5)


def test_the_parameters_of_a_torch_module_may_come_as_a_generator(torch_fit):
    watch = Watch()
    torch_fit.trial(WeightDecay(1e6, params=torch_fit.module.parameters()), watch).run(1)
    assert min(watch.losses) > 1e4  # on every batch, not on the first alone


def test_the_loss_of_the_validation_is_untouched(fit, by_hand):
    trial = fit.trial(WeightDecay(RATE))
    record = trial.run(1)[0]
    losses = [by_hand(*fit.weights(trial), x, y)[0] for x, y in fit.batches()]
    assert record["val_loss"] == pytest.approx(np.average(losses, weights=[4, 4, 2]), rel=1e-5)
    assert trial.evaluate()["val_loss"] == pytest.approx(record["val_loss"], rel=1e-6)


def test_a_weight_of_zeros_has_no_slope_and_stays_finite(fit):
    trial = fit.trial(WeightDecay(RATE))
    backend, module = trial.trainer.backend, trial.trainer.module
    backend.weights.load_named(module, {n: 0 * w for n, w in backend.weights.named(module).items()})
    trial.run(1)
    assert all(np.isfinite(one).all() for one in fit.weights(trial))


def test_an_experiment_has_it_too(tmp_path, manager):
    kit = build_kit("torch")
    losses = []

    @on_step_training
    def watch(state):
        losses.append(float(state[LOSS]))

    trainer = kit.trainer(tmp_path, callbacks=[WeightDecay(RATE), watch])
    weight = kit.read(trainer.module).copy()
    batch = next(iter(manager(4)))
    trainer.train(1, manager(4))
    plain = ((batch["data"] @ weight - batch["label"]) ** 2).mean()
    assert losses[0] == pytest.approx(plain + RATE * np.linalg.norm(weight), rel=1e-4)


def test_what_cannot_be_is_refused(torch_fit):
    with pytest.raises(ConfigError, match="WeightDecay: rate is a number of at least 0, got -1"):
        WeightDecay(-1)
    with pytest.raises(ConfigError, match="L2WeightDecay: params: there is no weight 'wieght'; did you mean 'weight'"):
        torch_fit.trial(L2WeightDecay(params=["wieght"])).run(1)
    with pytest.raises(ConfigError, match="holds what is no weight of the network; pass their names: weight, bias"):
        torch_fit.trial(L2WeightDecay(params=[object()])).run(1)
