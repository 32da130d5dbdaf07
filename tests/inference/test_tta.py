"""Test-time augmentation is the mean of predictions that were put back, as one would do it by hand."""

import itertools

import numpy as np
import pytest

import delira
from delira.errors import ConfigError, DataError, MissingKeyError
from delira.inference import SlidingWindow, TestTimeAugmentation, joined

rng = np.random.default_rng(0)
X = rng.normal(size=(2, 1, 6, 9)).astype(np.float32)


def network(batch):
    """What it says of a place depends on where that lies."""
    x = batch["data"]
    return {"pred": np.cumsum(np.cumsum(x, -1), -2), "score": x[:, :, 0, 0]}


def test_flips_are_all_combinations_of_the_axes():
    found = TestTimeAugmentation((0, 1))(network, {"data": X}, ["data"])
    axes = [(), (2,), (3,), (2, 3)]
    outputs = [network({"data": np.flip(X, one)}) for one in axes]
    by_hand = np.mean([np.flip(one["pred"], axis) for one, axis in zip(outputs, axes, strict=True)], axis=0)
    np.testing.assert_allclose(found["pred"], by_hand, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["score"], np.mean([one["score"] for one in outputs], axis=0), rtol=1e-5)


def test_rotations_are_turned_back_also_where_the_plane_is_no_square():
    found = TestTimeAugmentation(rotations=[(0, 1)])(network, {"data": X}, ["data"])["pred"]
    turned = [network({"data": np.rot90(X, number, (2, 3))})["pred"] for number in range(4)]
    by_hand = np.mean([np.rot90(one, -number, (2, 3)) for number, one in enumerate(turned)], axis=0)
    np.testing.assert_allclose(found, by_hand, rtol=1e-5, atol=1e-5)


def test_positions_that_are_the_same_are_taken_once():
    assert TestTimeAugmentation((0, 1)).n_positions == 4
    assert TestTimeAugmentation(rotations=(0, 1)).n_positions == 4
    assert TestTimeAugmentation((0, 1), [(0, 1)]).n_positions == 8  # the symmetries of a square
    assert TestTimeAugmentation((0, 1, 2), [(0, 1), (1, 2), (0, 2)]).n_positions == 48  # of a cube


@pytest.mark.parametrize("shape", [(6, 9), (4, 5, 3)])
def test_outputs_may_have_their_channels_last_or_none(shape):
    x = rng.normal(size=(2, 1, *shape)).astype(np.float32)
    tta = TestTimeAugmentation((0, 1), [(0, 1)])

    def maps(batch):
        pred = np.concatenate([np.cumsum(batch["data"], -1), np.cumsum(batch["data"], -2)], 1)
        return {"pred": pred, "last": np.moveaxis(pred, 1, -1), "none": pred[:, 1]}

    found = tta(maps, {"data": x}, ["data"])
    np.testing.assert_array_equal(found["last"], np.moveaxis(found["pred"], 1, -1))
    np.testing.assert_array_equal(found["none"], found["pred"][:, 1])
    flipped = TestTimeAugmentation((0,))(maps, {"data": x}, ["data"])["last"]
    by_hand = (maps({"data": x})["last"] + np.flip(maps({"data": np.flip(x, 2)})["last"], 1)) / 2
    np.testing.assert_allclose(flipped, by_hand, rtol=1e-5, atol=1e-5)


def test_maps_of_another_size_and_inputs_with_their_channels_last_are_refused():
    tta, last = TestTimeAugmentation((0,)), np.moveaxis(rng.normal(size=(2, 3, 6, 9)), 1, -1)
    with pytest.raises(DataError, match=r"'pred' has the shape \(2, 1, 3, 9\) for inputs of \(6, 9\) in space"):
        tta(lambda batch: {"pred": batch["data"][:, :, ::2]}, {"data": X}, ["data"])
    with pytest.raises(DataError, match="inputs have their channels first"):
        tta(lambda batch: {"pred": batch["data"] @ np.ones((3, 4))}, {"data": last}, ["data"])


