"""One network trained by several processes: the numbers of one, exact resume, and ends that are told."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from executors import EXECUTORS, executor_called
from problems import linear_problem, mae

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, NetworkError, TrainingInterrupted, WorkerLostError
from delira.training import together
from delira.training.ranks import Ranks

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")
from trained_in_processes import (  # noqa: E402
    Add,
    Classes,
    Clip,
    ClipAll,
    Gan,
    LeaveOut,
    Noise,
    NoTravel,
    Raises,
    Sleepy,
    SquaresOfClasses,
    Where,
    ignoring_closure,
    kfold,
    plain_closure,
    rmse_of_step,
    train,
    values_of,
    weights_of,
)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]


def data(n=43, bad=None):
    arrays = {name: array.astype(np.float32) for name, array in linear_problem(n).items()}
    if bad is not None:
        arrays["data"][bad] = np.nan
    return BaseDataManager(arrays, 8)


def others():
    """Processes that this one has started and that are still there."""
    return [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(autouse=True)
def nobody_is_left():
    before, hook = {child.pid for child in others()}, sys.excepthook
    yield
    assert sys.excepthook is hook
    assert {child.pid for child in others()} <= before
    assert not torch.distributed.is_initialized()
    assert "GLOO_SOCKET_IFNAME" not in os.environ


# ---- the numbers of one process


def check_same(one, several, rtol=1e-5):
    for alone, together_ in zip(values_of(one), values_of(several), strict=True):
        assert alone.keys() == together_.keys()
        for name, value in alone.items():
            np.testing.assert_allclose(together_[name], value, rtol=rtol, err_msg=name)
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(several)[name], weight, rtol=rtol, atol=1e-6, err_msg=name)


def test_two_processes_learn_what_one_does(tmp_path):
    """Batches of 8 samples, the last one of 3; metrics over steps, epochs and the validation."""
    how = {"train_metrics": {"rmse": rmse_of_step}, "metrics": {"mae": mae}, "epochs": 17}
    one = train(tmp_path / "one", data(), **how)
    two = train(tmp_path / "two", data(), devices=2, device="cpu", **how)
    assert one.state.global_step == two.state.global_step > 100
    check_same(one, two)
    assert sorted(path.name for path in (tmp_path / "one").rglob("*")) == sorted(
        path.name for path in (tmp_path / "two").rglob("*")
    )


HOW = {
    "an empty share": {"n": 41},
    "smaller than four": {"n": 42, "devices": 4},
    "adam": {"optimizer_cls": "Adam"},
    "accumulation": {"gradient_accumulation_steps": 3},
    "accumulation and hooks": {"gradient_accumulation_steps": 3, "callbacks": [Clip(0.1)]},
    "clipping": {"gradient_clip_norm": 0.2},
    "left out": {"nonfinite": "skip", "n": 40, "bad": 13},
    "bf16": {"mixed_precision": "bf16", "rtol": 0.02},
    "hooks on gradients": {"callbacks": [Clip(0.1)]},
    "a closure by hand": {"closure": plain_closure},
    "a closure that does not scale": {"closure": ignoring_closure},
    "a GAN": {"network": Gan},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOW)
def test_several_processes_learn_what_one_does(tmp_path, name):
    how = dict(HOW[name])
    defaults = {"n": 43, "devices": 2, "rtol": 1e-5, "bad": None}
    n, devices, rtol, bad = (how.pop(key, default) for key, default in defaults.items())
    manager = data(n, bad)
    one = train(tmp_path / "one", manager, epochs=4, **how)
    several = train(tmp_path / "several", manager, epochs=4, devices=devices, device="cpu", **how)
    check_same(one, several, rtol)
    if bad is not None:
        assert several.state.history
        assert (
            [o.num_skipped for o in several.optimizers.values()]
            == [o.num_skipped for o in one.optimizers.values()]
            != [0]
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "gradients",
    [{}, {"gradient_accumulation_steps": 2}, {"callbacks": [LeaveOut()]}, {"callbacks": [Clip(0.1)]}],
    ids=["each", "accumulated", "changed in a share", "hooks on gradients"],
)
def test_losses_that_count_something_else_than_samples_are_exact(tmp_path, caplog, gradients):
    """Of the first batches one share has rare classes, and the other nothing but targets that are left out."""
    arrays = {"data": linear_problem(43)["data"].astype(np.float32), "label": np.arange(43) % 3}
    arrays["label"][4:8] = -100
    arrays["label"][8:13] = 2
    manager = BaseDataManager(arrays, 8)
    torch_losses = {
        "ce": torch.nn.CrossEntropyLoss(torch.tensor([0.1, 1.0, 5.0])),
        "smooth": torch.nn.CrossEntropyLoss(label_smoothing=0.1),
        "squares": SquaresOfClasses(),
    }
    how = {"network": Classes, "losses": torch_losses, "val_metrics": {}, "epochs": 4, **gradients}
    one = train(tmp_path / "one", manager, **how)
    for devices in (2, 4):
        check_same(one, train(tmp_path / str(devices), manager, devices=devices, device="cpu", **how))
    assert "process" not in caplog.text


@pytest.mark.slow
def test_statistics_of_the_first_are_kept_and_validated(tmp_path, caplog):
    trainer = train(tmp_path, data(44), devices=2, device="cpu", batchnorm=True, epochs=2)
    alone = trainer.evaluate(data(44), metrics={"mse": lambda y_true, y_pred: ((y_true - y_pred) ** 2).mean()})
    assert caplog.text.count("each of the 2 processes normalises its share of a batch by itself") == 1
    # computed by both of them with the statistics of the first, and here by the first alone
    np.testing.assert_allclose(alone.means()["mse"], trainer.state.history[-1]["val_squares"], rtol=1e-5)


@pytest.mark.slow
def test_each_process_has_its_share_and_the_first_alone_writes(tmp_path):
    told = tmp_path / "told"
    told.mkdir()
    train(tmp_path / "run", data(), devices=2, device="cpu", callbacks=[Where(told)], epochs=1)
    lines = {path.stem: path.read_text().split() for path in told.iterdir()}
    assert lines == {"0": ["4"] * 5 + ["2"], "1": ["4"] * 5 + ["1"]}


@pytest.mark.parametrize(("n_samples", "size"), [(8, 2), (3, 2), (1, 2), (5, 4), (2, 4), (1, 4), (7, 3)])
def test_shares_are_the_batch_and_the_first_is_never_empty(n_samples, size):
    shares = [Ranks(rank, size).share({"x": np.arange(n_samples)}, n_samples) for rank in range(size)]
    counted = [share["x"][:count] for share, count in shares]
    assert np.concatenate(counted).tolist() == list(range(n_samples))
    assert [Ranks(rank, size).count(n_samples) for rank in range(size)] == [*map(len, counted)]
    assert len(counted[0]) == max(map(len, counted)) <= min(map(len, counted)) + 1
    assert all(len(share["x"]) for share, _ in shares)  # who has none takes part with one


# ---- goes on exactly


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_a_run_goes_on_with_the_same_bits(tmp_path, devices):
    how = {"devices": devices, "device": "cpu", "dropout": 0.4, "gradient_accumulation_steps": 2, "save_freq": 1}
    whole = train(tmp_path / "whole", data(), epochs=4, **how)
    train(tmp_path / "parts", data(), epochs=2, **how)
    parts = train(tmp_path / "parts", data(), epochs=4, **how)
    assert values_of(parts) == values_of(whole)
    for name, weight in weights_of(whole).items():
        np.testing.assert_array_equal(weights_of(parts)[name], weight)


def kill_when(condition, send):
    """Send a signal in the background as soon as something is the case."""

    def watch():
        while not condition():
            time.sleep(0.01)
        send()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_signal_to_the_first_ends_all_after_a_checkpoint_and_the_run_goes_on(tmp_path):
    # groups of four batches and of two, in whose midst each process has gradients of its own
    how = {"devices": 2, "device": "cpu", "dropout": 0.4, "save_freq": 1, "gradient_accumulation_steps": 4}
    how["callbacks"] = [Sleepy(0.2)]
    whole = train(tmp_path / "whole", data(), epochs=3, **how)
    run = tmp_path / "stopped"
    kill_when(lambda: (run / "history.jsonl").exists(), lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(TrainingInterrupted, match=r"after (step 4 of )?epoch"):
        train(run, data(), epochs=3, **how)
    again = train(run, data(), epochs=3, **how)
    assert values_of(again) == values_of(whole)


def kill_others(number=signal.SIGKILL):
    for child in psutil.Process().children():
        if os.getsid(child.pid) == child.pid:  # of those that are started, the ones that train
            os.kill(child.pid, number)


def killed(run, n_epochs):
    """Kill another process after so many epochs."""
    path = run / "history.jsonl"
    kill_when(lambda: path.exists() and path.read_text().count("\n") >= n_epochs, kill_others)


@pytest.mark.slow
def test_a_process_that_is_killed_ends_all_and_the_run_goes_on(tmp_path):
    how = {"devices": 2, "device": "cpu", "dropout": 0.4, "save_freq": 1, "callbacks": [Sleepy(0.02)]}
    whole = train(tmp_path / "whole", data(), epochs=4, **how)
    killed(tmp_path / "killed", 2)
    with pytest.raises(WorkerLostError, match="was ended by SIGKILL") as caught:
        train(tmp_path / "killed", data(), epochs=4, **how)
    assert "in process 1 of the 2 that train the network" in "".join(caught.value.__notes__)
    again = train(tmp_path / "killed", data(), epochs=4, **how)
    assert values_of(again) == values_of(whole)


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from problems import linear_problem
from trained_in_processes import Sleepy, train
from delira.data_loading import BaseDataManager

arrays = {name: array.astype(np.float32) for name, array in linear_problem(43).items()}
how = {"devices": 2, "device": "cpu", "dropout": 0.4, "save_freq_steps": 2, "keep_last_checkpoints": 3}
train(Path(sys.argv[1]), BaseDataManager(arrays, 8), epochs=120, callbacks=[Sleepy(float(sys.argv[2]))], **how)
"""


