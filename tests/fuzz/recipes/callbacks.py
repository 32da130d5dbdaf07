"""Callbacks of every kind: what they are made with is refused when they are made."""

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_PATH,
    NOT_A_SHARE,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_FINITE,
    NOT_NEGATIVE_OR_ZERO,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
)

from delira.training import callbacks as cb

NO_CLASSES = [0, 1, -2, 1.5, "x", NAN, None, [], STRANGE, True]
NO_MODE = [*NOT_A_TEXT, "nonsense", "highst", ""]
PARAMS = [5, NAN, STRANGE, True]
TRANSFORM = [value for value in NOT_CALLABLE if value is not None]
NO_TARGETS = [5, NAN, STRANGE, True, [5]]
COMMENT = NOT_A_TEXT
#: a hook that never runs: only what it is made of is looked at
HOOKS = [
    "on_backward", "on_checkpoint", "on_criterion", "on_criterion_validation", "on_end", "on_end_epoch",
    "on_end_training", "on_end_validation", "on_forward", "on_forward_validation", "on_init", "on_sample",
    "on_sample_validation", "on_start", "on_start_epoch", "on_start_training", "on_start_validation",
    "on_step_training", "on_step_validation",
]  # fmt: skip


def entry(name, good, wrong, **more):
    return Entry(name=f"delira.callbacks.{name}", good=lambda folder: dict(good), wrong=wrong, **more)


def in_folder(name, parameter, wrong, **more):
    """A callback that writes below a path."""
    return Entry(
        name=f"delira.callbacks.{name}",
        good=lambda folder: {parameter: folder / "out"},
        wrong={parameter: NOT_A_PATH, **wrong},
        **more,
    )


def runs_at(name):
    """The decorator of a hook: what it makes is told there, once."""

    def told(callback, folder):
        return getattr(callback, name)({"seen": 3})

    return Entry(
        name=f"delira.callbacks.{name}",
        good=lambda folder: {"*": [lambda state: state["seen"]]},
        use=told,
        expected=lambda arguments: 3,
        wrong={"*0": NOT_CALLABLE},
        own=["*0"],
        says={"*0": ["function"]},
    )


def initialiser(name, **wrong):
    return entry(name, {}, {"modules": [5, NAN, STRANGE, True], "targets": NO_TARGETS, **wrong})


