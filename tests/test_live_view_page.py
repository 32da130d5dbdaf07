"""Every block of docs/live_view.md runs."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "live_view.md").read_text(encoding="utf-8")


def test_the_blocks_run_and_are_quiet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "live_view_page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "docs/live_view.md", "exec"), names)
    assert names["slowest"] in names["times"]["seconds"]
    assert capsys.readouterr() == ("", "")
