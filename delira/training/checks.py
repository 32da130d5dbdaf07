"""What a training refuses, and says why: before the first step, and where numbers are no longer finite."""

import contextlib
import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.contract import DEFAULT_LOSS_KEYS, DEFAULT_METRIC_KEYS, Backend, Data, Network, call_losses, look_up
from delira.contract.step import describe_value
from delira.data_loading import AbstractDataset, BaseDataManager, abstract_dataset
from delira.errors import CheckpointError, ConfigError, DataError, NetworkError, NonFiniteLossError, listed, noting
from delira.frameworks import WRITTEN_IN
from delira.metrics import MetricSet
from delira.metrics.direction import as_mode
from delira.metrics.scoring import reads_as
from delira.metrics.tree.criteria import adds_up
from delira.models.abstract_network import AbstractNetwork
from delira.runs.results import GuardLog
from delira.settings.config import TrainerConfig
from delira.training.epoch import StepValues, has_epochs
from delira.training.run import Run, TrainingPlan, TrainingState
from delira.utils.arrays import iterate_leaves
from delira.utils.binding import tell_contradiction, tell_order

if TYPE_CHECKING:
    from delira.training.predictor import Predictor

_log = logging.getLogger("delira")


def check_network(network: Network, config: TrainerConfig, backend: Backend) -> None:
    """Refuse what cannot be trained."""
    if isinstance(network, type):
        raise NetworkError(f"the network {network.__name__} is a class, pass an instance: {network.__name__}(...)")
    check_backend_of(type(network), backend)
    if isinstance(network, AbstractNetwork) and not hasattr(network, "init_kwargs"):
        raise NetworkError(f"{type(network).__name__}.__init__ must call super().__init__() first")
    _check_frameworks(config, backend)
    _check_parts(config)


def check_methods(network: Network, config: TrainerConfig, backend: Backend) -> None:
    """Refuse a network that cannot be trained by its own methods, or would learn nothing."""
    for name in ("closure", "prepare_batch"):
        if not callable(getattr(network, name, None)):
            raise NetworkError(f"{type(network).__name__} has no {name}; subclass {backend.network_class}")
    if not config.losses and (example := getattr(network.closure, "needs_losses", None)):
        raise ConfigError(f"losses is empty, so {type(network).__name__} would learn nothing; pass losses={example}")
    if getattr(network.closure, "is_backend_default", False) and backend.is_differentiable and not config.losses:
        raise ConfigError("losses is empty; pass losses={'name': function} or give the network a closure of its own")


def check_backend_of(cls: Any, backend: Backend) -> None:
    """Refuse a network class of another backend."""
    own = getattr(cls, "__delira_backend__", backend)
    if not (isinstance(own, type(backend)) or isinstance(backend, type(own))):
        raise NetworkError(
            f"{cls.__name__} is a network of the backend {own.name!r}, and this is the backend {backend.name!r}; use "
            f"the trainer and experiment of {own.name!r}, or subclass {backend.network_class}"
        )


def _check_frameworks(config: TrainerConfig, backend: Backend) -> None:
    """Refuse optimizers, schedules and losses of another framework: they fail with messages that name no cause."""
    losses = {f"losses[{name!r}]": loss for name, loss in config.losses.items()}
    given = {"optimizer_cls": config.optimizer.cls, "lr_scheduler_cls": config.schedule.cls, **losses}
    for setting, value in given.items():
        named = value if hasattr(value, "__name__") else type(value)
        package = str(getattr(named, "__module__", "")).split(".", 1)[0]
        if backend.packages and package in WRITTEN_IN and package not in backend.packages:
            raise ConfigError(
                f"{setting} is {named.__name__} of the package {package!r}, but the network is of the backend "
                f"{backend.name!r}, which takes those of {' and '.join(backend.packages)}"
            )


