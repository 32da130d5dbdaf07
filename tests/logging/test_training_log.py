"""The log of a training: what goes where, how often, and what a continued run makes of it."""

import importlib.util
import json
import logging
import multiprocessing
import os
import sys
import threading
from typing import ClassVar

import numpy as np
import pytest
from event_files import read_events
from problems import linear_problem
from small_backends import Kit

import delira
from delira.data_loading import BaseDataManager, DictDataset
from delira.errors import ConfigError
from delira.logging import (
    LoggingContext,
    MessageHandler,
    MessageLogger,
    TensorboardXLoggingHandler,
    close_logger,
    get_logger,
    log,
    make_logger,
)
from delira.logging.logger import tell_once
from delira.state import LOSS
from delira.training.callbacks import AbstractCallback, on_step_training


class Keeper(MessageHandler):
    """Keeps what it is shown, and where the run was."""

    made: ClassVar[list] = []

    def __init__(self, name="keeper", level=logging.NOTSET):
        super().__init__(level)
        self.name_of_mine, self.shown, self.is_closed, self.began = name, [], False, []
        Keeper.made.append(self)

    def show(self, message, place):
        assert not self.is_closed
        self.shown.append((message.name, message.value, message.step, place))

    def continue_from(self, epoch, step):
        self.began.append((epoch, step))

    def close(self):
        self.is_closed = True
        super().close()

    def of(self, name):
        return [(value, step) for found, value, step, _ in self.shown if found == name]


@pytest.fixture(autouse=True)
def made(monkeypatch):
    monkeypatch.setattr(Keeper, "made", [])
    return Keeper.made


class EagerKit(Kit):
    """A backend whose steps run line by line: what a closure logs has a value."""

    @property
    def settings(self):
        return {**super().settings, "compiled": False}


@pytest.fixture
def kit(kit):
    return EagerKit(**vars(kit)) if kit.compiles else kit


