"""The checks, by area, from the plain to the special: the order is that of the tables."""

#: the areas, which are the modules beside this one
AREAS = (
    "learning",
    "steps",
    "updates",
    "evaluation",
    "data",
    "seeds",
    "events",
    "average",
    "guards",
    "checkpoints",
    "resume",
    "experiments",
    "weights",
    "errors",
)

__all__ = ["AREAS"]
