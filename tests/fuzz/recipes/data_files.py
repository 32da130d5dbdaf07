"""Datasets that load files: items and folders, one file for each sample or several; whole, damaged, missing."""

import shutil
import sys
import types
import warnings
from unittest import mock

import numpy as np
from fuzz_cases import Entry
from fuzz_files import DAMAGE, PICTURE, damaged, missing_said, picture, text
from fuzz_values import NAN, NOT_A_BOOL, NOT_A_MAPPING, NOT_A_PATH, NOT_A_TEXT, NOT_CALLABLE, STRANGE

import delira.data_loading as dl

PACKAGE = "delira.data_loading"
PIXELS = PICTURE.astype(np.int64)
NO_ENDINGS = [5, NAN, [5], "", [""], [None], STRANGE, ".", True, []]
NO_FUNCTION = [*NOT_CALLABLE, None]
NO_FOLDER = ["x", "", 5, None, NAN, STRANGE, {"a": 1}, "/nonsense/nowhere", __file__]


def load(path, *labels, factor=1):
    """Load a picture as users do."""
    return {"data": np.load(path) * factor}


def load_rows(path, *labels, factor=1):
    """Load a sample of each row."""
    return [{"data": row * factor} for row in np.load(path)]


def two_folders(folder):
    """Two folders with a picture and a label each."""
    for number, name in enumerate(("one", "two")):
        picture(folder / "all" / name / "a.npy", PIXELS + number)
        text(folder / "all" / name / "a.txt", str(number))
    return folder / "all"


def all_data(dataset, folder):
    """The entry ``data`` of all samples."""
    return np.array([sample["data"] for sample in dataset])


def in_world(make):
    """Call with two folders in which one thing is wrong."""

    def made(world, data_path, **arguments):
        WORLDS[world](data_path)
        return make(data_path, **arguments)

    return made


#: what can be wrong with a folder
WORLDS = {
    "whole": lambda folder: None,
    "more": lambda folder: text(folder / "notes.md"),
    "hidden": lambda folder: picture(folder / ".hidden" / "a.npy"),
    "no label": lambda folder: (folder / "two" / "a.txt").unlink(),
    "no data": lambda folder: (folder / "two" / "a.npy").unlink(),
    "twice": lambda folder: shutil.copy(folder / "one" / "a.npy", folder / "one" / "a.NPY"),
    "empty": lambda folder: [path.unlink() for path in folder.glob("*/*")],
    "gone": shutil.rmtree,
}


def dataset_of_files(name, load_fn, expected):
    """A dataset that loads: of a list of items, of one folder, of folders with labels."""
    make, one = getattr(dl, name), expected(PIXELS)
    yield Entry(
        name=f"{PACKAGE}.{name}",
        good=lambda folder: {"data_path": [picture(folder / "a.npy", PIXELS)], "load_fn": load_fn, "factor": 2},
        use=all_data,
        expected=lambda arguments: one * arguments["factor"],
        right={"factor": [1, 0.5, -1], "gt_extensions": [(), None]},
        wrong={
            "data_path": NO_FOLDER,
            "load_fn": NO_FUNCTION,
            "img_extensions": [*NO_ENDINGS, "npy", [".npy"]],
            "gt_extensions": [5, "txt", [".txt"], STRANGE],
        },
        own=["load_fn"],
        says={"img_extensions": ["data_path"], "gt_extensions": ["img_extensions"]},
    )
    yield Entry(
        name=f"{PACKAGE}.{name}#folders",
        good=lambda folder: {
            "world": "whole",
            "data_path": two_folders(folder),
            "load_fn": load_fn,
            "img_extensions": "npy",
            "gt_extensions": "txt",
        },
        make=in_world(make),
        use=all_data,
        expected=lambda arguments: np.concatenate([one, expected(PIXELS + 1)]),
        right={
            "img_extensions": [".npy", [".NPY"], ("npy", "jpg")],
            "gt_extensions": [[".txt", ".xml"]],
            "world": ["more", "hidden"],
        },
        wrong={
            "world": ["no label", "no data", "twice", "empty", "gone"],
            "img_extensions": [*NO_ENDINGS, "jpg", "txt", "nii.gz", None],
            "gt_extensions": ["json", "npy", 5, [5], STRANGE],
        },
        says={
            "world": ["a.txt", "a.npy", "all"],
            "img_extensions": [".npy", "endings", "jpg", "nii.gz"],
            "gt_extensions": ["endings", "ground truth"],
        },
    )
    yield Entry(
        name=f"{PACKAGE}.{name}#sample",
        good=lambda folder: {
            "load_fn": {"BaseExtendCacheDataset": lambda item: [{"data": [3]}]}.get(name, lambda item: {"data": [3]})
        },
        make=lambda load_fn: make([0, 1], lambda item: load_fn(item)),
        use=lambda dataset, folder: dl.BaseDataLoader(dataset)([0, 1])["data"].shape,
        expected=lambda arguments: (2, 1),
        wrong={
            "load_fn": [
                lambda item: None,
                lambda item: 5,
                lambda item: "x",
                lambda item: [1, 2],
                lambda item: [{"data": 1}, {"label": 1}] if "Extend" in name else {"data" if item else "label": 1},
                lambda item: [{"data": 1}, {"data": [1]}] if "Extend" in name else {"data": [1] * item},
                lambda item: [{"data": 1}, {"data": "a"}] if "Extend" in name else {"data": "a" if item else 1},
            ]
        },
        says={"load_fn": ["sample 0", "sample 1", "must return a list of samples"]},
    )


