"""The ready networks of the TensorFlow backend: those of PyTorch, in structure, arithmetic and training."""

import numpy as np
import pytest
from ready_networks import DRAWS_NOT, OF_IMAGES, READY, Ready, assert_as_moved

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

import delira.models  # noqa: E402
from delira.backends.tensorflow.networks.layers import batch_norm, convolution  # noqa: E402
from delira.backends.tensorflow.networks.ready import kl_to_standard_normal  # noqa: E402
from delira.errors import ConfigError, DataError  # noqa: E402
from delira.models import (  # noqa: E402
    ClassificationNetworkBaseTf,
    RegressionNetworkBaseTf,
    UNet2dTf,
    UNet3dTf,
    VariationalAutoencoderTf,
    VGG3DClassificationNetworkTf,
    named_weights,
    transfer_weights,
)
from delira.training import TfNetworkTrainer, create_optims_gan_default_tf  # noqa: E402
from delira.utils.frameworks import find_backend  # noqa: E402

LOSSES = {
    "ce": lambda pred, label: tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(label, tf.einsum("bc...->b...c", pred))
    ),
    "mse": lambda pred, label: tf.reduce_mean(tf.square(pred - label)),
    "bce": lambda pred, label: tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label, pred)),
}
GAN = next(ready for ready in READY if ready.is_gan)


def build(ready: Ready):
    keras.utils.set_random_seed(0)
    return ready.build(delira.models, "Tf")


def trainer(ready: Ready, network, path, **more):
    if ready.is_gan:
        more.setdefault("optim_fn", create_optims_gan_default_tf)
    return TfNetworkTrainer(
        network, path, losses={"loss": LOSSES[ready.loss]}, key_mapping=ready.key_mapping, logging_type=None,
        verbose=False, optimizer_cls=keras.optimizers.SGD,
        **{"optimizer_params": {"lr": 0.05, "momentum": 0.5}, "save_freq": None, **more},
    )  # fmt: skip


def weights(network):
    return find_backend(network).weights.portable(network)


# ------------------------------------------------------------------ as in PyTorch


@pytest.mark.left_to_full("add|upsample|3[dD]|Regression")
@pytest.mark.parametrize("ready", READY, ids=str)
def test_transferred_weights_give_pytorchs_predictions(ready):
    pytest.importorskip("torch")
    import torch_twins

    network, twin = build(ready), torch_twins.build(ready)
    own, theirs = weights(network), torch_twins.weights(twin)
    assert list(own) == list(theirs)
    for name, array in own.items():  # they start alike, too
        assert array.shape == theirs[name].shape
        if array.size >= 256:
            np.testing.assert_allclose(array.std(), theirs[name].std(), rtol=0.2, err_msg=name)
        if array.size > 1 and not theirs[name].std():  # biases, and weights of batch normalisation
            np.testing.assert_array_equal(array, theirs[name], err_msg=name)
    transfer_weights(twin, network)
    inputs = ready.inputs()
    predictions = network(*inputs.values(), training=False)
    expected = torch_twins.predictions(twin, inputs)
    assert predictions.keys() == expected.keys()
    for name, value in expected.items():
        assert np.abs(value).max() > 1e-4, f"{name} shows nothing"
        np.testing.assert_allclose(predictions[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert ready.arguments.items() <= network.init_kwargs.items()


@pytest.mark.parametrize("ready", DRAWS_NOT)
def test_a_step_of_training_is_pytorchs(ready, tmp_path):
    pytest.importorskip("torch")
    import torch_twins

    network, twin = build(ready), torch_twins.build(ready)
    transfer_weights(twin, network)
    start = weights(network)
    ready.train(torch_twins.trainer(ready, twin, tmp_path / "torch"), num_steps=1)
    ready.train(trainer(ready, network, tmp_path / "tf", compiled=False), num_steps=1)
    assert_as_moved(weights(network), torch_twins.weights(twin), start)


# ------------------------------------------------------------------ without another backend


@pytest.mark.left_to_full("shape[235]")
@pytest.mark.parametrize(
    ("network", "shape", "out"),
    [
        (lambda: ClassificationNetworkBaseTf(3, 5, start_filts=2), (2, 3, 1, 1), (2, 5)),
        (lambda: RegressionNetworkBaseTf(2, 4, start_filts=2), (3, 2, 37, 20), (3, 4)),
        (lambda: VGG3DClassificationNetworkTf(4, 2, start_filts=1), (1, 4, 3, 1, 9), (1, 2)),
        (lambda: UNet2dTf(3, 4, depth=2, start_filts=2), (2, 4, 5, 9), (2, 3, 5, 9)),
        (lambda: UNet2dTf(1, depth=1, start_filts=2), (1, 1, 1, 1), (1, 1, 1, 1)),
        (lambda: UNet3dTf(2, depth=3, start_filts=2), (1, 3, 4, 7, 5), (1, 2, 4, 7, 5)),
        (lambda: VariationalAutoencoderTf(2, (12, 8), 5, 2), (3, 2, 12, 8), (3, 2, 12, 8)),
    ],
)
def test_any_number_of_channels_and_any_size(network, shape, out):
    assert network()(np.ones(shape, np.float32), training=False)["pred"].shape == out


@pytest.mark.parametrize("ready", [GAN, READY[-1]], ids=str)
def test_weights_are_there_at_once_and_the_same_for_a_seed(ready):
    one, two = named_weights(build(ready)), named_weights(build(ready))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_batch_normalisation_keeps_the_estimated_variance():
    layer = batch_norm(2)
    values = np.random.default_rng(0).normal(3, 2, size=(3, 5, 2)).astype(np.float32)
    normalised = layer(values, training=True)
    rows = values.reshape(-1, 2).astype(np.float64)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * rows.var(0, ddof=1), rtol=1e-5)
    expected = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-5)
    np.testing.assert_allclose(normalised, expected.reshape(3, 5, 2), rtol=1e-4, atol=1e-5)
    layer.trainable = False  # frozen: it predicts, and keeps nothing
    before = layer.moving_variance.numpy()
    layer(values, training=True)
    np.testing.assert_array_equal(layer.moving_variance, before)


