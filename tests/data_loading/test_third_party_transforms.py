"""Transforms of other libraries, unmodified: they work, and a batch is a function of seed, fold, epoch and number."""

import pickle
import random
import sys

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.data_loading.transforms import Compose, PerSampleTransform

# what the libraries say about themselves and numpy, mostly when they are imported
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::SyntaxWarning")


# ---- the transforms, each with the rank of the images that it is made for


def batchgenerators(n_dimensions):
    pytest.importorskip("batchgenerators")
    from batchgenerators.transforms.abstract_transforms import Compose as Composed
    from batchgenerators.transforms.color_transforms import BrightnessMultiplicativeTransform, GammaTransform
    from batchgenerators.transforms.noise_transforms import GaussianNoiseTransform
    from batchgenerators.transforms.spatial_transforms import MirrorTransform, SpatialTransform

    size = (12,) * n_dimensions
    return Composed(
        [
            SpatialTransform(size, [5] * n_dimensions, angle_x=(-0.5, 0.5), alpha=(0, 50), random_crop=True),
            MirrorTransform(axes=tuple(range(n_dimensions))),
            BrightnessMultiplicativeTransform((0.7, 1.5)),
            GammaTransform((0.5, 2)),
            GaussianNoiseTransform((0, 0.1)),
        ]
    )


def batchgeneratorsv2(n_dimensions):
    pytest.importorskip("batchgeneratorsv2")
    torch = pytest.importorskip("torch")
    from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
    from batchgeneratorsv2.transforms.intensity.contrast import BGContrast
    from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
    from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
    from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform
    from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform
    from batchgeneratorsv2.transforms.utils.compose import ComposeTransforms
    from batchgeneratorsv2.transforms.utils.random import RandomTransform

    composed = ComposeTransforms(
        [
            SpatialTransform(
                (12,) * n_dimensions, 5, True, p_elastic_deform=0.5, p_rotation=0.8, p_scaling=0.5, mode_seg="nearest"
            ),
            MirrorTransform(tuple(range(n_dimensions))),
            RandomTransform(MultiplicativeBrightnessTransform(BGContrast((0.7, 1.5)), False), 0.5),
            GammaTransform(BGContrast((0.5, 2)), 0.5, False, True, p_retain_stats=0.5),
            GaussianNoiseTransform((0, 0.1)),
        ]
    )
    keys = {"data": "image", "seg": "segmentation"}
    return PerSampleTransform(composed, keys, convert=torch.from_numpy)


def albumentations(n_dimensions):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")  # it asks the internet for a newer version
        albumentations = pytest.importorskip("albumentations")
    composed = albumentations.Compose(
        [
            albumentations.Affine(rotate=(-30, 30), scale=(0.8, 1.2), p=0.8),
            albumentations.OneOf([albumentations.HorizontalFlip(p=1), albumentations.VerticalFlip(p=1)]),
            albumentations.RandomBrightnessContrast(p=0.5),
            albumentations.GaussNoise(p=0.9),
            albumentations.RandomCrop(12, 12),
        ]
    )
    return PerSampleTransform(composed, {"data": "image", "seg": "mask"}, channels_last=True)


def torchio(n_dimensions):
    torchio = pytest.importorskip("torchio")
    images = {"include": ["data", "seg"], "label_keys": ["seg"]}
    composed = torchio.Compose(
        [
            torchio.RandomAffine(scales=0.2, degrees=20, **images),
            torchio.RandomFlip(axes=(0, 1, 2), **images),
            torchio.RandomGamma(include=["data"]),
            torchio.RandomNoise(include=["data"]),
        ]
    )
    return PerSampleTransform(composed)


def torchio_subject(sample):
    import torchio

    image, mask = torchio.ScalarImage(tensor=sample["data"]), torchio.LabelMap(tensor=sample["seg"])
    subject = torchio.Subject(data=image, seg=mask, label=sample["label"])
    return torchio.Compose([torchio.RandomElasticDeformation(5, 2), torchio.RandomBlur()])(subject)


def torchio_subjects(n_dimensions):
    pytest.importorskip("torchio")
    return PerSampleTransform(torchio_subject)


