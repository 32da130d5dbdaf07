"""Batches made ahead by workers, and the workers kept from one epoch to the next."""

from typing import NamedTuple

from delira.data_loading.epoch import EpochBatches
from delira.data_loading.recipe import BatchRecipe, Made
from delira.data_loading.workers.outline import Outline
from delira.data_loading.workers.pool import WorkerPool
from delira.data_loading.workers.settings import WorkerSettings
from delira.errors import WorkerError


class Loan(NamedTuple):
    """Workers, and what they were started for."""

    pool: WorkerPool
    outline: Outline


class PoolKeeper:
    """Keeps the workers of one data manager between two iterations.

    Workers hold a copy of the dataset and the transforms. If one of them was changed since, by whatever
    code, new workers are started; changes inside of arrays and of long lists go unseen.
    """

    def __init__(self) -> None:
        self._idle: Loan | None = None
        self._deaths: dict[int, list[str]] = {}  # sample -> how it ended workers

    def borrow(self, recipe: BatchRecipe, number: int, settings: WorkerSettings) -> Loan:
        """Return workers, the idle ones if they fit."""
        outline = Outline(vars(recipe.loader), vars(recipe))
        idle, self._idle = self._idle, None
        if idle is not None:
            pool = idle.pool
            if pool.is_whole and (pool.number, pool.settings) == (number, settings) and idle.outline == outline:
                return idle
            pool.close()
        return Loan(WorkerPool(recipe, number, settings, self._deaths), outline)

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
    ahead
        How many batches are made at most beside the one that is asked for; by default what the settings say.
    """

    def __init__(
        self,
        batches: EpochBatches,
        keeper: PoolKeeper,
        number: int,
        settings: WorkerSettings,
        ahead: int | None = None,
    ) -> None:
        self._ahead = number * settings.prefetch - 1 if ahead is None else ahead
        self._batches = batches
        self._keeper = keeper
        self._number = min(number, batches.n_batches)
        self._settings = settings
        self._loan: Loan | None = None
        self._expected: int | None = None
        self._asked_for = 0

    def get(self, number: int) -> Made:
        """Return batch ``number`` and have those behind it made."""
        if self._loan is None or not self._loan.pool.is_usable:  # a forked process inherits what it cannot use
            self._loan = self._keeper.borrow(self._batches.recipe, self._number, self._settings)
            self._expected = None
        pool = self._loan.pool
        if number != self._expected:
            pool.begin()
            self._asked_for = number
        self._expected = None
        end = min(number + 1 + self._ahead, self._batches.n_batches)
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
