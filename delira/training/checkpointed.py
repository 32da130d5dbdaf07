"""The checkpoints of a run: written, found, continued from, and what is in them."""

import contextlib
import json
import logging
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from delira.contract import Backend
from delira.errors import CheckpointError
from delira.io.checkpoint import FORMAT, CheckpointFolder, check_format, check_name
from delira.io.verify import verify_zip
from delira.training import guards
from delira.training.averaged_statistics import RENEWED
from delira.training.callbacks.abstract_callback import load_callback
from delira.training.data_position import can_be_entered, is_foreign_loader
from delira.training.generators import generators_state
from delira.training.run_state import RunState
from delira.training.saving import Saver
from delira.training.state import TrainingState
from delira.utils.trees import iterate_leaves

_log = logging.getLogger("delira")


class StopInValidation(Exception):
    """A signal came while the validation was running."""


class CheckpointedRun(RunState):
    """The part of a trainer that survives the end of the process; see :class:`BaseNetworkTrainer`."""

    save_path: Path | None
    checkpoints: CheckpointFolder
    saver: Saver
    _warned: set[str]
    _shown: Path | None = None
    """The checkpoint whose weights the network has after a training."""
    weights_epoch: int | None = None
    """Epoch whose weights the network has after a training; ``None`` before and while it runs."""
    raw_statistics: tuple[str, ...] = ()
    """Running statistics of the network after a training that are not of its weights, which are averaged."""
    _kept_average: Mapping[str, Any] | None = None
    """Averaged weights of the checkpoint that was continued from, while nobody averages."""
    _trained: tuple[Any, dict[str, Any]] | None = None
    """The network, and the weights that are trained, while it has their average after a training."""
    _left_branch = False
    """Whether the run goes on from an older checkpoint than the newest, by ``update_state``."""
    _must_return: bool
    """Whether network and state are not those of a checkpoint: the best is loaded, or an epoch was broken off."""

    def save_state(self, file_name: str | Path, epoch: int | None = None) -> Path:
        """Write network, optimizers and counters to a file, completely or not at all.

        After a training with a score that is the state of the best epoch, whose weights the network has; after
        one that failed, weights and optimizers alone.

        Parameters
        ----------
        file_name
            Name of the file; the room's ending is added if it has none.
        epoch
            Number of finished epochs to record; the trainer's own if ``None``.
        """
        path = _complete_name(Path(file_name), self.backend)
        with self._filled_state():
            tree = self._consistent_tree()
            if epoch is not None:
                tree["epoch"] = int(epoch)
            return self.checkpoints.publish(path, tree)

    def _consistent_tree(self) -> dict[str, Any]:
        """What a file of the user's holds: never weights of one epoch with optimizers and counters of another."""
        if self._plan is not None or not self._must_return or self._trained is not None:
            return self._checkpoint_tree()
        if self._shown is not None and self._shown.exists():
            return self.checkpoints.load(self._shown)
        tree = self._checkpoint_tree()  # an epoch was broken off: weights, from which a new run can begin
        return {name: tree[name] for name in ("model", "optimizer", "epoch", "network", "format")}

    @classmethod
    def load_state(cls, file_name: str | Path) -> dict[str, Any]:
        """Verify and read a file written by :meth:`save_state`; nothing in it is executed.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, no checkpoint, or of a later version.
        UnreadableError
            If the system cannot read it now.
        """
        path = _existing(Path(file_name), cls.backend)
        verify_zip(path)
        tree = cls.backend.read_checkpoint(path)
        check_format(path, tree)
        return tree

    def update_state(self, file_name: str | Path) -> Any:
        """Continue from a file; returns the trainer. Nothing changes if the file does not fit."""
        tree = self.load_state(file_name)
        before, must_return = self.backend.snapshot(self._checkpoint_tree()), self._must_return
        try:
            self._continue_from(Path(file_name), tree)
        except CheckpointError:
            self._update_state(before)
            self._must_return = must_return
            raise
        self._left_branch = True
        return self

    def _continue_from(self, path: Path, tree: Mapping[str, Any]) -> Any:
        try:
            return self._update_state(tree)
        except CheckpointError as error:
            raise CheckpointError(f"cannot continue from {path}: {error}") from error
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"cannot continue from {path}, which is no checkpoint of a training: {error!r}"
            ) from error

    def _update_state(self, new_state: Mapping[str, Any]) -> Any:
        """Take a checkpoint over; nothing changes if its weights do not fit. Returns the trainer."""
        check_format("the checkpoint", new_state)
        state = TrainingState.from_tree(new_state["state"]) if "state" in new_state else TrainingState(
            epoch=int(new_state.get("epoch") or 0), fold=self.fold, seed=self.config.seed
        )  # fmt: skip
        if (state.seed, state.fold) != (self.config.seed, self.fold):
            raise CheckpointError(
                f"the checkpoint is of seed {state.seed}, fold {state.fold}, the trainer of seed {self.config.seed}, "
                f"fold {self.fold}; use another save_path, or the same seed and fold"
            )
        self._load_weights(new_state)
        for name, loss in self._losses_with_state():
            if name in (kept := new_state.get("losses", {})):
                loss.load_state_dict(kept[name])
        self.state, self._running, self._shown = state, None, None
        if self.weight_average is not None:  # updates may be counted by the steps of the state
            self.weight_average.at_training_begin(self)
        try:
            self.callbacks.load_state_dict(state.callbacks)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"a callback cannot take its state of the checkpoint over: {error!r}") from error
        self._must_return = False
        return self

    def _load_weights(self, tree: Mapping[str, Any]) -> None:
        """Weights and optimizers of a checkpoint, and the averaged weights, if they are in use."""
        load, self._trained = self.backend.load_state_tree, None
        trained = {**tree, "model": tree.get("training_model", tree.get("model"))}
        try:
            own = self.backend.state_tree(self.module, self.optimizers)
        except CheckpointError:  # layers that have not seen a batch have no weights to compare with
            own = {}
        _refuse_other_types(trained, own, self.module)
        load(trained, self.module, self.optimizers)
        self._kept_average = tree["model"] if "training_model" in tree and self.weight_average is None else None
        if self.weight_average is not None:
            self._take_average(tree["model"])
            self.averaged_statistics.take(tree)

    def _take_average(self, weights: Mapping[str, Any]) -> None:
        """Continue the average of a checkpoint; the network's weights stay as they are."""
        with self._borrowed(weights):
            self.weight_average.take(self.module)

    def _losses_with_state(self) -> Iterator[tuple[str, Any]]:
        for name, loss in {**self.config.losses, **self.config.train_metrics}.items():
            if callable(getattr(loss, "state_dict", None)) and callable(getattr(loss, "load_state_dict", None)):
                yield name, loss

    def register_callback(self, callback: Any) -> None:
        """Add a callback; one that a checkpoint has a state of continues from it.

        Raises
        ------
        ConfigError
            If the object has none of the methods of a callback.
        """
        super().register_callback(callback)
        state = self.callbacks.state_of(callback, self.state.callbacks)
        if state is not None and not self.state.is_new:
            load_callback(callback, state)
        if callback is self.weight_average and self._kept_average is not None:
            self._take_average(self._kept_average)
            self._kept_average = None

    @contextlib.contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """Scope in which the network has the averaged weights, if there are any."""
        average = self._average()
        if average is None:
            yield
            return
        with self._borrowed({**self.backend.state_tree(self.module, {})["model"], **average}):
            yield

    def _average(self) -> dict[str, Any] | None:
        """The averaged weights, with the running statistics that were computed for them, by name."""
        average = None if self.weight_average is None else self.weight_average.weights()
        return None if average is None else {**average, **self.averaged_statistics.current()}

    @contextlib.contextmanager
    def _borrowed(self, weights: Mapping[str, Any]) -> Iterator[None]:
        """Scope in which the network has other weights."""
        own = self.backend.snapshot(self.backend.state_tree(self.module, {})["model"])
        self.backend.load_state_tree({"model": weights}, self.module, {})
        try:
            yield
        finally:
            self.backend.load_state_tree({"model": own}, self.module, {})

    def _rewind(self, path: Path) -> None:
        """Continue from a checkpoint, and set later ones of the folder aside."""
        path = _existing(path, self.backend)
        tree = self.load_state(path)
        check_name(path, tree, self.backend.checkpoint_suffix)
        self._continue_from(path, tree)
        self._restore_learned(tree)
        self.checkpoints.rewind(path, tree)
        self.saver.note_last()

    def _restore_learned(self, tree: Mapping[str, Any]) -> None:
        """Freeze and unfreeze weights as they were: a callback may have done it at a moment that is not told again."""
        learned = tree.get("learned")
        if learned is None or frozenset(learned) == self.learned_names:
            return
        if self.learned_names:  # a network without shapes has no names yet
            names = ", ".join(sorted(self.learned_names ^ frozenset(learned))[:5])
            _log.warning("weights are frozen and learned as when the checkpoint was written; that changes: %s", names)
        self.backend.set_learned_names(self.module, frozenset(learned))

    def try_resume_training(self) -> bool:
        """Continue from the newest valid checkpoint of the folder; whether there was one."""
        newest = self.checkpoints.newest() if self.checkpoints.folder.is_dir() else None
        if newest is None:
            if self.checkpoints.has_damaged():
                _log.warning("no valid checkpoint is left in %s; the training begins anew", self.checkpoints.folder)
            return False
        epoch = self.state.epoch
        self._continue_from(*newest)
        self._restore_learned(newest[1])
        if self.state.epoch < epoch and not self._must_return:
            _log.warning("the run goes back to epoch %d, the last that was written", self.state.epoch)
        self.checkpoints.complete(*newest)
        self.saver.clean(self.state.to_tree())
        self.saver.note_last()
        return True

    def _return_to_last(self) -> None:
        """Before training goes on: undo the loading of the best weights, or what is half done of an epoch."""
        self.weights_epoch = None
        self.saver.finish(quietly=True)
        self.saver.check_alone()
        if self._left_branch:
            self._left_branch = False
            self.checkpoints.set_aside_after((self.state.epoch, self.state.step_in_epoch))
            self._save(["last"])
            self.saver.finish()
            self.checkpoints.renew_previous()
        if not self._must_return:
            return
        if self.save_path is None:  # the weights stay as they are, and the epoch begins anew
            self._take_trained_back()
            self.state.step_in_epoch, self.state.has_all_steps, self._must_return = 0, False, False
        elif not self.try_resume_training():
            raise CheckpointError(
                "an epoch was broken off and there is no checkpoint to go back to; build a new trainer"
            )

    def _take_trained_back(self) -> None:
        """Give the network the weights that are trained, if it has their average."""
        kept, self._trained = self._trained, None
        if kept is not None and kept[0] is self.module:  # else a user has set another one
            self.backend.load_state_tree({"model": kept[1]}, self.module, {})

    def _save(self, names: list[str]) -> None:
        if self.save_path is None:  # nothing is collected; that weights are not finite is told all the same
            guards.refuse_weights(self)
            return
        with self.times.phase("checkpoint"), self._filled_state():
            self.saver.save({**self._checkpoint_tree(), "names": names}, names)

    def _save_epoch(self, plan: Any, is_best: bool) -> None:
        """Serialise the state once, under every name that this epoch deserves."""
        epoch, every = self.state.epoch, self.config.saving.freq
        names = ["best"] if is_best else []  # first: a numbered file that says so must find it there
        if every is not None and epoch % every == 0:
            names.append(f"epoch_{epoch}")
        is_end = epoch == plan.num_epochs or self.state.stop_training or self.stop_signals.received is not None
        if is_end or (self.save_path is not None and (names or self.saver.is_late)):
            self.averaged_statistics.renew(plan.train_data, epoch)
            self._save([*names, "last"])

    # ------------------------------------------------------------------ inside an epoch

    @property
    def _may_look_ahead(self) -> bool:
        """Whether batches may be prepared before their step begins: nobody changes them, or counts them, then."""
        data = None if self._plan is None else self._plan.train_data
        return not self.callbacks.hears("at_iter_begin") and not is_foreign_loader(data)

    def _after_step(self) -> None:
        """Write a checkpoint if it is the time; stop if a signal came."""
        if self.stop_signals.received is not None:
            self._stop()
        self.saver.check()
        if names := self.saver.due(self.state):
            self._save_inside_epoch(names)

    def _save_inside_epoch(self, names: list[str]) -> bool:
        """Write a checkpoint after a step; whether the run can be continued from one there."""
        state, data, running = self.state, self.train_data, self._running
        is_enterable = state.has_all_steps or can_be_entered(data)
        why = self.backend.not_resumable(self.module)
        if why or not is_enterable or running is None or not running.is_storable:
            what = why or ("a metric" if is_enterable else f"the training data (a {type(data).__name__})")
            self._warn_once(
                f"no checkpoint is written inside an epoch: {what} cannot be continued there; a run that is broken off "
                "continues at the beginning of its epoch"
            )
            return False
        self._check_finite(running.losses, state.epoch + 1)
        self._save(names)
        return True

    @contextlib.contextmanager
    def _filled_state(self) -> Iterator[None]:
        """Scope in which the state holds what only checkpoints need."""
        state, data, running = self.state, self.train_data, self._running
        before = state.accumulators, state.generators, state.loader, state.batch_in_epoch
        if is_foreign_loader(data):
            state.loader = dict(data.state_dict())
        if state.step_in_epoch and running is not None and self._epoch_data is not None:
            state.accumulators, state.generators = running.state_dict(), generators_state(self.backend)
            state.batch_in_epoch = self._epoch_data.position(state.step_in_epoch)
        try:
            yield
        finally:
            state.accumulators, state.generators, state.loader, state.batch_in_epoch = before

    def _stop(self) -> NoReturn:
        """End the training because of a signal, after a checkpoint if it is inside an epoch."""
        state = self.state
        where = f"after epoch {state.epoch}"
        if state.step_in_epoch and self._save_inside_epoch(["last"]):
            where = f"after step {state.step_in_epoch} of epoch {state.epoch + 1}"
        elif state.step_in_epoch:
            where = f"in epoch {state.epoch + 1}, which has to begin again"
        self.saver.finish()
        name = signal.Signals(self.stop_signals.received or 0).name
        has_any = self.checkpoints.path("last").exists()
        further = f"it continues from {self.save_path}" if has_any else "there is no checkpoint to continue from"
        self.stop_signals.stop(f"{name}: the training stopped {where}; {further}")

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)

    # ------------------------------------------------------------------ what checkpoints hold

    def _best_tree(self) -> dict[str, Any] | None:
        """Content of the checkpoint of the best epoch."""
        for name in ("best", f"epoch_{self.state.best_epoch}"):
            path = self.checkpoints.path(name)
            tree = self.checkpoints.load_or_warn(path)
            if tree is not None and tree.get("epoch") == self.state.best_epoch:
                self._shown = path
                return tree
        _log.warning(
            "the checkpoint of the best epoch, %s, is not in %s; the network keeps the weights of the last epoch",
            self.state.best_epoch, self.checkpoints.folder,
        )  # fmt: skip
        return None

    def _checkpoint_tree(self) -> dict[str, Any]:
        self.state.callbacks = self.callbacks.state_dict()
        tree = {
            **self.backend.state_tree(self.module, self.optimizers),
            "epoch": self.state.epoch,
            "step": self.state.step_in_epoch,
            "state": self.state.to_tree(),
            "network": _describe(self.module),
            "learned": sorted(self.learned_names),
            "format": FORMAT,
        }
        if losses := {name: state for name, loss in self._losses_with_state() if (state := dict(loss.state_dict()))}:
            tree["losses"] = losses
        average = self._average()
        if average is not None:  # what is validated is what others should load
            trained = tree["model"] if self._trained is None else self._trained[1]
            tree["training_model"], tree["model"] = trained, {**tree["model"], **average}
            if renewed := sorted(self.averaged_statistics.current()):
                tree[RENEWED] = renewed
        return tree

    def _at_training_end(self, *args: Any, **facts: Any) -> Any:
        """Load the best weights, if a score was watched, else the averaged ones, if there are; return the network."""
        is_scored = self.score_key is not None and self.state.best_epoch is not None
        best = self._best_tree() if is_scored else None
        self.weights_epoch = self.state.epoch if best is None else self.state.best_epoch
        self.raw_statistics = self.averaged_statistics.lacking(best)
        average = self._average()
        if best is None and average is not None:
            own = self.backend.state_tree(self.module, {})["model"]
            self._trained, best = (self.module, self.backend.snapshot(own)), {"model": {**own, **average}}
            self._shown = self.checkpoints.path("last")
        if best is not None:
            self._must_return = True  # before: a Ctrl-C may come in the midst
            self.backend.load_state_tree(best, self.module, {})
        return self.module