ENTRIES = [
    *map(runs_at, HOOKS),
    entry(
        "EarlyStopping",
        {},
        {
            "monitor": NOT_A_TEXT,
            "min_delta": NOT_NEGATIVE_OR_ZERO,
            "patience": NOT_A_COUNT,
            "mode": NO_MODE,
            "step_on_batch": NOT_A_BOOL,
            "monitor_key": NOT_A_TEXT,
        },
        says={"monitor_key": ["monitor"]},
    ),
    entry("TerminateOnNaN", {}, {"monitor": NOT_A_TEXT}),
    *(
        entry(
            name,
            {"filepath": "x"},
            {
                "filepath": [*NOT_A_PATH, ""],
                "save_model_params_only": NOT_A_BOOL,
                "monitor": NOT_A_TEXT,
                "mode": NO_MODE,
                "period": NOT_POSITIVE_INT,
                "min_delta": NOT_NEGATIVE_OR_ZERO,
                **more,
            },
        )
        for name, more in (("Best", {}), ("ModelCheckpoint", {"save_best_only": NOT_A_BOOL}))
    ),
    entry("MostRecent", {}, {"filepath": [*NOT_A_PATH, ""], "save_model_params_only": NOT_A_BOOL}),
    entry(
        "Interval",
        {},
        {
            "filepath": [*NOT_A_PATH, ""],
            "save_model_params_only": NOT_A_BOOL,
            "period": NOT_POSITIVE_INT,
            "on_batch": NOT_A_BOOL,
        },
    ),
    in_folder(
        "CSVLogger",
        "filename",
        {
            "separator": NOT_A_TEXT,
            "batch_granularity": NOT_A_BOOL,
            "write_header": NOT_A_BOOL,
            "append": NOT_A_BOOL,
        },
    ),
    in_folder("HistoryWriter", "folder", {}),
    entry("SWA", {}, {"start_epoch": NOT_A_COUNT, "period": NOT_POSITIVE_INT, "update_statistics": NOT_A_BOOL}),
    entry(
        "ExponentialMovingAverage",
        {},
        {"decay": [*NOT_FINITE, -0.1, 1, 1.5], "warmup": NOT_A_BOOL, "update_statistics": NOT_A_BOOL},
    ),
    entry(
        "FreezeUnfreeze",
        {"schedule": {0: "weight"}},
        {"schedule": ["x", 5, NAN, STRANGE, True, {"a": "weight"}, {-1: "weight"}, {1.5: "w"}, {0: 5}, {0: [1]}, None]},
        says={"schedule": ["epoch is a whole number"]},
    ),
    entry(
        "LSUV",
        {"data_item": np.zeros((2, 3), np.float32)},
        {
            "weight_lambda": TRANSFORM,
            "needed_std": NOT_POSITIVE,
            "std_tol": NOT_POSITIVE,
            "max_attempts": NOT_POSITIVE_INT,
            "do_orthonorm": NOT_A_BOOL,
        },
        free={"data_item": "a batch, which the network reads or refuses at the first step"},
    ),
    *(
        initialiser(
            name,
            a=NOT_FINITE,
            mode=NO_MODE,
            nonlinearity=[*NOT_A_TEXT, "nonsense"],
        )
        for name in ("KaimingNormal", "KaimingUniform")
    ),
    *(initialiser(name, gain=NOT_POSITIVE) for name in ("XavierNormal", "XavierUniform")),
    initialiser("ZeroBias"),
    entry(
        "WeightInit",
        {"initialiser": lambda weight: weight},
        {"initialiser": [*NOT_CALLABLE, None], "modules": [5, NAN, STRANGE, True], "targets": NO_TARGETS},
    ),
    *(
        entry(
            name,
            {"n_holes": 1, "length": 2},
            {"n_holes": NOT_POSITIVE_INT, "length": NOT_POSITIVE_INT, "channels_first": NOT_A_BOOL, **more},
        )
        for name, more in (("Cutout", {"constant": NOT_FINITE}), ("RandomErase", {}))
    ),
    entry(
        "CutMix",
        {"alpha": 1.0},
        {
            "alpha": NOT_POSITIVE,
            "classes": NO_CLASSES,
            "mixup_loss": NOT_A_BOOL,
            "channels_first": NOT_A_BOOL,
        },
    ),
    entry("BCPlus", {}, {"mixup_loss": NOT_A_BOOL, "alpha": NOT_POSITIVE, "classes": NO_CLASSES}),
    entry("LabelSmoothingRegularisation", {"epsilon": 0.1}, {"epsilon": NOT_A_SHARE, "classes": NO_CLASSES}),
    *(
        entry(
            name,
            {},
            {"alpha": NOT_NEGATIVE_OR_ZERO, "lam": [*(v for v in NOT_A_SHARE if not isinstance(v, str)), "x", True]},
        )
        for name in ("Mixup", "ManifoldMixup")
    ),
    entry("SamplePairing", {}, {"policy": TRANSFORM}),
    entry(
        "mixing.default_policy",
        {},
        {"start": NOT_A_COUNT, "end": NOT_A_COUNT, "on": NOT_A_COUNT, "off": NOT_A_COUNT},
    ),
    *(
        Entry(
            name=f"delira.callbacks.{name}",
            good=lambda folder: {"loss": lambda prediction, target: 1.0},
            use=lambda made, folder: float(made(1, 2)),
            expected=lambda arguments: 1.0,
            wrong={"loss": [*NOT_CALLABLE, None]},
            own=["loss"],
        )
        for name in ("mixup_loss", "mixing.MixupLoss")
    ),
    entry(
        "PyCM",
        {},
        {
            "num_classes": NOT_POSITIVE_INT,
            "ignore_index": ["x", 1.5, NAN, [], STRANGE],
        },
        free={"pred_key": "any key of the state", "target_key": "any key of the state"},
        needs="pycm",
    ),
    entry("UnpackState", {"keys": ["a"]}, {"keys": [5, NAN, STRANGE, True, None], "output_to_state": NOT_A_BOOL}),
    entry(
        "CallbackList",
        {},
        {"callbacks": ["x", 5, [5], NAN, STRANGE, ["x"], [None]]},
        says={"callbacks": ["is no callback"]},
    ),
    entry("ConsolePrinter", {}, {"validation_label_letter": [5, NAN, [], STRANGE, True], "precision": NOT_A_COUNT}),
    entry(
        "LiveLossPlot",
        {},
        {
            "on_batch": NOT_A_BOOL,
            "batch_step_size": NOT_POSITIVE_INT,
            "on_epoch": NOT_A_BOOL,
            "draw_once": NOT_A_BOOL,
        },
    ),
    entry(
        "Profiler",
        {},
        {
            "wait": NOT_A_BOOL,
            "trace_dir": NOT_A_PATH,
            "trace_steps": ["x", 5, NAN, (1,), (3, 1), (-1, 2), (1.5, 2), STRANGE],
        },
    ),
    *(
        Entry(
            name=f"delira.callbacks.{name}",
            good=lambda folder: {"log_dir": folder / "logs"},
            wrong={
                "log_dir": NOT_A_PATH,
                "comment": NOT_A_TEXT,
                "visdom": NOT_A_BOOL,
                "visdom_params": ["x", 5, {}, STRANGE],
                **more,
            },
        )
        for name, more in (
            ("AbstractTensorBoard", {}),
            (
                "TensorBoard",
                {
                    "write_graph": NOT_A_BOOL,
                    "write_batch_metrics": NOT_A_BOOL,
                    "batch_step_size": NOT_POSITIVE_INT,
                    "write_epoch_metrics": NOT_A_BOOL,
                },
            ),
            (
                "TensorBoardText",
                {
                    "write_epoch_metrics": NOT_A_BOOL,
                    "write_batch_metrics": NOT_A_BOOL,
                    "log_trial_summary": NOT_A_BOOL,
                    "batch_step_size": NOT_POSITIVE_INT,
                },
            ),
            (
                "TensorBoardImages",
                {
                    "name": NOT_A_TEXT,
                    "key": [],
                    "write_each_epoch": NOT_A_BOOL,
                    "num_images": NOT_POSITIVE_INT,
                },
            ),
        )
    ),
    Entry(
        name="delira.callbacks.TensorBoardProjector",
        good=lambda folder: {"log_dir": folder / "logs"},
        wrong={
            "log_dir": NOT_A_PATH,
            "comment": NOT_A_TEXT,
            "num_images": NOT_POSITIVE_INT,
            "avg_pool_size": NOT_POSITIVE_INT,
            "avg_data_channels": NOT_A_BOOL,
            "write_data": NOT_A_BOOL,
            "write_features": NOT_A_BOOL,
        },
        free={"features_key": "any key of the state"},
    ),
    *(
        entry(
            name,
            {},
            {"transform": TRANSFORM, "channels_last": NOT_A_BOOL, **more},
            free=dict.fromkeys(("source", "key"), "any key of the state"),
        )
        for name, more in (
            ("ImagingCallback", {}),
            ("CachingImagingCallback", {"num_images": NOT_POSITIVE_INT}),
            ("MakeGrid", {"num_images": NOT_POSITIVE_INT, "nrow": NOT_POSITIVE_INT, "padding": NOT_A_COUNT}),
        )
    ),
    entry(
        "FromState",
        {"key": "x"},
        {"transform": TRANSFORM, "channels_last": NOT_A_BOOL},
        right={"key": ["y", 5]},
        free={"key": "any key of the state"},
    ),
    Entry(
        name="delira.callbacks.make_grid",
        good=lambda folder: {"images": np.arange(4 * 2 * 3, dtype=np.float32).reshape(4, 1, 2, 3)},
        use=lambda grid, folder: grid.shape,
        expected=lambda arguments: (
            1,
            grid_side(2, arguments, -(-4 // arguments.get("nrow", 8))),
            grid_side(3, arguments, min(4, arguments.get("nrow", 8))),
        ),
        right={"nrow": [1, 2, 3], "padding": [0, 5]},
        wrong={
            "images": ["x", 5, NAN, [], STRANGE, np.zeros(3), np.zeros((0, 1, 2, 2)), None],
            "nrow": NOT_POSITIVE_INT,
            "padding": NOT_A_COUNT,
            "normalize": NOT_A_BOOL,
            "norm_range": ["x", 5, (1,), (2, 1), (NAN, 1), STRANGE],
            "scale_each": NOT_A_BOOL,
            "pad_value": NOT_FINITE,
        },
    ),
    entry(
        "VisdomParams",
        {},
        {
            "server": NOT_A_TEXT,
            "port": [*NOT_A_COUNT, 70000],
            "base_url": NOT_A_TEXT,
            "env": NOT_A_TEXT,
            "username": NOT_A_TEXT,
            "password": [5, NAN, [], STRANGE],
            "options": ["x", 5, [1], STRANGE],
        },
    ),
    entry("bind_to", {"hook": "on_end"}, {"hook": ["nonsense", "", 5, NAN, [], STRANGE, None, print]}),
    entry("add_to_loss", {"function": lambda state: 1}, {"function": [*NOT_CALLABLE, None]}),
    entry("only_if", {"condition": lambda state: True}, {"condition": [*NOT_CALLABLE, None]}),
    *(
        entry(name, {"function": cb.on_end(lambda state: 1)}, {"function": [*NOT_CALLABLE, None]})
        for name in ("once", "once_per_epoch", "traceable")
    ),
]


def grid_side(size, arguments, count):
    """Length of a side of the grid, as torchvision lays it out."""
    padding = arguments.get("padding", 2)
    return (size + padding) * count + padding