def load_sample(make, **arguments):
    """Load the sample of a folder."""
    return missing_said(make(**arguments))


def entry_of_files(folder, name, **more):
    """Arguments of a LoadSample, and the folder that it is to load."""
    picture(folder / "a.npy", PIXELS)
    picture(folder / "b.npy", -PIXELS)
    picture(folder / "small.npy", PIXELS[:1])
    text(folder / "a.txt", "7.5")
    return {"sample_ext": {"data": ["a.npy", "b.npy"]}, "sample_fn": np.load, **more}


def read_age(path):
    """Labels of a case."""
    return {"age": float(open(path).read())}


def of_folder(made, folder):
    """What the loader makes of the folder; the name of a file that is missing."""
    return missing_said(made)(str(folder))


def stacked(arguments):
    """The same by numpy."""
    names = arguments["sample_ext"]["data"]
    known = {"a.npy": PIXELS, "b.npy": -PIXELS}
    return np.stack([known[name] for name in ([names] if isinstance(names, str) else names)])


NO_FILES = ["x", 5, None, [], {}, STRANGE, {"data": []}, {"data": 5}, {"data": [5]}, {"data": None}, {"data": ""}]
NO_DTYPES = [
    "float32",
    5,
    [],
    STRANGE,
    {"data": "nonsense"},
    {"data": 5},
    {"seg": "f4"},
    {"data": "uint8"},
    {"data": []},
]
LOADERS = {
    "LoadSample": {},
    "LoadSampleLabel": {"label_ext": "a.txt", "label_fn": read_age},
}


def sample_loader(name):
    """A loader of several files, with and without labels."""
    direct = name == "LoadSample"
    settings = {
        "dtype": [value for value in NO_DTYPES if value != []],
        "normalize": [5, NAN, STRANGE, True, "seg", ["a"], [5], "c.npy"],
        "norm_fn": NO_FUNCTION,
        "geometry": [*NOT_A_BOOL, True],  # of arrays that numpy loads nobody knows where they lie
    }
    yield Entry(
        name=f"{PACKAGE}.{name}",
        good=lambda folder: entry_of_files(folder, name, **LOADERS[name]),
        use=lambda made, folder: of_folder(made, folder)["data"],
        expected=stacked,
        right={"sample_ext": [{"data": "b.npy"}, {"data": ("b.npy", "a.npy", "a.npy")}]},
        wrong={
            "sample_ext": [*NO_FILES, {"data": ["a.npy", "small.npy"]}],
            "sample_fn": [*NO_FUNCTION, lambda path: "x" if "a.npy" in path else PIXELS],
            **(settings if direct else {f"sample_kwargs.{key}": values for key, values in settings.items()}),
            **(
                {}
                if direct
                else {
                    "label_ext": NOT_A_TEXT,
                    "label_fn": [*NO_FUNCTION, lambda path: 5, lambda path: None, lambda path: {"data": 1}],
                    "sample_kwargs": ["x", 5, [1], STRANGE],
                }
            ),
        },
        own=["sample_fn"] if direct else ["sample_fn", "label_fn"],
        says={
            "sample_fn": ["entry 'data'", "a.npy"],
            "sample_ext": ["entry 'data'"],
            "dtype": ["uint8"],
            "sample_kwargs.dtype": ["uint8"],
        },
    )
    yield Entry(
        name=f"{PACKAGE}.{name}#missing",
        good=lambda folder: (
            entry_of_files(folder, name, **LOADERS[name]) | {"sample_ext": {"data": ["a.npy", "c.npy"]}}
        ),
        use=of_folder,
        expected=lambda arguments: "missing: c.npy",
    )


