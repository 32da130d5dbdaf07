"""Worker processes: batches made ahead, the same ones that this process would make, under watch."""

from delira.data_loading.workers.pool import WorkerSettings
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
