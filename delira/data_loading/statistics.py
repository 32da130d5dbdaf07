"""What a training has to know of volumes: sizes, spacings, intensities and classes, and what follows from them."""

import contextlib
import dataclasses
import html
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.data_loading._exact import as_array, check_count
from delira.errors import DataError, check_texts
from delira.utils.seeding import derive, seeded_globals

if TYPE_CHECKING:
    from delira.data_loading.abstract_dataset import AbstractDataset

PERCENTILES = (0.5, 50.0, 99.5)
_MOST_VOXELS = 10_000
"""Voxels of a case whose intensities are kept."""
_MOST_CLASSES = 256
_LARGEST_AXIS = 256
"""A patch begins as a cube, in mm, of so many voxels along each axis, as that of nnU-Net."""
_AIR = -200.0
"""In Hounsfield units: no other modality has values so far below 0."""


@dataclasses.dataclass(frozen=True)
class Normalisation:
    """How the intensities of one channel are brought to numbers around 0; called with them."""

    kind: str
    """``"ct"``: clipped, and all cases scaled alike, as values have a meaning; ``"z-score"``: each case on its own."""
    low: float
    """Percentile 0.5 of the foreground of all cases."""
    high: float
    """Percentile 99.5."""
    mean: float
    """Of the foreground of all cases."""
    std: float

    def __call__(self, channel: Any) -> np.ndarray:
        """Return the normalised channel, float32 of the same shape."""
        values = as_array(channel).astype(np.float32)
        mean, std = self.mean, self.std
        if self.kind == "ct":
            values = np.clip(values, self.low, self.high)
        else:
            mean, std = float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))
        return ((values - mean) / max(std, 1e-8)).astype(np.float32)

    def __str__(self) -> str:
        if self.kind == "ct":
            return f"CT: clip to {self.low:.4g} … {self.high:.4g}, then (x - {self.mean:.4g}) / {self.std:.4g}"
        return "z-score: mean and standard deviation of each case"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DataFingerprint:
    """What :meth:`BaseDataManager.fingerprint` found; prints as a table.

    Sizes and spacings have the least, the median and the greatest in their rows: shape (3, number of axes).
    """

    name: str
    """Class of the dataset."""
    n_cases: int
    n_read: int
    """Cases that were looked at, drawn at random, always the same."""
    sizes: np.ndarray
    """In voxels."""
    spacings: np.ndarray | None
    """In mm; None if samples have no ``spacing``."""
    percentiles: np.ndarray
    """Intensities, float64 of shape (channels, 3): percentiles 0.5, 50 and 99.5."""
    means: np.ndarray
    """Shape (channels,)."""
    stds: np.ndarray
    minima: np.ndarray
    """The least value of each channel, of all voxels of the cases looked at."""
    is_of_foreground: bool
    """Whether intensities are those of voxels with a label above 0; else of all."""
    classes: Mapping[int, float]
    """Class -> its share of all voxels; empty if there are no labels of the case's shape."""

    def suggest_patch_size(self, max_voxels: int = 128**3, divisible_by: int = 16) -> tuple[int, ...]:
        """Suggest a size for patches: as large as allowed, and of the proportions that cases have.

        A patch begins as a cube in mm, is cut to the median case, and loses voxels along the axis on which it goes on
        covering most of the case, until it is small enough: as nnU-Net does (Isensee et al. 2021,
        https://doi.org/10.1038/s41592-020-01008-z), with ``max_voxels`` instead of the memory of the GPU.

        Parameters
        ----------
        max_voxels
            Most voxels of a patch.
        divisible_by
            What lengths shall be multiples of: 2 for each time that a network halves them. A case that is shorter
            along an axis gets a power of two there.
        """
        most, factor = check_count(max_voxels, "max_voxels", 1), check_count(divisible_by, "divisible_by", 1)
        median = self.sizes[1]
        spacing = np.ones(len(median)) if self.spacings is None else self.spacings[1]
        cube = _LARGEST_AXIS * (1 / spacing) / np.prod(1 / spacing) ** (1 / len(median))
        steps = [factor if size >= factor else 2 ** int(math.log2(max(1, size))) for size in median]
        lengths = [
            max(step, round(min(size, wanted) / step) * step)
            for size, wanted, step in zip(median, cube, steps, strict=True)
        ]
        while math.prod(lengths) > most:
            # of the case, once a step is taken: a coarse axis with few steps keeps what a fine one can spare
            shares = [(length - step) / size for length, size, step in zip(lengths, median, steps, strict=True)]
            axis = int(np.argmax(shares))
            if shares[axis] <= 0:
                break  # it cannot be smaller
            lengths[axis] -= steps[axis]
        return tuple(lengths)

    def suggest_normalisation(self) -> tuple[Normalisation, ...]:
        """Suggest how to normalise each channel.

        As nnU-Net does (Isensee et al. 2021): CT, whose values mean the same in all cases, is clipped to percentiles
        of the foreground and scaled by its mean and standard deviation; all else is normalised case by case. What is
        CT nobody has said: it is taken for one if values go below -200.
        """
        return tuple(
            Normalisation("ct" if least < _AIR else "z-score", float(low), float(high), float(mean), float(std))
            for least, (low, _, high), mean, std in zip(
                self.minima, self.percentiles, self.means, self.stds, strict=True
            )
        )

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table."""
        read = "" if self.n_read == self.n_cases else f", {self.n_read:,} looked at"
        yield f"volumes of {self.n_cases:,} cases{read}"
        yield f"  size            {_ranges(self.sizes)} voxels"
        if self.spacings is not None:
            yield f"  spacing         {_ranges(self.spacings)} mm"
        of = "foreground" if self.is_of_foreground else "all voxels"
        for number, row in enumerate(self.percentiles):
            low, middle, high = (f"{value:.4g}" for value in row)
            channel = f" {number}" if len(self.percentiles) > 1 else ""
            yield f"  intensity{channel:<6} {low} … {middle} … {high} (0.5, 50, 99.5 %; {of})"
        if self.classes:
            shares = ", ".join(f"{value}: {share:.2%}" for value, share in [*self.classes.items()][:10])
            more = f", and {len(self.classes) - 10} more" if len(self.classes) > 10 else ""
            yield f"  classes         {shares}{more}"
        yield f"  patches         {' × '.join(map(str, self.suggest_patch_size()))} suggested"
        for number, way in enumerate(self.suggest_normalisation()):
            yield f"  normalisation{f' {number}' if len(self.minima) > 1 else ''}   {way}"


def _ranges(rows: np.ndarray) -> str:
    """Least, median and greatest along each axis, e.g. ``"20–24–31 × 64"``."""
    return " × ".join(
        f"{column[0]:.4g}" if column[0] == column[2] else "–".join(f"{value:.4g}" for value in column)
        for column in rows.T
    )


class VolumeTally:
    """Collects, sample by sample, what a :class:`DataFingerprint` says; what is no volume is refused.

    Parameters
    ----------
    label_key, data_key
        Entries with the classes of the voxels, and their intensities.
    """

    def __init__(self, label_key: str, data_key: str = "data") -> None:
        self._label_key, self._data_key = label_key, data_key
        self._sizes: list[tuple[int, ...]] = []
        self._spacings: list[np.ndarray] = []
        self._intensities: list[np.ndarray] = []
        self._minima: list[np.ndarray] = []
        self._classes: Counter[int] = Counter()
        self._has_foreground = True
        self.is_certain = False
        """Whether samples have masks or spacings, as only volumes have."""

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, index: int, sample: Mapping[str, Any]) -> None:
        """Take in a sample.

        Raises
        ------
        DataError
            If it is no volume, or has another number of axes or channels than those before.
        """
        if self._data_key not in sample:
            raise DataError(f"sample {index} has no entry {self._data_key!r}; name the one with the intensities")
        data = as_array(sample[self._data_key])
        label = as_array(sample[self._label_key]) if self._label_key in sample else None
        if data.ndim < 3 or data.dtype.kind not in "biuf" or not data.size:
            raise DataError(
                f"entry {self._data_key!r} of sample {index} has the shape {data.shape} and dtype {data.dtype}; a "
                "volume is an array of numbers of shape (channels, *spatial) with two or three spatial axes"
            )
        spatial = data.shape[1:]
        if label is not None and (label.shape not in (spatial, (1, *spatial)) or label.dtype.kind not in "biu"):
            label = None
        if self._sizes and (len(spatial), len(data)) != (len(self._sizes[0]), len(self._minima[0])):
            raise DataError(
                f"sample {index} has the shape {data.shape}, but earlier ones {len(self._minima[0])} channels and "
                f"{len(self._sizes[0])} spatial axes; volumes need the same numbers of both"
            )
        self._sizes.append(spatial)
        if (spacing := np.asarray(sample.get("spacing", ()))).size == len(spatial) and spacing.dtype.kind in "iuf":
            self._spacings.append(spacing.reshape(-1).astype(np.float64))
        self.is_certain = self.is_certain or label is not None or bool(self._spacings)
        self._take_values(index, data.reshape(len(data), -1), None if label is None else label.reshape(-1))

    def _take_values(self, index: int, data: np.ndarray, label: np.ndarray | None) -> None:
        rng = np.random.default_rng(derive(0, index, stream="fingerprint of voxels"))
        chosen = np.arange(0) if label is None else np.flatnonzero(label > 0)
        if label is not None:
            values, counts = np.unique(label, return_counts=True)
            self._classes.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            if len(self._classes) > _MOST_CLASSES:
                raise DataError(f"the label of sample {index} has more than {_MOST_CLASSES} classes")
        else:
            self._has_foreground = False
        if label is None or not self._has_foreground:
            chosen = np.arange(data.shape[1])
        if len(chosen) > _MOST_VOXELS:
            chosen = rng.choice(chosen, _MOST_VOXELS, replace=False)
        finite = {"where": np.isfinite(data), "initial": np.inf} if data.dtype.kind == "f" else {}  # without a copy
        self._minima.append(np.min(data, axis=1, **finite).astype(np.float64))
        self._intensities.append(data[:, chosen].astype(np.float64))

    def finished(self, name: str, n_cases: int) -> DataFingerprint:
        """Return what was found.

        Raises
        ------
        DataError
            If there was no sample.
        """
        if not self._sizes:
            raise DataError("no case could be looked at, so that there is nothing to tell of volumes")
        voxels = np.concatenate(self._intensities, axis=1)
        voxels = voxels[:, np.isfinite(voxels).all(axis=0)]
        if not voxels.size:
            raise DataError("no voxel of the foreground has a finite value; are the labels of these volumes?")
        total = sum(self._classes.values())
        return DataFingerprint(
            name=name,
            n_cases=n_cases,
            n_read=len(self._sizes),
            sizes=_three(self._sizes),
            spacings=_three(self._spacings) if len(self._spacings) == len(self._sizes) else None,
            percentiles=np.percentile(voxels, PERCENTILES, axis=1).T,
            means=voxels.mean(axis=1),
            stds=voxels.std(axis=1),
            minima=np.min(self._minima, axis=0),
            is_of_foreground=self._has_foreground,
            classes={value: count / total for value, count in sorted(self._classes.items())},
        )


def _three(rows: Sequence[Any]) -> np.ndarray:
    values = np.array(rows, dtype=np.float64)
    return np.stack([values.min(axis=0), np.median(values, axis=0), values.max(axis=0)])


def fingerprint_volumes(
    dataset: "AbstractDataset", label_key: str = "label", data_key: str = "data", limit: int | None = 100
) -> DataFingerprint:
    """Look through volumes once; parameters and errors as those of :meth:`AbstractDataset.statistics`."""
    check_texts("fingerprint", label_key=label_key, data_key=data_key)
    cases = dataset.whole_cases()
    indices = chosen_indices(len(cases), limit)
    tally = VolumeTally(label_key, data_key)
    with seeded_globals(derive(0, stream="describe")):
        for index in indices:
            tally.add(index, cases[index])
    return tally.finished(type(cases).__name__, len(cases))


def chosen_indices(length: int, limit: int | None) -> list[int]:
    """Draw the samples that are looked at, always the same; ``limit`` None: all."""
    if limit is None or check_count(limit, "limit", 1) >= length:
        return [*range(length)]
    # drawn, not every so many: classes may take turns
    return np.sort(np.random.default_rng(0).choice(length, limit, replace=False)).tolist()  # type: ignore[no-any-return]


def add_if_volume(tally: VolumeTally | None, index: int, sample: Mapping[str, Any]) -> VolumeTally | None:
    """Take in a sample of anything; None from the first on that is no volume."""
    with contextlib.suppress(Exception):
        if tally is not None:
            tally.add(index, sample)
            return tally
    return None
