"""The default closure, stated once over the verbs of a backend."""

import inspect
import types

import numpy as np
import pytest

from delira.contract import NO_HOOKS, StepHooks, StepRole, default_closure
from delira.contract.closure import autoencoder_closure, gan_inputs, gan_losses, gan_optimizer, gan_results
from delira.errors import ConfigError, NetworkError


class Noting:
    """A backend and its roles in one, which notes what was called."""

    learn = StepRole.learn
    name = "noting"

    def __init__(self):
        self.called = []
        self.backend = self.calls = self.step = self

    def key_mapping(self, network):
        return {"x": "data"}

    def call_apart(self, network, inputs, call):
        self.called.append("call_apart")
        return call(inputs)

    def outputs(self, network, outputs):
        self.called.append("outputs")
        return outputs

    def added_losses(self, network):
        return {"added": 100}

    def predict(self, step, compute):
        self.called.append("predict")
        compute(step)

    def values(self, step):
        return dict(step.predictions), dict(step.losses)

    def measure(self, metrics, metric_keys, predictions, batch):
        return {name: metric(batch["label"], predictions["pred"]) for name, metric in metrics.items()}


class Learning(Noting):
    def learn(self, optimizer, step, compute, backward):
        self.called.append(f"learn {optimizer}")
        compute(step)
        for hook in backward:
            hook(step)


LOSSES, METRICS = {"less": lambda pred, label: label - pred}, {"sum": lambda label, pred: label + pred}
BATCH = {"data": 2, "label": 7}


def network(x):
    return {"pred": 10 * x}


def test_it_learns_with_the_optimizer_and_returns_metrics_losses_and_predictions():
    backend = Learning()
    found = default_closure(backend)(network, BATCH, {"default": "sgd"}, LOSSES, METRICS)
    assert found == ({"sum": 27}, {"less": -13, "added": 100}, {"pred": 20})
    assert backend.called == ["learn sgd", "call_apart", "outputs"]


def test_without_optimizers_nothing_is_learned_and_names_tell():
    backend = Learning()
    found = default_closure(backend)(network, BATCH, {}, LOSSES, METRICS)
    assert found == ({"val_sum": 27}, {"val_less": -13, "val_added": 100}, {"pred": 20})
    assert backend.called == ["predict", "call_apart", "outputs"]


def test_hooks_see_and_change_the_step_in_their_order():
    order = []
    moments = {
        name: (lambda step, name=name: order.append((name, step.predictions, dict(step.losses))),)
        for name in ("sample", "forward", "criterion", "backward")
    }
    double = lambda step: step.batch.update(data=4)  # noqa: E731
    hooks = StepHooks(**{**moments, "sample": (*moments["sample"], double)})
    default_closure(Learning())(network, dict(BATCH), {"default": "sgd"}, LOSSES, hooks=hooks)
    losses = {"less": -33, "added": 100}
    assert order == [
        ("sample", None, {}), ("forward", {"pred": 40}, {}),
        ("criterion", {"pred": 40}, losses), ("backward", {"pred": 40}, losses),
    ]  # fmt: skip


def test_a_call_stands_in_place_of_the_key_mapping():
    backend = Learning()
    found = default_closure(backend)(
        network, BATCH, {"default": "sgd"}, LOSSES, call=lambda network, batch: network(batch["data"] + 1)
    )
    assert found[2] == {"pred": 30}
    assert "call_apart" not in backend.called


def test_what_losses_and_networks_read_may_be_named():
    found = default_closure(Learning())(
        network, {"one": 1, "two": 2}, {"default": "sgd"}, LOSSES, key_mapping={"x": "two"},
        loss_keys={"less": ("pred", "one")},
    )  # fmt: skip
    assert found[1]["less"] == -19


def test_it_updates_with_the_optimizer_called_default():
    with pytest.raises(ConfigError, match="'default', but there are only"):
        default_closure(Learning())(network, BATCH, {"gen": "sgd"}, LOSSES)


def test_a_network_returns_a_dict():
    with pytest.raises(NetworkError, match="returned a int; a network returns a dict of named outputs"):
        default_closure(Learning())(lambda x: x, BATCH, {"default": "sgd"}, LOSSES)