def _check_parts(config: TrainerConfig) -> None:
    """Refuse sums over samples where batches are computed in parts, over which means are taken."""
    if config.guards.micro_batches != 1 and (sums := [name for name, loss in config.losses.items() if adds_up(loss)]):
        raise ConfigError(
            f"losses[{sums[0]!r}] is a sum over samples, but micro_batches={config.guards.micro_batches!r} takes the "
            "mean over the parts of a batch, so it would learn from, and record, a part of the sum; use "
            "reduction='mean', or leave micro_batches out"
        )


def report_at_start(run: Run, plan: TrainingPlan) -> None:
    """Say what a user may not expect of the training that begins."""
    saving, state = run.config.saving, run.state
    if saving.keep_best is not None and plan.val_score_key is None:
        _log.warning("keep_best_checkpoints has no effect, since no score is watched (val_score_key)")
    names = run.callbacks.state_dict().keys()
    if gone := [name for name, kept in state.callbacks.items() if kept and name not in names]:
        _log.warning("the checkpoint has the state of %s, which this training does not have", ", ".join(gone))


def is_better(old_val_score: float | None, new_val_score: float, mode: str = "lowest") -> bool:
    """Return True if the new score is strictly better; anything but NaN is better than none."""
    if new_val_score != new_val_score or old_val_score is None:
        return new_val_score == new_val_score
    return new_val_score > old_val_score if as_mode(mode) == "highest" else new_val_score < old_val_score


def check_length(state: TrainingState, num_epochs: int) -> None:
    """Refuse to end a run before the epoch that it is inside of; say if there is nothing to do, as it was stopped."""
    if state.step_in_epoch and state.epoch >= num_epochs:
        raise ConfigError(
            f"num_epochs={num_epochs}, but the run is inside epoch {state.epoch + 1} already; ask for more epochs, or "
            f"resume from checkpoint_epoch_{num_epochs}"
        )
    if state.stop_training and state.epoch < num_epochs:
        _log.warning(
            "training was stopped after epoch %d of %d, so there is nothing to do; set trainer.stop_training = False "
            "to go on", state.epoch, num_epochs,
        )  # fmt: skip


def check_first_batches(run: Run, predictor: "Predictor", plan: TrainingPlan) -> None:
    """Load one batch of each data manager and look whether everything that will be read is there.

    The network is called once, in evaluation mode and without gradients, where the backend's default
    closure or a validation will call it anyway. Other iterables than managers are left alone, since
    what is taken from them may be gone.
    """
    for role, data in (("training", plan.train_data), ("validation", plan.val_data)):
        if data is None and role == "validation":
            continue
        check_data(data, role)
        if has_epochs(data):
            with noting(f"in a look at the first batch of the {role} data"):
                _check_first_batch(run, predictor, role, data)


def _check_first_batch(run: Run, predictor: "Predictor", role: str, data: Data) -> None:
    """Load one batch, and call the network on it where the training will do so anyway."""
    counters = (run.seed, run.fold, run.state.epoch + 1)
    batch = data.first_batch(*counters) if hasattr(data, "first_batch") else next(iter(data.epoch(*counters)), None)
    if batch is None:
        raise DataError(f"the {role} data gave no batch")
    prepared = predictor.feed.prepare(batch)
    # what callbacks make of a batch is not known before
    is_as_it_comes = not run.callbacks.hears("on_sample" if role == "training" else "on_sample_validation")
    is_called = is_as_it_comes and (role == "validation" or run.has_default_closure)
    if run.backend.calls.is_ready(run.network) and is_called:
        try:
            with _counters_kept(run):
                _check_reading(run, predictor, role, batch, prepared, data)
        except Exception as error:
            # the training will not compute this batch at once
            in_parts = role == "training" and run.config.guards.micro_batches != 1
            if not in_parts or not run.backend.devices.is_out_of_memory(error):
                raise


