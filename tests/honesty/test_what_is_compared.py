"""What is compared when a run is continued: validation data, callbacks and their settings, the network's code."""

import functools
import json
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
from problems import linear_problem
from small_rooms import build_room

import delira
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.runs.code_of import code_of, code_of_functions
from delira.runs.differences import find_differences, find_remarks
from delira.training import KFoldResult
from delira.training.callbacks import (
    AbstractCallback,
    CSVLogger,
    EarlyStopping,
    ExponentialMovingAverage,
    GradientNormClipping,
    ReduceLROnPlateau,
    WeightDecay,
    on_criterion,
)


def data(n=20, seed=7, **changes):
    return BaseDataManager({**linear_problem(n, 3, seed), **changes}, 4)


def begun(path, room="toy", callbacks=(), val=None, cls=None, **settings):
    """An experiment, and the folder of its run of one epoch."""
    experiment = build_room(room).experiment(path, cls=cls, **settings)
    experiment.run(data(), data(8, 1) if val is None else val, num_epochs=1, callbacks=[*callbacks])
    return experiment, experiment.last_trainer.save_path.parent


def go_on(experiment, folder, callbacks=(), val=None, **settings):
    val = data(8, 1) if val is None else val
    return experiment.run(data(), val, num_epochs=2, callbacks=[*callbacks], resume=folder, **settings)


# ---- validation data


def test_other_validation_labels_are_not_continued_silently(tmp_path):
    experiment, folder = begun(tmp_path)
    labels = linear_problem(8, 3, 1)["label"] + 1
    with pytest.raises(
        ConfigError, match=r"its validation differ .*\n  validation data: 8 samples then, 8 now; finger"
    ):
        go_on(experiment, folder, val=data(8, 1, label=labels))
    with pytest.raises(ConfigError, match="validation data: BaseDataManager in the run, list now"):
        go_on(experiment, folder, val=[*data(8, 1)])
    with pytest.warns(UserWarning, match="validation data: 8 samples then, 8 now"):
        go_on(experiment, folder, val=data(8, 1, label=labels), allow_changes=True)
    (told,) = [text for text in KFoldResult.load(folder).to_html().splitlines() if "continued with changes" in text]
    assert "validation data: 8 samples then" in told


def test_the_same_validation_data_go_on_and_auto_takes_no_others(tmp_path):
    experiment, folder = begun(tmp_path)
    go_on(experiment, folder)
    lines = (folder / "ledger.jsonl").read_text().splitlines()
    (folder / "ledger.jsonl").write_text("\n".join(lines[:-1]) + "\n")  # as if it had been killed
    go_on(experiment, "auto", val=data(8, 2))
    assert experiment.last_trainer.save_path.parent != folder


# ---- callbacks


@pytest.mark.parametrize(
    ("then", "now", "line"),
    [
        ([], [WeightDecay(10.0)], "WeightDecay(rate=10.0, p=2, "),
        ([EarlyStopping("mse", patience=5)], [EarlyStopping("mse", patience=9)], "patience=5"),
        ([EarlyStopping("mse", patience=5)], [], "in the run, not now"),
        ([], [GradientNormClipping(1.0)], "GradientNormClipping(max_norm=1.0"),
        ([ExponentialMovingAverage(0.9)], [ExponentialMovingAverage(0.99)], "decay=0.99"),
        ([ReduceLROnPlateau("mse", factor=0.5)], [ReduceLROnPlateau("mse", factor=0.1)], '"factor": 0.1'),
        ([[EarlyStopping("mse")]], [[EarlyStopping("ce")]], 'monitor="ce"'),
    ],
)
def test_other_callbacks_are_refused_and_listed(then, now, line, tmp_path):
    room = build_room("torch")
    pytest.importorskip("torch")
    experiment = room.experiment(tmp_path)
    described = [experiment._resolve(None, {"callbacks": each}).facts(data(), room.backend) for each in (then, now)]
    manifests = [json.loads(json.dumps({**each, "fingerprint": {}})) for each in described]
    assert find_differences(manifests[0], manifests[0]) == {}
    (told,) = find_differences(*manifests)["callbacks"]
    assert line in told


