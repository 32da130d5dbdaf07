"""Trainings that are killed by SIGKILL at random times, again and again, and must end as if they had not been.

A supervisor that has imported everything forks each training into a process group of its own, kills it and starts
it again until it comes to its end. After each death it looks at what is on disk; at the end it compares with a run that
nobody killed, byte for byte::

    python tests/chaos/killed_training.py --backend torch --kills 200 --seed 1

The answer is one line of JSON: how many kills, how many lost checkpoints and differences, and where they came.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import everything
import numpy as np
from everything import EPOCHS, FEATURES
from small_backends import Kit

from delira.io import verify_zip
from delira.utils.arrays import iterate_leaves

FOLDS = 3
SHORT = 20
"""Up to so many kills the chosen places are visited once, and not with all settings."""
TIMEOUT = 300
"""Seconds after which a training that was not killed must have ended."""
BURIED_AFTER = 10.0
"""Seconds that the workers of a dead training may need to notice."""
HAVE_THREADS = ("tensorflow", "jax")
"""They begin threads with their first array, which no child would have; nothing is computed before it is forked."""
OUTCOME, STARTS, ERROR = "outcome.json", "starts.jsonl", "error.txt"
SETTINGS = (
    {"save_freq_steps": 1, "save_in_background": True},
    {"save_freq_steps": 1, "save_freq": 1},
    {"save_freq_steps": 2, "save_freq": 1, "keep_last_checkpoints": 2, "save_in_background": True},
)
_NUMBERED = re.compile(r"checkpoint_epoch_(\d+)(?:_step_(\d+))?(?:_trainer_state)?\.(?:pt|zip)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained, the same in each of its lives."""

    kit: Kit
    is_kfold: bool
    workers: int
    number: int
    """Decides between settings that must not change the outcome."""

    @property
    def name(self) -> str:
        return f"{'kfold' if self.is_kfold else 'run'}, {self.workers} workers"

    def __call__(self, folder: Path, *callbacks: Any) -> dict[str, str]:
        """One life: begin in ``folder`` or go on with what is there; returns the bits of everything it ends with."""
        calls = [Told(folder), *callbacks]
        return (self._kfold if self.is_kfold else self._run)(folder, calls)

    def _run(self, folder: Path, callbacks: list[Any]) -> dict[str, str]:
        features = FEATURES[self.kit.name]
        trainer = everything.build(self.kit, folder / "run", features, *callbacks, **self._settings)
        network = everything.train(trainer, features, workers=self.workers)
        done = trainer.evaluate(everything.data(9), metrics={"rmse": everything.rmse})
        files = {name: (folder / "run" / name).read_text() for name in ("history.csv", "history.jsonl")}
        return bits({
            **everything.outcome(trainer), "files": files, "predictions": done.predictions, "metrics": done.metrics,
            "network": self.kit.backend.checkpoints.state_tree(network, {}),
            "last": self._read(folder / "run", "last"),
        }, self.kit)  # fmt: skip

    def _kfold(self, folder: Path, callbacks: list[Any]) -> dict[str, str]:
        features = FEATURES[self.kit.name]
        chosen = everything.settings(self.kit, features)
        callbacks = [*chosen.pop("callbacks"), *callbacks]
        training = {"num_epochs": EPOCHS, "save_freq": None, **chosen, **self._settings}
        params = {"fixed": {"model": everything.model(features), "training": training}}
        network = everything.network_cls(self.kit, features)
        experiment = self.kit.experiment_cls(params, network, save_path=folder, name="kfold")
        result = experiment.kfold(
            everything.data(24, n_process_augmentation=self.workers), num_splits=FOLDS, shuffle=True, random_seed=5,
            val_split=0.3, callbacks=callbacks, train_kwargs={"transforms": everything.augmentation()},
            resume=self._resume(folder),
        )  # fmt: skip
        folds = [
            {
                "metrics": fold.metrics, "predictions": fold.predictions, "targets": fold.targets,
                "history": fold.history, "best": [fold.best_epoch, fold.best_score], "test": fold.test_indices,
                "files": [(fold.path / name).read_text() for name in ("history.csv", "history.jsonl")],
                "last": self._read(fold.path, "last"), "best weights": self._read(fold.path, "best"),
            } for fold in result.folds
        ]  # fmt: skip
        oof = {"predictions": result.oof.predictions, "counts": result.oof.counts}
        return bits({"folds": folds, "oof": oof, "table": result.table()}, self.kit)

    def _read(self, folder: Path, name: str) -> dict[str, Any]:
        """A checkpoint, without the names it was written under, which the settings decide."""
        tree = self.kit.trainer_cls.load_state(folder / "checkpoints" / f"checkpoint_{name}")
        tree.pop("names", None)
        return tree

    @property
    def _settings(self) -> dict[str, Any]:
        return SETTINGS[self.number % len(SETTINGS)]

    def _resume(self, folder: Path) -> str | Path:
        """By itself, or, every second time, by its path."""
        runs = [path.parent for path in folder.glob("kfold/*/manifest.json")]
        return runs[0] if runs and self.number % 2 else "auto"


