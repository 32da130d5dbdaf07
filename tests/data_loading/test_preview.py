"""The picture of what the network gets."""

import random
import sys
import time
import types

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset, SequentialSampler
from delira.data_loading._preview import BAD, CLASSES, _as_cell, _scale, preview
from delira.errors import ConfigError, DataError, MissingKeyError

N = 12


def manager(data, batch_size=4, transforms=None, **entries):
    """A manager whose samples keep their order."""
    return BaseDataManager({"data": data, **entries}, batch_size, transforms=transforms, sampler_cls=SequentialSampler)


def images(figure):
    """What each cell shows, (H, W, 3)."""
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes]


def texts(figure):
    return [text.get_text() for text in figure.texts]


def titles(figure):
    return [text for text in texts(figure) if text.startswith("#") or text.startswith("label")]


def rgb(colour):
    return np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255


# ---- which samples


def test_the_first_samples_are_drawn_with_their_labels():
    figure = preview(manager(np.arange(N * 9.0).reshape(N, 3, 3), label=np.arange(N) % 3), 6)
    assert titles(figure) == ["#0  label 0", "#1  label 1", "#2  label 2", "#3  label 0", "#4  label 1", "#5  label 2"]
    assert "6 of 12 samples · seed 0, fold 0, epoch 0 · no transforms" in texts(figure)
    values = np.arange(54).reshape(6, 3, 3) / 53
    for cell, expected in zip(images(figure), values, strict=True):
        np.testing.assert_allclose(cell[..., 0], expected, atol=0.01)
        np.testing.assert_array_equal(cell[..., 0], cell[..., 2])


@pytest.mark.parametrize(("n", "drawn"), [(1, 1), (4, 4), (5, 5), (12, 12), (99, 12)])
def test_fewer_are_drawn_if_there_are_fewer(n, drawn):
    assert len(preview(manager(np.zeros((N, 3, 3))), n).axes) == drawn


def test_they_are_shuffled_as_for_training():
    data = BaseDataManager({"data": np.zeros((N, 4)), "label": np.arange(N)}, 5)
    figure = preview(data, 7, seed=3, fold=1, epoch=2)
    order = data.epoch(3, 1, 2, shuffle=True).order[:7].tolist()
    assert order != sorted(order)
    assert titles(figure) == [f"#{number}  label {number}" for number in order]


def brighten(batch, rng):
    batch["data"] = batch["data"] + rng.random() + np.random.random()
    return batch


def test_they_are_transformed_as_in_training():
    data = manager(np.random.default_rng(0).normal(size=(N, 5, 5)), transforms=brighten)
    figure = preview(data, N, epoch=3)
    batches = np.concatenate([batch["data"] for batch in data.epoch(0, 0, 3)])
    low, high = np.percentile(batches, (0.2, 99.8))
    np.testing.assert_allclose(np.array(images(figure))[..., 0], np.clip((batches - low) / (high - low), 0, 1))
    assert "after brighten" in texts(figure)[0]


def read_noisily(item):
    return {"data": np.random.normal(size=(3, 3)) + random.random()}


def test_nothing_is_changed_by_looking():
    seen = types.SimpleNamespace(count=0)

    class Counting:
        def __init__(self):
            self.calls = 0

        def __call__(self, batch):
            self.calls += 1
            seen.count += 1
            return batch

    data = BaseDataManager(BaseLazyDataset(range(N), read_noisily), 4, transforms=Counting())
    np.random.seed(1)
    random.seed(2)
    state = np.random.get_state()[1].tolist(), np.random.get_state()[2], random.getstate()
    before = data.describe(), data.n_process_augmentation
    first, second = preview(data), preview(data)
    assert seen.count == 6
    assert data.transforms.calls == 0
    assert (data.describe(), data.n_process_augmentation) == before
    assert (np.random.get_state()[1].tolist(), np.random.get_state()[2], random.getstate()) == state
    np.testing.assert_array_equal(images(first), images(second))
    assert not np.array_equal(images(first), images(preview(data, epoch=1)))


def test_no_more_batches_are_loaded_than_are_drawn():
    loaded = []

    def load(item):
        loaded.append(item)
        return {"data": np.zeros((2, 2))}

    preview(BaseDataManager(BaseLazyDataset(range(N), load), 4), 5)
    assert len(loaded) == 8


