"""A function is minimised, without any data, by four optimizers, whose paths are drawn. On every framework.

The model has two numbers and returns the function's value; the criterion is the state key of what a model returns.

Run it with ``python examples/trial/himmelblau.py`` (or ``... himmelblau.py tensorflow``, ``... himmelblau.py jax``). It
writes ``runs/trial/himmelblau_<backend>.png``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import delira
from delira.metrics import to_dict
from delira.state import METRICS, Y_PRED, state_key
from delira.training.callbacks import on_step_training

PLACE = state_key("place")
START = [0.5, 0.2]
MINIMA = np.array([(3.0, 2.0), (-2.805118, 3.131312), (-3.779310, -3.283186), (3.584428, -1.848126)])


def himmelblau(x, y):
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def in_torch():
    import torch
    from torch.optim import SGD, Adam, RMSprop

    class Point(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.place = torch.nn.Parameter(torch.tensor(START))

        def forward(self, _, state):  # there is no input
            state[PLACE] = self.place * 1.0
            return himmelblau(*self.place)

    makers = {
        "SGD": lambda weights: SGD(weights, 0.003), "momentum": lambda weights: SGD(weights, 0.002, momentum=0.7),
        "Adam": lambda weights: Adam(weights, 0.1), "RMSprop": lambda weights: RMSprop(weights, 0.02),
    }  # fmt: skip
    return {name: (point := Point(), make(point.parameters())) for name, make in makers.items()}


def in_tensorflow():
    import keras
    from keras.optimizers import SGD, Adam, RMSprop

    class Point(keras.Model):
        def __init__(self):
            super().__init__()
            self.place = self.add_weight(shape=(2,), name="place")
            self.place.assign(START)
            self.built = True

        def call(self, _, state):
            state[PLACE] = self.place * 1.0
            return himmelblau(self.place[0], self.place[1])

    optimizers = {"SGD": SGD(0.003), "momentum": SGD(0.002, momentum=0.7), "Adam": Adam(0.1), "RMSprop": RMSprop(0.02)}
    return {name: (Point(), optimizer) for name, optimizer in optimizers.items()}


def in_jax():
    import jax.numpy as jnp
    from flax import nnx
    from optax import adam, rmsprop, sgd

    class Point(nnx.Module):
        def __init__(self):
            self.place = nnx.Param(jnp.array(START))

        def __call__(self, _, state):
            state[PLACE] = self.place * 1.0
            return himmelblau(self.place[0], self.place[1])

    optimizers = {"SGD": sgd(0.003), "momentum": sgd(0.002, momentum=0.7), "Adam": adam(0.1), "RMSprop": rmsprop(0.02)}
    return {name: (Point(), optimizer) for name, optimizer in optimizers.items()}


# ---- every backend


def main(backend: str = "torch") -> dict[str, np.ndarray]:
    parts = {"torch": in_torch, "tensorflow": in_tensorflow, "jax": in_jax}[backend]()
    paths: dict[str, np.ndarray] = {}
    for name, (point, optimizer) in parts.items():
        path = []

        @on_step_training
        def follow(state, path=path):
            path.append(state[METRICS][PLACE].item())

        # to_dict reports what lies under the key as it is, at every step
        delira.Trial(point, optimizer, Y_PRED, [to_dict(PLACE)], [follow], verbose=0, seed=0).for_train_steps(300).run()
        paths[name] = np.array(path)
        distance = np.linalg.norm(MINIMA - path[-1], axis=1).min()
        print(f"{name:<9} ends at ({path[-1][0]:.4f}, {path[-1][1]:.4f}), {distance:.4f} from a minimum")

    axis = np.linspace(0, 4, 200)
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    axes.contour(
        axis, axis - 0.5, himmelblau(axis, axis[:, None] - 0.5), np.geomspace(0.1, 300, 20), colors="lightgray"
    )
    for name, path in paths.items():
        axes.plot(*path.T, ".-", markersize=3, label=name)
    axes.plot(*MINIMA[0], "k+", markersize=12)
    axes.set(xlim=(0, 4), ylim=(-0.5, 3.5), title=f"Himmelblau's function, {backend}")
    axes.legend()
    file = Path(f"runs/trial/himmelblau_{backend}.png")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=80)
    print(f"paths     {file}")
    return paths


if __name__ == "__main__":
    main(*sys.argv[1:])
