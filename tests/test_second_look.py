"""What a second look found: files by half a name, tied weights, packages that speak last, faults of backends."""

import dataclasses

import numpy as np
import pytest
from small_backends import build_kit
from test_specification_catches import Faulty, default_closure, plain

from delira.cli import doctor
from delira.errors import CheckpointError
from delira.models import named_weights, transfer_weights
from delira.testing import ToyNetwork, check_backend

KIT = build_kit("toy")


# ---- files


@pytest.mark.parametrize("name", ["checkpoint_epoch_2", "checkpoint_epoch_2.zip"])
def test_a_run_goes_back_to_a_checkpoint_by_its_name_with_or_without_the_ending(tmp_path, manager, name):
    KIT.trainer(tmp_path, save_freq=1).train(3, manager())
    trainer = KIT.trainer(tmp_path, save_freq=1, resume_from=tmp_path / "checkpoints" / name)
    folder = tmp_path / "checkpoints"
    assert trainer.state.epoch == 2
    assert (folder / "checkpoint_last.zip").samefile(folder / "checkpoint_epoch_2.zip")
    assert (folder / "checkpoint_epoch_3.zip.superseded").exists()


# ---- weights


def torch_pair():
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork

    class Two(AbstractPyTorchNetwork):
        def __init__(self, is_tied, **buffers):
            super().__init__()
            self.one, self.other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            if is_tied:
                self.other.weight = self.one.weight
            for name, value in buffers.items():
                self.register_buffer(name, torch.tensor(value))

    return Two


def test_two_weights_that_differ_do_not_become_one():
    network = torch_pair()
    source, target = network(is_tied=False), network(is_tied=True)
    before = named_weights(target)
    with pytest.raises(CheckpointError, match=r"one\.weight and other\.weight share their memory"):
        transfer_weights(source, target)
    assert all(np.array_equal(before[name], value) for name, value in named_weights(target).items())
    transfer_weights(target, source)
    assert np.array_equal(named_weights(source)["other.weight"], before["one.weight"])
    transfer_weights(source, target)  # now they are equal


def test_fractions_do_not_become_integers():
    network = torch_pair()
    with pytest.raises(CheckpointError, match="level of the source is of float32, level of the destination of int64"):
        transfer_weights(network(False, level=[0.5]), network(False, level=[3]))


# ---- doctor


def test_a_package_may_say_something_when_the_process_ends(tmp_path, monkeypatch):
    source = "import atexit\n__version__ = '1'\natexit.register(print, 'bye')\n"
    (tmp_path / "says_goodbye.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "FRAMEWORKS", {})
    monkeypatch.setattr(doctor, "OPTIONAL", {"says_goodbye": ("images", "pictures")})
    assert [finding.state for finding in doctor.examine().optional] == ["works"]


def test_a_working_folder_that_was_deleted_is_told(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr(doctor, "FRAMEWORKS", {})
    monkeypatch.setattr(doctor, "OPTIONAL", {})
    assert "cannot be written to" in doctor.examine().folder["problem"]


# ---- faults of backends that the specification must find


def hides_negative_infinities(faulty):
    def nonfinite(self, weights):
        return [name for name, value in weights.items() if np.isnan(value).any() or (value == np.inf).any()]

    faulty.backend_changes["nonfinite"] = nonfinite


def takes_large_weights_for_infinite_ones(faulty):
    def nonfinite(self, weights):
        with np.errstate(over="ignore", invalid="ignore"):
            return [name for name, value in weights.items() if not np.isfinite(value.sum())]

    faulty.backend_changes["nonfinite"] = nonfinite


def wraps_errors_of_steps(faulty):
    def change(closure, *args, **kwargs):
        try:
            return closure(*args, **kwargs)
        except Exception as error:
            raise RuntimeError(str(error)) from error

    faulty.network_changes["closure"] = default_closure(change)


def ignores(name):
    def fault(faulty):
        def change(closure, *args, **kwargs):
            return closure(*args, **{**kwargs, name: None})

        faulty.network_changes["closure"] = default_closure(change)

    return fault


def ignores_the_limit_of_values(faulty):
    def build_optimizers(self, network, builder, optimizer_cls, optimizer_params, update):
        update = dataclasses.replace(update, clip_value=None)
        return plain("build_optimizers")(self, network, builder, optimizer_cls, optimizer_params, update)

    faulty.backend_changes["build_optimizers"] = build_optimizers


def ignores_jit_compile(faulty):
    def bind_step(self, closure, network, arguments, compiling):
        return plain("bind_step")(self, closure, network, arguments, dataclasses.replace(compiling, jit=False))

    faulty.backend_changes["bind_step"] = bind_step


def predicts_with_the_weights_of_its_first_prediction(faulty):
    def call(self, x):
        if self.is_training:
            self.traced = None
        elif getattr(self, "traced", None) is None:
            self.traced = self.weight.copy()
        return {"pred": x @ (self.weight if self.is_training else self.traced)}

    faulty.network_changes["__call__"] = call


FAULTS = {
    "hides -inf": (hides_negative_infinities, "guards-knows_bad_weights"),
    "takes large for infinite": (takes_large_weights_for_infinite_ones, "guards-knows_bad_weights"),
    "wraps errors of steps": (wraps_errors_of_steps, "errors-keeps_the_users_errors"),
    "ignores key_mapping": (ignores("key_mapping"), "steps-reads_entries_of_other_names"),
    "ignores loss_keys": (ignores("loss_keys"), "steps-reads_entries_of_other_names"),
    "ignores metric_keys": (ignores("metric_keys"), "steps-reads_entries_of_other_names"),
    "ignores gradient_clip_value": (ignores_the_limit_of_values, "errors-refuses_what_it_lacks"),
    "ignores jit_compile": (ignores_jit_compile, "errors-refuses_what_it_lacks"),
    "traces weights": (predicts_with_the_weights_of_its_first_prediction, "checkpoints-returns_the_best"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found(kind):
    function, check = FAULTS[kind]
    faulty = Faulty()
    before = ToyNetwork.__delira_backend__.generator
    function(faulty)
    report = check_backend(faulty.build(), only=check, raises=False)
    ToyNetwork.__delira_backend__.generator = before
    assert [str(outcome.check) for outcome in report.failures] == [check], f"{report}"
