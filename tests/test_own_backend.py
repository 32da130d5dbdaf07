"""The backend of examples/own_backend: its framework, the backend around it, its page and its notebook."""

import inspect
import json
import os
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from problems import linear_problem

from delira.contract.backend import PLAIN
from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, NetworkError
from delira.io import export
from delira.models import transfer_weights
from delira.testing import check_backend, spec_checks
from delira.training import Predictor

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "own_backend"))

import numpy_autograd as na  # noqa: E402
from backend_under_test import Gan, Linear, Mlp, Nested, NumpyAutograd, two_optimizers  # noqa: E402
from numpy_autograd.operations import OPERATIONS  # noqa: E402
from numpy_autograd.tensor import Tensor, apply, history  # noqa: E402
from numpy_backend import BACKEND, NumpyTrainer  # noqa: E402

QUIET = {"logging_type": None, "verbose": False, "save_freq": None}


def arrays(*shapes: tuple[int, ...], low: float = -1.0, high: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.uniform(low, high, size=shape) for shape in shapes]


# ---- the framework


CASES = {
    "add": ([(3, 2), (2,)], {}),
    "subtract": ([(2,), (3, 2)], {}),
    "multiply": ([(3, 1), (3, 2)], {}),
    "divide": ([(3, 2), (1, 2)], {}),
    "power": ([(3, 2)], {"exponent": 3}),
    "matmul": ([(4, 3), (3, 2)], {}),
    "sum": ([(3, 2)], {"axis": 0, "keepdims": False}),
    "mean": ([(3, 2)], {"axis": -1, "keepdims": True}),
    "exp": ([(3, 2)], {}),
    "log": ([(3, 2)], {}),
    "abs": ([(3, 2)], {}),
    "tanh": ([(3, 2)], {}),
    "relu": ([(3, 2)], {}),
    "log_softmax": ([(3, 4)], {}),
    "flatten": ([(2, 3, 2)], {}),
    "rows": ([(4, 2)], {"start": 1, "stop": 3}),
    "concatenate": ([(3, 2), (3, 1)], {}),
}


def test_every_operation_is_compared_with_finite_differences():
    assert CASES.keys() == OPERATIONS.keys()


def assert_gradients(function, *values: np.ndarray) -> None:
    """Compare the gradients of ``function(*tensors)``, one number, with central differences."""
    tensors = [Tensor(value, requires_grad=True) for value in values]
    function(*tensors).backward()
    for tensor in tensors:
        for place in np.ndindex(tensor.shape):
            before, results = tensor.data[place], []
            for shift in (1e-6, -1e-6):
                tensor.data[place] = before + shift
                results.append(function(*tensors).item())
            tensor.data[place] = before
            assert tensor.grad[place] == pytest.approx((results[0] - results[1]) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("operation", CASES)
def test_a_gradient_equals_finite_differences(operation):
    shapes, constants = CASES[operation]
    low = 0.2 if operation in ("log", "divide") else -1.0
    values = arrays(*shapes, low=low)
    (weights,) = arrays(apply(operation, *values, **constants).shape)  # so that the entries count differently
    assert_gradients(lambda *tensors: (apply(operation, *tensors, **constants) * weights).sum(), *values)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_and_means_over_any_axis_have_gradients(axis):
    (values,) = arrays((3, 2))
    assert_gradients(lambda x: (x.sum(axis) * x.mean(axis) ** 2).sum(), values)


def test_numbers_and_arrays_stand_on_either_side():
    (values,) = arrays((3, 2), low=0.5)
    (other,) = arrays((2, 3))
    for function in (
        lambda x: (2 - x / 3 + 1 / x).mean(),
        lambda x: (other @ (other.T - x) - -x.mean()).sum(),
        lambda x: ((x @ other) ** 2).mean(),
    ):
        assert_gradients(function, values)


def test_a_tensor_used_twice_gets_the_sum_of_its_gradients():
    (values,) = arrays((2, 2))
    assert_gradients(lambda x: (x * x.exp() + x @ x).sum(), values)


def test_gradients_add_up_until_they_are_forgotten():
    x = na.Parameter(np.array(3.0))
    (x * 2).backward()
    (x * x).backward()
    assert x.grad == 8


def test_leaves_do_not_share_their_gradients():
    a, b = na.Parameter(np.ones(2)), na.Parameter(np.ones(2))
    (a + b).sum().backward()
    a.grad *= 0
    assert b.grad.tolist() == [1, 1]


def test_a_history_may_be_longer_than_pythons_stack():
    x = na.Parameter(np.array(1.0))
    y = x
    for _ in range(2 * sys.getrecursionlimit()):
        y = y * 1.0
    y.backward()
    assert x.grad == 1


def test_nothing_is_recorded_where_nothing_is_learned():
    x = na.Parameter(np.ones(2))
    with na.recording(False):
        y = x * 2
    assert not y.requires_grad
    assert history(y) == [y]
    assert (x * 2).requires_grad
    assert not (x * 2).detach().requires_grad


def test_losses_equal_their_formulas():
    logits, targets = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), np.array([2, 0])
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = -np.log(probabilities[[0, 1], targets]).mean()
    assert na.cross_entropy(Tensor(logits), Tensor(targets)).item() == pytest.approx(expected, rel=1e-14)
    assert na.cross_entropy(Tensor(logits * 1e4), Tensor(targets)).item() == pytest.approx(np.log(3) / 2, rel=1e-14)
    assert na.mean_squared_error(Tensor([1.0, 3.0]), Tensor([0.0, 1.0])).item() == 2.5
    assert na.mean_absolute_error(Tensor([1.0, 3.0]), Tensor([2.0, 1.0])).item() == 1.5


