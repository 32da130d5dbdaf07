"""A sliding window gives what MONAI's gives, in bounded memory, and refuses what it cannot put together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delira
from delira.errors import ConfigError, DataError
from delira.inference import SlidingWindow

rng = np.random.default_rng(0)


def smooth(batch):
    """A network that sees its neighbours: what it says depends on where a window lies."""
    x = batch["data"]
    total = sum(np.roll(x, 1, axis) for axis in range(2, x.ndim)) + x
    return {"pred": np.concatenate([np.tanh(total[:, :1]), np.cos(total[:, :1])], axis=1)}


CASES = [
    ((40, 33), (16, 8), 0.5, "gaussian", 1, "constant"),
    ((40, 33), 16, 0.25, "constant", 3, "constant"),
    ((20, 31, 17), (8, 16, 12), 0.5, "gaussian", 2, "constant"),
    ((6, 31, 17), (8, 16, 20), (0.5, 0.25, 0.6), "gaussian", 4, "replicate"),
    ((12, 31, 17), (16, 16, 20), 0.5, "gaussian", 4, "reflect"),
    ((7, 9), (16, 12), 0.5, "gaussian", 1, "circular"),
]


@pytest.mark.parametrize(("shape", "size", "overlap", "weighting", "batch_size", "padding"), CASES)
def test_it_is_equal_to_monai(shape, size, overlap, weighting, batch_size, padding):
    torch = pytest.importorskip("torch")
    inferers = pytest.importorskip("monai.inferers")
    x = rng.normal(size=(2, 2, *shape)).astype(np.float32)
    roi = size if isinstance(size, tuple) else (size,) * len(shape)
    expected = inferers.sliding_window_inference(
        torch.as_tensor(x), roi, batch_size, lambda a: torch.as_tensor(smooth({"data": a.numpy()})["pred"]),
        overlap=overlap, mode=weighting, padding_mode=padding,
    )  # fmt: skip
    window = SlidingWindow(size, overlap, weighting, batch_size, padding=padding)
    found = window(smooth, {"data": x}, ["data"])["pred"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)


@given(
    st.lists(st.integers(1, 23), min_size=1, max_size=3),
    st.integers(1, 9),
    st.floats(0, 0.9),
    st.sampled_from(["gaussian", "constant"]),
    st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_what_depends_on_one_voxel_alone_comes_back_as_it_is(shape, size, overlap, weighting, batch_size):
    x = rng.normal(size=(1, 1, *shape)).astype(np.float32)
    window = SlidingWindow(size, overlap, weighting, batch_size)
    found = window(lambda batch: {"pred": batch["data"] * 2}, {"data": x}, ["data"])["pred"]
    np.testing.assert_allclose(found, 2 * x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 33), (6, 21, 17), (5, 3)])
@pytest.mark.parametrize("in_file", [False, True])
def test_outputs_may_have_their_channels_last(shape, in_file):
    x = rng.normal(size=(2, 2, *shape)).astype(np.float32)
    window = SlidingWindow((8, 7, 6)[: len(shape)], batch_size=3, memory_map=in_file)
    last = window(lambda batch: {"pred": np.moveaxis(smooth(batch)["pred"], 1, -1)}, {"data": x}, ["data"])["pred"]
    first = window(smooth, {"data": x}, ["data"])["pred"]
    assert last.shape == (2, *shape, 2)
    assert isinstance(last, np.memmap) == in_file
    np.testing.assert_array_equal(last, np.moveaxis(first, 1, -1))


def test_windows_cover_every_voxel_and_none_lies_outside():
    window = SlidingWindow((5, 4), overlap=(0.4, 0))
    covered = np.zeros((13, 9), int)
    for y, x in window.places((13, 9)):
        assert 0 <= y <= 8
        assert 0 <= x <= 5
        covered[y : y + 5, x : x + 4] += 1
    assert covered.min() >= 1


def test_entries_that_are_not_in_space_come_with_each_window_and_labels_are_cut_with_it():
    seen = []

    def call(batch):
        seen.append({key: value.shape for key, value in batch.items()})
        return {"pred": batch["data"]}

    batch = {"data": np.zeros((2, 1, 8, 8), "f"), "label": np.zeros((2, 8, 8), int), "age": np.zeros((2, 3))}
    SlidingWindow(4, 0, batch_size=3)(call, batch, ["data"])
    assert seen[0] == {"data": (3, 1, 4, 4), "label": (3, 4, 4), "age": (3, 3)}
    assert len(seen) == 4


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("in_file", [False, True])
def test_sums_may_be_of_half_precision_and_in_a_file(dtype, in_file, tmp_path):
    x = rng.normal(size=(1, 1, 20, 18)).astype(np.float32)
    window = SlidingWindow(8, dtype=dtype, memory_map=tmp_path if in_file else False)
    found = window(smooth, {"data": x}, ["data"])["pred"]
    assert found.dtype == dtype
    assert isinstance(found, np.memmap) == in_file
    exact = SlidingWindow(8)(smooth, {"data": x}, ["data"])["pred"]
    np.testing.assert_allclose(found, exact, rtol=1e-5 if dtype == "float32" else 4e-3, atol=1e-3)
    assert not [*tmp_path.iterdir()]  # the file has no name


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda batch: {"pred": batch["data"].reshape(-1, 4, 2, 2)}, "of inputs that have their channels first"),
        (lambda batch: {"pred": batch["data"].mean((2, 3))}, r"'pred' has the shape \(1, 1\)"),
        (lambda batch: {"pred": batch["data"][..., ::2]}, "joins outputs that have one value"),
        (lambda batch: {"pred": (batch["data"] > 0).astype(int)}, "of which no mean is made"),
    ],
)
def test_outputs_that_cannot_be_joined_are_refused(call, told):
    with pytest.raises(DataError, match=told):
        SlidingWindow(4)(call, {"data": np.zeros((1, 1, 8, 8), "f")}, ["data"])


@pytest.mark.parametrize(
    ("window", "batch", "told"),
    [
        (SlidingWindow((4, 4, 4)), {"data": np.zeros((1, 1, 8, 8), "f")}, "3 axes in space"),
        (SlidingWindow(4), {"data": np.zeros((1, 8), "f")}, "axes in space"),
        (SlidingWindow(9, padding=None), {"data": np.zeros((1, 1, 8, 8), "f")}, r"\(9, 9\) is larger than .* \(8, 8\)"),
        (SlidingWindow(20, padding="reflect"), {"data": np.zeros((1, 1, 8, 8), "f")}, "too small to be reflected"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(window, batch, told):
    with pytest.raises(DataError, match=told):
        window(smooth, batch, ["data"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"size": 0}, "size"),
        ({"size": (4, 2.5)}, "size"),
        ({"size": ()}, "size"),
        ({"size": 4, "overlap": 1}, "overlap"),
        ({"size": 4, "overlap": -0.1}, "overlap"),
        ({"size": 4, "weighting": "hann"}, "weighting"),
        ({"size": 4, "padding": "zeros"}, "padding"),
        ({"size": 4, "batch_size": 0}, "batch_size"),
        ({"size": 4, "sigma": 0}, "sigma"),
        ({"size": 4, "dtype": "int32"}, "dtype"),
        ({"size": (4, 4), "overlap": (0.5, 0.5, 0.5)}, "different numbers of axes"),
    ],
)
def test_arguments_of_no_use_are_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        SlidingWindow(**arguments)


def test_it_is_shown_in_the_package():
    assert delira.SlidingWindow is SlidingWindow
    assert repr(SlidingWindow((8, 4), 0.25)) == "SlidingWindow((8, 4), overlap=0.25, weighting='gaussian')"


_MEMORY = """
import re, threading, time
import numpy as np
from delira.inference import SlidingWindow