def test_a_run_is_not_continued_with_weight_decay_that_it_had_not(tmp_path):
    pytest.importorskip("torch")
    experiment, folder = begun(tmp_path, "torch")
    with pytest.raises(ConfigError, match=r"its callbacks differ .*\n  callbacks: .*WeightDecay\(rate=10"):
        go_on(experiment, folder, [WeightDecay(10.0)])
    with pytest.warns(UserWarning, match="callbacks: .*WeightDecay"):
        go_on(experiment, folder, [WeightDecay(10.0)], allow_changes=True)


class Own(AbstractCallback):
    def __init__(self, strength=1.0):
        self.strength = strength


class Watching(Own):
    only_watches = True


def test_what_only_watches_may_come_and_go(tmp_path):
    experiment, folder = begun(tmp_path, callbacks=[Watching(1.0)])
    go_on(experiment, folder, [Watching(2.0), CSVLogger(str(tmp_path / "log.csv"))])
    assert '"changes"' not in (folder / "ledger.jsonl").read_text()


class InTheStep(Own):
    def on_criterion(self, state):
        """Change the loss."""


@on_criterion
def also(state):
    """Change the loss."""


def test_an_own_callback_that_acts_inside_the_step_must_be_the_same(tmp_path):
    pytest.importorskip("torch")
    experiment, folder = begun(tmp_path, "torch", callbacks=[InTheStep(1.0)])
    with pytest.raises(ConfigError, match=r"InTheStep\(strength=1.0\) in the run, .*InTheStep\(strength=2.0\) now"):
        go_on(experiment, folder, [InTheStep(2.0)])
    with pytest.raises(ConfigError, match=r'function="also", .* now, not in the run'):
        go_on(experiment, folder, [InTheStep(1.0), also])


def test_another_own_callback_that_came_or_went_is_told(tmp_path, caplog):
    experiment, folder = begun(tmp_path, callbacks=[Own(1.0)])
    go_on(experiment, folder)
    assert "Own(strength=1.0) in the run, not now" in caplog.text
    assert "Own(strength=1.0) in the run, not now" in KFoldResult.load(folder).to_html()


# ---- code


def made(source, name="own_module"):
    """The class ``Net`` of a module with this source."""
    module = types.ModuleType(name)
    module.__file__ = f"/home/me/{name}.py"
    sys.modules[name] = module
    exec(compile(textwrap.dedent(source), module.__file__, "exec"), vars(module))
    return module.Net


SOURCE = """
WIDTH = 3
def helper(x):
    return x * 2
class Part:
    def call(self, x):
        return helper(x)
class Base:
    def forward(self, x):
        return Part().call(x) + WIDTH
class Net(Base):
    depth = 2
    def __init__(self, n=4):
        self.n = n
    @property
    def size(self):
        return [self.n for _ in range(3)]
"""
COMMENTED = '''
# a comment

WIDTH = 3
def helper(x):
    """What it does."""

    return x * 2  # twice


class Part:
    """A part."""

    def call(self, x):
        # the helper
        return helper(x)
class Base:
    def forward(self, x):
        """Forward."""
        return (
            Part().call(x)
            + WIDTH
        )
class Net(Base):
    """Mine."""

    depth = 2
    def __init__(self, n: int = 4) -> None:
        """Make it."""
        self.n = n
    @property
    def size(self):
        return [self.n for _ in range(3)]
'''


def changed_functions(source):
    then, now = (code_of(made(each)) for each in (SOURCE, source))
    lines = find_differences({"code": then, "fingerprint": {}}, {"code": now, "fingerprint": {}}).get("code", [])
    return [line.split()[1] for line in lines]


