"""What a trainer keeps besides the loop: its counters, checkpoints and generators."""

import functools
import inspect
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.contract import StepHooks
from delira.errors import CheckpointError
from delira.io.checkpoint import CheckpointFolder, verify_zip
from delira.training.callbacks import CallbackList
from delira.training.config import TrainerConfig, check_fold, score_mode
from delira.training.predictor import Predictor
from delira.training.state import TrainingState
from delira.utils.files import publish

_log = logging.getLogger("delira")

#: version of the layout of checkpoint files
FORMAT = 1


class RunState(Predictor):
    """The part of a trainer that knows where the run stands; see :class:`BaseNetworkTrainer`."""

    config: TrainerConfig
    state: TrainingState
    callbacks: CallbackList
    checkpoints: CheckpointFolder
    optimizers: dict[str, Any]
    hooks: StepHooks
    closure_fn: Any
    _plan: Any
    _must_return: bool
    """Whether network and state are not those of a finished epoch: the best is loaded, or an epoch was broken off."""

    # ------------------------------------------------------------------ counters

    @property
    def fold(self) -> int:
        """Fold of the cross-validation."""
        return self._fold

    @fold.setter
    def fold(self, fold: int) -> None:
        self._fold = check_fold(fold)
        if hasattr(self, "state"):  # not yet while the trainer is built
            self.state.fold = self._fold

    @property
    def stop_training(self) -> bool:
        """Whether the training ends after the running epoch."""
        return self.state.stop_training

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        self.state.stop_training = bool(stop)

    @property
    def network(self) -> Any:
        """The network; also called ``module``."""
        return self.module

    @property
    def losses(self) -> Mapping[str, Any]:
        """Loss functions by name."""
        return self.config.losses

    @property
    def train_metrics(self) -> Mapping[str, Any]:
        """Metrics of the training steps by name."""
        return self.config.train_metrics

    @property
    def val_metrics(self) -> Mapping[str, Any]:
        """Metrics of the validation by name."""
        return self.config.epoch_metrics

    @property
    def has_default_closure(self) -> bool:
        """Whether the network uses its room's closure, so that its losses can be validated."""
        return bool(getattr(self.closure_fn, "is_room_default", False))

    @property
    def score_key(self) -> str | None:
        """Validation score that decides which epoch is the best, as the running training names it."""
        return None if self._plan is None else self._plan.val_score_key

    @property
    def train_data(self) -> Any:
        """The data that ``train`` is at work on, for callbacks that change its transforms; else None."""
        return None if self._plan is None else self._plan.train_data

    @property
    def score_mode(self) -> str:
        """``"lowest"`` or ``"highest"``: which score is good."""
        return self.config.val_score_mode if self._plan is None else self._plan.val_score_mode

    @property
    def skips_validation(self) -> bool:
        """Whether the epoch that just ended was not validated though others are."""
        plan = self._plan
        return (
            plan is not None
            and plan.val_data is not None
            and not plan.validates(self.state.epoch, self.config.val_freq)
        )

    def register_callback(self, callback: Any) -> None:
        """Add a callback.

        Raises
        ------
        ConfigError
            If the object has none of the methods of a callback.
        """
        added = CallbackList([callback])
        self.callbacks.append(callback)
        added.attach(self)

    @staticmethod
    def _is_better_val_scores(old_val_score: float | None, new_val_score: float, mode: str = "lowest") -> bool:
        """Whether the new score is strictly better; anything but NaN is better than none."""
        if new_val_score != new_val_score or old_val_score is None:
            return new_val_score == new_val_score
        return new_val_score > old_val_score if score_mode(mode) == "highest" else new_val_score < old_val_score

    # ------------------------------------------------------------------ checkpoints

    def save_state(self, file_name: str | Path, epoch: int | None = None) -> Path:
        """Write network, optimizers and counters to a file, completely or not at all.

        Parameters
        ----------
        file_name
            Name of the file; the room's ending is added if it has none.
        epoch
            Number of finished epochs to record; the trainer's own if ``None``.
        """
        path = Path(file_name)
        if not path.suffix:
            path = path.with_name(path.name + self.backend.checkpoint_suffix)
        tree = self._checkpoint_tree()
        if epoch is not None:
            tree["epoch"] = int(epoch)
        return publish(path, lambda file: self.backend.write_checkpoint(file, tree))

    @classmethod
    def load_state(cls, file_name: str | Path) -> dict[str, Any]:
        """Verify and read a file written by :meth:`save_state`; nothing in it is executed.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged or no checkpoint.
        """
        path = Path(file_name)
        if not path.exists():
            path = path.with_name(path.name + cls.backend.checkpoint_suffix)
        verify_zip(path)
        return cls.backend.read_checkpoint(path)

    def update_state(self, file_name: str | Path) -> Any:
        """Continue from a file; returns the trainer."""
        return self._update_state(self.load_state(file_name))

    def _update_state(self, new_state: Mapping[str, Any]) -> Any:
        """Take a checkpoint over; nothing changes if its weights do not fit. Returns the trainer."""
        state = TrainingState.from_tree(new_state["state"]) if "state" in new_state else TrainingState(
            epoch=int(new_state.get("epoch") or 0), fold=self.fold, seed=self.config.seed
        )  # fmt: skip
        if (state.seed, state.fold) != (self.config.seed, self.fold):
            raise CheckpointError(
                f"the checkpoint is of seed {state.seed}, fold {state.fold}, the trainer of seed {self.config.seed}, "
                f"fold {self.fold}; use another save_path, or the same seed and fold"
            )
        self.backend.load_state_tree(new_state, self.module, self.optimizers)
        self.state = state
        try:
            self.callbacks.load_state_dict(state.callbacks)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"a callback cannot take its state of the checkpoint over: {error!r}") from error
        self._must_return = False
        return self

    def try_resume_training(self) -> bool:
        """Continue from the newest valid checkpoint of the folder; whether there was one."""
        newest = self.checkpoints.newest() if self.checkpoints.folder.is_dir() else None
        if newest is None:
            return False
        path, tree = newest
        try:
            self._update_state(tree)
        except CheckpointError as error:
            raise CheckpointError(f"cannot continue from {path}: {error}") from error
        return True

    def _return_to_last(self) -> None:
        """Before training goes on: undo the loading of the best weights, or what is half done of an epoch."""
        if not self._must_return:
            return
        if not self.checkpoints.path("last").exists():
            raise CheckpointError(
                "an epoch was broken off and there is no checkpoint to go back to; build a new trainer"
            )
        self.update_state(self.checkpoints.path("last"))

    def _save_epoch(self, plan: Any, is_best: bool) -> None:
        """Serialise the state once, under every name that this epoch deserves."""
        epoch, every = self.state.epoch, self.config.save_freq
        names = ["best"] if is_best else []  # first: a numbered file that says so must find it there
        if every is not None and epoch % every == 0:
            names.append(f"epoch_{epoch}")
        if names or epoch == plan.num_epochs or self.state.stop_training:
            self.checkpoints.save(self._checkpoint_tree(), *names, "last")

    def _best_tree(self) -> dict[str, Any] | None:
        """Content of the checkpoint of the best epoch."""
        for name in ("best", f"epoch_{self.state.best_epoch}"):
            path = self.checkpoints.path(name)
            if path.exists() and (tree := self.checkpoints.load(path)).get("epoch") == self.state.best_epoch:
                return tree
        _log.warning(
            "the checkpoint of the best epoch, %s, is not in %s; the network keeps the weights of the last epoch",
            self.state.best_epoch, self.checkpoints.folder,
        )  # fmt: skip
        return None

    def _checkpoint_tree(self) -> dict[str, Any]:
        self.state.callbacks = self.callbacks.state_dict()
        return {
            **self.backend.state_tree(self.module, self.optimizers),
            "epoch": self.state.epoch,
            "step": self.state.step_in_epoch,
            "state": self.state.to_tree(),
            "network": _describe(self.module),
            "format": FORMAT,
        }

    # ------------------------------------------------------------------ details of the loop

    def _closure_arguments(self, counters: Mapping[str, int]) -> dict[str, Any]:
        """Keywords of the closure: only those that its signature takes."""
        now = {"fold": self.fold, "hooks": self.hooks, "batch_nr": counters["iter_num"]}
        arguments = {**self._bound_arguments, **counters, **now}
        names = self._closure_names
        return arguments if names is None else {name: arguments[name] for name in names if name in arguments}

    @functools.cached_property
    def _bound_arguments(self) -> dict[str, Any]:
        config = self.config
        return {
            "optimizers": self.optimizers,
            "losses": config.losses,
            "metrics": config.train_metrics,
            "key_mapping": self.key_mapping,
            "loss_keys": config.loss_keys,
            "metric_keys": config.metric_keys,
            **config.extra,
        }

    @functools.cached_property
    def _closure_names(self) -> frozenset[str] | None:
        """Names the closure takes; ``None``: all."""
        parameters = inspect.signature(self.closure_fn).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return None
        return frozenset(parameter.name for parameter in parameters)

    def _default_metrics(self) -> Mapping[str, Any]:
        return self.config.epoch_metrics


def _describe(network: Any) -> dict[str, Any]:
    """Class and, where they are plain, arguments of a network."""
    arguments = dict(getattr(network, "init_kwargs", {}))
    try:
        arguments = json.loads(json.dumps(arguments))
    except (TypeError, ValueError):
        arguments = {}
    return {"class": f"{type(network).__module__}:{type(network).__qualname__}", "init_kwargs": arguments}
