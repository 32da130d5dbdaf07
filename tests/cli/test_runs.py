"""``delira runs``, ``report`` and ``verify``: what people and programs learn of the runs on a disk."""

import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edited_files import read_plain, write_lines
from problems import linear_problem
from small_backends import toy_kit

from delira import cli
from delira.data_loading import BaseDataManager
from delira.training.callbacks import AbstractCallback
from delira.utils.files import unsealed

ROOT = Path(__file__).parents[2]


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


class Stop(AbstractCallback):
    def __init__(self, fold: int, error: type[BaseException]):
        self.fold, self.error = fold, error

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        if trainer.fold == self.fold:
            error = self.error("the cable was pulled")
            error.add_note("in the cellar")
            raise error


def cross_validate(path: Path, name: str, *callbacks: Any, lr: float = 0.05) -> None:
    data = BaseDataManager(linear_problem(12, 3, 7), 4)
    training = {"val_metrics": {"rmse": rmse}, "num_epochs": 2, "optimizer_params": {"lr": lr}}
    experiment = toy_kit().experiment(path, training=training, name=name, val_score_key="rmse")
    experiment.kfold(data, num_splits=2, shuffle=True, random_seed=5, callbacks=list(callbacks))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, a slower learner's, a failed one, and one that was broken off."""
    path = tmp_path_factory.mktemp("made") / "runs"
    cross_validate(path, "good")
    cross_validate(path, "slow", lr=1e-4)
    with pytest.raises(RuntimeError):
        cross_validate(path, "failing", Stop(1, RuntimeError))
    with pytest.raises(KeyboardInterrupt):
        cross_validate(path, "stopped", Stop(0, KeyboardInterrupt))
    return path


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that may be changed, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any, str]]:
    """Exit code, what was printed (of JSON: the object), and what was said to the error stream."""

    def run(*words: str) -> tuple[int, Any, str]:
        code = cli.main(words)
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in words else out, err

    return run


def names(answer: tuple[int, Any, str]) -> list[str]:
    assert answer[0] == 0, answer
    return [run["name"] for run in answer[1]["runs"]]


def test_an_unknown_argument_is_told_with_the_usage_of_its_command(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["verify", "one", "two", "--fast"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: delira verify [-h] [--strict]")
    assert "delira verify: error: unrecognized arguments: --fast" in said


# ---- runs


def test_every_run_is_a_line_of_80_columns(runs, ask):
    code, text, _ = ask("runs")
    assert code == 0
    lines = text.splitlines()
    assert lines[0].split() == ["status", "folds", "score", "took", "age", "run"]
    rows = {line.split()[-1].split("/")[1]: " ".join(line.split()) for line in lines[1:5]}
    assert rows["good"].startswith("finished 2/2 rmse")
    assert rows["failing"].startswith("failed 1/2 rmse")
    assert rows["stopped"].startswith("broken off 0/2 –")
    assert max(map(len, lines)) <= 80
    assert "RuntimeError: the cable was pulled; in the cellar" in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {"good", "slow", "failing", "stopped"}),
        (("--name", "OO"), {"good"}),
        (("--name", "s*"), {"slow", "stopped"}),
        (("--status", "failed"), {"failing"}),
        (("--status", "failed", "--status", "broken-off"), {"failing", "stopped"}),
        (("--status", "running"), set()),
        (("--since", "1h"), {"good", "slow", "failing", "stopped"}),
        (("--since", "2999-01-01"), set()),
        (("--best", "rmse"), {"good", "slow", "failing"}),
    ],
)
def test_runs_are_filtered(runs, ask, words, expected):
    assert set(names(ask("runs", "runs", "--json", *words))) == expected


def test_runs_are_sorted(runs, ask):
    assert names(ask("runs", "--json", "--sort", "name")) == ["failing", "good", "slow", "stopped"]
    # less of the score is better, as the runs say
    assert names(ask("runs", "--json", "--best", "rmse"))[-1] == "slow"
    assert names(ask("runs", "--json", "--sort", "score"))[-1] == "stopped"
    assert len(names(ask("runs", "--json", "--limit", "2"))) == 2