def test_comments_docstrings_types_and_lines_are_no_code():
    assert code_of(made(SOURCE))["functions"].keys() == {
        "Net", "Net.__init__", "Net.size", "Base.forward", "Part.call", "helper",
    }  # fmt: skip
    assert changed_functions(COMMENTED) == []


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("x * 2", "x * 3", "helper"),
        ("Part().call(x) +", "Part().call(x) -", "Base.forward"),
        ("WIDTH = 3", "WIDTH = 4", "Base.forward"),
        ("depth = 2", "depth = 5", "Net"),
        ("n=4", "n=5", "Net.__init__"),
        ("range(3)", "range(4)", "Net.size"),
        ("self.n = n", "self.n = n\n    def more(self):\n        return 1", "Net.more"),
    ],
)
def test_a_changed_line_is_told_by_its_function(old, new, name):
    assert changed_functions(SOURCE.replace(old, new)) == [name]


def test_code_is_the_same_in_another_process(tmp_path):
    (tmp_path / "mine.py").write_text(
        SOURCE + "    def pick(self, x):\n        return x in {'a', 'b', 'c'} or x in (1.5, None) or (lambda y: y)(x)\n"
    )
    script = "import json, mine; from delira.runs.code_of import code_of; print(json.dumps(code_of(mine.Net)))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(printed) == 1
    assert "Net.pick" in json.loads(printed.pop())["functions"]


def test_another_python_says_that_code_cannot_be_compared():
    then, now = ({"python": python, "functions": {"Net.f": python}, "missing": []} for python in ("cpython 3.11", "x"))
    then, now = ({"code": each, "fingerprint": {}} for each in (then, now))
    assert find_differences(then, now) == {}
    assert find_remarks(then, now) == ["code: that of the network cannot be compared: cpython 3.11 in the run, x now"]


def test_a_method_without_code_is_named():
    net = made("import operator\nclass Net:\n    forward = operator.itemgetter(0)\n")
    code = code_of(net)
    assert code["missing"] == ["Net.forward"]
    (told,) = find_remarks({"code": code, "fingerprint": {}}, {"code": code, "fingerprint": {}})
    assert told == "code: that of Net.forward cannot be had, so it was not compared"


@pytest.mark.parametrize("room", ["toy", "torch", "torchscript", "tensorflow", "jax"], indirect=True)
def test_the_code_of_a_network_of_every_backend_is_had(room):
    code = code_of(room.network)
    assert code["missing"] == []
    forward = {"toy": "is_training", "tensorflow": "call", "jax": "__call__"}.get(room.name, "forward")
    if room.name != "toy":  # it is delira's own
        assert f"{room.network.__qualname__}.{forward}" in code["functions"]


def test_estimators_layers_and_functions_that_a_network_is_given_count_too():
    own = made(
        "class Net:\n    def __init__(self, inner=None):\n        self.inner = inner\n"
        "    def f(self):\n        return 1\n"
    )

    class Outer:
        def get_params(self, deep=True):
            return {"step": own(), "step__n": 3}

    names = {"Net.__init__", "Net.f"}
    for given in ([own()], [[own]], [{"a": own}], [Outer()]):
        assert names <= code_of(object, given)["functions"].keys()


