"""Values of several steps as one dictionary."""

from delira.utils.dict_reductions import (
    flatten_dict,  # refused
    get_reduction,  # refused
    possible_reductions,  # refused
    reduce_dict,  # refused
    unflatten_dict,  # refused
)

steps = [{"train": {"ce": 1.0, "acc": 0.5}}, {"train": {"ce": 3.0, "acc": 1.0}}, {"train": {"ce": 8.0, "acc": 0.9}}]
assert flatten_dict(steps[0]) == {"train.ce": 1.0, "train.acc": 0.5}
assert unflatten_dict(flatten_dict(steps[1])) == steps[1]
values = {name: reduce_dict(steps, get_reduction(name))["train"]["ce"] for name in possible_reductions()}
assert values == {"max": 8.0, "min": 1.0, "mean": 4.0, "median": 3.0, "first": 1.0, "last": 8.0}
