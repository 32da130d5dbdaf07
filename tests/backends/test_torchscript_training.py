"""Trainings of TorchScript: those of PyTorch, and the published how-to."""

import logging

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import everything_torch  # noqa: E402
import everything_torchscript  # noqa: E402
from small_backends import build_kit  # noqa: E402
from small_backends_torchscript import torchscript_kit  # noqa: E402

from delira.data_loading import AbstractDataset, BaseDataManager, RandomSampler  # noqa: E402
from delira.errors import ConfigError  # noqa: E402
from delira.models import AbstractTorchScriptNetwork, named_weights  # noqa: E402
from delira.training import Parameters, TorchScriptExperiment  # noqa: E402
from delira.training.callbacks import ReduceLROnPlateauCallbackPyTorch  # noqa: E402

KIT = torchscript_kit()


def test_several_gpus_become_the_first_with_a_warning(tmp_path, caplog):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigError, match=r"gpu_ids=\[1\] .*sees no GPU"):
        KIT.trainer(tmp_path, gpu_ids=[1, 0])
    (record,) = caplog.records
    assert "of gpu_ids=[1, 0] only the first is used" in record.getMessage()


def test_a_compiled_step_is_refused_when_the_trainer_is_built(tmp_path):
    with pytest.raises(ConfigError, match="the backend 'torchscript' does not compile steps"):
        KIT.trainer(tmp_path, compile=True)


def test_it_trains_as_a_network_of_the_pytorch_backend(tmp_path, manager):

    ends = []
    for module, name in ((everything_torch, "torch"), (everything_torchscript, "torchscript")):
        kit = build_kit(name)
        torch.manual_seed(0)
        trainer = kit.trainer(tmp_path / kit.name, module.Halves(dropout=0.4), gradient_accumulation_steps=2)
        trainer.train(4, manager(), manager(7))
        ends.append((trainer.state.history, named_weights(trainer.module)))
    (history, weights), (scripted_history, scripted_weights) = ends
    assert [epoch["mse"] for epoch in scripted_history] == pytest.approx([epoch["mse"] for epoch in history], rel=1e-5)
    assert scripted_weights.keys() == weights.keys()
    for name, weight in weights.items():
        assert np.allclose(scripted_weights[name], weight, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("precision", ["bf16", True])
def test_it_trains_in_half_precision(tmp_path, manager, precision):
    trainer = KIT.trainer(tmp_path, mixed_precision=precision)
    trainer.train(5, manager())
    assert trainer.module.linear.weight.dtype is torch.float32
    exact = KIT.trainer(tmp_path / "exact")
    exact.train(5, manager())
    losses = [[epoch["mse"] for epoch in history] for history in (trainer.state.history, exact.state.history)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.1, abs=0.02)


def test_frozen_weights_stay(tmp_path, manager):
    network = everything_torchscript.Halves()
    for weight in network.body.parameters():
        weight.requires_grad_(False)
    before = named_weights(network)
    trainer = KIT.trainer(tmp_path, network)
    assert trainer.learned_names == {"head.weight", "head.bias"}
    trainer.train(2, manager())
    after = named_weights(trainer.module)
    assert np.array_equal(after["body.0.weight"], before["body.0.weight"])
    assert not np.array_equal(after["head.weight"], before["head.weight"])


class SmallDataset(AbstractDataset):
    """Numbers and the sign of their sum."""

    def __init__(self, n):
        super().__init__(None, None)
        self.arrays = np.random.default_rng(n).normal(size=(n, 32)).astype(np.float32)

    def __getitem__(self, index):
        return {"data": self.arrays[index], "label": np.float32([self.arrays[index].sum() > 0])}

    def __len__(self):
        return len(self.arrays)


class DummyNetworkTorchScript(AbstractTorchScriptNetwork):
    def __init__(self):
        super().__init__()
        self.module = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))

    @torch.jit.script_method
    def forward(self, x):
        return {"pred": self.module(x)}


def test_the_published_how_to_runs_as_written(tmp_path):
    metrics = pytest.importorskip("sklearn.metrics")
    params = Parameters(
        fixed_params={
            "model": {},
            "training": {
                "losses": {"L1": torch.nn.BCEWithLogitsLoss()},
                "optimizer_cls": torch.optim.Adam,
                "optimizer_params": {"lr": 1e-3},
                "num_epochs": 2,
                "val_metrics": {"mae": metrics.mean_absolute_error},
                "lr_sched_cls": ReduceLROnPlateauCallbackPyTorch,
                "lr_sched_params": {"mode": "min"},
            },
        }
    )
    train, valid, test = (
        BaseDataManager(SmallDataset(n), 4, n_process_augmentation=0, transforms=None, sampler_cls=RandomSampler)
        for n in (50, 20, 10)
    )
    experiment = TorchScriptExperiment(
        params,
        DummyNetworkTorchScript,
        save_path=str(tmp_path),
        key_mapping={"x": "data"},
        val_score_key="mae",
        val_score_mode="min",
    )
    network = experiment.run(train, valid)
    assert isinstance(network, DummyNetworkTorchScript)
    predictions, values = experiment.test(
        network, test, {"mae": metrics.mean_absolute_error}, metric_keys={"mae": ("pred", "label")}
    )
    assert predictions["pred"].shape == (10, 1)
    assert np.isfinite(values["mae"]).all()
    (folder,) = tmp_path.rglob("checkpoints")
    names = {path.name for path in folder.iterdir()}
    assert {f"checkpoint_epoch_{n}{ending}" for n in (1, 2) for ending in ("_model.ptj", "_trainer_state.pt")} <= names
    assert {"checkpoint_best_model.ptj", "checkpoint_best_trainer_state.pt"} <= names
