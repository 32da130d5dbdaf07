"""``delira rerun`` of networks that two processes trained together, begun by delira itself or by torchrun."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]
ROOT = Path(__file__).parents[2]
SCRIPT = '''
"""A script whose network is trained by two processes."""

import sys

import numpy as np
import torch

from delira.data_loading import BaseDataManager
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 1))

    def forward(self, data):
        return {"pred": self.layers(data)}


def numbers():
    data = np.random.default_rng(0).normal(size=(36, 3)).astype(np.float32)
    return BaseDataManager({"data": data, "label": data.sum(1, keepdims=True)}, 6)


if __name__ == "__main__":
    training = {
        "losses": {"mse": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.05},
        "num_epochs": 2, "device": "cpu", "verbose": 0, "save_path": "runs", "name": "two",
    }
    folders = {name: training.pop(name) for name in ("save_path", "name")}
    how = {"devices": 2} if "alone" in sys.argv else {}
    PyTorchExperiment({"training": {**training, **how}}, Net, **folders).kfold(numbers, num_splits=2, random_seed=1)
'''
TORCHRUN = (
    "-m", "torch.distributed.run", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0",
    "--local-addr=127.0.0.1",
)  # fmt: skip
RERUN = ("-m", "delira", "rerun", "runs/two", "--import", "two.py", "--import", "torch.nn.modules.loss")


def python(folder, *words):
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=250,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.parametrize("how", [("two.py", "alone"), (*TORCHRUN, "two.py")], ids=["devices", "torchrun"])
def test_it_is_equal_bit_for_bit(tmp_path, how):
    (tmp_path / "two.py").write_text(SCRIPT)
    done = python(tmp_path, *how)
    assert done.returncode == 0, done.stderr
    again = python(tmp_path, *RERUN, "--json")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert (told["is_equal"], told["epochs"], told["hashes"]) == (True, 4, 4)
    manifest = json.loads((Path(tmp_path / told["rerun"]) / "manifest.json").read_text())
    assert manifest["settings"]["devices"] == 2


def test_torchrun_is_not_needed_and_refused(tmp_path):
    (tmp_path / "two.py").write_text(SCRIPT)
    assert python(tmp_path, "two.py", "alone").returncode == 0
    done = python(tmp_path, *TORCHRUN, *RERUN)
    assert "it begins as many processes as the run had by itself; call it without torchrun" in done.stderr
    assert not (tmp_path / "runs/two-reruns").exists()
