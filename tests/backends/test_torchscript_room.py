"""The TorchScript room: networks, the published how-to, and files that run without delira."""

import logging
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from problems import linear_problem

torch = pytest.importorskip("torch")

import everything_torch  # noqa: E402
import everything_torchscript  # noqa: E402
from small_rooms import build_room  # noqa: E402
from small_rooms_torchscript import TorchScriptLinear, torchscript_room  # noqa: E402

import delira.io  # noqa: E402
from delira.data_loading import AbstractDataset, BaseDataManager, RandomSampler  # noqa: E402
from delira.errors import CheckpointError, ConfigError, MissingKeyError  # noqa: E402
from delira.io import load_checkpoint_torchscript, save_checkpoint_torchscript  # noqa: E402
from delira.models import AbstractPyTorchNetwork, AbstractTorchScriptNetwork, load_named_weights, named_weights  # noqa: E402
from delira.training import Parameters, TorchScriptExperiment, TorchScriptNetworkTrainer  # noqa: E402
from delira.training.callbacks import ExponentialMovingAverage, ReduceLROnPlateauCallbackPyTorch  # noqa: E402

ROOM = torchscript_room()


# ---- networks


class TwoInputs(AbstractTorchScriptNetwork):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    @torch.jit.script_method
    def forward(self, left, right, factor: float = 1.0):
        return {"pred": factor * self.linear(left + right)}


class NotScripted(AbstractTorchScriptNetwork):
    def forward(self, x):
        return {"pred": x}


def test_a_network_keeps_its_arguments_and_takes_the_historic_optimize():
    class Historic(TorchScriptLinear):
        def __init__(self):
            AbstractTorchScriptNetwork.__init__(self, optimize=False, n_features=4)
            self.drop, self.linear = torch.nn.Dropout(0.0), torch.nn.Linear(4, 1)

    network = Historic()
    assert network.init_kwargs == {"n_features": 4}
    assert network(torch.ones(2, 4))["pred"].shape == (2, 1)
    assert isinstance(network, torch.jit.ScriptModule)


def test_everything_in_a_batch_becomes_float32_and_the_batch_stays_as_it_is():
    batch = {"data": np.ones((2, 3)), "label": np.array([1, 2]), "more": [np.array([True, False])], "name": ["a", "b"]}
    prepared = TorchScriptLinear.prepare_batch(batch, "cpu", "cpu")
    assert [prepared["data"].dtype, prepared["label"].dtype, prepared["more"][0].dtype] == [torch.float32] * 3
    assert prepared["name"] == ["a", "b"]
    assert batch["label"].dtype == np.int64


def test_the_arguments_of_a_network_are_those_of_its_program():
    assert ROOM.backend.calls.key_mapping(ROOM.build()) == {"x": "data"}
    assert ROOM.backend.calls.arguments_of(TwoInputs()) == {"left", "right", "factor"}
    with pytest.raises(ConfigError, match=r"TwoInputs.forward takes \['left', 'right', 'factor'\], so it is not clear"):
        ROOM.backend.calls.key_mapping(TwoInputs())


def test_the_default_closure_called_by_hand_finds_the_argument():
    network = ROOM.build()
    batch = network.prepare_batch({"data": np.ones((2, 3)), "label": np.ones((2, 1))}, "cpu", "cpu")
    _, losses, predictions = network.closure(network, batch, {}, losses={"mse": ROOM.loss})
    assert losses.keys() == {"val_mse"}
    assert predictions["pred"].shape == (2, 1)


def test_two_inputs_are_trained_with_a_key_mapping(tmp_path):
    arrays = linear_problem(10)
    data = BaseDataManager({"one": arrays["data"], "two": arrays["data"] / 2, "label": arrays["label"]}, 4)
    trainer = TorchScriptNetworkTrainer(TwoInputs(), tmp_path, {"left": "one", "right": "two"}, **ROOM.settings)
    trainer.train(5, data)
    assert trainer.state.history[-1]["mse"] < trainer.state.history[0]["mse"] / 2