def test_dropout_keeps_the_mean_and_rests_in_evaluation():
    layer, x = na.Dropout(0.25), Tensor(np.ones((200, 200)))
    out = layer(x).data
    assert set(np.unique(out)) == {0, 1 / 0.75}
    assert out.mean() == pytest.approx(1, abs=0.02)
    layer.is_training = False
    assert layer(x) is x


def test_normalisation_uses_the_batch_and_then_what_it_noted():
    layer = na.BatchNorm(2, momentum=0.5)
    (x,) = arrays((50, 2), high=9.0)
    out = layer(Tensor(x)).data
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(out.std(axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(layer.running_mean.data, x.mean(axis=0) / 2)
    np.testing.assert_allclose(layer.running_var.data, 0.5 + x.var(axis=0) / 2)
    layer.is_training = False
    expected = (x - layer.running_mean.data) / np.sqrt(layer.running_var.data + 1e-5)
    np.testing.assert_allclose(layer(Tensor(x)).data, expected, rtol=1e-12)


def test_weights_are_named_by_the_attributes_they_hang_on():
    network = na.Sequential(na.Linear(2, 2), na.BatchNorm(2))
    network.own = na.Parameter(np.zeros(2))
    layer = "layers.1"
    of_normalisation = [f"{layer}.weight", f"{layer}.bias", f"{layer}.running_mean", f"{layer}.running_var"]
    names = [name for name, _ in network.named_tensors()]
    assert names == ["own", "layers.0.weight", "layers.0.bias", *of_normalisation]
    assert len(network.parameters()) == 5


# ---- the backend, against descent by hand


def descent(arrays, weight, bias, order, direction):
    """Float64 descent by hand on the mean squared error; ``direction(gradient, notes)`` is what is subtracted."""
    notes = ({}, {})
    for rows in order:
        x, label = arrays["data"][rows], arrays["label"][rows]
        error = x @ weight + bias - label
        for array, gradient, kept in zip(
            (weight, bias), (2 * x.T @ error / error.size, 2 * error.sum(axis=0) / error.size), notes, strict=True
        ):
            array -= direction(gradient, kept)
    return weight, bias


def momentum(gradient, notes):
    notes["v"] = 0.9 * notes.get("v", 0) + gradient
    return 0.05 * notes["v"]


def adam(gradient, notes):
    notes["t"] = notes.get("t", 0) + 1
    notes["m"] = 0.9 * notes.get("m", 0) + 0.1 * gradient
    notes["s"] = 0.999 * notes.get("s", 0) + 0.001 * gradient**2
    corrected = notes["m"] / (1 - 0.9 ** notes["t"]), notes["s"] / (1 - 0.999 ** notes["t"])
    return 0.05 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)


@pytest.mark.parametrize(
    ("cls", "params", "direction"),
    [(na.SGD, {"lr": 0.05, "momentum": 0.9}, momentum), (na.Adam, {"lr": 0.05}, adam)],
    ids=["SGD", "Adam"],
)
def test_a_training_equals_descent_by_hand(cls, params, direction, tmp_path):
    problem, epochs = linear_problem(10, 3, 7), 3
    data = BaseDataManager({**problem, "row": np.arange(10)}, 4)
    network = Linear()
    network.linear.weight.data[...] = np.linspace(-0.5, 0.5, 3).reshape(-1, 1)
    weight, bias = network.linear.weight.data.copy(), network.linear.bias.data.copy()
    trainer = NumpyTrainer(
        network, tmp_path, losses={"mse": na.mean_squared_error}, optimizer_cls=cls, optimizer_params=params, **QUIET
    )
    trainer.train(epochs, data)
    order = [b["row"] for epoch in range(1, epochs + 1) for b in data.epoch(trainer.seed, 0, epoch, shuffle=True)]
    assert [len(rows) for rows in order] == [4, 4, 2] * epochs
    weight, bias = descent(problem, weight, bias, order, direction)
    np.testing.assert_allclose(network.linear.weight.data, weight, rtol=1e-12)
    np.testing.assert_allclose(network.linear.bias.data, bias, rtol=1e-12)


def trainer_of(network, path, cls=na.SGD, lr=0.05, **settings):
    chosen = {"losses": {"mse": na.mean_squared_error}, "optimizer_cls": cls, "optimizer_params": {"lr": lr}}
    return NumpyTrainer(network, path, **{**QUIET, **chosen, **settings})


class Break:
    """Ends a training after a number of steps."""

    def __init__(self, steps: int):
        self.steps = steps

    def at_iter_end(self, trainer, global_iter_num, **facts):
        if global_iter_num + 1 == self.steps:
            raise KeyboardInterrupt


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
def test_a_run_broken_off_inside_a_group_of_batches_goes_on_with_the_same_bits(steps, tmp_path):
    def train(folder, *callbacks):
        BACKEND.generators.seed(1)
        settings = {"gradient_accumulation_steps": 2, "save_freq_steps": 1, "callbacks": callbacks}
        trainer = trainer_of(Mlp(dropout=0.3), tmp_path / folder, na.Adam, **settings)
        trainer.train(2, BaseDataManager(linear_problem(10, 3, 7), 4))
        return BACKEND.arrays.snapshot(trainer.backend.checkpoints.state_tree(trainer.module, trainer.optimizers))

    with pytest.raises(KeyboardInterrupt):
        train("broken", Break(steps))
    resumed, unbroken = train("broken"), train("unbroken")
    np.testing.assert_equal(resumed, unbroken)
    assert resumed["optimizer"]["default"]["num_updates"] == 4


def test_a_resumed_schedule_goes_on_where_it_was(tmp_path):
    settings = {"lr_scheduler_cls": na.StepDecay, "lr_scheduler_params": {"every": 2, "factor": 0.5}}
    data = BaseDataManager(linear_problem(8, 3, 7), 4)
    trainer_of(Linear(), tmp_path, lr=0.08, **settings).train(1, data)
    resumed = trainer_of(Linear(), tmp_path, lr=0.08, **settings)
    resumed.train(5, data)
    assert [record["lr"] for record in resumed.state.history] == [0.08, 0.08, 0.04, 0.04, 0.02]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_hook_that_changes_a_tensor_in_place_leaves_the_batch_alone(order):
    batch = {"data": np.ones((2, 3), order=order), "label": np.ones(2, dtype=np.int64), "nested": [np.ones(2)]}
    prepared = Linear.prepare_batch(batch, "cpu", "cpu")
    for tensor in (prepared["data"], prepared["label"], prepared["nested"][0]):
        tensor.data *= 3
    assert all((array == 1).all() for array in (batch["data"], batch["label"], batch["nested"][0]))


def test_the_state_of_another_optimizer_is_refused_and_changes_nothing(tmp_path):
    trainer = trainer_of(Gan(), tmp_path, optim_fn=two_optimizers)
    other = trainer_of(Gan(), tmp_path / "other", na.Adam, optim_fn=two_optimizers)
    tree = BACKEND.checkpoints.state_tree(other.module, other.optimizers)
    tree["optimizer"]["gen"] = {**trainer.optimizers["gen"].state_dict(), "lr": 9.0}  # this one fits
    before = BACKEND.arrays.snapshot(BACKEND.checkpoints.state_tree(trainer.module, trainer.optimizers))
    with pytest.raises(CheckpointError, match="'discr': it is the state of Adam with 2 parameters, not of SGD with 2"):
        BACKEND.checkpoints.load_state_tree(tree, trainer.module, trainer.optimizers)
    np.testing.assert_equal(BACKEND.checkpoints.state_tree(trainer.module, trainer.optimizers), before)


def test_a_batch_left_out_leaves_the_statistics_alone(tmp_path):
    x = np.random.default_rng(3).normal(size=(8, 3))
    bad = {"data": x[:4], "label": np.full((4, 1), np.inf)}
    network = Mlp()
    trainer = trainer_of(network, tmp_path, nonfinite="skip")
    before = BACKEND.weights.named(network)
    trainer.train(1, [bad])
    np.testing.assert_equal(BACKEND.weights.named(network), before)
    trainer.train(2, [bad, {"data": x[4:], "label": np.ones((4, 1))}])
    assert (network.norm.running_mean.data != 0).all()
    assert (trainer.optimizers["default"].num_skipped, trainer.optimizers["default"].num_updates) == (2, 1)


def test_a_closure_that_updates_twice_is_not_computed_in_parts(tmp_path):
    class Twice(Linear):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            for _ in range(2):
                loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
                optimizers["default"].differentiate(loss)
                optimizers["default"].step()
            return {"mse": loss.detach()}, {}

    data = BaseDataManager(linear_problem(8, 3, 7), 4)
    trainer_of(Twice(), tmp_path / "whole").train(1, data)
    with pytest.raises(ConfigError, match="updates the same parameters twice in one batch"):
        trainer_of(Twice(), tmp_path / "parts", micro_batches=2).train(1, data)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mixed_precision": "bf16"}, "no mixed precision"),
        ({"device": "cuda"}, "on the CPU only"),
        ({"optimizer_cls": None}, "numpy_autograd.Adam"),
        ({"optimizer_params": {"learning_rate": 1}}, "learning_rate"),
        ({"optim_fn": lambda network, cls, **params: []}, "it returns a dict"),
        ({"lr_scheduler_cls": Break}, "StepDecay"),
        ({"lr_scheduler_cls": na.StepDecay, "lr_scheduler_params": {"gamma": 1}}, "gamma"),
    ],
)
def test_what_the_backend_cannot_do_is_refused(settings, text, tmp_path):
    with pytest.raises(ConfigError, match=text):
        trainer_of(Linear(), tmp_path, **settings)