def monai(n_dimensions):
    pytest.importorskip("monai")
    from monai import transforms

    both = ["image", "mask"]
    composed = transforms.Compose(
        [
            transforms.RandAffined(
                both, prob=0.8, rotate_range=0.4, mode=("bilinear", "nearest"), padding_mode="zeros"
            ),
            transforms.RandFlipd(both, 0.5, spatial_axis=0),
            transforms.OneOf(
                [transforms.RandAdjustContrastd("image", 0.5), transforms.RandBiasFieldd("image", prob=0.5)]
            ),
            transforms.RandGaussianNoised("image", 0.9),
            transforms.RandSpatialCropd(both, (12,) * n_dimensions, random_size=False),
        ]
    )
    return PerSampleTransform(composed, {"data": "image", "seg": "mask"})


def plain(sample):
    return sample | {"data": sample["data"] * np.random.rand() + random.random()}


def with_rng(sample, rng):
    return sample | {"data": sample["data"] + rng.standard_normal(sample["data"].shape, np.float32)}


def with_torch(image):
    import torch

    return {"image": image["image"] + torch.randn(image["image"].shape)}


def functions(n_dimensions):
    return Compose([PerSampleTransform(plain), with_rng, PerSampleTransform(with_rng)])


def torch_function(n_dimensions):
    torch = pytest.importorskip("torch")
    return PerSampleTransform(with_torch, {"data": "image"}, convert=torch.from_numpy)


def mixture(n_dimensions):
    return Compose(
        [batchgenerators(n_dimensions), with_rng, batchgeneratorsv2(n_dimensions), PerSampleTransform(plain)]
    )


CASES = [
    (batchgenerators, 2),
    (batchgenerators, 3),
    (batchgeneratorsv2, 2),
    (batchgeneratorsv2, 3),
    (albumentations, 2),
    (torchio, 3),
    (torchio_subjects, 3),
    (monai, 2),
    (monai, 3),
    (functions, 2),
    (torch_function, 2),
    (mixture, 2),
]


@pytest.fixture(params=CASES, ids=[f"{make.__name__}-{n}d" for make, n in CASES])
def case(request):
    return request.param


@pytest.fixture(params=[0, 2], ids=["in-process", "two workers"])
def workers(request):
    return request.param


def manager_of(make, n_dimensions, workers=0):
    """Five images with the brighter half of their pixels as mask, in batches of 2, 2 and 1."""
    images = np.random.default_rng(1).random((5, 1, *(14,) * n_dimensions)).astype(np.float32)
    data = {"data": images, "seg": (images > 0.5).astype(np.uint8), "label": np.arange(5)}
    return BaseDataManager(data, 2, workers, transforms=make(n_dimensions))


def content(batches):
    """The batches bit by bit."""
    return [
        {key: (values.dtype.str, values.shape, values.tobytes()) for key, values in batch.items()} for batch in batches
    ]


def draw_from_every_generator():
    random.random(), np.random.rand()
    if (torch := sys.modules.get("torch")) is not None:
        torch.rand(1)


def states():
    """The global generators of Python, numpy and torch."""
    torch = sys.modules.get("torch")
    return pickle.dumps((random.getstate(), np.random.get_state(), torch and torch.get_rng_state().tolist()))


# ---- what they do


@pytest.mark.slow_cases("monai")
def test_batches_are_changed_and_keep_their_form(case):
    n_dimensions = case[1]
    originals = manager_of(lambda _: None, n_dimensions)
    for batch, original in zip(manager_of(*case), originals, strict=True):
        assert batch.keys() == original.keys()
        assert batch["data"].shape[:2] == original["data"].shape[:2]
        assert batch["data"].shape[2:] in [(size,) * n_dimensions for size in (12, 14)]
        assert batch["data"].dtype.kind == "f"
        assert np.isfinite(batch["data"]).all()
        assert batch["data"].tobytes() != original["data"].tobytes()
        assert batch["label"].tolist() == original["label"].tolist()
        assert batch["seg"].shape[2:] in (batch["data"].shape[2:], original["seg"].shape[2:])
        assert set(np.unique(batch["seg"])) <= {0, 1}


@pytest.mark.sampled("values")
def test_equal_counters_give_equal_batches_in_any_manager_from_any_start(case, workers):
    expected = content(manager_of(*case).epoch(3, 1, 2, shuffle=True))
    assert len(expected) == 3
    draw_from_every_generator()
    manager = manager_of(*case, workers)
    assert content(manager.epoch(3, 1, 0, shuffle=True)) != expected
    assert content(manager.epoch(3, 1, 2, shuffle=True)) == expected
    draw_from_every_generator()
    for start in (2, 1):
        assert content(manager.epoch(3, 1, 2, start, shuffle=True)) == expected[start:]


