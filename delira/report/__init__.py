"""Tables, learning curves, confidence intervals and the HTML page of a result.

matplotlib and Jinja are imported when they are used.
"""

from delira.report.bootstrap import Interval, Resampling, mean_interval, score_interval
from delira.report.case_table import CaseTable
from delira.report.class_table import class_table
from delira.report.conformal import Conformal
from delira.report.examples import Example, Examples
from delira.report.page import result_page, run_names, runs_page
from delira.report.plots import learning_curves
from delira.report.sections import export
from delira.report.subgroups import Gap, Subgroups
from delira.report.summary import summarise
from delira.report.table import Section, Table, fold_table
from delira.report.temperature import Calibration
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
