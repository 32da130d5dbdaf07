"""Trained networks as files for other programs: what is read back predicts what the network predicts."""

import copy
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, MissingBackendError, MissingKeyError, NetworkError
from delira.io import export, load_weights
from delira.testing import ToyNetwork

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork, named_weights  # noqa: E402
from delira.training import PyTorchExperiment  # noqa: E402

SIZES = (1, 2, 7)


class Clinic(AbstractPyTorchNetwork):
    """Two inputs, batch normalisation, dropout, nested outputs."""

    def __init__(self, n_features=3):
        super().__init__(n_features=n_features)
        self.norm = torch.nn.BatchNorm1d(n_features)
        self.drop = torch.nn.Dropout(0.5)
        self.image = torch.nn.Linear(n_features, 4)
        self.clinical = torch.nn.Linear(2, 4)
        self.out = torch.nn.Linear(4, 1)

    def forward(self, image, clinical):
        hidden = torch.relu(self.image(self.drop(self.norm(image))) + self.clinical(clinical))
        return {"pred": self.out(hidden), "aux": {"hidden": hidden, "linear": hidden.softmax(-1)}}


class Net(AbstractPyTorchNetwork):
    """One input and one output."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.linear(x)}


MAPPING = {"image": "data", "clinical": "clinical"}


def batch_of(n, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(n, 3))
    return {"data": data, "clinical": rng.normal(size=(n, 2)), "label": data.sum(1, keepdims=True)}


def inputs_of(n, seed=1):
    """Arguments of ``Clinic`` as float32 arrays."""
    batch = batch_of(n, seed)
    return {argument: batch[key].astype(np.float32) for argument, key in MAPPING.items()}


def predicted(network, inputs):
    """What the network predicts in evaluation mode, flat, by dotted names."""
    network = copy.deepcopy(network).cpu().eval()
    with torch.no_grad():
        found = network(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    aux = {f"aux.{name}": value for name, value in found.pop("aux", {}).items()}
    return {name: value.numpy() for name, value in (found | aux).items()}


def run_pt2(path, inputs):
    program = torch.export.load(path).module()
    found = program(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    aux = {f"aux.{name}": value for name, value in found.pop("aux", {}).items()}
    return {name: value.detach().numpy() for name, value in (found | aux).items()}


def run_onnx(path, inputs):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def export_or_skip(network, path, *args, **kwargs):
    if path.suffix == ".onnx":
        pytest.importorskip("onnxscript")
    return export(network, path, *args, **kwargs)


RUN = {".pt2": run_pt2, ".onnx": run_onnx}
every_format = pytest.mark.parametrize("suffix", RUN)
pytestmark = pytest.mark.filterwarnings(
    # torch's own, when it reads a .pt2 file
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning",
)


def assert_predicts_the_same(path, network, inputs):
    expected = predicted(network, inputs)
    found = RUN[path.suffix](path, inputs)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.fixture(scope="module")
def best(tmp_path_factory):
    """The best network of a short training."""
    fixed = {
        "losses": {"mse": torch.nn.functional.mse_loss},
        "optimizer_cls": torch.optim.Adam,
        "optimizer_params": {"lr": 0.05},
        "num_epochs": 3,
        "val_score_key": "mse",
        "logging_type": None,
        "verbose": False,
    }
    experiment = PyTorchExperiment(
        {"fixed": {"model": {"n_features": 3}, "training": fixed}},
        Clinic,
        key_mapping=MAPPING,
        save_path=tmp_path_factory.mktemp("training"),
    )
    return experiment.run(BaseDataManager(batch_of(40), 8), BaseDataManager(batch_of(16, seed=5), 8))


# ------------------------------------------------------------------ what is written


@every_format
def test_the_best_network_predicts_the_same_from_its_file(best, tmp_path, suffix):
    path = tmp_path / f"best{suffix}"
    assert export_or_skip(best, path, batch_of(4), key_mapping=MAPPING) == path
    for n in SIZES:
        assert_predicts_the_same(path, best, inputs_of(n))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_weights_of_the_best_network_are_a_file_too(best, tmp_path):
    pytest.importorskip("safetensors")
    weights = load_weights(export(best, tmp_path / "best.safetensors"))
    assert weights.keys() == named_weights(best).keys()
    assert all(np.array_equal(array, weights[name]) for name, array in named_weights(best).items())


def test_a_toy_network_has_its_weights_only(tmp_path):
    with pytest.raises(ConfigError, match="backend 'toy' cannot be exported"):
        export(ToyNetwork(), tmp_path / "net.onnx", {"data": np.zeros((2, 3))})
    pytest.importorskip("safetensors")
    assert list(load_weights(export(ToyNetwork(), tmp_path / "net.safetensors"))) == ["weight"]


def test_onnx_names_are_those_of_arguments_outputs_and_samples(best, tmp_path):
    onnx = pytest.importorskip("onnx")
    path = export_or_skip(best, tmp_path / "best.onnx", batch_of(1), key_mapping=MAPPING)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "image": ["batch", 3],
        "clinical": ["batch", 2],
        "pred": ["batch", 1],
        "aux.hidden": ["batch", 4],
        "aux.linear": ["batch", 4],
    }


@pytest.mark.slow_cases("pt2")
@every_format
def test_another_program_needs_no_delira(best, tmp_path, suffix):
    path = export_or_skip(best, tmp_path / f"best{suffix}", batch_of(4), key_mapping=MAPPING)
    inputs = inputs_of(2)
    np.savez(tmp_path / "inputs.npz", **inputs)
    read = {
        ".pt2": "import torch; net = torch.export.load(path).module()\n"
        "pred = net(**{k: torch.from_numpy(v) for k, v in inputs.items()})['pred'].detach().numpy()",
        ".onnx": "import onnxruntime; pred = onnxruntime.InferenceSession(path).run(['pred'], inputs)[0]",
    }
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    code = (
        "import sys, numpy; path = sys.argv[1]; inputs = dict(numpy.load('inputs.npz'))\n"
        f"{read[suffix]}\nassert 'delira' not in sys.modules\nnumpy.save('pred.npy', pred)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "pred.npy"), predicted(best, inputs)["pred"], rtol=1e-5, atol=1e-6)


@pytest.mark.slow_cases("onnx")
@every_format
def test_the_file_keeps_no_sample(best, tmp_path, suffix):
    example = {"data": np.full((4, 3), 1234.5678), "clinical": np.full((4, 2), 1234.5678), "label": np.zeros((4, 1))}
    path = export_or_skip(best, tmp_path / f"best{suffix}", example, key_mapping=MAPPING)
    assert np.float32(1234.5678).tobytes() not in path.read_bytes()


@pytest.mark.slow_cases("onnx")
@every_format
def test_an_example_may_be_the_arguments_themselves(best, tmp_path, suffix):
    path = export_or_skip(best, tmp_path / f"best{suffix}", inputs_of(3))
    assert_predicts_the_same(path, best, inputs_of(2))
    tensors = {name: torch.from_numpy(array) for name, array in inputs_of(1).items()}
    assert_predicts_the_same(export(best, path, tensors), best, inputs_of(2))


def test_a_batch_goes_through_the_networks_own_preparation(tmp_path):
    class Twice(Net):
        @staticmethod
        def prepare_batch(batch, input_device, output_device):
            return {"data": torch.from_numpy(batch["scan"]).float()[:, :3]}

    network = Twice()
    path = export(network, tmp_path / "net.pt2", {"data": np.zeros((3, 9)), "scan": np.zeros((3, 5))})
    assert_predicts_the_same(path, network, {"x": np.ones((2, 3), np.float32)})


class Nested(AbstractPyTorchNetwork):
    """A dict as argument, an input as output, an output in a list; names that ONNX has inside already."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.weight = torch.nn.Parameter(torch.rand(2))

    def forward(self, views, unused):
        hidden = self.linear(views["front"]) * self.weight
        softmax = hidden.softmax(-1)
        return {
            "softmax": hidden,
            "linear": softmax,
            "weight": softmax.sum(0, keepdim=True),
            "same": hidden,
            "given": views["side"],
            "several": [hidden + 1, hidden.argmax(-1)],
        }


