from delira.experiments.search_result import SearchResult as SearchResult
from delira.experiments.search_result import Trial as Trial
from delira.search.tune import Tune as Tune
from delira.utils.spaces import Choice as Choice
from delira.utils.spaces import Float as Float
from delira.utils.spaces import Int as Int

__all__ = [
    "Choice",
    "Float",
    "Int",
    "SearchResult",
    "Trial",
    "Tune",
]