def test_what_json_says_of_a_run_has_these_names(runs, ask):
    (run,) = ask("runs", "--json", "--name", "good")[1]["runs"]
    assert run.keys() == {
        "run", "path", "name", "kind", "status", "folds_done", "folds", "part", "metrics", "score", "started",
        "seconds", "age_seconds", "room", "error", "error_notes", "owner", "problems",
    }  # fmt: skip
    assert (run["kind"], run["part"], run["room"], run["score"]["metric"]) == ("kfold", "fold", "toy", "rmse")


def test_of_a_run_without_a_ledger_is_told_what_its_folder_shows(runs, ask):
    (ledger,) = (runs / "failing").glob("*/ledger.jsonl")
    ledger.unlink()
    code, text, _ = ask("runs", "runs", "--name", "failing")
    assert (code, text.splitlines()[1].split()[:2]) == (0, ["unknown", "1/2"])
    told = "there is no ledger.jsonl, and nothing else says whether the run has ended"
    assert told in " ".join(text.split())
    assert "folds: 2, of them with result.zip: 1, epochs: 3" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    (run,) = ask("runs", "runs", "--name", "failing", "--json")[1]["runs"]
    assert (run["status"], run["folds_done"], run["folds"]) == ("unknown", 1, 2)
    assert run["problems"][0].startswith(told)
    ledger.write_bytes(b"\x00\n")
    (run,) = ask("runs", "runs", "--name", "failing", "--json")[1]["runs"]
    assert run["problems"][0].startswith("its ledger.jsonl is damaged, and nothing else says")


def test_without_manifest_and_ledger_the_folds_that_are_stored_are_counted(runs, ask):
    before = ask("runs", "runs", "--name", "good", "--json")[1]["runs"][0]
    for name in ("manifest.json", "ledger.jsonl"):
        next((runs / "good").glob(f"*/{name}")).unlink()
    (run,) = ask("runs", "runs", "--name", "good", "--json")[1]["runs"]
    assert (run["kind"], run["status"], run["folds_done"], run["folds"]) == ("kfold", "unknown", 2, None)
    assert run["metrics"] == pytest.approx(before["metrics"])
    assert (run["room"], run["started"]) == (before["room"], before["started"])
    assert ask("runs", "runs", "--name", "good")[1].splitlines()[1].split()[1] == "2/?"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("none", None),
        ("folder", "fold_01 is missing, though the ledger says that fold 1 has finished"),
        ("no result", "fold_01/result.zip is missing, though the ledger says that fold 1 has finished"),
        ("cut result", "fold_01/result.zip is damaged: it has no end"),
        ("no summary", "result.json is missing"),
        ("cut summary", "result.json cannot be read"),
    ],
)
def test_a_finished_run_that_has_lost_results_is_not_whole(runs, ask, damage, told):
    (fold,) = (runs / "good").glob("*/fold_01")
    result, summary = fold / "result.zip", fold.parent / "result.json"
    if damage == "folder":
        shutil.rmtree(fold)
    elif damage.startswith("no "):
        (result if damage == "no result" else summary).unlink()
    elif damage.startswith("cut "):
        path = result if damage == "cut result" else summary
        path.write_bytes(path.read_bytes()[:-30])
    (run,) = ask("runs", "runs", "--name", "good", "--json")[1]["runs"]
    assert run["status"] == "finished"
    assert (run["problems"] == []) if told is None else any(told in problem for problem in run["problems"])
    assert ("\nnot whole: " in ask("runs", "runs", "--name", "good")[1]) == (told is not None)


def test_a_single_training_whose_folder_is_gone_is_not_whole(runs, ask):
    toy_kit().experiment(runs, training={"num_epochs": 1}, name="alone").run(
        BaseDataManager(linear_problem(12, 3, 7), 4)
    )
    assert ask("runs", "runs", "--name", "alone", "--json")[1]["runs"][0]["problems"] == []
    shutil.rmtree(next((runs / "alone").glob("*/fold_00")))
    (told,) = ask("runs", "runs", "--name", "alone", "--json")[1]["runs"][0]["problems"]
    assert "has no folder of the training" in told


