"""The folds of a cross-validation as a table."""

import re

import pytest

from delira.callbacks.live_view import FoldTable, rich_table

pytest.importorskip("pyte", reason="pyte is not installed")
pytest.importorskip("pty", reason="this system has no pseudo terminals")
from live_programs import KFOLD, program
from pseudo_terminal import run_in_terminal


@pytest.mark.parametrize(
    ("columns", "variables"),
    [
        (80, {}),
        pytest.param(60, {}, marks=pytest.mark.slow),
        pytest.param(80, {"NO_COLOR": "1"}, marks=pytest.mark.slow),
    ],
)
def test_a_cross_validation_is_a_table_of_its_folds(columns, variables):
    seen = run_in_terminal(program(KFOLD), columns=columns, **variables)
    lines = str(seen).splitlines()
    assert seen.code == 0
    assert all(len(line) <= columns for line in lines)
    assert [line.split() for line in lines if line.strip().startswith("fold")] == [
        ["fold", "epoch", "time", "left", "best", "values"]
    ]
    rows = [line for line in lines if re.match(r"\s+[012]\s", line)]
    assert len(rows) == 3  # no torn lines are left
    assert all(re.search(r"4/4 +\d:\d\d +\d\.\S+ @\d +mse \d", row) for row in rows)
    assert "3 of 3 folds" in lines[-1]
    assert seen.screen.cursor.hidden is False
    wanted = (  # of one picture: the fold before stays, the second runs, and how far all of it is
        r"\n +0 +4/4 .*\n +1 +[1-4]/4 +\d:\d\d +\d:\d\d.* mse \d",
        r"1 of 3 folds · \d:\d\d · about \d:\d\d left · \S+/s, \d+M",
    )
    assert any(all(re.search(pattern, shot) for pattern in wanted) for shot in seen.shots), (
        "no picture of a fold that runs"
    )
    assert (b"\x1b[1m" in seen.raw) or variables == {"NO_COLOR": "1"}
    assert not re.search(rb"\x1b\[[34]\dm", seen.raw) or not variables


@pytest.mark.slow
def test_the_table_follows_a_terminal_that_becomes_narrower():
    seen = run_in_terminal(program(KFOLD, nap=0.03), resize_at=("1 of 3 folds", 60))
    assert seen.code == 0
    assert all(len(line) <= 60 for line in str(seen).splitlines()[-6:])
    assert "3 of 3 folds" in str(seen)


def test_only_as_many_folds_are_drawn_as_there_is_place_for_and_in_the_end_all():
    table = FoldTable(40, lambda table, is_last: None)
    table.number = 20
    shown = [number for number, _ in table.lines(10)]
    assert len(shown) == 10
    assert "20" in shown
    assert "19" in shown
    assert len(table.lines(None)) == 40
    assert len(rich_table(table, 10).rows) == 10
