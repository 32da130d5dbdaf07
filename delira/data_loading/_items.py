"""What a dataset loads from: the entries of a directory, images paired with ground truth, or the items given."""

import collections
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, DataError

_SHOWN = 10  # files or endings named in one message


def list_items(path: object) -> list[Any]:
    """List the entries of a directory in sorted order, or the items of an iterable.

    Raises
    ------
    ConfigError
        If ``path`` is neither a directory nor an iterable of items.
    """
    if isinstance(path, (str, os.PathLike)):
        _check_directory(path)
        # sorted: the order of os.listdir differs from machine to machine
        return [os.path.join(path, name) for name in sorted(os.listdir(path))]
    if isinstance(path, Mapping) or not isinstance(path, Iterable):
        raise ConfigError(
            f"data_path must be a directory or a list of items to load, got a {type(path).__name__}; "
            "a dict of arrays goes into DictDataset"
        )
    return list(path)


def list_pairs(path: object, img_extensions: object, gt_extensions: object) -> list[Any]:
    """Search a directory for images, and pair each with its ground truth; parameters as in ``BaseLazyDataset``.

    Returns
    -------
    list of str, or of tuple of str
        Images, sorted by path; with ``gt_extensions`` tuples of an image and its ground truth, in the order
        of ``gt_extensions``.

    Raises
    ------
    ConfigError
        If ``path`` is no directory, or the endings contradict each other.
    DataError
        If there is no image, or what is there does not pair.
    """
    images_end = to_endings(img_extensions, "img_extensions")
    truths_end = to_endings(gt_extensions, "gt_extensions") if gt_extensions else []
    if both := [ending for ending in images_end if ending in truths_end]:
        raise ConfigError(f"{both} cannot be endings of images and of ground truth at once")
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(
            f"with img_extensions data_path must be a directory to search, got a {type(path).__name__}; "
            "a list of items needs no extensions"
        )
    _check_directory(path)
    found = collections.defaultdict[str, _Group](lambda: _Group([], collections.defaultdict(list)))
    others: collections.Counter[str] = collections.Counter()
    for file in _walk(path):
        if (ending := ending_of(file, images_end + truths_end)) is None:
            others[os.path.splitext(file)[1].lower() or "no ending"] += 1
            continue
        group = found[file[: -len(ending)]]
        (group.images if ending in images_end else group.truths[truths_end.index(ending)]).append(file)
    if not any(group.images for group in found.values()):
        seen = ", ".join(f"{ending} ({count})" for ending, count in others.most_common(_SHOWN)) or "none"
        ends = " or ".join(images_end)
        raise DataError(f"no file below {os.fspath(path)!r} ends in {ends}; other files there: {seen}")
    # sorted by folder and name, a folder's files stay together on every system
    return _pair(
        os.fspath(path), [found[stem] for stem in sorted(found, key=lambda stem: stem.split(os.sep))], truths_end
    )


class _Group(NamedTuple):
    """Files that are called the same up to the ending."""

    images: list[str]
    truths: dict[int, list[str]]
    """By the position of their ending."""


def _pair(path: str, groups: list[_Group], truths_end: list[str]) -> list[Any]:
    items: list[Any] = []
    wrong: list[str] = []
    kinds = sorted({position for group in groups for position in group.truths})
    for images, by_kind in groups:
        truths = [file for kind in sorted(by_kind) for file in by_kind[kind]]
        if not images:
            wrong.append(f"{truths[0]} has no image")
        elif len(images) > 1:
            wrong.append(f"{' and '.join(images)} are images of the same name")
        elif truths_end and not truths:
            wrong.append(f"{images[0]} has no ground truth")
        elif lacking := [truths_end[kind] for kind in kinds if kind not in by_kind and kind < max(by_kind)]:
            # load_fn tells them by their place: the next kind would be taken for the one that is missing
            wrong.append(f"{images[0]} has {truths[0]} but no {' or '.join(lacking)}, which others have")
        elif len(truths) > len(by_kind):
            wrong.append(f"{' and '.join(truths)} are ground truth of one name and ending")
        else:
            items.append((images[0], *truths) if truths_end else images[0])
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataError(
            f"images and ground truth below {path!r} do not pair: {'; '.join(wrong[:_SHOWN])}{more}; "
            "ground truth lies next to its image and is called the same up to the ending"
        )
    return items


