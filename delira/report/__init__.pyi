from delira.report.bootstrap import Interval as Interval
from delira.report.bootstrap import mean_interval as mean_interval
from delira.report.bootstrap import Resampling as Resampling
from delira.report.bootstrap import score_interval as score_interval
from delira.report.case_table import CaseTable as CaseTable
from delira.report.class_table import class_table as class_table
from delira.report.conformal import Conformal as Conformal
from delira.report.examples import Example as Example
from delira.report.examples import Examples as Examples
from delira.report.page import result_page as result_page
from delira.report.page import run_names as run_names
from delira.report.page import runs_page as runs_page
from delira.report.plots import learning_curves as learning_curves
from delira.report.sections import export as export
from delira.report.subgroups import Gap as Gap
from delira.report.subgroups import Subgroups as Subgroups
from delira.report.summary import summarise as summarise
from delira.report.table import fold_table as fold_table
from delira.report.table import Section as Section
from delira.report.table import Table as Table
from delira.report.temperature import Calibration as Calibration

__all__ = [
    "Calibration",
    "CaseTable",
    "Conformal",
    "Example",
    "Examples",
    "Gap",
    "Interval",
    "Resampling",
    "Section",
    "Subgroups",
    "Table",
    "class_table",
    "export",
    "fold_table",
    "learning_curves",
    "mean_interval",
    "result_page",
    "run_names",
    "runs_page",
    "score_interval",
    "summarise",
]
