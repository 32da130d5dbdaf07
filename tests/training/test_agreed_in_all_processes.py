"""What several processes that train one network do alike: save, leave out, go back, and tell errors by their names."""

import contextlib
import os
import sys
import types

import numpy as np
import psutil
import pytest
from problems import linear_problem

from delira import state as keys
from delira.contract import Devices
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, NetworkError, WorkerLostError
from delira.training import callbacks, together, trainer

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")
from trained_in_processes import Deep, Net, rmse_of_step, train, values_of, weights_of  # noqa: E402

from delira.backends.torch import group, meeting  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]
TWO = {"devices": 2, "device": "cpu"}


@pytest.fixture(autouse=True)
def waits_for_a_short_time(monkeypatch):
    monkeypatch.setattr(together, "GIVES_UP_AFTER", 20.0)


def data(n=43, bad=None):
    arrays = {name: array.astype(np.float32) for name, array in linear_problem(n).items()}
    if bad is not None:
        arrays["data"][bad] = np.nan
    return BaseDataManager(arrays, 8)


def check_same(one, several):
    for alone, two in zip(values_of(one), values_of(several), strict=True):
        assert alone.keys() == two.keys()
        np.testing.assert_allclose([*two.values()], [*alone.values()], rtol=1e-5)
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(several)[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)


class Stop(callbacks.AbstractCallback):
    def __init__(self, *when):
        self.when = when

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        if (curr_epoch, iter_num) == self.when:
            raise ZeroDivisionError


# ---- callbacks


AVERAGES = {"moving": lambda: callbacks.ExponentialMovingAverage(0.9), "of epochs": lambda: callbacks.SWA(1)}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_and_profiles_are_those_of_one_process_and_go_on(tmp_path, name):
    """They keep what belongs to a process."""
    profiler = callbacks.Profiler()
    one = train(tmp_path / "one", data(), epochs=4, callbacks=[AVERAGES[name]()])
    two = train(tmp_path / "two", data(), epochs=3, callbacks=[AVERAGES[name](), profiler], save_freq=1, **TWO)
    assert profiler.epochs[0].keys() >= {"data", "forward", "update"}
    again = train(tmp_path / "two", data(), epochs=4, callbacks=[AVERAGES[name](), callbacks.Profiler()], **TWO)
    check_same(one, again)
    assert two.state.epoch == 3


# ---- saved, left out, gone back to


@pytest.mark.slow
def test_spread_weights_are_saved_inside_epochs_and_bad_batches_left_out_in_all_processes(tmp_path):
    """One sample is no number: of its batch one process alone has a bad loss."""
    how = {"network": Deep, "nonfinite": "skip", "val_metrics": {}, "save_freq_steps": 2, "epochs": 2}
    one = train(tmp_path / "one", data(40, 13), **how)
    two = train(tmp_path / "two", data(40, 13), shard=True, **how, **TWO)
    assert [o.num_skipped for o in two.optimizers.values()] == [o.num_skipped for o in one.optimizers.values()] == [2]
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(two)[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)
    with pytest.raises(ZeroDivisionError):
        train(tmp_path / "broken", data(40, 13), shard=True, callbacks=[Stop(2, 2)], **how, **TWO)
    assert (tmp_path / "broken" / "checkpoints" / "checkpoint_epoch_1_step_1.pt").exists()  # the sixth of all steps
    again = train(tmp_path / "broken", data(40, 13), shard=True, **how, **TWO)
    for name, weight in weights_of(two).items():
        np.testing.assert_array_equal(weights_of(again)[name], weight)


class BadGradients(callbacks.AbstractCallback):
    """Once, in the last step of the second epoch, gradients are no numbers, in all processes."""

    n_steps = 0

    def on_backward(self, state):
        self.n_steps += 1
        if self.n_steps == 12:
            for weight in state[keys.MODEL].parameters():
                weight.grad.fill_(float("nan"))


# each says by other means when a checkpoint is written: all know, the first alone does, a thread of the first writes
WHEN = {
    "epochs": {"save_freq": 1},
    "minutes": {"save_freq_minutes": 1e-6},
    "background": {"save_freq": 1, "save_in_background": True},
}


@pytest.mark.parametrize("name", WHEN)
def test_all_go_back_where_weights_are_no_numbers(tmp_path, name):
    how = {"nonfinite": "rollback", "epochs": 3, **WHEN[name]}
    one = train(tmp_path / "one", data(), callbacks=[BadGradients()], **how)
    two = train(tmp_path / "two", data(), callbacks=[BadGradients()], **how, **TWO)
    assert two.state.rollbacks == one.state.rollbacks == 1
    check_same(one, two)


# ---- what is exchanged


class Whole(Net):
    """Outputs and buffers of types that gloo does not know."""

    def __init__(self, **how):
        super().__init__(**how)
        self.register_buffer("table", torch.arange(6, dtype=torch.int16).reshape(2, 3).T)
        self.register_buffer("waves", torch.ones(3, dtype=torch.complex64))

    def forward(self, x):
        found = super().forward(x)["pred"]
        return {"pred": found, "sign": (found > 0).to(torch.int16), "is_high": found > 1}


