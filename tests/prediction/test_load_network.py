"""A network comes back from a run as it was tested: class, arguments, weights and preprocessing, and nothing is run."""

import enum
import functools
import pickle
import shutil
import sys
import types
import zipfile

import numpy as np
import pytest
from problems import linear_problem
from small_backends import KITS, build_kit, toy_kit

import delira
from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError
from delira.io import container
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, mean_squared_error

EVERY_KIT = pytest.mark.parametrize("kit", [*KITS], indirect=True)


def folds_of(kit, path, num_splits=2, **how):
    data = BaseDataManager(linear_problem(12), batch_size=4)
    return kit.experiment(path, name="run").kfold(data, num_splits=num_splits, val_split=None, random_seed=0, **how)


def said_of(fold, network, data=None):
    """What a network says of the cases on which its fold was tested, in batches as there."""
    data = linear_problem(12) if data is None else data
    given = {"data": data["data"][fold.test_indices]}
    return delira.predict(network, given, batch_size=4)["pred"]


class Kind(enum.Enum):
    ONE = 1


def halve(x):
    return x / 2


class Given(ToyNetwork):
    """Keeps whatever it was made with."""

    def __init__(self, **given):
        super().__init__()
        object.__setattr__(self, "init_kwargs", given)


def toy_run(path, network=ToyNetwork, model=None, num_splits=2, **training):
    """Folds of a network of the toy backend."""
    settings = {"losses": {"mse": mean_squared_error}, "num_epochs": 1, "logging_type": None, "verbose": False}
    fixed = {"model": model or {}, "training": {**settings, **training}}
    experiment = ToyExperiment(
        {"fixed": fixed}, network, name="toys", save_path=path, optimizer_cls=ToySGD, optimizer_params={"lr": 0.1}
    )
    data = BaseDataManager(linear_problem(8), 4)
    return experiment.kfold(data, num_splits=num_splits, val_split=None)


# ------------------------------------------------------------------ the same network, wherever it is read from


@EVERY_KIT
def test_the_network_of_a_fold_says_what_was_tested(kit, tmp_path):
    result = folds_of(kit, tmp_path)
    for fold in result.folds:
        network = fold.load_network()
        assert isinstance(network, kit.network)
        with kit.backend.calls.evaluating(kit.build()):  # which sees to gradients, and to another network
            assert not kit.learns(network)
        np.testing.assert_array_equal(said_of(fold, network), fold.predictions["pred"])


@EVERY_KIT
def test_it_is_read_from_a_fold_a_run_of_one_fold_or_a_checkpoint(kit, tmp_path):
    result = folds_of(kit, tmp_path, folds=[1])
    (fold,) = result.folds
    checkpoints = fold.path / "checkpoints"
    ending = kit.backend.checkpoint_suffix
    sources = [fold.path, str(fold.path), checkpoints, result.path, checkpoints / f"checkpoint_last{ending}"]
    for source in sources:
        np.testing.assert_array_equal(said_of(fold, delira.load_network(source)), fold.predictions["pred"])
        np.testing.assert_array_equal(said_of(fold, source), fold.predictions["pred"])


@EVERY_KIT
def test_a_checkpoint_that_lies_alone_is_enough(kit, tmp_path):
    (fold,) = folds_of(kit, tmp_path / "run", folds=[0]).folds
    file = fold.path / "checkpoints" / f"checkpoint_last{kit.backend.checkpoint_suffix}"
    alone = shutil.copy(file, tmp_path / file.name)
    shutil.rmtree(tmp_path / "run")
    np.testing.assert_array_equal(said_of(fold, delira.load_network(alone)), fold.predictions["pred"])