class Told:
    """Notes for the supervisor where each life of a training begins; no state of the run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def at_training_begin(self, trainer: Any, **facts: Any) -> None:
        place = [trainer.state.epoch, trainer.state.step_in_epoch]
        with open(self.folder / STARTS, "a") as file:
            file.write(json.dumps({"path": str(trainer.save_path), "place": place}) + "\n")


class StopHere:
    """Stops the process, with all its threads, at a moment of the training, for the supervisor to kill it there."""

    def __init__(self, moment: str, epoch: int, step: int = 0):
        self.at = (moment, epoch, step)

    def _reach(self, *now: Any) -> None:
        if now == self.at:
            os.kill(os.getpid(), signal.SIGSTOP)

    def at_iter_end(self, trainer: Any, *, curr_epoch: int, iter_num: int, **facts: Any) -> None:
        self._reach("step", curr_epoch, iter_num + 1)

    def at_epoch_end(self, trainer: Any, *, curr_epoch: int, **facts: Any) -> None:
        self._reach("end", curr_epoch, 0)

    def at_epoch_begin(self, trainer: Any, *, curr_epoch: int, **facts: Any) -> None:
        self._reach("begin", curr_epoch, 0)


#: twice inside one epoch, between an epoch's last step and its checkpoint, and right after that checkpoint
PLACES = (("step", 2, 2), ("step", 2, 4), ("end", 2, 0), ("begin", 3, 0))


def bits(tree: Any, kit: Kit) -> dict[str, str]:
    """Every leaf by its place, so that equal means equal in every bit."""
    found = {}
    for place, leaf in iterate_leaves(kit.backend.arrays.to_numpy(tree)):
        if isinstance(leaf, (np.ndarray, np.generic)):
            leaf = f"{leaf.dtype} {leaf.shape} {np.ascontiguousarray(leaf).tobytes().hex()}"
        elif isinstance(leaf, float):
            leaf = leaf.hex()
        found["/".join(map(str, place))] = repr(leaf)
    return found


# ------------------------------------------------------------------ processes


def fork(training: Training, folder: Path, *callbacks: Any) -> int:
    """Start a life of a training in a session of its own, so that its workers can be found."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # dies with the supervisor, even if it is stopped then
        os.setsid()
        os.dup2(os.open(folder / "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        answer = training(folder, *callbacks)
        (folder / f"{OUTCOME}.new").write_text(json.dumps(answer))
        os.replace(folder / f"{OUTCOME}.new", folder / OUTCOME)
        status = 0
    except BaseException:
        (folder / ERROR).write_text(traceback.format_exc())
    finally:
        os._exit(status)


def wait(pid: int, seconds: float, stopped: bool = False) -> int | None:
    """The status of a child that ends, or stops, in time; else ``None``."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | (os.WUNTRACED if stopped else 0))
        if found:
            return status
        if time.monotonic() >= end:
            return None
        time.sleep(min(0.002, max(0.0, end - time.monotonic())))


def session(leader: int) -> list[int]:
    """The processes of a session that are alive."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()  # state, parent, group, session, …
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(path.parent.name))
    return found


def bury(pid: int) -> list[int]:
    """Wait until the workers of a dead training have ended by themselves; those that have not."""
    end = time.monotonic() + BURIED_AFTER
    while (left := session(pid)) and time.monotonic() < end:
        time.sleep(0.01)
    for orphan in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)
    return left