def check_data(data: Data, role: str) -> None:
    """Refuse what gives no batches: a dataset, a batch, an array; ``role`` says what the data are for."""
    if has_epochs(data):
        return
    if isinstance(data, AbstractDataset):
        raise DataError(f"the {role} data is a dataset; wrap it: BaseDataManager(dataset, batch_size=…)")
    is_plain = isinstance(data, (Mapping, str, bytes)) or hasattr(data, "__array__")
    if hasattr(data, "iloc"):
        raise DataError(
            f"the {role} data is a {type(data).__name__}; name what is input and what is target: BaseDataManager("
            "{'data': frame[features].to_numpy(), 'label': frame[target].to_numpy()}, batch_size=…)"
        )
    is_indexed = hasattr(data, "__getitem__") and not hasattr(data, "__iter__") and not is_plain
    if is_indexed and isinstance(data[0], (tuple, list)):
        raise DataError(
            f"the {role} data is a dataset of tuples; wrap it: BaseDataManager(dataset, batch_size=…); or, if these "
            "are batches: run(…, data_keys=('data', 'label'))"
        )
    if is_plain or not (hasattr(data, "__iter__") or hasattr(data, "__getitem__")):
        raise DataError(f"the {role} data is a {type(data).__name__}; pass a BaseDataManager or an iterable of batches")
    if isinstance(data, (list, tuple)) and (wrong := [batch for batch in data if not isinstance(batch, Mapping)]):
        raise DataError(
            f"a batch must be a dict of arrays with the samples first, got {type(wrong[0]).__name__}: the {role} data; "
            "a list of tuples is read with run(…, data_keys=('data', 'label'))"
        )


def describe_batch(prepared: Any) -> str:
    """The entries of a batch with their types, shapes and dtypes."""
    entries = prepared.items() if isinstance(prepared, Mapping) else ()
    return ", ".join(f"{key!r}: {describe_value(value)}" for key, value in entries) or type(prepared).__name__


@contextlib.contextmanager
def _counters_kept(run: Run) -> Iterator[None]:
    """Put back what a layer keeps beside its weights: one that counts its calls must not see more of them on resume."""
    backend, network = run.backend, run.network
    model: Mapping[str, Any] = {}
    kept: Mapping[str, Any] = {}
    if backend.is_differentiable:  # else its only state is what it learned
        learned = backend.weights.learned_names(network)
        with contextlib.suppress(CheckpointError):  # there are no weights yet
            model = backend.checkpoints.state_tree(network, {})["model"]
        kept = backend.arrays.snapshot({name: value for name, value in model.items() if name not in learned})
    try:
        yield
    finally:  # an error may be none: the memory does not suffice for a batch that is trained in parts
        if kept:
            model = backend.checkpoints.state_tree(network, {})["model"]
            backend.checkpoints.load_state_tree({"model": {**model, **kept}}, network, {})


def _check_reading(
    run: Run, predictor: "Predictor", role: str, batch: Mapping[str, Any], prepared: Mapping[str, Any], data: Data
) -> None:
    """Call the network once and look whether losses and metrics find what they read."""
    config = run.config
    with run.backend.calls.evaluating(run.network):
        is_training = role == "training"
        predictions = predictor.forward(prepared) if is_training else predictor.outputs_of(batch, prepared)
        if run.has_default_closure:
            _check_losses(run, predictions, prepared)
    metrics = config.metrics if role == "training" else config.epoch_metrics
    tried = {**config.train_metrics, **metrics}
    if role == "training":
        for name, metric in config.train_metrics.items():
            read = look_up("metric", name, config.metric_keys.get(name, DEFAULT_METRIC_KEYS), prepared, predictions)
            if name not in config.metric_keys:
                tell_order("metric", name, metric, DEFAULT_METRIC_KEYS, [getattr(one, "shape", None) for one in read])
    for kind, functions, given in (("loss", config.losses, config.loss_keys), ("metric", tried, config.metric_keys)):
        for name in functions.keys() & given.keys():
            tell_contradiction(kind, name, functions[name], given[name], predictions)
    if metrics:
        bound = config.bound(metrics, backend=run.backend)
        check_metrics(predictor, bound, config.keys_of(metrics), batch, predictions, data)


