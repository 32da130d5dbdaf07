"""Tables show the digits that each number has: one metric's size takes none from another."""

import re

import numpy as np
import pytest

from delira.experiments.result import FoldResult, KFoldResult
from delira.report.sections import regression_section, summary_table
from delira.report.table import Table, number_format


def row(mean, std):
    return {
        "mean": mean, "std": std, "oof": mean, "ci_low": mean - std, "ci_high": mean + std, "n": 200, "n_groups": None,
        "note": "", "has_oof": True, "pooled": False, "oof_std": np.nan,
    }  # fmt: skip


def test_in_a_summary_each_metric_has_its_own_digits():
    text = summary_table({"mae": row(17022.34, 812.5), "r2": row(0.8956, 0.0538), "tiny": row(3.2e-5, 1e-6)}).latex()
    lines = {line.split("&")[0].strip(): line for line in text.splitlines() if "&" in line}
    assert "0.8956 & 0.0538" in lines["r2"]
    assert "17022.3 & 812.5" in lines["mae"]
    assert "3.200e-05 & 1.000e-06" in lines["tiny"]


def test_the_page_of_a_regression_shows_the_share_of_variance_with_its_digits():
    generator = np.random.default_rng(0)
    true = generator.normal(size=200) * 1e5
    pred = true + generator.normal(size=200) * 3e4
    folds = [
        FoldResult(k, [], None, np.arange(k, 200, 2), {"mae": [1.0]}, {"pred": pred[k::2]}, {"label": true[k::2]})
        for k in range(2)
    ]
    rows = dict(regression_section(KFoldResult(folds, 200, {"mae": lambda t, p: 0.0})).tables[0].texts())
    r2 = 1 - np.sum((true - pred) ** 2) / np.sum((true - true.mean()) ** 2)
    assert rows["R²"] == f"{r2:.4f}"
    assert rows["mean absolute error"] == f"{np.abs(true - pred).mean():.1f}"


def test_the_values_of_a_single_training_have_their_own_digits():
    history = [{"epoch": 1, "loss": 20123.4, "val_r2": 0.12345}]
    fold = FoldResult(0, [], None, [], history=history)
    page = KFoldResult([fold], 0, kind="run").to_html()
    assert "0.1235" in page
    assert "20123.4" in page


@pytest.mark.parametrize("size", np.logspace(-5, 8, 40))
def test_the_largest_number_keeps_four_significant_digits(size):
    shown = number_format([size, size / 3])(size)
    assert float(shown) == pytest.approx(size, rel=5.1e-4)
    assert len(re.sub(r"e.*|\.", "", shown).lstrip("0")) >= 4


def test_small_values_and_their_spread_are_not_rounded_to_four_decimals():
    write = number_format([0.001138, 0.000262])
    assert f"{write(0.001138)} ± {write(0.000262)}" == "0.001138 ± 0.000262"


def test_the_numbers_of_a_column_are_written_alike():
    assert Table("t", ["fold", "mae"], [["0", 17022.34], ["1", 9.5]]).texts() == [["0", "17022.3"], ["1", "9.5"]]