def test_the_module_of_a_trial_counts_in_its_experiment(tmp_path):
    torch = pytest.importorskip("torch")

    class Layer(torch.nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    module = torch.nn.Sequential(Layer(3, 1))
    trial = delira.Trial(module, torch.optim.SGD(module.parameters(), 0.1), torch.nn.MSELoss(), verbose=0)
    experiment = trial.to_experiment(name="x", save_path=tmp_path)
    assert [name.rpartition(".")[2] for name in code_of(experiment.model_cls)["functions"]] == ["forward"]


def test_a_run_is_not_continued_with_another_forward(tmp_path):
    torch = pytest.importorskip("torch")
    room = build_room("torch")

    def network(factor):
        class Net(room.network):
            def forward(self, x):
                return {"pred": factor * super().forward(x)["pred"]}

        return Net

    _, folder = begun(tmp_path, "torch", cls=network(1.0))
    same = room.experiment(tmp_path, cls=network(1.0))
    go_on(same, folder)
    other = room.experiment(tmp_path, cls=network(2.0))
    with pytest.raises(ConfigError, match=r"its code differ .*\n  code: .*Net.forward is another one"):
        go_on(other, folder)
    assert torch is not None


def test_what_an_older_run_does_not_say_is_not_compared(tmp_path):
    experiment, folder = begun(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("code", "functions", "callbacks", "validation"):
        del manifest[name]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    go_on(experiment, folder, val=data(8, 2))
    assert np.isfinite(experiment.last_trainer.state.history[-1]["mse"])


# ---- losses, metrics and transforms


def scaled(factor):
    """A function of the user's that says something else for each factor."""

    def own(*arrays, **batch):
        return float(factor * np.mean((arrays[0] - arrays[1]) ** 2)) if arrays else batch

    return own


class Chain:
    """Transforms, one after the other, as those of other libraries hold them."""

    def __init__(self, *transforms):
        self.transforms = [*transforms]

    def __call__(self, **batch):
        for transform in self.transforms:
            batch = transform(**batch)
        return batch


@pytest.mark.parametrize(
    "wrapped",
    [lambda f: f, lambda f: [f], lambda f: {"a": f}, functools.partial(functools.partial), lambda f: Chain(Chain(f))],
)
def test_functions_are_found_wherever_they_are(wrapped):
    then, same, now = (code_of_functions([wrapped(scaled(factor))])["functions"] for factor in (1.0, 1.0, 2.0))
    assert then == same
    different = [name for name in then if then[name] != now[name]]
    assert [name.rpartition(".")[2] for name in different] == ["own"]


def test_what_is_not_the_users_is_told_by_versions():
    metrics = pytest.importorskip("sklearn.metrics")
    from delira.metrics import accuracy, dice

    assert code_of_functions([metrics.f1_score, accuracy, dice, "f1", None, np.mean, 3])["functions"] == {}


@pytest.mark.parametrize("setting", ["losses", "train_metrics", "metrics", "val_metrics"])
def test_a_run_is_not_continued_with_another_loss_or_metric(tmp_path, setting):
    def settings(factor):
        name = "mse" if setting == "losses" else "own"
        loss = build_room("toy").loss

        def own(prediction, target):
            return factor * loss(prediction, target)

        return {"training": {setting: {name: own}}}

    _, folder = begun(tmp_path, **settings(1.0))
    go_on(build_room("toy").experiment(tmp_path, **settings(1.0)), folder)
    other = build_room("toy").experiment(tmp_path, **settings(2.0))
    with pytest.raises(ConfigError, match=r"its functions differ .*\n  code: .*own is another one"):
        go_on(other, folder)
    with pytest.warns(UserWarning, match="own is another one"):
        go_on(other, folder, allow_changes=True)


@pytest.mark.parametrize("role", ["training", "validation"])
def test_a_run_is_not_continued_with_another_transform(tmp_path, role):
    def managers(factor):
        train, val = data(), data(8, 1)
        (train if role == "training" else val).transforms = Chain(scaled(factor))
        return train, val

    experiment = build_room("toy").experiment(tmp_path)
    experiment.run(*managers(1.0), num_epochs=1)
    folder = experiment.last_trainer.save_path.parent
    experiment.run(*managers(1.0), num_epochs=2, resume=folder)
    with pytest.raises(ConfigError, match=r"its functions differ .*\n  code: .*own is another one"):
        experiment.run(*managers(2.0), num_epochs=3, resume=folder)


def test_a_test_metric_whose_code_has_changed_is_computed_again(tmp_path):
    def own_metric(factor):
        module = types.ModuleType("own_metrics")
        module.__file__ = "/home/me/own_metrics.py"
        sys.modules["own_metrics"] = module
        source = f"def error(y_true, y_pred):\n    return {factor} * float(((y_true - y_pred) ** 2).mean())\n"
        exec(compile(source, module.__file__, "exec"), vars(module))
        return {"error": module.error}

    experiment = build_room("toy").experiment(tmp_path, training={"num_epochs": 1})
    first = experiment.kfold(data(), own_metric(1.0), num_splits=2)
    again = experiment.kfold(data(), own_metric(3.0), num_splits=2, resume=first.path)
    for then, now in zip(first.folds, again.folds, strict=True):
        assert now.metrics["error"] == pytest.approx(3 * then.metrics["error"])
