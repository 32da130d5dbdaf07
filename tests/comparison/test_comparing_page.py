"""docs/comparing.md: its blocks run, and print what the page says, up to numbers."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text(encoding="utf-8")


def words(text):
    """What does not depend on the version of an estimator: no numbers, and not what follows from them."""
    return re.sub(r"[<>=]? ?[-−+]?\d[\d.,]*", "N", text).split()


@pytest.mark.slow
def test_the_blocks_of_the_page_run_and_print_what_it_says(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/comparing.md", "exec"), names)
    printed = capsys.readouterr().out
    (text,) = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    tables = words(text.partition("\nOn these 5 folds")[0])  # what the sentences say follows from the numbers
    assert words(printed)[: len(tables)] == tables


def test_every_test_that_is_shown_is_on_the_page():
    from delira.comparison.auroc import DELONG
    from delira.comparison.many import FRIEDMAN
    from delira.comparison.tests_of_cases import MCNEMAR
    from delira.comparison.tests_of_folds import CORRECTED, WILCOXON

    for name in (DELONG, FRIEDMAN, MCNEMAR, CORRECTED, WILCOXON, "Nemenyi", "Holm", "Bayesian correlated"):
        assert name in PAGE


def test_the_rates_of_the_page_are_in_range():
    rows = re.findall(r"^\| ([\w ×,>.()\-]+?) \| (0\.\d{3} \(.*) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) >= 20
    for name, cells in rows:
        for rate, low, high in re.findall(r"(0\.\d+) \((0\.\d+)–(0\.\d+)\)", cells):
            assert float(low) <= float(rate) <= float(high), name
