"""Where the time of a fold goes: what ``timings.json`` and ``FoldResult.timings`` say, also of continued runs."""

import contextlib
import subprocess
import sys
import time

import numpy as np
import pytest
from edited_files import read_plain

from delira.contract import mark
from delira.data_loading import BaseDataManager
from delira.models import named_weights
from delira.testing.toy import ToyExperiment, ToyNetwork, ToyTrainer, mean_squared_error
from delira.training import saving
from delira.training.saving import PhaseTimes, read_timings

DIVIDED = {"data", "forward", "backward", "update", "validation", "checkpoint", "test", "other"}
ONE_STEP = DIVIDED - {"forward", "backward", "update"} | {"step"}
SETTINGS = {
    "losses": {"mse": mean_squared_error},
    "optimizer_params": {"lr": 0.01},
    "logging_type": None,
    "verbose": False,
}


def toy_trainer(folder, **settings):
    network = ToyNetwork(3)
    network.weight[...] = 0.5
    return ToyTrainer(network, folder, **{**SETTINGS, **settings})


def toy_data(n=24, batch_size=4):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return BaseDataManager({"data": x, "label": x @ np.ones((3, 1))}, batch_size=batch_size)


def stored(folder):
    return read_plain(folder / "timings.json")


def test_every_backend_says_where_the_time_went(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    begin = time.perf_counter()
    trainer.train(3, manager(), manager())
    whole = time.perf_counter() - begin
    times = stored(tmp_path)
    assert times["version"] == 1
    assert times["steps"] == trainer.state.global_step
    assert times["seconds"].keys() in (DIVIDED, ONE_STEP)
    assert all(value >= 0 for value in times["seconds"].values())
    # a pause of the machine may be as long as the whole training of the toy
    assert 0.8 * whole - 0.01 <= sum(times["seconds"].values()) <= whole + 0.01
    assert times["seconds"]["validation"] > 0
    assert times["seconds"]["checkpoint"] > 0
    assert times["note"]


@pytest.mark.parametrize("slow", ["data", "forward", "update", "validation", "checkpoint"])
def test_the_phase_that_takes_long_is_the_one_that_is_told(slow, tmp_path, monkeypatch):
    clock = [0.0]  # on which nothing else takes time: a busy machine stops anywhere
    monkeypatch.setattr(saving, "perf_counter", lambda: clock[0])

    def nap():
        clock[0] += 0.01

    class Batches(list):
        def __iter__(self):
            for batch in super().__iter__():
                if slow == "data":
                    nap()
                yield batch

    def slow_loss(prediction, target):
        if slow == "forward":
            nap()
        return mean_squared_error(prediction, target)

    folder = tmp_path if slow == "checkpoint" else None  # a busy disk takes long
    save_freq_steps = 1 if slow == "checkpoint" else None
    trainer = toy_trainer(folder, losses={"mse": slow_loss}, save_freq_steps=save_freq_steps)
    optimizer, save = trainer.optimizers["default"], trainer.saver.save
    if slow == "update":
        apply = optimizer.apply
        monkeypatch.setattr(optimizer, "apply", lambda gradient: (nap(), apply(gradient)))
    if slow == "checkpoint":
        monkeypatch.setattr(trainer.saver, "save", lambda *args: (nap(), save(*args)))
    if slow == "validation":
        network = type(
            "Slow",
            (ToyNetwork,),
            {"__call__": lambda self, x: (self.is_training or nap(), {"pred": x @ self.weight})[1]},
        )
        trainer.module.__class__ = network
    batches = toy_data() if slow == "checkpoint" else Batches(toy_data().epoch(0, 0, 1))
    trainer.train(2, batches, toy_data() if slow == "validation" else None)
    seconds = trainer.timings["seconds"]
    assert sum(seconds.values()) == pytest.approx(clock[0])
    assert seconds[slow] >= 0.1
    # what looks before the first step is "other"
    assert {name for name, value in seconds.items() if value} <= {slow, "other"}, seconds
    assert seconds[slow] > seconds["other"]


def test_a_closure_of_ones_own_is_one_step_unless_it_marks_its_parts():
    class Own(ToyNetwork):
        marks = False

        @staticmethod
        def closure(model, data_dict, optimizers, losses, **kwargs):
            time.sleep(0.002)
            if model.marks:
                mark("backward")
            return {}, {"mse": 0.5}, model(data_dict["data"])

    for marks, part in ((False, "step"), (True, "backward")):
        network = Own(3)
        network.marks = marks
        trainer = ToyTrainer(network, None, **SETTINGS)
        trainer.train(2, toy_data())
        times = trainer.timings
        assert max(times["seconds"], key=times["seconds"].get) == part
        assert ("step" in times["seconds"]) is not marks
        assert ("estimated" in times["note"]) is marks


def test_a_run_that_is_continued_adds_to_its_times_and_learns_the_same(tmp_path):
    unbroken = toy_trainer(tmp_path / "whole").train(4, toy_data(), toy_data())
    toy_trainer(tmp_path / "parts").train(2, toy_data(), toy_data())
    before = stored(tmp_path / "parts")
    network = toy_trainer(tmp_path / "parts").train(4, toy_data(), toy_data())
    after, whole = stored(tmp_path / "parts"), stored(tmp_path / "whole")
    assert (before["steps"], after["steps"], whole["steps"]) == (12, 24, 24)
    assert all(after["seconds"][name] >= seconds for name, seconds in before["seconds"].items())
    assert sum(after["seconds"].values()) > sum(before["seconds"].values())
    last = [
        ToyTrainer.load_state(tmp_path / name / "checkpoints" / "checkpoint_last.zip") for name in ("whole", "parts")
    ]
    assert last[0]["state"] == last[1]["state"]
    assert np.array_equal(named_weights(network)["weight"], named_weights(unbroken)["weight"])


def test_what_an_error_ends_is_written_too(tmp_path):
    class Fails:
        def at_iter_end(self, trainer, *, iter_num, **facts):
            if iter_num == 2:
                raise ValueError("mine")

    trainer = toy_trainer(tmp_path, callbacks=[Fails()])
    with pytest.raises(ValueError, match="mine"):
        trainer.train(1, toy_data())
    assert stored(tmp_path)["steps"] == 2
    assert not trainer.times.is_sampling
    before = trainer.timings
    time.sleep(0.01)
    mark("forward")  # nobody listens any more
    assert trainer.timings == before


def test_a_cross_validation_has_the_times_of_each_fold_and_reads_them_again(tmp_path):
    experiment = ToyExperiment(
        {"fixed": {"model": {"n_features": 3}, "training": {**SETTINGS, "num_epochs": 2}}},
        ToyNetwork,
        save_path=tmp_path,
    )
    result = experiment.kfold(toy_data(), {"mse": mean_squared_error}, num_splits=2)
    for fold in result.folds:
        assert fold.timings == stored(fold.path)
        assert fold.timings["seconds"]["test"] > 0
        assert sum(fold.timings["seconds"].values()) == pytest.approx(fold.seconds, rel=0.3, abs=0.02)
    again = experiment.kfold(toy_data(), {"mse": mean_squared_error}, num_splits=2, resume=result.path)
    assert [fold.timings for fold in again.folds] == [fold.timings for fold in result.folds]


def test_a_trainer_without_files_tells_its_times(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = toy_trainer(None)
    trainer.train(2, toy_data())
    assert trainer.timings["steps"] == 12
    assert trainer.timings["seconds"]["update"] > 0
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"seconds": 3}', '{"seconds": {"data": "x"}, "steps": 1}',
     f'{{"seconds": {{"data": 1{"0" * 400}}}, "steps": 1}}'],
)  # fmt: skip
def test_a_damaged_file_is_told_of_and_begun_anew(content, tmp_path, caplog):
    (tmp_path / "timings.json").write_text(content)
    assert read_timings(tmp_path) is None
    assert "the times of the phases in it are lost" in caplog.text
    toy_trainer(tmp_path).train(1, toy_data())
    assert stored(tmp_path)["steps"] == 6


