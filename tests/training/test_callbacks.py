"""Callbacks: the six events of a trainer, what they tell, and the callbacks that come along."""

import csv
import json
import sys
from typing import ClassVar

import numpy as np
import pytest
from scripted import scripted

from delira.errors import ConfigError, MissingKeyError
from delira.training.callbacks import AbstractCallback, CallbackList, EarlyStopping, ProgressBar, TensorBoardWriter
from delira.utils.files import unsealed

EVENTS = (
    "at_training_begin", "at_epoch_begin", "at_iter_begin", "at_iter_end", "at_epoch_end", "at_training_end",
)  # fmt: skip


class Recorder:
    """Keeps every event with its facts; no subclass of anything."""

    def __init__(self):
        self.calls = []

    def facts(self, event):
        return [facts for name, facts in self.calls if name == event]


def _recording(event):
    def method(self, trainer, **facts):
        self.calls.append((event, facts))

    return method


for _event in EVENTS:
    setattr(Recorder, _event, _recording(_event))


# ---- the moments


def test_callbacks_hear_the_six_events_in_order(kit, tmp_path, manager):
    recorder = Recorder()
    kit.trainer(tmp_path, callbacks=[recorder]).train(2, manager(), manager(7))
    step = ["at_iter_begin", "at_iter_end"]
    epoch = ["at_epoch_begin", *step * 3, "at_epoch_end"]
    assert [name for name, _ in recorder.calls] == ["at_training_begin", *epoch * 2, "at_training_end"]


def test_callbacks_are_told_the_documented_facts(kit, tmp_path, manager):
    recorder = Recorder()
    trainer = kit.trainer(tmp_path, callbacks=[recorder], train_metrics={"m": lambda a, b: kit.loss(a, b)})
    trainer.train(2, manager(), manager(7), "mse")
    assert recorder.facts("at_training_begin") == [{"num_epochs": 2, "num_batches": 3}]
    assert recorder.facts("at_training_end") == [{"error": None}]
    first, second = recorder.facts("at_epoch_begin")
    assert first == {"curr_epoch": 1, "num_epochs": 2, "val_metrics": {}, "val_score_key": "val_mse"}
    assert second["val_metrics"]["val_mse"] == trainer.state.history[0]["val_mse"]
    begun = recorder.facts("at_iter_begin")
    assert all(facts.keys() == {"iter_num", "global_iter_num", "curr_epoch", "data_dict", "train"} for facts in begun)
    assert [(facts["curr_epoch"], facts["iter_num"], facts["global_iter_num"]) for facts in begun] == [
        (1, 0, 0), (1, 1, 1), (1, 2, 2), (2, 0, 3), (2, 1, 4), (2, 2, 5),
    ]  # fmt: skip
    assert begun[0]["train"] is True
    assert begun[0]["data_dict"].keys() == {"data", "label", "number"}
    for before, after in zip(begun, recorder.facts("at_iter_end"), strict=True):
        assert after.keys() == {*before, "losses", "metrics", "predictions"}
        assert all(after[name] is before[name] or after[name] == before[name] for name in before)
        assert (after["losses"].keys(), after["metrics"].keys()) == ({"mse"}, {"m"})
        assert after["predictions"].keys() == {"pred"}
    for number, facts in enumerate(recorder.facts("at_epoch_end"), 1):
        values = {name: value for name, value in trainer.state.history[number - 1].items() if name != "epoch"}
        assert facts == {
            "curr_epoch": number, "num_epochs": 2, "metrics": values, "val_metrics": values,
            "val_score_key": "val_mse", "is_best": facts["is_best"],
        }  # fmt: skip
        assert values.keys() == {"mse", "m", "val_mse", "lr"}
    assert recorder.facts("at_epoch_end")[0]["is_best"] is True


def test_the_number_of_batches_is_none_where_it_cannot_be_known(kit, tmp_path, manager):
    recorder = Recorder()
    kit.trainer(tmp_path, callbacks=[recorder]).train(1, iter(list(manager())))
    assert recorder.facts("at_training_begin") == [{"num_epochs": 1, "num_batches": None}]


