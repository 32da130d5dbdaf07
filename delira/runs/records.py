"""What a fold records of its training beside the result: what the guards did, and where the time went."""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.errors import UnreadableError, listed
from delira.utils.files import publish_text, read_json, sealed, unsealed

_log = logging.getLogger("delira")

GUARDS_FILE = "guards.json"
#: of both files; a later one may mean something else by the same names
VERSION = 1


class GuardLog:
    """Keeps what the guards did, over all sessions of a fold, as far as it is part of the training that is there.

    Parameters
    ----------
    folder
        Folder of the fold, whose ``guards.json`` is continued; None: nothing is written.
    """

    def __init__(self, folder: Path | None):
        self._path = None if folder is None else folder / GUARDS_FILE
        before = (None if folder is None else read_guards(folder)) or {"left_out": [], "rollbacks": []}
        self._left_out: list[dict[str, int]] = before["left_out"]
        self._rollbacks: list[int | None] = before["rollbacks"]

    def go_on(self, epoch: int, rollbacks: int) -> None:
        """Forget what came after the checkpoint that the training goes on from.

        Parameters
        ----------
        epoch
            Epochs that are finished there.
        rollbacks
            How often the run had gone back by then; where a version without this file wrote it, no epoch is known.
        """
        self._become([one for one in self._left_out if one["epoch"] <= epoch], self._first_rollbacks(rollbacks))

    def note_left_out(self, epoch: int, updates: int, steps: int) -> None:
        """An epoch has ended in which so many updates of its steps were left out, or none."""
        kept = [one for one in self._left_out if one["epoch"] < epoch]
        found = [{"epoch": epoch, "updates": updates, "steps": steps}] if updates else []
        self._become([*kept, *found], self._rollbacks)

    def note_rollback(self, epoch: int, number: int) -> None:
        """The run went back from an epoch; how often it has done so by now is ``number``."""
        self._become(self._left_out, [*self._first_rollbacks(number - 1), epoch])

    def to_dict(self) -> dict[str, Any] | None:
        """Return what there is, as ``guards.json`` has it; None if the guards did nothing."""
        if not self._left_out and not self._rollbacks:
            return None
        return {"version": VERSION, "left_out": [dict(one) for one in self._left_out], "rollbacks": [*self._rollbacks]}

    def _first_rollbacks(self, number: int) -> list[int | None]:
        return [*self._rollbacks, *[None] * number][:number]

    def _become(self, left_out: list[dict[str, int]], rollbacks: list[int | None]) -> None:
        if (left_out, rollbacks) == (self._left_out, self._rollbacks):
            return
        self._left_out, self._rollbacks = left_out, rollbacks
        if self._path is None:
            return
        try:
            if (content := self.to_dict()) is None:
                self._path.unlink(missing_ok=True)
            else:
                publish_text(self._path, json.dumps(sealed(content), indent=1))
        except OSError as error:
            _log.warning("what the guards did could not be written, so no report of the run will show it: %s", error)


def read_guards(folder: Path) -> dict[str, Any] | None:
    """Return what the guards did, from the folder of a fold; None if that is nothing, or damaged.

    Parameters
    ----------
    folder
        The folder.

    Raises
    ------
    UnreadableError
        If the system cannot read it now: nobody knows then whether it is lost.
    """
    path = folder / GUARDS_FILE
    try:
        found = unsealed(read_json(path))
        left_out = [{name: int(one[name]) for name in ("epoch", "updates", "steps")} for one in found["left_out"]]
        rollbacks = [None if epoch is None else int(epoch) for epoch in found["rollbacks"]]
    except FileNotFoundError:
        return None
    except UnreadableError:
        raise
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        _log.warning("%s cannot be read, so what the guards did is not known: %r", path, error)
        return None
    return {"version": VERSION, "left_out": left_out, "rollbacks": rollbacks}


def count_guards(found: Mapping[str, Any] | None) -> dict[str, dict[str, int]]:
    """For the ledger, which then knows that there is a file: updates left out and returns, by name; empty if none.

    Parameters
    ----------
    found
        As :meth:`GuardLog.to_dict` gives it.
    """
    if found is None:
        return {}
    updates = sum(one["updates"] for one in found["left_out"])
    return {"guards": {"updates": updates, "rollbacks": len(found["rollbacks"])}}


def describe_lost_guards(path: Path, counted: Mapping[str, Any] | None) -> str:
    """Return what is to be said where nobody knows what the guards did; empty if there is nothing.

    Parameters
    ----------
    path
        Folder of the fold, whose ``guards.json`` was not read.
    counted
        What the ledger counts, as :func:`count_guards` gives it.
    """
    file = path / GUARDS_FILE
    if os.path.lexists(file):
        return f"{file} cannot be read: what the guards did is not known"
    if not counted:
        return ""
    return (
        f"{file} is missing, which says what the guards did and when; by the ledger, updates left out: "
        f"{counted.get('updates')}, returns to a checkpoint: {counted.get('rollbacks')}"
    )


def describe_guards(found: Mapping[str, Any]) -> list[str]:
    """Clauses about what the guards did, as ``"3 updates were left out, …"``.

    Parameters
    ----------
    found
        As :func:`read_guards` gives it.
    """
    clauses = []
    left_out, rollbacks = found["left_out"], found["rollbacks"]
    if n_updates := sum(one["updates"] for one in left_out):
        each = listed([f"{one['updates']} of {one['steps']} in epoch {one['epoch']}" for one in left_out], 5)
        were = "update was left out, since its" if n_updates == 1 else "updates were left out, since their"
        clauses.append(f"{n_updates:,} {were} loss or gradients were not finite: {each}")
    if rollbacks:
        known = [f"from epoch {epoch}" for epoch in rollbacks if epoch is not None]
        times = "once" if len(rollbacks) == 1 else f"{len(rollbacks)} times"
        clauses.append(
            f"the training went back to its last checkpoint {times}, with smaller learning rates, since numbers were "
            f"not finite{f': {listed(known, 5)}' if known else ''}"
        )
    return clauses


TIMES_FILE = "timings.json"


def read_timings(folder: Path) -> dict[str, Any] | None:
    """Return the times in the folder of a fold; None if there are none, or they are damaged.

    Parameters
    ----------
    folder
        The folder.

    Raises
    ------
    UnreadableError
        If the system cannot read them now: nobody knows then whether they are lost.
    """
    try:
        found = read_json(folder / TIMES_FILE)
        if found.get("version", VERSION) != VERSION:
            raise ValueError(f"it has the version {found['version']!r}; this version of delira reads {VERSION}")
        found = unsealed(found)
        seconds = {str(name): float(value) for name, value in found["seconds"].items()}
        return {**found, "steps": int(found["steps"]), "seconds": seconds}
    except FileNotFoundError:
        return None
    except UnreadableError:
        raise
    except (OSError, ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
        _log.warning("%s cannot be read, so the times of the phases in it are lost: %s", folder / TIMES_FILE, error)
        return None
