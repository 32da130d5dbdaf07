"""Checkpoints by callbacks: named after state and metrics, continued from exactly, never one file too few."""

import numpy as np
import pytest
from small_backends import build_kit

from delira.callbacks.decorators import on_end_epoch
from delira.errors import CheckpointError, ConfigError, MissingKeyError
from delira.state import METRICS
from delira.training import callbacks as cb
from delira.training.callbacks import Best, EarlyStopping, Interval, ModelCheckpoint, MostRecent, StepLR


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def scripted(*values):
    """Let the epochs have these values."""
    left = list(values)

    @on_end_epoch
    def script(state):
        state[METRICS] = {**state[METRICS], "val_score": left.pop(0)}

    return script


def test_only_the_most_recent_file_stays(fit, tmp_path):
    trial = fit.trial(MostRecent(tmp_path / "model.{epoch:02d}"))
    trial.run(2)
    trial.run(3)
    assert names(tmp_path) == [f"model.02{trial.trainer.backend.checkpoint_suffix}"]


def test_an_interrupted_fit_equals_an_unbroken_one(fit, tmp_path):
    def trial(path):
        return fit.trial(MostRecent(path / "model"), StepLR(2), EarlyStopping(patience=99))

    backend = trial(tmp_path).trainer.backend
    start = backend.arrays.snapshot(backend.checkpoints.state_tree(fit.module, {})["model"])
    unbroken = trial(tmp_path / "a")
    wanted = unbroken.run(6)
    weights = fit.weights(unbroken)

    backend.checkpoints.load_state_tree({"model": start}, fit.module, {})
    trial(tmp_path / "b").run(3)
    backend.checkpoints.load_state_tree({"model": start}, fit.module, {})  # a new process knows nothing
    resumed = trial(tmp_path / "c").load(tmp_path / "b" / "model")
    assert resumed.run(6) == wanted
    for found, expected in zip(fit.weights(resumed), weights, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_most_recent_never_deletes_the_file_continued_from(torch_fit, tmp_path):
    torch_fit.trial(MostRecent(tmp_path / "model.{epoch}")).run(2)
    assert names(tmp_path) == ["model.1.pt"]
    torch_fit.trial(MostRecent(tmp_path / "model.{epoch}")).load(tmp_path / "model.1.pt").run(4)
    assert names(tmp_path) == ["model.1.pt", "model.3.pt"]


def test_the_best_stays_and_the_best_before_goes(torch_fit, tmp_path):
    best = Best(tmp_path / "best-{epoch}-{val_score:.1f}", monitor="val_score", mode="max")
    torch_fit.trial(scripted(1.0, 3.0, 2.0, 3.0, float("nan")), best).run(5)
    assert names(tmp_path) == ["best-1-3.0.pt"]
    assert best.best == 3.0


@pytest.mark.parametrize(
    ("settings", "values", "kept"),
    [
        ({"mode": "min"}, (3.0, 1.0, 2.0), "1"),
        ({"mode": "min", "min_delta": 1.5}, (3.0, 2.0, 1.0, 0.9), "2"),
        ({"mode": "min", "period": 3}, (3.0, 1.0, 2.0, 1.5), "2"),
    ],
)
def test_what_is_best_can_be_said(torch_fit, tmp_path, settings, values, kept):
    torch_fit.trial(scripted(*values), Best(tmp_path / "best-{epoch}", monitor="score", **settings)).run(len(values))
    assert names(tmp_path) == [f"best-{kept}.pt"]


def test_the_best_value_survives(torch_fit, tmp_path):
    make = lambda: Best(tmp_path / "b{epoch}", monitor="score", mode="min")  # noqa: E731
    trial = torch_fit.trial(scripted(1.0, 2.0), make())
    trial.run(2)
    resumed = torch_fit.trial(scripted(1.5, 0.5), make()).load(trial.save(tmp_path / "kept"))
    resumed.run(3)
    assert names(tmp_path) == ["b0.pt", "kept.pt"]
    resumed.run(4)
    assert names(tmp_path) == ["b0.pt", "b3.pt", "kept.pt"]  # b0 is of another process


def test_states_of_callbacks_are_found_by_name_whatever_the_order(torch_fit, tmp_path):
    make = lambda: [Best(tmp_path / "b{epoch}"), EarlyStopping(patience=9), StepLR(1)]  # noqa: E731
    first = make()
    trial = torch_fit.trial(*first)
    trial.run(3)
    kept = trial.save(tmp_path / "kept")
    second = [Interval(tmp_path / "new{epoch}"), *reversed(make())]
    torch_fit.trial(*second).load(kept)
    assert (second[3].best, second[2].best) == (first[0].best, first[1].best)
    assert second[1].state_dict() == first[2].state_dict()


def test_an_interval_keeps_all_of_its_files(torch_fit, tmp_path):
    torch_fit.trial(
        Interval(tmp_path / "e{epoch}", period=2), Interval(tmp_path / "b{epoch}-{t}", period=4, on_batch=True)
    ).run(4)
    assert names(tmp_path) == ["b1-0.pt", "b2-1.pt", "b3-2.pt", "e1.pt", "e3.pt"]


def test_the_factory_gives_the_one_or_the_other(torch_fit, tmp_path):
    assert isinstance(ModelCheckpoint(save_best_only=True), Best)
    every = ModelCheckpoint(tmp_path / "m{epoch}", period=2)
    assert isinstance(every, Interval)
    torch_fit.trial(every).run(4)
    assert names(tmp_path) == ["m1.pt", "m3.pt"]


def test_weights_alone_are_read_without_delira(fit, tmp_path):
    if fit.backend != "torch":
        numpy = pytest.importorskip("safetensors.numpy", reason="the weights are written by safetensors")
    trial = fit.trial(MostRecent(tmp_path / "w.{epoch}", save_model_params_only=True))
    trial.run(1)
    wanted = trial.trainer.backend.weights.named(trial.trainer.module)
    if fit.backend == "torch":
        import torch

        found = {name: tensor.numpy() for name, tensor in torch.load(tmp_path / "w.0.pt", weights_only=True).items()}
    else:
        found = numpy.load_file(tmp_path / "w.0.safetensors")
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_trial_loads_weights_alone_if_asked(torch_fit, tmp_path):
    trial = torch_fit.trial()
    trial.run(2)
    weights, kept = torch_fit.weights(trial), trial.save(tmp_path / "kept")
    trial.run(4)
    other = torch_fit.trial().load(kept, resume=False)
    np.testing.assert_array_equal(torch_fit.weights(other)[0], weights[0])
    assert other.trainer.state.epoch == 0
    (tmp_path / "torn.pt").write_bytes(kept.read_bytes()[:500])
    with pytest.raises(CheckpointError, match=r"torn\.pt"):
        other.load(tmp_path / "torn.pt")


def test_evaluations_write_nothing(torch_fit, tmp_path):
    trial = torch_fit.trial(Interval(tmp_path / "m{epoch}"), Interval(tmp_path / "b{t}", on_batch=True))
    trial.evaluate()
    trial.predict(data_key="validation_data")
    assert names(tmp_path) == []


def test_an_experiment_has_them_too(tmp_path, manager):
    kit = build_kit("torch")
    trainer = kit.trainer(tmp_path / "run", callbacks=[MostRecent(tmp_path / "m" / "{epoch}-{mse:.1e}")])
    trainer.train(2, manager())
    (name,) = names(tmp_path / "m")
    assert name.startswith("1-")
    assert name.endswith(".pt")
    again = kit.trainer(tmp_path / "again", resume_from=tmp_path / "m" / name)
    np.testing.assert_array_equal(kit.read(again.module), kit.read(trainer.module))
    assert again.state.epoch == 2


def test_what_cannot_be_is_refused(torch_fit, tmp_path):
    with pytest.raises(
        ConfigError, match=r"MostRecent: the name '.*x\{val_lss\}' has the field 'val_lss', but there is"
    ):
        torch_fit.trial(MostRecent(tmp_path / "x{val_lss}")).run(1)
    with pytest.raises(ConfigError, match="Interval: period is a whole number of at least 1, got 0"):
        Interval(period=0)
    with pytest.raises(ConfigError, match="Best: mode must be one of"):
        Best(mode="up")
    with pytest.raises(MissingKeyError, match="Best watches 'val_acc', but the epoch has only"):
        torch_fit.trial(Best(tmp_path / "x", monitor="val_acc")).run(1)


def test_a_fit_continues_inside_an_epoch(fit, tmp_path):
    def trial():
        return fit.trial(Interval(tmp_path / "b{epoch}-{t}", period=5, on_batch=True), StepLR(2, step_on_batch=True))

    backend = trial().trainer.backend
    start = backend.arrays.snapshot(backend.checkpoints.state_tree(fit.module, {})["model"])
    unbroken = trial()
    wanted = unbroken.run(3)
    weights = fit.weights(unbroken)
    backend.checkpoints.load_state_tree({"model": start}, fit.module, {})
    resumed = trial().load(tmp_path / f"b1-1{backend.checkpoint_suffix}")
    assert resumed.run(3) == wanted
    for found, expected in zip(fit.weights(resumed), weights, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["{epoch:q}", "{epoch", "{epoch!z}"])
def test_a_format_that_is_none_is_named(torch_fit, name, tmp_path):
    with pytest.raises(ConfigError, match=r"MostRecent: the name .* cannot be filled in"):
        torch_fit.trial(cb.MostRecent(f"{tmp_path}/{name}")).run(1)


@pytest.mark.parametrize("name", ["toy", "torch", "torchscript"])
def test_the_role_and_no_ending_says_how_weights_alone_are_written(tmp_path, manager, monkeypatch, name):
    pytest.importorskip("safetensors.numpy", reason="the weights are written by safetensors")
    kit = build_kit(name)
    trainer = kit.trainer(tmp_path / "run", callbacks=[MostRecent(tmp_path / "m" / "w", save_model_params_only=True)])
    if name == "toy":  # a backend of somebody else may have the ending of PyTorch
        monkeypatch.setattr(kit.backend, "checkpoint_suffix", ".pt")
    trainer.train(1, manager())
    assert names(tmp_path / "m") == ["w.pt" if name == "torch" else "w.safetensors"]