def test_a_forward_without_script_method_is_refused_with_the_cure(tmp_path):
    with pytest.raises(ConfigError, match=r"NotScripted.forward is no TorchScript; write @torch.jit.script_method"):
        ROOM.trainer(tmp_path, NotScripted())


def test_several_gpus_become_the_first_with_a_warning(tmp_path, caplog):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigError, match=r"gpu_ids=\[1\] .*sees no GPU"):
        ROOM.trainer(tmp_path, gpu_ids=[1, 0])
    (record,) = caplog.records
    assert "of gpu_ids=[1, 0] only the first is used" in record.getMessage()


def test_a_compiled_step_is_refused_when_the_trainer_is_built(tmp_path):
    with pytest.raises(ConfigError, match="the room 'torchscript' does not compile steps"):
        ROOM.trainer(tmp_path, compile=True)


def test_it_trains_as_a_network_of_the_pytorch_room(tmp_path, manager):

    ends = []
    for module, name in ((everything_torch, "torch"), (everything_torchscript, "torchscript")):
        room = build_room(name)
        torch.manual_seed(0)
        trainer = room.trainer(tmp_path / room.name, module.Halves(dropout=0.4), gradient_accumulation_steps=2)
        trainer.train(4, manager(), manager(7))
        ends.append((trainer.state.history, named_weights(trainer.module)))
    (history, weights), (scripted_history, scripted_weights) = ends
    assert [epoch["mse"] for epoch in scripted_history] == pytest.approx([epoch["mse"] for epoch in history], rel=1e-5)
    assert scripted_weights.keys() == weights.keys()
    for name, weight in weights.items():
        assert np.allclose(scripted_weights[name], weight, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("precision", ["bf16", True])
def test_it_trains_in_half_precision(tmp_path, manager, precision):
    trainer = ROOM.trainer(tmp_path, mixed_precision=precision)
    trainer.train(5, manager())
    assert trainer.module.linear.weight.dtype is torch.float32
    exact = ROOM.trainer(tmp_path / "exact")
    exact.train(5, manager())
    losses = [[epoch["mse"] for epoch in history] for history in (trainer.state.history, exact.state.history)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.1, abs=0.02)


def test_frozen_weights_stay(tmp_path, manager):
    network = everything_torchscript.Halves()
    for weight in network.body.parameters():
        weight.requires_grad_(False)
    before = named_weights(network)
    trainer = ROOM.trainer(tmp_path, network)
    assert trainer.learned_names == {"head.weight", "head.bias"}
    trainer.train(2, manager())
    after = named_weights(trainer.module)
    assert np.array_equal(after["body.0.weight"], before["body.0.weight"])
    assert not np.array_equal(after["head.weight"], before["head.weight"])


# ---- the published how-to


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


# ---- files of a training


@pytest.mark.slow
def test_beside_each_checkpoint_lies_a_program_that_predicts_without_delira(tmp_path, manager):
    trainer = ROOM.trainer(tmp_path, save_freq=1)
    trainer.train(3, manager())
    weight = ROOM.read(trainer.module)
    script = (
        "import sys, torch\n"
        "program = torch.jit.load(sys.argv[1])\n"
        "print(*program(torch.eye(3))['pred'].flatten().tolist(), program.training, 'delira' in sys.modules)"
    )
    path = tmp_path / "checkpoints" / "checkpoint_last_model.ptj"
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    *numbers, training, has_delira = done.stdout.split()
    assert np.allclose(list(map(float, numbers)), weight.ravel(), rtol=1e-6)
    assert (training, has_delira) == ("False", "False")


def test_the_program_has_the_averaged_weights(tmp_path, manager):
    trainer = ROOM.trainer(tmp_path, callbacks=[ExponentialMovingAverage(0.9)])
    trainer.train(2, manager())
    loaded = load_checkpoint_torchscript(tmp_path / "checkpoints" / "checkpoint_last")
    assert torch.equal(loaded["model"].linear.weight, trainer.module.linear.weight)  # the averaged ones are shown
    assert not torch.equal(loaded["model"].linear.weight, loaded["training_model"]["linear.weight"])


def test_the_program_can_be_trained_and_loaded_into_the_class(tmp_path, manager):
    network = everything_torchscript.Halves()
    for weight in network.body.parameters():
        weight.requires_grad_(False)
    trainer = ROOM.trainer(tmp_path, network)
    trainer.train(1, manager())
    program = load_checkpoint_torchscript(tmp_path / "checkpoints" / "checkpoint_last")["model"]
    learned = {name for name, weight in program.named_parameters() if weight.requires_grad}
    assert learned == {"head.weight", "head.bias"}
    again = everything_torchscript.Halves()
    again.load_state_dict(program.state_dict())
    inputs = torch.ones(2, 3)
    assert torch.equal(again.eval()(inputs)["pred"], program(inputs)["pred"])
    assert callable(again.closure)


def test_pairs_are_pruned_and_set_aside_together(tmp_path, manager):
    settings = {"save_freq": 1, "keep_last_checkpoints": 2}
    trainer = ROOM.trainer(tmp_path, **settings)
    trainer.train(4, manager())
    folder = tmp_path / "checkpoints"
    stems = ("epoch_3", "epoch_4", "last", "previous")
    endings = ("_model.ptj", "_trainer_state.pt")
    assert {path.name for path in folder.iterdir()} == {f"checkpoint_{s}{e}" for s in stems for e in endings}
    for stem in ("last", "epoch_4"):
        path = folder / f"checkpoint_{stem}_trainer_state.pt"
        path.unlink()
        path.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="set aside as checkpoint_(last|epoch_4)_trainer_state.pt.damaged"):
        resumed = ROOM.trainer(tmp_path, **settings)
    assert resumed.state.epoch == 3
    assert {path.name for path in folder.glob("*.damaged")} == {
        f"checkpoint_{stem}{ending}.damaged" for stem in ("last", "epoch_4") for ending in endings
    }
    for ending in endings:  # the names that are to be continued from are there again
        assert (folder / f"checkpoint_last{ending}").samefile(folder / f"checkpoint_epoch_3{ending}")


