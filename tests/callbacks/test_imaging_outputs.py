"""Where pictures of a fit go. Files are read by matplotlib's reader."""

import copy

import numpy as np
import pytest

from delira.callbacks.imaging import (
    FromState,
    ImagingCallback,
    MakeGrid,
    make_grid,
)
from delira.errors import ConfigError
from delira.state import INPUT, Y_PRED, state_key

pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
from pictures_of_fits import X, fit, read

SHOWN = state_key("test_imaging_shown")


def test_a_file_has_the_pixels_and_a_name_of_the_state_and_metrics(tmp_path):
    grid = MakeGrid(INPUT, 4, nrow=2, padding=1, pad_value=1.0)
    whole = MakeGrid(INPUT, 4).to_file(tmp_path / "{phase}_{epoch:02d}_{val_loss:.3f}")
    fit(grid.to_file(tmp_path / "deep" / "grid.png"), whole).run(1)
    pixels = read(tmp_path / "deep" / "grid.png")
    np.testing.assert_allclose(pixels, make_grid(X[:4], nrow=2, padding=1, pad_value=1.0)[0], atol=0.5 / 255)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", f"fit_00_{np.mean(X**2):.3f}.png"]


def test_colours_and_transparency_are_written(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (4, 5, 6), dtype=np.uint8)

    class Colours(ImagingCallback):
        def on_batch(self, state):
            return colours

    fit(Colours().to_file(tmp_path / "rgba.png", 0), Colours(lambda p: p[:3]).to_file(tmp_path / "rgb.png", 0)).run(1)
    np.testing.assert_allclose(read(tmp_path / "rgba.png") * 255, colours, atol=1e-3)
    np.testing.assert_allclose(read(tmp_path / "rgb.png") * 255, colours[:3], atol=1e-3)


def test_another_kind_of_file_is_known_by_its_ending(tmp_path):
    from PIL import Image

    fit(FromState(INPUT).to_file(tmp_path / "one.bmp", 4)).run(1)
    with Image.open(tmp_path / "one.bmp") as image:
        assert (image.format, image.size, np.asarray(image).tolist()) == ("BMP", (3, 2), [[64] * 3] * 2)
    with pytest.raises(ConfigError, match=r"nobody knows how to write '\.xyz'"):
        fit(FromState(INPUT).to_file(tmp_path / "one.xyz", 4)).run(1)


def test_odd_numbers_of_channels_are_refused(tmp_path):
    class Odd(ImagingCallback):
        def on_batch(self, state):
            return np.zeros((2, 4, 4))

    with pytest.raises(ConfigError, match="1, 3 or 4 channels"):
        fit(Odd().to_file(tmp_path / "odd.png", 0)).run(1)


def test_two_pictures_of_a_pass_do_not_share_a_file(tmp_path):
    with pytest.raises(ConfigError, match=r"put \{index\} into the name"):
        fit(FromState(INPUT).to_file(tmp_path / "one.png")).run(1)
    fit(FromState(INPUT).to_file(tmp_path / "{index}.png")).run(2)
    assert len(list(tmp_path.glob("?.png"))) == 10


@pytest.mark.parametrize(("names", "template", "missing"), [
    (["on_val", "on_test"], "grid_{epoch}.png", "phase"), (["on_train", "on_val"], "grid_{phase}.png", "data"),
    (["on_train", "on_test"], "grid_{data}.png", "phase"),
])  # fmt: skip
def test_passes_do_not_overwrite_each_other(tmp_path, names, template, missing):
    callback = MakeGrid().to_file(tmp_path / template)
    for name in names:
        getattr(callback, name)()
    with pytest.raises(ConfigError, match=rf"put \{{{missing}\}} into it"):
        fit(callback).run(1)


def test_a_test_leaves_the_files_of_the_fit_alone(tmp_path):
    trial = fit(MakeGrid().on_val().to_file(tmp_path / "{epoch}.png"))
    trial.run(1)
    before = (tmp_path / "0.png").read_bytes()
    trial.state["model"].weight.data.zero_()
    (tmp_path / "0.png").write_bytes(before)
    trial.evaluate()
    trial.predict()
    assert (tmp_path / "0.png").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.png", "0_evaluate.png"]


def test_copies_count_by_themselves(tmp_path):
    """Folds of a cross-validation may get copies."""
    callback = FromState(INPUT).to_file(tmp_path / "{index}.png", [0, 1])
    for one in (copy.deepcopy(callback), copy.deepcopy(callback), callback):
        fit(one).run(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.png", "1.png"]


def test_an_unknown_field_of_a_name_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"the field 'epcoh', but there is neither a metric"):
        fit(MakeGrid().to_file(tmp_path / "{epcoh}.png")).run(1)


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    from PIL import Image

    path = tmp_path / "grid.png"
    fit(MakeGrid().to_file(path)).run(1)
    before = path.read_bytes()
    save = Image.Image.save

    def broken(self, file, **kwargs):
        save(self, file, **kwargs)
        raise OSError("full")

    monkeypatch.setattr(Image.Image, "save", broken)
    with pytest.raises(OSError, match="full"):
        fit(MakeGrid(Y_PRED).to_file(path)).run(1)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["grid.png"]


def test_the_state_gets_pictures():
    trial = fit(MakeGrid(num_images=2, padding=0).to_state(SHOWN))
    trial.run(1)
    np.testing.assert_array_equal(trial.state[SHOWN], make_grid(X[:2], padding=0))


def test_pyplot_shows_pictures_in_one_window(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    shown = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.get_fignums())))
    fit(MakeGrid(num_images=4, nrow=2).to_pyplot("epoch {epoch}")).run(3)
    assert shown == [1, 1, 1]
    figure = pyplot.figure(pyplot.get_fignums()[0])
    [axes] = figure.axes
    assert axes.get_title() == "epoch 2"
    np.testing.assert_array_equal(axes.images[0].get_array(), np.round(make_grid(X[:4], nrow=2)[0] * 255))
    pyplot.close("all")


def test_tensorboard_gets_pictures_at_their_epochs(tmp_path):
    pytest.importorskip("tensorboardX", reason="event files are written by tensorboardX, which is not installed")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    import io

    from matplotlib.image import imread

    grid = MakeGrid(INPUT, 4, nrow=2).on_val().on_test().to_tensorboard("{phase}/{data}", tmp_path)
    trial = fit(grid)
    trial.run(2)
    trial.evaluate()
    trial.run(3)
    events = accumulator.EventAccumulator(str(tmp_path), size_guidance={"images": 0}).Reload()
    assert [image.step for image in events.Images("fit/validation_data")] == [1, 2, 3]
    assert [image.step for image in events.Images("evaluate/validation_data")] == [2]
    for image in events.Images("fit/validation_data"):
        pixels = imread(io.BytesIO(image.encoded_image_string), format="png")
        np.testing.assert_allclose(pixels[..., 0], make_grid(X[:4], nrow=2)[0], atol=0.5 / 255)


def test_no_event_file_is_begun_where_no_picture_can_come(tmp_path):
    pytest.importorskip("tensorboardX", reason="event files are written by tensorboardX, which is not installed")
    trial = fit(MakeGrid().on_test().to_tensorboard("test", tmp_path))
    trial.run(1)
    assert list(tmp_path.iterdir()) == []
    trial.evaluate()
    assert len(list(tmp_path.iterdir())) == 1
