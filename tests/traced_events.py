"""What happens in a training, in order: every event with its facts, for each backend, experiment and trial.

    python tests/traced_events.py

writes it to ``tests/golden_events/*.txt``, with which ``tests/training/test_events.py`` compares. These files say what
callbacks may rely on: one changes only where an event is meant to come at another place, or with other facts.
"""

import functools
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import everything
import numpy as np

from delira import Trial
from delira import state as keys
from delira.callbacks.abstract_callback import EVENTS, HOOKS
from delira.errors import TrainingInterrupted
from delira.training.callbacks import EarlyStopping

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_events"
EXPERIMENTS = ("toy", "torch", "torchscript", "tensorflow", "jax", "sklearn")
TRIALS = ("torch", "tensorflow", "jax", "sklearn")

#: facts whose value belongs to the trace; of others it has the shape, the names, or that they are there
_COUNTERS = {
    "curr_epoch", "num_epochs", "num_batches", "iter_num", "global_iter_num", "is_best", "train", "val_score_key",
    keys.EPOCH, keys.MAX_EPOCHS, keys.BATCH, keys.PHASE, keys.STEPS, keys.STOP_TRAINING,
}  # fmt: skip


class Trace:
    """Lines of a trace.

    After the name of an event stands what has changed since the event of this spelling before it: ``name=value`` for a
    fact that is new or another one, ``-name`` for one that is gone.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._before: dict[str, dict[str, str]] = {"at": {}, "on": {}}

    def section(self, text: str) -> None:
        self.lines += ["", f"[{text}]"] if self.lines else [f"[{text}]"]
        self._before = {"at": {}, "on": {}}

    def event(self, name: str, facts: Mapping[Any, Any]) -> None:
        told = {str(key): _told(key, value) for key, value in facts.items()}
        before = self._before[name[:2]]
        changes = [f"{key}={value}" for key, value in sorted(told.items()) if before.get(key) != value]
        changes += [f"-{key}" for key in sorted(before.keys() - told.keys())]
        self._before[name[:2]] = told
        self.lines.append(" ".join([name, *changes]))


def _told(key: Any, value: Any) -> str:
    if value is None or key in _COUNTERS:
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(map(str, value)))}}}"
    shape = getattr(value, "shape", None)
    if shape is None or callable(shape):
        return "there"
    return f"array{'x'.join(map(str, tuple(shape)))}" if len(shape) else "number"


class Tracer:
    """A callback that writes down what it hears, and may act at an event.

    Parameters
    ----------
    trace
        Gets a line for each event.
    act
        Called with the name of the event, the trainer of a training or None, and the facts or the state.
    """

    only_watches = True
    shared = ("trace", "act")

    def __init__(self, trace: Trace, act: Callable[[str, Any, Any], None] = lambda name, trainer, facts: None):
        self.trace, self.act = trace, act


class OutsideTracer(Tracer):
    """Hears what happens outside of the step alone, so that a step may be compiled."""


def _outside(name: str) -> Callable[..., None]:
    def method(self: Tracer, trainer: Any, **facts: Any) -> None:
        self.trace.event(name, facts)
        self.act(name, trainer, facts)

    return method


def _inside(name: str) -> Callable[..., None]:
    def method(self: Tracer, state: Any) -> None:
        self.trace.event(name, state)
        self.act(name, None, state)

    return method


for _name in EVENTS:
    setattr(Tracer, _name, _outside(_name))
for _name in HOOKS:
    setattr(Tracer, _name, _inside(_name))
    setattr(OutsideTracer, _name, None)


class Planned(Exception):
    """The error of a scenario."""


# ------------------------------------------------------------------ what tracers do


def fails(event: str, epoch: int) -> Callable[[str, Any, Any], None]:
    """An error at an event of an epoch, counted from 1."""

    def act(name: str, trainer: Any, facts: Any) -> None:
        if name == event and _epoch(facts) == epoch:
            raise Planned

    return act


def stops(event: str, epoch: int, batch: int = 0) -> Callable[[str, Any, Any], None]:
    """An early stop at a hook, by the state."""

    def act(name: str, trainer: Any, state: Any) -> None:
        if name == event and _epoch(state) == epoch and state.get(keys.BATCH, 0) == batch:
            state[keys.STOP_TRAINING] = True

    return act


def signals(event: str, epoch: int) -> Callable[[str, Any, Any], None]:
    """What a cluster sends before it kills, at the first event of this name in an epoch."""
    sent = []

    def act(name: str, trainer: Any, facts: Any) -> None:
        if name == event and _epoch(facts) == epoch and not sent:
            sent.append(os.kill(os.getpid(), signal.SIGTERM))

    return act


def _epoch(facts: Any) -> int:
    return int(facts["curr_epoch"]) if "curr_epoch" in facts else int(facts.get(keys.EPOCH, -1)) + 1


# ------------------------------------------------------------------ experiments


def of_experiment(name: str, folder: Path) -> list[str]:
    """The trace of one backend's trainers and its experiment."""
    kit, trace = everything.kit_of(name), Trace()
    names = iter(range(100))

    def trained(
        epochs: int = 2, act: Any = None, cls: type = Tracer, path: Path | None = None, n: int = 8,
        with_validation: bool = True, **settings: Any,
    ) -> Path:  # fmt: skip
        path = path or folder / str(next(names))
        tracer = cls(trace, act) if act else cls(trace)
        try:
            trainer = everything.build(kit, path, (), *settings.pop("callbacks", ()), tracer, **settings)
            trainer.train(epochs, everything.data(n), everything.data(4) if with_validation else None)
        except (Planned, TrainingInterrupted) as error:
            trace.lines.append(f"ended by {type(error).__name__}")
        return path

    trace.section("two epochs with validation")
    trained()
    trace.section("without validation")
    trained(1, with_validation=False, val_score_key=None)
    trace.section("nobody looks into the step")
    trained(cls=OutsideTracer)
    trace.section("one epoch, then a second one in another session")
    trained(path=trained(1))
    for event in ("at_iter_end", "on_step_validation"):
        trace.section(f"a signal at {event} of the second epoch, then the rest in another session")
        trained(path=trained(act=signals(event, 2)))
    trace.section("a stop at on_step_training, and a session more, which has nothing to do")
    trained(3, path=trained(3, act=stops("on_step_training", 1)))
    trace.section("early stopping after the first epoch")
    trained(3, callbacks=[EarlyStopping("rmse", min_delta=1e9, patience=1)])
    for event in ("at_epoch_begin", "on_step_training", "on_step_validation", "at_epoch_end"):
        trace.section(f"an error at {event} of the second epoch, then the rest in another session")
        trained(path=trained(act=fails(event, 2)))
    if name not in ("toy", "sklearn"):
        trace.section("accumulated gradients")
        trained(1, n=10, gradient_accumulation_steps=2)
        trace.section("batches in parts")
        trained(1, micro_batches=2)
    trace.section("a cross-validation of two folds")
    training = {**everything.settings(kit, ()), "num_epochs": 1}
    training.pop("callbacks")
    experiment = kit.experiment_cls(
        {"fixed": {"model": everything.model(()), "training": training}},
        everything.network_cls(kit, ()),
        save_path=folder / "experiment",
        callbacks=[Tracer(trace)],
    )
    experiment.kfold(everything.data(8), num_splits=2, val_split=0.25)
    return trace.lines


