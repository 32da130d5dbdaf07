"""Damaged run folders: the command line, ``KFoldResult.load`` and ``resume`` say what is wrong, or the same as ever.

``make test`` damages 40 copies of a run, ``make full`` 300 more. The seed is fixed; ``DELIRA_FUZZ_SEED=1 pytest
tests/fuzz`` draws others.
"""

import contextlib
import io
import json
import logging
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit
from time_limit import within_seconds

if os.name != "posix":
    pytest.skip("pipes and links of POSIX", allow_module_level=True)

from fuzz_folders import SECRET, Damage, contents, select

from delira.cli.main import main
from delira.data_loading import BaseDataManager
from delira.errors import DeliraError
from delira.testing import mean_squared_error
from delira.training import KFoldResult

SEED = int(os.environ.get("DELIRA_FUZZ_SEED", "0"))
SECONDS = 30
STAMP = "2026-01-01_00-00-00"
READERS = ("listed", "verified", "loaded", "reported")
#: written by reading or by going on, whatever was damaged
WRITTEN = ("numbers.json", "report", ".lock")


def experiment(root: Path) -> Any:
    """A training in two epochs of three weights."""
    training = {"num_epochs": 2, "optimizer_params": {"lr": 0.05}, "val_metrics": {"err": mean_squared_error}}
    score = {"val_score_key": "err", "val_score_mode": "lowest"}
    return toy_kit().experiment(root, training={**training, **score}, name="good")


def cross_validate(root: Path, **more: Any) -> KFoldResult:
    data = BaseDataManager(linear_problem(24, 3, 7), 4)
    settings = {"num_splits": 2, "random_seed": 5, "val_split": 0.25, "metrics": {"mse": mean_squared_error}}
    return experiment(root).kfold(data, **settings, **more)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A finished cross-validation, which has been read once."""
    root = tmp_path_factory.mktemp("made") / "runs"
    cross_validate(root).summary()
    (run,) = (root / "good").iterdir()
    return run.rename(run.with_name(STAMP))


@pytest.fixture(scope="session")
def whole(made, tmp_path_factory):
    """What is said of it, and what it is when it goes on."""
    world = World(made, tmp_path_factory.mktemp("whole"))
    return {**world.read(), "resumed": world.resumed()}


class World:
    """A copy of a run, and who reads it."""

    def __init__(self, made: Path, folder: Path):
        self.root = folder / "runs"
        self.run = shutil.copytree(made, self.root / "good" / STAMP)
        self.page = folder / "page.html"

    def command(self, *words: str) -> dict[str, Any]:
        """What a command prints; its exit code must be one of those that are told, and its errors a line."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*words, "--json"])
        told = err.getvalue()
        assert code in (0, 1, 2), f"exit code {code}"
        assert "Traceback" not in told, told
        assert "--debug shows where" not in told, f"raw error: {told}"
        lines = told.strip().splitlines()
        assert len(lines) == (1 if code and "error" in json.loads(out.getvalue()) else 0), told
        return {"code": code, "told": told + out.getvalue(), **json.loads(out.getvalue())}

    def read(self) -> dict[str, Any]:
        """What every reader says."""
        return {reader: getattr(self, reader)() for reader in READERS}

    def listed(self) -> dict[str, Any]:
        answer = self.command("runs", str(self.root))
        assert answer["code"] == 0, answer["told"]
        (found,) = answer["runs"] or [{"problems": ["no run"]}]
        shown = ("name", "kind", "status", "folds_done", "folds", "metrics", "score", "started", "seconds", "room")
        return {"says": {name: found.get(name) for name in shown}, "told": str(found["problems"])}

    def verified(self) -> dict[str, Any]:
        answer = self.command("verify", str(self.run))
        states = {check["what"]: check["state"] for check in answer.get("files", ())}
        told = [*(check["detail"] for check in answer.get("files", ())), answer.get("error", "")]
        named = [what for what, state in states.items() if state != "whole"]
        return {"says": {} if answer["code"] else states, "told": str(told + named)}

    def loaded(self) -> dict[str, Any]:
        try:
            result = KFoldResult.load(self.run)
        except DeliraError as error:
            return {"says": None, "told": str(error)}
        return {"says": numbers_of(result), "told": str(list(result.problems))}

    def reported(self) -> dict[str, Any]:
        answer = self.command("report", str(self.run), "-o", str(self.page))
        page = self.page.read_text() if answer["code"] == 0 else ""
        page = page.replace(str(self.root), "ROOT")
        told = [problem for run in answer.get("runs", ()) for problem in run["problems"]]
        return {"says": page, "told": str([*told, answer.get("error", "")])}

    def resumed(self) -> dict[str, Any]:
        try:
            result = cross_validate(self.root, resume=self.run)
        except DeliraError as error:
            return {"says": None, "told": str(error)}
        found = {f"{fold.fold} {name}": value.tolist() for fold in result.folds for name, value in fold.metrics.items()}
        return {"says": found, "told": str(list(result.problems))}


