from delira.data_loading.workers.settings import WorkerSettings as WorkerSettings

__all__ = [
    "WorkerSettings",
]
