"""U-Nets of residual units in every framework: any size, losses over scales by hand, resume, export, refusals."""

import importlib
import itertools
from typing import Any

import numpy as np
import pytest

import delira
import delira.models
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.io import export
from delira.models import named_weights, unet_plan
from delira.models.unet_plan import UNetPlan

SMALL = {"channels": (4, 6, 6, 6), "n_units": 1, "deep_supervision": 2}
DATA = {"data": np.random.default_rng(0).normal(size=(8, 1, 11, 9)).astype(np.float32)}
DATA["label"] = (DATA["data"] > 0).astype(np.uint8)


class Kit:
    """A framework: its networks, a loss, and what trains."""

    def __init__(self, ending: str, trainer: str, package: str, optimizer: str, **more: Any):
        self.ending, self.settings = ending, more
        self._trainer, self._package, self._optimizer = trainer, package, optimizer

    def __repr__(self) -> str:
        return self.ending

    def build(self, name: str = "ResidualUNet2d", num_classes: int = 2, **arguments: Any) -> Any:
        pytest.importorskip(self._package, reason=f"the backend needs the package {self._package!r}")
        cls = getattr(delira.models, name + self.ending)
        delira.seed_all(0)
        cls.__delira_backend__.generators.seed(0)  # of JAX, which has no generator of its own
        return cls(num_classes, **{**SMALL, **arguments})

    def loss(self, pred: Any, label: Any) -> Any:
        raise NotImplementedError

    def trainer(self, network: Any, path: Any, **more: Any) -> Any:
        trainer = getattr(importlib.import_module("delira.training"), self._trainer)
        package, _, name = self._optimizer.rpartition(".")
        optimizer = getattr(importlib.import_module(package), name)
        settings = {"losses": {"ce": self.loss}, "optimizer_params": {"lr": 0.01}, "save_freq": None, **more}
        return trainer(network, path, optimizer_cls=optimizer, logging_type=None, verbose=False, **settings)

    def closure(self, network: Any, batch: Any, mode: str, **more: Any) -> tuple[Any, Any]:
        """Losses and predictions of a batch from which nothing is learned, in training or evaluation mode."""
        backend = network.__delira_backend__
        prepared = network.prepare_batch(batch, "cpu", "cpu")
        losses = more.pop("losses", {"ce": self.loss})
        with getattr(backend.calls, mode)(network):
            _, values, predictions = network.closure(network, prepared, {}, losses, **more)
        return {name: float(value) for name, value in values.items()}, backend.arrays.to_numpy(predictions)


class TorchKit(Kit):
    def loss(self, pred, label):
        return importlib.import_module("torch").nn.functional.cross_entropy(pred, label)


class TfKit(Kit):
    def loss(self, pred, label):
        tf = importlib.import_module("tensorflow")
        last = tf.transpose(pred, [0, *range(2, pred.shape.rank), 1])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, last))


class JaxKit(Kit):
    def loss(self, pred, label):
        jnp = importlib.import_module("jax.numpy")
        cross_entropy = importlib.import_module("optax").softmax_cross_entropy_with_integer_labels
        return cross_entropy(jnp.moveaxis(pred, 1, -1), label).mean()


KITS = [
    TorchKit("PyTorch", "PyTorchNetworkTrainer", "torch", "torch.optim.Adam"),
    TorchKit("TorchScript", "TorchScriptNetworkTrainer", "torch", "torch.optim.Adam"),
    TfKit("Tf", "TfNetworkTrainer", "tensorflow", "keras.optimizers.Adam"),
    JaxKit("Jax", "JaxNetworkTrainer", "flax", "optax.adam"),
]
FRAMEWORKS = pytest.mark.parametrize("framework", KITS, ids=repr)


def numbers(network: Any) -> dict[str, np.ndarray]:
    return {name: array for name, array in named_weights(network).items() if "running" not in name}


def cross_entropy(logits: np.ndarray, label: np.ndarray) -> float:
    largest = logits.max(1, keepdims=True)
    log_sum = np.log(np.exp(logits - largest).sum(1, keepdims=True)) + largest
    return float(-np.take_along_axis(logits - log_sum, label[:, None], 1).mean())


# ------------------------------------------------------------------ outputs


