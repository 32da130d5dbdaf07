"""Every notebook was run from top to bottom, kept what it showed, names no machine, and is listed.

That they run is seen by ``make test-notebooks``.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: paths of a machine, addresses of objects, and what went wrong
UNWANTED = re.compile(r"/(home|root|tmp|work|usr|opt|var|Users)/|[A-Z]:\\\\|\b0x[0-9a-f]{6,}|Traceback")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]


@every_notebook
def test_it_was_run_from_top_to_bottom(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert not any(cell["metadata"] for cell in notebook["cells"])
    assert notebook["cells"][0]["source"][0].startswith("# "), "a title"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert any(cell["outputs"] for cell in code), "outputs are kept"
    assert path.stat().st_size < 300_000


@every_notebook
def test_its_outputs_name_no_machine_and_no_warning(path):
    for output in outputs_of(path):
        shown = {kind: text for kind, text in output.get("data", {}).items() if kind != "image/png"}
        shown = json.dumps([output.get("text"), shown])
        assert output["output_type"] != "error", shown
        assert output.get("name") != "stderr", shown
        assert not UNWANTED.search(shown), shown


@every_notebook
def test_its_links_lead_somewhere(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for link in re.findall(r"\]\(([^)#]+)", text) + re.findall(r'src="([^"]+)"', text):
        assert link.startswith("https://") or (FOLDER / link).exists(), link


def test_the_index_lists_every_notebook():
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\w+)\]\(\1\.ipynb\) \|", index, re.MULTILINE)
    assert sorted(listed) == [path.stem for path in NOTEBOOKS]


def test_the_blocks_of_the_page_on_migrating_run(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the page's examples need the package 'torch', which is not installed")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
    names = {"__name__": "migrating_page"}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "docs/migrating.md", "exec"), names)
    assert len(names["result"].folds) == 2
