"""The ready networks of the PyTorch backend: structure, arithmetic, training on real data, resume, export."""

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.datasets import load_digits  # noqa: E402

from delira.data_loading import BaseDataManager  # noqa: E402
from delira.errors import ConfigError, DataError  # noqa: E402
from delira.io import export  # noqa: E402
from delira.metrics import SklearnAccuracyScore  # noqa: E402
from delira.models import (  # noqa: E402
    AbstractPyTorchNetwork,
    ClassificationNetworkBasePyTorch,
    GenerativeAdversarialNetworkBasePyTorch,
    RegressionNetworkBasePyTorch,
    ResidualUNet2dPyTorch,
    ResidualUNet3dPyTorch,
    UNet2dPyTorch,
    UNet3dPyTorch,
    VariationalAutoencoderPyTorch,
    VGG3DClassificationNetworkPyTorch,
    named_weights,
)
from delira.training import (  # noqa: E402
    PyTorchExperiment,
    PyTorchNetworkTrainer,
    create_optims_gan_default_pytorch,
)
from delira.training.losses import DiceCELossPyTorch  # noqa: E402

BCE, CE = torch.nn.BCEWithLogitsLoss(), torch.nn.CrossEntropyLoss()
CPU = torch.device("cpu")


# ------------------------------------------------------------------ one small problem for each network


@functools.cache
def digits(n=48):
    """Images of shape (n, 1, 8, 8) in [0, 1], and their classes."""
    images, labels = load_digits(return_X_y=True)
    return (images[:n].reshape(n, 1, 8, 8) / 16).astype(np.float32), labels[:n]


@functools.cache
def coins(n=24, size=24):
    """Crops of a photograph of coins, and where the coins are."""
    photograph = pytest.importorskip("skimage.data").coins().astype(np.float32) / 255
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 303 - size, n), rng.integers(0, 384 - size, n)
    crops = np.stack([photograph[r : r + size, c : c + size] for r, c in zip(rows, columns, strict=True)])
    return crops[:, None], (crops > 0.45).astype(np.int64)


def image_classes():
    images, labels = digits()
    return {"data": images, "label": labels}


def volume_classes():
    images, labels = digits(24)
    return {"data": np.repeat(images[:, :, None], 4, 2), "label": labels[:, None]}


def brightness():
    images, _ = digits()
    return {"data": images, "label": images.mean((1, 2, 3)) * 4}


def image_masks():
    images, masks = coins()
    return {"data": images, "label": masks[:, None]}


def volume_masks():
    images, _ = digits(16)
    volumes = np.repeat(images[:, :, None], 5, 2)
    return {"data": volumes, "label": (volumes > 0.5).astype(np.uint8)}


def large_images():
    images, _ = digits(8)
    return {"data": np.kron(images, np.ones((8, 8), np.float32)) * 2 - 1}


