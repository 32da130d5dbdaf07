"""Images and volumes have the values that other readers see, whichever way they are stored."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delira.data_loading import BaseLazyDataset
from delira.data_loading._exact import cast
from delira.data_loading.load_utils import LoadSample, default_load_fn_2d, norm_range
from delira.data_loading.nii import load_nii, load_sample_nii
from delira.errors import ConfigError, DataError

RED = (200, 30, 60)


@pytest.fixture(scope="module")
def pillow():
    pytest.importorskip("imageio")
    return pytest.importorskip("PIL.Image")


def loaded(path, n_channels=3, shape=(6, 4)):
    return default_load_fn_2d(str(path), img_shape=shape, n_channels=n_channels)["data"]


def noise(shape=(6, 4, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def first(values):
    return values.astype(np.float32).reshape(*values.shape[:2], -1).transpose(2, 0, 1)


# ------------------------------------------------------------------ images


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "P", "HSV"])
@pytest.mark.parametrize("ending", ["jpg", "tif"])
def test_inks_and_palettes_become_the_colours_that_pillow_shows(tmp_path, pillow, mode, ending):
    if (mode, ending) in (("P", "jpg"), ("HSV", "jpg"), ("HSV", "tif")):
        pytest.skip("Pillow does not write that")
    path = tmp_path / f"a.{ending}"
    pillow.fromarray(noise()).convert(mode).save(path)
    expected = np.asarray(pillow.open(path).convert("RGB")) / 255
    assert np.allclose(loaded(path), first(expected), atol=1e-6)
    assert not np.allclose(expected, 1)


def test_four_channels_of_cmyk_come_as_they_are(tmp_path, pillow):
    pillow.fromarray(noise()).convert("CMYK").save(tmp_path / "a.tif")
    stored = np.asarray(pillow.open(tmp_path / "a.tif"))
    assert np.allclose(loaded(tmp_path / "a.tif", 4), first(stored / 255))


def test_cielab_is_refused_by_name(tmp_path, pillow):
    pillow.fromarray(noise()).convert("LAB").save(tmp_path / "a.tif")
    with pytest.raises(DataError, match=r"a\.tif' has the colours of CIELAB.*save it as RGB"):
        loaded(tmp_path / "a.tif")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "i4"])
def test_an_array_in_a_file_has_one_range_in_either_byte_order(tmp_path, pillow, order, dtype):
    values = (np.arange(24).reshape(6, 4) * 10).astype(f"{order}{dtype}")
    np.save(tmp_path / "a.npy", values)
    unit = {"u1": 255, "u2": 65535}.get(dtype, 1)
    assert np.allclose(loaded(tmp_path / "a.npy", 1)[0], values / unit)


@pytest.mark.parametrize("most", [65535, 4095, 255])
def test_a_pgm_of_any_depth_ends_at_one(tmp_path, pillow, most):
    values = np.linspace(0, most, 24).astype(np.int64).reshape(6, 4)
    raw = values.astype(">u2" if most > 255 else "u1").tobytes()
    (tmp_path / "a.pgm").write_bytes(b"P5 4 6 %d\n" % most + raw)
    assert np.allclose(loaded(tmp_path / "a.pgm", 1)[0], values / most, atol=1e-5)


def test_a_tiff_whose_zero_is_white_is_not_turned_into_its_negative(tmp_path, pillow):
    tifffile = pytest.importorskip("tifffile")
    for dtype in (np.uint8, np.uint16):
        values = (np.arange(24).reshape(6, 4) * (np.iinfo(dtype).max // 24)).astype(dtype)
        tifffile.imwrite(tmp_path / "a.tif", values, photometric="miniswhite")
        assert np.allclose(loaded(tmp_path / "a.tif", 1)[0], 1 - values / np.iinfo(dtype).max)


def on_white(path, pillow):
    """What Pillow itself puts on white."""
    with pillow.open(path) as opened:
        picture = opened.convert("RGBA")
    return np.asarray(pillow.alpha_composite(pillow.new("RGBA", picture.size, "white"), picture))[..., :3] / 255


@pytest.mark.parametrize("kind", ["gray", "colour", "palette", "several of a palette", "gif"])
def test_a_transparent_colour_is_white(tmp_path, pillow, kind):
    path = tmp_path / ("a.gif" if kind == "gif" else "a.png")
    values = noise()
    values[2:4] = RED
    picture = pillow.fromarray(values)
    clear = {"gray": 7, "colour": RED, "several of a palette": bytes([0, 128, 255])}.get(kind, 0)
    if kind == "gray":
        values[2:4] = 7
        picture = pillow.fromarray(values[..., 0])
    elif kind != "colour":
        picture = picture.quantize(3)
    picture.save(path, transparency=clear)
    result = loaded(path)
    assert np.allclose(result, first(on_white(path, pillow)), atol=3e-3)
    assert (result == 1).all(axis=0).any()


def test_a_transparent_gray_of_16_bit_is_white(tmp_path, pillow):
    values = np.arange(24, dtype=np.uint16).reshape(6, 4) * 2000
    pillow.fromarray(values).save(tmp_path / "a.png", transparency=4000)
    expected = np.where(values == 4000, 1, values / 65535)
    assert np.allclose(loaded(tmp_path / "a.png", 1)[0], expected)


def test_a_transparent_gray_of_few_bits_is_white(tmp_path, pillow):
    import struct
    import zlib

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    row = b"\0" + bytes([0b00011011])  # 2 bit each: 0 1 2 3
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 1, 2, 0, 0, 0, 0))
    file += chunk(b"tRNS", struct.pack(">H", 1)) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(file)
    assert np.allclose(loaded(tmp_path / "a.png", 1, (1, 4))[0, 0], [0, 1, 2 / 3, 1])


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_upright_as_pillow_turns_them(tmp_path, pillow, ending, orientation):
    from PIL import ImageOps

    path = tmp_path / f"a.{ending}"
    exif = pillow.Exif()
    exif[274] = orientation
    options = {"lossless": True} if ending == "webp" else {}
    pillow.fromarray(noise((8, 16, 3))).save(path, exif=exif, **options)
    expected = np.asarray(ImageOps.exif_transpose(pillow.open(path)))
    assert expected.shape[:2] == ((16, 8) if orientation > 4 else (8, 16))
    assert np.allclose(loaded(path, shape=expected.shape[:2]), first(expected / 255), atol=1e-6)


def test_complex_and_masked_values_are_no_image(tmp_path):
    np.save(tmp_path / "a.npy", np.full((6, 4), 1 + 2j))
    with pytest.raises(DataError, match=r"a\.npy' cannot be used: it holds complex numbers"):
        loaded(tmp_path / "a.npy", 1)
    with pytest.raises(DataError, match="a masked array of which 1 values are masked"):
        norm_range("0,1")(np.ma.array([1.0, 999.0], mask=[0, 1]))


# ------------------------------------------------------------------ volumes


def nifti(path, values, intent=0, slope=None, inter=None):
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(values, np.eye(4))
    image.header["intent_code"] = intent
    image.header.set_slope_inter(slope, inter)
    image.to_filename(path)
    return str(path)


def with_both(path, monkeypatch):
    for package in ("nibabel", "SimpleITK"):
        pytest.importorskip(package)
    read = []
    for hidden in ("SimpleITK", "nibabel"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, hidden, None)
            read.append(load_nii(path))
    assert read[0].shape == read[1].shape
    assert read[0].dtype == read[1].dtype
    assert np.array_equal(*read)
    return read[0]


@pytest.mark.parametrize("intent", [1007, 1006])
@pytest.mark.parametrize("shape", [(5, 4, 3, 1, 3), (5, 4, 1, 1, 3), (5, 4, 3, 2, 3), (5, 4, 3, 1, 2), (5, 4, 3, 1, 1)])
def test_vectors_have_their_components_last_with_either_reader(tmp_path, monkeypatch, intent, shape):
    values = noise(shape).astype(np.float32)
    if intent == 1006 and shape[-1] != 3:  # SimpleITK turns signs of others at random places, or fails
        pytest.importorskip("SimpleITK")
        path = nifti(tmp_path / "a.nii", values, intent)
        monkeypatch.setitem(sys.modules, "nibabel", None)
        with pytest.raises(DataError, match=r"a\.nii"):
            load_nii(path)
        return
    result = with_both(nifti(tmp_path / "a.nii", values, intent), monkeypatch)
    expected = np.moveaxis(values, -1, 0).T if shape[-1] > 1 else values[..., 0].T[..., None]
    expected = expected[0] if shape[3] == 1 else expected
    assert result.shape == (expected.shape if shape[-1] > 1 else expected.shape[:-1])
    assert np.array_equal(result.reshape(expected.shape), expected)


def test_five_axes_that_are_no_vectors_stay_axes(tmp_path, monkeypatch):
    values = noise((5, 4, 3, 2, 3)).astype(np.float32)
    assert np.array_equal(with_both(nifti(tmp_path / "a.nii", values), monkeypatch), values.T)


@pytest.mark.parametrize("names", ["RGB", "RGBA"])
@pytest.mark.parametrize("shape", [(5, 4, 1), (5, 4), (5, 4, 1, 1), (5, 4, 3)])
def test_one_slice_of_colours_keeps_its_axis_with_either_reader(tmp_path, monkeypatch, names, shape):
    values = np.zeros(shape, [(name, "u1") for name in names])
    for number, name in enumerate(names):
        values[name] = noise(shape, number)
    result = with_both(nifti(tmp_path / "a.nii", values), monkeypatch)
    assert result.shape == (*shape[2::-1], len(names))
    assert np.array_equal(result[..., 1].reshape(values["G"].T.shape), values["G"].T)


def test_a_scaled_mask_is_rounded_and_never_cut_off(tmp_path):
    raw = np.full((3, 3, 2), 41, np.uint8)
    mask = nifti(tmp_path / "mask.nii", raw, slope=1 / 41, inter=0)
    sample = LoadSample({"mask": "mask.nii"}, load_nii, dtype={"mask": np.int64})(str(tmp_path))
    assert sample["mask"].dtype == np.int64
    assert np.unique(sample["mask"]).tolist() == [1]
    nifti(tmp_path / "image.nii", np.full((3, 3, 2), 100, np.int16))
    with pytest.warns(DeprecationWarning, match="load_sample_nii"):
        old = load_sample_nii({"img": str(tmp_path / "image.nii"), "mask": mask, "label": None}, lambda _: NoLabels())
    assert np.unique(old["mask"]).tolist() == [1]


class NoLabels:
    def get_labels(self):
        return {}


@pytest.mark.parametrize(
    ("values", "dtype", "match"),
    [
        ([300], "uint8", r"holds the value 300, which uint8 cannot hold \(its values are 0 to 255\)"),
        ([-1], "uint8", "holds the value -1, which uint8"),
        ([1.5], "int64", r"holds 1\.5, which is no integer"),
        ([0.999], "int64", r"holds 0\.999, which is no integer"),
        ([float("nan")], "int64", "holds nan, which is no integer"),
        ([float("inf")], "int64", "holds inf, which is no integer"),
        ([0.3], "bool", r"holds 0\.3, which is no integer"),
        ([1j], "float32", "holds complex numbers, which as float32 would lose their imaginary part"),
        ([1e39], "float32", r"holds the value 1e\+39, which float32 cannot hold"),
        ([70000], "float16", "holds the value 70000, which float16"),
    ],
)
def test_values_that_a_type_cannot_hold_are_refused_with_the_file(tmp_path, values, dtype, match):
    np.save(tmp_path / "a.npy", np.array(values))
    dataset = BaseLazyDataset([str(tmp_path)], LoadSample({"mask": "a.npy"}, np.load, dtype={"mask": dtype}))
    with pytest.raises(DataError, match=rf"entry 'mask' of '{tmp_path}' {match}"):
        dataset[0]


@settings(max_examples=200)
@given(
    st.lists(st.one_of(st.integers(-(2**70), 2**70), st.floats(-300, 300)), min_size=1, max_size=3),
    st.sampled_from(["uint8", "int8", "uint16", "int32", "int64", "uint64"]),
)
def test_what_is_cast_to_integers_is_right_or_refused(values, dtype):
    array = np.array(values, dtype=np.float64)
    limits = np.iinfo(dtype)
    near = [round(value) for value in array.tolist()]
    if all(abs(a - n) <= 1e-6 for a, n in zip(array.tolist(), near, strict=True)) and all(
        limits.min <= n <= limits.max for n in near
    ):
        assert cast(array, np.dtype(dtype), "x").tolist() == near
    elif all(abs(a - n) > 1e-3 or not limits.min <= n <= limits.max for a, n in zip(array.tolist(), near, strict=True)):
        with pytest.raises(DataError):
            cast(array, np.dtype(dtype), "x")


def test_a_type_that_numpy_does_not_know_is_refused_at_construction():
    with pytest.raises(ConfigError, match=r"dtype of 'mask' must be one of numpy's, e\.g\. 'float32', got 'float99'"):
        LoadSample({"mask": "a.npy"}, np.load, dtype={"mask": "float99"})


def test_integers_of_64_bit_are_compared_exactly():
    with pytest.raises(DataError, match="which int64 cannot hold"):
        cast(np.array([2**63], dtype=np.uint64), np.dtype(np.int64), "x")
    assert cast(np.array([2**63 - 1], dtype=np.uint64), np.dtype(np.int64), "x").tolist() == [2**63 - 1]
