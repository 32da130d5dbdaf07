"""Callbacks that change how a network learns: against the same training written by hand."""

import numpy as np
from fuzz_cases import Entry
from fuzz_training import by_hand, trained_weights
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_NUMBER,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_FINITE,
    NOT_NEGATIVE_OR_ZERO,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
)

PARAMS = [5, NAN, STRANGE, True, [1, 2], ["nonsense"], "nonsense"]


def entry(name, good, expected=None, **more):
    return Entry(
        name=f"delira.callbacks.{name}",
        good=lambda folder: dict(good),
        use=trained_weights,
        expected=expected,
        needs="torch",
        **more,
    )


def schedule(name, good, wrong, make, right=None, steps=True, **more):
    """A schedule, against the class of PyTorch of the same name."""

    def expected(arguments):
        arguments = dict(arguments)
        each_step = bool(arguments.pop("step_on_batch", not steps))
        return by_hand(schedule=lambda optimizer: make(optimizer, arguments), each_step=each_step)

    flags = {"step_on_batch": [True, np.bool_(False)]} if steps else {}
    no_flags = {"step_on_batch": NOT_A_BOOL} if steps else {}
    return entry(name, good, expected, right={**flags, **(right or {})}, wrong={**no_flags, **wrong}, **more)


def torch_schedule(name):
    def make(optimizer, arguments):
        import torch

        return getattr(torch.optim.lr_scheduler, name)(optimizer, **arguments)

    return make


def clip_values(model, limit):
    for parameter in model.parameters():
        parameter.grad.clamp_(-limit, limit)


def clip_norm(model, limit, kind):
    joined = np.concatenate([np.abs(parameter.grad.numpy()).ravel() for parameter in model.parameters()])
    norm = joined.max() if kind == INFINITE else (joined**kind).sum() ** (1 / kind)
    if norm > limit:
        for parameter in model.parameters():
            parameter.grad.mul_(float(limit / norm))


def decay(model, rate, power):
    return rate * sum((abs(parameter) ** power).sum() ** (1 / power) for parameter in model.parameters())


def decayed(power):
    def expected(arguments):
        order = arguments.get("p", power)
        return by_hand(to_loss=lambda model: decay(model, float(arguments["rate"]), order))

    return expected


def warmed_up(arguments):
    """Rates that rise by thirds and fall along half a cosine."""
    import torch

    def factor(count):
        return (count + 1) / 3 if count < 2 else 0.5 * (1 + np.cos(np.pi * min((count - 2) / 2, 1)))

    each_step = bool(arguments.get("step_on_batch", True))
    return by_hand(schedule=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, factor), each_step=each_step)


def linear(epoch):
    return 1 - 0.25 * epoch


