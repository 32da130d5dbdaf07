"""Functions of scikit-learn: what each compares, and which of them something is."""

import functools
import sys
from collections.abc import Callable
from typing import Any

#: functions of scikit-learn that compare labels: scores are argmaxed, or compared with a threshold
OF_LABELS = {
    "accuracy_score", "adjusted_mutual_info_score", "adjusted_rand_score", "balanced_accuracy_score",
    "class_likelihood_ratios", "cohen_kappa_score", "completeness_score", "confusion_matrix", "f1_score", "fbeta_score",
    "fowlkes_mallows_score", "hamming_loss", "homogeneity_completeness_v_measure", "homogeneity_score",
    "jaccard_score", "matthews_corrcoef", "multilabel_confusion_matrix", "mutual_info_score",
    "normalized_mutual_info_score", "pair_confusion_matrix",
    "precision_recall_fscore_support", "precision_score", "rand_score", "recall_score",
    "v_measure_score", "zero_one_loss",
}  # fmt: skip
#: that compare labels with probabilities: other scores go through a softmax or a sigmoid
OF_PROBABILITIES = {"brier_score_loss", "d2_brier_score", "d2_log_loss_score", "log_loss"}
#: that rank samples, of more than two classes by probabilities
OF_RANKS = {"average_precision_score", "roc_auc_score"}
#: that rank the labels of a sample: of one true label it is known which of them are true
OF_RANKED_LABELS = {
    "coverage_error", "dcg_score", "label_ranking_average_precision_score", "label_ranking_loss", "ndcg_score",
}  # fmt: skip
#: that look where the highest score is, or how far it lies from 0
OF_DECISIONS = {"hinge_loss", "top_k_accuracy_score"}
#: that compare labels with any scores
OF_SCORES = OF_RANKS | OF_RANKED_LABELS | OF_DECISIONS
#: that compare numbers
OF_NUMBERS = {
    "d2_absolute_error_score", "d2_pinball_score", "d2_tweedie_score", "explained_variance_score", "max_error",
    "mean_absolute_error", "mean_absolute_percentage_error", "mean_gamma_deviance", "mean_pinball_loss",
    "mean_poisson_deviance", "mean_squared_error", "mean_squared_log_error", "mean_tweedie_deviance",
    "median_absolute_error", "r2_score", "root_mean_squared_error", "root_mean_squared_log_error",
}  # fmt: skip
#: every function of scikit-learn that is understood
KNOWN_FUNCTIONS = OF_LABELS | OF_PROBABILITIES | OF_SCORES | OF_NUMBERS


def unwrapped(function: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return what partials call in the end, and the arguments and keywords that they give it."""
    args: tuple[Any, ...] = ()
    settings: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        args, settings, function = (*function.args, *args), {**function.keywords, **settings}, function.func
    return function, args, settings


def sklearn_function(name: object) -> Callable[..., Any] | None:
    """Return the function of ``sklearn.metrics``, if that has been imported and has one of the name."""
    return getattr(sys.modules.get("sklearn.metrics"), name, None) if isinstance(name, str) else None


def is_known(metric: object) -> bool:
    """Return True for a function of scikit-learn, or a partial of one, of which it is known what it compares."""
    function = unwrapped(metric)[0]
    name = getattr(function, "__name__", None)
    # by identity: what wraps a function of scikit-learn has its name, too
    return name in KNOWN_FUNCTIONS and sklearn_function(name) is function


def is_of_sklearn(function: object) -> bool:
    """Return True if a function, or what a partial calls, is one of scikit-learn."""
    return str(getattr(unwrapped(function)[0], "__module__", "")).partition(".")[0] == "sklearn"
