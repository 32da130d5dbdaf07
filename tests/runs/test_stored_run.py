"""What manifest, ledger and histories of a folder say of a run, without any framework."""

import json

import pytest

from delira.errors import ConfigError
from delira.runs.folder import RunFolder
from delira.runs.stored_run import BROKEN_OFF, FAILED, FINISHED, UNKNOWN, find_runs, read_run

MANIFEST = {
    "name": "x",
    "fingerprint": {"kind": "kfold"},
    "num_splits": 3,
    "settings": {"val_score_key": "dice"},
    "score_mode": "highest",
}


def folder_of(path, *events):
    """A run folder whose ledger has these events, each with its facts."""
    path.mkdir()
    folder = RunFolder(path)
    folder.write_manifest(MANIFEST)
    for event, facts in events:
        folder.log(event, **facts)
    return folder


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], UNKNOWN),
        ([("started", {})], BROKEN_OFF),
        ([("started", {}), ("broken_off", {"error": "KeyboardInterrupt"})], BROKEN_OFF),
        ([("started", {}), ("broken_off", {"error": "ValueError: no"})], FAILED),
        ([("started", {}), ("finished", {})], FINISHED),
        ([("started", {}), ("finished", {}), ("resumed", {})], BROKEN_OFF),
    ],
)
def test_the_last_line_of_the_ledger_says_how_it_stands(tmp_path, events, state):
    assert read_run(folder_of(tmp_path / "run", *events).path).state == state


def test_what_folds_said_is_their_mean_and_the_manifest_says_how_many_there_are(tmp_path):
    folds = [("fold_finished", {"fold": fold, "metrics": {"dice": 0.5 + fold, "text": "?"}}) for fold in (0, 1)]
    run = read_run(folder_of(tmp_path / "run", ("started", {}), *folds).path)
    assert (run.name, run.kind, run.n_folds, [*run.finished_folds]) == ("x", "kfold", 3, [0, 1])
    assert run.metrics == {"dice": 1.0}
    assert run.missing_folds == []


def test_a_line_that_was_cut_is_a_problem_and_the_rest_is_read(tmp_path):
    folder = folder_of(tmp_path / "run", ("started", {}), ("finished", {"missing_folds": [2]}))
    with open(folder.path / "ledger.jsonl", "ab") as file:
        file.write(b'{"event": "resu')
    run = read_run(folder.path)
    assert (run.state, run.missing_folds) == (FINISHED, [2])
    assert any("ledger.jsonl" in problem for problem in run.problems)


def test_the_best_epoch_is_that_of_the_score_and_of_two_equal_ones_the_first(tmp_path):
    run = read_run(folder_of(tmp_path / "run").path)
    history = [{"epoch": epoch, "val_dice": value} for epoch, value in enumerate([0.1, 0.7, 0.7, float("nan")], 1)]
    assert run.score_key == "val_dice"
    assert run.best_epoch(history) == 2
    assert run.best_epoch([{"epoch": 1}]) is None


def test_runs_are_found_below_a_folder_and_a_folder_without_one_is_refused(tmp_path):
    folders = [folder_of(tmp_path / name, ("started", {})).path for name in ("a", "b")]
    assert sorted(find_runs(tmp_path)) == folders
    (tmp_path / "a" / "manifest.json").write_text(json.dumps({}))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="there is no run in"):
        read_run(tmp_path / "empty")
