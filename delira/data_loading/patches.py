"""Patches: parts of large samples, drawn anew in each epoch and the same for any number of workers."""

import math
import numbers
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading._exact import Indices, check_count, check_range, to_index, to_index_array
from delira.data_loading.abstract_dataset import AbstractDataset, name_sample, read_labels, reads_cheaply, split_indices
from delira.data_loading.array_dataset import as_dataset
from delira.errors import ConfigError, DataError, MissingKeyError, check_names, check_texts, expect
from delira.utils.seeding import current_counters, derive

_MODES = ("constant", "edge", "reflect")
_MOST_PLACES = 10_000
"""Voxels of a class that are kept of a case: 80 kB."""
_DATA = "data"


class Layout(NamedTuple):
    """What is cut of a case."""

    spatial: tuple[int, ...]
    """Its shape, without channels."""
    entries: tuple[str, ...]
    """Entries that have this shape."""


class Patches(AbstractDataset):
    """Parts of one size, cut at random from the samples ("cases") of another dataset.

    Where a patch lies is a function of (seed, fold, epoch, case, number of the patch) alone: each epoch has other
    patches, and the same whatever the size of the batch, the number of workers, and where a training goes on. Only the
    part that is needed is read, of datasets that can: see :meth:`AbstractDataset.read_part`.

    Everything that divides data divides the cases: :meth:`get_subset` and :meth:`train_test_split` take and return
    numbers of cases, and ``kfold`` trains on patches of the training cases, but validates and tests on whole cases,
    one a batch (``test_kwargs={"batch_size": ...}`` for cases of one shape).

    Parameters
    ----------
    dataset
        The cases: anything that a data manager takes.
    size
        Shape of a patch in voxels without channels, e.g. ``(64, 64, 32)``.
    per_case
        Patches of each case in an epoch, which has ``len(dataset) * per_case`` samples.
    foreground
        Share of patches, 0 to 1, that have a voxel of a label above 0 at their centre, or as near to it as the border
        of the case allows; its class is drawn evenly among those that the case has, and its place among at most 10,000
        voxels of this class. This is how nnU-Net does it, where the share is a third. All others lie anywhere.
    pad
        What surrounds a case that is smaller than ``size``, the same on both sides: ``"constant"`` (zeros), ``"edge"``,
        ``"reflect"``; a number, or ``{entry: number}``; None: such a case is an error.
    entries
        Entries to cut; by default all that have the case's shape as their last axes, and at most one axis of channels
        before. All others (spacing, patient, ...) come whole with each patch. The shape of a case is that of its first
        entry to cut, of ``"data"``, or of the label.
    label_key
        Entry that says where foreground is: class numbers of the case's shape, or with one axis before: then each of
        several channels is a class, where it is above 0. It is read whole once for each case and process.

    Attributes
    ----------
    cases : AbstractDataset
    size : tuple of int

    Raises
    ------
    ConfigError
        If an argument is wrong, or ``dataset`` holds patches already.
    DataError
        When a patch is cut: if the case is smaller than ``size`` and ``pad`` is None, or an entry has other axes.
    MissingKeyError
        When a patch is cut: if a case lacks an entry that ``entries`` names, or a label for foreground.

    Notes
    -----
    Isensee et al., nnU-Net, Nature Methods 18 (2021), https://doi.org/10.1038/s41592-020-01008-z; its oversampling of
    foreground is in https://github.com/MIC-DKFZ/nnUNet, ``nnunetv2/training/dataloading/data_loader.py``.

    A sampler that draws a patch twice in an epoch gets the same one twice.

    Examples
    --------
    >>> cases = [{"data": np.zeros((1, 20, 30)), "label": np.eye(20, 30, dtype=int)} for _ in range(4)]
    >>> patches = Patches(cases, size=(8, 8), per_case=3)
    >>> len(patches), patches[0]["data"].shape, patches[0]["label"].shape
    (12, (1, 8, 8), (8, 8))
    """

    def __init__(
        self,
        dataset: object,
        size: Sequence[int],
        per_case: int = 1,
        foreground: float = 1 / 3,
        pad: str | float | Mapping[str, float] | None = "constant",
        entries: Iterable[str] | None = None,
        label_key: str = "label",
    ) -> None:
        super().__init__()
        self.cases = as_dataset(dataset)
        if self.cases.whole_cases() is not self.cases:
            raise ConfigError("the dataset holds patches already; pass the dataset that these are cut from")
        self.size = _check_size(size)
        self.per_case = check_count(per_case, "per_case", 1)
        is_share = isinstance(foreground, numbers.Real) and not isinstance(foreground, bool) and 0 <= foreground <= 1
        expect(("foreground", foreground, is_share, "a share between 0 and 1"))
        self.foreground = float(foreground)
        self.pad = _check_pad(pad)
        if entries is not None:
            check_names(type(self).__name__, entries=entries)
        self.entries = None if entries is None else (entries,) if isinstance(entries, str) else tuple(entries)
        check_texts(type(self).__name__, label_key=label_key)
        self.label_key = label_key
        self.data = self.cases
        # the names begin so for what workers need not know of each other
        self._delira_layouts: dict[int, Layout] = {}
        self._delira_places: dict[int, list[np.ndarray]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_delira_layouts": {}, "_delira_places": {}}

    def __len__(self) -> int:
        return len(self.cases) * self.per_case

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cases!r}, size={self.size}, per_case={self.per_case})"

    def __getitem__(self, index: int) -> dict[str, Any]:
        case, number = divmod(to_index(index, len(self), self), self.per_case)
        rng = np.random.default_rng(derive(*current_counters(), case, number, stream="patch"))
        layout = self._layout(case)
        start = self._draw(case, layout, rng)
        box = [
            slice(max(0, first), min(length, first + size))
            for first, length, size in zip(start, layout.spatial, self.size, strict=True)
        ]
        sample = self.cases.read_part(case, dict.fromkeys(layout.entries, tuple(box)))
        return sample | {key: self._filled(np.asarray(sample[key]), key, box, start, case) for key in layout.entries}

    # ---------------------------------------------------------------- where a patch lies

    def _draw(self, case: int, layout: Layout, rng: np.random.Generator) -> list[int]:
        """Draw the first voxel of a patch; below 0 where the case is smaller."""
        spatial, size = np.array(layout.spatial), np.array(self.size)
        if (spatial < size).any() and self.pad is None:
            raise DataError(
                f"{name_sample(self.cases, case)} has the shape {layout.spatial}, smaller than patches of size="
                f"{self.size}, and pad=None allows no padding; use smaller patches, or pad='constant'"
            )
        lowest, highest = np.minimum(0, -((size - spatial) // 2)), np.maximum(0, spatial - size)
        highest = np.where(spatial < size, lowest, highest)
        start = rng.integers(lowest, highest + 1)  # drawn in any case: whether there is foreground changes no other
        if rng.random() < self.foreground and (classes := self._places(case, layout)):
            places = classes[rng.integers(len(classes))]
            voxel = np.array(np.unravel_index(places[rng.integers(len(places))], layout.spatial))
            start = np.clip(voxel - size // 2, lowest, highest)
        return [int(first) for first in start]

    def _places(self, case: int, layout: Layout) -> list[np.ndarray]:
        """Return where the classes above 0 are, some voxels of each: numbers in the flattened case, int64."""
        if case not in self._delira_places:
            key = self.label_key
            if key not in self.cases.entry_shapes(case):
                raise MissingKeyError(
                    f"{name_sample(self.cases, case)} has no entry {key!r} that says where foreground is; name it by "
                    "label_key, or pass foreground=0"
                )
            label = np.asarray(self.cases.read_part(case, {}, [key])[key])
            if label.shape[-len(self.size) :] != layout.spatial or label.ndim > len(self.size) + 1:
                raise DataError(
                    f"the label {key!r} of {name_sample(self.cases, case)} has the shape {label.shape}, which is not "
                    f"that of the case, {layout.spatial}, with or without an axis of channels before; name another "
                    "entry by label_key, or pass foreground=0"
                )
            found = _voxels_by_class(label.reshape(-1, math.prod(layout.spatial)))
            draw = np.random.default_rng(derive(0, case, stream="foreground"))
            self._delira_places[case] = [
                voxels if len(voxels) <= _MOST_PLACES else draw.choice(voxels, _MOST_PLACES, replace=False)
                for voxels in found
            ]
            if not found and "_delira_told" not in vars(self):
                self.__dict__["_delira_told"] = True
                warnings.warn(
                    f"{name_sample(self.cases, case)} has no label above 0 in {key!r}, so all of its patches lie "
                    "anywhere; further cases like it are not told of",
                    UserWarning,
                    stacklevel=4,
                )
        return self._delira_places[case]

    def _layout(self, case: int) -> Layout:
        if case not in self._delira_layouts:
            self._delira_layouts[case] = self._find_layout(self.cases.entry_shapes(case), case)
        return self._delira_layouts[case]

    def _find_layout(self, shapes: Mapping[str, tuple[int, ...]], case: int) -> Layout:
        n_axes = len(self.size)
        wanted = self.entries or [key for key in (_DATA, self.label_key) if key in shapes][:1]
        if not wanted or (missing := [key for key in wanted if key not in shapes]):
            raise MissingKeyError(
                f"{name_sample(self.cases, case)} has no entry {(missing if wanted else [_DATA])[0]!r} to cut patches "
                f"from, only {sorted(map(str, shapes))}; name those to cut by entries"
            )
        spatial = tuple(shapes[wanted[0]][-n_axes:])
        for key in wanted:
            if len(shapes[key]) not in (n_axes, n_axes + 1) or shapes[key][-n_axes:] != spatial:
                raise DataError(
                    f"entry {key!r} of {name_sample(self.cases, case)} has the shape {shapes[key]}; patches of size="
                    f"{self.size} are cut from {n_axes} axes, {spatial if key != wanted[0] else 'or one more'}"
                    f"{' in this case' if key != wanted[0] else ' before them for channels'}"
                )
        if not self.entries:
            fitting = (key for key, shape in shapes.items() if len(shape) <= n_axes + 1 and shape[-n_axes:] == spatial)
            wanted = [*fitting]
        return Layout(spatial, tuple(wanted))

    def _filled(self, part: np.ndarray, key: str, box: list[slice], start: list[int], case: int) -> np.ndarray:
        """Surround what was read with what is missing of a patch."""
        n_axes = len(self.size)
        if part.shape[-n_axes:] != tuple(each.stop - each.start for each in box):
            raise DataError(
                f"{name_sample(self.cases, case)} has not the same shape each time it is read: a part {box} of its "
                f"entry {key!r} came with shape {part.shape}; patches need cases that keep their shape"
            )
        missing = [
            (each.start - first, first + size - each.stop)
            for each, first, size in zip(box, start, self.size, strict=True)
        ]
        if not any(map(any, missing)):
            return part
        width = [(0, 0)] * (part.ndim - n_axes) + missing
        if isinstance(self.pad, str) and self.pad != "constant":
            return np.pad(part, width, mode=self.pad)  # type: ignore[call-overload, no-any-return]
        value = self.pad.get(key, 0) if isinstance(self.pad, Mapping) else 0 if isinstance(self.pad, str) else self.pad
        if not _can_hold(part.dtype, value):
            raise DataError(f"pad={self.pad!r} cannot be a value of entry {key!r}, whose dtype is {part.dtype}")
        return np.pad(part, width, constant_values=value)

    # ---------------------------------------------------------------- what is divided, and what is known of a patch

    def whole_cases(self) -> AbstractDataset:
        """Return the dataset that the patches are cut from."""
        return self.cases

    def get_subset(self, indices: Indices) -> "Patches":  # type: ignore[override]
        """Return patches of some of the cases.

        Parameters
        ----------
        indices : sequence of int, or ndarray of shape (n,)
            Numbers of cases, not of patches: patches of one case are never on two sides.

        Raises
        ------
        SampleIndexError
            If there is no such case.
        """
        part = object.__new__(type(self))
        part.__dict__.update({name: value for name, value in vars(self).items() if not name.startswith("_delira_")})
        part._delira_layouts, part._delira_places = {}, {}
        part.cases = part.data = self.cases.get_subset(indices)
        return part

    def train_test_split(self, *args: Any, **kwargs: Any) -> tuple["Patches", "Patches"]:
        """Split the cases at random in two; keywords as in :meth:`AbstractDataset.train_test_split`."""
        train, test = split_indices(len(self.cases), *args, **kwargs)
        return self.get_subset(train), self.get_subset(test)

    def set_labels(self, key: str, values: object) -> None:
        """Say what :meth:`labels` returns of the cases, with one value for each case; see ``AbstractDataset``."""
        self.cases.set_labels(key, values)

    def _numbers_in(self, indices: Indices) -> np.ndarray:
        cases = check_range(to_index_array(indices, "a subset"), len(self.cases), "the cases of these Patches")
        return (cases[:, None] * self.per_case + np.arange(self.per_case)).reshape(-1)

    def _below(self, index: int) -> tuple[AbstractDataset, int]:
        return self.cases, index // self.per_case

    def _case_names(self) -> list[str]:
        return [name for name in self.cases.case_names for _ in range(self.per_case)]

    def _files(self) -> list[str]:
        return self.cases._files()

    def _label_parts(self) -> tuple[AbstractDataset, ...]:
        return (self.cases,)

    def _read_labels(self, key: str) -> np.ndarray:
        return np.repeat(read_labels(self.cases, key), self.per_case, axis=0)

    def _reads_cheaply(self, key: str) -> bool:
        return reads_cheaply(self.cases, key)

    def _content(self) -> Any:
        settings = (self.size, self.per_case, self.foreground, self.pad, self.entries, self.label_key)
        return self.cases.fingerprint(), settings

    def is_deterministic(self) -> bool:
        """Return True if reading draws from no global generator: patches themselves do not."""
        return type(self) is Patches and self.cases.is_deterministic()


def _voxels_by_class(label: np.ndarray) -> list[np.ndarray]:
    """Where the classes above 0 are in a label of shape (channels, voxels), int64; of one channel by value."""
    if len(label) > 1:
        return [voxels for channel in label if len(voxels := np.flatnonzero(channel > 0))]
    voxels = np.flatnonzero(label[0] > 0)
    values = label[0][voxels]
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order])) + 1
    return np.split(voxels[order], ends) if len(voxels) else []


def _can_hold(dtype: np.dtype, value: Any) -> bool:
    if dtype.kind not in "biu":
        return True
    lowest, highest = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bool(lowest <= value <= highest) and float(value).is_integer()


def _check_size(size: object) -> tuple[int, ...]:
    sizes = [*size] if isinstance(size, Iterable) and not isinstance(size, (str, bytes, Mapping)) else []
    if not sizes:
        raise ConfigError(f"size must list the length of a patch along each axis, e.g. (64, 64, 32), got {size!r}")
    return tuple(check_count(length, f"size[{axis}]", 1) for axis, length in enumerate(sizes))


def _check_pad(pad: Any) -> Any:
    def is_number(value: object) -> bool:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)

    is_right = pad is None or is_number(pad) or (isinstance(pad, str) and pad in _MODES)
    if isinstance(pad, Mapping):
        is_right = all(isinstance(key, str) and is_number(value) for key, value in pad.items())
    kinds = ", ".join(map(repr, _MODES))
    expect(("pad", pad, is_right, f"one of {kinds}, a number, a dict {{entry: number}}, or None"))
    return dict(pad) if isinstance(pad, Mapping) else pad
