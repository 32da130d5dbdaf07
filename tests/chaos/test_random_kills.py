"""Trainings killed by SIGKILL at random times, and at chosen ones, lose nothing: they end in the same bits."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import everything
import killed_training
import pytest
from killed_training import PLACES, SETTINGS, SHORT, Supervisor, Training
from small_backends import toy_kit

if not Path("/proc/self/stat").exists():
    pytest.skip("the processes of a session are found in /proc", allow_module_level=True)

HERE = Path(__file__).parent
#: what a report must not have
WRONG = ("lost", "different", "failed", "orphans", "debris")


def killed(kit, tmp_path, kills, seed):
    """What the supervisor says; it is a process of its own, which has no threads to be forked."""
    command = [sys.executable, str(HERE / "killed_training.py"), "--backend", kit.name]
    modules = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": modules, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [*command, "--kills", str(kills), "--seed", str(seed)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout.splitlines()[-1])


def check(report, tmp_path, kills, placed):
    assert {name: report[name] for name in WRONG if report[name]} == {}, f"seed {report['seed']}"
    assert report["at chosen places"] == placed
    assert report["kills"] == kills + placed
    assert report["finished"] >= 2
    assert list(tmp_path.glob("killed-*")) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_trainings_that_are_killed_at_random_times_end_in_the_same_bits(kit, tmp_path):
    kills, seed = 10, int.from_bytes(os.urandom(3), "big")
    check(killed(kit, tmp_path, kills, seed), tmp_path, kills, len(PLACES))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1])
def test_two_hundred_kills(kit, tmp_path, seed):
    kills = 200
    report = killed(kit, tmp_path, kills, seed)
    check(report, tmp_path, kills, len(PLACES) * len(SETTINGS))
    assert report["by training"].keys() == {f"{kind}, {n} workers" for kind in ("run", "kfold") for n in (0, 1)}
    assert report["found on disk"].keys() == {"nothing yet", "inside an epoch", "between epochs", "a half-written file"}


#: backends of the tests of every backend have the two above; these need seconds for each life
OTHERS = {"torchscript": 30, "tensorflow": 30, "jax": 30, "sklearn": 10}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OTHERS)
def test_the_other_backends_lose_nothing_either(name, tmp_path):
    if name == "sklearn":
        pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    kit, kills = everything.kit_of(name), OTHERS[name]
    settings = len(SETTINGS) if kills > SHORT else 1
    check(killed(kit, tmp_path, kills, 1), tmp_path, kills, len(PLACES) * settings)


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
        (folder / "run" / "checkpoints" / "checkpoint_extra.zip").write_bytes(b"PK")
        return super().__call__(folder, *callbacks)


class LeavesMuch(Training):
    """Leaves a process behind, and half a file."""

    def __call__(self, folder, *callbacks):
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "30"])
        (folder / "checkpoint.partial-01234567").touch()
        return super().__call__(folder, *callbacks)


class Fails(Training):
    """Cannot begin."""

    def __call__(self, folder, *callbacks):
        raise ValueError("on purpose")


@pytest.fixture(scope="module")
def unbroken():
    everything.augmentation()  # imported before anything is forked
    own = {"kit": toy_kit(), "is_kfold": False, "workers": 0, "number": 1}
    supervisor = Supervisor(own["kit"], 0)
    supervisor.unbroken(Training(**own))
    return own, supervisor._expected


def supervised(cls, unbroken, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(killed_training, "BURIED_AFTER", 0.3)
    own, expected = unbroken
    supervisor = Supervisor(own["kit"], 0)
    supervisor._expected = expected
    supervisor.placed_trial(cls(**own), places=[("step", 2, 2)])
    return supervisor.report()


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Forgets, {"lost": r"continued from \(0, 0\), though \(1, 1\) had been published"}),
        (Draws, {"different": r"\['draw'\]"}),
        (Damages, {"lost": r"checkpoint_extra.zip is not a complete checkpoint"}),
        (LeavesMuch, {"orphans": r"\d+", "debris": "partial-01234567"}),
        (Fails, {"failed": "on purpose"}),
        (Training, {}),
    ],
)
def test_what_goes_wrong_is_seen_and_nothing_else(cls, said, unbroken, monkeypatch, tmp_path):
    report = supervised(cls, unbroken, monkeypatch, tmp_path)
    assert {name for name in WRONG if report[name]} == said.keys()
    for name, text in said.items():
        assert re.search(text, str(report[name]))
