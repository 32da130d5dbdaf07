"""What folds in parallel bring: a cross-validation of the digits in one process, in two, and on a cluster of Ray.

Ten folds of a perceptron, one thread a process in all, each in an interpreter of its own whose start counts, as does
that of the processes; the start of Ray's cluster is stated, and left out of its ratio. The results are compared first:
they are the same bits. Then the two processes again beside what users of scikit-learn and of Lightning write, on the
same folds, if skorch and Lightning are there (``make bench`` installs them): ``cross_val_score(n_jobs=2)`` and a loop
over trainers. All keep a fifth of each training part for a validation after each epoch, test the best network, and
write after each epoch what a training that was killed goes on from: that is the same task. Skorch that writes nothing,
and loses all that it computed if it is killed, is told besides, with no target.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

N_FOLDS = 10
#: seconds that one process must take at least for the targets to be about the training, not about what starts
LEAST = 120.0
#: most of the sequential time that is allowed with two processes on two cores
LIMIT = 0.58
#: most of the time of two processes that is allowed with Ray, its start aside
LIMIT_OF_RAY = 1.15
#: most of the time of the faster peer, which writes checkpoints too, that is allowed with two processes
LIMIT_OF_PEERS = 0.6

PROGRAM = """
import hashlib, sys, time
import numpy as np
import torch
from sklearn.datasets import load_digits

from delira.data_loading import BaseDataManager
from delira.execution import RayExecutor
from delira.metrics import accuracy
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment

class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def forward(self, x):
        return {"pred": self.layers(x)}

folder, place, num_epochs, n_folds = *sys.argv[1:3], *map(int, sys.argv[3:])
pixels, digits = load_digits(return_X_y=True)
data = BaseDataManager({"data": pixels.astype("float32") / 16, "label": digits}, batch_size=32)
settings = {
    "losses": {"ce": torch.nn.CrossEntropyLoss()}, "optimizer_cls": torch.optim.Adam, "num_epochs": num_epochs,
    "val_metrics": {"accuracy": accuracy}, "val_score_key": "accuracy", "num_threads": 1, "verbose": 0,
}
experiment = PyTorchExperiment({"training": settings}, Net, name="digits", save_path=folder)
started = time.perf_counter()
where = {"here": {}, "processes": {"n_jobs": 2}}.get(place) if place != "ray" else {"executor": RayExecutor(n_jobs=2)}
begun = time.perf_counter() - started
result = experiment.kfold(data, num_splits=n_folds, shuffle=True, random_seed=0, **where)
bits = hashlib.sha256()
for fold in result.folds:
    bits.update(np.ascontiguousarray(fold.predictions["pred"]).tobytes() + repr(fold.history).encode())
if place == "ray":
    where["executor"].shutdown()
print(bits.hexdigest(), begun)
"""

SKORCH = """
import sys
import tempfile
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Checkpoint, EarlyStopping
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold, cross_val_score

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def forward(self, x):
        return self.layers(x)

class OwnFolder(Checkpoint):
    def initialize(self):  # each fold writes into its own
        self.dirname = tempfile.mkdtemp(dir=self.dirname)
        return super().initialize()

folder, place, num_epochs, n_folds = *sys.argv[1:3], *map(int, sys.argv[3:])
saving = [OwnFolder(monitor=None, dirname=folder, sink=lambda text: None)] if place == "skorch" else []
pixels, digits = load_digits(return_X_y=True)
net = NeuralNetClassifier(
    Net, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.Adam, lr=1e-3, max_epochs=num_epochs, batch_size=32,
    iterator_train__shuffle=True, verbose=0, callbacks=[
        EarlyStopping("valid_acc", patience=num_epochs, lower_is_better=False, load_best=True, sink=lambda text: None),
        *saving,
    ],
)
splits = KFold(n_folds, shuffle=True, random_state=0)
scores = cross_val_score(net, pixels.astype("float32") / 16, digits, cv=splits, n_jobs=2, error_score="raise")
print(scores.mean(), 0.0)
"""

LIGHTNING = """
import logging, sys, warnings
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold, train_test_split
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def training_step(self, batch, number):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.layers(x), y)

    def validation_step(self, batch, number):
        x, y = batch
        self.log("accuracy", (self.layers(x).argmax(1) == y).float().mean(), batch_size=len(y))

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
folder, num_epochs, n_folds = sys.argv[1], *map(int, sys.argv[3:])
pixels, digits = load_digits(return_X_y=True)
data = TensorDataset(torch.from_numpy(pixels.astype("float32") / 16), torch.from_numpy(digits))
scores = []
for number, (train, test) in enumerate(KFold(n_folds, shuffle=True, random_state=0).split(pixels)):
    trainer = lightning.Trainer(
        max_epochs=num_epochs, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, callbacks=[
            ModelCheckpoint(f"{folder}/{number}", monitor="accuracy", mode="max", save_last=True),
        ],
    )
    parts = [*train_test_split(train, test_size=0.2, random_state=0), test]
    train, val, test = (
        DataLoader(torch.utils.data.Subset(data, part.tolist()), batch_size=32, shuffle=part is parts[0])
        for part in parts
    )
    trainer.fit(Net(), train, val)
    scores.append(trainer.test(dataloaders=test, ckpt_path="best", verbose=False)[0]["accuracy"])
