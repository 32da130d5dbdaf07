"""A run that is continued with one thing changed: refused with the difference, or the bits of the unbroken run.

Every setting of a training is changed, and everything else that a run or a cross-validation is made of; what may change
is listed in ``FREE``. ``make test`` draws 40 changes of the toy backend; ``make full`` makes all, in PyTorch too.
"""

import os
import random
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz_settings import WRONG
from problems import linear_problem
from small_backends import build_kit

from delira.data_loading import BaseDataManager, RandomSampler
from delira.errors import DeliraError
from delira.inference import SlidingWindow, TestTimeAugmentation
from delira.settings.config import PARTS, PLAIN
from delira.training.callbacks import AbstractCallback, EarlyStopping, TerminateOnNaN

SEED = int(os.environ.get("DELIRA_FUZZ_SEED", "0"))
EPOCHS = 3
#: settings that say where numbers go and when they are kept, and not what they are: docs/nothing_lost.md
FREE: dict[str, Any] = {
    "verbose": True,
    "log_freq": 7,
    "logging_type": None,
    "logging_kwargs": {},
    "logging_frequencies": {},
    "logging_reductions": {},
    "save_freq": 2,
    "save_freq_steps": 3,
    "save_freq_minutes": 5.0,
    "keep_last_checkpoints": 2,
    "keep_best_checkpoints": 2,
    "save_in_background": True,
    "on_save_error": "warn",
    "save_on_signal": False,
}


class Halt(Exception):
    """Ends a run before its time."""


class HaltAt(AbstractCallback):
    """Ends a run before one of its epochs; of no matter to the numbers."""

    only_watches = True

    def __init__(self, epoch):
        self.epoch = epoch

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == self.epoch:
            raise Halt


class InStep(AbstractCallback):
    """Acts inside of the step."""

    def __init__(self, strength=1.0):
        self.strength = strength

    def on_backward(self, trainer, **facts):
        """Do nothing."""


def mae(y_true, y_pred):
    return float(np.abs(np.asarray(y_true) - np.asarray(y_pred)).mean())


def mse(y_true, y_pred):
    return float(((np.asarray(y_true) - np.asarray(y_pred)) ** 2).mean())


def double(batch):
    return {**batch, "data": batch["data"] * 2}


def network_of(kit, method="doubled"):
    """A network class as a user writes it, with one method of its own."""

    def doubled(self, value):
        return value + value

    def tripled(self, value):
        return 3 * value

    code = {"doubled": doubled, "tripled": tripled}[method]
    return type("Network", (kit.network,), {"times": code, "__module__": __name__, "__qualname__": "Network"})


def other_code(backend):
    """The same class with another method, as after an edit of its file."""
    return network_of(backend, "tripled")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is asked for now, and was not when the run began."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Of :func:`samples`."""
    val: Mapping[str, Any] = field(default_factory=dict)
    cls: Callable[[Any], Any] | None = None
    says: tuple[str, ...] = ()
    """Words that name what differs; none: it may differ."""
    kind: str = "run"

    def __str__(self) -> str:
        return f"{self.kind}, {self.name}"


def other_loss(kit):
    """The same loss under another name would be another one; so is a function of other code."""
    return {"mse": lambda pred, target: kit.loss(pred, target)}


def settings_of(kit) -> dict[str, Any]:
    """What each setting is changed into."""
    free = dict(FREE)
    return free | {
        "losses": other_loss(kit),
        "loss_keys": {"mse": ["pred", "number"]},
        "train_metrics": {"mae": mae},
        "val_metrics": {"err": mae},
        "metrics": {"mae": mae},
        "metric_keys": {"err": ["number", "pred"]},
        "gpu_ids": [0],
        "device": "cuda:0",
        "devices": 2,
        "shard": True,
        "shard_transforms": True,
        "sync_batchnorm": True,
        "num_threads": 2,
        "val_freq": 2,
        "val_score_key": "mse",
        "val_score_mode": "highest",
        "val_inference": SlidingWindow(4),
        "val_tta": TestTimeAugmentation(flips=0),
        "output": "logits",
        "reduce_mode": "sum",
        "seed": 3,
        "convert_batch_to_npy_fn": lambda **predictions: ((), predictions),
        "extra": {"a": 1},
        "optimizer_cls": type("Other", (kit.optimizer_cls,), {}),
        "optimizer_params": {"lr": 0.2, "momentum": 0.5},
        "optim_fn": lambda model, cls, **params: {"default": cls(model.parameters(), **params)},
        "lr_scheduler_cls": kit.halving().get("lr_scheduler_cls", EarlyStopping),
        "lr_scheduler_params": {"gamma": 0.3},
        "gradient_accumulation_steps": 2,
        "gradient_clip_norm": 1.0,
        "gradient_clip_value": 0.5,
        "mixed_precision": "bf16",
        "compiled": True,
        "jit_compile": True,
        "nonfinite": "skip",
        "nonfinite_predictions": "raise",
        "rollback_factor": 0.25,
        "max_rollbacks": 7,
        "micro_batches": 2,
        "deterministic": True,
    }


