"""The log of a run: the values of its epochs, what closures and callbacks log, and, if asked for, values of steps."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.callbacks.abstract_callback import AbstractCallback, Trainer
from delira.errors import did_you_mean
from delira.logging import MessageFileHandler, MessageHandler, MessageLogger, Place, logger, messages, targets
from delira.utils.arrays import iterate_leaves

if TYPE_CHECKING:
    from delira.training.run import Run

_log = logging.getLogger("delira")


def facts_of(run: "Run", given_settings: Mapping[str, Any]) -> dict[str, str | float | int | bool]:
    """What trackers are told of a run: parameters of model and training, seed, fold and versions, by dotted names."""
    from delira.runs.environment import versions

    network = run.network
    tree = {
        "seed": run.seed,
        "fold": run.fold,
        "model": {"class": type(network).__qualname__, **getattr(network, "init_kwargs", {})},
        "training": {name: value for name, value in given_settings.items() if name not in _UNTOLD},
        "versions": versions(),
    }
    found = {}
    for path, leaf in iterate_leaves(tree):
        if not isinstance(leaf, (bool, int, float, str)):
            name = getattr(leaf, "__qualname__", None)
            leaf = f"{leaf.__module__}.{name}" if name is not None else repr(leaf)[:_LONG]
        found[".".join(map(str, path))] = leaf
    return found


#: settings that are told elsewhere, or may hold passwords
_UNTOLD = ("seed", "logging_type", "logging_kwargs")
#: characters of what a tracker is told of one object
_LONG = 500


class RunLog(AbstractCallback):
    """Log values of epochs, and of steps if asked for, and be the log that :func:`delira.logging.log` writes to.

    The handlers are made where a training begins, and closed where it ends. Messages also go to
    ``logs/messages.jsonl``. A run that is continued hides what was logged after its checkpoint.

    Parameters
    ----------
    run
        Its settings say what the handlers are, and its ``save_path`` where files go.
    given_settings
        Settings as they were given, which trackers are told.
    """

    def __init__(self, run: "Run", given_settings: Mapping[str, Any]):
        self._run, self._given_settings, self.config = run, given_settings, run.config.logging
        self.folder: Path | None = run.save_path if run.ranks.is_first else None
        frequencies = self.config.frequencies
        if frequencies is None:  # nobody wants values of steps
            vars(self)["at_iter_end"], frequencies = None, 1
        self.logger = MessageLogger("of the training", (), frequencies, self.config.reductions, self._place)
        self._file: MessageFileHandler | None = None
        self._n_lines = 0
        self._identities: dict[str, str] = {}

    @contextlib.contextmanager
    def opened(self, num_epochs: int) -> Iterator[None]:
        """Scope of a training: :func:`delira.logging.log` writes to this log.

        Raises
        ------
        ConfigError
            If a handler cannot be made, e.g. since no server of visdom answers.
        """
        config, state = self.config, self._run.state
        handlers: list[logging.Handler] = []
        if not self._run.ranks.is_first:
            handlers = [logging.NullHandler()]  # or it would be told that messages go nowhere
        elif state.epoch < num_epochs or state.step_in_epoch:
            handlers = targets.make_handlers(config.type, config.kwargs, self.folder, self._run.fold, self._identities)
        try:
            self._identities |= targets.identities_of(handlers)
            for handler in handlers:
                self.logger.add_handler(handler)
                if callable(describe := getattr(handler, "describe_run", None)):
                    describe(facts_of(self._run, self._given_settings))
            if self.folder is not None:
                self._file = MessageFileHandler(self.folder / "logs" / "messages.jsonl")
                self._file.addFilter(_is_no_epoch)  # those are in the history files
                self.logger.add_handler(self._file)
            self._return_to_state()
            with self.logger.opened():
                yield
        except BaseException:
            for handler in handlers:
                if isinstance(handler, MessageHandler):
                    handler.has_failed = True
            raise
        finally:
            self._n_lines = self._lines_so_far()
            self.logger.close(keep=targets.given_handlers(config.type, handlers))
            self._file = None

    def _return_to_state(self) -> None:
        """Hide what was logged after the place where the run is."""
        state = self._run.state
        self._run.begun_step = state.global_step
        if self._file is not None:
            self._file.cut(self._n_lines)
        for handler in self.logger.handlers:
            if callable(go_on := getattr(handler, "continue_from", None)):
                go_on(state.epoch, state.global_step)

    def _place(self) -> Place:
        run = self._run
        return Place("step", run.begun_step, run.state.epoch + (run.running is not None), run.fold)

    def _lines_so_far(self) -> int:
        return self._n_lines if self._file is None else self._file.n_lines

    def at_epoch_end(self, trainer: Trainer, *, metrics: Mapping[str, Any], curr_epoch: int, **facts: Any) -> None:
        """Log the epoch."""
        if not self.logger.handlers:
            return
        place = Place("epoch", curr_epoch, curr_epoch, trainer.fold)
        for name, value in metrics.items():
            self.logger.log(message_of(name, value, curr_epoch, trainer.fold), place=place)
        self.logger.flush()

    def at_iter_end(self, trainer: Trainer, **facts: Any) -> None:
        """Log losses and metrics of steps that are due, as ``step/<loss>``: what the values since the last time became.

        Nothing is read from the device before a value is due.
        """
        running, state, wanted = self._run.running, trainer.state, self.logger.frequencies
        if running is None or not self.logger.handlers:
            return
        for values in (running.losses, running.metrics):
            for name in values:
                if isinstance(wanted, Mapping) and name not in wanted:
                    continue
                self.logger.seen.add(name)
                every = logger.of_name(wanted, name, 1)
                if state.global_step % every == 0 and len(found := values.after(name, state.step_in_epoch - every)):
                    value = messages.reduce_array(found, logger.of_name(self.logger.reductions, name, "last"))
                    place = Place("step", state.global_step, state.epoch + 1, trainer.fold)
                    self.logger.log(message_of(f"step/{name}", value, state.global_step, trainer.fold), place=place)

    def at_training_end(self, trainer: Trainer, *, error: BaseException | None = None, **facts: Any) -> None:
        """Warn of each name in ``logging_frequencies`` that nothing has logged."""
        wanted, seen = self.logger.frequencies, self.logger.seen
        if error is None and isinstance(wanted, Mapping) and seen:
            for name in wanted.keys() - seen:
                _log.warning("logging_frequencies names %r, which nothing logged%s", name, did_you_mean(name, seen))

    def state_dict(self) -> dict[str, Any]:
        """Counters, and how far the file of messages is."""
        own = {"n_lines": self._lines_so_far(), "identities": dict(self._identities)}
        return {name: part for name, part in {**self.logger.state_dict(), **own}.items() if part}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, also in the midst of a training."""
        self.logger.load_state_dict(state)
        self._n_lines = int(state.get("n_lines", 0))
        self._identities = dict(state.get("identities", {}))
        if self._file is not None:
            self._return_to_state()


def message_of(name: str, value: object, step: int, fold: int) -> dict[str, Any]:
    """Return the message of a number, as the old library wrote it.

    Parameters
    ----------
    name, value
        The number.
    step
        Its place on the axis.
    fold
        Fold of the cross-validation.
    """
    return {"value": {"value": value, "name": name, "counter": step, "env_appendix": f"_{fold:02d}"}}


def _is_no_epoch(record: Any) -> bool:
    return record.place is None or record.place.axis != "epoch"
