"""The indices of one batch after the other."""

from collections.abc import Iterator

from delira.data_loading._checks import check_count
from delira.data_loading.sampler._arguments import check_flag
from delira.data_loading.sampler.abstract_sampler import AbstractSampler
from delira.errors import ConfigError


class BatchSampler:
    """Cuts the epochs of a sampler into batches: iterating yields a list of indices for each.

    Parameters
    ----------
    sampler
        Decides on the samples; each iteration begins its next epoch.
    batch_size
        Indices per batch.
    drop_last
        Whether to leave out the last batch if it is smaller than the others.

    Raises
    ------
    ConfigError
        If an argument is of the wrong kind.
    """

    def __init__(self, sampler: AbstractSampler, batch_size: int, drop_last: bool = False) -> None:
        if not isinstance(sampler, AbstractSampler):
            raise ConfigError(f"sampler must be an AbstractSampler, got {sampler!r}")
        self.sampler = sampler
        self.batch_size = check_count(batch_size, "batch_size", 1)
        self.drop_last = check_flag(drop_last, "drop_last")

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        order = self.sampler.next_order(self.batch_size).tolist()
        return (order[number * self.batch_size : (number + 1) * self.batch_size] for number in range(len(self)))
