"""Pictures of a fit: which, when, and where they go. Files are read by matplotlib's reader."""

import copy

import numpy as np
import pytest

import delira
from delira.errors import ConfigError
from delira.state import EPOCH, INPUT, PHASE, TARGET, Y_PRED, state_key
from delira.training.callbacks.decorators import on_step_training
from delira.training.callbacks.imaging import (
    CachingImagingCallback,
    FromState,
    ImagingCallback,
    MakeGrid,
    make_grid,
)

pytest.importorskip("torch", reason="the torch room needs the package 'torch', which is not installed")
import torch
from torch import nn

#: 10 pictures whose pixels tell them apart: of the i-th, all are (i + 1) / 20
X = np.broadcast_to((np.arange(10, dtype="f4").reshape(10, 1, 1, 1) + 1) / 20, (10, 1, 2, 3)).copy()
SHOWN = state_key("test_imaging_shown")


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.weight * x


def fit(*callbacks, module=None, metrics=("loss",), **settings):
    """A trial with 3, 3, 3 and 1 pictures to train on, 4, 4 and 2 to validate with, 5 and 5 to predict."""
    module = module or Twice()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    trial = delira.Trial(module, optimizer, nn.MSELoss(), metrics, callbacks, verbose=0, **{"seed": 0, **settings})
    trial.with_train_data(X, X, 3, shuffle=False).with_val_data(X, X, 4, shuffle=False)
    return trial.with_test_data(X, 5)


class Collected:
    """A handler that keeps what it gets."""

    def __init__(self, *fields):
        self.fields, self.seen = fields, []

    def __call__(self, picture, state):
        assert picture.dtype == np.float32
        assert picture.shape[0] == 1
        self.seen.append((*(state[field] for field in self.fields), np.unique(picture).tolist()))

    @property
    def numbers(self):
        """Of the pictures, by their pixels."""
        return [round(pixels[-1] * 20) - 1 for *_, pixels in self.seen]


def read(path):
    from matplotlib.image import imread

    pixels = imread(path)
    return pixels if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)


# ------------------------------------------------------------------ which pictures, and when


def test_without_a_choice_it_looks_at_validations():
    seen = Collected(PHASE, "data", EPOCH)
    fit(FromState(INPUT).with_handler(seen)).run(2)
    assert [row[:3] for row in seen.seen] == [("fit", "validation_data", epoch) for epoch in (0, 1) for _ in range(10)]
    assert seen.numbers == [*range(10)] * 2


@pytest.mark.parametrize(("names", "wanted"), [
    (["on_train"], {("fit", "train_data")}),
    (["on_val"], {("fit", "validation_data"), ("evaluate", "validation_data")}),
    (["on_test"], {("evaluate", "validation_data"), ("predict", "test_data")}),
    (["on_train", "on_val"], {("fit", "train_data"), ("fit", "validation_data"), ("evaluate", "validation_data")}),
])  # fmt: skip
def test_it_looks_at_the_chosen_passes(names, wanted):
    seen = Collected(PHASE, "data")
    callback = FromState(INPUT).with_handler(seen)
    for name in names:
        assert getattr(callback, name)() is callback
    trial = fit(callback)
    trial.run(1)
    trial.evaluate()
    trial.predict()
    trial.replay([callback], verbose=0)
    assert {row[:2] for row in seen.seen} == wanted


def test_an_index_counts_the_pictures_of_a_pass():
    third, some = Collected(), Collected()
    fit(FromState(INPUT).with_handler(third, 3).with_handler(some, [0, 9])).run(2)
    assert (third.numbers, some.numbers) == ([3, 3], [0, 9, 0, 9])


def test_nothing_is_read_once_everybody_has_what_he_wants():
    calls = []

    class Counted(ImagingCallback):
        def on_batch(self, state):
            calls.append(state["t"])
            return state[INPUT]

    fit(Counted().with_handler(Collected(), 1)).run(1)
    assert calls == [0]


def test_no_picture_where_there_is_none():
    seen = Collected()
    fit(FromState("nobody").with_handler(seen), FromState(TARGET).on_test().with_handler(seen)).predict()
    assert seen.seen == []


def test_on_batch_must_be_there():
    with pytest.raises(NotImplementedError, match="has no on_batch"):
        fit(ImagingCallback().with_handler(print)).run(1)


def test_a_transform_comes_before_the_handlers():
    seen, sizes = Collected(), []
    callback = FromState(INPUT, transform=lambda picture: 1 - picture[:, :, :1])
    fit(callback.with_handler(seen, 0).with_handler(lambda picture, state: sizes.append(picture.shape), 0)).run(1)
    assert sizes == [(1, 2, 1)]
    assert seen.seen[0][0] == pytest.approx([0.95])


