"""The ready networks of the TorchScript backend: those of PyTorch, number by number, and as programs of their own."""

import io
import subprocess
import sys

import numpy as np
import pytest
from ready_networks import READY, Ready

torch = pytest.importorskip("torch")

import delira.models  # noqa: E402
from delira.io import export  # noqa: E402
from delira.models import named_weights, transfer_weights  # noqa: E402
from delira.training import (  # noqa: E402
    PyTorchNetworkTrainer,
    TorchScriptNetworkTrainer,
    create_optims_gan_default_pytorch,
)

LOSSES = {"ce": torch.nn.CrossEntropyLoss(), "mse": torch.nn.MSELoss(), "bce": torch.nn.BCEWithLogitsLoss()}
BACKENDS = {"TorchScript": TorchScriptNetworkTrainer, "PyTorch": PyTorchNetworkTrainer}
ALL = pytest.mark.parametrize("ready", READY, ids=str)
LONG = {"ClassificationNetworkBase", "VGG3DClassificationNetwork", "UNet2d-transpose-add", "UNet2d-upsample-concat"}
ALL_SLOWLY = pytest.mark.parametrize(
    "ready",
    [pytest.param(ready, id=str(ready), marks=[pytest.mark.slow] if str(ready) in LONG else []) for ready in READY],
)


def build(ready: Ready, ending: str = "TorchScript"):
    torch.manual_seed(0)
    return ready.build(delira.models, ending)


def inputs(ready: Ready):
    arrays = ready.inputs()
    return [torch.from_numpy(np.asarray(array, np.float32)) for array in arrays.values()]


@pytest.mark.sampled("half")
@ALL
def test_it_begins_with_the_weights_of_its_twin_and_predicts_the_same(ready):
    scripted, eager = build(ready), build(ready, "PyTorch")
    ours, theirs = named_weights(scripted), named_weights(eager)
    assert list(ours) == list(theirs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert scripted.init_kwargs == eager.init_kwargs
    arguments = inputs(ready)
    for number in range(3):  # TorchScript rewrites the program after the first calls
        torch.manual_seed(number)
        found = scripted(*arguments)
        torch.manual_seed(number)
        expected = eager(*arguments)
        assert found.keys() == expected.keys()
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], msg=f"{name}, call {number}")


@ALL_SLOWLY
def test_it_trains_like_its_twin(ready, tmp_path):
    ends = {}
    for ending, trainer_cls in BACKENDS.items():
        more = {"optim_fn": create_optims_gan_default_pytorch} if ready.is_gan else {}
        trainer = trainer_cls(
            build(ready, ending), tmp_path / ending, losses={"loss": LOSSES[ready.loss]}, key_mapping=ready.key_mapping,
            logging_type=None, verbose=False, save_freq=None, optimizer_cls=torch.optim.SGD,
            optimizer_params={"lr": 0.05, "momentum": 0.5}, **more,
        )  # fmt: skip
        ready.train(trainer)
        ends[ending] = trainer.state.history[0], named_weights(trainer.module)
    (history, weights), (expected_history, expected_weights) = ends.values()
    assert history == pytest.approx(expected_history, rel=1e-4)
    for name, weight in expected_weights.items():
        np.testing.assert_allclose(weights[name], weight, rtol=1e-3, atol=1e-5, err_msg=name)
    assert (tmp_path / "TorchScript" / "checkpoints" / "checkpoint_last_model.ptj").exists()


@ALL_SLOWLY
def test_the_default_closure_called_by_hand_finds_the_images(ready):
    network = build(ready)
    batch = network.prepare_batch({key: array[:4] for key, array in ready.arrays().items()}, "cpu", "cpu")
    _, losses, _ = network.closure(network, batch, {}, losses={"loss": LOSSES[ready.loss]})
    assert losses
    assert all(name.startswith("val_") for name in losses)


@ALL_SLOWLY
def test_exported_it_predicts_without_its_class(ready, tmp_path):
    network = build(ready)
    mapping = ready.key_mapping or {}
    path = export(network, tmp_path / "net.ptj", ready.arrays(), key_mapping=mapping or None)
    program = torch.jit.load(io.BytesIO(path.read_bytes()))
    arguments = inputs(ready)
    with torch.no_grad():
        expected = network.eval()(*arguments)
        for name, value in program(*arguments).items():
            assert torch.equal(value, expected[name])


def test_weights_move_to_the_pytorch_backend_and_back():
    ready = READY[0]
    scripted, eager = build(ready), build(ready, "PyTorch")
    for weight in scripted.parameters():
        weight.data.mul_(1.5)
    transfer_weights(scripted, eager)
    assert all(np.array_equal(array, named_weights(eager)[name]) for name, array in named_weights(scripted).items())


def test_the_parameters_of_a_unet_can_be_drawn_again():
    network = build(next(ready for ready in READY if ready.network == "UNet2d"))
    before = named_weights(network)
    network.reset_params()
    after = named_weights(network)
    assert all(not np.array_equal(after[name], before[name]) for name in before if name.endswith("weight"))
    assert not any(after[name].any() for name in before if name.endswith("bias"))


@pytest.mark.slow
def test_importing_the_backend_warns_nobody():
    script = (
        "import delira.models, delira.training, delira.io\n"
        "delira.models.UNet2dTorchScript, delira.models.AbstractTorchScriptNetwork\n"
        "delira.training.TorchScriptNetworkTrainer, delira.io.load_checkpoint_torchscript"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