# ------------------------------------------------------------------ what is on disk


def published(folder: Path) -> dict[str, tuple[int, int]]:
    """The newest place that a checkpoint in each run folder is named after."""
    newest: dict[str, tuple[int, int]] = {}
    for path in folder.rglob("checkpoints/checkpoint_epoch_*"):
        if match := _NUMBERED.fullmatch(path.name):
            run = str(path.parent.parent)
            newest[run] = max(newest.get(run, (0, 0)), (int(match[1]), int(match[2] or 0)))
    return newest


def unreadable(folder: Path, kit: Kit) -> list[str]:
    """Files that are called checkpoints and are none."""
    bad = []
    for path in folder.rglob("checkpoints/checkpoint_*"):
        if path.name.endswith(kit.backend.checkpoint_suffix):
            try:
                verify_zip(path)
                kit.backend.checkpoints.read(path)
            except Exception as error:
                bad.append(f"{path}: {error!r}")
    return bad


def debris(folder: Path) -> list[str]:
    """Files neither complete nor gone; not in run folders whose making was interrupted, which nobody enters again."""
    abandoned = {path for path in folder.glob("kfold/*") if not (path / "manifest.json").exists()}
    found = [path for path in folder.rglob("*") if ".partial-" in path.name or path.name.endswith(".damaged")]
    return [str(path) for path in found if path.parent not in abandoned]


def starts(folder: Path) -> list[dict[str, Any]]:
    path = folder / STARTS
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


# ------------------------------------------------------------------ the supervisor


