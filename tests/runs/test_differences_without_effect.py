"""Settings that are changed when a run goes on: which have no effect, and that this is said."""

import warnings

import pytest
from broken_off import Interrupted, StopAt
from test_folder_ledger import experiment_of, only_folder

from delira.errors import ConfigError
from delira.runs.folder import RunFolder


def changed(kit, path, data, **changes):
    """A run that is broken off in its third epoch, and the warning with which it is continued with changes."""
    training = {**kit.halving(), "num_epochs": 4}
    callbacks = training.pop("callbacks", [])
    experiment = experiment_of(kit, path, **training)
    with pytest.raises(Interrupted):
        experiment.run(data, callbacks=[*callbacks, StopAt(3)])
    folder = only_folder(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        experiment.resume(folder, data, allow_changes=True, callbacks=callbacks, **changes)
    (said,) = [str(warning.message) for warning in caught if "continued with changes" in str(warning.message)]
    return said, experiment.last_trainer, folder


def rates(trainer):
    return [rate for record in trainer.state.history for name, rate in record.items() if name == "lr"]


def test_new_learning_rates_are_said_to_have_no_effect_and_have_none(kit, tmp_path, manager):
    said, trainer, folder = changed(kit, tmp_path, manager(), optimizer_params={"lr": 0.3, "momentum": 0.5})
    assert "training.optimizer_params.lr: 0.1 in the run, 0.3 now\n" in said
    assert pytest.approx([0.1, 0.05, 0.025, 0.0125]) == rates(trainer)
    lines = said.split("\n  ")[1:]
    assert len(lines) == 2
    assert lines[1].startswith("optimizers and schedules go on with their state in the checkpoint")
    assert lines[1].endswith("trainer.scale_rates(factor)")
    (entry,) = [entry for entry in RunFolder(folder).events() if entry["event"] == "resumed"]
    assert entry["changes"] == lines


def test_rates_are_changed_as_the_warning_says(kit, tmp_path, manager):
    class Scale:
        def at_training_begin(self, trainer, **facts):
            trainer.scale_rates(10)

    experiment = experiment_of(kit, tmp_path, num_epochs=4)
    with pytest.raises(Interrupted):
        experiment.run(manager(), callbacks=[StopAt(3)])
    experiment.resume(only_folder(tmp_path), manager(), callbacks=[Scale()])
    assert pytest.approx([0.1, 0.1, 1, 1]) == rates(experiment.last_trainer)


def test_a_new_schedule_is_said_to_have_no_effect(tmp_path, manager):
    torch = pytest.importorskip("torch", reason="only the torch backend has schedules")
    from small_backends import torch_kit

    params = {"lr_scheduler_params": {"step_size": 100, "gamma": 0.5}}
    said, trainer, _ = changed(torch_kit(), tmp_path / "params", manager(), **params)
    assert "trainer.scale_rates(factor)" in said
    assert pytest.approx([0.1, 0.05, 0.025, 0.0125]) == rates(trainer)
    params = {"lr_scheduler_cls": torch.optim.lr_scheduler.ExponentialLR, "lr_scheduler_params": {"gamma": 0.5}}
    said, _, _ = changed(torch_kit(), tmp_path / "cls", manager(), **params)
    assert "trainer.scale_rates(factor)" in said


def test_other_changes_are_not_said_to_have_no_effect(kit, tmp_path, manager):
    said, _, _ = changed(kit, tmp_path, manager(), val_freq=2)
    assert said.split("\n  ")[1:] == ["training.val_freq: not given in the run, 2 now"]


def test_another_optimizer_is_refused_whatever_is_allowed(kit, tmp_path, manager):
    if isinstance(kit.optimizer_cls, type):

        class Other(kit.optimizer_cls):
            pass

    else:  # a function that makes one
        Other = pytest.importorskip("optax").rmsprop

    experiment = experiment_of(kit, tmp_path)
    with pytest.raises(Interrupted):
        experiment.run(manager(), callbacks=[StopAt(2)])
    folder = only_folder(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for allow in (False, True):
        with pytest.raises(ConfigError, match=r"(?s)training\.optimizer_cls: .* cannot go on with the state of anoth"):
            experiment.resume(folder, manager(), optimizer_cls=Other, allow_changes=allow)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