@pytest.fixture
def talkative(kit):
    """A network whose closure logs its loss."""

    class Talkative(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            log({"value": {"value": loss, "name": "own", "env_appendix": f"_{fold:02d}"}})
            return {}, {"mse": loss}, {"pred": pred}

    return lambda: kit.build(cls=Talkative)


@pytest.fixture
def batches():
    """A manager of three batches of four samples."""
    return lambda: BaseDataManager(DictDataset(linear_problem(12)), 4, n_process_augmentation=0)


def mean_error(label, pred):
    return float(np.abs(label - pred).mean())


def lines(folder):
    return [json.loads(line) for line in (folder / "logs" / "messages.jsonl").read_text().splitlines()]


# ---- where messages go


def test_epochs_go_to_the_handler_under_their_own_names(kit, tmp_path, batches):
    trainer = kit.trainer(tmp_path, logging_type=Keeper)
    trainer.train(2, batches(), batches())
    (keeper,) = Keeper.made
    assert keeper.is_closed
    assert keeper.began == [(0, 0)]
    expected = {
        (name, value, r["epoch"]) for r in trainer.state.history for name, value in r.items() if name != "epoch"
    }
    assert {shown[:3] for shown in keeper.shown} == expected
    assert {name for name, *_ in keeper.shown} >= {"mse", "val_mse"}
    assert {place.axis for *_, place in keeper.shown} == {"epoch"}
    assert not (tmp_path / "logs" / "messages.jsonl").exists()  # these are in the history


def test_a_closure_logs_to_the_training_that_runs_it(kit, tmp_path, batches, talkative, caplog):
    trainer = kit.trainer(tmp_path, talkative(), logging_type=Keeper, fold=3)
    trainer.train(2, batches())
    (keeper,) = Keeper.made
    own = [(value, step, place) for name, value, step, place in keeper.shown if name == "own"]
    assert [step for _, step, _ in own] == [1, 2, 3, 4, 5, 6]
    assert [place.epoch for *_, place in own] == [1, 1, 1, 2, 2, 2]
    assert {(place.axis, place.fold) for *_, place in own} == {("step", 3)}
    mean = np.mean([value for value, *_ in own[:3]])
    assert mean == pytest.approx(trainer.state.history[0]["mse"], rel=1e-5)
    assert [(line["name"], line["step"]) for line in lines(tmp_path)] == [("own", step) for step in range(1, 7)]
    assert not caplog.records


def test_tensorboard_has_epochs_and_steps_apart(kit, tmp_path, batches, talkative):
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    pytest.importorskip("tensorboard", reason="needs the package 'tensorboard'")
    settings = {"logging_type": "tensorboardx", "logging_frequencies": {"mse": 3}, "val_metrics": {"mae": mean_error}}
    trainer = kit.trainer(tmp_path, talkative(), **settings)
    trainer.train(2, batches(), batches())
    epochs, steps = read_events(tmp_path / "logs"), read_events(tmp_path / "logs" / "steps")
    assert [each.step for each in epochs.Scalars("mse")] == [1, 2]
    assert {"mse", "val_mae"} <= set(epochs.Tags()["scalars"])
    assert set(steps.Tags()["scalars"]) == {"own", "step/mse"}
    assert [each.step for each in steps.Scalars("step/mse")] == [3, 6]
    assert [each.step for each in steps.Scalars("own")] == [1, 2, 3, 4, 5, 6]


def test_callbacks_log_at_every_event(kit, tmp_path, batches, caplog):
    class Talker(AbstractCallback):
        def at_training_begin(self, trainer, **facts):
            log({"text": "begin"})

        def at_iter_end(self, trainer, losses, **facts):
            log({"value": {"value": losses["mse"], "name": "now"}})

        def at_epoch_end(self, trainer, **facts):
            log({"value": {"value": facts["curr_epoch"], "name": "epochs"}})

        def at_training_end(self, trainer, **facts):
            get_logger().log({"text": "end"})

    trainer = kit.trainer(tmp_path, logging_type=Keeper, callbacks=[Talker()])
    trainer.train(1, batches())
    (keeper,) = Keeper.made
    assert keeper.of("text") == [("begin", 0), ("end", 3)]
    assert [step for _, step in keeper.of("now")] == [1, 2, 3]
    assert keeper.of("epochs") == [(1.0, 3)]
    assert not caplog.records


def test_several_handlers_have_arguments_of_their_own(kit, tmp_path, batches):
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    given = Keeper("given")
    settings = {"logging_type": [Keeper, given, "tensorboardx"], "logging_kwargs": {"Keeper": {"name": "made"}}}
    kit.trainer(tmp_path, **settings).train(1, batches())
    assert [keeper.name_of_mine for keeper in Keeper.made] == ["given", "made"]
    assert Keeper.made[0].shown == Keeper.made[1].shown
    assert not given.is_closed  # it is not ours
    assert Keeper.made[1].is_closed
    assert list((tmp_path / "logs").glob("events*"))


def test_any_handler_of_python_gets_records(kit, tmp_path, batches):
    class Plain(logging.Handler):
        records: ClassVar[list] = []

        def emit(self, record):
            self.records.append((record.levelname, record.msg))

    kit.trainer(tmp_path, logging_type=Plain).train(1, batches())
    assert ("INFO", {"value": {"value": pytest.approx(0.1), "name": "lr", "counter": 1, "env_appendix": "_00"}}) in (
        Plain.records
    )


def test_a_training_without_files_logs_as_well(kit, batches, talkative):
    trainer = kit.trainer(None, talkative(), logging_type=Keeper)
    trainer.train(1, batches())
    assert len(Keeper.made[0].of("own")) == 3


# ---- how often


def test_steps_are_logged_as_often_as_wanted(kit, tmp_path, batches, talkative):
    settings = {"logging_frequencies": {"mse": 2, "own": 3}, "logging_reductions": {"mse": "max", "own": "mean"}}
    every = kit.trainer(tmp_path / "every", talkative(), logging_type=Keeper, logging_frequencies=1)
    every.train(2, batches())
    kit.trainer(tmp_path / "some", talkative(), logging_type=Keeper, **settings).train(2, batches())
    losses = [value for value, _ in Keeper.made[0].of("step/mse")]
    assert [value for value, _ in Keeper.made[0].of("own")] == losses
    some = Keeper.made[1]
    # what belongs to the epoch before counts no more
    assert some.of("step/mse") == [(max(losses[:2]), 2), (losses[3], 4), (max(losses[4:]), 6)]
    assert some.of("own") == [(pytest.approx(np.mean(losses[:3])), 3), (pytest.approx(np.mean(losses[3:])), 6)]


def test_every_reduction_is_that_of_its_name():
    found = {}
    for how in ("last", "first", "mean", "median", "max", "min", lambda values: values.sum()):
        keeper = Keeper()
        logger = MessageLogger("mine", [keeper], frequencies=3, reductions=how)
        for value in (5.0, 1.0, 3.0, 7.0):
            logger.log({"value": {"value": value, "name": "x"}})
        found[how if isinstance(how, str) else "sum"] = [value for value, _ in keeper.of("x")]
    assert found == {
        "last": [3.0], "first": [5.0], "mean": [3.0], "median": [3.0], "max": [5.0], "min": [1.0], "sum": [9.0],
    }  # fmt: skip


def test_handlers_may_come_from_a_generator():
    keepers = [Keeper(), Keeper()]
    logger = MessageLogger("mine", (keeper for keeper in keepers))
    assert logger.handlers == keepers
    with pytest.raises(ConfigError, match="handlers are handlers of Python's logging"):
        MessageLogger("mine", Keeper())


def test_a_frequency_of_a_name_that_nothing_logs_is_told(kit, tmp_path, batches, caplog):
    kit.trainer(tmp_path, logging_type=Keeper, logging_frequencies={"mse": 2, "msse": 2}).train(1, batches())
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == "logging_frequencies names 'msse', which nothing logged; did you mean 'mse'?"


def test_nothing_is_read_before_it_is_due(kit, tmp_path, batches, talkative, monkeypatch):
    reads, read = [], kit.backend.arrays.read_scalars
    monkeypatch.setattr(kit.backend.arrays, "read_scalars", lambda values: reads.append(len(values)) or read(values))
    found = {}
    for name, settings in (("none", {}), ("due at the end", {"logging_frequencies": {"mse": 3}})):
        reads.clear()
        kit.trainer(tmp_path / name, logging_type=Keeper, **settings).train(1, batches())
        found[name] = reads[:]
    assert found["none"] == found["due at the end"]
    assert found["none"][-1] == 3  # all steps of the epoch together


def test_steps_of_a_compiled_step_are_logged(kit, tmp_path, batches):
    whole = Kit(**vars(kit))
    whole.trainer(tmp_path, logging_frequencies={"mse": 2}, logging_reductions="mean").train(2, batches())
    found = lines(tmp_path)
    assert [(line["name"], line["step"]) for line in found] == [("step/mse", step) for step in (2, 4, 6)]
    assert all(np.isfinite(line["value"]) for line in found)


# ---- continuing


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("stop", "begin"), [(4, (1, 4)), (5, (1, 4)), (6, (2, 6))])
def test_a_continued_run_logs_the_same(kit, tmp_path, batches, talkative, stop, begin):
    class Break(AbstractCallback):
        def at_iter_end(self, trainer, global_iter_num, **facts):
            if global_iter_num == stop:  # after the step's checkpoint was not written yet
                raise RuntimeError("broken")

    settings = {
        "save_freq_steps": 2, "save_freq": 1, "logging_frequencies": {"mse": 2, "own": 4},
        "logging_reductions": "mean",
    }  # fmt: skip
    kit.trainer(tmp_path / "whole", talkative(), **settings).train(3, batches())
    with pytest.raises(RuntimeError, match="broken"):
        kit.trainer(tmp_path / "broken", talkative(), callbacks=[Break()], **settings).train(3, batches())
    again = kit.trainer(tmp_path / "broken", talkative(), logging_type=Keeper, **settings)
    again.train(3, batches())
    assert lines(tmp_path / "broken") == lines(tmp_path / "whole")
    assert [line["step"] for line in lines(tmp_path / "whole") if line["name"] == "own"] == [4, 8]
    assert Keeper.made[0].began == [begin]