def changes_of(backend) -> list[Change]:
    """Everything that can be changed, one thing at a time."""
    settings = [
        Change(
            name=f"{name}={value!r:.40}",
            settings={name: value},
            says=() if name in FREE else (f"training.{name}", name),
            kind=kind,
        )
        for name, value in settings_of(backend).items()
        for kind in ("run", "kfold")
    ]
    callbacks = [
        Change(name="a callback came", call={"callbacks": [TerminateOnNaN()]}, says=("TerminateOnNaN",), kind=kind)
        for kind in ("run", "kfold")
    ]
    return [
        *settings,
        *callbacks,
        *(Change(name="nothing", kind=kind) for kind in ("run", "kfold")),
        Change(name="a callback in the step came", call={"callbacks": [InStep()]}, says=("InStep",)),
        Change(name="a callback that watches came", call={"callbacks": [HaltAt(99)]}),
        Change(name="patience", call={"callbacks": [EarlyStopping("mse", patience=9)]}, says=("EarlyStopping",)),
        Change(name="fold", call={"fold": 1}, says=("fold",)),
        Change(name="dropout", model={"dropout": 0.5}, says=("model.dropout",)),
        Change(name="n_features", model={"n_features": 4}, says=("model.n_features",)),
        Change(name="code", cls=other_code, says=("code",)),
        *of_the_data("run"),
        *of_the_data("kfold"),
        Change(name="other validation labels", val={"shift": 1.0}, says=("validation",)),
        Change(name="fewer validation samples", val={"n": 7}, says=("validation",)),
        Change(name="validation batches", val={"batch_size": 3}, says=("validation",)),
        Change(name="no validation", call={"val": None}, says=("validation",)),
        *(
            Change(name=f"{name}={value!r}", call={name: value}, says=(name,), kind="kfold")
            for name, value in SPLITS.items()
        ),
        Change(
            name="train_kwargs", call={"train_kwargs": {"transforms": double}}, says=("train_kwargs",), kind="kfold"
        ),
        Change(name="test_kwargs", call={"test_kwargs": {"transforms": double}}, says=("test_kwargs",), kind="kfold"),
        Change(name="check_duplicates", call={"check_duplicates": True}, kind="kfold"),
        Change(name="keep_predictions", call={"keep_predictions": False}, kind="kfold"),
        Change(name="predictions_dtype", call={"predictions_dtype": "float32"}, kind="kfold"),
        Change(name="more test metrics", call={"metrics": {"mse": mse, "mae": mae}}, kind="kfold"),
        Change(name="the first fold", call={"folds": [0]}, kind="kfold"),
    ]


SPLITS = {
    "num_splits": 3,
    "random_seed": 6,
    "shuffle": True,
    "val_split": 0.5,
    "split_type": "group",
    "groups_key": "number",
}


def of_the_data(kind: str) -> list[Change]:
    """Changes of the samples and of their batches."""
    return [
        Change(name="one label", data={"shift": 1e-9}, says=("dataset",), kind=kind),
        Change(name="one sample more", data={"n": 25}, says=("dataset",), kind=kind),
        Change(name="other order", data={"is_reversed": True}, says=("dataset",), kind=kind),
        Change(name="another dtype", data={"dtype": np.float32}, says=("dataset",), kind=kind),
        Change(name="an entry more", data={"more": {"site": np.zeros(24)}}, says=("dataset",), kind=kind),
        Change(name="batch_size", data={"batch_size": 3}, says=("data.batch_size",), kind=kind),
        Change(name="drop_last", data={"drop_last": True}, says=("data.drop_last",), kind=kind),
        Change(name="transforms", data={"transforms": double}, says=("data.transforms",), kind=kind),
        Change(name="sampler", data={"sampler_cls": RandomSampler}, says=("data.sampler",), kind=kind),
    ]


