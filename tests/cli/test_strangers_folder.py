"""A folder that somebody else has filled: whatever stands in place of a file, nobody waits, nothing breaks off."""

import io
import json
import os
import shutil
import types
import warnings

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit
from time_limit import within_seconds

from delira.cli.report import write_report
from delira.cli.runs import list_runs
from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DeliraError
from delira.runs.folder import RunFolder
from delira.training import KFoldResult
from delira.utils.lock import locked, owner_of

if os.name != "posix":
    pytest.skip("pipes, devices and links of POSIX", allow_module_level=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished cross-validation."""
    root = tmp_path_factory.mktemp("made")
    data = BaseDataManager(linear_problem(12, 3, 7), 4)
    training = {"num_epochs": 1, "optimizer_params": {"lr": 0.05}, "val_metrics": {}}
    toy_kit().experiment(root, training=training, name="good").kfold(data, num_splits=2, random_seed=5)
    (run,) = (root / "good").iterdir()
    (run / "report").mkdir(exist_ok=True)
    for name, content in (("guards.json", {"left_out": [], "rollbacks": []}), ("left_out.json", {"3": "broken"})):
        (run / "fold_00" / name).write_text(json.dumps(content))
    np.savez_compressed(run / "report" / "examples.npz", facts=np.array("{}"))
    return run


@pytest.fixture
def run(made, tmp_path):
    """A copy of it, beside another run that is whole."""
    shutil.copytree(made, tmp_path / "runs" / "whole" / "2026-01-01_00-00-00")
    return shutil.copytree(made, tmp_path / "runs" / "good" / "2026-01-01_00-00-00")


def _link_out(path):
    outside = path.parents[3] / "outside.json"
    outside.write_text('{"secret": "of the reader"}')
    path.symlink_to(outside)


def _sparse(path):
    with open(path, "wb") as file:
        file.truncate(1 << 36)


def _socket(path):
    os.mknod(path, 0o140600)


DEEP = "[" * 100_000 + "]" * 100_000
BAD = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a link out": _link_out,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "nothing in it": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 20),
    "64 GiB of zeros": _sparse,
    "deep JSON": lambda path: path.write_text(DEEP),
    "JSON of some depth": lambda path: path.write_text('{"a":' * 400 + "1" + "}" * 400),
    "a number": lambda path: path.write_text("3"),
    "a list": lambda path: path.write_text('["a"]'),
    "an empty dictionary": lambda path: path.write_text("{}"),
    "null in every entry": lambda path: path.write_text(
        json.dumps(dict.fromkeys(("name", "event", "fold", "time", "seconds", "left_out", "fingerprint", "settings")))
    ),
}
FILES = [
    "manifest.json", "ledger.jsonl", "parameters.yml", "result.json", "report/examples.npz", "fold_00",
    "fold_00/result.zip", "fold_00/history.jsonl", "fold_00/history.csv", "fold_00/timings.json", "fold_00/guards.json",
    "fold_00/left_out.json", "fold_00/predictions.npz", "fold_00/checkpoints",
    "fold_00/checkpoints/checkpoint_last.zip", "numbers.json", ".lock", ".lock-owner.json",
]  # fmt: skip


#: what a run can do without, so that a link to nothing is as good as nothing
OPTIONAL = ("numbers.json", "report/examples.npz", "fold_00/guards.json", "fold_00/left_out.json")


def is_nothing(name, what):
    """Whether this is as good as a file that is not there, or one that holds what may be in it."""
    is_gone = what in ("a link to itself", "a link to nothing") and name in OPTIONAL
    holds_entries = what in ("an empty dictionary", "null in every entry") and name.endswith("left_out.json")
    is_told_elsewhere = (name, what) == ("manifest.json", "null in every entry")
    is_made_again = name in (".lock", ".lock-owner.json", "numbers.json")
    return is_made_again or is_gone or holds_entries or is_told_elsewhere


def put(run, name, what):
    path = run / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    BAD[what](path)
    return path


def everything():
    """Each file with each thing in its place; an eighth is quick: every file, and every thing, twice or more."""
    for row, name in enumerate(FILES):
        for column, what in enumerate(BAD):
            yield pytest.param(name, what, marks=[] if (row + column) % 8 == 0 else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "what"), [*everything()])
def test_whatever_stands_there_is_told(run, name, what):
    put(run, name, what)
    with within_seconds(), warnings.catch_warnings():
        warnings.simplefilter("error")
        listed = list_runs(run.parents[1]).content["runs"]
        found = verify([run])
        told = str(KFoldResult.load(run))
    assert {entry["path"] for entry in listed} == {str(run), str(run.parents[1] / "whole" / run.name)}
    assert next(entry for entry in listed if "whole" in entry["path"])["problems"] == []
    if not is_nothing(name, what):
        assert {check["state"] for check in found.content["files"]} & {"broken", "missing", "unknown"}
    assert "secret" not in told + str(found.content) + str(listed)


@pytest.mark.parametrize(
    ("name", "what"),
    [("manifest.json", "JSON of some depth"), ("fold_00/timings.json", "a pipe"), ("report/examples.npz", "a device"),
     ("result.json", "deep JSON"), ("ledger.jsonl", "null in every entry")],
)  # fmt: skip
def test_a_page_is_written_of_what_is_left(run, tmp_path, name, what):
    pytest.importorskip("matplotlib")
    put(run, name, what)
    with within_seconds(60):
        write_report([run], tmp_path / "page.html")
    assert "good" in (tmp_path / "page.html").read_text()


def test_a_lock_that_is_a_link_empties_no_file(run):
    mine = run.parents[3] / "mine"
    mine.write_text("of mine")
    (run / ".lock").unlink(missing_ok=True)
    (run / ".lock").symlink_to(mine)
    assert owner_of(run) is None
    assert mine.read_text() == "of mine"
    with locked(run.parent):
        assert owner_of(run.parent)


def test_a_report_is_not_written_out_of_the_folder(run, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "report.html").write_text("of mine")
    shutil.rmtree(run / "report")
    (run / "report").symlink_to(mine)
    with pytest.raises(ConfigError, match=r"report.* is a link to .*mine.*-o"):
        write_report([run])
    assert [path.name for path in mine.iterdir()] == ["report.html"]
    assert (mine / "report.html").read_text() == "of mine"


def test_a_fold_that_is_a_link_out_of_the_run_is_not_read(run, made):
    shutil.rmtree(run / "fold_00")
    (run / "fold_00").symlink_to(made / "fold_00")
    result = KFoldResult.load(run)
    assert [fold.fold for fold in result.folds] == [1]
    assert any("fold_00 is a link out of the folder" in problem for problem in result.problems)


ESCAPES = "\x1b[2Jred\x1b[31m\x9b0m\u202egnp\ud800"


def test_no_text_of_a_file_commands_a_terminal(run, tmp_path):
    pytest.importorskip("matplotlib")
    for path in (run / "manifest.json", run / "result.json"):
        content = json.loads(path.read_text())
        content = json.loads(json.dumps(content).replace('"good"', json.dumps(ESCAPES)))
        path.write_text(json.dumps({**content, "name": ESCAPES, "class_names": [ESCAPES, "b"]}))
    with open(run / "ledger.jsonl", "a") as file:
        file.write(json.dumps({"event": "broken_off", "error": ESCAPES, "notes": [ESCAPES]}) + "\n")
    moved = run.rename(run.with_name("\x1b[2J"))
    result = KFoldResult.load(moved)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        page = result.to_html()
        result.plot()
    texts = [str(result), repr(result), page, result.name, *result.problems, *(str(one.message) for one in caught)]
    assert not [text for text in texts if set(text) & set("\x1b\x9b\u202e\ud800")]
    page.encode()


def test_cells_that_a_spreadsheet_would_calculate_are_texts():
    import csv

    from delira.report.table import Table

    formulas = [
        "=1+1",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        " =1",
        "\n=1",
        "\uff1d1+1",
        "\x0b=1",
    ]
    rows = [[text, 0.5] for text in formulas]
    read = list(
        csv.reader(io.StringIO(Table("a", ["=name", "-1"], [*rows, ["-0.5", -0.5], ["plain", 1]]).csv(), newline=""))
    )
    assert [row[0][0] for row in read[1:11]] == ["'"] * 10
    assert read[0] == ["'=name", "-1"]
    assert read[-2:] == [["-0.5", "-0.5"], ["plain", "1"]]


def test_a_column_of_the_history_is_no_formula(tmp_path):
    """The names of metrics head the table of epochs."""
    import csv

    from delira.callbacks.history import HistoryWriter

    state = types.SimpleNamespace(history=[{"epoch": 1, '=HYPERLINK("x")': 0.5, "a,b": -1.0}])
    HistoryWriter(tmp_path).at_training_begin(types.SimpleNamespace(state=state))
    with open(tmp_path / "history.csv", newline="") as file:
        assert list(csv.reader(file)) == [["epoch", '\'=HYPERLINK("x")', "a,b"], ["1", "0.5", "-1.0"]]


def test_one_run_that_breaks_a_reader_does_not_hide_the_others(run, monkeypatch):
    from delira.cli import runs as module

    real = module.read_run

    def breaking(path):
        if "good" in str(path):
            raise ZeroDivisionError("on purpose")
        return real(path)

    monkeypatch.setattr(module, "read_run", breaking)
    answer = list_runs(run.parents[1])
    bad, whole = sorted(answer.content["runs"], key=lambda entry: entry["path"])
    assert (bad["status"], whole["status"]) == ("unknown", "finished")
    assert "ZeroDivisionError: on purpose" in bad["problems"][0]
    assert "good" in answer.text


def test_a_run_that_is_continued_is_read_as_safely(run):
    put(run, "manifest.json", "a pipe")
    put(run, "ledger.jsonl", "deep JSON")
    with within_seconds():
        assert RunFolder(run).read_manifest() == {}
        assert RunFolder(run).events() == []
    with within_seconds(), pytest.raises(DeliraError, match="manifest"):
        RunFolder(run).check_unchanged({"fingerprint": {"kind": "kfold"}})
