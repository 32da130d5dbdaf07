"""What callbacks hold that is something only once: all runs share it, and that is said."""

import logging

import numpy as np
import pytest

from delira.errors import ConfigError
from delira.experiments import run_request
from delira.experiments.run_request import shared_objects
from delira.training.callbacks import AbstractCallback


class Storage:
    """As that of a search in memory: a copy has a lock of its own, and is another storage."""

    def __init__(self):
        self.lock, self.values = object(), []

    def __getstate__(self):
        return {"values": self.values}


class Plain:
    def __init__(self):
        self.values = []


class Search:
    def __init__(self):
        self.storage = Storage()

    def report(self, value):
        self.storage.values.append(value)

    def should_prune(self):
        return len(self.storage.values) >= 2


class Prune(AbstractCallback):
    def __init__(self, search):
        self.search, self.own = search, []

    def at_epoch_end(self, trainer, **facts):
        self.own.append(facts["curr_epoch"])
        self.search.report(facts["curr_epoch"])
        if self.search.should_prune():
            trainer.state.stop_training = True


class SaysSo(Prune):
    shared = ("search",)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if "all runs share" in record.getMessage()]


def test_a_search_hears_of_the_run_and_can_prune_it(kit, tmp_path, manager, caplog, monkeypatch):
    monkeypatch.setattr(run_request, "_told", set())

    class Pruning(Prune):
        pass

    search = Search()
    callback = Pruning(search)
    experiment = kit.experiment(tmp_path, training={"num_epochs": 5})
    experiment.run(manager(), callbacks=[callback])
    assert search.storage.values == [1, 2]
    assert callback.own == []  # the callback itself is a copy
    experiment.run(manager(), callbacks=[callback])
    said = warnings_of(caplog)[0]
    assert len(warnings_of(caplog)) == 1
    assert "Pruning.search holds a Storage, which all runs share, since a copy would lack 'lock'" in said
    assert "say shared = ('search',)" in said


def test_what_says_that_it_is_shared_is_shared_without_a_word(kit, tmp_path, manager, caplog):
    search = Search()
    search.storage = Plain()  # of which a copy lacks nothing
    callback = SaysSo(search)
    assert shared_objects([callback]) == {id(search): search}
    experiment = kit.experiment(tmp_path, training={"num_epochs": 1})
    experiment.run(manager(), callbacks=[callback])
    assert search.storage.values == [1]
    assert warnings_of(caplog) == []


def test_objects_of_trackers_and_searches_are_shared_and_loggers_are_as_they_are(caplog):
    trial = type("Trial", (), {"__module__": "optuna.trial"})()
    assert shared_objects([Prune({"inside": [trial]})]) == {id(trial): trial}
    assert "since it belongs to optuna" in warnings_of(caplog)[0]
    assert shared_objects([Prune(logging.getLogger("mine"))]) == {}
    assert shared_objects([Prune([1, {"a": np.zeros(2)}])]) == {}
    assert set(shared_objects([Prune(Search().report)])) != set()  # a method of something live
    assert shared_objects(5) == shared_objects([3, Prune]) == {}


@pytest.mark.parametrize(
    ("shared", "match"),
    [
        ("search", "shared must be a tuple of names of attributes"),
        (5, "shared must be a tuple"),
        (("serch",), "shared names 'serch', which it does not have; did you mean 'search'"),
    ],
)
def test_wrong_names_are_refused(shared, match):
    class Wrong(Prune):
        pass

    Wrong.shared = shared
    with pytest.raises(ConfigError, match=match):
        shared_objects([Wrong(Search())])


def test_a_trial_of_optuna_itself_hears_of_the_run_and_prunes_it(kit, tmp_path, manager):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    class Report(AbstractCallback):
        shared = ("trial",)

        def __init__(self, trial):
            self.trial = trial

        def at_epoch_end(self, trainer, **facts):
            self.trial.report(facts["curr_epoch"], facts["curr_epoch"])
            if self.trial.should_prune():
                raise optuna.TrialPruned

    def objective(trial):
        lr = trial.suggest_float("lr", 0.01, 0.1)
        experiment = kit.experiment(tmp_path, training={"num_epochs": 5, "optimizer_params": {"lr": lr}})
        experiment.run(manager(), callbacks=[Report(trial)])
        return 0.0

    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=2.5))
    study.optimize(objective, n_trials=2)
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.PRUNED] * 2
    assert [trial.intermediate_values for trial in study.trials] == [{1: 1, 2: 2, 3: 3}] * 2