ENTRIES = [
    entry(
        "GradientClipping",
        {"clip_value": 0.5},
        lambda arguments: by_hand(to_gradients=lambda model: clip_values(model, float(arguments["clip_value"]))),
        right={"clip_value": [0.01, 3, np.float32(0.5)]},
        wrong={"clip_value": NOT_POSITIVE, "params": PARAMS},
    ),
    entry(
        "GradientNormClipping",
        {"max_norm": 0.5},
        lambda arguments: by_hand(
            to_gradients=lambda model: clip_norm(model, float(arguments["max_norm"]), arguments.get("norm_type", 2))
        ),
        right={"max_norm": [0.1, 100], "norm_type": [1, 3.0, INFINITE]},
        wrong={"max_norm": NOT_POSITIVE, "norm_type": [*NOT_A_NUMBER, NAN, 0, -1], "params": PARAMS},
    ),
    *(
        entry(
            name,
            {"rate": 0.1},
            decayed(order),
            right={"rate": [0, 1]},
            wrong={"rate": NOT_NEGATIVE_OR_ZERO, "params": PARAMS},
        )
        for name, order in (("L1WeightDecay", 1), ("L2WeightDecay", 2))
    ),
    entry(
        "WeightDecay",
        {"rate": 0.1},
        decayed(2),
        right={"p": [1, 3.0]},
        wrong={"rate": NOT_NEGATIVE_OR_ZERO, "p": [*NOT_A_NUMBER, NAN, 0, -1], "params": PARAMS},
    ),
    schedule(
        "StepLR",
        {"step_size": 1},
        {"step_size": NOT_POSITIVE_INT, "gamma": NOT_FINITE},
        torch_schedule("StepLR"),
        right={"step_size": [2, np.int64(1)], "gamma": [0.5, 1, 2.0]},
    ),
    schedule(
        "ExponentialLR",
        {"gamma": 0.9},
        {"gamma": NOT_FINITE},
        torch_schedule("ExponentialLR"),
        right={"gamma": [1, 0.1]},
    ),
    schedule(
        "MultiStepLR",
        {"milestones": [1]},
        {"milestones": ["x", 5, NAN, STRANGE, [1.5], [-1], ["a"], True], "gamma": NOT_FINITE},
        torch_schedule("MultiStepLR"),
        right={"milestones": [[1, 2], (1,)], "gamma": [0.5]},
    ),
    schedule(
        "CosineAnnealingLR",
        {"T_max": 4},
        {"T_max": NOT_POSITIVE_INT, "eta_min": NOT_FINITE},
        torch_schedule("CosineAnnealingLR"),
        right={"T_max": [1, 3], "eta_min": [0.01, 0]},
    ),
    schedule(
        "LambdaLR",
        {"lr_lambda": linear},
        {"lr_lambda": [*NOT_CALLABLE, None, lambda epoch: "x", lambda epoch: None, lambda epoch: NAN]},
        torch_schedule("LambdaLR"),
        says={"lr_lambda": ["LambdaLR gave the learning rate"]},
        right={"lr_lambda": [lambda epoch: 0.5**epoch, [linear]]},
        own=["lr_lambda"],
    ),
    entry(
        "ReduceLROnPlateau",
        {"monitor": "loss", "mode": "min", "patience": 100},
        lambda arguments: by_hand(),
        right={"patience": [50], "factor": [0.5]},
        wrong={
            "monitor": [*NOT_A_TEXT, "nonsense", ""],
            "mode": [*NOT_A_TEXT, "nonsense", "highst"],
            "factor": [*NOT_FINITE, 0, -1, 1, 2],
            "patience": NOT_A_COUNT,
            "step_on_batch": NOT_A_BOOL,
        },
    ),
    schedule(
        "OneCycleLR",
        {"max_lr": 0.1, "total_steps": 8},
        {
            "max_lr": [*(value for value in NOT_POSITIVE if not isinstance(value, list)), [0.1, 0.2]],
            "total_steps": [value for value in NOT_POSITIVE_INT if value is not None],
            "pct_start": [*NOT_FINITE, -0.1, 1.1],
            "div_factor": NOT_POSITIVE,
            "final_div_factor": NOT_POSITIVE,
        },
        lambda optimizer, arguments: torch_schedule("OneCycleLR")(optimizer, {**arguments, "cycle_momentum": False}),
        steps=False,
        right={"pct_start": [0.5, 0.25], "div_factor": [10], "final_div_factor": [100.0]},
    ),
    schedule(
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2},
        {
            "base_lr": [*(value for value in NOT_NEGATIVE_OR_ZERO if not isinstance(value, list)), [0.1, 0.2]],
            "max_lr": [*(value for value in NOT_POSITIVE if not isinstance(value, list)), [0.1, 0.2]],
            "step_size_up": NOT_POSITIVE_INT,
            "step_size_down": [value for value in NOT_POSITIVE_INT if value is not None],
            "mode": [*NOT_A_TEXT, "nonsense"],
            "gamma": NOT_FINITE,
        },
        lambda optimizer, arguments: torch_schedule("CyclicLR")(optimizer, {**arguments, "cycle_momentum": False}),
        right={"mode": ["triangular2", "exp_range"], "gamma": [0.9], "step_size_down": [1, None], "max_lr": [0.2]},
    ),
    entry(
        "WarmupCosine",
        {"warmup_steps": 2, "total_steps": 4},
        warmed_up,
        right={"step_on_batch": [True, False], "final_factor": [0]},
        wrong={
            "warmup_steps": [*NOT_A_COUNT, 4, 5],
            "total_steps": [*NOT_POSITIVE_INT, 2],
            "final_factor": [*NOT_FINITE, -1, 2],
            "step_on_batch": NOT_A_BOOL,
        },
    ),
]
