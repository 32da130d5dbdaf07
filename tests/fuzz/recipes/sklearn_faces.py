"""Estimators of scikit-learn over networks: what each parameter takes, told at the fit."""

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_COUNT,
    NOT_A_MAPPING,
    NOT_A_PATH,
    NOT_A_SHARE,
    NOT_CALLABLE,
    NOT_POSITIVE_INT,
    STRANGE,
    Fresh,
)

INPUTS = np.random.default_rng(3).normal(size=(24, 3))
CLASSES = np.arange(24) % 3
SETTINGS = {"num_epochs": 2, "batch_size": 12, "val_split": 0.25, "random_state": 0}


def of_torch(name):
    """A class of PyTorch, when it is needed."""

    def get():
        import pkgutil

        return pkgutil.resolve_name(f"torch.{name}")

    return get


def fitted(name, target):
    """What fits an estimator to all samples and predicts these."""

    def fit(**params):
        from delira import sklearn

        return getattr(sklearn, name)(**params).fit(INPUTS, target).predict(INPUTS)

    return fit


def entry(name, target, loss):
    return Entry(
        name=f"delira.sklearn.{name}",
        good=lambda folder: dict(SETTINGS),
        make=fitted(name, target),
        use=lambda predicted, folder: (predicted.shape, predicted.dtype.kind),
        expected=lambda arguments: ((len(target),), target.dtype.kind),
        right={
            "model_cls": [None],
            "model": [None, {}, {"hidden": 2}, {"hidden": (), "n_features": 3}],
            "losses": [None, Fresh("{'loss': …}", lambda: {"loss": of_torch(f"nn.{loss}")()()})],
            "optimizer_cls": [None, Fresh("SGD", of_torch("optim.SGD"))],
            "optimizer_params": [None, {}, {"lr": 0.1}],
            "num_epochs": [1, np.int64(2)],
            "batch_size": [1, np.int32(100)],
            "val_split": [None, 0.5, np.float32(0.25)],
            "patience": [None, 0, 1],
            "training": [None, {}, {"gradient_clip_norm": 1.0}, {"callbacks": []}],
            "random_state": [None, 5, np.int64(5), np.random.RandomState(1)],
            "verbose": [0, False],
        },
        wrong={
            "model_cls": ["x", 5, NAN, [], {}, STRANGE, int, dict],
            "model": [*NOT_A_MAPPING, {"hiden": 3}, {"hidden": 0}, {"hidden": "x"}, {"n_features": 0}],
            "losses": [*NOT_A_MAPPING, {"loss": 5}, {"loss": "x"}],
            "optimizer_cls": NOT_CALLABLE,
            "optimizer_params": [*NOT_A_MAPPING, {"lr": -1.0}],
            "num_epochs": [*NOT_POSITIVE_INT, None],
            "batch_size": [*NOT_POSITIVE_INT, None],
            "val_split": [*NOT_A_SHARE, 0, 1, 0.0, 1.0, True],
            "patience": NOT_A_COUNT,
            "training": [*NOT_A_MAPPING, {"seed": 1}, {"nonsense": 1}, {"save_path": "x"}, {"val_freq": 0}],
            "verbose": [3, -1, "x", [], STRANGE],
            "save_path": NOT_A_PATH,
        },
        says={
            "model": ["hiden", "hidden", "n_features"],
            "losses": ["loss"],
            "optimizer_params": ["lr"],
            "training": ["seed", "nonsense", "save_path", "val_freq"],
        },
        free={"random_state": "scikit-learn checks it in its own words"},
        needs="torch",
        is_slow=True,
    )


ENTRIES = [
    entry("Classifier", CLASSES, "CrossEntropyLoss"),
    entry("Regressor", INPUTS.sum(axis=1), "MSELoss"),
]