@pytest.mark.parametrize(
    "ready", [READY[-1], *(pytest.param(ready, marks=pytest.mark.slow) for ready in (READY[0], GAN))], ids=str
)
def test_a_compiled_step_is_the_python_of_it(ready, tmp_path):
    results, start = [], weights(build(ready))
    for compiled in (None, False):
        network = build(ready)
        ready.train(trainer(ready, network, tmp_path / str(compiled), compiled=compiled), num_steps=1)
        results.append(weights(network))
    assert_as_moved(*results, start)


def test_labels_become_what_losses_take():
    prepare = ClassificationNetworkBaseTf.prepare_batch
    data = np.zeros((2, 1, 4, 4))
    for label in ([1, 2], [[1], [2]], [[1.0], [2.0]]):
        prepared = prepare({"data": data, "label": np.array(label), "name": ["a", "b"]}, "cpu", "cpu")
        assert prepared["label"].dtype == tf.int64
        assert prepared["label"].shape == (2,)
        assert prepared["name"] == ["a", "b"]
    regression = RegressionNetworkBaseTf.prepare_batch({"data": data, "label": np.array([1, 2])}, "cpu", "cpu")
    assert regression["label"].dtype == tf.float32
    assert regression["label"].shape == (2, 1)
    masks = {
        (2, 1, 4, 4): ((2, 4, 4), tf.int64),
        (2, 4, 4): ((2, 4, 4), tf.int64),
        (2, 3, 4, 4): ((2, 3, 4, 4), tf.float32),
    }
    for given, (shape, dtype) in masks.items():
        prepared = UNet2dTf.prepare_batch({"data": data, "label": np.zeros(given, np.uint8)}, "cpu", "cpu")
        assert (tuple(prepared["label"].shape), prepared["label"].dtype) == (shape, dtype)
    prepared = UNet3dTf.prepare_batch({"data": data, "label": np.zeros((2, 1, 3, 4, 4), bool)}, "cpu", "cpu")
    assert prepared["label"].shape == (2, 3, 4, 4)


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match=r"\[3, 9\] are too small: every axis needs at least 4"):
        UNet2dTf(2, depth=3, start_filts=1)(np.zeros((1, 1, 3, 9), np.float32))
    with pytest.raises(ConfigError, match="up_mode must be"):
        UNet2dTf(2, up_mode="bilinear")
    with pytest.raises(ConfigError, match="merge_mode must be"):
        UNet3dTf(2, merge_mode="multiply")
    with pytest.raises(ConfigError, match="does not go with"):
        UNet2dTf(2, up_mode="upsample", merge_mode="add")
    with pytest.raises(ConfigError, match="multiple of 4"):
        VariationalAutoencoderTf(1, 10)
    with pytest.raises(DataError, match=r"images are \(16, 4\), but the network takes \(8, 8\)"):
        VariationalAutoencoderTf(1, 8, start_filts=1)(np.zeros((2, 1, 16, 4), np.float32))
    with pytest.raises(DataError, match="32 x 32 pixels; DCGAN takes 64 x 64"):
        build(GAN).discr(np.zeros((1, 1, 32, 32), np.float32))