@pytest.mark.slow_cases("onnx")
@every_format
def test_nested_inputs_and_outputs_keep_their_order_and_their_names(tmp_path, suffix):
    network = Nested().eval()
    views = {"side": torch.rand(3), "front": torch.rand(3, 3)}
    path = export_or_skip(network, tmp_path / f"net{suffix}", {"unused": torch.zeros(3), "views": views})
    for n in SIZES:
        views = {"front": torch.rand(n, 3), "side": torch.rand(n)}
        with torch.no_grad():
            expected = network(views=views, unused=torch.zeros(n))
        if suffix == ".pt2":
            found = torch.export.load(path).module()(views=views, unused=torch.zeros(n))
            first, second = found.pop("several")
            found |= {"several.0": first, "several.1": second}
        else:
            arrays = {f"views.{name}": view.numpy() for name, view in views.items()}
            found = run_onnx(path, arrays | {"unused": np.zeros(n, np.float32)})
        first, second = expected.pop("several")
        expected |= {"several.0": first, "several.1": second}
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(torch.as_tensor(found[name]), tensor, rtol=1e-5, atol=1e-6)


def test_a_network_in_bfloat16_stays_one(tmp_path):
    network = Net().bfloat16()
    x = torch.rand(4, 3)
    path = export(network, tmp_path / "net.pt2", {"x": x.bfloat16()})
    found = torch.export.load(path).module()(x=x[:1].bfloat16())["pred"]
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, network(x[:1].bfloat16())["pred"])
    with pytest.raises(RuntimeError, match="dtype") as caught:
        export(network, tmp_path / "other.pt2", {"data": x.numpy()})
    assert "while Net was tried on the example" in caught.value.__notes__


