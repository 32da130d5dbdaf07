"""Several files of ground truth for one image: each keeps its place."""

import re
from pathlib import Path

import pytest

from delira.data_loading import BaseLazyDataset
from delira.errors import DataError

ENDINGS = ("_mask.png", "_depth.png")


def load(image, mask, depth=None):
    return {"data": Path(image).name, "mask": Path(mask).name, "depth": depth and Path(depth).name}


def touch(folder, *names):
    for name in names:
        (folder / name).touch()
    return folder


def dataset_of(folder):
    return BaseLazyDataset(folder, load, [".jpg"], ENDINGS)


def test_a_depth_map_never_arrives_as_the_mask_that_is_missing(tmp_path):
    folder = touch(tmp_path, "a.jpg", "a_mask.png", "a_depth.png", "b.jpg", "b_depth.png")
    with pytest.raises(DataError, match=r"b\.jpg has .*b_depth\.png but no _mask\.png, which others have"):
        dataset_of(folder)


def test_an_ending_that_no_image_has_shifts_nothing(tmp_path):
    folder = touch(tmp_path, "a.jpg", "a_mask.png", "b.jpg", "b_mask.png")
    found = BaseLazyDataset(folder, load, [".jpg"], ["_heart.png", *ENDINGS])
    assert [sample["mask"] for sample in found] == ["a_mask.png", "b_mask.png"]


def test_the_last_kinds_may_be_missing(tmp_path):
    folder = touch(tmp_path, "a.jpg", "a_mask.png", "a_depth.png", "b.jpg", "b_mask.png")
    assert [sample["depth"] for sample in dataset_of(folder)] == ["a_depth.png", None]


def test_two_files_of_one_ending_are_refused(tmp_path):
    folder = touch(tmp_path, "a.jpg", "a_mask.png", "a_mask.PNG", "a_depth.png")
    if len([*folder.iterdir()]) < 4:
        pytest.skip("this file system does not tell upper from lower case")
    with pytest.raises(DataError, match=re.escape("are ground truth of one name and ending")):
        dataset_of(folder)
