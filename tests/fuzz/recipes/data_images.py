"""Functions that load pictures and volumes, and normalise them."""

import warnings

import numpy as np
from fuzz_cases import Entry
from fuzz_files import DAMAGE, PICTURE, VOLUME, damaged, missing_said, picture, text, volume
from fuzz_values import NAN, NOT_A_BOOL, NOT_A_PATH, STRANGE

from delira.data_loading import default_load_fn_2d, load_nii, load_sample_nii, norm_range, norm_zero_mean_unit_std

PACKAGE = "delira.data_loading"
SHAPE = PICTURE.shape
NOT_FINITE = [np.array([1, NAN]), np.array([1, np.inf]), np.array([-np.inf, 1], np.float32), np.full((2, 2), NAN)]
NOT_NUMBERS = ["x", None, STRANGE, np.array(["a"]), np.array([1j, 2]), np.array([1, None]), {"a": 1}, [[1], [1, 2]]]
NO_SIZES = [(0, 6), (4,), (4, 6, 1), (4.0, 6), (4, NAN), ("4", "6"), "x", 5, None, NAN, (True, 6), (-4, 6), STRANGE, []]
IMAGES = [
    np.array([[0, 1], [2, 4]], np.uint8),
    [[5, 7], [9, 11]],
    np.array([-3.0, 1e30]),
    np.array([True, False]),
    np.array([2**40, 2**41]),
    np.array([[1e-12, 2e-12]], np.float32),
    np.array([3e38, -3e38, 0], np.float32),
    np.array([1e300, -1e300, 0, 0]),
    np.array([1e-200, 3e-200]),
    np.array([6e4, -6e4], np.float16),
]


class Age:
    """Labels as the old library read them."""

    def __init__(self, path):
        self.path = path

    def get_labels(self):
        return {"age": float(open(self.path).read())}


def in_range(low, high):
    """Scale by hand, with more digits."""

    def scaled(values):
        values = np.asarray(values, np.longdouble)
        return (values - values.min()) / np.ptp(values) * (high - low) + low

    return scaled


def standardised(arguments):
    """Zero mean and unit variance, by hand."""
    values = np.asarray(arguments["data"], np.longdouble)
    return (values - values.mean()) / values.std()


def scaled_by(name, make, expected):
    """What normalises an array."""
    return Entry(
        name=f"{PACKAGE}.{name}",
        good=lambda folder: {"data": IMAGES[0]},
        make=make,
        expected=expected,
        right={"data": IMAGES},
        wrong={"data": [*NOT_FINITE, *NOT_NUMBERS, np.ma.masked_array([1.0, 2.0], [0, 1])]},
        says={"data": ["normalised"]},
    )


def load_picture(folder, how="whole", name="a.png", values=PICTURE, label="3", **arguments):
    """Write a picture, damage it, and load it."""
    path = damaged(picture(folder / name, np.asarray(values)), how)
    return default_load_fn_2d(str(path), str(text(folder / "a.txt", label)), img_shape=SHAPE, **arguments)


def gray(values):
    """Values of a picture in one channel, as scikit-image weighs them; 8 and 16 bit from 0 to 1."""
    values = np.asarray(values)
    values = values / np.iinfo(values.dtype).max if values.dtype in (np.uint8, np.uint16) else values.astype(float)
    if values.ndim == 3 and values.shape[2] == 4:
        values = values[..., :3] * values[..., 3:] + 1 - values[..., 3:]
    return values @ [0.2125, 0.7154, 0.0721] if values.ndim == 3 else values


def load_volume(folder, how="whole", name="a.nii", values=VOLUME):
    """Write a volume, damage it, and load it."""
    return load_nii(damaged(volume(folder / name, values), how))


def load_case(folder, label_load_cls=Age, how="whole", mask=None, **files):
    """Write the volumes of a case, damage one, and load it."""
    paths = {"img": [volume(folder / "a.nii"), volume(folder / "b.nii", VOLUME[::-1])]}
    paths["label"] = text(folder / "a.txt", "7.5")
    damaged(paths["img"][1], how)
    if mask is not None:
        paths["mask"] = volume(folder / "mask.nii", np.asarray(mask))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_sample_nii(paths | files, label_load_cls)


