"""Closures of trials, against the same fit by hand, and the moving of batches."""

import numpy as np
from fuzz_cases import Entry
from fuzz_training import BATCH, EPOCHS, INPUTS, RATE, TARGETS, by_hand, network, weights_of
from fuzz_values import NAN, NOT_A_TEXT, NOT_CALLABLE, STRANGE

from delira import state as keys
from delira.state import state_key
from delira.trial import base_closure, combined_closure

OUT, OWN_LOSS = state_key("fuzz_out"), state_key("fuzz_loss")
NO_SOURCE = [*(value for value in NOT_CALLABLE if value != "x"), "x", None]
NO_KEY = [*(value for value in NOT_A_TEXT if not isinstance(value, str)), ""]
NO_CLOSURE = ["x", 5, NAN, [], STRANGE, True, None, len, base_closure]


def fit(closure, folder=None, **changed):
    """Fit by a closure, two epochs in order; return the weights."""
    import torch

    from delira import Trial

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    parts = {"optimizer": optimizer, "criterion": torch.nn.MSELoss(), **changed}
    trial = Trial(model, metrics=["loss"], verbose=0, seed=0, **parts).with_closure(closure)
    inputs, targets = torch.tensor(INPUTS), torch.tensor(TARGETS)
    trial.with_train_data(inputs, targets, batch_size=BATCH, shuffle=False).run(EPOCHS)
    return weights_of(model)


def squared_error(y_pred, y_true):
    return ((y_pred - y_true) ** 2).mean()


def called_in(closure, folder):
    """Fit by a function that calls the standard closure; one that was made is fitted by itself."""
    if closure is not None:
        return fit(closure)

    def own(state):
        from delira.trial import standard_closure

        return standard_closure(state)

    return fit(own)


def moved(batch, folder):
    """The dtypes of the leaves, and their sum."""
    from delira.utils.arrays import iterate_leaves

    leaves = [leaf for _, leaf in iterate_leaves(batch)]
    return [str(getattr(leaf, "dtype", leaf)) for leaf in leaves]


def moved_by_hand(arguments):
    """Of a tree of an array of each kind, a text and a number."""
    wanted = arguments.get("dtype")
    return [str(np.dtype(wanted)) if wanted else "float32", "int64", "a", "5"]


BATCH_OF_KINDS = {"a": np.zeros(2, np.float32), "b": [np.arange(2), "a"], "c": (5,)}


def torch_tree():
    import torch

    return (torch.zeros(2), [torch.arange(2), "a"], 5)


def entry(name, good, **more):
    return Entry(name=f"delira.trial.{name}", good=lambda folder: dict(good), needs="torch", **more)


def from_sources(**arguments):
    from delira.trial import Closure

    return Closure(**arguments)


SOURCES = {"x": keys.X, "model": keys.MODEL, "y_true": keys.Y_TRUE, "criterion": keys.CRITERION}

ENTRIES = [
    entry(
        "base_closure",
        {},
        use=fit,
        expected=lambda arguments: by_hand(),
        right={
            "x": [keys.X, lambda state: state[keys.X]],
            "model": [keys.MODEL, lambda state: state[keys.MODEL]],
            "y_pred": [OUT],
            "y_true": [lambda state: state[keys.Y_TRUE]],
            "criterion": [squared_error, lambda state: squared_error(state[keys.Y_PRED], state[keys.Y_TRUE])],
            "crit": [squared_error],
            "loss": [OWN_LOSS],
            "optimizer": ["default", keys.OPTIMIZER],
            "opt": ["default"],
        },
        wrong={
            "x": NO_SOURCE,
            "model": NO_SOURCE,
            "y_true": NO_SOURCE,
            "criterion": [value for value in NO_SOURCE if value is not None],
            "y_pred": NO_KEY,
            "loss": NO_KEY,
            "optimizer": [*NO_KEY, "nonsense", state_key("fuzz_nowhere")],
        },
        own=["x", "y_true", "criterion"],
        is_slow=True,
    ),
    Entry(
        name="delira.trial.Closure",
        good=lambda folder: {
            "sources": SOURCES,
            "y_pred": keys.Y_PRED,
            "loss": keys.LOSS,
            "optimizer": keys.OPTIMIZER,
        },
        make=from_sources,
        use=fit,
        expected=lambda arguments: by_hand(),
        right={"y_pred": [OUT], "loss": [OWN_LOSS], "optimizer": ["default"]},
        wrong={
            "sources": ["x", 5, NAN, [], {}, STRANGE, None, {"x": keys.X}, {**SOURCES, "x": 5}],
            "y_pred": NO_KEY,
            "loss": NO_KEY,
            "optimizer": [*NO_KEY, "nonsense"],
        },
        needs="torch",
        is_slow=True,
    ),
    entry(
        "combined_closure",
        {"*": [base_closure()]},
        use=fit,
        expected=lambda arguments: by_hand(),
        right={"*0": [base_closure(optimizer="default"), base_closure(loss=OWN_LOSS)]},
        wrong={"*0": [*NO_CLOSURE, combined_closure(base_closure())]},
        says={"*0": ["base_closure"]},
        is_slow=True,
    ),
    entry(
        "standard_closure",
        {},
        use=called_in,
        expected=lambda arguments: by_hand(),
        right={"state": [None]},
        wrong={"state": ["x", 5, NAN, [], {}, STRANGE, True, keys.State()]},
        is_slow=True,
    ),
    entry(
        "deep_to",
        {"batch": BATCH_OF_KINDS},
        use=moved,
        expected=moved_by_hand,
        right={"dtype": [None, np.float64, "float64", np.float16]},
        wrong={
            "dtype": ["nonsense", 5, NAN, [], STRANGE, True, len, "int32", np.int64],
            "device": ["cpu", "nonsense", 5, NAN, STRANGE, True],
        },
        free={"batch": "what is no array is passed as it is"},
        says={"device": ["devices"]},
    ),
    Entry(
        name="delira.trial.deep_to#torch",
        good=lambda folder: {"batch": torch_tree()},
        use=moved,
        expected=lambda arguments: [
            str(arguments.get("dtype") or "torch.float32"),
            "torch.int64",
            "a",
            "5",
        ],
        right={"device": ["cpu", None]},
        wrong={
            "dtype": ["nonsense", "float64", 5, NAN, [], STRANGE, True, len, np.float64],
            "device": ["nonsense", "cuda:99", "", 5, NAN, STRANGE, True, []],
        },
        needs="torch",
    ),
]
