"""The score of an ensemble on labelled data that none of its members has seen."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.data_loading.abstract_dataset import AbstractDataset
from delira.data_loading.case_hashes import names_of_cases
from delira.errors import ConfigError, DataError, check_choice, check_flags, check_whole, if_given, listed, noting
from delira.experiments.stored_result import known_metric
from delira.inference import Inference
from delira.metrics import MetricSet, scoring
from delira.metrics.metric_set import settled
from delira.metrics.per_class import expanded, mean_of_values
from delira.metrics.tree.criteria import Criterion
from delira.prediction.cases import Case, Unreadable, cases_of, check_inputs, check_spacing, space_in
from delira.prediction.model import Combined, way_of
from delira.prediction.networks import MANIFEST
from delira.prediction.seen import StoredMember, Watch, folder_of, rows_of
from delira.report.case_table import CaseTable
from delira.runs.folder import RunFolder
from delira.runs.results import read_summary
from delira.training.epoch import close_workers
from delira.training.predictor import lost_of
from delira.training.scores import axis_of
from delira.utils import references, yaml_codec
from delira.utils.files import mapping

_log = logging.getLogger("delira")
_LISTED = 5


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class EnsembleScore:
    """How well an ensemble predicts cases that it has not seen."""

    values: Mapping[str, float]
    """Each metric as one number over the cases: its value, or the mean over the cases that have one."""
    cases: CaseTable
    """Case by case: ``name``, and the metrics that have a value for each."""
    n_cases: int
    """That were predicted."""
    skipped: Sequence[str] = ()
    """Names of cases that were left out, since members have seen them."""

    def __repr__(self) -> str:
        parts = [f"{self.n_cases:,} {'case' if self.n_cases == 1 else 'cases'}"]
        parts += [f"{len(self.skipped):,} left out as seen"] if self.skipped else []
        return f"EnsembleScore({', '.join([*parts, *(f'{name}={value:.4g}' for name, value in self.values.items())])})"


@dataclasses.dataclass(frozen=True)
class Asked:
    """How a score is computed; see :meth:`delira.Ensemble.score`."""

    metrics: Mapping[str, Any] | None
    metric_keys: Mapping[str, Sequence[str]] | None
    on_seen: str
    inference: Inference | Literal["trained"] | None
    tta: Inference | None
    batch_size: int | None
    objects: Mapping[str, Any] | None
    any_spacing: bool


def score(ensemble: Combined, data: Any, asked: Asked) -> EnsembleScore:
    """Compute a score; see :meth:`delira.Ensemble.score`."""
    check_choice("score", ("refuse", "skip"), on_seen=asked.on_seen)
    check_whole("score", at_least=1, **if_given(batch_size=asked.batch_size))
    check_flags("score", any_spacing=asked.any_spacing)
    metrics = _metrics(ensemble, asked)
    way = way_of(ensemble, asked.inference, asked.tta)
    watch = Watch(ensemble.members)
    scored = _Pass(ensemble, metrics, way, asked.any_spacing)
    for case in _unseen(ensemble, data, asked, watch):
        scored.add(case)
    watch.tell()
    return scored.result(tuple(name for name, _ in watch.seen))


def _unseen(ensemble: Combined, data: Any, asked: Asked, watch: Watch) -> Iterator[Case]:
    """The cases that no member has seen; those that one has are refused before any is predicted, where that can be."""

    def cases() -> Iterator[Case | Unreadable]:
        return cases_of(data, ensemble.reads[0], ensemble.inputs, asked.batch_size)

    refuses = asked.on_seen == "refuse"
    if isinstance(data, BaseDataManager):
        data = _unseen_of_manager(data, watch, refuses)
        try:
            yield from () if data is None else _read(cases())
        finally:
            close_workers(data)
        return
    if isinstance(data, AbstractDataset):
        data = data.whole_cases()
    if refuses and not hasattr(data, "__next__"):  # an iterator can be gone through once
        number = rows_of(cases(), watch)
        watch.refuse(number)
        yield from _read(cases())
        return
    for one in cases():
        found = watch.of_case(one)
        if refuses:
            watch.refuse()
        if found is not None:
            yield found


def _read(cases: Iterator[Case | Unreadable]) -> Iterator[Case]:
    for case in cases:
        if isinstance(case, Unreadable):
            raise case.error
        yield case


def _unseen_of_manager(data: BaseDataManager, watch: Watch, refuses: bool) -> BaseDataManager | None:
    """A manager of each case once and in order, without those that were seen; None if no case is left."""
    whole = data.whole_cases().with_own_transforms()
    whole.update_state_from_dict({"sampler_cls": SequentialSampler, "sampler_kwargs": None, "drop_last": False})
    names, new = names_of_cases(whole), watch.of_manager(whole)
    if refuses:
        watch.refuse(len(names))
    if not len(new):
        return None
    part = whole.get_subset(new)
    part.dataset.case_names = [names[number] for number in new]
    return part


# ------------------------------------------------------------------ one pass


class _Pass:
    """Predicts cases, and computes metrics over them."""

    def __init__(self, ensemble: Combined, metrics: MetricSet, way: Inference | None, any_spacing: bool):
        self._ensemble, self._metrics, self._way, self._any_spacing = ensemble, metrics, way, any_spacing
        self._names: list[str] = []
        self._lost: list[str] = []
        keys = metrics.required_keys()
        read = {(scoring.predicted_key(metrics.metrics[name], each), each) for name, each in keys.items()}
        #: outputs with what they are compared with
        self._pairs = sorted(
            {(output, key) for output, each in read if output is not None for key in each if key != output}
        )

    def add(self, case: Case) -> None:
        """Predict a batch."""
        check_inputs(case.names[0], case.batch, self._ensemble.inputs)
        if not self._any_spacing:
            check_spacing(case.names, case.batch, self._ensemble.spacing)
        with noting(f"in the score of case {listed(case.names, 3)}"):
            outputs = self._ensemble.predict_batch(case.batch, self._way)
            self._metrics.check_keys(case.batch, outputs)
            self._check_classes(case, outputs)
            self._metrics.update({**case.batch, **outputs})
            self._lost += [case.names[row] for row in lost_of(outputs, self._metrics.entries)]
        self._names += case.names

    def _check_classes(self, case: Case, outputs: Mapping[str, Any]) -> None:
        """Refuse labels of classes that the members do not have."""
        for output, key in self._pairs:
            if output not in outputs or key not in case.batch:
                continue
            scores, labels = outputs[output], np.asarray(case.batch[key])
            known = self._ensemble.outputs.get(output)
            axis = axis_of(scores, space_in(case.batch, self._ensemble.reads), known)
            found = _foreign(scores, labels, axis, known)
            if found is not None:
                row, label, number = found
                raise DataError(
                    f"{key!r} of case {case.names[row]!r} has the class {label:g}, and the members know {number} "
                    f"classes, 0 to {number - 1}"
                )

    def result(self, skipped: tuple[str, ...]) -> EnsembleScore:
        """What came out."""
        if not self._names:
            what = (
                f"members have seen all {len(skipped):,} cases, so none is left to score"
                if skipped
                else "the data gave no case; a generator can be gone through only once"
            )
            raise DataError(what)
        if self._lost:
            _log.warning(
                "the predictions of %s are not finite, so metrics over them are no numbers",
                listed(self._lost, _LISTED),
            )
        found, lacking = self._metrics.compute(), self._metrics.lacking
        columns: dict[str, np.ndarray] = {"name": np.array(self._names)}
        for name, values in found.items():
            if scoring.raw_kind_of(self._metrics.metrics[name], name) == "sample" and len(values) == len(self._names):
                columns[f"{name} (metric)" if name in columns else name] = values
        means = {name: mean_of_values(values, name in lacking) for name, values in found.items()}
        return EnsembleScore(means, CaseTable(columns), len(self._names), skipped)


def _foreign(
    scores: np.ndarray, labels: np.ndarray, axis: int | None, known: Criterion | None
) -> tuple[int, float, int] | None:
    """Row and label of a class beyond the scores, and how many classes these have; None: there is none."""
    number = 1 if axis is None else scores.shape[axis]
    is_of_each = known is not None and known.is_of_each
    if number < 2 or is_of_each or labels.dtype.kind not in "biuf" or labels.size * number != scores.size:
        return None
    if not np.array_equal(labels, np.floor(labels)):  # numbers, and no classes
        return None
    foreign = labels.reshape(len(labels), -1) >= number
    if known is not None and known.ignore_index is not None:
        foreign &= labels.reshape(len(labels), -1) != known.ignore_index
    if not foreign.any():
        return None
    row = int(foreign.any(axis=1).argmax())
    return row, float(labels.reshape(len(labels), -1)[row][foreign[row]][0]), number


# ------------------------------------------------------------------ which metrics


def _metrics(ensemble: Combined, asked: Asked) -> MetricSet:
    """The metrics that are asked for, else those of the run, with what is known of the outputs of the ensemble."""
    given, keys = asked.metrics, asked.metric_keys
    if given is None:
        given, keys = _of_run(ensemble, asked.objects, keys)
    elif not isinstance(given, Mapping):
        raise ConfigError(f"score: metrics is a dict of metrics by name, got {given!r:.80}")
    metrics = expanded(given)
    if not metrics:
        raise ConfigError("score needs metrics: metrics={'accuracy': function}; the run of the members has none")
    read = scoring.keys_of(metrics, keys)
    outputs = ensemble.outputs
    bound = {
        name: settled(metric, name, outputs.get(scoring.predicted_key(metric, read[name]) or ""))
        for name, metric in metrics.items()
    }
    return MetricSet(bound, keys)


def _of_run(
    ensemble: Combined, objects: Mapping[str, Any] | None, keys: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    first = ensemble.members[0]
    stored = stored_metrics(first.path) if isinstance(first, StoredMember) else {}
    metrics = {}
    for name, plain in mapping(stored.get("metrics")).items():
        known = known_metric(plain)
        metrics[name] = yaml_codec.decode(plain, objects) if known is None else known
    unresolved = yaml_codec.find_unresolved(metrics)
    metrics = expanded({name: metric for name, metric in metrics.items() if name not in unresolved})
    if unresolved := {name: one for name, one in unresolved.items() if name not in metrics}:  # classes of a metric
        cures = "; ".join(f"for {key!r}: {references.cure(one)}" for key, one in unresolved.items())
        raise ConfigError(
            f"metrics of the run of {first.name!r} are not known ({cures}); or pass metrics={{name: function}}"
        )
    if keys is None:
        keys = {name: each for name, each in mapping(stored.get("metric_keys")).items() if name in metrics}
    return metrics, keys


def stored_metrics(path: Path) -> dict[str, Any]:
    """The metrics of the run of a member, as files have them, and the entries they read; empty if nobody knows.

    Parameters
    ----------
    path
        The folder of a fold, or its checkpoint.
    """
    folder = folder_of(path).absolute()
    told = RunFolder(folder).read_manifest() if (folder / MANIFEST).is_file() else {}
    if "metrics" in told:  # of a member that was saved
        return {name: mapping(told.get(name)) for name in ("metrics", "metric_keys")}
    summary, _ = read_summary(folder.parent)
    if summary:
        metrics = {name: mapping(one).get("metric") for name, one in summary["metrics"].items()}
        return {"metrics": metrics, "metric_keys": mapping(summary.get("metric_keys"))}
    settings = mapping(RunFolder(folder.parent).read_manifest().get("settings"))
    metrics = {**mapping(settings.get("metrics")), **mapping(settings.get("val_metrics"))}
    keys = mapping(settings.get("metric_keys"))
    return {"metrics": metrics, "metric_keys": {name: each for name, each in keys.items() if name in metrics}}