def test_the_state_at_the_end_of_an_epoch_is_that_of_the_finished_epoch(kit, tmp_path, manager):
    seen = []

    class Look(AbstractCallback):
        def at_epoch_begin(self, trainer, **facts):
            seen.append((trainer.state.epoch, len(trainer.state.history)))

        def at_epoch_end(self, trainer, **facts):
            seen.append((trainer.state.epoch, len(trainer.state.history), trainer.state.best_epoch))

    kit.trainer(tmp_path, callbacks=[Look()]).train(2, manager(), manager(7), "mse")
    assert seen[:3] == [(0, 0), (1, 1, 1), (1, 1)]


def test_a_callback_may_listen_to_a_single_event_and_need_not_be_a_subclass(kit, tmp_path, manager):
    class OnlyTheEnd:
        error = "not called"

        def at_training_end(self, trainer, error):
            self.error = error

    callback = OnlyTheEnd()
    kit.trainer(tmp_path, callbacks=[callback]).train(1, manager())
    assert callback.error is None


def test_callbacks_are_called_in_the_order_they_were_given(kit, tmp_path, manager):
    order = []

    class Named:
        def __init__(self, name):
            self.name = name

        def at_training_begin(self, trainer, **facts):
            order.append(self.name)

    trainer = kit.trainer(tmp_path, callbacks=[Named("first"), Named("second")])
    trainer.register_callback(Named("third"))
    trainer.train(1, manager())
    assert order == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (object(), "is no callback: it has none of the methods at_training_begin"),
        (type("EarlyStopping", (), {})(), "is no callback: .*; use delira.training.callbacks.EarlyStopping"),
        (EarlyStopping, "is no callback: it is a class, pass an instance"),
        (print, "is no callback: decorate the function with its event"),
    ],
)
def test_what_is_no_callback_is_refused(kit, tmp_path, thing, message):
    with pytest.raises(ConfigError, match=message):
        kit.trainer(tmp_path / "a", callbacks=[thing])
    with pytest.raises(ConfigError, match=message):
        kit.trainer(tmp_path / "b").register_callback(thing)


def test_a_callback_is_shown_the_complete_trainer_once_before_a_checkpoint_is_read(kit, tmp_path, manager):
    seen = []

    class Attached(AbstractCallback):
        def attach(self, trainer):
            seen.append((list(trainer.optimizers), trainer.module is not None, trainer.state.epoch))

        def load_state_dict(self, state):
            seen.append("state")

        def state_dict(self):
            return {"some": 1}

    kit.trainer(tmp_path, callbacks=[Attached()]).train(1, manager())
    trainer = kit.trainer(tmp_path, callbacks=[Attached()])
    assert seen == [(["default"], True, 0), (["default"], True, 0), "state"]
    trainer.register_callback(Attached())
    assert seen[3:] == [(["default"], True, 1)]


@pytest.mark.parametrize("verbose", [False, True])
def test_a_callback_registered_by_a_callback_stays(kit, tmp_path, manager, verbose):
    recorder = Recorder()

    class Registers:
        def at_training_begin(self, trainer, **facts):
            if recorder not in list(trainer.callbacks):
                trainer.register_callback(recorder)

    trainer = kit.trainer(tmp_path, callbacks=[Registers()], verbose=verbose)
    trainer.train(1, manager())
    trainer.train(2, manager())
    assert len(recorder.facts("at_epoch_end")) == 2
    assert recorder in list(trainer.callbacks)


# ---- what callbacks change


@pytest.mark.parametrize("event", ["at_epoch_end", "at_iter_end", "at_epoch_begin"])
def test_stop_training_ends_the_training_after_the_running_epoch(kit, tmp_path, manager, event):
    class Stop:
        pass

    def stop(self, trainer, **facts):
        trainer.state.stop_training = True

    setattr(Stop, event, stop)
    recorder = Recorder()
    trainer = kit.trainer(tmp_path, callbacks=[Stop(), recorder])
    trainer.train(5, manager())
    assert trainer.state.epoch == 1
    assert trainer.stop_training is True
    assert len(recorder.facts("at_iter_end")) == 3