def _refuse_other_types(given: Mapping[str, Any], own: Mapping[str, Any], network: Any) -> None:
    """Refuse weights of other types than the network's: backends would convert them, or become what they are."""
    wrong = []
    for part in ("model", "optimizer"):
        types = {place: _type_of(leaf) for place, leaf in iterate_leaves(own.get(part) or {})}
        for place, leaf in iterate_leaves(given.get(part) or {}):
            if (found := _type_of(leaf)) != (expected := types.get(place, found)) and None not in (found, expected):
                name = ".".join(map(str, place if part == "model" else (part, *place)))
                wrong.append(f"{name} is {found} in the checkpoint and {expected} in the network")
    if wrong:
        raise CheckpointError(
            f"the checkpoint does not fit the network {type(network).__name__}: {'; '.join(wrong[:10])}"
            f"{f' and {len(wrong) - 10} more' if len(wrong) > 10 else ''}"
        )


def _type_of(leaf: Any) -> str | None:
    dtype = getattr(leaf, "dtype", None)
    return None if dtype is None else str(getattr(dtype, "name", dtype)).rpartition(".")[2]


def _complete_name(path: Path, backend: Backend) -> Path:
    """The file with the room's ending, if it has none; a room whose ending is more than a suffix adds it always."""
    ending, name = backend.checkpoint_suffix, path.name
    if name.endswith(ending) or (path.suffix and ending.startswith(".")):
        return path
    other = next((other for other in backend.other_suffixes if name.endswith(other)), "")
    return path.with_name(name.removesuffix(other) + ending)


def _existing(path: Path, backend: Backend) -> Path:
    """The file that is there under this name, or the complete one; not another file of the same checkpoint."""
    is_other = path.name.endswith(backend.other_suffixes) and not path.name.endswith(backend.checkpoint_suffix)
    complete = _complete_name(path, backend)
    return complete if not path.exists() or (is_other and complete.exists()) else path


def _describe(network: Any) -> dict[str, Any]:
    """Class and, where they are plain, arguments of a network."""
    arguments = dict(getattr(network, "init_kwargs", {}))
    try:
        arguments = json.loads(json.dumps(arguments))
    except (TypeError, ValueError):
        arguments = {}
    return {"class": f"{type(network).__module__}:{type(network).__qualname__}", "init_kwargs": arguments}
