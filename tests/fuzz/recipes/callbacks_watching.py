"""Callbacks that watch, the writers and losses beside them, and the bases of one's own."""

from types import SimpleNamespace

import numpy as np
from fuzz_cases import Entry
from fuzz_training import by_hand as by_hand_of_torch
from fuzz_training import network, train, weights_of
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_CHOICE,
    NOT_A_COUNT,
    NOT_A_PATH,
    NOT_CALLABLE,
    NOT_NEGATIVE_OR_ZERO,
    NOT_POSITIVE_INT,
    STRANGE,
    Fresh,
)

from delira.state import State
from delira.training import callbacks as cb

HOOK = "on_criterion"


def weights_with(callback, folder):
    """Train with it; it must change nothing."""
    return weights_of(train(callback)[1])


def watcher(name, good, wrong, **more):
    """A callback that changes no weight."""
    return Entry(
        name=f"delira.callbacks.{name}",
        good=good,
        use=weights_with,
        expected=lambda arguments: by_hand_of_torch(),
        wrong=wrong,
        needs="torch",
        is_slow=True,
        **more,
    )


def doubling(name):
    """A callback of a user's that doubles the loss, at a hook or as the trainer tells it."""

    def make(**arguments):
        class Mine(getattr(cb, name)):
            def __init__(self, factor=2.0, **further):
                super().__init__(**further)
                self.factor = factor

            def on_criterion(self, state):
                from delira.state import LOSS

                state[LOSS] = self.factor * state[LOSS]

        return Mine(**arguments)

    return make


def as_many_times(arguments):
    """The same training with a loss of another size."""
    import torch

    factor = arguments.get("factor", 2.0)
    return by_hand_of_torch(
        to_gradients=lambda model: [parameter.grad.mul_(factor) for parameter in model.parameters()] or torch
    )


# ---------------------------------------------------------------------- writers


def of_writer(folder):
    return {"log_dir": folder / "logs", "user": "one"}


def same_writer(writer, folder):
    """Whether a second user gets the same, and it is closed with the last of them."""
    other = cb.get_writer(folder / "logs", "other")
    cb.close_writer(folder / "logs", "one")
    other.add_scalar("a", 1.0, 1)
    cb.close_writer(folder / "logs", "other")
    return other is writer


def closed(nothing, folder):
    """Whether the next writer of the folder is a new one."""
    return cb.get_writer(folder / "logs", "one") is not None and cb.close_writer(folder / "logs", "one") is None


def epochs_written(callback, folder):
    """Whether a training leaves event files."""
    trainer = SimpleNamespace(state=SimpleNamespace(epoch=0, global_step=0), save_path=None)
    callback.at_training_begin(trainer, num_epochs=2)
    callback.at_epoch_end(trainer, metrics={"loss": 1.0}, curr_epoch=1)
    callback.at_training_end(trainer)
    return any(folder.rglob("events.out.*"))


# ---------------------------------------------------------------------- losses and weights

SCORES = np.array([[2.0, -1.0, 0.5], [0.0, 1.0, 3.0]], np.float32)
SHARES = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]], np.float32)


def divergence(arguments):
    """Of the classes from the targets, by its definition, a mean over samples; labels of no class do not count."""
    scores, target = np.asarray(arguments["prediction"], float), np.asarray(arguments["target"])
    if target.ndim == 1:
        target = (target[:, None] == np.arange(scores.shape[1])).astype(float)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    terms = np.where(target > 0, target * np.log(np.where(target > 0, target, 1) / shares), 0)
    return float(terms.sum() / target.sum())


def names_of_weights(weights, folder):
    return sorted(weights)


def state_of_fit(folder):
    return {"state": train(None)[0].state}


def pairs_of(mixed, folder):
    """Its two targets, and how many samples there are."""
    first, second = mixed
    return [float(np.sum(first)), float(np.sum(second))]


APPEARANCE = {"nclasses": 2, "input_size": (1, 2, 2)}

