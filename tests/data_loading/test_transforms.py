"""Adapters of transforms: single samples to batches, several transforms to one."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from delira.data_loading import BaseDataManager
from delira.data_loading.transforms import Compose, PerSampleTransform
from delira.errors import ConfigError, DataError, MissingKeyError
from delira.utils import yaml_codec

RENAMED = {"data": "image", "seg": "mask"}


def batch_of(size=3):
    images = np.arange(size * 2 * 4 * 5, dtype=np.float32).reshape(size, 2, 4, 5)
    return {"data": images, "seg": (images[:, :1] % 2).astype(np.int16), "label": np.arange(size), "source": "here"}


def generator():
    return np.random.default_rng(0)


def identity(sample):
    return sample


def noise(sample, rng):
    return sample | {"data": sample["data"] + rng.normal()}


def scale(**sample):
    sample["image"] = sample["image"] * 2
    return sample


class Seeded:
    """Keeps a generator of its own, the way MONAI's transforms do."""

    def __init__(self):
        self.own = np.random.RandomState()

    def set_random_state(self, seed=None, state=None):
        self.own = np.random.RandomState(seed)
        return self

    def __call__(self, sample):
        return sample | {"data": sample["data"] + self.own.normal()}


class Shared:
    """Keeps two generators of its own, the way albumentations' transforms do."""

    def __init__(self):
        self.set_random_state(np.random.default_rng(), random.Random())

    def set_random_state(self, random_generator, py_random):
        self.own, self.python = random_generator, py_random

    def __call__(self, sample):
        return sample | {"data": sample["data"] + self.own.normal() + self.python.random()}


class InTurn:
    """A composition of another library, which does not hand generators down."""

    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, sample):
        for transform in self.transforms:
            sample = transform(sample)
        return sample


class Picture:
    """An image of another library, which numpy can make an array of."""

    def __init__(self, pixels):
        self.pixels = pixels

    def __array__(self, dtype=None, copy=None):
        return self.pixels


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for key, values in one.items():
        np.testing.assert_array_equal(values, other[key], strict=True)


# ---- what the transform gets


def test_each_sample_is_handed_over_as_a_dict():
    got = []
    PerSampleTransform(lambda sample: got.append(sample) or sample)(batch_of(), generator())
    assert [set(sample) for sample in got] == [{"data", "seg", "label"}] * 3
    assert [sample["label"] for sample in got] == [0, 1, 2]
    assert got[1]["data"].tolist() == batch_of()["data"][1].tolist()


def test_a_signature_with_keywords_gets_keywords():
    transformed = PerSampleTransform(scale, {"data": "image"})(batch_of(), generator())
    assert transformed["data"].tolist() == (batch_of()["data"] * 2).tolist()


def test_entries_are_renamed_there_and_back_and_the_others_are_not_touched():
    batch, got = batch_of(), []
    transformed = PerSampleTransform(lambda sample: got.append(set(sample)) or sample, RENAMED)(batch, generator())
    assert got == [{"image", "mask"}] * 3
    assert_equal(transformed, batch_of())
    assert transformed["label"] is batch["label"]
    assert transformed["source"] == "here"


def test_a_transform_may_take_a_generator():
    transformed = PerSampleTransform(noise)(batch_of(), generator())
    drawn = (transformed["data"] - batch_of()["data"])[:, 0, 0, 0]
    np.testing.assert_allclose(drawn, generator().normal(size=3), rtol=1e-4)


def test_channels_go_last_and_come_back():
    shapes = []

    def crop(sample):
        shapes.append((sample["image"].shape, sample["plane"].shape, sample["image"].flags.c_contiguous))
        return sample | {"image": sample["image"][1:]}

    batch = batch_of() | {"plane": np.zeros((3, 4, 5))}
    keys = {"data": "image", "plane": "plane"}
    transformed = PerSampleTransform(crop, keys, channels_last=True)(batch, generator())
    assert shapes == [((4, 5, 2), (4, 5), True)] * 3
    assert transformed["data"].tolist() == batch["data"][:, :, 1:].tolist()
    assert transformed["data"].flags.c_contiguous
    assert transformed["plane"].shape == (3, 4, 5)


def test_arrays_are_converted_before_and_single_numbers_are_not():
    got = []

    def note(sample):
        got.append([type(value).__name__ for value in sample.values()])
        return sample

    transformed = PerSampleTransform(note, convert=Picture)(batch_of(), generator())
    assert got == [["Picture", "Picture", "int64"]] * 3
    assert_equal(transformed, batch_of())


def test_tensors_go_there_and_back():
    torch = pytest.importorskip("torch")

    def flip(image, mask, **others):
        return {"image": torch.flip(image, (2,)), "mask": torch.flip(mask, (2,)), **others}

    transformed = PerSampleTransform(flip, RENAMED, convert=torch.from_numpy)(batch_of(), generator())
    for key in RENAMED:
        np.testing.assert_array_equal(transformed[key], batch_of()[key][..., ::-1], strict=True)