def images_only():
    return {"data": digits()[0]}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A network, the data it is for, and how it is trained."""

    network: type
    arguments: Mapping[str, Any]
    arrays: Callable[[], dict[str, np.ndarray]]
    settings: Mapping[str, Any]
    falls: str | None
    """The loss that falls."""

    def build(self):
        torch.manual_seed(0)
        return self.network(**self.arguments)

    def manager(self, batch_size=8):
        return BaseDataManager(self.arrays(), batch_size=batch_size)

    def trainer(self, path, **more):
        optimizer = {"optimizer_cls": torch.optim.Adam, "optimizer_params": {"lr": 0.03}}
        quiet = {"save_freq": None, "num_threads": 1, "logging_type": None, "verbose": False}
        settings = {**optimizer, **quiet, **self.settings, **more}
        return PyTorchNetworkTrainer(settings.pop("network", None) or self.build(), path, **settings)

    def batch(self, n=4):
        return {name: array[:n] for name, array in self.arrays().items()}

    def prepared(self, n=4):
        return self.network.prepare_batch(self.batch(n), CPU, CPU)


GAN = GenerativeAdversarialNetworkBasePyTorch
PROBLEMS = {
    "classification": Problem(
        ClassificationNetworkBasePyTorch, {"in_channels": 1, "n_outputs": 10, "start_filts": 4},
        image_classes, {"losses": {"ce": CE}}, "ce",
    ),
    "vgg": Problem(
        VGG3DClassificationNetworkPyTorch, {"in_channels": 1, "n_outputs": 10, "start_filts": 4},
        volume_classes, {"losses": {"ce": CE}}, "ce",
    ),
    "regression": Problem(
        RegressionNetworkBasePyTorch, {"in_channels": 1, "n_outputs": 1, "start_filts": 4},
        brightness, {"losses": {"mse": torch.nn.MSELoss()}}, "mse",
    ),
    "unet2d": Problem(
        UNet2dPyTorch, {"num_classes": 2, "depth": 3, "start_filts": 4},
        image_masks, {"losses": {"dice_ce": DiceCELossPyTorch()}, "optimizer_params": {"lr": 0.01}}, "dice_ce",
    ),
    "unet3d": Problem(
        UNet3dPyTorch, {"num_classes": 2, "in_channels": 1, "depth": 2, "start_filts": 4},
        volume_masks, {"losses": {"ce": CE}}, "ce",
    ),
    "residual_unet2d": Problem(
        ResidualUNet2dPyTorch, {"num_classes": 2, "channels": (4, 8, 8), "deep_supervision": 1},
        image_masks, {"losses": {"dice_ce": DiceCELossPyTorch()}, "optimizer_params": {"lr": 0.01}}, "dice_ce",
    ),
    "residual_unet3d": Problem(
        ResidualUNet3dPyTorch,
        {"num_classes": 2, "channels": (4, 4, 4), "strides": ((1, 2, 2), (2, 2, 2)), "norm": "batch", "dropout": 0.1,
         "deep_supervision": 1},
        volume_masks, {"losses": {"ce": CE}}, "ce",
    ),
    "gan": Problem(
        GAN, {"n_channels": 1, "noise_length": 6, "start_filts": 2},
        large_images, {"losses": {"bce": BCE}, "optim_fn": create_optims_gan_default_pytorch}, None,
    ),
    "vae": Problem(
        VariationalAutoencoderPyTorch, {"in_channels": 1, "image_size": 8, "latent_dim": 4, "start_filts": 4},
        images_only, {"losses": {"bce": BCE}}, "bce",
    ),
}  # fmt: skip


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def same_weights(left, right):
    left, right = named_weights(left), named_weights(right)
    return left.keys() == right.keys() and all(left[name].tobytes() == right[name].tobytes() for name in left)


def predicted(network, **inputs):
    torch.manual_seed(1)
    with torch.no_grad():
        return network.eval()(**inputs)


# ------------------------------------------------------------------ every network


@pytest.mark.sampled("half")
def test_a_training_lowers_the_loss(problem, tmp_path):
    trainer = problem.trainer(tmp_path)
    before = copy.deepcopy(trainer.module)
    trainer.train(6, problem.manager())
    learned = dict(before.named_parameters())
    moved = [name for name, weight in trainer.module.named_parameters() if not torch.equal(weight, learned[name])]
    assert moved == list(learned)  # every weight has a gradient
    history = trainer.state.history
    assert all(np.isfinite(value) for row in history for value in row.values() if isinstance(value, float))
    if problem.falls:
        assert history[-1][problem.falls] < 0.9 * history[0][problem.falls]


@pytest.mark.sampled("half")
def test_a_run_that_was_broken_off_inside_an_epoch_ends_in_the_same_bits(problem, tmp_path):
    class Interrupted(BaseException):
        pass

    class AtStep2:
        def at_iter_end(self, trainer, *, global_iter_num, **facts):
            if global_iter_num == 2:
                raise Interrupted

    arrays = {name: array[:10] for name, array in problem.arrays().items()}
    manager = BaseDataManager(arrays, batch_size=5)
    unbroken = problem.trainer(tmp_path / "unbroken", save_freq_steps=1)
    unbroken.train(2, manager)
    with pytest.raises(Interrupted):
        problem.trainer(tmp_path / "broken", save_freq_steps=1, callbacks=[AtStep2()]).train(2, manager)
    resumed = problem.trainer(tmp_path / "broken", save_freq_steps=1)
    assert resumed.state.global_step == 2
    resumed.train(2, manager)
    assert same_weights(resumed.module, unbroken.module)
    assert resumed.state.history == unbroken.state.history


def test_init_kwargs_build_the_same_network_again(problem):
    network = problem.build()
    assert dict(problem.arguments).items() <= network.init_kwargs.items()
    again = type(network)(**network.init_kwargs)
    again.load_state_dict(network.state_dict())
    inputs = {next(iter(network.__delira_backend__.calls.key_mapping(network))): problem.prepared()["data"]}
    expected, found = predicted(network, **inputs), predicted(again, **inputs)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_neither_preparation_nor_closure_changes_the_batch(problem):
    batch = problem.batch()
    kept = {name: array.copy() for name, array in batch.items()}
    network = problem.build()
    prepared = network.prepare_batch(batch, CPU, CPU)
    entries = dict(prepared)
    network.closure(network, prepared, {}, losses=problem.settings["losses"])
    assert prepared.keys() == entries.keys()
    assert all(prepared[name] is entries[name] for name in entries)
    assert batch.keys() == kept.keys()
    assert all(np.array_equal(batch[name], kept[name]) for name in kept)
    assert all(tensor.dtype is torch.float32 for name, tensor in prepared.items() if name == "data")


def test_without_optimizers_nothing_is_learned(problem):
    network = problem.build().eval()
    before = copy.deepcopy(network)
    losses, metrics = problem.settings["losses"], {"mean": lambda target, prediction: prediction.mean()}
    metric_values, loss_values, predictions = network.closure(
        network, problem.prepared(), {}, losses=losses, metrics=metrics
    )
    assert all(name.startswith("val_") for name in (*metric_values, *loss_values))
    assert loss_values
    assert metric_values
    assert not any(value.requires_grad for value in (*loss_values.values(), *predictions.values()))
    assert same_weights(network, before)


def test_what_a_step_returns_keeps_no_graph_alive(problem, tmp_path):
    trainer, data = problem.trainer(tmp_path), problem.prepared()
    network, losses = trainer.module.train(), problem.settings["losses"]
    with torch.enable_grad():
        _, values, predictions = network.closure(network, data, trainer.optimizers, losses)
    assert values
    assert not any(value.requires_grad for value in (*values.values(), *predictions.values()))


@pytest.mark.sampled("half")
def test_torchscript_takes_every_network(problem):
    network = problem.build().eval()
    for name, module in network.named_children():
        scripted = torch.jit.script(module)
        assert scripted.state_dict().keys() == module.state_dict().keys(), name
    data = problem.prepared()["data"]
    torch.manual_seed(2)
    expected = network(data)
    torch.manual_seed(2)
    found = torch.jit.script(network)(data)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)


# torch's own, when it reads a .pt2 file
@pytest.mark.sampled("half")
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
# a GAN draws its noise: see the one that is given it; the regression is the classification
@pytest.mark.parametrize("problem", sorted(PROBLEMS.keys() - {"gan", "regression"}), indirect=True)
def test_an_exported_network_takes_any_number_of_samples(problem, tmp_path):
    network = problem.build()
    path = export(network, tmp_path / "net.pt2", problem.batch(3))
    program = torch.export.load(path).module()
    for n in (1, 5):
        data = problem.prepared(n)["data"]
        name = next(iter(network.__delira_backend__.calls.key_mapping(network)))
        for key, tensor in predicted(network, **{name: data}).items():
            torch.testing.assert_close(program(**{name: data})[key], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_every_network_is_exported_to_onnx(problem, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    network = problem.build()
    inputs = {next(iter(network.__delira_backend__.calls.key_mapping(network))): problem.prepared(3)["data"]}
    if problem.network is GAN:
        inputs["noise"] = torch.randn(3, 6)
    path = export(network, tmp_path / "net.onnx", inputs)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, {name: value.numpy() for name, value in inputs.items()}), strict=True))
    for name, tensor in predicted(network, **inputs).items():
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("settings", [{"mixed_precision": "bf16"}, {"micro_batches": 2}, {"nonfinite": "skip"}])
def test_settings_of_the_update_work_with_every_network(problem, tmp_path, settings):
    trainer = problem.trainer(tmp_path, **settings)
    before = copy.deepcopy(trainer.module)
    arrays = {name: array[:8] for name, array in problem.arrays().items()}
    if problem.network in (ClassificationNetworkBasePyTorch, RegressionNetworkBasePyTorch):
        # in bfloat16, PyTorch has wrong gradients for strided convolutions of a single pixel: see ResNet18
        arrays["data"] = np.kron(arrays["data"], np.ones((4, 4), np.float32))
    trainer.train(1, BaseDataManager(arrays, batch_size=4))
    assert not same_weights(trainer.module, before)
    assert all(np.isfinite(array).all() for array in named_weights(trainer.module).values())


# ------------------------------------------------------------------ classification and regression


def count(module):
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (7, 33), (64, 40)])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_images_of_any_size_and_channels_have_logits(channels, size):
    network = ClassificationNetworkBasePyTorch(channels, 7, start_filts=2).eval()
    assert network(torch.rand(2, channels, *size))["pred"].shape == (2, 7)


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 8, 3), (33, 16, 16)])
@pytest.mark.parametrize("channels", [1, 2])
def test_volumes_of_any_size_and_channels_have_logits(channels, size):
    network = VGG3DClassificationNetworkPyTorch(channels, 3, start_filts=2).eval()
    assert network(torch.rand(2, channels, *size))["pred"].shape == (2, 3)


def test_the_residual_network_has_the_published_size():
    assert count(ClassificationNetworkBasePyTorch(3, 1000)) == 11_689_512


def test_the_residual_network_is_the_published_one():
    """Every layer by hand, in evaluation mode."""
    torch.manual_seed(0)
    network = ClassificationNetworkBasePyTorch(2, 5, start_filts=3).double()
    network.train()(torch.randn(4, 2, 40, 40, dtype=torch.float64))  # moves the averages of the batch norms
    weights, F = network.eval().module.state_dict(), torch.nn.functional

    def normalised(hidden, name):
        mean, var = weights[f"{name}.running_mean"], weights[f"{name}.running_var"]
        scale = weights[f"{name}.weight"] / (var + 1e-5).sqrt()
        shift = weights[f"{name}.bias"] - mean * scale
        return hidden * scale[:, None, None] + shift[:, None, None]

    def block(hidden, name, stride):
        out = F.conv2d(hidden, weights[f"{name}.conv1.weight"], stride=stride, padding=1)
        out = normalised(out, f"{name}.bn1").clamp(min=0)
        out = normalised(F.conv2d(out, weights[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
        if stride == 2:
            hidden = F.conv2d(hidden, weights[f"{name}.downsample.0.weight"], stride=2)
            hidden = normalised(hidden, f"{name}.downsample.1")
        return (out + hidden).clamp(min=0)

    images = torch.randn(2, 2, 37, 50, dtype=torch.float64)
    hidden = normalised(F.conv2d(images, weights["conv1.weight"], stride=2, padding=3), "bn1").clamp(min=0)
    hidden = F.max_pool2d(hidden, 3, 2, 1)
    for stage in range(1, 5):
        hidden = block(hidden, f"layer{stage}.0", 1 if stage == 1 else 2)
        hidden = block(hidden, f"layer{stage}.1", 1)
    expected = hidden.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]
    torch.testing.assert_close(network(images)["pred"], expected)


def test_weights_of_torchvision_fit():
    torchvision = pytest.importorskip("torchvision")
    theirs = torchvision.models.resnet18(num_classes=5).eval()
    network = ClassificationNetworkBasePyTorch(3, 5).eval()
    network.module.load_state_dict(theirs.state_dict())
    images = torch.rand(2, 3, 37, 50)
    with torch.no_grad():
        torch.testing.assert_close(network(images)["pred"], theirs(images))


def test_volumes_have_logits_not_probabilities():
    """Version 0.4 ended in a softmax, with which CrossEntropyLoss hardly learns."""
    network = VGG3DClassificationNetworkPyTorch(1, 3, start_filts=2).eval()
    with torch.no_grad():
        network.module.fc2.weight.mul_(1000)
        pred = network(torch.rand(4, 1, 8, 8, 8))["pred"]
    assert pred.abs().max() > 1
    assert not torch.allclose(pred.sum(1), torch.ones(4))


@pytest.mark.parametrize("network", [ClassificationNetworkBasePyTorch, VGG3DClassificationNetworkPyTorch])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_labels_of_classes_become_numbers(network, dtype):
    for label in (np.array([3, 0], dtype), np.array([[3], [0]], dtype)):
        prepared = network.prepare_batch({"data": np.zeros((2, 1, 4, 4)), "label": label}, CPU, CPU)
        assert prepared["label"].dtype is torch.int64
        assert prepared["label"].tolist() == [3, 0]


def test_labels_of_a_regression_are_not_broadcast():
    prepare = RegressionNetworkBasePyTorch.prepare_batch
    for label, shape in ((np.arange(3), (3, 1)), (np.zeros((3, 2)), (3, 2))):
        prepared = prepare({"data": np.zeros((3, 1, 4, 4)), "label": label}, CPU, CPU)
        assert prepared["label"].shape == shape
        assert prepared["label"].dtype is torch.float32


@pytest.mark.parametrize("base", [ClassificationNetworkBasePyTorch, RegressionNetworkBasePyTorch])
def test_another_module_is_one_method_away(base):
    class Small(base):
        @staticmethod
        def _build_model(in_channels, n_outputs, width, **kwargs):
            return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(width, n_outputs))

    network = Small(1, 2, width=16)
    assert network(torch.rand(3, 1, 4, 4))["pred"].shape == (3, 2)
    assert network.init_kwargs == {"in_channels": 1, "n_outputs": 2, "width": 16}


def test_an_argument_that_nobody_reads_is_refused():
    with pytest.raises(TypeError, match="pretrained"):
        ClassificationNetworkBasePyTorch(1, 2, pretrained=True)


def test_a_batch_without_label_is_prepared():
    for problem in PROBLEMS.values():
        data = problem.batch(2)["data"]
        assert list(problem.network.prepare_batch({"data": data}, CPU, CPU)) == ["data"]


@pytest.mark.slow
def test_an_experiment_with_cross_validation_learns_the_digits(tmp_path):
    images, labels = digits(1000)
    images = np.kron(images, np.ones((4, 4), np.float32))
    params = {
        "fixed": {
            "model": {"in_channels": 1, "n_outputs": 10, "start_filts": 8},
            "training": {
                "losses": {"ce": CE}, "optimizer_cls": torch.optim.Adam, "optimizer_params": {"lr": 3e-3},
                "num_epochs": 8, "num_threads": 1, "logging_type": None, "verbose": False,
            },
        }
    }  # fmt: skip
    experiment = PyTorchExperiment(params, ClassificationNetworkBasePyTorch, save_path=tmp_path)
    manager = BaseDataManager({"data": images, "label": labels}, batch_size=50)
    result = experiment.kfold(manager, {"accuracy": SklearnAccuracyScore()}, num_splits=2, val_split=None)
    _, metrics = result
    assert np.mean([fold["accuracy"] for fold in metrics.values()]) > 0.8


# ------------------------------------------------------------------ U-Nets

MODES = [("transpose", "concat"), ("transpose", "add"), ("upsample", "concat")]


@pytest.mark.parametrize(("up_mode", "merge_mode"), MODES)
@pytest.mark.parametrize("size", [(16, 16), (9, 15), (4, 30)])
def test_a_unet_gives_every_pixel_its_logits(up_mode, merge_mode, size):
    network = UNet2dPyTorch(3, 2, depth=3, start_filts=2, up_mode=up_mode, merge_mode=merge_mode)
    assert network(torch.rand(2, 2, *size))["pred"].shape == (2, 3, *size)


@pytest.mark.parametrize(("up_mode", "merge_mode"), MODES)
@pytest.mark.parametrize("size", [(8, 8, 8), (5, 7, 4)])
def test_a_unet_gives_every_voxel_its_logits(up_mode, merge_mode, size):
    network = UNet3dPyTorch(2, depth=3, start_filts=2, up_mode=up_mode, merge_mode=merge_mode)
    assert network(torch.rand(1, 3, *size))["pred"].shape == (1, 2, *size)


def test_a_level_of_depth_one_has_no_way_up():
    assert UNet2dPyTorch(2, depth=1, start_filts=2)(torch.rand(1, 1, 1, 3))["pred"].shape == (1, 2, 1, 3)


def test_the_unet_has_the_published_size():
    assert count(UNet2dPyTorch(1)) == 31_030_593


def test_defaults_of_the_unets_are_the_historic_ones():
    common = {"depth": 5, "start_filts": 64, "up_mode": "transpose", "merge_mode": "concat", "num_classes": 2}
    with torch.device("meta"):  # the second has 90 million weights
        assert UNet2dPyTorch(2).init_kwargs == {**common, "in_channels": 1}
        assert UNet3dPyTorch(2).init_kwargs == {**common, "in_channels": 3}


@pytest.mark.parametrize("size", [(3, 16), (16, 3)])
def test_an_image_too_small_for_the_depth_is_refused(size):
    with pytest.raises(DataError, match=r"too small: every axis needs at least 4 entries .* smaller depth"):
        UNet2dPyTorch(2, depth=3, start_filts=2)(torch.rand(1, 1, *size))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"up_mode": "bilinear"}, "up_mode must be 'transpose' or 'upsample', got 'bilinear'"),
        ({"merge_mode": "cat"}, "merge_mode must be 'concat' or 'add', got 'cat'"),
        ({"up_mode": "upsample", "merge_mode": "add"}, "does not go with merge_mode='add'"),
        ({"depth": 0}, "depth is a whole number of at least 1"),
    ],
)
@pytest.mark.parametrize("network", [UNet2dPyTorch, UNet3dPyTorch])
def test_modes_that_do_not_exist_are_refused(network, arguments, message):
    with pytest.raises(ConfigError, match=message):  # a ValueError, as in version 0.4
        network(2, **arguments)


def test_the_transposed_way_up_is_what_it_is_called():
    """Each level by hand, on an odd size."""
    network = UNet2dPyTorch(2, depth=2, start_filts=2).double()
    x = torch.rand(1, 1, 5, 7, dtype=torch.float64)
    weights = network.module.state_dict()
    F = torch.nn.functional

    def convolved(hidden, name):
        for part in ("conv1", "conv2"):
            hidden = F.conv2d(hidden, weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"], padding=1)
            hidden = hidden.clamp(min=0)
        return hidden

    first = convolved(x, "down_convs.0")
    second = convolved(F.max_pool2d(first, 2), "down_convs.1")
    up = F.conv_transpose2d(second, weights["up_convs.0.upconv.weight"], weights["up_convs.0.upconv.bias"], stride=2)
    padded = torch.zeros_like(first)
    padded[:, :, :4, :6] = up
    merged = convolved(torch.cat([padded, first], 1), "up_convs.0")
    expected = F.conv2d(merged, weights["conv_final.weight"], weights["conv_final.bias"])
    torch.testing.assert_close(network(x)["pred"], expected)


def test_the_upsampled_way_up_copies_every_entry():
    torch.manual_seed(0)
    up = UNet2dPyTorch(2, depth=2, start_filts=2, up_mode="upsample").module.up_convs[0]
    hidden = torch.rand(1, 4, 2, 3)
    copied = hidden.repeat_interleave(2, 2).repeat_interleave(2, 3)
    torch.testing.assert_close(up.upsample(up.upconv(hidden)), up.upconv(copied))


def test_weights_start_as_xavier_draws_them_and_start_again():
    torch.manual_seed(0)
    network = UNet2dPyTorch(2, depth=2, start_filts=32)
    weight = network.module.down_convs[1].conv2.weight  # 64 to 64 channels, 3 x 3
    before = weight.detach().clone()
    assert float(before.std()) == pytest.approx(np.sqrt(2 / (9 * 64 + 9 * 64)), rel=0.02)
    assert all((weight == 0).all() for name, weight in network.named_parameters() if name.endswith("bias"))
    with torch.no_grad():
        network.module.conv_final.bias += 1
    network.reset_params()
    assert not torch.equal(weight, before)
    assert (network.module.conv_final.bias == 0).all()


@pytest.mark.parametrize(("network", "spatial"), [(UNet2dPyTorch, (4, 6)), (UNet3dPyTorch, (4, 6, 2))])
def test_masks_become_class_numbers_unless_they_have_channels(network, spatial):
    data, ones = np.zeros((2, 1, *spatial)), np.ones((2, *spatial), np.uint8)
    for label, shape, dtype in (
        (ones, ones.shape, torch.int64),
        (ones[:, None].astype(float), ones.shape, torch.int64),
        (np.stack([ones, 1 - ones], 1), (2, 2, *spatial), torch.float32),
    ):
        prepared = network.prepare_batch({"data": data, "label": label}, CPU, CPU)["label"]
        assert prepared.shape == shape
        assert prepared.dtype is dtype


# ------------------------------------------------------------------ the adversarial network


def gan(**arguments):
    torch.manual_seed(0)
    return GAN(**{"n_channels": 1, "noise_length": 3, "start_filts": 1, **arguments})


def test_the_adversarial_network_has_the_published_size():
    network = GAN(3, 100)
    assert (count(network.gen), count(network.discr)) == (3_576_704, 2_765_568)
    assert network.nz == 100


@pytest.mark.parametrize("channels", [1, 3])
def test_the_adversarial_network_makes_and_judges_images(channels):
    outputs = gan(n_channels=channels, noise_length=5)(torch.rand(3, channels, 64, 64))
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {
        "fake_images": (3, channels, 64, 64),
        "discr_fake": (3, 1),
        "discr_real": (3, 1),
    }
    assert outputs["fake_images"].abs().max() <= 1


def test_images_of_another_size_are_refused():
    with pytest.raises(DataError, match="the images have 32 x 64 pixels; resize them to 64 x 64"):
        gan()(torch.rand(2, 1, 32, 64))


def test_its_losses_and_metrics_have_the_historic_names():
    network, data = gan(), {"data": torch.rand(2, 1, 64, 64)}
    metrics = {"mean": lambda target, logits: (target - logits).mean()}
    metric_values, loss_values, predictions = network.closure(network, data, {}, {"bce": BCE}, metrics)
    parts = ("discr_real", "discr_fake", "adversarial")
    assert list(loss_values) == [f"val_bce_{part}" for part in parts]
    assert list(metric_values) == [f"val_mean_{part}" for part in parts]
    assert list(predictions) == ["fake_images", "discr_fake", "discr_real"]


MAPPING = {"real_image_batch": "data", "noise": "noise"}


def _unscaled(loss):
    return contextlib.nullcontext(loss)


def losses_by_hand(network, batch):
    """``(discriminator, generator)``: what each of them lowers."""
    network = copy.deepcopy(network)
    softplus = torch.nn.functional.softplus  # cross-entropy against 1 is softplus(-x), against 0 softplus(x)
    with torch.no_grad():
        fake = network.gen(batch["noise"])
        real, made = network.discr(batch["data"]), network.discr(fake)
        return float(softplus(-real).mean() + softplus(made).mean()), float(softplus(-made).mean())


def test_each_network_follows_the_gradient_of_its_own_loss_only():
    """Against finite differences of both losses, computed by hand."""
    network = gan().double().train()
    generator = torch.Generator().manual_seed(4)
    batch = {
        "data": torch.rand(4, 1, 64, 64, generator=generator, dtype=torch.float64) * 2 - 1,
        "noise": torch.randn(4, 3, generator=generator, dtype=torch.float64),
    }
    lr, step = 0.1, 1e-6
    optimizers = create_optims_gan_default_pytorch(network, torch.optim.SGD, lr=lr)
    for optimizer in optimizers.values():
        optimizer.scale_loss = _unscaled
    before = copy.deepcopy(network)
    network.closure(network, batch, optimizers, {"bce": BCE}, key_mapping=MAPPING)
    between = copy.deepcopy(before)  # the generator learns against the discriminator of after its update
    between.discr.load_state_dict(network.discr.state_dict())
    for part, start, number in (("discr", before, 0), ("gen", between, 1)):
        for name, weight in getattr(start, part).named_parameters():
            place = (0,) * weight.ndim
            values = []
            for sign in (1, -1):
                moved = copy.deepcopy(start)
                with torch.no_grad():
                    dict(getattr(moved, part).named_parameters())[name][place] += sign * step
                values.append(losses_by_hand(moved, batch)[number])
            slope = (values[0] - values[1]) / (2 * step)
            after = dict(getattr(network, part).named_parameters())[name][place]
            assert (weight[place] - after).item() / lr == pytest.approx(slope, rel=1e-3, abs=1e-7), f"{part}.{name}"
    assert all(weight.grad is not None for weight in network.parameters())


def test_the_loss_of_one_network_leaves_no_gradient_in_the_other():
    network = gan().train()
    batch = {"data": torch.rand(2, 1, 64, 64), "noise": torch.randn(2, 3)}
    seen = {}

    class Watched(torch.optim.SGD):
        scale_loss = staticmethod(_unscaled)

        def step(self):
            name = "discr" if self.param_groups[0]["params"][0] is network.discr.conv1.weight else "gen"
            seen[name] = [weight.grad is not None for weight in network.gen.parameters()]
            super().step()

    optimizers = create_optims_gan_default_pytorch(network, Watched, lr=0.1)
    network.closure(network, batch, optimizers, {"bce": BCE}, key_mapping=MAPPING)
    assert not any(seen["discr"])
    assert all(seen["gen"])
    discr_gradients = [weight.grad.clone() for weight in network.discr.parameters()]
    network.gen.zero_grad()
    optimizers["discr"].step = lambda: discr_gradients.extend(w.grad.clone() for w in network.discr.parameters())
    network.closure(network, batch, optimizers, {"bce": BCE}, key_mapping=MAPPING)
    n = len(discr_gradients) // 2  # the second step's own gradients are still there after the generator's
    for own, weight in zip(discr_gradients[n:], network.discr.parameters(), strict=True):
        assert torch.equal(own, weight.grad)


def test_with_a_frozen_generator_the_discriminator_learns_to_tell(tmp_path):
    problem = PROBLEMS["gan"]
    network = problem.build()
    network.gen.requires_grad_(False)
    weights = {name: weight.clone() for name, weight in network.gen.named_parameters()}
    trainer = problem.trainer(tmp_path, network=network)
    trainer.train(15, problem.manager(4))
    assert all(torch.equal(weight, weights[name]) for name, weight in trainer.module.gen.named_parameters())
    first, last = trainer.state.history[0], trainer.state.history[-1]
    for name in ("bce_discr_real", "bce_discr_fake"):
        assert last[name] < 0.8 * first[name]


def test_the_wrong_optimizers_are_told_which_to_take(tmp_path):
    problem = PROBLEMS["gan"]
    with pytest.raises(ConfigError, match="only \\['default'\\]; pass optim_fn=create_optims_gan_default_pytorch"):
        problem.trainer(tmp_path, optim_fn=None).train(1, problem.manager())


def test_its_own_images_are_the_same_for_the_same_noise():
    network, real = gan().eval(), torch.rand(2, 1, 64, 64)
    noise = torch.randn(2, 3)
    made = network(real, noise)["fake_images"]
    assert torch.equal(made, network(real, noise)["fake_images"])
    assert torch.equal(made, network.gen(noise))
    assert not torch.equal(made, network(real)["fake_images"])


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
def test_an_exported_gan_takes_its_noise(tmp_path):
    network = gan().eval()
    inputs = {"real_image_batch": torch.rand(3, 1, 64, 64), "noise": torch.randn(3, 3)}
    path = export(network, tmp_path / "gan.pt2", {name: value[:2] for name, value in inputs.items()})
    program = torch.export.load(path).module()
    for name, tensor in predicted(network, **inputs).items():
        torch.testing.assert_close(program(**inputs)[name], tensor, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ the variational autoencoder


@pytest.mark.parametrize(("channels", "size"), [(1, 8), (3, (12, 4)), (2, (28, 28))])
def test_the_autoencoder_gives_images_of_the_same_shape(channels, size):
    shape = (size, size) if isinstance(size, int) else size
    network = VariationalAutoencoderPyTorch(channels, size, latent_dim=3, start_filts=2)
    outputs = network(torch.rand(2, channels, *shape))
    assert outputs["pred"].shape == (2, channels, *shape)
    assert outputs["mean"].shape == outputs["log_var"].shape == (2, 3)


@pytest.mark.parametrize("size", [10, (8, 6), 0, (8, 8, 8)])
def test_a_size_that_cannot_be_halved_twice_is_refused(size):
    with pytest.raises(ConfigError, match="image_size must be a multiple of 4"):
        VariationalAutoencoderPyTorch(1, size)


def test_its_losses_add_up_to_the_evidence_lower_bound():
    problem = PROBLEMS["vae"]
    network, batch = problem.build().double().train(), {"data": problem.prepared(6)["data"].double()}
    torch.manual_seed(7)
    _, losses, outputs = network.closure(network, batch, {}, {"bce": BCE})
    distributions = torch.distributions
    posterior = distributions.Normal(outputs["mean"], (0.5 * outputs["log_var"]).exp())
    divergence = distributions.kl_divergence(posterior, distributions.Normal(0.0, 1.0)).sum(1)
    pixels = (batch["data"] * outputs["pred"] - torch.nn.functional.softplus(outputs["pred"])).sum((1, 2, 3))
    bound = (pixels - divergence).mean()  # in nats for each image
    assert list(losses) == ["val_bce", "val_kl"]
    torch.testing.assert_close(64 * sum(losses.values()), -bound)
    assert float(losses["val_kl"]) == pytest.approx(float(divergence.mean()) / 64)


def test_latent_variables_are_drawn_in_training_and_the_mean_in_evaluation():
    problem = PROBLEMS["vae"]
    network, x = problem.build(), problem.prepared(4)["data"]
    torch.manual_seed(0)
    first, second = network.train()(x), network(x)
    assert not torch.equal(first["pred"], second["pred"])
    assert torch.equal(first["mean"], second["mean"])
    torch.manual_seed(0)
    assert torch.equal(network(x)["pred"], first["pred"])
    state = torch.get_rng_state()
    still = network.eval()(x)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(still["pred"], network.decoder(still["mean"]))


def test_drawn_latent_variables_have_the_mean_and_variance_of_the_encoder():
    network = PROBLEMS["vae"].build().train()
    network.decoder = torch.nn.Identity()
    with torch.no_grad():
        network.encoder.log_var.bias.fill_(1.0)
        network.encoder.log_var.weight.zero_()
        outputs = network(torch.rand(1, 1, 8, 8).expand(20_000, 1, 8, 8))
    torch.testing.assert_close(outputs["pred"].mean(0), outputs["mean"][0], rtol=0, atol=0.05)
    torch.testing.assert_close(outputs["pred"].var(0), torch.full((4,), np.e, dtype=torch.float32), rtol=0.05, atol=0)


def test_the_divergence_is_finite_in_half_precision():
    from delira.backends.torch.networks.ready import kl_to_standard_normal

    log_var = torch.full((1, 2), 12.0, dtype=torch.float16)  # exp(12) is more than float16 holds
    assert torch.isfinite(kl_to_standard_normal(torch.zeros(1, 2, dtype=torch.float16), log_var)).all()


def test_images_under_another_name_are_compared_with_what_went_in(tmp_path):
    problem = PROBLEMS["vae"]
    network = problem.build()
    batch = {"scan": problem.prepared(4)["data"]}
    _, losses, _ = network.closure(network, batch, {}, {"mse": torch.nn.MSELoss()}, key_mapping={"x": "scan"})
    assert torch.isfinite(losses["val_mse"])


def test_hooks_see_the_divergence_among_the_losses():
    from delira.contract import StepHooks

    problem = PROBLEMS["vae"]
    network, seen = problem.build(), []
    hooks = StepHooks(criterion=(lambda step: seen.extend(step.losses),))
    network.closure(network, problem.prepared(4), {}, {"bce": BCE}, hooks=hooks)
    assert seen == ["bce", "kl"]
    with pytest.raises(ConfigError, match="runs no hooks"):
        gan().closure(gan(), {"data": torch.rand(2, 1, 64, 64)}, {}, {"bce": BCE}, hooks=hooks)


def test_every_network_is_one_of_the_backend():
    for problem in PROBLEMS.values():
        assert issubclass(problem.network, AbstractPyTorchNetwork)
