"""Trainers and experiments of each backend: every setting, against the same training in numpy."""

import numpy as np
from fuzz_cases import Entry
from fuzz_settings import PARTS, RIGHT, WRONG, wrong_of_experiment
from fuzz_settings import SAYS as SAYS_OF_ALL
from fuzz_toys import data, descended
from fuzz_training import EPOCHS, INPUTS, TARGETS
from fuzz_values import NAN, NOT_A_PATH, STRANGE
from small_backends import build_kit

from delira.testing import ToyNetwork, ToyTrainer

NETWORKS = ["x", 5, NAN, [], STRANGE, None, ToyNetwork, ToyNetwork(3)]
NO_CLASSES = ["x", 5, NAN, [], STRANGE, None, int]
NO_PARAMETERS = [5, NAN, STRANGE, [], True, {"training": {"num_epoch": 1}}, {"model": {"nonsense": 1}}]
SAYS = {
    **SAYS_OF_ALL,
    "network": ["has no closure", "ToyNetwork"],
    "params": [*SAYS_OF_ALL["params"], "num_epoch", "nonsense"],
    "model_cls": ["ToyNetwork", "int has no closure"],
    "trainer_cls": ["network"],
}
#: without files there is nothing to write in the background
WITHOUT_FILES = ("save_in_background",)
#: trainer and experiment of each backend, what must be installed, and settings that it does without
BACKENDS = {
    "torch": ("PyTorchNetworkTrainer", "PyTorchExperiment", "torch", ()),
    "torchscript": ("TorchScriptNetworkTrainer", "TorchScriptExperiment", "torch", ()),
    "tensorflow": ("TfNetworkTrainer", "TfExperiment", "tensorflow", ()),
    "jax": ("JaxNetworkTrainer", "JaxExperiment", "flax", ("deterministic",)),
}
#: an estimator learns by itself: it does without losses, and reads its own entries
LEARNER = {**WRONG, "losses": [value for value in WRONG["losses"] if value != {}]}
del LEARNER["key_mapping"]
#: what changes nothing about it
OF_LEARNERS = {name: values for name, values in RIGHT.items() if name in ("save_freq", "verbose", "seed", "log_freq")}


def by_hand(arguments=None):
    """Two epochs of gradient descent with momentum, in numpy."""
    return descended(np.linspace(-0.5, 0.5, 3).reshape(-1, 1), momentum=0.5)


def of_trainer(name):
    def good(folder):
        kit = build_kit(name)
        return {"network": kit.build(), "save_path": None, "key_mapping": {"x": "data"}, **kit.settings}

    return good


def trained(name):
    def use(trainer, folder):
        return build_kit(name).read(trainer.train(EPOCHS, data(), data())).ravel()

    return use


def of_experiment(name):
    def good(folder):
        kit = build_kit(name)
        return {
            "params": {"training": {"num_epochs": EPOCHS, **kit.settings}},
            "model_cls": kit.network,
            "name": "fuzz",
            "save_path": folder,
        }

    return good


def run(experiment, folder):
    """Whether a run leaves a network."""
    return type(experiment.run(data(), data())).__name__


def trainer_entry(name):
    trainer, _, needs, without = BACKENDS[name]
    return Entry(
        name=f"delira.training.{trainer}#{name}",
        good=of_trainer(name),
        use=trained(name),
        expected=by_hand,
        right={key: values for key, values in RIGHT.items() if key not in (*WITHOUT_FILES, *without)},
        wrong={**WRONG, **PARTS, "save_path": NOT_A_PATH, "network": NETWORKS},
        says=SAYS,
        free={"resume_from": "tested with the files of checkpoints"},
        needs=needs,
        is_slow=True,
    )


def experiment_entry(name, experiment, needs, good, expected, **wrong):
    return Entry(
        name=f"delira.training.{experiment}",
        good=good,
        use=run,
        expected=lambda arguments: expected,
        right={"save_freq": [2, None], "name": ["a"], "n_epochs": [None]},
        says=SAYS,
        wrong=wrong_of_experiment(
            losses=WRONG["losses"], params=NO_PARAMETERS, model_cls=[*NO_CLASSES, ToyNetwork], **wrong
        ),
        needs=needs,
        is_slow=True,
    )


# ---------------------------------------------------------------------- scikit-learn


def of_learner(folder):
    from sklearn.linear_model import LinearRegression

    return {"network": LinearRegression(), "save_path": None, "logging_type": None, "verbose": 0}


def fitted(trainer, folder):
    estimator = trainer.train(EPOCHS, data(), data()).estimator
    return np.append(estimator.coef_.ravel(), estimator.intercept_)


def least_squares(arguments):
    columns = np.column_stack([INPUTS, np.ones(len(INPUTS))]).astype(float)
    return np.linalg.lstsq(columns, TARGETS.astype(float), rcond=None)[0].ravel()


def of_learners(folder):
    from sklearn.linear_model import LinearRegression

    return {"params": {}, "model_cls": LinearRegression, "name": "fuzz", "save_path": folder, "verbose": 0}


ENTRIES = [
    *map(trainer_entry, BACKENDS),
    *(
        experiment_entry(
            name,
            experiment,
            needs,
            of_experiment(name),
            {
                "torch": "TorchLinear",
                "torchscript": "TorchScriptLinear",
                "tensorflow": "TfLinear",
                "jax": "JaxLinear",
            }[name],
        )
        for name, (_, experiment, needs, _) in BACKENDS.items()
    ),
    Entry(
        name="delira.training.SklearnNetworkTrainer",
        good=of_learner,
        use=fitted,
        expected=least_squares,
        right=OF_LEARNERS,
        wrong={**LEARNER, **PARTS, "save_path": NOT_A_PATH, "network": NETWORKS[:-1]},
        says=SAYS,
        free={
            "resume_from": "tested with the files of checkpoints",
            "key_mapping": "estimators read their own entries",
        },
        needs="sklearn",
        is_slow=True,
    ),
    Entry(
        name="delira.training.SklearnExperiment",
        good=of_learners,
        use=run,
        expected=lambda arguments: "SklearnEstimator",
        right={"save_freq": [2, None], "name": ["a"], "n_epochs": [None, 2]},
        says=SAYS,
        wrong=wrong_of_experiment(
            LEARNER,
            losses=LEARNER["losses"],
            params=NO_PARAMETERS,
            trainer_cls=["x", 5, NAN, [], STRANGE, int, ToyTrainer],
        ),
        free={"key_mapping": "estimators read their own entries"},
        needs=("sklearn", "skops"),
        is_slow=True,
    ),
]