def test_bytes_and_single_pictures_are_taken():
    class First(ImagingCallback):
        def on_batch(self, state):
            return torch.full((2, 2), 51, dtype=torch.uint8)

    seen = Collected()
    fit(First().with_handler(seen, 0)).run(1)
    assert seen.seen[0][0] == pytest.approx([0.2])


@pytest.mark.parametrize("shape", [(5,), (1, 1, 1, 2, 2)])
def test_what_is_no_picture_is_refused(shape):
    class Odd(ImagingCallback):
        def on_batch(self, state):
            return np.zeros(shape)

    with pytest.raises(ConfigError, match=r"Odd: a picture has the shape \(channels, height, width\)"):
        fit(Odd().with_handler(print)).run(1)


@pytest.mark.parametrize("index", [-1, [0, -2], ["0"]])
def test_an_index_is_a_number_of_a_picture(index):
    with pytest.raises(ConfigError, match="index counts pictures"):
        FromState(INPUT).with_handler(print, index)


# ------------------------------------------------------------------ several at once


def test_a_cache_is_given_once_in_a_pass_with_what_came_first():
    seen = []
    callback = (
        FromState(INPUT).on_train().on_val().cache(5).with_handler(lambda p, s: seen.append((s["data"], p[0, 0, 0])))
    )
    fit(callback).run(2)
    wanted = [(data, number) for data in ("train_data", "validation_data") for number in range(5)] * 2
    assert [(data, round(float(pixel) * 20) - 1) for data, pixel in seen] == wanted


@pytest.mark.parametrize("number", [4, 64])
def test_a_grid_is_given_at_the_end_of_the_pass_with_what_there_was(number):
    moments, grids = [], []
    callback = FromState(INPUT).make_grid(number, nrow=5, padding=0)
    fit(callback.with_handler(lambda p, s: (moments.append("val_loss" in s["metrics"]), grids.append(p)))).run(1)
    assert moments == [True]
    np.testing.assert_array_equal(grids[0], make_grid(X[:number], nrow=5, padding=0))


def test_caches_of_caches_are_emptied_too():
    grids = []
    callback = FromState(INPUT).cache(20).make_grid(20, nrow=10, padding=0).with_handler(lambda p, s: grids.append(p))
    fit(callback).run(2)
    assert len(grids) == 2
    np.testing.assert_array_equal(grids[1], make_grid(X, nrow=10, padding=0))


def test_on_cache_makes_the_picture():
    class Mean(CachingImagingCallback):
        def on_cache(self, cache, state):
            assert cache.shape == (4, 1, 2, 3)
            return cache.mean(axis=0)

    seen = Collected()
    fit(Mean(INPUT, 4).with_handler(seen)).run(1)
    assert seen.seen[0][0] == pytest.approx([2.5 / 20])


def test_what_a_source_does_with_its_pictures_is_done():
    inner, outer = Collected(), []
    fit(FromState(INPUT).with_handler(inner).make_grid(3).with_handler(lambda p, s: outer.append(p))).run(1)
    assert inner.numbers == [0, 1, 2, 3]
    assert len(outer) == 1


def test_a_grid_gets_numbers_as_they_were():
    grids = []
    module = Twice()
    module.weight.data.fill_(200.0)
    layout = {"normalize": True, "norm_range": (0.0, 100.0), "nrow": 2, "padding": 1}
    fit(MakeGrid(Y_PRED, 4, **layout).with_handler(lambda p, s: grids.append(p)), module=module).run(1)
    np.testing.assert_allclose(grids[0], make_grid(X[:4] * 2, nrow=2, padding=1), rtol=1e-6)


def test_pictures_of_several_sizes_are_refused():
    class Growing(ImagingCallback):
        def on_batch(self, state):
            return np.zeros((1, 2 + state["t"], 2))

    with pytest.raises(ConfigError, match="several sizes"):
        fit(Growing().make_grid(2)).run(1)


@pytest.mark.parametrize("arguments", [{"num_images": 0}, {"num_images": 1.5}, {"nrows": 3}, {"padding": -1}])
def test_impossible_grids_are_refused(arguments):
    with pytest.raises(ConfigError, match=r"num_images is|not 'nrows'; did you mean 'nrow'|padding is"):
        MakeGrid(**arguments)