def test_weights_of_a_unet_can_be_drawn_again():
    network = UNet2dTf(2, depth=2, start_filts=4)
    before = named_weights(network)
    network.module.conv_final.bias.assign([1.0, 2.0])
    network.reset_params()
    after = named_weights(network)
    assert not any(np.array_equal(before[name], after[name]) for name in before if name.endswith("kernel"))
    assert not any(after[name].any() for name in after if name.endswith("bias"))


# ------------------------------------------------------------------ GAN and autoencoder


@pytest.mark.slow
def test_each_network_of_a_gan_learns_by_its_own_loss_only(tmp_path):
    """A step with a rate of 0 for the other: only one network moves, by the gradient that the tape gives."""
    for name, other in (("discr", "gen"), ("gen", "discr")):
        network = build(GAN)
        rates = {name: 0.5, other: 0.0}

        def optimizers(model, cls, rates=rates):
            return {part: (cls(learning_rate=rate), getattr(model, part)) for part, rate in rates.items()}

        training = trainer(GAN, network, tmp_path / name, optim_fn=optimizers, optimizer_params={}, compiled=False)
        twin = build(GAN)
        arrays = {key: tf.constant(value[:4]) for key, value in GAN.arrays().items()}
        with tf.GradientTape() as tape:
            fake = twin.gen(arrays["noise"], training=True)
            real_logits = twin.discr(arrays["data"], training=True)
            fake_logits = twin.discr(fake, training=True)
            loss = (
                LOSSES["bce"](real_logits, tf.ones((4, 1))) + LOSSES["bce"](fake_logits, tf.zeros((4, 1)))
                if name == "discr"
                else LOSSES["bce"](fake_logits, tf.ones((4, 1)))
            )
        learned = getattr(twin, name).trainable_variables
        slopes = tape.gradient(loss, [variable.value for variable in learned])
        before = [variable.numpy() for variable in getattr(network, name).trainable_variables]
        still = [variable.numpy() for variable in getattr(network, other).trainable_variables]
        GAN.train(training, num_steps=1)
        for variable, start, slope in zip(getattr(network, name).trainable_variables, before, slopes, strict=True):
            np.testing.assert_allclose(variable.numpy(), start - 0.5 * slope, rtol=1e-3, atol=1e-6)
        for variable, start in zip(getattr(network, other).trainable_variables, still, strict=True):
            np.testing.assert_array_equal(variable.numpy(), start)


def test_a_gan_names_its_losses_and_draws_its_noise(tmp_path):
    network = build(GAN)
    batch = network.prepare_batch({"data": GAN.arrays()["data"][:3]}, "cpu", "cpu")
    metrics, losses, predictions = network.closure(
        network, batch, {}, {"bce": LOSSES["bce"]}, {"mean": lambda target, logits: tf.reduce_mean(target)}
    )
    assert sorted(losses) == ["val_bce_adversarial", "val_bce_discr_fake", "val_bce_discr_real"]
    assert {name: float(value) for name, value in metrics.items()} == {
        "val_mean_adversarial": 1.0, "val_mean_discr_fake": 0.0, "val_mean_discr_real": 1.0
    }  # fmt: skip
    assert {name: tuple(value.shape) for name, value in predictions.items()} == {
        "fake_images": (3, 1, 64, 64), "discr_fake": (3, 1), "discr_real": (3, 1)
    }  # fmt: skip
    assert not np.array_equal(network.draw_noise(batch["data"]), network.draw_noise(batch["data"]))
    with pytest.raises(ConfigError, match="optim_fn=create_optims_gan_default_tf"):
        network.closure(network, batch, {"default": None}, {"bce": LOSSES["bce"]})