def test_an_estimator_comes_back(tmp_path):
    pytest.importorskip("skops")
    linear = pytest.importorskip("sklearn.linear_model")
    from delira.training import SklearnExperiment

    data = linear_problem(12)
    data["label"] = (data["label"][:, 0] > np.median(data["label"])).astype(int)
    result = SklearnExperiment(
        {"fixed": {"model": {"C": 0.5}, "training": {"num_epochs": 1, "logging_type": None, "verbose": False}}},
        linear.LogisticRegression, save_path=tmp_path, name="estimator",
    ).kfold(BaseDataManager(data, 4), num_splits=2, val_split=None, split_type="stratified")  # fmt: skip
    for fold in result.folds:
        network = fold.load_network()
        assert network.estimator.C == 0.5
        np.testing.assert_array_equal(said_of(fold, network, data), fold.predictions["pred"])
        np.testing.assert_array_equal(said_of(fold, fold.path, data), fold.predictions["pred"])


def test_an_estimator_in_a_class_of_the_users_comes_back(tmp_path):
    pytest.importorskip("skops")
    pytest.importorskip("sklearn")
    from everything_sklearn import Halves

    from delira.training import SklearnExperiment

    result = SklearnExperiment(
        {"fixed": {"model": {}, "training": {"num_epochs": 1, "logging_type": None, "verbose": False}}},
        Halves, save_path=tmp_path, name="estimator",
    ).kfold(BaseDataManager(linear_problem(12), 4), num_splits=2, val_split=None)  # fmt: skip
    for fold in result.folds:
        network = fold.load_network()
        assert type(network) is Halves
        np.testing.assert_array_equal(said_of(fold, network), fold.predictions["pred"])


class Wide(ToyNetwork):
    """Hands another argument on than it was made with."""

    def __init__(self, half=1):
        super().__init__(n_features=2 * half + 1)


def test_what_a_base_class_was_made_with_is_no_argument_of_the_class(tmp_path):
    fold = toy_run(tmp_path, Wide, {"half": 1}).folds[0]
    np.testing.assert_array_equal(said_of(fold, fold.load_network(), linear_problem(8)), fold.predictions["pred"])


def test_the_best_weights_are_read_where_they_were_tested(tmp_path):
    kit = toy_kit()
    data = BaseDataManager(linear_problem(12), batch_size=4)
    result = kit.experiment(tmp_path, training={"num_epochs": 6, "optimizer_params": {"lr": 0.8}}).kfold(
        data, num_splits=2, val_split=0.5, val_score_key="val_mse", val_score_mode="min", random_seed=0
    )
    for fold in result.folds:
        np.testing.assert_array_equal(said_of(fold, fold.load_network()), fold.predictions["pred"])


def test_several_folds_are_no_single_network(tmp_path):
    result = toy_run(tmp_path)
    with pytest.raises(ConfigError, match="load_ensemble") as told:
        delira.load_network(result.path)
    assert "fold_00" in str(told.value)
    assert "fold_01" in str(told.value)


def test_a_fold_that_keeps_nothing_says_so(tmp_path):
    import dataclasses

    result = toy_run(tmp_path)
    fold = result.folds[0]
    with pytest.raises(ConfigError, match="folder"):
        dataclasses.replace(fold, path=None).load_network()
    shutil.rmtree(fold.path / "checkpoints")
    with pytest.raises(ConfigError, match=r"fold_00.*checkpoint"):
        fold.load_network()  # and not that of the other fold, which is there
    with pytest.raises(ConfigError, match=r"fold_00.*checkpoint"):
        result.ensemble()
    with pytest.raises(ConfigError, match="no run, fold or checkpoint"):
        delira.load_network(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError):
        delira.load_network(tmp_path / "empty")


# ------------------------------------------------------------------ the arguments