@pytest.mark.parametrize("broken_at", [1, 2, 3])
def test_a_pass_that_is_continued_is_counted_on(tmp_path, broken_at):
    class Broken(Exception):
        pass

    def build(name, at=None):
        grid = FromState(INPUT).on_train().make_grid(7, padding=0).to_file(tmp_path / name / "grid_{epoch}.png")
        single = FromState(INPUT).on_train().to_file(tmp_path / name / "{epoch}_{index}.png", [1, 5, 8])

        @on_step_training
        def break_off(state):
            if (state[EPOCH], state["t"]) == (1, at):
                raise Broken

        return fit(grid, single, break_off, save_path=tmp_path / f"run_{name}", seed=0, save_freq_steps=1)

    build("whole").run(2)
    with pytest.raises(Broken):
        build("broken", broken_at).run(2)
    build("broken").run(2)
    files = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert files == sorted(
        [f"{epoch}_{index}.png" for epoch in (0, 1) for index in (1, 5, 8)] + ["grid_0.png", "grid_1.png"]
    )
    assert files == sorted(path.name for path in (tmp_path / "broken").iterdir())
    for name in files:
        np.testing.assert_array_equal(read(tmp_path / "whole" / name), read(tmp_path / "broken" / name))


# ------------------------------------------------------------------ where they go


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


# ------------------------------------------------------------------ every framework


def module_of(room):
    """A network that returns its input, and the rest of a trial."""
    if room == "torch":
        net = Twice()
        return net, torch.optim.SGD(net.parameters(), 0.0), nn.MSELoss()
    if room == "tensorflow":
        pytest.importorskip("tensorflow", reason="the tensorflow room needs the package 'tensorflow'")
        import keras

        net = keras.Sequential([keras.layers.Input((4, 5, 3)), keras.layers.Dense(3)])
        return net, keras.optimizers.SGD(0.0), keras.losses.MeanSquaredError()
    nnx = pytest.importorskip("flax.nnx", reason="the jax room needs the package 'flax', which is not installed")
    import optax

    return nnx.Linear(3, 3, rngs=nnx.Rngs(0)), optax.sgd(0.0), lambda p, t: ((p - t) ** 2).mean()


@pytest.mark.parametrize("room", ["torch", "tensorflow", "jax"])
def test_channels_come_first_whatever_the_framework(room, tmp_path):
    """Training pictures of a compiled step, too."""
    pictures = np.random.default_rng(0).random((6, 3, 4, 5)).astype("f4")
    x = pictures if room == "torch" else np.moveaxis(pictures, 1, -1).copy()
    callbacks = [
        MakeGrid(INPUT, 4, nrow=2).on_train().on_val().to_file(tmp_path / "{data}.png"),
        MakeGrid(Y_PRED, 4, nrow=2).on_test().to_file(tmp_path / "{data}.png"),
    ]
    trial = delira.Trial(*module_of(room), ["loss"], callbacks, seed=0, verbose=0)
    trial.with_train_data(x, x, 3, shuffle=False).with_val_data(x, x, 3).with_test_data(x, 3)
    trial.run(1)
    predicted = trial.trainer.backend.arrays.to_numpy(trial.predict())
    predicted = predicted if room == "torch" else np.moveaxis(predicted, -1, 1)
    for name, wanted in {"train_data": pictures, "validation_data": pictures, "test_data": predicted}.items():
        np.testing.assert_allclose(read(tmp_path / f"{name}.png"), make_grid(wanted[:4], nrow=2), atol=0.51 / 255)


def test_channels_last_may_be_said(tmp_path):
    class Last(ImagingCallback):
        def on_batch(self, state):
            return np.zeros((4, 6, 3), "f4")

    fit(Last(channels_last=True).to_file(tmp_path / "last.png", 0)).run(1)
    assert read(tmp_path / "last.png").shape == (3, 4, 6)


def test_an_experiment_takes_the_same_callbacks(tmp_path):
    from small_rooms import build_room

    from delira.data_loading import BaseDataManager

    room = build_room("torch")
    data = {"data": np.arange(18, dtype="f4").reshape(6, 3) / 18, "label": np.zeros((6, 1), "f4")}
    seen = []

    class Rows(ImagingCallback):
        def on_batch(self, state):
            return state[INPUT]

    experiment = room.experiment(
        tmp_path, training={"callbacks": [Rows().on_train().with_handler(lambda p, s: seen.append(p))]}
    )
    experiment.run(BaseDataManager(data, 2), BaseDataManager(data, 2))
    assert len(seen) == 6
    assert np.sort(np.concatenate(seen[:3], axis=1)[0], axis=0)[:, 0] == pytest.approx(data["data"][:, 0])
