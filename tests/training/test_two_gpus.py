"""One network on two GPUs: which one a process uses, and ends that are told although GPUs wait without end."""

import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
from problems import linear_problem

from delira.data_loading import BaseDataManager
from delira.errors import WorkerLostError
from delira.training import together
from delira.training.callbacks import AbstractCallback

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")
from trained_in_processes import Deep, Raises, train  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(300),
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]


def data():
    return BaseDataManager({name: array.astype(np.float32) for name, array in linear_problem(43).items()}, 8)


class Current(AbstractCallback):
    """Each process writes down which GPU is its current one, and its memory on each of them."""

    def __init__(self, folder):
        self.folder = folder

    def at_epoch_end(self, trainer, **facts):
        used = [int(torch.cuda.memory_reserved(gpu) > 0) for gpu in range(2)]
        text = f"{torch.cuda.current_device()} {used}"
        (self.folder / f"{torch.distributed.get_rank()}.txt").write_text(text)


@pytest.mark.parametrize("shard", [False, True])
def test_each_process_uses_its_own_gpu_alone(tmp_path, shard):
    torch.cuda.empty_cache()
    how = {"gpu_ids": [0, 1], "shard": shard, "network": Deep, "callbacks": [Current(tmp_path)], "epochs": 1}
    trainer = train(tmp_path / "run", data(), **how)
    told = {file.stem: file.read_text() for file in tmp_path.glob("*.txt")}
    assert told == {"0": "0 [1, 0]", "1": "1 [0, 1]"}
    assert torch.cuda.current_device() == 0
    assert {weight.device.type for weight in trainer.network.parameters()} == {"cpu" if shard else "cuda"}
    trainer.predict(data())
    assert {weight.device.type for weight in trainer.network.parameters()} == {"cuda"}


def send_when_there(path, number):
    def watch():
        while not path.exists():
            time.sleep(0.01)
        for child in psutil.Process().children():
            if os.getsid(child.pid) == child.pid:  # of those that are started, the ones that train
                os.kill(child.pid, number)

    threading.Thread(target=watch, daemon=True).start()


@pytest.mark.parametrize("shard", [False, True])
def test_what_one_process_raises_arrives(tmp_path, shard):
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, data(), gpu_ids=[0, 1], shard=shard, network=Deep, callbacks=[Raises(1)])
    assert train(tmp_path, data(), gpu_ids=[0, 1], shard=shard, network=Deep, epochs=1).state.epoch == 1


@pytest.mark.parametrize("shard", [False, True])
@pytest.mark.parametrize(("number", "text"), [(signal.SIGKILL, "was ended by SIGKILL"), (signal.SIGSTOP, "hangs")])
def test_a_process_that_is_lost_ends_all_and_the_run_goes_on(tmp_path, monkeypatch, number, text, shard):
    monkeypatch.setattr(together, "GIVES_UP_AFTER", 15.0)
    monkeypatch.setattr(together, "_LAST_WORDS", 1.0)
    how = {"gpu_ids": [0, 1], "shard": shard, "network": Deep, "save_freq": 1}
    send_when_there(tmp_path / "history.jsonl", number)
    began = time.monotonic()
    with pytest.raises(WorkerLostError, match=text):
        train(tmp_path, data(), epochs=100_000, **how)
    assert time.monotonic() - began < 90
    reached = torch.load(tmp_path / "checkpoints" / "checkpoint_last.pt", weights_only=True)["epoch"]
    assert train(tmp_path, data(), epochs=reached + 1, **how).state.epoch == reached + 1
