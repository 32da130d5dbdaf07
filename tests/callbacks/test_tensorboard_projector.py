"""Points for the projector of TensorBoard."""

import numpy as np
import pytest

from delira import state as keys
from delira.callbacks.decorators import on_step_validation
from delira.training.callbacks import TensorBoardProjector

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")
from images_of_fits import IMAGES, backends, trial_of


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
@backends
def test_points_are_data_and_features_with_labels_and_pictures(backend, tmp_path):
    seen = []

    @on_step_validation
    def look(state):
        seen.append(np.asarray(state[keys.Y_PRED]))

    trial_of(backend, look, TensorBoardProjector(tmp_path, num_images=6)).run(2)
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
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")
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
