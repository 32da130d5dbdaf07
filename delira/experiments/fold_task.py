"""One part of a run, a fold or a trial of a search, run by whoever takes it, wherever that is."""

import contextlib
import dataclasses
import functools
import logging
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.callbacks.live_view import FoldTable, NoTable
from delira.contract.process_settings import SettingsOfProcess, put_back, read_settings, settings_of
from delira.errors import ConfigError, LeaseLostError
from delira.experiments.kept_hashes import keep_of_folds
from delira.experiments.selection import other_weights
from delira.runs import results
from delira.runs.folder import RunFolder, said_by
from delira.runs.leases import Holder, Lease, Leases, worker
from delira.utils import files

if TYPE_CHECKING:
    from delira.execution import Shared

_log = logging.getLogger("delira")

#: runs of which it was told that a part of them sets something for the whole process
_told: set[Path] = set()
#: characters of a traceback that the ledger keeps
_MOST = 8000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What all folds have in common."""

    validation: Any
    """The cross-validation, or the search."""
    folder: Path
    """Of the run."""
    splits: Sequence[Any]
    """What tells the parts from each other: one for each."""
    threads: int | None
    allow_changes: bool
    takeover_after: float
    """Seconds without a sign of life after which another process takes a fold over."""
    n_events: int
    """Lines of the ledger when this session began."""
    is_leased: bool = True
    """Whether each part is leased by itself; False: who asks for them has leased all of them, and runs them here."""
    what: str = "fold"
    """What the parts are, in a word that events of the ledger begin with: ``"fold"`` or ``"trial"``."""

    def __getstate__(self) -> dict[str, Any]:
        """As it goes to another process, which first of all computes by the settings of this one."""
        return {"process": SettingsOfProcess(self.validation.experiment.backend.devices), **vars(self)}

    def part_of(self, number: int) -> str:
        """Name of a part among the leases of a run."""
        return f"{self.what}_{number:02d}"

    def folder_of(self, number: int) -> Path:
        """Folder of a part."""
        return self.validation.folder_of(self.folder, number)

    @property
    def first(self) -> Any:
        """What is done before the first fold is trained."""
        if self.what != "fold" or self.validation.is_trial:  # all trials have the cases of the first
            return None
        return functools.partial(
            keep_of_folds,
            self.folder,
            cases=self.validation.cases,
            splits=self.splits,
            allow_changes=self.allow_changes,
        )

    @property
    def leases(self) -> Leases:
        """Who works at which fold, of all who share the folder."""
        return Leases(self.folder, self.takeover_after)

    def run(
        self,
        number: int,
        table: FoldTable | NoTable,
        first: Callable[[Any], None] | None,
        over: Holder | None = None,
        **settings: Any,
    ) -> results.FoldResult | None:
        """Train and test a fold, unless somebody else does.

        Parameters
        ----------
        number
            Which one.
        table
            Shows how far it is.
        first
            What is done before it is trained; see :meth:`CrossValidation.run_fold`.
        over
            Whose lease of the fold was seen to expire.
        **settings
            Of the trainer.

        Returns
        -------
        FoldResult or None
            ``None``: another process is at work on it, or has taken it over.
        """
        folder = RunFolder(self.folder)
        folder.is_durable = not self.validation.is_trial
        if not self.is_leased:
            return self._run_alone(folder, number, table, settings)
        lease = self.leases.take(self.part_of(number), over)
        if lease is None:
            return None
        with lease, folder.written_as(lease):
            try:
                found = self._finished_since(folder, number, lease)
                return self._run_leased(lease, folder, number, table, first, settings) if found is None else found
            except Exception:
                if _is_lost(lease):
                    return None
                raise

    def _run_leased(
        self,
        lease: Lease,
        folder: RunFolder,
        number: int,
        table: Any,
        first: Callable[[Any], None] | None,
        settings: dict[str, Any],
    ) -> Any:
        """Train and test a fold, and tell the ledger, as long as its lease is held."""
        told = {"taken_over_from": lease.taken_from} if lease.taken_from else {}
        # whether a trial began, its folder says: of hundreds each line costs as much as the lines of its end
        with files.unsynced() if self.what == "trial" else contextlib.nullcontext():
            folder.log(f"{self.what}_started", **{self.what: number, "worker": worker()}, **told)
        settings |= self._settings(folder, number)
        try:
            with lease.fenced(self.folder_of(number)):
                fold = self._run_fold(folder, number, table, first, settings)
                lease.check()
        except Exception as error:
            self.tell_failed(folder, number, error)
            raise
        self.validation.log_finished(folder, fold)  # while it is held: who finds it free finds it finished
        return fold

    def _run_alone(self, folder: RunFolder, number: int, table: Any, settings: dict[str, Any]) -> Any:
        """Train and test a fold of a trial."""
        folder.log("fold_started", fold=number, worker=worker())
        settings |= self._settings(folder, number)
        fold = self._run_fold(folder, number, table, None, settings)
        self.validation.log_finished(folder, fold)
        return fold

    def _run_fold(self, folder: RunFolder, number: int, table: Any, first: Any, settings: dict[str, Any]) -> Any:
        """Train and test a part, and give back what it sets for the whole process: the next one begins as it did."""
        role = type(self.validation.experiment.backend.devices)
        before = read_settings(settings_of(role))
        try:
            return self.validation.run_fold(folder, number, self.splits[number], table, first, settings)
        finally:
            if (changed := put_back(role, before)) and self.folder not in _told:
                _told.add(self.folder)
                _log.warning(
                    "%s %d has changed settings of the whole process (%s): that holds in it, and not in what comes "
                    "after it; set them where the script begins", self.what, number, ", ".join(changed),
                )  # fmt: skip

    def read(self, number: int, *, is_finished: bool, is_own: bool = False) -> results.FoldResult | None:
        """Return a fold that has been finished; see :meth:`CrossValidation.read_fold`."""
        path, split = self.folder_of(number), self.splits[number]
        return self.validation.read_fold(path, number, split, is_finished=is_finished, is_own=is_own)

    def since(self, folder: RunFolder, event: str, number: int) -> list[dict[str, Any]]:
        """Lines of the ledger about a fold since this session began."""
        return [
            each
            for each in folder.events()[self.n_events :]
            if each["event"] == f"{self.what}_{event}" and each.get(self.what) == number
        ]

    def _finished_since(self, folder: RunFolder, number: int, lease: Lease) -> results.FoldResult | None:
        """Return a fold that another process has finished since this one looked for those that are."""
        if not (lease.taken_from or self.folder_of(number).exists()):  # the ledger of many parts is long
            return None
        is_told = bool(self.since(folder, "finished", number))
        if not (is_told or lease.taken_from):
            return None
        fold = self.read(number, is_finished=is_told)
        if fold is not None and not is_told:
            self.validation.log_finished(folder, fold)
        return fold

    def tell_finished(self, folder: RunFolder, number: int, fold: Any) -> bool:
        """Tell the ledger of a finished part that it does not know, once, whoever else has found it.

        Returns
        -------
        bool
            False: somebody else is at it.
        """
        lease = self.leases.take(self.part_of(number))
        if lease is None:
            return False
        with lease, folder.written_as(lease):  # whoever finished it may have told it since the ledger was read
            try:
                if not self.since(folder, "finished", number):
                    self.validation.log_finished(folder, fold)
            except LeaseLostError:
                return False
        return True

    def tell_failed(self, folder: RunFolder, number: int, error: Exception) -> None:
        """Tell the ledger why a part has no result."""
        notes = [*map(str, getattr(error, "__notes__", ()))]
        text = "".join(traceback.format_exception(error))[-_MOST:]
        told: dict[str, Any] = {"notes": notes} if notes else {}
        told |= {self.what: number, "error": said_by(error), "worker": worker(), "traceback": text}
        folder.log(f"{self.what}_failed", **told)

    def _settings(self, folder: RunFolder, number: int) -> dict[str, Any]:
        """What a fold computes with here, that the settings do not say: the threads, if they can be had."""
        devices = self.validation.experiment.backend.devices
        stated = self.validation.request.settings.get("num_threads")
        is_shared_out = self.validation.n_processes > 1
        if stated is not None or self.threads is None:
            return {}
        if self.threads == devices.thread_count() and not is_shared_out:
            return {}
        try:
            with devices.threads(self.threads):
                return {"num_threads": self.threads}
        except ConfigError as error:
            told = f"it does not compute with the {self.threads} threads that the run was made for: {error}"
            folder.log("other_threads", **{self.what: number, "text": told, "num_threads": devices.thread_count()})
            _log.info("%s %d: %s", self.what, number, told)
            return {}


@dataclasses.dataclass(frozen=True)
class FoldTask:
    """One fold, to be run wherever it is called.

    It returns True if the fold is in its folder, and False if somebody else works at it. Where it could not be
    written it is what is returned.
    """

    work: "Shared[Work]"
    number: int
    is_first: bool
    over: Holder | None = None

    def __call__(self) -> results.FoldResult | bool:
        """Train and test it, and write it into its folder."""
        work = self.work.value
        fold = work.run(self.number, NoTable(), work.first if self.is_first else _nothing, self.over, verbose=0)
        if fold is None:
            return False
        return work.validation.sent(fold)  # type: ignore[no-any-return]


def _nothing(trainer: Any) -> None:
    """What is done before a fold that is not the first."""


def _is_lost(lease: Lease) -> bool:
    """Return True if a fold was taken over, whatever error that led to here."""
    try:
        lease.check()
    except LeaseLostError as error:
        _log.warning("%s", error)
        return True
    except OSError:
        pass
    return False


def log_finished(folder: RunFolder, fold: results.FoldResult) -> None:
    """Tell the ledger of a fold that has ended."""
    told = {**other_weights(vars(fold)), **results.count_guards(fold.guards)}
    folder.log("fold_finished", fold=fold.fold, metrics=fold.means(), seconds=round(fold.seconds, 3), **told)
