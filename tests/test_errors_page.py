"""Every line of docs/errors.md raises the error that the page shows below it."""

import re
import sys
from pathlib import Path

import pytest

from delira import models
from delira.errors import DeliraError

PAGE = (Path(__file__).parents[1] / "docs" / "errors.md").read_text(encoding="utf-8")
HEAD, *SECTIONS = re.split(r"^### ", PAGE, flags=re.MULTILINE)
(SETUP,) = re.findall(r"^```python\n(.*?)^```", HEAD, re.MULTILINE | re.DOTALL)
#: title -> code, message, explanation
ERRORS = {
    section.splitlines()[0]: re.fullmatch(
        r".*?\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```\n\n(.*)", section, re.MULTILINE | re.DOTALL
    ).groups()
    for section in SECTIONS
}


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("title", ERRORS)
def test_the_line_raises_what_the_page_says(title, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the page's examples need the package 'torch', which is not installed")
    if "cuda" in title and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    if "Errno 5" in title and not Path("/proc/self/mem").exists():
        pytest.skip("no file of this system is known that cannot be read")
    monkeypatch.chdir(tmp_path)
    if "package" in title:  # as in a process that has not imported it yet
        monkeypatch.setitem(sys.modules, "tensorflow", None)
        monkeypatch.delitem(vars(models), "AbstractTfNetwork", raising=False)
        for name in [name for name in sys.modules if name.startswith("delira.backends.tensorflow")]:
            monkeypatch.delitem(sys.modules, name)
    code, message, _ = ERRORS[title]
    names = {"__name__": "errors_page"}
    exec(compile(SETUP, "docs/errors.md", "exec"), names)
    with pytest.raises(DeliraError) as caught:
        exec(compile(code, f"docs/errors.md, {title}", "exec"), names)
    pattern = ".*".join(re.escape(part) for part in in_one_line(message).split("…"))
    said = in_one_line(f"{type(caught.value).__name__}: {caught.value}")
    assert re.match(pattern, said), said


def test_every_error_has_a_cure_and_no_title_comes_twice():
    assert len(ERRORS) == len(SECTIONS) >= 40
    assert [title for title, (_, _, explanation) in ERRORS.items() if "**Cure:** " not in explanation] == []