def test_losses_without_a_gradient_are_refused(tmp_path):
    for loss in (lambda pred, label: (pred.detach() * 1.0).mean(), lambda pred, label: 1.0):
        trainer = trainer_of(Linear(), tmp_path, losses={"flat": loss})
        with pytest.raises(NetworkError, match=r"the loss \(flat\) has no gradient"):
            trainer.train(1, BaseDataManager(linear_problem(4, 3, 7), 4))


def test_a_prediction_that_would_be_broadcast_against_its_target_is_refused():
    with pytest.raises(ValueError, match=r"shape \(4, 1\), the target \(4,\)"):
        na.mean_squared_error(Tensor(np.zeros((4, 1))), Tensor(np.zeros(4)))


def test_an_exported_network_predicts_any_number_of_samples_without_its_class(tmp_path):
    network, x = Mlp(dropout=0.5), np.random.default_rng(3).normal(size=(7, 3))
    path = export(network, tmp_path / "net.npz", {"data": x[:2]})
    expected = network.prepare_batch({"data": x}, "cpu", "cpu")["data"]
    with BACKEND.calls.evaluating(network):
        np.testing.assert_array_equal(na.run_program(path, x=x)["pred"], network(expected)["pred"].data)
    assert network.is_training
    with np.load(path) as file:
        assert all(array.shape != (2, 3) for array in file.values()), "the file holds the example"