@pytest.mark.parametrize(
    "argument",
    [
        3,
        0.1,
        "text",
        None,
        True,
        float("inf"),
        (1, 2, (3,)),
        [1, (2, 3), {"a": (4,)}],
        {"widths": (8, 16), "deep": {1: "a", "b": [None, 2.5]}},
        {1, 2},
        Kind.ONE,
        ToyNetwork,
        halve,
        np.float32(0.1),
        np.dtype("int16"),
        range(3).__class__,
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.linspace(0, 1, 900),
    ],
    ids=lambda argument: f"{type(argument).__name__}",
)
def test_arguments_come_back_as_they_were(tmp_path, argument):
    network = toy_run(tmp_path, Given, {"argument": argument}).folds[0].load_network()
    found = network.init_kwargs["argument"]
    assert type(found) is type(argument)
    if isinstance(argument, np.ndarray):
        assert found.dtype == argument.dtype
    np.testing.assert_equal(found, argument)


class Part:
    """An object that is no plain value."""

    def __init__(self, width):
        self.width = width


def test_objects_are_made_of_what_the_user_vouches_for_alone(tmp_path):
    fold = toy_run(tmp_path, Given, {"part": Part(3), "parts": [Part((1, 2))]}).folds[0]
    with pytest.raises(ConfigError, match=r"'part'.*objects=.*Part") as told:
        fold.load_network()
    assert "'parts.0'" in str(told.value)
    network = fold.load_network(objects={"Part": Part})
    assert isinstance(network.init_kwargs["part"], Part)
    assert network.init_kwargs["parts"][0].width == (1, 2)


def test_arguments_that_no_text_can_say_are_named(tmp_path):
    fold = toy_run(tmp_path, Given, {"activation": lambda x: x, "table": np.arange(5000)}).folds[0]
    with pytest.raises(ConfigError, match=r"'activation'.*network="):
        fold.load_network()
    made = Given(activation=halve)
    assert delira.load_network(fold.path, network=made) is made
    np.testing.assert_array_equal(said_of(fold, made, linear_problem(8)), fold.predictions["pred"])


# ------------------------------------------------------------------ the class


@pytest.fixture
def elsewhere(monkeypatch):
    """A class of a module that goes away."""
    module = types.ModuleType("of_a_user")
    source = "from delira.testing import ToyNetwork\nclass Net(ToyNetwork):\n    pass\n"
    exec(source, vars(module))  # as the file of a user would be
    monkeypatch.setitem(sys.modules, "of_a_user", module)
    return module.Net


def test_a_class_that_is_not_imported_is_named_with_its_module(tmp_path, elsewhere, monkeypatch):
    fold = toy_run(tmp_path, elsewhere).folds[0]
    monkeypatch.delitem(sys.modules, "of_a_user")
    for load in (fold.load_network, functools.partial(delira.load_network, fold.path)):
        with pytest.raises(ConfigError, match=r"Net of the module of_a_user") as told:
            load()
        assert "objects={'Net': Net}" in str(told.value)
    assert "of_a_user" not in sys.modules, "nothing is imported"
    for name in ("Net", "of_a_user:Net"):
        network = fold.load_network(objects={name: elsewhere})
        assert type(network) is elsewhere
        np.testing.assert_array_equal(said_of(fold, network, linear_problem(8)), fold.predictions["pred"])
    with pytest.raises(ConfigError, match="Net of the module of_a_user"):
        delira.predict(fold.path, {"data": linear_problem(8)["data"]})
    again = delira.predict(fold.path, {"data": linear_problem(8)["data"]}, objects={"Net": elsewhere})
    assert again["pred"].shape == (8, 1)


# ------------------------------------------------------------------ what was fitted to its inputs


@pytest.mark.parametrize("name", ["toy", "torch"])
def test_what_was_fitted_to_the_fold_comes_with_its_network(tmp_path, name):
    pytest.importorskip("skops")
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler
    kit = build_kit(name)
    far = linear_problem(12)
    far["data"] = 50 + 20 * far["data"]
    result = kit.experiment(tmp_path, name="run").kfold(
        BaseDataManager(far, 4), num_splits=2, val_split=None, random_seed=0, preprocessing={"data": scaler()}
    )
    for fold in result.folds:
        for source in (fold.load_network(), fold, fold.path, fold.path / "checkpoints"):
            np.testing.assert_array_equal(said_of(fold, source, far), fold.predictions["pred"])
    first, second = result.folds
    assert not np.allclose(said_of(first, first.path, far), said_of(first, second.path, far))


