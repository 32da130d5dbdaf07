"""delira: write a network once and get the whole experiment, with whatever framework."""

from delira.frameworks import get_backends
from delira.state import State, StateKey, state_key
from delira.utils.debug import get_current_debug_mode, set_debug_mode, switch_debug_mode
from delira.utils.lazy import public_names
from delira.utils.seeding import seed_all

#: the version, by the rules of docs/versioning.md
__version__ = "1.0.0.dev0"

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.comparison": "Comparison DatasetsComparison compare compare_datasets",
        "delira.inference": "SlidingWindow TestTimeAugmentation",
        "delira.prediction": "Ensemble load_ensemble load_network predict",
        "delira.trial": "Trial",
    },
)