def test_a_training_continues_whatever_became_of_the_programs(tmp_path, manager):
    ROOM.trainer(tmp_path / "unbroken").train(4, manager())
    ROOM.trainer(tmp_path / "broken").train(2, manager())
    program = tmp_path / "broken" / "checkpoints" / "checkpoint_last_model.ptj"
    program.write_bytes(b"not a program")
    resumed = ROOM.trainer(tmp_path / "broken")
    assert resumed.state.epoch == 2
    resumed.train(4, manager())
    both = [
        load_checkpoint_torchscript(tmp_path / name / "checkpoints" / "checkpoint_last")
        for name in ("broken", "unbroken")
    ]
    assert torch.equal(both[0]["model"].linear.weight, both[1]["model"].linear.weight)


def test_save_state_writes_a_pair_and_takes_any_of_the_historic_endings_off(tmp_path, manager):
    trainer = ROOM.trainer(tmp_path / "run")
    trainer.train(1, manager())
    assert trainer.save_state(tmp_path / "mine") == tmp_path / "mine_trainer_state.pt"
    assert trainer.save_state(tmp_path / "other.pt") == tmp_path / "other_trainer_state.pt"
    assert (tmp_path / "mine_model.ptj").exists()
    for name in ("mine", "mine.pt", "mine.pth", "mine.ptj", "mine_model.ptj", "mine_trainer_state.pt"):
        assert load_checkpoint_torchscript(tmp_path / name)["epoch"] == 1
    fresh = ROOM.trainer(tmp_path / "fresh")
    assert fresh.update_state(tmp_path / "mine").state.epoch == 1
    assert ROOM.same(ROOM.read(fresh.module), ROOM.read(trainer.module))


# ---- files by hand


