"""What ready networks of all backends share, on arrays of numpy."""

import numpy as np
import pytest

from delira.contract import StepHooks
from delira.contract.closure import (
    autoencoder_closure,
    described_by_base,
    gan_inputs,
    gan_losses,
    gan_optimizer,
    gan_results,
)
from delira.errors import ConfigError, MissingKeyError
from delira.models import AbstractNetwork, ready

LABELS = ready.Labels(
    is_numeric=lambda value: isinstance(value, np.ndarray),
    integers=lambda label: label.astype(int),
    floats=lambda label: label.astype(np.float32),
)


def kept(change, label, *arguments):
    batch = {"data": None, "label": label}
    prepared = change(dict(batch), *arguments, **({} if change == LABELS.values else {"batch": batch}))["label"]
    return prepared.shape, prepared.dtype.kind


def test_labels_become_what_losses_take():
    assert kept(LABELS.class_numbers, np.zeros((2, 1))) == ((2,), "i")
    assert kept(LABELS.class_numbers, np.zeros(1)) == ((1,), "i")
    assert kept(LABELS.values, np.zeros(2, int)) == ((2, 1), "f")
    assert kept(LABELS.values, np.zeros((2, 3), int)) == ((2, 3), "f")
    assert kept(LABELS.masks, np.zeros((2, 1, 4, 5)), 2) == ((2, 4, 5), "i")
    assert kept(LABELS.masks, np.zeros((2, 4, 5)), 2) == ((2, 4, 5), "i")
    assert kept(LABELS.masks, np.zeros((2, 3, 4, 5), int), 2) == ((2, 3, 4, 5), "f")
    assert kept(LABELS.masks, np.zeros((2, 1, 4, 5)), 3) == ((2, 1, 4, 5), "i")
    for change in (
        lambda prepared: LABELS.class_numbers(prepared, {}),
        LABELS.values,
        lambda prepared: LABELS.masks(prepared, 2, {}),
    ):
        assert change({"data": 1, "label": ["a"]}) == {"data": 1, "label": ["a"]}
        assert change({"data": 1}) == {"data": 1}


class Parts(AbstractNetwork):
    """A backend whose layers are their arguments."""

    __call__ = None

    @staticmethod
    def _build_model(*args, **kwargs):
        return args, kwargs

    @staticmethod
    def _build_models(*args, **kwargs):
        return args, kwargs


def build(base, *args, backend=Parts, **kwargs):
    return described_by_base(type("Network", (base, backend), {"__doc__": "Of a backend."}))(*args, **kwargs)


def test_arguments_reach_the_parts_and_are_kept():
    network = build(ready.Classification, 3, 5, start_filts=2)
    assert network.module == ((3, 5), {"start_filts": 2})
    assert network.init_kwargs == {"in_channels": 3, "n_outputs": 5, "start_filts": 2}
    network = build(ready.UNet3d, 2, depth=3)
    assert network.module[1] == {"n_axes": 3, **network.init_kwargs}
    assert (network.init_kwargs["in_channels"], network.init_kwargs["depth"]) == (3, 3)
    network = build(ready.GenerativeAdversarialNetwork, 1, 7)
    assert (network.nz, network.gen) == (7, (1, 7))
    assert build(ready.VariationalAutoencoder, 1, (8, 12)).encoder == (1, (2, 3), 20, 32)
    assert type(network).__doc__.startswith("Of a backend.\n\nImages like those")


def test_a_backend_says_what_weights_are_drawn_from():
    drawing = type("Drawing", (Parts,), {"drawn_from": {"rngs": 1}})
    assert build(ready.Regression, 3, 5, backend=drawing).module == ((3, 5), {"rngs": 1})


@pytest.mark.parametrize("size", [10, 0, (8, 6), (8, 8, 8)])
def test_an_autoencoder_takes_multiples_of_4(size):
    with pytest.raises(ConfigError, match="image_size must be a multiple of 4"):
        build(ready.VariationalAutoencoder, 1, size)


def test_a_gan_is_judged_by_three_parts():
    logits = {"discr_real": np.full((2, 1), 3.0), "discr_fake": np.full((2, 1), 5.0)}
    losses = gan_losses({"gap": lambda logits, target: np.mean(logits - target)}, logits, np.full_like)
    assert losses == {"gap_discr_real": 2.0, "gap_discr_fake": 5.0}
    logits["adversarial"] = np.full((2, 1), 7.0)
    wanted = {"wanted": lambda target, logits: target.mean()}
    values, _, predictions = gan_results("images", logits, losses, wanted, True, np.full_like)
    assert values == {"wanted_discr_real": 1.0, "wanted_discr_fake": 0.0, "wanted_adversarial": 1.0}
    assert predictions.keys() == {"fake_images", "discr_fake", "discr_real"}
    values, losses, _ = gan_results("images", logits, losses, None, False, np.full_like)
    assert (values, losses) == ({}, {"val_gap_discr_real": 2.0, "val_gap_discr_fake": 5.0})


def test_a_gan_says_what_it_needs():
    mapping = {"key_mapping": {"real_image_batch": "data"}}
    assert gan_inputs(None, {"data": 1}, mapping) == (1, None)
    with pytest.raises(ConfigError, match="runs no hooks"):
        gan_inputs(None, {"data": 1}, {"hooks": StepHooks(sample=(print,)), **mapping})
    with pytest.raises(MissingKeyError, match="key_mapping"):
        gan_inputs(None, {"image": 1}, mapping)
    assert gan_optimizer({"gen": 1}, "gen", "builder") == 1
    with pytest.raises(ConfigError, match=r"only \['default'\]; pass optim_fn=builder"):
        gan_optimizer({"default": 1}, "gen", "builder")


def test_the_closure_of_an_autoencoder_compares_images_and_may_be_compiled():
    def default(*args, **kwargs):
        return args, kwargs

    closure = autoencoder_closure(default, divergence=len)
    _, found = closure(None, {}, {}, {"mse": 1}, {"mae": 2}, key_mapping={"x": "data"}, loss_keys={"mse": ("a", "b")})
    assert (found["loss_keys"], found["metric_keys"]) == ({"mse": ("a", "b")}, {"mae": ("data", "pred")})
    assert found["hooks"].traceable