def volumes_of(name):
    """Volumes in one folder for each case, as the old library had them."""

    def make(world, **arguments):
        WORLDS[world](arguments["data_path"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(dl, name)(**arguments)

    return Entry(
        name=f"{PACKAGE}.{name}",
        good=lambda folder: {
            "world": "whole",
            "data_path": two_folders(folder),
            "load_fn": lambda files: {"data": np.load(files["img"][0]) + float(open(files["label"]).read())},
            "img_files": ["a.npy"],
            "label_file": "a.txt",
        },
        make=make,
        use=all_data,
        expected=lambda arguments: np.stack([PIXELS, PIXELS + 2]),
        right={"img_files": ["a.npy", ("a.npy", "a.txt")]},
        wrong={
            "world": ["no label", "no data", "empty"],
            "data_path": NO_FOLDER,
            "load_fn": NOT_CALLABLE,
            "img_files": [5, NAN, None, STRANGE, [5], True, "b.npy", ["a.npy", "b.npy"], [], ""],
            "label_file": [*NOT_A_TEXT, None, "b.txt", ""],
        },
        own=["load_fn"],
        says={"world": ["a.txt", "a.npy", "folders"], "img_files": ["b.npy"], "label_file": ["b.txt"]},
    )


class Pictures:
    """torchvision's classes, which have no build for the torch that is here."""

    classes, targets = ["a", "b", "c"], [2, 0, 1]

    def __init__(self, root, train=True, download=False):
        if str(root).endswith("nowhere"):
            raise RuntimeError("Dataset not found")

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return PICTURE + np.uint8(index), self.targets[index]


def torchvision_dataset(**arguments):
    """Make the dataset beside classes that play torchvision's."""
    datasets = types.ModuleType("torchvision.datasets")
    for name in ("MNIST", "EMNIST", "FashionMNIST", "CIFAR10", "CIFAR100"):
        setattr(datasets, name, Pictures)
    package = types.ModuleType("torchvision")
    package.datasets = datasets
    with mock.patch.dict(sys.modules, {"torchvision": package, "torchvision.datasets": datasets}):
        return dl.TorchvisionClassificationDataset(**arguments)


def cached(dataset, **arguments):
    """A cache, filled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = dl.CachedDataset(dataset, **arguments)
        made.build(progress=False)
    return made


def cached_twice(path, how):
    """A cache of which a file was damaged between two runs."""
    dataset = dl.BaseLazyDataset([1, 2], numbered)
    cached(dataset, path=path)
    damaged(sorted(path.rglob("*.sample"))[0], how)
    return cached(dataset, path=path)


def numbered(number):
    """A sample of a number."""
    return {"data": np.full(3, number / 2)}


def none_of(number):
    """No sample."""


def none_in(number):
    """A sample that lacks a value."""
    return {"data": None}


def objects_in(number):
    """A sample of objects."""
    return {"data": np.array([1, None])}


def unnamed(number):
    """A sample whose entry has no name."""
    return {5: number}


ENTRIES = [
    *dataset_of_files("BaseLazyDataset", load, lambda values: values[None]),
    *dataset_of_files("BaseCacheDataset", load, lambda values: values[None]),
    *dataset_of_files("BaseExtendCacheDataset", load_rows, lambda values: values),
    *sample_loader("LoadSample"),
    *sample_loader("LoadSampleLabel"),
    volumes_of("Nii3DLazyDataset"),
    volumes_of("Nii3DCacheDataset"),
    Entry(
        name=f"{PACKAGE}.TorchvisionClassificationDataset",
        good=lambda folder: {"dataset": "mnist", "root": folder, "img_shape": PICTURE.shape},
        make=torchvision_dataset,
        use=lambda dataset, folder: [*dataset[1]["data"].ravel().tolist(), *dataset.labels()[:, 0]],
        expected=lambda arguments: [
            *((PICTURE + np.uint8(1)) / np.float32(255)).ravel().tolist(),
            *([0, 1, 0] if arguments.get("one_hot") else [2, 0, 1]),
        ],
        right={"dataset": ["MNIST", "Cifar10"], "one_hot": [True], "train": [False], "download": [True]},
        wrong={
            "dataset": ["x", "mnst", "", 5, None, NAN, [], STRANGE, True],
            "root": [*NOT_A_PATH, "/nonsense/nowhere"],
            "train": NOT_A_BOOL,
            "download": NOT_A_BOOL,
            "img_shape": [(0, 6), (4,), (4, 6, 1), (4.0, 6), ("4", "6"), "x", 5, None, NAN, (-4, 6), STRANGE, []],
            "one_hot": NOT_A_BOOL,
            "transform": [abs],
        },
        says={"root": ["/nonsense/nowhere"]},
    ),
    Entry(
        name=f"{PACKAGE}.CachedDataset",
        good=lambda folder: {"dataset": dl.BaseLazyDataset([1, 2], numbered), "path": folder / "cache"},
        make=cached,
        use=all_data,
        expected=lambda arguments: np.array([[0.5] * 3, [1.0] * 3]),
        right={"version": [None, 1, "a", 2.5], "dataset": [dl.BaseCacheDataset([1, 2], numbered)]},
        wrong={
            "dataset": [
                "x",
                5,
                None,
                STRANGE,
                [1, 2],
                *(dl.BaseLazyDataset([1, 2], function) for function in (none_of, none_in, objects_in, unnamed)),
                dl.BaseLazyDataset([1, 2], mock.MagicMock()),
            ],
            "path": [*NOT_A_PATH, None, __file__],
            "hash_funcs": [*NOT_A_MAPPING, {"a": 1}, {int: 5}, {5: len}],
        },
        says={"dataset": ["sample 0", "load_fn", "samples are made with"]},
    ),
    Entry(
        name=f"{PACKAGE}.CachedDataset#damaged",
        good=lambda folder: {"path": folder / "cache", "how": "whole"},
        make=cached_twice,
        use=all_data,
        expected=lambda arguments: np.array([[0.5] * 3, [1.0] * 3]),
        right={"how": [*DAMAGE, "missing"]},
    ),
    Entry(
        name=f"{PACKAGE}.MappedDataset#file",
        good=lambda folder: {"path": picture(folder / "a.npy", PIXELS), "how": "whole"},
        make=lambda path, how: dl.MappedDataset({"data": str(damaged(path, how))}),
        use=all_data,
        expected=lambda arguments: PIXELS,
        wrong={"how": [*DAMAGE, "missing"]},
        says={"how": ["a.npy"]},
    ),
    Entry(
        name=f"{PACKAGE}.MappedDataset#path",
        good=lambda folder: {"arrays": {"data": picture(folder / "a.npy", PIXELS)}},
        use=all_data,
        expected=lambda arguments: PIXELS,
        wrong={"arrays.data": ["/nonsense/a.npy", __file__, "/nonsense"]},
    ),
    Entry(
        name=f"{PACKAGE}.MappedDataset#values",
        good=lambda folder: {"folder": folder, "values": PIXELS},
        make=lambda folder, values: dl.MappedDataset({"data": str(picture(folder / "a.npy", values))}),
        use=all_data,
        expected=lambda arguments: arguments["values"],
        right={"values": [np.asfortranarray(PIXELS), PIXELS.astype(">f8"), np.full((3, 2), NAN), np.zeros((1, 0))]},
        wrong={"values": [np.array([1, None]), np.array(3)]},
        says={"values": ["a.npy", "'data'"]},
    ),
]