def test_a_step_costs_next_to_nothing(monkeypatch):
    """The clock is read twice around each batch, and the device is waited for in few of the steps."""
    calls = {"clock": 0, "device": 0}

    def clock():
        calls["clock"] += 1
        return time.perf_counter()

    def synchronize():
        calls["device"] += 1

    monkeypatch.setattr(saving, "perf_counter", clock)
    for _ in PhaseTimes(None, synchronize).steps(range(20000)):
        pass
    assert calls["clock"] <= 2.2 * 20000
    assert calls["device"] <= 0.1 * 20000


def test_a_checkpoint_in_a_step_that_is_measured_is_no_part_of_that_step():
    times = PhaseTimes(None, lambda: None)
    with times.phase("other"), times.training():
        for _ in times.steps(range(2)):
            time.sleep(0.01)
            mark("forward")
            with times.phase("checkpoint"):
                time.sleep(0.02)
    seconds = times.to_dict()["seconds"]
    assert seconds["checkpoint"] >= 0.04
    assert seconds["forward"] > 4 * seconds["other"]


def test_phases_inside_of_others_count_once():
    times = PhaseTimes(None, lambda: None)
    with times.phase("other"), contextlib.suppress(ValueError), times.training():
        for number in times.steps(range(3)):
            with times.phase("checkpoint"):
                time.sleep(0.005)
            if number == 1:
                raise ValueError
    seconds = times.to_dict()["seconds"]
    assert seconds["checkpoint"] >= 0.01
    assert seconds["step"] + seconds["other"] < 0.005


def test_nothing_is_imported_for_it():
    program = "import sys, delira.training.saving; sys.exit(bool({'torch', 'tensorflow', 'jax'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
