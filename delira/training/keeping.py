"""What is kept of the predictions of a test: labels, probabilities, logits, as the network says them, or nothing."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError, expect
from delira.metrics.gather import KEPT_BYTES, Gatherer
from delira.metrics.tree.criteria import Criterion
from delira.training.scores import KINDS, kept_as
from delira.utils.arrays import iterate_leaves, map_leaves

_log = logging.getLogger("delira")
DTYPES = ("float16", "float32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keeping:
    """What a cross-validation was asked to keep of the predictions of its tests."""

    keep_predictions: str | bool | None = None
    """``"labels"``, ``"probabilities"`` or ``"logits"``; None or True: as the network says them; False: nothing."""

    predictions_dtype: str | None = None
    """Of numbers with fractions: ``"float16"`` or ``"float32"``; None: as they are."""

    def __post_init__(self) -> None:
        keep, dtype = self.keep_predictions, self.predictions_dtype
        expect(
            (
                "keep_predictions",
                keep,
                keep is None or isinstance(keep, bool) or (isinstance(keep, str) and keep in KINDS),
                "'labels', 'probabilities', 'logits', False for nothing, or None: as the network says them",
            ),
            ("predictions_dtype", dtype, dtype is None or dtype in DTYPES, "'float16', 'float32' or None: as they are"),
        )
        if keep is True:
            object.__setattr__(self, "keep_predictions", None)

    @property
    def is_plain(self) -> bool:
        """Return True if predictions are kept as the network says them."""
        return self.keep_predictions is None and self.predictions_dtype is None

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if value is not None)

    def keeper(self, folder: Path | None, outputs: Mapping[str, Criterion], image: str | None) -> "Keeper":
        """Return what keeps the predictions of one fold.

        Parameters
        ----------
        folder
            Of the fold: what does not fit into memory is written there, case by case, into a file without a name.
        outputs
            What is known of the outputs by name.
        image
            The entry of the batch whose axes from the third on are space; None: not known.
        """
        return Keeper(self, folder, outputs, image)


class Keeper:
    """Keeps the predictions of one fold while it is tested.

    Parameters
    ----------
    keeping, folder, outputs, image
        As of :meth:`Keeping.keeper`.
    """

    def __init__(self, keeping: Keeping, folder: Path | None, outputs: Mapping[str, Criterion], image: str | None):
        self._keeping, self._folder, self._outputs, self._image = keeping, folder, outputs, image
        #: whether anything that was kept is other than what the network said
        self.is_changed = keeping.keep_predictions is False

    def __bool__(self) -> bool:
        return self._keeping.keep_predictions is not False

    def check_unseen(self, kind: str | None) -> None:
        """Refuse before the training what cannot be made of predictions that nobody has seen yet.

        Parameters
        ----------
        kind
            What the network says that they are, ``"probabilities"``, ``"scores"`` or ``"numbers"``; None: it does not.

        Raises
        ------
        ConfigError
            If they cannot be kept as asked.
        """
        keep = self._keeping.keep_predictions
        made = {"probabilities": ["labels", "probabilities"], "scores": ["labels", "logits"], "numbers": ["logits"]}
        if kind is not None and keep and keep not in made[kind]:
            ways = ", ".join(map(repr, made[kind]))
            raise ConfigError(
                f"keep_predictions={keep!r}, but the estimator predicts {kind}, of which no {keep} are made; take "
                f"{ways}, None: as it says them, or False"
            )

    def gatherer(self) -> Gatherer:
        """Return what gathers arrays: in memory while they are small, else in a file in the folder of the fold."""
        return Gatherer(KEPT_BYTES, folder=self._folder)

    def converted(self, outputs: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a batch as they are kept.

        Parameters
        ----------
        outputs
            Arrays of shape ``(B, ...)`` by name, on the host.
        batch
            The batch that they are of.
        """
        keep, dtype = self._keeping.keep_predictions, self._keeping.predictions_dtype
        if self._keeping.is_plain or not self:
            return dict(outputs)
        space = () if self._image is None else np.shape(batch[self._image])[2:]
        found = kept_as(outputs, None if keep is None else str(keep), space, self._outputs)
        if dtype is not None:
            found = map_leaves(lambda leaf: _cast(leaf, np.dtype(dtype)), found)
        pairs = zip(iterate_leaves(outputs), iterate_leaves(found), strict=True)
        self.is_changed = self.is_changed or any(not _is_same(old, new) for (_, old), (_, new) in pairs)
        return found

    def size_of(self, outputs: Mapping[str, Any], batch: Mapping[str, Any], also: Mapping[str, Any]) -> int:
        """Bytes that are kept of a batch: of its outputs, and of entries of it."""
        if not self:
            return 0
        is_changed = self.is_changed
        kept = [self.converted(outputs, batch), also]
        self.is_changed = is_changed
        return sum(int(getattr(leaf, "nbytes", 0)) for _, leaf in iterate_leaves(kept))


def _cast(leaf: Any, dtype: np.dtype) -> Any:
    return leaf.astype(dtype, copy=False) if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" else leaf


def _is_same(old: Any, new: Any) -> bool:
    """Return True if nothing was made of an array: another kind of number is something else, equal ones are not."""
    return old is new or (old.dtype == new.dtype and np.shares_memory(old, new))


def tell_size(n_bytes: int, n_cases: int, folder: Path | None) -> None:
    """Say how much a run is going to write of its predictions.

    Parameters
    ----------
    n_bytes
        Of all cases, about.
    n_cases
        Tests of cases.
    folder
        Of a fold, beside those of the others.
    """
    size, unit = float(n_bytes), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    place = "the folder of the run" if folder is None else folder.parent
    _log.info("predictions and targets of %d cases will take about %.3g %s in %s", n_cases, size, unit, place)
