"""Windows, test-time augmentation and ensembles in every backend: as one would do it by hand with the same network."""

import functools
from pathlib import Path

import numpy as np
import pytest

import delira
from delira import models, training
from delira.data_loading import BaseDataManager
from delira.errors import DataError
from delira.prediction.ensemble import Ensemble
from delira.prediction.model import Member
from delira.prediction.networks import StoredNetwork

PACKAGES = {"PyTorch": "torch", "TorchScript": "torch", "Jax": "flax", "Tf": "tensorflow"}
X = np.random.default_rng(0).normal(size=(2, 1, 24, 19)).astype(np.float32)
WINDOW = delira.SlidingWindow((16, 8), overlap=0.5, batch_size=3)
FLIPS = delira.TestTimeAugmentation((0, 1))

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def unet(ending):
    """A U-Net with weights of its own."""
    pytest.importorskip(PACKAGES[ending])
    network = getattr(models, f"UNet2d{ending}")
    return network(num_classes=2, in_channels=1, depth=2, start_filts=4)


def channels_last(ending):
    """A network of images with the channels first that returns maps with the channels last."""
    pytest.importorskip(PACKAGES[ending])
    if ending == "Tf":
        import keras
        import tensorflow as tf

        class TfMaps(models.AbstractTfNetwork):
            def __init__(self):
                super().__init__()
                self.conv = keras.layers.Conv2D(3, 3, padding="same")
                self.conv.build((None, None, None, 1))

            def call(self, x):
                return {"pred": self.conv(tf.transpose(x, [0, 2, 3, 1]))}

        return TfMaps()
    from flax import nnx

    class JaxMaps(models.AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.conv = nnx.Conv(1, 3, (3, 3), rngs=self.rngs)

        def __call__(self, x):
            return {"pred": self.conv(x.transpose(0, 2, 3, 1))}

    return JaxMaps()


CASES = [
    *((unet, ending) for ending in ("PyTorch", "TorchScript")),
    *(pytest.param(unet, ending, marks=pytest.mark.slow) for ending in ("Jax", "Tf")),
    *((channels_last, ending) for ending in ("Jax", "Tf")),
]


def by_windows(network, x):
    """The weighted mean of what a network says of each window, window by window."""
    weights, sums, total = WINDOW.weights(2), None, np.zeros(x.shape[2:], np.float32)
    for y, z in WINDOW.places(x.shape[2:]):
        there = (slice(y, y + 16), slice(z, z + 8))
        found = said(network, x[(..., *there)])
        sums = np.zeros((*found.shape[:2], *x.shape[2:]), np.float32) if sums is None else sums
        sums[(..., *there)] += found * weights
        total[there] += weights
    return sums / total


def by_flips(predict, x):
    axes = [(), (2,), (3,), (2, 3)]
    return np.mean([np.flip(predict(np.ascontiguousarray(np.flip(x, one))), one) for one in axes], axis=0)


def said(network, x):
    """What it says of images, with the channels first."""
    found = delira.predict(network, np.ascontiguousarray(x))["pred"]
    return found if found.shape[2:] == x.shape[2:] else np.moveaxis(found, -1, 1)


@pytest.mark.parametrize(("made", "ending"), CASES)
def test_windows_flips_and_ensembles_are_those_made_by_hand(made, ending):
    networks = [made(ending), made(ending)]
    is_last = made is channels_last

    def first(predictions):
        return np.moveaxis(predictions["pred"], -1, 1) if is_last else predictions["pred"]

    near = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    windows = [by_windows(one, X) for one in networks]
    near(first(delira.predict(networks[0], X, inference=WINDOW)), windows[0])
    # of a size that a U-Net takes
    whole = X[..., :16]
    near(first(delira.predict(networks[0], whole, tta=FLIPS)), by_flips(functools.partial(said, networks[0]), whole))
    both = by_flips(functools.partial(by_windows, networks[0]), X)
    near(first(delira.predict(networks[0], X, inference=WINDOW, tta=FLIPS)), both)

    ensemble = Ensemble([Member(str(number), functools.partial(stored, one)) for number, one in enumerate(networks)])
    found = ensemble.predict(X, inference=WINDOW)
    near(first(found), np.mean(windows, axis=0))
    near(first({"pred": found["spread"]["pred"]["sd"]}), np.std(windows, axis=0))


def stored(network):
    return StoredNetwork(path=Path(), tree={}, network=network, preprocessing=None)


def test_estimators_are_averaged_as_probabilities_and_have_no_windows(tmp_path):
    ensembles = pytest.importorskip("sklearn.ensemble")
    pytest.importorskip("skops", reason="checkpoints of estimators are written by skops")
    rng, label = np.random.default_rng(0), np.arange(48) % 3
    data = np.float32(rng.normal(size=(48, 5)) + label[:, None])
    result = training.SklearnExperiment.of(
        ensembles.RandomForestClassifier(5, max_depth=2), save_path=tmp_path, verbose=False
    ).kfold(BaseDataManager({"data": data, "label": label}, batch_size=16), num_splits=3, verbose=False)
    found = result.ensemble().predict({"data": data})
    shares = np.stack([delira.predict(fold, {"data": data})["pred"] for fold in result.folds])
    assert not np.array_equal(shares[0], shares[1])
    np.testing.assert_allclose(found["pred"], shares.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found["spread"]["pred"]["sd"], shares.std(0), rtol=1e-4, atol=1e-6)
    votes = np.eye(3)[shares.argmax(-1)].mean(0)
    np.testing.assert_allclose(found["spread"]["pred"]["disagreement"], 1 - votes.max(-1), rtol=1e-5, atol=1e-6)
    for how in ({"inference": delira.SlidingWindow(2)}, {"tta": delira.TestTimeAugmentation(0)}):
        with pytest.raises(DataError, match=r"no input has samples, channels and axes in space.*'data' of shape"):
            result.ensemble().predict({"data": data}, **how)


def test_estimators_of_images_say_one_thing_of_a_window_and_are_refused(tmp_path):
    pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    linear = pytest.importorskip("sklearn.linear_model")
    network = models.SklearnEstimator(linear.LogisticRegression())
    label = np.arange(20) % 2
    images = np.float32(np.random.default_rng(0).normal(size=(20, 1, 4, 4)) + label[:, None, None, None])
    network = training.SklearnExperiment.of(network, save_path=tmp_path, verbose=False).run(
        BaseDataManager({"data": images, "label": label}, batch_size=10)
    )
    with pytest.raises(DataError, match="a sliding window joins outputs that have one value"):
        delira.predict(network, np.tile(images, 2), inference=delira.SlidingWindow(4))
    with pytest.raises(DataError, match="'label_pred' is of int64, of which test-time augmentation makes no mean"):
        delira.predict(network, images, tta=delira.TestTimeAugmentation(0))
