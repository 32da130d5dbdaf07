"""What trainings are made of and what they leave: parameters, settings, states, results, predictors, preprocessing."""

import numpy as np
from fuzz_cases import Entry
from fuzz_settings import WRONG
from fuzz_toys import WEIGHT, data, descended, of_experiment, of_toy, toy
from fuzz_training import INPUTS
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_NUMBER,
    NOT_A_PATH,
    NOT_CALLABLE,
    NOT_POSITIVE_INT,
    STRANGE,
)

from delira.testing import ToyNetwork
from delira.training import KFoldResult

# ---------------------------------------------------------------------- parameters and settings


def merged_settings(parameters, folder):
    return [parameters.model_kwargs(), parameters.training_settings()]


def merged_by_hand(arguments):
    """Fixed entries, and variable ones over them."""
    fixed, variable = ((arguments.get(name) or {}) for name in ("fixed_params", "variable_params"))
    return [{**fixed.get(part, {}), **variable.get(part, {})} for part in ("model", "training")]


NO_PARAMETERS = ["x", 5, NAN, [1], STRANGE, True, {"model": 5}, {"training": "x"}]
#: settings of a TrainerConfig that are objects of their own
PARTS = ("optimizer", "schedule", "update", "compiling", "logging", "saving", "guards")
PLAIN = (
    "losses", "loss_keys", "train_metrics", "val_metrics", "metrics", "metric_keys", "gpu_ids", "device", "devices",
    "shard", "shard_transforms", "sync_batchnorm",
    "num_threads", "val_freq", "val_score_key", "val_score_mode", "val_inference", "val_tta", "output", "reduce_mode",
    "seed", "convert_batch_to_npy_fn", "extra",
)  # fmt: skip


def of_config(folder):
    return {"losses": dict(of_toy(folder)["losses"]), "val_freq": 2}


# ---------------------------------------------------------------------- states and results


COUNTERS = ("epoch", "step_in_epoch", "batch_in_epoch", "global_step", "fold", "rollbacks")


def tree_of(state, folder):
    """The counters, as a checkpoint holds them, and read again."""
    again = type(state).from_tree(state.to_tree())
    return [again.epoch, again.global_step, again.is_new]


def of_fold(folder=None, number=0, test=(2, 3), train=(0, 1)):
    return {"fold": number, "train_indices": list(train), "val_indices": None, "test_indices": list(test)}


def sizes(fold, folder):
    return [fold.fold, len(fold.train_indices), len(fold.test_indices), repr(fold).startswith("FoldResult(")]


def folds(*pairs):
    from delira.training import FoldResult

    made = []
    for number, (train_part, test) in enumerate(pairs):
        values = {"mae": np.array([float(number)])}
        made.append(FoldResult(**of_fold(None, number, test, train_part), metrics=values))
    return made


TWO_FOLDS = (((2, 3), (0, 1)), ((0, 1), (2, 3)))


def of_result(folder):
    return {"folds": folds(*TWO_FOLDS), "n_samples": 4}


def of_curve(folder):
    info = {"train_sizes": [2, 4], "num_splits": 2}
    return {"result": KFoldResult(folds(*TWO_FOLDS), 4, info=info)}


def means(result, folder):
    """The mean over folds, and how many there are."""
    outputs, metrics = result
    assert str(result)
    return [len(outputs), float(np.mean([values["mae"] for values in metrics.values()]))]


NO_INDICES = ["x", 5, NAN, STRANGE, True, None, [0.5], [NAN], ["a"], [-1], [[0, 1]], [True], {"a": 1}]

# ---------------------------------------------------------------------- preprocessing and predictors


def scaler():
    from sklearn.preprocessing import StandardScaler

    return StandardScaler()


class Known(ToyNetwork):
    """It begins with weights that are known."""

    def __init__(self):
        super().__init__(3)
        self.weight = WEIGHT.copy()


def rows_of(preprocessing, folder):
    """The training data as the network of a run gets them."""
    from delira.testing import ToyExperiment

    experiment = ToyExperiment(**{**of_experiment(folder), "model_cls": Known})
    network = experiment.run(data(), preprocessing=preprocessing)
    return network.weight.ravel()


def standardised(arguments):
    """The same training on standardised inputs."""
    scaled = (INPUTS - INPUTS.mean(0)) / INPUTS.std(0)
    return descended(inputs=scaled if "data" in arguments["transformers"] else INPUTS)


NO_TRANSFORMER = ["x", 5, NAN, [], STRANGE, None, len, type("Mine", (), {})]


def stored(folder):
    """The file of a fold's preprocessing."""
    from delira.testing import ToyExperiment

    experiment = ToyExperiment(**of_experiment(folder))
    experiment.run(data(), preprocessing={"data": scaler()})
    return {"path": next(folder.rglob("preprocessing.zip"))}


def transformed(fitted, folder):
    return fitted({"data": INPUTS})["data"]


def predictions(predictor, folder):
    """Of the inputs, and of a data set."""
    return np.concatenate(
        [predictor.predict({"data": INPUTS})["pred"].ravel(), predictor.predict(data())[0][0].ravel()]
    )