def test_arrays_of_any_type_are_exchanged_and_the_graph_is_drawn_by_the_first_alone(tmp_path, caplog):
    pytest.importorskip("tensorboardX")
    how = {"network": Whole, "train_metrics": {"rmse": rmse_of_step}, "epochs": 1}
    one = train(tmp_path / "one", data(), **how)
    board = callbacks.TensorBoard(tmp_path / "board")
    check_same(one, train(tmp_path / "two", data(), callbacks=[board], **how, **TWO))
    assert "no graph" not in caplog.text
    assert any(b"aten" in file.read_bytes() for file in (tmp_path / "board").rglob("events*"))


def two_numbers(model, data_dict, optimizers, losses=None, **kwargs):
    pred = model(data_dict["data"])["pred"]
    loss = losses["mse"](pred, data_dict["label"])
    with optimizers["default"].scale_loss(loss) as scaled:
        scaled.backward()
    optimizers["default"].step()
    return {}, {"mse": loss.detach(), "both": torch.stack([loss, loss]).detach()}, {}


def test_a_loss_that_is_no_number_is_told_as_that(tmp_path):
    with pytest.raises(NetworkError, match=r"has the shape \(2,\); the closure returns single numbers"):
        train(tmp_path, data(), closure=two_numbers, epochs=1, **TWO)


ERRORS = [
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), torch.OutOfMemoryError),
    (RuntimeError("Invalid scalar type\nframe #1: c10d::ProcessGroupGloo gloo/x.cc"), RuntimeError),
    (RuntimeError("[/a/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"), WorkerLostError),
    (RuntimeError("[/a/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1000ms"), WorkerLostError),
    (torch.distributed.DistBackendError("NCCL error: unhandled system error"), WorkerLostError),
]


@pytest.mark.parametrize(("error", "kind"), ERRORS)
def test_only_what_tells_of_a_lost_process_is_told_as_one(monkeypatch, error, kind):
    def fails(*args):
        raise error

    monkeypatch.setattr(torch.distributed, "all_reduce", fails)
    with pytest.raises(type(error) if kind is RuntimeError else kind) as caught:
        group.TorchGroup(0, 2, torch.device("cpu"), 1.0).any(True)
    assert isinstance(caught.value, WorkerLostError) == (kind is WorkerLostError)


def test_processes_meet_where_no_other_machine_hears_them():
    place = meeting.opened(2, 5.0)
    found = {each.laddr.ip for each in psutil.Process().net_connections() if each.laddr.port == place.port}
    assert found == {"127.0.0.1"}


# ---- devices


def test_torchscript_says_that_it_trains_on_one_device():
    from delira.backends.torchscript.backend import BACKEND

    with pytest.raises(ConfigError, match="'torchscript' trains on one device; leave devices out"):
        BACKEND.devices.resolve([], "cpu:0,1")


def test_weights_that_are_spread_lie_on_the_host_until_then(tmp_path, monkeypatch):
    """Of a network that one GPU cannot hold nothing is put there; ``meta`` stands for one."""
    monkeypatch.setattr(trainer, "resolve_devices", lambda *args: Devices(torch.device("meta"), torch.device("meta")))
    monkeypatch.setattr(trainer.BaseNetworkTrainer, "train", lambda self, *args: None)
    made = train(tmp_path / "spread", data(), shard=True, **TWO)
    assert {weight.device.type for weight in made.network.parameters()} == {"cpu"}
    made.run.bring_network()  # to predict
    assert {weight.device.type for weight in made.network.parameters()} == {"meta"}
    whole = train(tmp_path / "whole", data(), **TWO)
    assert {weight.device.type for weight in whole.network.parameters()} == {"meta"}


def test_what_is_sent_lies_on_the_host_meanwhile():
    placed = []
    network = torch.nn.Linear(1, 1)
    devices = types.SimpleNamespace(
        place=lambda network, functions, where: placed.append((network, functions, where)),
        resolve=lambda ids, device: Devices(device, device), of=lambda network: Devices("cuda:0", "cuda:0"),
    )  # fmt: skip
    run = types.SimpleNamespace(
        network=network, devices=Devices("cuda:0", "cuda:1"), backend=types.SimpleNamespace(devices=devices)
    )
    shown = types.SimpleNamespace(run=run, objective=types.SimpleNamespace(functions=lambda: "losses"))
    with together._on_host(shown):
        assert placed == [(network, "losses", Devices("cpu", "cpu"))]
    assert placed[1:] == [(network, "losses", Devices("cuda:0", "cuda:1"))]


def test_the_gpu_of_a_process_is_the_current_one_meanwhile(monkeypatch):
    current = ["cuda:0"]

    @contextlib.contextmanager
    def chosen(device):
        current.append(str(device))
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", chosen)
    monkeypatch.setattr(meeting, "_meet", lambda *args: None)
    gpu = torch.device("cuda:1")
    with meeting.entered(1, 2, 0, 1.0, Devices(gpu, gpu), int):
        assert current[-1] == "cuda:1"
        assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0"  # else it ends the program
    assert current == ["cuda:0"]
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" not in os.environ
