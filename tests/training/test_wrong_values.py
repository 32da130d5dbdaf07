"""Wrong values at public entries of trainers, experiments and trials: refused at the door, by name."""

import numpy as np
import pytest
from small_backends import build_kit

import delira.training.callbacks
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, NetworkError


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("name", 5, "name must be the text that the folder of the experiment is called, got 5"),
        ("name", "..", "name must be the text .* got '..'"),
        ("name", "/etc", "name must be the text"),
        ("name", [], "name must be the text"),
        ("name", "a\0b", "name must be the text"),
        ("save_path", 5, "save_path must be a path, got 5"),
        ("save_path", [], r"save_path must be a path, got \[\]"),
        ("save_path", b"x", "save_path must be a path, got b'x'"),
        ("save_path", "a\0b", "save_path must be a path"),
        ("model_cls", int, "int has no closure; subclass the network class of a backend"),
        ("model_cls", dict, "dict has no closure; subclass"),
        ("trainer_cls", int, "trainer_cls must be BaseNetworkTrainer or a subclass of it, got <class 'int'>"),
        ("trainer_cls", 5, "trainer_cls must be BaseNetworkTrainer"),
        ("predictor_cls", "x", "predictor_cls must be Predictor or a subclass of it, got 'x'"),
        ("params", "nosuch", "params='nosuch' names a file of parameters, and there is none"),
    ],
)
def test_an_argument_of_an_experiment_that_cannot_be_is_refused(tmp_path, monkeypatch, argument, value, message):
    monkeypatch.chdir(tmp_path)
    kit = build_kit("toy")
    given = {"params": {"model": {"n_features": 3}}, "model_cls": kit.network, "save_path": tmp_path, argument: value}
    with pytest.raises(NetworkError if argument == "model_cls" else ConfigError, match=message):
        kit.experiment_cls(**given)
    assert not [*tmp_path.rglob("*")]


BAD_DATA = [
    ("3", "data is a str"), (5, "data is a int"), (None, "data is a NoneType"), ({}, "data is a dict"),
    (np.zeros(3), "data is a ndarray"), ([5], "a batch must be a dict of arrays with the samples first, got int"),
]  # fmt: skip


def _of(message, role):
    return f"{message}: the {role} data" if message.startswith("a batch") else f"the {role} {message}"


@pytest.mark.parametrize(("data", "message"), BAD_DATA, ids=str)
def test_what_gives_no_batches_is_refused_before_there_is_a_run(tmp_path, manager, data, message):
    experiment = build_kit("toy").experiment(tmp_path)
    network = build_kit("toy").build()
    with pytest.raises(DataError, match=_of(message, "training")):
        experiment.run(data)
    with pytest.raises(DataError, match=_of(message, "test")):
        experiment.test(network, data)
    if data is not None:
        with pytest.raises(DataError, match=_of(message, "validation")):
            experiment.run(manager(), data)
    assert not [*(tmp_path / "UnnamedExperiment").iterdir()]


def test_a_dataset_is_told_to_be_wrapped_and_a_used_up_generator_that_it_is(tmp_path, manager):
    experiment, network = build_kit("toy").experiment(tmp_path), build_kit("toy").build()
    for call in (lambda: experiment.run(manager().dataset), lambda: experiment.test(network, manager().dataset)):
        with pytest.raises(DataError, match="data is a dataset; wrap it: BaseDataManager"):
            call()
    used = iter(manager())
    assert [*used]
    with pytest.raises(DataError, match="the test data gave no batch; a generator can be gone through only once"):
        experiment.test(network, used)
    with pytest.raises(DataError, match="the training data gave no batch"):
        experiment.run(iter(()))


@pytest.mark.parametrize("network", [None, 5, "net", int])
def test_a_test_of_what_is_no_network_is_refused(tmp_path, manager, network):
    with pytest.raises(NetworkError, match="test needs a trained network, such as run returns, got"):
        build_kit("toy").experiment(tmp_path).test(network, manager())


@pytest.mark.parametrize("name", ["metrics", "metric_keys", "train_kwargs", "test_kwargs"])
@pytest.mark.parametrize("value", [5, "x", []], ids=str)
def test_a_part_of_kfold_without_names_is_refused(tmp_path, manager, name, value):
    with pytest.raises(ConfigError, match=f"{name} must be a dict with names as keys, got"):
        build_kit("toy").experiment(tmp_path).kfold(manager(), num_splits=2, **{name: value})


@pytest.mark.parametrize("value", ["x", 5, []], ids=str)
def test_allow_changes_is_a_flag(tmp_path, manager, value):
    experiment = build_kit("toy").experiment(tmp_path)
    for call in (experiment.run, experiment.kfold):
        with pytest.raises(ConfigError, match="allow_changes must be True or False"):
            call(manager(), allow_changes=value)


