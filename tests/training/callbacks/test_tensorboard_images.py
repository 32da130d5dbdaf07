"""Pictures and points for TensorBoard, read back by TensorBoard's own reader."""

import io

import numpy as np
import pytest
from event_files import read_events

import delira
from delira import state as keys
from delira.errors import ConfigError, DataError
from delira.training.callbacks import TensorBoardImages, TensorBoardProjector
from delira.training.callbacks.decorators import on_step_validation
from delira.training.callbacks.imaging import make_grid

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")

IMAGES = np.random.default_rng(0).uniform(size=(10, 3, 6, 4)).astype("f4")
LABELS = np.arange(10) % 2


def trial_of(room, *callbacks, channels=3, images=IMAGES, y=LABELS, **settings):
    """A trial on images, as the room wants them; its network is a linear one of all pixels."""
    images = images[:, :channels]
    if room == "torch":
        torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch'")
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * 24, 2))
        parts = net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.CrossEntropyLoss()
    elif room == "tensorflow":
        pytest.importorskip("tensorflow", reason="the TensorFlow room needs the package 'tensorflow'")
        import keras

        net = keras.Sequential([keras.layers.Input((6, 4, channels)), keras.layers.Flatten(), keras.layers.Dense(2)])
        parts = net, keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    else:
        pytest.importorskip("jax", reason="the JAX room needs the package 'jax'")
        optax, nnx = pytest.importorskip("optax"), pytest.importorskip("flax.nnx")

        class Net(nnx.Module):
            def __init__(self):
                self.linear = nnx.Linear(channels * 24, 2, rngs=nnx.Rngs(0))

            def __call__(self, x):
                return self.linear(x.reshape(len(x), -1))

        loss = optax.softmax_cross_entropy_with_integer_labels
        parts = Net(), optax.sgd(0.1), lambda pred, target: loss(pred, target).mean()
    x = images if room == "torch" else np.moveaxis(images, 1, -1)
    trial = delira.Trial(*parts, callbacks=callbacks, verbose=0, **{"seed": 0, **settings})
    return trial.with_train_data(x, y, 4).with_val_data(x, y, 4, shuffle=False)


rooms = pytest.mark.parametrize("room", ["torch", "tensorflow", "jax"])


def images_of(log_dir, name="Image"):
    """``{step: picture of shape (H, W, C)}``."""
    from PIL import Image

    (folder,) = log_dir.iterdir()
    found = read_events(folder).Images(name)
    return {event.step: np.asarray(Image.open(io.BytesIO(event.encoded_image_string))) for event in found}


# ---- images


@pytest.mark.slow_cases("tensorflow|jax")
@rooms
def test_the_first_images_of_each_validation_are_a_grid(room, tmp_path):
    images = TensorBoardImages(tmp_path, key=keys.INPUT, num_images=6, nrow=3, padding=1, pad_value=1.0)
    trial_of(room, images).run(2)
    expected = make_grid(IMAGES[:6], nrow=3, padding=1, pad_value=1.0)
    found = images_of(tmp_path)
    assert sorted(found) == [1, 2]
    for picture in found.values():
        np.testing.assert_allclose(picture / 255, np.moveaxis(expected, 0, -1), atol=1 / 255)


def test_grids_of_masks_without_channels(tmp_path):
    @on_step_validation
    def predict(state):
        state["mask"] = state[keys.X][:, 0] > 0.5

    trial_of("torch", predict, TensorBoardImages(tmp_path, name="mask", key="mask", num_images=2, padding=0)).run(1)
    (picture,) = images_of(tmp_path, "mask").values()
    expected = np.concatenate([IMAGES[0, 0] > 0.5, IMAGES[1, 0] > 0.5], axis=1)
    np.testing.assert_array_equal(picture[..., 0] > 127, expected)


def test_only_the_first_validation_if_asked_for_and_not_again_when_continued(tmp_path):
    images = lambda: TensorBoardImages(tmp_path / "logs", key=keys.INPUT, write_each_epoch=False)  # noqa: E731
    trial = trial_of("torch", images())
    trial.run(2)
    kept = trial.save(tmp_path / "kept")
    trial_of("torch", images()).load(kept).run(3)
    assert sorted(images_of(tmp_path / "logs")) == [1]


def test_evaluations_write_no_images(tmp_path):
    trial = trial_of("torch", TensorBoardImages(tmp_path, key=keys.INPUT))
    trial.run(1)
    trial.evaluate()
    assert sorted(images_of(tmp_path)) == [1]


@pytest.mark.parametrize(("key", "what"), [(keys.Y_PRED, r"one of shape \(4, 2\)"), ("pair", "a tuple")])
def test_what_is_no_image_is_refused(tmp_path, key, what):
    @on_step_validation
    def pair(state):
        state["pair"] = (state[keys.X], state[keys.X])

    with pytest.raises(DataError, match=f"TensorBoardImages: images are arrays of shape .*, but '{key}' is {what}"):
        trial_of("torch", pair, TensorBoardImages(tmp_path, key=key)).run(1)
    with pytest.raises(ConfigError, match=r"TensorBoardImages takes nrow.*did you mean 'nrow'"):
        TensorBoardImages(tmp_path, nrows=3)