def test_losses_and_metrics_of_keras_judge_logits_by_targets_in_a_gan(tmp_path):
    """Against the formula: cross-entropy is softplus of the logit for zeros, of its negative for ones."""
    network = build(GAN)
    loss, metric = keras.losses.BinaryCrossentropy(from_logits=True), keras.metrics.BinaryAccuracy(threshold=0.0)
    TfNetworkTrainer(
        network, tmp_path, losses={"bce": loss}, key_mapping=GAN.key_mapping, logging_type=None,
        optim_fn=create_optims_gan_default_tf, optimizer_cls=keras.optimizers.SGD,
    )  # fmt: skip
    batch = network.prepare_batch({"data": GAN.arrays()["data"][:3]}, "cpu", "cpu")
    metrics, losses, predictions = network.closure(network, batch, {}, {"bce": loss}, {"accuracy": metric})
    for part, logits, wanted in (
        ("discr_real", "discr_real", 1),
        ("discr_fake", "discr_fake", 0),
        ("adversarial", "discr_fake", 1),
    ):
        values = predictions[logits].numpy()
        expected = np.logaddexp(0, -values if wanted else values).mean()
        np.testing.assert_allclose(losses[f"val_bce_{part}"], expected, rtol=1e-5, err_msg=part)
        assert float(metrics[f"val_accuracy_{part}"]) == pytest.approx(np.mean((values > 0) == wanted)), part


@pytest.mark.parametrize("ready", [GAN, READY[-1]], ids=str)
def test_a_network_with_a_closure_of_its_own_needs_losses_too(tmp_path, ready):
    with pytest.raises(ConfigError, match=r"would learn nothing; pass losses=\{'bce': keras.losses.Binary"):
        TfNetworkTrainer(build(ready), tmp_path, losses={}, optimizer_cls=keras.optimizers.SGD)


@pytest.mark.parametrize("ready", OF_IMAGES, ids=str)
def test_images_with_the_channels_last_are_told_by_their_channels(ready):
    network, images = build(ready), ready.arrays()["data"][:2]
    with pytest.raises(DataError, match="channels come first"):
        network(np.moveaxis(images, 1, -1))


def test_an_autoencoder_draws_in_training_only():
    network = build(READY[-1])
    images = READY[-1].arrays()["data"][:3]
    assert np.array_equal(network(images, training=False)["pred"], network(images, training=False)["pred"])
    assert not np.array_equal(network(images, training=True)["pred"], network(images, training=True)["pred"])
    quiet = network(images, training=False)
    np.testing.assert_array_equal(quiet["pred"], network.decoder(quiet["mean"]))


def test_an_autoencoder_adds_the_divergence_of_its_latent_variables():
    mean, log_var = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, np.log(4.0)]], np.float32)
    # 0.5 (1 + 1 - 1 - 0) + 0.5 (0 + 4 - 1 - ln 4)
    np.testing.assert_allclose(kl_to_standard_normal(mean, log_var), [0.5 + 1.5 - np.log(2)], rtol=1e-6)
    network = build(READY[-1])
    batch = network.prepare_batch(READY[-1].arrays(), "cpu", "cpu")
    _, losses, predictions = network.closure(network, batch, {}, {"bce": LOSSES["bce"]})
    divergence = np.mean(kl_to_standard_normal(predictions["mean"], predictions["log_var"])) / 64
    np.testing.assert_allclose(losses["val_kl"], divergence, rtol=1e-5)
    np.testing.assert_allclose(losses["val_bce"], LOSSES["bce"](predictions["pred"], batch["data"]), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("ready", [READY[-1], pytest.param(READY[2], marks=pytest.mark.slow)], ids=str)
def test_a_resumed_training_equals_an_unbroken_one(ready, tmp_path):
    def run(path, *epochs):
        for number in epochs:
            network = build(ready)
            ready.train(trainer(ready, network, path, save_freq=1), num_epochs=number)
        return named_weights(network)

    whole, resumed = run(tmp_path / "whole", 2), run(tmp_path / "resumed", 1, 2)
    assert all(np.array_equal(whole[name], resumed[name]) for name in whole)


def test_a_strided_convolution_of_single_pixels_is_keras_own_and_has_a_gradient_of_few_channels():
    """That of TensorFlow itself ends the process."""
    images = tf.random.stateless_normal((4, 48, 47, 8), (0, 1))
    layer = convolution((8, 16), 1, stride=(2, 3))
    with tf.GradientTape() as tape:
        found = layer(images)
        loss = tf.reduce_sum(found**2)
    (gradient,) = tape.gradient(loss, [layer.kernel])
    expected = tf.nn.conv2d(images, layer.kernel, [1, 2, 3, 1], "VALID") + layer.bias
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    thinned = images[:, ::2, ::3]
    np.testing.assert_allclose(gradient[0, 0], 2 * tf.einsum("bhwi,bhwo->io", thinned, found), rtol=1e-4, atol=1e-3)
