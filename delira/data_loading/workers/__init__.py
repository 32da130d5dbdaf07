"""Worker processes: batches made ahead, the same ones that this process would make, under watch."""

from delira.data_loading.workers.settings import WorkerSettings

__all__ = ["WorkerSettings"]
