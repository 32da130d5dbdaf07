"""The checks, by area, from the plain to the special: the order is that of the tables."""

#: area -> the module beside this one that holds its checks
AREAS = {
    "learning": "training",
    "steps": "training",
    "updates": "training",
    "evaluation": "running",
    "data": "running",
    "seeds": "running",
    "events": "using",
    "average": "keeping",
    "guards": "keeping",
    "checkpoints": "keeping",
    "resume": "keeping",
    "experiments": "using",
    "weights": "using",
    "errors": "using",
}

__all__ = ["AREAS"]