@contextlib.contextmanager
def started(run, seconds, log):
    """A program that trains, or goes on, with pauses of so many seconds; it is the first of the processes."""
    tests = Path(__file__).parents[1]
    paths = [tests, Path(__file__).parent, tests.parent, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    with log.open("w") as file:
        command = [sys.executable, "-c", PROGRAM, run, str(seconds)]
        program = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def progress(run):
    """Epoch and step of the newest checkpoint."""
    names = [re.findall(r"\d+", path.name) for path in (run / "checkpoints").glob("checkpoint_epoch_*_step_*.pt")]
    return max((tuple(map(int, numbers)) for numbers in names), default=(0, 0))


def kill_one(program, rank):
    """Kill the first process, or the other one; none of them may be left."""
    first = psutil.Process(program.pid)
    group = [first, *first.children(recursive=True)]
    other = next(child for child in first.children() if os.getsid(child.pid) == child.pid)
    (first, other)[rank].kill()
    code = program.wait(60)
    assert not psutil.wait_procs(group, timeout=20)[1]
    return code


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_processes_that_are_killed_forty_times_at_random(tmp_path):
    """Each time the run got on before; the first process is killed as well as the other one."""
    rng, log, kills = random.Random(0), tmp_path / "log.txt", []
    whole, run = tmp_path / "whole", tmp_path / "killed"
    with started(whole, 0.0, log) as program:
        assert program.wait(300) == 0, log.read_text()
    while len(kills) < 40:
        before, rank = progress(run), rng.randrange(2)
        with started(run, 0.04, log) as program:
            while progress(run) == before and program.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.3))
            assert program.poll() is None, log.read_text()
            assert kill_one(program, rank) == (1 if rank else -signal.SIGKILL)
        assert not rank or "WorkerLostError" in log.read_text()
        kills.append((rank, progress(run)))
    assert {rank for rank, _ in kills} == {0, 1}
    assert (0, 0) < kills[0][1] < kills[-1][1] < (119, 0)
    with started(run, 0.0, log) as program:
        assert program.wait(300) == 0, log.read_text()
    expected, found = (
        torch.load(one / "checkpoints" / "checkpoint_last.pt", weights_only=True) for one in (whole, run)
    )
    assert found["epoch"] == expected["epoch"] == 120
    assert found["state"]["history"] == expected["state"]["history"]
    for name, weight in expected["model"].items():
        np.testing.assert_array_equal(found["model"][name], weight)