def _check_losses(run: Run, predictions: Mapping[str, Any], prepared: Mapping[str, Any]) -> None:
    config = run.config
    for name in config.losses:
        for key in config.loss_keys.get(name, DEFAULT_LOSS_KEYS):
            if key in predictions and key in prepared:
                raise NetworkError(
                    f"loss {name!r} reads {key!r}, which is both in the batch and in what the network returned; give "
                    "the network's output another name"
                )
        if name not in config.loss_keys:
            read = look_up("loss", name, DEFAULT_LOSS_KEYS, predictions, prepared)
            shapes = [getattr(one, "shape", None) for one in read]
            tell_order("loss", name, config.losses[name], DEFAULT_LOSS_KEYS, shapes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = call_losses(config.losses, config.loss_keys, predictions, prepared)
    for warning in caught:
        if run.backend.step.is_mistake(str(warning.message)):
            raise DataError(f"a loss ({', '.join(config.losses)}) does not fit its target: {warning.message}")
    for name, value in values.items():
        try:
            run.backend.arrays.read_scalars([value])
        except NetworkError as error:
            raise NetworkError(f"loss {name!r}: {error}") from error


def check_metrics(
    predictor: "Predictor",
    metrics: Mapping[str, Any],
    metric_keys: Mapping[str, Any],
    batch: Mapping[str, Any],
    predictions: Mapping[str, Any] | None = None,
    data: Data = None,
) -> None:
    """Try metrics on one batch: what they read must be there, and what they return must be a number.

    A metric that raises is left alone, since one batch may be too little for it (a single class), unless the batch is
    all of ``data``.
    """
    if predictions is None:
        with predictor.backend.calls.evaluating(predictor.module):
            predictions = predictor.outputs_of(batch, predictor.feed.prepare(batch))
    arrays, host = predictor.to_numpy(predictions), predictor.backend.arrays.to_numpy(dict(batch))
    for name, metric in metrics.items():
        if reads_as(metric) in metrics:
            continue  # one class of a metric that is tried for all of them
        keys = {name: metric_keys[name]} if name in metric_keys else {}
        MetricSet({name: metric}, keys).check_keys(host, arrays)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one = MetricSet({name: copy.deepcopy(metric)}, keys)  # a metric may have a state
                one.update({**arrays, **host})
                one.compute()
        except Exception as error:
            values = {**arrays, **host}
            read = [values[key] for key in keys.get(name, DEFAULT_METRIC_KEYS) if key in values]
            is_too_little = isinstance(error.__cause__, ValueError) and len(read) > 1 and _lacks_classes(*read)
            if isinstance(error, DataError) and not (is_too_little and count_batches(data) != 1):
                raise
            _log.debug("metric %r failed on one batch, which may be too little for it: %s", name, error)


def _lacks_classes(target: Any, prediction: Any, *others: Any) -> bool:
    """Return True if the targets of a batch do not have every class that its predictions have a column for."""
    n_columns = np.shape(prediction)[1] if np.ndim(prediction) > 1 else 1
    return len(np.unique(target)) < max(2, n_columns)


def unpack_closure(result: Any) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """Split what a closure returned into metrics, losses and predictions.

    Raises
    ------
    NetworkError
        If it is neither ``(metrics, losses, predictions)`` nor ``(losses, predictions)``.
    """
    if type(result) is tuple and [type(part) for part in result] == [dict, dict, dict]:
        return result
    if isinstance(result, tuple) and len(result) == 2:
        result = ({}, *result)
    if not isinstance(result, tuple) or len(result) != 3:
        shape = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise NetworkError(
            f"closure returned {shape}; it returns (metrics, losses, predictions) or (losses, predictions)"
        )
    metrics, losses, predictions = result
    if isinstance(predictions, (list, tuple)):
        named = enumerate(predictions)
        predictions = {"pred" if len(predictions) == 1 else f"pred_{number}": value for number, value in named}
    for name, part in (("metrics", metrics), ("losses", losses), ("predictions", predictions)):
        if not isinstance(part, Mapping):
            raise NetworkError(f"closure returned a {type(part).__name__} for {name}; it must be a dict by name")
    return metrics, losses, predictions


def check_step_names(metrics: Mapping[str, Any], losses: Mapping[str, Any]) -> None:
    """Refuse names of a closure's values that would write over each other in the history."""
    if twice := [name for name in metrics if name in losses]:
        raise NetworkError(f"closure returned {twice[0]!r} as a metric and as a loss; give them different names")
    if "epoch" in metrics or "epoch" in losses:
        raise NetworkError("closure returned a value called 'epoch', which is the number of the epoch; rename it")


def count_batches(data: Data) -> int | None:
    """Number of batches of an epoch, if it can be known."""
    number = getattr(data, "n_batches", NotImplemented)  # asked once: it may be computed
    if number is NotImplemented:
        try:
            number = len(data)
        except TypeError:
            number = None
    return None if number is None else int(number)


# ------------------------------------------------------------------ while it runs


@contextlib.contextmanager
def advising(run: Run, plan: TrainingPlan) -> Iterator[None]:
    """Scope whose errors of the framework are told what a user can do about them."""
    try:
        yield
    except Exception as error:
        if run.backend.devices.is_out_of_memory(error):
            error.add_note(_advise_on_memory(run.config, plan))
        elif advice := run.backend.step.explain(error):
            error.add_note(advice)
        raise


def _advise_on_memory(config: TrainerConfig, plan: TrainingPlan) -> str:
    size = getattr(plan.train_data, "batch_size", None)
    batch = f" with batch_size={size}" if size else ""
    cures = [f"batch_size={max(1, size // 2)}" if size else "smaller batches"]
    if config.guards.micro_batches == 1:
        cures.append("micro_batches='auto' (computes a batch in parts, with the same update)")
    if config.update.precision == "32":
        cures.append("mixed_precision='bf16'")
    return f"The device ran out of memory{batch}. Try {' or '.join(cures)}."


def refuse_weights(run: Run) -> None:
    """Refuse weights that are not finite, where no checkpoint is written; errors as of :func:`refuse_nonfinite`."""
    if run.learned_names:
        counters = {"epoch": run.state.epoch, "step": run.state.step_in_epoch}
        refuse_nonfinite(run, {**run.backend.checkpoints.state_tree(run.network, {}), **counters})


def refuse_nonfinite(run: Run, tree: Mapping[str, Any]) -> None:
    """Refuse to write weights that are not finite: a run could never recover from such a checkpoint.

    Raises
    ------
    NonFiniteLossError
        Naming the weights.
    """
    if run.config.guards.nonfinite not in ("raise", "rollback"):
        return
    if bad := _bad_weights(run, tree.get("training_model", tree["model"])):
        epoch, step = tree["epoch"], tree["step"]
        raise NonFiniteLossError(
            f"the weights are not finite any more after epoch {epoch}{f', step {step} of the next' if step else ''}: "
            f"{listed(bad, 5)}. No checkpoint was written. The loss was finite, so the gradients were not: look for "
            "square roots, logarithms and divisions at 0, clip the gradients (gradient_clip_norm=1.0), or set "
            "nonfinite='skip' to leave such updates out"
        )


def check_losses(run: Run, losses: StepValues, epoch: int) -> None:
    """Refuse losses of an epoch that are not finite, unless they are to be passed over.

    Raises
    ------
    NonFiniteLossError
        Telling what the step was.
    """
    if run.config.guards.nonfinite in ("raise", "rollback"):
        try:
            losses.check_finite(epoch)
        except NonFiniteLossError as error:
            _diagnose(run, error)
            raise


def _diagnose(run: Run, error: NonFiniteLossError) -> None:
    """Tell an error of a loss what the step was: learning rates, weights, and what is in the batch."""
    rates = ", ".join(
        f"{name} {rate:g}" for name, rate in run.backend.optimizers.learning_rates(run.optimizers).items()
    )
    bad = _bad_weights(run, run.weights)
    lines = [f"learning rates: {rates}"] if rates else []
    lines.append(f"weights that are not finite by now: {listed(bad, 5) or 'none'}")
    data = run.train_data
    if isinstance(data, BaseDataManager) and error.step is not None and run.epoch_data is not None:
        counters = (run.seed, run.fold, run.state.epoch + 1)
        try:
            number = run.epoch_data.position(error.step) - 1
            found = _look_at_batch(data, *data.batch_at(*counters, number=number, shuffle=True))
            error.is_in_data = len(found) > 1
            lines += found
        except Exception as failure:  # must not hide the error that is diagnosed
            lines.append(f"the batch of that step could not be loaded again: {failure!r}")
    for line in lines:
        error.add_note(line)


def _bad_weights(run: Run, weights: Mapping[str, Any]) -> list[str]:
    learned = run.learned_names
    return run.backend.arrays.nonfinite({name: weight for name, weight in weights.items() if name in learned})


def _look_at_batch(data: BaseDataManager, batch: Mapping[str, Any], indices: np.ndarray) -> list[str]:
    """Lines about the batch of a step: its samples, and where it holds values that are not finite."""
    lines = [f"the batch of that step has the samples {listed(indices.tolist(), 20)} of the training data"]
    for place, leaf in iterate_leaves(batch):
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fc" or np.isfinite(leaf).all():
            continue
        entry = ".".join(map(str, place))
        if len(leaf) == len(indices):
            rows = np.flatnonzero(~np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1))
            names = listed([abstract_dataset.name_sample(data.dataset, int(indices[row])) for row in rows], 5)
            lines.append(f"its entry {entry!r} holds values that are not finite in {names}")
        else:
            lines.append(f"its entry {entry!r} holds values that are not finite")
    return lines if len(lines) > 1 else [f"{lines[0]}; all of their values are finite"]