def test_what_cannot_be_exported_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(ConfigError, match=r"writes \.npz"):
        export(Linear(), tmp_path / "net.onnx", {"data": np.zeros((2, 3))})
    half = {"left": np.zeros((2, 3)), "right": np.zeros((2, 3))}
    with pytest.raises(NetworkError, match="nested inputs or outputs"):
        export(Nested(), tmp_path / "net.npz", {"data": half})
    assert [*tmp_path.iterdir()] == []


def test_weights_move_to_another_backend_and_back():
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork

    class Twin(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.body, self.norm, self.head = torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 1)

        def forward(self, x):
            return {"pred": self.head(torch.tanh(self.norm(self.body(x))))}

    network, twin, x = Mlp(), Twin(), np.random.default_rng(3).normal(size=(7, 3))
    network.norm.running_mean.data[...] = np.arange(5)
    transfer_weights(network, twin)
    np.testing.assert_allclose(Predictor(twin)({"data": x})["pred"], Predictor(network)({"data": x})["pred"], rtol=1e-5)
    before = BACKEND.weights.named(network)
    transfer_weights(twin, network)
    for name, array in BACKEND.weights.named(network).items():
        np.testing.assert_allclose(array, before[name], rtol=1e-7)


def test_the_framework_knows_nothing_of_delira():
    for path in (ROOT / "examples" / "own_backend" / "numpy_autograd").glob("*.py"):
        assert "import delira" not in path.read_text(), path.name
        assert "from delira" not in path.read_text(), path.name


