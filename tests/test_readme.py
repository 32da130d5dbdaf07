"""The example of the README runs as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.left_to_full
def test_the_example_prints_what_the_readme_says(tmp_path):
    pytest.importorskip("torch")
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    printed = re.search(r"```text\n(.*?)```", README, re.DOTALL)[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert _shape(done.stdout) == _shape(printed)
    accuracy = float(re.search(r"accuracy\s+(0\.\d+) ±", done.stdout)[1])
    assert accuracy >= 0.965
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_example_has_thirty_lines_of_code():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 30


def test_every_link_of_the_readme_leads_somewhere():
    root = Path(__file__).parents[1]
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        assert (root / link).exists(), link


def _shape(text: str) -> str:
    """The text without its digits, which depend on the processor."""
    return re.sub(r"\d", "0", text)
