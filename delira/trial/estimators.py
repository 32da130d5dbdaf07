"""What a trial computes for estimators of scikit-learn, which learn by themselves."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from delira import state as keys
from delira.contract import Network, Step, backend_default, run_hooks
from delira.errors import ConfigError
from delira.training.objective import Result
from delira.trial.data import W_ENTRY, X_ENTRY, Y_ENTRY, TrialData, as_batch
from delira.trial.objective import PREDICTION, TrialObjective
from delira.utils.arrays import map_leaves


class EstimatorObjective(TrialObjective):
    """What a trial computes for an estimator.

    One that can learns batch by batch; its predictions of a step are those after it. Another is fitted at the end of
    the first epoch, on all batches, and then the metrics are computed on them. There is no ``on_backward``.
    """

    def methods_of(self, network: Network) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return what makes arrays of batches, and the step."""
        if self.trial.closure is not None:
            raise ConfigError("an estimator learns by itself, so there is nothing that a closure could replace")
        model = self.trial.state[keys.MODEL]
        self._given = model.estimator if hasattr(model, "closure") else model
        return _arrays_of, self._learn

    def prepare_fits(self, fits: Mapping[str, Any], to_numpy: Callable[[Any], Any]) -> None:
        """Tell what fits an estimator what to keep of its batches, and what follows."""
        for fit in fits.values():
            fit.kept, fit.after = frozenset([Y_ENTRY]), self._after_fit
        network = self.run.network
        network.target = Y_ENTRY if network.target is not None and _needs_target(network.estimator) else None
        self.weights_were_loaded()

    def labelled(self) -> tuple[str, Any]:
        """Return the entry of the labels, and data in which the backend finds all of them."""
        generator = self.run.train_data.generator
        if isinstance(generator, (list, tuple)):
            return Y_ENTRY, [as_batch(batch) for batch in generator]
        return "label", generator

    def check_data(self, data: TrialData) -> None:
        """Refuse steps without data."""
        if data.generator is None:
            raise ConfigError("an estimator learns from data; give the trial some (with_train_data)")

    def weights_were_loaded(self) -> None:
        """Let the estimator that was given be what was made, or read, in its place."""
        network, given = self.run.network, self._given
        if network.estimator is not given:
            vars(given).clear()
            vars(given).update(vars(network.estimator))
            network.estimator = given
        self.run.hook_state[keys.MODEL] = given

    @property
    def is_finished(self) -> bool:
        """Return True if the model is fitted, so that more epochs would change nothing."""
        return any(fit.is_done for fit in self.run.optimizers.values())

    def takes_network(self, network: Network) -> bool:
        """Go on with another estimator."""
        self._given = self.run.network.estimator = network
        return True

    def take_over(self, take: Callable[[Mapping[str, Any]], None], tree: Mapping[str, Any]) -> None:
        """Let the run take a checkpoint over."""
        super().take_over(take, tree)
        self.weights_were_loaded()

    @backend_default
    def _learn(self, model: Network, data_dict: dict[str, Any], optimizers: Mapping[str, Any]) -> Result:
        """The step: learn, or keep the batch until the estimator is fitted."""
        step, hooks = Step(model, data_dict), self.run.hooks
        run_hooks(hooks.sample, step)
        _, _, predictions = type(model).closure(model, step.batch, optimizers, key_mapping={"x": X_ENTRY})
        if not predictions:
            return {}, {}, {}
        step.predictions = self._prediction_of(predictions)
        run_hooks(hooks.forward, step)
        run_hooks(hooks.criterion, step)
        return {}, step.losses, step.predictions

    def _prediction_of(self, predictions: Mapping[str, Any]) -> dict[str, Any]:
        """Return scores where their columns are numbered as the labels are, else labels."""
        classes = getattr(self.run.network.estimator, "classes_", None)
        is_numbered = classes is None or np.array_equal(classes, np.arange(len(classes)))
        return {PREDICTION: predictions["pred" if is_numbered else "label_pred"]}

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Predict a prepared batch."""
        return self._prediction_of(self.run.network(prepared[X_ENTRY]))

    def loss(self) -> Any:
        """Compute the criterion of the state; one of scikit-learn takes the target first."""
        hook_state, criterion = self.run.hook_state, self.run.hook_state[keys.CRITERION]
        if getattr(criterion, "__module__", "").startswith("sklearn.metrics"):
            return criterion(hook_state[keys.Y_TRUE], hook_state[keys.Y_PRED])
        return super().loss()

    def after_step(self, prepared: Mapping[str, Any], result: Result, carried: Mapping[Any, Any]) -> None:
        """Show a step that is done; one that only kept its batch has no metrics."""
        if result[2]:
            super().after_step(prepared, result, carried)
            return
        x, y_true = super().divided(prepared)
        self.run.hook_state.update({keys.X: x, keys.Y_TRUE: y_true, keys.METRICS: {}})

    def _after_fit(self, batches: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        """Compute the metrics of the epoch, which had to wait for the fit."""
        hook_state = self.run.hook_state
        for kept, inputs in batches:
            hook_state[keys.X], hook_state[keys.Y_TRUE] = inputs["x"], kept.get(Y_ENTRY)
            hook_state[keys.Y_PRED] = self.forward({X_ENTRY: inputs["x"]})[PREDICTION]
            hook_state[keys.LOSS] = self.loss()
            super().measure()


def _needs_target(estimator: Network) -> bool:
    """Return True if it learns from labels: others, that of clusters for one, need none."""
    tags = estimator.__sklearn_tags__() if hasattr(estimator, "__sklearn_tags__") else None
    # a pipeline says of which kind it is, but not that it needs labels
    return tags is None or tags.target_tags.required or tags.estimator_type in ("classifier", "regressor")


def _arrays_of(batch: Mapping[str, Any], input_device: Any = None, output_device: Any = None) -> dict[str, Any]:
    if W_ENTRY in batch:
        raise ConfigError(
            "an estimator learns without weights of its samples here, so they would count for nothing; leave them out, "
            "or fit it by its own method"
        )
    return {key: map_leaves(np.asarray, value) for key, value in batch.items() if value is not None}
