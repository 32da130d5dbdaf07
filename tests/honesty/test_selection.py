"""Which epoch is selected: by the direction of the score, and by nothing that nobody said."""

import functools

import numpy as np
import pytest
import sklearn.metrics
from scripted import scripted
from small_backends import build_kit

from delira import metrics as ours
from delira.errors import ConfigError
from delira.experiments.run_request import merged
from delira.metrics.direction import higher_is_better
from delira.metrics.metric_set import TreeMetric
from delira.metrics.of_arrays import KNOWN_FUNCTIONS
from delira.training.callbacks import Best, EarlyStopping, ReduceLROnPlateau

BOTH_SPELLINGS = r"val_score_mode='min' \(also called 'lowest'\) or val_score_mode='max' \(also called 'highest'\)"
UP = (0.2, 0.9, 0.5)


def quality(y_true, y_pred):
    return float(np.mean(y_pred))


def best_epoch(kit, path, manager, name, values=UP, **settings):
    """The epoch that is selected when a validation score takes these values, one after the other."""
    settings = {"val_metrics": {name: scripted(*values)}, "val_score_key": name, **settings}
    trainer = kit.trainer(path, **settings)
    trainer.train(len(values), manager(), manager(7))
    return trainer.state.best_epoch


# ---- without a mode


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", ["accuracy", "acc", "val_accuracy", "f1", "AUROC", "r2", "neg_mean_absolute_error"])
def test_without_a_mode_the_best_epoch_is_that_of_the_highest_accuracy(name, kit, tmp_path, manager):
    assert best_epoch(kit, tmp_path, manager, name) == 1 + int(np.argmax(UP))


@pytest.mark.parametrize("name", ["mae", "val_mae", "dice_loss", "top_1_error"])
def test_without_a_mode_the_best_epoch_is_that_of_the_lowest_error(name, kit, tmp_path, manager):
    assert best_epoch(kit, tmp_path, manager, name) == 1 + int(np.argmin(UP))


def test_without_a_mode_a_real_score_selects_its_best_epoch(kit, tmp_path, manager):
    for name, metric, pick in (
        ("fit", sklearn.metrics.r2_score, np.argmax),
        ("off", sklearn.metrics.max_error, np.argmin),
    ):
        trainer = kit.trainer(tmp_path / name, val_metrics={name: metric}, val_score_key=name)
        trainer.train(4, manager(20), manager(7))
        values = [record[f"val_{name}"] for record in trainer.state.history]
        assert trainer.state.best_epoch == 1 + int(pick(values)), values


def test_a_loss_is_better_the_smaller_it_is_whatever_it_is_called(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, losses={"accuracy": kit.loss}, val_score_key="accuracy")
    trainer.train(4, manager(20), manager(7))
    values = [record["val_accuracy"] for record in trainer.state.history]
    assert trainer.state.best_epoch == 1 + int(np.argmin(values))


def test_what_an_object_says_of_itself_goes_before_its_name(kit, tmp_path, manager):
    metric = scripted(*UP)
    metric.higher_is_better = False
    assert best_epoch(kit, tmp_path, manager, "accuracy", val_metrics={"accuracy": metric}) == 1


def test_an_unknown_score_must_be_said_when_it_is_named(kit, tmp_path, manager):
    settings = {"val_metrics": {"quality": quality}, "val_score_key": "quality"}
    with pytest.raises(ConfigError, match=BOTH_SPELLINGS):
        kit.trainer(tmp_path / "trainer", **settings)
    with pytest.raises(ConfigError, match=BOTH_SPELLINGS):
        kit.experiment(tmp_path / "experiment", **settings)
    with pytest.raises(ConfigError, match=BOTH_SPELLINGS):
        kit.trainer(tmp_path / "train", val_metrics={"quality": quality}).train(1, manager(), manager(), "quality")
    assert not list(tmp_path.rglob("checkpoint_*"))


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("mode", "epoch"), [("max", 2), ("highest", 2), ("min", 1), ("lowest", 1)])
def test_what_is_said_goes_before_what_is_known(mode, epoch, kit, tmp_path, manager):
    assert best_epoch(kit, tmp_path / "name", manager, "quality", val_score_mode=mode) == epoch
    assert best_epoch(kit, tmp_path / "known", manager, "accuracy", val_score_mode=mode) == epoch