ENTRIES = [
    *(
        Entry(
            name=f"delira.callbacks.{name}",
            good=lambda folder: {},
            make=doubling(name),
            use=weights_with,
            expected=as_many_times,
            right={"factor": [1.0, 0.5, 3.0, 0.0]},
            needs="torch",
            is_slow=True,
        )
        for name in ("Callback", "AbstractCallback")
    ),
    watcher(
        "Tqdm",
        lambda folder: {},
        {
            "tqdm_module": ["x", 5, NAN, [1], STRANGE, True],
            "validation_label_letter": [5, NAN, [], STRANGE, True],
            "precision": NOT_A_COUNT,
            "on_epoch": NOT_A_BOOL,
            "label": [5, NAN, [1], STRANGE, True],
        },
        right={"precision": [0, 10], "on_epoch": [True], "label": ["a"], "tqdm_module": [None]},
    ),
    watcher(
        "ProgressBar",
        lambda folder: {},
        {"label": [5, NAN, [], STRANGE, True, b"x"], "display": ["x", 5, NAN, [], STRANGE, True]},
        right={"label": ["", "fold 0"], "display": [None]},
    ),
    Entry(
        name="delira.callbacks.TensorBoardWriter",
        good=lambda folder: {"folder": folder / "events"},
        use=epochs_written,
        expected=lambda arguments: True,
        right={"comment": ["a"], "flush_secs": [5]},
        wrong={"folder": [*NOT_A_PATH, None, ""], "nonsense": [1]},
        says={"nonsense": ["SummaryWriter"]},
        needs="tensorboardX",
    ),
    Entry(
        name="delira.callbacks.get_writer",
        good=of_writer,
        use=same_writer,
        expected=lambda arguments: True,
        right={"visdom": [False, np.bool_(False)], "visdom_params": [None], "flush_secs": [5]},
        wrong={
            "log_dir": [*NOT_A_PATH, None, ""],
            "user": [[], {}],
            "visdom": NOT_A_BOOL,
            "visdom_params": ["x", 5, {}, STRANGE, True],
            "nonsense": [1],
        },
        says={"nonsense": ["SummaryWriter"]},
        needs="tensorboardX",
    ),
    Entry(
        name="delira.callbacks.close_writer",
        good=of_writer,
        use=closed,
        expected=lambda arguments: True,
        right={"user": ["nobody", 5], "visdom": [False, True]},
        wrong={"log_dir": [*NOT_A_PATH, None, ""], "user": [[], {}], "visdom": NOT_A_BOOL},
        needs="tensorboardX",
    ),
    Entry(
        name="delira.callbacks.bc_loss",
        good=lambda folder: {"prediction": SCORES, "target": SHARES},
        use=lambda loss, folder: float(loss),
        expected=divergence,
        right={
            "target": [np.array([0, 2]), np.array([0, 3]), np.eye(3, dtype=np.float32)[[1, 1]]],
            "prediction": [SCORES * 30, -SCORES],
        },
        wrong={
            "prediction": ["x", 5, NAN, [], STRANGE, None, SCORES[:1], SCORES[:, :2], SCORES[0]],
            "target": ["x", 5, NAN, [], STRANGE, None, SHARES[:1], SHARES[:, :2], np.array([0])],
        },
    ),
    Entry(
        name="delira.callbacks.learned_weights",
        good=state_of_fit,
        use=names_of_weights,
        expected=lambda arguments: ["bias", "weight"],
        right={"state": [Fresh("a state", lambda: train(None)[0].state)]},
        wrong={"state": ["x", 5, NAN, [], {}, None, STRANGE, True, State(), Fresh("a network", network)]},
        needs="torch",
        is_slow=True,
    ),
    Entry(
        name="delira.callbacks.MixedTargets",
        good=lambda folder: {"*": [np.array([1.0, 2.0]), np.array([3.0, 5.0])]},
        use=pairs_of,
        expected=lambda arguments: [float(np.sum(one)) for one in arguments["*"]],
        right={"*0": [np.zeros(2), np.ones(2), np.arange(2)], "*1": [np.zeros(2), np.arange(2)]},
        free={"first": "any target", "second": "any target"},
    ),
    Entry(
        name="delira.callbacks.ClassAppearanceModel",
        good=lambda folder: dict(APPEARANCE),
        wrong={
            "nclasses": NOT_POSITIVE_INT,
            "input_size": ["x", 5, NAN, STRANGE, None, (1, 2), (1, 2, 0), (1, 2, 2.5), (1, 2, "x"), (1, 2, NAN), True],
            "optimizer_factory": [value for value in NOT_CALLABLE if value is not None],
            "steps": NOT_POSITIVE_INT,
            "target": [*NOT_A_CHOICE, 2, -1, True, 0.5, None],
            "decay": NOT_NEGATIVE_OR_ZERO,
            "in_transform": [value for value in NOT_CALLABLE if value is not None],
            "transform": [value for value in NOT_CALLABLE if value is not None],
            "channels_last": NOT_A_BOOL,
            "chanels_last": [True],
        },
        free={"logit_key": "any key of the state"},
    ),
]
