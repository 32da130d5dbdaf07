from delira.data_loading.workers.pool import WorkerSettings as WorkerSettings

__all__ = [
    "WorkerSettings",
]
