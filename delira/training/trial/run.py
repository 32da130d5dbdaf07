"""The trainer of a trial: the common one, with batches of any structure, a criterion of the state, and its metrics."""

import contextlib
import dataclasses
import functools
import importlib
import itertools
import operator
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from delira import state as keys
from delira.contract import Step, default_optimizer, room_default
from delira.errors import CheckpointError, DataError, NetworkError
from delira.metrics.tree.basics import Loss
from delira.metrics.tree.seen import named_samples
from delira.state import State
from delira.training.callbacks.monitor import plain_values
from delira.training.compiled_facts import SETTLED, CompiledFacts, written
from delira.training.generators import seed_generators
from delira.training.hooked_run import HookedRun
from delira.training.plan import TrainingPlan
from delira.training.trial.calls import ModelCall, advice_about_state
from delira.training.trial.data import ENDLESS, X_ENTRY, Y_ENTRY
from delira.training.trial.moving import deep_to
from delira.training.trial.watcher import PREDICTION, TrialWatcher
from delira.utils.trees import iterate_leaves, map_leaves

#: package of a module's class -> trainer of its room, in delira.training
_TRAINERS = {
    "torch": "PyTorchNetworkTrainer",
    "keras": "TfNetworkTrainer",
    "flax": "JaxNetworkTrainer",
    "sklearn": "SklearnNetworkTrainer",
}

#: room of a network of ours -> its trainer, where its class does not tell
_OF_ROOMS = {"torchscript": "TorchScriptNetworkTrainer", "sklearn": "SklearnNetworkTrainer"}


def trainer_class(model: Any) -> type:
    """The trainer of the room that a module, or a network of ours, belongs to.

    Raises
    ------
    NetworkError
        If it belongs to none.
    """
    own = getattr(type(model), "__delira_backend__", None)
    packages = [parent.__module__.partition(".")[0] for parent in type(model).__mro__]
    name = "PyTorchNetworkTrainer" if model is None else next((_TRAINERS[p] for p in packages if p in _TRAINERS), None)
    if own is not None:
        name = _OF_ROOMS.get(own.name, name)
    if name is None:
        raise NetworkError(
            f"a trial takes a torch.nn.Module, a keras.Model, a flax nnx.Module or a scikit-learn estimator, got "
            f"{model!r}"
        )
    trainer: type = getattr(importlib.import_module("delira.training"), name)
    return trainer


def trial_trainer_class(trainer: type, trial: Any) -> type:
    """The trainer of a room with what a trial needs."""
    if trainer.backend.is_differentiable:  # type: ignore[attr-defined]
        return type(f"Trial{trainer.__name__}", (TrialRun, trainer), {"trial": trial})
    from delira.training.trial.estimators import EstimatorRun  # it builds on this module

    return type(f"Trial{trainer.__name__}", (EstimatorRun, trainer), {"trial": trial})


