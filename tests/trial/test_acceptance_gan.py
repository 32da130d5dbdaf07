"""Acceptance cases 14 to 18 of the Trial: generative adversarial networks."""

import numpy as np
import pytest
from kits import case, quiet

import delira
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import add_to_loss, on_backward, on_step_training
from delira.errors import ConfigError
from delira.metrics import mean, running_mean
from delira.state import CLOSURE, GRADIENTS, OPTIMIZER, Y_PRED, X
from delira.trial import base_closure, combined_closure, standard_closure

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


G_MODEL, D_MODEL = delira.state_key("g_model"), delira.state_key("d_model")


def two_networks(kit, callbacks=()):
    """A trial of two networks, each with its optimizer, that learn in turn."""
    nets = {"generator": kit.linear(GENERATOR), "discriminator": kit.linear(DISCRIMINATOR)}
    optimizers = {name: kit.sgd_of(net, 0.1) for name, net in nets.items()}

    def fool(state):
        return kit.sum(kit.softplus(-state[D_MODEL](state[Y_PRED]))) / len(NOISE)

    def judge(state):
        fake = kit.detached(state[G_MODEL](kit.array(NOISE)))
        return kit.sum(kit.softplus(state[D_MODEL](fake)) + kit.softplus(-state[Y_PRED])) / len(NOISE)

    closures = (
        base_closure(X, D_MODEL, criterion=judge, loss=D_LOSS, optimizer="discriminator"),
        base_closure(lambda state: kit.array(NOISE), G_MODEL, criterion=fool, loss=G_LOSS,
                     optimizer="generator"),
    )  # fmt: skip
    trial = quiet(kit.both(**nets), optimizers, None, ["loss", G_LOSS, D_LOSS], callbacks)
    trial.state[G_MODEL], trial.state[D_MODEL] = nets["generator"], nets["discriminator"]
    return trial.with_closure(combined_closure(*closures)), nets


@case(18)
def test_ac_18_two_closures_step_two_optimizers(kit, real):
    seen = []

    class Look(Callback):
        def on_forward(self, state):
            seen.append(("forward", state[CLOSURE], kit.numpy(kit.detached(state[Y_PRED])).shape))

        def on_criterion(self, state):
            seen.append(("criterion", state[CLOSURE]))

        def on_backward(self, state):
            seen.append(("backward", state[CLOSURE], len(state[GRADIENTS])))

    trial, nets = two_networks(kit, [Look()])
    record = trial.with_train_generator([real]).run(1)[0]
    g, d = np.array(GENERATOR), np.array(DISCRIMINATOR)
    _, d_loss, _, d_discriminator = by_hand(real, g, d)
    learned = d - 0.1 * d_discriminator
    g_loss, _, d_generator, _ = by_hand(real, g, learned)  # of a discriminator that has learned
    np.testing.assert_allclose([record["g_loss"], record["d_loss"]], [g_loss, d_loss], rtol=1e-5)
    assert record["loss"] == pytest.approx(g_loss + d_loss, rel=1e-5)
    np.testing.assert_allclose(kit.weight(nets["discriminator"]), learned, rtol=1e-4)
    np.testing.assert_allclose(kit.weight(nets["generator"]), g - 0.1 * d_generator, rtol=1e-4)
    assert seen == [
        ("forward", "discriminator", (8, 1)), ("criterion", "discriminator"), ("backward", "discriminator", 1),
        ("forward", "generator", (8, 2)), ("criterion", "generator"), ("backward", "generator", 1),
    ]  # fmt: skip


@case(18)
def test_ac_18_both_networks_and_optimizers_are_stored(kit, real):
    whole, nets = two_networks(kit)
    whole.with_train_generator([real, real]).run(3)
    first, _ = two_networks(kit)
    first.with_train_generator([real, real]).run(1)
    second, resumed = two_networks(kit)
    second.with_train_generator([real, real]).load_state_dict(first.state_dict())
    second.run(3)
    assert second.history == whole.history
    for name, net in nets.items():
        np.testing.assert_array_equal(kit.weight(resumed[name]), kit.weight(net))


@case(18)
def test_ac_18_one_closure_is_the_step_as_it_comes(kit, line):
    def losses(with_closure):
        net = kit.linear(np.zeros((3, 2)))

        @add_to_loss
        def further(state):
            return 0.1 * kit.sum(state[Y_PRED] ** 2)

        trial = quiet(net, kit.sgd(net, 0.1), kit.mse, ["loss"], [further]).with_train_data(*line, 5)
        trial = trial.with_closure(standard_closure) if with_closure else trial
        return [record["loss"] for record in trial.run(2)], kit.weight(net)

    (own, weight), (usual, usual_weight) = losses(True), losses(False)
    np.testing.assert_allclose(own, usual, rtol=1e-6)
    np.testing.assert_allclose(weight, usual_weight, rtol=1e-5, atol=1e-7)


@case(18, "torch", only="")
def test_ac_18_optimizers_may_be_stepped_by_hand(kit, real):
    trial, nets = two_networks(kit)
    twin, other = two_networks(kit)
    judge = base_closure(X, D_MODEL, criterion=lambda state: state[Y_PRED].mean(), optimizer="discriminator")

    def by_hand(state):
        judge(state)
        state[OPTIMIZER]["discriminator"].step()

    for one, closure in ((trial, by_hand), (twin, combined_closure(judge))):
        one.state[G_LOSS] = one.state[D_LOSS] = 0.0
        one.with_closure(closure).with_train_generator([real]).run(1)
    np.testing.assert_array_equal(kit.weight(nets["discriminator"]), kit.weight(other["discriminator"]))
    assert (kit.weight(nets["discriminator"]) != DISCRIMINATOR).any()
    assert trial.state[G_MODEL].weight.grad is None


@case(18)
def test_ac_18_an_optimizer_that_is_not_the_trials_is_refused(kit, real):
    trial, _ = two_networks(kit)
    wrong = base_closure(X, D_MODEL, criterion=kit.mse, optimizer="discriminatr")
    with pytest.raises(ConfigError, match="did you mean 'discriminator'"):
        trial.with_closure(wrong).with_train_generator([real]).run(1)