@given(
    values=arrays_of.arrays(
        st.sampled_from([np.float32, np.int16, np.bool_]), arrays_of.array_shapes(min_dims=1, max_dims=5)
    ),
    channels_last=st.booleans(),
)
@settings(max_examples=50)
def test_what_is_not_changed_comes_back_bit_by_bit(values, channels_last):
    batch = PerSampleTransform(identity, channels_last=channels_last)({"data": values}, generator())
    assert (batch["data"].dtype, batch["data"].shape) == (values.dtype, values.shape)
    assert batch["data"].tobytes() == values.tobytes()


# ---- what it returns


def test_what_the_transform_adds_is_taken_if_no_keys_are_named():
    def add(sample):
        return sample | {"mean": sample[next(iter(sample))].mean()}

    assert PerSampleTransform(add)(batch_of(), generator())["mean"].shape == (3,)
    assert "mean" not in PerSampleTransform(add, RENAMED)(batch_of(), generator())


def test_all_samples_may_change_their_shape_together():
    def grow(sample):
        return sample | {"data": np.repeat(sample["data"], 2, axis=-1).astype(np.float64)}

    transformed = PerSampleTransform(grow)(batch_of(), generator())
    assert (transformed["data"].shape, transformed["data"].dtype) == ((3, 2, 4, 10), np.float64)


def third(sample, changed):
    return changed if sample["label"] == 2 else sample


@pytest.mark.parametrize(
    ("transform", "keys", "match"),
    [
        (
            lambda s: third(s, s | {"data": s["data"][:, 1:]}),
            None,
            r"entry 'data' of sample 2 of the batch has shape \(2, 3, 5\) after <lambda>, but \(2, 4, 5\) was expected",
        ),
        (
            lambda s: third(s, {"data": 1, "label": 2}),
            None,
            r"<lambda> lost the keys \['seg'\] of sample 2 of the batch, it returned \['data', 'label'\]",
        ),
        (lambda s: {"image": s["image"]}, RENAMED, r"lost the keys \['mask'\] of sample 0 of the batch"),
        (lambda s: s.pop("seg") is None or s, None, r"lost the keys \['seg'\] of sample 0 of the batch"),
        (
            lambda s: third(s, s | {"more": 1}),
            None,
            r"returned the entries \['data', 'seg', 'label', 'more'\] for sample 2 of the batch, but .* for sample 0",
        ),
        (lambda s: third(s, None), None, "<lambda> made a NoneType of sample 2 of the batch; it must return a dict"),
        (lambda s: [s], None, "<lambda> made a list of sample 0 of the batch"),
    ],
)
def test_a_sample_that_does_not_fit_is_named(transform, keys, match):
    with pytest.raises(DataError, match=match):
        PerSampleTransform(transform, keys)(batch_of(), generator())


def test_an_error_of_the_transform_keeps_its_type_and_names_the_sample_and_the_batch():
    def fussy(sample):
        return 1 / third(sample, 0) if sample["label"] == 2 else sample

    manager = BaseDataManager({"label": np.arange(4)}, 4, transforms=PerSampleTransform(fussy))
    with pytest.raises(ZeroDivisionError) as caught:
        next(iter(manager))
    assert caught.value.__notes__[0] == "while transform fussy worked on sample 2 of the batch with the keys ['label']"
    assert any("batch 1" in note for note in caught.value.__notes__)


def test_what_cannot_become_an_array_is_named():
    def ragged(sample):
        return {"image": [[1], [2, 3]]}

    with pytest.raises(ValueError, match="inhomogeneous") as caught:
        PerSampleTransform(ragged, {"data": "image"})(batch_of(), generator())
    assert caught.value.__notes__ == ["while 'image' of sample 0 of the batch was turned into an array"]


def test_an_entry_that_the_batch_lacks_is_named():
    with pytest.raises(
        MissingKeyError, match=r"name \['sag'\], but the batch has \['data', 'seg', 'label', 'source'\]"
    ):
        PerSampleTransform(identity, {"data": "image", "sag": "mask"})(batch_of(), generator())


@pytest.mark.parametrize(
    ("batch", "keys", "match"),
    [
        (batch_of() | {"weights": np.ones(7)}, None, r"'label': \(3,\), 'weights': \(7,\)}; name those that consist"),
        (batch_of(), {"data": "image", "source": "mask"}, r"'source': \(\)}"),
        ({"source": "here"}, None, r"identity works on samples, but the batch does not say how many .* lengths {};"),
    ],
)
def test_a_batch_without_a_clear_number_of_samples_is_refused(batch, keys, match):
    with pytest.raises(DataError, match=match):
        PerSampleTransform(identity, keys)(batch, generator())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"transform": [identity]}, "must be a callable or None, got a list"),
        ({"keys": {}}, "keys must give each entry of the batch a name of its own in the transform.*got {}"),
        ({"keys": {"data": "image", "seg": "image"}}, "a name of its own"),
        ({"keys": ["data"]}, r"got \['data'\]"),
        ({"keys": {"data": ["image"]}}, "a name of its own"),
        ({"convert": "torch"}, "convert must be a callable or None, got 'torch'"),
    ],
)
def test_wrong_settings_are_refused(arguments, match):
    with pytest.raises(ConfigError, match=match):
        PerSampleTransform(**{"transform": identity} | arguments)


