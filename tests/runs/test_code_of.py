"""The code of a network: which functions are the user's, and which changes are changes of code."""

import json
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

import delira
from delira.runs.code_of import code_of, code_of_functions
from delira.runs.differences import find_differences, find_remarks


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


@pytest.mark.parametrize("kit", ["toy", "torch", "torchscript", "tensorflow", "jax"], indirect=True)
def test_the_code_of_a_network_of_every_backend_is_had(kit):
    code = code_of(kit.network)
    assert code["missing"] == []
    forward = {"toy": "is_training", "tensorflow": "call", "jax": "__call__"}.get(kit.name, "forward")
    if kit.name != "toy":  # it is delira's own
        assert f"{kit.network.__qualname__}.{forward}" in code["functions"]


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


def test_what_is_not_the_users_is_told_by_versions():
    metrics = pytest.importorskip("sklearn.metrics")
    from delira.metrics import accuracy, dice

    assert code_of_functions([metrics.f1_score, accuracy, dice, "f1", None, np.mean, 3])["functions"] == {}