def test_the_historic_returned_dictionary_stops_the_training(kit, tmp_path, manager):
    class Old(AbstractCallback):
        def at_epoch_end(self, trainer, **kwargs):
            return {"stop_training": kwargs["curr_epoch"] == 2}

    trainer = kit.trainer(tmp_path, callbacks=[Old()])
    trainer.train(5, manager())
    assert trainer.state.epoch == 2


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"optimizer": 1, "stop_training": True}, r"Old.at_epoch_end returned the unknown entries \['optimizer'\]"),
        ("stop", "Old.at_epoch_end returned a str; a callback returns nothing and acts on trainer.state"),
    ],
)
def test_anything_else_that_a_callback_returns_is_refused(kit, tmp_path, manager, returned, message):
    class Old:
        def at_epoch_end(self, trainer, **facts):
            return returned

    trainer = kit.trainer(tmp_path, callbacks=[Old()])
    with pytest.raises(ConfigError, match=message):
        trainer.train(1, manager())
    assert trainer.state.stop_training is False


# ---- failures


class OwnError(Exception):
    """Of the user."""


def fail(*args, **kwargs):
    raise OwnError("from the user's code")


def failing_settings(kit, where, manager):
    """A trainer's network and settings and its data, one of which fails in the users' own code."""

    class Net(kit.network):
        if where == "forward":
            __call__ = fail
        if where == "closure":
            closure = staticmethod(fail)
        if where == "prepare_batch":
            prepare_batch = staticmethod(fail)

    settings = {
        "loss": {"losses": {"mse": fail}},
        "train_metric": {"train_metrics": {"m": fail}},
        "val_metric": {"val_metrics": {"m": fail}},
    }.get(where, {})
    if where.startswith("at_"):
        settings = {"callbacks": [type("Failing", (), {where: fail})()]}
    data = manager(transforms=fail) if where == "transform" else manager()
    return kit.build(cls=Net), settings, data


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    "where",
    ["forward", "closure", "prepare_batch", "loss", "train_metric", "val_metric", "transform", *EVENTS],
)
def test_the_users_exception_arrives_as_it_was_raised(kit, tmp_path, manager, where):
    network, settings, data = failing_settings(kit, where, manager)
    recorder = Recorder()
    settings["callbacks"] = [recorder, *settings.get("callbacks", [])]
    trainer = kit.trainer(tmp_path, network, **settings)
    with pytest.raises(OwnError, match="from the user's code") as caught:
        trainer.train(1, data, manager(7))
    if where != "at_training_end":
        assert recorder.facts("at_training_end") == [{"error": caught.value}]


def test_the_end_is_announced_to_all_even_if_the_training_is_interrupted(kit, tmp_path, manager):
    class Interrupt:
        def at_iter_end(self, trainer, **facts):
            raise KeyboardInterrupt("by the user")

    first, last = Recorder(), Recorder()
    with pytest.raises(KeyboardInterrupt, match="by the user"):
        kit.trainer(tmp_path, callbacks=[first, Interrupt(), last]).train(1, manager())
    assert isinstance(first.calls[-1][1]["error"], KeyboardInterrupt)
    assert [name for name, _ in last.calls] == [
        "at_training_begin",
        "at_epoch_begin",
        "at_iter_begin",
        "at_training_end",
    ]


def test_a_callback_that_fails_at_the_end_hides_neither_the_error_nor_the_end_from_others(kit, tmp_path, manager):
    class FailsTwice:
        def at_iter_end(self, trainer, **facts):
            raise OwnError("the first error")

        def at_training_end(self, trainer, **facts):
            raise RuntimeError("the second error")

    last = Recorder()
    with pytest.raises(OwnError, match="the first error"):
        kit.trainer(tmp_path, callbacks=[FailsTwice(), last]).train(1, manager())
    assert str(last.facts("at_training_end")[0]["error"]) == "the first error"


def test_after_a_failure_the_network_is_in_the_callers_mode_and_the_callbacks_are_as_before(kit, tmp_path, manager):
    class Fails:
        def at_iter_end(self, trainer, **facts):
            raise OwnError("now")

    network = kit.build()
    mode = kit.learns(network)
    trainer = kit.trainer(tmp_path, network, callbacks=[Fails()], verbose=True)
    before = list(trainer.callbacks)
    with pytest.raises(OwnError, match="now"):
        trainer.train(1, manager())
    assert kit.learns(network) is mode
    assert list(trainer.callbacks) == before


