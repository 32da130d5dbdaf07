"""Statistics that compare cross-validations: over the same folds of one data set, or over many data sets.

scipy, matplotlib and Jinja are imported when they are used.
"""

from delira.comparison.comparison import Comparison, compare
from delira.comparison.datasets import DatasetsComparison, compare_datasets
from delira.comparison.outcomes import Outcome
from delira.comparison.pairs import Difference
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