@pytest.mark.slow_cases("Tf|Jax")
@FRAMEWORKS
def test_masks_have_the_size_of_what_they_are_of_whatever_the_strides(framework):
    for name, shape, more in (
        ("ResidualUNet2d", (1, 1, 13, 6), {}),
        ("ResidualUNet2d", (2, 1, 7, 10), {"strides": [1, (3, 1), 4], "deep_supervision": 0, "norm": "batch"}),
        ("ResidualUNet3d", (1, 1, 3, 9, 8), {"strides": [(1, 2, 2), 2, 1], "kernels": [(1, 3, 3), 3, 3, 1]}),
    ):
        network = framework.build(name, 3, **more)
        backend = network.__delira_backend__
        batch = network.prepare_batch({"data": np.ones(shape)}, "cpu", "cpu")
        for mode in ("evaluating", "training"):
            with getattr(backend.calls, mode)(network):
                found = backend.arrays.to_numpy(backend.calls.forward(network, {"x": batch["data"]}))
            expected = {"pred": (shape[0], 3, *shape[2:])}
            lengths = shape[2:]
            for number in range(1, network.n_scales if mode == "training" else 1):
                steps = network.init_kwargs["strides"][number - 1]
                lengths = tuple(-(-length // step) for length, step in zip(lengths, steps, strict=True))
                expected[f"pred_{number}"] = (shape[0], 3, *lengths)
            assert {key: value.shape for key, value in found.items()} == expected, mode


def test_every_framework_has_as_many_parameters():
    arguments = {"channels": (2, 3), "n_units": (1, 2), "num_classes": 5, "in_channels": 4, "deep_supervision": 0}
    units = [(4, 2, True), (2, 3, True), (3, 3, False), (4, 2, True)]  # channels, and whether there is a shortcut
    expected = sum(9 * a * b + 9 * b * b + 4 * b + (a * b + 2 * b if short else 0) for a, b, short in units)
    expected += 3 * 2 * 4 + 2 + 2 * 5 + 5  # the transposed convolution, the head
    for framework in KITS:
        if importlib.util.find_spec(framework._package) is not None:
            network = framework.build(**arguments)
            assert sum(array.size for array in numbers(network).values()) == expected, framework


@FRAMEWORKS
def test_a_seed_makes_the_weights_and_init_kwargs_the_network(framework):
    networks = [framework.build(dropout=0.2), framework.build(dropout=0.2)]
    networks.append(framework.build(**{"name": "ResidualUNet2d", **networks[0].init_kwargs}))
    one, *others = [named_weights(network) for network in networks]
    assert networks[2].init_kwargs == networks[0].init_kwargs
    for other in others:
        assert all(np.array_equal(other[name], array) for name, array in one.items())


# ------------------------------------------------------------------ losses over scales


@pytest.mark.slow_cases("Tf|Jax")
@FRAMEWORKS
def test_a_loss_in_training_is_the_mean_over_the_scales(framework):
    network = framework.build()
    values, outputs = framework.closure(network, DATA, "training")
    label = DATA["label"][:, 0].astype(int)
    by_scale = [
        cross_entropy(outputs["pred"], label),
        cross_entropy(outputs["pred_1"], label[:, ::2, ::2]),
        cross_entropy(outputs["pred_2"], label[:, ::4, ::4]),
    ]
    assert values == {"val_ce": pytest.approx(np.average(by_scale, weights=[4, 2, 1]), rel=1e-5)}
    values, outputs = framework.closure(network, DATA, "evaluating")
    assert list(outputs) == ["pred"]
    assert values == {"val_ce": pytest.approx(cross_entropy(outputs["pred"], label), rel=1e-5)}


@pytest.mark.slow_cases("Tf|Jax")
@FRAMEWORKS
def test_every_weight_learns_those_of_coarse_heads_too(framework, tmp_path):
    network = framework.build(norm="batch")
    before = numbers(network)
    trainer = framework.trainer(network, tmp_path)
    trainer.train(1, BaseDataManager(DATA, batch_size=8))
    after = numbers(trainer.module)
    heads = [name for name in after if ".heads." in name]
    assert len(heads) == 6
    learned = [name for name in after if "moving" not in name and not name.endswith((".mean", ".var", "tracked"))]
    assert [name for name in learned if np.array_equal(after[name], before[name])] == []


def test_what_else_a_loss_reads_shrinks_with_the_target_and_other_losses_stay():
    torch = pytest.importorskip("torch")
    framework, seen = KITS[0], []

    def weighted(pred, label, weight, factor):
        seen.append((tuple(pred.shape), tuple(label.shape), tuple(weight.shape), tuple(factor.shape)))
        return (torch.nn.functional.cross_entropy(pred, label, reduction="none") * weight[:, 0]).mean()

    losses = {"weighted": weighted, "coarse": lambda pred: pred.square().mean()}
    keys = {"weighted": ("pred", "label", "weight", "factor"), "coarse": ("pred_1",)}
    weight = np.random.default_rng(1).uniform(size=(8, 1, 11, 9)).astype(np.float32)
    batch = {**DATA, "weight": weight, "factor": np.ones((8, 1)), "name": ["a"] * 8}
    network = framework.build(deep_supervision=1)
    values, outputs = framework.closure(network, batch, "training", losses=losses, loss_keys=keys)
    assert seen == [
        ((8, 2, 11, 9), (8, 11, 9), (8, 1, 11, 9), (8, 1)),
        ((8, 2, 6, 5), (8, 6, 5), (8, 1, 6, 5), (8, 1)),
    ]
    assert values["val_coarse"] == pytest.approx(np.square(outputs["pred_1"]).mean(), rel=1e-5)


def test_a_loss_with_the_target_first_is_read_by_its_names_on_every_scale():
    pytest.importorskip("torch")
    framework = KITS[0]
    network = framework.build()
    plain, _ = framework.closure(network, DATA, "training")
    turned, _ = framework.closure(
        network, DATA, "training", losses={"ce": lambda target, pred: framework.loss(pred, target)}
    )
    assert turned == plain


def test_one_hot_masks_shrink_and_hooks_see_the_whole_loss():
    torch = pytest.importorskip("torch")
    step = importlib.import_module("delira.contract.step")
    framework, seen = KITS[0], []
    network = framework.build(deep_supervision=1)
    one_hot = np.concatenate([1 - DATA["label"], DATA["label"]], 1)
    hooks = step.StepHooks(criterion=(lambda step: seen.append(float(step.losses["mse"])),))
    losses = {"mse": torch.nn.MSELoss()}
    values, outputs = framework.closure(network, {**DATA, "label": one_hot}, "training", losses=losses, hooks=hooks)
    by_scale = [
        np.square(outputs["pred"] - one_hot).mean(),
        np.square(outputs["pred_1"] - one_hot[..., ::2, ::2]).mean(),
    ]
    assert values["val_mse"] == pytest.approx(np.average(by_scale, weights=[2, 1]), rel=1e-5)
    assert seen == [values["val_mse"]]


# ------------------------------------------------------------------ training


@pytest.mark.slow_cases("Tf|Jax")
@FRAMEWORKS
def test_it_learns_where_coins_are(framework, tmp_path):
    photograph = pytest.importorskip("skimage.data").coins().astype(np.float32) / 255
    corners = itertools.product(range(0, 256, 32), range(0, 352, 48))
    crops = np.stack([photograph[row : row + 32, column : column + 32] for row, column in corners])[:, None]
    data = {"data": (crops - crops.mean()) / crops.std(), "label": (crops > 0.45).astype(np.uint8)}
    network = framework.build(deep_supervision=1)
    trainer = framework.trainer(network, tmp_path)
    trainer.train(3, BaseDataManager(data, batch_size=8), BaseDataManager(data, batch_size=8))
    history = trainer.state.history
    assert history[-1]["ce"] < 0.7 * history[0]["ce"]
    assert history[-1]["val_ce"] < 0.4


@pytest.mark.slow_cases("Tf|Jax")
@FRAMEWORKS
@pytest.mark.parametrize("settings", [{"mixed_precision": "bf16"}, {"micro_batches": 2}], ids=str)
def test_settings_of_the_update_work(framework, settings, tmp_path):
    if framework.ending == "TorchScript" and "mixed_precision" in settings:
        pytest.skip("TorchScript trains in single precision")
    trainer = framework.trainer(framework.build(), tmp_path, **settings)
    trainer.train(1, BaseDataManager(DATA, batch_size=4))
    assert all(np.isfinite(array).all() for array in named_weights(trainer.module).values())
    assert np.isfinite(trainer.state.history[0]["ce"])


@pytest.mark.slow_cases("Tf|Jax")
@FRAMEWORKS
def test_a_resumed_training_equals_an_unbroken_one(framework, tmp_path):
    def run(path, *epochs):
        for number in epochs:
            trainer = framework.trainer(framework.build(dropout=0.3, norm="batch"), path, save_freq=1)
            trainer.train(number, BaseDataManager(DATA, batch_size=4))
        return named_weights(trainer.module)

    whole, resumed = run(tmp_path / "whole", 2), run(tmp_path / "resumed", 1, 2)
    assert all(np.array_equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "ending"), [(KITS[2], ".savedmodel"), (KITS[3], ".stablehlo")], ids=str)
def test_it_is_exported(framework, ending, tmp_path):
    network = framework.build()
    path = export(network, tmp_path / f"net{ending}", {"data": DATA["data"][:3]})
    if ending == ".savedmodel":
        serve = importlib.import_module("tensorflow").saved_model.load(str(path)).signatures["serving_default"]
        found = serve(x=importlib.import_module("tensorflow").constant(DATA["data"]))
    else:
        program = importlib.import_module("jax.export").deserialize(bytearray(path.read_bytes()))
        found = program.call({"x": DATA["data"]})
    _, expected = framework.closure(network, DATA, "evaluating")
    assert list(found) == ["pred"]
    np.testing.assert_allclose(found["pred"], expected["pred"], rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ what does not fit


@FRAMEWORKS
def test_a_net_too_deep_for_its_images_is_named(framework):
    network = framework.build()
    images = network.prepare_batch({"data": np.ones((2, 1, 8, 5))}, "cpu", "cpu")["data"]
    with pytest.raises(Exception, match=r"images of shape \[8, 5\] are too small: the strides make one entry of \[8,"):
        network(images)


def test_images_of_unknown_length_are_left_to_be_seen():
    unet_plan.check_depth([None, 4], (8, 8))
    unet_plan.check_depth([1, 9], (8, 8))
    with pytest.raises(DataError, match="fewer channels"):
        unet_plan.check_depth([3, 8], (8, 8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "num_classes is a whole number of at least 1, got 0"),
        ({"channels": 4}, "channels has a number for each level, of at least two, got 4"),
        ({"channels": (4,)}, "channels has a number for each level, of at least two"),
        ({"channels": (4, "8")}, "channels is a whole number of at least 1, got '8'"),
        ({"strides": [2, 2]}, "strides is one whole number, or one for each of the 4 steps between levels"),
        ({"strides": [(2, 2, 2), 2, 2, 2]}, "strides has one whole number, or one for each of the 2 axes"),
        ({"strides": None}, "strides is one whole number"),
        ({"kernels": [3, 3, 4, 3, 3]}, "kernels are odd, so that they have a middle"),
        ({"n_units": (1, 2)}, "n_units has one whole number, or one for each of the 5 levels"),
        ({"norm": "instances"}, "norm must be 'instance' or 'batch', got 'instances'; did you mean 'instance'"),
        ({"activation": "tanh"}, "activation must be 'leaky_relu', 'relu' or 'silu'"),
        ({"dropout": 1.0}, "dropout is below 1"),
        ({"dropout": -0.1}, "dropout"),
        ({"deep_supervision": 4}, "of 5 levels at most 3 coarser ones can learn by the losses"),
        ({"deep_supervision": True}, "deep_supervision is a whole number"),
    ],
)
def test_a_plan_that_makes_no_network_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        UNetPlan(n_axes=2, **{"num_classes": 2, **arguments})


def test_an_unknown_argument_is_refused_with_a_guess():
    pytest.importorskip("torch")
    with pytest.raises(ConfigError, match="has no argument 'n_unit'; did you mean 'n_units'"):
        KITS[0].build(n_unit=3)


def test_a_plan_writes_numbers_out_for_every_level_and_axis():
    plan = UNetPlan(n_axes=3, num_classes=np.int64(2), channels=[4, 8, 8], strides=[(1, 2, 2), 2], kernels=3)
    assert plan.arguments == {
        "num_classes": 2, "in_channels": 1, "channels": (4, 8, 8), "strides": ((1, 2, 2), (2, 2, 2)),
        "kernels": ((3, 3, 3),) * 3, "n_units": (2, 2, 2), "norm": "instance", "activation": "leaky_relu",
        "dropout": 0.0, "deep_supervision": 0,
    }  # fmt: skip
    assert plan.reach == (2, 4, 4)
    assert UNetPlan(n_axes=3, **plan.arguments) == plan
