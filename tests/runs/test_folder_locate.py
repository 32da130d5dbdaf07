"""Any path of a run that a user has at hand leads to the run, and what leads nowhere is refused."""

import pytest

from delira.errors import ConfigError
from delira.runs.folder import locate_fold, locate_run


@pytest.fixture
def run(tmp_path):
    """The folder of a run of two folds, each with a checkpoint."""
    for fold in ("fold_00", "fold_01"):
        (tmp_path / "run" / fold / "checkpoints").mkdir(parents=True)
        (tmp_path / "run" / fold / "checkpoints" / "checkpoint_epoch_1.pt").touch()
        (tmp_path / "run" / fold / "history.jsonl").touch()
    (tmp_path / "run" / "ledger.jsonl").touch()
    (tmp_path / "run" / "report").mkdir()
    return tmp_path / "run"


@pytest.mark.parametrize(
    "place",
    [
        ".",
        "ledger.jsonl",
        "report",
        "fold_01",
        "fold_01/history.jsonl",
        "fold_01/checkpoints",
        "fold_01/checkpoints/checkpoint_epoch_1.pt",
    ],
)
def test_every_path_in_a_run_leads_to_it(run, place):
    assert locate_run(run / place) == run
    assert locate_run(str(run / place)) == run


def test_a_folder_that_is_no_part_of_a_run_stands_for_itself(tmp_path):
    (tmp_path / "report").mkdir()
    assert locate_run(tmp_path / "report") == tmp_path / "report"


def test_a_trainer_goes_on_in_a_fold_and_from_the_file_that_is_named(run):
    file = run / "fold_01" / "checkpoints" / "checkpoint_epoch_1.pt"
    assert locate_fold(run) == (run / "fold_00", None)
    assert locate_fold(run / "fold_01") == (run / "fold_01", None)
    assert locate_fold(file.parent) == (run / "fold_01", None)
    assert locate_fold(file) == (run / "fold_01", file)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (5, "resume must be 'auto', a path or None, got 5"),
        ("AUTO", "did you mean resume='auto'?"),
        ("checkpoint_epoch_9.pt", r"there is no checkpoint .*; there are: none"),
    ],
)
def test_what_is_no_path_of_a_run_is_refused(monkeypatch, tmp_path, path, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        locate_run(path)


def test_a_file_in_no_run_and_a_folder_without_checkpoints_are_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match="it is a file, and in no run"):
        locate_run(tmp_path / "notes.txt")
    with pytest.raises(ConfigError, match="there are no checkpoints to resume from"):
        locate_fold(tmp_path)