def test_of_a_trainer_that_was_made_alone_nothing_is_lost(runs, ask):
    shutil.copytree(next((runs / "good").glob("*/fold_00")), runs / "lone", ignore=lambda *_: ["result.zip"])
    (run,) = ask("runs", "runs/lone", "--json")[1]["runs"]
    assert (run["status"], run["problems"]) == ("unknown", [])
    assert "not whole" not in ask("runs", "runs/lone")[1]
    assert ask("verify", "runs/lone")[0] == 0


@pytest.mark.parametrize("how", ["killed", "copied", "killed, then continued"])
def test_the_time_of_a_killed_run_is_that_until_it_last_wrote(runs, ask, how):
    (folder,) = (runs / "stopped").iterdir()
    begin = datetime.datetime(2026, 1, 2, 3, 4, 5).astimezone()
    spans = [(0, "started"), (2, "fold_started")]
    if how == "killed, then continued":
        spans += [(500, "resumed"), (510, "finished")]
    lines = [{"time": (begin + datetime.timedelta(seconds=at)).isoformat(), "event": event} for at, event in spans]
    ledger, timings = folder / "ledger.jsonl", folder / "fold_00" / "timings.json"
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    timings.write_text(json.dumps({"version": 1, "steps": 3, "seconds": {"forward": 40.0, "other": 2.0}, "note": ""}))
    last = begin.timestamp() + spans[-1][0]
    for path in (timings, folder / "fold_00" / "history.jsonl", *([] if how == "copied" else [ledger])):
        path.touch()
        os.utime(path, (last, last + (70 if path != ledger else 0)))
    (run,) = ask("runs", "runs", "--name", "stopped", "--json")[1]["runs"]
    # of a copy the folds' own clocks are left
    assert run["seconds"] == {"killed": 72.0, "copied": 42.0, "killed, then continued": 42.0}[how]


