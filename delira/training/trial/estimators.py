"""The trainer of a trial for an estimator of scikit-learn, which learns by itself."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from delira import state as keys
from delira.contract import Step, room_default, run_hooks
from delira.errors import ConfigError
from delira.state import State
from delira.training.trial.data import X_ENTRY, Y_ENTRY, as_batch
from delira.training.trial.run import TrialRun
from delira.training.trial.watcher import PREDICTION
from delira.utils.trees import map_leaves


class EstimatorRun(TrialRun):
    """What a trial's trainer does otherwise for an estimator; it is mixed with the trainer of the room.

    One that can learns batch by batch; its predictions of a step are those after it. Another is fitted at the end of
    the first epoch, on all batches, and then the metrics are computed on them. There is no ``on_backward``.
    """

    def _setup(self, network: Any) -> None:
        self._given = network.estimator if hasattr(network, "closure") else network
        super()._setup(network)  # type: ignore[misc]
        for fit in self.optimizers.values():
            fit.kept = frozenset([Y_ENTRY])
        network = self.module
        network.target = Y_ENTRY if network.target is not None and _needs_target(network.estimator) else None
        self._loaded()

    def _loaded(self) -> None:
        """Let the estimator that was given be what was made, or read, in its place."""
        super()._loaded()
        network, given = self.module, self._given
        if network.estimator is not given:
            vars(given).clear()
            vars(given).update(vars(network.estimator))
            network.estimator = given
        self.facts[keys.MODEL] = given

    def _methods_of(self, network: Any) -> tuple[Any, Any]:
        if self.trial.closure is not None:
            raise ConfigError("an estimator learns by itself, so there is nothing that a closure could replace")
        return _arrays_of, self._learn

    @property
    def is_finished(self) -> bool:
        """Whether the model is fitted, so that more epochs would change nothing."""
        return any(fit.is_done for fit in self.optimizers.values())

    def train(self, num_epochs: Any, train_data: Any, *args: Any, **kwargs: Any) -> Any:
        """Learn; see the trainer of the room."""
        if train_data.generator is None:
            raise ConfigError("an estimator learns from data; give the trial some (with_train_data)")
        return super().train(num_epochs, train_data, *args, **kwargs)  # type: ignore[misc]

    def _follow_replaced(self, facts: State) -> None:
        self._given = self.module.estimator = facts[keys.MODEL]

    def _update_state(self, tree: Any) -> Any:
        super()._update_state(tree)  # type: ignore[misc]
        self._loaded()
        return self

    # ------------------------------------------------------------------ the step

    @room_default
    def _learn(self, model: Any, data_dict: dict[str, Any], optimizers: Mapping[str, Any]) -> Any:
        """The step: learn, or keep the batch until the estimator is fitted."""
        step = Step(model, data_dict)
        run_hooks(self.hooks.sample, step)
        learn = type(model).closure
        _, _, predictions = learn(model, step.batch, optimizers, key_mapping={"x": X_ENTRY})
        if not predictions:
            return {}, {}, {}
        step.predictions = self._prediction_of(predictions)
        run_hooks(self.hooks.forward, step)
        run_hooks(self.hooks.criterion, step)
        return {}, step.losses, step.predictions

    def _prediction_of(self, predictions: Mapping[str, Any]) -> dict[str, Any]:
        """Scores where their columns are numbered as the labels are, else labels."""
        classes = getattr(self.module.estimator, "classes_", None)
        is_numbered = classes is None or np.array_equal(classes, np.arange(len(classes)))
        return {PREDICTION: predictions["pred" if is_numbered else "label_pred"]}

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Predict a prepared batch."""
        return self._prediction_of(self.module(prepared[X_ENTRY]))

    def _loss(self, facts: State) -> Any:
        criterion = facts[keys.CRITERION]
        if getattr(criterion, "__module__", "").startswith("sklearn.metrics"):  # those take the target first
            return criterion(facts[keys.Y_TRUE], facts[keys.Y_PRED])
        return super()._loss(facts)

    def _after_batch(self, prepared: Mapping[str, Any], result: tuple[Any, Any, Any], hook: str) -> None:
        if result[2]:
            super()._after_batch(prepared, result, hook)
            return
        facts = self.facts
        facts[keys.X], facts[keys.Y_TRUE] = self._divided(prepared)
        facts[keys.METRICS] = {}
        self._fire(hook)

    def _after_fit(self, batches: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        """The metrics of the epoch, which had to wait for the fit."""
        facts = self.facts
        for kept, inputs in batches:
            facts[keys.X], facts[keys.Y_TRUE] = inputs["x"], kept.get(Y_ENTRY)
            facts[keys.Y_PRED] = self.forward({X_ENTRY: inputs["x"]})[PREDICTION]
            facts[keys.LOSS] = self._loss(facts)
            self._measure(facts)

    # ------------------------------------------------------------------ classes

    def _labelled(self) -> tuple[str, Any]:
        """The entry of the labels, and data in which the room finds all of them."""
        generator = self.train_data.generator  # type: ignore[attr-defined]
        if isinstance(generator, (list, tuple)):
            return Y_ENTRY, [as_batch(batch) for batch in generator]
        return "label", generator


def _needs_target(estimator: Any) -> bool:
    """Whether it learns from labels: others, that of clusters for one, need none."""
    tags = estimator.__sklearn_tags__() if hasattr(estimator, "__sklearn_tags__") else None
    # a pipeline says of which kind it is, but not that it needs labels
    return tags is None or tags.target_tags.required or tags.estimator_type in ("classifier", "regressor")


def _arrays_of(batch: Mapping[str, Any], input_device: Any = None, output_device: Any = None) -> dict[str, Any]:
    return {key: map_leaves(np.asarray, value) for key, value in batch.items() if value is not None}
