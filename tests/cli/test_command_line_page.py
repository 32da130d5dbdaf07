"""docs/command_line.md: every command prints what the page says, up to times, versions and paths."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from delira.cli.main import build_parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")


def sessions() -> list[tuple[str, str]]:
    """Commands and what they print, in the order of the page."""
    blocks = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return [
        (command, printed)
        for block in blocks
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
    ]


def told(text: str) -> list[str]:
    """Words without what differs from day to day: numbers, hexadecimal ones and folders."""
    text = re.sub(r"\S*/runs/", "runs/", text)
    text = re.sub(r"\b[0-9a-f]{10,}\b", "HEX", text)
    text = re.sub(r"-?\d[\d.,:+T_-]*", "N", text)
    return re.sub(r"\bN (s|min|h)\b", "N s", text).split()


@pytest.mark.slow
@pytest.mark.timeout(600)  # several interpreters that import a framework, on a machine that is shared
def test_every_command_prints_what_the_page_says(tmp_path):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    pytest.importorskip("torch", reason="the script of the page needs the package 'torch', which is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "COLUMNS": "80"}
    folder = tmp_path
    for command, expected in sessions():
        words = shlex.split(command)
        if words[0] == "cd":
            folder /= words[1]
            continue
        if ">" in words:
            continue  # tests/cli/test_new.py reads these scripts
        own = ["-m", *words] if words[0] == "delira" else words[1:]
        done = subprocess.run(
            [sys.executable, *own], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        printed = done.stdout or done.stderr
        assert told(printed) == told(expected), f"$ {command}\n{printed}\n{done.stderr}"
        if words[0] == "delira":
            assert max(map(len, printed.splitlines())) <= 80 or "demo" in command


def test_every_command_and_option_is_on_the_page():
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    rows = dict(re.findall(r"^\| `delira (\w+)` \| (.*) \|$", PAGE, flags=re.MULTILINE))
    assert rows == {action.dest: action.help for action in commands._choices_actions}
    options = {option for command in commands.choices.values() for option in command._option_string_actions}
    assert not [option for option in options - {"-h"} if option not in PAGE]


def test_the_blocks_of_python_run(tmp_path, monkeypatch):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/command_line.md", "exec"), {"__name__": "page"})