def test_a_pair_saved_by_hand_is_read_back(tmp_path):
    network = ROOM.build()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.25)
    assert save_checkpoint_torchscript(tmp_path / "net.pth", network, {"default": optimizer}, 3) == tmp_path / "net"
    assert {path.name for path in tmp_path.iterdir()} == {"net_model.ptj", "net_trainer_state.pt"}
    assert torch.load(tmp_path / "net_trainer_state.pt")["epoch"] == 3
    tree = load_checkpoint_torchscript(tmp_path / "net")
    assert tree["epoch"] == 3
    assert tree["optimizer"]["default"]["param_groups"][0]["lr"] == 0.25
    assert torch.equal(tree["model"].linear.weight, network.linear.weight)


def test_a_model_alone_has_no_trainer_state(tmp_path):
    save_checkpoint_torchscript(tmp_path / "net", ROOM.build())
    assert [path.name for path in tmp_path.iterdir()] == ["net_model.ptj"]
    tree = load_checkpoint_torchscript(tmp_path / "net.ptj")
    assert (tree["optimizer"], tree["epoch"]) == ({}, None)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    for name in ("one", "two"):
        network = ROOM.build()
        ROOM.write(network, np.full((3, 1), len(name) + (name == "two")))
        save_checkpoint_torchscript(tmp_path / name, network, epoch=1)
    (tmp_path / "two_model.ptj").replace(tmp_path / "one_model.ptj")
    with pytest.raises(CheckpointError, match=r"one_model\.ptj is not the file that one_trainer_state\.pt was"):
        load_checkpoint_torchscript(tmp_path / "one")


def test_nothing_that_is_damaged_is_loaded(tmp_path, monkeypatch):
    save_checkpoint_torchscript(tmp_path / "net", ROOM.build())
    path = tmp_path / "net_model.ptj"
    whole = path.read_bytes()
    monkeypatch.setattr(torch.jit, "load", lambda *args, **kw: pytest.fail("a damaged file was loaded"))
    for place in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        try:
            delira.io.verify_zip(path, compressed=True)
        except CheckpointError:
            with pytest.raises(CheckpointError):
                load_checkpoint_torchscript(path)
        else:  # bytes between the records, which nobody reads: padding, dates
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            load_checkpoint_torchscript(path)


def test_a_checkpoint_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"no checkpoint called .*net: neither net_model\.ptj nor net_train"):
        load_checkpoint_torchscript(tmp_path / "net.pt")


# ---- export


def test_an_exported_program_runs_without_its_class(tmp_path):
    network = everything_torchscript.Halves(dropout=0.9)
    path = delira.io.export(network, tmp_path / "net.ptj", {"data": np.ones((2, 3))})
    assert network.training
    program = torch.jit.load(path)
    inputs = torch.randn(5, 3)
    assert torch.equal(program(inputs)["pred"], network.eval()(inputs)["pred"])


def test_an_example_that_does_not_fit_is_the_networks_own_error(tmp_path):
    with pytest.raises(RuntimeError) as caught:
        delira.io.export(ROOM.build(), tmp_path / "net.ptj", {"data": np.ones((2, 4))})
    assert any("was tried on the example" in note for note in caught.value.__notes__)
    with pytest.raises(MissingKeyError, match="reads 'data'"):
        delira.io.export(ROOM.build(), tmp_path / "net.ptj", {"image": np.ones((2, 3))})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".pt2", ".onnx", ".pt"])
def test_other_formats_are_refused_with_the_way_to_them(tmp_path, ending):
    with pytest.raises(ConfigError, match=r"which is '\.ptj' \(torch.jit.load\), or '\.safetensors'"):
        delira.io.export(ROOM.build(), tmp_path / f"net{ending}", {"data": np.ones((2, 3))})


def test_weights_move_between_this_room_and_the_pytorch_room():
    class Eager(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1, bias=False)

        def forward(self, x):
            return {"pred": self.linear(x)}

    scripted, eager = TorchScriptLinear(), Eager()
    load_named_weights(eager, named_weights(scripted))
    inputs = torch.randn(4, 3)
    assert torch.equal(scripted(inputs)["pred"], eager(inputs)["pred"])
