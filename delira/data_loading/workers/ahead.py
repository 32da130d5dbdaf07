"""Batches made ahead by workers, and the workers kept from one epoch to the next."""

import logging
import warnings

from delira.data_loading.epoch import BatchRecipe, BatchSource, EpochBatches, Made
from delira.data_loading.workers.outline import Outline, StepWatch
from delira.data_loading.workers.pool import WorkerPool, WorkerSettings
from delira.errors import WorkerError

_log = logging.getLogger(__name__)

_MOST_CHANGES = 2  # in one epoch; then starting workers takes longer than they save
_WATCHED = (40, 10)  # places of the transform and of the dataset that are looked at in every step


class PoolKeeper:
    """Keeps the workers of one data manager between two iterations.

    Workers hold a copy of the dataset and the transforms. If one of them was changed since, by whatever
    code, new workers are started; what goes unseen says :class:`Outline`.
    """

    def __init__(self) -> None:
        self._idle: WorkerPool | None = None
        self._deaths: dict[int, list[str]] = {}  # sample -> how it ended workers
        self._warned_of: set[str] = set()

    def borrow(self, recipe: BatchRecipe, number: int, settings: WorkerSettings) -> WorkerPool:
        """Return workers, the idle ones if they fit."""
        outline = Outline(vars(recipe.loader), type(recipe.loader), vars(recipe))
        idle, self._idle = self._idle, None
        if idle is not None:
            if idle.is_whole and (idle.number, idle.settings, idle.outline) == (number, settings, outline):
                return idle
            idle.close()
        return WorkerPool(recipe, number, settings, self._deaths, outline)

    def give_back(self, pool: WorkerPool) -> None:
        """Keep workers for the next iteration; those of one other iteration are kept at most."""
        if self._idle is None:
            self._idle = pool
        else:
            pool.close()

    def warn_of_generators(self, names: tuple[str, ...]) -> None:
        """Say once that what makes batches draws from random generators of its own."""
        if new := sorted({*names} - self._warned_of):
            self._warned_of.update(new)
            warnings.warn(
                f"random numbers of batches come from a generator that is kept between them ({', '.join(new)}). Each "
                "worker process has a copy of it: several batches get the same noise, and others than without workers. "
                "Take a parameter rng, or draw from the global generators of numpy, torch or Python: these are "
                "seeded for each batch",
                UserWarning,
                stacklevel=4,
            )

    def close(self) -> None:
        """End the idle workers."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.close()


class WorkersAhead(BatchSource):
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
        super().__init__(batches)
        self._ahead = number * settings.prefetch - 1 if ahead is None else ahead
        self._keeper, self._settings = keeper, settings
        self._number = min(number, batches.n_batches)
        self._pool: WorkerPool | None = None
        self._expected: int | None = None
        self._asked_for = 0
        self._watches: list[StepWatch] = []
        self._n_changes = 0

    def get(self, number: int) -> Made:
        """Return batch ``number`` and have those behind it made.

        If the transforms or the dataset were changed since the last one, batches that were made ahead are made again.
        """
        if self._pool is not None and any(watch.has_changed() for watch in self._watches):
            self._begin_anew()
        if self._n_changes > _MOST_CHANGES:
            return super().get(number)
        if self._pool is None or not self._pool.is_usable:  # a forked process inherits what it cannot use
            recipe = self._batches.recipe
            # before the workers are started: what changes meanwhile is a change
            self._watches = [StepWatch(recipe.transform, _WATCHED[0]), StepWatch(recipe.loader.dataset, _WATCHED[1])]
            self._pool = self._keeper.borrow(recipe, self._number, self._settings)
            self._expected = None
        pool = self._pool
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
            self._pool = None  # its workers have ended
            pool.close()
            raise
        self._expected = number + 1
        if made.drew:
            self._keeper.warn_of_generators(made.drew)
        return made

    def _begin_anew(self) -> None:
        """Let go of workers whose copies of the transforms or the dataset are no longer what they were."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        self._n_changes += 1
        if self._n_changes > _MOST_CHANGES:
            _log.warning(
                "the transforms or the dataset are changed again and again within an epoch, and workers have copies of "
                "them: the other batches of this epoch are made in this process, the same ones as without workers. "
                "Change them between epochs, or set n_process_augmentation=0"
            )

    def close(self, error: BaseException | None = None) -> None:
        """Give the workers back, or end them after an interrupt."""
        pool, self._pool = self._pool, None
        if pool is not None and error is None and pool.is_usable:
            self._keeper.give_back(pool)
        elif pool is not None:
            pool.close()
