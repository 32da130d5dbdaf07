"""Acceptance cases 14 to 18 of the Trial: generative adversarial networks."""

import numpy as np
import pytest
from kits import case, quiet

import delira
from delira.metrics import mean, running_mean
from delira.state import GRADIENTS, LOSS, X
from delira.training.callbacks.decorators import add_to_loss, on_backward, on_step_training

FAKE, D_FAKE, D_FAKE_DETACHED, D_REAL = (delira.state_key(f"ac_gan_{name}") for name in ("x", "fake", "off", "real"))
G_LOSS, D_LOSS = delira.state_key("g_loss"), delira.state_key("d_loss")
NOISE = np.linspace(-1, 1, 8, dtype="f4")[:, None]
GENERATOR, DISCRIMINATOR = [[0.7, -0.3]], [[0.5], [-0.4]]


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def gan(kit, *, is_right=True):
    """Generator and discriminator in one network that returns nothing, as the paper has it.

    As the paper prints it, the generator's loss reaches the discriminator too; with a discriminator whose weight is
    detached it does not.
    """

    def compute(net, x, state):
        fake = kit.array(NOISE) @ net.generator
        weight = net.discriminator * 1
        state[FAKE] = fake
        state[D_FAKE] = fake @ (kit.detached(weight) if is_right else weight)
        state[D_FAKE_DETACHED] = kit.detached(fake) @ weight
        state[D_REAL] = x @ weight

    return kit.state_module({"generator": GENERATOR, "discriminator": DISCRIMINATOR}, compute)


def gan_loss(kit):
    @add_to_loss
    def losses(state):
        count = len(NOISE)
        state[G_LOSS] = kit.sum(kit.softplus(-state[D_FAKE])) / count
        state[D_LOSS] = kit.sum(kit.softplus(state[D_FAKE_DETACHED]) + kit.softplus(-state[D_REAL])) / count
        return state[G_LOSS] + state[D_LOSS]

    return losses


def by_hand(real, generator, discriminator):
    """Both losses, and the gradient of each network's own loss."""
    fake = NOISE @ generator
    on_fake, on_real = fake @ discriminator, real @ discriminator
    g_loss = np.log1p(np.exp(-on_fake)).mean()
    d_loss = np.log1p(np.exp(on_fake)).mean() + np.log1p(np.exp(-on_real)).mean()
    d_generator = NOISE.T @ (-sigmoid(-on_fake) @ discriminator.T) / len(fake)
    d_discriminator = (fake.T @ sigmoid(on_fake) - real.T @ sigmoid(-on_real)) / len(fake)
    return g_loss, d_loss, d_generator, d_discriminator


@pytest.fixture
def real():
    return np.random.default_rng(5).normal(size=(8, 2)).astype("f4") + 1


@case(14)
def test_ac_14_a_model_that_returns_nothing_trains_without_a_criterion(kit, real):
    net = gan(kit)
    trial = quiet(net, kit.sgd(net, 0.1), None, ["loss"], [gan_loss(kit)])
    record = trial.with_train_generator([real]).run(1)[0]
    g_loss, d_loss, *_ = by_hand(real, np.array(GENERATOR), np.array(DISCRIMINATOR))
    np.testing.assert_allclose(record["loss"], g_loss + d_loss, rtol=1e-5)


@case(15)
def test_ac_15_a_parameter_for_the_state_is_enough(kit, line):
    seen = []
    with_state = kit.state_module({"p": np.ones((3, 2))}, lambda net, x, state: seen.append(state[X] is x) or x @ net.p)
    without = kit.module({"p": np.ones((3, 2))}, lambda net, x: x @ net.p)
    for net in (with_state, without):
        quiet(net, kit.sgd(net, 0.01), kit.mse).with_train_data(*line, batch_size=4).run(1)
    assert seen
    assert all(seen)
    for one, other in zip(kit.weights(with_state).values(), kit.weights(without).values(), strict=True):
        np.testing.assert_array_equal(one, other)


@case(16)
def test_ac_16_stored_losses_are_metrics_by_their_keys(kit, real):
    net = gan(kit)
    metrics = ["loss", mean(running_mean(G_LOSS)), D_LOSS]
    trial = quiet(net, kit.sgd(net, 0.0), None, metrics, [gan_loss(kit)]).with_train_generator([real, 2 * real])
    record = trial.with_val_generator([real]).run(1)[0]
    weights = np.array(GENERATOR), np.array(DISCRIMINATOR)
    losses = np.array([by_hand(batch, *weights)[:2] for batch in (real, 2 * real)])
    np.testing.assert_allclose([record["g_loss"], record["d_loss"]], losses.mean(0), rtol=1e-5)
    np.testing.assert_allclose([record["running_g_loss"]], losses[0, 0], rtol=1e-5)
    np.testing.assert_allclose(record["loss"], losses.sum(1).mean(), rtol=1e-5)
    np.testing.assert_allclose([record["val_g_loss"]], losses[0, 0], rtol=1e-5)


