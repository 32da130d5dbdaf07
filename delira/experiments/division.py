"""How the data of a cross-validation are divided, and what is to be said about that."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager
from delira.experiments.leakage import caveats_of_training, caveats_of_validation, find_leaks
from delira.experiments.splits import Split, Splitter
from delira.experiments.training_sizes import nested_splits
from delira.runs.folder import loss_tolerated
from delira.utils import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Division:
    """How the data are divided, and what is to be said about that."""

    splits: Sequence[Split]
    groups: np.ndarray | None
    """Group of each sample."""
    leaks: Mapping[str, Any]
    """As of :func:`find_leaks`."""
    sizes: Sequence[int] = ()
    """Of a learning curve: cases that folds may learn from; the first folds are those of the first size."""


def divided(
    cases: BaseDataManager, splitter: Splitter, sizes: Sequence[float], key_mapping: Mapping[str, str] | None
) -> Division:
    """Divide data, and look for what makes scores too good.

    Parameters
    ----------
    cases
        The data.
    splitter
        Of their dataset.
    sizes
        Of a learning curve, or none.
    key_mapping
        Argument of the network -> entry of the batch.
    """
    splits, numbers = nested_splits(splitter, sizes) if sizes else (list(splitter), [])
    apart = [split for split in splits if not split.is_apparent]
    leaks = find_leaks(cases, splitter.config, apart, key_mapping, stacklevel=6)
    if numbers:
        leaks["of_sizes"] = _of_sizes(cases, splitter, splits, numbers)
    elif told := _caveats(cases, splitter, apart, is_small=splitter.config.is_bootstrap):
        leaks["warnings"] = [*leaks.get("warnings", ()), *told]
    return Division(splits=splits, groups=splitter.groups, leaks=leaks, sizes=numbers)


def _of_sizes(
    cases: BaseDataManager, splitter: Splitter, splits: Sequence[Split], sizes: Sequence[int]
) -> dict[str, list[str]]:
    """What is to be said of each size of a learning curve."""
    n = len(splits) // len(sizes)
    found = {
        str(size): _caveats(cases, splitter, splits[place * n : (place + 1) * n], is_small=True)
        for place, size in enumerate(sizes)
    }
    return {size: told for size, told in found.items() if told}


def _caveats(cases: BaseDataManager, splitter: Splitter, splits: Sequence[Split], *, is_small: bool) -> list[str]:
    """What is to be said of parts that may be small."""
    found = caveats_of_validation(cases.dataset, splitter, splits)
    return found + (caveats_of_training(cases.dataset, splitter, splits) if is_small else [])


def keep_left_out(path: Path, *parts: tuple[BaseDataManager | None, np.ndarray | None]) -> dict[int, str]:
    """Return what the managers of the parts left out, by the samples' indices in the whole dataset, with the reasons.

    It is added to what earlier sessions of the fold left out: a fold that is finished does not train again.

    Parameters
    ----------
    path
        The file that keeps it.
    *parts
        The manager of each part, and the indices of its samples.
    """
    left_out = {int(index): reason for index, reason in (files.read_json(path) if path.exists() else {}).items()}
    for manager, indices in parts:
        if manager is not None and indices is not None:
            left_out |= {int(indices[manager.case_of(index)]): reason for index, reason in manager.left_out.items()}
    if left_out:
        with loss_tolerated("what was left out of a fold"):
            files.publish_text(path, json.dumps(dict(sorted(left_out.items())), indent=1))
    return left_out