def test_a_backend_without_gradients_says_so():
    with pytest.raises(ConfigError, match="networks of the backend 'noting' learn by a closure of their own"):
        default_closure(Noting())(network, BATCH, {"default": "sgd"}, LOSSES)


def test_it_is_a_backends_default_and_has_the_signature_of_every_closure():
    closure = default_closure(Learning())
    assert closure.is_backend_default
    names = ["model", "data_dict", "optimizers", "losses", "metrics", "fold", "kwargs"]
    assert list(inspect.signature(closure).parameters) == names


CALLS = types.SimpleNamespace(key_mapping=lambda network: {"real_image_batch": "data"})
MODEL = types.SimpleNamespace(__delira_backend__=types.SimpleNamespace(calls=CALLS))


def distance(pred, label):
    return float(np.abs(pred - label).sum())


def test_images_and_noise_are_found_in_the_batch():
    assert gan_inputs(MODEL, {"data": 1}, {}) == (1, None)
    mapping = {"real_image_batch": "images", "noise": "z"}
    assert gan_inputs(MODEL, {"images": 1, "z": 2}, {"key_mapping": mapping}) == (1, 2)


def test_hooks_of_a_step_are_refused_where_there_are_two():
    with pytest.raises(ConfigError, match="the closure of a GAN makes two updates, so it runs no hooks"):
        gan_inputs(MODEL, {"data": 1}, {"hooks": StepHooks(criterion=(print,))})
    assert gan_inputs(MODEL, {"data": 1}, {"hooks": NO_HOOKS}) == (1, None)


def test_each_part_has_its_target():
    logits = {"discr_real": np.array([0.5]), "discr_fake": np.array([0.5]), "adversarial": np.array([0.25])}
    found = gan_losses({"l1": distance}, logits, np.full_like)
    assert found == {"l1_discr_real": 0.5, "l1_discr_fake": 0.5, "l1_adversarial": 0.75}
    assert gan_losses(None, logits, np.full_like) == {}


def test_an_optimizer_that_is_not_there_is_missed_with_what_builds_it():
    assert gan_optimizer({"gen": 1}, "gen", "build") == 1
    with pytest.raises(ConfigError, match=r"there are only \['gen'\]; pass optim_fn=build, which is in delira"):
        gan_optimizer({"gen": 1}, "discr", "build")


@pytest.mark.parametrize(("learns", "prefix"), [(True, ""), (False, "val_")])
def test_results_of_a_validation_are_named_so(learns, prefix):
    logits = {"discr_real": np.array([2.0]), "discr_fake": np.array([3.0]), "adversarial": np.array([4.0])}
    metrics, losses, predictions = gan_results(
        "images", logits, {"l1": 1.0}, {"off": lambda label, pred: float(pred[0] - label[0])}, learns, np.full_like
    )
    assert metrics == {f"{prefix}off_discr_real": 1.0, f"{prefix}off_discr_fake": 3.0, f"{prefix}off_adversarial": 3.0}
    assert losses == {f"{prefix}l1": 1.0}
    assert predictions == {
        "fake_images": "images",
        "discr_fake": logits["discr_fake"],
        "discr_real": logits["discr_real"],
    }


def test_an_autoencoder_has_the_divergence_as_one_loss_more():
    seen = {}

    def closure(model, data_dict, optimizers, losses, metrics, fold, **more):
        seen.update(more)
        step = types.SimpleNamespace(losses={}, predictions={"mu": 2})
        for hook in more["hooks"].criterion:
            hook(step)
        return {}, step.losses, {}

    model = types.SimpleNamespace(
        __delira_backend__=types.SimpleNamespace(calls=types.SimpleNamespace(key_mapping=lambda one: {"x": "data"}))
    )
    with_divergence = autoencoder_closure(closure, lambda predictions: predictions["mu"] * 10)
    _, losses, _ = with_divergence(model, {}, {}, {"mse": lambda pred, label: 0})
    assert losses == {"kl": 20}
    assert seen["loss_keys"] == {"mse": ("pred", "data")}
    step = types.SimpleNamespace(losses=None, predictions={"mu": 2, "pred": 5}, batch={"data": 3})
    found = with_divergence.validation_losses({"l1": lambda pred, label: pred - label}, {}, {"x": "data"}, step)
    assert found == {"l1": 2, "kl": 20}
