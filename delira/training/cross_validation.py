"""k-fold cross-validation: one fresh training for each fold, tested on what it never saw."""

import copy
import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.errors import ConfigError
from delira.metrics import MetricSet
from delira.training.checks import check_metrics
from delira.training.generators import own_generators, seed_generators
from delira.training.leakage import find_leaks
from delira.training.plan import warn_of_score
from delira.training.predictor import Evaluation
from delira.training.result import FoldResult, KFoldResult
from delira.training.run_folder import RunFolder
from delira.training.splits import Split, SplitConfig, Splitter, fingerprint
from delira.utils import yaml_codec
from delira.utils.files import publish, publish_text
from delira.utils.trees import iterate_leaves


@dataclasses.dataclass(frozen=True, kw_only=True)
class CrossValidation:
    """One cross-validation, as the experiment was asked for it."""

    experiment: Any
    data: BaseDataManager
    request: Any
    """The experiment's resolved settings."""
    split: SplitConfig
    metrics: Mapping[str, Any]
    """Test metrics by name."""
    metric_keys: Mapping[str, Any]
    train_kwargs: Mapping[str, Any]
    """Changes of the manager for training, e.g. ``{"transforms": …}``."""
    test_kwargs: Mapping[str, Any]
    """Changes of the manager for validation and testing."""
    resume: str | Path | None
    """``None``, ``"auto"`` or a run folder."""

    def run(self) -> KFoldResult:
        """Train and test every fold."""
        if not isinstance(self.data, BaseDataManager):
            raise ConfigError(
                f"kfold divides the data itself, so it needs a BaseDataManager, got {type(self.data).__name__}"
            )
        dataset = self.data.dataset
        seed = self.request.seed if self.split.random_seed is None else self.split.random_seed
        splitter = Splitter(dataset, self.split, seed)
        MetricSet(self.metrics, self.metric_keys)  # a wrong name fails here, not after the first fold
        splits = list(splitter)
        leaks = find_leaks(self.data, self.split, splits, self.request.key_mapping)
        folder = self.experiment.open_folder(
            dataclasses.replace(self.request, changes=self._changes()),
            self.data,
            self.resume,
            kind="kfold",
            num_splits=len(splits),
            split_type=self.split.describe(),
            splits=fingerprint(splits),
            options=yaml_codec.encode(self._options()),
        )
        if self.split.val_split is None and (key := self.request.settings.get("val_score_key")) is not None:
            warn_of_score(key, stacklevel=3)
        folds = []
        with folder.recorded():
            for number, split in enumerate(splits):
                folder.log("fold_started", fold=number)
                fold = self._run_fold(folder, number, split)
                means = {name: float(np.mean(array)) for name, array in fold.metrics.items()}
                folder.log("fold_finished", fold=number, metrics=means, seconds=round(fold.seconds, 3))
                folds.append(fold)
        return KFoldResult(
            folds,
            n_samples=len(dataset),
            metrics=self.metrics,
            metric_keys=self.metric_keys,
            groups=splitter.groups,
            seed=self.request.seed,
            name=self.experiment.name,
            path=folder.path,
            info={**self._describe(folder), **leaks},
        )

    def _changes(self) -> dict[str, Any]:
        return {"train_kwargs": dict(self.train_kwargs), "test_kwargs": dict(self.test_kwargs)}

    def _options(self) -> dict[str, Any]:
        """What was asked for besides the settings of the trainer, for the manifest."""
        return {**vars(self.split), **self._changes(), "metrics": dict(self.metrics)}

    def _describe(self, folder: RunFolder) -> dict[str, Any]:
        """What the report says about the run: the manifest, with the settings as they are written in YAML."""
        info = folder.read_manifest()
        for name in ("settings", "fingerprint", "splits", "num_splits", "n_samples", "kind", "batches", "options"):
            info.pop(name, None)
        settings = {
            "model": self.request.params.model_kwargs(),
            "training": dict(self.request.settings),
            "data": _stated(self.data.describe()),
            "kfold": _stated(self._options()),
        }
        return {**info, "command": " ".join(info.get("command", ())), "settings": yaml_codec.dumps(settings).rstrip()}

    def _run_fold(self, folder: RunFolder, number: int, split: Split) -> FoldResult:
        started = time.perf_counter()
        request = self.request.for_fold(number)
        if split.val is None:
            request = dataclasses.replace(request, settings={**request.settings, "val_score_key": None})
        trainer = self.experiment.build_trainer(request, folder.fold(number))
        if trainer.state.epoch > request.num_epochs:
            raise ConfigError(
                f"fold {number} was trained for {trainer.state.epoch} epochs already, more than num_epochs="
                f"{request.num_epochs}; begin a new cross-validation"
            )
        if number == 0:
            self._check_test(trainer, split)
        val = None if split.val is None else self._manager(split.val, self.test_kwargs, held_out=True)
        train, test = self._manager(split.train, self.train_kwargs), self._test_manager(split)
        trainer.train(request.num_epochs, train, val)
        done = self._test(trainer, test)
        tested = np.delete(split.test, [*test.left_out])
        _save_predictions(trainer.save_path / "predictions.npz", tested, done)
        left_out = _keep_left_out(
            trainer.save_path / "left_out.json",
            {**_left_out(train, split.train), **_left_out(val, split.val), **_left_out(test, split.test)},
        )
        return FoldResult(
            fold=number,
            train_indices=split.train,
            val_indices=split.val,
            test_indices=tested,
            left_out=left_out,
            metrics=done.metrics,
            predictions=done.predictions,
            targets=done.targets,
            history=trainer.state.history,
            best_epoch=trainer.state.best_epoch,
            best_score=trainer.state.best_score,
            path=trainer.save_path,
            parameters=request.params,
            callbacks=request.callbacks,
            seconds=time.perf_counter() - started,
        )

    def _manager(self, indices: np.ndarray, changes: Mapping[str, Any], *, held_out: bool = False) -> BaseDataManager:
        if held_out:  # each sample once and in order, however the training samples
            changes = {"sampler_cls": SequentialSampler, "sampler_kwargs": None, "drop_last": False, **changes}
        manager = self.data.with_own_transforms()
        if changes:
            manager.update_state_from_dict(copy.deepcopy(dict(changes)))
        return manager.get_subset(indices)

    def _check_test(self, trainer: Any, split: Split) -> None:
        """Try the test metrics on one batch, before a fold is trained."""
        with trainer.backend.threads(trainer.config.num_threads), own_generators(trainer.backend):
            batch = self._test_manager(split).first_batch(trainer.seed) or {}
            check_metrics(trainer, self.metrics, self.metric_keys, batch)

    def _test_manager(self, split: Split) -> BaseDataManager:
        return self._manager(split.test, _without_order(self.test_kwargs), held_out=True)

    def _test(self, trainer: Any, manager: BaseDataManager) -> Evaluation:
        read = MetricSet(self.metrics, self.metric_keys).entries
        with trainer.backend.threads(trainer.config.num_threads), own_generators(trainer.backend):
            # networks may draw random numbers in evaluation mode, too
            seed_generators(trainer.backend, trainer.seed, trainer.fold, stream="test")
            return trainer.evaluate(
                manager,
                metrics=self.metrics,
                metric_keys=self.metric_keys,
                targets=read | {self.split.label_key},
            )


