"""Fits of a trial: what they are made of, their data, and what is asked of them, against the same fit by hand."""

import numpy as np
from fuzz_cases import Entry
from fuzz_settings import RIGHT, WRONG
from fuzz_toys import data
from fuzz_training import BATCH, EPOCHS, INPUTS, RATE, TARGETS, by_hand, network, weights_of
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_BOOL,
    NOT_A_COUNT,
    NOT_A_PATH,
    NOT_POSITIVE_INT,
    STRANGE,
    Fresh,
)

from delira.state import MODEL, TEST_DATA, TRAIN_DATA, VALIDATION_DATA

BATCHES = [(INPUTS[start : start + BATCH], TARGETS[start : start + BATCH]) for start in range(0, len(INPUTS), BATCH)]
#: settings that a trial has in other words
NOT_OF_TRIALS = {
    "losses", "loss_keys", "train_metrics", "val_metrics", "metrics", "metric_keys", "optimizer_cls", "optim_fn",
    "optimizer_params", "key_mapping", "callbacks", "verbose",
}  # fmt: skip


def parts(folder=None):
    """What a trial is made of."""
    import torch

    model = network()
    return {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9),
        "criterion": torch.nn.MSELoss(),
        "metrics": ["loss"],
        "verbose": 0,
        "seed": 0,
    }


def new_trial(**changed):
    from delira import Trial

    return Trial(**{**parts(), **changed})


def tensors(*arrays):
    import torch

    return [torch.tensor(array) for array in arrays]


def fitted(trial, folder=None):
    """Fit for two epochs in order; return the weights."""
    inputs, targets = tensors(INPUTS, TARGETS)
    trial.with_data(inputs, targets, inputs, targets, batch_size=BATCH, shuffle=False)
    trial.run(EPOCHS)
    return weights_of(trial.state[MODEL])


def entry(what, good, use, **more):
    """An entry of what follows the making of a trial."""
    return Entry(
        name=f"delira.Trial#{what}",
        good=lambda folder: dict(good),
        make=lambda **arguments: arguments,
        use=use,
        needs="torch",
        **more,
    )


def on_batches(arguments, folder):
    """Fit to batches of any form."""
    trial = new_trial(**{name: arguments[name] for name in ("criterion",) if name in arguments})
    trial.with_train_generator(arguments["batches"], arguments.get("steps")).run(EPOCHS)
    return weights_of(trial.state[MODEL])


def on_arrays(arguments, folder):
    trial = new_trial()
    trial.with_train_data(**arguments).run(EPOCHS)
    return weights_of(trial.state[MODEL])


def by_hand_in_steps(arguments):
    """Update with so many batches of an epoch, over and over again."""
    import torch

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    size = int(arguments.get("batch_size", BATCH))
    batches = [(INPUTS[start : start + size], TARGETS[start : start + size]) for start in range(0, len(INPUTS), size)]
    steps = arguments.get("steps") or len(batches)
    for _ in range(EPOCHS):
        for step in range(int(steps)):
            x, y = tensors(*batches[step % len(batches)])
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    return weights_of(model)


def data_of_test():
    trial = new_trial(metrics=["loss", "mse"])
    return trial.with_data(INPUTS, TARGETS, INPUTS, TARGETS, INPUTS, batch_size=3, shuffle=False)


def epochs_run(arguments, folder):
    """Number of epochs recorded."""
    return len(data_of_test().run(**arguments))


def evaluated(arguments, folder):
    return data_of_test().evaluate(**arguments)[name_of(arguments)]


def name_of(arguments):
    prefix = {TRAIN_DATA: "train_", TEST_DATA: "test_"}.get(arguments.get("data_key"), "val_")
    return f"{prefix}loss"


def loss_by_hand(arguments=None):
    model = network()
    predictions = INPUTS @ model.weight.detach().numpy().T + model.bias.detach().numpy()
    return float(((predictions - TARGETS) ** 2).mean())


