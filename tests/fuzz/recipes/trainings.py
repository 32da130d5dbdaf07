"""Trainings, from trainers and from experiments: every setting, wherever it is given."""

import numpy as np
from fuzz_cases import Entry
from fuzz_names import resolve
from fuzz_settings import PARTS, RIGHT, SAYS, WRONG, wrong_of_experiment
from fuzz_toys import data, descended, of_experiment, of_toy, train
from fuzz_training import EPOCHS, by_hand, network, weights_of
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_CHOICE,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_PATH,
    NOT_A_SHARE,
    NOT_POSITIVE_INT,
    STRANGE,
)

from delira.testing import ToyExperiment, ToyNetwork, ToyTrainer

#: what the toy refuses: it only computes the plain update, and nothing is written here
UPDATES = ("gradient_clip_norm", "gradient_clip_value", "nonfinite", "save_in_background")

NETWORKS = ["x", 5, NAN, [], STRANGE, None]


def of_torch(folder):
    import torch

    from delira.models import AbstractPyTorchNetwork

    class Linear(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.layer = network()

        def forward(self, x):
            return {"pred": self.layer(x)}

    return {
        "network": Linear(),
        "save_path": None,
        "key_mapping": {"x": "data"},
        "losses": {"loss": torch.nn.MSELoss()},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1, "momentum": 0.9},
        "verbose": 0,
    }


def train_torch(trainer, folder):
    """Train for two epochs, with a validation."""
    return weights_of(trainer.train(EPOCHS, data(), data()))


def run(experiment, folder):
    """Whether a run leaves a network that has learned something."""
    return type(experiment.run(data())).__name__


def kfold(**arguments):
    """Cross-validate the toy."""
    folder = arguments.pop("folder")
    experiment = ToyExperiment(**of_experiment(folder))
    return experiment.kfold(data(), {"mae": mean_absolute_error}, **arguments)


def mean_absolute_error(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def derived(name, parts):
    """What makes an object of a class of a user's, if it has any parts of its own."""
    return (lambda **arguments: type("Mine", (resolve(name),), parts)(**arguments)) if parts else None


def toy_trainer(name, **parts):
    return Entry(
        name=name,
        good=of_toy,
        make=derived(name, parts),
        use=train,
        expected=lambda arguments: descended(),
        right={name: RIGHT[name] for name in RIGHT if name not in UPDATES},
        says=SAYS,
        wrong={**WRONG, **PARTS, "save_path": NOT_A_PATH, "network": [*NETWORKS, ToyNetwork]},
        free={"resume_from": "tested with the files of checkpoints"},
    )


def toy_experiment(name, **parts):
    return Entry(
        name=name,
        good=of_experiment,
        make=derived(name, parts),
        use=run,
        expected=lambda arguments: "ToyNetwork",
        right={"save_freq": [2, 1, None], "name": ["a", None, ""]},
        says=SAYS,
        wrong=wrong_of_experiment(),
        free={"losses": "given in the parameters"},
        is_slow=True,
    )


ENTRIES = [
    toy_trainer("delira.testing.ToyTrainer"),
    toy_trainer("delira.training.AbstractNetworkTrainer", backend=ToyTrainer.backend),
    Entry(
        name="delira.training.PyTorchNetworkTrainer",
        good=of_torch,
        use=train_torch,
        expected=lambda arguments: by_hand(),
        right={name: RIGHT[name] for name in RIGHT if name != "save_in_background"},
        says=SAYS,
        wrong={**WRONG, **PARTS, "save_path": NOT_A_PATH, "network": NETWORKS},
        free={"resume_from": "tested with the files of checkpoints"},
        needs="torch",
        is_slow=True,
    ),
    toy_experiment("delira.testing.ToyExperiment"),
    toy_experiment("delira.training.AbstractExperiment", trainer_cls=ToyTrainer),
    Entry(
        name="delira.testing.ToyExperiment#kfold",
        good=lambda folder: {"folder": folder, "num_splits": 2},
        make=kfold,
        use=lambda result, folder: len(result.folds),
        expected=lambda arguments: len(arguments.get("folds") or range(arguments["num_splits"])),
        right={
            "num_splits": [2, 3, 4],
            "folds": [[0], [1]],
            "shuffle": [True],
            "random_seed": [3],
            "val_split": [0.5, None],
        },
        wrong={
            "num_splits": [value for value in NOT_POSITIVE_INT if value is not None] + [1, 9],
            "num_epochs": NOT_A_COUNT,
            "train_kwargs": [value for value in NOT_A_MAPPING if value is not None],
            "test_kwargs": [value for value in NOT_A_MAPPING if value is not None],
            "metric_keys": WRONG["metric_keys"],
            "params": [5, NAN, STRANGE, [5], True],
            "folds": ["x", 5, NAN, STRANGE, [1.5], [-1], [2], ["a"], [], [0, 0]],
            "resume": [5, NAN, STRANGE, True, "nonsense"],
            "keep_predictions": [5, NAN, STRANGE, [], "label", ""],
            "predictions_dtype": [5, NAN, STRANGE, [], "int8", ""],
            "allow_changes": NOT_A_BOOL,
            "split_type": [*NOT_A_CHOICE, "grouped"],
            "shuffle": NOT_A_BOOL,
            "random_seed": [value for value in NOT_A_COUNT if not isinstance(value, bool)],
            "val_split": [*(value for value in NOT_A_SHARE if not isinstance(value, str)), "x", 1, 1.0],
            "label_key": [5, NAN, [], STRANGE, "nonsense"],
            "groups_key": [5, NAN, [], STRANGE, "nonsense"],
            "check_duplicates": NOT_A_BOOL,
            "fold": [1, 0],
            "randm_seed": [1],
        },
        says={
            "resume": ["no run folder"],
            "label_key": ["label"],
            "groups_key": ["group"],
            "val_split": ["inner validation"],
        },
        is_slow=True,
    ),
]
