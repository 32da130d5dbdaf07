"""Batches made ahead by workers, and the workers kept from one epoch to the next."""

import io
import pickle
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading.epoch import EpochBatches
from delira.data_loading.recipe import BatchRecipe, Made
from delira.data_loading.workers.pool import WorkerPool
from delira.data_loading.workers.settings import WorkerSettings
from delira.errors import WorkerError

_LONG = 100  # entries from which on a list or dict is known by its length alone


class Loan(NamedTuple):
    """Workers, and what they were started for."""

    pool: WorkerPool
    snapshot: "_Snapshot"


class PoolKeeper:
    """Keeps the workers of one data manager between two iterations.

    Workers hold a copy of the dataset and the transforms. If one of them was changed since, by whatever
    code, new workers are started; changes inside of arrays and of long lists go unseen.
    """

    def __init__(self) -> None:
        self._idle: Loan | None = None

    def borrow(self, recipe: BatchRecipe, number: int, settings: WorkerSettings) -> Loan:
        """Return workers, the idle ones if they fit."""
        snapshot = _Snapshot(recipe)
        idle, self._idle = self._idle, None
        if idle is not None:
            pool = idle.pool
            if pool.is_whole and (pool.number, pool.settings) == (number, settings) and idle.snapshot.fits(snapshot):
                return idle
            pool.close()
        return Loan(WorkerPool(recipe, number, settings), snapshot)

    def give_back(self, loan: Loan) -> None:
        """Keep workers for the next iteration; those of one other iteration are kept at most."""
        if self._idle is None:
            self._idle = loan
        else:
            loan.pool.close()

    def close(self) -> None:
        """End the idle workers."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.pool.close()


class WorkersAhead:
    """Has the next batches made by workers while the last one is being used.

    Parameters
    ----------
    batches
        The batches of the epoch.
    keeper
        Where the workers come from and go back to.
    number
        How many workers; no more are started than there are batches.
    settings
        How they are started and watched.
    """

    def __init__(self, batches: EpochBatches, keeper: PoolKeeper, number: int, settings: WorkerSettings) -> None:
        self._batches = batches
        self._keeper = keeper
        self._number = min(number, batches.n_batches)
        self._settings = settings
        self._loan: Loan | None = None
        self._expected: int | None = None
        self._asked_for = 0

    def get(self, number: int) -> Made:
        """Return batch ``number`` and have those behind it made."""
        if self._loan is None:
            self._loan = self._keeper.borrow(self._batches.recipe, self._number, self._settings)
            self._expected = None
        pool = self._loan.pool
        if number != self._expected:
            pool.begin()
            self._asked_for = number
        self._expected = None
        end = min(number + self._number * self._settings.prefetch, self._batches.n_batches)
        while self._asked_for < end:
            pool.submit(self._batches.task(self._asked_for))
            self._asked_for += 1
        try:
            made = pool.result(number)
        except WorkerError:
            self._loan = None  # its workers have ended
            pool.close()
            raise
        self._expected = number + 1
        return made

    def close(self, error: BaseException | None = None) -> None:
        """Give the workers back, or end them after an interrupt."""
        loan, self._loan = self._loan, None
        if loan is None:
            return
        if error is None and loan.pool.is_usable:
            self._keeper.give_back(loan)
        else:
            loan.pool.close()


class _Outline(pickle.Pickler):
    """Pickles everything but what is large: of that it notes which object it is."""

    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file, protocol=5)
        self._kept = kept  # alive, so that no other object gets their addresses

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            note: tuple[Any, ...] = (value.shape, value.dtype.str)
        elif isinstance(value, (list, tuple, dict, set, str, bytes)) and len(value) > _LONG:
            note = (len(value),)
        elif hasattr(value, "__code__"):
            note = ()
        else:
            return None
        self._kept.append(value)
        return id(value), *note


class _Snapshot:
    """What tells whether workers that were started for a recipe still fit."""

    def __init__(self, recipe: BatchRecipe) -> None:
        loader, transform = recipe.loader, None if recipe.transform is None else recipe.transform.transform
        self._kept: list[Any] = [loader.dataset, transform]
        self._content: list[Any] = [type(loader), *map(id, self._kept), recipe.draws, recipe.skips_bad]
        for part in (loader.dataset, transform):
            file = io.BytesIO()
            try:
                _Outline(file, self._kept).dump(part)
                self._content.append(file.getvalue())
            except Exception:  # it holds what cannot be pickled; forked workers have it all the same
                attributes = list(vars(part).items()) if hasattr(part, "__dict__") else []
                self._kept.append(attributes)
                self._content.append([(name, id(value)) for name, value in attributes])

    def fits(self, other: "_Snapshot") -> bool:
        """Whether nothing was changed from one snapshot to the other."""
        return self._content == other._content