# ---- generators that a transform keeps


@pytest.mark.parametrize(
    "make",
    [Seeded, Shared, lambda: InTurn(Seeded(), Shared()), lambda: InTurn(InTurn(identity, Shared()), identity)],
    ids=["seed", "generators", "parts", "parts of parts"],
)
def test_generators_that_a_transform_keeps_are_set(make):
    def drawn(transform, seed):
        transformed = transform(batch_of(), np.random.default_rng(seed))
        return (transformed["data"] - batch_of()["data"])[:, 0, 0, 0].tolist()

    used = PerSampleTransform(make())
    first = drawn(used, 1)
    assert len(set(first)) == 3
    assert drawn(used, 2) != first
    assert drawn(used, 1) == drawn(PerSampleTransform(make()), 1) == first


def test_parts_that_keep_generators_draw_different_numbers():
    seen = []

    class Noted(Seeded):
        def __call__(self, sample):
            seen.append(self.own.normal())
            return sample

    PerSampleTransform(InTurn(Noted(), Noted()))(batch_of(1), generator())
    assert len(set(seen)) == 2


# ---- several transforms


def flip_all(**batch):
    return batch | {"data": batch["data"][..., ::-1]}


def shift(batch, rng):
    return batch | {"data": batch["data"] + rng.integers(1000)}


def test_transforms_of_every_kind_follow_each_other():
    parts = [flip_all, shift, PerSampleTransform(scale, {"data": "image"}), lambda batch: batch | {"done": True}]
    transformed = Compose(parts)(batch_of(), generator())
    assert transformed.pop("done") is True
    expected = batch_of() | {"data": (batch_of()["data"][..., ::-1] + generator().integers(1000)) * 2}
    assert_equal(transformed, expected)


def test_a_composition_of_nothing_changes_nothing():
    assert_equal(Compose([])(batch_of(), generator()), batch_of())


def test_parts_share_the_generator():
    manager = BaseDataManager({"data": np.zeros(8)}, 4, transforms=Compose([noise, noise]))
    single = BaseDataManager({"data": np.zeros(8)}, 4, transforms=noise)
    for both, one in zip(manager.epoch(0, 0, 0), single.epoch(0, 0, 0), strict=True):
        assert (both["data"] != 2 * one["data"]).all()


@pytest.mark.parametrize(
    ("part", "match"),
    [
        (lambda batch: {"data": 1}, r"<lambda> lost the keys \['seg', 'label', 'source'\] of the batch"),
        (lambda batch: None, "<lambda> made a NoneType of the batch; it must return a dict"),
    ],
)
def test_the_part_that_does_not_keep_the_rules_is_named(part, match):
    with pytest.raises(DataError, match=match):
        Compose([shift, part])(batch_of(), generator())


def test_an_error_of_a_part_names_it():
    def broken(batch):
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose") as caught:
        Compose([shift, broken])(batch_of(), generator())
    (note,) = caught.value.__notes__
    assert note.startswith("while transform broken worked on the batch with the keys")


def test_a_part_that_cannot_be_called_is_refused():
    with pytest.raises(ConfigError, match="must be a callable or None, got a int"):
        Compose([shift, 3])


# ---- in a manager


def manager_of(transforms):
    return BaseDataManager(batch_of(9) | {"source": np.arange(9)}, 4, transforms=transforms)


def content(batches):
    return [{key: (values.dtype.str, values.tolist()) for key, values in batch.items()} for batch in batches]


@pytest.mark.parametrize("make", [lambda: PerSampleTransform(InTurn(Seeded(), Shared())), lambda: Compose([shift])])
def test_batches_depend_on_the_counters_alone(make):
    expected = content(manager_of(make()).epoch(3, 1, 2, shuffle=True))
    manager = manager_of(make())
    content(manager.epoch(3, 1, 1))
    assert content(manager.epoch(3, 1, 2, shuffle=True)) == expected
    assert content(manager.epoch(3, 1, 2, 1, shuffle=True)) == expected[1:]
    for counters in ((4, 1, 2), (3, 0, 2), (3, 1, 3)):
        assert content(manager.epoch(*counters)) != content(manager.epoch(3, 1, 2))


def test_adapters_travel_to_other_processes():
    transform = Compose([shift, PerSampleTransform(InTurn(Seeded(), Shared())), PerSampleTransform(noise)])
    copy = pickle.loads(pickle.dumps(transform))
    assert content(manager_of(copy)) == content(manager_of(transform))


def test_what_is_adapted_is_written_down_and_does_not_depend_on_use():
    manager = manager_of(Compose([PerSampleTransform(noise, {"data": "data"}, channels_last=True)]))
    before = yaml_codec.encode(manager.describe())
    list(manager)
    assert yaml_codec.encode(manager.describe()) == before
    assert "test_transforms:noise" in str(before)
    other = manager_of(Compose([PerSampleTransform(noise, {"data": "data"})]))
    assert yaml_codec.encode(other.describe()) != before
