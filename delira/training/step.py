"""One step of a training: a batch prepared, the closure called with the hooks that somebody listens to, values kept."""

import contextlib
import functools
import inspect
import itertools
import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.abstract_callback import IN_STEP
from delira.contract import NO_HOOKS, Step, StepHooks, Tree
from delira.metrics import MetricSet
from delira.state import State
from delira.training import checks
from delira.training.epoch import Feed, RunningEpoch, batch_length, map_samples
from delira.training.loss_weights import LossWeights
from delira.training.objective import CARRIED, Events, Objective, Result
from delira.training.run import Run
from delira.training.saving import PhaseTimes
from delira.training.share import begin_share, begin_step, join_shares, own_part
from delira.utils.arrays import iterate_leaves

_log = logging.getLogger("delira")

#: a step that was compiled so often is warned of
_WARN_AFTER = 20
_FIELDS = ("sample", "forward", "criterion", "backward")
_IN_VALIDATION = tuple(f"{event}_validation" for event in ("on_sample", "on_forward", "on_criterion", "on_step"))
_NOTHING = contextlib.nullcontext()
#: keys whose values every step sets
SETTLED = frozenset(keys.MEANING) - {keys.MIXUP_LAMBDA, keys.MIXUP_PERMUTATION}
#: notes of a compiled step about a key of which it only saw whether the state has it
PRESENT, ABSENT = object(), object()
#: gives the leaves of a value with their paths, and the arrays within them that a traced step would not follow
Leaves = Callable[[Any], list[tuple[Any, Any]]]

