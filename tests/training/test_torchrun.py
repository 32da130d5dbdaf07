"""Processes that torchrun has started: they train together what the script asks for, and all return what came of it."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from delira.training.launched import Launch

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]
SCRIPT = Path(__file__).with_name("started_by_torchrun.py")


def torchrun(folder, what, n=2, *options):
    """Start a script; what each process wrote down, and all that was printed."""
    folder.mkdir(exist_ok=True)
    tests = Path(__file__).parents[1]
    paths = [tests, SCRIPT.parent, tests.parent, os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={n}", "--rdzv-backend=c10d",
            "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", *options, SCRIPT, folder, what,
        ],
        capture_output=True, text=True, timeout=350,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    files = [folder / f"{rank}.json" for rank in range(n)]
    return [json.loads(file.read_text()) if file.exists() else None for file in files], done.stdout + done.stderr


def alone(folder, what):
    """The same script as ``devices=2`` starts processes for it."""
    folder.mkdir(exist_ok=True)
    tests = Path(__file__).parents[1]
    code = (
        f"import sys; sys.argv = ['', {str(folder)!r}, {what!r}]; import os; os.environ['RANK'] = '0'\n"
        "import started_by_torchrun as script\n"
        "import functools; script.PyTorchNetworkTrainer = functools.partial(script.PyTorchNetworkTrainer, devices=2)\n"
        "script.experiment = functools.partial(script.experiment, devices=2)\n"
        "import numpy as np; from problems import linear_problem; from delira.data_loading import BaseDataManager\n"
        "arrays = {name: array.astype(np.float32) for name, array in linear_problem(43).items()}\n"
        f"import json; told = getattr(script, {what!r})(BaseDataManager(arrays, 8))\n"
        "(script.FOLDER / '0.json').write_text(json.dumps(told))\n"
    )
    paths = [tests, SCRIPT.parent, tests.parent, os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=350,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return json.loads((folder / "0.json").read_text())


@pytest.mark.slow
def test_a_script_trains_and_tests_in_all_processes(tmp_path):
    told, printed = torchrun(tmp_path / "torchrun", "run")
    assert told[0] is not None, printed
    assert told[0] == told[1]
    runs = [*(tmp_path / "torchrun").glob("*/*/manifest.json")]
    assert len(runs) == 1  # one process writes
    assert told[0] == alone(tmp_path / "alone", "run")  # as devices=2, bit for bit


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kfold", "trainer", "tune", "pruned", "learning_curve"])
def test_it_is_what_devices_2_is(tmp_path, what):
    told, printed = torchrun(tmp_path / "torchrun", what)
    assert told[0] is not None, printed
    assert told[0] == told[1]
    one = alone(tmp_path / "alone", what)
    assert {**told[0], "path": ""} == {**one, "path": ""}


@pytest.mark.slow
def test_what_another_process_raises_is_raised_in_all(tmp_path):
    told, printed = torchrun(tmp_path, "raises")
    assert [one and one["error"] for one in told] == ["ZeroDivisionError: of the user's"] * 2, printed
    assert "in process 1 of the 2 that train the network" in told[0]["notes"]


@pytest.mark.slow
def test_a_training_can_follow_one_that_failed(tmp_path):
    told, printed = torchrun(tmp_path, "goes_on")
    assert told[0] == told[1], printed
    assert told[0]["first"] == "of the user's"
    assert len(told[0]["epochs"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("four", "ConfigError: devices=4, and torchrun has started 2 processes; leave it out"),
        (
            "elsewhere",
            "ConfigError: torchrun's processes train one fold after the other; leave executor and n_jobs out",
        ),
    ],
)
def test_what_cannot_be_is_said_in_all_processes(tmp_path, what, error):
    told, printed = torchrun(tmp_path, what)
    assert [error in one["error"] for one in told if one] == [True] * 2, printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("different", "the first process has called BaseExperiment.run, and process 1 calls BaseExperiment.kfold"),
        ("leaves", "the first process has called nothing of delira in 3 s, and process 1 waits for it in "),
        ("leaves_later", "the first process has ended, and process 1 waits for it in BaseExperiment.run"),
    ],
)
def test_processes_that_run_different_scripts_do_not_wait_for_ever(tmp_path, what, error):
    told, printed = torchrun(tmp_path, what)
    assert error in told[1]["error"], printed


@pytest.mark.slow
def test_torchrun_starts_a_lost_training_again_and_it_goes_on_with_the_same_bits(tmp_path):
    told, printed = torchrun(tmp_path / "lost", "resumed", 2, "--max-restarts=2")
    assert told[0] is not None, printed
    assert told[0]["attempt"] == 1
    quiet, _ = torchrun(tmp_path / "quiet", "run")
    assert told[0]["weights"] == told[1]["weights"] == quiet[0]["weights"]
    assert len([*(tmp_path / "lost").glob("*/*/manifest.json")]) == 1


def test_who_is_started_again_does_not_read_what_was_left_in_the_store(monkeypatch):
    kept = torch.distributed.HashStore()
    devices = types.SimpleNamespace(launch_store=lambda prefix: torch.distributed.PrefixStore(prefix, kept))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    lost = Launch(0, 2, 0, 2, devices)
    lost.store.set("here", "yes")
    lost.meeting(1).set("address", "of before")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    again = Launch(0, 2, 0, 2, devices)
    assert not again.store.check(["here"])
    assert not again.meeting(1).check(["address"])


@pytest.mark.slow
def test_a_backend_that_needs_no_further_processes_says_so(monkeypatch):
    from delira.errors import ConfigError
    from delira.testing.toy.backend import ToyBackend
    from delira.training.launched import launched

    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="torchrun has started several"):
        launched(ToyBackend().devices)
