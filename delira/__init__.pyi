from delira.comparison import compare as compare
from delira.comparison import compare_datasets as compare_datasets
from delira.comparison import Comparison as Comparison
from delira.comparison import DatasetsComparison as DatasetsComparison
from delira.frameworks import get_backends as get_backends
from delira.inference import SlidingWindow as SlidingWindow
from delira.inference import TestTimeAugmentation as TestTimeAugmentation
from delira.prediction import Ensemble as Ensemble
from delira.prediction import load_ensemble as load_ensemble
from delira.prediction import load_network as load_network
from delira.prediction import predict as predict
from delira.state import State as State
from delira.state import state_key as state_key
from delira.state import StateKey as StateKey
from delira.trial import Trial as Trial
from delira.utils.debug import get_current_debug_mode as get_current_debug_mode
from delira.utils.debug import set_debug_mode as set_debug_mode
from delira.utils.debug import switch_debug_mode as switch_debug_mode
from delira.utils.seeding import seed_all as seed_all

__version__: str

__all__ = [
    "Comparison",
    "DatasetsComparison",
    "Ensemble",
    "SlidingWindow",
    "State",
    "StateKey",
    "TestTimeAugmentation",
    "Trial",
    "__version__",
    "compare",
    "compare_datasets",
    "get_backends",
    "get_current_debug_mode",
    "load_ensemble",
    "load_network",
    "predict",
    "seed_all",
    "set_debug_mode",
    "state_key",
    "switch_debug_mode",
]