@case(16)
def test_ac_16_what_a_compiled_step_stores_is_measured_at_every_step(kit, real):
    """No callback looks into the step, so that TensorFlow and JAX compile it."""
    net = gan(kit)

    def criterion(state):
        state[G_LOSS] = kit.mean(kit.softplus(-state[D_FAKE]))
        return state[G_LOSS] + kit.mean(kit.softplus(state[D_FAKE_DETACHED]) + kit.softplus(-state[D_REAL]))

    seen = []

    @on_step_training
    def look(state):
        seen.append((float(kit.numpy(state[G_LOSS])), kit.numpy(state[D_REAL])))

    batches = [real, 2 * real, 3 * real]
    record = quiet(net, kit.sgd(net, 0.0), criterion, ["loss", G_LOSS], [look]).with_train_generator(batches).run(1)[0]
    weights = np.array(GENERATOR), np.array(DISCRIMINATOR)
    losses = np.array([by_hand(batch, *weights)[:2] for batch in batches])
    np.testing.assert_allclose(record["loss"], losses.sum(1).mean(), rtol=1e-5)
    np.testing.assert_allclose([loss for loss, _ in seen], losses[:, 0], rtol=1e-5)
    for batch, (_, on_real) in zip(batches, seen, strict=True):
        np.testing.assert_allclose(on_real, batch @ weights[1], rtol=1e-4, atol=1e-6)


@case(17)
def test_ac_17_each_network_gets_the_gradient_of_its_own_loss(kit, real):
    expected = by_hand(real, np.array(GENERATOR), np.array(DISCRIMINATOR))[2:]
    found = {}
    for is_right in (True, False):
        net, seen = gan(kit, is_right=is_right), {}

        @on_backward
        def look(state, seen=seen):
            seen.update({name.rpartition("/")[2]: kit.numpy(value) for name, value in state[GRADIENTS].items()})

        quiet(net, kit.sgd(net, 0.1), None, [], [gan_loss(kit), look]).with_train_generator([real]).run(1)
        found[is_right] = seen
    np.testing.assert_allclose(found[True]["generator"], expected[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[True]["discriminator"], expected[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[False]["generator"], expected[0], rtol=1e-4, atol=1e-6)
    assert np.abs(found[False]["discriminator"] - expected[1]).max() > 0.01, "the paper's form mixes the losses"


CLOSURES = "not yet: its form of the case, by hand; there is no base_closure (contract 1.1)"


@case(18, "torch", without=dict.fromkeys(("tensorflow", "jax"), CLOSURES))
def test_ac_18_two_closures_step_two_optimizers(kit, real):
    generator, discriminator = kit.linear(GENERATOR), kit.linear(DISCRIMINATOR)
    optimizers = {"generator": kit.sgd(generator, 0.1), "discriminator": kit.sgd(discriminator, 0.1)}

    def closure(state):
        fake = generator(kit.array(NOISE))
        optimizers["generator"].zero_grad()
        state[G_LOSS] = kit.softplus(-discriminator(fake)).mean()
        state[G_LOSS].backward()
        optimizers["generator"].step()
        optimizers["discriminator"].zero_grad()
        state[D_LOSS] = (kit.softplus(discriminator(fake.detach())) + kit.softplus(-discriminator(state[X]))).mean()
        state[D_LOSS].backward()
        optimizers["discriminator"].step()
        state[LOSS] = (state[G_LOSS] + state[D_LOSS]).detach()

    n_steps = []

    @on_step_training
    def count(state):
        n_steps.append(True)

    trial = quiet(generator, optimizers, None, ["loss", G_LOSS, D_LOSS], [count]).with_closure(closure)
    record = trial.with_train_generator([real]).run(1)[0]
    start = np.array(GENERATOR), np.array(DISCRIMINATOR)
    g_loss, d_loss, d_generator, d_discriminator = by_hand(real, *start)
    np.testing.assert_allclose([record["g_loss"], record["d_loss"]], [g_loss, d_loss], rtol=1e-5)
    np.testing.assert_allclose(kit.weight(generator), start[0] - 0.1 * d_generator, rtol=1e-4)
    np.testing.assert_allclose(kit.weight(discriminator), start[1] - 0.1 * d_discriminator, rtol=1e-4)
    assert n_steps == [True]