def samples(n=24, seed=7, shift=0.0, batch_size=4, is_reversed=False, dtype=None, more=None, **settings):
    """A data manager."""
    arrays = linear_problem(n, 3, seed) | (more or {})
    arrays["label"][-1] += shift
    arrays = {name: array[::-1].copy() if is_reversed else array for name, array in arrays.items()}
    if dtype is not None:
        arrays["data"] = arrays["data"].astype(dtype)
    return BaseDataManager(arrays, batch_size, **settings)


def train(kit: Any, path: Path, change: Change, resume: Path | None = None, callbacks: tuple[Any, ...] = ()) -> Any:
    """Train, or go on, as the change asks for it; return the numbers."""
    training: dict[str, Any] = {
        "num_epochs": EPOCHS,
        "save_freq": 1,
        "val_score_key": "err",
        "val_score_mode": "lowest",
    }
    training |= {"val_metrics": {"err": mse}, "seed": 0, **change.settings}
    experiment = kit.experiment(
        path, model=change.model, cls=(change.cls or network_of)(kit), training=training, name="one"
    )
    call = dict(change.call)
    call["callbacks"] = [*call.get("callbacks", ()), *callbacks]
    data = samples(**change.data)
    if change.kind == "kfold":
        asked = {"num_splits": 2, "random_seed": 5, "val_split": 0.25, "metrics": {"mse": mse}, **call}
        result = experiment.kfold(data, resume=resume, **asked)
        return {fold.fold: (fold.metrics["mse"].tolist(), *map(str, fold.history)) for fold in result.folds}
    val = call.pop("val", samples(**{"n": 8, "seed": 1, **change.val}))
    network = experiment.run(data, val, resume=resume, **call)
    return kit.read(network).tolist()


def broken_off(backend: Any, path: Path, kind: str) -> Path:
    """A run that ended before its last epoch."""
    with pytest.raises(Halt):
        train(backend, path, Change(name="nothing", kind=kind), callbacks=(HaltAt(EPOCHS),))
    (run,) = (path / "one").iterdir()
    return run


def trouble_of(backend: Any, change: Change, run: Path, path: Path, unbroken: Any) -> str:
    """Continue a copy of the run with the change; return what is wrong about it."""
    copy = shutil.copytree(run, path / "one" / run.name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = train(backend, path, change, resume=copy)
    except DeliraError as error:
        if not change.says:
            return f"refused: {error}"
        return "" if any(word in str(error) for word in change.says) else f"the difference is not named: {error}"
    except Exception as error:
        return f"raw error: {type(error).__name__}: {error}"
    if change.says:
        return "continued in silence" + ("" if got != unbroken else ", to the same bits")
    if isinstance(got, dict):  # some folds
        unbroken = {number: unbroken[number] for number in got}
    return "" if got == unbroken else f"other numbers: {got} instead of {unbroken}"


def troubles(backend_name: str, tmp_path: Path, count: int | None = None) -> list[str]:
    """Make the changes, or some of them."""
    kit = build_kit(backend_name)
    changes = changes_of(kit)
    rng = random.Random(SEED)
    changes = changes if count is None else rng.sample(changes, count)
    lines = []
    for kind in ("run", "kfold"):
        run = broken_off(kit, tmp_path / kind / "broken off", kind)
        unbroken = train(kit, tmp_path / kind / "unbroken", Change(name="nothing", kind=kind))
        for number, change in enumerate(changes):
            if change.kind == kind and (line := trouble_of(kit, change, run, tmp_path / kind / str(number), unbroken)):
                lines.append(f"{change}: {line}")
    return lines


def test_every_setting_is_changed():
    toy = build_kit("toy")
    assert {*PLAIN, *PARTS} - {"key_mapping"} <= {*settings_of(toy)}
    assert {*settings_of(toy)} <= {*WRONG}


def test_one_change_is_refused_by_name_or_changes_no_bit(tmp_path):
    assert not (lines := troubles("toy", tmp_path, 40)), "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["toy", "torch"])
def test_all_changes_are_refused_by_name_or_change_no_bit(backend, tmp_path):
    assert not (lines := troubles(backend, tmp_path)), "\n".join(lines)
