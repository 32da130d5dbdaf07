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

    No result depends on them, so that a disk that refuses is told and the training goes on.

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

    def forget_after(self, epoch: int) -> None:
        """Leave out the epochs behind one, as the history does when a training goes on from there."""
        known = self._known = read_hashes(self._path.parent)[0]
        before = {number: digest for number, digest in known.items() if number <= epoch}
        if before != known or self._is_cut_off():
            self._keep(before, is_longer=False)

    def _is_cut_off(self) -> bool:
        """Return True if a kill left half a line, to which the next one would be glued."""
        with contextlib.suppress(OSError):
            return files.read_bytes(self._path, files.MOST_OF_MANY)[-1:] not in (b"", b"\n")
        return False

    def note(self, tree: Mapping[str, Any]) -> None:
        """Note the weights of a checkpoint tree, if that ends an epoch.

        What was noted of the epoch before, or of later ones, is of a training that was left.
        """
        epoch = tree["epoch"]
        if not epoch or tree["step"] or (digest := self._digest(tree)) is None:
            return
        known = read_hashes(self._path.parent)[0] if self._known is None else self._known
        before = {number: found for number, found in known.items() if number < epoch}
        self._keep({**before, epoch: digest}, is_longer=before == known and (not known or self._path.exists()))

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
                    files.sync(file)
                if is_new:
                    files.sync_folder(self._path.parent)
            else:
                files.publish_text(self._path, "".join(_line_of(*each) for each in hashes.items()))
        except OSError as error:
            self._known = None
            _log.warning("%s could not be written (%s)", self._path, error)


def _line_of(epoch: int, digest: str) -> str:
    return json.dumps(files.sealed({"epoch": epoch, "weights": digest})) + "\n"