class Supervisor:
    """Kills trainings and counts.

    Parameters
    ----------
    kit
        That of the backend.
    seed
        Decides when is killed, and how.
    """

    def __init__(self, kit: Kit, seed: int):
        self.kit = kit
        self.rng = np.random.default_rng(seed)
        self.kills: Counter[str] = Counter()
        self.where: Counter[str] = Counter()
        self.lost: list[str] = []
        self.different: list[str] = []
        self.failed: list[str] = []
        self.orphans: list[int] = []
        self.debris: list[str] = []
        self.finished = 0
        self._expected: dict[str, dict[str, str]] = {}
        self._seconds: dict[str, float] = {}  # that a training lately took which was not killed

    def unbroken(self, training: Training) -> dict[str, str]:
        """What a training ends with that is not killed."""
        if training.name not in self._expected:
            with tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                pid = fork(training, Path(folder))
                status = wait(pid, TIMEOUT)
                if status != 0:
                    raise RuntimeError(f"the unbroken training failed: {_error_of(Path(folder))}")
                self._seconds[training.name] = time.monotonic() - began
                self._expected[training.name] = json.loads((Path(folder) / OUTCOME).read_text())
        return self._expected[training.name]

    def random_trial(self, training: Training, limit: int) -> None:
        """Kill a training at random times until it ends, but at most ``limit`` times."""
        self.unbroken(training)
        seconds = self._seconds[training.name]
        delays = (float(self.rng.uniform(0, seconds)) if number < limit else None for number in itertools.count())
        self._trial(training, ((delay, None) for delay in delays))

    def placed_trial(self, training: Training, places: Sequence[tuple[str, int, int]] = PLACES) -> None:
        """Kill a training at chosen places."""
        stops = [(None, StopHere(*place)) for place in places]
        self._trial(training, itertools.chain(stops, itertools.repeat((None, None))))

    def _trial(self, training: Training, lives: Iterator[tuple[float | None, Any]]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="killed-"))
        try:
            while not (folder / OUTCOME).exists():
                before, known = published(folder), len(starts(folder))
                done = {str(path.parent) for path in folder.rglob("result.zip")}
                delay, stop = next(lives)
                began = time.monotonic()
                pid = fork(training, folder, *([] if stop is None else [stop]))
                is_killed = self._live(pid, delay, stop, folder, training)
                self._check_starts(starts(folder)[known:], before, done)
                self.lost += unreadable(folder, self.kit)
                if not is_killed:
                    if not known:
                        self._seconds[training.name] = time.monotonic() - began
                    break
            self._compare(training, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _live(self, pid: int, delay: float | None, stop: Any, folder: Path, training: Training) -> bool:
        """Let a training live as long as it may; whether it was killed."""
        status = wait(pid, TIMEOUT if delay is None else delay, stopped=stop is not None)
        if status is None or os.WIFSTOPPED(status):
            if status is None and delay is None:
                self.failed.append(f"{training.name}: did not end within {TIMEOUT} s")
            takes_all = bool(self.rng.integers(2))  # as a cluster does; or one process, as the system does for memory
            (os.killpg if takes_all and os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)
            status = wait(pid, TIMEOUT)
        self.orphans += bury(pid)
        if status is not None and os.WIFSIGNALED(status):
            self.kills[training.name] += 1
            self.where[_where(folder)] += 1
            return True
        if status != 0:
            self.failed.append(f"{training.name}: {_error_of(folder)}")
        return False

    def _check_starts(self, begun: list[dict[str, Any]], before: dict[str, tuple[int, int]], done: set[str]) -> None:
        for start in begun:
            path, place = start["path"], tuple(start["place"])
            if place < before.get(path, (0, 0)):
                self.lost.append(f"{path} continued from {place}, though {before[path]} had been published")
            if path in done:
                self.lost.append(f"{path} was trained again, though its result had been published")

    def _compare(self, training: Training, folder: Path) -> None:
        if not (folder / OUTCOME).exists():
            return  # it failed
        self.finished += 1
        expected = self.unbroken(training)
        found = json.loads((folder / OUTCOME).read_text())
        places = [place for place in expected.keys() | found.keys() if expected.get(place) != found.get(place)]
        if places:
            self.different.append(f"{training.name} ({training.number}): {sorted(places)[:5]}")
        self.debris += debris(folder)

    def report(self) -> dict[str, Any]:
        return {
            "backend": self.kit.name, "kills": sum(self.kills.values()), "by training": dict(self.kills),
            "found on disk": dict(self.where), "finished": self.finished, "lost": self.lost,
            "different": self.different, "failed": self.failed, "orphans": self.orphans, "debris": self.debris,
        }  # fmt: skip


def _where(folder: Path) -> str:
    """What a killed process left behind, to see that kills come everywhere."""
    if list(folder.rglob("*.partial-*")):
        return "a half-written file"
    places = published(folder).values()
    return "nothing yet" if not places else "inside an epoch" if max(places)[1] else "between epochs"


def _error_of(folder: Path) -> str:
    path = folder / ERROR
    return path.read_text() if path.exists() else "no error was told"


def supervise(kit: Kit, kills: int, seed: int) -> dict[str, Any]:
    """Kill trainings of a backend at random times so many times, and at chosen places besides."""
    supervisor = Supervisor(kit, seed)
    kinds = itertools.cycle([(False, 1), (True, 0), (False, 0), (True, 1)])  # whether in folds, and workers
    for number in range(len(SETTINGS) if kills > SHORT else 1):
        supervisor.placed_trial(Training(kit=kit, is_kfold=False, workers=1, number=number))
    placed = sum(supervisor.kills.values())
    for number in itertools.count():
        left = kills - (sum(supervisor.kills.values()) - placed)
        if left <= 0 or supervisor.failed:
            break
        is_kfold, workers = next(kinds)
        supervisor.random_trial(Training(kit=kit, is_kfold=is_kfold, workers=workers, number=number), left)
    return {**supervisor.report(), "seed": seed, "at chosen places": placed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=FEATURES, default="toy")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    kit = everything.kit_of(arguments.backend)
    everything.network_cls(kit, FEATURES[kit.name])
    everything.augmentation()
    if kit.name not in HAVE_THREADS:
        with tempfile.TemporaryDirectory() as folder:  # what is imported late is imported once, for all
            everything.build(kit, Path(folder), FEATURES[kit.name])
    print(json.dumps(supervise(kit, arguments.kills, arguments.seed)))


if __name__ == "__main__":
    main()