# ---- the backend, against delira's specification


@pytest.mark.parametrize("check", spec_checks(), ids=str)
def test_the_backend_keeps_every_promise(check):
    check.run(NumpyAutograd())


# ---- the page


PAGE = (ROOT / "docs" / "own_backend.md").read_text()


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Run the page; the module that its blocks fill."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == PAGE.count("```python") > 5
    page = types.ModuleType("page_of_own_backend")  # classes are found again by their module
    monkeypatch.setitem(sys.modules, page.__name__, page)
    for block in blocks:
        exec(compile(block, "docs/own_backend.md", "exec"), vars(page))
    return page


def test_every_block_of_the_page_runs_in_order(page):
    assert page.report.counts["passed"] > 10
    assert not page.report.failures, str(page.report)


@pytest.mark.slow
def test_the_backend_of_the_page_passes_with_what_it_lacks_refused(page):
    counts = check_backend(page.Mine()).counts
    assert counts["passed"] > 100
    assert counts["refused"] > 10


def test_the_page_names_every_verb():
    verbs = [
        (role.role, name)
        for role in PLAIN
        for name, value in vars(role).items()
        if inspect.isfunction(getattr(role, name)) or isinstance(value, (classmethod, staticmethod))
        if name[0] != "_"
    ]
    assert len(verbs) > 40
    assert [
        f"{role}.{verb}" for role, verb in verbs if f"`{role}.{verb}`" not in PAGE and f"def {verb}(" not in PAGE
    ] == []


def test_the_page_counts_the_abstract_verbs():
    abstract = [verb for role in PLAIN for verb in role.__abstractmethods__]
    assert len(abstract) == 8  # "Eight are abstract": the page and the notebook


@pytest.mark.parametrize("page", ["docs/own_backend.md", "examples/own_backend/README.md"])
def test_every_link_of_the_pages_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert links
    for link in links:
        assert ((ROOT / page).parent / link).exists(), link


# ---- the notebook

NOTEBOOK = ROOT / "notebooks" / "own_backend.ipynb"


def test_the_outputs_of_the_notebook_name_no_machine():
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        shown = json.dumps(cell.get("outputs", []))
        assert not re.search(r"/(home|root|tmp|work|usr|Users)/|Warning|Traceback", shown), shown


@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_the_notebook_runs_and_its_backend_passes(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    paths = [str(ROOT), str(ROOT / "examples" / "own_backend"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    assert re.search(r"numpy_autograd: \d+ passed, 2 refused$", printed.strip()), printed[-500:]
