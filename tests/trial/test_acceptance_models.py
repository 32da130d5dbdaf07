"""Acceptance cases 19 to 24 of the Trial: SVM, VAE, and functions that are minimised."""

import numpy as np
import pytest
from kits import case, quiet
from PIL import Image

import delira
from delira.callbacks.decorators import (
    add_to_loss,
    on_end_validation,
    on_step_training,
    once,
    only_if,
    traceable,
)
from delira.callbacks.imaging import MakeGrid, make_grid
from delira.errors import ConfigError
from delira.metrics import Metric, to_dict
from delira.state import BATCH, METRICS, MODEL, PHASE, PREDICTION, TARGET, TEST_DATA, Y_PRED, X
from delira.training.callbacks import ExponentialLR, L2WeightDecay

# ------------------------------------------------------------------ SVM


@case(19)
def test_ac_19_a_support_vector_machine_separates(kit, blobs):
    x, labels = blobs
    y = (2.0 * labels[:, None] - 1).astype("f4")
    net, drawn = kit.module({"weight": [[0.1], [-0.1]], "bias": [0.0]}, lambda net, x: x @ net.weight + net.bias), []

    def hinge(y_pred, y_true):
        return kit.mean(kit.relu(1 - y_pred * y_true))

    decay = L2WeightDecay(0.01, params=lambda name: name.endswith("weight"))

    @only_if(lambda state: state[BATCH] % 10 == 0)
    @on_step_training
    def draw(state):
        drawn.append((kit.weights(state[MODEL]), state[BATCH]))

    callbacks = [decay, ExponentialLR(0.999, step_on_batch=True), draw]
    trial = quiet(net, kit.tunable_sgd(net, 0.1), hinge, ["loss"], callbacks).with_train_data(x, y, batch_size=32)
    history = trial.for_train_steps(25).run(4)
    [rate] = trial.trainer.backend.optimizers.learning_rates(trial.trainer.optimizers).values()
    np.testing.assert_allclose(rate, 0.1 * 0.999**100, rtol=1e-5)
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    bias, weight = sorted(kit.weights(net).values(), key=np.ndim)
    assert (np.sign(x @ weight + bias) == y).all()
    assert [batch for _, batch in drawn] == [0, 10, 20] * 4


# ------------------------------------------------------------------ VAE

MU, LOG_VARIANCE, KL = (delira.state_key(f"ac_vae_{name}") for name in ("mu", "log_variance", "kl"))


def vae(kit):
    """A variational auto-encoder of 4 pixels with 2 latent numbers; the noise is fixed."""
    rng = np.random.default_rng(3)
    weights = {name: 0.5 * rng.normal(size=shape) for name, shape in (("mu", (4, 2)), ("log", (4, 2)), ("out", (2, 4)))}

    def compute(net, x, state):
        mu, log_variance = x @ net.mu, x @ net.log
        state[MU], state[LOG_VARIANCE] = mu, log_variance
        noise = 0.5 if state[PHASE] == "fit" and state[delira.state.DATA] == "train_data" else 0.0
        return (mu + noise * kit.exp(log_variance * 0.5)) @ net.out

    return kit.state_module(weights, compute), weights


def bce(kit):
    def summed(y_pred, y_true):
        return kit.sum(kit.softplus(y_pred) - y_pred * y_true)

    return summed


def kl(kit):
    @traceable
    @add_to_loss
    def divergence(state):
        mu, log_variance = state[MU], state[LOG_VARIANCE]
        state[KL] = -0.5 * kit.sum(1 + log_variance - mu * mu - kit.exp(log_variance))
        return state[KL]

    return divergence


def vae_by_hand(x, weights, noise):
    mu, log_variance = x @ weights["mu"], x @ weights["log"]
    out = (mu + noise * np.exp(0.5 * log_variance)) @ weights["out"]
    return (np.logaddexp(0, out) - out * x).sum(), -0.5 * (1 + log_variance - mu**2 - np.exp(log_variance)).sum()


