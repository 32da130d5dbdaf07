"""What a trial computes on batches of any structure: the criterion and the metrics of its state."""

import functools
import operator
import pkgutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from delira import state as keys
from delira.callbacks.monitor import plain_values
from delira.contract import Array, Criterion, Data, Network, Step, Tree, backend_default, default_optimizer
from delira.contract.calls import ModelCall, advice_about_state, needed_inputs, spread
from delira.errors import CheckpointError, DataError
from delira.metrics.tree import labels, metric_list
from delira.state import State
from delira.training.evaluation import Watcher
from delira.training.objective import Objective, Result
from delira.training.predictor import Predictor
from delira.training.run import TrainingPlan
from delira.training.step import SETTLED, written
from delira.trial.data import ENDLESS, W_ENTRY, X_ENTRY, Y_ENTRY, TrialData, deep_to
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.late import ReadValues

if TYPE_CHECKING:
    from delira.trial.trial import Trial


#: the one output that a trial's networks have for the trainer
PREDICTION = "y_pred"


class TrialObjective(Objective):
    """The criterion and the metric tree of a trial's state, or a closure of the user's.

    Parameters
    ----------
    trial
        The trial.
    """

    looks_inside = may_end_early = True
    tells_init = gathers_losses = False  # the metrics gather them
    #: whether the closure of the step at hand has updated by itself
    is_updated = False
    _validation_steps = 0
    #: what a checkpoint has kept of the metrics of a training pass
    _kept: Mapping[str, Any] = {}
    #: the weights as a training pass with a closure began, until it has changed any of them
    _before_closures: dict[str, Any] | None = None
    _has_changed = False
    #: what the metrics have seen of the training pass, while its validation runs
    _of_training: dict[str, Any] | None = None
    #: the state as a compiled step began
    _before: Mapping[Any, Any] = {}
    #: keys of the state, and those of them under which there may be values that gradients go through
    _open_keys: tuple[list[Any], set[Any]] = ([], set())
    #: whether a step was followed by none, since the training was stopped
    _is_cut = False
    #: inputs without which the network cannot be called
    _needed: int | None = None

    def __init__(self, trial: "Trial"):
        self.trial = trial
        self._call_model = ModelCall()

    # ------------------------------------------------------------------ at the start

    def methods_of(self, network: Network) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the backend's own preparation of batches, and its closure with the trial's calls inside."""
        cls = pkgutil.resolve_name(self.run.backend.network_class)
        prepare = functools.partial(_prepared, self, cls.prepare_batch)
        # what follows sees the batch as a closure of the user's does
        self.must_sample_apart = self.trial.closure is not None
        if self.must_sample_apart:
            return prepare, self._own_closure
        self.arguments = {"call": self._call_in_step}
        return prepare, self._numbered(cls.closure) if self.run.backend.compiles else cls.closure

    def functions(self) -> dict[str, Any]:
        """Return what may have weights: the criterion, too."""
        criterion = self.trial.state[keys.CRITERION]
        return super().functions() | ({} if criterion is None else {"criterion": criterion})

    def make_state(self, shown: Any) -> State:
        """Return the state of the trial."""
        run, hook_state = self.run, self.trial.state
        hook_state.update({
            keys.DEVICE: run.devices.input, keys.HISTORY: run.state.history, keys.CALLBACK_LIST: run.callbacks,
        })  # fmt: skip
        return hook_state

    def check_before(self, predictor: Predictor, plan: TrainingPlan) -> None:
        """Take nothing from data that may be gone then, and call the network in steps only."""
        if (advice := advice_about_state(self.run.hook_state[keys.MODEL])) is not None:
            self.run.warn_once(advice)

    @property
    def is_finished(self) -> bool:
        """Return True if the model is fitted, so that more epochs would change nothing."""
        return False

    def check_data(self, data: TrialData) -> None:
        """Refuse data that the model cannot learn from."""

    def weights_were_loaded(self) -> None:
        """Take note that the network has other weights than the run has left in it."""

    # ------------------------------------------------------------------ what callbacks replace

    def set_criterion(self, criterion: Criterion) -> None:
        """Do nothing: each step asks the state."""

    def given_optimizers(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the optimizers of the state by name."""
        return self.trial.given_optimizers()

    def take_over(self, take: Callable[[Mapping[str, Any]], None], tree: Mapping[str, Any]) -> None:
        """Let the run take a checkpoint over, and its seed if the trial was told none."""
        before, recorded = self.run.seed, tree.get("state")
        if "seed" not in self.trial.settings and isinstance(recorded, Mapping):
            self._set_seed(recorded.get("seed", 0))
        try:
            take(tree)
        except Exception:
            self._set_seed(before)
            raise

    def _set_seed(self, seed: int) -> None:
        self.run.set_seed(seed)
        self.trial.seed = seed

    # ------------------------------------------------------------------ the step

    def _own_closure(self, model: Network, data_dict: dict[str, Any], optimizers: Mapping[str, Any]) -> Any:
        """The step of a trial with a closure of its own."""
        run, hook_state = self.run, self.run.hook_state
        self.show_on_sample(Step(model, data_dict))
        run.callbacks.called.clear()
        hook_state.pop(keys.Y_PRED, None)  # of the batch before
        self.is_updated = False
        self.trial.closure(hook_state)
        self._tell_what_was_not_called()
        if not self.is_updated and not isinstance(hook_state[keys.OPTIMIZER], (Mapping, type(None))):
            run.backend.step.update_after({"default": default_optimizer(optimizers)})
        predictions = {PREDICTION: _detached(hook_state[keys.Y_PRED])} if keys.Y_PRED in hook_state else {}
        return {}, {"loss": _detached(hook_state[keys.LOSS])}, predictions

    def _tell_what_was_not_called(self) -> None:
        """Warn of callbacks that do nothing, since a closure of the user's does not call their hooks."""
        callbacks, hooks = self.run.callbacks, ("on_forward", "on_criterion", "on_backward")
        for hook in hooks if not callbacks.called.issuperset(hooks) else ():
            if callbacks.hears(hook) and hook not in callbacks.called:
                names = ", ".join(dict.fromkeys(type(one).__name__ for one in callbacks.at_hook(hook)))
                self.run.warn_once(
                    f"the closure of the trial does not call {hook}, so what {names} does there is left out; call "
                    f"state[CALLBACK_LIST].{hook}(state) at that event, or make the closure with base_closure"
                )

    def _numbered(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """Return the closure with BATCH as a compiled step has it: else it would stay the number of the first batch."""

        def numbered(model: Network, data_dict: Any, optimizers: Any, batch_nr: Any = 0, **kwargs: Any) -> Any:
            hook_state = self.run.hook_state
            own, hook_state[keys.BATCH] = hook_state.get(keys.BATCH), batch_nr
            try:
                with self.step.noting():
                    return closure(model, data_dict, optimizers, **kwargs)
            finally:
                hook_state[keys.BATCH] = own
                hook_state.pop(keys.GRADIENTS, None)  # of a compiled step they have no values here

        vars(numbered).update(vars(closure))
        return numbered

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the network on a prepared batch."""
        with self.run.backend.calls.calling(self.run.network):
            return self._call_apart(self.run.network, prepared)

    def _call_in_step(self, network: Network, batch: Mapping[str, Any]) -> dict[str, Any]:
        if not self.run.backend.compiles:  # an optimizer may ask several times, and hooks have changed them then
            self.run.hook_state[keys.X], self.run.hook_state[keys.Y_TRUE] = self.divided(batch)
        return self._call_apart(network, batch)

    def _call_apart(self, network: Network, batch: Mapping[str, Any]) -> dict[str, Any]:
        x, hook_state = batch.get(X_ENTRY), self.run.hook_state

        def call(own: Any) -> Any:
            if own is x:
                return self._call_model(network, own, hook_state)
            shown, hook_state[keys.X] = hook_state.get(keys.X), own  # a network that looks finds what it is called with
            try:
                return self._call_model(network, own, hook_state)
            finally:
                if hook_state[keys.X] is own:  # else the network has set another one
                    hook_state[keys.X] = shown

        return {PREDICTION: self.run.backend.calls.call_apart(network, x, call)}

    def divided(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """Divide a batch into input and target; a compiled step has no entries that are None."""
        return batch.get(X_ENTRY), batch.get(Y_ENTRY)

    def batch_of(self, x: Array) -> dict[str, Any]:
        """Return a batch without target."""
        return {X_ENTRY: x}

    def joined(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch with the input and the target of the state."""
        hook_state = self.run.hook_state
        rest = {name: value for name, value in batch.items() if name != W_ENTRY}
        weights = {W_ENTRY: hook_state[keys.SAMPLE_WEIGHT]} if keys.SAMPLE_WEIGHT in hook_state else {}
        return {**rest, X_ENTRY: hook_state[keys.X], Y_ENTRY: hook_state[keys.Y_TRUE], **weights}

    def show_on_sample(self, step: Step) -> None:
        """Show the batch."""
        super().show_on_sample(step)
        self._show_weights(step.batch)
        if self.run.backend.compiles:
            self._before = dict(self.run.hook_state)

    def _show_weights(self, batch: Mapping[str, Any]) -> None:
        self.run.hook_state.pop(keys.SAMPLE_WEIGHT, None)  # of the batch before
        if W_ENTRY in batch:
            self.run.hook_state[keys.SAMPLE_WEIGHT] = batch[W_ENTRY]

    def show_on_criterion(self, step: Step) -> None:
        """Compute the loss and show it."""
        hook_state = self.run.hook_state
        # those of the network come to it, e.g. regularisation of Keras
        hook_state[keys.LOSS] = functools.reduce(operator.add, step.losses.values(), self.loss())
        step.losses = {"loss": hook_state[keys.LOSS]}
        step.backward_arguments = hook_state.get(keys.BACKWARD_ARGS) or {}

    def take_on_criterion(self, step: Step) -> None:
        """Take the loss as callbacks have left it."""
        step.losses = {"loss": self.run.hook_state[keys.LOSS]}

    def show_on_backward(self, step: Step) -> None:
        """Show the gradients, with what the step has become by then."""
        self.run.hook_state.update(step.predictions)
        self.run.hook_state[keys.LOSS] = step.losses["loss"]
        super().show_on_backward(step)

    def after_hook(self, event: str, step: Step) -> None:
        """Let the step return what was written into the state."""
        if event not in ("on_criterion", "on_backward"):
            return
        hook_state = self.run.hook_state
        if self.run.backend.compiles:  # a compiled, or differentiated, function must return it
            new = {key: hook_state[key] for key in written(hook_state, self._before) if key not in _NOT_CARRIED}
            step.predictions = {**step.predictions, **new}
            return
        step.predictions[PREDICTION] = hook_state[keys.Y_PRED]
        if self.run.config.guards.micro_batches != 1:  # the state holds what the last part was made of
            step.predictions.update(
                {key: hook_state[key] for key in (keys.X, keys.Y_TRUE) if hook_state[key] is not None}
            )

    def loss(self) -> Any:
        """Compute the criterion of the state."""
        criterion = self.run.hook_state[keys.CRITERION]
        if criterion is None:
            return self.run.backend.step.zero_loss(self.run.devices) + 0.0  # no leaf: callbacks may add to it in place
        return self.trial.criterion_of(criterion)(self.run.hook_state)

    def after_step(self, prepared: Mapping[str, Any], result: Result, carried: Mapping[Any, Any]) -> None:
        """Show a step that is done, and measure it."""
        _, losses, predictions = result
        hook_state = self.run.hook_state
        hook_state.update(carried)
        if self.run.backend.compiles and self.trial.closure is None:  # else the state has what the step made of them
            hook_state[keys.X], hook_state[keys.Y_TRUE] = self.divided(prepared)
            self._show_weights(prepared)
        hook_state.update(predictions)  # and what else the step has written
        hook_state[keys.LOSS] = losses["loss"]
        hook_state.pop(keys.GRADIENTS, None)
        self.measure()

    def measure(self) -> None:
        """Compute the metrics of a batch, of values that no gradient goes through."""
        hook_state = self.run.hook_state
        if [*hook_state] != self._open_keys[0]:
            self._open_keys = ([*hook_state], hook_state.keys() - _WITHOUT_GRADIENT)
        for key in self._open_keys[1]:
            hook_state[key] = _detached(hook_state[key])
        hook_state[keys.METRICS] = ReadValues(self.trial.metrics.process(hook_state))

    # ------------------------------------------------------------------ passes over data

    def may_look_ahead(self) -> bool:
        """Return False for a loader of the user's, which works on the state: it is not called before its step."""
        return self.run.hook_state[keys.LOADER] is None

    def is_enough(self) -> bool:
        """Return True if the training was stopped."""
        self._is_cut = bool(self.run.hook_state.get(keys.STOP_TRAINING))
        return self._is_cut

    def is_broken_off(self, plan: TrainingPlan) -> bool:
        """Return True if the training was stopped before the pass had its steps."""
        wanted = plan.train_data.n_batches
        ends = plan.train_data.steps != ENDLESS
        return self._is_cut and ends and (wanted is None or self.run.state.step_in_epoch < wanted)

    def begin_epoch(self, plan: TrainingPlan) -> None:
        """Get ready for an epoch, or for the rest of one."""
        self._validation_steps, state = 0, self.run.state
        self._kept, self._of_training = state.accumulators, None  # inside an epoch
        if place := state.loader.get("place"):
            plan.train_data.go_to(tuple(place))
            state.loader = {}

    def begin_pass(self, data_key: str, data: TrialData) -> None:
        """Get the metrics ready for a pass over data."""
        run, hook_state, metrics = self.run, self.run.hook_state, self.trial.metrics
        hook_state.update({
            keys.DATA: data_key, keys.GENERATOR: data.generator, keys.STEPS: data.steps or data.n_batches,
            keys.SAMPLER: data.loader, keys.METRICS: {},
        })  # fmt: skip
        is_learning = data_key == keys.TRAIN_DATA and run.phase == "fit"
        if is_learning:
            metrics.train()
        else:
            metrics.eval(data_key)
        for tree in metrics:
            if isinstance(tree.root, metric_list.Loss):
                tree.root.skips_nonfinite = run.config.guards.nonfinite == "skip"
        metrics.reset(hook_state)
        if is_learning and self.trial.closure is not None:
            self._before_closures = None if self._has_changed else self._learned_values()
        if data_key == keys.TRAIN_DATA and self._kept.get("tree") is not None:
            metrics.load_state_dict(self._kept["tree"])
            hook_state[keys.METRICS] = dict(self._kept.get("shown", {}))
            self._kept = {}

    def _learned_values(self) -> dict[str, Any] | None:
        """Return copies of the weights that are learned; None if there are none, or none yet."""
        try:
            model = self.run.weights
        except CheckpointError:  # weights have no shape yet
            return None
        arrays, names = self.run.backend.arrays, self.run.learned_names
        learned = {name: value for name, value in model.items() if name in names}
        return arrays.to_numpy(arrays.snapshot(learned)) or None

    def _tell_unchanged(self, before: Mapping[str, Any], after: Mapping[str, Any] | None) -> None:
        """Say that the closure of the trial has learned nothing."""
        unchanged = after is not None and all(np.array_equal(value, after[name]) for name, value in before.items())
        self._before_closures, self._has_changed = None, not unchanged
        if unchanged:
            self.run.warn_once(
                "the closure of the trial has changed no weight in an epoch: it must differentiate and update (in "
                "PyTorch the trial's one optimizer updates with the gradients that it leaves); make it by base_closure "
                "and combined_closure, or update in it"
            )

    def end_pass(self, values: Mapping[str, Any], event: str) -> None:
        """Show the metrics of a pass; those of an epoch are given."""
        hook_state, plan = self.run.hook_state, self.run.plan
        if event == "on_end_training" and plan is not None and plan.val_data is not None:
            self._of_training = self._of_pass()
        if event == "on_end_training" and self._before_closures is not None:
            self._tell_unchanged(self._before_closures, self._learned_values())
        if event == "on_end_epoch":
            hook_state[keys.METRICS] = values
        else:
            seen = dict(hook_state[keys.METRICS].items())
            hook_state[keys.METRICS] = seen | self.trial.metrics.process_final(hook_state)
            self._tell_of_predictions()

    def recorded(self) -> dict[str, Any]:
        """Return the metrics of the state as plain numbers."""
        return plain_values({str(name): value for name, value in self.run.hook_state[keys.METRICS].items()})

    def _tell_of_predictions(self) -> None:
        """Say once of which samples predictions are not finite, and how they were read if nobody says what they are."""
        for tree in self.trial.metrics:
            if tree.lost:
                text = (
                    f"the predictions of {len(tree.lost):,} samples are not finite (place in the pass, from 0: "
                    f"{labels.named_samples(tree.lost)}), so the metric {tree.root.name!r} is no number"
                )
                if self.run.config.guards.nonfinite_predictions == "raise":
                    raise DataError(f"{text}; look at the network and at these samples")
                self.run.warn_once(text)
            if tree.way:
                self.run.warn_once(
                    f"no known criterion and no output= says what predictions are, so by their values the metric "
                    f"{tree.root.name!r} takes them for {tree.way}; say output='logits', 'probabilities' or 'labels'"
                )

    def end_epoch(self, epoch: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Tell the values of an epoch; returns them as the history has them, with its steps.

        A metric called ``epoch`` counts from 0.
        """
        told = self.events.end_pass({name: one for name, one in values.items() if name != "epoch"}, "on_end_epoch")
        steps = {"train_steps": self.run.state.step_in_epoch, "validation_steps": self._validation_steps}
        told.pop("epoch", None)
        return {"epoch": self.run.hook_state[keys.EPOCH] + 1, **told, **steps}

    def _of_pass(self) -> dict[str, Any]:
        """Return what the metrics have seen of the pass, and what they showed at its last batch."""
        return {
            "tree": self.trial.metrics.state_dict(),
            "shown": plain_values(dict(self.run.hook_state[keys.METRICS].items())),
        }

    def kept_values(self) -> dict[str, Any]:
        """Return what the metrics have seen of the training pass; in a validation they are those of it."""
        return self._of_training or self._of_pass()

    def kept_place(self) -> dict[str, Any]:
        """Return where an iterator stands that is kept over the epochs."""
        data = self.trial.data_of(keys.TRAIN_DATA)
        return {} if data is None or data.place is None else {"place": list(data.place)}

    # ------------------------------------------------------------------ without learning

    def metrics(self) -> Mapping[str, Any]:
        """Return nothing: the metrics are those of the state."""
        return {}

    def before_prediction(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """Return a batch to predict: a tuple of two is no input with its target if the network needs both."""
        if len(spread(prepared.get(X_ENTRY))) != 1 or prepared.get(Y_ENTRY) is None:
            return prepared
        if self._needed is None:
            self._needed = needed_inputs(self.run.hook_state[keys.MODEL])
        rest = {key: value for key, value in prepared.items() if key != Y_ENTRY}
        return {**rest, X_ENTRY: (prepared[X_ENTRY], prepared[Y_ENTRY])} if self._needed == 2 else prepared

    def is_measured(self, watcher: Watcher) -> bool:
        """Return True unless a batch that is predicted has no target."""
        return watcher.kept is None or self.run.hook_state[keys.Y_TRUE] is not None

    def validation_losses(self, step: Step) -> dict[str, Any]:
        """Return nothing: the criterion is computed where the loss is shown."""
        return {}

    def after_validation_step(self, step: Step) -> None:
        """Measure a batch of a pass without learning, if there are targets."""
        if step.losses:
            self.measure()

    def validated(self, watcher: Watcher, metrics: Mapping[str, Any], epoch: int) -> dict[str, Any]:
        """Return nothing: the end of the pass computes the metrics."""
        if not watcher.number:
            raise DataError(f"the validation data gave no batch in epoch {epoch}")
        self._validation_steps = watcher.number
        plan = self.run.plan
        self.tell_stopped(watcher, None if plan is None else plan.val_data, f"the validation of epoch {epoch}")
        return {}

    def tell_stopped(self, watcher: Watcher, data: Data, what: str) -> None:
        """Say that values are of a part of the data, since a callback has ended the pass before its time."""
        wanted = data.n_batches
        if watcher.is_enough and wanted is not None and watcher.number < wanted:
            self.run.warn_once(
                f"{what} was stopped by STOP_TRAINING after {watcher.number} of {wanted} batches; its values are of "
                "these alone"
            )


@backend_default
def _prepared(
    objective: TrialObjective, prepare: Callable[..., Any], batch: Mapping[str, Any], **at_first: Any
) -> dict[str, Any]:
    """Return a batch as the backend prepares it, where the trial is by now, and its numbers of its type."""
    devices = objective.run.devices
    made: dict[str, Any] = prepare(batch, input_device=devices.input, output_device=devices.output)
    dtype = objective.trial.state[keys.DATA_TYPE]
    return made if dtype is None else deep_to(made, dtype=dtype)


#: keys of ours whose values hold no gradient by then: users' own, and the input, are left
_WITHOUT_GRADIENT = SETTLED - {keys.X, keys.Y_TRUE}
_NOT_CARRIED = _WITHOUT_GRADIENT - {keys.Y_PRED}


def _detached(value: Tree) -> Any:
    if type(value) in (dict, tuple):  # lists are often users' own, to which they append
        has_gradient = any(getattr(leaf, "requires_grad", False) for _, leaf in iterate_leaves(value))
        return map_leaves(_detached, value) if has_gradient else value
    return value.detach() if getattr(value, "requires_grad", False) and hasattr(value, "detach") else value
