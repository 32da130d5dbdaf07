"""The cases that the networks of a run have seen, by hashes of their contents: a small file in its folder."""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from delira.errors import UnreadableError
from delira.utils.files import MOST_OF_MANY, publish_text, read_json, sealed, unsealed

_log = logging.getLogger("delira")

FILE = "cases.json"
#: of the file; a later one may mean something else by the same names
FORMAT = 1
#: what a network has seen a case for
ROLES = ("training", "validation")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeenCases:
    """Which cases the folds of a run were trained and validated on."""

    entries: Sequence[str] = ()
    """Of a sample, those that the hashes are of: what the networks read."""
    names: Sequence[str] = ()
    """What the data call each case."""
    hashes: Sequence[str] = ()
    """Of each case; empty for one that could not be read and was left out."""
    folds: Mapping[int, Mapping[str, Sequence[int]]] = dataclasses.field(default_factory=dict)
    """Number of a fold -> ``"training"`` and ``"validation"`` -> places of its cases in the lists above."""
    unknown: str = ""
    """Why there are no hashes, if there are none."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """What the file in a folder says; None if there is none, or it is damaged.

        Raises
        ------
        UnreadableError
            If the system cannot read it now.
        """
        path = folder / FILE
        try:
            found = unsealed(read_json(path, MOST_OF_MANY))
            if found["format"] != FORMAT:
                raise ValueError(f"it has the format {found['format']!r}; this version of delira reads {FORMAT}")
            lists = {name: [*map(str, found[name])] for name in ("entries", "names", "hashes")}
            numbers = range(len(lists["hashes"]))
            folds = {
                int(fold): {role: [numbers[place] for place in parts.get(role, ())] for role in ROLES}
                for fold, parts in found["folds"].items()
            }
            if len(lists["names"]) != len(numbers):
                raise ValueError("it does not have one name for each hash")
        except FileNotFoundError:
            return None
        except UnreadableError:
            raise
        except (OSError, AttributeError, LookupError, TypeError, ValueError) as error:
            _log.warning("%s cannot be read, so the cases that were seen are not known: %r", path, error)
            return None
        return cls(**lists, folds=folds, unknown=str(found.get("unknown", "")))

    def write(self, folder: Path) -> Path:
        """Write the file, completely or not at all."""
        content = sealed({"format": FORMAT, **dataclasses.asdict(self)})
        return publish_text(folder / FILE, json.dumps(content) + "\n")

    def of_fold(self, number: int | None) -> Self:
        """Return what one fold has seen, and nothing else.

        Parameters
        ----------
        number
            Of the fold; None: the only one.
        """
        number = next(iter(self.folds), 0) if number is None and len(self.folds) == 1 else number
        parts = self.folds.get(-1 if number is None else number, {})
        places = sorted({place for part in parts.values() for place in part})
        where = {place: new for new, place in enumerate(places)}
        return dataclasses.replace(
            self,
            names=[self.names[place] for place in places],
            hashes=[self.hashes[place] for place in places],
            folds={number or 0: {role: [where[place] for place in part] for role, part in parts.items()}},
            unknown=self.unknown or ("" if parts else "it says nothing of this fold"),
        )

    def joined(self, other: Self) -> Self:
        """Return what this and another session of the run have seen, whose data differ."""
        shift = len(self.hashes)
        is_of_others = self.hashes and other.hashes and [*self.entries] != [*other.entries]
        folds = {number: {role: [*part] for role, part in parts.items()} for number, parts in self.folds.items()}
        for number, parts in other.folds.items():
            own = folds.setdefault(number, {})
            for role, part in parts.items():
                own[role] = [*own.get(role, ()), *(place + shift for place in part)]
        return dataclasses.replace(
            self,
            entries=other.entries or self.entries,
            names=[*self.names, *other.names],
            hashes=[*self.hashes, *other.hashes],
            folds=folds,
            unknown=self.unknown or other.unknown or ("its network read other entries before" if is_of_others else ""),
        )