print(sum(scores) / len(scores), 0.0)
"""

#: where "make bench" puts them, beside the environment
PEERS_FOLDER = Path(__file__).parents[1] / ".venv" / "peers"
#: by place: what is told, and the program
PEERS = {"skorch": ("skorch, two jobs", SKORCH), "lightning": ("Lightning, a loop", LIGHTNING)}
#: a place of skorch, too
UNSAVED = "unsaved"


def run(program: str, place: str, num_epochs: int) -> tuple[float, float, str]:
    """Seconds of a whole program, those in which a cluster began, and what its result is known by."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if place in {*PEERS, UNSAVED}:
        environment["PYTHONPATH"] = str(PEERS_FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", program, folder, place, *map(str, (num_epochs, N_FOLDS))]
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        bits, begun = done.stdout.split()[-2:]
        return time.perf_counter() - started, float(begun), bits


def tell(name: str, seconds: float, ratio: float, limit: float) -> None:
    print(f"{name:<17} {seconds:7.1f} s   {ratio:.3f}   target <= {limit}: {'kept' if ratio <= limit else 'MISSED'}")


def beside_peers(num_epochs: int) -> dict[str, float]:
    """Tell what two processes take beside those peers that are there; their seconds, by name."""
    peers = [name for name in PEERS if (PEERS_FOLDER / name).is_dir()]
    seconds: dict[str, float] = {}
    for name in PEERS:
        if name not in peers:
            print(f"{name}: not measured beside it, as it is not in {PEERS_FOLDER / name}; make bench installs it")
    if peers:
        print(f"{N_FOLDS} folds of {num_epochs} epochs, beside peers")
        for name in peers:
            told, program = PEERS[name]
            seconds[name], _, score = run(program, name, num_epochs)
            print(f"{told:<17} {seconds[name]:7.1f} s   accuracy {float(score):.3f}")
        fastest = min(seconds.values())
        seconds["delira"] = run(PROGRAM, "processes", num_epochs)[0]
        tell("two processes", seconds["delira"], seconds["delira"] / fastest, LIMIT_OF_PEERS)
    if "skorch" in peers:
        seconds[UNSAVED], _, score = run(SKORCH, UNSAVED, num_epochs)
        print(f"skorch, no files  {seconds[UNSAVED]:7.1f} s   accuracy {float(score):.3f}")
        print(f"two processes beside it  {seconds['delira'] / seconds[UNSAVED]:.3f}   no target")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=600, help="of each fold (default 600: two minutes or more)")
    parser.add_argument("--peer-epochs", type=int, default=350, help="of each fold beside the peers (default 350)")
    parser.add_argument("--repeats", type=int, default=1, help="how often each is run (default 1)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    places = ["here", "processes", *(["ray"] if importlib.util.find_spec("ray") else [])]
    seconds: dict[str, list[float]] = {place: [] for place in places}
    begun = dict.fromkeys(places, 0.0)
    for _ in range(given.repeats):
        bits = set()
        for place in places:
            taken, begun[place], said = run(PROGRAM, place, given.epochs)
            seconds[place].append(taken - begun[place])
            bits.add(said)
        if len(bits) != 1:
            raise SystemExit("they did not compute the same")
    best = {place: min(taken) for place, taken in seconds.items()}
    ratios = {"processes": best["processes"] / best["here"]}
    print(f"{N_FOLDS} folds of {given.epochs} epochs, one thread a process, start-up included; the same bits")
    print(f"here              {best['here']:7.1f} s")
    if best["here"] < LEAST:
        print(f"in one process it took less than {LEAST:g} s, for which the targets are said; choose more --epochs")
    tell("two processes", best["processes"], ratios["processes"], LIMIT)
    if "ray" in best:
        ratios["ray"] = best["ray"] / best["processes"]
        tell("two of Ray", best["ray"], ratios["ray"], LIMIT_OF_RAY)
        print(f"Ray's cluster     {begun['ray']:7.1f} s   to begin, left out above")
    peers = beside_peers(given.peer_epochs)
    if given.json:
        figures = {"seconds": seconds, "ratios": ratios, "begun": begun, "peers": peers}
        given.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
