"""The CPU, and the threads of the libraries that compute on it."""

import contextlib
from collections.abc import Iterator

from threadpoolctl import threadpool_info, threadpool_limits

from delira.contract import DevicesRole


class SklearnDevices(DevicesRole):
    """The CPU."""

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        with threadpool_limits(number):
            yield

    def thread_count(self) -> int | None:
        return max((pool["num_threads"] for pool in threadpool_info()), default=None)
