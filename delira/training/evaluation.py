"""A pass over data without learning, as callbacks see it, and the averaged weights that it is made with."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import CallbackList
from delira.contract import Data, Step
from delira.errors import ConfigError, MissingKeyError, listed
from delira.training.epoch import Feed, StepValues, batches_again, batches_source, is_foreign_loader
from delira.training.objective import Objective, telling_the_end
from delira.training.predictor import Evaluation
from delira.training.run import Run, TrainingPlan, Tree, own_generators, seed_generators
from delira.training.share import refuse_others
from delira.training.step import TrainingStep

#: entry of a checkpoint: names of the running statistics in its ``"model"`` that are of the averaged weights
RENEWED = "statistics"


class AveragedWeights:
    """The average of the weights that a callback keeps, and the running statistics that go with it.

    Statistics of normalisation layers that were followed in the training are of the weights as they were then. A
    callback that averages says by ``update_statistics`` whether they are computed anew for the average whenever it is
    used.

    Parameters
    ----------
    run
        The run.
    feed
        Prepares its batches.
    step
        Shows them to callbacks.
    forward
        Calls the network on a prepared batch.
    shown
        The trainer, as callbacks get it.

    References
    ----------
    Izmailov et al., Averaging weights leads to wider optima and better generalization, UAI 2018, section 3.2.
    """

    #: the callback that averages, if there is one
    callback: Any = None
    #: averaged weights of the checkpoint that was continued from, while nobody averages
    _waiting: Tree | None = None
    #: the network, and the weights that are trained, while it has their average after a training
    trained: tuple[Any, Tree] | None = None

    def __init__(self, run: Run, feed: Feed, step: TrainingStep, forward: Callable[[Tree], Any], shown: Any):
        self._run, self._feed, self._step, self._forward, self._shown = run, feed, step, forward, shown
        self._statistics: dict[str, Any] = {}
        #: steps of the training after which they were computed
        self._computed_at: int | None = None

    def use(self, callback: Any) -> None:
        """Let a callback average the weights.

        Raises
        ------
        ConfigError
            If another one does, or if it wants statistics which the backend, or a layer, cannot compute anew.
        """
        run = self._run
        if self.callback is not None:
            name = type(self.callback).__name__
            raise ConfigError(f"there is an {name} already; the weights can have only one average")
        if getattr(callback, "update_statistics", False) and run.backend.weights.statistics_names(run.network):
            run.backend.weights.renew_statistics(run.network, ())
        self.callback = callback

    def recount(self) -> None:
        """Let the callback count updates from where the run stands now."""
        if self.callback is not None:
            self.callback.at_training_begin(self._shown)

    # ------------------------------------------------------------------ what there is

    def weights(self) -> dict[str, Any] | None:
        """Return the averaged weights, with the statistics that were computed for them, by name, if there are any."""
        average = None if self.callback is None else self.callback.weights()
        return None if average is None else {**average, **self.statistics}

    @property
    def statistics(self) -> dict[str, Any]:
        """The running statistics of the current average, by name; empty if they are not computed."""
        return self._statistics if self._computed_at == self._run.state.global_step else {}

    def lacking(self, tree: Tree | None) -> tuple[str, ...]:
        """Return names of statistics that the weights of a checkpoint, or the average as it is now, do not have."""
        is_averaged = self._has_average if tree is None else "training_model" in tree
        if not is_averaged or (self.statistics if tree is None else tree.get(RENEWED)):
            return ()
        return tuple(sorted(self._run.backend.weights.statistics_names(self._run.network)))

    @property
    def _has_average(self) -> bool:
        return self.callback is not None and self.callback.weights() is not None

    # ------------------------------------------------------------------ in a checkpoint

    def to_tree(self, model: Tree) -> dict[str, Any]:
        """Return the entries of a checkpoint that tell the average from the weights that are trained.

        Parameters
        ----------
        model
            The weights that the network has.
        """
        average = self.weights()
        if average is None:
            return {"model": model}
        # what is validated is what others should load
        trained = model if self.trained is None else self.trained[1]
        tree: dict[str, Any] = {"training_model": trained, "model": {**model, **average}}
        if renewed := sorted(self.statistics):
            tree[RENEWED] = renewed
        return tree

    def take(self, tree: Tree) -> None:
        """Continue with those of a checkpoint, whose trained weights the network has by now."""
        self.trained = None
        self._waiting = tree["model"] if "training_model" in tree and self.callback is None else None
        if self.callback is None:
            return
        self._continue(tree["model"])
        names, state = tree.get(RENEWED) or (), tree.get("state")
        self._statistics = {name: tree["model"][name] for name in names}
        self._computed_at = int(state["global_step"]) if names and isinstance(state, Mapping) else None

    def go_on(self, callback: Any) -> None:
        """Let a callback that comes after the checkpoint was read continue the average in it."""
        if callback is self.callback and self._waiting is not None:
            self._continue(self._waiting)
            self._waiting = None

    def _continue(self, weights: Tree) -> None:
        with self._borrowed(weights):
            self.callback.take(self._run.network)

    # ------------------------------------------------------------------ in the network

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Scope in which the network has the averaged weights, if there are any."""
        average = self.weights()
        if average is None:
            yield
            return
        with self._borrowed({**self._run.weights, **average}):
            yield

    @contextlib.contextmanager
    def _borrowed(self, weights: Tree) -> Iterator[None]:
        """Scope in which the network has other weights."""
        run = self._run
        own = run.backend.arrays.snapshot(run.weights)
        run.backend.checkpoints.load_state_tree({"model": weights}, run.network, {})
        try:
            yield
        finally:
            run.backend.checkpoints.load_state_tree({"model": own}, run.network, {})

    def lent(self) -> dict[str, Any] | None:
        """Return the averaged weights for good, if there are any; those that are trained are kept until taken back."""
        run, average = self._run, self.weights()
        if average is None:
            return None
        own = run.weights
        self.trained = (run.network, run.backend.arrays.snapshot(own))
        return {**own, **average}

    def take_back(self) -> None:
        """Give the network the weights that are trained, if it has their average."""
        kept, self.trained = self.trained, None
        if kept is not None and kept[0] is self._run.network:  # else a user has set another one
            self._run.backend.checkpoints.load_state_tree({"model": kept[1]}, self._run.network, {})

    # ------------------------------------------------------------------ the statistics

    def tell(self, data: Data) -> None:
        """Say once if the statistics will not be those of the average."""
        run, average = self._run, self.callback
        if average is None or not (names := sorted(run.backend.weights.statistics_names(run.network))):
            return
        if not getattr(average, "update_statistics", False):
            cure = (
                "update_statistics=True computes them anew, by a pass over the training data before each validation "
                "and at the end"
            )
        elif _is_spent(data):
            cure = (
                f"they cannot be computed anew, as the training data, a {type(batches_source(data)).__name__}, give "
                "their batches once: pass a data manager, a loader or a list"
            )
        else:
            return
        run.warn_once(
            f"{type(average).__name__}: the averaged weights are validated, tested and saved with running statistics "
            f"({listed(names, 2)}) of the weights that are trained, which do not fit them; {cure}"
        )

    def renew(self, data: Data, epoch: int) -> bool:
        """Compute the statistics of the current average if they are wanted and missing; return True if that is done.

        The batches are those of the training epoch, seeded by the same counters, in training mode; nothing but the
        statistics is left of the pass. It ends at once when a signal comes, and nothing is computed then.

        Parameters
        ----------
        data
            The training data.
        epoch
            The epoch that has ended.
        """
        run, backend = self._run, self._run.backend
        if self.statistics or not self._has_average:
            return False
        self.tell(data)
        names = backend.weights.statistics_names(run.network)
        if not names or not getattr(self.callback, "update_statistics", False) or _is_spent(data):
            return False
        with self._aside(data), self.in_use():
            seed_generators(backend, run.seed, run.fold, epoch, stream="statistics")
            with backend.calls.training(run.network):
                backend.weights.renew_statistics(run.network, self._calls(data, epoch))
            model = run.weights
            values = backend.arrays.snapshot({name: model[name] for name in names})
        if run.stop_signals.received is not None:
            return False
        self._statistics, self._computed_at = values, run.state.global_step
        return True

    def _calls(self, data: Data, epoch: int) -> Iterator[Callable[[], Any]]:
        """One call of the network for each batch."""
        run = self._run
        with self._feed.opened(batches_again(data, (run.seed, run.fold, epoch), run.state), ahead=False) as fed:
            for number, (batch, _) in enumerate(fed):
                if run.stop_signals.received is not None:
                    return
                prepared = self._feed.prepare(batch)
                if self._step.shows_validation:
                    run.hook_state[keys.BATCH] = number
                    prepared = self._step.sampled(prepared, "on_sample_validation")
                yield functools.partial(self._forward, prepared)

    @contextlib.contextmanager
    def _aside(self, data: Data) -> Iterator[None]:
        """Scope after which generators, state and a loader of the user's are as they were."""
        run, loader = self._run, batches_source(data)
        hook_state, before = run.hook_state, dict(run.hook_state)
        position = copy.deepcopy(loader.state_dict()) if is_foreign_loader(loader) else None
        drawn = [(generator, generator.get_state()) for generator in _generators_of(loader)]
        hook_state[keys.STOP_TRAINING] = False
        try:
            with own_generators(run.backend):
                yield
        finally:
            hook_state.clear()
            hook_state.update(before)
            if position is not None:
                loader.load_state_dict(position)
            for generator, state in drawn:
                generator.set_state(state)


