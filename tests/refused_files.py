"""A system that refuses to open some files: by an error number, for ever or a few times."""

import builtins
import io
import os
from typing import Any

import pytest

from delira.utils import files


class Refusing:
    """While it is entered, opening (or listing) what has ``part`` in its path fails.

    Parameters
    ----------
    part
        Of the path.
    code
        The error number.
    times
        How often; ``None`` for always.
    """

    def __init__(self, part: Any, code: int, times: int | None = None):
        self.part, self.code, self.times = str(part), code, times
        self.n_refused = 0
        self.patch = pytest.MonkeyPatch()

    def _before(self, path: Any) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)) or self.part not in os.fsdecode(path):
            return
        if self.times is None or self.n_refused < self.times:
            self.n_refused += 1
            raise OSError(self.code, os.strerror(self.code), os.fsdecode(path))

    def _wrapped(self, function: Any) -> Any:
        def opened(path: Any = ".", *args: Any, **kw: Any) -> Any:
            self._before(path)
            return function(path, *args, **kw)

        return opened

    def __enter__(self) -> "Refusing":
        self.patch.setattr(files, "_PAUSES", (0.001, 0.001, 0.001))
        for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "listdir"), (os, "scandir")):
            self.patch.setattr(module, name, self._wrapped(getattr(module, name)))
        return self

    def __exit__(self, *error: Any) -> None:
        self.patch.undo()