@pytest.mark.slow
def test_a_process_that_hangs_ends_all_within_the_time_that_is_stated(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "GIVES_UP_AFTER", 8.0)
    monkeypatch.setattr(together, "_LAST_WORDS", 1.0)
    path = tmp_path / "history.jsonl"
    kill_when(path.exists, lambda: kill_others(signal.SIGSTOP))
    began = time.monotonic()
    with pytest.raises(WorkerLostError, match=r"hangs"):
        train(tmp_path, data(), devices=2, device="cpu", epochs=1000)
    assert time.monotonic() - began < 60


@pytest.mark.slow_cases("[0]")
@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_of_one_process_arrives_with_its_type_and_traceback(tmp_path, rank):
    with pytest.raises(ZeroDivisionError) as caught:
        train(tmp_path, data(), devices=2, device="cpu", callbacks=[Raises(rank)])
    shown = str(caught.value.__cause__) if rank else "".join(map(str, caught.traceback))
    assert "at_iter_begin" in shown


@pytest.mark.slow
def test_weights_that_come_apart_are_refused(tmp_path):
    with pytest.raises(NetworkError, match=r"the weight 'linear.weight' of process 1 is not that of the first"):
        train(tmp_path, data(), devices=2, device="cpu", callbacks=[Noise()], epochs=2)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("how", [{}, {"gradient_accumulation_steps": 3}, {"shard": True}], ids=str)
