"""The checkpoints of a run: written, found, continued from, and what is in them."""

import contextlib
import json
import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from delira import state as keys
from delira.contract import Array, Backend, Network
from delira.errors import CheckpointError
from delira.io import checkpoint, container
from delira.metrics import scoring
from delira.training import checks
from delira.training.epoch import can_be_entered, is_foreign_loader
from delira.training.evaluation import AveragedWeights
from delira.training.objective import Objective
from delira.training.run import Run, TrainingState, Tree, generators_state
from delira.training.saving import PhaseTimes, Saver
from delira.utils import arrays, references, yaml_codec
from delira.utils.files import mapping

_log = logging.getLogger("delira")


class Checkpoints:
    """Collects what a checkpoint holds, decides when one is written, and continues from one.

    Parameters
    ----------
    run
        The run.
    objective
        What the run computes; it has something to keep, too.
    averages
        The average of its weights.
    saver
        Writes the files.
    times
        Measures where the time goes.
    take_over
        Takes a checkpoint over: :meth:`take`, or what a user has put in its place.
    resume
        Continues from the newest checkpoint: :meth:`resume`, or what a user has put in its place.
    """

    #: epoch whose weights the network has after a training; None before and while it runs
    weights_epoch: int | None = None
    #: running statistics of the network after a training that are not of its weights, which are averaged
    raw_statistics: tuple[str, ...] = ()
    #: the checkpoint whose weights the network has after a training
    _shown: Path | None = None
    #: whether the run goes on from an older checkpoint than the newest, by the user's will
    _left_branch = False
    #: write files of the user's own beside a checkpoint, and read them after it
    save_others: Callable[[Sequence[str]], None] = staticmethod(lambda names: None)
    restore_others: Callable[[Tree], None] = staticmethod(lambda tree: None)

    def __init__(
        self,
        run: Run,
        objective: Objective,
        averages: AveragedWeights,
        saver: Saver,
        times: PhaseTimes,
        take_over: Callable[[Tree], Any],
        resume: Callable[[], bool],
    ):
        self._run, self._objective, self._averages, self._times = run, objective, averages, times
        self.saver, self.folder = saver, saver.folder
        self._take_over, self._resume = take_over, resume

    # ------------------------------------------------------------------ what they hold

    def tree(self) -> dict[str, Any]:
        """Collect a checkpoint; it shares its arrays with the run."""
        run = self._run
        run.ranks.confirm()
        run.state.callbacks = run.callbacks.state_dict()
        own = {
            **run.backend.checkpoints.state_tree(run.network, run.optimizers),
            "epoch": run.state.epoch,
            "step": run.state.step_in_epoch,
            "state": run.state.to_tree(),
            "network": _describe(run.network),
            "predicts": self._predicts(),
            "learned": sorted(run.learned_names),
            "format": checkpoint.FORMAT,
        }
        if losses := {name: state for name, loss in losses_with_state(run) if (state := dict(loss.state_dict()))}:
            own["losses"] = losses
        return joined(run.ranks.gather(own | self._averages.to_tree(own["model"])))

    def _predicts(self) -> dict[str, Any]:
        """What a network that is made of a checkpoint needs besides its weights, in plain values."""
        run, config = self._run, self._run.config
        metrics = config.bound(config.epoch_metrics, backend=run.backend)
        known = config.known_outputs(metrics, scoring.keys_of(metrics, config.keys_of(metrics)), run.backend)
        return {
            "key_mapping": dict(run.key_mapping),
            "inputs": dict(run.inputs),
            **({"spacing": run.spacing} if run.spacing else {}),
            "outputs": {name: [target, [*one[:6], [*one.classes]]] for name, (target, one) in known.items()},
            "inference": json.dumps(yaml_codec.encode([config.val_inference, config.val_tta])),
        }

    def copy(self) -> dict[str, Any]:
        """Collect everything from which the run can be continued, in copies that later training cannot change."""
        run, state = self._run, self._run.state
        place = state.step_in_epoch, state.has_all_steps
        if run.plan is None and not run.is_whole and state.step_in_epoch:
            _log.warning(
                "epoch %d was broken off after step %d: the state has the weights of then, and the epoch begins anew "
                "where it is continued", state.epoch + 1, state.step_in_epoch,
            )  # fmt: skip
            state.step_in_epoch, state.has_all_steps = 0, False
        try:
            with self.filled_state():
                copied: dict[str, Any] = run.backend.arrays.snapshot(self.tree())
        finally:
            state.step_in_epoch, state.has_all_steps = place
        return copied

    @contextlib.contextmanager
    def filled_state(self) -> Iterator[None]:
        """Scope in which the state holds what only checkpoints need."""
        run, state = self._run, self._run.state
        before = state.accumulators, state.generators, state.loader, state.batch_in_epoch
        if is_foreign_loader(run.train_data):
            state.loader = dict(run.train_data.state_dict())
        if state.step_in_epoch and run.running is not None and run.epoch_data is not None:
            state.accumulators = {**run.running.state_dict(), **self._objective.kept_values()}
            state.generators = generators_state(run.backend)
            state.batch_in_epoch = run.epoch_data.position(state.step_in_epoch)
        state.loader = self._objective.kept_place() or state.loader
        try:
            yield
        finally:
            state.accumulators, state.generators, state.loader, state.batch_in_epoch = before

    def publish(self, file_name: str | Path, epoch: int | None = None) -> Path:
        """Write a file of the user's, completely or not at all; returns its path.

        Parameters
        ----------
        file_name
            Name of the file; the backend's ending is added if it has none.
        epoch
            Number of finished epochs to record; that of the run if ``None``.
        """
        path = complete_name(Path(file_name), self._run.backend)
        with self.filled_state():
            tree = self._consistent_tree()
            if epoch is not None:
                tree["epoch"] = int(epoch)
            return self.folder.publish(path, tree) if self._run.ranks.is_first else path

    def _consistent_tree(self) -> dict[str, Any]:
        """Collect what a file of the user's holds: never weights of one epoch with counters of another."""
        run = self._run
        if run.plan is not None or run.is_whole or self._averages.trained is not None:
            return self.tree()
        if self._shown is not None and self._shown.exists():
            return self.folder.load(self._shown)
        tree = self.tree()  # an epoch was broken off: weights, from which a new run can begin
        return {name: tree[name] for name in ("model", "optimizer", "epoch", "network", "format")}

    # ------------------------------------------------------------------ continued from

    def take(self, tree: Tree) -> None:
        """Take a checkpoint over; nothing changes if its weights do not fit."""
        run = self._run
        checkpoint.check_format("the checkpoint", tree)
        state = TrainingState.from_tree(tree["state"]) if "state" in tree else TrainingState(
            epoch=int(tree.get("epoch") or 0), fold=run.fold, seed=run.config.seed
        )  # fmt: skip
        if (state.seed, state.fold) != (run.config.seed, run.fold):
            raise CheckpointError(
                f"the checkpoint is of seed {state.seed}, fold {state.fold}, the trainer of seed {run.config.seed}, "
                f"fold {run.fold}; use another save_path, or the same seed and fold"
            )
        self._load_weights(tree)
        for name, loss in losses_with_state(run):
            if name in (kept := tree.get("losses", {})):
                loss.load_state_dict(kept[name])
        run.state, run.running, self._shown = state, None, None
        predicts = mapping(tree.get("predicts"))
        run.inputs, run.spacing = dict(mapping(predicts.get("inputs"))), [*map(list, predicts.get("spacing", ()))]
        run.hook_state[keys.HISTORY] = state.history
        self._averages.recount()
        try:
            run.callbacks.load_state_dict(state.callbacks)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"a callback cannot take its state of the checkpoint over: {error!r}") from error
        run.is_whole = True

    def _load_weights(self, tree: Tree) -> None:
        """Load weights and optimizers of a checkpoint, and the averaged weights, if they are in use."""
        run, backend = self._run, self._run.backend
        trained = {**tree, "model": tree.get("training_model", tree.get("model"))}
        try:
            own = backend.checkpoints.state_tree(run.network, run.optimizers)
        except CheckpointError:  # layers that have not seen a batch have no weights to compare with
            own = {}
        _refuse_other_types(trained, own, run.network)
        backend.checkpoints.load_state_tree(trained, run.network, run.optimizers)
        self._averages.take(tree)

    def load_weights(self, weights: Tree) -> None:
        """Give the network weights by name; they are what is trained from now on."""
        self._run.backend.checkpoints.load_state_tree({"model": weights}, self._run.network, {})
        self._averages.trained = None

    def continue_from(self, path: Path, tree: Tree) -> None:
        """Take the checkpoint of a file over."""
        try:
            self._take_over(tree)
        except CheckpointError as error:
            raise CheckpointError(f"cannot continue from {path}: {error}") from error
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"cannot continue from {path}, which is no checkpoint of a training: {error!r}"
            ) from error

    def leave_for(self, path: Path, tree: Tree) -> None:
        """Take the checkpoint of a file over in the midst of a run; nothing changes if it does not fit."""
        run = self._run
        before, was_whole = run.backend.arrays.snapshot(self.tree()), run.is_whole
        try:
            self.continue_from(path, tree)
        except CheckpointError:
            self._take_over(before)
            run.is_whole = was_whole
            raise
        self._left_branch = True

    def rewind(self, path: Path) -> None:
        """Continue from a checkpoint, and set later ones of the folder aside."""
        backend = self._run.backend
        path = existing(path, backend)
        tree = read(path, backend)
        checkpoint.check_name(path, tree, backend.checkpoint_suffix)
        self.continue_from(path, tree)
        self._restore_learned(tree)
        self.restore_others(tree)
        if self._run.ranks.is_first:
            self.folder.rewind(path, tree)
        self.saver.note_last()

    def resume(self) -> bool:
        """Continue from the newest valid checkpoint of the folder; returns whether there was one."""
        run = self._run
        newest = self.folder.newest() if self.folder.folder.is_dir() else None
        if newest is None:
            if self.folder.has_damaged():
                _log.warning("no valid checkpoint is left in %s; the training begins anew", self.folder.folder)
            elif run.save_path is not None and (old := sorted(run.save_path.glob("checkpoint_*.pt*"))):
                _log.warning(
                    "%s is a checkpoint of an older version, from which no training is continued exactly, so this one "
                    "begins anew; trainer.update_state(%r) takes its weights", old[-1], old[-1].name,
                )  # fmt: skip
            return False
        epoch = run.state.epoch
        self.continue_from(*newest)
        self._restore_learned(newest[1])
        self.restore_others(newest[1])
        if run.state.epoch < epoch and run.is_whole:
            _log.warning("the run goes back to epoch %d, the last that was written", run.state.epoch)
        if self.saver.writes:
            self.folder.complete(*newest)
            self.saver.clean(run.state.to_tree())
        self.saver.note_last()
        return True

    def _restore_learned(self, tree: Tree) -> None:
        """Freeze and unfreeze weights as they were: a callback may have done it at an event that is not told again."""
        run, learned = self._run, tree.get("learned")
        if learned is None or frozenset(learned) == run.learned_names:
            return
        if run.learned_names:  # a network without shapes has no names yet
            names = ", ".join(sorted(run.learned_names ^ frozenset(learned))[:5])
            _log.warning("weights are frozen and learned as when the checkpoint was written; that changes: %s", names)
        run.backend.weights.set_learned_names(run.network, frozenset(learned))

    def return_to_last(self) -> None:
        """Undo the loading of the best weights, or what is half done of an epoch, before training goes on."""
        run, self.weights_epoch = self._run, None
        self.saver.finish(quietly=True)
        self.saver.check_alone()
        if self._left_branch:
            self._left_branch = False
            if self.saver.writes:
                self.folder.set_aside_after((run.state.epoch, run.state.step_in_epoch))
            self.save(["last"])
            self.saver.finish()
            if self.saver.writes:
                self.folder.renew_previous()
        if run.is_whole:
            return
        if run.save_path is None:  # the weights stay as they are, and the epoch begins anew
            self._averages.take_back()
            run.state.step_in_epoch, run.state.has_all_steps, run.is_whole = 0, False, True
        elif not self._resume():
            raise CheckpointError(
                "an epoch was broken off and there is no checkpoint to go back to; build a new trainer"
            )

    # ------------------------------------------------------------------ written

    def begin(self) -> None:
        """Get ready to write in a training, with a first checkpoint to roll back to, if that is asked for."""
        if self.saver.hashes is not None:
            self.saver.hashes.forget_after(self._run.state.epoch)
        self.saver.begin(self.tree)
        if self._run.config.guards.nonfinite == "rollback" and not self.folder.path("last").exists():
            self.save(["last"])

    def save(self, names: list[str]) -> None:
        """Write a checkpoint under some names; without a folder only look whether the weights are finite."""
        if self._run.save_path is None:  # nothing is collected; that weights are not finite is told all the same
            checks.refuse_weights(self._run)
            return
        with self._times.phase("checkpoint"), self.filled_state():
            tree = {**self.tree(), "names": names}
            if self._run.ranks.group is not None and self._run.config.guards.nonfinite == "rollback":
                checks.refuse_nonfinite(self._run, tree)  # who does not write, or writes later, goes back, too
            self.saver.save(tree, names)
        if self.saver.writes:
            self.save_others(names)

    def save_epoch(self, is_best: bool) -> None:
        """Serialise the state once, under every name that this epoch deserves."""
        run, plan = self._run, self._run.plan
        epoch, every = run.state.epoch, run.config.saving.freq
        names = ["best"] if is_best else []  # first: a numbered file that says so must find it there
        if every is not None and epoch % every == 0:
            names.append(f"epoch_{epoch}")
        is_done = plan is not None and epoch == plan.num_epochs
        is_end = is_done or run.state.stop_training or run.stop_signals.received is not None
        is_late = self.saver.config.minutes is not None and run.ranks.agree(self.saver.is_late)
        if is_end or (run.save_path is not None and (names or is_late)):
            self._averages.renew(run.train_data, epoch)
            self.save([*names, "last"])

    def after_step(self) -> None:
        """Write a checkpoint if it is the time; stop if a signal came.

        Several processes have a part each of gradients that are accumulated: the end of their group is waited for.
        """
        is_shared = self._run.ranks.group is not None
        if is_shared and any(getattr(one, "is_inside_group", False) for one in self._run.optimizers.values()):
            return
        if self._run.stop_signals.received is not None:
            self.stop()
        self.saver.check()
        names, has_clock = self.saver.due(self._run.state), self.saver.config.minutes is not None
        if names := self._run.ranks.agree(names) if has_clock else names:
            self._save_inside_epoch(names)

    def _save_inside_epoch(self, names: list[str]) -> bool:
        """Write a checkpoint after a step; returns whether the run can be continued from one there."""
        run, running = self._run, self._run.running
        is_enterable = run.state.has_all_steps or can_be_entered(run.train_data)
        why = run.backend.generators.not_resumable(run.network)
        if why or not is_enterable or running is None or not running.is_storable:
            data = f"the training data (a {type(run.train_data).__name__})"
            run.warn_once(
                f"no checkpoint is written inside an epoch: {why or ('a metric' if is_enterable else data)} cannot be "
                "continued there; a run that is broken off continues at the beginning of its epoch"
            )
            return False
        checks.check_losses(run, running.losses, run.state.epoch + 1)
        self.save(names)
        return True

    def stop(self) -> NoReturn:
        """End the training because of a signal, after a checkpoint if it is inside an epoch."""
        run, state = self._run, self._run.state
        where = f"after epoch {state.epoch}"
        if state.step_in_epoch and self._save_inside_epoch(["last"]):
            where = f"after step {state.step_in_epoch} of epoch {state.epoch + 1}"
        elif state.step_in_epoch:
            where = f"in epoch {state.epoch + 1}, which has to begin again"
        self.saver.finish()
        name = signal.Signals(run.stop_signals.received or 0).name
        has_any = self.folder.path("last").exists()
        further = f"it continues from {run.save_path}" if has_any else "there is no checkpoint to continue from"
        run.stop_signals.stop(f"{name}: the training stopped {where}; {further}")

    # ------------------------------------------------------------------ after a training

    def show_best(self, is_scored: bool) -> None:
        """Give the network the best weights, if a score was watched, else the averaged ones, if there are any."""
        run = self._run
        tree = self._best_tree() if is_scored and run.state.best_epoch is not None else None
        self.weights_epoch = run.state.epoch if tree is None else run.state.best_epoch
        self.raw_statistics = self._averages.lacking(tree)
        if tree is None and (average := self._averages.lent()) is not None:
            tree, self._shown = {"model": average}, self.folder.path("last")
        if tree is not None:
            run.is_whole = False  # before: a Ctrl-C may come in the midst
            run.backend.checkpoints.load_state_tree(tree, run.network, {})

    def _best_tree(self) -> dict[str, Any] | None:
        """Read the checkpoint of the best epoch."""
        best_epoch = self._run.state.best_epoch
        for name in ("best", f"epoch_{best_epoch}"):
            path = self.folder.path(name)
            tree = self.folder.load_or_warn(path)
            if tree is not None and tree.get("epoch") == best_epoch:
                self._shown = path
                return tree
        if self._run.ranks.is_first:  # who writes it
            _log.warning(
                "the checkpoint of the best epoch, %s, is not in %s; the network keeps the weights of the last epoch",
                best_epoch, self.folder.folder,
            )  # fmt: skip
        return None


