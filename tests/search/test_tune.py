"""What a search may be asked for, and what is refused before anything is trained."""

import functools

import pytest

from delira.errors import ConfigError
from delira.search import Tune


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "n_trials is not given"),
        ({"n_trials": 0}, "n_trials must be a whole number from 1"),
        ({"n_trials": 2.5}, "n_trials must be a whole number"),
        ({"n_trials": 2, "metric": []}, "metric must be the name of a metric"),
        ({"n_trials": 2, "direction": "up"}, "direction must be 'auto' or one of .*, got 'up'$"),
        ({"n_trials": 2, "direction": None}, "direction must be 'auto' or one of .*, got None$"),
        ({"n_trials": 2, "direction": "minimize"}, "got 'minimize'; did you mean 'min'?"),
        ({"n_trials": 2, "direction": "Maximise"}, "got 'Maximise'; did you mean 'max'?"),
        ({"n_trials": 2, "direction": ["min"]}, r"no metric is named: name as many .*or give .*direction='min'"),
        ({"n_trials": 2, "direction": []}, "e.g. direction='auto'"),
        ({"n_trials": 2, "metric": ["a", "b"], "direction": ["min"]}, "1 directions for 2 metrics"),
        ({"n_trials": 2, "sampler": "tep"}, "sampler must be one of .*did you mean 'tpe'"),
        ({"n_trials": 2, "pruner": "medain"}, "pruner must be one of"),
        ({"n_trials": 2, "metric": ["a", "b"], "pruner": "median"}, "compares one number, and 2 metrics"),
        ({"n_trials": 2, "pruner": "median", "val_split": None}, "looks at the validation of each epoch"),
        ({"n_trials": 2, "pruner": "wilcoxon"}, r"can give up no trial of 1 fold: .*say num_splits=5"),
        ({"n_trials": 2, "pruner": "wilcoxon", "num_splits": 4}, "needs 4 before the last one; say num_splits=5"),
        ({"n_trials": 5, "pruner": "median"}, "'median' can give up none of 5 trials.*say n_trials=6 or more"),
        ({"n_trials": 1, "pruner": "halving"}, "'halving' can give up none of 1 trial: it compares with 1 that"),
        ({"n_trials": 2, "constraints": 3}, "constraints must be a function"),
    ],
)
def test_what_cannot_work_is_refused(asked, why):
    with pytest.raises(ConfigError, match=why):
        Tune(**asked)


def test_a_grid_needs_no_number_of_trials():
    assert Tune(sampler="grid").n_trials is None


def test_a_pruner_acts_after_epochs_or_after_folds():
    assert Tune(n_trials=1).prunes == ""
    assert Tune(n_trials=2, pruner="halving").prunes == "epoch"
    assert Tune(n_trials=1, pruner="wilcoxon", num_splits=5).prunes == "fold"


@pytest.mark.filterwarnings("ignore:WilcoxonPruner is experimental")
def test_the_folds_that_a_wilcoxon_pruner_needs_depend_on_its_threshold():
    pruners = pytest.importorskip("optuna").pruners
    assert Tune(n_trials=1, pruner=pruners.WilcoxonPruner(p_threshold=0.3), num_splits=3).prunes == "fold"
    with pytest.raises(ConfigError, match="say num_splits=11"):
        Tune(n_trials=1, pruner=pruners.WilcoxonPruner(n_startup_steps=10), num_splits=8)


@pytest.mark.filterwarnings("ignore:PatientPruner is experimental")
def test_the_trials_that_a_median_pruner_needs_depend_on_how_it_is_made():
    pruners = pytest.importorskip("optuna").pruners
    assert Tune(n_trials=6, pruner="percentile").prunes == "epoch"
    assert Tune(n_trials=2, pruner=pruners.MedianPruner(n_startup_trials=0)).prunes == "epoch"
    assert Tune(n_trials=1, pruner=pruners.ThresholdPruner(upper=1.0)).prunes == "epoch"
    wrapped = pruners.PatientPruner(pruners.PercentilePruner(25.0, n_startup_trials=8), patience=1)
    with pytest.raises(ConfigError, match=r"'PatientPruner' can give up none of 8 trials.*say n_trials=9"):
        Tune(n_trials=8, pruner=wrapped)
    with pytest.raises(ConfigError, match=r"'MedianPruner' can give up none of 1 trial: .*say n_trials=2"):
        Tune(n_trials=1, pruner=pruners.MedianPruner(n_startup_trials=0))


def test_a_pruner_of_epochs_needs_one_that_is_validated():
    Tune(n_trials=6, pruner="median").check_epochs(num_epochs=3, val_freq=3)
    Tune(n_trials=6).check_epochs(num_epochs=2, val_freq=3)
    with pytest.raises(ConfigError, match="val_freq=3 with num_epochs=2 validates none: say val_freq=2 or less"):
        Tune(n_trials=6, pruner="median").check_epochs(num_epochs=2, val_freq=3)


def test_samplers_whose_state_nobody_could_continue_are_refused():
    samplers = pytest.importorskip("optuna").samplers
    with pytest.raises(ConfigError, match=r"is one sampler.*functools.partial\(TPESampler, …\)"):
        Tune(n_trials=1, sampler=samplers.TPESampler())
    with pytest.raises(ConfigError, match="keeps its state as a pickle"):
        Tune(n_trials=1, sampler=samplers.CmaEsSampler)
    with pytest.raises(ConfigError, match="say sampler='grid'"):
        Tune(n_trials=1, sampler=functools.partial(samplers.GridSampler, {}))
    with pytest.raises(ConfigError, match=r"is called with seed=…, and cannot be: got an unexpected keyword .*'seed'"):
        Tune(n_trials=1, sampler=lambda: samplers.TPESampler())
    Tune(n_trials=1, sampler=functools.partial(samplers.TPESampler, multivariate=True))


def test_what_decides_the_trials_is_described_without_their_number():
    pruners = pytest.importorskip("optuna").pruners
    one = Tune(n_trials=6, metric="a", pruner=pruners.MedianPruner(n_startup_trials=3))
    assert (
        one.describe() == Tune(n_trials=9, metric="val_a", pruner=pruners.MedianPruner(n_startup_trials=3)).describe()
    )
    assert one.describe() != Tune(n_trials=6, metric="a", pruner=pruners.MedianPruner(n_startup_trials=4)).describe()
    assert one.describe() != Tune(n_trials=6, metric="b", pruner=pruners.MedianPruner(n_startup_trials=3)).describe()