# ---- states


class Counting(AbstractCallback):
    def __init__(self):
        self.count = 0

    def at_epoch_end(self, trainer, **facts):
        self.count += 1

    def state_dict(self):
        return {"count": self.count, "array": np.full(2, self.count)}

    def load_state_dict(self, state):
        assert state["array"].tolist() == [state["count"]] * 2
        self.count = state["count"]


def test_a_list_of_callbacks_is_indexed_like_a_list():
    first, second = Counting(), Counting()
    callbacks = CallbackList([first, second])
    assert callbacks[0] is first
    assert callbacks[-1] is second
    assert callbacks[1:] == [second]
    assert first in callbacks
    with pytest.raises(IndexError):
        callbacks[2]


def test_states_are_kept_by_class_name_and_numbered():
    first, second = Counting(), Counting()
    second.count = 5
    states = CallbackList([first, AbstractCallback(), second]).state_dict()
    assert {name: state["count"] for name, state in states.items()} == {"Counting": 0, "Counting_1": 5}
    fresh = [Counting(), Counting(), Counting()]
    CallbackList(fresh).load_state_dict(states)
    assert [callback.count for callback in fresh] == [0, 5, 0]


def test_states_survive_a_restart_duck_typed_ones_too(kit, tmp_path, manager):
    class Duck:
        at_epoch_end, state_dict, load_state_dict = Counting.at_epoch_end, Counting.state_dict, Counting.load_state_dict
        count = 0

    kit.trainer(tmp_path, callbacks=[Duck(), Counting(), Counting()]).train(2, manager())
    fresh = [Duck(), Counting(), Counting()]
    trainer = kit.trainer(tmp_path, callbacks=fresh)
    assert [callback.count for callback in fresh] == [2, 2, 2]
    trainer.train(3, manager())
    assert [callback.count for callback in fresh] == [3, 3, 3]


# ---- early stopping


def stopped_at(kit, path, manager, values, val_freq=1, key="score", **stopping):
    """Epoch after which a training with these validation values ends."""
    trainer = kit.trainer(
        path, callbacks=[EarlyStopping(key, **{"mode": "min", **stopping})], val_metrics={"score": scripted(*values)},
        val_freq=val_freq,
    )  # fmt: skip
    trainer.train(len(values) * val_freq, manager(), manager(7))
    return trainer.state.epoch


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("mode", ["min", "lowest", "max", "highest"])
@pytest.mark.parametrize(
    ("values", "patience", "epoch"),
    [
        ((3, 2, 2.5, 2.6, 1), 2, 4),
        ((3, 2, 2.5, 2.6, 1), 1, 3),
        ((3, 2, 2.5, 2.6, 1), 0, 3),
        ((3, 2, 2.5, 1, 1.5, 1.2, 0), 2, 6),  # an improvement in between starts the waiting anew
        ((3, 3, 3), 2, 3),  # equal is no improvement
        ((5, 4, 3, 2), 1, 4),
        ((3, np.nan, 2, np.nan, np.nan, 1), 2, 5),
    ],
)
def test_early_stopping_stops_after_patience_epochs_without_improvement(
    kit, tmp_path, manager, mode, values, patience, epoch
):
    values = [value if mode in ("min", "lowest") else -value for value in values]
    assert stopped_at(kit, tmp_path, manager, values, patience=patience, mode=mode) == epoch


def test_an_improvement_is_one_of_more_than_min_delta(kit, tmp_path, manager):
    values = (3, 2.9, 2.8, 2.7, 2.4)
    assert stopped_at(kit, tmp_path / "a", manager, values, patience=2) == 5
    assert stopped_at(kit, tmp_path / "b", manager, values, patience=2, min_delta=0.25) == 3
    assert stopped_at(kit, tmp_path / "c", manager, values, patience=2, min_delta=0.15) == 5


@pytest.mark.parametrize("key", ["score", "val_score"])
def test_early_stopping_waits_for_validated_epochs_only(kit, tmp_path, manager, key):
    assert stopped_at(kit, tmp_path, manager, (3, 4, 4, 4, 4), val_freq=2, key=key, patience=2) == 6


def test_early_stopping_can_watch_a_training_value(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[EarlyStopping("mse", mode="max", patience=2)])
    trainer.train(9, manager(20))
    assert trainer.state.epoch == 3


