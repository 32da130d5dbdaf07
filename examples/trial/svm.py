"""A support vector machine: a hinge loss, a penalty on the weight alone, a rate that falls at every step.

A callback of five lines draws the separating line at every 10th batch.

Run it with ``python examples/trial/svm.py``. It writes ``runs/trial/svm.png``.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import make_blobs

import delira
from delira.state import BATCH, EPOCH, MODEL
from delira.training.callbacks import ExponentialLR, L2WeightDecay, on_step_training, only_if


def hinge(y_pred, y_true):
    return torch.clamp(1 - y_pred * y_true, min=0).mean()


def line_of(model):
    """The heights at x = -3 and x = 3 of the line on which the model gives 0."""
    (slope_x, slope_y), offset = model.weight[0].tolist(), model.bias.item()
    return [-(offset + slope_x * x) / slope_y for x in (-3.0, 3.0)]


def main() -> dict[str, Any]:
    x, labels = make_blobs(500, centers=[[-1.2, 0.8], [1.2, -0.6]], cluster_std=0.5, random_state=0)
    x, y = x.astype("float32"), (2.0 * labels[:, None] - 1).astype("float32")  # classes are -1 and 1

    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(*x.T, c=labels, cmap="coolwarm", s=8)

    @only_if(lambda state: state[BATCH] % 10 == 0)
    @on_step_training
    def draw(state):
        drawn.append((state[EPOCH], state[BATCH]))
        axes.plot([-3, 3], line_of(state[MODEL]), color="black", alpha=0.05 + 0.045 * state[EPOCH], linewidth=1)

    drawn: list[tuple[int, int]] = []
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    callbacks = [L2WeightDecay(0.01, params="weight"), ExponentialLR(0.999, step_on_batch=True), draw]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trial = delira.Trial(model, optimizer, hinge, ["loss"], callbacks, verbose=0, seed=0)
    history = trial.with_train_data(x, y, batch_size=32).run(20)

    axes.set(xlim=(-3, 3), ylim=(-3, 3), title="the separating line at every 10th batch, later is darker")
    path = Path("runs/trial/svm.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)

    n_steps = sum(record["train_steps"] for record in history)
    [rate] = trial.learning_rates()
    scores = trial.with_test_data(x, batch_size=500).predict()
    accuracy = np.mean(np.sign(scores.numpy()) == y)
    print(f"loss            {history[0]['loss']:.4f} in the first epoch, {history[-1]['loss']:.4f} in the last")
    print(f"accuracy        {accuracy:.4f}")
    print(f"learning rate   {rate:.6f} after {n_steps} steps: 0.1 x 0.999^{n_steps} = {0.1 * 0.999**n_steps:.6f}")
    print(f"drawn           {len(drawn)} times  {path}")
    values = {"first": history[0]["loss"], "last": history[-1]["loss"]}
    return {**values, "accuracy": accuracy, "rate": rate, "drawn": drawn, "model": model}


if __name__ == "__main__":
    main()
