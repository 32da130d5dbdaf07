"""Search: spaces of parameters, how their best values are looked for, and what came of it."""

from delira.search.tune import Tune
from delira.utils.lazy import public_names
from delira.utils.spaces import Choice, Float, Int

__getattr__, __dir__, __all__ = public_names(__name__, {"delira.experiments.search_result": "SearchResult Trial"})
