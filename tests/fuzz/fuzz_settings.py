"""What is wrong for each setting of a training, wherever it is given: to trainers, experiments, run and kfold."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_CHOICE,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_PATH,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
    raises_user_error,
)

from delira.inference import SlidingWindow

#: dictionaries of functions by name
FUNCTIONS = [*NOT_A_MAPPING, {"a": 5}, {"a": "x"}, {5: len}]
#: names of the entries that a function reads
KEYS = [*NOT_A_MAPPING, {"nonsense": ["label", "pred"]}, {"loss": 5}]
PARAMETERS = [*NOT_A_MAPPING, {5: 1}]

#: parts that a trainer is given
PARTS: dict[str, list[Any]] = {
    "config": ["x", 5, NAN, [], {}, STRANGE],
    "objective": ["x", 5, NAN, [], STRANGE],
    "ranks": ["x", 5, NAN, (0, 1), STRANGE],
}

WRONG: dict[str, list[Any]] = {
    "fold": NOT_A_COUNT,
    "start_epoch": NOT_POSITIVE_INT,
    "callbacks": ["x", 5, NAN, STRANGE, [5], ["x"]],
    "loss_keys": KEYS,
    "train_metrics": FUNCTIONS,
    "val_metrics": FUNCTIONS,
    "metrics": FUNCTIONS,
    "metric_keys": KEYS,
    "gpu_ids": ["x", 5, NAN, [1.5], [-1], ["a"], STRANGE],
    "device": [5, 1.5, NAN, [], {}, STRANGE, "nonsense", ""],
    "devices": [value for value in NOT_POSITIVE_INT if value is not None],
    "shard": NOT_A_BOOL,
    "shard_transforms": NOT_A_BOOL,
    "sync_batchnorm": NOT_A_BOOL,
    "num_threads": [value for value in NOT_POSITIVE_INT if value is not None],
    "val_freq": NOT_POSITIVE_INT,
    "val_score_key": [5, 1, NAN, [], STRANGE, True, ""],
    "val_inference": ["x", 5, NAN, [], STRANGE, (4, 4)],
    "val_tta": ["x", 5, NAN, [], STRANGE, (0, 1), SlidingWindow(4)],
    "val_score_mode": [*NOT_A_TEXT, "nonsense", "highst", ""],
    "reduce_mode": NOT_A_CHOICE,
    "seed": [value for value in NOT_A_COUNT if not isinstance(value, bool)],
    "convert_batch_to_npy_fn": [*NOT_CALLABLE],
    "extra": PARAMETERS,
    "optimizer_cls": ["x", 5, NAN, [], {}, STRANGE],
    "optimizer_params": [*PARAMETERS, {"nonsense": 1}, {"lr": -1}, {"lr": NAN}, {"lr": "x"}, {"lr": None}],
    "optim_fn": NOT_CALLABLE,
    "lr_scheduler_cls": ["x", 5, NAN, [], STRANGE],
    "lr_scheduler_params": NOT_A_MAPPING,
    "gradient_accumulation_steps": NOT_POSITIVE_INT,
    "gradient_clip_norm": NOT_POSITIVE,
    "gradient_clip_value": NOT_POSITIVE,
    "mixed_precision": ["nonsense", 5, NAN, [], STRANGE],
    "compiled": ["x", 5, NAN, [1], STRANGE],
    "jit_compile": NOT_A_BOOL,
    "logging_type": ["nonsense", 5, NAN, [5], STRANGE],
    "logging_kwargs": PARAMETERS,
    "logging_frequencies": ["x", 0, -1, 1.5, NAN, [], STRANGE, {"a": 0}],
    "logging_reductions": ["nonsense", 5, NAN, [], STRANGE, {"a": "nonsense"}],
    "log_freq": NOT_POSITIVE_INT,
    "verbose": ["yes", -1, 3, 1.5, NAN, [], STRANGE],
    "save_freq": [value for value in NOT_POSITIVE_INT if value is not None],
    "save_freq_steps": [value for value in NOT_POSITIVE_INT if value is not None],
    "save_freq_minutes": NOT_POSITIVE,
    "keep_last_checkpoints": [value for value in NOT_POSITIVE_INT if value is not None],
    "keep_best_checkpoints": [value for value in NOT_POSITIVE_INT if value is not None],
    "save_in_background": NOT_A_BOOL,
    "on_save_error": NOT_A_CHOICE,
    "save_on_signal": NOT_A_BOOL,
    "nonfinite": NOT_A_CHOICE,
    "rollback_factor": [*NOT_POSITIVE, 1.5],
    "max_rollbacks": NOT_A_COUNT,
    "micro_batches": [*NOT_POSITIVE_INT, "nonsense"],
    "deterministic": NOT_A_BOOL,
    "nonfinite_predictions": NOT_A_CHOICE,
    "output": NOT_A_CHOICE,
    "losses": [*FUNCTIONS, {}],
    "key_mapping": [*NOT_A_MAPPING, {"x": "nonsense"}],
}
#: settings that change nothing about two epochs of a small training
RIGHT: dict[str, list[Any]] = {
    "save_freq": [1, 2, None],
    "verbose": [0, False],
    "keep_last_checkpoints": [1, None],
    "save_in_background": [True],
    "nonfinite": ["skip"],
    "seed": [5, np.int64(3)],
    "log_freq": [1, 7],
    "val_freq": [2],
    "gradient_clip_norm": [1e6, None],
    "gradient_clip_value": [1e6],
    "rollback_factor": [0.25],
    "deterministic": [True],
}
#: words of messages that name the culprit as well as the setting does
SAYS: dict[str, list[str]] = {
    "network": ["has no closure"],
    "callbacks": ["is no callback"],
    "val_metrics": ["there is no metric"],
    "metrics": ["there is no metric"],
    "params": ["parameter", "Parameters"],
    "n_epochs": ["num_epochs"],
}
#: settings that an experiment gives to its trainers itself
OF_TRAINERS = ("fold", "start_epoch", "callbacks", "losses")
#: settings that take a function of the user's, which a training calls
OWN: dict[str, Any] = {
    "losses": {"loss": raises_user_error},
    "val_metrics": {"metric": raises_user_error},
    "train_metrics": {"metric": raises_user_error},
}


def wrong_of_experiment(settings: Mapping[str, list[Any]] = WRONG, **more: list[Any]) -> dict[str, list[Any]]:
    """Return what is wrong for each parameter of an experiment, given that for settings; ``more`` goes first."""
    return {
        **{name: values for name, values in settings.items() if name not in OF_TRAINERS},
        "params": [5, NAN, STRANGE, [], True],
        "config": [5, {}, STRANGE, True],
        "model_cls": ["x", 5, NAN, [], STRANGE, None, int],
        "n_epochs": NOT_A_COUNT,
        "name": [value for value in NOT_A_TEXT if value is not None],
        "save_path": NOT_A_PATH,
        "trainer_cls": ["x", 5, NAN, [], STRANGE, int],
        "predictor_cls": ["x", 5, NAN, [], STRANGE, int],
        **more,
    }
