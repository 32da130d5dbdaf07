"""What backends are written with: how a step finds what it reads, by hand; wrong names are refused."""

import numpy as np
from fuzz_cases import Entry

from delira.contract import Step

BATCH = {"data": np.arange(4.0), "label": np.ones(4)}
PREDICTIONS = {"pred": np.zeros(4)}
UNCHECKED = "called at every step, by backends: not checked there"


def squared(pred, target):
    return float(((pred - target) ** 2).sum())


def accuracy(target, pred):
    return float((pred == target).mean())


def of_step(name, good, expected, right=None, **more):
    """A function of one step: ``right`` are whole sets of arguments."""
    return Entry(
        name=f"delira.contract.{name}",
        good=lambda folder: dict(good),
        expected=expected,
        right=right or {},
        free={**dict.fromkeys(good.keys() - {"*"}, UNCHECKED), **more.pop("free", {})},
        **more,
    )


def sum_of_step(made, folder):
    return sum(made.values())


ENTRIES = [
    of_step(
        "call_losses",
        {"losses": {"mse": squared}, "loss_keys": {}, "predictions": PREDICTIONS, "batch": BATCH},
        lambda arguments: 4.0 * len(arguments["losses"]),
        {"losses": [{}, {"a": squared, "b": squared}], "loss_keys": [{"mse": ["pred", "label"]}, {"nobody": ["x"]}]},
        use=sum_of_step,
        wrong={"loss_keys": [{"mse": ["pred", "nonsense"]}], "batch": [{}], "predictions": [{}]},
        own=["losses.mse"],
        says={"loss_keys": ["nonsense"], "batch": ["'label'"], "predictions": ["'pred'"]},
    ),
    of_step(
        "call_metrics",
        {"metrics": {"acc": accuracy}, "metric_keys": {}, "predictions": PREDICTIONS, "batch": BATCH},
        lambda arguments: 0.0,
        {"metrics": [{}], "metric_keys": [{"acc": ["label", "pred"]}]},
        use=sum_of_step,
        wrong={"metric_keys": [{"acc": ["nonsense"]}], "batch": [{}], "predictions": [{}]},
        own=["metrics.acc"],
        says={"metric_keys": ["nonsense"], "batch": ["'label'"], "predictions": ["'pred'"]},
    ),
    of_step(
        "default_optimizer",
        {"optimizers": {"default": 5}},
        lambda arguments: 5,
        {"optimizers": [{"default": 5, "other": 6}]},
        wrong={"optimizers": [{}, {"gen": 1, "discr": 2}, {"Default": 5}]},
        says={"optimizers": ["optimizer 'default'"]},
    ),
    of_step(
        "look_up",
        {"*": ["loss", "mse", ["a", "b"], {"a": 1}, {"a": 2, "b": 3}]},
        lambda arguments: [{"a": 1, "b": 3}[key] for key in arguments["*"][2]],
        {"*2": [["b", "a"], [], ("a",)]},
        wrong={"*2": [["a", "c"], ["nonsense"], "x"]},
        says={"*2": ["loss 'mse' reads"]},
        free={"kind": UNCHECKED, "name": UNCHECKED, "keys": UNCHECKED},
    ),
    of_step(
        "select_inputs",
        {"key_mapping": {"x": "data"}, "batch": BATCH},
        lambda arguments: sorted(arguments["key_mapping"]),
        {"key_mapping": [{}, {"x": "data", "y": "label"}]},
        use=lambda found, folder: sorted(found),
        wrong={"key_mapping": [{"x": "nonsense"}, {"x": ""}], "batch": [{}, {"Data": 1}]},
        says={"batch": ["'data'"]},
    ),
    of_step(
        "named_outputs",
        {"network": 5, "predictions": PREDICTIONS},
        lambda arguments: [*arguments["predictions"]],
        {"predictions": [{}, {"a": 1}]},
        use=lambda found, folder: [*found],
        wrong={"predictions": ["x", 5, None, [1], np.zeros(3)]},
        says={"predictions": ["a network returns a dict"]},
    ),
    of_step(
        "validation_names",
        {"values": {"a": 1, "val_b": 2}},
        lambda arguments: {f"val_{name}": value for name, value in arguments["values"].items()},
        {"values": [{}, {"x": 5}, {"a": None}, {"a.b": 1}]},
    ),
    of_step(
        "run_hooks",
        {"hooks": [lambda step: step.batch.update(seen=3)], "step": Step(None, {})},
        lambda arguments: None,
        {"hooks": [[], (), [id, id], [repr]]},
    ),
    of_step(
        "room_default",
        {"function": squared},
        lambda arguments: True,
        {"function": [accuracy] * 4},
        use=lambda found, folder: found.is_room_default,
    ),
    of_step(
        "needs_losses",
        {"example": "{'mse': f}"},
        lambda arguments: arguments["example"],
        {"example": ["a", "b", "", "{}"]},
        use=lambda found, folder: found(lambda: None).needs_losses,
    ),
    of_step("mark", {"part": "forward"}, lambda arguments: None, {"part": ["backward", "update", "x", ""]}),
    of_step("tell_marks", {"listener": None}, lambda arguments: None, {"listener": [None] * 4}),
    of_step(
        "Step",
        {"network": 5, "batch": {}},
        lambda arguments: (arguments["network"], {}),
        {"network": [1, None, "x", 2.5]},
        use=lambda made, folder: (made.network, made.losses),
        free=dict.fromkeys(["predictions", "losses", "backward_arguments", "gradients"], UNCHECKED),
    ),
    of_step(
        "StepHooks",
        {},
        lambda arguments: not any(arguments.values()),
        {name: [(len,)] for name in ("sample", "forward", "criterion", "backward")},
        use=lambda made, folder: made.traceable,
    ),
]
