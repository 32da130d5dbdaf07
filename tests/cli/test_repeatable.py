"""What ``delira verify`` says of a rerun before anybody has begun it."""

import json
import shutil
from pathlib import Path

import pytest
from edited_files import plain, read_plain
from problems import linear_problem, mae
from small_backends import toy_kit

from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.experiments.experiment_file import FILE_NAME
from delira.runs import environment, weight_hashes
from delira.utils.files import sealed

#: of a run that nobody doubts: made of a commit without changes, which is that of here
COMMIT = {"commit": "0123456789abcdef", "changed": False}


def data():
    return BaseDataManager(linear_problem(12), 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    experiment = toy_kit().experiment(path, training={"num_epochs": 1, "save_freq": 1}, name="run")
    experiment.kfold(data, {"mae": mae}, num_splits=2, shuffle=True, random_seed=5, val_split=None)
    return next((path / "run").iterdir())


@pytest.fixture
def run(made, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(made, tmp_path / "run"))
    monkeypatch.setattr(environment, "git_commit", lambda script: COMMIT)
    edit(folder, git=COMMIT)
    return folder


def edit(run, **entries):
    """Write the manifest again, with other entries, or parts of them."""
    manifest = read_plain(run / "manifest.json")
    for name, value in entries.items():
        is_part = isinstance(value, dict) and isinstance(manifest.get(name), dict)
        manifest[name] = {**manifest[name], **value} if is_part else value
    (run / "manifest.json").write_text(json.dumps(sealed(manifest)))


def log(run, **event):
    lines = [plain(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    lines.insert(1, {"time": lines[0]["time"], **event})
    (run / "ledger.jsonl").write_text("".join(json.dumps(sealed(line)) + "\n" for line in lines))


def told(run):
    return verify([run]).content["rerun"]


def test_of_a_run_of_this_environment_nobody_doubts_it(run):
    assert told(run) == {"state": "can be equal", "reasons": [], "needs": []}
    assert "rerun        can be equal" in verify([run]).text


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"versions": {"numpy": "1.0"}}, "numpy: 1.0 in the run"),
        ({"versions": {"python": "3.8.1"}}, "python: 3.8.1 in the run"),
        ({"processor": "abacus"}, "processor: abacus in the run"),
        ({"platform": "sand"}, "platform: sand in the run"),
        ({"git": {"commit": "f" * 16}}, "git: ffffffffff in the run, 0123456789 here"),
        ({"git": {"changed": True}}, "git: 0123456789 with changes in the run"),
        ({"settings": {"device": "cuda:0"}}, "device='cuda:0' without deterministic=True"),
        ({"settings": {"device": "auto"}}, "device='auto' without deterministic=True"),
        ({"settings": {"gpu_ids": [0]}}, "gpu_ids=[0] without deterministic=True"),
        ({"fingerprint": {"data": None}}, "data: their content was not recorded"),
        ({"code": {"missing": ["Net.forward"]}}, "code: that of Net.forward cannot be had"),
    ],
)
def test_what_may_change_bits_is_a_doubt(run, entries, reason):
    edit(run, **entries)
    found = told(run)
    assert found["state"] == "not known"
    (only,) = found["reasons"]
    assert only.startswith(reason)


@pytest.mark.parametrize(
    "entries",
    [
        {"settings": {"device": "cuda:0", "deterministic": True}},
        {"settings": {"device": "cpu"}},
        {"room": "torch", "versions": {"jax": "0.0.1"}},
    ],
)
def test_what_changes_no_bit_is_none(run, entries):
    edit(run, **entries)
    assert told(run)["state"] == "can be equal"


def test_changes_that_were_in_no_commit_are_a_doubt_outside_of_the_repository_too(run, monkeypatch):
    edit(run, git={"changed": True})
    monkeypatch.setattr(environment, "git_commit", lambda script: None)
    assert told(run)["reasons"] == ["git: the script had changes that were in no commit"]


def test_folds_that_had_to_compute_with_other_threads_are_a_doubt(run):
    log(run, event="other_threads", fold=1, num_threads=3)
    assert "num_threads: some folds" in told(run)["reasons"][0]


def test_a_package_that_is_not_here_makes_it_impossible(run):
    versions = dict.fromkeys(("torch", "absent"), "1.0")
    edit(run, room="torch", versions=versions)
    here = environment.versions()
    found = told(run)
    if "torch" in here:
        assert found["reasons"] == [f"torch: 1.0 in the run, {here['torch']} here"]
    else:
        assert (found["state"], found["reasons"]) == ("cannot", ["torch is not installed here"])


def test_what_its_file_cannot_name_or_find_makes_it_impossible(run, tmp_path):
    text = (run / FILE_NAME).read_text()
    (run / FILE_NAME).write_text(text.replace("mae:", "mae: {$repr: '<function <lambda>>'}\n    other:", 1))
    assert told(run)["state"] == "cannot"
    assert "the file has only a text of asked.metrics.mae" in told(run)["reasons"][0]
    gone = tmp_path / "splits.json"
    (run / FILE_NAME).write_text(text.replace("splits: null", f"splits: {gone}"))
    assert told(run)["state"] == "cannot"
    assert told(run)["reasons"] == [f"its splits are those of {gone}, which is not there"]


def test_a_run_that_was_continued_with_changes_cannot_be_equal(run):
    log(run, event="resumed", changes=["training.lr: 0.1 in the run, 0.2 now"])
    found = told(run)
    assert found["state"] == "cannot"
    assert found["reasons"] == ["it was continued with changes: training.lr: 0.1 in the run, 0.2 now"]


def test_what_says_neither_code_nor_seed_cannot_be_run_again(run):
    (run / FILE_NAME).unlink()
    (reason,) = told(run)["reasons"]
    assert f"experiment.save({str(run / FILE_NAME)!r}, data=function, kfold={{…}})" in reason
    (run / "manifest.json").unlink()
    (reason,) = told(run)["reasons"]
    assert "its seed and settings are not known" in reason
    assert told(run)["state"] == "cannot"


def test_what_has_to_be_named_and_what_is_not_compared_is_said(run):
    for path in run.rglob(weight_hashes.FILE):
        path.unlink()
    file = run / FILE_NAME
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("data")))
    found = told(run)
    assert found["state"] == "can be equal"
    data, hashes = found["needs"]
    assert "--data module:function" in data
    assert "no hashes" in hashes
    text = verify([run]).text
    assert "--data" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_hashes_that_were_changed_are_damage(run):
    path = run / "fold_01" / weight_hashes.FILE
    path.write_text(path.read_text().replace('"epoch": 1', '"epoch": 2'))
    answer = verify([run])
    assert answer.is_broken
    (damaged,) = [check for check in answer.content["files"] if check["state"] == "broken"]
    assert damaged["what"] == f"fold_01/{weight_hashes.FILE}"
    assert "1 of 1 hashes" in damaged["detail"]