def predictions_by_hand(arguments):
    return np.tile((INPUTS @ WEIGHT).ravel(), 2)


def as_they_are(**predictions):
    return (), predictions


def as_float(batch):
    return {name: np.asarray(value, float) for name, value in batch.items()}


def predict_with(arguments, folder):
    from delira.training import Predictor

    return Predictor(toy(), {"x": "data"}).predict(**arguments)


ENTRIES = [
    Entry(
        name="delira.training.Parameters",
        good=lambda folder: {"fixed_params": {"model": {"a": 1}, "training": {"b": 2}}},
        use=merged_settings,
        expected=merged_by_hand,
        right={
            "fixed_params": [None, {}, {"model": {}}, {"training": {"b": [1]}}],
            "variable_params": [None, {}, {"model": {"a": 3}}, {"training": {"b": 4, "c": 5}}],
        },
        wrong={"fixed_params": NO_PARAMETERS, "variable_params": NO_PARAMETERS},
        says={name: ["model", "training"] for name in ("fixed_params", "variable_params")},
    ),
    Entry(
        name="delira.training.TrainerConfig",
        good=of_config,
        use=lambda config, folder: [config.val_freq, config.reduce_mode, config.seed, config.gpu_ids],
        expected=lambda arguments: [
            arguments["val_freq"],
            arguments.get("reduce_mode", "mean"),
            arguments.get("seed", 0),
            arguments.get("gpu_ids", ()),
        ],
        right={"val_freq": [1, 5], "reduce_mode": ["sum", "last_only"], "seed": [3], "gpu_ids": [[], [0]]},
        wrong={
            **{name: WRONG[name] for name in PLAIN if name in WRONG},
            "losses": [value for value in WRONG["losses"] if value != {}],
            "device": [value for value in WRONG["device"] if value != "nonsense"],
            **{name: ["x", 5, NAN, [], {}, STRANGE, None, True, dict] for name in PARTS},
        },
        says={"val_metrics": ["there is no metric"], "metrics": ["there is no metric"]},
    ),
    Entry(
        name="delira.training.TrainingState",
        good=lambda folder: {"epoch": 2, "global_step": 8},
        use=tree_of,
        expected=lambda arguments: [
            arguments["epoch"],
            arguments["global_step"],
            arguments["global_step"] == 0,
        ],
        right={"epoch": [0, 5, np.int64(3)], "global_step": [0, 7], "best_score": [None, 0.5, -1, NAN]},
        wrong={
            **dict.fromkeys(
                ("epoch", "step_in_epoch", "batch_in_epoch", "global_step", "fold", "rollbacks"), NOT_A_COUNT
            ),
            "seed": [value for value in NOT_A_COUNT if not (isinstance(value, int) and value < 0)],
            "micro_batches": NOT_POSITIVE_INT,
            "has_all_steps": NOT_A_BOOL,
            "stop_training": NOT_A_BOOL,
            "best_score": NOT_A_NUMBER,
            "best_epoch": [value for value in NOT_POSITIVE_INT if value is not None],
            "score_key": [5, NAN, [], {}, STRANGE, True],
            "score_mode": [5, NAN, [], {}, STRANGE, True],
            "history": ["x", 5, NAN, {}, STRANGE, None],
            **{
                name: ["x", 5, NAN, [1], STRANGE, None]
                for name in ("callbacks", "accumulators", "generators", "loader", "outputs")
            },
        },
    ),
    Entry(
        name="delira.training.FoldResult",
        good=of_fold,
        use=sizes,
        expected=lambda arguments: [
            arguments["fold"],
            len(arguments["train_indices"]),
            len(arguments["test_indices"]),
            True,
        ],
        right={
            "fold": [3, np.int64(2)],
            "train_indices": [[], np.arange(3), (0, 5)],
            "test_indices": [[], np.arange(3)],
            "val_indices": [[1], None, np.arange(2)],
            "output_readings": [{}, {"pred": {"output": "logits", "since": 1}}],
        },
        wrong={
            "fold": NOT_A_COUNT,
            "train_indices": NO_INDICES,
            "test_indices": NO_INDICES,
            "val_indices": [value for value in NO_INDICES if value is not None],
            "metrics": [*NOT_A_MAPPING, {"a": "x"}, {5: 1.0}, {"a": STRANGE}],
            "predictions": NOT_A_MAPPING,
            "targets": NOT_A_MAPPING,
            "history": ["x", 5, NAN, {}, STRANGE, None],
            "output_readings": [*NOT_A_MAPPING, {"pred": "logits"}, {5: {}}, {"pred": {"output": "logits"}}],
            "is_apparent": NOT_A_BOOL,
        },
        free={
            "kept_as": "told as it is",
            **dict.fromkeys(
                ("parameters", "callbacks", "left_out", "timings", "guards", "path", "raw_statistics", "partial"),
                "told as they are",
            ),
            **dict.fromkeys(("best_epoch", "best_score", "score_key", "weights_epoch", "seconds"), "told as they are"),
        },
    ),
    Entry(
        name="delira.training.KFoldResult",
        good=of_result,
        use=means,
        expected=lambda arguments: [2, 0.5],
        right={
            "n_samples": [4, 10, np.int64(5)],
            "groups": [None, [0, 0, 1, 1], np.array(["a", "a", "b", "c"])],
            "seed": [None, 3],
            "name": ["a"],
            "metric_keys": [None],
            "case_names": [None, [*"abcd"]],
            "unfinished": [()],
            "apparent": [None, *folds(TWO_FOLDS[0])],
            "draws_within_classes": [True, False],
        },
        wrong={
            "folds": ["x", 5, NAN, [], {}, STRANGE, None, [5], [None], folds(TWO_FOLDS[0]) * 2],
            "n_samples": [*NOT_A_COUNT, 3],
            "metrics": [value for value in [*NOT_A_MAPPING, {"mae": "x"}] if value is not None],
            "metric_keys": ["x", 5, NAN, [1], STRANGE],
            "groups": ["x", 5, NAN, [], STRANGE, [0, 1], np.zeros((4, 2))],
            "info": ["x", 5, NAN, [1], STRANGE, None],
            "unfinished": ["x", 5, NAN, STRANGE, None, [5]],
            "apparent": ["x", 5, NAN, [], STRANGE],
            "kind": ["nonsense", "", 5, NAN, [], STRANGE, None],
            "outputs": ["x", 5, NAN, [1], STRANGE],
            "stated_metrics": ["x", 5, NAN, [1], STRANGE],
            "case_names": ["x", "abcd", 5, NAN, [], STRANGE, [1, 2, 3, 4], ["a"]],
            "draws_within_classes": NOT_A_BOOL,
        },
        free=dict.fromkeys(("seed", "name", "path", "problems", "without_intervals"), "told as they are"),
        says={"metrics": ["there is no metric"], "folds": ["fold"], "n_samples": ["outside of 0"]},
    ),
    Entry(
        name="delira.training.LearningCurve",
        good=of_curve,
        use=lambda curve, folder: [*curve.points],
        expected=lambda arguments: [2, 4],
        right={},
        wrong={"result": ["x", 5, NAN, [], STRANGE, None, KFoldResult(folds(TWO_FOLDS[0]), 4)]},
    ),
    Entry(
        name="delira.training.Preprocessing",
        good=lambda folder: {"transformers": {"data": scaler()}},
        use=rows_of,
        expected=standardised,
        right={"trusted": [(), []], "max_bytes": [2**20]},
        wrong={
            "transformers": [
                *NOT_A_MAPPING,
                {},
                *({"data": value} for value in NO_TRANSFORMER),
                {5: len},
                {"nonsense": 1},
            ],
            "trusted": ["x", 5, NAN, STRANGE, True, [5], None],
            "max_bytes": NOT_POSITIVE_INT,
        },
        says={"transformers": ["preprocessing"]},
        needs=("sklearn", "skops"),
        is_slow=True,
    ),
    Entry(
        name="delira.training.load_preprocessing",
        good=stored,
        use=transformed,
        expected=lambda arguments: (INPUTS - INPUTS.mean(0)) / INPUTS.std(0),
        right={"trusted": [(), ["a.b"]]},
        wrong={"path": [*NOT_A_PATH, "", "missing", None], "trusted": ["x", 5, NAN, STRANGE, True, [5], None]},
        needs=("sklearn", "skops"),
        is_slow=True,
    ),
    Entry(
        name="delira.training.Predictor",
        good=lambda folder: {"model": toy(), "key_mapping": {"x": "data"}},
        use=predictions,
        expected=predictions_by_hand,
        right={
            "key_mapping": [{"x": "data"}],
            "convert_batch_to_npy_fn": [as_they_are, None],
            "prepare_batch_fn": [as_float, None],
            "backend": [None],
            "preprocessing": [None],
        },
        wrong={
            "model": ["x", 5, NAN, [], {}, STRANGE, None, True, ToyNetwork],
            "key_mapping": ["x", 5, NAN, [], STRANGE, True, {"x": "nonsense"}, {"x": 5}],
            "convert_batch_to_npy_fn": NOT_CALLABLE,
            "prepare_batch_fn": NOT_CALLABLE,
            "backend": ["x", 5, NAN, [1], STRANGE, True],
            "preprocessing": ["x", 5, NAN, [], {}, STRANGE, True],
        },
        says={
            "model": ["network", "backend", "room"],
            "key_mapping": ["nonsense"],
        },
        own=["convert_batch_to_npy_fn", "prepare_batch_fn"],
    ),
    Entry(
        name="delira.training.Predictor#predict",
        good=lambda folder: {"data": {"data": INPUTS}},
        make=lambda **arguments: arguments,
        use=lambda arguments, folder: predict_with(arguments, folder)["pred"].ravel(),
        expected=lambda arguments: (INPUTS @ WEIGHT).ravel(),
        wrong={
            "data": ["x", 5, NAN, {}, STRANGE, None, True, {"nonsense": INPUTS}, [INPUTS], [5]],
        },
        says={"data": ["batch"]},
    ),
]
