"""What a cross-validation says about its numbers: the faults of old."""

from put_back import PutBack

DIGITS = "tests/honesty/test_digits_of_tables.py::"

POINTS = [
    PutBack(
        point="43",
        what="summary.tex rounds all metrics by the largest",
        file="delira/report/export.py",
        old="rows, by_row=True)",
        new="rows)",
        test=DIGITS + "test_in_a_summary_each_metric_has_its_own_digits",
    ),
    PutBack(
        point="43",
        what="the page says R² 1.0 beside a large error",
        file="delira/report/regression.py",
        old="rows, by_row=True)",
        new="rows)",
        test=DIGITS + "test_the_page_of_a_regression_shows_the_share_of_variance_with_its_digits",
    ),
    PutBack(
        point="43",
        what="0.001138 ± 0.000262 is written 0.0011 ± 0.0003",
        file="delira/report/table.py",
        old="    if 0 < largest < 0.1:\n",
        new="    if False:\n",
        test=DIGITS + "test_small_values_and_their_spread_are_not_rounded_to_four_decimals",
    ),
]
