"""Names of experiments that are made of an estimator alone."""

import inspect
import re
from typing import Any

from delira.backends.sklearn.checkpoints import SILENT

_LONGEST = 80


def name_of(estimator: object) -> str:
    """The class of an estimator, or of each step of a pipeline, and the plain parameters that are no defaults.

    Parameters
    ----------
    estimator
        The estimator.

    Returns
    -------
    str
        A name for a folder, e.g. ``"StandardScaler+SVC-kernel=linear"``, of at most 80 characters.
    """
    steps = [step for _, step in getattr(estimator, "steps", ()) if hasattr(step, "get_params")] or [estimator]
    name = "+".join("-".join([type(step).__name__, *_changed(step)]) for step in steps)
    return re.sub(r"[^\w.,+=-]", "_", name)[:_LONGEST].rstrip(".")


def _changed(step: Any) -> list[str]:
    defaults = inspect.signature(type(step)).parameters
    return [
        f"{name}={value}"
        for name, value in sorted(step.get_params(deep=False).items())
        if name not in SILENT
        and isinstance(value, (str, int, float, tuple))
        and name in defaults
        and repr(value) != repr(defaults[name].default)
    ]