def anonymous():
    return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1])

x = np.ones((1, 1, {shape}), np.float32)
weights = np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1, 1)
window, call = SlidingWindow({size}), lambda batch: {{"pred": batch["data"] * weights}}
window(call, {{"data": x[:, :, :{size}, :{size}, :{size}]}}, ["data"])
base, peak, done = anonymous(), [0], threading.Event()

def watch():
    while not done.wait(0.002):
        peak[0] = max(peak[0], anonymous())

thread = threading.Thread(target=watch)
thread.start()
found = window(call, {{"data": x}}, ["data"])["pred"]
done.set()
thread.join()
assert abs(found[0, 3] - 3).max() < 1e-5
print((peak[0] - base - found.nbytes) / x.nbytes)
"""


@pytest.mark.skipif(not __import__("os").path.exists("/proc/self/status"), reason="needs the memory figures of Linux")
@pytest.mark.parametrize(
    ("shape", "size"),
    [("160, 160, 192", 48), pytest.param("512, 512, 600", 128, marks=pytest.mark.slow)],
)
def test_it_takes_little_memory_beyond_input_and_output(shape, size):
    """At most 1.5 maps of one class in float32."""
    import subprocess
    import sys

    code = _MEMORY.format(shape=shape, size=size)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert float(done.stdout) <= 1.5