def test_tensorboard_shows_no_step_twice_after_a_break(kit, tmp_path, batches, talkative):
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    pytest.importorskip("tensorboard", reason="needs the package 'tensorboard'")

    class Break(AbstractCallback):
        def at_iter_end(self, trainer, global_iter_num, **facts):
            if global_iter_num == 4:
                raise RuntimeError("broken")

    settings = {"save_freq": 1, "logging_type": "tensorboardx"}
    with pytest.raises(RuntimeError, match="broken"):
        kit.trainer(tmp_path, talkative(), callbacks=[Break()], **settings).train(3, batches())
    kit.trainer(tmp_path, talkative(), **settings).train(3, batches())
    assert [each.step for each in read_events(tmp_path / "logs").Scalars("mse")] == [1, 2, 3]
    assert [each.step for each in read_events(tmp_path / "logs" / "steps").Scalars("own")] == list(range(1, 10))


def test_a_rollback_takes_messages_back(kit, tmp_path, batches, caplog):
    spoiled = []

    class Spoiled(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, global_iter_num=0, **kwargs):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            log({"value": {"value": loss, "name": "own"}})
            if global_iter_num == 4 and not spoiled:
                spoiled.append(global_iter_num)
                loss = loss * float("nan")
            return {}, {"mse": loss}, {"pred": pred}

    trainer = kit.trainer(
        tmp_path, kit.build(cls=Spoiled), logging_type=Keeper, nonfinite="rollback", log_freq=1, save_freq=1
    )
    trainer.train(3, batches())
    assert spoiled == [4]
    assert [line["step"] for line in lines(tmp_path)] == list(range(1, 10))
    assert Keeper.made[0].began == [(0, 0), (1, 3)]
    assert "rollback 1 of 3" in caplog.text