def test_two_gpus_learn_what_one_does(tmp_path, how):
    one = train(tmp_path / "one", data(), gpu_ids=[0], epochs=4, **({} if "shard" in how else how))
    two = train(tmp_path / "two", data(), gpu_ids=[0, 1], epochs=4, **how)
    check_same(one, two, rtol=1e-4)


# ---- refused


REFUSED = [
    ({"devices": 2}, "^devices=2 was asked for, but PyTorch sees no GPU; device='cpu' with devices=2"),
    ({"gpu_ids": [0, 1]}, r"^gpu_ids=\[0, 1\] was asked for, but PyTorch sees no GPU; device='cpu' with devices=2"),
    ({"gpu_ids": [0, 0]}, r"gpu_ids=\[0, 0\] names a GPU twice"),
    ({"devices": 9, "device": "cpu"}, "a batch of 8 samples cannot be shared out to 9 processes"),
    ({"devices": 2, "device": "cpu", "optimizer_cls": "LBFGS"}, "evaluates the loss itself"),
    ({"devices": 2, "device": "cpu", "micro_batches": 2}, "micro_batches=2 is for one process"),
    ({"devices": 2, "device": "cuda:1"}, "are 'cpu', 'cuda' or 'auto'"),
    ({"devices": 2, "gpu_ids": [0, 1, 2]}, "different numbers of devices"),
    ({"devices": 0, "device": "cpu"}, "devices"),
    ({"devices": "2", "device": "cpu"}, "devices"),
    (
        {"devices": 2, "device": "cpu", "callbacks": [NoTravel()]},
        "cannot be pickled.*leave executor, n_jobs and devices out",
    ),
]


@pytest.mark.parametrize(("how", "text"), REFUSED)
def test_what_several_processes_cannot_train_is_refused_at_once(tmp_path, how, text):
    if torch.cuda.is_available() and how.get("device") != "cpu":
        pytest.skip("there are GPUs here")
    with pytest.raises(ConfigError, match=text):
        train(tmp_path, data(), **how)


# ---- in a cross-validation


@pytest.mark.slow
# Ray leaves files and processes to the end of the program
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", ["here", *EXECUTORS])
def test_the_folds_of_a_cross_validation_are_trained_so(tmp_path, name):
    alone = kfold(tmp_path / "alone", data())
    with contextlib.nullcontext("here") if name == "here" else executor_called(name, tmp_path / "jobs", 1) as executor:
        several = kfold(tmp_path / "several", data(), executor=executor, devices=2, device="cpu")
    for one, two in zip(alone.folds, several.folds, strict=True):
        np.testing.assert_allclose(two.means()["squares"], one.means()["squares"], rtol=1e-5)
        for name, array in one.predictions.items():
            np.testing.assert_allclose(two.predictions[name], array, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_callbacks_are_told_in_all_processes(tmp_path):
    added = Add()
    one = train(tmp_path / "one", data(), callbacks=[Add()], epochs=2)
    two = train(tmp_path / "two", data(), callbacks=[added, ClipAll()], epochs=2, devices=2, device="cpu")
    assert added.n_epochs == 2
    assert len(one.state.history) == len(two.state.history)
