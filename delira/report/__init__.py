"""Tables, learning curves, confidence intervals and the HTML page of a result.

matplotlib and Jinja are imported when they are used.
"""

from delira.report.bootstrap import Interval, Resampling, mean_interval, score_interval
from delira.report.page import result_page
from delira.report.plots import learning_curves
from delira.report.summary import summarise
from delira.report.tables import fold_table

__all__ = [
    "Interval",
    "Resampling",
    "fold_table",
    "learning_curves",
    "mean_interval",
    "result_page",
    "score_interval",
    "summarise",
]