RGB = np.random.default_rng(2).integers(0, 256, (*SHAPE, 3), np.uint8)
ENTRIES = [
    *(
        Entry(
            name=f"{PACKAGE}.norm_range#{mode}",
            good=lambda folder, mode=mode: {"mode": mode},
            use=lambda scale, folder: scale(IMAGES[0]),
            expected=lambda arguments, limits=limits: in_range(*limits)(IMAGES[0]),
            wrong={"mode": ["", "x", "0;1", "1,0", "0, 1", "-1,1,", 5, None, NAN, (0, 1), [], STRANGE, True]},
        )
        for mode, limits in (("0,1", (0, 1)), ("-1,1", (-1, 1)))
    ),
    scaled_by("norm_range#0-1-values", norm_range("0,1"), lambda arguments: in_range(0, 1)(arguments["data"])),
    scaled_by("norm_range#-1-1-values", norm_range("-1,1"), lambda arguments: in_range(-1, 1)(arguments["data"])),
    scaled_by("norm_zero_mean_unit_std", norm_zero_mean_unit_std, standardised),
    Entry(
        name=f"{PACKAGE}.default_load_fn_2d",
        needs="imageio",
        good=lambda folder: {
            "*": [picture(folder / "a.png"), text(folder / "a.txt", "3 4")],
            "img_shape": SHAPE,
        },
        use=lambda sample, folder: [*sample["data"].ravel(), *sample["label_0"]],
        expected=lambda arguments: [*(PICTURE / np.float32(255)).ravel().tolist(), 3, 4],
        right={"img_shape": [list(SHAPE), np.array(SHAPE)]},
        wrong={
            "*0": [*NOT_A_PATH, None],
            "*1": [*NOT_A_PATH, None],
            "img_shape": NO_SIZES,
            "n_channels": [0, -1, 1.0, NAN, "1", None, [], STRANGE, True, 7, 2],
        },
        says={"*1": ["label file"], "n_channels": ["channels"]},
    ),
    Entry(
        name=f"{PACKAGE}.default_load_fn_2d#file",
        needs="imageio",
        good=lambda folder: {"folder": folder},
        make=missing_said(load_picture),
        use=lambda sample, folder: sample["data"][0] if isinstance(sample, dict) else sample,
        expected=lambda arguments: gray(arguments.get("values", PICTURE)),
        right={
            "values": [
                RGB,
                np.dstack([RGB, PICTURE]),
                np.arange(24, dtype=np.uint16).reshape(SHAPE) * 2000,
                PICTURE > 99,
            ],
            "name": ["a.npy", "a.bmp", "a.tif"],
        },
        wrong={
            "how": DAMAGE,
            "label": ["", "x", "1 2 x", "1,2", "1 2\n3"],
        },
        says={"how": ["a.png"], "label": ["a.txt"]},
    ),
    *(
        Entry(
            name=f"{PACKAGE}.default_load_fn_2d#{kind}",
            needs="imageio",
            good=lambda folder, kind=kind: {"folder": folder, "name": f"a.{kind}"},
            make=missing_said(load_picture),
            use=lambda sample, folder: "loaded" if isinstance(sample, dict) else sample,
            expected=lambda arguments: "missing: " + arguments["name"] if "how" in arguments else "loaded",
            right={"how": ["missing"]},
            wrong={"how": DAMAGE},
            says={"how": [f"a.{kind}"]},
        )
        for kind in ("npy", "jpg", "tif", "bmp")  # of GIF files imageio itself leaves damaged ones open
    ),
    Entry(
        name=f"{PACKAGE}.default_load_fn_2d#array",
        needs="imageio",
        good=lambda folder: {"folder": folder, "name": "a.npy"},
        make=load_picture,
        use=lambda sample, folder: sample["data"][0],
        expected=lambda arguments: gray(arguments.get("values", PICTURE)),
        right={"values": [PICTURE.astype(">f8") - 3, np.full(SHAPE, NAN), PICTURE.astype(np.int64)]},
        wrong={
            "values": [
                PICTURE * 1j,
                np.zeros(6),
                np.zeros((2, 2, 2, 2)),
                np.zeros((4, 6, 5), np.uint8),
                np.zeros((0, 6), np.uint8),
                np.full(SHAPE, "a"),
                np.float32(3),
            ]
        },
        says={"values": ["a.npy"]},
    ),
    Entry(
        name=f"{PACKAGE}.load_nii",
        needs="nibabel",
        good=lambda folder: {"path": volume(folder / "a.nii.gz")},
        expected=lambda arguments: VOLUME.T,
        right={"geometry": [False]},
        wrong={"path": [*NOT_A_PATH, None], "geometry": NOT_A_BOOL},
    ),
    *(
        Entry(
            name=f"{PACKAGE}.load_nii#{kind}",
            needs="nibabel",
            good=lambda folder, kind=kind: {"folder": folder, "name": f"a.{kind}"},
            make=missing_said(load_volume),
            expected=lambda arguments: arguments.get("values", VOLUME).T,
            right={
                "values": [
                    VOLUME.astype(np.uint8),
                    VOLUME / np.float32(7),
                    np.full((2, 3, 4), NAN),
                    VOLUME.astype(np.float64),
                ]
            }
            if kind.startswith("nii")
            else {"values": [VOLUME / np.float32(7)]},
            wrong={"how": DAMAGE},
            says={"how": [f"a.{kind}"]},
        )
        for kind in ("nii", "nii.gz", "mgz")
    ),
    Entry(
        name=f"{PACKAGE}.load_nii#missing",
        needs="nibabel",
        good=lambda folder: {"folder": folder, "how": "missing"},
        make=missing_said(load_volume),
        expected=lambda arguments: "missing: a.nii",
    ),
    Entry(
        name=f"{PACKAGE}.load_sample_nii",
        needs="nibabel",
        good=lambda folder: {
            "files": {"img": volume(folder / "a.nii"), "label": text(folder / "a.txt", "7.5")},
            "label_load_cls": Age,
        },
        use=lambda sample, folder: [*sample["data"].ravel(), sample["age"]],
        expected=lambda arguments: [*(VOLUME.T / 511).astype(np.float32).ravel(), 7.5],
        wrong={
            "files": ["x", 5, None, [], {}, {"img": "x"}, {"label": "x"}, STRANGE],
            "files.img": [*NOT_A_PATH, None],
            "files.mask": NOT_A_PATH,
            "label_load_cls": ["x", 5, None, NAN, {}, STRANGE],
        },
        own=["label_load_cls"],
        says={"label_load_cls": ["get_labels"]},
    ),
    Entry(
        name=f"{PACKAGE}.load_sample_nii#case",
        needs="nibabel",
        good=lambda folder: {"folder": folder},
        make=missing_said(load_case),
        use=lambda sample, folder: sample if isinstance(sample, str) else sample["data"],
        expected=lambda arguments: np.stack([VOLUME.T, VOLUME[::-1].T]) / 511,
        right={"mask": [np.zeros((2, 2, 2), np.uint8), np.ones((2, 2, 2), np.float32)]},
        wrong={
            "how": DAMAGE,
            "mask": [np.full((2, 2, 2), 0.5, np.float32), np.full((2, 2, 2), NAN)],
            "label_load_cls": [str, lambda path: None],
        },
        says={"how": ["b.nii"], "label_load_cls": ["get_labels"]},
    ),
    Entry(
        name=f"{PACKAGE}.load_sample_nii#values",
        needs="nibabel",
        good=lambda folder: {"folder": folder, "values": VOLUME},
        make=lambda folder, values: load_case(folder, img=[volume(folder / "c.nii", np.asarray(values))]),
        use=lambda sample, folder: sample["data"][0],
        expected=lambda arguments: arguments["values"].T / 511,
        right={"values": [np.array([[[1.5, 511.0]]]), np.array([[[-3, 2]]], np.int16)]},
        wrong={
            "values": [
                np.zeros((2, 2, 2)),
                np.full((2, 2, 2), 512.0),
                np.array([[[NAN, 2.0]]]),
                np.array([[[-np.inf, 2.0]]]),
                np.full((2, 2, 2), np.inf),
            ]
        },
        says={"values": ["c.nii"]},
    ),
    Entry(
        name=f"{PACKAGE}.load_sample_nii#shapes",
        needs="nibabel",
        good=lambda folder: {"folder": folder, "values": VOLUME},
        make=lambda folder, values: load_case(
            folder, img=[volume(folder / "a.nii"), volume(folder / "c.nii", np.asarray(values))]
        ),
        use=lambda sample, folder: sample["data"][0],
        expected=lambda arguments: VOLUME.T / 511,
        wrong={"values": [VOLUME[:2], VOLUME[:, :, :1], np.ones((3, 4, 5, 2))]},
        says={"values": ["c.nii"]},
    ),
]
