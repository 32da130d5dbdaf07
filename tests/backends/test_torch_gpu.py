"""PyTorch on one GPU."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError

torch = pytest.importorskip("torch")

from delira.metrics import accuracy  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchExperiment, PyTorchNetworkTrainer, create_optims_gan_default_pytorch  # noqa: E402
from delira.training.callbacks import ExponentialMovingAverage  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"),
]
GPU = "cuda:0"


class Net(AbstractPyTorchNetwork):
    def __init__(self, dropout=0.0):
        super().__init__(dropout=dropout)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 32),
            torch.nn.BatchNorm1d(32),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(32, 3),
        )

    def forward(self, x):
        return {"pred": self.layers(x)}


@pytest.fixture
def manager():
    """Three classes that can be told apart, in batches of 16, the last one smaller."""
    rng = np.random.default_rng(1)
    label = rng.integers(0, 3, 150)
    data = rng.normal(size=(150, 4)) + 3 * np.eye(3, 4)[label]
    return BaseDataManager({"data": data.astype(np.float32), "label": label}, batch_size=16)


@pytest.fixture
def full_precision():
    """Matrix products in full 32 bit, so that CPU and GPU can be compared."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def trainer_of(path, seed=0, dropout=0.0, **settings):
    torch.manual_seed(seed)
    defaults = {
        "losses": {"ce": torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0]))},
        "optimizer_cls": torch.optim.Adam,
        "optimizer_params": {"lr": 0.01},
        "val_metrics": {"accuracy": accuracy},
        "device": GPU,
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
    }
    return PyTorchNetworkTrainer(Net(dropout), path, **{**defaults, **settings})


def assert_equal_trees(left, right):
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name in left:
            assert_equal_trees(left[name], right[name])
    elif isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    else:
        assert left == right