def to_endings(extensions: Any, name: str) -> list[str]:
    is_list = isinstance(extensions, Iterable) and not isinstance(extensions, (str, bytes))
    given = list(extensions) if is_list else [extensions]
    if not given or not all(isinstance(ending, str) and ending.strip(".") for ending in given):
        raise ConfigError(f"{name} must list endings of files, e.g. ['.png', '.nii.gz'], got {extensions!r}")
    # "png" is meant as ".png"; "_seg.nii.gz" is meant as it stands
    return [(f".{ending}" if ending[0].isalnum() else ending).lower() for ending in given]


def ending_of(file: str, endings: list[str]) -> str | None:
    name = os.path.basename(file).lower()
    # the longest: a.nii.gz is called "a", whether or not ".gz" is an ending too
    fitting = [ending for ending in endings if name.endswith(ending) and len(name) > len(ending)]
    return max(fitting, key=len, default=None)


def _walk(path: Any) -> Iterator[str]:
    """Yield the files below a directory, hidden ones left out; links to folders are followed, each folder once."""
    visited = set()
    for folder, subfolders, names in os.walk(path, onerror=_raise, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:  # a link back up would never end
            subfolders.clear()
            continue
        visited.add(real)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (os.path.join(folder, name) for name in sorted(names) if not name.startswith("."))


def _raise(error: OSError) -> None:
    raise error


def _check_directory(path: Any) -> None:
    if not os.path.isdir(path):
        raise ConfigError(f"data_path={os.fspath(path)!r} is no directory; pass a directory or a list of items to load")


def strings_in(item: object) -> dict[tuple[Any, ...], str]:
    """Find strings and paths in an item: where in its tuples, lists and dicts they are -> what they are."""
    if isinstance(item, (str, os.PathLike)):
        return {(): os.fsdecode(item)}
    if isinstance(item, Mapping):
        inner: Iterable[tuple[Any, Any]] = item.items()
    elif isinstance(item, (list, tuple)):
        inner = enumerate(item)
    else:
        return {}
    return {(place, *rest): text for place, value in inner for rest, text in strings_in(value).items()}


#: entries that say whose a sample is, or where it comes from
_CASES = (
    "case", "case_id", "file", "filename", "file_name", "path", "patient", "patient_id", "subject", "subject_id",
    "name", "id",
)  # fmt: skip


def is_case(key: str) -> bool:
    """Return True if an entry of that name says whose a sample is, or where it comes from."""
    return key in _CASES


def case_in(entries: Mapping[str, Any], index: int | None = None) -> str:
    """Return what entries say of the case that a sample is of, e.g. ``"patient 'P07'"``; empty if they do not.

    Parameters
    ----------
    entries
        Of a sample.
    index
        Which sample, if they are those of all samples.
    """
    for key in _CASES:
        value = entries.get(key)
        if value is not None and index is not None:
            value = value[index]
        value = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.shape == () else value
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return f"{key} {value!r}"
    return ""


def paths_of(items: Iterable[Any]) -> list[str]:
    """Return the paths among the strings in ``items``, each once.

    Items may be names, and pairs may hold a path and the name of a class. So the strings at one place of
    all items are taken for paths if one of them is absolute or exists.
    """
    by_place: dict[tuple[Any, ...], dict[str, None]] = {}
    for item in items:
        for place, text in strings_in(item).items():
            by_place.setdefault(place, {})[text] = None
    paths: dict[str, None] = {}
    for texts in by_place.values():
        if any(os.path.isabs(text) or os.path.exists(text) for text in texts):
            paths |= texts
    return list(paths)


def with_progress(items: list[Any]) -> Iterable[Any]:
    """Show a bar while the items are iterated, if there is a terminal to show it on."""
    if sys.stderr is None or not sys.stderr.isatty():  # no bars in log files
        return items
    from tqdm import tqdm

    return tqdm(items, desc="Loading samples")