def _is_spent(data: Data) -> bool:
    """Return True if it is an iterator, which nobody can go through twice."""
    return hasattr(batches_source(data), "__next__")


def _generators_of(loader: Data) -> list[Any]:
    """Generators of its own that a loader like PyTorch's draws its order with."""
    batches = getattr(loader, "batch_sampler", None)
    holders = (loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None))
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(one): one for one in found if hasattr(one, "get_state") and hasattr(one, "set_state")}.values())


def caveats_of_averages(folds: Sequence[Any], is_training: bool) -> list[str]:
    """Sentences about averaged weights that were used with running statistics of others.

    Parameters
    ----------
    folds
        Finished ones, or the trainer of a single training.
    is_training
        Whether it is a single training, which has no folds to be named.
    """
    found = [fold for fold in folds if fold.raw_statistics]
    if not found:
        return []
    who = "the network has" if is_training else f"fold {listed([one.fold for one in found], 10)}: tested with"
    return [
        f"{who} averaged weights with running statistics ({listed(found[0].raw_statistics, 2)}) of the weights that "
        "were trained, which do not fit them; update_statistics=True of the callback that averages computes them anew"
    ]


class StopInValidation(Exception):
    """A signal came while the validation was running."""


class Watcher:
    """Looks at every batch of a pass: shows it to callbacks, takes what they make of it, and computes losses.

    Parameters
    ----------
    objective
        What the run computes.
    losses
        Takes the losses of every batch; None: nobody asks for them.
    kept
        Takes the predictions of every batch, if the pass only predicts.
    """

    def __init__(self, objective: Objective, losses: StepValues | None = None, kept: list[Any] | None = None):
        self._objective, self._run, self.losses, self.kept = objective, objective.run, losses, kept
        self._is_shown = objective.step.shows_validation
        self._was_stopped = bool(self._run.hook_state.get(keys.STOP_TRAINING))
        #: batches so far
        self.number = 0

    @property
    def is_enough(self) -> bool:
        """Return True if a callback has ended the pass before its time; experiments go through all of their data."""
        is_stopped = bool(self._run.hook_state.get(keys.STOP_TRAINING)) and not self._was_stopped
        return is_stopped and self._objective.may_end_early

    def before(self, prepared: dict[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
        """Show a prepared batch, and take what was made of it."""
        run = self._run
        if not self.number and run.ranks.group is not None:
            what = f"the first validation batch of epoch {run.state.epoch + 1}"
            refuse_others(run, batch, what, "the validation data and predicts its share")
        if not self._is_shown:
            return prepared
        run.hook_state[keys.BATCH] = self.number
        given = prepared if self.kept is None else self._objective.before_prediction(prepared)
        return self._objective.step.sampled(given, "on_sample_validation")

    def after(self, predictions: Mapping[str, Any], prepared: dict[str, Any], n_samples: int) -> Mapping[str, Any]:
        """Show predictions, compute losses, and take what was made of the predictions."""
        run, objective, events = self._run, self._objective, self._objective.events
        if run.stop_signals.received is not None:
            raise StopInValidation
        step = Step(run.network, prepared, predictions)
        if self._is_shown:
            objective.show_on_forward(step)
            events.fire("on_forward_validation")
            objective.take_on_forward(step)
        if objective.is_measured(self):
            step.losses = {**objective.validation_losses(step), **run.backend.calls.added_losses(run.network)}
            if self._is_shown and (step.losses or objective.looks_inside):
                objective.show_on_criterion(step)
                events.fire("on_criterion_validation")
                objective.take_on_criterion(step)
            if self.losses is not None:
                self.losses.append(step.losses, n_samples, 0, objective.step.loss_weights(prepared))
        if self._is_shown:
            objective.after_validation_step(step)
            if self.kept is not None:
                self.kept.append(run.hook_state[keys.Y_PRED])
            events.fire("on_step_validation")
        self.number += 1
        return step.predictions


class LossesOf:
    """Computes the losses of a prediction, of the batches that have the targets.

    Parameters
    ----------
    objective
        What the run computes.
    """

    is_enough = False

    def __init__(self, objective: Objective):
        self._objective, self.losses = objective, StepValues(objective.run.backend.arrays.read_scalars)

    def before(self, prepared: dict[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch as it is."""
        return prepared

    def after(self, predictions: Mapping[str, Any], prepared: dict[str, Any], n_samples: int) -> Mapping[str, Any]:
        """Compute losses; returns the predictions as they are."""
        objective = self._objective
        with contextlib.suppress(MissingKeyError):
            if objective.validates_losses and objective.gathers_losses:
                losses = objective.validation_losses(Step(objective.run.network, prepared, predictions))
                self.losses.append(losses, n_samples, 0, objective.step.loss_weights(prepared))
        return predictions


class Iterations:
    """Tells callbacks the batches of a test, with ``train=False``.

    Parameters
    ----------
    callbacks
        The callbacks.
    shown
        What they get as their trainer: the predictor.
    """

    is_enough = False

    def __init__(self, callbacks: CallbackList, shown: Any):
        self._callbacks, self._shown, self._number = callbacks, shown, 0

    def before(self, prepared: dict[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
        """Tell that a batch is there; what callbacks change of it counts."""
        self._callbacks.notify("at_iter_begin", self._shown, data_dict=prepared, **self._facts)
        return prepared

    def after(self, predictions: Mapping[str, Any], prepared: dict[str, Any], n_samples: int) -> Mapping[str, Any]:
        """Tell that it was predicted."""
        self._callbacks.notify(
            "at_iter_end",
            self._shown,
            data_dict=prepared,
            losses={},
            metrics={},
            predictions=predictions,
            **self._facts,
        )
        self._number += 1
        return predictions

    @property
    def _facts(self) -> dict[str, Any]:
        return {"iter_num": self._number, "global_iter_num": self._number, "curr_epoch": 0, "train": False}


class Evaluator:
    """Makes the passes of a run without learning.

    Parameters
    ----------
    objective
        What the run computes.
    averages
        Weights that are validated in place of those that are trained.
    evaluate
        The pass itself; see :meth:`delira.training.Predictor.evaluate`.
    """

    def __init__(self, objective: Objective, averages: AveragedWeights, evaluate: Callable[..., Evaluation]):
        self._objective, self._run, self._events = objective, objective.run, objective.events
        self._averages, self._evaluate = averages, evaluate

    def validate(self, plan: TrainingPlan, epoch: int) -> dict[str, Any]:
        """Compute exact metrics, and losses where the objective has them, over the validation data.

        Raises
        ------
        StopInValidation
            If a signal came.
        """
        run, objective = self._run, self._objective
        self._averages.renew(plan.train_data, epoch)
        losses = StepValues(run.backend.arrays.read_scalars) if objective.gathers_losses else None
        watcher, metrics = Watcher(objective, losses), objective.metrics()
        self._events.begin_pass(keys.VALIDATION_DATA, plan.val_data, "on_start_validation")
        seed_generators(run.backend, run.seed, run.fold, epoch, stream="validation")
        with self._averages.in_use():
            done = self._evaluate(
                plan.val_data, metrics=metrics, metric_keys=run.config.keys_of(metrics), keep_predictions=False,
                watcher=watcher, epoch=epoch,
            )  # fmt: skip
        return self._events.end_pass(objective.validated(watcher, done.means(), epoch), "on_end_validation")

    def test(self, data: Data, **how: Any) -> Evaluation:
        """Evaluate test data so that callbacks see it, in the phase ``"evaluate"``; what they make of batches counts.

        Parameters
        ----------
        data
            The test data.
        **how
            As for :meth:`delira.training.Predictor.evaluate`.
        """
        events = self._events
        try:
            with self.aside("evaluate"):
                events.begin_pass(keys.TEST_DATA, data, "on_start_validation")
                done = self._evaluate(data, watcher=Watcher(self._objective), **how)
                values = {f"test_{name}": value for name, value in done.means().items()}
                for event in ("on_end_validation", "on_end_epoch"):
                    values = events.end_pass(values, event)
        finally:
            self._run.hook_state.pop(keys.GENERATOR, None)  # it may have processes, which end with it
        return done

    @contextlib.contextmanager
    def aside(self, phase: str) -> Iterator[None]:
        """Scope of an evaluation or a prediction, from ``on_start`` to ``on_end``, which is told whatever happens.

        Parameters
        ----------
        phase
            ``"evaluate"`` or ``"predict"``.
        """
        run, events = self._run, self._events
        hook_state, run.phase = run.hook_state, phase
        try:
            events.follow()
            hook_state.n_asides += 1
            hook_state.update({keys.PHASE: phase, keys.EPOCH: 0, keys.MAX_EPOCHS: 1, keys.STOP_TRAINING: False})
            with telling_the_end(run.callbacks, hook_state, phase):
                events.fire("on_start")
                events.fire("on_start_epoch")
                yield
        finally:
            run.phase = "fit"