def numbers_of(result: KFoldResult) -> str:
    """All that a result holds, as text, which has all digits and in which NaN equals itself."""
    names = ("fold", "train_indices", "val_indices", "test_indices", "metrics", "predictions", "targets", "history",
             "best_epoch", "best_score", "score_key", "weights_epoch", "seconds", "timings", "guards")  # fmt: skip
    with np.printoptions(floatmode="unique", threshold=10**6):
        folds = [{name: getattr(fold, name) for name in names} for fold in result.folds]
        info = {name: value for name, value in result.info.items() if name != "command"}
        return repr((result.name, result.seed, result.n_samples, result.groups, result.summary(), info, folds))


@contextlib.contextmanager
def listening():
    """Everything that is said beside what is returned: warnings, and the log."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("delira")
    log.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield said
        said.extend(str(one.message) for one in caught)
    finally:
        log.removeHandler(handler)


def trouble_of(damage: Damage, made: Path, folder: Path, whole: dict[str, Any]) -> list[str]:
    """Damage a copy and read it in every way; return what is wrong about it."""
    world = World(made, folder)
    damage.do(world.run)
    before = contents(folder)
    lines = []
    found = {}
    for reader in READERS:
        with listening() as said:
            try:
                with within_seconds(SECONDS):
                    found[reader] = getattr(world, reader)()
            except (Exception, pytest.fail.Exception) as error:  # collected: all troubles are told at once
                lines.append(f"{reader}: {type(error).__name__}: {error!s:.300}")
                continue
        lines += compare(damage, reader, found[reader], whole, said)
        after = contents(folder, ["page.html"])
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        if changed := [name for name in changed if not Path(name).name.startswith(WRITTEN)]:
            lines.append(f"{reader}: changed {changed}")
        before = after
    with listening() as said:
        try:
            with within_seconds(SECONDS):
                found["resumed"] = world.resumed()
        except (Exception, pytest.fail.Exception) as error:
            lines.append(f"resumed: {type(error).__name__}: {error!s:.300}")
    if "resumed" in found:
        lines += compare(damage, "resumed", found["resumed"], whole, said)
        lines += moved(damage, before, contents(folder))
    return lines


def moved(damage: Damage, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Files that are gone, or were set aside, but for the damaged one."""
    gone = [name for name in before if name not in after and damage.file not in name]
    aside = [name for name in after if ".damaged" in name and damage.file not in name]
    return [f"resumed: {what} {names}" for what, names in (("lost", gone), ("set aside", aside)) if names]


def compare(damage: Damage, reader: str, found: dict[str, Any], whole: dict[str, Any], said: list[str]) -> list[str]:
    """What is wrong with what one reader says."""
    told = found["told"] + " ".join(said)
    if SECRET in str(found):
        return [f"{reader}: shows what a link leads to"]
    if "\x1b" in told:
        return [f"{reader}: commands the terminal"]
    if found["says"] == whole[reader]["says"] or damage.is_named(told) or damage.is_forged:
        return []
    return [
        f"{reader}: says something else, and not why: {difference(found['says'], whole[reader]['says'])}; {told:.300}"
    ]


def difference(left: Any, right: Any) -> str:
    left, right = str(left), str(right)
    at = next((place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
    return f"{left[max(0, at - 60) : at + 60]!r} instead of {right[max(0, at - 60) : at + 60]!r}"


def troubles(damages: list[Damage], made: Path, tmp_path: Path, whole: dict[str, Any]) -> list[str]:
    found = []
    for number, damage in enumerate(damages):
        (folder := tmp_path / str(number)).mkdir()
        found += [f"{damage}: {line}" for line in trouble_of(damage, made, folder, whole)]
    return found


@pytest.mark.slow_cases("[1-7]")
@pytest.mark.parametrize("part", range(8))
def test_damaged_folders_are_told_or_say_the_same(made, whole, tmp_path, part):
    assert not (lines := troubles(select(made, 40, SEED)[part::8], made, tmp_path, whole)), "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(6))
def test_many_damaged_folders_are_told_or_say_the_same(made, whole, tmp_path, part):
    damages = select(made, 300, SEED + 1)[part::6]
    assert not (lines := troubles(damages, made, tmp_path, whole)), "\n".join(lines)
