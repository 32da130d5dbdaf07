"""Training: the loop and its callbacks; settings, experiments and cross-validation are shown here, too."""

from delira.settings.config import TrainerConfig
from delira.settings.signatures import settings_help
from delira.training.predictor import Predictor
from delira.training.run import TrainingState
from delira.training.trainer import BaseNetworkTrainer
from delira.training.trainer import BaseNetworkTrainer as AbstractNetworkTrainer  # its historic name
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.experiments.experiment": "BaseExperiment AbstractExperiment=BaseExperiment",
        "delira.experiments.learning_curve": "LearningCurve",
        "delira.experiments.parameters": "Parameters",
        "delira.experiments.preprocessing": "Preprocessing load_preprocessing",
        "delira.experiments.result": "KFoldResult",
        "delira.runs.results": "FoldResult",
        "delira.search.tune": "Tune",
        "delira.utils.spaces": "Choice Float Int",
    },
)
