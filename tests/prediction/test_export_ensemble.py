"""The folds of a cross-validation as one program: it says without delira what the ensemble says."""

import functools
import subprocess
import sys

import numpy as np
import pytest

import delira
from delira import models, training
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.io import export

ENDINGS = {"torch": "PyTorch", "torchscript": "TorchScript", "tensorflow": "Tf", "jax": "Jax"}
PACKAGES = {"jax": "flax", "torchscript": "torch"}
#: backend -> name of the exported file
FILES = {"torch": "net.pt2", "torchscript": "net.ptj", "tensorflow": "net.savedmodel", "jax": "net.stablehlo"}
N_CLASSES = 3
pytestmark = pytest.mark.filterwarnings(
    # torch's own, when it reads a .pt2 file, and of a deprecated part of it
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning",
    "ignore:`torch.jit:DeprecationWarning",
)


@functools.cache
def torch_parts():
    import torch

    class TorchNet(models.AbstractPyTorchNetwork):
        def __init__(self, n_outputs: int = N_CLASSES):
            super().__init__(n_outputs=n_outputs)
            self.linear = torch.nn.Linear(4, n_outputs)

        def forward(self, x):
            return {"pred": self.linear(x)}

    return TorchNet, torch.nn.CrossEntropyLoss(), torch.optim.Adam


@functools.cache
def torchscript_parts():
    import torch
    from small_script_networks import ScriptNet

    return ScriptNet, torch.nn.CrossEntropyLoss(), torch.optim.Adam


@functools.cache
def tensorflow_parts():
    import keras

    class TfNet(models.AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(N_CLASSES)
            self.dense.build((None, 4))

        def call(self, x):
            return {"pred": self.dense(x)}

    return TfNet, keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.optimizers.Adam


@functools.cache
def jax_parts():
    import optax
    from flax import nnx

    class JaxNet(models.AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.linear = nnx.Linear(4, N_CLASSES, rngs=self.rngs)

        def __call__(self, x):
            return {"pred": self.linear(x)}

    return JaxNet, optax.softmax_cross_entropy_with_integer_labels, optax.adam


PARTS = {
    "torch": torch_parts, "torchscript": torchscript_parts, "tensorflow": tensorflow_parts, "jax": jax_parts,
}  # fmt: skip


def batch_of(n, seed=0):
    """Classes that lie apart, far from zero: (n, 4) and (n,)."""
    rng = np.random.default_rng(seed)
    label = np.arange(n) % N_CLASSES
    data = rng.normal(size=(n, 4)) * [1, 10, 0.1, 50] + label[:, None] * [1, 10, 0, 0] - [0, 1000, 0, 5]
    return {"data": np.float32(data), "label": label}


NEW = {"data": batch_of(11, seed=7)["data"]}


def mean_of(loss):
    """A loss of JAX as one number."""

    @functools.wraps(loss)
    def mean(pred, label):
        return loss(pred, label).mean()

    return mean


def trained(backend, folder, parts=None, **how):
    """The result of a cross-validation of three folds, and the classes by name."""
    pytest.importorskip(PACKAGES.get(backend, backend))
    if how.get("preprocessing"):
        pytest.importorskip("skops", reason="what was fitted is kept by skops")
    network, loss, optimizer = parts or PARTS[backend]()
    settings = {"losses": {"ce": mean_of(loss) if backend == "jax" else loss}, **how.pop("training", {})}
    experiment = getattr(training, f"{ENDINGS[backend]}Experiment")(
        {}, network, n_epochs=2, name=backend, save_path=folder, optimizer_cls=optimizer,
        optimizer_params={"learning_rate" if backend in ("jax", "tensorflow") else "lr": 0.05}, **settings,
    )  # fmt: skip
    data = BaseDataManager(batch_of(36), batch_size=6)
    result = experiment.kfold(data, num_splits=3, shuffle=True, random_seed=0, verbose=False, **how)
    return result, {network.__name__: network}


def scaler(name="StandardScaler"):
    return getattr(pytest.importorskip("sklearn.preprocessing"), name)()


def run_pt2(path, inputs):
    import torch

    found = torch.export.load(path).module()(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    return {name: value.detach().numpy() for name, value in found.items()}


def run_ptj(path, inputs):
    import torch

    found = torch.jit.load(path)(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    return {name: value.detach().numpy() for name, value in found.items()}


def run_onnx(path, inputs):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def run_saved_model(path, inputs):
    import tensorflow as tf

    found = tf.saved_model.load(str(path)).signatures["serving_default"](**inputs)
    return {name: value.numpy() for name, value in found.items()}


def run_stablehlo(path, inputs):
    from jax import export as programs

    found = programs.deserialize(bytearray(path.read_bytes())).call(inputs)
    return {name: np.asarray(value) for name, value in found.items()}


RUN = {
    ".pt2": run_pt2, ".onnx": run_onnx, ".ptj": run_ptj, ".savedmodel": run_saved_model, ".stablehlo": run_stablehlo,
}  # fmt: skip


def flat(predictions):
    """What an ensemble predicts, with the names that the program has."""
    spread = predictions.pop("spread", {})
    return predictions | {
        f"spread.{name}.{kind}": array for name, kinds in spread.items() for kind, array in kinds.items()
    }


def assert_same(path, ensemble, *, spread=False):
    for n in (1, 2, 11):
        inputs = {"data": NEW["data"][:n]}
        expected = flat(ensemble.predict(inputs))
        if not spread:
            expected = {name: array for name, array in expected.items() if not name.startswith("spread.")}
        found = RUN[path.suffix](path, {"x": inputs["data"]})
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            assert found[name].shape == array.shape, name
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    """Folds of PyTorch, each with a scaler of its own."""
    return trained("torch", tmp_path_factory.mktemp("scaled"), preprocessing={"data": scaler()})


# ------------------------------------------------------------------ every backend


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("has_scaler", [False, True])
@pytest.mark.parametrize("backend", ["torch", *(pytest.param(one, marks=pytest.mark.slow) for one in [*FILES][1:])])
def test_the_program_of_an_ensemble_says_what_the_ensemble_says(backend, has_scaler, spread, tmp_path):
    result, known = trained(backend, tmp_path, preprocessing={"data": scaler()} if has_scaler else None)
    ensemble = result.ensemble(objects=known, weights=[3, 1, 2])
    path = ensemble.export(tmp_path / FILES[backend], NEW, spread=spread)
    assert_same(path, ensemble, spread=spread)


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
@pytest.mark.parametrize("combine", ["probabilities", "logits", "votes", "mean"])
def test_every_way_to_combine_is_in_the_program(scaled, combine, suffix, tmp_path):
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
    result, known = scaled
    ensemble = result.ensemble(objects=known, combine=combine)
    path = ensemble.export(tmp_path / f"net{suffix}", NEW, spread=True)
    assert_same(path, ensemble, spread=True)
