"""What the closures of ready networks have in common: parts of a GAN, and one loss more of an autoencoder."""

import types

import numpy as np
import pytest

from delira.contract import NO_HOOKS, StepHooks
from delira.contract.ready_steps import autoencoder_closure, gan_inputs, gan_losses, gan_optimizer, gan_results
from delira.errors import ConfigError

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
