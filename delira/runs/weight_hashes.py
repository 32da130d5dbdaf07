"""Hashes of the weights epoch by epoch, by which two trainings are compared long after their checkpoints are gone."""

import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from delira.utils import files
from delira.utils.owned import check_ours

_log = logging.getLogger("delira")

#: of a fold, beside its history
FILE = "hashes.jsonl"
#: entry of a checkpoint tree: hashes by epoch, as JSON, whose lines may not have reached the disk
CARRIED = "hashes"
#: epochs from one sync of the file to the next
_BETWEEN_SYNCS = 50


def read_hashes(folder: Path) -> tuple[dict[int, str], str]:
    """Return the hashes of a fold by epoch, and what of them cannot be read or was changed, in words.

    Parameters
    ----------
    folder
        Of the fold; a run from before there were hashes, and a trial of a search, has none.
    """
    try:
        found, n_lines = files.read_json_lines(folder / FILE)
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"{folder / FILE} cannot be read: {error}"
    whole = [each for each in found if type(each.get("epoch")) is int and isinstance(each.get("weights"), str)]
    whole = [each for each in whole if not files.is_changed(each)]
    lost = n_lines - len(whole)
    told = f"{lost} of {n_lines} hashes in {folder / FILE} cannot be read, or were changed" if lost else ""
    return {each["epoch"]: each["weights"] for each in whole}, told


class WeightHashes:
    """Keep ``hashes.jsonl`` in step with the checkpoints of a fold: a line for each that ends an epoch.

    Lines are synced now and then; until then a checkpoint has them, too, so that a power loss takes none away. No
    result depends on them, so that a disk that refuses is told and the training goes on.

    Parameters
    ----------
    folder
        Of the fold.
    digest
        Returns the hash of the weights of a checkpoint tree; None of such that have none.
    """

    def __init__(self, folder: Path, digest: Callable[[Any], str | None]):
        self._path, self._digest = folder / FILE, digest
        self._known: dict[int, str] | None = None
        self._carried: dict[int, str] = {}

    def take(self, tree: Mapping[str, Any]) -> None:
        """Take from a checkpoint that a training goes on from what a power loss may have taken away."""
        told = files.mapping(json.loads(str(tree.get(CARRIED, "{}"))))
        self._carried = {int(epoch): str(digest) for epoch, digest in told.items()}

    def forget_after(self, epoch: int) -> None:
        """Leave out the epochs behind one, as the history does when a training goes on from there."""
        try:
            is_cut = not files.read_bytes(self._path, files.MOST_OF_MANY).endswith(b"\n")
        except FileNotFoundError:
            is_cut = False
        except OSError as error:  # it may be read later
            _log.warning("%s cannot be read (%s)", self._path, error)
            return
        known = read_hashes(self._path.parent)[0]
        whole = {number: digest for number, digest in sorted((known | self._carried).items()) if number <= epoch}
        self._known, self._carried = whole, {}
        if whole != known or is_cut:  # a kill cuts a line off
            self._keep(whole, is_longer=False)

    def note(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Note the weights of a checkpoint tree, if that ends an epoch; returns the tree as it is to be written.

        What was noted of the epoch before, or of later ones, is of a training that was left.
        """
        epoch = tree["epoch"]
        known = read_hashes(self._path.parent)[0] if self._known is None else self._known
        if epoch and not tree["step"] and (digest := self._digest(tree)) is not None:
            before = {number: found for number, found in known.items() if number < epoch}
            is_longer = before == known and (not known or self._path.exists())
            known = {**before, epoch: digest}
            self._keep(known, is_longer=is_longer)
        first = _first_carried(epoch)
        carried = {number: digest for number, digest in known.items() if first <= number <= epoch}
        return {**tree, CARRIED: json.dumps(carried)}

    def settle(self) -> None:
        """Let all lines reach the disk."""
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
            files.sync(file)

    def _keep(self, hashes: dict[int, str], *, is_longer: bool) -> None:
        """Append the last line, if that is all that is new, or else write the file anew."""
        self._known = hashes
        try:
            if is_longer:
                check_ours(self._path.parent)
                is_new = not self._path.exists()
                with open(self._path, "ab") as file:
                    file.write(_line_of(*[*hashes.items()][-1]).encode())
                    file.flush()
                    if len({_first_carried(epoch) for epoch in [0, *hashes][-2:]}) > 1:  # what is carried begins anew
                        files.sync(file)
                if is_new:
                    files.sync_folder(self._path.parent)
            else:
                files.publish_text(self._path, "".join(_line_of(*each) for each in hashes.items()))
        except OSError as error:
            self._known = None
            _log.warning("%s could not be written (%s)", self._path, error)


def _first_carried(epoch: int) -> int:
    """Return the first epoch that a checkpoint of this one has the hash of: those before are synced."""
    return epoch // _BETWEEN_SYNCS * _BETWEEN_SYNCS + 1


def _line_of(epoch: int, digest: str) -> str:
    return json.dumps(files.sealed({"epoch": epoch, "weights": digest})) + "\n"