def test_other_seeds_folds_epochs_and_batches_are_changed_otherwise(case):
    make, n_dimensions = case
    image = np.random.default_rng(2).random((1, 1, *(14,) * n_dimensions)).astype(np.float32)
    data = {"data": image.repeat(4, 0), "seg": (image > 0.5).astype(np.uint8).repeat(4, 0), "label": np.zeros(4)}
    manager = BaseDataManager(data, 1, transforms=make(n_dimensions))
    seen = [
        batch["data"] for counters in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)) for batch in manager.epoch(*counters)
    ]
    assert len({image.tobytes() for image in seen}) == len(seen) == 16


def test_samples_of_one_batch_are_changed_each_in_its_own_way(case):
    make, n_dimensions = case
    image = np.random.default_rng(2).random((1, 1, *(14,) * n_dimensions)).astype(np.float32)
    data = {"data": image.repeat(4, 0), "seg": (image > 0.5).astype(np.uint8).repeat(4, 0), "label": np.zeros(4)}
    batch = next(iter(BaseDataManager(data, 4, transforms=make(n_dimensions))))
    assert len({image.tobytes() for image in batch["data"]}) == 4


@pytest.mark.sampled("values")
def test_the_callers_generators_are_left_alone(case, workers):
    manager = manager_of(*case, workers)
    before = states()
    list(manager.epoch(3, 0, 0, shuffle=True))
    assert states() == before


def test_they_travel_to_other_processes(case):
    manager, copy = manager_of(*case), manager_of(*case)
    list(copy.epoch(9, 0, 0))  # used before it is sent
    copy.transforms = pickle.loads(pickle.dumps(copy.transforms))
    assert content(copy.epoch(0, 0, 1)) == content(manager.epoch(0, 0, 1))


# ---- flips: image and mask together, and each axis for itself


def flips_of_batchgenerators():
    pytest.importorskip("batchgenerators")
    from batchgenerators.transforms.spatial_transforms import MirrorTransform

    return MirrorTransform(axes=(0, 1))


def flips_of_batchgeneratorsv2():
    pytest.importorskip("batchgeneratorsv2")
    torch = pytest.importorskip("torch")
    from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform

    return PerSampleTransform(
        MirrorTransform((0, 1)), {"data": "image", "seg": "segmentation"}, convert=torch.from_numpy
    )


def flips_of_albumentations():
    albumentations(2)
    from albumentations import Compose as Composed
    from albumentations import HorizontalFlip, VerticalFlip

    both = Composed([HorizontalFlip(p=0.5), VerticalFlip(p=0.5)])
    return PerSampleTransform(both, {"data": "image", "seg": "mask"}, channels_last=True)


def flips_of_monai():
    pytest.importorskip("monai")
    from monai.transforms import Compose as Composed
    from monai.transforms import RandFlipd

    keys = ["data", "seg"]
    return PerSampleTransform(Composed([RandFlipd(keys, 0.5, spatial_axis=0), RandFlipd(keys, 0.5, spatial_axis=1)]))


def flips_of_torchio():
    torchio = pytest.importorskip("torchio")
    flip = torchio.RandomFlip(axes=(0, 1), flip_probability=0.5, include=["data", "seg"], label_keys=["seg"])
    return PerSampleTransform(flip)


@pytest.mark.parametrize(
    "make",
    [
        flips_of_batchgenerators,
        flips_of_batchgeneratorsv2,
        flips_of_albumentations,
        flips_of_monai,
        flips_of_torchio,
    ],
)
def test_image_and_mask_are_flipped_together_and_each_axis_for_itself(make):
    corner = np.zeros((1, 4, 4, 1) if make is flips_of_torchio else (1, 4, 4), np.float32)
    corner[0, 0, 0] = 1
    samples = np.stack([corner] * 64)
    transforms = make()
    manager = BaseDataManager({"data": samples, "seg": samples.astype(np.uint8)}, 16, transforms=transforms)
    corners = []
    for batch in manager.epoch(0, 0, 0):
        np.testing.assert_array_equal(batch["data"], batch["seg"])
        corners += [tuple(np.argwhere(image[0].squeeze() == 1)[0].tolist()) for image in batch["data"]]
    assert {corner: corners.count(corner) > 6 for corner in corners} == dict.fromkeys(
        [(0, 0), (0, 3), (3, 0), (3, 3)], True
    )