#: brings predictions and a batch to the host, as far as metrics read them
Read = Callable[[MetricSet, Mapping[str, Any], Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]


class TrainingStep:
    """The step of a run.

    Parameters
    ----------
    run
        The run.
    events
        Tells its events.
    objective
        What it computes.
    feed
        Prepares its batches.
    times
        Measures where the time goes.
    read
        Brings to the host what metrics over the epoch read.
    """

    #: whether every step, and every batch of a validation, is shown
    shows_steps = shows_validation = False
    #: whether what hooks do becomes part of a compiled step
    is_compiled = False
    #: whether on_sample runs before the step
    _samples_apart = False
    _n_anew = 0
    _bound: tuple[Any, Callable[..., Any]] | None = None
    _named: tuple[Any, bool, frozenset[str]] | None = None

    def __init__(self, run: Run, events: Events, objective: Objective, feed: Feed, times: PhaseTimes, read: Read):
        self._run, self._events, self._objective = run, events, objective
        self._feed, self._times, self._read = feed, times, read
        self._compiled = CompiledState(run.backend.calls.constants_of)
        #: what losses count in a batch
        self.loss_weights = LossWeights(run)

    # ------------------------------------------------------------------ one batch

    def train_on(
        self, batch: Mapping[str, Any], ready: dict[str, Any] | None, is_last: bool, running: RunningEpoch
    ) -> None:
        """Prepare a batch, call the closure, and keep its values where they are.

        Parameters
        ----------
        batch
            The batch.
        ready
            What was prepared of it ahead, if anything was.
        is_last
            Whether the epoch ends with it.
        running
            Takes the values.
        """
        run, state, callbacks = self._run, self._run.state, self._run.callbacks
        n_samples, run.begun_step = batch_length(batch), state.global_step + 1
        counters = {"iter_num": state.step_in_epoch, "global_iter_num": state.global_step}
        if run.ranks.group is not None:
            begin_step(run, batch)
        if callbacks.hears("at_iter_begin"):
            self._events.notify("at_iter_begin", data_dict=batch, curr_epoch=state.epoch + 1, train=True, **counters)
        prepared = given = self._feed.prepare(batch) if ready is None else ready
        run.hook_state[keys.BATCH] = state.step_in_epoch
        n_own = n_samples
        if run.ranks.group is not None:
            prepared, n_own, n_samples = begin_share(run, prepared, n_samples)
        prepared = self._before(prepared)
        if run.ranks.group is not None:
            totals = None if run.makes_shares or self._samples_apart else self.loss_weights.of_whole(given)
            run.ranks.group.weigh(self.loss_weights(prepared) or {}, n_own, n_samples, self.loss_weights.sums, totals)
        taken = self._taken({**counters, "batch_nr": state.step_in_epoch})
        if self._times.is_sampling:
            self._times.mark("other")  # what came before the step
        result = self.compute(prepared, n_own, is_last, taken)
        own, whole = result[-1], batch
        if run.ranks.group is None:
            weights = self.loss_weights(prepared)
        else:
            result, whole, weights = join_shares(run, result, prepared, batch, n_samples)
        step_metrics, step_losses, predictions = result
        state.step_in_epoch += 1
        state.global_step += 1
        if state.step_in_epoch == 1:
            checks.check_step_names(step_metrics, step_losses)
            _note_inputs(run, batch)
        _note_spacing(run, batch)
        running.metrics.append(step_metrics, n_samples, state.step_in_epoch)
        running.losses.append(step_losses, n_samples, state.step_in_epoch, weights)
        if running.over_epoch is not None and run.backend.calls.is_ready(run.network):
            arrays, host = self._read(running.over_epoch, predictions, whole)
            running.over_epoch.update({**arrays, **host})
        if callbacks.hears("at_iter_end"):
            self._events.notify(
                "at_iter_end", data_dict=own_part(run, batch, n_samples), curr_epoch=state.epoch + 1, train=True,
                losses=step_losses, metrics=step_metrics, predictions=own, **counters,
            )  # fmt: skip
        if self.shows_steps:
            self._objective.after_step(prepared, (step_metrics, step_losses, own), self._compiled.carried)
            self._events.fire("on_step_training")

    def compute(self, prepared: dict[str, Any], n_samples: int, is_last: bool, counters: dict[str, int]) -> Result:
        """Call the closure on a batch, or on its parts; what a compiler saw does not stay in the state if it fails.

        Parameters
        ----------
        prepared
            The prepared batch.
        n_samples
            Its samples.
        is_last
            Whether the epoch ends with it.
        counters
            Keywords of the closure that count steps.
        """
        run = self._run
        before = dict(run.hook_state) if self.is_compiled else None
        skips = run.config.guards.nonfinite == "skip"
        try:
            with run.backend.optimizers.leaving_out(run.network, run.optimizers) if skips else _NOTHING:
                if run.config.guards.micro_batches != 1:
                    return self.compute_in_parts(prepared, n_samples, is_last, counters)
                bound = self.bound
                with run.backend.optimizers.scope(run.optimizers, n_samples, is_last):
                    if run.has_default_closure:  # calls the network apart by itself
                        return checks.unpack_closure(bound(prepared, **counters))
                    step = functools.partial(bound, **counters)
                    return checks.unpack_closure(run.backend.calls.call_apart(run.network, prepared, step))
        except BaseException as error:
            if isinstance(error, Exception):
                error.add_note(f"in a training step on a batch of {checks.describe_batch(prepared)}")
            if before is not None:
                _restore(run.hook_state, before)
            raise

    def compute_in_parts(
        self, prepared: Mapping[str, Any], n_samples: int, is_last: bool, counters: Mapping[str, int]
    ) -> Result:
        """Call the closure on parts of a batch; the optimizers update once, with the gradients of all parts.

        With ``micro_batches="auto"`` there are twice as many parts whenever the device runs out of memory; the
        number is kept in ``run.state`` and so in checkpoints. What is returned is as if the batch had been computed
        at once.

        Parameters
        ----------
        prepared, n_samples, is_last, counters
            As for :meth:`compute`.
        """
        run, state, backend = self._run, self._run.state, self._run.backend
        wanted = run.config.guards.micro_batches
        if not isinstance(wanted, str):
            state.micro_batches = wanted
        while True:
            generators = backend.generators.state() if wanted == "auto" else None
            try:
                return self._compute_parts(prepared, n_samples, is_last, counters)
            except Exception as error:
                if wanted != "auto" or not backend.devices.is_out_of_memory(error) or state.micro_batches >= n_samples:
                    raise
                if not backend.optimizers.discard_parts(run.optimizers):
                    error.add_note(
                        "micro_batches='auto' cannot compute the batch again in more parts, since an optimizer has "
                        f"updated with it already; set micro_batches={2 * state.micro_batches}"
                    )
                    raise
            # outside of the handler: the error's traceback holds the memory that is missing
            backend.devices.free_memory()
            backend.generators.set_state(generators)
            state.micro_batches *= 2
            _log.warning(
                "the device ran out of memory with %d samples; batches are computed in %d parts from now on",
                n_samples, state.micro_batches,
            )  # fmt: skip

    def _compute_parts(
        self, prepared: Mapping[str, Any], n_samples: int, is_last: bool, counters: Mapping[str, int]
    ) -> Result:
        run = self._run
        bounds = np.linspace(0, n_samples, min(run.state.micro_batches, n_samples) + 1).astype(int).tolist()
        shares, results, weights = [], [], []
        for start, stop in itertools.pairwise(bounds):
            part = map_samples(operator.itemgetter(slice(start, stop)), prepared, n_samples)
            results.append(self.compute_part(part, stop - start, is_last, stop < n_samples, counters))
            shares.append((stop - start) / n_samples)
            weights.append(self.loss_weights(part) or {})
        metrics, losses, predictions = map(list, zip(*results, strict=True))
        return _average(metrics, shares), _average(losses, shares, weights), run.backend.arrays.concatenate(predictions)

    def compute_part(
        self, part: dict[str, Any], n_samples: int, is_last: bool, has_more: bool, counters: Mapping[str, int]
    ) -> Result:
        """Call the closure on a part of a batch.

        Parameters
        ----------
        part
            The part of the prepared batch.
        n_samples
            Its samples.
        is_last
            Whether the epoch ends with the batch.
        has_more
            Whether the batch has more parts to come.
        counters
            Keywords of the closure that count steps.
        """
        with self._run.backend.optimizers.scope(self._run.optimizers, n_samples, is_last, has_more):
            return checks.unpack_closure(self.bound(part, **counters))

    # ------------------------------------------------------------------ the closure, bound

    @property
    def bound(self) -> Callable[..., Any]:
        """The closure as the backend calls it, bound to what stays the same from step to step."""
        run = self._run
        bound_to = (run.closure, run.network, run.hooks, run.fold, run.n_replaced, run.ranks.group)
        if self._bound is None or self._bound[0] != bound_to:
            step = run.backend.step.bind(run.closure, run.network, self._arguments(), run.config.compiling)
            self._bound = (bound_to, step)
        return self._bound[1]

    def _arguments(self) -> dict[str, Any]:
        """Return keywords of the closure besides the counters: only those that its signature takes."""
        run, config = self._run, self._run.config
        arguments = {
            "optimizers": run.optimizers,
            "losses": config.losses,
            # those of the default closure are computed of the predictions of all processes
            "metrics": config.train_metrics if run.ranks.group is None or not run.has_default_closure else {},
            "fold": run.fold,
            "hooks": run.hooks,
            "key_mapping": run.key_mapping,
            "loss_keys": config.loss_keys,
            "metric_keys": config.metric_keys,
            **config.extra,
        }
        return {**self._taken(arguments), **self._objective.arguments}

    def _taken(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of some arguments that the closure takes."""
        closure = self._run.closure
        if self._named is None or self._named[0] is not closure:
            parameters = inspect.signature(closure).parameters
            is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
            self._named = (closure, is_open, frozenset(parameters))
        _, is_open, names = self._named
        if "criterions" in names and "losses" in arguments:  # as losses were called in 0.3
            arguments = {**arguments, "criterions": arguments["losses"]}
        return dict(arguments) if is_open else {name: arguments[name] for name in names if name in arguments}

    # ------------------------------------------------------------------ its hooks

    def bind_hooks(self) -> None:
        """Let the closure call the hooks that somebody listens to."""
        run, heard, looks_inside = self._run, self._run.callbacks.heard, self._objective.looks_inside
        is_inside = not heard.isdisjoint(IN_STEP)
        self.shows_steps = looks_inside or is_inside or "on_step_training" in heard
        self.shows_validation = looks_inside or not heard.isdisjoint(_IN_VALIDATION)
        if not is_inside and not looks_inside:
            run.hooks, self.is_compiled = NO_HOOKS, False
            return
        self._samples_apart = self._must_sample_apart()
        pairs = zip(_FIELDS, IN_STEP, strict=True)
        # to show gradients takes time
        watched = {field: (self._hook(event),) for field, event in pairs if event != "on_backward" or event in heard}
        run.hooks = StepHooks(**watched)
        self.is_compiled = self._may_compile and run.hooks.traceable

    def add_view(self, view: Iterable[Any]) -> None:
        """Add callbacks that show the training; the step stays as it is, as none of them looks into it."""
        for callback in view:
            self._run.callbacks.append(callback)
        heard = self._run.callbacks.heard
        self.shows_steps = self.shows_steps or "on_step_training" in heard
        self.shows_validation = self.shows_validation or "on_step_validation" in heard

    def _hook(self, event: str) -> Callable[[Step], None]:
        run, objective = self._run, self._objective
        show, take = getattr(objective, f"show_{event}"), getattr(objective, f"take_{event}")
        is_first = event == "on_sample"
        listeners = [] if is_first and self._samples_apart else run.callbacks.at_hook(event)

        def tell(step: Step) -> None:
            if is_first and self.is_compiled:
                self._compiled.begin(step.batch, run.hook_state)
            show(step)
            if listeners:
                with _inside(run.hook_state, step), self.noting():
                    run.callbacks.fire(event, run.hook_state, run.phase)
                take(step)
            objective.after_hook(event, step)

        tell.traceable = all(map(_is_traceable, listeners))  # type: ignore[attr-defined]
        others = [_name_of(callback) for callback in listeners if not _is_traceable(callback)]
        tell.who = f"{event} of {', '.join(others)}"  # type: ignore[attr-defined]
        return tell

    def _must_sample_apart(self) -> bool:
        """Return True if on_sample runs before the step.

        It is no part of a compiled step that cannot contain it, and none where a user's closure runs it: what it makes
        of the batch is known to all that follows, metrics and parts of a batch included.
        """
        callbacks = self._run.callbacks
        if not callbacks.hears("on_sample"):
            return False
        if not self._run.has_default_closure:
            return self._objective.must_sample_apart
        in_step = [callback for event in IN_STEP for callback in callbacks.at_hook(event)]
        return self._objective.must_sample_apart or not (self._may_compile and all(map(_is_traceable, in_step)))

    @property
    def _may_compile(self) -> bool:
        run = self._run
        return run.backend.compiles and run.config.compiling.compiled is not False and run.has_default_closure

    def _before(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """Make a compiled step follow the state: it gets arrays of it, and is compiled anew for other plain values.

        An on_sample that cannot be part of it is called here.
        """
        run, hook_state, compiled = self._run, self._run.hook_state, self._compiled
        if self._samples_apart:
            before = dict(hook_state)
            prepared = self.sampled(prepared, "on_sample")
            self._events.follow()
            compiled.inputs |= set(written(hook_state, before)) - SETTLED
        if not self.is_compiled:
            return prepared
        if changed := compiled.changed(hook_state):
            self._bound, self._n_anew = None, self._n_anew + 1
            if self._n_anew == _WARN_AFTER:
                run.warn_once(
                    f"the step was compiled {_WARN_AFTER} times, since it reads {', '.join(map(str, changed))} of the "
                    "state, which changes: make an array of it, or set compiled=False"
                )
        return compiled.join(prepared, hook_state)

    def sampled(self, prepared: dict[str, Any], event: str) -> dict[str, Any]:
        """Return a prepared batch with what callbacks make of it."""
        step = Step(self._run.network, prepared)
        self._objective.show_on_sample(step)
        self._events.fire(event)
        self._objective.take_on_sample(step)
        return step.batch

    def noting(self) -> contextlib.AbstractContextManager[None]:
        """Scope in which a compiled step notes what is read of the state."""
        return self._compiled.noting(self._run.hook_state) if self.is_compiled else _NOTHING


@contextlib.contextmanager
def _inside(hook_state: State, step: Step) -> Iterator[None]:
    """Scope in which the state has the network whose weights are differentiated: of JAX it is another object."""
    own, inner = hook_state[keys.MODEL], step.network
    hook_state[keys.MODEL] = inner
    try:
        yield
    finally:
        if hook_state[keys.MODEL] is inner:  # else a callback has set another one
            hook_state[keys.MODEL] = own


def _restore(hook_state: State, before: Mapping[Any, Any]) -> None:
    """Give the state back what it had, in place of arrays that were written since."""
    for key in written(hook_state, before):
        del hook_state[key]
    hook_state.update({key: value for key, value in before.items() if key not in hook_state})


def _name_of(callback: Any) -> str:
    shown = repr(callback)
    return type(callback).__name__ if " object at " in shown else shown


def _is_traceable(callback: Any) -> bool:
    """Return True if a compiled step may contain what a callback does."""
    return bool(getattr(callback, "traceable", False))


# ------------------------------------------------------------------ what a compiled step has of the state


def is_of_arrays(value: Tree) -> bool:
    """Return True if a value is an array, or a structure of nothing else."""
    leaves = [leaf for _, leaf in iterate_leaves(value)]
    return bool(leaves) and all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves)


class NotingState(State):
    """A state that notes what is read of it: a compiled step goes on with it as it is then."""

    noted: dict[Any, Any]
    leaves_of: Leaves
    #: arrays that the step was not given
    outer: dict[Any, Any]

    def __getitem__(self, key: Any) -> Any:
        return self._note(key, super().__getitem__(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The value, or another one if there is none."""
        return self._note(key, super().get(key, default))

    def __contains__(self, key: Any) -> bool:
        is_there = super().__contains__(key)
        if key not in keys.MEANING:
            self.noted.setdefault(key, PRESENT if is_there else ABSENT)
        return is_there

    def _note(self, key: Any, value: Tree) -> Any:
        if self.noted.get(key, PRESENT) is not PRESENT:  # what the step itself wrote comes later
            return value
        if isinstance(value, (bool, int, float, str, np.generic)) or (key in self.outer and self.outer[key] is value):
            self.noted[key] = value
        elif key not in keys.MEANING and not is_of_arrays(value):
            # lists and dicts may be written into, so their leaves are kept
            self.noted[key] = self.leaves_of(value) if super().__contains__(key) else ABSENT
        return value

    def __missing__(self, key: Any) -> Any:
        self.noted.setdefault(key, ABSENT)
        return super().__missing__(key)


class CompiledState:
    """Keeps a compiled step in agreement with the state that its Python reads.

    Parameters
    ----------
    constants_of
        The backend's verb.
    """

    def __init__(self, constants_of: Callable[[Any], Sequence[Any]]) -> None:
        self._constants_of = constants_of
        self._frozen: dict[Any, Any] = {}
        self._outer: dict[Any, Any] = {}
        #: keys of the state whose arrays are inputs of the step
        self.inputs: set[Any] = set()
        #: arrays that go into the step at hand
        self.carried: dict[Any, Any] = {}

    @contextlib.contextmanager
    def noting(self, hook_state: State) -> Iterator[None]:
        """Scope of what is traced: values that are read of the state become part of the step."""
        if isinstance(hook_state, NotingState):
            yield
            return
        hook_state.__class__, hook_state.leaves_of = NotingState, self._leaves_of  # type: ignore[attr-defined]
        hook_state.noted, hook_state.outer = self._frozen, self._outer  # type: ignore[attr-defined]
        try:
            yield
        finally:
            hook_state.__class__ = State
            self._frozen.pop(keys.BATCH, None)

    def _leaves_of(self, value: Tree) -> list[tuple[Any, Any]]:
        leaves = []
        for path, leaf in iterate_leaves(value):
            leaves.append((path, leaf))
            leaves += [((*path, number), array) for number, array in enumerate(self._constants_of(leaf))]
        return leaves

    def _differs(self, hook_state: Mapping[Any, Any], key: Any, before: Any) -> bool:
        """Return True if the state has something else under a key than what was noted of it."""
        if before is PRESENT or before is ABSENT:
            return (key in hook_state) is (before is ABSENT)
        now = hook_state.get(key)
        if is_of_arrays(before):  # an array of numpy may have been written into
            return now is not before or isinstance(before, np.ndarray)
        if isinstance(before, list):
            leaves = self._leaves_of(now)
            return len(leaves) != len(before) or any(
                path != other or _is_other(leaf, one) for (path, leaf), (other, one) in zip(leaves, before, strict=True)
            )
        return _is_other(now, before)

    def begin(self, batch: dict[str, Any], hook_state: State) -> None:
        """Put the arrays that came with the batch into the state, as the traced step has them."""
        hook_state.update(batch.pop(CARRIED, {}))
        self._outer.clear()
        self._outer.update({
            key: value
            for key, value in hook_state.items()
            if key not in SETTLED and key not in self.inputs and is_of_arrays(value)
        })  # fmt: skip

    def changed(self, hook_state: State) -> list[Any]:
        """Return the keys whose values differ from those compiled in; arrays among them become inputs."""
        if not self._frozen:
            return []
        changed = [key for key, value in self._frozen.items() if self._differs(hook_state, key, value)]
        if changed:
            self.inputs |= {
                key for key in changed if is_of_arrays(self._frozen[key]) or is_of_arrays(hook_state.get(key))
            }
            self._frozen.clear()
        return changed

    def join(self, batch: dict[str, Any], hook_state: State) -> dict[str, Any]:
        """The batch with the arrays of the state that the step reads."""
        if not self.inputs:
            return batch
        self.inputs = {key for key in self.inputs if key not in hook_state or is_of_arrays(hook_state[key])}
        self.carried = {key: hook_state[key] for key in self.inputs if key in hook_state}
        return {**batch, CARRIED: dict(self.carried)}


def written(hook_state: State, before: Mapping[Any, Any]) -> list[Any]:
    """Return the keys of arrays in a state that are new, or replaced since ``before``."""
    return [key for key, value in hook_state.items() if value is not before.get(key) and is_of_arrays(value)]


def _is_other(now: Any, before: Any) -> bool:
    if not isinstance(before, (bool, int, float, str, np.generic)):
        return now is not before
    return type(now) is not type(before) or (now != before and now is not before)  # no number equals itself


def _average(
    values: Sequence[Mapping[str, Any]], shares: list[float], weights: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Values of the whole batch, weighted by samples, or by what counts where that is known; they stay where they are.

    Where nothing counts in a part its value is no number, and so is that of the batch, as its gradients are.
    """
    averages = {}
    for name in values[0]:
        counts = [part[name] for part in weights if name in part]
        known = counts if len(counts) == len(values) else shares
        total = sum(known) if known is counts else 1
        averages[name] = sum(part[name] * count for part, count in zip(values, known, strict=True)) / total
    return averages


def _note_inputs(run: Run, batch: Mapping[str, Any]) -> None:
    """Keep which shapes the network learns from: whoever predicts with it later is told if they are others."""
    entries = [] if run.inputs else [key for key in run.key_mapping.values() if hasattr(batch.get(key), "shape")]
    run.inputs |= {key: [int(size) for size in batch[key].shape[1:]] for key in entries}


def _note_spacing(run: Run, batch: Mapping[str, Any]) -> None:
    """Keep the least and the largest spacing along each axis of the volumes that the network learns from."""
    spacing = batch.get("spacing")
    if isinstance(spacing, np.ndarray) and spacing.ndim == 2 and spacing.dtype.kind == "f":
        rows = np.stack([*map(np.asarray, run.spacing), *spacing])
        run.spacing = [rows.min(0).tolist(), rows.max(0).tolist()]