def cut_patches(batch):
    return {key: np.repeat(values, 2, axis=0) for key, values in batch.items()}


def test_samples_that_a_transform_multiplies_have_no_number():
    figure = preview(manager(np.zeros((N, 3, 3)), transforms=cut_patches, label=np.arange(N)), 3)
    assert titles(figure) == ["label 0", "label 0", "label 1"]


# ---- what a sample looks like


@pytest.mark.parametrize(
    ("shape", "kind", "drawn", "note"),
    [
        ((), "lines", (1, 1), "1 values"),
        ((12,), "lines", (1, 12), "12 values"),
        ((49,), "lines", (1, 49), "49 values"),
        ((64,), "gray", (8, 8), "64 values as 8 × 8"),
        ((784,), "gray", (28, 28), "784 values as 28 × 28"),
        ((3072,), "lines", (1, 3072), "3072 values"),
        ((28, 28), "gray", (28, 28), "28 × 28"),
        ((12, 40), "gray", (12, 40), "12 × 40"),
        ((2, 500), "lines", (2, 500), "2 × 500"),
        ((500, 2), "lines", (2, 500), "500 × 2"),
        ((1, 20, 30), "gray", (20, 30), "1 × 20 × 30"),
        ((20, 30, 1), "gray", (20, 30), "20 × 30 × 1"),
        ((3, 20, 30), "colour", (20, 30, 3), "3 × 20 × 30"),
        ((20, 30, 3), "colour", (20, 30, 3), "20 × 30 × 3"),
        ((5, 20, 30), "gray", (20, 30), "5 × 20 × 30, channel 0 of 5"),
        ((40, 20, 30), "gray", (20, 30), "40 × 20 × 30, slice 20"),
        ((1, 9, 20, 30), "gray", (20, 30), "1 × 9 × 20 × 30, slice 4"),
        ((3, 9, 20, 30), "gray", (20, 30), "3 × 9 × 20 × 30, channel 0 of 3, slice 4"),
        ((2, 7, 9, 20, 30), "gray", (20, 30), "2 × 7 × 9 × 20 × 30, channel 0 of 2, slice 3, 4"),
        ((1, 961, 2000), "gray", (241, 286), "1 × 961 × 2000"),
    ],
)
def test_the_shape_decides_how_a_sample_is_drawn(shape, kind, drawn, note):
    cell = _as_cell(0, {"data": np.zeros(shape)}, "data")
    assert (cell.kind, cell.values.shape, cell.note) == (kind, drawn, note)


def test_colours_stay_in_their_channels_wherever_these_are():
    picture = np.random.default_rng(0).random((N, 3, 10, 12))
    np.testing.assert_array_equal(images(preview(manager(picture))), np.moveaxis(picture, 1, -1))
    np.testing.assert_array_equal(images(preview(manager(np.moveaxis(picture, 1, -1)))), np.moveaxis(picture, 1, -1))


def test_the_central_slice_of_a_volume_is_drawn():
    volume = np.zeros((N, 1, 9, 10, 12))
    volume[:, :, 4] = np.arange(N).reshape(-1, 1, 1, 1)
    shades = [float(image[0, 0, 0]) for image in images(preview(manager(volume)))]
    np.testing.assert_allclose(shades, np.arange(N) / (N - 1))


def test_vectors_are_drawn_as_lines_on_one_scale():
    data = np.random.default_rng(0).normal(size=(N, 2, 300))
    figure = preview(manager(data), 5)
    for axes, sample in zip(figure.axes, data, strict=False):
        np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], sample)
    assert len({axes.get_ylim() for axes in figure.axes}) == 1


@pytest.mark.parametrize(
    ("values", "kind", "scale"),
    [
        (np.array([0, 200], np.uint8), "colour", (0, 255)),
        (np.array([0.1, 0.3]), "colour", (0, 1)),
        (np.array([-2.0, 3.0]), "colour", (-2, 3)),
        (np.array([5.0, np.nan, np.inf, 9.0]), "lines", (5, 9)),
        (np.array([np.nan]), "gray", (0, 1)),
        (np.array([7, 7]), "gray", (6.5, 7.5)),
        (np.array([False, True]), "gray", (0, 1)),
        (np.array([0] * 999 + [1]), "gray", (0, 1)),
        (np.append(np.linspace(0, 1, 999), 1000), "gray", (0, 1)),
    ],
)
def test_the_scale_fits_the_values(values, kind, scale):
    cell = types.SimpleNamespace(values=values, kind=kind)
    assert _scale([cell]) == pytest.approx(scale, abs=0.011)