# ------------------------------------------------------------------ trials


def of_trial(name: str, folder: Path) -> list[str]:
    """The trace of one backend's trials."""
    sys.path[:0] = [str(HERE / "trial")]
    try:
        kit = importlib.import_module("kits").build_kit(name)
    finally:
        sys.path.remove(str(HERE / "trial"))
    trace, (x, labels) = Trace(), _blobs(kit.label_type)
    names = iter(range(100))

    def trial(act: Any = None, path: Path | None = None, criterion: Any = kit.cross_entropy) -> Trial:
        net = kit.mlp()
        tracer = Tracer(trace, act) if act else Tracer(trace)
        metrics = ["loss"] if criterion is _failing else ["acc", "loss"]
        made = Trial(net, kit.adam(net, 0.05), criterion, metrics, [tracer], verbose=0, seed=0, save_path=path)
        return made.with_train_data(x, labels, batch_size=4).with_val_data(x[:4], labels[:4], batch_size=4)

    def run(made: Trial, epochs: int = 2) -> Trial:
        try:
            made.run(epochs)
        except (Planned, TrainingInterrupted) as error:
            trace.lines.append(f"ended by {type(error).__name__}")
        return made

    trace.section("two epochs with validation, then one more")
    run(run(trial()), 3)
    trace.section("an evaluation, and predictions")
    fitted = run(trial(), 1)  # an estimator predicts nothing before
    fitted.evaluate()
    fitted.with_test_data(x[:4], batch_size=4).predict()
    trace.section("without validation, and a replay")
    run(trial().with_val_generator(None), 1).replay(verbose=0)
    trace.section("epochs of three steps")
    run(trial().for_steps(3, 2), 1)
    for event in ("on_step_training", "on_step_validation"):
        trace.section(f"a stop at {event}")
        run(trial(act=stops(event, 1)), 3)
    for event in ("on_step_training", "on_step_validation", "on_checkpoint"):
        trace.section(f"a signal at {event} of the second epoch, then the rest in another session")
        path = folder / str(next(names))
        run(trial(act=signals(event, 2), path=path))
        run(trial(path=path))
    for event in ("on_start_epoch", "on_step_training", "on_step_validation", "on_end_epoch"):
        trace.section(f"an error at {event} of the second epoch")
        run(trial(act=fails(event, 2)))
    trace.section("an error of the criterion")
    run(trial(criterion=_failing), 1)
    return trace.lines


def _failing(*args: Any) -> Any:
    raise Planned


def _blobs(label_type: str) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of points: x of shape (8, 2), labels of shape (8,)."""
    labels = np.arange(8) % 2
    x = np.random.default_rng(0).normal(size=(8, 2)) * 0.3 + np.where(labels, 1.0, -1.0)[:, None]
    return x.astype("f4"), labels.astype(label_type)


#: what is traced -> the function that does it
TRACES = {
    **{f"experiment_{name}": functools.partial(of_experiment, name) for name in EXPERIMENTS},
    **{f"trial_{name}": functools.partial(of_trial, name) for name in TRIALS},
}


def golden(what: str) -> Path:
    return GOLDEN / f"{what}.txt"


def main() -> None:
    for what, function in TRACES.items():
        with tempfile.TemporaryDirectory() as folder:
            golden(what).write_text("\n".join(function(Path(folder))) + "\n", encoding="utf-8")
        print(what)


if __name__ == "__main__":
    main()