def predictions_by_hand(arguments=None):
    model = network()
    return INPUTS @ model.weight.detach().numpy().T + model.bias.detach().numpy()


def predicted(arguments, folder):
    return data_of_test().predict(**arguments).numpy()


def moved(arguments, folder):
    trial = data_of_test().to(**arguments)
    trial.run(1)
    return str(next(trial.state[MODEL].parameters()).dtype)


def loaded(arguments, folder):
    trial = data_of_test()
    arguments = {"state_dict": data_of_test().state_dict(), **arguments}
    return weights_of(trial.load_state_dict(**arguments).state[MODEL])


def load_file(arguments, folder):
    arguments = {"path": data_of_test().save(folder / "a"), **arguments}
    return weights_of(data_of_test().load(**arguments).state[MODEL])


def with_steps(arguments, folder):
    """Steps of each pass of an epoch."""
    trial = data_of_test().for_steps(**arguments)
    record = trial.run(1)[-1]
    return [record["train_steps"], record["validation_steps"], len(trial.predict())]


def steps_by_hand(arguments):
    train, val, test = (arguments.get(f"{name}_steps") for name in ("train", "val", "test"))
    rows = [3, 3, 2]
    n_test = sum(rows[number % 3] for number in range(test or 3))
    return [train or 3, val or 3, n_test]


def with_own_loader(arguments, folder):
    """Fit by a function that makes the batches."""
    trial = new_trial().with_train_generator(BATCHES).with_loader(**arguments)
    trial.run(EPOCHS)
    return weights_of(trial.state[MODEL])


def load(state):
    from delira.state import ITERATOR, Y_TRUE, X

    state[X], state[Y_TRUE] = tensors(*next(state[ITERATOR]))


def experiment(arguments, folder):
    settings = {"save_path": folder, "num_epochs": EPOCHS, **arguments}
    made = new_trial().to_experiment(**settings)
    return weights_of(made.run(data()).module)


def torch_loader():
    import torch

    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tensors(INPUTS, TARGETS)), BATCH)


def one_for_all(*batch):
    """Two batches of a form."""
    return [batch[0]] * 2 if len(batch) == 1 else [tuple(batch)] * 2


X, Y = BATCHES[0]
#: shapes that do not fit together are told by the network, or the criterion, of the user
NO_BATCHES = [
    "x", 5, NAN, STRANGE, True, [], {}, [5], [None], ["x"], [STRANGE], [[5]], [[None]], [(X,)], [()], [(X, None)],
    [(None, Y)], [(X, Y, Y)], [{"data": X}], [{"a": X, "b": Y}], [{}], [(X, "y")], [(X, STRANGE)], [("x", Y)], [X],
    [(5, 5)], [(X[:0], Y[:0])], [(X.astype(object), Y)], [{"data": X, "label": None}], [(X, NAN)], [(X.astype(str), Y)],
    [(X, Y.astype(str))], {"data": INPUTS, "label": TARGETS}, {"a": (X, Y)}, len,
    Fresh("a generator used up", lambda: iter([])), Fresh("a generator of one epoch", lambda: iter(BATCHES)),
    Fresh("a generator that gives None", lambda: (None for _ in range(2))),
]  # fmt: skip
METRICS = [
    5,
    NAN,
    STRANGE,
    True,
    ["nonsense"],
    ["losss"],
    [5],
    [None],
    [NAN],
    ["acc", 5],
    "nonsense",
    [""],
    [[5]],
    None,
]