def test_cpu_and_gpu_train_alike(manager, full_precision, tmp_path):
    settings = {"optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.05, "momentum": 0.9}}
    trainers = {
        device: trainer_of(tmp_path / device.replace(":", ""), device=device, **settings) for device in ("cpu", GPU)
    }
    for trainer in trainers.values():
        trainer.train(3, manager, manager)
    ours, theirs = (trainers[device].network.state_dict() for device in (GPU, "cpu"))
    for name in ours:
        torch.testing.assert_close(ours[name].cpu(), theirs[name], rtol=1e-4, atol=1e-4)
    for record, expected in zip(trainers[GPU].state.history, trainers["cpu"].state.history, strict=True):
        assert record == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("settings", [{"gpu_ids": [0], "device": None}, {"device": "cuda"}, {"device": "auto"}])
def test_every_spelling_of_the_first_gpu_puts_everything_there(settings, manager, tmp_path):
    trainer = trainer_of(tmp_path, **settings)
    expected = torch.device(GPU).type
    assert {parameter.device.type for parameter in trainer.network.parameters()} == {expected}
    assert trainer.losses["ce"].weight.device.type == expected
    assert trainer.input_device.type == trainer.output_device.type == expected
    trainer.train(1, manager, manager)


def test_a_gpu_beyond_the_last_one_is_refused(tmp_path):
    number = torch.cuda.device_count()
    with pytest.raises(ConfigError, match=rf"gpu_ids=\[{number}\] was asked for, but PyTorch sees only {number} GPU"):
        trainer_of(tmp_path, gpu_ids=[number], device=None)


@pytest.mark.parametrize("precision", [False, True, "bf16", "fp16"])
@pytest.mark.parametrize(
    "more", [{}, {"gradient_accumulation_steps": 2, "gradient_clip_norm": 1.0}, {"nonfinite": "skip"}]
)
def test_every_number_format_learns(precision, more, manager, tmp_path):
    trainer = trainer_of(tmp_path, mixed_precision=precision, val_score_key="accuracy", val_score_mode="max", **more)
    trainer.train(10, manager, manager)
    history = trainer.state.history
    assert history[-1]["ce"] < history[0]["ce"]
    assert max(record["val_accuracy"] for record in history) > 0.85
    assert trainer.predict(next(iter(manager)))["pred"].dtype == np.float32


@pytest.mark.parametrize("precision", [False, "bf16", "fp16"])
def test_a_closure_written_by_hand_with_two_optimizers_trains(precision, manager, tmp_path):
    class Pair(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.gen, self.discr = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)

        def forward(self, x):
            return {"pred": self.gen(x)}

        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            values = {}
            for name, optimizer in optimizers.items():
                loss = losses["ce"](getattr(model, name)(data_dict["data"]), data_dict["label"])
                optimizer.zero_grad()
                with optimizer.scale_loss(loss) as scaled:
                    scaled.backward()
                optimizer.step()
                values[name] = loss.detach()
            return values, {}

    trainer = PyTorchNetworkTrainer(
        Pair(),
        tmp_path,
        losses={"ce": torch.nn.CrossEntropyLoss()},
        optim_fn=create_optims_gan_default_pytorch,
        optimizer_cls=torch.optim.Adam,
        optimizer_params={"lr": 0.01},
        mixed_precision=precision,
        device=GPU,
        logging_type=None,
        verbose=False,
    )
    trainer.train(5, manager)
    first, last = trainer.state.history[0], trainer.state.history[-1]
    assert last["gen"] < first["gen"]
    assert last["discr"] < first["discr"]


def test_predictions_and_metrics_come_back_as_numpy(manager, tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.train(1, manager, manager)
    assert isinstance(trainer.predict(next(iter(manager)))["pred"], np.ndarray)
    (outputs,), (labels,), metrics = trainer.predict(manager)
    assert isinstance(outputs, np.ndarray)
    assert np.array_equal(labels, manager.dataset.data["label"])
    assert metrics["accuracy"][0] == pytest.approx(accuracy(labels, outputs))


def test_training_metrics_stay_on_the_gpu(manager, tmp_path):
    devices = set()

    def error(label, pred):
        devices.update({label.device.type, pred.device.type})
        return (pred.argmax(1) != label).float().mean()

    trainer = trainer_of(tmp_path, train_metrics={"error": error})
    trainer.train(2, manager)
    assert devices == {torch.device(GPU).type}
    assert 0 <= trainer.state.history[-1]["error"] <= 1


@pytest.mark.parametrize("precision", [False, "bf16", "fp16"])
def test_a_restarted_training_equals_an_unbroken_one_bit_for_bit(precision, manager, tmp_path):
    """Dropout included, whatever the generator of the GPU was used for in between."""
    settings = {"dropout": 0.3, "mixed_precision": precision}
    unbroken = trainer_of(tmp_path / "unbroken", **settings)
    unbroken.train(4, manager, manager)
    trainer_of(tmp_path / "broken", **settings).train(2, manager, manager)
    torch.rand(7, device=GPU)
    again = trainer_of(tmp_path / "broken", seed=5, **settings)
    assert again.state.epoch == 2
    again.train(4, manager, manager)
    assert again.state.history == unbroken.state.history
    backend = again.backend
    assert_equal_trees(
        backend.checkpoints.state_tree(again.network, again.optimizers),
        backend.checkpoints.state_tree(unbroken.network, unbroken.optimizers),
    )


def test_a_checkpoint_of_the_gpu_is_read_on_the_cpu_and_back(manager, tmp_path):
    trainer = trainer_of(tmp_path / "gpu")
    trainer.train(2, manager)
    path = tmp_path / "gpu" / "checkpoints" / "checkpoint_last.pt"
    other = trainer_of(tmp_path / "cpu", seed=5, device="cpu").update_state(path)
    for name, value in trainer.network.state_dict().items():
        assert torch.equal(other.network.state_dict()[name], value.cpu())
    other.train(3, manager)
    back = trainer_of(tmp_path / "back", seed=6).update_state(other.save_state(tmp_path / "state"))
    back.train(4, manager)
    assert back.state.epoch == 4


def test_the_caller_s_generators_are_not_moved(manager, tmp_path):
    trainer = trainer_of(tmp_path, dropout=0.3)
    torch.manual_seed(3)
    expected = torch.rand(3), torch.rand(3, device=GPU)
    torch.manual_seed(3)
    trainer.train(1, manager)
    assert torch.equal(torch.rand(3), expected[0])
    assert torch.equal(torch.rand(3, device=GPU), expected[1])


def test_a_loss_that_is_not_finite_is_skipped_on_the_gpu(manager, tmp_path):
    data = {name: array.copy() for name, array in manager.dataset.data.items()}
    data["data"][5] = np.nan
    trainer = trainer_of(tmp_path, nonfinite="skip", optimizer_cls=torch.optim.SGD)
    trainer.train(1, BaseDataManager(data, batch_size=16))
    assert all(torch.isfinite(parameter).all() for parameter in trainer.network.parameters())
    assert np.isfinite(trainer.state.history[-1]["ce"])


def test_a_cross_validation_runs_on_the_gpu_and_repeats_bit_for_bit(manager, tmp_path):
    training = {
        "losses": {"ce": torch.nn.CrossEntropyLoss()},
        "optimizer_cls": torch.optim.Adam,
        "optimizer_params": {"lr": 0.01},
        "val_metrics": {"accuracy": accuracy},
        "num_epochs": 3,
        "device": GPU,
        "logging_type": None,
        "verbose": False,
    }
    results = [
        PyTorchExperiment({"training": training}, Net, name=name, save_path=tmp_path).kfold(
            manager, num_splits=2, split_type="stratified", shuffle=True, random_seed=0
        )
        for name in ("first", "second")
    ]
    (outputs, metrics), (outputs_again, metrics_again) = results
    assert metrics == metrics_again
    for fold, predictions in outputs.items():
        assert np.array_equal(predictions["pred"], outputs_again[fold]["pred"])


class Stop(Exception):
    """The process ends here."""


class StopAt:
    """Ends the training after a step, counted over all epochs from 1."""

    def __init__(self, step):
        self.step = step

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.step:
            raise Stop


@pytest.mark.parametrize("background", [False, True])
def test_a_run_that_was_broken_off_inside_an_epoch_ends_in_the_same_bits(background, manager, tmp_path):
    def build(path, *callbacks):
        average = ExponentialMovingAverage(0.9)
        return trainer_of(
            path, dropout=0.5, save_freq_steps=3, save_in_background=background, deterministic=True,
            gradient_accumulation_steps=2, callbacks=[average, *callbacks],
        )  # fmt: skip

    unbroken = build(tmp_path / "unbroken")
    unbroken.train(3, manager, manager)
    with pytest.raises(Stop):
        build(tmp_path / "broken", StopAt(17)).train(3, manager, manager)
    resumed = build(tmp_path / "broken")
    assert (resumed.state.epoch, resumed.state.step_in_epoch) == (1, 5)
    resumed.train(3, manager, manager)
    assert resumed.state.history == unbroken.state.history
    assert_equal_trees(dict(resumed.network.state_dict()), dict(unbroken.network.state_dict()))


def test_a_batch_that_does_not_fit_is_computed_in_parts(manager, tmp_path, monkeypatch):
    forward = Net.forward

    def greedy(self, x):
        if self.training and len(x) > 4:
            torch.empty(1 << 46, dtype=torch.uint8, device=x.device)  # 64 TB
        return forward(self, x)

    monkeypatch.setattr(Net, "forward", greedy)
    trainer = trainer_of(tmp_path, micro_batches="auto")
    trainer.train(1, manager, manager)
    assert trainer.state.micro_batches == 4
    with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
        trainer_of(tmp_path / "whole").train(1, manager, manager)
    assert "The device ran out of memory with batch_size=16. Try batch_size=8" in caught.value.__notes__[-1]
