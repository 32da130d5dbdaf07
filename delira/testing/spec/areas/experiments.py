"""Experiments: runs, tests and cross-validations with fresh networks."""

from typing import Any

import numpy as np

from delira.testing.spec.bench import Bench
from delira.testing.spec.check import check
from delira.testing.spec.reference import rmse
from delira.training import Predictor
from delira.utils.arrays import iterate_leaves


def _kfold(bench: Bench, experiment: Any = None, **options: Any) -> Any:
    experiment = experiment or bench.experiment(val_metrics={"rmse": rmse})
    given = {"num_splits": 2, "val_split": None, "shuffle": True, "random_seed": 1, **options}
    return experiment.kfold(bench.shuffled(12), metrics={"rmse": rmse}, **given)


@check()
def runs_and_tests(bench: Bench) -> None:
    """``run`` returns a trained network, and ``test`` its predictions and exact metrics."""
    experiment = bench.experiment(model={"n_features": 3}, num_epochs=4)
    network = experiment.run(bench.manager(12))
    assert isinstance(network, bench.tested.Linear), f"run returned a {type(network).__name__}"
    predictions, metrics = experiment.test(network, bench.manager(10), metrics={"rmse": rmse})
    pred, arrays = predictions["pred"], bench.arrays(10)
    assert pred.shape == (10, 1)
    bench.assert_close(pred, Predictor(network).predict(arrays)["pred"], "the predictions", factor=0.1)
    bench.assert_close(metrics["rmse"], [rmse(arrays["label"], pred)], "the metric")


@check()
def repeats_runs(bench: Bench) -> None:
    """Two runs of an experiment build the same network and train it to the same bits; its parameters stay."""
    experiment = bench.experiment(seed=4)
    before = str(experiment.params)
    first, second = (bench.tree(experiment.run(bench.shuffled())) for _ in range(2))
    bench.assert_same(first, second, "two runs of an experiment")
    assert str(experiment.params) == before, "a run changed the experiment's parameters"


@check()
def resumes_runs(bench: Bench) -> None:
    """A run that is continued by its folder is, bit for bit, one that went on."""
    experiment = bench.experiment(seed=4)
    whole = experiment.run(bench.shuffled(), num_epochs=2)
    experiment.run(bench.shuffled(), num_epochs=1)
    continued = experiment.run(bench.shuffled(), num_epochs=2, resume=experiment.last_trainer.save_path.parent)
    bench.assert_same(bench.tree(whole), bench.tree(continued), "an unbroken run and a continued one")


@check()
def divides_samples(bench: Bench) -> None:
    """Every sample is tested once, by a network that was not trained on it."""
    result = _kfold(bench)
    tested = np.concatenate([fold.test_indices for fold in result.folds])
    assert sorted(tested) == list(range(12)), f"tested were {sorted(tested.tolist())}"
    for fold in result.folds:
        both = {*fold.train_indices} & {*fold.test_indices}
        assert not both, f"fold {fold.fold} was trained and tested on {sorted(both)}"
    assert result.oof.mask.all(), f"the out-of-fold predictions lack {np.flatnonzero(~result.oof.mask).tolist()}"


@check()
def predicts_out_of_fold(bench: Bench) -> None:
    """Out-of-fold predictions are aligned with the data, and the folds' metrics are exact."""
    result = _kfold(bench)
    for fold in result.folds:
        label, pred = bench.arrays(12)["label"], fold.predictions["pred"]
        together = result.oof.predictions["pred"][fold.test_indices]
        bench.assert_same(together, pred, f"the out-of-fold predictions of fold {fold.fold}")
        bench.assert_close(fold.metrics["rmse"], [rmse(label[fold.test_indices], pred)], f"rmse of fold {fold.fold}")


@check()
def unpacks_as_ever(bench: Bench) -> None:
    """A cross-validation unpacks as ``outputs, metrics``, dicts with the folds "0" and "1" as keys."""
    outputs, metrics = result = _kfold(bench)
    assert list(outputs) == list(metrics) == ["0", "1"], f"the keys are {list(outputs)}"
    for number, fold in enumerate(result.folds):
        bench.assert_same(outputs[str(number)]["pred"], fold.predictions["pred"], f"the outputs of fold {number}")


@check()
def repeats_cross_validations(bench: Bench) -> None:
    """A cross-validation of one seed gives the same bits again."""
    for left, right in zip(_kfold(bench).folds, _kfold(bench).folds, strict=True):
        bench.assert_same(left.predictions, right.predictions, f"the predictions of fold {left.fold}")
        bench.assert_same(left.history, right.history, f"the history of fold {left.fold}")


@check()
def begins_each_fold_anew(bench: Bench) -> None:
    """Each fold trains a fresh network: its bits are those of a run on its samples alone."""
    experiment = bench.experiment(seed=4)
    fold = _kfold(bench, experiment, random_seed=None, num_epochs=2).folds[1]
    trained, tested = (
        {name: array[rows] for name, array in bench.arrays(12).items()}
        for rows in (np.sort(fold.train_indices), fold.test_indices)
    )
    network = experiment.run(bench.shuffled(arrays=trained), fold=1, num_epochs=2)
    predictions, _ = experiment.test(network, [tested])
    bench.assert_close(predictions["pred"], fold.predictions["pred"], "the predictions of a run alone", factor=0.1)


@check()
def records_every_fold(bench: Bench) -> None:
    """Every fold has its number, history, checkpoint and parameters."""
    for number, fold in enumerate(_kfold(bench, val_split=0.25).folds):
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
    first = experiment.run(bench.shuffled())
    with bench.unchanged(lambda: bench.tree(first), "a network after a later run"):
        experiment.run(bench.shuffled(), seed=5)
    assert list(iterate_leaves(bench.tree(first))), "the state of the network is empty"