def losses_with_state(run: Run) -> Iterator[tuple[str, Any]]:
    """Yield the losses and metrics of the steps that have a state, by name."""
    for name, loss in {**run.config.losses, **run.config.train_metrics}.items():
        if callable(getattr(loss, "state_dict", None)) and callable(getattr(loss, "load_state_dict", None)):
            yield name, loss


def joined(parts: Sequence[Tree]) -> dict[str, Any]:
    """Join the parts of one checkpoint that several processes hold.

    Parameters
    ----------
    parts
        Trees; where two have an entry in common it is a mapping, of which each has a part, or the same.
    """
    first, *others = parts
    tree = dict(first)
    for other in others:
        for name, value in other.items():
            is_divided = isinstance(value, Mapping) and isinstance(tree.get(name), Mapping)
            tree[name] = joined([tree[name], value]) if is_divided else tree.get(name, value)
    return tree


def read(path: Path, backend: Backend) -> dict[str, Any]:
    """Verify and read a checkpoint; nothing in it is executed."""
    container.verify_zip(path)
    tree = backend.checkpoints.read(path)
    checkpoint.check_format(path, tree)
    return tree


def _refuse_other_types(given: Mapping[str, Any], own: Mapping[str, Any], network: Network) -> None:
    """Refuse weights of other types than the network's: backends would convert them, or become what they are."""
    wrong = []
    for part in ("model", "optimizer"):
        types = {place: _type_of(leaf) for place, leaf in arrays.iterate_leaves(own.get(part) or {})}
        for place, leaf in arrays.iterate_leaves(given.get(part) or {}):
            if (found := _type_of(leaf)) != (expected := types.get(place, found)) and None not in (found, expected):
                name = ".".join(map(str, place if part == "model" else (part, *place)))
                wrong.append(f"{name} is {found} in the checkpoint and {expected} in the network")
    if wrong:
        raise CheckpointError(
            f"the checkpoint does not fit the network {type(network).__name__}: {'; '.join(wrong[:10])}"
            f"{f' and {len(wrong) - 10} more' if len(wrong) > 10 else ''}"
        )


