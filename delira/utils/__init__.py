"""Small helpers that know nothing of training."""

from delira.utils.config import LookupConfig
from delira.utils.lazy import public_names
from delira.utils.path import subdirs
from delira.utils.seeding import seed_all
from delira.utils.time import now

__getattr__, __dir__, __all__ = public_names(__name__)
