from delira.sklearn.checks import EXPECTED_FAILED_CHECKS as EXPECTED_FAILED_CHECKS
from delira.sklearn.estimators import Classifier as Classifier
from delira.sklearn.estimators import Regressor as Regressor

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "Classifier",
    "Regressor",
]
