"""Files of TorchScript: programs that run without delira, beside the state of their training."""

import subprocess
import sys
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import everything_torchscript  # noqa: E402
from small_backends_torchscript import torchscript_kit  # noqa: E402

import delira.io  # noqa: E402
from delira.errors import CheckpointError, ConfigError, MissingKeyError  # noqa: E402
from delira.io import load_checkpoint_torchscript, save_checkpoint_torchscript  # noqa: E402
from delira.training.callbacks import ExponentialMovingAverage  # noqa: E402

KIT = torchscript_kit()


@pytest.mark.slow
def test_beside_each_checkpoint_lies_a_program_that_predicts_without_delira(tmp_path, manager):
    trainer = KIT.trainer(tmp_path, save_freq=1)
    trainer.train(3, manager())
    weight = KIT.read(trainer.module)
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
    trainer = KIT.trainer(tmp_path, callbacks=[ExponentialMovingAverage(0.9)])
    trainer.train(2, manager())
    loaded = load_checkpoint_torchscript(tmp_path / "checkpoints" / "checkpoint_last")
    assert torch.equal(loaded["model"].linear.weight, trainer.module.linear.weight)  # the averaged ones are shown
    assert not torch.equal(loaded["model"].linear.weight, loaded["training_model"]["linear.weight"])


def test_the_program_can_be_trained_and_loaded_into_the_class(tmp_path, manager):
    network = everything_torchscript.Halves()
    for weight in network.body.parameters():
        weight.requires_grad_(False)
    trainer = KIT.trainer(tmp_path, network)
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
    trainer = KIT.trainer(tmp_path, **settings)
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
        resumed = KIT.trainer(tmp_path, **settings)
    assert resumed.state.epoch == 3
    assert {path.name for path in folder.glob("*.damaged")} == {
        f"checkpoint_{stem}{ending}.damaged" for stem in ("last", "epoch_4") for ending in endings
    }
    for ending in endings:  # the names that are to be continued from are there again
        assert (folder / f"checkpoint_last{ending}").samefile(folder / f"checkpoint_epoch_3{ending}")


def test_a_training_continues_whatever_became_of_the_programs(tmp_path, manager):
    KIT.trainer(tmp_path / "unbroken").train(4, manager())
    KIT.trainer(tmp_path / "broken").train(2, manager())
    program = tmp_path / "broken" / "checkpoints" / "checkpoint_last_model.ptj"
    program.write_bytes(b"not a program")
    resumed = KIT.trainer(tmp_path / "broken")
    assert resumed.state.epoch == 2
    resumed.train(4, manager())
    both = [
        load_checkpoint_torchscript(tmp_path / name / "checkpoints" / "checkpoint_last")
        for name in ("broken", "unbroken")
    ]
    assert torch.equal(both[0]["model"].linear.weight, both[1]["model"].linear.weight)


def test_save_state_writes_a_pair_and_takes_any_of_the_historic_endings_off(tmp_path, manager):
    trainer = KIT.trainer(tmp_path / "run")
    trainer.train(1, manager())
    assert trainer.save_state(tmp_path / "mine") == tmp_path / "mine_trainer_state.pt"
    assert trainer.save_state(tmp_path / "other.pt") == tmp_path / "other_trainer_state.pt"
    assert (tmp_path / "mine_model.ptj").exists()
    for name in ("mine", "mine.pt", "mine.pth", "mine.ptj", "mine_model.ptj", "mine_trainer_state.pt"):
        assert load_checkpoint_torchscript(tmp_path / name)["epoch"] == 1
    fresh = KIT.trainer(tmp_path / "fresh")
    assert fresh.update_state(tmp_path / "mine").state.epoch == 1
    assert KIT.same(KIT.read(fresh.module), KIT.read(trainer.module))


def test_a_pair_saved_by_hand_is_read_back(tmp_path):
    network = KIT.build()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.25)
    assert save_checkpoint_torchscript(tmp_path / "net.pth", network, {"default": optimizer}, 3) == tmp_path / "net"
    assert {path.name for path in tmp_path.iterdir()} == {"net_model.ptj", "net_trainer_state.pt"}
    assert torch.load(tmp_path / "net_trainer_state.pt")["epoch"] == 3
    tree = load_checkpoint_torchscript(tmp_path / "net")
    assert tree["epoch"] == 3
    assert tree["optimizer"]["default"]["param_groups"][0]["lr"] == 0.25
    assert torch.equal(tree["model"].linear.weight, network.linear.weight)