def test_a_new_run_in_an_old_folder_begins_its_file_anew(kit, tmp_path, batches, talkative):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "messages.jsonl").write_text('{"old": 1}\n{"torn')
    kit.trainer(tmp_path, talkative()).train(1, batches())
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3]


def test_a_training_that_goes_on_in_the_same_trainer_goes_on_in_the_file(kit, tmp_path, batches, talkative):
    trainer = kit.trainer(tmp_path, talkative(), logging_type=Keeper)
    for epochs in (1, 2, 2):
        trainer.train(epochs, batches())
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4, 5, 6]
    assert len(Keeper.made) == 2  # the third had nothing to do


# ---- the host program


def test_the_root_logger_and_others_stay_as_they_are(kit, tmp_path, batches, talkative):
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    root, own = logging.getLogger(), logging.getLogger("delira")
    before = [(each.level, each.handlers[:], each.propagate) for each in (root, own)]
    names = set(logging.Logger.manager.loggerDict)
    kit.trainer(tmp_path, talkative(), logging_type=[Keeper, "tensorboardx"]).train(1, batches())
    assert [(each.level, each.handlers[:], each.propagate) for each in (root, own)] == before
    assert {name for name in logging.Logger.manager.loggerDict if name not in names and "delira" in name} == set()


def test_messages_do_not_reach_the_root_logger(kit, tmp_path, batches, talkative, caplog):
    with caplog.at_level(logging.DEBUG):
        kit.trainer(tmp_path, talkative(), logging_type=Keeper).train(1, batches())
    assert not [record for record in caplog.records if isinstance(record.msg, dict)]