def test_what_is_no_number_is_coloured():
    data = np.random.default_rng(0).random((N, 3, 8, 8))
    data[0, 1, 2, 3] = np.nan
    figure = preview(manager(data))
    assert texts(figure)[1].endswith(" · pink: no number")
    np.testing.assert_allclose(images(figure)[0][2, 3], rgb(BAD))
    gray = images(preview(manager(data[:, 1])))[0]
    np.testing.assert_allclose(gray[2, 3], rgb(BAD))
    assert len(np.unique(gray[2, 4])) == 1


# ---- labels and masks


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (np.arange(N), "label 0"),
        (np.full((N, 1), 2.0, np.float32), "label 2"),
        (np.full(N, 0.12345), "label 0.123"),
        (np.eye(N)[::-1], "label 11"),
        (np.tile([0.5, 2.0], (N, 1)), "label 0.5, 2"),
        (np.array(["cat"] * N), "label cat"),
        (np.array(["$x$"] * N), "label $x$"),
        (np.full(N, True), "label True"),
        (np.zeros((N, 7)), ""),
    ],
)
def test_labels_stand_above(label, text):
    assert titles(preview(manager(np.zeros((N, 3, 3)), label=label), 1)) == [f"#0  {text}"]


def test_a_long_label_is_cut():
    (title,) = titles(preview(manager(np.zeros((N, 3, 3)), label=np.array(["name " * 50] * N)), 1))
    assert title.startswith("#0  label name")
    assert title.endswith("…")
    assert len(title) < 60


def test_other_entries_are_shown_if_they_are_named():
    data = manager(np.zeros((N, 3, 3)), grade=np.arange(N), label=np.arange(N), picture=np.ones((N, 1, 4, 4)))
    assert titles(preview(data, 1, label_keys=("grade", "label"))) == ["#0  grade 0, label 0"]
    assert titles(preview(data, 1, label_keys="grade")) == ["#0  grade 0"]
    assert images(preview(data, 1, data_key="picture"))[0].shape == (4, 4, 3)


MASK = np.zeros((8, 9), np.int64)
MASK[2:5, 3:6], MASK[6, 7] = 1, 2


def half(number):
    return 0.5 * rgb(CLASSES[number - 1])


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("key", ["label", "seg", "mask"])
@pytest.mark.parametrize(
    "mask",
    [MASK, MASK[None], MASK[..., None], MASK.astype(np.float32), MASK.astype(np.uint8),
     np.where(MASK == 0, -1, MASK), np.stack([MASK == 0, MASK == 1, MASK == 2]).astype(float),
     np.stack([MASK == 1, MASK == 2])],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(8, 9), (1, 8, 9), (3, 8, 9), (8, 9, 3), (5, 8, 9)])
def test_masks_are_laid_over_the_picture_with_a_colour_for_each_class(shape, mask, key):
    figure = preview(
        manager(np.zeros((N, *shape)) - np.arange(N).reshape(-1, *[1] * len(shape)), **{key: np.stack([mask] * N)}), 2
    )
    first = images(figure)[0]
    white = first[0, 0]
    assert (first[MASK == 0] == white).all()
    for number in (1, 2):
        inside = first[np.equal(MASK, number)]
        np.testing.assert_allclose(inside, np.broadcast_to(half(number) + 0.5 * white, inside.shape))
    legend = [text for text in texts(figure) if text in ("1", "2")]
    assert legend == ["1", "2"]
    assert titles(figure) == ["#0  ", "#1  "]


def test_the_slice_of_a_mask_is_that_of_the_volume():
    mask = np.zeros((N, 1, 5, 8, 9), np.uint8)
    mask[:, 0, 2] = MASK
    mask[:, 0, 3] = 7
    figure = preview(manager(np.zeros((N, 1, 5, 8, 9)), seg=mask), 1)
    assert len(np.unique(images(figure)[0].reshape(-1, 3), axis=0)) == 3
    assert "7" not in texts(figure)


