"""Schedules of each backend: the rates of some epochs, against formulas written by hand."""

import math
from types import SimpleNamespace

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_BOOL,
    NOT_A_CHOICE,
    NOT_A_COUNT,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_FINITE,
    NOT_NEGATIVE_OR_ZERO,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
    or_none,
)

RATE, EPOCHS, STEPS = 0.1, 6, 2
#: scores of the epochs, for schedules that look at them
SCORES = (3.0, 2.0, 2.5, 2.4, 1.0, 1.5)
BACKENDS = {"PyTorch": "torch", "Tf": "tensorflow", "Jax": "flax"}
NO_OPTIMIZER = ["nonsense", 5, NAN, [], STRANGE, None, True]
STEP_ON = [*NOT_A_CHOICE, "batch", "epochs"]


class Optimizer:
    """An optimizer as schedules see it: of PyTorch with groups, of the others with one rate."""

    def __init__(self, is_torch):
        self.num_updates, self._rate, self.optimizer = 0, RATE, None
        if is_torch:
            import torch

            self.optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
            self.optimizer.step()

    @property
    def rate(self):
        return self._rate if self.optimizer is None else self.optimizer.param_groups[0]["lr"]

    @rate.setter
    def rate(self, rate):
        self._rate = rate


def _of_torch():
    from delira.training import PyTorchNetworkTrainer

    return PyTorchNetworkTrainer.backend.schedules


def rates_of(schedule, folder):
    """Return the rate at the begin, and after each epoch."""
    is_torch = any("Torch" in base.__name__ for base in type(schedule).__mro__)
    optimizer = Optimizer(is_torch)
    trainer = SimpleNamespace(
        optimizers={"default": optimizer},
        backend=SimpleNamespace(name="torch", schedules=_of_torch() if is_torch else {}),
        score_key="val_loss",
        score_mode="lowest",
        skips_validation=False,
    )
    schedule.attach(trainer)
    schedule.at_training_begin(trainer, num_epochs=EPOCHS)
    rates = [optimizer.rate]
    for score in SCORES:
        for _ in range(STEPS):
            optimizer.num_updates += 1
            schedule.at_iter_end(trainer)
        metrics = {"val_loss": score, "val_mae": -score}
        schedule.at_epoch_end(trainer, metrics=metrics, val_score_key="val_loss")
        rates.append(optimizer.rate)
    return np.array(rates)


def by_formula(rate_after, default_step_on="epoch"):
    """Rates of a function of the steps so far and the arguments."""

    def expected(arguments):
        each = STEPS if (arguments.get("step_on") or default_step_on) == "iter" else 1
        return np.array([rate_after(each * epoch, arguments) for epoch in range(EPOCHS + 1)], float)

    return expected


