"""How a training reads outputs of which nobody says what they are: settled once, by all that their values have told."""

from collections.abc import Mapping, MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any

from delira.contract import Backend
from delira.metrics import MetricSet
from delira.metrics.forms import TreeMetric
from delira.metrics.scoring import keys_of, predicted_key
from delira.metrics.tree.criteria import read_values
from delira.settings.config import TrainerConfig
from delira.settings.outputs import known_outputs
from delira.training.outputs import changed, entries, is_classification, settled_metrics, unsaid


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
        known = known_outputs(config, metrics, keys_of(metrics, metric_keys), backend)
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
        others = set()
        before = self.caveats(told)
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
                found.setdefault(predicted_key(metric, read[name]) or "", set()).add(metric.way)
        ways = ("logits", "probabilities")
        return {
            name: next(way for way in ways if way in told)
            for name, told in found.items()
            if name in self.outputs and not told.isdisjoint(ways)
        }
