"""Small helpers that know nothing of training."""

from delira.utils.config import LookupConfig
from delira.utils.path import subdirs
from delira.utils.seeding import seed_all
from delira.utils.time import now

__all__ = ["LookupConfig", "now", "seed_all", "subdirs"]
