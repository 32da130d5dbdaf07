"""Labels that are not certain."""

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.mixing.batches import check_classes, one_hot, set_target, target_of
from delira.errors import ConfigError
from delira.state import State
from delira.utils.arrays import ops_of
from delira.utils.checks import check_numbers


class LabelSmoothingRegularisation(Callback):
    """Train on labels that leave every class a little: ``(1 - epsilon) * one_hot + epsilon / C``.

    Validations and evaluations have one-hot targets.

    Parameters
    ----------
    epsilon
        What is spread over all classes, from 0 to 1.
    classes
        How many classes there are: labels of shape ``(B, ...)`` become probabilities of shape ``(B, C, ...)`` in
        PyTorch, ``(B, ..., C)`` elsewhere; ``-1``: targets are one-hot already.

    Raises
    ------
    ConfigError
        If a number is impossible.
    DataError
        At a step, if there is no target, or ``classes`` is needed.

    References
    ----------
    Szegedy et al., Rethinking the inception architecture for computer vision, CVPR 2016, arXiv:1512.00567.
    """

    phases = ("fit", "evaluate", "predict")
    needs_gradients = True  # estimators learn from labels as they are

    def __init__(self, epsilon: float, classes: int = -1):
        check_numbers(self, epsilon=epsilon)
        if not 0 <= epsilon <= 1:
            raise ConfigError(f"LabelSmoothingRegularisation: epsilon is from 0 to 1, got {epsilon!r}")
        self.epsilon, self.classes = epsilon, check_classes(classes, "LabelSmoothingRegularisation")

    def on_sample(self, state: State) -> None:
        """Make smooth targets of the labels."""
        who = type(self).__name__
        target = one_hot(target_of(state, who), self.classes, who)
        n_classes = int(target.shape[ops_of(target).class_axis])
        set_target(state, (1.0 - self.epsilon) * target + self.epsilon / n_classes)

    def on_sample_validation(self, state: State) -> None:
        """Make one-hot targets of the labels."""
        harden(state, self.classes, type(self).__name__)


def harden(state: State, classes: int, who: str) -> None:
    """Make one-hot targets of the labels of a validation, if there are any."""
    if classes != -1 and state.get(keys.Y_TRUE) is not None:
        set_target(state, one_hot(target_of(state, who), classes, who))
