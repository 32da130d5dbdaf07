"""Every block of docs/report.md runs, one after the other, and its table names every section."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "report.md").read_text(encoding="utf-8")
TEMPLATE = Path(__file__).parents[1] / "delira" / "report" / "templates" / "kfold.html.j2"


@pytest.mark.slow
def test_the_blocks_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    pytest.importorskip("pandas", reason="a block of the page needs the package 'pandas'")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "report_page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "docs/report.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "(8, 8)" in printed
    assert {"summary.csv", "classes.tex", "roc.pdf"} <= set(printed.split())
    assert "model.C" in (tmp_path / "runs.html").read_text("utf-8")
    html = (tmp_path / "report.html").read_text("utf-8")
    stored = names["result"].load(names["result"].path).to_html()
    assert stored == html


def test_every_section_of_the_page_is_named():
    titles = re.findall(r"<h2>(\w[\w ]+)</h2>", TEMPLATE.read_text("utf-8"))
    titles += ["Classes", "Predicted and true values", "Values", "Time"]
    assert len(titles) > 9
    assert not [title for title in titles if f"| {title} |" not in PAGE]
