"""Datasets of a directory: images found in its folders and paired with ground truth by name."""

import os
import pickle
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delira.data_loading import BaseCacheDataset, BaseDataManager, BaseLazyDataset, ConcatDataset
from delira.data_loading.dataset import BaseExtendCacheDataset
from delira.data_loading.load_utils import default_load_fn_2d
from delira.errors import ConfigError, DataError

every_kind = pytest.mark.parametrize("cls", [BaseLazyDataset, BaseCacheDataset])


def names(img, *labels, **more):
    """A load_fn: what it was called with."""
    return {"files": np.array([os.path.basename(file) for file in (img, *labels)]), **more}


def touch(folder, *files):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file)
    return str(folder)


def relative(folder, dataset):
    """The items of a dataset, with paths below the folder."""
    return [
        os.path.relpath(item, folder)
        if isinstance(item, str)
        else tuple(os.path.relpath(file, folder) for file in item)
        for item in dataset.data
    ]


@every_kind
def test_images_are_paired_with_ground_truth_by_name(tmp_path, cls):
    folder = touch(tmp_path, "b.png", "b.txt", "a.png", "a.txt")
    dataset = cls(folder, names, [".png"], [".txt"], factor=3)
    assert [sample["files"].tolist() for sample in dataset] == [["a.png", "a.txt"], ["b.png", "b.txt"]]
    assert dataset[0]["factor"] == 3
    assert (dataset._img_extensions, dataset._gt_extensions) == ([".png"], [".txt"])


@pytest.mark.parametrize("kind", [str, Path])
def test_folders_are_searched_and_samples_sorted_by_path(tmp_path, kind):
    files = ["b.png", "a/z.png", "a/b/a.png", "a-c/a.png", "c/1.png"]
    touch(tmp_path, *files)
    dataset = BaseLazyDataset(kind(tmp_path), names, ["png"])
    assert relative(tmp_path, dataset) == ["a/b/a.png", "a/z.png", "a-c/a.png", "b.png", "c/1.png"]


def test_the_order_of_the_file_system_does_not_matter(tmp_path, monkeypatch):
    folder = touch(tmp_path, *(f"{name}/{name}{ending}" for name in "cab" for ending in (".png", ".csv", ".txt")))
    expected = BaseLazyDataset(folder, names, [".png"], [".txt", ".csv"]).data
    walk = os.walk

    def shuffled(*arguments, **more):
        for found, folders, files in walk(*arguments, **more):
            random.shuffle(folders)
            yield found, folders, random.sample(files, len(files))

    monkeypatch.setattr("os.walk", shuffled)
    for _ in range(5):
        assert BaseLazyDataset(folder, names, [".png"], [".txt", ".csv"]).data == expected


def test_equal_names_in_different_folders_are_different_samples(tmp_path):
    folder = touch(tmp_path, "1/a.png", "1/a.txt", "2/a.png", "2/a.txt")
    dataset = BaseLazyDataset(folder, names, [".png"], [".txt"])
    assert relative(tmp_path, dataset) == [("1/a.png", "1/a.txt"), ("2/a.png", "2/a.txt")]


@pytest.mark.parametrize("ending", [".nii.gz", "nii.gz", ".NII.GZ", "NII.gz"])
def test_endings_of_two_parts_in_any_case_with_or_without_the_dot(tmp_path, ending):
    folder = touch(tmp_path, "a.nii.gz", "a.Json", "b.NII.GZ", "b.JSON", "c.2.nii.gz", "c.2.json")
    dataset = BaseLazyDataset(folder, names, ending, "json")
    assert relative(tmp_path, dataset) == [("a.nii.gz", "a.Json"), ("b.NII.GZ", "b.JSON"), ("c.2.nii.gz", "c.2.json")]


def test_the_longest_ending_decides(tmp_path):
    folder = touch(tmp_path, "a.nii.gz", "a.gz", "b.nii.gz", "b.gz")
    assert relative(tmp_path, BaseLazyDataset(folder, names, ".nii.gz", ".gz")) == [
        ("a.nii.gz", "a.gz"),
        ("b.nii.gz", "b.gz"),
    ]


def test_an_ending_may_begin_within_the_name(tmp_path):
    folder = touch(tmp_path, "a_t1.nii.gz", "a_seg.nii.gz", "b-1_t1.nii.gz", "b-1_seg.nii.gz")
    dataset = BaseLazyDataset(folder, names, "_t1.nii.gz", "_seg.nii.gz")
    assert relative(tmp_path, dataset)[1] == ("b-1_t1.nii.gz", "b-1_seg.nii.gz")