def test_the_signatures_say_auto(kit):
    import inspect

    for function in (kit.trainer_cls.__init__, kit.experiment_cls.__init__, kit.trainer_cls.train):
        assert inspect.signature(function).parameters["val_score_mode"].default == "auto"


# ---- val_ or not


@pytest.mark.sampled("values")
@pytest.mark.parametrize(("metric", "key"), [("mae", "val_mae"), ("val_mae", "mae"), ("val_mae", "val_mae")])
def test_a_score_is_found_with_and_without_val(metric, key, kit, tmp_path, manager):
    settings = {"val_metrics": {metric: scripted(*UP)}, "val_score_key": key}
    assert best_epoch(kit, tmp_path / "made", manager, metric, **settings) == 1
    trainer = kit.trainer(tmp_path / "asked", val_metrics={metric: scripted(*UP)})
    trainer.train(3, manager(), manager(7), key)
    assert (trainer.state.best_epoch, trainer.state.score_key) == (1, "val_mae")


def test_two_values_never_stand_under_one_name(kit, tmp_path):
    with pytest.raises(ConfigError, match="names a metric and the validation of a loss"):
        kit.trainer(tmp_path, val_metrics={"val_mse": quality})
    for setting in ("metrics", "train_metrics"):
        with pytest.raises(ConfigError, match=f"{setting} names 'val_x', which is how values of the validation begin"):
            kit.trainer(tmp_path, **{setting: {"val_x": quality}})


# ---- the direction of one score is not that of another


def test_another_score_does_not_take_the_mode_over(kit, tmp_path, manager):
    metrics = {"accuracy": scripted(*UP), "mae": scripted(*UP)}
    trainer = kit.trainer(tmp_path, val_metrics=metrics, val_score_key="accuracy", val_score_mode="max")
    trainer.train(3, manager(), manager(7), val_score_key="mae")
    assert (trainer.state.best_epoch, trainer.state.score_mode) == (1, "lowest")
    flat = merged({"val_score_key": "accuracy", "val_score_mode": "max"}, {}, {"val_score_key": "val_mae"})
    assert flat == {"val_score_key": "val_mae"}
    kept = merged({"val_score_mode": "max"}, {"val_score_key": "a"}, {"val_score_key": "val_a"})
    assert kept["val_score_mode"] == "max"


# ---- the table of directions, against what the metrics do


def right_and_wrong(n=24):
    """Labels of three classes, scores that find them, and scores that find others."""
    true = np.arange(n) % 3
    right = np.full((n, 3), 0.1)
    right[np.arange(n), true] = 0.8
    right[0] = (0.1, 0.8, 0.1)  # one mistake, so that no score is at its bound
    return true, right, np.roll(right, 1, axis=1)


@pytest.mark.parametrize("name", sorted(KNOWN_FUNCTIONS))
def test_functions_of_scikit_learn_have_the_direction_that_they_show(name):
    function = getattr(sklearn.metrics, name, None)
    known = higher_is_better(function, "x")
    if known is None:
        assert name in {
            "class_likelihood_ratios", "confusion_matrix", "homogeneity_completeness_v_measure",
            "multilabel_confusion_matrix", "pair_confusion_matrix", "precision_recall_fscore_support",
        }  # fmt: skip
        return
    if name in ours.of_arrays.OF_NUMBERS:
        true = np.linspace(1.0, 4.0, 24)
        good, bad = true + 0.01, true[::-1] + 0.5
    else:
        true, good, bad = right_and_wrong()
    if name in ("f1_score", "precision_score", "recall_score", "jaccard_score", "fbeta_score"):
        function = functools.partial(function, average="macro", **({"beta": 1.0} if name == "fbeta_score" else {}))
    if name == "top_k_accuracy_score":
        function = functools.partial(function, k=1)
    if name in _OF_PARTITIONS:
        bad = np.random.default_rng(0).permutation(good)  # classes by another name are as good
    values = [ours.score(function, (true, pred), "x") for pred in (good, bad)]
    assert (values[0] > values[1]) is known, values


