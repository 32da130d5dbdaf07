"""What a dataset loads from: the entries of a directory, or the items given."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from delira.errors import ConfigError


def list_items(path: Any) -> list[Any]:
    """List the entries of a directory in sorted order, or the items of an iterable.

    Raises
    ------
    ConfigError
        If ``path`` is neither a directory nor an iterable of items.
    """
    if isinstance(path, (str, os.PathLike)):
        if not os.path.isdir(path):
            raise ConfigError(
                f"data_path={os.fspath(path)!r} is no directory; pass a directory or a list of items to load"
            )
        # sorted: the order of os.listdir differs from machine to machine
        return [os.path.join(path, name) for name in sorted(os.listdir(path))]
    if isinstance(path, Mapping) or not isinstance(path, Iterable):
        raise ConfigError(
            f"data_path must be a directory or a list of items to load, got a {type(path).__name__}; "
            "a dict of arrays goes into DictDataset"
        )
    return list(path)


def with_progress(items: list[Any]) -> Iterable[Any]:
    """Show a bar while the items are iterated, if there is a terminal to show it on."""
    if sys.stderr is None or not sys.stderr.isatty():  # no bars in log files
        return items
    from tqdm import tqdm

    return tqdm(items, desc="Loading samples")
