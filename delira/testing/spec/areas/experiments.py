"""Experiments: runs, tests and cross-validations with fresh networks."""

from typing import Any

import numpy as np

from delira.testing.spec.bench import Bench
from delira.testing.spec.check import check
from delira.testing.spec.reference import rmse
from delira.training import Predictor
from delira.utils.trees import iterate_leaves


def _kfold(bench: Bench, experiment: Any = None, n: int = 12, **options: Any) -> Any:
    experiment = bench.experiment(val_metrics={"rmse": rmse}) if experiment is None else experiment
    given = {"num_splits": 2, "val_split": None, "shuffle": True, "random_seed": 1, **options}
    return experiment.kfold(bench.shuffled(n), metrics={"rmse": rmse}, **given)


@check()
def runs_and_tests(bench: Bench) -> None:
    """``run`` returns a trained network, and ``test`` its predictions and exact metrics."""
    experiment = bench.experiment(model={"n_features": 3}, num_epochs=4)
    network = experiment.run(bench.manager(12))
    assert isinstance(network, bench.tested.Linear), f"run returned a {type(network).__name__}"
    predictions, metrics = experiment.test(network, bench.manager(10), metrics={"rmse": rmse})
    assert predictions["pred"].shape == (10, 1)
    alone = Predictor(network).predict(bench.arrays(10))["pred"]
    bench.assert_close(predictions["pred"], alone, "the predictions", factor=0.1)
    bench.assert_close(metrics["rmse"], [rmse(bench.arrays(10)["label"], predictions["pred"])], "the metric")


@check()
def repeats_runs(bench: Bench) -> None:
    """Two runs of an experiment build the same network and train it to the same bits; its parameters stay."""
    experiment = bench.experiment(seed=4)
    before = str(experiment.params)
    states = [
        bench.backend.arrays.snapshot(bench.backend.checkpoints.state_tree(experiment.run(bench.shuffled(8)), {}))
        for _ in range(2)
    ]
    bench.assert_same(states[0], states[1], "two runs of an experiment")
    assert str(experiment.params) == before, "a run changed the experiment's parameters"


@check()
def resumes_runs(bench: Bench) -> None:
    """A run that is continued by its folder is, bit for bit, one that went on."""
    experiment = bench.experiment(seed=4)
    whole = experiment.run(bench.shuffled(8), num_epochs=2)
    experiment.run(bench.shuffled(8), num_epochs=1)
    folder = experiment.last_trainer.save_path.parent
    continued = experiment.run(bench.shuffled(8), num_epochs=2, resume=folder)
    states = [bench.backend.checkpoints.state_tree(network, {}) for network in (whole, continued)]
    bench.assert_same(states[0], states[1], "an unbroken run and a continued one")


@check()
def divides_samples(bench: Bench) -> None:
    """Every sample is tested once, by a network that was not trained on it."""
    result = _kfold(bench)
    tested = np.concatenate([fold.test_indices for fold in result.folds])
    assert sorted(tested) == list(range(12)), f"tested were {sorted(tested.tolist())}"
    for fold in result.folds:
        both = set(fold.train_indices) & set(fold.test_indices)
        assert not both, f"fold {fold.fold} was trained and tested on {sorted(both)}"
    assert result.oof.mask.all(), f"the out-of-fold predictions lack {np.flatnonzero(~result.oof.mask).tolist()}"


@check()
def predicts_out_of_fold(bench: Bench) -> None:
    """Out-of-fold predictions are aligned with the data, and the folds' metrics are exact."""
    result = _kfold(bench)
    label = bench.arrays(12)["label"]
    together = result.oof.predictions["pred"]
    for fold in result.folds:
        pred = fold.predictions["pred"]
        bench.assert_same(together[fold.test_indices], pred, f"the out-of-fold predictions of fold {fold.fold}")
        bench.assert_close(fold.metrics["rmse"], [rmse(label[fold.test_indices], pred)], f"rmse of fold {fold.fold}")


@check()
def unpacks_as_ever(bench: Bench) -> None:
    """A cross-validation unpacks as ``outputs, metrics``, dicts with the folds "0" and "1" as keys."""
    result = _kfold(bench)
    outputs, metrics = result
    assert list(outputs) == list(metrics) == ["0", "1"], f"the keys are {list(outputs)}"
    for number, fold in enumerate(result.folds):
        bench.assert_same(outputs[str(number)]["pred"], fold.predictions["pred"], f"the outputs of fold {number}")


@check()
def repeats_cross_validations(bench: Bench) -> None:
    """A cross-validation of one seed gives the same bits again."""
    first, second = _kfold(bench), _kfold(bench)
    for left, right in zip(first.folds, second.folds, strict=True):
        bench.assert_same(left.predictions, right.predictions, f"the predictions of fold {left.fold}")
        bench.assert_same(left.history, right.history, f"the history of fold {left.fold}")


@check()
def begins_each_fold_anew(bench: Bench) -> None:
    """Each fold trains a fresh network: its bits are those of a run on its samples alone."""
    experiment = bench.experiment(seed=4)
    result = _kfold(bench, experiment, random_seed=None, num_epochs=2)
    fold = result.folds[1]
    arrays = {name: array[np.sort(fold.train_indices)] for name, array in bench.arrays(12).items()}
    network = experiment.run(bench.shuffled(arrays=arrays), fold=1, num_epochs=2)
    tested = {name: array[fold.test_indices] for name, array in bench.arrays(12).items()}
    predictions, _ = experiment.test(network, [tested])
    bench.assert_close(predictions["pred"], fold.predictions["pred"], "the predictions of a run alone", factor=0.1)


@check()
def records_every_fold(bench: Bench) -> None:
    """Every fold has its number, history, checkpoint and parameters."""
    result = _kfold(bench, val_split=0.25)
    for number, fold in enumerate(result.folds):
        assert fold.fold == number, f"fold {number} is called {fold.fold}"
        assert fold.history, f"fold {number} has no history"
        both = {*(fold.val_indices if fold.val_indices is not None else fold.test_indices)} & {*fold.test_indices}
        assert not both, f"fold {number} was validated and tested on {sorted(both)}"
        assert "val_rmse" in fold.history[-1], f"fold {number} was not validated: {fold.history[-1]}"
        last = fold.path / "checkpoints" / f"checkpoint_last{bench.backend.checkpoint_suffix}"
        tree = bench.backend.checkpoints.read(last)
        assert tree["state"]["fold"] == number, f"the checkpoint of fold {number} says {tree['state']['fold']}"


@check()
def leaves_no_state_behind(bench: Bench) -> None:
    """A network that experiments trained shares no array with a network of a later run."""
    experiment = bench.experiment(seed=4)
    first = experiment.run(bench.shuffled(8))
    before = bench.backend.arrays.snapshot(bench.backend.checkpoints.state_tree(first, {}))
    experiment.run(bench.shuffled(8), seed=5)
    bench.assert_same(before, bench.backend.checkpoints.state_tree(first, {}), "a network after a later run")
    assert list(iterate_leaves(before)), "the state of the network is empty"