def test_trainings_in_threads_do_not_mix(kit, tmp_path, batches, talkative):
    failed = []

    def run(fold):
        try:
            trainer = kit.trainer(tmp_path / str(fold), talkative(), fold=fold, seed=fold, save_on_signal=False)
            trainer.train(2, batches())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(fold,)) for fold in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for fold in (0, 1):
        found = lines(tmp_path / str(fold))
        assert {line["fold"] for line in found} == {fold}
        assert [line["step"] for line in found] == [1, 2, 3, 4, 5, 6]


def test_a_training_inside_another_has_a_log_of_its_own(kit, tmp_path, batches, talkative):
    class Inner(AbstractCallback):
        def at_epoch_begin(self, trainer, **facts):
            kit.trainer(tmp_path / "inner", talkative()).train(1, batches())

    kit.trainer(tmp_path / "outer", talkative(), callbacks=[Inner()]).train(1, batches())
    assert len(lines(tmp_path / "outer")) == len(lines(tmp_path / "inner")) == 3


def test_handlers_are_closed_if_a_training_fails(kit, tmp_path, batches):
    class Fail(AbstractCallback):
        def at_epoch_end(self, trainer, **facts):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        kit.trainer(tmp_path, logging_type=Keeper, callbacks=[Fail()]).train(1, batches())
    assert Keeper.made[0].is_closed
    with pytest.raises(ConfigError, match="no log is open here"):
        get_logger()


def test_folds_have_logs_of_their_own(kit, tmp_path, talkative, batches):
    given = Keeper()
    cls = type(talkative())
    experiment = kit.experiment(tmp_path, cls=cls, training={"logging_type": [given]})
    result = experiment.kfold(batches(), num_splits=2, random_seed=0, shuffle=True)
    folders = sorted(path.parent.parent for path in tmp_path.rglob("messages.jsonl"))
    assert [folder.name for folder in folders] == ["fold_00", "fold_01"]
    assert [{line["fold"] for line in lines(folder)} for folder in folders] == [{0}, {1}]
    assert {place.fold for *_, place in given.shown} == {0, 1}
    assert len(result.folds) == 2


def test_a_logger_that_was_given_is_not_closed(kit, tmp_path, batches):
    class Logger:
        is_closed, names = False, ()

        def show_value(self, value, name, counter=None):
            assert not self.is_closed
            self.names = (*self.names, name)

        def close(self):
            self.is_closed = True

    given = Logger()
    for name in ("a", "b"):
        kit.trainer(tmp_path / name, logging_type=given).train(1, batches())
    assert len(given.names) > 1
    assert not given.is_closed


def test_a_broken_cross_validation_goes_on_with_a_handler_that_was_given(kit, tmp_path, batches):
    class Break(AbstractCallback):
        def at_epoch_end(self, trainer, **facts):
            if trainer.fold == 1:
                raise RuntimeError("broken")

    given = Keeper()
    settings = {"num_splits": 2, "random_seed": 0, "shuffle": True}
    experiment = kit.experiment(tmp_path, training={"logging_type": given})
    with pytest.raises(RuntimeError, match="broken"):
        experiment.kfold(batches(), callbacks=[Break()], **settings)
    again = kit.experiment(tmp_path, training={"logging_type": Keeper()})
    result = again.kfold(batches(), resume="auto", **settings)
    assert len(result.folds) == 2
    assert {place.fold for *_, place in given.shown} == {0}
    assert {place.fold for *_, place in Keeper.made[1].shown} == {1}