ENTRIES = [
    Entry(
        name="delira.Trial",
        good=parts,
        use=fitted,
        expected=lambda arguments: by_hand(),
        right={
            "metrics": [[], "loss", ["loss", "mse"], ("loss",)],
            "callbacks": [[], (), [[]]],
            **{name: values for name, values in RIGHT.items() if name not in {*NOT_OF_TRIALS, "save_in_background"}},
        },
        wrong={
            **{name: values for name, values in WRONG.items() if name not in NOT_OF_TRIALS},
            "model": ["x", 5, NAN, [], {}, STRANGE, True, len],
            "optimizer": ["x", 5, NAN, [], {}, STRANGE, True, len],
            "criterion": ["x", 5, NAN, [], {}, STRANGE, True, ""],
            "metrics": METRICS,
            "callbacks": ["x", 5, NAN, STRANGE, [5], ["x"], [None], True, None],
            "verbose": ["yes", -2, 3, 1.5, NAN, [], STRANGE, None],
            "save_path": NOT_A_PATH,
            "losses": [{"loss": len}, None],
            "optimizer_cls": [int, None],
            "optimizer_params": [{"lr": 3}],
            "val_metrics": [{"mae": len}],
            "train_metrics": [{"mae": len}],
            "num_epochs": [5],
            "sede": [1],
        },
        own=["criterion"],
        says={
            "callbacks": ["is no callback", "callback"],
            "metrics": ["metric"],
            "model": ["trial takes"],
            "num_epochs": ["run("],
        },
        free={"resume_from": "tested with the files of checkpoints"},
        needs="torch",
        is_slow=True,
    ),
    entry(
        "batches",
        {"batches": BATCHES},
        on_batches,
        expected=lambda arguments: by_hand_in_steps({"steps": arguments.get("steps")}),
        right={
            "batches": [
                tuple(BATCHES),
                [{"data": x, "label": y} for x, y in BATCHES],
                [list(batch) for batch in BATCHES],
                [((x,), y) for x, y in BATCHES],
                [([x], [y]) for x, y in BATCHES],
                Fresh("tensors", lambda: [tuple(tensors(*batch)) for batch in BATCHES]),
                Fresh("a manager", data),
                Fresh("a DataLoader", torch_loader),
            ],
            "steps": [1, 2, 3, np.int64(5), 2.0, None],
        },
        wrong={
            "batches": NO_BATCHES,
            "steps": [0, -2, -5, 1.5, NAN, INFINITE, "x", "2", [], [2], STRANGE, True],
            "criterion": [lambda: 0, lambda a, b: None, lambda a, b: "x", lambda a, b: a - b],
        },
        says={"batches": ["batch"], "criterion": ["criterion", "loss"]},
        is_slow=True,
    ),
    entry(
        "arrays",
        {"x": INPUTS, "y": TARGETS, "batch_size": BATCH, "shuffle": False},
        on_arrays,
        expected=by_hand_in_steps,
        right={
            "batch_size": [1, 3, 8, np.int64(4)],
            "steps": [1, 3, None],
            "num_workers": [0],
            "x": [Fresh("a tensor", lambda: tensors(INPUTS)[0]), Fresh("a list", INPUTS.tolist)],
            "y": [Fresh("a tensor", lambda: tensors(TARGETS)[0])],
        },
        wrong={
            "x": ["x", 5, NAN, STRANGE, True, [], INPUTS[:2], np.zeros((0, 3), np.float32), (INPUTS, INPUTS)],
            "y": ["x", 5, NAN, STRANGE, True, [], TARGETS[:2], None, (TARGETS, TARGETS), TARGETS.astype(str)],
            "batch_size": [*NOT_POSITIVE_INT, None],
            "shuffle": NOT_A_BOOL,
            "num_workers": NOT_A_COUNT,
            "steps": [0, -2, 1.5, NAN, "x", [], STRANGE, True],
        },
        says={
            "x": ["data", "batch", "sample"],
            "y": ["label", "batch", "target", "sample"],
            "num_workers": ["n_process"],
        },
        is_slow=True,
    ),
    entry(
        "run",
        {"epochs": 2},
        epochs_run,
        expected=lambda arguments: arguments["epochs"],
        right={"epochs": [1, 3, np.int64(2)], "verbose": [0, 1, 2, -1]},
        wrong={
            "epochs": ["3", "x", -1, 1.5, NAN, INFINITE, [], [2], None, STRANGE, True],
            "verbose": ["yes", -2, 3, 1.5, NAN, [], STRANGE, None],
        },
        is_slow=True,
    ),
    entry(
        "evaluate",
        {},
        evaluated,
        expected=loss_by_hand,
        right={"data_key": [VALIDATION_DATA, TRAIN_DATA, "train_data", None], "verbose": [0, 2]},
        wrong={
            "data_key": ["nonsense", "train", 5, NAN, [], {}, STRANGE, True, MODEL],
            "verbose": ["yes", -2, 3, 1.5, NAN, [], STRANGE, None],
        },
        is_slow=True,
    ),
    entry(
        "predict",
        {},
        predicted,
        expected=predictions_by_hand,
        right={"data_key": [VALIDATION_DATA, TRAIN_DATA, TEST_DATA, "train_data"], "verbose": [0, 1]},
        wrong={"data_key": ["nonsense", "train", 5, NAN, [], {}, STRANGE, True, MODEL]},
        is_slow=True,
    ),
    entry(
        "to",
        {"device": "cpu"},
        moved,
        expected=lambda arguments: str(arguments.get("dtype") or "torch.float32"),
        right={"device": ["cpu", None], "dtype": [Fresh("float64", lambda: __import__("torch").float64)]},
        wrong={
            "device": ["nonsense", "", 5, 1.5, NAN, [], {}, STRANGE, "cuda:99", True],
            "dtype": ["nonsense", "float64", 5, NAN, [], {}, STRANGE, int, np.float32],
        },
        is_slow=True,
    ),
    entry(
        "load_state_dict",
        {},
        loaded,
        expected=lambda arguments: weights_of(network()),
        right={
            "state_dict": [
                Fresh("a state", lambda: data_of_test().state_dict()),
                Fresh("weights", lambda: network().state_dict()),
            ]
        },
        wrong={
            "state_dict": ["a.pt", 5, NAN, [], STRANGE, True, None, {}, {"a": 1}, {"state": 5}, {"model": {}}],
            "resume": NOT_A_BOOL,
        },
        says={"state_dict": ["checkpoint", "state"]},
        is_slow=True,
    ),
    entry(
        "load",
        {},
        load_file,
        expected=lambda arguments: weights_of(network()),
        right={"resume": [True, False]},
        wrong={"path": [*NOT_A_PATH[:-2], "missing.pt", STRANGE], "resume": NOT_A_BOOL},
        is_slow=True,
    ),
    entry(
        "steps",
        {"train_steps": 2},
        with_steps,
        expected=steps_by_hand,
        right={"train_steps": [1, 5], "val_steps": [2, 4], "test_steps": [1, 4]},
        wrong={
            name: [0, -2, -5, 1.5, NAN, INFINITE, "x", [], STRANGE, True]
            for name in ("train_steps", "val_steps", "test_steps")
        },
        says={name: ["steps"] for name in ("train_steps", "val_steps", "test_steps")},
        is_slow=True,
    ),
    entry(
        "loader",
        {"loader": load},
        with_own_loader,
        expected=lambda arguments: by_hand(),
        right={"loader": [None]},
        wrong={"loader": ["x", 5, NAN, [], {}, STRANGE, True]},
        own=["loader"],
        says={"loader": ["batch"]},
        is_slow=True,
    ),
    entry(
        "to_experiment",
        {},
        experiment,
        expected=lambda arguments: by_hand(),
        right={"name": ["a", None]},
        wrong={
            "name": [5, NAN, [], {}, STRANGE, True],
            "save_path": NOT_A_PATH,
            "num_epochs": NOT_A_COUNT,
            "sede": [1],
            **{name: WRONG[name] for name in ("callbacks", "val_metrics", "val_score_key", "optim_fn")},
        },
        says={"val_metrics": ["there is no metric"], "callbacks": ["is no callback"]},
        is_slow=True,
    ),
]
