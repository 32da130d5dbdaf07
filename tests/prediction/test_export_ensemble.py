"""The folds of a cross-validation as one program: it says without delira what the ensemble says."""

import functools
import subprocess
import sys

import numpy as np
import pytest

import delira
from delira import models, training
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, MissingKeyError
from delira.io import export
from delira.metrics.tree.criteria import Criterion
from delira.prediction.exported import joint_of
from delira.prediction.model import _Output
from delira.training.scores import axis_of

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

    class OfFloats(torch.nn.CrossEntropyLoss):
        """Of labels as the backend gives them."""

        def forward(self, pred, label):
            return super().forward(pred, label.long())

    return ScriptNet, OfFloats(), torch.optim.Adam


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


@pytest.mark.sampled("values")
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("has_scaler", [False, True])
@pytest.mark.parametrize("backend", ["torch", *(pytest.param(one, marks=pytest.mark.slow) for one in [*FILES][1:])])
def test_the_program_of_an_ensemble_says_what_the_ensemble_says(backend, has_scaler, spread, tmp_path):
    result, known = trained(backend, tmp_path, preprocessing={"data": scaler()} if has_scaler else None)
    ensemble = result.ensemble(objects=known, weights=[3, 1, 2])
    path = ensemble.export(tmp_path / FILES[backend], NEW, spread=spread)
    assert_same(path, ensemble, spread=spread)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
@pytest.mark.parametrize("combine", ["probabilities", "logits", "votes", "mean"])
def test_every_way_to_combine_is_in_the_program(scaled, combine, suffix, tmp_path):
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
    result, known = scaled
    ensemble = result.ensemble(objects=known, combine=combine)
    path = ensemble.export(tmp_path / f"net{suffix}", NEW, spread=True)
    assert_same(path, ensemble, spread=True)


# ------------------------------------------------------------------ kinds of outputs, in PyTorch


def torch_net(forward, n_outputs=N_CLASSES, loss=None):
    """A network that makes its outputs of what a linear layer says, with its loss and optimizer."""
    torch = pytest.importorskip("torch")

    class Net(models.AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, n_outputs)

        def forward(self, x):
            return forward(self.linear(x))

    return Net, loss or torch.nn.CrossEntropyLoss(), torch.optim.Adam


def test_nested_outputs_and_labels_have_dotted_names(tmp_path):
    parts = torch_net(lambda said: {"pred": said, "aux": {"label": said.argmax(1), "double": said.double()}})
    result, known = trained("torch", tmp_path, parts)
    ensemble = result.ensemble(objects=known)
    path = ensemble.export(tmp_path / "net.pt2", NEW, spread=True)
    assert_same(path, ensemble, spread=True)
    assert "spread.aux.label.disagreement" in run_pt2(path, {"x": NEW["data"]})


@pytest.mark.parametrize("combine", ["probabilities", "votes"])
def test_yes_and_no_of_logits(tmp_path, combine):
    torch = pytest.importorskip("torch")

    class OfColumn(torch.nn.BCEWithLogitsLoss):
        def forward(self, pred, label):
            return super().forward(pred, (label[:, None] > 0).float())

    result, known = trained("torch", tmp_path, torch_net(lambda said: {"pred": said}, 1, OfColumn()))
    ensemble = result.ensemble(objects=known, combine=combine)
    assert_same(ensemble.export(tmp_path / "net.pt2", NEW, spread=True), ensemble, spread=True)


def test_several_classes_of_yes_and_no_have_a_sigmoid_each(tmp_path):
    torch = pytest.importorskip("torch")

    class OfEach(torch.nn.BCEWithLogitsLoss):
        def forward(self, pred, label):
            return super().forward(pred, torch.nn.functional.one_hot(label, N_CLASSES).float())

    result, known = trained("torch", tmp_path, torch_net(lambda said: {"pred": said}, loss=OfEach()))
    ensemble = result.ensemble(objects=known)
    members = [delira.predict(fold.load_network(known), dict(NEW))["pred"] for fold in result.folds]
    by_hand = np.mean([1 / (1 + np.exp(-logits.astype(np.float64))) for logits in members], axis=0)
    np.testing.assert_allclose(ensemble.predict(dict(NEW))["pred"], by_hand, rtol=1e-5, atol=1e-6)
    assert_same(ensemble.export(tmp_path / "net.pt2", NEW, spread=True), ensemble, spread=True)