@pytest.mark.sampled("values")
@case(20)
@pytest.mark.parametrize("compiled", [True, False])
def test_ac_20_the_divergence_is_in_training_and_validation_loss(kit, compiled):
    x = (np.random.default_rng(4).random((6, 4)) > 0.5).astype("f4")
    net, weights = vae(kit)
    settings = {} if compiled else {"compiled": False}
    trial = quiet(net, kit.sgd(net, 0.0), bce(kit), ["loss", KL], [kl(kit)], **settings)
    trial.with_train_generator([(x, x)]).with_val_generator([(x, x)])
    record = trial.run(1)[0]
    in_training, without_noise = vae_by_hand(x, weights, 0.5), vae_by_hand(x, weights, 0.0)
    np.testing.assert_allclose([record["loss"], record[str(KL)]], [sum(in_training), in_training[1]], rtol=1e-4)
    np.testing.assert_allclose(
        [record["val_loss"], record[f"val_{KL}"]], [sum(without_noise), without_noise[1]], rtol=1e-4
    )
    np.testing.assert_allclose(trial.evaluate()["val_loss"], sum(without_noise), rtol=1e-4)


@case(20)
def test_ac_20_the_gradient_of_the_divergence_is_learned(kit):
    x = (np.random.default_rng(4).random((6, 4)) > 0.5).astype("f4")
    net, weights = vae(kit)
    quiet(net, kit.sgd(net, 1e-3), bce(kit), [], [kl(kit)]).with_train_generator([(x, x)]).run(1)
    found = next(value for name, value in kit.weights(net).items() if name.endswith("mu"))
    step, at = 1e-4, {}
    for sign in (-1, 1):
        moved = {**weights, "mu": weights["mu"] + sign * step * np.eye(4, 2)}
        at[sign] = sum(vae_by_hand(x, moved, 0.5))
    slope = (at[1] - at[-1]) / (2 * step)
    np.testing.assert_allclose((weights["mu"] - found)[[0, 1], [0, 1]].sum(), 1e-3 * slope, rtol=1e-2)


@case(21)
def test_ac_21_accuracy_needs_a_criterion_that_is_known(kit, line):
    net = kit.linear(np.ones((3, 2)))
    trial = quiet(net, kit.sgd(net, 0.01), bce(kit), ["acc"]).with_train_data(*line, batch_size=4)
    with pytest.raises(ConfigError, match="acc"):
        trial.run(1)


@case(22)
def test_ac_22_targets_and_predictions_are_written_once_on_the_test_pass(kit, line):
    x, y = line
    written, net = [], kit.linear(np.ones((3, 2)))

    @only_if(lambda state: state[PHASE] == "predict")
    @once
    @on_end_validation
    def write(state):
        written.append((kit.numpy(state[X]), kit.numpy(state[Y_PRED])))

    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, [], [write]).with_data(x, y, x, y, x, batch_size=5, shuffle=False)
    trial.run(2)
    trial.evaluate()
    assert written == []
    for _ in range(2):
        trial.predict()
    [(inputs, predictions)] = written
    np.testing.assert_array_equal(inputs, x[10:])
    np.testing.assert_allclose(predictions, x[10:] @ np.ones((3, 2)), rtol=1e-5)


@case(22)
def test_ac_22_grids_of_targets_and_predictions_are_files_of_the_test_pass(kit, tmp_path):
    pictures = np.random.default_rng(0).random((10, 1, 4, 5)).astype("f4") / 2
    x = pictures if kit.name == "torch" else np.moveaxis(pictures, 1, -1).copy()
    batches, written = [(x[:4], 1 - x[:4]), (x[4:], 1 - x[4:])], []
    grids = [
        MakeGrid(key, 8, nrow=4).on_test().to_file(tmp_path / f"{name}.png").with_handler(lambda *_: written.append(1))
        for key, name in ((TARGET, "targets"), (PREDICTION, "predictions"))
    ]
    net = kit.module({"scale": [2.0]}, lambda net, x: x * net.scale)
    trial = quiet(net, kit.sgd(net, 0.0), kit.mse, ["loss"], grids).with_test_generator(batches)
    trial.with_train_generator(batches).with_val_generator(batches).run(2)
    assert list(tmp_path.iterdir()) == []
    trial.evaluate(data_key=TEST_DATA)
    assert len(written) == 2
    for name, wanted in (("targets", 1 - pictures[:8]), ("predictions", 2 * pictures[:8])):
        with Image.open(tmp_path / f"{name}.png") as picture:
            np.testing.assert_allclose(np.asarray(picture) / 255, make_grid(wanted, nrow=4)[0], atol=0.51 / 255)


