"""Estimators of scikit-learn that are networks of any backend, for its pipelines, searches and calibration."""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.sklearn.checks": "EXPECTED_FAILED_CHECKS",
        "delira.sklearn.estimators": "Classifier Regressor",
    },
)
