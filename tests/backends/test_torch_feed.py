"""Batches prepared ahead: in order, with errors at their time, only where nobody can tell the difference."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from delira.backends.torch.backend import BACKEND  # noqa: E402
from delira.backends.torch.step import _one_ahead  # noqa: E402
from delira.data_loading import BaseDataManager  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer  # noqa: E402
from delira.training.callbacks import AbstractCallback  # noqa: E402

CPU = torch.device("cpu")
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return {"pred": self.layer(x)}


def prepare_for(device):
    return functools.partial(Net.prepare_batch, input_device=device, output_device=device)


def batches(number=5, error_at=None):
    for index in range(number):
        if index == error_at:
            raise OSError(f"batch {index} cannot be read")
        yield {"data": np.full((2, 4), index, np.float64), "label": np.array([0, index])}


def test_each_batch_is_begun_before_the_one_ahead_of_it_is_used():
    events = []

    def start(batch):
        index = int(batch["label"][1])
        events.append(f"start {index}")
        return lambda: {"index": index}

    for batch, prepared in _one_ahead(batches(3), start):
        assert prepared["index"] == batch["label"][1]
        events.append(f"use {prepared['index']}")
    assert events == ["start 0", "start 1", "use 0", "start 2", "use 1", "use 2"]


def test_an_error_waits_for_the_batches_ahead_of_it():
    fed = _one_ahead(batches(error_at=2), lambda batch: lambda: batch)
    assert [int(next(fed)[0]["label"][1]) for _ in range(2)] == [0, 1]
    with pytest.raises(OSError, match="batch 2 cannot be read"):
        next(fed)


def test_nothing_to_feed_is_nothing():
    assert list(_one_ahead(iter(()), lambda batch: lambda: batch)) == []


def test_on_the_cpu_nothing_is_prepared_ahead():
    assert [ready for _, ready in BACKEND.step.feed(batches(), prepare_for(CPU))] == [None] * 5


def test_a_prepare_batch_of_the_networks_own_is_called_at_its_time():
    class Own(Net):
        @staticmethod
        def prepare_batch(batch, input_device, output_device):
            return {"data": torch.as_tensor(batch["data"]) + torch.rand(())}

    prepare = functools.partial(Own.prepare_batch, input_device=torch.device("cuda"), output_device=CPU)
    assert [ready for _, ready in BACKEND.step.feed(batches(), prepare)] == [None] * 5


class Doubles(AbstractCallback):
    def at_iter_begin(self, trainer, data_dict=None, **facts):
        data_dict["data"] = data_dict["data"] * 2


def trained(path, device, *callbacks):
    torch.manual_seed(0)
    data = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    manager = BaseDataManager({"data": data, "label": np.arange(40) % 3}, 8)
    trainer = PyTorchNetworkTrainer(
        Net(), path, losses={"ce": torch.nn.CrossEntropyLoss()}, optimizer_cls=torch.optim.SGD,
        optimizer_params={"lr": 0.1}, callbacks=callbacks, device=device, logging_type=None, verbose=False,
    )  # fmt: skip
    trainer.train(2, manager, manager)
    return {name: weight.cpu() for name, weight in trainer.module.state_dict().items()}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, on_a_gpu])])
def test_what_a_callback_makes_of_a_batch_is_what_is_prepared(device, tmp_path):
    plain = trained(tmp_path / "plain", device)
    changed = trained(tmp_path / "changed", device, Doubles())
    assert not torch.equal(plain["layer.weight"], changed["layer.weight"])


@pytest.mark.gpu
@on_a_gpu
def test_batches_arrive_on_the_gpu_as_prepare_batch_makes_them():
    prepare = prepare_for(torch.device("cuda:0"))
    many = [*batches(50), {"data": np.zeros((2, 4), ">f8"), "label": np.array([1, 2]), "name": ["a", "b"]}]
    for batch, ready in BACKEND.step.feed(iter(many), prepare):
        expected = prepare(batch)
        assert ready.keys() == expected.keys()
        for key, value in expected.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(ready[key], value)
                assert (ready[key].dtype, ready[key].device) == (value.dtype, value.device)
            else:
                assert ready[key] == value


@pytest.mark.gpu
@on_a_gpu
def test_training_computes_the_same_with_and_without_copies_ahead(tmp_path, monkeypatch):
    ahead = trained(tmp_path / "ahead", "cuda")
    monkeypatch.setattr(
        "delira.backends.torch.step.TorchStep.feed",
        staticmethod(lambda batches, prepare: ((batch, None) for batch in batches)),
    )
    at_once = trained(tmp_path / "at once", "cuda")
    assert all(torch.equal(ahead[name], at_once[name]) for name in ahead)