@pytest.mark.parametrize("val_freq", [1, 2])
def test_early_stopping_names_what_it_watches_in_vain(kit, tmp_path, manager, val_freq):
    trainer = kit.trainer(tmp_path, callbacks=[EarlyStopping("acuracy")], val_freq=val_freq)
    with pytest.raises(MissingKeyError, match=r"EarlyStopping watches 'acuracy', but the epoch has only \['lr', 'mse'"):
        trainer.train(4, manager(), manager(7))
    assert trainer.state.epoch == val_freq


def test_early_stopping_on_a_validation_value_needs_validation_data(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[EarlyStopping("val_mse")])
    with pytest.raises(MissingKeyError, match="EarlyStopping watches 'val_mse'"):
        trainer.train(2, manager())


@pytest.mark.sampled("values")
@pytest.mark.parametrize("broken_after", [2, 3, 4])
def test_the_counters_of_early_stopping_survive_a_resume(kit, tmp_path, manager, broken_after):
    values = (3, 2, 2.5, 2.6, 2.7, 2.8, 2.9)
    assert stopped_at(kit, tmp_path / "unbroken", manager, values, patience=3) == 5

    def trainer(some):
        stopping = EarlyStopping("score", mode="min", patience=3)
        return kit.trainer(tmp_path / "broken", callbacks=[stopping], val_metrics={"score": scripted(*some)})

    trainer(values).train(broken_after, manager(), manager(7))
    resumed = trainer(values[broken_after:])
    resumed.train(len(values), manager(), manager(7))
    assert resumed.state.epoch == 5


def test_a_run_that_was_stopped_early_stays_stopped_when_resumed(kit, tmp_path, manager):
    assert stopped_at(kit, tmp_path, manager, (1, 2, 3, 4), patience=2) == 3
    assert stopped_at(kit, tmp_path, manager, (0, 0, 0, 0), patience=2) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "up"}, "EarlyStopping: mode must be one of 'auto', 'min', 'lowest', 'max', 'highest', got 'up'"),
        ({"patience": -1}, "patience is a whole number of at least 0, got -1"),
        ({"min_delta": -0.1}, "min_delta is a number of at least 0, got -0.1"),
    ],
)
def test_impossible_arguments_of_early_stopping_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        EarlyStopping("loss", **arguments)


# ---- the history files