def test_a_model_alone_has_no_trainer_state(tmp_path):
    save_checkpoint_torchscript(tmp_path / "net", KIT.build())
    assert [path.name for path in tmp_path.iterdir()] == ["net_model.ptj"]
    tree = load_checkpoint_torchscript(tmp_path / "net.ptj")
    assert (tree["optimizer"], tree["epoch"]) == ({}, None)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    for name in ("one", "two"):
        network = KIT.build()
        KIT.write(network, np.full((3, 1), len(name) + (name == "two")))
        save_checkpoint_torchscript(tmp_path / name, network, epoch=1)
    (tmp_path / "two_model.ptj").replace(tmp_path / "one_model.ptj")
    with pytest.raises(CheckpointError, match=r"one_model\.ptj is not the file that one_trainer_state\.pt was"):
        load_checkpoint_torchscript(tmp_path / "one")


def test_nothing_that_is_damaged_is_loaded(tmp_path, monkeypatch):
    save_checkpoint_torchscript(tmp_path / "net", KIT.build())
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


def test_an_exported_program_runs_without_its_class(tmp_path):
    network = everything_torchscript.Halves(dropout=0.9)
    path = delira.io.export(network, tmp_path / "net.ptj", {"data": np.ones((2, 3))})
    assert network.training
    program = torch.jit.load(path)
    inputs = torch.randn(5, 3)
    assert torch.equal(program(inputs)["pred"], network.eval()(inputs)["pred"])


def test_an_example_that_does_not_fit_is_the_networks_own_error(tmp_path):
    with pytest.raises(RuntimeError) as caught:
        delira.io.export(KIT.build(), tmp_path / "net.ptj", {"data": np.ones((2, 4))})
    assert any("was tried on the example" in note for note in caught.value.__notes__)
    with pytest.raises(MissingKeyError, match="reads 'data'"):
        delira.io.export(KIT.build(), tmp_path / "net.ptj", {"image": np.ones((2, 3))})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".pt2", ".onnx", ".pt"])
def test_other_formats_are_refused_with_the_way_to_them(tmp_path, ending):
    with pytest.raises(ConfigError, match=r"which is '\.ptj' \(torch.jit.load\), or '\.safetensors'"):
        delira.io.export(KIT.build(), tmp_path / f"net{ending}", {"data": np.ones((2, 3))})


KIT = torchscript_kit()


NAMES = ["mine", "mine.pt", "mine.pth", "mine.ptj", "mine_model.ptj", "mine_trainer_state.pt", "mine.v1", "mine.0.5"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_under_a_name_is_loaded_under_it(tmp_path, manager, name):
    trainer = KIT.trainer(tmp_path / "run")
    trainer.train(1, manager())
    trainer.save_state(tmp_path / name)
    assert load_checkpoint_torchscript(tmp_path / name)["epoch"] == 1
    assert KIT.trainer(tmp_path / "fresh").update_state(tmp_path / name).state.epoch == 1


def test_names_with_dots_do_not_share_a_program(tmp_path, manager):
    trainer = KIT.trainer(tmp_path / "run")
    for number in (1, 2):
        trainer.train(number, manager())
        trainer.save_state(tmp_path / f"run.{number}")
    for number in (1, 2):
        assert load_checkpoint_torchscript(tmp_path / f"run.{number}")["epoch"] == number


@pytest.mark.parametrize("name", ["checkpoint_epoch_2", "checkpoint_epoch_2_model.ptj"])
def test_a_run_goes_back_to_a_pair_by_any_of_its_names(tmp_path, manager, name):
    KIT.trainer(tmp_path, save_freq=1).train(3, manager())
    folder = tmp_path / "checkpoints"
    assert KIT.trainer(tmp_path, save_freq=1, resume_from=folder / name).state.epoch == 2
    load_checkpoint_torchscript(folder / "checkpoint_last")