def test_a_trial_with_a_folder_logs_what_its_callbacks_log(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the package 'torch', which is not installed")

    @on_step_training
    def talk(state):
        log({"value": {"value": state[LOSS], "name": "now"}})

    net = torch.nn.Linear(3, 1)
    data = linear_problem(12)
    trial = delira.Trial(
        net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.MSELoss(), ["loss"], [talk],
        save_path=tmp_path, verbose=0,
    )  # fmt: skip
    trial.with_train_data(data["data"].astype("f4"), data["label"].astype("f4"), 4).run(2)
    (path,) = tmp_path.rglob("messages.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["name"], line["step"]) for line in found] == [("now", step) for step in range(1, 7)]


# ---- logs by name


def test_a_context_logs_to_its_own_handlers_and_closes_them():
    outer, inner = Keeper(), Keeper()
    with LoggingContext("outer", outer, frequencies=2):
        log({"value": {"value": 1.0, "name": "x"}})
        with LoggingContext("inner", inner) as logger:
            log({"value": {"value": 2.0, "name": "x"}})
            assert get_logger() is get_logger("inner") is logger
            log({"value": {"value": 3.0, "name": "x"}}, name="outer")
        assert inner.is_closed
        log({"value": {"value": 4.0, "name": "y"}})
    assert outer.is_closed
    assert outer.of("x") == [(3.0, 0)]
    assert inner.of("x") == [(2.0, 0)]
    with pytest.raises(ConfigError, match="there is no log 'outer'"):
        get_logger("outer")


def test_a_log_by_name_is_there_for_all_threads_until_it_is_closed():
    keeper = Keeper()
    make_logger("shared", keeper)
    try:
        with pytest.raises(ConfigError, match=r"there is a log 'shared' already; call close_logger\('shared'\)"):
            make_logger("shared", Keeper())
        threads = [threading.Thread(target=log, args=({"value": float(n)}, "shared")) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with LoggingContext("shared"):
            log({"value": 8.0})
        assert not keeper.is_closed
    finally:
        close_logger("shared")
    assert keeper.is_closed
    assert sorted(value for value, _ in keeper.of("value")) == [float(n) for n in range(9)]


def test_a_context_of_no_log_is_told():
    make_logger("digits")
    try:
        with pytest.raises(ConfigError, match=r"there is no log 'digts'; did you mean 'digits'\?; make one"):
            LoggingContext("digts").__enter__()
    finally:
        close_logger("digits")


def test_a_message_where_no_log_is_open_is_told_once(caplog):
    tell_once.cache_clear()
    for _ in range(2):
        log({"value": 0.5})
    (record,) = caplog.records
    assert "no training runs and no LoggingContext is open, so the message goes nowhere" in record.getMessage()


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"vlaue": 0.5}, r"nothing shows a message of the kind 'vlaue'; did you mean 'value'\?"),
        ("text", "a message is a dict like .*, got a str"),
        ({"value": {"value": "much", "name": "x"}}, "a scalar is a number, got 'much'"),
    ],
)
def test_a_wrong_message_is_refused_where_it_is_logged(message, complaint):
    with LoggingContext("mine", Keeper()), pytest.raises(ConfigError, match=complaint):
        log(message)


