"""What the backends cost: a whole fit by delira beside what a user of each framework would write.

The same perceptron is trained on the same digits, in turns, with the same start, batch size, optimizer and loss: in
TensorFlow by ``keras.Model.fit``, in JAX by a loop over a step under ``nnx.cached_partial(nnx.jit(...))``, in
TorchScript by a loop over a ``DataLoader``. No checkpoints but the last, no bar, the history on, one thread. Each
backend is timed in a process of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from delira.data_loading import BaseDataManager

BATCH_SIZE = 32
RATE = 1e-3
LIMITS = {"tensorflow": 0.6, "jax": 1.1, "torchscript": 1.1}
RIVALS = {
    "tensorflow": "keras.Model.fit",
    "jax": "loop over nnx.cached_partial",
    "torchscript": "DataLoader loop",
}
#: before the framework is imported: one thread
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
Fit = Callable[[], float]
"""Trains a fresh network, prepared before; returns the loss of the last epoch."""


def load() -> tuple[np.ndarray, np.ndarray]:
    pixels, digits = load_digits(return_X_y=True)
    return (pixels / 16).astype(np.float32), digits.astype(np.int64)


def delira_fit(trainer_cls: Any, network: Any, loss: Any, optimizer: dict[str, Any], epochs: int, folder: str) -> Fit:
    x, y = load()
    data = BaseDataManager({"data": x, "label": y}, batch_size=BATCH_SIZE)
    trainer = trainer_cls(
        network, folder, losses={"ce": loss}, **optimizer, save_freq=None, logging_type=None, verbose=False, seed=1
    )

    def fit() -> float:
        trainer.train(epochs, data)
        return float(trainer.state.history[-1]["ce"])

    return fit


# ------------------------------------------------------------------ TensorFlow


def tensorflow_contestants() -> dict[str, Callable[[int, str], Fit]]:
    import keras
    import tensorflow as tf

    from delira.models import AbstractTfNetwork
    from delira.training import TfNetworkTrainer

    class Net(AbstractTfNetwork):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.head = keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)

        def call(self, x: Any) -> Any:
            return {"pred": self.head(self.hidden(x))}

    def loss(pred: Any, label: Any) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=pred))

    def rival(epochs: int, folder: str) -> Fit:
        keras.utils.set_random_seed(0)
        x, y = load()
        inputs = keras.Input((64,))
        model = keras.Model(inputs, keras.layers.Dense(10)(keras.layers.Dense(128, activation="relu")(inputs)))
        model.compile(keras.optimizers.Adam(RATE), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return lambda: model.fit(x, y, batch_size=BATCH_SIZE, epochs=epochs, verbose=0).history["loss"][-1]

    def ours(epochs: int, folder: str) -> Fit:
        keras.utils.set_random_seed(0)
        network = Net()
        network(tf.zeros((1, 64)))
        optimizer = {"optimizer_cls": keras.optimizers.Adam, "optimizer_params": {"learning_rate": RATE}}
        return delira_fit(TfNetworkTrainer, network, loss, optimizer, epochs, folder)

    return {"delira": ours, RIVALS["tensorflow"]: rival}


# ------------------------------------------------------------------ JAX


def jax_contestants() -> dict[str, Callable[[int, str], Fit]]:
    import optax
    from flax import nnx

    from delira.models import AbstractJaxNetwork
    from delira.training import JaxNetworkTrainer

    class Net(AbstractJaxNetwork):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.head = nnx.Linear(64, 128, rngs=self.rngs), nnx.Linear(128, 10, rngs=self.rngs)

        def __call__(self, x: Any) -> Any:
            return {"pred": self.head(nnx.relu(self.hidden(x)))}

    def loss(pred: Any, label: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(pred, label).mean()

    def rival(epochs: int, folder: str) -> Fit:
        x, y = load()
        network, rng = Net(), np.random.default_rng(0)
        optimizer = nnx.Optimizer(network, optax.adam(RATE), wrt=nnx.Param)

        def step(network: Any, optimizer: Any, x: Any, y: Any) -> Any:
            value, gradients = nnx.value_and_grad(lambda network: loss(network(x)["pred"], y))(network)
            optimizer.update(network, gradients)
            return value

        compiled = nnx.cached_partial(nnx.jit(step, donate_argnums=(0, 1)), network, optimizer)

        def fit() -> float:
            for _ in range(epochs):
                order = rng.permutation(len(x))
                values = []
                for start in range(0, len(x), BATCH_SIZE):
                    chosen = order[start : start + BATCH_SIZE]
                    values.append(compiled(x[chosen], y[chosen]))
                mean = float(np.mean([float(value) for value in values]))
            return mean

        return fit

    def ours(epochs: int, folder: str) -> Fit:
        optimizer = {"optimizer_cls": optax.adam, "optimizer_params": {"learning_rate": RATE}}
        return delira_fit(JaxNetworkTrainer, Net(), loss, optimizer, epochs, folder)

    return {"delira": ours, RIVALS["jax"]: rival}


# ------------------------------------------------------------------ TorchScript


def torchscript_contestants() -> dict[str, Callable[[int, str], Fit]]:
    import torch

    from delira.models import AbstractTorchScriptNetwork
    from delira.training import TorchScriptNetworkTrainer

    torch.set_num_threads(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        class Net(AbstractTorchScriptNetwork):
            def __init__(self):
                super().__init__()
                self.hidden, self.head = torch.nn.Linear(64, 128), torch.nn.Linear(128, 10)

            @torch.jit.script_method
            def forward(self, x: torch.Tensor):
                return {"pred": self.head(torch.relu(self.hidden(x)))}

    def loss(pred: Any, label: Any) -> Any:
        return torch.nn.functional.cross_entropy(pred, label.long())

    def rival(epochs: int, folder: str) -> Fit:
        torch.manual_seed(0)
        network = Net()
        optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
        dataset = torch.utils.data.TensorDataset(*map(torch.from_numpy, load()))
        loader = torch.utils.data.DataLoader(dataset, BATCH_SIZE, shuffle=True)

        def fit() -> float:
            network.train()
            for _ in range(epochs):
                total = torch.zeros(())
                for x, y in loader:
                    value = loss(network(x)["pred"], y)
                    optimizer.zero_grad()
                    value.backward()
                    optimizer.step()
                    total += value.detach() * len(x)
                mean = total.item() / len(dataset)
            return mean

        return fit

    def ours(epochs: int, folder: str) -> Fit:
        torch.manual_seed(0)
        optimizer = {"optimizer_cls": torch.optim.Adam, "optimizer_params": {"lr": RATE}}
        return delira_fit(TorchScriptNetworkTrainer, Net(), loss, optimizer, epochs, folder)

    return {"delira": ours, RIVALS["torchscript"]: rival}


# ------------------------------------------------------------------ the race

CONTESTANTS = {
    "tensorflow": tensorflow_contestants,
    "jax": jax_contestants,
    "torchscript": torchscript_contestants,
}


def race(backend: str, epochs: int, repeats: int) -> dict[str, Any]:
    """Seconds of each fit by contestant, in turns; the first round warms up and is not counted.

    Compiling is part of a fit, for both alike.
    """
    seconds: dict[str, list[float]] = {}
    losses: dict[str, float] = {}
    contestants = CONTESTANTS[backend]()
    for repeat in range(repeats + 1):
        for name, prepare in contestants.items():
            with tempfile.TemporaryDirectory() as folder:
                fit = prepare(epochs, folder)
                started = time.perf_counter()
                losses[name] = float(fit())
                taken = time.perf_counter() - started
            if repeat:
                seconds.setdefault(name, []).append(taken)
    if max(losses.values()) > 1.2 * min(losses.values()) + 0.01:
        raise SystemExit(f"the fits are not comparable: {losses}")
    return {"seconds": seconds, "losses": losses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--backends", "--rooms", dest="backends", default=",".join(CONTESTANTS), help="which, by comma (default all)"
    )
    parser.add_argument("--epochs", type=int, default=30, help="epochs of one fit (default 30)")
    parser.add_argument("--repeats", type=int, default=7, help="fits of each kind that count (default 7)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(race(given.here, given.epochs, given.repeats)))
        return
    steps = given.epochs * -(-len(load()[0]) // BATCH_SIZE)
    print(f"whole fits of {given.epochs} epochs, {steps} steps; median of {given.repeats}, in turns, one thread")
    figures = {}
    for backend in given.backends.split(","):
        command = [sys.executable, __file__, "--here", backend, "--epochs", str(given.epochs), "--repeats"]
        done = subprocess.run(
            [*command, str(given.repeats)], env={**os.environ, **ONE_THREAD}, check=True, stdout=subprocess.PIPE
        )
        figures[backend] = json.loads(done.stdout.splitlines()[-1])
        seconds = figures[backend]["seconds"]
        micro = {name: 1e6 * statistics.median(taken) / steps for name, taken in seconds.items()}
        rival = RIVALS[backend]
        value = statistics.median(a / b for a, b in zip(seconds["delira"], seconds[rival], strict=True))
        verdict = "kept" if value <= LIMITS[backend] else "MISSED"
        print(
            f"{backend:12} delira {micro['delira']:7.1f} us/step, {rival} {micro[rival]:7.1f} us/step: "
            f"{value:.2f}   target <= {LIMITS[backend]:.2f}: {verdict}"
        )
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