# ------------------------------------------------------------------ files from strangers


class Recorder:
    """A class that is no network."""


def checkpoint_of(fold):
    return next((fold.path / "checkpoints").glob("checkpoint_last*"))


@EVERY_KIT
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_checkpoint_is_told(kit, tmp_path, damage):
    (fold,) = folds_of(kit, tmp_path, folds=[0]).folds
    file = checkpoint_of(fold)
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[len(content) // 3] ^= 0xFF
    file.write_bytes({"cut": content[:-40], "flipped": content, "empty": b"", "text": b"no checkpoint"}[damage])
    with pytest.raises(CheckpointError, match="checkpoint_last"):
        delira.load_network(file)
    with pytest.raises(CheckpointError, match="checkpoint_last"):
        delira.predict(fold.path, {"data": linear_problem(8)["data"]})


def rewritten(fold, **network):
    """The checkpoint of a fold, of which a stranger has written another class or other arguments."""
    file = checkpoint_of(fold)
    tree = container.read_tree(file)
    tree["network"] = {**tree["network"], **network}
    with file.open("wb") as opened:
        container.write_tree(opened, tree)
    return file


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "builtins:dict",
        "pathlib:Path",
        "sys:modules",
        "os:path.join",
        "delira.testing:ToyNetwork.__class__",
        "delira.testing:ToyNetwork.__init__.__globals__",
        f"{__name__}:Recorder",
        "nowhere:Net",
        ":",
        "",
        "ToyNetwork",
    ],
)
def test_a_class_that_is_no_network_is_refused_and_not_called(tmp_path, name, monkeypatch):
    def called(*args, **kwargs):
        raise AssertionError("it was called")

    file = rewritten(toy_run(tmp_path).folds[0], **{"class": name}, arguments="{}", init_kwargs={})
    with monkeypatch.context() as patch:
        for place in ("os.system", "subprocess.Popen.__init__", f"{__name__}.Recorder.__init__"):
            patch.setattr(place, called)
        with pytest.raises((ConfigError, CheckpointError)):
            delira.load_network(file)


@pytest.mark.parametrize(
    "argument",
    [
        {"$call": "os:system", "arguments": {"command": "touch {there}"}},
        {"$call": "subprocess:run", "arguments": {"args": ["touch", "{there}"]}},
        {"$partial": "os:system", "args": ["touch {there}"]},
        {"$call": "pathlib:Path.touch", "arguments": {"self": {"$path": "{there}"}}},
    ],
)
def test_a_call_among_the_arguments_is_not_made(tmp_path, argument):
    import json

    fold = toy_run(tmp_path).folds[0]
    there = tmp_path / "there"
    written = json.dumps({"n_features": argument}).replace("{there}", str(there))
    with pytest.raises((ConfigError, CheckpointError)):
        delira.load_network(rewritten(fold, arguments=written))
    assert not there.exists()


class Payload:
    """What a pickle of it runs when it is read."""

    def __init__(self, there):
        self.there = there

    def __reduce__(self):
        return open, (str(self.there), "w")


@EVERY_KIT
def test_a_pickle_is_not_read(kit, tmp_path):
    (fold,) = folds_of(kit, tmp_path / "run", folds=[0]).folds
    file, there = checkpoint_of(fold), tmp_path / "there"
    content = pickle.dumps(Payload(there))
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for changed in ([name for name in entries if name.endswith((".pkl", ".json"))], [*entries]):
        with zipfile.ZipFile(file, "w") as archive:
            for name, before in entries.items():
                archive.writestr(name, content if name in changed else before)
        with pytest.raises(CheckpointError):
            delira.load_network(file)
        assert not there.exists()
    file.write_bytes(content)
    with pytest.raises(CheckpointError):
        delira.load_network(file)
    assert not there.exists()