@pytest.mark.slow
def test_large_weights_lie_beside_the_onnx_file(best, tmp_path, monkeypatch):
    from delira.backends.torch import export as exports

    path = tmp_path / "best.onnx"
    monkeypatch.setattr(exports, "_MAX_BYTES", 64)
    monkeypatch.setattr(exports, "_MIN_BYTES_BESIDE", 16)
    for _ in range(2):
        export_or_skip(best, path, batch_of(4), key_mapping=MAPPING)
        assert len([file for file in tmp_path.iterdir() if file.name.startswith("best.onnx.")]) == 1
        for n in SIZES:
            assert_predicts_the_same(path, best, inputs_of(n))
        best = copy.deepcopy(best)
        with torch.no_grad():
            best.out.weight += 1
            best.image.weight += 1
    monkeypatch.undo()
    export(best, path, batch_of(4), key_mapping=MAPPING)
    assert [file.name for file in tmp_path.iterdir()] == ["best.onnx"]


# ------------------------------------------------------------------ what stays as it was


@pytest.mark.slow_cases("onnx")
@every_format
def test_an_export_changes_nothing(best, tmp_path, suffix, capfd, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    network = copy.deepcopy(best).train()
    network.norm.eval()
    before = named_weights(network)
    modes = [module.training for module in network.modules()]
    pointers = [parameter.data_ptr() for parameter in network.parameters()]
    state, cores = torch.get_rng_state(), torch.get_num_threads()
    levels = {name: logging.getLogger(name).level for name in ("torch", "torch.onnx", "onnxscript", "onnx_ir")}
    example = batch_of(4)
    given = copy.deepcopy(example)
    export_or_skip(network, tmp_path / f"net{suffix}", example, key_mapping=MAPPING)
    assert [module.training for module in network.modules()] == modes
    assert [parameter.data_ptr() for parameter in network.parameters()] == pointers
    assert all(parameter.requires_grad and parameter.grad is None for parameter in network.parameters())
    assert all(np.array_equal(array, before[name]) for name, array in named_weights(network).items())
    assert all(np.array_equal(array, given[name]) for name, array in example.items())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == cores
    assert torch.is_grad_enabled()
    assert {name: logging.getLogger(name).level for name in levels} == levels
    assert os.listdir(folder) == []
    assert capfd.readouterr() == ("", "")


def test_a_network_that_draws_numbers_leaves_the_generator_alone(tmp_path):
    class Drawing(Net):
        def forward(self, x):
            return {"pred": self.linear(torch.nn.functional.dropout(x, 0.5, training=True))}

    network = Drawing()
    state = torch.get_rng_state()
    path = export(network, tmp_path / "net.pt2", {"data": np.ones((2, 3))})
    assert torch.equal(torch.get_rng_state(), state)
    program = torch.export.load(path).module()
    assert not torch.equal(program(x=torch.ones(9, 3))["pred"], program(x=torch.ones(9, 3))["pred"])


@every_format
def test_an_export_that_fails_leaves_the_file_of_before(best, tmp_path, suffix, monkeypatch):
    class Branching(Net):
        def forward(self, x):
            return {"pred": self.linear(x) if x.sum() > 0 else x}

    monkeypatch.chdir(tmp_path)
    path = export_or_skip(best, tmp_path / f"net{suffix}", inputs_of(3))
    content = path.read_bytes()
    with pytest.raises(Exception, match="data-dependent") as caught:
        export(Branching(), path, {"x": np.ones((2, 3))})
    assert type(caught.value).__module__.startswith("torch.")
    assert any("while torch.export traced Branching" in note for note in caught.value.__notes__)
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# ------------------------------------------------------------------ what is refused


def test_a_network_that_takes_one_number_of_samples_only_is_refused(tmp_path):
    class Fixed(Net):
        def forward(self, x):
            return {"pred": self.linear(x).view(2, 1)}

    with pytest.raises(Exception, match="batch") as caught:
        export(Fixed(), tmp_path / "net.pt2", {"x": np.ones((2, 3))})
    assert any("number of samples" in note for note in caught.value.__notes__)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("example", "error", "message"),
    [
        (None, ConfigError, "needs example=batch"),
        (np.ones((2, 3)), ConfigError, "needs example=batch"),
        ({"image": np.ones((2, 3)), "label": np.ones(2)}, MissingKeyError, r"reads 'data', but the example has only"),
        ({"x": np.ones((0, 3))}, DataError, r"at least one .* \{'x': 0\}"),
        ({"x": np.float64(3)}, DataError, r"'x' of the example is a float64"),
        ({"x": np.array(3.0)}, DataError, r"samples first.* \{'x': None\}"),
        ({"x": {"a": np.ones((2, 3)), "b": np.ones((3, 3))}}, DataError, r"\{'x\.a': 2, 'x\.b': 3\}"),
        ({"x": ["a.png", "b.png"]}, DataError, r"input 'x\.0' of the example is a str"),
    ],
)
def test_a_wrong_example_is_refused(tmp_path, example, error, message):
    with pytest.raises(error, match=message):
        export(Net(), tmp_path / "net.pt2", example)
    assert list(tmp_path.iterdir()) == []