def test_several_files_of_ground_truth_come_in_the_order_of_their_endings(tmp_path):
    folder = touch(tmp_path, "a.png", "a.csv", "a.txt", "a_mask.npy", "b.png", "b.txt")
    dataset = BaseLazyDataset(folder, names, ["png"], ["txt", "_mask.npy", "csv"])
    assert relative(tmp_path, dataset) == [("a.png", "a.txt", "a_mask.npy", "a.csv"), ("b.png", "b.txt")]


@pytest.mark.parametrize("nothing", [None, [], ()])
@every_kind
def test_without_endings_of_ground_truth_images_are_loaded_alone(tmp_path, cls, nothing):
    folder = touch(tmp_path, "a.png", "a.txt", "notes/readme.md", "b.JPG")
    dataset = cls(folder, names, ["png", "jpg"], nothing)
    assert [sample["files"].tolist() for sample in dataset] == [["a.png"], ["b.JPG"]]
    assert isinstance(BaseLazyDataset(folder, names, ["png", "jpg"], nothing).data[0], str)


def test_hidden_files_and_folders_are_passed_over(tmp_path):
    folder = touch(tmp_path, "a.png", "._a.png", ".ipynb_checkpoints/a.png", ".png")
    assert relative(tmp_path, BaseLazyDataset(folder, names, ".png")) == ["a.png"]


def test_links_to_folders_are_followed_and_never_in_circles(tmp_path):
    touch(tmp_path / "elsewhere", "b.png")
    folder = touch(tmp_path / "data", "inner/a.png")
    (tmp_path / "data" / "inner" / "up").symlink_to(folder)
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "elsewhere")
    dataset = BaseLazyDataset(folder, names, ".png")
    assert relative(folder, dataset) == ["inner/a.png", "linked/b.png"]


@settings(max_examples=30)
@given(st.sets(st.text("ab.", min_size=1, max_size=5).filter(lambda text: text.strip(".")), min_size=1, max_size=6))
def test_every_pair_is_found_once(stems):
    stems = {stem.lstrip(".") for stem in stems} - {""}
    with tempfile.TemporaryDirectory() as folder:
        touch(Path(folder), *(f"{stem}{ending}" for stem in stems for ending in ("_x.npy", ".txt")))
        dataset = BaseLazyDataset(folder, names, "_x.npy", "txt")
        assert sorted(dataset.data) == [
            (f"{folder}/{stem}_x.npy", f"{folder}/{stem}.txt") for stem in sorted(stems, key=lambda s: f"{s}_x.npy")
        ]


# ------------------------------------------------------------------ what does not fit


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (["a.png", "a.txt", "b.png"], r"b\.png has no ground truth"),
        (["a.png", "a.txt", "deep/b.txt"], r"deep/b\.txt has no image"),
        (["a.png", "a.jpg", "a.txt"], r"a\.jpg and \S*a\.png are images of the same name"),
        (["a.png", "A.txt"], r"A\.txt has no image; \S*a\.png has no ground truth"),
        (["1/a.png", "2/a.txt", "3/a.png", "3/a.txt"], r"1/a\.png has no ground truth; \S*2/a\.txt has no image"),
    ],
)
def test_what_does_not_pair_is_named(tmp_path, files, named):
    folder = touch(tmp_path, *files)
    with pytest.raises(DataError, match=rf"do not pair: \S*{named}; ground truth lies next to its image"):
        BaseLazyDataset(folder, names, ["png", "jpg"], ["txt"])


def test_of_many_that_do_not_pair_ten_are_named_and_the_others_counted(tmp_path):
    folder = touch(tmp_path, "x.txt", "x.png", *(f"{number:02d}.png" for number in range(25)))
    with pytest.raises(DataError, match=r"09\.png has no ground truth; and 15 more; ground truth lies") as caught:
        BaseLazyDataset(folder, names, ["png"], ["txt"])
    assert "10.png" not in str(caught.value)