def _left_out(manager: BaseDataManager | None, indices: np.ndarray | None) -> dict[int, str]:
    """What a manager of a part left out, by the samples' indices in the whole dataset."""
    if manager is None or indices is None:
        return {}
    return {int(indices[index]): reason for index, reason in manager.left_out.items()}


def _keep_left_out(path: Path, found: Mapping[int, str]) -> dict[int, str]:
    """Add to what earlier sessions of the fold left out: a fold that is finished does not train again."""
    earlier = json.loads(path.read_text("utf-8")) if path.exists() else {}
    left_out = {**{int(index): reason for index, reason in earlier.items()}, **found}
    if left_out:
        publish_text(path, json.dumps(dict(sorted(left_out.items())), indent=1))
    return left_out


def _stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that say something; 0 does."""
    said = (name for name, value in options.items() if value is not None and value is not False)
    return {name: options[name] for name in said if not (isinstance(options[name], Mapping) and not options[name])}


def _without_order(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Testing needs every sample once and in order: a sampler in ``test_kwargs`` holds for validation only."""
    ordering = ("sampler", "sampler_cls", "sampler_kwargs", "sampling_kwargs", "drop_last")
    return {name: value for name, value in changes.items() if name not in ordering}


def _save_predictions(path: Path, indices: np.ndarray, done: Evaluation) -> None:
    """Keep a fold's predictions as arrays named by their path in the tree."""
    arrays: dict[str, Any] = {"indices": indices}
    for place, array in iterate_leaves(done.predictions):
        if isinstance(array, np.ndarray) and not array.dtype.hasobject:  # ragged ones cannot be stored safely
            arrays["/".join(("predictions", *map(str, place)))] = array
    publish(path, lambda file: np.savez(file, **arrays))
