"""The hooks of a training: its state, shown to callbacks at each moment, and what they change taken over."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from delira import state as keys
from delira.contract import NO_HOOKS, Step, StepHooks
from delira.errors import DataError
from delira.metrics.tree.metric import reported
from delira.state import State, misspelt
from delira.training.callbacks.hooks import IN_STEP
from delira.training.checks import check_first_batches, check_methods, count_batches
from delira.training.compiled_facts import CARRIED, SETTLED, CompiledFacts, written
from delira.training.generators import seed_generators
from delira.training.plan import TrainingPlan
from delira.training.replaceable import ReplaceableRun
from delira.training.step_values import StepValues
from delira.training.watcher import Watcher

#: a step that was compiled so often is warned of
_WARN_AFTER = 20
_FIELDS = ("sample", "forward", "criterion", "backward")
_NOTHING = contextlib.nullcontext()


class HookedRun(ReplaceableRun):
    """The part of a trainer that callbacks see as a :class:`delira.state.State`.

    In an experiment ``X`` is the network's input (a dict by argument if there are several), ``Y_TRUE`` the rest of the
    batch (the entry itself if there is one), ``Y_PRED`` the network's output (the entry itself if there is one), and
    ``LOSS`` the sum of all losses.
    """

    _n_anew = _n_keys = 0
    _phase = "fit"

    def _methods_of(self, network: Any) -> tuple[Any, Any]:
        """What prepares batches, and the closure."""
        check_methods(network, self.config, self.backend)
        return network.prepare_batch, network.closure

    def _functions(self) -> dict[str, Any]:
        """Losses and metrics that may have weights, or an order of their own."""
        return {**self.config.losses, **self.config.train_metrics}

    # ------------------------------------------------------------------ moments

    def _begin_hooks(self) -> None:
        """Fill the state and tell callbacks that everything is there."""
        self.facts, self._compiled_facts = State(self._lasting_facts()), CompiledFacts(self.backend.constants_of)
        self.in_use = (self.facts[keys.MODEL], self.facts[keys.OPTIMIZER], self.facts[keys.CRITERION])
        self._bind_hooks()
        self._fire("on_init")

    def _lasting_facts(self) -> dict[Any, Any]:
        optimizers = {name: getattr(one, "optimizer", one) for name, one in self.optimizers.items()}
        single = len(optimizers) == 1
        return {
            keys.SELF: self,
            keys.MODEL: self.module,
            keys.OPTIMIZER: next(iter(optimizers.values())) if single else optimizers,
            keys.CRITERION: self.config.losses,
            keys.OUTPUT: self.config.output if isinstance(self.config.output, str) else None,
            keys.DEVICE: self.devices.input,
            keys.CALLBACK_LIST: self.callbacks,
            keys.HISTORY: self.state.history,
        }

    def _update_state(self, new_state: Mapping[str, Any]) -> Any:
        super()._update_state(new_state)
        self.facts[keys.HISTORY] = self.state.history
        return self

    def _fire(self, hook: str) -> None:
        """Call a hook, and take over what was changed; after a step also what hooks inside of it have changed."""
        facts = self.facts
        if self.state.has_all_steps and hook in ("on_start_training", "on_end_training"):
            return  # of an epoch that is continued in its validation: they were called before
        if not self.callbacks.hears(hook):
            if hook == "on_step_training":
                self._follow(facts)
            return
        facts[keys.PHASE] = self._phase
        self.callbacks.fire(hook, facts, self._phase)
        if hook not in IN_STEP:
            self._follow(facts)

    def _follow(self, facts: State) -> None:
        """Take over what callbacks have set for all steps that come."""
        if len(facts) != self._n_keys:
            self._n_keys = len(facts)
            for advice in misspelt(facts):
                self._warn_once(advice)
        if facts.get(keys.STOP_TRAINING) and not self.state.stop_training and self._phase == "fit":
            self.state.stop_training = True
        self._follow_replaced(facts)

    def register_callback(self, callback: Any) -> None:
        """Add a callback; see :meth:`RunState.register_callback`."""
        super().register_callback(callback)
        self._bind_hooks()

    def _add_view(self, view: Iterable[Any]) -> None:
        """Add callbacks that show the training; the step stays as it is, as none of them looks into it."""
        for callback in view:
            self.callbacks.append(callback)
        hears = self.callbacks.hears
        self._shows_steps = self._shows_steps or hears("on_step_training")
        self._shows_validation = self._shows_validation or hears("on_step_validation")

    # ------------------------------------------------------------------ inside the step

    def _bind_hooks(self) -> None:
        """Let the room's closure call the hooks that somebody listens to."""
        hears = self.callbacks.hears
        heard = [hook for hook in IN_STEP if hears(hook)]
        self._shows_steps = self._looks_inside or bool(heard) or hears("on_step_training")
        in_validation = (f"{hook}_validation" for hook in ("on_sample", "on_forward", "on_criterion", "on_step"))
        self._shows_validation = self._looks_inside or any(map(hears, in_validation))
        if not heard and not self._looks_inside:
            self.hooks, self._is_compiled = NO_HOOKS, False
            return
        self._samples_apart = self._must_sample_apart()
        pairs = zip(_FIELDS, IN_STEP, strict=True)
        # to show gradients takes time
        watched = {field: (self._hook_in_step(hook),) for field, hook in pairs if hook != "on_backward" or hears(hook)}
        self.hooks = StepHooks(**watched)
        self._is_compiled = self._may_compile and self.hooks.traceable

    #: whether on_sample runs before the step, and whether what hooks do becomes part of a compiled one
    _samples_apart = _is_compiled = False
    _compiled_facts: CompiledFacts
    #: whether every step, and every batch of a validation, is shown
    _shows_steps = _shows_validation = False
    #: whether the step shows what it computes even if no callback looks: a trial's criterion is called by it
    _looks_inside = False
    _shown_loss: tuple[Any, Any, Any] = (None, None, None)

    def _hook_in_step(self, hook: str) -> Callable[[Step], None]:
        show, take = getattr(self, f"_show_{hook}"), getattr(self, f"_take_{hook}")
        is_first = hook == "on_sample"
        listeners = [] if is_first and self._samples_apart else self.callbacks.at_hook(hook)

        def run(step: Step) -> None:
            if is_first and self._is_compiled:
                self._compiled_facts.begin(step.batch, self.facts)
            show(step, self.facts)
            if listeners:
                with self._inside(step), self._noting():
                    self.callbacks.fire(hook, self.facts, self._phase)
                take(step, self.facts)

        run.traceable = all(map(is_traceable, listeners))  # type: ignore[attr-defined]
        others = [_name_of(callback) for callback in listeners if not is_traceable(callback)]
        run.who = f"{hook} of {', '.join(others)}"  # type: ignore[attr-defined]
        return run

    def _must_sample_apart(self) -> bool:
        """Whether on_sample runs before the step: not as a part of a compiled one, nor where a user's closure runs it.

        What it makes of the batch is then known to all that follows, metrics and parts of a batch included.
        """
        if not self.callbacks.hears("on_sample") or not self.has_default_closure:
            return False
        in_step = [callback for hook in IN_STEP for callback in self.callbacks.at_hook(hook)]
        return not (self._may_compile and all(map(is_traceable, in_step)))

    @property
    def _may_compile(self) -> bool:
        return self.backend.compiles and self.config.compiling.compiled is not False and self.has_default_closure

    def _before_step(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """Make a compiled step follow the state: it gets arrays of it, and is compiled anew for other plain values.

        An on_sample that cannot be part of it is called here.
        """
        facts, compiled = self.facts, self._compiled_facts
        if self._samples_apart:
            before = dict(facts)
            prepared = self.sampled(prepared, "on_sample")
            self._follow(facts)
            compiled.give(set(written(facts, before)) - SETTLED)
        if not self._is_compiled:
            return prepared
        if changed := compiled.changed(facts):
            self._bound, self._n_anew = None, self._n_anew + 1
            if self._n_anew == _WARN_AFTER:
                self._warn_once(
                    f"the step was compiled {_WARN_AFTER} times, since it reads {', '.join(map(str, changed))} of the "
                    "state, which changes: make an array of it, or set compiled=False"
                )
        return compiled.join(prepared, facts)

    def sampled(self, prepared: dict[str, Any], hook: str) -> dict[str, Any]:
        """A prepared batch with what callbacks make of it."""
        step = Step(self.module, prepared)
        self._show_on_sample(step, self.facts)
        self._fire(hook)
        self._take_on_sample(step, self.facts)
        return step.batch

    def _noting(self) -> contextlib.AbstractContextManager[None]:
        return self._compiled_facts.noting(self.facts) if self._is_compiled else _NOTHING

    @contextlib.contextmanager
    def _inside(self, step: Step) -> Iterator[None]:
        """Scope in which the state has the network whose weights are differentiated: of JAX it is another object."""
        facts, own, inner = self.facts, self.facts[keys.MODEL], step.network
        facts[keys.MODEL] = inner
        try:
            yield
        finally:
            if facts[keys.MODEL] is inner:  # else a callback has set another one
                facts[keys.MODEL] = own

    def _show_on_sample(self, step: Step, facts: State) -> None:
        facts[keys.X], facts[keys.Y_TRUE] = self._divided(step.batch)

    def _take_on_sample(self, step: Step, facts: State) -> None:
        step.batch = self._joined(facts, step.batch)

    def _show_on_forward(self, step: Step, facts: State) -> None:
        facts[keys.Y_PRED] = _single(step.predictions)

    def _take_on_forward(self, step: Step, facts: State) -> None:
        step.predictions = _like(step.predictions, facts[keys.Y_PRED])

    def _show_on_criterion(self, step: Step, facts: State) -> None:
        total = _total(step.losses)
        # a value of its own, since callbacks may add to it in place
        facts[keys.LOSS] = shown = None if total is None else total + 0.0
        self._shown_loss = (total, shown, _version(shown))

    def _take_on_criterion(self, step: Step, facts: State) -> None:
        """What callbacks made of the sum of all losses, as a further loss."""
        (before, shown, version), after = self._shown_loss, facts[keys.LOSS]
        if after is not shown or _version(after) != version:
            step.losses = {**step.losses, "added": after - before}

    def _show_on_backward(self, step: Step, facts: State) -> None:
        facts[keys.GRADIENTS] = dict(step.gradients or {})

    def _take_on_backward(self, step: Step, facts: State) -> None:
        step.gradients = {**(step.gradients or {}), **facts[keys.GRADIENTS]}

    def _divided(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """What the network is given, and the rest of a batch."""
        inputs = {argument: batch[key] for argument, key in self.key_mapping.items() if key in batch}
        known = {*self.key_mapping.values(), CARRIED}
        return _single(inputs), _single({key: value for key, value in batch.items() if key not in known})

    def _joined(self, facts: State, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A batch with what callbacks made of its parts."""
        inputs = {argument: batch[key] for argument, key in self.key_mapping.items() if key in batch}
        rest = {key: value for key, value in batch.items() if key not in self.key_mapping.values()}
        changed = _like(inputs, facts[keys.X])
        return {
            **batch,
            **{self.key_mapping[argument]: value for argument, value in changed.items()},
            **_like(rest, facts[keys.Y_TRUE]),
        }

    # ------------------------------------------------------------------ passes over data

    def _check_first_batches(self, plan: TrainingPlan) -> None:
        check_first_batches(self, plan)

    def _is_enough(self) -> bool:
        """Whether the training pass ends after this step."""
        return False

    def _is_broken_off(self, plan: TrainingPlan) -> bool:
        """Whether the training pass was ended before its time, so that there is no epoch to record."""
        return False

    def _leave_epoch(self) -> None:
        """Forget the steps of an epoch that was broken off; the weights stay as they are."""
        self.state.step_in_epoch = 0
        self._running, self._epoch_data, self._must_return = None, None, False

    def _begin_pass(self, data_key: Any, data: Any, hook: str) -> None:
        self.facts.update({
            keys.DATA: data_key, keys.GENERATOR: data, keys.STEPS: count_batches(data), keys.METRICS: {},
        })  # fmt: skip
        self._fire(hook)

    def _end_pass(self, values: dict[str, float], hook: str) -> dict[str, float]:
        """Show the values of a pass; returns what callbacks left of them, with what they added."""
        self.facts[keys.METRICS] = values
        self._fire(hook)
        return dict(self.facts[keys.METRICS])

    def _end_of_epoch(self, values: dict[str, float]) -> dict[str, float]:
        """The values of an epoch as they are recorded."""
        return self._end_pass(values, "on_end_epoch")

    def _after_batch(self, prepared: Mapping[str, Any], result: tuple[Any, Any, Any], hook: str) -> None:
        """Show a step that is done, with values and not what a compiler saw of them."""
        metrics, losses, predictions = result
        facts = self.facts
        facts.update(self._compiled_facts.carried)
        facts[keys.X], facts[keys.Y_TRUE] = self._divided(prepared)
        facts[keys.Y_PRED] = _single(predictions)
        facts[keys.METRICS] = {name: reported(value) for name, value in {**losses, **metrics}.items()}
        facts[keys.LOSS] = _total(losses)
        facts.pop(keys.GRADIENTS, None)
        self._fire(hook)

    def _validate(self, datamgr: Any, epoch: int) -> dict[str, float]:
        """Exact metrics, and losses where the room's default closure is in use, over the validation data."""
        losses = StepValues(self.backend.read_scalars)
        watcher = Watcher(self, losses)
        metrics = self._default_metrics()
        self._begin_pass(keys.VALIDATION_DATA, datamgr, "on_start_validation")
        seed_generators(self.backend, self.seed, self.fold, epoch, stream="validation")
        with self._averaged_weights():
            done = self.evaluate(
                datamgr,
                metrics=metrics,
                metric_keys=self.config.keys_of(metrics),
                keep_predictions=False,
                watcher=watcher,
                epoch=epoch,
            )
        if self.validates_losses and self.config.losses and not losses.keys():
            raise DataError(f"the validation data gave no batch in epoch {epoch}")
        values = {name: float(array.mean()) for name, array in done.metrics.items()} | losses.reduce()
        values = {name if name.startswith("val_") else f"val_{name}": value for name, value in values.items()}
        return self._end_pass(values, "on_end_validation")


def _name_of(callback: Any) -> str:
    shown = repr(callback)
    return type(callback).__name__ if " object at " in shown else shown


def is_traceable(callback: Any) -> bool:
    """Whether a compiled step may contain what a callback does."""
    return bool(getattr(callback, "traceable", False))


def _single(values: Mapping[str, Any]) -> Any:
    """The value itself where there is one only."""
    return next(iter(values.values())) if len(values) == 1 else dict(values)


def _like(values: Mapping[str, Any], changed: Any) -> dict[str, Any]:
    """What :func:`_single` gave, under its name again."""
    return {next(iter(values)): changed} if len(values) == 1 else dict(changed)


def _version(value: Any) -> Any:
    """How often a tensor was changed in place; of other frameworks no value of one number can be."""
    return getattr(value, "_version", None)


def _total(losses: Mapping[str, Any]) -> Any:
    """The sum that is differentiated."""
    return functools.reduce(lambda total, value: total + value, losses.values()) if losses else None