_OF_PARTITIONS = {
    "adjusted_mutual_info_score", "adjusted_rand_score", "completeness_score", "fowlkes_mallows_score",
    "homogeneity_score", "rand_score",
    "mutual_info_score", "normalized_mutual_info_score", "v_measure_score",
}  # fmt: skip


@pytest.mark.parametrize(
    "key", sorted({*ours.known_keys()} - {"acc", "accuracy", "epoch", "lr", "loss", "confusion_matrix"})
)
def test_metrics_of_trials_have_the_direction_that_they_show(key):
    true, good, bad = right_and_wrong()
    if key in ("mae", "mse", "rmse", "r2"):
        true, good, bad = np.linspace(0, 1, 24), np.linspace(0, 1.1, 24), np.linspace(1, 0, 24)
    elif key in ("dice", "iou", "hausdorff"):
        true = np.tile(np.eye(8, dtype=int), (4, 1, 1))
        masks = np.maximum(true, np.eye(8, k=1, dtype=int)), np.roll(true, 4, axis=2)
        good, bad = (np.stack([1.0 - mask, mask], 1) for mask in masks)
    elif key in ("binary_acc", "binary_accuracy", "roc_auc", "roc_auc_score", "pr_auc"):
        true, good, bad = true % 2, (true % 2) * 0.5 + 0.2, 0.8 - (true % 2) * 0.5
    elif key.startswith("top_"):
        true = np.arange(24)
        good, bad = np.eye(24), np.eye(24)[::-1] - 2 * np.eye(24)
    elif key == "ece" or key == "calibration_error":
        good, bad = np.eye(3)[true] * 0.97 + 0.01, np.eye(3)[(true + 1) % 3] * 0.97 + 0.01
    values = [ours.score(key, (true, pred), key) for pred in (good, bad)]
    assert (values[0] > values[1]) is higher_is_better(key, "x"), values


def test_what_is_wrapped_has_no_direction_of_its_own():
    @functools.wraps(sklearn.metrics.accuracy_score)
    def turned_round(y_true, y_pred):
        return 1 - sklearn.metrics.accuracy_score(y_true, y_pred)

    assert higher_is_better(turned_round, "x") is None
    assert higher_is_better(functools.partial(sklearn.metrics.fbeta_score, beta=2.0), "x") is True
    assert higher_is_better(sklearn.metrics.get_scorer("neg_log_loss"), "x") is True
    assert higher_is_better(ours.SklearnHammingLoss(), "x") is higher_is_better(ours.CalibrationError, "x") is False
    assert higher_is_better(ours.dice, "x") is higher_is_better(ours.accuracy, "x") is True


def test_a_deviation_has_no_direction_though_the_metric_chosen_by_the_criterion_has_one():
    torch = pytest.importorskip("torch")
    for deviation in (ours.std, ours.var):
        metric = TreeMetric(deviation(ours.DefaultAccuracy()), torch.nn.CrossEntropyLoss())
        assert higher_is_better(metric, "x") is None
    assert higher_is_better(TreeMetric(ours.DefaultAccuracy(), torch.nn.CrossEntropyLoss()), "x") is True


def test_torchmetrics_say_it_themselves():
    torchmetrics = pytest.importorskip("torchmetrics")
    assert higher_is_better(torchmetrics.AUROC(task="binary"), "x") is True
    assert higher_is_better(torchmetrics.MeanSquaredError(), "accuracy") is False
    assert higher_is_better(torchmetrics.functional.mean_squared_error, "x") is False
    assert higher_is_better(torchmetrics.PearsonCorrCoef(), "x") is None
    collection = torchmetrics.MetricCollection({"a": torchmetrics.MeanSquaredError(), "b": torchmetrics.R2Score()})
    assert [higher_is_better(collection, name) for name in ("a", "val_b", "c")] == [False, True, None]


