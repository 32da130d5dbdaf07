"""Where the time goes, by a clock that only tests move; and traces, read back."""

import json
import time

import numpy as np
import pytest

import delira
from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import on_sample, on_step_training
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.training.callbacks import MostRecent, Profiler, TimerMetric, profiler

STEP = {"forward", "criterion", "backward", "update"}


class Clock:
    """Stands still unless something takes time."""

    def __init__(self):
        self.now = 0.0

    def take(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(profiler, "perf_counter", lambda: found.now)
    return found


class Slow:
    """Batches that take time."""

    def __init__(self, clock, batches, seconds):
        self.clock, self.batches, self.seconds = clock, batches, seconds

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for batch in self.batches:
            self.clock.take(self.seconds)
            yield batch


class SlowCallback(Callback):
    """Takes time at each moment."""

    def __init__(self, clock, **seconds):
        self.seconds = seconds
        for name, value in seconds.items():
            setattr(self, name, lambda state, value=value: clock.take(value))


def times_of(found):
    return {name: pytest.approx(value) for name, value in found.items()}


def parts_of(found):
    return {name: value for name, value in found.items() if value}


def test_every_part_has_its_own_seconds(torch_fit, clock, tmp_path):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")

    class Net(torch.nn.Linear):
        def forward(self, x):
            clock.take(2 if self.training else 100)
            return super().forward(x)

    class Update(torch.optim.SGD):
        def step(self, closure=None):
            clock.take(16)
            return super().step(closure)

    def criterion(prediction, target):
        clock.take(4)
        loss = ((prediction - target) ** 2).mean()
        loss.register_hook(lambda gradient: clock.take(8))
        return loss

    def validation_criterion(prediction, target):
        return ((prediction - target) ** 2).mean()

    class Losses:
        def __call__(self, prediction, target):
            return (criterion if prediction.requires_grad else validation_criterion)(prediction, target)

    class Saved(MostRecent):
        def on_checkpoint(self, state):
            clock.take(1000)  # a callback of the end of an epoch is no part of its own
            super().on_checkpoint(state)

    measured = Profiler()
    net = Net(3, 1)
    slow = SlowCallback(clock, on_step_training=32, on_start_training=5000)
    trial = delira.Trial(
        net, Update(net.parameters(), 0.1), Losses(), ["loss"], [slow, measured, Saved(tmp_path / "kept")], verbose=0
    )
    trial.with_train_generator(Slow(clock, torch_fit.batches(), 1)).with_val_generator(torch_fit.batches()).run(2)
    expected = {
        "data": 3 * 1, "forward": 3 * 2, "criterion": 3 * 4, "backward": 3 * 8, "update": 3 * 16, "callbacks": 3 * 32,
        "validation": 3 * 100, "other": 1000 + 5000,
    }  # fmt: skip
    assert [parts_of(epoch) for epoch in measured.epochs] == [times_of(expected)] * 2
    rows = {line.split()[0]: line.split()[1:] for line in measured.summary().splitlines()[1:]}
    total = 2 * sum(expected.values())
    assert rows["all"] == [f"{total:.3f}", "100.0%"]
    assert rows["update"] == ["96.000", f"{96 / total:.1%}", "16000.000"]
    assert rows["validation"] == ["600.000", f"{600 / total:.1%}"]
    assert list(rows)[-1] == "all"  # nothing was left undivided


@pytest.mark.parametrize("kit", ["torch"], indirect=True)
def test_checkpoints_and_the_preparation_of_batches_are_parts(kit, clock, tmp_path, manager, monkeypatch):
    class Net(kit.network):
        @staticmethod
        def prepare_batch(batch, input_device, output_device):
            clock.take(3)
            return kit.network.prepare_batch(batch, input_device, output_device)

    measured = Profiler()
    trainer = kit.trainer(tmp_path, Net(), callbacks=[measured], save_freq=1)
    save = trainer.saver.save
    monkeypatch.setattr(trainer.saver, "save", lambda *args: (clock.take(7), save(*args))[1])
    trainer.train(2, manager(), manager(8))
    expected = {"prepare": 3 * 3, "checkpoint": 7, "validation": 2 * 3}
    assert [parts_of(epoch) for epoch in measured.epochs] == [times_of(expected)] * 2


def test_the_state_has_the_times_of_the_running_epoch(fit):
    seen = []

    class Look(Callback):
        def on_end_epoch(self, state):
            seen.append(dict(state[keys.TIMINGS]))

    measured = Profiler()
    begin = time.perf_counter()
    trial = fit.trial(measured, Look(), compiled=False) if fit.backend != "torch" else fit.trial(measured, Look())
    trial.run(2)
    wall = time.perf_counter() - begin
    assert len(seen) == len(measured.epochs) == 2
    for now, final in zip(seen, measured.epochs, strict=True):
        assert STEP | {"data", "callbacks", "validation"} <= now.keys()
        assert "step" not in parts_of(now) or now["step"] == 0
        assert all(final[part] >= seconds for part, seconds in now.items())
    assert 0 < sum(sum(epoch.values()) for epoch in measured.epochs) <= wall


@pytest.mark.parametrize("kit", ["tensorflow", "jax"], indirect=True)
def test_a_compiled_step_is_one_part_and_its_compilation_another(kit, tmp_path, manager):
    measured = Profiler()
    kit.trainer(tmp_path, callbacks=[measured]).train(2, manager(8), manager())
    first, second = measured.epochs
    assert first["compile"] > 0
    assert second["step"] > 0
    assert not STEP & (parts_of(first).keys() | parts_of(second).keys())
    assert "compile" not in second  # all batches have one shape
    assert measured.summary().endswith("cannot be divided into forward to update")


@pytest.mark.parametrize("kit", ["torch", "tensorflow", "jax"], indirect=True)
def test_to_measure_changes_nothing(kit, tmp_path, manager):
    histories, weights = [], []
    for name, callbacks in (("with", [Profiler(wait=True)]), ("without", [])):
        trainer = kit.trainer(tmp_path / name, callbacks=callbacks)
        kit.write(trainer.module, np.ones((3, 1)))
        trainer.train(2, manager(), manager())
        histories.append(trainer.state.history)
        weights.append(kit.read(trainer.module))
    assert histories[0] == histories[1]
    np.testing.assert_array_equal(*weights)


@pytest.mark.parametrize("kit", ["torch"], indirect=True)
def test_batches_are_prepared_ahead_as_without_it(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[Profiler()])
    trainer.train(1, manager())
    assert not trainer.callbacks.hears("at_iter_begin")


def test_a_closure_of_ones_own_is_one_step(torch_fit, clock):
    def closure(state):
        clock.take(5)
        state[keys.Y_PRED] = state[keys.MODEL](state[keys.X])
        state[keys.LOSS] = state[keys.Y_PRED].mean()
        state[keys.MODEL].zero_grad()
        state[keys.LOSS].backward()

    measured = Profiler()
    torch_fit.trial(measured).with_closure(closure).run(1)
    assert parts_of(measured.epochs[0]) == {"step": pytest.approx(15)}


def test_a_failed_step_leaves_a_clock_that_goes_on(torch_fit, clock):
    @on_sample
    def fail(state):
        if state[keys.EPOCH] == 1 and not trial.state.get("again"):
            raise RuntimeError("on purpose")

    measured = Profiler()
    trial = torch_fit.trial(SlowCallback(clock, on_step_training=1), measured, fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        trial.run(2)
    trial.state["again"] = True
    trial.run(3)
    assert [parts_of(epoch) for epoch in measured.epochs] == [{"callbacks": pytest.approx(3)}] * 2


@pytest.mark.parametrize("kit", ["torch"], indirect=True)
def test_folds_measure_themselves(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, callbacks=[TimerMetric("forward", prints=False)])
    result = experiment.kfold(manager(12), num_epochs=2, num_splits=2)
    for fold in result.folds:
        assert all(record["forward_seconds"] > 0 for record in fold.history)


# ---- the metric


def test_as_a_metric_it_becomes_a_callback(torch_fit, clock, capfd):
    timer = TimerMetric("criterion", "callbacks")
    slow = SlowCallback(clock, on_criterion=2, on_step_training=1)
    trial = torch_fit.trial(slow, metrics=["loss", timer])
    history = trial.run(2)
    assert [(record["criterion_seconds"], record["callbacks_seconds"]) for record in history] == [
        (pytest.approx(6), pytest.approx(3))
    ] * 2
    shown = capfd.readouterr().err.splitlines()
    assert shown[0].split() == ["part", "seconds", "share", "ms/step"]
    assert [line.split()[0] for line in shown[1:]] == ["criterion", "callbacks", "all"]
    trial.run(3)
    trial.evaluate()
    assert [one for one in trial.callbacks if isinstance(one, TimerMetric)] == [timer]
    assert len(trial.history) == 3
    assert trial.history[2]["criterion_seconds"] == pytest.approx(6)


def test_as_a_callback_it_reports_all_parts(fit, capfd):
    trial = fit.trial(TimerMetric(prints=False), **({} if fit.backend == "torch" else {"compiled": False}))
    (record,) = trial.run(1)
    assert {f"{part}_seconds" for part in (*STEP, "data", "validation")} <= record.keys()
    assert capfd.readouterr().err == ""


# ---- traces


def test_torch_writes_a_trace_of_the_chosen_steps(torch_fit, tmp_path):
    trial = torch_fit.trial(Profiler(trace_dir=tmp_path / "trace", trace_steps=(2, 3)))
    trial.run(2)
    events = json.loads((tmp_path / "trace" / "trace.json").read_text())["traceEvents"]
    updates = [event for event in events if event.get("name", "").startswith("Optimizer.step#SGD")]
    assert len(updates) == 2
    assert any(event.get("name") == "aten::linear" for event in events)


@pytest.mark.parametrize("kit", ["tensorflow", "jax"], indirect=True)
def test_other_frameworks_write_a_trace_for_xprof(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path / "run", callbacks=[Profiler(trace_dir=tmp_path / "trace")])
    trainer.train(2, manager())
    (trace,) = (tmp_path / "trace").rglob("*.xplane.pb")
    assert trace.stat().st_size > 1000


def test_a_trace_ends_with_the_fit(torch_fit, tmp_path):
    torch_fit.trial(Profiler(trace_dir=tmp_path, trace_steps=(2, 100))).run(1)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len([event for event in events if event.get("name", "").startswith("Optimizer.step#SGD")]) == 2


def test_what_cannot_be_is_refused(tmp_path):
    for steps in ((0, 3), (3, 2), (1,)):
        with pytest.raises(
            ConfigError,
            match=r"trace_steps (are the first and the last step, from 1|is a whole number of at least 1), got",
        ):
            Profiler(trace_steps=steps)
    with pytest.raises(ConfigError, match="there is no part 'foward'; did you mean 'forward'"):
        TimerMetric("foward")
    with pytest.raises(ConfigError, match=r"there is no part \['forward'\]"):
        TimerMetric(["forward"])


@pytest.mark.parametrize("kit", ["toy"], indirect=True)
def test_a_backend_without_a_trace_says_so(kit, tmp_path):
    data = BaseDataManager({"data": np.ones((4, 3), "f4"), "label": np.ones((4, 1), "f4")}, 2)
    with pytest.raises(ConfigError, match="Profiler: the backend 'toy' has no trace; leave trace_dir out"):
        kit.trainer(tmp_path / "run", callbacks=[Profiler(trace_dir=tmp_path)]).train(1, data)
    measured = Profiler()
    kit.trainer(tmp_path / "other", callbacks=[measured]).train(1, data)
    assert measured.epochs[0]["data"] > 0


def test_to_compile_anew_is_no_step(fit):
    seen = []

    @on_step_training
    def look(state):
        seen.append(state[keys.TIMINGS].get("compile", 0.0))

    fit.trial(Profiler(), look).run(2)  # batches of 4, 4 and 2
    assert (seen[0] > 0) == (fit.backend != "torch")
    assert seen[1] == seen[0]
    assert (seen[2] > seen[1]) == (fit.backend == "jax")  # it compiles for each shape
    assert seen[3:] == [0, 0, 0]
