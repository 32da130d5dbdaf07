"""The checks, by area; the order is that of the tables."""

from delira.testing.spec.areas import (
    average,
    checkpoints,
    data,
    errors,
    evaluation,
    experiments,
    guards,
    learning,
    moments,
    resume,
    seeds,
    steps,
    updates,
    weights,
)

__all__ = [  # noqa: RUF022 - from the plain to the special
    "learning",
    "steps",
    "updates",
    "evaluation",
    "data",
    "seeds",
    "moments",
    "average",
    "guards",
    "checkpoints",
    "resume",
    "experiments",
    "weights",
    "errors",
]