def test_maps_of_one_axis_without_channels_are_refused_since_they_may_be_classes():
    signals, tta = rng.normal(size=(2, 1, 7)), TestTimeAugmentation((0,))
    with pytest.raises(DataError, match=r"'pred' has the shape \(2, 7\).*may be one value for each place"):
        tta(lambda batch: {"pred": batch["data"][:, 0]}, {"data": signals}, ["data"])
    np.testing.assert_allclose(tta(dict, {"data": signals}, ["data"])["data"], signals, rtol=1e-6)
    of_classes = tta(lambda batch: {"pred": batch["data"][:, 0, :3]}, {"data": signals}, ["data"])["pred"]
    np.testing.assert_allclose(of_classes, (signals[:, 0, :3] + signals[:, 0, :-4:-1]) / 2, rtol=1e-6)


def test_functions_of_the_user_come_in_pairs():
    pair = (lambda batch: {**batch, "data": batch["data"] + 1}, lambda outputs: {k: v - 1 for k, v in outputs.items()})
    found = TestTimeAugmentation(functions=[pair])(network, {"data": X}, ["data"])["pred"]
    by_hand = (network({"data": X})["pred"] + network({"data": X + 1})["pred"] - 1) / 2
    np.testing.assert_allclose(found, by_hand, rtol=1e-5, atol=1e-5)


def test_it_goes_around_windows():
    window, tta = SlidingWindow(4), TestTimeAugmentation((1,))

    def pixels(batch):
        return {"pred": np.cumsum(batch["data"], -1)}

    found = joined(tta, window)(pixels, {"data": X}, ["data"])["pred"]
    plain = window(pixels, {"data": X}, ["data"])["pred"]
    turned = np.flip(window(pixels, {"data": np.flip(X, 3)}, ["data"])["pred"], 3)
    np.testing.assert_allclose(found, (plain + turned) / 2, rtol=1e-5, atol=1e-5)
    assert joined(None, window) is window
    assert joined(tta, None) is tta
    assert joined(None, None) is None


def test_inputs_stay_as_they_are():
    before = X.copy()
    TestTimeAugmentation((0, 1), [(0, 1)])(network, {"data": X}, ["data"])
    np.testing.assert_array_equal(X, before)


def test_entries_that_are_no_images_are_not_moved():
    seen = []
    batch = {"data": X, "label": np.zeros((2, 6, 9), int), "age": np.arange(12).reshape(2, 6)}
    TestTimeAugmentation((0,))(lambda one: seen.append(one) or network(one), batch, ["data"])
    np.testing.assert_array_equal(seen[1]["age"], batch["age"])
    assert seen[1]["label"].shape == (2, 6, 9)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "nothing to do"),
        ({"flips": (0, 0)}, "different axes"),
        ({"flips": (-1,)}, "from 0"),
        ({"flips": (0.5,)}, "from 0"),
        ({"rotations": [(0, 0)]}, "different axes"),
        ({"rotations": [(0, 1, 2)]}, "pairs"),
        ({"rotations": [0]}, "pairs"),
        ({"functions": [np.flip]}, "pairs"),
    ],
)
def test_arguments_of_no_use_are_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        TestTimeAugmentation(**arguments)


def test_an_axis_that_inputs_do_not_have_is_refused():
    with pytest.raises(DataError, match="axis 2"):
        TestTimeAugmentation((0, 2))(network, {"data": X}, ["data"])


def test_outputs_that_are_not_put_back_are_refused():
    with pytest.raises(DataError, match="does undo put back"):
        TestTimeAugmentation(functions=[(lambda b: {"data": b["data"][..., :-1]}, lambda o: o)])(
            network, {"data": X}, ["data"]
        )
    with pytest.raises(MissingKeyError, match="'score'"):
        TestTimeAugmentation(functions=[(dict, lambda o: {"pred": o["pred"]})])(network, {"data": X}, ["data"])
    with pytest.raises(DataError, match=r"'pred' is of bool, of which .* no mean"):
        TestTimeAugmentation((0,))(lambda b: {"pred": b["data"] > 0}, {"data": X}, ["data"])


def test_every_position_of_a_volume_comes_back():
    x = rng.normal(size=(1, 1, 3, 4, 5)).astype(np.float32)
    tta = TestTimeAugmentation((0, 1, 2), list(itertools.combinations(range(3), 2)))
    np.testing.assert_allclose(tta(lambda b: {"pred": b["data"]}, {"data": x}, ["data"])["pred"], x, rtol=1e-6)


def test_it_is_shown_in_the_package():
    assert delira.TestTimeAugmentation is TestTimeAugmentation
    assert repr(TestTimeAugmentation((0,), [(0, 1)])) == "TestTimeAugmentation(flips=(0,), rotations=((0, 1),))"
