"""What a cross-validation gives back: its folds, the epochs they were tested with, and all predictions together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import delira
from delira.errors import ConfigError, DataError, MissingBackendError, check_choice, check_flags, check_whole, if_given
from delira.experiments.given_splits import write_splits
from delira.experiments.out_of_fold import OutOfFold, Rounds, rounds_of
from delira.experiments.selection import caveats_of_selection
from delira.experiments.stored_result import read_result
from delira.metrics import metric_set
from delira.metrics.per_class import expanded
from delira.runs.results import FoldResult, check_dictionaries
from delira.training.evaluation import caveats_of_averages
from delira.training.outputs import caveats_of, caveats_of_readings, not_finite, settle, settled_metrics
from delira.utils import files

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from delira.prediction import Ensemble
    from delira.report.bootstrap632 import Bootstrap632
    from delira.report.case_table import CaseTable
    from delira.report.conformal import Conformal
    from delira.report.examples import Examples
    from delira.report.subgroups import Subgroups
    from delira.report.temperature import Calibration


@dataclass(eq=False, repr=False)
class KFoldResult:
    """A cross-validation; unpacks as the historic ``outputs, metrics``, dictionaries keyed "0", "1", ...

    Examples
    --------
    >>> outputs, metrics = result  # doctest: +SKIP
    >>> print(result)  # doctest: +SKIP
    """

    folds: Sequence[FoldResult]
    n_samples: int
    """Of the whole data set."""
    metrics: Mapping[str, Any] | None = None
    """The metrics by name: functions or objects, needed for values and intervals over all folds."""
    metric_keys: Mapping[str, Sequence[str]] | None = None
    """As given to :class:`~delira.metrics.MetricSet`."""
    groups: Any = None
    """Group (patient, site) of every sample, shape ``(n_samples,)``: intervals draw whole groups. Where a stored run
    has lost them and they are had from its metrics' entries, -1 for samples without a test."""
    seed: int | None = 0
    """None: not known, as the files of a stored run that had it were lost."""
    name: str = ""
    path: Path | None = None
    """Folder of the run."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """For the report: ``date``, ``versions`` (a mapping), ``split_type``, ``class_names``, ``num_splits`` (folds of the
    whole cross-validation), anything else."""
    unfinished: Sequence[FoldResult] = ()
    """Folds that began and have not ended, with the history so far and without metrics."""
    problems: Sequence[str] = ()
    """What of a stored run is missing or cannot be read; naming files. Part of :attr:`warnings`."""
    kind: str = "kfold"
    """``"run"``: a single training, which has no splits; its one fold has no test metrics."""
    without_intervals: str = ""
    """Why there are no intervals, if there are none: of a stored run whose groups are lost they would be too narrow."""
    case_names: Sequence[str] | None = None
    """Name of every sample, where the data set has ``case_names``."""
    apparent: FoldResult | None = None
    """Of ``split_type="bootstrap632+"``: the one that trained and tested on all cases, part of no mean."""
    outputs: Mapping[str, Any] | None = None
    """What losses and settings said of each output of the network: name -> (name of its target, ``Criterion``); None
    where that was not kept."""
    stated_metrics: Mapping[str, Any] | None = None
    """How the metrics were given: by name ``metric``, as files write it, and ``code``, that of the user's functions, in
    runs that kept it; None of a result that was made by hand."""

    draws_within_classes: bool = False
    """Whether an interval of a metric that a draw may have no value of, as it lacks a class, is of draws within the
    classes, which its note says; so it is of subgroups, which are small. Else there is no such interval."""

    def __post_init__(self) -> None:
        for name in ("folds", "unfinished"):
            given = getattr(self, name)
            if not isinstance(given, Sequence) or not all(isinstance(fold, FoldResult) for fold in given):
                raise ConfigError(f"KFoldResult: {name} is a list of FoldResult, got {given!r:.80}")
        check_whole(self, at_least=0, n_samples=self.n_samples)
        check_choice(self, ("kfold", "run"), kind=self.kind)
        check_flags(self, draws_within_classes=self.draws_within_classes)
        optional = {name: getattr(self, name) for name in ("metrics", "metric_keys", "outputs", "stated_metrics")}
        check_dictionaries(self, info=self.info, **if_given(**optional))
        self.folds, self.unfinished = list(self.folds), list(self.unfinished)
        self._set_apart()
        if not self.folds and not self.problems:
            raise ConfigError("a KFoldResult needs at least one fold, got none")
        numbers = [fold.fold for fold in self.folds]
        if len(set(numbers)) < len(numbers):
            raise ConfigError(f"folds must have different numbers, got {numbers}")
        if self.groups is not None and np.shape(self.groups) != (self.n_samples,):
            shape = np.shape(self.groups)
            what = f"{shape[0]} entries" if len(shape) == 1 else f"the shape {shape}"
            raise ConfigError(f"groups has {what} for n_samples={self.n_samples}; one per sample")
        names = self.case_names
        if names is not None:
            if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
                raise ConfigError(f"KFoldResult: case_names is a list of texts, got {names!r:.80}")
            if len(names) != self.n_samples:
                raise ConfigError(f"case_names has {len(names)} names for n_samples={self.n_samples}")
        if self.metrics:
            self.metrics = expanded(self.metrics)
        if self.metrics and self.outputs is not None:
            self.metrics = settled_metrics(self.metrics, self.metric_keys, self.settled_outputs)
        names = self._names
        for fold in self.folds:
            if len(fold.test_indices) and not 0 <= fold.test_indices.min() <= fold.test_indices.max() < self.n_samples:
                raise DataError(f"fold {fold.fold} tested indices outside of 0 to {self.n_samples - 1}")
            if [*fold.metrics] != names and fold.metrics.keys() != {*names}:
                raise DataError(f"fold {fold.fold} has the metrics {list(fold.metrics)}, the first has {list(names)}")

    def _set_apart(self) -> None:
        """Take the fold that tested what it learned from out of those that count."""
        if not isinstance(self.apparent, FoldResult | None):
            raise ConfigError(f"KFoldResult: apparent is a FoldResult, got {self.apparent!r:.80}")
        marked = [fold for fold in self.folds if fold.is_apparent]
        if marked:
            self.folds, self.apparent = [fold for fold in self.folds if not fold.is_apparent], marked[0]
            if isinstance(planned := self.info.get("num_splits"), int):
                self.info = {**self.info, "num_splits": planned - 1}

    @classmethod
    def load(cls, path: str | Path, metrics: Mapping[str, Any] | None = None) -> "KFoldResult":
        """Read a run from its folder, without its framework and without running anything that is stored there.

        What cannot be read, and folds that have not finished, are in :attr:`problems` and :attr:`unfinished`; there
        may be no finished fold at all. A single training is read as one fold without test metrics.

        Parameters
        ----------
        path
            The folder of the run, anything in it, or the folder above it: then its newest run.
        metrics
            Functions of metrics by name, for values and intervals over all folds. Those of delira and scikit-learn
            are known by their names; any other one that is not given here is shown with the numbers that were stored
            of these predictions (``numbers.json``), else fold by fold.

        Raises
        ------
        ConfigError
            If there is no run.
        """
        return cls(**read_result(path, metrics))

    @property
    def _names(self) -> list[str]:
        """Of the metrics."""
        return list(self.folds[0].metrics) if self.folds else []

    @property
    def _historic(self) -> tuple[dict[str, Any], dict[str, Any]]:
        folds = self.folds
        return {str(fold.fold): fold.predictions for fold in folds}, {str(fold.fold): fold.metrics for fold in folds}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._historic)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return self._historic[position]

    def __len__(self) -> int:
        return 2

    @cached_property
    def oof(self) -> OutOfFold:
        """Out-of-fold predictions, aligned with the data set; of a case that was tested several times the last."""
        return self.aligned(self.folds)

    def aligned(self, folds: Sequence[FoldResult]) -> OutOfFold:
        """Out-of-fold predictions of some of the folds, aligned with the data set."""
        return OutOfFold.from_folds(folds, self.n_samples, [name for name in self._names if self.is_per_case(name)])

    @cached_property
    def cases(self) -> "CaseTable":
        """The metrics over samples case by case: a table with index, name, fold and group of each, and its values."""
        from delira.report.case_table import case_table

        return case_table(self)

    @cached_property
    def rounds(self) -> Rounds:
        """The folds by rounds, in which no case is tested twice: one for each repeat of a repeated splitter."""
        planned = self.info.get("num_splits")
        return rounds_of(self.folds, planned if isinstance(planned, int) else None)

    @cached_property
    def settled_outputs(self) -> dict[str, Any]:
        """What each output of the network is: as losses and settings said, or as all of its values say."""
        return settle(self.outputs or {}, self.folds)

    @cached_property
    def _of_outputs(self) -> list[str]:
        """What must be known of the outputs."""
        outputs = self.outputs or {}
        return [*caveats_of(outputs, self.settled_outputs, self.folds), *not_finite(outputs, self.folds)]

    @property
    def searched(self) -> list[dict[str, Any]]:
        """What each fold chose by a search of its own (``kfold(…, tune=…)``): ``fold``, ``trial``, ``scores`` of the
        inner search, and ``values`` by the path of the parameter; empty if they searched nothing.
        """
        found = self.info.get("searched")
        return list(found) if isinstance(found, list) else []

    def is_per_case(self, name: str) -> bool:
        """Return True if each fold has a value of the metric for each of its cases."""
        if any(len(fold.metrics[name]) != len(fold.test_indices) for fold in self.folds):
            return False
        if self.metrics is not None and name in self.metrics:
            return metric_set.kind_of(self.metrics[name], name) == "sample"
        return any(len(fold.test_indices) > 1 for fold in self.folds)

    @cached_property
    def examples(self) -> "Examples | None":
        """Pictures of the samples that were predicted best and worst, from the folder of the run; None without them."""
        from delira.report.examples import read_examples

        return None if self.path is None else read_examples(Path(self.path))

    @cached_property
    def _summary(self) -> dict[str, dict[str, Any]]:
        from delira.report.summary import summarise

        return summarise(self)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Metric name to its numbers.

        ``mean`` and ``std`` (ddof 1; NaN for one fold) are over folds. ``oof`` is the metric over all
        out-of-fold cases, with its 95 % interval ``ci_low``, ``ci_high``: percentile bootstrap, 2,000 seeded draws of
        the ``n`` cases, or of the ``n_groups`` whole groups where there are groups. ``note`` says why a number is
        missing, ``has_oof`` whether ``oof`` was computed, be it NaN. The first call computes, evaluating each function
        2,000 times (accuracy of 2,000 cases: 0.2 s); later ones remember.
        """
        return {name: dict(row) for name, row in self._summary.items()}

    def table(self, fmt: str = "plain") -> str:
        """Fold x metric, then mean ± std and the out-of-fold value with its interval.

        Parameters
        ----------
        fmt
            ``"plain"``, ``"markdown"``, ``"latex"`` or ``"html"``.
        """
        from delira.report.table import fold_table

        return fold_table(self, fmt)

    def class_table(self, fmt: str = "plain") -> str:
        """Class x metric per class: the mean over out-of-fold cases with its interval, and how many have a value.

        Parameters
        ----------
        fmt
            ``"plain"``, ``"markdown"``, ``"latex"`` or ``"html"``. A text says so if there is no such metric.
        """
        from delira.report.class_table import class_table

        return class_table(self, fmt)

    def calibration(self) -> "Calibration":
        """Make class probabilities honest by a temperature, that of each fold fitted on the cases of the others; see
        :func:`delira.report.temperature.calibrate`.
        """
        from delira.report.temperature import calibrate

        return calibrate(self)

    def subgroups(self, by: Any) -> "Subgroups":
        """Compute the numbers of parts of the cases (sites, scanners, sexes), and how far each is from all others; see
        :func:`delira.report.subgroups.subgroups`.
        """
        from delira.report.subgroups import subgroups

        return subgroups(self, by)

    def conformal(self, alpha: float = 0.1) -> "Conformal":
        """Make sets of classes, or intervals of numbers, that hold what is true of all new cases but a share ``alpha``;
        see :func:`delira.report.conformal.conformal`.
        """
        from delira.report.conformal import conformal

        return conformal(self, alpha)

    def bootstrap632(self) -> "Bootstrap632":
        """Estimate how good the network of all cases is on new ones, from ``kfold(…, split_type="bootstrap632+")``; see
        :func:`delira.report.bootstrap632.bootstrap632`.
        """
        from delira.report.bootstrap632 import bootstrap632

        return bootstrap632(self)

    def card(self, path: str | Path | None = None, **facts: Any) -> str | Path:
        """Write a model card in Markdown: network, data, tests, results, subgroups, calibration, caveats, environment.

        Parameters
        ----------
        path
            The file, or ``None`` for the text.
        **facts
            ``by``, ``intended_use`` and ``limits``; see :func:`delira.report.card.model_card`.
        """
        from delira.report.card import model_card

        text = model_card(self, **facts)
        return files.text_or_file(text, path)

    def save_splits(self, path: str | Path) -> Path:
        """Write which cases each fold trained, validated and tested on, for ``kfold(…, splits=path)`` of others.

        Parameters
        ----------
        path
            The file: JSON, with the names of the cases where the data set has ``case_names``.

        Raises
        ------
        ConfigError
            If folds are missing.
        """
        return write_splits(path, self)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return the metrics with one row per fold (index ``fold``) and one column per metric.

        Raises
        ------
        MissingBackendError
            If pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingBackendError(
                "KFoldResult.to_dataframe needs the package 'pandas', which is not installed. "
                "Install it with: pip install pandas"
            ) from error
        from delira.report.summary import fold_values

        return pandas.DataFrame(fold_values(self), index=pandas.Index([fold.fold for fold in self.folds], name="fold"))

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Learning curves: a panel per quantity, a thin line per fold, their mean, the best epochs.

        Parameters
        ----------
        path
            Where to save the picture, e.g. ``"curves.png"`` or ``"curves.pdf"``.

        Raises
        ------
        DataError
            If no fold has a history.
        """
        from delira.report.plots import learning_curves

        figure = learning_curves(self.folds)
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200)
        return figure

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """A page that stands on its own: tables, curves, best and worst samples, time, settings, what to beware of.

        Returns
        -------
        str or Path
            The page, or the file it was written to.
        """
        from delira.report.page import result_page

        page = result_page(self)
        return files.text_or_file(page, path)

    def export(self, folder: str | Path, formats: Sequence[str] = ("csv", "tex", "png", "svg", "pdf")) -> list[Path]:
        """Write each table and each plot for a paper; the same result gives the same bytes.

        Parameters
        ----------
        folder
            Where to; made if it does not exist.
        formats
            Of tables ``"csv"`` and ``"tex"`` (needs booktabs); of plots ``"png"``, ``"svg"`` and ``"pdf"``.

        Returns
        -------
        list of Path
            The files.
        """
        from delira.report.sections import export

        return export(self, folder, formats)

    def ensemble(self, *how: Any, **further: Any) -> "Ensemble":
        """Take the folds as one model for new data, with the arguments of :func:`delira.load_ensemble` but the path."""
        return delira.load_ensemble(self, *how, **further)

    def predict(self, data: Any, **how: Any) -> Any:
        """Predict new data by all folds together; see :func:`delira.predict`."""
        return delira.predict(self, data, **how)

    @property
    def is_training(self) -> bool:
        """Return True if it is a single training, no cross-validation: it says so, or has one fold without any test."""
        is_untested = len(self.folds) == 1 and not self.folds[0].metrics and not len(self.folds[0].test_indices)
        return self.kind == "run" or is_untested

    @property
    def title(self) -> str:
        """Name, folds, cases and seed in one line; of a single training its epochs, and cases if it has any."""
        n_folds = len(self.folds)
        n_cases = len({index for fold in self.folds for index in fold.test_indices.tolist()})
        if self.is_training:
            n_epochs = max((len(fold.history) for fold in [*self.folds, *self.unfinished]), default=0)
            parts = ["a single training", f"{n_epochs:,} {'epoch' if n_epochs == 1 else 'epochs'}"]
            parts += [f"{n_cases:,} cases"] if n_cases else []
        else:
            parts = [f"{n_folds or 'no'} {'fold' if n_folds == 1 else 'folds'}", f"{n_cases:,} cases"]
        sizes = ", ".join([*parts, "seed not known" if self.seed is None else f"seed {self.seed}"])
        return f"{self.name}: {sizes}" if self.name else sizes

    @property
    def warnings(self) -> list[str]:
        """What a reader of the numbers must know: suspected leaks, samples left out, how epochs were selected, missing
        intervals and why.
        """
        from delira.report.summary import of_numbers

        return [*self._own_warnings, *of_numbers(self)]

    @property
    def _own_warnings(self) -> list[str]:
        """Those that the table does not say."""
        found = [*self.problems, *(self.info.get("warnings") or ())]
        found += caveats_of_selection(self.folds, self.is_training)
        found += caveats_of_averages(self.folds, self.is_training)
        found += caveats_of_readings(self.folds)
        if self.outputs is not None:
            found += self._of_outputs
        left_out = {index: reason for fold in self.folds for index, reason in fold.left_out.items()}
        if left_out:
            listed = ", ".join(f"{index} ({left_out[index]})" for index in sorted(left_out)[:10])
            more = f", and {len(left_out) - 10} more" if len(left_out) > 10 else ""
            found.append(f"{len(left_out)} of {self.n_samples} samples could not be loaded: {listed}{more}")
        return found

    def __str__(self) -> str:
        from delira.report.chosen import agreement

        warned = "".join(f"\n\nWarning: {text}" for text in self._own_warnings)
        chosen = ["\n".join(["Chosen by each fold's own search:", *agreement(self)])] if self.searched else []
        estimated = [str(self.bootstrap632())] if self.apparent is not None and self.folds else []
        return files.harmless("\n\n".join([self.title, *self._tables("plain"), *estimated, *chosen]) + warned)

    def _tables(self, fmt: str) -> list[str]:
        """That of the folds, and that of the classes if there are metrics per class."""
        from delira.report.class_table import has_classes

        return [self.table(fmt), *([self.class_table(fmt)] if has_classes(self) else [])]

    def __repr__(self) -> str:
        return f"KFoldResult({self.name!r}, {len(self.folds)} folds, metrics={self._names})"

    def _repr_html_(self) -> str:
        from html import escape

        warned = "".join(f"\n<p>Warning: {escape(text)}</p>" for text in self.warnings)
        return "\n".join([f"<p><strong>{escape(self.title)}</strong></p>", *self._tables("html")]) + warned
