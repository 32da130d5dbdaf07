"""Functions that load a sample from files, and normalise it."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from delira.data_loading import BaseCacheDataset, BaseLazyDataset
from delira.data_loading.load_utils import (
    LoadSample,
    LoadSampleLabel,
    default_load_fn_2d,
    is_valid_image_file,
    norm_range,
    norm_zero_mean_unit_std,
)
from delira.errors import ConfigError, DataError, MissingBackendError

# ------------------------------------------------------------------ normalising

images = st_numpy.arrays(np.int8, st_numpy.array_shapes(max_dims=3, max_side=6))


@settings(max_examples=40)
@given(images, st.sampled_from([np.uint8, np.int8, np.int16, np.float32, np.float64]))
def test_a_range_is_reached_at_both_ends_and_the_order_of_values_is_kept(image, dtype):
    image = image.astype(dtype)
    for mode, low, high in (("-1,1", -1, 1), ("0,1", 0, 1)):
        scaled = norm_range(mode)(image)
        assert scaled.min() == low
        assert scaled.max() == (high if image.min() < image.max() else low)
        assert (np.diff(scaled.ravel()[image.ravel().argsort(kind="stable")]) >= 0).all()


def test_values_between_the_ends_are_where_they_should_be():
    assert norm_range("0,1")(np.array([2.0, 3.0, 6.0])).tolist() == [0, 0.25, 1]
    assert norm_range("-1,1")(np.array([[200, 225], [250, 200]], np.uint8)).tolist() == [[-1, 0], [1, -1]]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.uint8, np.float32), (bool, np.float32), (np.float32, np.float32), (np.int64, np.float64), (float, float)],
)
def test_single_precision_is_used_where_it_suffices(dtype, expected):
    image = np.array([0, 1, 1], dtype)
    for norm in (norm_range("0,1"), norm_range("-1,1"), norm_zero_mean_unit_std):
        assert norm(image).dtype == norm(np.zeros_like(image)).dtype == expected


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_image_of_equal_values_divides_nothing_by_zero(value, dtype):
    image = np.full((37, 29), value, dtype)
    assert (norm_range("-1,1")(image) == -1).all()
    assert (norm_range("0,1")(image) == 0).all()
    assert (norm_zero_mean_unit_std(image) == 0).all()


@pytest.mark.parametrize("norm", [norm_range("0,1"), norm_zero_mean_unit_std])
def test_normalising_nothing_gives_nothing_and_changes_no_input(norm):
    assert norm(np.empty((0, 3))).shape == (0, 3)
    image = np.arange(4.0)
    norm(image)
    assert image.tolist() == [0, 1, 2, 3]


def test_zero_mean_and_unit_std_are_reached():
    image = np.random.default_rng(0).normal(1000, 3, (50, 60)).astype(np.float32)
    normalised = norm_zero_mean_unit_std(image)
    assert abs(normalised.mean(dtype=float)) < 1e-4
    assert abs(normalised.std(dtype=float) - 1) < 1e-5
    assert np.allclose(normalised * image.std() + image.mean(), image)


@pytest.mark.parametrize("mode", ["0,255", "-1, 1", None, [0, 1]])
def test_an_unknown_range_is_refused_at_once(mode):
    with pytest.raises(ConfigError, match=r"mode=.* is no range; (did you mean '(-1|0),1'|known are '-1,1', '0,1')"):
        norm_range(mode)


# ------------------------------------------------------------------ images


def write(path, values):
    """Write an image; .npy needs no package, others imageio."""
    if path.suffix.lower() == ".npy":
        with path.open("wb") as file:
            np.save(file, values)
    else:
        pytest.importorskip("imageio.v3").imwrite(path, values)
    return str(path)


GRAY = np.arange(20, dtype=np.uint8).reshape(4, 5) * 10
COLOURS = np.stack([GRAY, GRAY[::-1], np.full_like(GRAY, 255)], axis=-1)


def load(file, *labels, n_channels=1, img_shape=(4, 5)):
    return default_load_fn_2d(file, *labels, img_shape=img_shape, n_channels=n_channels)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.npy", "A.NPY"])
@pytest.mark.parametrize(
    ("image", "scale"),
    [(GRAY, 255), (GRAY.astype(np.uint16) * 300, 65535)],
    ids=["8 bit", "16 bit"],
)
def test_a_gray_image_has_one_channel_from_0_to_1(tmp_path, name, image, scale):
    sample = load(write(tmp_path / name, image))
    assert list(sample) == ["data"]
    assert (sample["data"].shape, sample["data"].dtype) == ((1, 4, 5), np.float32)
    assert np.allclose(sample["data"][0], image / scale, atol=1e-7)


@pytest.mark.parametrize("name", ["a.png", "a.npy"])
def test_colours_come_first(tmp_path, name):
    data = load(write(tmp_path / name, COLOURS), n_channels=3)["data"]
    assert data.flags.c_contiguous
    assert np.allclose(data, COLOURS.transpose(2, 0, 1) / 255, atol=1e-7)


def test_colours_become_gray_as_scikit_image_does_it(tmp_path):
    rgb2gray = pytest.importorskip("skimage.color").rgb2gray
    assert np.allclose(load(write(tmp_path / "a.npy", COLOURS))["data"][0], rgb2gray(COLOURS), atol=1e-6)


def test_gray_becomes_equal_colours(tmp_path):
    data = load(write(tmp_path / "a.npy", GRAY), n_channels=3)["data"]
    assert (data == data[:1]).all()
    assert np.allclose(data[2], GRAY / 255)


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("colours", [1, 3])
def test_what_is_transparent_is_white(tmp_path, colours, n_channels):
    opacity = np.full((4, 5, 1), 255, np.uint8)
    opacity[0] = 0
    picture = np.concatenate([np.repeat(GRAY[..., None], colours, axis=2), opacity], axis=2)
    data = load(write(tmp_path / "a.npy", picture), n_channels=n_channels)["data"]
    assert np.allclose(data[:, 0], 1)
    assert np.allclose(data[:, 1:], GRAY[1:] / 255)
    assert load(write(tmp_path / "b.npy", picture), n_channels=colours + 1)["data"][-1, 0].max() == 0


def test_an_image_of_one_bit_is_0_or_1(tmp_path):
    assert np.unique(load(write(tmp_path / "a.npy", GRAY > 90))["data"]).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int16])
def test_values_that_are_no_picture_stay_as_they_are(tmp_path, dtype):
    values = GRAY.astype(dtype) - 1000
    assert (load(write(tmp_path / "a.npy", values))["data"][0] == values).all()


def test_an_image_is_resized_to_the_shape_wanted(tmp_path):
    resize = pytest.importorskip("skimage.transform").resize
    image = np.random.default_rng(0).integers(0, 256, (40, 30, 3)).astype(np.uint8)
    file = write(tmp_path / "a.npy", image)
    for shape in ((20, 10), (60, 70)):
        data = load(file, n_channels=3, img_shape=shape)["data"]
        assert (data.shape, data.dtype) == ((3, *shape), np.float32)
        expected = resize(image, shape, mode="reflect", anti_aliasing=True)
        assert np.allclose(data, expected.transpose(2, 0, 1), atol=1e-5)


def test_an_image_of_the_right_shape_needs_no_package(tmp_path, monkeypatch):
    for package in ("imageio", "imageio.v3", "skimage", "skimage.transform"):
        monkeypatch.setitem(sys.modules, package, None)
    file = write(tmp_path / "a.npy", GRAY)
    assert load(file)["data"].shape == (1, 4, 5)
    with pytest.raises(
        MissingBackendError, match=r"resizing an image needs .*'skimage.*pip install 'delira\[images\]'"
    ):
        load(file, img_shape=(2, 2))
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(MissingBackendError, match=r"reading an image needs .*'imageio.* install 'delira\[images\]'"):
        load(str(tmp_path / "a.png"))


@pytest.mark.parametrize(
    ("image", "n_channels", "match"),
    [
        (GRAY, 4, r"an image of 1 channels cannot be turned into one of 4; pass n_channels=1"),
        (COLOURS.astype(float)[..., :2], 1, "an image of 2 channels cannot"),
        (np.zeros((2, 3, 4, 5)), 1, r"an array of shape \(2, 3, 4, 5\)"),
        (np.zeros(3), 1, r"an array of shape \(3,\)"),
        (np.zeros((0, 3)), 1, r"an array of shape \(0, 3\)"),
    ],
)
def test_an_image_of_another_shape_is_named(tmp_path, image, n_channels, match):
    with pytest.raises(DataError, match=rf"odd\.npy' cannot be used: .*{match}"):
        load(write(tmp_path / "odd.npy", image), n_channels=n_channels)


@pytest.mark.parametrize("n_pages", [4, 50])
def test_pages_are_not_taken_for_channels(tmp_path, n_pages):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imageio.v3")
    file = tmp_path / "pages.tif"
    tifffile.imwrite(file, np.zeros((n_pages, 20, 30), np.uint8), photometric="minisblack")
    with pytest.raises(DataError, match=rf"pages\.tif' cannot be used: .* {n_pages} pages or frames of 20 x 30, write"):
        load(str(file), n_channels=3)


def test_an_animation_is_no_image():
    data = pytest.importorskip("skimage.data")
    pytest.importorskip("imageio.v3")
    file = f"{data.data_dir}/no_time_for_that_tiny.gif"
    with pytest.raises(DataError, match=r"tiny\.gif' cannot be used: .*shape \(24, 25, 14, 3\)"):
        load(file)


@pytest.mark.slow_cases("retina")
@pytest.mark.parametrize("name", ["astronaut.png", "camera.png", "horse.png", "rocket.jpg", "retina.jpg"])
def test_real_pictures_are_loaded(name):
    data = pytest.importorskip("skimage.data")
    pytest.importorskip("imageio.v3")
    for n_channels in (1, 3):
        loaded = load(f"{data.data_dir}/{name}", n_channels=n_channels, img_shape=(32, 24))["data"]
        assert loaded.shape == (n_channels, 32, 24)
        assert 0 <= loaded.min() < loaded.max() <= 1
        assert loaded.std() > 0.05


@pytest.mark.parametrize("content", [b"", b"no image", "half"], ids=["empty", "text", "half"])
@pytest.mark.parametrize("name", ["bad.png", "bad.npy", "bad.jpg"])
def test_a_damaged_image_is_named(tmp_path, name, content):
    pytest.importorskip("imageio.v3")
    if content == "half":
        noise = np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)
        content = Path(write(tmp_path / f"good{name[3:]}", noise)).read_bytes()[:700]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name}' cannot be read as an image \(\w+\); is it damaged\?"):
        load(str(tmp_path / name))


def test_an_array_of_objects_is_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"code": "runs"}], object), allow_pickle=True)
    with pytest.raises(DataError, match=r"a\.npy' cannot be read"):
        load(str(tmp_path / "a.npy"))


@pytest.mark.parametrize("name", ["missing.png", "missing.npy"])
def test_a_missing_image_is_the_error_of_the_system(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=name):
        load(str(tmp_path / name))


@pytest.mark.parametrize(
    ("img_shape", "n_channels"), [((4,), 1), (4, 1), ((4, 5, 6), 1), ((4, 0), 1), ((4.0, 5), 1), ((4, 5), 0)]
)
def test_an_impossible_shape_is_refused(tmp_path, img_shape, n_channels):
    with pytest.raises(ConfigError, match=r"(img_shape|n_channels).*got"):
        load(str(tmp_path / "never opened"), img_shape=img_shape, n_channels=n_channels)


def test_labels_are_numbered(tmp_path):
    image = write(tmp_path / "a.npy", GRAY)
    for name, text in (("one", "3\n"), ("two", "0 1 0")):
        (tmp_path / name).write_text(text)
    sample = load(image, str(tmp_path / "one"), str(tmp_path / "two"))
    assert list(sample) == ["data", "label_0", "label_1"]
    assert (sample["label_0"].tolist(), sample["label_1"].tolist()) == ([3], [0, 1, 0])
    assert sample["label_0"].dtype == np.float32


@pytest.mark.parametrize("content", [b"", b"benign", b"\x89PNG\r\n\xff"])
def test_a_label_that_is_no_number_is_named(tmp_path, content):
    image = write(tmp_path / "a.npy", GRAY)
    (tmp_path / "label.txt").write_bytes(content)
    with pytest.raises(DataError, match=r"label file '.*label\.txt' does not hold numbers as text"):
        load(image, str(tmp_path / "label.txt"))
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        load(image, str(tmp_path / "missing.txt"))


# ------------------------------------------------------------------ samples of several files


@pytest.fixture
def cases(tmp_path):
    """Two folders with the arrays t1, t2 and mask and a label each."""
    rng = np.random.default_rng(0)
    for number in range(2):
        folder = tmp_path / f"case_{number}"
        folder.mkdir()
        for name in ("t1", "t2"):
            np.save(folder / f"{name}.npy", rng.integers(0, 1000, (3, 4)).astype(np.int16))
        np.save(folder / "mask.npy", rng.integers(0, 2, (3, 4)))
        (folder / "label.txt").write_text(str(number))
    return tmp_path


def read_label(path, offset=0):
    return {"label": int(Path(path).read_text()) + offset}


def test_files_of_one_entry_are_stacked_and_a_single_one_gets_a_first_axis(cases):
    sample = LoadSample({"data": ["t1.npy", "t2.npy"], "mask": ["mask.npy"], "seg": "mask.npy"}, np.load)(
        cases / "case_0"
    )
    assert {key: value.shape for key, value in sample.items()} == {
        "data": (2, 3, 4),
        "mask": (1, 3, 4),
        "seg": (1, 3, 4),
    }
    assert (sample["data"][1] == np.load(cases / "case_0" / "t2.npy")).all()
    assert (sample["mask"] == sample["seg"]).all()
    assert (sample["data"].dtype, sample["mask"].dtype) == (np.int16, np.int64)


def test_entries_or_single_files_are_normalised_each_on_its_own(cases):
    files = {"data": ["t1.npy", "t2.npy"], "mask": ["mask.npy"]}
    whole = LoadSample(files, np.load, normalize=["data"])(cases / "case_0")
    assert [(one.min(), one.max()) for one in whole["data"]] == [(-1, 1), (-1, 1)]
    assert whole["mask"].max() == 1
    assert whole["mask"].min() == 0
    for normalize in ("t2.npy", ("t2.npy",)):
        part = LoadSample(files, np.load, normalize=normalize, norm_fn=norm_range("0,1"))(cases / "case_0")
        assert part["data"][0].max() > 1
        assert (part["data"][1].min(), part["data"][1].max()) == (0, 1)


def test_entries_are_cast_after_they_are_normalised(cases):
    load = LoadSample(
        {"data": "t1.npy", "mask": "mask.npy"}, np.load, dtype={"data": "float16", "mask": bool}, normalize="data"
    )
    sample = load(cases / "case_1")
    assert (sample["data"].dtype, sample["mask"].dtype) == (np.float16, bool)
    assert (sample["data"].min(), sample["data"].max()) == (-1, 1)


def test_further_arguments_reach_the_functions(cases):
    load = LoadSampleLabel({"data": "t1.npy"}, np.load, "label.txt", read_label, {"mmap_mode": "r"}, offset=5)
    assert load(cases / "case_1")["label"] == 6
    with pytest.raises(ValueError, match="invalid mode: 'wrong") as caught:
        LoadSample({"data": "t1.npy"}, np.load, mmap_mode="wrong")(cases / "case_1")
    assert "case_1/t1.npy' was loaded" in caught.value.__notes__[0].replace("\\", "/")


def test_a_directory_of_folders_is_a_dataset(cases):
    load = LoadSampleLabel({"data": ["t1.npy", "t2.npy"]}, np.load, "label.txt", read_label, {"normalize": "data"})
    for cls in (BaseLazyDataset, BaseCacheDataset):
        dataset = cls(str(cases), load)
        assert dataset.labels().tolist() == [0, 1]
        assert dataset[1]["data"].shape == (2, 3, 4)


@pytest.mark.parametrize("cls", [LoadSample, LoadSampleLabel])
def test_it_can_be_sent_to_another_process(cases, cls):
    more = ("label.txt", read_label) if cls is LoadSampleLabel else ()
    settings = {"normalize": ["data"], "norm_fn": norm_range("0,1"), "dtype": {"data": np.float32}}
    load = cls({"data": ["t1.npy"]}, np.load, *more, **({"sample_kwargs": settings} if more else settings))
    twin = pickle.loads(pickle.dumps(load))
    expected, got = load(cases / "case_0"), twin(cases / "case_0")
    assert expected.keys() == got.keys()
    assert (expected["data"] == got["data"]).all()


def test_a_dataset_is_known_by_what_its_sample_consists_of(cases):
    def fingerprint(*arguments, **settings):
        return BaseLazyDataset(str(cases), LoadSample(*arguments, **settings)).fingerprint()

    expected = fingerprint({"data": ["t1.npy"]}, np.load)
    assert fingerprint({"data": ["t1.npy"]}, np.load) == expected
    others = [
        fingerprint({"data": ["t2.npy"]}, np.load),
        fingerprint({"data": ["t1.npy"]}, np.load, normalize="data"),
        fingerprint({"data": ["t1.npy"]}, np.load, norm_fn=norm_range("0,1")),
        fingerprint({"data": ["t1.npy"]}, np.load, dtype={"data": np.float16}),
        fingerprint({"data": ["t1.npy"]}, np.load, mmap_mode="r"),
    ]
    assert len({expected, *others}) == 6
    with_labels = {
        BaseLazyDataset(
            str(cases), LoadSampleLabel({"data": "t1.npy"}, np.load, file, read_label, **more)
        ).fingerprint()
        for file, more in (("label.txt", {}), ("other.txt", {}), ("label.txt", {"offset": 1}))
    }
    assert len({expected, *with_labels}) == 4


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"sample_ext": ["t1.npy"]}, r"sample_ext must say which files make which entry, .* got \['t1\.npy'\]"),
        ({"sample_ext": {}}, "sample_ext must say"),
        ({"sample_ext": {"data": []}}, "sample_ext must say"),
        ({"sample_fn": "np.load"}, "sample_fn must be a function, got 'np.load'"),
        ({"norm_fn": "-1,1"}, "norm_fn must be a function, got '-1,1'"),
        ({"normalize": ["dta"]}, "normalize names 'dta', which is not loaded; did you mean 'data'"),
        ({"dtype": {"mask": bool}}, "dtype names 'mask', which is not loaded; known are 'data'"),
    ],
)
def test_a_wrong_setting_is_refused_at_construction(settings, match):
    with pytest.raises(ConfigError, match=match):
        LoadSample(**{"sample_ext": {"data": ["t1.npy"]}, "sample_fn": np.load} | settings)
    with pytest.raises(ConfigError, match=r"label_fn must be a function, got None"):
        LoadSampleLabel({"data": ["t1.npy"]}, np.load, "label.txt", None)


def test_files_of_different_shapes_are_named(cases):
    np.save(cases / "case_0" / "t2.npy", np.zeros((5, 5)))
    with pytest.raises(DataError, match=r"entry 'data' differ in shape: '.*t2\.npy' has \(5, 5\), but '.*t1\.npy' has"):
        LoadSample({"data": ["t1.npy", "t2.npy"]}, np.load)(cases / "case_0")


def test_errors_name_the_file_and_keep_their_type(cases):
    for load in (
        LoadSample({"data": ["gone.npy"]}, np.load),
        LoadSampleLabel({"data": ["t1.npy"]}, np.load, "gone.npy", read_label),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            load(cases / "case_0")
        assert "gone.npy' was loaded" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (3, r"label_fn must return a dict, .* returned a int for '.*label\.txt'"),
        ({"data": 3}, r"label_fn returned the entries \['data'\] for '.*label\.txt', which the sample has already"),
    ],
)
def test_labels_that_do_not_fit_are_refused(cases, labels, match):
    with pytest.raises(DataError, match=match):
        LoadSampleLabel({"data": ["t1.npy"]}, np.load, "label.txt", lambda path: labels)(cases / "case_0")


# ------------------------------------------------------------------ the deprecated question


def is_valid(*arguments):
    with pytest.warns(DeprecationWarning, match="img_extensions and gt_extensions to BaseLazyDataset"):
        return is_valid_image_file(*map(str, arguments[:1]), *arguments[1:])


def test_an_image_is_valid_if_ground_truth_lies_next_to_it(tmp_path):
    for name in ("a.png", "a.txt", "b.png", "c.NII.GZ", "c.csv", "d.png", "dd.txt"):
        (tmp_path / name).touch()
    assert is_valid(tmp_path / "a.png", [".png"], [".txt"])
    assert is_valid(tmp_path / "a.png", "png", "txt")
    assert is_valid(tmp_path / "c.NII.GZ", [".png", ".nii.gz"], [".txt", ".csv"])
    assert not is_valid(tmp_path / "a.txt", [".png"], [".txt"])
    assert not is_valid(tmp_path / "b.png", [".png"], [".txt"])
    assert not is_valid(tmp_path / "d.png", [".png"], [".txt"])
    for nothing in ([], None):
        assert is_valid(tmp_path / "b.png", [".png"], nothing)
        assert not is_valid(tmp_path / "a.txt", [".png"], nothing)