# ------------------------------------------------------------------ minimised functions

PLACE = delira.state_key("ac_place")


def himmelblau(place):
    return (place[0] * place[0] + place[1] - 11) ** 2 + (place[0] + place[1] * place[1] - 7) ** 2


@pytest.mark.sampled("values")
@case(23)
@pytest.mark.parametrize(("optimizer", "rate", "steps"), [
    ("sgd", 0.003, 100), ("momentum", 0.002, 150), ("adam", 0.1, 300), ("rmsprop", 0.02, 300),
])  # fmt: skip
def test_ac_23_himmelblau_is_minimised_and_its_path_is_read(kit, optimizer, rate, steps):
    def compute(net, x, state):
        state[PLACE] = net.place * 1.0
        return himmelblau(state[PLACE])

    path, net = [], kit.state_module({"place": [2.0, 1.5]}, compute)

    @on_step_training
    def follow(state):
        path.append(state[METRICS][str(PLACE)].item())

    made = kit.sgd(net, rate, 0.7) if optimizer == "momentum" else getattr(kit, optimizer)(net, rate)
    quiet(net, made, Y_PRED, [to_dict(PLACE)], [follow]).for_train_steps(steps).run(1)
    assert len(path) == steps
    np.testing.assert_allclose(path[0], [2.0, 1.5])
    np.testing.assert_allclose(next(iter(kit.weights(net).values())), [3.0, 2.0], atol=0.03)
    if optimizer == "sgd":
        place = np.array([2.0, 1.5])
        for found in path[:10]:
            np.testing.assert_allclose(found, place, rtol=1e-4)
            one, two = place[0] ** 2 + place[1] - 11, place[0] + place[1] ** 2 - 7
            place = place - rate * np.array([4 * place[0] * one + 2 * two, 2 * one + 4 * place[1] * two])


class Place(Metric):
    """The one weight of a network, after the update."""

    def __init__(self, kit):
        super().__init__("place")
        self.kit = kit

    def process(self, state):
        return float(next(iter(self.kit.weights(state[MODEL]).values()))[0])

    process_final = process


@pytest.mark.sampled("values")
@case(24)
@pytest.mark.parametrize("compiled", [False, True])
def test_ac_24_the_counter_example_of_adam(kit, compiled):
    """f_t(p) = 1010 p at every 101st step, -10 p else; the minimum over [-1, 1] is at -1 (Reddi et al., 2018)."""

    def compute(net, x, state):
        is_large = state[BATCH] % 101 == 1
        slope = kit.where(is_large, 10.1, -0.1) if compiled else 10.1 if is_large else -0.1
        return kit.sum(net.p) * slope

    net, seen = kit.state_module({"p": [0.0]}, compute), []

    @on_step_training
    def clamp(state):
        value = next(iter(kit.weights(state[MODEL]).values()))
        kit.set_weight(state[MODEL], "p", np.clip(value, -1, 1))

    @on_step_training
    def follow(state):
        seen.append(float(state[METRICS]["place"]))

    settings = {} if compiled or kit.name == "torch" else {"compiled": False}
    trial = quiet(net, kit.sgd(net, 0.01), Y_PRED, [to_dict(Place(kit))], [clamp, follow], **settings)
    record = trial.for_train_steps(303).run(1)[0]
    expected, value = [], 0.0
    for step in range(303):
        value -= 0.01 * (10.1 if step % 101 == 1 else -0.1)
        expected.append(value)  # metrics come before the callbacks of the step
        value = float(np.clip(value, -1, 1))
    np.testing.assert_allclose(seen, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(record["place"], value, atol=1e-5)