def test_large_masks_have_an_edge():
    mask = np.zeros((N, 60, 60), np.uint8)
    mask[:, 10:30, 10:30] = 1
    image = images(preview(manager(np.zeros((N, 60, 60)), seg=mask), 1))[0]
    np.testing.assert_allclose(image[10, 10:30], np.broadcast_to(rgb(CLASSES[0]), (20, 3)))
    np.testing.assert_allclose(image[11, 11], half(1) + 0.5 * image[0, 0])


@pytest.mark.parametrize(
    "label",
    [np.random.default_rng(0).random((N, 8, 9)), np.zeros((N, 9, 8), int), np.zeros((N, 4, 4), int),
     np.arange(N * 72).reshape(N, 8, 9), np.random.default_rng(0).random((N, 3, 8, 9)), np.zeros((N, 72), int)],
)  # fmt: skip
def test_what_is_no_mask_of_the_picture_is_not_laid_over_it(label):
    image = images(preview(manager(np.zeros((N, 8, 9)), label=label), 1))[0]
    assert len(np.unique(image)) == 1


# ---- what cannot be drawn


def test_an_entry_to_draw_must_exist():
    data = BaseDataManager({"image": np.zeros((N, 3, 3)), "label": np.zeros(N)})
    with pytest.raises(MissingKeyError, match=r"no entry 'data' that could be drawn, only \['image', 'label'\]"):
        preview(data)
    assert len(preview(data, 2, data_key="image").axes) == 2


@pytest.mark.parametrize("values", [np.array(["a"] * N), np.zeros((N, 0)), np.zeros(N, complex)])
def test_an_entry_to_draw_must_hold_numbers(values):
    with pytest.raises(DataError, match="entry 'data' cannot be drawn: its dtype is"):
        preview(manager(values))


@pytest.mark.parametrize("n", [0, -1, 2.5, "3"])
def test_an_impossible_number_is_refused(n):
    with pytest.raises(ConfigError, match="n must be an integer of at least 1"):
        preview(manager(np.zeros((N, 3, 3))), n)


# ---- the figure


def test_a_notebook_shows_the_figure_without_pyplot():
    already = "matplotlib.pyplot" in sys.modules
    png = preview(manager(np.zeros((N, 3, 3))))._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert ("matplotlib.pyplot" in sys.modules) == already


@pytest.mark.sampled("values")
@pytest.mark.parametrize("shape", [(3, 40, 40), (1, 10, 200), (1, 200, 10), (12,), (1, 5, 40, 40)])
@pytest.mark.parametrize("n", [1, 3, 16, 30])
def test_nothing_leaves_the_figure_or_overlaps(n, shape):
    mask = {"seg": np.ones((30, *shape[1:]), int)} if len(shape) > 1 else {}
    figure = preview(manager(np.zeros((30, *shape)), label=np.array(["a long name of a class " * 3] * 30), **mask), n)
    figure.canvas.draw()
    width, height = figure.bbox.size
    boxes = [text.get_window_extent() for text in figure.texts] + [axes.get_window_extent() for axes in figure.axes]
    for box in boxes:
        assert 0 <= box.x0 <= box.x1 <= width
        assert 0 <= box.y0 <= box.y1 <= height
    for position, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[position + 1 :])


@pytest.mark.slow
def test_sixteen_large_pictures_take_less_than_two_seconds():
    data = manager(
        np.random.default_rng(0).random((16, 3, 512, 512), np.float32), 16, seg=np.ones((16, 1, 512, 512), int)
    )
    preview(data, 1)._repr_png_()  # matplotlib is imported once
    started = time.process_time()
    preview(data)._repr_png_()
    assert time.process_time() - started < 2


def test_transforms_of_batchgenerators_can_be_looked_at():
    mirror = pytest.importorskip("batchgenerators.transforms.spatial_transforms").MirrorTransform(axes=(0, 1))
    data = manager(np.random.default_rng(0).random((N, 1, 8, 9)), transforms=mirror, seg=np.stack([MASK[None]] * N))
    figure = preview(data, N)
    assert "after MirrorTransform" in texts(figure)[0]
    drawn = [batch["data"][:, 0] for batch in data.epoch(0, 0, 0)]
    assert not np.array_equal(np.concatenate(drawn), data.dataset.data["data"][:, 0])
    assert len(images(figure)) == N