@pytest.mark.parametrize("role", ["training", "validation"])
def test_a_batch_without_samples_is_refused(tmp_path, manager, role):
    empty = [{"data": np.zeros((0, 3)), "label": np.zeros((0, 1))}]
    data = (empty, None) if role == "training" else (manager(), empty)
    with pytest.raises(DataError, match="a batch has no sample: its first entry is empty"):
        build_kit("toy").experiment(tmp_path).run(*data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_size": 0}, r"train_test_split\(test_size=0\) cannot divide 10 samples: The 'test_size'"),
        ({"test_size": 1.5}, r"train_test_split\(test_size=1.5\)"),
        ({"test_size": "x"}, r"train_test_split\(test_size='x'\)"),
        ({"test_size": 100}, r"train_test_split\(test_size=100\) cannot divide 10 samples"),
        ({"test_sise": 0.2}, r"unexpected keyword argument 'test_sise'"),
        ({"stratify": [1, 2]}, r"inconsistent numbers of samples"),
        ({"random_state": -1}, r"random_state"),
    ],
)
def test_an_impossible_split_in_two_is_refused(manager, options, message):
    for divided in (manager(), manager().dataset):
        with pytest.raises(ConfigError, match=message):
            divided.train_test_split(**options)


# ---- trials


def trial_of(optimizer="default", **options):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 1)
    if optimizer == "default":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return delira.Trial(model, optimizer, torch.nn.MSELoss(), **{"verbose": 0, **options})


X, Y = np.zeros((4, 3), "f4"), np.zeros((4, 1), "f4")


@pytest.mark.parametrize("epochs", ["3", -1, 1.5, None, [3], float("nan"), True], ids=str)
def test_a_trial_runs_whole_numbers_of_epochs(epochs):
    with pytest.raises(ConfigError, match="num_epochs must be an integer of at least 0"):
        trial_of().with_train_data(X, Y).run(epochs)


@pytest.mark.parametrize("state", ["a.pt", 5, None, [("a", 1)]], ids=str)
def test_the_state_of_a_trial_is_a_dict(state):
    with pytest.raises(ConfigError, match=r"load_state_dict takes what state_dict returned, got .*trial\.load\(path\)"):
        trial_of().load_state_dict(state)


def test_a_file_of_a_trial_has_a_path():
    with pytest.raises(ConfigError, match="path must be a path, got 5"):
        trial_of().load(5)


@pytest.mark.parametrize("verbose", ["yes", -1, 3, 1.5, None, []], ids=str)
def test_a_trial_shows_nothing_a_bar_or_all_bars(verbose):
    with pytest.raises(ConfigError, match="verbose must be 0"):
        trial_of(verbose=verbose)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ([], "the optimizers are a list; pass a dict with a name for each"),
        ((), "the optimizers are a tuple; pass a dict"),
        ("sgd", "the optimizer must be one of the framework, .* got 'sgd'"),
        (5, "the optimizer must be one of the framework, .* got 5"),
    ],
    ids=str,
)
def test_what_is_no_optimizer_is_refused(optimizer, message):
    with pytest.raises(ConfigError, match=message):
        trial_of(optimizer=optimizer)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"x": X, "y": Y}, r"a batch is a dict of \['x', 'y'\], and nothing says what is the target"),
        ((X, Y, Y, Y), r"a batch is a tuple of 4 parts; a trial takes \(input, target\) or \(input, target, weights"),
        ((X, Y, X), r"the third part of a batch, the weights of its samples, has the shape"),
        ("ab", r"a batch is 'ab'; a trial takes \(input, target\)"),
    ],
    ids=["dict", "four", "three", "text"],
)
def test_a_batch_of_another_form_is_refused_in_one_sentence(batch, message):
    with pytest.raises(DataError, match=message):
        trial_of().with_train_generator([batch]).run(1)


def test_managers_may_give_what_they_like():
    torch = pytest.importorskip("torch")
    seen = []

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x):
            seen.append(type(x))
            return self.layer(x["image"] if isinstance(x, dict) else x)

    model = Named()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trial = delira.Trial(model, optimizer, lambda y_pred, y_true=None: y_pred.sum(), verbose=0)
    trial.with_train_generator(BaseDataManager({"image": X, "number": np.arange(4.0, dtype="f4")}, 2)).run(1)
    assert seen


@pytest.mark.parametrize("step_size", [0, -1, 1.5, "x", None], ids=str)
def test_a_step_of_a_schedule_is_a_whole_number(step_size):
    torch = pytest.importorskip("torch")
    with pytest.raises(ConfigError, match="step_size"):
        delira.training.callbacks.StepLR(step_size)
    with pytest.raises(ConfigError, match="step_size"):
        build_kit("torch").trainer(
            None, lr_scheduler_cls=torch.optim.lr_scheduler.StepLR, lr_scheduler_params={"step_size": step_size}
        )