# ---- points


def points_of(log_dir, name, step):
    """Points, labels and pictures, as the configuration of the projector names them."""
    from google.protobuf import text_format
    from PIL import Image
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    (folder,) = log_dir.iterdir()
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
    (entry,) = [one for one in config.embeddings if one.tensor_name == f"{name}:{step:05d}"]
    points = np.loadtxt(folder / entry.tensor_path, ndmin=2)
    labels = (folder / entry.metadata_path).read_text().split() if entry.metadata_path else None
    side = entry.sprite.single_image_dim[0] if entry.sprite.image_path else 0
    sprite = np.asarray(Image.open(folder / entry.sprite.image_path)) if side else None
    return points, labels, sprite, side


def names_of(log_dir):
    import re

    (folder,) = log_dir.iterdir()
    return re.findall(r'tensor_name: "(.*)"', (folder / "projector_config.pbtxt").read_text())


@pytest.mark.slow_cases("tensorflow|jax")
@rooms
def test_points_are_data_and_features_with_labels_and_pictures(room, tmp_path):
    seen = []

    @on_step_validation
    def look(state):
        seen.append(np.asarray(state[keys.Y_PRED]))

    trial_of(room, look, TensorBoardProjector(tmp_path, num_images=6)).run(2)
    assert names_of(tmp_path) == ["data:00001", "features:00001", "features:00002"]
    points, labels, sprite, side = points_of(tmp_path, "data", 1)
    np.testing.assert_allclose(points, IMAGES[:6].mean(axis=1).reshape(6, -1), rtol=1e-5)
    assert labels == ["0", "1", "0", "1", "0", "1"]
    assert side == 6
    low, high = IMAGES[:6].min(), IMAGES[:6].max()
    first = np.moveaxis((IMAGES[0] - low) / (high - low), 0, -1)
    np.testing.assert_allclose(sprite[:6, 1:5] / 255, first, atol=1.01 / 255)
    for step in (1, 2):
        batches = seen[3 * (step - 1) : 3 * step]
        points, labels, _, _ = points_of(tmp_path, "features", step)
        np.testing.assert_allclose(points, np.concatenate(batches)[:6], rtol=1e-5)
        assert labels == ["0", "1", "0", "1", "0", "1"]


def test_data_are_pooled(tmp_path):
    projector = TensorBoardProjector(
        tmp_path, avg_pool_size=2, avg_data_channels=False, write_features=False, num_images=3
    )
    trial_of("torch", projector).run(2)
    assert names_of(tmp_path) == ["data:00001"]
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch'")
    pooled = torch.nn.functional.avg_pool2d(torch.from_numpy(IMAGES[:3]), 2).reshape(3, -1)
    np.testing.assert_allclose(points_of(tmp_path, "data", 1)[0], pooled.numpy(), rtol=1e-5)


def test_features_may_lie_under_another_key(tmp_path):
    @on_step_validation
    def set_features(state):
        state["features"] = state[keys.X].mean(dim=(2, 3))

    trial_of(
        "torch", set_features, TensorBoardProjector(tmp_path, features_key="features", write_data=False)
    ).run(1)  # fmt: skip
    np.testing.assert_allclose(points_of(tmp_path, "features", 1)[0], IMAGES.mean(axis=(2, 3)), rtol=1e-5)


def test_vectors_without_labels_have_no_pictures(torch_fit, tmp_path):
    torch_fit.trial(TensorBoardProjector(tmp_path)).run(1)
    points, labels, sprite, _ = points_of(tmp_path, "data", 1)
    np.testing.assert_allclose(points, torch_fit.x, rtol=1e-5)
    assert sprite is None
    assert len(labels) == 10


def test_a_continued_fit_writes_its_points_over_the_old_ones(tmp_path, capsys):
    projector = lambda: TensorBoardProjector(tmp_path / "logs")  # noqa: E731
    trial = trial_of("torch", projector())
    trial.run(1)
    kept = trial.save(tmp_path / "kept")
    trial.run(2)
    trial_of("torch", projector()).load(kept).run(3)
    assert names_of(tmp_path / "logs") == ["data:00001", *(f"features:0000{step}" for step in (1, 2, 3))]
    assert len(points_of(tmp_path / "logs", "features", 2)[0]) == 10
    assert capsys.readouterr().out == ""


def test_what_cannot_be_is_refused(tmp_path):
    for name in ("num_images", "avg_pool_size"):
        with pytest.raises(ConfigError, match=f"TensorBoardProjector: {name} is a whole number of at least 1, got 0"):
            TensorBoardProjector(tmp_path, **{name: 0})

    @on_step_validation
    def pair(state):
        state["pair"] = (state[keys.X], state[keys.X])

    with pytest.raises(DataError, match=r"points are arrays of shape .*, but 'pair' is a tuple"):
        trial_of("torch", pair, TensorBoardProjector(tmp_path, features_key="pair")).run(1)
