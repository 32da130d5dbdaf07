"""How a comparison is shown: printed, as tables, pictures and pages."""

import re

import numpy as np
import pytest

import delira
from delira.errors import ConfigError
from delira.metrics import accuracy


@pytest.fixture
def found(pair, method):
    return delira.compare([*pair, method(0.9, "de<e>p", 3)])


def test_it_prints_in_eighty_columns(found, pair):
    text = str(delira.compare(pair))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("plain and wide: 5 folds, 120 cases\n")
    for part in ("fold 4", "mean", "corrected t", "McNemar", "DeLong", "95 % interval", "On these 5", "seed 0"):
        assert part in text
    assert repr(found) == "Comparison(['plain', 'wide', 'de<e>p'], metrics=['accuracy', 'auroc'])"


def test_tables_have_four_formats(found):
    for table in (found.table, found.tests, lambda fmt: found.folds("accuracy", fmt)):
        assert "---" in table("plain")
        assert table("markdown").startswith("| ")
        assert table("latex").startswith(r"\begin{tabular}")
        assert table("html").startswith("<table>")
        assert "de&lt;e&gt;p" in table("html")
        assert r"de\textless{}e\textgreater{}p" in table("latex")
        with pytest.raises(ConfigError, match="there is no table format 'pdf'"):
            table("pdf")
    assert len(found.table("markdown").splitlines()) == 2 + 6


def test_the_table_of_folds_has_differences_and_means(pair):
    lines = delira.compare(pair).folds("accuracy").splitlines()
    assert lines[0].split() == ["accuracy", "plain", "wide", "wide", "−", "plain"]
    rows = {line.split()[0]: line.split()[-1] for line in lines[2:] if line.startswith("mean")}
    difference = delira.compare(pair, metric="accuracy").differences[0].mean
    assert float(rows["mean"].replace("−", "-")) == pytest.approx(difference, abs=1e-4)


def test_a_comparison_of_many_folds_does_not_print_them_all(method):
    settings = {"n_folds": 20, "metrics": {"accuracy": accuracy}}
    text = str(delira.compare([method(0.5, "a", 1, **settings), method(1.2, "b", 2, **settings)]))
    assert "20 folds" in text
    assert "fold 13" not in text


def test_the_forest_plot_has_both_intervals_and_the_region(found, tmp_path):
    figure = found.plot("accuracy", tmp_path / "deep" / "forest.png")
    assert (tmp_path / "deep" / "forest.png").stat().st_size > 5000
    (axes,) = figure.axes
    lines = [line for line in axes.lines if line.get_label() == "bootstrap, over cases"]
    assert [tuple(line.get_xdata()) for line in lines] == [one.interval[:2] for one in found.of("accuracy")]
    lines = [line for line in axes.lines if line.get_label() == "corrected t, over folds"]
    assert [tuple(line.get_xdata()) for line in lines] == [one.t_interval for one in found.of("accuracy")]
    assert [text.get_text() for text in axes.get_yticklabels()] == [one.label for one in found.of("accuracy")]
    assert found.plot().axes[0].get_title(loc="left") == "Differences in accuracy"


def test_the_paired_plot_joins_the_values_of_each_fold(found):
    figure = found.figures()["accuracy fold by fold"]
    lines = [line.get_ydata() for line in figure.axes[0].lines if line.get_label() == "fold"]
    assert np.array(lines) == pytest.approx(found.measured["accuracy"].folds.T)


def test_the_page_stands_on_its_own(found, tmp_path):
    path = found.to_html(tmp_path / "new" / "compared.html")
    page = path.read_text(encoding="utf-8")
    assert found.to_html() == page
    assert "de&lt;e&gt;p" in page
    assert "<e>" not in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)
    for part in (
        "What may be said",
        "Differences",
        "Tests and effect sizes",
        "McNemar",
        "DeLong",
        "rank-biserial",
        "odds ratio",
    ):
        assert part in page
    assert page.count("<svg") >= 4
    for sentence in found.words_about_all:
        assert sentence.replace("'", "&#39;") in page


def test_the_page_calls_results_as_they_were_named(pair):
    page = delira.compare({"before": pair[0], "after": pair[1]}).to_html()
    assert "<title>before · after</title>" in page
    assert "plain" not in page
    assert "wide − plain" not in page


def test_a_notebook_shows_table_and_words(found):
    shown = found._repr_html_()
    assert "<table>" in shown
    assert "de&lt;e&gt;p" in shown
    assert "It may not be said" in shown
