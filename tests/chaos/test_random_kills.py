"""Trainings killed by SIGKILL at random times, and at chosen ones, lose nothing: they end in the same bits."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import killed_training
import pytest
from killed_training import PLACES, SETTINGS, Supervisor, Training

if not Path("/proc/self/stat").exists():
    pytest.skip("the processes of a session are found in /proc", allow_module_level=True)

HERE = Path(__file__).parent


def killed(room, tmp_path, kills, seed):
    """What the supervisor says; it is a process of its own, which has no threads to be forked."""
    command = [sys.executable, str(HERE / "killed_training.py"), "--room", room.name]
    environment = {
        **os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        [*command, "--kills", str(kills), "--seed", str(seed)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout.splitlines()[-1])


def check(report, tmp_path, kills, placed):
    nothing = {"lost": [], "different": [], "failed": [], "orphans": [], "debris": []}
    assert {name: report[name] for name in nothing} == nothing, f"seed {report['seed']}"
    assert report["at chosen places"] == placed
    assert report["kills"] == kills + placed
    assert report["finished"] >= 2
    assert list(tmp_path.iterdir()) == []  # TMPDIR of all of them


def test_trainings_that_are_killed_at_random_times_end_in_the_same_bits(room, tmp_path):
    kills, seed = 10, int.from_bytes(os.urandom(3), "big")
    check(killed(room, tmp_path, kills, seed), tmp_path, kills, len(PLACES))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1])
def test_two_hundred_kills(room, tmp_path, seed):
    kills = 200
    report = killed(room, tmp_path, kills, seed)
    check(report, tmp_path, kills, len(PLACES) * len(SETTINGS))
    assert report["by training"].keys() == {f"{kind}, {n} workers" for kind in ("run", "kfold") for n in (0, 1)}
    assert report["found on disk"].keys() == {"nothing yet", "inside an epoch", "between epochs", "a half-written file"}


# ---- the supervisor sees what it looks for


class Forgets(Training):
    """Begins anew after each death."""

    def __call__(self, folder, *callbacks):
        for path in folder.rglob("checkpoint_*"):
            path.unlink()
        return super().__call__(folder, *callbacks)


class Draws(Training):
    """Ends differently every time."""

    def __call__(self, folder, *callbacks):
        return {**super().__call__(folder, *callbacks), "draw": os.urandom(4).hex()}


class Damages(Training):
    """Leaves a checkpoint that is none."""

    def __call__(self, folder, *callbacks):
        (folder / "run" / "checkpoints").mkdir(parents=True, exist_ok=True)
        (folder / "run" / "checkpoints" / "checkpoint_epoch_0_step_1.zip").write_bytes(b"PK")
        return super().__call__(folder, *callbacks)


class LeavesAChild(Training):
    """Leaves a process behind, and half a file."""

    def __call__(self, folder, *callbacks):
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "30"])
        (folder / "checkpoint.partial-01234567").touch()
        return super().__call__(folder, *callbacks)


class Fails(Training):
    def __call__(self, folder, *callbacks):
        raise ValueError("on purpose")


def supervised(cls, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(killed_training.tempfile, "tempdir", None)
    monkeypatch.setattr(killed_training, "BURIED_AFTER", 0.3)
    room = killed_training.toy_room()
    supervisor = Supervisor(room, 0)
    own = {"room": room, "is_kfold": False, "workers": 0, "number": 1}
    supervisor.unbroken(Training(**own))
    supervisor.placed_trial(cls(**own))
    return supervisor.report()


@pytest.mark.parametrize(
    ("cls", "name", "said"),
    [
        (Forgets, "lost", r"continued from \(0, 0\), though \(1, 1\) had been published"),
        (Draws, "different", r"\['draw'\]"),
        (Damages, "lost", "checkpoint_epoch_0_step_1.zip"),
        (LeavesAChild, "orphans", r"\d+"),
        (LeavesAChild, "debris", "partial-01234567"),
        (Fails, "failed", "on purpose"),
    ],
)
def test_what_goes_wrong_is_seen(cls, name, said, monkeypatch, tmp_path):
    report = supervised(cls, monkeypatch, tmp_path)
    assert report[name]
    assert re.search(said, str(report[name]))


def test_nothing_is_seen_where_nothing_goes_wrong(monkeypatch, tmp_path):
    report = supervised(Training, monkeypatch, tmp_path)
    assert report["kills"] == len(PLACES)
    assert report["finished"] == 1
    assert not any(report[name] for name in ("lost", "different", "failed", "orphans", "debris"))