def test_which_entry_is_which_input_must_be_said(tmp_path):
    with pytest.raises(ConfigError, match="key_mapping="):
        export(Clinic(), tmp_path / "net.pt2", batch_of(2))
    with pytest.raises(
        MissingKeyError, match=r"reads 'scan', but the example has only \['clinical', 'data', 'label'\]"
    ):
        export(Clinic(), tmp_path / "net.pt2", batch_of(2), key_mapping={"image": "scan", "clinical": "clinical"})


def test_an_unknown_ending_names_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"'net\.h5'.*'\.pt2' .*'\.onnx', or '\.safetensors'"):
        export(Net(), tmp_path / "net.h5", {"data": np.ones((2, 3))})


def test_what_belongs_to_no_backend_is_not_exported(tmp_path):
    with pytest.raises(NetworkError, match="Linear belongs to no backend"):
        export(torch.nn.Linear(3, 1), tmp_path / "net.pt2", {"x": np.ones((2, 3))})


def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch):
    for package in ("onnxscript", "safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, package, None)
    for suffix in (".onnx", ".safetensors"):
        with pytest.raises(MissingBackendError, match=r"needs the package .* pip install 'delira\[export\]'"):
            export(Net(), tmp_path / f"net{suffix}", {"data": np.ones((2, 3))})


def test_outputs_that_onnx_cannot_name_are_refused(tmp_path):
    pytest.importorskip("onnxscript")

    class Echo(Net):
        def forward(self, x):
            return {"x": self.linear(x)}

    class Optional(Net):
        def forward(self, x):
            return {"pred": self.linear(x), "attention": None}

    with pytest.raises(NetworkError, match="'x' is both an input and an output"):
        export(Echo(), tmp_path / "net.onnx", {"data": np.ones((2, 3))})
    with pytest.raises(NetworkError, match="output 'attention' is a NoneType"):
        export(Optional(), tmp_path / "net.onnx", {"data": np.ones((2, 3))})
    assert torch.export.load(export(Optional(), tmp_path / "net.pt2", {"data": np.ones((2, 3))})) is not None


def test_a_network_that_returns_no_dict_is_refused(tmp_path):
    class Bare(Net):
        def forward(self, x):
            return self.linear(x)

    with pytest.raises(NetworkError, match="Bare returned a Tensor"):
        export(Bare(), tmp_path / "net.pt2", {"data": np.ones((2, 3))})


QUIET = """
import sys, numpy, torch
from delira.io import export
from delira.models import AbstractPyTorchNetwork

class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.linear(x)}

export(Net(), sys.argv[1], {"data": numpy.ones((2, 3))})
"""


@pytest.mark.slow
def test_the_exporters_print_and_log_nothing(tmp_path):
    pytest.importorskip("onnxscript")
    command = [sys.executable, "-c", QUIET, str(tmp_path / "net.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
