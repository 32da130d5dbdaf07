"""What the members of an ensemble have seen in their trainings: new data are compared with it, case by case."""

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager
from delira.data_loading.case_hashes import hash_case, hashes_of, names_of_cases
from delira.errors import DataError, listed
from delira.prediction.cases import Case, Unreadable
from delira.prediction.model import Member
from delira.runs.seen_cases import FILE, SeenCases
from delira.utils.arrays import map_leaves

_LISTED = 5
_FOLD = "fold_"


@dataclasses.dataclass
class StoredMember(Member):
    """A member that was read from a file."""

    path: Path
    """The folder of its fold, or its checkpoint."""


def folder_of(path: Path) -> Path:
    """The folder of a fold, or of a member that was saved, of what was given as its path."""
    folder = path if path.is_dir() else path.parent
    return folder.parent if folder.name == "checkpoints" else folder


def seen_by(path: Path) -> SeenCases | None:
    """What the network of a fold has seen, and nothing of other folds; None if nobody knows.

    Parameters
    ----------
    path
        The folder of a fold, or its checkpoint.
    """
    folder = folder_of(path).absolute()
    if (folder / FILE).is_file():  # of a member that was saved
        found = SeenCases.read(folder)
        return None if found is None else found.of_fold(None)
    found, number = SeenCases.read(folder.parent), folder.name.removeprefix(_FOLD)
    return found.of_fold(int(number)) if found is not None and number.isdecimal() else None


class Watch:
    """Tells cases that members have seen from others.

    Parameters
    ----------
    members
        Of the ensemble. Of those of which nobody knows what they have seen there is a warning.
    """

    def __init__(self, members: Sequence[Member]):
        #: entries that hashes are of -> hash -> what saw it, and what it was called there
        self._known: dict[tuple[str, ...], dict[str, list[tuple[str, str, str]]]] = {}
        unknown: dict[str, list[str]] = {}
        for member in members:
            why = self._add(member)
            if why:
                unknown.setdefault(why, []).append(member.name)
        #: names of cases that were seen, with where
        self.seen: list[tuple[str, str]] = []
        self._not_compared: list[str] = []
        for why, names in unknown.items():
            warnings.warn(
                f"which cases {listed(names, _LISTED)} of the ensemble saw is not known ({why}), so cases of the "
                "training are not recognised, and scores of these are too good",
                UserWarning,
                stacklevel=4,
            )

    def _add(self, member: Member) -> str:
        """Take in what a member has seen; returns why nobody knows it."""
        found = seen_by(member.path) if isinstance(member, StoredMember) else None
        if found is None:
            return f"there is no {FILE} of its run that can be read"
        known = self._known.setdefault(tuple(found.entries), {})
        for parts in found.folds.values():
            for role, places in parts.items():
                for place in places:
                    if found.hashes[place]:
                        who = (role, member.name, found.names[place])
                        known.setdefault(found.hashes[place], []).append(who)
        return found.unknown

    @property
    def entries(self) -> list[str]:
        """Entries of samples that hashes are of."""
        return sorted({entry for entries in self._known for entry in entries})

    def _is_new(self, name: str, sample: Any) -> bool:
        """Compare a case; one that was seen is noted."""
        hashes = {entries: hash_case(sample, entries) for entries, known in self._known.items() if known}
        if hashes and None in hashes.values():
            self._not_compared.append(name)
        found = [who for entries, one in hashes.items() if one for who in self._known[entries].get(one, ())]
        if found:
            self.seen.append((name, _told(name, found)))
        return not found

    def of_case(self, case: Case | Unreadable) -> Case | None:
        """The cases of a batch that no member has seen; None if there are none.

        Raises
        ------
        Exception
            Whatever a case that cannot be read raised.
        """
        if isinstance(case, Unreadable):
            case.error.add_note(f"while the case {case.name!r} was read for its score")
            raise case.error
        entries = [entry for entry in self.entries if entry in case.batch]
        rows = [
            row
            for row, name in enumerate(case.names)
            if self._is_new(name, {entry: map_leaves(lambda leaf: leaf[row], case.batch[entry]) for entry in entries})  # noqa: B023
        ]
        if len(rows) == len(case.names) or not rows:
            return case if rows else None
        batch = map_leaves(lambda leaf: np.asarray(leaf)[rows] if np.ndim(leaf) else leaf, dict(case.batch))
        return Case([case.names[row] for row in rows], batch, [case.files[row] for row in rows])

    def of_manager(self, data: BaseDataManager) -> np.ndarray:
        """Numbers of the cases of a manager that no member has seen: those that its data set gives, before transforms.

        Parameters
        ----------
        data
            Of whole cases.
        """
        names = names_of_cases(data)
        seen: dict[int, str] = {}
        for entries, known in self._known.items():
            for number, one in hashes_of(data, entries) if known else ():
                if one is None:
                    self._not_compared.append(names[number])
                elif one in known:
                    seen[number] = _told(names[number], known[one])
        self.seen += [(names[number], where) for number, where in sorted(seen.items())]
        return np.array([number for number in range(len(names)) if number not in seen], dtype=np.int64)

    def refuse(self, number: int | None = None) -> None:
        """Refuse the cases that were seen, if there are any.

        Parameters
        ----------
        number
            Of all cases; None: not known.
        """
        if not self.seen:
            return
        cases = listed([f"{name!r} ({where})" for name, where in self.seen], _LISTED, ", and ")
        count = f"{len(self.seen):,}" + ("" if number is None else f" of {number:,}")
        raise DataError(
            f"members of the ensemble have seen {count} {'case' if len(self.seen) == 1 else 'cases'} in their "
            f"training, and a score with these is too good: {cases}. on_seen='skip' leaves them out; result.oof has "
            "what each case of a cross-validation was given by the fold that did not see it"
        )

    def tell(self) -> None:
        """Say of which cases nobody knows whether they were seen."""
        if self._not_compared:
            warnings.warn(
                f"whether members have seen {listed(sorted({*self._not_compared}), _LISTED)} is not known: these "
                f"cases, as their data give them, lack one of the entries {self.entries}, by which cases are compared",
                UserWarning,
                stacklevel=4,
            )


def _told(name: str, found: Sequence[tuple[str, str, str]]) -> str:
    """In which trainings a case was, e.g. ``"in the training of fold_00, fold_01"``; and its name there, if another."""
    members: dict[tuple[str, str], dict[str, None]] = {}
    for role, member, called in found:
        members.setdefault((role, called), {})[member] = None
    told = [
        f"{'' if called == name else f'as {called!r} '}in the {role} of {listed([*who], _LISTED)}"
        for (role, called), who in members.items()
    ]
    return listed(told, 2, ", and ")


def rows_of(cases: Iterator[Case | Unreadable], watch: Watch) -> int:
    """Compare all cases of data that can be gone through again; returns how many there are."""
    number = 0
    for case in cases:
        watch.of_case(case)
        number += len(case.names) if isinstance(case, Case) else 1
    return number
