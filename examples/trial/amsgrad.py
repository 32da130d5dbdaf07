"""A sum of lines on which Adam goes the wrong way and AMSGrad does not: a network that reads the number of the step.

At every 101st step the slope is 10.1, else -0.1, so the sum falls towards -1; Adam forgets the rare large slope.
Reddi, Kale and Kumar (2018), https://arxiv.org/abs/1904.09237.

Run it with ``python examples/trial/amsgrad.py``. It writes ``runs/trial/amsgrad.png``.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import delira
from delira.state import BATCH, MODEL, Y_PRED, state_key
from delira.training.callbacks import on_step_training

PLACE = state_key("place")


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.place = torch.nn.Parameter(torch.zeros(()))

    def forward(self, _, state):  # there is no input
        state[PLACE] = self.place * 1.0
        return self.place * (10.1 if state[BATCH] % 101 == 1 else -0.1)


@on_step_training
def stay_in_range(state):
    with torch.no_grad():
        state[MODEL].place.clamp_(-1, 1)


def walk(n_steps: int, **settings) -> np.ndarray:
    line, places = Line(), []

    @on_step_training
    def follow(state):
        places.append(state[PLACE].item())

    optimizer = torch.optim.Adam(line.parameters(), lr=0.1, betas=(0.9, 0.99), **settings)
    trial = delira.Trial(line, optimizer, Y_PRED, [], [stay_in_range, follow], verbose=0)
    trial.for_train_steps(n_steps).run()
    return np.array(places)


def main() -> dict[str, float]:
    paths = {"Adam": walk(8_080), "AMSGrad": walk(8_080, amsgrad=True)}
    found = {name: places[-101:].mean() for name, places in paths.items()}
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    for name, places in paths.items():
        axes.plot(places, linewidth=0.5, label=name)
        print(f"{name:<8} in the last 101 steps at {found[name]:+.3f} in the mean")
    axes.set(xlabel="step", ylabel="place", title="the minimum is at -1")
    axes.legend()
    path = Path("runs/trial/amsgrad.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    print(f"paths    {path}")
    return found


if __name__ == "__main__":
    main()
