"""What a training computes on its batches, how callbacks see it, and what of it they have changed."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.callbacks.abstract_callback import IN_STEP, CallbackList
from delira.contract import Array, Criterion, Data, Network, Step, Tree, call_losses
from delira.errors import ConfigError, DataError
from delira.metrics.tree.metric import reported
from delira.state import State, misspelt
from delira.training.checks import check_first_batches, check_methods, count_batches
from delira.training.run import Run, TrainingPlan
from delira.utils.late import ReadValues

if TYPE_CHECKING:
    from delira.training.evaluation import Watcher
    from delira.training.predictor import Predictor
    from delira.training.step import TrainingStep


#: entry of a batch: the arrays of the state that a compiled step reads
CARRIED = "carried"
#: metrics, losses and predictions of a step
Result = tuple[Mapping[str, Any], Mapping[str, Any], Any]


class Objective:
    """The losses and metrics of an experiment: those of its settings, by name.

    In its state ``X`` is the network's input (a dict by argument if there are several), ``Y_TRUE`` the rest of the
    batch (the entry itself if there is one), ``Y_PRED`` the network's output (the entry itself if there is one), and
    ``LOSS`` the sum of all losses.

    A trainer asks its objective; that of a trial computes the criterion and the metrics of its state instead.
    """

    run: Run
    events: "Events"
    step: "TrainingStep"
    #: whether the step shows what it computes even if no callback looks
    looks_inside = False
    #: whether callbacks may end a pass without learning before its time
    may_end_early = False
    #: whether callbacks are told that everything is there when a trainer is built
    tells_init = True
    #: whether ``on_sample`` runs before a closure of the user's, too
    must_sample_apart = False
    #: whether the losses of a validation are gathered over its batches
    gathers_losses = True
    #: further keywords of the closure
    arguments: Mapping[str, Any] = {}
    _shown_loss: tuple[Any, Any, Any] = (None, None, None)

    # ------------------------------------------------------------------ at the start

    def methods_of(self, network: Network) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return what prepares batches, and the closure."""
        check_methods(network, self.run.config, self.run.backend)
        return network.prepare_batch, network.closure

    def functions(self) -> dict[str, Any]:
        """Return losses and metrics that may have weights, or an order of their own, by name."""
        return {**self.run.config.losses, **self.run.config.train_metrics}

    def make_state(self, shown: Any) -> State:
        """Make the state that callbacks see.

        Parameters
        ----------
        shown
            The trainer.
        """
        run, output = self.run, self.run.config.output
        optimizers = {name: getattr(one, "optimizer", one) for name, one in run.optimizers.items()}
        return State({
            keys.SELF: shown,
            keys.MODEL: run.network,
            keys.OPTIMIZER: next(iter(optimizers.values())) if len(optimizers) == 1 else optimizers,
            keys.CRITERION: run.config.losses,
            keys.OUTPUT: output if isinstance(output, str) else None,
            keys.DEVICE: run.devices.input,
            keys.CALLBACK_LIST: run.callbacks,
            keys.HISTORY: run.state.history,
        })  # fmt: skip

    def check_before(self, predictor: "Predictor", plan: TrainingPlan) -> None:
        """Look whether everything that will be read is there, before the first step."""
        check_first_batches(self.run, predictor, plan)

    # ------------------------------------------------------------------ what callbacks replace

    def takes_network(self, network: Network) -> bool:
        """Return True if the objective itself goes on with a network, or what else a callback has set."""
        return False

    def set_criterion(self, criterion: Criterion) -> None:
        """Compute other losses from now on."""
        run, names = self.run, list(self.run.config.losses)
        if not isinstance(criterion, Mapping):
            if len(names) != 1:
                raise ConfigError(
                    f"a callback has set CRITERION to {criterion!r}, but the trainer has the losses "
                    f"{', '.join(names)}; set it to a dict of them"
                )
            criterion = {names[0]: criterion}
        run.set_losses(criterion)

    def given_optimizers(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the optimizers of the state by name, for a backend that builds its own out of them."""
        given = self.run.hook_state[keys.OPTIMIZER]
        return dict(given) if isinstance(given, Mapping) else {next(iter(self.run.optimizers), "default"): given}

    # ------------------------------------------------------------------ inside the step

    def divided(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """Divide a batch into what the network is given, and the rest."""
        mapping = self.run.key_mapping
        inputs = {argument: batch[key] for argument, key in mapping.items() if key in batch}
        known = {*mapping.values(), CARRIED}
        return single(inputs), single({key: value for key, value in batch.items() if key not in known})

    def batch_of(self, x: Array) -> dict[str, Any]:
        """Return the entries of a batch that the network is given, as the state shows them under ``X``."""
        mapping = self.run.key_mapping
        return {mapping[argument]: value for argument, value in _like(mapping, x).items()}

    def joined(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch with what callbacks made of its parts."""
        mapping, hook_state = self.run.key_mapping, self.run.hook_state
        inputs = {argument: batch[key] for argument, key in mapping.items() if key in batch}
        rest = {key: value for key, value in batch.items() if key not in mapping.values()}
        return {
            **batch,
            **{mapping[argument]: value for argument, value in _like(inputs, hook_state[keys.X]).items()},
            **_like(rest, hook_state[keys.Y_TRUE]),
        }

    def show_on_sample(self, step: Step) -> None:
        """Show the batch."""
        hook_state = self.run.hook_state
        hook_state[keys.X], hook_state[keys.Y_TRUE] = self.divided(step.batch)

    def take_on_sample(self, step: Step) -> None:
        """Take the batch as callbacks have left it."""
        step.batch = self.joined(step.batch)

    def show_on_forward(self, step: Step) -> None:
        """Show the predictions."""
        self.run.hook_state[keys.Y_PRED] = single(step.predictions)

    def take_on_forward(self, step: Step) -> None:
        """Take the predictions as callbacks have left them."""
        step.predictions = _like(step.predictions, self.run.hook_state[keys.Y_PRED])

    def show_on_criterion(self, step: Step) -> None:
        """Show the sum of all losses."""
        total = _total(step.losses)
        # a value of its own, since callbacks may add to it in place
        self.run.hook_state[keys.LOSS] = shown = None if total is None else total + 0.0
        self._shown_loss = (total, shown, _version(shown))

    def take_on_criterion(self, step: Step) -> None:
        """Take what callbacks made of the sum of all losses, as a further loss."""
        (before, shown, version), after = self._shown_loss, self.run.hook_state[keys.LOSS]
        if after is not shown or _version(after) != version:
            step.losses = {**step.losses, "added": after - before}

    def show_on_backward(self, step: Step) -> None:
        """Show the gradients."""
        self.run.hook_state[keys.GRADIENTS] = dict(step.gradients or {})

    def take_on_backward(self, step: Step) -> None:
        """Take the gradients as callbacks have left them."""
        step.gradients = {**(step.gradients or {}), **self.run.hook_state[keys.GRADIENTS]}

    def after_hook(self, event: str, step: Step) -> None:
        """Go on after an event inside of the step."""

    def after_step(self, prepared: Mapping[str, Any], result: Result, carried: Mapping[Any, Any]) -> None:
        """Show a step that is done, with values and not what a compiler saw of them.

        Parameters
        ----------
        prepared
            The prepared batch.
        result
            What the closure returned.
        carried
            Arrays of the state that went into a compiled step.
        """
        metrics, losses, predictions = result
        hook_state = self.run.hook_state
        hook_state.update(carried)
        hook_state[keys.X], hook_state[keys.Y_TRUE] = self.divided(prepared)
        hook_state[keys.Y_PRED] = single(predictions)
        hook_state[keys.METRICS] = ReadValues({name: reported(value) for name, value in {**losses, **metrics}.items()})
        hook_state[keys.LOSS] = _total(losses)
        hook_state.pop(keys.GRADIENTS, None)

    # ------------------------------------------------------------------ passes over data

    def may_look_ahead(self) -> bool:
        """Return True if batches may be prepared before their step begins."""
        return True

    def begin_epoch(self, plan: TrainingPlan) -> None:
        """Get ready for an epoch, or for the rest of one."""

    def begin_pass(self, data_key: str, data: Data) -> None:
        """Get ready for a pass over data."""
        self.run.hook_state.update({
            keys.DATA: data_key, keys.GENERATOR: data, keys.STEPS: count_batches(data), keys.METRICS: {},
        })  # fmt: skip

    def end_pass(self, values: Mapping[str, Any], event: str) -> None:
        """Show the values of a pass."""
        self.run.hook_state[keys.METRICS] = values

    def recorded(self) -> dict[str, Any]:
        """Return the values that the state shows, as they are recorded."""
        return dict(self.run.hook_state[keys.METRICS].items())

    def is_enough(self) -> bool:
        """Return True if the training pass ends after this step."""
        return False

    def is_broken_off(self, plan: TrainingPlan) -> bool:
        """Return True if the training pass was ended before its time, so that there is no epoch to record."""
        return False

    def end_epoch(self, epoch: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Tell the values of an epoch; returns them as the history has them."""
        return self.events.end_pass({"epoch": epoch, **values}, "on_end_epoch")

    def kept_values(self) -> dict[str, Any]:
        """Return what a checkpoint inside an epoch holds besides the values of its steps."""
        return {}

    def kept_place(self) -> dict[str, Any]:
        """Return where the training data stand, if they do not tell it themselves."""
        return {}

    def take_over(self, take: Callable[[Mapping[str, Any]], None], tree: Mapping[str, Any]) -> None:
        """Let the run take a checkpoint over."""
        take(tree)

    # ------------------------------------------------------------------ without learning

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Call the network on a prepared batch, if that is not done by the names of its arguments."""
        return None

    def metrics(self) -> Mapping[str, Any]:
        """Return the metrics of the validation, bound, by name."""
        return self.run.config.bound(self.run.config.epoch_metrics, backend=self.run.backend)

    def validated(self, watcher: "Watcher", metrics: Mapping[str, float], epoch: int) -> dict[str, float]:
        """Return the values of a validation.

        Parameters
        ----------
        watcher
            Has seen its batches.
        metrics
            The metrics over its data, each as one number.
        epoch
            Number of the epoch.
        """
        losses = {} if watcher.losses is None else watcher.losses.reduce()
        if self.validates_losses and self.run.config.losses and not losses:
            raise DataError(f"the validation data gave no batch in epoch {epoch}")
        values = {**metrics, **losses}
        return {name if name.startswith("val_") else f"val_{name}": value for name, value in values.items()}

    @property
    def validates_losses(self) -> bool:
        """Return True if validation data have losses: of the default closure, and of one that says which it has."""
        return self.run.has_default_closure or hasattr(self.run.closure, "validation_losses")

    def validation_losses(self, step: Step) -> dict[str, Any]:
        """Compute the losses of a batch of the validation, with batch and predictions."""
        run = self.run
        config, own = run.config, getattr(run.closure, "validation_losses", None)
        if own is None:
            return call_losses(config.losses, config.loss_keys, step.predictions, step.batch)
        return dict(own(config.losses, config.loss_keys, run.key_mapping, step))

    def before_prediction(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """Return a batch of a pass that only predicts, as the network is given it."""
        return prepared

    def is_measured(self, watcher: "Watcher") -> bool:
        """Return True if there are losses to be computed in a pass without learning."""
        return watcher.losses is not None and self.validates_losses

    def after_validation_step(self, step: Step) -> None:
        """Show the values of a batch of a pass without learning."""
        self.run.hook_state[keys.METRICS] = ReadValues(
            {f"val_{name}": reported(value) for name, value in step.losses.items()}
        )


def checked_objective(objective: Objective | None) -> Objective | None:
    """Return an objective that was given; refuses anything else."""
    if not isinstance(objective, Objective | None):
        raise ConfigError(f"objective says what is computed on batches, an Objective, got {objective!r}")
    return objective


def single(values: Mapping[str, Any]) -> Any:
    """Return the value itself where there is one only."""
    return next(iter(values.values())) if len(values) == 1 else dict(values)


def _like(values: Mapping[str, Any], changed: Any) -> dict[str, Any]:
    """Return what :func:`single` gave, under its name again."""
    return {next(iter(values)): changed} if len(values) == 1 else dict(changed)


def _version(value: Tree) -> Any:
    """Return how often a tensor was changed in place; of other frameworks no value of one number can be."""
    return getattr(value, "_version", None)


def _total(losses: Mapping[str, Any]) -> Any:
    """Return the sum that is differentiated."""
    return functools.reduce(lambda total, value: total + value, losses.values()) if losses else None


class Events:
    """Tells callbacks the events of a run, and goes on with the network, optimizers and losses that they have set.

    Parameters
    ----------
    run
        The run.
    objective
        What the run computes.
    shown
        The trainer, which callbacks of the events ``at_*`` get.
    """

    def __init__(self, run: Run, objective: Objective, shown: Any):
        self._run, self._objective, self._shown = run, objective, shown
        self._n_keys = 0
        #: network, optimizer and criterion of the state that were taken over last
        self._in_use: tuple[Any, Any, Any] = (None, None, None)
        #: modes of networks that callbacks have set in the midst of a training pass
        self._modes: contextlib.ExitStack | None = None

    def begin(self) -> None:
        """Take note of what the state has, and that everything is there."""
        hook_state = self._run.hook_state
        self._in_use = (hook_state[keys.MODEL], hook_state[keys.OPTIMIZER], hook_state[keys.CRITERION])

    # ------------------------------------------------------------------ telling

    def notify(self, event: str, **facts: Any) -> None:
        """Tell an event ``at_*``."""
        self._run.callbacks.notify(event, self._shown, **facts)

    def fire(self, event: str) -> None:
        """Tell an event ``on_*``, and take over what was changed; after a step also what was changed inside of it."""
        run = self._run
        if run.state.has_all_steps and event in ("on_start_training", "on_end_training"):
            return  # of an epoch that is continued in its validation: they were called before
        if not run.callbacks.hears(event):
            if event == "on_step_training":
                self.follow()
            return
        run.hook_state[keys.PHASE] = run.phase
        run.callbacks.fire(event, run.hook_state, run.phase)
        if event not in IN_STEP:
            self.follow()

    def begin_pass(self, data_key: str, data: Data, event: str) -> None:
        """Tell that a pass over data begins."""
        self._objective.begin_pass(data_key, data)
        self.fire(event)

    def end_pass(self, values: Mapping[str, Any], event: str) -> dict[str, Any]:
        """Tell the values of a pass; returns what callbacks left of them, with what they added."""
        self._objective.end_pass(values, event)
        self.fire(event)
        return self._objective.recorded()

    # ------------------------------------------------------------------ taking over

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        """Scope in which the network learns, and any that comes in its place."""
        with contextlib.ExitStack() as self._modes:
            self._modes.enter_context(self._run.backend.calls.training(self._run.network))
            try:
                yield
            finally:
                self._modes = None

    def follow(self) -> None:
        """Go on with what a callback, or the user between two calls, has put into the state."""
        run, hook_state = self._run, self._run.hook_state
        if len(hook_state) != self._n_keys:
            self._n_keys = len(hook_state)
            for advice in misspelt(hook_state):
                run.warn_once(advice)
        if hook_state.get(keys.STOP_TRAINING) and not run.state.stop_training and run.phase == "fit":
            run.state.stop_training = True
        model, given, losses = now = (hook_state[keys.MODEL], hook_state[keys.OPTIMIZER], hook_state[keys.CRITERION])
        network, optimizer, criterion = self._in_use
        if model is network and given is optimizer and losses is criterion:
            return
        if not self._objective.takes_network(model):
            self._replace(now)
        self._in_use, run.n_replaced = now, run.n_replaced + 1

    def _replace(self, now: tuple[Any, Any, Any]) -> None:
        """Go on with another network, optimizer or criterion."""
        run, objective, backend = self._run, self._objective, self._run.backend
        (model, given, losses), (network, optimizer, criterion) = now, self._in_use
        if losses is not criterion:
            objective.set_criterion(losses)
        if model is not network or losses is not criterion:
            run.network = backend.devices.place(model, objective.functions(), run.devices)
            if self._modes is not None:
                self._modes.enter_context(backend.calls.training(run.network))
        if given is not optimizer:
            run.optimizers = backend.optimizers.build(
                run.network, objective.given_optimizers, None, {}, run.config.update
            )
            for schedule in [one for one in run.callbacks if hasattr(one, "begin_anew")]:
                schedule.begin_anew(self._shown)
        elif model is not network and run.phase == "fit":
            backend.optimizers.check(run.network, run.optimizers)


@contextlib.contextmanager
def telling_the_end(callbacks: CallbackList, state: State, phase: str) -> Iterator[None]:
    """Scope after which ``on_end`` is called, whatever ends it; the first error is raised."""
    try:
        yield
    except BaseException as error:
        callbacks.end(state, phase, error)
        raise
    if (first := callbacks.end(state, phase, None)) is not None:
        raise first