def trained_on_pixels(folder, preprocessing=None, **settings):
    """The result of two folds that tell the class of every pixel, and the classes by name."""
    torch = pytest.importorskip("torch")

    class Pixels(models.AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Conv2d(1, N_CLASSES, 3, padding=1)

        def forward(self, x):
            return {"pred": self.layer(x)}

    label = np.random.default_rng(1).integers(0, N_CLASSES, (12, 6, 5))
    experiment = training.PyTorchExperiment(
        {}, Pixels, n_epochs=1, save_path=folder, optimizer_cls=torch.optim.Adam,
        losses={"ce": torch.nn.CrossEntropyLoss()}, **settings,
    )  # fmt: skip
    data = BaseDataManager({"data": pixels(12), "label": label}, 4)
    return experiment.kfold(data, num_splits=2, verbose=False, preprocessing=preprocessing), {"Pixels": Pixels}


def pixels(n):
    return np.float32(np.random.default_rng(n).normal(5, 2, (n, 1, 6, 5)))


def test_classes_of_every_pixel(tmp_path):
    pytest.importorskip("skops", reason="what was fitted is kept by skops")
    result, known = trained_on_pixels(tmp_path, {"data": scaler()})
    ensemble = result.ensemble(objects=known)
    found = run_pt2(ensemble.export(tmp_path / "net.pt2", {"data": pixels(3)}, spread=True), {"x": pixels(3)})
    for name, array in flat(ensemble.predict({"data": pixels(3)})).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=2e-6, err_msg=name)
    with pytest.raises(DataError, match=r"fitted to samples of 30 numbers, and those of the example have the shape"):
        export(result.folds[0].load_network(known), tmp_path / "other.pt2", {"data": pixels(3)[..., :4]})


def test_windows_are_no_part_of_a_program(tmp_path):
    result, known = trained_on_pixels(tmp_path, val_inference=delira.SlidingWindow(4))
    ensemble = result.ensemble(objects=known)
    with pytest.raises(ConfigError, match=r"SlidingWindow.* which is no part of a program.*inference=None"):
        ensemble.export(tmp_path / "net.pt2", {"data": pixels(3)})
    path = ensemble.export(tmp_path / "net.pt2", {"data": pixels(3)}, inference=None)
    expected = ensemble.predict({"data": pixels(3)}, inference=None)["pred"]
    np.testing.assert_allclose(run_pt2(path, {"x": pixels(3)})["pred"], expected, rtol=1e-5, atol=2e-6)


def test_members_that_are_loaded_for_each_case_are_exported_too(scaled, tmp_path):
    result, known = scaled
    ensemble = delira.load_ensemble(result, objects=known, at_once=False, weights=[0, 1, 1])
    assert_same(export(ensemble, tmp_path / "net.pt2", NEW), ensemble)


# ------------------------------------------------------------------ the formulas, in every framework

SHAPES = {"(B, C)": (5, 3), "(B, C, x, y)": (5, 3, 4, 2), "(B, x, y, C)": (5, 4, 2, 3), "(B, 1)": (5, 1)}


