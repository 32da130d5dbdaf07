from delira.utils.config import LookupConfig as LookupConfig
from delira.utils.path import subdirs as subdirs
from delira.utils.seeding import seed_all as seed_all
from delira.utils.time import now as now

__all__ = [
    "LookupConfig",
    "now",
    "seed_all",
    "subdirs",
]