def read_history(folder):
    with open(folder / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = (folder / "history.jsonl").read_text().splitlines()
    records = [unsealed(json.loads(line)) for line in lines]
    return [{k: float(v) for k, v in row.items() if v != ""} for row in rows], records


def test_the_history_files_equal_the_history_after_every_epoch(kit, tmp_path, manager):
    seen = []

    class Compare:
        def at_epoch_begin(self, trainer, **facts):
            seen.append(read_history(tmp_path) == (trainer.state.history, trainer.state.history))

    trainer = kit.trainer(tmp_path, callbacks=[Compare()], val_freq=2)
    trainer.train(5, manager(), manager(7))
    assert seen == [True] * 5
    assert read_history(tmp_path) == (trainer.state.history, trainer.state.history)
    assert (tmp_path / "history.csv").read_text().splitlines()[0] == "epoch,mse,lr,val_mse"


# ---- progress


def test_progress_is_one_line_for_each_epoch_on_the_error_stream(kit, tmp_path, manager, capsys):
    trainer = kit.trainer(tmp_path, verbose=True, fold=1)
    trainer.train(2, manager(), manager(7))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["fold 1 · epoch 1/2", "fold 1 · epoch 2/2"]
    assert f"val_mse {trainer.state.history[1]['val_mse']:.4g}" in lines[1]
    trainer.train(3, manager(), verbose=False)
    assert capsys.readouterr() == ("", "")


def test_progress_says_where_a_run_goes_on(kit, tmp_path, manager, capsys):
    kit.trainer(tmp_path, verbose=False).train(2, manager())
    kit.trainer(tmp_path, verbose=True).train(3, manager())
    assert capsys.readouterr().err.splitlines()[0] == f"fold 0 · continues after epoch 2 ({tmp_path})"


class FakeBar:
    made: ClassVar[list] = []

    def __init__(self, total, initial, **kwargs):
        self.total, self.done, self.texts, self.closed = total, initial, [], False
        FakeBar.made.append(self)

    def update(self):
        self.done += 1

    def set_description_str(self, text, refresh):
        self.texts.append(text)

    def set_postfix_str(self, text, refresh):
        self.texts.append(text.split(", ")[-1].split()[0])

    def close(self):
        self.closed = True


def test_in_a_terminal_a_bar_counts_the_steps_of_the_whole_run(kit, tmp_path, manager, monkeypatch):
    monkeypatch.setattr(FakeBar, "made", [])
    monkeypatch.setattr("delira.callbacks.progress._bar_class", lambda: FakeBar)
    monkeypatch.setattr("delira.callbacks.progress.PAUSE", 1e9)  # no look at single steps but the first
    kit.trainer(tmp_path).train(1, manager())
    resumed = kit.trainer(tmp_path, callbacks=[ProgressBar()])
    resumed.train(3, manager())
    (bar,) = FakeBar.made
    assert (bar.total, bar.done, bar.closed) == (9, 9, True)
    assert bar.texts == ["epoch 2/3", "mse", "mse", "epoch 3/3", "mse"]  # the first step, and each epoch
    resumed.train(3, manager())
    assert len(FakeBar.made) == 1  # nothing to do: no bar


def test_which_bar_is_drawn_depends_on_where_it_would_be_shown(monkeypatch):
    from delira.training.callbacks import progress

    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "stderr", type("Stream", (), {"isatty": lambda self: False})())
    assert progress._bar_class() is None
    monkeypatch.setattr(sys, "stderr", type("Stream", (), {"isatty": lambda self: True})())
    drawn = progress._bar_class()
    assert getattr(drawn, "func", drawn).__name__ == "tqdm"
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", type("Module", (), {"get_ipython": staticmethod(lambda: shell)}))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert progress._bar_class() is progress.PassBar  # a notebook that has no widgets


# ---- TensorBoard


class FakeWriter:
    made: ClassVar[list] = []

    def __init__(self, folder, comment="", **kwargs):
        self.folder, self.kwargs, self.scalars, self.closed = folder, {**kwargs, "comment": comment}, [], False
        FakeWriter.made.append(self)

    def add_scalar(self, name, value, epoch):
        self.scalars.append((name, value, epoch))

    def flush(self):
        pass

    def close(self):
        self.closed = True


@pytest.fixture
def writers(monkeypatch):
    tensorboard = pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    monkeypatch.setattr(tensorboard, "SummaryWriter", FakeWriter)
    monkeypatch.setattr(FakeWriter, "made", [])
    return FakeWriter.made


def test_every_value_of_every_epoch_goes_to_tensorboard(kit, tmp_path, manager, writers):
    trainer = kit.trainer(tmp_path, logging_type="tensorboardx", logging_kwargs={"comment": "x"})
    trainer.train(2, manager(), manager(7))
    (writer,) = writers
    assert writer.folder == str(tmp_path / "logs")
    assert writer.kwargs["comment"] == "x"
    assert writer.closed
    expected = {(k, v, r["epoch"]) for r in trainer.state.history for k, v in r.items() if k != "epoch"}
    assert set(writer.scalars) == expected


def test_a_resumed_run_hides_in_tensorboard_what_came_after_its_checkpoint(kit, tmp_path, manager, writers):
    for epochs in (2, 3, 3):
        kit.trainer(tmp_path, logging_type="tensorboardx").train(epochs, manager())
    assert [writer.kwargs.get("purge_step") for writer in writers] == [None, 3]  # the third had nothing to do
    assert len({writer.kwargs["filename_suffix"] for writer in writers}) == 2  # one second would give one file name
    assert {epoch for *_, epoch in writers[1].scalars} == {3}


def test_no_logging_type_writes_no_events(kit, tmp_path, manager, writers):
    trainer = kit.trainer(tmp_path, logging_type=None)
    trainer.train(1, manager())
    assert not writers
    assert not any(isinstance(callback, TensorBoardWriter) for callback in trainer.callbacks)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoints",
        "hashes.jsonl",
        "history.csv",
        "history.jsonl",
        "timings.json",
    ]
