"""What the outputs of a network are: told by its losses, by a setting, or by all of their values, and settled once."""

from collections.abc import Mapping, MutableMapping, Sequence, Set
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.contract import Backend
from delira.errors import MissingKeyError
from delira.metrics import MetricSet, scoring
from delira.metrics.metric_set import TreeMetric, settled
from delira.metrics.tree.criteria import Criterion, one_of_each_row, read_values
from delira.metrics.tree.labels import named_samples
from delira.settings.config import TrainerConfig

#: outputs of which it was settled what they are: name of the output -> (name of its target, what is known)
Outputs = Mapping[str, tuple[str, Criterion]]


def read_outputs(written: Any) -> dict[str, tuple[str, Criterion]] | None:
    """Outputs as a file has them; None of a file that has none, or something else."""
    try:
        return {
            str(name): (str(target), Criterion(*known[:6])._replace(classes=tuple(*known[6:7])))
            for name, (target, known) in written.items()
        }
    except (AttributeError, TypeError, ValueError):
        return None


def settled_metrics(
    metrics: Mapping[str, Any], metric_keys: Mapping[str, Sequence[str]] | None, outputs: Outputs
) -> dict[str, Any]:
    """Metrics with what was settled of the predictions that they read."""
    keys = scoring.keys_of(metrics, {name: each for name, each in (metric_keys or {}).items() if name in metrics})
    found = {name: outputs.get(scoring.predicted_key(metric, keys[name]) or "") for name, metric in metrics.items()}
    return {name: settled(metrics[name], name, known[1]) if known else metrics[name] for name, known in found.items()}


def computed_anew(
    metrics: Mapping[str, Any], metric_keys: Mapping[str, Sequence[str]], outputs: Outputs, fold: Any
) -> dict[str, Any]:
    """Metrics of a fold whose own values, or labels, say something else than those of all folds.

    Parameters
    ----------
    metrics, metric_keys
        Bound metrics by name, and the entries they read where that was said.
    outputs
        What :func:`settle` found.
    fold
        Its predictions and targets.

    Returns
    -------
    dict
        Name to the metric that is to be computed again.
    """
    keys, again = scoring.keys_of(metrics, metric_keys), {}
    for name, metric in metrics.items():
        prediction = scoring.predicted_key(metric, keys[name]) or ""
        known = getattr(metric, "criterion", None)
        if known is None or prediction not in outputs:
            continue
        target, read = outputs[prediction]
        pair = entries(fold, target, prediction)
        if pair is not None and _settled(known, [pair], _told_in(fold, prediction))[1:] != read[1:]:
            again[name] = settled(metric, name, read)
    return again


def settle(outputs: Outputs, folds: Sequence[Any]) -> dict[str, tuple[str, Criterion]]:
    """What outputs are: where nobody says it, what all of their values in all folds say, those of trainings included.

    Parameters
    ----------
    outputs
        What is known of each.
    folds
        With ``predictions`` and ``targets``, and ``output_readings`` if they were trained.
    """
    found = {}
    for name, (target, known) in outputs.items():
        pairs = [pair for fold in folds if (pair := entries(fold, target, name)) is not None]
        found[name] = target, _settled(known, pairs, set().union(*(_told_in(fold, name) for fold in folds)))
    return found


