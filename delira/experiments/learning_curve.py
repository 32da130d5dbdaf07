"""How a result grows with the number of training cases: the same folds, trained on parts of theirs."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.errors import ConfigError, expect
from delira.experiments import kfold_call
from delira.experiments.cross_validation import CrossValidation
from delira.experiments.result import KFoldResult
from delira.experiments.stored_result import read_result
from delira.experiments.training_sizes import check_sizes
from delira.runs.results import FoldResult
from delira.utils import files

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from delira.report.table import Table

#: shares of the training part that are usual
SIZES: tuple[float, ...] = (0.1, 0.325, 0.55, 0.775, 1.0)
#: what ``kfold`` takes and a curve does not
_NOT_OF_A_CURVE = {"folds": "it needs all of them", "tune": "search first, and take params=search.params"}


@dataclasses.dataclass(eq=False, repr=False)
class LearningCurve:
    """One cross-validation for each number of training cases, all tested on the same cases.

    Examples
    --------
    >>> curve = experiment.learning_curve(data, sizes=(50, 100, 200), num_splits=5)  # doctest: +SKIP
    >>> print(curve)  # doctest: +SKIP
    >>> delira.compare([curve.at(100), curve.at(200)])  # doctest: +SKIP
    """

    result: KFoldResult
    """The folds of all sizes, with ``info["train_sizes"]``; a mean over them says nothing."""

    def __post_init__(self) -> None:
        sizes = self.result.info.get("train_sizes") if isinstance(self.result, KFoldResult) else None
        is_right = isinstance(sizes, list) and bool(sizes) and all(isinstance(size, int) for size in sizes)
        expect(("result", self.result, is_right, "what experiment.learning_curve ran"))

    @classmethod
    def load(cls, path: str | Path, metrics: Mapping[str, Any] | None = None) -> "LearningCurve":
        """Read a curve from its folder, or what has finished of it; as :meth:`KFoldResult.load`.

        Parameters
        ----------
        path
            The folder of the run, anything in it, or the folder above it: then its newest run.
        metrics
            Functions of metrics by name, where they are not known by their names.

        Raises
        ------
        ConfigError
            If there is none.
        """
        return cls(KFoldResult(**read_result(path, metrics, is_curve=True)))

    @property
    def sizes(self) -> list[int]:
        """Cases that a fold learned from, the smallest first, validation included; of groups the nearest number."""
        return list(self.result.info["train_sizes"])

    @property
    def path(self) -> Path | None:
        """Folder of the run."""
        return self.result.path

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.result.name

    @property
    def n_folds(self) -> int:
        """Of each size."""
        return int(self.result.info["num_splits"]) // len(self.sizes)

    @functools.cached_property
    def points(self) -> dict[int, KFoldResult]:
        """The cross-validation of each size of which a fold has finished."""
        found = {}
        for place, size in enumerate(self.sizes):
            folds = [fold for fold in self.result.folds if fold.fold // self.n_folds == place]
            if folds:
                found[size] = self._alone(size, folds)
        return found

    def _alone(self, size: int, folds: Sequence[FoldResult]) -> KFoldResult:
        """Return the cross-validation of a size; its folds have the numbers that they have at each."""
        own = self._of_sizes.get(str(size), ())
        told = [*(self.result.info.get("warnings") or ()), *own]
        info = {name: value for name, value in self.result.info.items() if name not in ("train_sizes", "of_sizes")}
        return dataclasses.replace(
            self.result,
            folds=[dataclasses.replace(fold, fold=fold.fold % self.n_folds) for fold in folds],
            unfinished=(),
            path=None,
            name=f"{self.name or 'network'}, {size:,} training cases",
            info={**info, "num_splits": self.n_folds, "warnings": told},
        )

    @property
    def _of_sizes(self) -> Mapping[str, Sequence[str]]:
        """What is to be said of single sizes."""
        return files.mapping(self.result.info.get("of_sizes"))

    def at(self, size: int) -> KFoldResult:
        """Return the cross-validation of one size.

        Raises
        ------
        ConfigError
            If there is none of that size, or none of its folds has finished.
        """
        if size not in self.points:
            raise ConfigError(f"the curve has no size {size!r}; it has {', '.join(map(str, self.points)) or 'none'}")
        return self.points[size]

    def table(self) -> "Table":
        """Return one row for each metric and size: cases, mean ± std over folds, and the 95 % interval."""
        from delira.report.training_sizes import size_table

        return size_table(self)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row for each size, metric and fold, with columns of these names, ``n_cases`` and ``value``."""
        import pandas

        from delira.report.training_sizes import fold_rows

        return pandas.DataFrame(fold_rows(self))

    @property
    def warnings(self) -> list[str]:
        """What a reader of the numbers must know."""
        found = [*self.result.problems, *(self.result.info.get("warnings") or ())]
        for size, result in self.points.items():
            own = [text for text in result.warnings if text not in found]
            found += [f"{size:,} cases: {text}" for text in own]
        return found

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Each metric over the number of training cases, with its intervals; a thin line for each fold.

        Parameters
        ----------
        path
            Where to save the picture.
        """
        from delira.report.training_sizes import figure_of_sizes

        figure = figure_of_sizes(self)
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200)
        return figure

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """A page that stands on its own: the curves, their numbers, and what to beware of.

        Returns
        -------
        str or Path
            The page, or the file it was written to.
        """
        from delira.report.training_sizes import size_page

        page = size_page(self)
        return files.text_or_file(page, path)

    def __iter__(self) -> Iterator[KFoldResult]:
        return iter(self.points.values())

    def __str__(self) -> str:
        title = f"{self.name or 'network'}: {len(self.points)} sizes, {self.n_folds} folds"
        warned = "".join(f"\n\nWarning: {text}" for text in self.warnings)
        return files.harmless(f"{title}\n\n{self.table().rendered()}{warned}")

    def _repr_html_(self) -> str:
        return self.table().rendered("html")

    def __repr__(self) -> str:
        return f"LearningCurve({self.name!r}, sizes={self.sizes}, {self.n_folds} folds)"


def validation_of(
    experiment: Any, data: Any, sizes: Any, asked: Mapping[str, Any], allow_changes: bool
) -> CrossValidation:
    """Return the folds of all sizes, as one cross-validation that runs them.

    Parameters
    ----------
    experiment, data
        What is trained on what.
    sizes
        As of :func:`~delira.experiments.training_sizes.check_sizes`.
    asked
        Arguments of ``kfold`` by name.
    allow_changes
        As of ``kfold``.
    """
    for name, why in _NOT_OF_A_CURVE.items():
        if asked.get(name) is not None:
            raise ConfigError(f"learning_curve takes no {name}=: {why}")
    made = kfold_call.validation_of(experiment, kfold_call.arguments_of(data, asked, allow_changes))
    return dataclasses.replace(made, sizes=check_sizes(sizes))