@pytest.mark.parametrize("framework", ["jax", pytest.param("tensorflow", marks=pytest.mark.slow)])
def test_a_compiled_step_refuses_to_log_what_has_no_value_yet(framework):
    package = pytest.importorskip(framework, reason=f"needs the package {framework!r}, which is not installed")

    def step(x):
        log({"value": {"value": x, "name": "traced"}})
        return x

    compiled = package.jit(step) if framework == "jax" else package.function(step, autograph=False)
    complaint = "'traced' is logged inside a compiled step"
    with LoggingContext("mine", Keeper()), pytest.raises(ConfigError, match=complaint):
        compiled(package.numpy.ones(()) if framework == "jax" else package.ones(()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_worker_process_has_no_log():
    keeper = Keeper()
    with LoggingContext("mine", keeper):
        process = multiprocessing.get_context("fork").Process(target=_log_in_worker, args=(keeper,))
        process.start()
        process.join(30)
    assert process.exitcode == 0


def _log_in_worker(keeper):
    log({"value": 0.5})
    sys.exit(len(keeper.shown))


# ---- settings


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"logging_type": "tensorboard"}, r"logging_type must be one of 'tensorboardx'.*did you mean 'tensorboardx'\?"),
        ({"logging_type": 5}, "logging_type must be one of .*, got 5"),
        ({"logging_type": dict}, "logging_type=dict is no class of handlers"),
        ({"logging_type": ["tensorboardx", "tensorboardx"]}, "names 'tensorboardx' twice"),
        ({"logging_type": Keeper, "logging_kwargs": {"nme": 1}}, r"'nme', which Keeper does not take; did you mean"),
        ({"logging_type": None, "logging_kwargs": {"a": 1}}, "logging_type=None writes nothing"),
        ({"logging_type": [Keeper], "logging_kwargs": {"Kepper": {}}}, r"'Kepper'\] belongs to no .*'Keeper'"),
        ({"logging_type": [Keeper], "logging_kwargs": {"Keeper": 5}}, r"'Keeper'\] must be a dict"),
        ({"logging_frequencies": 0}, "logging_frequencies must be an integer of at least 1"),
        ({"logging_frequencies": {"mse": 1.5}}, r"logging_frequencies\['mse'\] must be an integer"),
        ({"logging_reductions": "meen"}, "logging_reductions must be one of 'last', .*got 'meen'"),
        ({"reduce_types": {"mse": "sum"}}, r"logging_reductions\['mse'\] must be one of"),
    ],
)
def test_impossible_settings_are_refused_before_the_training(kit, tmp_path, settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        kit.trainer(tmp_path, **settings)


@pytest.mark.parametrize("name", ["logdri", "logdir"])
def test_arguments_that_tensorboardx_would_swallow_are_refused(kit, tmp_path, name):
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    with pytest.raises(ConfigError, match=rf"'{name}', which tensorboardX.SummaryWriter does not take.*'log_dir'"):
        kit.trainer(tmp_path, logging_type="tensorboardx", logging_kwargs={name: "x"})
    kit.trainer(tmp_path, logging_type="tensorboardx", logging_kwargs={"flush_secs": 5, "comment": "x"})


def test_arguments_for_what_is_made_already_are_refused(kit, tmp_path):
    with pytest.raises(ConfigError, match="is made already"):
        kit.trainer(tmp_path, logging_type=Keeper(), logging_kwargs={"name": "x"})


def test_a_missing_package_is_told_with_the_line_that_installs_it(kit, tmp_path, monkeypatch, caplog, batches):
    find, hidden = importlib.util.find_spec, {"tensorboardX", "mlflow", "wandb", "visdom"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in hidden else find(name, *rest))
    tell_once.cache_clear()
    installs = {"mlflow": "pip install mlflow-skinny", "wandb": "pip install wandb", "visdom": "'setuptools<81'"}
    for name, line in installs.items():
        with pytest.raises(ImportError, match=f"logging_type='{name}' needs the package.*{line}"):
            kit.trainer(tmp_path, logging_type=name)
    for _ in range(2):  # the default was not asked for
        kit.trainer(tmp_path, logging_type="tensorboardx").train(1, batches())
    (record,) = caplog.records
    assert record.getMessage().startswith("nothing is written for TensorBoard")
    assert "pip install 'delira[logging]'" in record.getMessage()


def test_a_handler_keeps_its_event_file_in_a_context(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    pytest.importorskip("tensorboard", reason="needs the package 'tensorboard'")
    with LoggingContext("mine", TensorboardXLoggingHandler(tmp_path)):
        for value in (3.0, 2.0):
            log({"scalar": {"tag": "x", "scalar_value": value}})
    assert [(each.step, each.value) for each in read_events(tmp_path).Scalars("x")] == [(0, 3.0), (1, 2.0)]