class TrialRun(HookedRun):
    """What a trial's trainer does otherwise; it is mixed with the trainer of a room."""

    _looks_inside = True
    _validation_steps = 0
    _kept_metrics: Any = None
    _kept_shown: Mapping[str, Any] = {}
    #: the weights as a training pass with a closure began, until it has changed any of them
    _before_closures: dict[str, Any] | None = None
    _has_changed = False
    #: what the metrics have seen of the training pass, while its validation runs
    _of_training: dict[str, Any] | None = None
    _before: Mapping[Any, Any] = {}
    #: keys of the state, and those of them under which there may be values that gradients go through
    _open_keys: tuple[list[Any], set[Any]] = ([], set())
    #: whether the closure of the step at hand has updated by itself
    is_updated = False
    trial: Any

    def _methods_of(self, network: Any) -> tuple[Any, Any]:
        """The room's own preparation of batches, and its closure with the trial's calls inside."""
        cls = pkgutil.resolve_name(self.backend.network_class)
        closure = self._numbered(cls.closure) if self.backend.compiles else cls.closure
        prepare = functools.partial(_prepared, self, cls.prepare_batch)
        return prepare, closure if self.trial.closure is None else self._own_closure

    def _own_closure(self, model: Any, data_dict: dict[str, Any], optimizers: Mapping[str, Any]) -> Any:
        """The step of a trial with a closure of its own."""
        facts, step = self.facts, Step(model, data_dict)
        self._show_on_sample(step, facts)
        self.callbacks.called.clear()
        facts.pop(keys.Y_PRED, None)  # of the batch before
        self.is_updated = False
        self.trial.closure(facts)
        self._tell_what_was_not_called()
        if not self.is_updated and not isinstance(facts[keys.OPTIMIZER], (Mapping, type(None))):
            self.backend.update_after({"default": default_optimizer(optimizers)})
        predictions = {PREDICTION: _detached(facts[keys.Y_PRED])} if keys.Y_PRED in facts else {}
        return {}, {"loss": _detached(facts[keys.LOSS])}, predictions

    def _tell_what_was_not_called(self) -> None:
        """Warn of callbacks that do nothing, since a closure of the user's does not call their hooks."""
        hooks = ("on_forward", "on_criterion", "on_backward")
        for hook in hooks if not self.callbacks.called.issuperset(hooks) else ():
            if self.callbacks.hears(hook) and hook not in self.callbacks.called:
                names = ", ".join(dict.fromkeys(type(one).__name__ for one in self.callbacks.at_hook(hook)))
                self._warn_once(
                    f"the closure of the trial does not call {hook}, so what {names} does there is left out; call "
                    f"state[CALLBACK_LIST].{hook}(state) at that moment, or make the closure with base_closure"
                )

    def _numbered(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """The closure with BATCH as a compiled step has it: else it would stay the number of the first batch."""

        def numbered(model: Any, data_dict: Any, optimizers: Any, batch_nr: Any = 0, **kwargs: Any) -> Any:
            facts = self.facts
            own, facts[keys.BATCH] = facts.get(keys.BATCH), batch_nr
            try:
                with self._noting():
                    return closure(model, data_dict, optimizers, **kwargs)
            finally:
                facts[keys.BATCH] = own
                facts.pop(keys.GRADIENTS, None)  # of a compiled step they have no values here

        vars(numbered).update(vars(closure))
        return numbered

    def _must_sample_apart(self) -> bool:
        """Before a closure of the user's, too: what follows sees the batch as the closure does."""
        return super()._must_sample_apart() or (self.trial.closure is not None and self.callbacks.hears("on_sample"))

    def _arguments(self) -> dict[str, Any]:
        is_of_room = self.trial.closure is None and self.backend.is_differentiable
        return super()._arguments() | ({"call": self._call_in_step} if is_of_room else {})

    def _functions(self) -> dict[str, Any]:
        criterion = self.trial.state[keys.CRITERION]
        return super()._functions() | ({} if criterion is None else {"criterion": criterion})

    @property
    def is_finished(self) -> bool:
        """Whether the model is fitted, so that more epochs would change nothing."""
        return False

    def move(self, device: str | None, dtype: Any) -> None:
        """Compute somewhere else, or in another number format."""
        backend, facts = self.backend, self.facts
        devices = self.devices if device is None else backend.devices((), device)
        backend.move(self.module, self.optimizers, devices, dtype)
        self.devices, (self.input_device, self.output_device) = devices, devices
        facts[keys.DEVICE], facts[keys.DATA_TYPE] = devices.input, dtype or facts[keys.DATA_TYPE]
        self._bound = None

    def _loaded(self) -> None:
        """Take over what was read into the network."""
        self._trained = None  # it is not their average any more

    def _check_first_batches(self, plan: TrainingPlan) -> None:
        """Nothing is taken from data that may be gone then, and the network is called in steps only."""
        if (advice := advice_about_state(self.facts[keys.MODEL])) is not None:
            self._warn_once(advice)

    def _begin_hooks(self) -> None:
        self.facts, self._compiled_facts = self.trial.state, CompiledFacts(self.backend.constants_of)
        self.facts.update({
            keys.DEVICE: self.devices.input, keys.HISTORY: self.state.history, keys.CALLBACK_LIST: self.callbacks,
        })  # fmt: skip
        self.in_use = (self.facts[keys.MODEL], self.facts[keys.OPTIMIZER], self.facts[keys.CRITERION])
        self._bind_hooks()

    def _set_criterion(self, criterion: Any) -> None:
        """Nothing is to be done: each step asks the state."""

    def _given_optimizers(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        given: dict[str, Any] = self.trial.given_optimizers()
        return given

    def _update_state(self, new_state: Mapping[str, Any]) -> Any:
        """Take a checkpoint over, and its seed if the trial was told none."""
        recorded = new_state.get("state")
        if "seed" in self.trial.settings or not isinstance(recorded, Mapping):
            return super()._update_state(new_state)
        before = self.seed
        self._set_seed(recorded.get("seed", 0))
        try:
            return super()._update_state(new_state)
        except Exception:
            self._set_seed(before)
            raise

    def _set_seed(self, seed: int) -> None:
        self.config = dataclasses.replace(self.config, seed=seed)
        self.seed = self.state.seed = self.trial.seed = seed

    # ------------------------------------------------------------------ the step

    @functools.cached_property
    def _call_model(self) -> ModelCall:
        return ModelCall()

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the network on a prepared batch."""
        with self.backend.calling(self.module):
            return self._call_apart(self.module, prepared)

    def _compute(self, *step: Any) -> tuple[Any, Any, Any]:
        """Call the closure; if that fails, what a compiler saw does not stay in the state."""
        if not self._is_compiled:
            return super()._compute(*step)  # type: ignore[misc, no-any-return]
        facts, before = self.facts, dict(self.facts)
        try:
            return super()._compute(*step)  # type: ignore[misc, no-any-return]
        except BaseException:
            for key in written(facts, before):
                del facts[key]
            facts.update({key: value for key, value in before.items() if key not in facts})
            raise

    def _call_in_step(self, network: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
        if not self.backend.compiles:  # an optimizer may ask several times, and hooks have changed them then
            self.facts[keys.X], self.facts[keys.Y_TRUE] = self._divided(batch)
        return self._call_apart(network, batch)

    def _call_apart(self, network: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
        x, facts = batch.get(X_ENTRY), self.facts

        def call(own: Any) -> Any:
            if own is x:
                return self._call_model(network, own, facts)
            shown, facts[keys.X] = facts.get(keys.X), own  # a network that looks finds what it is called with
            try:
                return self._call_model(network, own, facts)
            finally:
                if facts[keys.X] is own:  # else the network has set another one
                    facts[keys.X] = shown

        return {PREDICTION: self.backend.call_apart(network, x, call)}

    def _hook_in_step(self, hook: str) -> Callable[[Step], None]:
        run = super()._hook_in_step(hook)
        if hook not in ("on_criterion", "on_backward"):
            return run

        def run_and_carry(step: Step) -> None:
            run(step)
            if self.backend.compiles:
                step.predictions = {**step.predictions, **self._written()}
            else:
                step.predictions[PREDICTION] = self.facts[keys.Y_PRED]
                if self.config.guards.micro_batches != 1:  # the state holds what the last part was made of
                    step.predictions.update(_there(self.facts, keys.X, keys.Y_TRUE))

        vars(run_and_carry).update(vars(run))
        return run_and_carry

    def _written(self) -> dict[Any, Any]:
        """Arrays that the step has written into the state: a compiled, or differentiated, function must return them."""
        facts = self.facts
        return {key: facts[key] for key in written(facts, self._before) if key not in _NOT_CARRIED}

    def _show_on_sample(self, step: Step, facts: State) -> None:
        super()._show_on_sample(step, facts)
        if self.backend.compiles:
            self._before = dict(facts)

    def _show_on_backward(self, step: Step, facts: State) -> None:
        facts.update(step.predictions)
        facts[keys.LOSS] = step.losses["loss"]
        super()._show_on_backward(step, facts)

    def _divided(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        return batch.get(X_ENTRY), batch.get(Y_ENTRY)  # a compiled step has no entries that are None

    def _joined(self, facts: State, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {**batch, X_ENTRY: facts[keys.X], Y_ENTRY: facts[keys.Y_TRUE]}

    def _show_on_criterion(self, step: Step, facts: State) -> None:
        loss = self._loss(facts)
        if step.losses:  # of the network, e.g. regularisation of Keras
            loss = functools.reduce(operator.add, step.losses.values(), loss)
        facts[keys.LOSS] = loss
        step.losses = {"loss": facts[keys.LOSS]}
        step.backward_arguments = facts.get(keys.BACKWARD_ARGS) or {}

    def _take_on_criterion(self, step: Step, facts: State) -> None:
        step.losses = {"loss": facts[keys.LOSS]}

    def _loss(self, facts: State) -> Any:
        criterion = facts[keys.CRITERION]
        if criterion is None:
            return self.backend.zero_loss(self.devices) + 0.0  # no leaf: callbacks may add to it in place
        return self.trial.criterion_of(criterion)(facts)

    def _after_batch(self, prepared: Mapping[str, Any], result: tuple[Any, Any, Any], hook: str) -> None:
        _, losses, predictions = result
        facts = self.facts
        if self._compiled_facts.carried:
            facts.update(self._compiled_facts.carried)
        if self.backend.compiles and self.trial.closure is None:  # else the state has what the step made of them
            facts[keys.X], facts[keys.Y_TRUE] = self._divided(prepared)
        facts.update(predictions)  # and what else the step has written
        facts[keys.LOSS] = losses["loss"]
        facts.pop(keys.GRADIENTS, None)
        self._measure(facts)
        self._fire(hook)

    def _measure(self, facts: State) -> None:
        """The metrics of a batch, of values that no gradient goes through."""
        if [*facts] != self._open_keys[0]:
            self._open_keys = ([*facts], facts.keys() - _WITHOUT_GRADIENT)
        for key in self._open_keys[1]:
            facts[key] = _detached(facts[key])
        facts[keys.METRICS] = self.trial.metrics.process(facts)

    # ------------------------------------------------------------------ passes

    def _batches_again(self, data: Any, epoch: int) -> Any:
        """The training batches of an epoch once more; an iterator that is kept over the epochs stays where it is."""
        batches = data.epoch(self.seed, self.fold, epoch, shuffle=not data.keeps_iterator)
        if data.steps != ENDLESS:
            return batches
        n_steps = self.state.step_in_epoch or (self.state.history[-1]["train_steps"] if self.state.history else 1)
        return itertools.islice(batches, int(n_steps))

    #: whether a step was followed by none, since the training was stopped
    _is_cut = False

    def _fed(self, batches: Any, *, verbose: bool = False, ahead: bool = True) -> Any:
        """The batches; a loader of the user's, which works on the state, is not called before its step."""
        return super()._fed(batches, verbose=verbose, ahead=ahead and self.facts[keys.LOADER] is None)

    def _is_enough(self) -> bool:
        self._is_cut = bool(self.facts.get(keys.STOP_TRAINING))
        return self._is_cut

    def _begin_pass(self, data_key: Any, data: Any, hook: str) -> None:
        metrics, facts = self.trial.metrics, self.facts
        facts.update({
            keys.DATA: data_key, keys.GENERATOR: data.generator, keys.STEPS: data.steps or data.n_batches,
            keys.SAMPLER: data.loader, keys.METRICS: {},
        })  # fmt: skip
        if data_key is keys.TRAIN_DATA and self._phase == "fit":
            metrics.train()
        else:
            metrics.eval(data_key)
        for tree in metrics:
            if isinstance(tree.root, Loss):
                tree.root.skips_nonfinite = self.config.guards.nonfinite == "skip"
        metrics.reset(facts)
        if data_key == keys.TRAIN_DATA and self.trial.closure is not None and self._phase == "fit":
            self._before_closures = None if self._has_changed else self._learned_values()
        if data_key == keys.TRAIN_DATA and self._kept_metrics is not None:
            metrics.load_state_dict(self._kept_metrics)
            facts[keys.METRICS] = dict(self._kept_shown)
            self._kept_metrics = None
        self._fire(hook)

    def _learned_values(self) -> dict[str, Any] | None:
        """Copies of the weights that are learned; None if there are none, or none yet."""
        try:
            model = self.backend.state_tree(self.module, {})["model"]
        except CheckpointError:  # weights have no shape yet
            return None
        names = self.learned_names
        learned = {name: value for name, value in model.items() if name in names}
        copies: dict[str, Any] = self.backend.to_numpy(self.backend.snapshot(learned))
        return copies or None

    def _tell_unchanged(self, before: Mapping[str, Any], after: Mapping[str, Any] | None) -> None:
        """Say that the closure of the trial has learned nothing."""
        unchanged = after is not None and all(np.array_equal(value, after[name]) for name, value in before.items())
        self._before_closures, self._has_changed = None, not unchanged
        if unchanged:
            self._warn_once(
                "the closure of the trial has changed no weight in an epoch: it must differentiate and update (in "
                "PyTorch the trial's one optimizer updates with the gradients that it leaves); make it by base_closure "
                "and combined_closure, or update in it"
            )

    def _begin_epoch(self, plan: TrainingPlan, epoch: int) -> Any:
        self._validation_steps = 0
        kept = self.state.accumulators  # inside an epoch
        self._kept_metrics, self._kept_shown, self._of_training = kept.get("tree"), kept.get("shown", {}), None
        if place := self.state.loader.get("place"):
            plan.train_data.go_to(tuple(place))
            self.state.loader = {}
        return super()._begin_epoch(plan, epoch)  # type: ignore[misc]

    @contextlib.contextmanager
    def _filled_state(self) -> Iterator[None]:
        with super()._filled_state():
            if self.state.accumulators:
                # in a validation the metrics are those of it
                self.state.accumulators.update(self._of_training or self._of_pass())
            data = self.trial.data_of(keys.TRAIN_DATA)
            if data is not None and data.place is not None:
                self.state.loader = {"place": list(data.place)}
            yield

    def _of_pass(self) -> dict[str, Any]:
        """What the metrics have seen of the pass, and what they showed at its last batch, as parts of a checkpoint."""
        return {"tree": self.trial.metrics.state_dict(), "shown": plain_values(dict(self.facts[keys.METRICS]))}

    def _validate(self, datamgr: Any, epoch: int) -> dict[str, Any]:
        watcher = TrialWatcher(self)
        self._begin_pass(keys.VALIDATION_DATA, datamgr, "on_start_validation")
        seed_generators(self.backend, self.seed, self.fold, epoch, stream="validation")
        with self._averaged_weights():
            self.evaluate(datamgr, metrics={}, keep_predictions=False, watcher=watcher, epoch=epoch)
        if not watcher.number:
            raise DataError(f"the validation data gave no batch in epoch {epoch}")
        self._validation_steps = watcher.number
        self.tell_stopped(watcher, datamgr, f"the validation of epoch {epoch}")
        return self._end_pass({}, "on_end_validation")

    def tell_stopped(self, watcher: TrialWatcher, data: Any, what: str) -> None:
        """Say that values are of a part of the data, since a callback has ended the pass before its time."""
        wanted = data.n_batches
        if watcher.is_enough and wanted is not None and watcher.number < wanted:
            self._warn_once(
                f"{what} was stopped by STOP_TRAINING after {watcher.number} of {wanted} batches; its values are of "
                "these alone"
            )

    def _end_pass(self, values: dict[str, float], hook: str) -> dict[str, Any]:
        facts = self.facts
        if hook == "on_end_training" and self._plan is not None and self._plan.val_data is not None:
            self._of_training = self._of_pass()
        if hook == "on_end_training" and self._before_closures is not None:
            self._tell_unchanged(self._before_closures, self._learned_values())
        if hook == "on_end_epoch":
            facts[keys.METRICS] = values
        else:
            facts[keys.METRICS] = {**facts[keys.METRICS], **self.trial.metrics.process_final(facts)}
            self._tell_of_predictions()
        self._fire(hook)
        return plain_values({str(name): value for name, value in facts[keys.METRICS].items()})

    def _tell_of_predictions(self) -> None:
        """Say once of which samples predictions are not finite, and how they were read if nobody says what they are."""
        metrics = self.trial.metrics
        for tree in metrics:
            if tree.lost:
                text = (
                    f"the predictions of {len(tree.lost):,} samples are not finite (place in the pass, from 0: "
                    f"{named_samples(tree.lost)}), so the metric {tree.root.name!r} is no number"
                )
                if self.nonfinite_predictions == "raise":
                    raise DataError(f"{text}; look at the network and at these samples")
                self._warn_once(text)
            if tree.way:
                self._warn_once(
                    f"no known criterion and no output= says what predictions are, so by their values the metric "
                    f"{tree.root.name!r} takes them for {tree.way}; say output='logits', 'probabilities' or 'labels'"
                )

    def _end_of_epoch(self, values: dict[str, float]) -> dict[str, float]:
        recorded = super()._end_of_epoch({name: value for name, value in values.items() if name != "epoch"})
        steps = {"train_steps": self.state.step_in_epoch, "validation_steps": self._validation_steps}
        recorded.pop("epoch", None)  # the metric of that name counts from 0
        return {"epoch": self.facts[keys.EPOCH] + 1, **recorded, **steps}

    def _is_broken_off(self, plan: TrainingPlan) -> bool:
        """Whether the training pass was ended before its time."""
        wanted = plan.train_data.n_batches
        ends = plan.train_data.steps != ENDLESS
        return self._is_cut and ends and (wanted is None or self.state.step_in_epoch < wanted)


@room_default
def _prepared(run: Any, prepare: Callable[..., Any], batch: Mapping[str, Any], **at_first: Any) -> dict[str, Any]:
    """A batch as the room prepares it, where the trial is by now, and its floating-point numbers of its type."""
    made: dict[str, Any] = prepare(batch, input_device=run.input_device, output_device=run.output_device)
    dtype = run.trial.state[keys.DATA_TYPE]
    return made if dtype is None else deep_to(made, dtype=dtype)


#: keys of ours whose values hold no gradient by then: users' own, and the input, are left
_WITHOUT_GRADIENT = SETTLED - {keys.X, keys.Y_TRUE}
_NOT_CARRIED = _WITHOUT_GRADIENT - {keys.Y_PRED}


def _there(facts: State, *wanted: Any) -> dict[Any, Any]:
    return {key: facts[key] for key in wanted if facts[key] is not None}


def _detached(value: Any) -> Any:
    if type(value) in (dict, tuple):  # lists are often users' own, to which they append
        has_gradient = any(getattr(leaf, "requires_grad", False) for _, leaf in iterate_leaves(value))
        return map_leaves(_detached, value) if has_gradient else value
    return value.detach() if getattr(value, "requires_grad", False) and hasattr(value, "detach") else value