def test_acc_of_a_squared_error_is_better_the_smaller_it_is(manager, tmp_path):
    torch = pytest.importorskip("torch")
    config = build_kit("torch").trainer(tmp_path, losses={"l": torch.nn.MSELoss()}, val_metrics={"acc": "acc"}).config
    assert config.score("acc", "auto") == ("acc", "lowest")


# ---- callbacks that watch a score


@pytest.mark.parametrize(
    "callback", [EarlyStopping, lambda monitor: Best("b{epoch}", monitor=monitor), ReduceLROnPlateau]
)
def test_a_callback_that_watches_an_unknown_score_must_be_told(callback, tmp_path, manager, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kit = build_kit("torch")
    match = (
        r"small or large values of '(val_)?quality' are good, so say mode='min' \(also called 'lowest'\) or mode='max'"
    )

    def fit():
        trainer = kit.trainer(tmp_path, val_metrics={"quality": quality}, callbacks=[callback("val_quality")])
        trainer.train(1, manager(), manager(7))

    with pytest.raises(ConfigError, match=match):
        fit()
    assert not list(tmp_path.rglob("checkpoint_*"))


def test_callbacks_know_what_the_score_of_the_run_knows(tmp_path, manager):
    kit = build_kit("toy")
    metric = scripted(0.1, 0.2, 0.3, 0.4, 0.5)
    metric.higher_is_better = True
    trainer = kit.trainer(tmp_path, val_metrics={"quality": metric}, callbacks=[EarlyStopping("quality", patience=1)])
    trainer.train(5, manager(), manager(7))
    assert trainer.state.epoch == 5


def test_a_plateau_of_another_value_than_the_score_knows_its_direction(tmp_path, manager):
    torch = pytest.importorskip("torch")
    kit = build_kit("torch")
    for name, cls in (("theirs", torch.optim.lr_scheduler.ReduceLROnPlateau), ("ours", None)):
        plateau = {"lr_scheduler_cls": cls, "lr_scheduler_params": {"monitor": "val_r2", "patience": 0, "factor": 0.5}}
        own = {"callbacks": [ReduceLROnPlateau("val_r2", patience=0, factor=0.5)]}
        trainer = kit.trainer(
            tmp_path / name, val_metrics={"r2": scripted(0.1, 0.2, 0.3)}, **(own if cls is None else plateau)
        )
        trainer.train(3, manager(), manager(7))
        assert trainer.learning_rates() == [0.1], name


# ---- runs of before


def stopped(kit, path, manager, **settings):
    """A run of two epochs of three, in a folder as an older version of delira left it."""
    import json

    experiment = kit.experiment(path, val_metrics={"r2": sklearn.metrics.r2_score}, val_score_key="r2", **settings)
    experiment.run(manager(20), manager(7), num_epochs=2)
    (manifest,) = path.rglob("manifest.json")
    stated = json.loads(manifest.read_text())
    assert stated.pop("score_mode") in ("lowest", "highest")
    manifest.write_text(json.dumps(stated))
    return experiment, manifest.parent


def test_a_run_of_before_that_said_its_mode_goes_on(tmp_path, manager):
    experiment, folder = stopped(build_kit("toy"), tmp_path, manager, val_score_mode="lowest")
    experiment.run(manager(20), manager(7), num_epochs=3, resume=folder)
    assert experiment.last_trainer.state.score_mode == "lowest"


def test_a_run_of_before_that_took_the_lowest_by_default_is_not_turned_round(tmp_path, manager):
    kit = build_kit("toy")
    experiment, folder = stopped(kit, tmp_path, manager)
    with pytest.raises(ConfigError, match=r'training\.val_score_mode: "lowest" in the run, "highest" now'):
        experiment.run(manager(20), manager(7), num_epochs=3, resume=folder)
    experiment.run(manager(20), manager(7), num_epochs=3, resume=folder, val_score_mode="lowest")
    assert experiment.last_trainer.state.score_mode == "lowest"
