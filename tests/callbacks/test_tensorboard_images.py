"""Pictures for TensorBoard, read back by TensorBoard's own reader."""

import io

import numpy as np
import pytest
from event_files import read_events

from delira import state as keys
from delira.callbacks.decorators import on_step_validation
from delira.callbacks.imaging import make_grid
from delira.errors import ConfigError, DataError
from delira.training.callbacks import TensorBoardImages, TensorBoardProjector

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")
from images_of_fits import IMAGES, backends, trial_of


def images_of(log_dir, name="Image"):
    """``{step: picture of shape (H, W, C)}``."""
    from PIL import Image

    (folder,) = log_dir.iterdir()
    found = read_events(folder).Images(name)
    return {event.step: np.asarray(Image.open(io.BytesIO(event.encoded_image_string))) for event in found}


@pytest.mark.slow_cases("tensorflow|jax")
@backends
def test_the_first_images_of_each_validation_are_a_grid(backend, tmp_path):
    images = TensorBoardImages(tmp_path, key=keys.INPUT, num_images=6, nrow=3, padding=1, pad_value=1.0)
    trial_of(backend, images).run(2)
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


def test_what_cannot_be_is_refused(tmp_path):
    for name in ("num_images", "avg_pool_size"):
        with pytest.raises(ConfigError, match=f"TensorBoardProjector: {name} is a whole number of at least 1, got 0"):
            TensorBoardProjector(tmp_path, **{name: 0})

    @on_step_validation
    def pair(state):
        state["pair"] = (state[keys.X], state[keys.X])

    with pytest.raises(DataError, match=r"points are arrays of shape .*, but 'pair' is a tuple"):
        trial_of("torch", pair, TensorBoardProjector(tmp_path, features_key="pair")).run(1)
