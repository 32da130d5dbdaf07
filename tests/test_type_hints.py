"""What a user's own type checker says of callbacks, decorators and metrics: mypy, as strict as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import delira

pytest.importorskip("mypy", reason="the types are read by mypy")

RIGHT = """
import torch

import delira
from delira.metrics import Metric, MetricTree, default_for_key, lambda_metric, mean, std
from delira.state import EPOCH, LOSS, Y_PRED, Y_TRUE, State
from delira.training.callbacks import (
    Callback,
    CallbackList,
    StepLR,
    WeightDecay,
    add_to_loss,
    bind_to,
    on_end_epoch,
    on_step_training,
    once,
    once_per_epoch,
    only_if,
    traceable,
)


class Mine(Callback):
    phases = ("fit",)

    def on_end_epoch(self, state: State) -> None:
        super().on_end_epoch(state)
        print(state[EPOCH])

    @once_per_epoch
    def on_step_training(self, state: State) -> None:
        print(state[LOSS])

    @add_to_loss
    def penalty(self, state: State) -> float:
        return 1.0

    @only_if(lambda self, state: True)
    def on_start(self, state: State) -> None:
        print(state[EPOCH])


@once
@on_step_training
@on_end_epoch
def look(state: State) -> None:
    print(state[LOSS])


@traceable
@add_to_loss
@only_if(lambda state: True)
def more(state: State) -> float:
    return 1.0


@bind_to("on_end")
def end(state: State) -> None:
    print(state)


@once
def maybe(state: State) -> float:
    return 1.0


number: float | None = maybe(State())


@default_for_key("distance")
@mean
@std(unbiased=False)
class Distance(Metric):
    def __init__(self) -> None:
        super().__init__("distance")

    def process(self, *args: State) -> object:
        return abs(args[0][Y_PRED] - args[0][Y_TRUE])


@mean
@lambda_metric("right")
def right(y_pred: torch.Tensor, y_true: torch.Tensor) -> torch.Tensor:
    return y_pred.argmax(1) == y_true


distance: Distance = Distance()
tree: MetricTree = right
both: MetricTree = std(mean(LOSS))
callbacks = CallbackList([[Mine(), look], more, end]).copy()
net = torch.nn.Linear(2, 2)
trial = delira.Trial(
    net,
    torch.optim.SGD(net.parameters(), lr=0.1),
    torch.nn.CrossEntropyLoss(),
    metrics=["acc", "loss", Distance(), right],
    callbacks=[Mine(), look, more, end, WeightDecay(1e-3), StepLR(2)],
)
history = trial.with_train_data(torch.zeros(8, 2), torch.zeros(8).long(), batch_size=4).run(2)
print(history[-1]["loss"])
"""

WRONG = """
from delira.metrics import Metric, default_for_key, mean
from delira.state import State
from delira.training.callbacks import Callback, add_to_loss, on_end_epoch, once, only_if


class Mine(Callback):
    def on_end_epoch(self, state: int) -> None:
        print(state)

    def on_step_training(self) -> None:
        print("no state")


@on_end_epoch
def none() -> None:
    print("no state")


@add_to_loss
def wrong(state: str) -> float:
    return 1.0


@once
def maybe(state: State) -> float:
    return 1.0


number: float = maybe(State())
only_if(True)
mean(1)


@default_for_key("nothing")
@mean
class Nothing(Metric):
    pass


text: str = Nothing("nothing")
"""


def check(code, folder):
    """The lines with errors, and the kind of each."""
    (folder / "script.py").write_text(code, encoding="utf-8")
    # what the library consists of is checked by its own settings
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "script.py"]
    environment = {**os.environ, "MYPYPATH": str(Path(delira.__file__).parents[1])}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert not done.stderr
    lines = code.splitlines()
    found = []
    for line in done.stdout.splitlines():
        _, number, kind, message = line.split(":", 3)
        if kind.strip() == "error":
            found.append((lines[int(number) - 1].strip(), message.rpartition("[")[2].rstrip("]")))
    return found


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_right_script_is_right_and_a_wrong_one_is_refused(tmp_path):
    pytest.importorskip("torch", reason="the script is one of PyTorch")
    assert check(RIGHT, tmp_path) == []
    assert check(WRONG, tmp_path) == [
        ("def on_end_epoch(self, state: int) -> None:", "override"),
        ("def on_step_training(self) -> None:", "override"),
        ("@on_end_epoch", "arg-type"),
        ("@add_to_loss", "arg-type"),
        ("number: float = maybe(State())", "assignment"),
        ("only_if(True)", "arg-type"),
        ("mean(1)", "call-overload"),
        ('text: str = Nothing("nothing")', "assignment"),
    ]