def entries(fold: Any, target: str, prediction: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Target and prediction of the cases of a fold; None if they are no arrays of numbers, one for each case, or were
    kept as something else than the network said.
    """
    if getattr(fold, "kept_as", ""):
        return None
    try:
        values = {**fold.predictions, **fold.targets}
        pair = scoring.lookup(values, target), scoring.lookup(values, prediction)
    except MissingKeyError:
        return None
    if not all(isinstance(each, np.ndarray) and each.ndim and each.dtype.kind in "biuf" for each in pair):
        return None
    return pair if len(pair[0]) == len(pair[1]) and len(pair[0]) else None


def _told_in(fold: Any, name: str) -> Set[str]:
    """Return ``{"logits"}`` if the training of a fold read an output as logits, else an empty set."""
    return {"logits"} & {getattr(fold, "output_readings", {}).get(name, {}).get("output")}


def _settled(
    known: Criterion, pairs: Sequence[tuple[np.ndarray, np.ndarray]], told: Set[str] = frozenset()
) -> Criterion:
    if not pairs:
        return known
    if known.kind is None and all(is_one_hot(true, pred) for true, pred in pairs):
        known = known._replace(kind="categorical")
    if known.output is None:
        found = {read_values(known, pred, true, by_targets=False).output for true, pred in pairs}
        if found == {"probabilities"}:
            found |= told
        ways = ("logits", "probabilities", "numbers", "labels")
        known = known._replace(output=next((way for way in ways if way in found), None))
    if all(pred.dtype.kind in "biu" for _, pred in pairs) or known.output == "labels":
        labels = [np.unique(array[np.isfinite(array)]) for pair in pairs for array in pair]
        classes = np.unique(np.concatenate(labels))
        if len(classes) <= MOST_CLASSES and (classes == np.floor(classes)).all():
            known = known._replace(classes=tuple(classes.astype(int).tolist()))
    return known


#: more different labels are no classes
MOST_CLASSES = 1000


def is_one_hot(true: np.ndarray, pred: np.ndarray) -> bool:
    """Return True if targets of the shape of the predictions are one-hot labels."""
    return true.shape == pred.shape and true.ndim == 2 and one_of_each_row(true)


def is_classification(true: np.ndarray, pred: np.ndarray) -> bool:
    """Return True if it matters what floating-point predictions are: their targets are classes, or yes and no."""
    if pred.dtype.kind != "f" or true.dtype.kind not in "biuf":
        return False
    if pred.size == true.size:
        return bool(np.isin(true, (0, 1)).all())
    return true.dtype.kind in "biu" and pred.ndim > 1


def caveats_of(outputs: Outputs, settled: Outputs, folds: Sequence[Any]) -> list[str]:
    """Sentences about outputs of which nobody said what they are, and of which it matters.

    Parameters
    ----------
    outputs
        What was known of each before.
    settled
        What :func:`settle` made of it.
    folds
        Of the result.
    """
    found = []
    for name, (target, known) in outputs.items():
        pairs = [pair for fold in folds if (pair := entries(fold, target, name)) is not None]
        if known.told_by != "values" or not pairs or not all(is_classification(*pair) for pair in pairs):
            continue
        read = settled[name][1]
        is_each = pairs[0][1].size == pairs[0][0].size
        why = "all of its values are from 0 to 1" + ("" if is_each else " and sum to 1")
        if read.output == "logits" and _settled(known, pairs).output != "logits":
            why = "some of its values in the training are no probabilities"
        elif read.output == "logits":
            why = "it has values below 0 or above 1" if is_each else "its values are no probabilities that sum to 1"
        classes = (
            ", and as one class of each sample, because its targets are one-hot" if known.kind != read.kind else ""
        )
        found.append(unsaid(name, str(read.output), f"{why}{classes}"))
    return found


def changed(name: str, since: int) -> str:
    """The sentence about an output that a training read as probabilities at first, and then as logits.

    Parameters
    ----------
    name
        Of the output.
    since
        The epoch; 0: the test after the training.
    """
    values = "because some of its values there are no probabilities"
    if not since:
        return (
            f"the output {name!r} was read as probabilities in the training, and as logits in the test, {values}: "
            "metrics of both do not compare, and those of the validation chose the epoch"
        )
    return (
        f"the output {name!r} was read as probabilities before epoch {since}, and as logits from then on, {values}: "
        "metrics of both do not compare, and where one is the score no earlier epoch counts as the best"
    )


def caveats_of_readings(folds: Sequence[Any]) -> list[str]:
    """Sentences about outputs that the training of a fold has read in two ways, naming the folds.

    Parameters
    ----------
    folds
        With their ``output_readings``.
    """
    found: dict[str, list[str]] = {}
    for fold in folds:
        for name, facts in fold.output_readings.items():
            if facts.get("is_changed"):
                found.setdefault(changed(name, facts["since"]), []).append(str(fold.fold))
    return [f"fold {', '.join(numbers)}: {text}" for text, numbers in found.items()]


def unsaid(name: str, output: str, why: str) -> str:
    """The sentence about an output of which only its values say what it is.

    Parameters
    ----------
    name
        Of the output.
    output
        What it was read as.
    why
        What is to follow "because".
    """
    return (
        f"nothing says what the output {name!r} is (no loss that is known; no setting output=), so it was read as "
        f"{output}, because {why}; if that is wrong, so are all numbers that rest on it: say output='logits', "
        "'probabilities' or 'labels'"
    )


def not_finite(outputs: Outputs, folds: Sequence[Any]) -> list[str]:
    """Sentences that name the cases whose predictions are no finite numbers.

    Parameters
    ----------
    outputs
        Whose predictions are looked at.
    folds
        Of the result.
    """
    found = []
    for name in outputs:
        cases: list[int] = []
        for fold in folds:
            try:
                array = scoring.lookup(fold.predictions, name)
            except MissingKeyError:
                continue
            if isinstance(array, np.ndarray) and len(array) == len(fold.test_indices):
                cases += fold.test_indices[lost_rows(array)].tolist()
        if cases:
            what, named = "1 case" if len(cases) == 1 else f"{len(cases):,} cases", named_samples(sorted(cases))
            found.append(
                f"the predictions {name!r} of {what} are not finite (index in the data set: {named}), "
                "so metrics of delira and scikit-learn over them are no numbers; a function of your own took them as "
                "they are"
            )
    return found


def lost_rows(array: np.ndarray) -> np.ndarray:
    """Which samples have a prediction that is not a number, or positively infinite, or none but infinite ones.

    Parameters
    ----------
    array
        Of shape ``(n, ...)``.
    """
    if array.dtype.kind != "f" or not array.size:
        return np.zeros(len(array), bool)
    rows = array.reshape(len(array), -1)
    with np.errstate(invalid="ignore"):
        return np.asarray(~np.isfinite(rows.max(axis=1)))


class OutputReadings:
    """The outputs of a network of which neither a loss nor a setting says what they are.

    Scores are logits as soon as one of them in any pass cannot be a probability, and stay it: a later pass whose values
    happen to lie from 0 to 1 is read as the others are. What was told is kept by whoever asks, in a dict that a
    checkpoint can hold: name of the output to ``{"output": ..., "since": epoch}``.

    Parameters
    ----------
    config
        Settings of a trainer.
    backend
        The verbs of the framework.
    metrics, metric_keys
        Bound metrics, and the entries they read; those of the settings if ``None``.
    """

    def __init__(
        self,
        config: TrainerConfig,
        backend: Backend,
        metrics: Mapping[str, Any] | None = None,
        metric_keys: Mapping[str, Sequence[str]] | None = None,
    ):
        if metrics is None:
            metrics = config.bound(config.epoch_metrics, backend=backend)
            metric_keys = config.keys_of(metrics)
        known = config.known_outputs(metrics, scoring.keys_of(metrics, metric_keys), backend)
        self.outputs = {
            name: (target, criterion)
            for name, (target, criterion) in known.items()
            if criterion.told_by == "values" and criterion.output is None
        }

    def settled(
        self, metrics: Mapping[str, Any], metric_keys: Mapping[str, Sequence[str]], told: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Bound metrics that read outputs as earlier passes have told."""
        outputs = {
            name: (target, known._replace(output="logits"))
            for name, (target, known) in self.outputs.items()
            if name in told and told[name]["output"] == "logits"
        }
        return settled_metrics(metrics, metric_keys, outputs) if outputs else dict(metrics)

    def take(self, metrics: MetricSet, told: MutableMapping[str, Any], epoch: int) -> tuple[list[str], set[str]]:
        """Keep what a pass has told.

        Parameters
        ----------
        metrics
            That have seen the pass.
        told
            What is known by now; it is added to.
        epoch
            Number of the epoch.

        Returns
        -------
        tuple
            Sentences to be said, and the names of outputs that are read otherwise from now on.
        """
        others, before = set(), self.caveats(told)
        for name, way in self._ways(metrics).items():
            if name not in told:
                told[name] = {"output": way, "since": epoch}
            elif way == "logits" != told[name]["output"]:
                told[name] = {"output": way, "since": epoch, "is_changed": True}
                others.add(name)
        return [text for text in self.caveats(told) if text not in before], others

    def caveats(self, told: Mapping[str, Any]) -> list[str]:
        """Sentences about how outputs were read."""
        found = []
        for name, facts in told.items():
            why = (
                "some of its values are no probabilities"
                if facts["output"] == "logits"
                else "all of its values may be that"
            )
            found.append(unsaid(name, facts["output"], why))
            if facts.get("is_changed"):
                found.append(changed(name, facts["since"]))
        return found

    def _ways(self, metrics: MetricSet) -> dict[str, str]:
        """How outputs are to be read by the values of one pass."""
        found: dict[str, set[str]] = {}
        seen = SimpleNamespace(predictions=metrics.gathered, targets={})
        for name, (target, known) in self.outputs.items():
            pair = entries(seen, target, name)
            if pair is not None and is_classification(*pair):
                way = read_values(known, pair[1], pair[0], by_targets=False).output
                found.setdefault(name, set()).add(str(way))
        read = metrics.required_keys()
        for name, metric in metrics.metrics.items():
            if isinstance(metric, TreeMetric) and metric.way:
                found.setdefault(scoring.predicted_key(metric, read[name]) or "", set()).add(metric.way)
        ways = ("logits", "probabilities")
        return {
            name: next(way for way in ways if way in told)
            for name, told in found.items()
            if name in self.outputs and not told.isdisjoint(ways)
        }