def test_a_directory_without_images_lists_the_endings_it_has(tmp_path):
    folder = touch(tmp_path, "a.JPG", "b.jpg", "c.txt", "Makefile")
    with pytest.raises(DataError, match=r"ends in \.png or \.tif; other files there: \.jpg \(2\), .*no ending \(1\)"):
        BaseLazyDataset(folder, names, ["png", "tif"], ["txt"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no file below '.*empty' ends in \.png; other files there: none"):
        BaseLazyDataset(tmp_path / "empty", names, ["png"])


@pytest.mark.parametrize(
    ("extensions", "match"),
    [
        (([".png"], ["PNG", ".txt"]), r"\['\.png'\] cannot be endings of images and of ground truth at once"),
        (([], [".txt"]), r"img_extensions must list endings of files, e\.g\. .*, got \[\]"),
        ((None, [".txt"]), "img_extensions must list endings of files.*got None"),
        (([".png", ""], None), "img_extensions must list endings"),
        ((["."], None), "img_extensions must list endings"),
        (([".png", 3], None), "img_extensions must list endings"),
        ((".png", [None]), r"gt_extensions must list endings .*, got \[None\]"),
    ],
)
def test_endings_that_make_no_sense_are_refused(tmp_path, extensions, match):
    with pytest.raises(ConfigError, match=match):
        BaseLazyDataset(touch(tmp_path, "a.png", "a.txt"), names, *extensions)


def test_only_a_directory_can_be_searched(tmp_path):
    with pytest.raises(ConfigError, match=r"data_path='.*nowhere' is no directory"):
        BaseLazyDataset(tmp_path / "nowhere", names, ".png")
    with pytest.raises(ConfigError, match=r"with img_extensions data_path must be a directory to search, got a list"):
        BaseLazyDataset(["a.png"], names, ".png")


def test_a_folder_that_may_not_be_read_is_the_error_of_the_system():
    """As somebody who is not the superuser, who may read everything."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        touch(Path(folder), "open/a.png", "closed/b.png")
        os.chmod(f"{folder}/closed", 0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(PermissionError, match="closed"):
                BaseLazyDataset(folder, names, ".png")
        finally:
            os.seteuid(user)
            os.chmod(f"{folder}/closed", 0o755)


def test_an_error_of_the_load_function_names_all_files_of_the_sample(tmp_path):
    def broken(img, label):
        raise OSError("no such format")

    dataset = BaseLazyDataset(touch(tmp_path, "a.png", "a.txt"), broken, ".png", ".txt")
    with pytest.raises(OSError, match="no such format") as caught:
        dataset[0]
    assert "a.png', " in caught.value.__notes__[0]
    assert "a.txt')" in caught.value.__notes__[0]


# ------------------------------------------------------------------ what follows from it


def digits(tmp_path, number=6):
    """A directory of small images with their class in a text file."""
    rng = np.random.default_rng(0)
    for index in range(number):
        folder = tmp_path / f"part_{index % 2}"
        folder.mkdir(exist_ok=True)
        np.save(folder / f"{index}.npy", rng.integers(0, 256, (5, 4), np.uint8))
        (folder / f"{index}.txt").write_text(str(index % 3))
    return str(tmp_path)


@pytest.mark.parametrize("from_disc", [True, False])
def test_the_historic_example_runs(tmp_path, from_disc):
    manager = BaseDataManager(
        digits(tmp_path),
        batch_size=4,
        load_fn=default_load_fn_2d,
        from_disc=from_disc,
        img_extensions=[".npy"],
        gt_extensions=[".txt"],
        img_shape=(5, 4),
        n_channels=1,
    )
    batches = list(manager)
    assert [batch["data"].shape for batch in batches] == [(4, 1, 5, 4), (2, 1, 5, 4)]
    assert np.concatenate([batch["label_0"] for batch in batches]).ravel().tolist() == [0, 2, 1, 1, 0, 2]


def test_items_are_plain_and_subsets_load_nothing(tmp_path):
    loaded = []
    dataset = BaseLazyDataset(digits(tmp_path), lambda *files: loaded.append(files) or names(*files), "npy", "txt")
    image, label = dataset.get_sample_from_index(3)
    assert image.endswith("part_1/1.npy")
    assert label.endswith("part_1/1.txt")
    subset = ConcatDataset(dataset, dataset).get_subset([7, 3])
    assert [Path(item[0]).name for item in subset.data] == ["2.npy", "1.npy"]
    assert loaded == []
    assert subset[1]["files"].tolist() == ["1.npy", "1.txt"]
    assert len(loaded) == 1


def test_it_can_be_sent_to_another_process(tmp_path):
    dataset = pickle.loads(pickle.dumps(BaseLazyDataset(digits(tmp_path), names, "npy", "txt")))
    assert dataset[2]["files"].tolist() == ["4.npy", "4.txt"]


def test_a_changed_file_of_a_pair_changes_the_fingerprint(tmp_path):
    folder = digits(tmp_path)

    def fingerprint(gt="txt"):
        return BaseLazyDataset(folder, names, "npy", gt).fingerprint()

    expected = fingerprint()
    assert fingerprint(None) != expected
    label = tmp_path / "part_0" / "0.txt"
    label.write_text("10")
    assert fingerprint() != expected
    label.write_text("0")
    assert fingerprint() == expected


def test_given_pairs_and_nested_items_are_known_by_the_sizes_of_their_files(tmp_path):
    folder = digits(tmp_path)
    image, label = f"{folder}/part_0/0.npy", f"{folder}/part_0/0.txt"
    items = [(image, label), [image, [label]], {"img": [image], "label": label}]
    for item in items:
        Path(label).write_text("1")
        expected = BaseLazyDataset([item], names).fingerprint()
        assert BaseLazyDataset([item], names).fingerprint() == expected
        Path(label).write_text("11")
        assert BaseLazyDataset([item], names).fingerprint() != expected


# ------------------------------------------------------------------ the files behind samples


@every_kind
def test_the_files_of_a_dataset_are_known_and_those_of_its_views(tmp_path, cls):
    dataset = cls(digits(tmp_path), names, "npy", "txt")
    assert {os.path.relpath(file, tmp_path) for file in dataset._files()} == {
        f"part_{number % 2}/{number}.{ending}" for number in range(6) for ending in ("npy", "txt")
    }
    double = ConcatDataset(dataset, cls(digits(tmp_path), names, "npy"))
    assert len(double._files()) == 12
    for view in (dataset.get_subset([3, 3]), double.get_subset([3]), double.get_subset([0, 3]).get_subset([1])):
        assert sorted(os.path.relpath(file, tmp_path) for file in view._files()) == ["part_1/1.npy", "part_1/1.txt"]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda file: file,
        Path,
        lambda file: [file],
        lambda file: (file, "benign"),
        lambda file: {"img": [file], "id": 3},
    ],
    ids=["str", "path", "list", "pair", "dict"],
)
def test_files_are_found_in_items_of_any_form(tmp_path, wrap):
    touch(tmp_path, "a", "b")
    files = [str(tmp_path / name) for name in ("a", "missing", "b")]
    for cls in (BaseLazyDataset, BaseCacheDataset):
        assert cls(list(map(wrap, files)), lambda item: {})._files() == files


def test_relative_paths_are_files_if_one_of_them_exists_and_names_are_none(tmp_path, monkeypatch):
    touch(tmp_path, "a.npy")
    monkeypatch.chdir(tmp_path)
    assert BaseLazyDataset(["a.npy", "gone.npy"], names)._files() == ["a.npy", "gone.npy"]
    assert BaseLazyDataset(["patient/1", "patient/2"], names)._files() == []
    assert BaseLazyDataset([1, np.zeros(2)], names)._files() == []


# ------------------------------------------------------------------ several samples of one item


def rows(path):
    for number, row in enumerate(np.load(path)):
        if number == 2 and "broken" in path:
            raise EOFError("row 2 is cut off")
        yield {"data": row, "number": number}


def test_several_samples_are_made_of_each_item(tmp_path):
    for name, length in (("b", 3), ("a", 2), ("c", 0)):
        np.save(tmp_path / f"{name}.npy", np.arange(length * 4).reshape(length, 4))
    dataset = BaseExtendCacheDataset(str(tmp_path), rows)
    assert dataset.labels("number").tolist() == [0, 1, 0, 1, 2]
    assert dataset[4]["data"].tolist() == [8, 9, 10, 11]
    assert isinstance(dataset, BaseCacheDataset)
    assert dataset.is_deterministic()
    assert [os.path.basename(file) for file in dataset.get_subset([1, 4])._files()] == ["a.npy", "b.npy"]
    listed = BaseExtendCacheDataset([1, 2], lambda item, times: [{"data": item}] * times, times=2)
    assert listed.labels("data").tolist() == [1, 1, 2, 2]
    assert len(BaseExtendCacheDataset(tmp_path, lambda image: [names(image)] * 3, img_extensions="npy")) == 9


@pytest.mark.parametrize(("result", "named"), [({"data": 1}, "dict"), (None, "NoneType"), (3, "int")])
def test_what_is_no_list_of_samples_is_refused(result, named):
    with pytest.raises(DataError, match=f"list of samples, but returned a {named} for item 1: 'x'; if it is one"):
        BaseExtendCacheDataset(["w", "x"], lambda item: [] if item == "w" else result)


def test_an_error_within_a_generator_names_the_item(tmp_path):
    np.save(tmp_path / "broken.npy", np.zeros((4, 4)))
    with pytest.raises(EOFError, match="row 2 is cut off") as caught:
        BaseExtendCacheDataset(str(tmp_path), rows)
    assert "rows loaded item 0: " in caught.value.__notes__[0]