def report_left_out(run: Run, log: GuardLog, epoch: int) -> None:
    """Say and note how many batches of an epoch were left out of updates."""
    if run.config.guards.nonfinite != "skip" or run.running is None:
        return
    number, steps = (
        run.backend.optimizers.count_left_out(run.optimizers) - run.running.left_out,
        run.state.step_in_epoch,
    )
    log.note_left_out(epoch, number, steps)
    if number:
        _log.warning(
            "epoch %d: %d of %d updates were left out, since their loss or gradients were not finite%s",
            epoch, number, steps, "; nothing was learned" if number >= steps else "",
        )  # fmt: skip


def roll_back(run: Run, log: GuardLog, error: NonFiniteLossError, return_to_last: Callable[[], None]) -> None:
    """Return to the last checkpoint and make the learning rates smaller; raises ``error`` if that is not wanted.

    Parameters
    ----------
    run
        The run.
    log
        Notes it.
    error
        What went wrong.
    return_to_last
        Continues from the last checkpoint.
    """
    config, state = run.config.guards, run.state
    if config.nonfinite != "rollback":
        raise error
    rollbacks = state.rollbacks + 1
    if rollbacks > config.max_rollbacks:
        error.add_note(f"the run went back to its last checkpoint {state.rollbacks} times already (max_rollbacks)")
        raise error
    run.is_whole = False
    if run.ranks.agree(error.is_in_data):
        error.add_note("there was no rollback: the batch would be the same, and it holds values that are not finite")
        raise error
    epoch = state.epoch + bool(state.step_in_epoch)
    return_to_last()
    state = run.state
    # those of the checkpoint have made its rates smaller already
    run.scale_rates(config.rollback_factor ** (rollbacks - state.rollbacks))
    state.rollbacks = rollbacks
    log.note_rollback(epoch, rollbacks)
    rates = run.backend.optimizers.learning_rates(run.optimizers)
    if kept := state.accumulators:
        kept["rates"] = rates
    shown = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
    _log.warning(
        "%s; the training goes back to epoch %d, step %d, with %s (rollback %d of %d)",
        str(error).partition(". No checkpoint")[0], state.epoch, state.step_in_epoch, shown, rollbacks,
        config.max_rollbacks,
    )  # fmt: skip