def criterion(kind, output):
    return Criterion("loss", kind, output=output)


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("package", ["torch", "tensorflow", "jax"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("way", ["probabilities", "logits", "votes", "mean", "labels"])
def test_arrays_of_every_framework_are_combined_as_in_prediction(package, shape, way):
    framework = pytest.importorskip(package)
    if package == "jax":
        framework = pytest.importorskip("jax.numpy")
    rng = np.random.default_rng(0)
    space = (4, 2) if len(shape) == 4 else ()
    if way == "labels":
        arrays = [rng.integers(-1, 3, shape).astype(np.int32) for _ in range(4)]
    else:
        arrays = [np.float32(rng.normal(size=shape)) for _ in range(4)]
    weights = [0.0, 0.25, 0.25, 0.5]
    for kind, output in (
        ("categorical", "logits"),
        ("logits", "logits"),
        ("binary", "logits"),
        ("binary", "probabilities"),
    ):
        known, axis = criterion(kind, output), axis_of(arrays[0], space, None)
        given = [1 / (1 + np.exp(-array)) if output == "probabilities" else array for array in arrays]
        given = arrays if way == "labels" else given
        output_of = _Output("pred", known, way, axis, True)
        for array, weight in zip(given, weights, strict=True):
            output_of.add(array, weight, ("one", "first"))
        combined = output_of.result()
        expected = {"": combined, **output_of.spread(combined)}
        made = {"torch": "from_numpy", "tensorflow": "constant", "jax": "asarray"}[package]
        found = joint_of("pred", given[0], known, way, space).joined(
            [getattr(framework, made)(array) for array in given], weights, spread=True
        )
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_allclose(np.asarray(found[name]), array, rtol=1e-5, atol=2e-6, err_msg=f"{kind} {name}")


# ------------------------------------------------------------------ without delira

WITHOUT_DELIRA = """
import sys
sys.modules["delira"] = None  # to import it is an error
import numpy as np
path, given, told = sys.argv[1:]
x = np.load(given)
if path.endswith(".pt2"):
    import torch
    pred = torch.export.load(path).module()(x=torch.from_numpy(x))["pred"].detach().numpy()
else:
    import onnxruntime
    pred = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["pred"], {"x": x})[0]
np.save(told, pred)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_another_process_runs_the_program_without_delira(scaled, suffix, tmp_path):
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    result, known = scaled
    ensemble = result.ensemble(objects=known)
    path = ensemble.export(tmp_path / f"net{suffix}", NEW)
    np.save(tmp_path / "given.npy", NEW["data"])
    files = [path, tmp_path / "given.npy", tmp_path / "told.npy"]
    subprocess.run([sys.executable, "-c", WITHOUT_DELIRA, *map(str, files)], check=True, cwd=tmp_path, timeout=120)
    expected = ensemble.predict(dict(NEW))["pred"]
    np.testing.assert_allclose(np.load(files[-1]), expected, rtol=1e-5, atol=2e-6)


# ------------------------------------------------------------------ preprocessing


def many_scalers():
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    pipeline = pytest.importorskip("sklearn.pipeline")
    scalers = [
        preprocessing.StandardScaler(),
        preprocessing.StandardScaler(with_mean=False),
        preprocessing.StandardScaler(with_std=False),
        preprocessing.MinMaxScaler((-2, 3)),
        preprocessing.MaxAbsScaler(),
        preprocessing.RobustScaler(),
        preprocessing.RobustScaler(with_centering=False, with_scaling=False),
    ]
    return [*scalers, pipeline.make_pipeline(*scalers, "passthrough")]


def test_layers_are_what_scalers_do():
    from delira.data_loading.affine import affine_of

    rows = np.float64(batch_of(36)["data"])
    for each in many_scalers():
        done = each.fit_transform(rows)
        layer = affine_of(each, "the preprocessing")
        np.testing.assert_allclose((rows - layer.center) * layer.scale, done, rtol=1e-9, atol=1e-9, err_msg=repr(each))


def test_a_center_far_from_zero_costs_no_digits():
    from delira.io.program import Part

    pytest.importorskip("sklearn")
    rows = np.float32(np.random.default_rng(0).normal(1e5 / 3, 1, (50, 4)))
    fitted = scaler().fit(np.float64(rows))
    part = Part(network=None, arguments={"x": "x"}, transformers={"x": fitted})
    np.testing.assert_allclose(part.given({"x": rows})["x"], fitted.transform(np.float64(rows)), rtol=1e-5, atol=1e-6)


def test_other_transformers_are_refused_by_name(tmp_path):
    result, known = trained("torch", tmp_path, preprocessing={"data": scaler("PowerTransformer")})
    ensemble = result.ensemble(objects=known)
    with pytest.raises(ConfigError, match="preprocessing of the entry 'data' has a PowerTransformer, which does more"):
        ensemble.export(tmp_path / "net.pt2", NEW)
    network = result.folds[0].load_network(known)
    with pytest.raises(ConfigError, match="preprocessing of the entry 'data' has a PowerTransformer, which does more"):
        export(network, tmp_path / "net.pt2", NEW)
    assert not [*tmp_path.glob("*.pt2")]
    # what it went through before is up to who asks for it
    path = export(network, tmp_path / "net.pt2", NEW, preprocessing=False)
    fitted = training.load_preprocessing(result.folds[0].path)
    given = np.float32(fitted(NEW)["data"])
    expected = delira.predict(network, dict(NEW))["pred"]
    np.testing.assert_allclose(run_pt2(path, {"x": given})["pred"], expected, rtol=1e-5, atol=2e-6)


def test_scalers_that_clip_are_refused():
    from delira.data_loading.affine import affine_of

    preprocessing = pytest.importorskip("sklearn.preprocessing")
    clipping = preprocessing.MinMaxScaler(clip=True).fit(batch_of(12)["data"])
    with pytest.raises(ConfigError, match="MinMaxScaler with clip=True"):
        affine_of(clipping, "the preprocessing")


@pytest.mark.parametrize("backend", ["torch", *(pytest.param(one, marks=pytest.mark.slow) for one in [*FILES][1:])])
def test_the_program_of_one_network_has_its_preprocessing(backend, tmp_path):
    result, known = trained(backend, tmp_path, preprocessing={"data": scaler("MinMaxScaler")})
    network = result.folds[0].load_network(known)
    path = export(network, tmp_path / FILES[backend], NEW)
    found = RUN[path.suffix](path, {"x": NEW["data"]})
    expected = delira.predict(network, dict(NEW))
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(found["pred"], expected["pred"], rtol=1e-5, atol=2e-6)


def test_an_estimator_is_exported_with_any_preprocessing(tmp_path):
    skops = pytest.importorskip("skops.io", reason="estimators are kept by skops")
    decomposition = pytest.importorskip("sklearn.decomposition")
    linear = pytest.importorskip("sklearn.linear_model")
    experiment = training.SklearnExperiment({}, linear.LogisticRegression, save_path=tmp_path)
    data = BaseDataManager(batch_of(36), batch_size=6)
    result = experiment.kfold(
        data, num_splits=3, shuffle=True, verbose=False, preprocessing={"data": decomposition.PCA(2)}
    )
    network = result.folds[0].load_network()
    path = export(network, tmp_path / "net.skops", NEW)
    estimator = skops.load(path, trusted=skops.get_untrusted_types(file=path))
    expected = delira.predict(network, dict(NEW))["pred"]
    np.testing.assert_allclose(estimator.predict_proba(NEW["data"]), expected, rtol=1e-6)
    with pytest.raises(ConfigError, match="estimators of scikit-learn are exported one at a time"):
        result.ensemble().export(tmp_path / "all.skops", NEW)


def test_a_prepare_batch_of_ones_own_after_a_preprocessing_is_refused(tmp_path):
    pytest.importorskip("torch")
    net, loss, optimizer = torch_parts()

    class Doubled(net):
        @staticmethod
        def prepare_batch(batch, input_device, output_device):
            return net.prepare_batch({**batch, "data": batch["data"] * 2}, input_device, output_device)

    result, known = trained("torch", tmp_path, (Doubled, loss, optimizer), preprocessing={"data": scaler()})
    with pytest.raises(ConfigError, match="Doubled has a prepare_batch of its own"):
        result.ensemble(objects=known).export(tmp_path / "net.pt2", NEW)


# ------------------------------------------------------------------ what is refused


def test_what_cannot_be_written_is_said(scaled, tmp_path):
    result, known = scaled
    ensemble = result.ensemble(objects=known)
    with pytest.raises(ConfigError, match=r"not exported to 'net\.txt'"):
        ensemble.export(tmp_path / "net.txt", NEW)
    with pytest.raises(ConfigError, match=r"weights of one network; write several by ensemble.save"):
        ensemble.export(tmp_path / "net.safetensors", NEW)
    with pytest.raises(ConfigError, match="needs example=batch"):
        export(ensemble, tmp_path / "net.pt2")
    with pytest.raises(MissingKeyError, match=r"the members read 'data', but the example has only \['x'\]"):
        ensemble.export(tmp_path / "net.pt2", {"x": NEW["data"]})
    with pytest.raises(ConfigError, match="leave both out"):
        export(ensemble, tmp_path / "net.pt2", NEW, key_mapping={"x": "data"})
    with pytest.raises(ConfigError, match="inference is 'trained' or None"):
        ensemble.export(tmp_path / "net.pt2", NEW, inference="none")
    assert not [*tmp_path.iterdir()]


def test_outputs_of_which_nobody_knows_what_they_are_have_no_votes(tmp_path):
    def loss(pred, label):
        return (pred[:, 0] - label).square().mean()

    result, known = trained("torch", tmp_path, torch_net(lambda said: {"pred": said}, 1, loss))
    with pytest.raises(ConfigError, match=r"the output 'pred' .* whether it is logits or probabilities"):
        result.ensemble(objects=known, combine="votes").export(tmp_path / "net.pt2", NEW)