def _type_of(leaf: Array) -> str | None:
    dtype = getattr(leaf, "dtype", None)
    return None if dtype is None else str(getattr(dtype, "name", dtype)).rpartition(".")[2]


def complete_name(path: Path, backend: Backend) -> Path:
    """Return the file with the backend's ending, if it has none; one that is more than a suffix is added always."""
    ending, name = backend.checkpoint_suffix, path.name
    if name.endswith(ending) or (path.suffix and ending.startswith(".")):
        return path
    other = next((other for other in backend.other_suffixes if name.endswith(other)), "")
    return path.with_name(name.removesuffix(other) + ending)


def existing(path: Path, backend: Backend) -> Path:
    """Return the file that is there under this name, or the complete one; not another of the same checkpoint."""
    is_other = path.name.endswith(backend.other_suffixes) and not path.name.endswith(backend.checkpoint_suffix)
    complete = complete_name(path, backend)
    return complete if not path.exists() or (is_other and complete.exists()) else path


def _describe(network: Network) -> dict[str, Any]:
    """Class and arguments of a network: those that are plain, and all of them as a text of tagged mappings."""
    arguments = dict(getattr(network, "init_kwargs", {}))
    written = json.dumps(yaml_codec.encode(arguments))
    try:
        arguments = json.loads(json.dumps(arguments))
    except (TypeError, ValueError):
        arguments = {}
    return {"class": references.class_on_disk(type(network)), "init_kwargs": arguments, "arguments": written}