def stepped(count, arguments):
    return RATE * arguments.get("gamma", 0.1) ** (count // arguments["step_size"])


def exponential(count, arguments):
    return RATE * arguments["gamma"] ** count


def at_milestones(count, arguments):
    return RATE * arguments.get("gamma", 0.1) ** sum(milestone <= count for milestone in arguments["milestones"])


def by_function(count, arguments):
    return RATE * arguments["lr_lambda"](count)


def cosine(count, arguments):
    low = arguments.get("eta_min", 0)
    return low + (RATE - low) * (1 + math.cos(math.pi * count / arguments["T_max"])) / 2


def one_cycle(count, arguments):
    """Up to the highest rate and down to the last one, along halves of cosines, or lines."""
    high, total = arguments["max_lr"], arguments["total_steps"]
    low = high / arguments.get("div_factor", 25)
    last = low / arguments.get("final_div_factor", 1e4)
    top, count = arguments.get("pct_start", 0.3) * total - 1, min(count, total - 1)
    begin, end, part = (low, high, count / top) if count <= top else (high, last, (count - top) / (total - 1 - top))
    if arguments.get("anneal_strategy") == "linear":
        return begin + (end - begin) * part
    return end + (begin - end) * (1 + math.cos(math.pi * part)) / 2


def on_plateau(arguments):
    """Lower the rate after so many epochs in a row that are no better than the best by a part of it."""
    sign = -1 if arguments.get("monitor") == "val_mae" and arguments.get("mode") in (None, "min") else 1
    sign = -sign if arguments.get("mode") in ("max", "highest") else sign
    if arguments.get("monitor") == "val_mae":
        scores = [sign * score if arguments.get("mode") in ("max", "highest") else -score for score in SCORES]
    else:
        scores = [sign * score for score in SCORES]
    rates, best, bad, rate, rest = [RATE], INFINITE, 0, RATE, 0
    for score in scores:
        margin = arguments.get("threshold", 1e-4)
        margin *= abs(best) if arguments.get("threshold_mode", "rel") == "rel" and best < INFINITE else 1
        if score < best - margin:
            best, bad = score, 0
        else:
            bad += 1
        if rest:
            rest, bad = rest - 1, 0
        if bad > arguments["patience"]:
            rate, bad = max(rate * arguments.get("factor", 0.1), arguments.get("min_lr", 0)), 0
            rest = arguments.get("cooldown", 0)
        rates.append(rate)
    return np.array(rates)


def half(count):
    return 1 / (1 + count)


#: ending of the name -> a good call, what is right, what is wrong, how the rates are computed, and further entries
FAMILIES = {
    "StepLR": (
        {"step_size": 2},
        {"step_size": [1, np.int64(3)], "gamma": [0.5, 1, 2]},
        {"step_size": NOT_POSITIVE_INT, "gamma": NOT_NEGATIVE_OR_ZERO, "step_sise": [1]},
        by_formula(stepped),
        {},
    ),
    "ExponentialLR": (
        {"gamma": 0.9},
        {"gamma": [1, 0.1, np.float64(0.5)]},
        {"gamma": or_none(NOT_NEGATIVE_OR_ZERO), "gama": [0.5]},
        by_formula(exponential),
        {},
    ),
    "MultiStepLR": (
        {"milestones": [1, 3]},
        {"milestones": [(1,), [2, 2], [3, 1], range(1, 4), np.array([1, 3])], "gamma": [0.5]},
        {
            "milestones": ["x", 5, NAN, STRANGE, [1.5], [-1], ["a"], True, None, [True], [NAN]],
            "gamma": NOT_NEGATIVE_OR_ZERO,
        },
        by_formula(at_milestones),
        {},
    ),
    "LambdaLR": (
        {"lr_lambda": half},
        {"lr_lambda": [lambda count: 0.5**count, lambda count: np.float32(1.5)]},
        {"lr_lambda": [*NOT_CALLABLE, None, lambda c: "x", lambda c: None, lambda c: NAN, lambda c: INFINITE]},
        by_formula(by_function),
        {"own": ["lr_lambda"], "says": {"lr_lambda": ["gave the learning rate"]}},
    ),
    "CosineAnnealingLR": (
        {"T_max": 6},
        {"T_max": [1, 3, 10], "eta_min": [0.01, 0]},
        {"T_max": NOT_POSITIVE_INT, "eta_min": NOT_NEGATIVE_OR_ZERO},
        by_formula(cosine),
        {},
    ),
    "OneCycleLR": (
        {"max_lr": 0.5, "total_steps": EPOCHS * STEPS + 1},
        {
            "max_lr": [0.2, 1],
            "total_steps": [20, np.int64(30), 8],
            "pct_start": [0.5, 0.25],
            "div_factor": [10, 2.5],
            "final_div_factor": [100],
            "anneal_strategy": ["linear", "cos"],
        },
        {
            "max_lr": [value for value in or_none(NOT_POSITIVE) if not isinstance(value, (list, tuple))],
            "total_steps": [*(value for value in NOT_POSITIVE_INT if value is not None), 1],
            "epochs": NOT_POSITIVE_INT,
            "steps_per_epoch": NOT_POSITIVE_INT,
            "pct_start": [*NOT_FINITE, -0.1, 1.1],
            "div_factor": NOT_POSITIVE,
            "final_div_factor": NOT_POSITIVE,
            "anneal_strategy": [*NOT_A_CHOICE, "cosine"],
            "three_phase": ["x", 5, NAN, [1], STRANGE],
        },
        by_formula(one_cycle, "iter"),
        {},
    ),
    "ReduceLROnPlateau": (
        {"patience": 1},
        {
            "patience": [0, 2],
            "factor": [0.5],
            "mode": ["min", "max", "lowest", "highest"],
            "threshold": [0.3, 0],
            "threshold_mode": ["abs", "rel"],
            "cooldown": [1],
            "min_lr": [0.05],
            "monitor": ["val_loss", "loss", "val_mae", None],
        },
        {
            "patience": NOT_A_COUNT,
            "factor": [*NOT_POSITIVE, 1, 2],
            "mode": [*NOT_A_TEXT, "nonsense", "highst", ""],
            "threshold": NOT_FINITE,
            "threshold_mode": NOT_A_CHOICE,
            "cooldown": NOT_A_COUNT,
            "min_lr": [value for value in NOT_NEGATIVE_OR_ZERO if not isinstance(value, (list, tuple))],
            "eps": NOT_NEGATIVE_OR_ZERO,
            "monitor": [*(value for value in NOT_A_TEXT if value is not None), "nonsense", ""],
        },
        on_plateau,
        {},
    ),
}


def entry(name, family, backend):
    good, right, wrong, expected, further = FAMILIES[family]
    is_plateau = family == "ReduceLROnPlateau"
    monitor = {"monitor": NOT_A_TEXT} if backend == "PyTorch" and not is_plateau else {}
    step_on = {} if is_plateau else {"step_on": ["iter", "epoch", None]}
    return Entry(
        name=f"delira.callbacks.{name}",
        good=lambda folder: dict(good),
        use=rates_of,
        expected=expected,
        right={**right, **step_on, "optimizer": ["default"]},
        wrong={**wrong, **monitor, "step_on": [*STEP_ON, "iter"] if is_plateau else STEP_ON, "optimizer": NO_OPTIMIZER},
        needs=BACKENDS[backend],
        **further,
    )


def of_torch(name, good, expected=None, wrong=None, **more):
    """A schedule that is given its class: here that of steps."""

    def arguments(folder):
        import torch

        return {**good(torch.optim.lr_scheduler.StepLR), "step_size": 2}

    numbers = {"step_size": NOT_POSITIVE_INT, "gamma": NOT_NEGATIVE_OR_ZERO, "step_sise": [1]}
    return Entry(
        name=f"delira.callbacks.{name}",
        good=arguments,
        use=rates_of,
        expected=expected or by_formula(stepped),
        wrong={**numbers, **(wrong or {})},
        needs="torch",
        **more,
    )


def plain_schedule(name, needs, **more):
    """A schedule without arguments of its own."""
    return Entry(
        name=f"delira.callbacks.{name}",
        use=rates_of,
        wrong={"step_on": STEP_ON, "optimizer": NO_OPTIMIZER, **more.pop("wrong", {})},
        needs=needs,
        **more,
    )


def written_by_user(name):
    """Make a schedule as users write them: the rate is a third, a fourth and so on of one."""

    def make(**arguments):
        from delira.training import callbacks

        parts = {"rate_after": lambda self, count: 1 / (3 + count)}
        return type("Mine", (getattr(callbacks, name),), parts)(**arguments)

    return make


def default_of_torch(**arguments):
    """Make the schedule of steps, as users name further classes of PyTorch."""
    import torch

    from delira.training import callbacks

    parts = {"scheduler_cls": torch.optim.lr_scheduler.StepLR, "_names": ("step_size", "gamma")}
    return type("Mine", (callbacks.DefaultPyTorchSchedulerCallback,), parts)(**arguments)


def of_keras(folder):
    import keras

    return {"scheduler_cls": keras.optimizers.schedules.ExponentialDecay, "decay_steps": 2, "decay_rate": 0.5}


def third(count, arguments=None):
    return 1 / (3 + count)


def decayed(count, arguments):
    start = arguments.get("initial_learning_rate", RATE)
    return start * arguments["decay_rate"] ** (count / arguments["decay_steps"])


NO_SCHEDULE = [*NOT_CALLABLE, None, int]

ENTRIES = [
    *(entry(f"{family}Callback{backend}", family, backend) for family in FAMILIES for backend in BACKENDS),
    of_torch(
        "TorchSchedulerCallback",
        lambda cls: {"scheduler_cls": cls},
        right={"step_on": ["iter", "epoch", None], "gamma": [0.5], "monitor": [None, "anything"]},
        wrong={
            "scheduler_cls": NO_SCHEDULE,
            "step_on": STEP_ON,
            "optimizer": NO_OPTIMIZER,
            "monitor": NOT_A_TEXT,
        },
        own=["scheduler_cls"],
        says={"scheduler_cls": ["the schedule int"]},
    ),
    of_torch(
        "DefaultPyTorchSchedulerCallback",
        lambda cls: {},
        make=default_of_torch,
        right={"gamma": [0.5]},
        wrong={"optimizer": NO_OPTIMIZER, "monitor": NOT_A_TEXT, "step_on": STEP_ON},
    ),
    of_torch(
        "TorchScheduler",
        lambda cls: {"scheduler_builder": cls},
        lambda arguments: by_formula(stepped)(
            {**arguments, "step_on": "iter" if arguments.get("step_on_batch") else "epoch"}
        ),
        right={"step_on_batch": [True, np.bool_(False)], "gamma": [0.5]},
        wrong={"scheduler_builder": NO_SCHEDULE, "step_on_batch": NOT_A_BOOL},
        own=["scheduler_builder"],
        says={"scheduler_builder": ["the schedule int", "scheduler_cls"]},
    ),
    plain_schedule(
        "TfSchedulerCallback",
        "tensorflow",
        good=of_keras,
        expected=by_formula(decayed),
        right={"step_on": ["iter", "epoch"], "initial_learning_rate": [0.5]},
        wrong={
            "scheduler_cls": NO_SCHEDULE,
            "decay_steps": ["x", [], STRANGE, 0, NAN, None],
            "decay_rate": ["x", [], STRANGE, NAN, None],
            "decay_stepz": [1],
        },
        own=["scheduler_cls"],
        says={"scheduler_cls": ["the schedule int"], "decay_steps": ["learning rate"], "decay_rate": ["learning rate"]},
    ),
    plain_schedule(
        "OptaxScheduleCallbackJax",
        "flax",
        good=lambda folder: {"schedule": third},
        expected=by_formula(lambda count, arguments: arguments["schedule"](count), "iter"),
        right={"step_on": ["iter", "epoch"], "schedule": [lambda count: 0.5**count]},
        wrong={"schedule": [*NOT_CALLABLE, None, lambda c: "x", lambda c: None, lambda c: NAN]},
        own=["schedule"],
        says={"schedule": ["gave the learning rate"]},
    ),
    *(
        plain_schedule(
            f"Default{backend}SchedulerCallback",
            BACKENDS[backend],
            good=lambda folder: {},
            make=written_by_user(f"Default{backend}SchedulerCallback"),
            expected=by_formula(third),
            right={"step_on": ["iter", "epoch"]},
        )
        for backend in ("Tf", "Jax")
    ),
]
