from delira.comparison.comparison import compare as compare
from delira.comparison.comparison import Comparison as Comparison
from delira.comparison.datasets import compare_datasets as compare_datasets
from delira.comparison.datasets import DatasetsComparison as DatasetsComparison
from delira.comparison.outcomes import Outcome as Outcome
from delira.comparison.pairs import Difference as Difference

__all__ = [
    "Comparison",
    "DatasetsComparison",
    "Difference",
    "Outcome",
    "compare",
    "compare_datasets",
]