def test_a_folder_without_runs_is_no_error(tmp_path, ask):
    assert ask("runs", str(tmp_path))[:2] == (0, f"there are no runs below {tmp_path}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("runs", "nowhere"), "there is no folder 'nowhere'"),
        (("runs", "--since", "lately"), "--since 'lately' is no time; write a day"),
        (("runs", "--since", "99999999999d"), "--since '99999999999d' is no time"),
        (("runs", "--best", "rmes"), "no run has the metric 'rmes'; did you mean 'rmse'?"),
        (("runs", "--limit", "0"), "--limit must be at least 1"),
        (("report", "nowhere"), "there is no run in 'nowhere': there is no such folder"),
        (("report", "runs", "--formats", "doc"), "there is no format 'doc'"),
        (("verify", "runs/none"), "there is no run in 'runs/none'"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(runs, ask, words, message):
    code, out, err = ask(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"delira {words[0]}: {message}")
    assert err.count("\n") == 1
    code, out, _ = ask(*words, "--json")
    assert code == 2
    assert message in out["error"]


def test_debug_shows_where(runs):
    with pytest.raises(ValueError, match="there is no folder"):
        cli.main(["runs", "nowhere", "--debug"])


# ---- report


def test_the_page_of_a_run(runs, ask):
    code, text, _ = ask("report", "runs/good")
    page = Path(text.split()[-1])
    assert code == 0
    assert page.parts[-2:] == ("report", "report.html")
    assert "good" in page.read_text(encoding="utf-8")
    code, answer, _ = ask("report", "runs/good", "-o", "x/page.html", "--export", "paper", "--formats", "csv", "--json")
    assert code == 0
    assert answer["report"] == "x/page.html"
    assert {Path(file).suffix for file in answer["files"]} == {".csv"}
    assert all(Path(file).exists() for file in answer["files"])
    assert answer["runs"][0]["summary"]["rmse"]["mean"] > 0


def test_the_page_of_a_run_that_was_broken_off_says_so(runs, ask):
    code, text, _ = ask("report", "runs/stopped", "-o", "page.html")
    assert code == 0
    assert "The run is broken off: KeyboardInterrupt: the cable was pulled; 0 of 2 folds" in " ".join(text.split())
    assert "0 of 2 folds can be shown" in Path("page.html").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_says_what_to_do(runs, ask):
    Path("taken").touch()
    code, _, err = ask("report", "runs/good", "-o", "taken/page.html")
    assert code == 2
    assert "the page cannot be written" in err
    assert "name another file with -o" in err


def test_runs_side_by_side(runs, ask):
    code, answer, _ = ask("report", "runs/good", "runs/slow", "-o", "both.html", "--json")
    assert code == 0
    page = Path("both.html").read_text(encoding="utf-8")
    assert "good" in page
    assert "slow" in page
    assert [run["name"] for run in answer["runs"]] == ["good", "slow"]


def test_files_of_several_runs_stay_in_the_folder_whatever_a_run_calls_itself(runs, ask):
    manifest = next((runs / "good").glob("*/manifest.json"))
    manifest.write_text(json.dumps({**read_plain(manifest), "name": "../../escaped"}))
    words = ("report", "runs/good", "runs/slow", "-o", "both.html", "--export", "paper", "--formats", "csv", "--json")
    _, answer, _ = ask(*words)
    assert len(answer["files"]) > 3
    assert {Path(file).resolve().parents[1] for file in answer["files"]} == {Path("paper").resolve()}


def test_runs_of_one_name_in_folders_of_one_name_are_exported_beside_each_other(runs, ask, tmp_path):
    (good,) = (runs / "good").glob("*/manifest.json")
    shutil.copytree(good.parent, tmp_path / "elsewhere" / good.parent.name)
    one, other = str(good.parent), str(tmp_path / "elsewhere" / good.parent.name)
    _, answer, _ = ask("report", one, other, "-o", "x.html", "--export", "paper", "--formats", "csv", "--json")
    assert len(set(answer["files"])) == len(answer["files"]) > 3
    assert len({Path(file).parent for file in answer["files"]}) == 2


def test_what_a_pipe_cannot_show_is_no_error(runs):
    command = [sys.executable, "-m", "delira", "runs", str(runs)]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 0, done.stderr
    assert b"good" in done.stdout


def test_a_name_is_no_command_to_the_terminal(runs, ask):
    manifest = next((runs / "good").glob("*/manifest.json"))
    manifest.write_text(json.dumps({**read_plain(manifest), "name": "\x1b[2Jgone"}))
    _, text, _ = ask("verify", "runs/good")
    assert text.startswith("\ufffd[2Jgone, finished")


# ---- verify


def files(answer: Any, state: str) -> list[str]:
    return [check["what"] for check in answer["files"] if check["state"] == state]


def test_a_whole_run_is_whole(runs, ask):
    code, answer, _ = ask("verify", "runs/good", "--json")
    assert (code, answer["is_broken"], files(answer, "broken"), files(answer, "missing")) == (0, False, [], [])
    whole = set(files(answer, "whole"))
    assert {"manifest.json", "ledger.jsonl", "parameters.yml", "result.json", "fold_01/result.zip"} <= whole
    assert any(name.startswith("fold_00/checkpoints/checkpoint_") for name in whole)
    code, text, _ = ask("verify", "runs/good")
    assert f"{len(whole)} of {len(whole)} are whole" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


@pytest.mark.parametrize(
    "damage",
    ["manifest.json", "result.json", "parameters.yml", "fold_00/result.zip", "fold_01/predictions.npz", "checkpoint"],
)
def test_every_damaged_file_is_named(runs, ask, damage):
    (run,) = (runs / "good").iterdir()
    path = run / damage if damage != "checkpoint" else next((run / "fold_01" / "checkpoints").glob("*last*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.unlink()  # checkpoints may be hard links
    path.write_bytes(b"{:" if damage == "parameters.yml" else content)
    code, answer, _ = ask("verify", "runs/good", "--json")
    assert code == 1
    assert files(answer, "broken") == [path.relative_to(run).as_posix()]


def test_a_file_that_is_missing_or_another_one_is_named(runs, ask):
    (run,) = (runs / "good").iterdir()
    (run / "result.json").unlink()
    path = run / "parameters.yml"
    path.write_text(path.read_text() + "# my notes\n")
    answer = ask("verify", "runs/good", "--json")[1]
    assert files(answer, "missing") == ["result.json"]
    assert files(answer, "broken") == ["parameters.yml"]


@pytest.mark.parametrize("damage", ["fold", "no epochs", "other epochs", "no table", "short table", "times", "guards"])
def test_what_a_finished_fold_has_lost_is_named(runs, ask, damage):
    (run,) = (runs / "good").iterdir()
    fold = run / "fold_01"
    epochs, table, times = fold / "history.jsonl", fold / "history.csv", fold / "timings.json"
    if damage == "fold":
        shutil.rmtree(fold)
        expected = "missing", "fold_01"
    elif damage == "no epochs":
        epochs.unlink()
        expected = "missing", "fold_01/history.jsonl"
    elif damage == "other epochs":
        epochs.write_text(epochs.read_text().replace('"epoch": 2', '"epoch": 3'))
        expected = "broken", "fold_01/history.jsonl"
    elif damage == "no table":
        table.unlink()
        expected = "missing", "fold_01/history.csv"
    elif damage == "short table":
        table.write_text(table.read_text().splitlines()[0])
        expected = "broken", "fold_01/history.csv"
    elif damage == "guards":
        (fold / "guards.json").write_text("{")
        expected = "broken", "fold_01/guards.json"
    else:
        times.write_text("{")
        expected = "broken", "fold_01/timings.json"
    code, answer, _ = ask("verify", "runs/good", "--json")
    assert code == 1
    assert files(answer, expected[0]) == [expected[1]]


def test_what_ledger_and_files_say_differently_is_found(runs, ask):
    (run,) = (runs / "good").iterdir()
    shutil.copy(run / "fold_00" / "result.zip", run / "fold_01" / "result.zip")
    code, text, _ = ask("verify", "runs/good")
    assert code == 1
    assert "fold_01/result.zip: rmse is" in text
    (run / "fold_00" / "result.zip").unlink()
    assert files(ask("verify", "runs/good", "--json")[1], "missing") == ["fold_00/result.zip"]


def test_another_environment_is_told_and_broken_only_if_that_is_asked_for(runs, ask):
    (run,) = (runs / "good").iterdir()
    manifest = read_plain(run / "manifest.json")
    manifest["versions"]["numpy"] = "1.0"
    (run / "manifest.json").write_text(json.dumps(manifest))
    code, text, _ = ask("verify", "runs/good")
    assert code == 0
    assert f"different    numpy: 1.0 in the run, {np.__version__} here" in text
    last = " ".join(text.partition("environment  ")[2].split())
    assert last.startswith("not that of the run: numpy; as in the run: the other ")
    assert "data" in last.partition("; not compared: ")[2]
    assert ask("verify", "runs/good", "--strict")[0] == 1


def test_several_runs_are_looked_at_by_one_call(runs, ask):
    code, text, _ = ask("verify", "runs/good", "runs/slow")
    assert code == 0
    assert [line.split()[0] for line in text.splitlines() if "finished:" in line] == ["good,", "slow,"]
    assert text.endswith("runs         all 2 runs are whole\n")
    (result,) = (runs / "slow").glob("*/fold_01/result.zip")
    result.unlink()
    code, text, _ = ask("verify", "runs/good", "runs/slow")
    assert code == 1
    assert "1 of 2 runs are broken: " in text
    code, answer, _ = ask("verify", "runs/good", "runs/slow", "--json")
    assert (code, answer["is_broken"], answer["is_same_environment"]) == (1, True, True)
    assert [run["is_broken"] for run in answer["runs"]] == [False, True]
    for name, run in zip(("good", "slow"), answer["runs"], strict=True):
        assert run == ask("verify", f"runs/{name}", "--json")[1]
    assert ask("verify", "runs/good", "runs/none")[0] == 2


def test_the_best_weights_that_are_gone_are_named(runs, ask):
    (run,) = (runs / "good").iterdir()
    (best,) = run.glob("fold_01/checkpoints/checkpoint_best*")
    best.unlink()
    code, text, _ = ask("verify", "runs/good")
    assert code == 1
    assert f"missing      fold_01/checkpoints/{best.name}: epoch 1 was the best" in text
    (run,) = (runs / "failing").iterdir()
    assert not list(run.glob("fold_01/checkpoints/*"))  # it ended before that of its first epoch was written
    assert files(ask("verify", "runs/failing", "--json")[1], "missing") == []
    history = run / "fold_01" / "history.jsonl"
    second = unsealed(json.loads(history.read_text())) | {"epoch": 2, "val_rmse": 99.0}
    history.write_text(history.read_text() + json.dumps(second) + "\n")
    gone = [f"fold_01/checkpoints/checkpoint_{name}" for name in ("best", "last", "previous")]
    assert files(ask("verify", "runs/failing", "--json")[1], "missing") == gone


def test_a_fold_without_a_score_must_have_its_last_weights(tmp_path, ask):
    data = BaseDataManager(linear_problem(12, 3, 7), 4)
    training = {"val_metrics": {"rmse": rmse}, "num_epochs": 2, "optimizer_params": {"lr": 0.05}}
    toy_kit().experiment(tmp_path, training=training, name="plain").kfold(data, num_splits=2, random_seed=5)
    assert ask("verify", str(tmp_path / "plain"))[0] == 0
    (last,) = tmp_path.glob("plain/*/fold_00/checkpoints/checkpoint_last*")
    last.unlink()
    answer = ask("verify", str(tmp_path / "plain"), "--json")[1]
    assert files(answer, "missing") == [f"fold_00/checkpoints/{last.name}"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("place", [".", "runs/good"])
def test_no_program_is_run_that_a_run_folder_names(runs, ask, monkeypatch, place):
    script = runs / "good" / "train.py"
    script.touch()
    trap = runs / "sprung"
    for command in (["init", "-q"], ["add", "train.py"], ["config", "core.fsmonitor", f"touch {trap}; false"]):
        subprocess.run(["git", "-C", str(script.parent), *command], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fsmonitor=false"]
    subprocess.run(["git", "-C", str(script.parent), *author, "commit", "-qm", "a"], check=True)
    (path,) = (runs / "good").glob("*/manifest.json")
    stated = {"command": ["runs/good/train.py"], "git": {"commit": "a", "changed": False}}
    path.write_text(json.dumps({**read_plain(path), **stated}))
    trap.unlink(missing_ok=True)
    monkeypatch.chdir(place)
    assert ask("verify", str(path.parent))[0] == 0
    assert not trap.exists()


def test_a_ledger_whose_metric_is_no_number_is_told(runs, ask):
    (path,) = (runs / "good").glob("*/ledger.jsonl")
    write_lines(path, lambda event: event | ({"metrics": {"rmse": {}}} if event["event"] == "fold_finished" else {}))
    code, text, _ = ask("verify", "runs/good")
    assert code == 1
    assert "rmse is {} in ledger.jsonl, which is no number" in " ".join(text.split())


# ---- the command itself


def delira(*words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "delira", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, **more)


def test_a_reader_that_has_seen_enough_is_no_error(runs):
    with subprocess.Popen(
        [sys.executable, "-m", "delira", "runs"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as done:  # fmt: skip
        done.stdout.close()
        assert done.stderr.read() == ""
    assert done.returncode == 141


def test_help_and_version_import_neither_a_framework_nor_the_training():
    probe = (
        "import sys\nfrom delira import cli\n"
        "try:\n    cli.main([sys.argv[1]])\nexcept SystemExit as end:\n    print(end.code)\n"
        "print([name for name in ('torch', 'jax', 'tensorflow', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    for word in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", probe, word],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout.endswith("0\n[]\n"), done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_an_unknown_command_is_misuse():
    done = delira("rusn")
    assert done.returncode == 2
    assert "invalid choice: 'rusn'" in done.stderr
